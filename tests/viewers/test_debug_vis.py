# SPDX-License-Identifier: Apache-2.0
"""What sensors look like: arrows and points against physics, and that drawing changes nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from viewer_stand_in import HandScene, colored

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import (
    ContactSensorCfg,
    FrameCfg,
    FrameTransformerCfg,
    GridPatternCfg,
    ImuCfg,
    IsaacContactSensorCfg,
    JointWrenchSensorCfg,
    RayCasterCfg,
)
from forcelab.viewers import (
    Arrows,
    DebugVisCfg,
    FrameRecorder,
    Points,
    Snapshot,
    VisualShape,
    draws,
    sensor_drawables,
)
from forcelab.viewers import debug_vis as module
from forcelab.viewers.drawables import multiply, rotate

UNIT = (0.0, 0.0, 0.0, 1.0)


class StackCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.8)
    low = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Low",
        spawn=CuboidCfg(size=(0.5, 0.5, 0.3), mass=5.0, friction=0.8),
        init_pos=(0, 0, 0.15),
    )
    top = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Top",
        spawn=CuboidCfg(size=(0.3, 0.3, 0.3), mass=2.0, friction=0.8),
        init_pos=(0, 0, 0.45),
    )
    touch = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Low",
        filter_prim_paths_expr=["/World/ground"],
        track_friction_forces=True,
        track_contact_points=True,
        debug_vis=True,
    )
    plain = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/(Low|Top)")


TESTS = Path(__file__).parent.parent
NS = "{ENV_REGEX_NS}"


class RobotsCfg(InteractiveSceneCfg):
    """A pendulum that hangs, and a crate on four unlike feet."""

    ground = PlaneCfg()
    pendulum = ArticulationCfg(
        prim_path=f"{NS}/Pendulum",
        spawn=MjcfCfg(str(TESTS / "physics" / "pendulum.xml")),
        init_joint_pos={"swing": float(np.pi / 2)},
    )
    crate = ArticulationCfg(
        prim_path=f"{NS}/Crate",
        spawn=MjcfCfg(str(TESTS / "sensors" / "crate.xml")),
        init_pos=(0.0, 1.5, 0.05),
        init_rot=(0.0, 0.0, float(np.sqrt(0.5)), float(np.sqrt(0.5))),
    )
    wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Pendulum")
    feet = ContactSensorCfg(
        prim_path=f"{NS}/Crate/crate", sensor_shape_prim_expr=[f"{NS}/Crate/crate/(front|0)"]
    )
    spot = IsaacContactSensorCfg(
        prim_path=f"{NS}/Crate/crate/spot", translation=(0.3, -0.2, -0.05), radius=0.1
    )
    rays = RayCasterCfg(
        prim_path=f"{NS}/Pendulum/bob",
        pattern_cfg=GridPatternCfg(resolution=0.5, size=(1.0, 1.0)),
        ray_alignment="world",
    )
    imu = ImuCfg(prim_path=f"{NS}/Crate/crate")
    frames = FrameTransformerCfg(
        prim_path=f"{NS}/Crate/crate", target_frames=[FrameCfg(prim_path=f"{NS}/Crate/lid")]
    )


@pytest.fixture(scope="module")
def robots() -> Snapshot:
    scene = InteractiveScene(RobotsCfg(num_envs=2, env_spacing=3.0), NewtonCfg())
    scene.reset()
    for _ in range(150):
        scene.step()
    return Snapshot(scene, (1,))


def test_joint_wrenches_stand_at_the_anchor_and_point_in_the_world(robots):
    force, torque = sensor_drawables(robots, ["wrench"], DebugVisCfg(force_scale=0.01))["wrench"]
    assert (force.kind, torque.kind, force.heads, torque.heads) == ("joint force", "joint torque", 1, 2)
    names = robots.scene["wrench"].body_names
    # The child frames lie on their side; what they carry pulls straight down.
    swing = names.index("bob")
    anchor = np.add(robots.scene.env_origins[1].numpy(), (0.0, 0.0, 2.0))
    np.testing.assert_allclose(force.origin[swing], anchor, atol=1e-3)
    np.testing.assert_allclose(force.vector[swing], (0, 0, 0.01 * 2.25 * 9.81), atol=2e-3)
    assert force.labels[swing].startswith("bob 22.") and force.labels[swing].endswith(" N")


def test_shapes_stand_where_they_are(robots):
    [normal] = sensor_drawables(robots, ["feet"])["feet"]
    names = [label.rpartition("/")[2].split()[0] for label in normal.labels]
    assert sorted(names) == ["0", "front"]
    # The crate is turned by 90 degrees: (x, y) of its frame is (-y, x) of the world.
    base = np.add(robots.scene.env_origins[1].numpy(), (0.0, 1.5, 0.05))
    wanted = {"0": (0.2, -0.3, 0.0), "front": (0.2, 0.3, 0.0)}
    for name, origin in zip(names, normal.origin):
        np.testing.assert_allclose(origin, np.add(base, wanted[name]), atol=0.01)


def test_a_point_sensor_shows_where_it_is_touched(robots):
    [point] = sensor_drawables(robots, ["spot"])["spot"]
    base = np.add(robots.scene.env_origins[1].numpy(), (0.0, 1.5, 0.05))
    np.testing.assert_allclose(point.pos, [np.add(base, (0.2, 0.3, -0.05))], atol=0.01)


def test_ray_hits_are_points(robots):
    [hits] = sensor_drawables(robots, ["rays"])["rays"]
    assert hits.pos.shape == (9, 3)
    np.testing.assert_allclose(hits.pos.mean(axis=0), robots.scene.env_origins[1].numpy(), atol=1e-3)
    np.testing.assert_allclose(hits.pos[:, 2], 0.0, atol=1e-5)


def test_frames_are_axes(robots):
    drawn = sensor_drawables(robots, ["imu", "frames"], DebugVisCfg(axis_length=0.2))
    x, y, z = drawn["imu"]
    np.testing.assert_allclose(x.vector, [(0, 0.2, 0)], atol=2e-3)
    np.testing.assert_allclose(y.vector, [(-0.2, 0, 0)], atol=2e-3)
    np.testing.assert_allclose(z.vector, [(0, 0, 0.2)], atol=2e-3)
    lifted = drawn["frames"][0].origin  # source and target
    np.testing.assert_allclose(lifted[1] - lifted[0], (0, 0, 0.2), atol=2e-3)


def make(num_envs: int = 2) -> InteractiveScene:
    # Gravity leans over: friction holds the boxes.
    scene = InteractiveScene(
        StackCfg(num_envs=num_envs, env_spacing=2.0), NewtonCfg(gravity=(1.0, 0.0, -9.81))
    )
    scene.reset()
    return scene


@pytest.fixture(scope="module")
def stack() -> InteractiveScene:
    scene = make()
    for _ in range(200):
        scene.step()
    return scene


def of_kind(items: list, kind: str):
    [found] = [item for item in items if item.kind == kind]
    return found


def test_contact_arrows_stand_at_points_and_sum_to_the_net_force(stack):
    cfg = DebugVisCfg(force_scale=0.01)
    snapshot = Snapshot(stack, (0, 1))
    drawn = sensor_drawables(snapshot, cfg=cfg)
    assert list(drawn) == ["touch"]  # only it says debug_vis
    normal, friction = of_kind(drawn["touch"], "normal force"), of_kind(drawn["touch"], "friction")
    points = of_kind(drawn["touch"], "contact point")
    assert isinstance(points, Points) and points.pos.shape == (2, 3)
    np.testing.assert_allclose(points.pos[:, 2], 0.0, atol=0.01)
    np.testing.assert_array_equal(points.pos, stack["touch"].data.contact_pos_w.torch.reshape(2, 3).numpy())
    # Per environment: the ground's push at the contact point, and the upper box's at the body.
    assert isinstance(normal, Arrows) and len(normal.origin) == 4
    ground, rest = normal.vector[:2], normal.vector[2:]
    np.testing.assert_allclose(normal.origin[:2], points.pos, atol=1e-6)
    np.testing.assert_allclose(normal.origin[2:], snapshot.poses[:, 0, :3], atol=1e-6)
    np.testing.assert_allclose(ground[:, 2], 0.01 * 7.0 * 9.81, rtol=0.02)
    np.testing.assert_allclose(rest[:, 2], -0.01 * 2.0 * 9.81, rtol=0.02)
    net = 0.01 * stack["touch"].data.net_normal_forces_w.torch[:, 0].double().numpy()
    np.testing.assert_allclose(ground + rest, net, atol=1e-5)
    # Friction: 7 kg held by the ground, 2 kg held by the lower box.
    np.testing.assert_allclose(friction.vector[:, 0], np.repeat((-0.01 * 7.0, 0.01 * 2.0), 2), rtol=0.05)
    assert normal.labels[0] == "Low ← ground 68.7 N" and normal.labels[2].startswith("Low 19.")
    assert normal.rgba != friction.rgba


def test_without_points_and_friction_arrows_stand_at_the_bodies(stack):
    snapshot = Snapshot(stack, (1,))
    [normal] = sensor_drawables(snapshot, ["plain"])["plain"]
    np.testing.assert_allclose(normal.origin, snapshot.poses[0, :, :3])
    assert [label.split()[0] for label in normal.labels] == ["Low", "Top"]


def test_small_arrows_are_left_out_and_long_ones_cut(stack):
    snapshot = Snapshot(stack, (0,))
    few = sensor_drawables(snapshot, ["plain"], DebugVisCfg(force_scale=0.01, min_length=0.3))["plain"][0]
    assert [label.split()[0] for label in few.labels] == ["Low"]  # (7 - 2) kg against 2 kg
    cut = sensor_drawables(snapshot, ["plain"], DebugVisCfg(force_scale=0.1, max_length=0.7))["plain"][0]
    np.testing.assert_allclose(np.linalg.norm(cut.vector, axis=-1), 0.7)


def test_after_a_reset_nothing_is_drawn():
    scene = make(1)
    items = sensor_drawables(Snapshot(scene, (0,)), ["touch", "plain"])
    for item in (*items["touch"], *items["plain"]):
        assert len(item.pos if isinstance(item, Points) else item.origin) == 0


def test_drawing_changes_no_bit():
    browser = pytest.importorskip("viser") and pytest.importorskip("forcelab.viewers.browser")
    watched, alone = make(), make()
    viewer = browser.BrowserViewer(watched, 2, port=0, sensors=["touch", "plain"])
    try:
        for i in range(60):
            for scene in (watched, alone):
                if i == 30:
                    scene.reset(torch.tensor([True, False]))
                scene.step()
            viewer.draw(force=True)
            sensor_drawables(Snapshot(watched, (1,)), ["touch"])
    finally:
        viewer.close()
    assert torch.equal(watched.engine.body_pose, alone.engine.body_pose)
    assert torch.equal(watched.engine.body_vel, alone.engine.body_vel)
    for sensor in ("touch", "plain"):
        for name in ("net_forces_w", "net_normal_forces_w", "force_matrix_w", "contact_pos_w"):
            a, b = (getattr(scene[sensor].data, name) for scene in (watched, alone))
            if a is not None:
                assert torch.equal(torch.nan_to_num(a.torch), torch.nan_to_num(b.torch)), name


def test_pictures_show_the_sensors_that_say_so(gl, stack):
    x, y, _ = stack.env_origins[0].tolist()
    camera = {"distance": 2.0, "follow": False, "lookat": (x, y, 0.3)}
    scales = {"force_scale": 0.01, "opacity": 0.1}
    with FrameRecorder(stack, width=160, height=120, camera=camera, debug_vis=scales) as recorder:
        shown, none = recorder.capture(), recorder.capture(sensors=[])
        assert colored(shown, 0).sum() > 100 and colored(none, 0).sum() == 0  # red: the normal force
        with pytest.raises(ValueError, match=r"no sensor 'tuch' to draw\. Did you mean 'touch'"):
            recorder.capture(sensors=["tuch"])
    assert recorder.num_frames == 2


def test_points_and_double_heads_in_a_picture(gl):
    scene = HandScene([], {"b": (0, 0, 0, *UNIT)})
    scene.sensors = {"s": SimpleNamespace(cfg=SimpleNamespace(debug_vis=True))}
    at = np.zeros((1, 3))
    items: list = []

    @draws(SimpleNamespace)
    def draw(sensor, snapshot, cfg):
        return items

    try:
        camera = {"distance": 3.0, "azimuth": 90.0, "elevation": 0.0, "follow": False}
        counts = {}
        with FrameRecorder(scene, width=160, height=120, camera=camera) as recorder:
            for name, item in {
                "nothing": Points("hit", np.zeros((0, 3)), (0, 1, 0, 1), 0.1),
                "point": Points("hit", at, (0, 1, 0, 1), 0.1),
                "single": Arrows("force", at, np.array([[0.0, 0.0, 0.6]]), (0, 1, 0, 1)),
                "double": Arrows("torque", at, np.array([[0.0, 0.0, 0.6]]), (0, 1, 0, 1), heads=2),
            }.items():
                items[:] = [item]
                counts[name] = int(colored(recorder.capture(), 1).sum())
    finally:
        del module._DRAWINGS[SimpleNamespace]
    assert counts["nothing"] == 0 and counts["point"] > 20 and counts["double"] > counts["single"] > 20


def test_drawings_are_found_by_class_name_and_base():
    class MyContact(type(make_sensor())):
        pass

    assert module.drawing_of(MyContact()) is module.draw_contact
    assert module.drawing_of(object()) is None


def make_sensor():
    class ContactSensor:
        pass

    return ContactSensor()


def test_quaternions():
    turn = np.array([0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)])  # 90 degrees about z
    np.testing.assert_allclose(rotate(turn, np.array([1.0, 0.0, 0.0])), (0, 1, 0), atol=1e-12)
    np.testing.assert_allclose(multiply(turn, turn), (0, 0, 1, 0), atol=1e-12)
    other = np.array([0.5, 0.5, 0.5, 0.5])
    vector = np.array([0.3, -0.2, 0.7])
    np.testing.assert_allclose(rotate(multiply(turn, other), vector), rotate(turn, rotate(other, vector)))


@pytest.mark.parametrize(
    "given, message",
    [
        ({"force_scal": 1.0}, "debug_vis.force_scal is no setting.*Did you mean 'force_scale'"),
        ({"force_scale": 0.0}, "debug_vis.force_scale must be a positive number, found 0.0"),
        ({"opacity": 2.0}, "debug_vis.opacity must be at most 1"),
    ],
)
def test_wrong_scales_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        FrameRecorder(
            HandScene([VisualShape("b", "sphere", (1.0,))], {"b": (0, 0, 0, *UNIT)}), debug_vis=given
        )


def test_the_scale_in_words():
    assert DebugVisCfg().legend() == "10 N = 3 cm, 1 N·m = 3 cm"
