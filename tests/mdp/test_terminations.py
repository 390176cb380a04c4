# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from forcelab import mdp


def test_time_out(quadruped: Any) -> None:
    quadruped.episode_length_buf[:] = torch.tensor([0, 999, 1000, 1001])
    assert mdp.time_out(quadruped).tolist() == [False, False, True, True]


@pytest.mark.parametrize("limit", [0.5, 2.0])
def test_bad_orientation(quadruped: Any, limit: float) -> None:
    robot = quadruped.scene["robot"]
    pose = robot.data.default_root_pose.clone()
    for env, (axis, angle) in enumerate([(0, limit - 0.01), (0, limit + 0.01), (1, -limit - 0.01), (2, 3.0)]):
        pose[env, 3:] = 0.0
        pose[env, 3 + axis], pose[env, 6] = math.sin(angle / 2), math.cos(angle / 2)
    robot.write_root_pose(pose)
    expected = [False, True, True, False]  # a turn about the vertical is no tilt
    assert mdp.bad_orientation(quadruped, limit_angle=limit).tolist() == expected
    assert mdp.bad_orientation(quadruped, limit_angle=torch.tensor(limit)).tolist() == expected


def test_root_height(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    pose = robot.data.default_root_pose.clone()
    pose[:, 2] = torch.tensor([0.1, 0.29, 0.31, 1.0])
    robot.write_root_pose(pose)
    assert mdp.root_height_below_minimum(quadruped, minimum_height=0.3).tolist() == [True, True, False, False]


def test_joint_limits(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    pos, vel = robot.data.default_joint_pos.clone(), torch.zeros(4, 12)
    pos[1, 1] = robot.data.soft_joint_pos_limits[1, 1, 0] - 0.01
    pos[2, 2] = robot.data.soft_joint_pos_limits[2, 2, 1] + 0.01
    vel[3, 2], vel[0, 1] = -6.0, 4.0
    robot.write_joint_state(pos, vel)
    assert mdp.joint_pos_out_of_limit(quadruped).tolist() == [False, True, True, False]
    hips = quadruped.entity("robot", joint_names=".*_HFE")
    assert mdp.joint_pos_out_of_limit(quadruped, asset_cfg=hips).tolist() == [False, True, False, False]
    got = mdp.joint_pos_out_of_manual_limit(quadruped, bounds=(-1.0, 1.0), asset_cfg=hips)
    assert got.tolist() == [False, True, False, False]
    assert mdp.joint_vel_out_of_limit(quadruped).tolist() == [False] * 4
    assert mdp.joint_vel_out_of_manual_limit(quadruped, max_velocity=5.0).tolist() == [
        False,
        False,
        False,
        True,
    ]
    robot.data.joint_vel_limits[:, 1] = 3.0
    try:
        assert mdp.joint_vel_out_of_limit(quadruped).tolist() == [True, False, False, False]
    finally:
        robot.data.joint_vel_limits[:, 1] = robot.data.joint_vel_limits[0, 0]


def test_illegal_contact_of_the_base(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    pose = robot.data.default_root_pose.clone()
    pose[2, 2] = 0.2
    pose[2, 3:] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # on its back
    robot.write_root_pose(pose)
    base = quadruped.entity("touch", body_names="base")
    assert mdp.illegal_contact(quadruped, threshold=1.0, sensor_cfg=base).tolist() == [False] * 4
    seen = torch.zeros(4, dtype=torch.bool)
    for _ in range(50):
        quadruped.step()
        seen |= mdp.illegal_contact(quadruped, threshold=1.0, sensor_cfg=base)
    assert seen.tolist() == [False, False, True, False]
