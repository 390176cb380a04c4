# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from viewer_stand_in import HandScene, center, colored, pixel_of

from forcelab.viewers import CameraCfg, FrameRecorder, GLUnavailableError, VisualShape, contact_arrows

RED, GREEN, BLUE = (0.9, 0.05, 0.05, 1.0), (0.05, 0.8, 0.05, 1.0), (0.05, 0.05, 0.9, 1.0)
UNIT = (0.0, 0.0, 0.0, 1.0)
VIEW = {"distance": 3.0, "azimuth": 120.0, "elevation": -25.0, "fovy": 45.0, "lookat": (0.1, -0.2, 0.3)}
STILL = {**VIEW, "follow": False}
SIZE = {"width": 160, "height": 120}


def one_body(
    shape: VisualShape, pose: tuple[float, ...] = (0.0, 0.0, 0.0, *UNIT), num_envs: int = 1
) -> HandScene:
    return HandScene([shape], {"body": pose}, num_envs)


def quarter_turn_z() -> tuple[float, ...]:
    return (0.0, 0.0, float(np.sqrt(0.5)), float(np.sqrt(0.5)))


@pytest.mark.parametrize("position", [(0.0, 0.0, 0.0), (0.5, 0.4, 0.6), (-0.6, -0.3, 0.1)])
@pytest.mark.parametrize(
    "kind, size", [("box", (0.1, 0.1, 0.1)), ("sphere", (0.12,)), ("ellipsoid", (0.1, 0.1, 0.1))]
)
def test_shape_is_drawn_where_the_projection_says(gl, kind, size, position):
    scene = one_body(VisualShape("body", kind, size, rgba=RED), (*position, *UNIT))
    with FrameRecorder(scene, camera=STILL, **SIZE) as recorder:
        frame = recorder.capture()
    assert frame.shape == (120, 160, 3) and frame.dtype == np.uint8
    np.testing.assert_allclose(center(colored(frame, 0)), pixel_of(position, VIEW, 160, 120), atol=1.5)


def test_local_and_body_rotations_compose(gl):
    # The shape sits 0.5 m along the body's x; the body is turned by 90 degrees about z: world y.
    shape = VisualShape("body", "sphere", (0.08,), pos=(0.5, 0.0, 0.0), rgba=RED)
    scene = one_body(shape, (0.0, 0.0, 0.2, *quarter_turn_z()))
    with FrameRecorder(scene, camera=STILL, **SIZE) as recorder:
        mask = colored(recorder.capture(), 0)
    np.testing.assert_allclose(center(mask), pixel_of((0.0, 0.5, 0.2), VIEW, 160, 120), atol=1.5)


@pytest.mark.parametrize("kind", ["capsule", "cylinder"])
def test_long_shapes_lie_along_local_z(gl, kind):
    camera = {"distance": 3.0, "azimuth": 90.0, "elevation": 0.0, "lookat": (0, 0, 0), "follow": False}
    half, radius = 0.4, 0.05
    spans = []
    for quat in (
        UNIT,
        (0.0, float(np.sqrt(0.5)), 0.0, float(np.sqrt(0.5))),
    ):  # the second: local z is world x
        scene = one_body(VisualShape("body", kind, (radius, half), quat=quat, rgba=RED))
        with FrameRecorder(scene, camera=camera, **SIZE) as recorder:
            rows, columns = np.nonzero(colored(recorder.capture(), 0))
        spans.append((np.ptp(columns) + 1, np.ptp(rows) + 1))
    per_meter = 60.0 / (3.0 * np.tan(np.radians(20.0)))
    length = 2 * (half + (radius if kind == "capsule" else 0.0)) * per_meter
    assert spans[0][1] == pytest.approx(length, abs=2.5) and spans[0][0] < 10
    assert spans[1][0] == pytest.approx(length, abs=2.5) and spans[1][1] < 10


def test_mesh_keeps_its_own_frame(gl):
    # A cube around (0.5, 0.3, 0.4) of its own frame, closed, then with its top off.
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]) * 0.2 + (0.4, 0.2, 0.3)
    faces = [
        (0, 1, 3),
        (0, 3, 2),
        (4, 6, 7),
        (4, 7, 5),
        (0, 4, 5),
        (0, 5, 1),
        (2, 3, 7),
        (2, 7, 6),
        (0, 2, 6),
        (0, 6, 4),
    ]
    for extra in ([(1, 5, 7), (1, 7, 3)], []):
        shape = VisualShape("body", "mesh", vertices=corners, faces=faces + extra, rgba=BLUE)
        with FrameRecorder(one_body(shape), camera=STILL, **SIZE) as recorder:
            mask = colored(recorder.capture(), 2)
        np.testing.assert_allclose(center(mask), pixel_of((0.5, 0.3, 0.4), VIEW, 160, 120), atol=4.0)


