# SPDX-License-Identifier: Apache-2.0
"""Point-like contact sensors: batched readings, and the interface that reads one at a time by its path."""

from __future__ import annotations

import gc
import logging
import math
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.physics.engine import RAW_CONTACT, Capabilities
from forcelab.scene import (
    ArticulationCfg,
    CapsuleCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import (
    ContactSensorCfg,
    ContactSensorReading,
    IsaacContactSensorCfg,
    acquire_contact_sensor_interface,
)

G = 9.81
DT = 0.005
NS = "{ENV_REGEX_NS}"
ALONG_Y = (math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))
FOOT_IN_TREE = f"{NS}/Robot/base/LF_HIP/LF_THIGH/LF_SHANK/LF_FOOT"
INVALID = ContactSensorReading(False, 0.0, 0.0, False)


def point(path: str, **fields: Any) -> IsaacContactSensorCfg:
    return IsaacContactSensorCfg(prim_path=f"{NS}/{path}", **fields)


def body(path: str, *parts: Any, pos: tuple[float, float, float]) -> RigidObjectCfg:
    return RigidObjectCfg(prim_path=f"{NS}/{path}", spawn=list(parts), init_pos=pos)


class WorldCfg(InteractiveSceneCfg):
    """A box on a box, a bench on two feet that carry 3 and 5 kg, a ball, a robot."""

    ground = PlaneCfg(friction=0.8)
    low = body("Low", CuboidCfg(size=(0.5, 0.5, 0.3), mass=5.0), pos=(0, 0, 0.151))
    top = body("Top", CuboidCfg(size=(0.3, 0.3, 0.3), mass=2.0), pos=(0, 0, 0.452))
    bench = body(
        "Bench",
        CuboidCfg(name="plate", size=(0.8, 0.2, 0.02), mass=4.0),
        CapsuleCfg(name="left", radius=0.05, height=0.1, rot=ALONG_Y, mass=1.0, pos=(-0.3, 0, -0.06)),
        CapsuleCfg(name="right", radius=0.05, height=0.1, rot=ALONG_Y, mass=3.0, pos=(0.3, 0, -0.06)),
        pos=(0, 2, 0.111),
    )
    ball = body("Ball", SphereCfg(radius=0.1, mass=1.0), pos=(0, -2, 0.1))
    robot = ArticulationCfg(
        prim_path=f"{NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(3, 0, 0.507),
        init_joint_pos={".*_HAA": 0.0, ".*_HFE": 0.68, ".*_KFE": -1.3},
        actuators={"legs": PdActuatorCfg(joint_names=[".*"], stiffness=120.0, damping=4.0)},
    )
    low_all = point("Low/contact")
    top_all = point("Top/frames/a/contact")
    top_heavy = point("Top/heavy", threshold=(25.0, 100.0))
    top_slow = point("Top/slow", update_period=4 * DT)
    top_off = point("Top/off", enabled=False)
    left = point("Bench/at_left", translation=(-0.3, 0.0, -0.11), radius=0.15)
    right = point("Bench/at_right", translation=(0.3, 0.0, -0.11), radius=0.15, threshold=(1.0, 40.0))
    nowhere = point("Bench/nowhere", radius=0.05)
    ball_in = point("Ball/in", radius=0.1)
    ball_out = point("Ball/out", radius=0.0985)
    foot = point("Robot/LF_FOOT/contact")
    foot_in_tree = IsaacContactSensorCfg(prim_path=f"{FOOT_IN_TREE}/again")
    net = ContactSensorCfg(prim_path=f"{NS}/(Low|Top|Bench|Ball)")
    net_foot = ContactSensorCfg(prim_path=f"{NS}/Robot/LF_FOOT")


@pytest.fixture(scope="module")
def world():
    scene = InteractiveScene(WorldCfg(num_envs=2, env_spacing=8.0), NewtonCfg(dt=DT))
    yield scene
    scene.close()


SETTLED: dict[str, int] = {}


