# SPDX-License-Identifier: Apache-2.0
"""Newton's second law for a moving ant: contact forces and weight change its momentum."""

from __future__ import annotations

import torch

from forcelab.configs import compose
from forcelab.physics import NewtonCfg
from forcelab.physics.quaternions import quat_apply
from forcelab.scene import InteractiveScene
from forcelab.sensors import ContactSensorCfg, JointWrenchSensorCfg

NUM_ENVS = 2
GRAVITY = torch.tensor([0.0, 0.0, -9.81], dtype=torch.float64)


def momentum(scene: InteractiveScene, com: torch.Tensor) -> torch.Tensor:
    """(E, 3) mass times velocity of the centres of mass, summed over the bodies, world frame."""
    data = scene["robot"].data
    # The velocities are those of the bodies' origins.
    arm = quat_apply(data.body_quat_w, com.expand(NUM_ENVS, -1, -1)).double()
    velocity = data.body_lin_vel_w.double() + torch.linalg.cross(data.body_ang_vel_w.double(), arm)
    return (data.body_mass.double().unsqueeze(-1) * velocity).sum(dim=1)


def test_contact_forces_and_weight_change_the_momentum() -> None:
    cfg = compose("run_flat_ant", [f"num_envs={NUM_ENVS}"]).env.scene
    cfg.all_contacts = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*")
    # The joint wrench sensor makes the engine take the integrator whose accelerations are those of the motion.
    assert isinstance(cfg.joint_wrench, JointWrenchSensorCfg)
    # A difference of momenta at two poses is wrong in proportion to dt (0.8 N at 5 ms): a short step.
    scene = InteractiveScene(cfg, NewtonCfg(dt=0.0005), device="cpu")
    scene.reset()
    robot = scene["robot"]
    com = scene.engine.trees[robot.path].body_com
    generator = torch.Generator().manual_seed(2)
    errors, forces, changes = [], [], []
    mass = robot.data.body_mass.double().sum(dim=1, keepdim=True)
    before = momentum(scene, com)
    for step in range(3000):
        if step % 150 == 0:
            noise = 0.15 * torch.randn(NUM_ENVS, robot.num_joints, generator=generator)
            robot.set_joint_position_target(robot.data.default_joint_pos + noise)
        scene.step()
        after = momentum(scene, com)
        contact = scene["all_contacts"].data.net_forces_w.double().sum(dim=1)
        change = (after - before) / scene.physics_dt
        errors.append((contact + mass * GRAVITY - change).norm(dim=1))
        forces.append(contact.norm(dim=1))
        changes.append(change.norm(dim=1))
        before = after
    scene.close()
    error, force, change = (torch.stack(x) for x in (errors, forces, changes))
    # It moves: feet strike the ground and leave it.
    assert (force == 0.0).double().mean() > 0.02 and force.max() > 3.0 * 9.81 * mass.max()
    assert change.median() > 10.0
    assert error.median() < 0.1
    assert error.quantile(0.95) < 0.5