def test_flat_static_mesh_and_plane_are_visible(gl):
    corners = [(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]
    terrain = VisualShape(None, "mesh", vertices=corners, faces=[(0, 1, 2), (0, 2, 3)])
    frames = []
    for shapes in ([], [terrain], [VisualShape(None, "plane")]):
        with FrameRecorder(HandScene(shapes, {"b": (0, 0, 0, *UNIT)}), camera=STILL, **SIZE) as recorder:
            frames.append(recorder.capture().astype(int))
    changed = [np.abs(frame - frames[0]).max(axis=2) > 5 for frame in frames[1:]]
    for point, shown in (((0.7, 0.7, 0.0), True), ((-0.7, 0.3, 0.0), True), ((-0.2, -1.2, 0.0), False)):
        column, row = pixel_of(point, VIEW, 160, 120).astype(int)
        assert changed[0][row, column] == shown
        assert changed[1][row, column]  # the plane has no end


def test_terrain_is_tiled_and_small_static_meshes_keep_their_color(gl):
    def square(half: float) -> VisualShape:
        corners = [(-half, -half, 0), (half, -half, 0), (half, half, 0), (-half, half, 0)]
        return VisualShape(None, "mesh", vertices=corners, faces=[(0, 1, 2), (0, 2, 3)], rgba=RED)

    seen = []
    for half in (1.0, 6.0):
        with FrameRecorder(
            HandScene([square(half)], {"b": (0, 0, 0, *UNIT)}), camera=STILL, **SIZE
        ) as recorder:
            seen.append(colored(recorder.capture(), 0).any())
    assert seen == [True, False]


def test_plane_hides_what_is_below_and_takes_shadows(gl):
    plane = VisualShape(None, "plane")
    ball = VisualShape("body", "sphere", (0.2,), rgba=RED)
    scene = HandScene([plane, ball], {"body": (0, 0, 1.0, *UNIT)})
    camera = {"distance": 4.0, "azimuth": 90.0, "elevation": -60.0, "lookat": (0, 0, 0), "follow": False}
    with FrameRecorder(scene, camera=camera, **SIZE) as recorder:
        above = recorder.capture()
        scene.poses[:, :, 2] = -1.0
        below = recorder.capture()
    assert colored(above, 0).sum() > 50 and colored(below, 0).sum() == 0
    darker = below.astype(int).sum(axis=2) - above.astype(int).sum(axis=2) > 90
    assert (darker & ~colored(above, 0)).sum() > 30  # pixels of bare floor in the ball's shadow


def test_a_moving_body_moves_in_the_picture(gl):
    scene = one_body(VisualShape("body", "box", (0.1, 0.1, 0.1), rgba=RED))
    with FrameRecorder(scene, camera=STILL, **SIZE) as recorder:
        first, again = recorder.capture(), recorder.capture()
        scene.poses[0, 0, 2] += 0.4
        second = recorder.capture()
    np.testing.assert_array_equal(first, again)
    moved = center(colored(second, 0)) - center(colored(first, 0))
    wanted = pixel_of((0, 0, 0.4), VIEW, 160, 120) - pixel_of((0, 0, 0), VIEW, 160, 120)
    np.testing.assert_allclose(moved, wanted, atol=1.0)


@pytest.mark.parametrize(
    "vector, direction", [((0, 0, 50), (0, -1)), ((0, 0, -50), (0, 1)), ((50, 0, 0), (1, 0))]
)
def test_arrow_has_the_direction_and_length_of_its_vector(gl, vector, direction):
    # Looking along +y: x is to the right, z is up.
    camera = {"distance": 3.0, "azimuth": 90.0, "elevation": 0.0, "lookat": (0, 0, 0), "follow": False}
    scene = HandScene([], {"b": (0, 0, 0, *UNIT)})
    with FrameRecorder(scene, camera=camera, width=320, height=240) as recorder:
        frame = recorder.capture(arrows=[((0.0, 0.0, 0.0), torch.tensor(vector), GREEN, 0.01)])
    rows, columns = np.nonzero(colored(frame, 1))
    along = (columns + 0.5 - 160) * direction[0] + (rows + 0.5 - 120) * direction[1]
    across = (columns + 0.5 - 160) * direction[1] + (rows + 0.5 - 120) * direction[0]
    per_meter = 120.0 / (3.0 * np.tan(np.radians(20.0)))
    assert along.max() == pytest.approx(0.5 * per_meter, abs=3.0)
    assert along.min() > -3.0 and np.abs(across).max() < 10.0


def test_arrow_of_no_length_is_left_out(gl):
    with FrameRecorder(HandScene([], {"b": (0, 0, 0, *UNIT)}), camera=STILL, **SIZE) as recorder:
        empty = recorder.capture()
        np.testing.assert_array_equal(recorder.capture(arrows=[((0, 0, 0), (0, 0, 0), RED, 1.0)]), empty)


def test_only_the_chosen_environments_are_drawn(gl):
    scene = one_body(VisualShape("body", "sphere", (0.2,), rgba=RED), num_envs=4)
    camera = {
        "distance": 14.0,
        "azimuth": 0.0,
        "elevation": -20.0,
        "lookat": (0, 3, 0),
        "follow": False,
        "fovy": 45.0,
    }
    with FrameRecorder(scene, env_ids=(0, 3), camera=camera, **SIZE) as recorder:
        mask = colored(recorder.capture(), 0)
    for env_id, shown in enumerate((True, False, False, True)):
        column, row = pixel_of((0.0, 2.0 * env_id, 0.0), camera, 160, 120).astype(int)
        assert mask[row, column] == shown


def test_camera_follows_the_chosen_environment(gl):
    scene = one_body(VisualShape("body", "sphere", (0.2,), rgba=RED), num_envs=2)
    camera = {"env_id": 1, "smoothing": 0.0}
    with FrameRecorder(scene, env_ids=(0, 1), camera=camera, **SIZE) as recorder:
        for x in (0.0, 0.7):
            scene.poses[1, 0, 0] = x
            mask = colored(recorder.capture(), 0)
            assert mask[60, 80]
    scene.poses[1, 0, 0] = 0.0
    with FrameRecorder(scene, env_ids=(1,), camera={"smoothing": 0.9}, **SIZE) as recorder:
        still = center(colored(recorder.capture(), 0))
        scene.poses[1, 0, 0] = 0.7
        late = center(colored(recorder.capture(), 0))
        for _ in range(60):
            caught_up = center(colored(recorder.capture(), 0))
    assert np.linalg.norm(late - still) > 10.0 and np.linalg.norm(caught_up - still) < 1.5


def moving_recorder(num_frames: int, **size: int) -> FrameRecorder:
    scene = one_body(VisualShape("body", "box", (0.2, 0.2, 0.2), rgba=RED))
    recorder = FrameRecorder(scene, camera=STILL, **size)
    for i in range(num_frames):
        scene.poses[0, 0, 2] = 0.05 * i
        recorder.capture()
    return recorder


def test_mp4_has_every_frame_and_the_size(gl, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    with moving_recorder(12, width=162, height=122) as recorder:  # no multiples of 16
        path = recorder.save_video(tmp_path / "deep" / "walk.mp4", fps=25)
        kept = list(recorder.frames())
    reader = ffmpeg.read_frames(str(path))
    meta = next(reader)
    decoded = [np.frombuffer(data, dtype=np.uint8).reshape(122, 162, 3) for data in reader]
    assert meta["size"] == (162, 122) and meta["fps"] == pytest.approx(25.0)
    assert len(decoded) == 12
    for shown, frame in zip(decoded, kept):
        assert np.abs(shown.astype(int) - frame).mean() < 6.0
        np.testing.assert_allclose(center(colored(shown, 0)), center(colored(frame, 0)), atol=1.5)


def test_gif_has_every_frame_and_the_speed(gl, tmp_path):
    image = pytest.importorskip("PIL.Image")
    with moving_recorder(10, **SIZE) as recorder:
        with image.open(recorder.save_video(tmp_path / "walk.gif", fps=30)) as gif:
            durations = []
            for i in range(gif.n_frames):
                gif.seek(i)
                durations.append(gif.info["duration"])
            assert gif.n_frames == 10 and gif.size == (160, 120)
        with pytest.raises(ValueError, match="50 frames/s"):
            recorder.save_video(tmp_path / "fast.gif", fps=100)
    assert sum(durations) == pytest.approx(10 / 30 * 1000, abs=10)


def test_frames_are_saved_as_png_without_loss(gl, tmp_path):
    image = pytest.importorskip("PIL.Image")
    with moving_recorder(3, **SIZE) as recorder:
        paths = recorder.save_frames(tmp_path / "frames")
        kept = list(recorder.frames())
    assert [p.name for p in paths] == ["frame_00000.png", "frame_00001.png", "frame_00002.png"]
    for path, frame in zip(paths, kept):
        np.testing.assert_array_equal(np.asarray(image.open(path)), frame)


def test_clear_and_keep(gl):
    with moving_recorder(2, **SIZE) as recorder:
        recorder.capture(keep=False)
        assert recorder.num_frames == 2
        recorder.clear()
        assert recorder.num_frames == 0 and list(recorder.frames()) == []
        recorder.capture()
        assert recorder.num_frames == 1


def test_two_recorders_live_side_by_side(gl):
    red, green = (one_body(VisualShape("body", "sphere", (0.3,), rgba=c)) for c in (RED, GREEN))
    with FrameRecorder(red, camera=STILL, **SIZE) as first:
        second = FrameRecorder(green, camera=STILL, width=64, height=64)
        assert colored(first.capture(), 0).any()
        assert colored(second.capture(), 1).any()
        second.close()
        second.close()
        assert colored(first.capture(), 0).any()
        with pytest.raises(RuntimeError, match="closed"):
            second.capture()
        with pytest.raises(RuntimeError, match="closed"):
            second.save_video("never.mp4")


def test_errors_name_what_is_wrong(gl, tmp_path):
    scene = one_body(VisualShape("body", "sphere", (0.3,), rgba=RED), num_envs=2)
    with FrameRecorder(scene, camera=STILL, width=33, height=32) as recorder:
        with pytest.raises(ValueError, match="no pictures yet"):
            recorder.save_video(tmp_path / "a.mp4")
        recorder.capture()
        with pytest.raises(ValueError, match=r"\.mp4 or \.gif"):
            recorder.save_video(tmp_path / "a.avi")
        with pytest.raises(ValueError, match="even width and height, found 33 x 32"):
            recorder.save_video(tmp_path / "a.mp4")
        scene.poses[0, 0, 1] = float("nan")
        with pytest.raises(ValueError, match="'body' in environment 0 is not finite"):
            recorder.capture()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"env_ids": (0, 7)}, r"\[7\] do not exist"),
        ({"env_ids": ()}, "between 1 and 64"),
        ({"camera": {"azimut": 3.0}}, "Did you mean 'azimuth'"),
        ({"camera": {"distance": 0.0}}, "distance must be positive"),
        ({"camera": {"body": "bodi"}}, "Did you mean 'body'"),
        ({"camera": {"env_id": 1}}, "environment 1 is not drawn"),
        ({"width": 2}, "at least 16 pixels"),
    ],
)
def test_wrong_options_are_named(gl, options, message):
    scene = one_body(VisualShape("body", "sphere", (0.3,)), num_envs=2)
    with pytest.raises(ValueError, match=message):
        FrameRecorder(scene, **options)