@pytest.fixture
def scene(world):
    """At rest; settled again if the last test stepped it. Nothing of an earlier interface is left."""
    world.resume()
    acquire_contact_sensor_interface(world).shutdown()
    if SETTLED.get("at") != int(world.engine.step_count):
        world.reset()
        steps(world, 200)
        SETTLED["at"] = int(world.engine.step_count)
    return world


@pytest.fixture
def disturbed(scene):
    """The same for a test that changes readings without a step."""
    yield scene
    SETTLED.clear()


@pytest.fixture
def contacts(scene):
    return acquire_contact_sensor_interface(scene)


def steps(scene: InteractiveScene, count: int) -> None:
    for _ in range(count):
        scene.step()


def one(env: int, path: str) -> str:
    return f"/World/envs/env_{env}/{path}"


def zero(sensor: Any, env: int | slice = slice(None)) -> bool:
    return not bool(sensor.value[env].any()) and not bool(sensor.in_contact[env].any())


# ---------------------------------------------------------------------- physics
@pytest.mark.parametrize(
    ("name", "load"),
    [
        # The norm of the SUM: 7 kg from below, less the 2 kg that press from above.
        ("low_all", 5 * G),
        ("top_all", 2 * G),
        ("left", 3 * G),
        ("right", 40.0),  # 5 kg, cut at the upper threshold
        ("ball_in", G),
        ("nowhere", 0.0),
        ("ball_out", 0.0),  # the contact lies 0.0997 m from the centre
        ("top_heavy", 0.0),  # 19.6 N, below the lower threshold
        ("top_off", 0.0),
    ],
)
def test_load_at_rest(scene, name, load):
    sensor = scene[name]
    assert sensor.value.shape == sensor.in_contact.shape == (2,) and sensor.in_contact.dtype == torch.bool
    assert sensor.value.tolist() == pytest.approx([load] * 2, rel=2e-3)
    assert sensor.in_contact.tolist() == [load > 0] * 2
    assert sensor.value is sensor.data.value and sensor.in_contact is sensor.data.in_contact
    assert sensor.value.warp.shape == (2,)


def test_both_bodies_of_a_contact_read_a_positive_load(scene, contacts):
    low, top = (
        contacts.get_raw_contacts(one(1, "Low/contact")),
        contacts.get_raw_contacts(one(1, "Top/heavy")),
    )
    assert contacts.get_sensor_reading(one(1, "Low/contact")).value > 0
    assert contacts.get_sensor_reading(one(1, "Top/frames/a/contact")).value > 0
    down = low[low["body1"] == one(1, "Top")]
    assert len(down) == len(top) == 4
    assert set(top["body1"]) == {one(1, "Low")}
    assert set(low["body0"]) == {one(1, "Low")} and set(top["body0"]) == {one(1, "Top")}
    assert set(low["body1"]) == {one(1, "Top"), "/World/ground"}
    assert top["impulse"].sum(0) == pytest.approx([0, 0, 2 * G * DT], abs=1e-3)
    assert down["impulse"].sum(0) == pytest.approx(-top["impulse"].sum(0), abs=1e-7)
    assert (top["normal"][:, 2] > 0.99).all() and (down["normal"][:, 2] < -0.99).all()
    assert low["impulse"].sum(0)[2] == pytest.approx(5 * G * DT, rel=2e-3)


def test_raw_contacts_are_those_of_the_body_not_of_the_radius(scene, contacts):
    records = contacts.get_raw_contacts(f"{NS}/Bench/at_left")
    assert records.dtype == RAW_CONTACT and len(records) == 4
    assert records["impulse"][:, 2].sum() / DT == pytest.approx(8 * G, rel=2e-3)
    left = records[records["position"][:, 0] < float(scene.env_origins[0, 0])]
    assert left["impulse"][:, 2].sum() / DT == pytest.approx(3 * G, rel=2e-3)
    assert records["dt"] == pytest.approx(DT)
    assert len(set(records["time"])) == 1
    reading = contacts.get_sensor_reading(f"{NS}/Bench/at_left")
    assert reading.time == records["time"][0] == pytest.approx(int(scene.engine.step_count) * DT)
    assert contacts.decode_body_name(records["body1"][0]) == "/World/ground"


