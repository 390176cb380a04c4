# SPDX-License-Identifier: Apache-2.0
"""The page in the browser: served, built, updated, controlled; without a browser."""

from __future__ import annotations

import sys
import threading
import time
import urllib.request

import numpy as np
import pytest
from viewer_stand_in import HandScene

from forcelab.viewers import VisualShape
from forcelab.viewers.meshes import shape_mesh

UNIT = (0.0, 0.0, 0.0, 1.0)
RED = (0.9, 0.1, 0.1, 1.0)


class Sensor:
    """A sensor of a made-up class, drawn by the test."""

    def __init__(self, shown: bool = False) -> None:
        from types import SimpleNamespace

        self.cfg = SimpleNamespace(debug_vis=shown, prim_path="x")
        self.force = np.array([0.0, 0.0, 100.0])


def hand_scene(num_envs: int = 4) -> HandScene:
    shapes = [
        VisualShape(None, "plane"),
        VisualShape(None, "box", (1.0, 1.0, 0.1)),
        VisualShape("Robot/base", "box", (0.2, 0.1, 0.05), rgba=RED),
        VisualShape("Robot/base", "sphere", (0.1,), rgba=RED),
        VisualShape("Robot/base", "sphere", (0.1,), rgba=(0.1, 0.1, 0.9, 0.5)),
        VisualShape("Robot/foot", "capsule", (0.05, 0.1), rgba=(0.2, 0.2, 0.2, 1.0)),
        VisualShape("Robot/foot", "sphere", (0.05,), rgba=(0.0, 0.0, 0.0, 0.0)),
    ]
    scene = HandScene(
        shapes, {"Robot/base": (0.5, 0, 0.5, *UNIT), "Robot/foot": (0.5, 0, 0.1, *UNIT)}, num_envs
    )
    scene.sensors = {"feet": Sensor(True), "other": Sensor()}
    return scene


@pytest.fixture
def drawn():
    """Draws :class:`Sensor` as one arrow per environment, from the foot."""
    from forcelab.viewers import debug_vis
    from forcelab.viewers.drawables import scaled_arrows

    @debug_vis.draws(Sensor)
    def draw(sensor, snapshot, cfg):
        origin = snapshot.poses[:, 1, :3]
        value = np.tile(sensor.force, (len(origin), 1))
        return [scaled_arrows("push", origin, value, cfg.force_scale, RED, cfg, ["foot"] * len(origin))]

    yield
    del debug_vis._DRAWINGS[Sensor]


@pytest.fixture
def viewer(drawn):
    pytest.importorskip("viser")
    from forcelab.viewers import BrowserViewer

    with BrowserViewer(hand_scene(), 2, port=0) as viewer:
        yield viewer


def test_the_page_is_served(viewer, capsys):
    with urllib.request.urlopen(viewer.url, timeout=10) as answer:
        assert answer.status == 200 and b"<html" in answer.read()
    assert viewer.url.startswith("http://localhost:") and viewer.num_pictures == 1


def test_two_viewers_take_two_ports(drawn):
    pytest.importorskip("viser")
    from forcelab.viewers import BrowserViewer

    with BrowserViewer(hand_scene(), port=0) as first:
        port = int(first.url.rpartition(":")[2])
        with BrowserViewer(hand_scene(), port=port) as second:
            assert second.url != first.url
            urllib.request.urlopen(second.url, timeout=10).close()
    with pytest.raises(OSError):
        urllib.request.urlopen(first.url, timeout=2)