@pytest.mark.parametrize(
    "shape, message",
    [
        (VisualShape("body", "cubus", (1,)), "kind 'cubus'"),
        (VisualShape("bady", "sphere", (1,)), "Did you mean 'body'"),
        (VisualShape("body", "box", (1, 1)), r"size of a box is 3 positive"),
        (VisualShape("body", "mesh"), "vertices"),
    ],
)
def test_wrong_shapes_are_named(shape, message):
    with pytest.raises(ValueError, match=message):
        FrameRecorder(one_body(shape))


class FakeSensor:
    """What contact_arrows reads of a contact sensor."""

    def __init__(self, names: list[str], forces: list, prim_path: str, pos: list | None = None) -> None:
        self.body_names = names
        self.cfg = SimpleNamespace(prim_path=prim_path)
        self.data = SimpleNamespace(
            net_forces_w=torch.tensor(forces), pos_w=None if pos is None else torch.tensor(pos)
        )


def test_contact_arrows_start_at_the_bodies():
    poses = {"A/base": (0, 0, 1, *UNIT), "A/foot": (1, 2, 3, *UNIT), "B/foot": (4, 5, 6, *UNIT)}
    scene = HandScene([], poses, num_envs=2)
    sensor = FakeSensor(["foot"], [[[0.0, 0.0, 9.0]], [[0.0, 3.0, 40.0]]], "{ENV_REGEX_NS}/B/.*")
    [(origin, vector, rgba, scale)] = contact_arrows(sensor, 1, scene=scene, scale=0.01)
    np.testing.assert_allclose(origin, (4, 7, 6))
    np.testing.assert_allclose(vector, (0, 3, 40))
    assert len(rgba) == 4 and scale == 0.01
    assert contact_arrows(sensor, 0, scene=scene, min_force=10.0) == []
    with pytest.raises(ValueError, match="cannot place sensor body 'foot': 2 bodies"):
        contact_arrows(FakeSensor(["foot"], [[[0.0, 0.0, 9.0]]], "{ENV_REGEX_NS}/.*"), 0, scene=scene)
    with pytest.raises(ValueError, match="pass scene="):
        contact_arrows(sensor, 0)
    tracking = FakeSensor(["foot"], [[[0.0, 0.0, 9.0]]], "x", pos=[[[1.0, 1.0, 1.0]]])
    np.testing.assert_allclose(contact_arrows(tracking)[0][0], (1, 1, 1))