def test_raw_contacts_agree_with_the_contact_sensor(scene, contacts):
    scene["low"].set_external_wrench(torch.tensor([[15.0, 0, 0], [0, 8.0, 0]]), torch.zeros(2, 3))
    steps(scene, 7)
    for name, row in zip(("Low", "Top", "Bench", "Ball"), range(4)):
        for env in range(2):
            assert contacts.create_sensor(one(env, name))
            impulse = contacts.get_raw_contacts(one(env, name))["impulse"].sum(0)
            force = scene["net"].data.net_normal_forces_w[env, row]
            assert impulse / DT == pytest.approx(force.tolist(), abs=2e-3)
            assert contacts.get_sensor_reading(one(env, name)).value == pytest.approx(
                float(force.norm()), abs=2e-3
            )


def test_impulse_of_a_fall_is_the_change_of_momentum(scene, contacts):
    path, mass = one(0, "Ball"), 1.0
    assert contacts.create_sensor(path)
    scene.reset()
    pose = scene["ball"].data.default_root_pose.torch.clone()
    pose[:, 2] = 0.3
    scene["ball"].write_root_pose(pose)
    steps(scene, 20)
    before = float(scene["ball"].data.root_lin_vel_w[0, 2])
    assert before < -0.9 and len(contacts.get_raw_contacts(path)) == 0
    assert contacts.get_sensor_reading(path).value == 0.0
    impulse = load = 0.0
    for _ in range(100):
        scene.step()
        impulse += contacts.get_raw_contacts(path)["impulse"][:, 2].sum()
        load += contacts.get_sensor_reading(one(0, "Ball/in")).value * DT
    gained = mass * (float(scene["ball"].data.root_lin_vel_w[0, 2]) - before)
    assert impulse == pytest.approx(gained + mass * G * 100 * DT, rel=2e-3)
    assert load == pytest.approx(impulse, rel=1e-4)


def test_a_foot_by_flat_and_by_tree_path(scene, contacts):
    force = scene["net_foot"].data.net_normal_forces_w[:, 0].norm(dim=-1)
    assert (force > 1.0).all()
    for name in ("foot", "foot_in_tree"):
        assert scene[name].body_path == "Robot/LF_FOOT"
        assert torch.allclose(scene[name].value.torch, force)
    tree = FOOT_IN_TREE.replace(NS, "/World/envs/env_1")
    for path in (
        f"{tree}/contact",
        f"{tree}/again",
        one(1, "Robot/LF_FOOT/contact"),
        one(1, "Robot/LF_FOOT/again"),
    ):
        assert contacts.get_sensor_reading(path).value == float(force[1])


# ---------------------------------------------------------------------- sampling rules
@pytest.mark.parametrize(
    ("force", "value", "touches"),
    [(0.0, 0.0, False), (24.999, 0.0, False), (25.0, 25.0, True), (100.0, 100.0, True), (1e6, 100.0, True)],
)
def test_thresholds(disturbed, force, value, touches):
    sensor = disturbed["top_heavy"]
    sensor._reader.normal[:] = torch.tensor([0.0, 0.6, -0.8]) * force
    sensor.launch_sample()
    assert sensor.value.tolist() == pytest.approx([value] * 2, abs=1e-3)
    assert sensor.in_contact.tolist() == [touches] * 2


def test_default_thresholds_are_no_contact_at_zero_force_and_contact_above(disturbed):
    sensor = disturbed["top_all"]
    for force, touches in ((0.0, False), (1e-6, True)):
        sensor._reader.normal[:] = torch.tensor([0.0, 0.0, force])
        sensor.launch_sample()
        assert sensor.in_contact.tolist() == [touches] * 2


def test_update_period(scene, contacts):
    scene.reset()
    start = int(scene.engine.step_count)
    sampled = []
    for _ in range(12):
        scene.step()
        sampled.append(round(contacts.get_sensor_reading(f"{NS}/Top/slow").time / DT) - start)
    assert sampled == [1, 1, 1, 4, 4, 4, 4, 8, 8, 8, 8, 12]


