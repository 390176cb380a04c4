# SPDX-License-Identifier: Apache-2.0
"""Newton's second law for a whole robot: what the sensors read is what moves it."""

from __future__ import annotations

from typing import Any

import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    IdealPdActuatorCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
)
from forcelab.sensors import ContactSensorCfg

DT = 0.0005


class SceneCfg(InteractiveSceneCfg):
    num_envs = 2
    ground = PlaneCfg(friction=0.8)
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.51),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.3},
        actuators={"legs": IdealPdActuatorCfg(".*", stiffness=120.0, damping=4.0, effort_limit=80.0)},
    )
    touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*")


def rotate(quat: torch.Tensor, vec: torch.Tensor) -> torch.Tensor:
    twice = 2 * torch.linalg.cross(quat[..., :3], vec)
    return vec + quat[..., 3:] * twice + torch.linalg.cross(quat[..., :3], twice)


def momentum(robot: Any) -> torch.Tensor:
    """(E, 3) of all bodies, from the velocities of their origins."""
    data = robot.data
    arm = rotate(data.body_quat_w.torch, robot._state.body_com.expand_as(data.body_pos_w))
    velocity = data.body_lin_vel_w + torch.linalg.cross(data.body_ang_vel_w.torch, arm)
    return (data.body_mass.unsqueeze(-1) * velocity).sum(dim=1)


def test_contact_and_outer_forces_balance_the_change_of_momentum() -> None:
    """Random targets, a push, another mass: Σ contact + push + m g = d(Σ m v)/dt at every step."""
    torch.manual_seed(0)
    scene = InteractiveScene(SceneCfg(), NewtonCfg(dt=DT))
    robot, touch = scene["robot"], scene["touch"]
    mass = robot.data.default_body_mass.torch.clone()
    mass[1, 0] += 5.0
    robot.write_body_mass(mass)
    weight = mass.sum(dim=1, keepdim=True) * torch.tensor([0.0, 0.0, -9.81])
    push = torch.tensor([[60.0, 0.0, 0.0], [0.0, -40.0, 20.0]])
    errors, forces = [], []
    for i in range(800):
        if i % 80 == 0:
            offset = 0.4 * torch.randn(2, 12)
            robot.set_joint_position_target(robot.data.default_joint_pos + offset)
        if i == 400:
            robot.set_external_wrench(push, torch.zeros(2, 3))
        before = momentum(robot)
        scene.step()
        outer = weight + (push if i >= 400 else 0.0)
        contact = touch.data.net_forces_w.sum(dim=1)
        errors.append(((momentum(robot) - before) / DT - contact - outer).norm(dim=1))
        forces.append(contact.norm(dim=1))
    error, force = torch.stack(errors), torch.stack(forces)
    assert force.max() > 1000 and force.min() < 300  # it stamped and jumped
    # Explicit integration of fast legs: first order in the time step (measured).
    assert error.median() < 3.0 and error.max() < 20.0
    scene.close()