def test_recorder_draws_the_arrows_of_every_environment_shown(gl):
    scene = one_body(VisualShape("body", "sphere", (0.05,)), num_envs=3)
    sensor = FakeSensor(["body"], [[[0.0, 0.0, 50.0]]] * 3, "{ENV_REGEX_NS}/body")
    with FrameRecorder(scene, env_ids=(0, 2), **SIZE) as recorder:
        assert [a[0][1] for a in recorder.contact_arrows(sensor)] == [0.0, 4.0]
        assert [a[0][1] for a in recorder.contact_arrows(sensor, 1)] == [2.0]


def run_python(code: str, **env: str) -> subprocess.CompletedProcess:
    import os

    clean = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    return subprocess.run(
        [sys.executable, "-c", code], env={**clean, **env}, capture_output=True, text=True, timeout=120
    )


def test_viewers_import_neither_opengl_nor_torch():
    code = (
        "import sys, forcelab.viewers as v; v.FrameRecorder, v.CameraCfg, v.plot_gait, v.VisualShape\n"
        "heavy = {'torch', 'mujoco', 'OpenGL', 'matplotlib', 'newton', 'warp', 'imageio_ffmpeg', 'PIL'}\n"
        "found = heavy & set(sys.modules)\n"
        "assert not found, found"
    )
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_without_gl_one_error_says_what_to_install(monkeypatch):
    from forcelab.viewers import gl as module

    monkeypatch.setattr(module, "_working", None)
    monkeypatch.setattr(module, "candidates", lambda: ["no_such_backend", "nor_this"])
    with pytest.raises(GLUnavailableError, match=r"(?s)no_such_backend: .*nor_this: .*libegl1.*libosmesa6"):
        FrameRecorder(one_body(VisualShape("body", "sphere", (0.3,))))