def test_reset_is_zero_until_the_next_step_in_its_environment_only(scene, contacts):
    kept = {n: scene[n].value[0].item() for n in ("low_all", "left", "ball_in", "top_slow")}
    before = contacts.get_sensor_reading(one(1, "Low/contact")).time
    scene.reset(torch.tensor([False, True]))
    for name, value in kept.items():
        assert scene[name].value[0].item() == value
        assert zero(scene[name], 1)
    assert contacts.create_sensor(f"{NS}/Low")
    for path in ("Low/contact", "Low"):
        assert contacts.get_sensor_reading(one(0, path)).value == pytest.approx(5 * G, rel=2e-3)
        # Valid: the sensor is there and the simulation runs.
        reading = contacts.get_sensor_reading(one(1, path))
        assert reading == ContactSensorReading(True, before, 0.0, False)
        assert len(contacts.get_raw_contacts(one(1, path))) == 0
        assert len(contacts.get_raw_contacts(one(0, path))) == 8
    steps(scene, 200)
    assert contacts.get_sensor_reading(one(1, "Low/contact")).value == pytest.approx(5 * G, rel=2e-3)


def test_enabled_is_a_switch_at_run_time(scene, contacts):
    sensor, path = scene["top_off"], f"{NS}/Top/off"
    assert not sensor.enabled and zero(sensor)
    assert contacts.get_sensor_reading(path) == INVALID and len(contacts.get_raw_contacts(path)) == 0
    sensor.enabled = True
    assert sensor.enabled
    assert contacts.get_sensor_reading(path).is_valid and zero(sensor)
    scene.step()
    assert sensor.value.tolist() == pytest.approx([2 * G] * 2, rel=2e-3)
    assert contacts.get_sensor_reading(path).in_contact
    sensor.enabled = False
    assert zero(sensor) and contacts.get_sensor_reading(path) == INVALID
    scene.step()
    assert zero(sensor)
    with pytest.raises(ValueError, match=r"sensor 'top_off': enabled is 1; it must be true or false"):
        sensor.enabled = 1  # type: ignore[assignment]


# ---------------------------------------------------------------------- the interface
def test_single_readings_are_the_batched_ones(scene, contacts):
    scene["top"].write_root_velocity(torch.tensor([[0.3, 0, 0, 0, 0, 0], [0, 0, 1.0, 0, 0, 0]]))
    for _ in range(10):
        scene.step()
        for sensor in (
            scene[n] for n in ("low_all", "top_all", "top_heavy", "top_slow", "left", "right", "foot")
        ):
            for env in range(2):
                reading = contacts.get_sensor_reading(one(env, sensor.frame_path))
                assert reading.is_valid
                assert reading.value == sensor.value[env].item()
                assert reading.in_contact == sensor.in_contact[env].item()
                assert reading == contacts.get_sensor_reading(one(env, sensor.frame_path))


def test_one_interface_for_a_scene_made_after_steps(scene):
    contacts = acquire_contact_sensor_interface(scene)
    assert acquire_contact_sensor_interface(scene) is contacts
    assert contacts.get_sensor_reading(f"{NS}/Low/contact").value == pytest.approx(5 * G, rel=2e-3)
    assert contacts.create_sensor(one(1, "Top"))
    time = contacts.get_sensor_reading(one(1, "Top")).time
    scene.step()
    reading = contacts.get_sensor_reading(one(1, "Top"))
    assert reading.value == pytest.approx(2 * G, rel=2e-3) and reading.time == pytest.approx(time + DT)
    # One set of subscriptions, however often it is asked for.
    assert len(scene._stopped) == len(scene._resumed) == 1


