# SPDX-License-Identifier: Apache-2.0
"""Writes to robots and objects: what they do, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg

E = 3
ONE = torch.tensor([False, True, False])


class SceneCfg(InteractiveSceneCfg):
    num_envs = E
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("cartpole.xml"),
        init_pos=(0.0, 0.0, 1.5),
        fixed_base=True,
        actuators={"cart": PdActuatorCfg("slider_to_cart", stiffness=100.0, damping=10.0)},
    )
    # Its centre of mass is not at its origin.
    odd = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Odd",
        spawn=[
            SphereCfg(radius=0.1, pos=(0.4, 0.0, 0.0), mass=3.0),
            CuboidCfg(size=(0.1, 0.1, 0.1), mass=1.0),
        ],
        init_pos=(0.0, 1.0, 5.0),
    )
    touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Odd")


@pytest.fixture(scope="module")
def shared() -> Iterator[InteractiveScene]:
    scene = InteractiveScene(SceneCfg(), NewtonCfg(gravity=(0.0, 0.0, 0.0)))
    yield scene
    scene.close()


@pytest.fixture
def scene(shared: InteractiveScene) -> InteractiveScene:
    shared.reset()
    return shared


Write = Callable[[InteractiveScene, Any], object]
WRITES: dict[str, Write] = {
    "root_pose": lambda s, m: s["odd"].write_root_pose(s["odd"].data.default_root_pose, m),
    "root_velocity": lambda s, m: s["odd"].write_root_velocity(torch.ones(E, 6), m),
    "body_mass": lambda s, m: s["odd"].write_body_mass(torch.ones(E, 1), m),
    "friction": lambda s, m: s["odd"].write_friction(torch.ones(E, 1), m),
    "wrench": lambda s, m: s["odd"].set_external_wrench(torch.ones(E, 3), torch.ones(E, 3), env_mask=m),
    "joint_state": lambda s, m: s["robot"].write_joint_state(torch.ones(E, 2), torch.ones(E, 2), m),
    "joint_gains": lambda s, m: s["robot"].write_joint_gains(torch.ones(E, 2), None, m),
    "position": lambda s, m: s["robot"].set_joint_position_target(torch.ones(E, 2), env_mask=m),
    "velocity": lambda s, m: s["robot"].set_joint_velocity_target(torch.ones(E, 2), env_mask=m),
    "effort": lambda s, m: s["robot"].set_joint_effort_target(torch.ones(E, 2), env_mask=m),
    "robot": lambda s, m: s["robot"].reset(m),
    "object": lambda s, m: s["odd"].reset(m),
    "sensor": lambda s, m: s["touch"].reset(m),
    "scene": lambda s, m: s.reset(m),
}
MASKS = {
    "float": torch.ones(E),
    "integer": torch.ones(E, dtype=torch.long),
    "one": torch.ones(1, dtype=torch.bool),
    "long": torch.ones(E + 1, dtype=torch.bool),
    "column": torch.ones(E, 1, dtype=torch.bool),
    "list": [True, False, True],
    "ids": torch.tensor([0, 2]),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("write", WRITES)
def test_masks_are_bool_and_one_per_environment(scene: InteractiveScene, write: str, mask: str) -> None:
    before = scene.engine.body_pose.clone()
    with pytest.raises(ValueError, match=r"env_mask .*a bool tensor of shape \(3,\) on cpu is needed"):
        WRITES[write](scene, MASKS[mask])
    assert torch.equal(scene.body_poses(), before)  # nothing was written


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda s: s["odd"].write_root_pose(torch.ones(E, 6)),
            r"write_root_pose: the shape is \(3, 6\); \(3, 7\)",
        ),
        (lambda s: s["odd"].write_root_pose("x"), "a float tensor is needed, found 'x'"),
        (lambda s: s["odd"].write_root_velocity(torch.ones(2, 6)), r"\(3, 6\) is needed"),
        (lambda s: s["robot"].write_root_velocity(torch.ones(E, 6)), "robot.*the root is fixed to the world"),
        (lambda s: s["odd"].write_body_mass(torch.ones(E, 2)), r"write_body_mass: the shape is \(3, 2\)"),
        (lambda s: s["odd"].write_body_mass(torch.tensor([[1.0], [0.0], [-1.0]])), r"environments \[1, 2\]"),
        (lambda s: s["odd"].write_friction(torch.full((E, 1), -1.0)), r"write_friction: numbers, 0 or more"),
        (
            lambda s: s["robot"].write_joint_gains(None, torch.full((E, 2), -1.0)),
            "damping: numbers, 0 or more",
        ),
        (lambda s: s["robot"].write_joint_gains(torch.ones(E, 3), None), r"stiffness: the shape is \(3, 3\)"),
        (
            lambda s: s["robot"].write_joint_state(torch.ones(E, 3), torch.ones(E, 2)),
            r"pos: the shape is \(3, 3\)",
        ),
        (
            lambda s: s["robot"].write_joint_state(torch.ones(E, 2), torch.ones(E, 2), joint_ids=slice(0, 1)),
            r"pos: the shape is \(3, 2\); \(3, 1\) is needed",
        ),
        (
            lambda s: s["robot"].set_joint_position_target(torch.ones(2, E)),
            r"the shape is \(2, 3\); \(3, 2\)",
        ),
        (lambda s: s["robot"].set_joint_position_target(torch.ones(E, 2, 1)), r"the shape is \(3, 2, 1\)"),
        (
            lambda s: s["robot"].set_joint_effort_target(torch.ones(E, 1), joint_ids=1),
            "joint_ids is 1; give None",
        ),
        (
            lambda s: s["robot"].set_joint_effort_target(torch.ones(E, 1), joint_ids=["cart"]),
            r"\['cart'\]; give",
        ),
        (
            lambda s: s["robot"].set_joint_effort_target(torch.ones(E, 1), joint_ids=[2]),
            "indices from 0 to 1",
        ),
        (
            lambda s: s["odd"].set_external_wrench(torch.ones(E, 2), torch.ones(E, 3)),
            r"the shape of the force is \(3, 2\)",
        ),
    ],
)
def test_wrong_shapes_and_values(scene: InteractiveScene, write: Callable[..., Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        write(scene)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0])
def test_root_poses_are_poses(scene: InteractiveScene, bad: float) -> None:
    odd = scene["odd"]
    pose = odd.data.default_root_pose.torch.clone()
    pose[1, 3:] = bad
    with pytest.raises(ValueError, match=r"odd\.write_root_pose: .*quaternion.* wrong in environments \[1\]"):
        odd.write_root_pose(pose)
    odd.write_root_pose(pose, ~ONE)  # what is not written does not matter
    assert torch.equal(odd.data.root_pose_w, odd.data.default_root_pose)


def test_quaternions_are_brought_to_length_one(scene: InteractiveScene) -> None:
    odd = scene["odd"]
    pose = odd.data.default_root_pose.torch.clone()
    pose[:, 3:] = torch.tensor([0.0, 0.0, 3.0, 4.0])
    odd.write_root_pose(pose, ONE)
    assert odd.data.root_quat_w[1].tolist() == pytest.approx([0.0, 0.0, 0.6, 0.8])
    assert odd.data.root_quat_w[0].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_velocity_of_the_origin_comes_back(scene: InteractiveScene) -> None:
    odd = scene["odd"]
    pose = odd.data.default_root_pose.torch.clone()
    pose[:, 3:] = torch.tensor([0.5, 0.5, 0.5, 0.5])
    odd.write_root_pose(pose)
    velocity = torch.tensor([1.0, -2.0, 0.5, 0.3, 2.0, -1.0]).repeat(E, 1)
    odd.write_root_velocity(velocity)
    assert torch.allclose(odd.data.root_vel_w, velocity, atol=1e-5)
    assert torch.allclose(odd.data.body_vel_w[:, 0], velocity, atol=1e-5)


def test_a_body_that_spins_about_its_centre_of_mass(scene: InteractiveScene) -> None:
    """Left alone it goes on spinning; its origin, 0.3 m off, runs on a circle."""
    odd = scene["odd"]
    spin, arm = 3.0, 0.3
    origin = torch.tensor([0.0, -spin * arm, 0.0, 0.0, 0.0, spin]).repeat(E, 1)
    odd.write_root_velocity(origin)
    start = odd.data.root_pos_w.torch.clone()
    for _ in range(100):
        scene.step()
    angle = spin * 100 * scene.physics_dt
    centre = start + torch.tensor([arm, 0.0, 0.0])
    expected = centre - arm * torch.tensor([math.cos(angle), math.sin(angle), 0.0])
    # The solver moves the origin along its tangent, half a step off: 3.4 mm after 1.5 rad.
    assert torch.allclose(odd.data.root_pos_w, expected, atol=5e-3)
    speed = spin * arm * torch.tensor([math.sin(angle), -math.cos(angle), 0.0])
    assert torch.allclose(odd.data.root_lin_vel_w, speed.expand(E, 3), atol=2e-2)


def test_one_force_on_each_of_several_bodies(scene: InteractiveScene) -> None:
    robot = scene["robot"]
    force = torch.arange(E * 3.0).view(E, 3)
    robot.set_external_wrench(force, torch.zeros(E, 3), body_ids=torch.tensor([1, 2]))
    held = robot._state.external_force
    assert torch.equal(held[:, 1], force) and torch.equal(held[:, 2], force) and not held[:, 0].any()


def test_a_closed_scene_says_so() -> None:
    scene = InteractiveScene(SceneCfg(num_envs=1), NewtonCfg())
    scene.close()
    scene.close()
    for use in (scene.step, scene.reset, lambda: scene["odd"].write_body_mass(torch.ones(1, 1))):
        with pytest.raises(RuntimeError, match="This scene is closed"):
            use()


# -- roots on joints, bodies without mass: on every engine


def test_root_that_hangs_on_a_joint(physics: Callable[..., Any], tmp_path: Path) -> None:
    """Its pose is that at joint position zero, wherever the joint sits on it."""
    file = tmp_path / "robot.xml"
    file.write_text(
        "<mujoco><compiler angle='radian'/><worldbody><body name='a'>"
        "<joint name='j' type='hinge' axis='0 1 0' pos='0.3 0 0.1'/>"
        "<geom type='box' size='.1 .1 .1' mass='1'/></body></worldbody></mujoco>"
    )
    turn = (0.0, 0.0, math.sin(0.5), math.cos(0.5))
    cfg = InteractiveSceneCfg(num_envs=2, env_spacing=0.0)
    cfg.robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot", spawn=MjcfCfg(str(file)), init_pos=(1.0, 2.0, 3.0), init_rot=turn
    )
    scene = InteractiveScene(cfg, physics(gravity=(0.0, 0.0, 0.0)))
    robot = scene["robot"]
    default = robot.data.default_root_pose.torch
    assert torch.allclose(robot.data.root_pose_w, default, atol=1e-5)
    moved = default.clone()
    moved[:, 0] += 1.0
    robot.write_root_pose(moved, torch.tensor([True, False]))
    for _ in range(2):
        assert torch.allclose(robot.data.root_pose_w[0], moved[0], atol=1e-4)
        assert torch.allclose(robot.data.root_pose_w[1], default[1], atol=1e-4)
        scene.step()
    robot.write_joint_state(torch.full((2, 1), 0.5), torch.zeros(2, 1))
    # Anchor minus the turned arm: the body swings about (0.3, 0, 0.1) in its own frame.
    x, z = -0.3 * math.cos(0.5) - 0.1 * math.sin(0.5) + 0.3, 0.3 * math.sin(0.5) - 0.1 * math.cos(0.5) + 0.1
    expected = torch.tensor([2.0 + x * math.cos(1.0), 2.0 + x * math.sin(1.0), 3.0 + z])
    assert torch.allclose(robot.data.root_pos_w[0], expected, atol=1e-4)
    scene.reset()
    assert torch.allclose(robot.data.root_pose_w, default, atol=1e-5)
    scene.close()


def test_welded_frames_without_mass_stay_without(physics: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(
        "<mujoco><worldbody><body name='base'><freejoint/><geom type='box' size='.1 .1 .1' mass='2'/>"
        "<body name='frame' pos='0 0 0.2'/></body></worldbody></mujoco>"
    )
    cfg = InteractiveSceneCfg(num_envs=2)
    cfg.robot = ArticulationCfg(prim_path="{ENV_REGEX_NS}/Robot", spawn=MjcfCfg(str(file)))
    scene = InteractiveScene(cfg, physics())
    robot = scene["robot"]
    robot.write_body_mass(2.0 * robot.data.default_body_mass)
    for _ in range(10):
        scene.step()
    assert robot.data.body_mass.tolist() == [[4.0, 0.0]] * 2
    assert torch.allclose(robot.data.root_lin_vel_w[:, 2], torch.tensor(-0.4905), atol=1e-3)
    scene.close()