def test_mujoco_gl_is_obeyed(monkeypatch):
    from forcelab.viewers.gl import candidates

    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert candidates() == ["egl", "osmesa"]
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert candidates() == ["osmesa"]
    monkeypatch.setenv("MUJOCO_GL", "off")
    with pytest.raises(GLUnavailableError, match="MUJOCO_GL=off"):
        candidates()


def test_mujoco_imported_first_with_another_backend_does_no_harm(gl):
    code = (
        "import mujoco, numpy as np\n"
        "from forcelab.viewers import FrameRecorder, VisualShape\n"
        "class S:\n"
        "    body_paths, num_envs = ['b'], 1\n"
        "    engine = property(lambda self: self)\n"
        "    def visual_shapes(self): return [VisualShape('b', 'sphere', (0.5,), rgba=(1, 0, 0, 1))]\n"
        "    def body_poses(self, ids): return np.array([[[0, 0, 0, 0, 0, 0, 1.0]]])\n"
        "r = FrameRecorder(S(), width=32, height=32)\n"
        "assert r.capture()[16, 16, 0] > 100\n"  # not closed: nothing may be printed at exit either
    )
    result = run_python(code)
    assert result.returncode == 0 and "Error" not in result.stderr, result.stderr


def test_camera_cfg_is_copied():
    cfg = CameraCfg(distance=2.0)
    made = CameraCfg.make(cfg)
    made.distance = 5.0
    assert cfg.distance == 2.0 and CameraCfg.make(None) == CameraCfg()
