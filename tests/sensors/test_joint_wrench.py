# SPDX-License-Identifier: Apache-2.0
"""The joint wrench sensor: statics, names, resets, periods, filter, errors; and the terms that read it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers import SceneEntityCfg
from forcelab.mdp.observations import body_incoming_wrench
from forcelab.physics import NewtonCfg
from forcelab.physics.quaternions import quat_apply, quat_apply_inverse
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    RigidObjectCfg,
)
from forcelab.sensors import JointWrenchSensorCfg

G = 9.81
NS = "{ENV_REGEX_NS}"
ARMS = str(Path(__file__).parents[1] / "physics" / "arms.xml")
E = 3


class ArmsCfg(InteractiveSceneCfg):
    robot = ArticulationCfg(
        prim_path=f"{NS}/Robot",
        spawn=MjcfCfg(ARMS),
        actuators={
            "held": PdActuatorCfg(joint_names=["arm_joint", "skew_joint"], stiffness=2000.0, damping=100.0)
        },
    )
    box = RigidObjectCfg(
        prim_path=f"{NS}/Box", spawn=CuboidCfg(size=(0.1, 0.1, 0.1), mass=1.0), init_pos=(3, 0, 5)
    )
    wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")
    again = JointWrenchSensorCfg(prim_path="/World/envs/env_.*/Robot/pedestal")
    slow = JointWrenchSensorCfg(prim_path=f"{NS}/Robot", update_period=0.02, cutoff_frequency=5.0)


@pytest.fixture(scope="module")
def scene(physics: Any) -> Iterator[InteractiveScene]:
    made = InteractiveScene(ArmsCfg(num_envs=E, env_spacing=8.0), physics=physics(dt=0.005))
    yield made
    made.close()


def settle(scene: InteractiveScene, steps: int = 400) -> None:
    scene.reset()
    for _ in range(steps):
        scene.step()


class Env:
    """What terms read of an environment."""

    def __init__(self, scene: InteractiveScene):
        self.scene, self.num_envs, self.device = scene, scene.num_envs, scene.device


def select(scene: InteractiveScene, names: list[str], sensor: str = "wrench") -> SceneEntityCfg:
    cfg = SceneEntityCfg(sensor, body_names=names, preserve_order=True)
    cfg.resolve(scene)
    return cfg


def test_held_arm_in_its_turned_joint_frame(scene: InteractiveScene) -> None:
    settle(scene)
    sensor, data = scene["wrench"], scene["wrench"].data
    (arm, tool), names = sensor.find_bodies(["arm", "tool"], preserve_order=True)
    assert names == ["arm", "tool"]
    # The whole subtree, against gravity: along the joint frame's y axis, which points up after the 90° turn.
    weight = 2.5 * G
    torch.testing.assert_close(data.force[:, arm].norm(dim=-1), torch.full((E,), weight), rtol=2e-3, atol=0)
    torch.testing.assert_close(data.force[:, arm, 1], torch.full((E,), weight), rtol=2e-3, atol=0)
    # Moments of the two weights about the anchor, in the same frame; the drive's sag is below a millimetre.
    loads = (((0.25, -0.15, 0.1), 2.0), ((0.48, 0.1, 0.0), 0.5))
    torque = sum(torch.linalg.cross(torch.tensor(r), torch.tensor([0.0, m * G, 0.0])) for r, m in loads)
    torch.testing.assert_close(data.torque[:, arm], torque.expand(E, 3), rtol=1e-2, atol=2e-2)  # type: ignore[union-attr]
    # The weld to the tool transmits the tool alone.
    torch.testing.assert_close(data.force[:, tool].norm(dim=-1), torch.full((E,), 0.5 * G), rtol=2e-3, atol=0)


def test_which_joints_are_reported(scene: InteractiveScene) -> None:
    sensor = scene["wrench"]
    if scene.engine.name == "newton":
        # The weld between bodies is a row, the weld to the world is none.
        assert sensor.body_names == ["arm", "tool", "skew", "mast"]
    else:
        assert sensor.body_names == ["pedestal", "arm", "tool", "skew", "mast"]
    assert sensor.num_bodies == len(sensor.body_names)
    assert sensor.data.force.shape == sensor.data.torque.shape == (E, sensor.num_bodies, 3)
    assert sensor.find_bodies(["mast", "arm"])[1] == ["arm", "mast"]
    assert sensor.find_bodies(["mast", "arm"], preserve_order=True)[1] == ["mast", "arm"]
    with pytest.raises(ValueError, match="Did you mean 'mast'"):
        sensor.find_bodies("mas")


def test_two_sensors_and_views_agree(scene: InteractiveScene) -> None:
    settle(scene, 7)
    first, second = scene["wrench"].data, scene["again"].data
    assert torch.equal(first.force.torch, second.force.torch)
    assert first.force.abs().max() > 0
    torch.testing.assert_close(torch.from_numpy(first.force.warp.numpy()), first.force.torch)


def test_reset_zeroes_the_chosen_environments(scene: InteractiveScene) -> None:
    settle(scene, 20)
    data = scene["wrench"].data
    before = data.force.torch.clone()
    scene.reset(torch.tensor([False, True, False]))
    assert not data.force[1].any() and not data.torque[1].any()
    assert torch.equal(data.force[[0, 2]], before[[0, 2]])
    scene.step()
    assert (data.force.norm(dim=-1) > 0).any(1).all()


def test_period_and_filter(scene: InteractiveScene) -> None:
    settle(scene, 0)
    live, slow = scene["wrench"].data, scene["slow"].data
    expected = torch.zeros(E, scene["slow"].num_bodies, 3)
    gain = 1.0 - math.exp(-2.0 * math.pi * 5.0 * 0.02)
    sampled = 0
    for step in range(1, 41):
        scene.step()
        if step == 1 or step % 4 == 0:
            last = step
            if step == 1:
                expected = live.force.torch.clone()
            else:
                share = (
                    gain
                    if step - sampled == 4
                    else 1.0 - math.exp(-2 * math.pi * 5.0 * 0.005 * (step - sampled))
                )
                expected = expected + share * (live.force.torch - expected)
            sampled = last
            assert torch.equal(slow.force.torch, live.force.torch)
        torch.testing.assert_close(slow.filtered_force.torch, expected, rtol=1e-5, atol=1e-5)
    assert live.filtered_force is None and live.filtered_torque is None


def test_terms(scene: InteractiveScene) -> None:
    settle(scene)
    env: Any = Env(scene)
    pair = select(scene, ["tool", "arm"])
    wrench = body_incoming_wrench(env, pair)
    assert wrench.shape == (E, 12)
    sensor = scene["wrench"]
    tool, arm = sensor.find_bodies(["tool", "arm"], preserve_order=True)[0]
    # Per body the force, then the torque, in the order asked for.
    assert torch.equal(wrench[:, :3], sensor.data.force[:, tool])
    assert torch.equal(wrench[:, 3:6], sensor.data.torque[:, tool])
    assert torch.equal(wrench[:, 6:9], sensor.data.force[:, arm])
    # In world axes a body at rest is held up.
    world = body_incoming_wrench(env, select(scene, ["arm", "skew"]), frame="world")
    up = torch.tensor([0.0, 0.0, 2.5 * G])
    torch.testing.assert_close(world[:, :3], up.expand(E, 3), rtol=2e-3, atol=3e-2)
    torch.testing.assert_close(world[:, 6:9], up.expand(E, 3) * 0.6, rtol=2e-3, atol=3e-2)
    # In the body's axes the same vector, turned by the body's orientation alone.
    body = body_incoming_wrench(env, select(scene, ["skew"]), frame="body")
    quat = scene["robot"].data.body_quat_w[:, scene["robot"].body_names.index("skew")]
    u, w = quat[:, :3], quat[:, 3:]
    turn = 2.0 * torch.linalg.cross(u, body[:, :3])
    torch.testing.assert_close(
        body[:, :3] + w * turn + torch.linalg.cross(u, turn), world[:, 6:9], atol=1e-3, rtol=1e-4
    )
    with pytest.raises(ValueError, match=r"frame is 'wrld'.*'world'"):
        body_incoming_wrench(env, pair, frame="wrld")
    with pytest.raises(ValueError, match="cutoff_frequency"):
        body_incoming_wrench(env, pair, filtered=True)
    assert body_incoming_wrench(env, select(scene, ["arm"], "slow"), filtered=True).shape == (E, 6)


PENDULUM = """
<mujoco>
  <worldbody>
    <body name="base">
      <geom type="box" size="0.05 0.05 0.05" mass="1"/>
      <body name="bob" euler="20 0 10">
        <joint name="swing" type="hinge" axis="0 1 0"/>
        <geom type="sphere" size="0.05" pos="0.5 0 0" mass="2" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_axes_while_moving(physics: Any, tmp_path: Path) -> None:
    """The force of a swinging body: m·(a - g) of its centre of mass, in every frame.

    Newton's belongs to the pose and velocity at the start of the step; the world's axes are those of that instant.
    PhysX's agrees with either end of the step to first order in dt.
    """
    file = tmp_path / "pendulum.xml"
    file.write_text(PENDULUM)

    class Cfg(InteractiveSceneCfg):
        robot = ArticulationCfg(prim_path=f"{NS}/Robot", spawn=MjcfCfg(str(file)), fixed_base=True)
        wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")

    scene = InteractiveScene(Cfg(num_envs=1), physics(dt=0.001))
    env: Any = Env(scene)
    exact = scene.engine.name == "newton"
    robot, bob = scene["robot"], select(scene, ["bob"])
    robot.write_joint_state(torch.tensor([[0.3]]), torch.tensor([[8.0]]))
    column = robot.body_names.index("bob")
    com, axis = torch.tensor([0.5, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
    for step in range(60):
        quat, speed = robot.data.body_quat_w[0, column].clone(), robot.data.joint_vel[0, 0].clone()
        scene.step()
        if step % 20 != 19:
            continue
        omega, alpha = axis * speed, axis * (robot.data.joint_vel[0, 0] - speed) / scene.physics_dt
        acceleration = torch.linalg.cross(alpha, com) + torch.linalg.cross(
            omega, torch.linalg.cross(omega, com)
        )
        up = quat_apply_inverse(quat, torch.tensor([0.0, 0.0, G]))
        body = 2.0 * (acceleration + up)
        close = {"rtol": 0.0, "atol": (1e-4 if exact else 2e-2) * float(body.norm())}
        torch.testing.assert_close(body_incoming_wrench(env, bob, frame="body")[0, :3], body, **close)
        torch.testing.assert_close(
            body_incoming_wrench(env, bob, frame="world")[0, :3], quat_apply(quat, body), **close
        )
    assert float(omega.norm()) > 5.0
    scene.reset()
    assert scene["wrench"].data.quat_w[0, -1].tolist() == [0.0, 0.0, 0.0, 1.0]
    scene.close()


def test_limits(scene: InteractiveScene) -> None:
    settle(scene)
    env: Any = Env(scene)
    arm = select(scene, ["arm"])
    weight = 2.5 * G
    excess = mdp.joint_wrench_limits(env, arm, force_limit=weight / 2)
    torch.testing.assert_close(excess, torch.full((E,), 1.0), rtol=5e-3, atol=0)
    assert not mdp.joint_wrench_limits(env, arm, force_limit=2 * weight).any()
    assert mdp.joint_wrench_out_of_limit(env, arm, force_limit=0.9 * weight).all()
    assert not mdp.joint_wrench_out_of_limit(env, arm, force_limit=1.1 * weight).any()
    assert mdp.joint_wrench_out_of_limit(env, arm, force_limit=1.1 * weight, torque_limit=0.1).all()
    with pytest.raises(ValueError, match="Neither force_limit"):
        mdp.joint_wrench_limits(env, arm)
    with pytest.raises(ValueError, match=r"torque_limit is 0\.0"):
        mdp.joint_wrench_out_of_limit(env, arm, torque_limit=0.0)


def test_before_the_simulation_is_initialised(physics: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between construction and start both are None; the term says so."""
    from forcelab.sensors.joint_wrench.joint_wrench_sensor import JointWrenchSensor

    seen = []
    build = JointWrenchSensor.build

    def look(self: JointWrenchSensor) -> None:
        seen.append((self.data.force, self.data.torque))
        env: Any = type("E", (), {"scene": {"wrench": self}})()
        with pytest.raises(RuntimeError, match="before the simulation starts"):
            body_incoming_wrench(env, SceneEntityCfg("wrench"))
        build(self)

    monkeypatch.setattr(JointWrenchSensor, "build", look)

    class Cfg(InteractiveSceneCfg):
        robot = ArticulationCfg(prim_path=f"{NS}/Robot", spawn=MjcfCfg(ARMS))
        wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")

    InteractiveScene(Cfg(num_envs=1), physics()).close()
    assert seen == [(None, None)]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"{NS}/Robto", r"scene\.wrench\.prim_path '\{ENV_REGEX_NS\}/Robto' is no articulation.*Robot"),
        (f"{NS}/Box", "is a rigid object, which has no joints"),
        (f"{NS}/Robot/arm", r"give the articulation itself, '\{ENV_REGEX_NS\}/Robot'"),
        ("Robot", "must begin with"),
    ],
)
def test_bad_paths(path: str, message: str) -> None:
    class Cfg(ArmsCfg):
        wrench = JointWrenchSensorCfg(prim_path=path)

    with pytest.raises(ValueError, match=message):
        InteractiveScene(Cfg(num_envs=1), NewtonCfg())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "convention",
            "incoming_joint_fram",
            r"scene\.w\.convention is .*Did you mean 'incoming_joint_frame'",
        ),
        ("update_period", -1.0, r"scene\.w\.update_period"),
        ("cutoff_frequency", 0.0, r"scene\.w\.cutoff_frequency is 0\.0.*Hz"),
        ("debug_vis", 1, r"scene\.w\.debug_vis"),
    ],
)
def test_bad_settings(field: str, value: Any, message: str) -> None:
    cfg = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")
    setattr(cfg, field, value)
    with pytest.raises(ValueError, match=message):
        cfg.check("w")


def test_no_joint_to_report(tmp_path: Path) -> None:
    file = tmp_path / "ball.xml"
    file.write_text(
        '<mujoco model="ball"><worldbody><body name="ball"><freejoint/><geom type="sphere" size="0.1" mass="1"/>'
        "</body></worldbody></mujoco>"
    )

    class Cfg(InteractiveSceneCfg):
        robot = ArticulationCfg(prim_path=f"{NS}/Robot", spawn=MjcfCfg(str(file)))
        wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")

    with pytest.raises(RuntimeError, match=r"scene\.wrench.*no joint to report.*free"):
        InteractiveScene(Cfg(num_envs=1), NewtonCfg())


LOOP = """<mujoco model="loop">
  <compiler angle="radian" autolimits="true" inertiafromgeom="true"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="mount">
      <geom type="box" size="0.1 0.1 0.1" mass="5"/>
      <body name="bar" pos="0 0 1">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom type="box" pos="0.5 0 0" size="0.5 0.02 0.02" mass="2"/>
      </body>
      <body name="prop" pos="1 0 0.5">
        <joint name="foot" type="hinge" axis="0 1 0"/>
        <geom type="box" pos="0 0 0.25" size="0.02 0.02 0.25" mass="0.01"/>
      </body>
    </body>
  </worldbody>
  <equality><connect body1="bar" body2="prop" anchor="1 0 0"/></equality>
</mujoco>"""


def test_a_closed_loop_carries_load_but_is_not_reported(tmp_path: Path) -> None:
    """A bar of 2 kg on a hinge at one end, held up by a prop at the other: each carries half of it."""
    file = tmp_path / "loop.xml"
    file.write_text(LOOP)

    class Cfg(InteractiveSceneCfg):
        robot = ArticulationCfg(prim_path=f"{NS}/Robot", spawn=MjcfCfg(str(file)))
        wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")

    scene = InteractiveScene(Cfg(num_envs=2), NewtonCfg())
    for _ in range(400):
        scene.step()
    assert scene["robot"].joint_names == ["hinge", "foot"]
    assert scene["wrench"].body_names == ["bar", "prop"]
    env: Any = Env(scene)
    world = body_incoming_wrench(env, select(scene, ["bar", "prop"]), frame="world").view(2, 2, 6)
    half = torch.tensor([0.0, 0.0, G])
    torch.testing.assert_close(world[:, 0, :3], half.expand(2, 3), rtol=5e-3, atol=5e-2)
    torch.testing.assert_close(world[:, 1, :3], half.expand(2, 3) * 1.01, rtol=5e-3, atol=5e-2)
    scene.close()