@pytest.mark.parametrize(
    "path",
    [
        f"{NS}/Low/contact",
        "/World/envs/env_.*/Low/contact",
        one(1, "Low/contact"),
        one(1, "Low"),
        one(1, "Low/0"),
        one(1, "Bench/left"),
        one(0, "Robot/LF_FOOT"),
        FOOT_IN_TREE,
        f"{FOOT_IN_TREE}/contact",
    ],
)
def test_create_and_remove(contacts, path):
    for _ in range(2):
        assert contacts.create_sensor(path) is True
        assert contacts.create_sensor(path) is True
        assert contacts.get_sensor_reading(path).is_valid and len(contacts.get_raw_contacts(path)) > 0
        # One removal is enough, however often it was created.
        contacts.remove_sensor(path)
        assert contacts.get_sensor_reading(path) == INVALID
        assert len(contacts.get_raw_contacts(path)) == 0
        contacts.remove_sensor(path)


def test_a_shape_reads_its_whole_body(contacts):
    assert contacts.create_sensor(f"{NS}/Bench/left")
    assert contacts.get_sensor_reading(f"{NS}/Bench/left").value == pytest.approx(8 * G, rel=2e-3)


def test_environments_of_a_path(contacts):
    """A concrete path is one environment; the namespace is every one, and environment 0 in reads."""
    contacts.remove_sensor(one(0, "Low/contact"))
    assert not contacts.get_sensor_reading(f"{NS}/Low/contact").is_valid
    assert contacts.get_sensor_reading(one(1, "Low/contact")).is_valid
    assert contacts.create_sensor(one(1, "Low"))
    assert not contacts.get_sensor_reading(f"{NS}/Low").is_valid
    assert not contacts.get_sensor_reading(one(0, "Low")).is_valid
    assert contacts.get_sensor_reading(one(1, "Low")).is_valid
    assert contacts.create_sensor(f"{NS}/Low")
    assert contacts.get_sensor_reading("/World/envs/env_.*/Low") == contacts.get_sensor_reading(one(0, "Low"))
    assert contacts.get_sensor_reading(one(0, "Low")).is_valid
    contacts.remove_sensor(f"{NS}/Low")
    assert not contacts.get_sensor_reading(one(1, "Low")).is_valid


def test_removing_leaves_the_batched_readings_alone(scene, contacts):
    contacts.remove_sensor(f"{NS}/Low/contact")
    scene.step()
    assert scene["low_all"].value.tolist() == pytest.approx([5 * G] * 2, rel=2e-3)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/World/ground/contact", "no rigid body above it; bodies lie below"),
        ("/World/ground", "no rigid body above it"),
        ("", "no rigid body above it"),
        (one(0, "Lwo/contact"), "no rigid body above it. Did you mean '/World/envs/env_0/Low/contact'"),
        (one(1, "Low/contcat"), "Did you mean '/World/envs/env_1/Low/contact'"),
        (f"{NS}/Robot/LF_FOT", f"no rigid body above it. Did you mean '{NS}/Robot/LF_FOOT'"),
        (f"{NS}/Robot", "no rigid body above it"),
        (f"{NS}/Low/", "no rigid body above it"),
        (one(2, "Low"), "the scene has 2 environments, env_0 to env_1"),
        ("/World/envs/env_00/Low", "no rigid body above it"),
        ("/World/envs/env_0", "no rigid body above it"),
        (f"{NS}/.*/contact", "no rigid body above it"),
    ],
)
def test_paths_without_a_sensor(contacts, caplog, path, message):
    with caplog.at_level(logging.WARNING):
        assert contacts.create_sensor(path) is False
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert message in caplog.text and repr(path) in caplog.text
    caplog.clear()
    contacts.remove_sensor(path)
    assert contacts.get_sensor_reading(path) == INVALID
    assert len(contacts.get_raw_contacts(path)) == 0 and contacts.get_raw_contacts(path).dtype == RAW_CONTACT
    assert not caplog.records


@pytest.mark.parametrize(
    "method", ["create_sensor", "remove_sensor", "get_sensor_reading", "get_raw_contacts"]
)
@pytest.mark.parametrize("path", [None, 3, b"/World", ["a"]])
def test_a_path_is_a_string(contacts, method, path):
    with pytest.raises(TypeError, match="give the sensor's path, such as '/World/envs/env_0/"):
        getattr(contacts, method)(path)