def test_bodies_are_nodes_that_follow_the_poses(viewer):
    nodes = {handle.name: handle for _, _, handle in viewer._bodies}
    # One node per body and colour; what is invisible has none.
    assert set(nodes) == {"/world/Robot/base/0", "/world/Robot/base/1", "/world/Robot/foot/0"}
    assert nodes["/world/Robot/base/0"].batched_positions.shape == (2, 3)
    viewer.scene.poses[1, 0, :3] = viewer.scene.poses.new_tensor([1.0, 2.0, 3.0])
    viewer.scene.poses[0, 0, 3:] = viewer.scene.poses.new_tensor([1.0, 0.0, 0.0, 0.0])
    assert viewer.draw(force=True)
    np.testing.assert_allclose(nodes["/world/Robot/base/0"].batched_positions[1], (1, 2, 3))
    np.testing.assert_allclose(nodes["/world/Robot/base/0"].batched_wxyzs[0], (0, 1, 0, 0))
    # The first environment's robot stays where the camera looks.
    np.testing.assert_allclose(viewer._world.position, (-0.5, 0.0, 0.0), atol=1e-6)


def test_environments_are_chosen(viewer):
    assert viewer.env_ids == (0, 1)
    viewer._env.value, viewer._shown.value = 3, 3
    assert viewer.env_ids == (3, 0, 1)
    viewer.draw(force=True)
    [foot] = [h for c, _, h in viewer._bodies if c == 1]
    np.testing.assert_allclose(foot.batched_positions[:, 1], (6.0, 0.0, 2.0))


def test_a_checkbox_per_sensor(viewer):
    assert {name: box.value for name, box in viewer._boxes.items()} == {"feet": True, "other": False}
    arrows = viewer._marks["/world/sensors/feet/push"]
    np.testing.assert_allclose(arrows.points[0], [(0.5, 0, 0.1), (0.5, 0, 0.4)], atol=1e-6)
    assert arrows.visible and "push" in viewer._legend.content
    assert "10 N = 3 cm" in viewer._legend.content
    viewer._force.value = 6.0
    viewer._values.value = viewer._boxes["other"].value = True
    viewer.draw(force=True)
    np.testing.assert_allclose(arrows.points[0, 1, 2], 0.7, atol=1e-6)
    assert viewer._marks["/world/sensors/other/push"].visible
    assert [label.text for label in viewer._labels] == ["foot 100 N"] * 4
    viewer.scene.sensors["feet"].force = np.zeros(3)
    viewer._boxes["other"].value = False
    viewer.draw(force=True)
    assert not any(handle.visible for handle in (*viewer._marks.values(), *viewer._labels))


def test_pause_step_stop_and_reset(viewer):
    viewer._speed.value = "unlimited"
    went: list[int] = []

    def simulate() -> None:
        while viewer.wait(0.02):
            went.append(1)
            time.sleep(0.001)

    def until(condition) -> bool:
        end = time.monotonic() + 5.0
        while not condition() and time.monotonic() < end:
            time.sleep(0.005)
        return condition()

    thread = threading.Thread(target=simulate, daemon=True)
    thread.start()
    assert until(lambda: len(went) > 3)
    viewer.pause()
    time.sleep(0.05)
    before, pictures = len(went), viewer.num_pictures
    assert viewer.paused and viewer._pause.label == "Resume" and not viewer._step.disabled
    viewer._changed.set()  # a control was moved
    assert until(lambda: viewer.num_pictures > pictures)
    assert len(went) == before
    viewer.step()
    assert until(lambda: len(went) == before + 1)
    time.sleep(0.05)
    assert len(went) == before + 1
    assert not viewer.take_reset()
    viewer._request_reset()
    assert viewer.take_reset() and not viewer.take_reset()
    viewer.resume()
    assert until(lambda: len(went) > before + 10)
    viewer.stop()
    thread.join(5.0)
    assert viewer.stopped and not thread.is_alive()


def test_real_time_is_kept(viewer):
    start = time.perf_counter()
    for _ in range(11):
        assert viewer.wait(0.02)
    assert 0.19 < time.perf_counter() - start < 0.5
    viewer._speed.value = "4"
    viewer.wait(0.02)
    start = time.perf_counter()
    for _ in range(20):
        viewer.wait(0.02)
    assert time.perf_counter() - start < 0.3


