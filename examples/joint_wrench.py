# SPDX-License-Identifier: Apache-2.0
"""A quadruped crouches and rises: forces and torques in the joints that carry its feet."""

from __future__ import annotations

import math

import torch

from forcelab.assets import ArticulationCfg
from forcelab.examples import _options
from forcelab.physics import NewtonCfg
from forcelab.scene import InteractiveScene, InteractiveSceneCfg, MjcfCfg, PdActuatorCfg, PlaneCfg
from forcelab.sensors import JointWrenchSensorCfg


class JointWrenchSceneCfg(InteractiveSceneCfg):
    """A robot and a sensor for the wrenches of all its joints."""

    ground = PlaneCfg()
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.507),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.30},
        actuators={"legs": PdActuatorCfg(stiffness=200.0, damping=8.0)},
    )
    joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")


def main(argv: list[str] | None = None) -> None:
    """Move, and print wrenches as it runs. Options: num_envs, max_steps, log_interval, device."""
    options = _options.read(argv, num_envs=4, max_steps=400, log_interval=50, device="cpu")
    scene = InteractiveScene(
        JointWrenchSceneCfg(num_envs=options.num_envs, env_spacing=2.0),
        physics=NewtonCfg(dt=0.005),
        device=options.device,
    )
    robot = scene["robot"]
    hips, _ = robot.find_joints(".*_HFE")
    knees, _ = robot.find_joints(".*_KFE")
    standing = robot.data.default_joint_pos.torch

    joint_wrench = scene["joint_wrench"]
    foot_ids, foot_names = joint_wrench.find_bodies([".*FOOT"])
    print(f"The joints of {', '.join(foot_names)}: mean size of the force [N] and of the torque [N·m]")
    for step in range(1, options.max_steps + 1):
        bend = 0.15 * (1 - math.cos(2 * math.pi * step / 200))
        target = standing.clone()
        target[:, hips] += bend
        target[:, knees] -= 2 * bend
        robot.set_joint_position_target(target)
        scene.step()
        if step % options.log_interval:
            continue
        force = joint_wrench.data.force.torch[:, foot_ids]
        torque = joint_wrench.data.torque.torch[:, foot_ids]
        wrench = torch.cat((force, torque), dim=-1)  # (E, n, 6)
        sizes = torch.stack((wrench[..., :3].norm(dim=-1), wrench[..., 3:].norm(dim=-1)), dim=-1).mean(dim=0)
        print(f"{step:>6}  " + "   ".join(f"{f:7.2f} N {t:6.3f} N·m" for f, t in sizes.tolist()))
    scene.close()


if __name__ == "__main__":
    main()