def test_bodies_decode_from_strings_only(contacts):
    with pytest.raises(TypeError, match="body is 7; raw contacts hold paths"):
        contacts.decode_body_name(7)


# ---------------------------------------------------------------------- lifecycle
def test_stop_makes_readings_invalid_until_resumed(scene, contacts):
    path = one(1, "Low/contact")
    before, batched = contacts.get_sensor_reading(path), scene["low_all"].value.torch.clone()
    scene.stop()
    assert contacts.get_sensor_reading(path) == INVALID and len(contacts.get_raw_contacts(path)) == 0
    assert contacts.create_sensor(one(1, "Top"))
    assert contacts.get_sensor_reading(one(1, "Top")) == INVALID
    assert torch.equal(scene["low_all"].value.torch, batched)
    scene.resume()
    assert contacts.get_sensor_reading(path) == before and before.in_contact
    assert contacts.get_sensor_reading(one(1, "Top")).value == pytest.approx(2 * G, rel=2e-3)
    scene.stop()
    scene.play()  # from the default states
    assert contacts.get_sensor_reading(path) == ContactSensorReading(True, before.time, 0.0, False)
    steps(scene, 200)
    assert contacts.get_sensor_reading(path).value == pytest.approx(before.value, rel=2e-3)


def test_made_while_stopped(scene):
    scene.stop()
    contacts = acquire_contact_sensor_interface(scene)
    assert not contacts.get_sensor_reading(f"{NS}/Low/contact").is_valid
    scene.resume()
    assert contacts.get_sensor_reading(f"{NS}/Low/contact").is_valid


def test_shutdown(scene, contacts):
    assert contacts.create_sensor(f"{NS}/Top")
    for _ in range(2):
        contacts.shutdown()
        for path in (f"{NS}/Top", f"{NS}/Low/contact"):
            assert contacts.get_sensor_reading(path) == INVALID
            contacts.remove_sensor(path)
    assert not scene._stopped and not scene._resumed
    scene.stop()
    scene.resume()
    assert not contacts.get_sensor_reading(f"{NS}/Low/contact").is_valid
    # Creating starts it again, with that sensor.
    assert contacts.create_sensor(f"{NS}/Low/contact")
    assert contacts.get_sensor_reading(f"{NS}/Low/contact").is_valid
    assert not contacts.get_sensor_reading(f"{NS}/Top/heavy").is_valid
    scene.stop()
    assert not contacts.get_sensor_reading(f"{NS}/Low/contact").is_valid
    scene.resume()
    assert contacts.get_sensor_reading(f"{NS}/Low/contact").is_valid
    # Acquiring starts it again, with what the scene configures.
    contacts.shutdown()
    assert acquire_contact_sensor_interface(scene) is contacts
    assert contacts.get_sensor_reading(f"{NS}/Top/heavy").is_valid
    assert not contacts.get_sensor_reading(f"{NS}/Top").is_valid


def small(physics: Any = None, **sensors: Any) -> InteractiveScene:
    cfg = InteractiveSceneCfg(num_envs=1)
    cfg.ground = PlaneCfg()
    cfg.box = body("Box", CuboidCfg(size=(0.2, 0.2, 0.2), mass=1.0), pos=(0, 0, 0.1))
    for name, sensor in sensors.items():
        setattr(cfg, name, sensor)
    return InteractiveScene(cfg, physics or NewtonCfg(dt=DT))