def test_pictures_are_no_more_than_asked_for(viewer):
    viewer._changed.clear()
    viewer.draw(force=True)
    assert not viewer.draw()
    time.sleep(0.04)
    assert viewer.draw()


def test_poses_that_are_not_finite_are_said(viewer):
    viewer.scene.poses[0, 0, 0] = float("nan")
    viewer.draw(force=True)
    assert "not finite" in viewer._status.content


def test_a_missing_package_names_the_command(monkeypatch):
    from forcelab.viewers import BrowserViewer

    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(
        ImportError, match=r"browser needs the package 'viser'.*pip install \"forcelab\[viewer\]\""
    ):
        BrowserViewer(hand_scene())


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"port": 99999999}, "viewer_port is 99999999; it must be at most 65535"),
        ({"port": -1}, "viewer_port is -1"),
        ({"host": "8.8.8.8"}, "viewer_host is '8.8.8.8'.*cannot listen"),
        ({"host": "no host"}, "viewer_host is 'no host'.*cannot listen"),
    ],
)
def test_an_address_where_nobody_can_listen_is_said(where, message):
    """The server's thread would die, and its maker wait for it for ever."""
    pytest.importorskip("viser")
    from forcelab.viewers import BrowserViewer

    with pytest.raises(ValueError, match=message):
        BrowserViewer(hand_scene(), **{"port": 0, **where})


def test_wrong_sensors_and_shapes_are_named():
    pytest.importorskip("viser")
    from forcelab.viewers import BrowserViewer

    with pytest.raises(ValueError, match=r"no sensor 'fet' to draw\. Did you mean 'feet'"):
        BrowserViewer(hand_scene(), port=0, sensors=["fet"])
    with pytest.raises(ValueError, match="kind 'cubus'"):
        BrowserViewer(HandScene([VisualShape("b", "cubus")], {"b": (0, 0, 0, *UNIT)}), port=0)


@pytest.mark.parametrize(
    "shape, half, volume",
    [
        (VisualShape(None, "box", (0.1, 0.2, 0.3)), (0.1, 0.2, 0.3), 8 * 0.1 * 0.2 * 0.3),
        (VisualShape(None, "sphere", (0.2,)), (0.2, 0.2, 0.2), 4 / 3 * np.pi * 0.2**3),
        (VisualShape(None, "ellipsoid", (0.1, 0.2, 0.3)), (0.1, 0.2, 0.3), 4 / 3 * np.pi * 0.006),
        (VisualShape(None, "cylinder", (0.1, 0.3)), (0.1, 0.1, 0.3), np.pi * 0.01 * 0.6),
        (
            VisualShape(None, "capsule", (0.1, 0.3)),
            (0.1, 0.1, 0.4),
            np.pi * 0.01 * 0.6 + 4 / 3 * np.pi * 0.001,
        ),
    ],
)
def test_meshes_have_the_size_and_face_outwards(shape, half, volume):
    vertices, faces = shape_mesh(shape)
    np.testing.assert_allclose(vertices.max(axis=0), half, rtol=0.01)
    np.testing.assert_allclose(vertices.min(axis=0), np.negative(half), rtol=0.01)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    # The signed volume: positive, and whole, only if every face looks outwards.
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0 == pytest.approx(volume, rel=0.04)


def test_meshes_are_placed():
    turned = VisualShape(
        None,
        "box",
        (0.3, 0.1, 0.1),
        pos=(1.0, 2.0, 3.0),
        quat=(0, 0, float(np.sqrt(0.5)), float(np.sqrt(0.5))),
    )
    vertices, _ = shape_mesh(turned)
    np.testing.assert_allclose(np.ptp(vertices, axis=0), (0.2, 0.6, 0.2), atol=1e-9)
    np.testing.assert_allclose(vertices.mean(axis=0), (1, 2, 3), atol=1e-9)
    with pytest.raises(ValueError, match="plane cannot be drawn as triangles"):
        shape_mesh(VisualShape(None, "plane"))