def test_a_closed_scene_and_one_that_is_gone(caplog):
    scene = small(a=point("Box/contact"), b=point("Box/contact", threshold=(50.0, 60.0)))
    contacts = acquire_contact_sensor_interface(scene)
    # Two of one path: both are sampled, and the first answers by path.
    assert "Sensors 'a' and 'b' of the scene have one path" in caplog.text
    steps(scene, 100)
    assert contacts.get_sensor_reading(f"{NS}/Box/contact").value == pytest.approx(G, rel=2e-3)
    assert scene["a"].in_contact.all() and not scene["b"].in_contact.any()
    assert contacts.create_sensor(f"{NS}/Box")
    scene.close()
    assert acquire_contact_sensor_interface(scene) is contacts
    for path in (f"{NS}/Box/contact", f"{NS}/Box"):
        assert contacts.get_sensor_reading(path) == INVALID
        assert len(contacts.get_raw_contacts(path)) == 0
        assert contacts.create_sensor(path) is False
    alive = weakref.ref(scene)
    del scene
    gc.collect()
    # The interface keeps no scene alive.
    assert alive() is None
    assert contacts.get_sensor_reading(f"{NS}/Box/contact") == INVALID
    assert contacts.create_sensor(f"{NS}/Box/contact") is False
    contacts.remove_sensor(f"{NS}/Box/contact")
    contacts.shutdown()
    contacts.shutdown()


def test_what_is_no_scene():
    with pytest.raises(TypeError, match="scene is a dict; it must be an InteractiveScene"):
        acquire_contact_sensor_interface({})


# ---------------------------------------------------------------------- configuration
@pytest.mark.parametrize(
    ("sensor", "message"),
    [
        (
            point("Bix/contact"),
            rf"scene.a.prim_path '{NS}/Bix/contact' has no rigid body above it.*mean 'Box'",
        ),
        (point("Quadruped/contact"), "has no rigid body above it.*Known: 'Box'"),
        (point(".*/contact"), "has no rigid body above it.*without regular expressions"),
        (point("Box//contact"), "has no rigid body above it"),
        (IsaacContactSensorCfg(), "scene.a.prim_path is ''"),
        (IsaacContactSensorCfg(prim_path="/World/envs/env_0/Box/contact"), "the same in every environment"),
        (
            IsaacContactSensorCfg(prim_path="/World/ground/contact"),
            "scene.a.prim_path is '/World/ground/contact'",
        ),
        (point("Box/c", radius=math.nan), r"scene.a.radius is nan; it must be a finite number \[m\]"),
        (point("Box/c", radius=True), "scene.a.radius is True"),
        (point("Box/c", translation=(0, 0)), "scene.a.translation is .* it must be 3 finite numbers"),
        (point("Box/c", threshold=3.0), r"scene.a.threshold is 3.0; it must be two forces, \(lower, upper\)"),
        (point("Box/c", threshold=(-1.0, 5.0)), r"scene.a.threshold\[0\] is -1.0"),
        (point("Box/c", threshold=(math.inf, math.inf)), r"scene.a.threshold\[0\] is inf"),
        (point("Box/c", threshold=(5.0, 1.0)), "the lower force comes first"),
        (point("Box/c", enabled=1), "scene.a.enabled is 1; it must be true or false"),
        (point("Box/c", update_period=-1.0), "scene.a.update_period is -1.0"),
    ],
)
def test_bad_configurations(sensor, message):
    with pytest.raises(ValueError, match=message.replace("{", r"\{").replace("}", r"\}")):
        small(a=sensor)


def test_an_engine_without_raw_contacts(monkeypatch):
    def lacking(**kw: bool) -> Capabilities:
        return Capabilities(**{**kw, "raw_contacts": False})

    monkeypatch.setattr("forcelab.physics.newton.Capabilities", lacking)
    with pytest.raises(
        NotImplementedError, match=r"scene.a: the 'newton' engine does not report raw contacts"
    ):
        small(a=point("Box/contact"))
    scene = small()
    with pytest.raises(NotImplementedError, match="does not report raw contacts"):
        acquire_contact_sensor_interface(scene)
    scene.close()


def test_a_list_of_thresholds_and_no_upper_one():
    scene = small(a=point("Box/c", threshold=[1, math.inf], translation=[0, 0, 0], radius=1))
    steps(scene, 100)
    assert scene["a"].value.tolist() == pytest.approx([G], rel=2e-3)
    assert np.isfinite(scene["a"].value.numpy()).all()
    scene.close()


def test_the_configuration_needs_no_torch():
    code = "import sys; from forcelab.sensors import IsaacContactSensorCfg as C; C(); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
