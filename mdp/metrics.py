# SPDX-License-Identifier: Apache-2.0
"""Metrics terms: ``f(env, **params) -> (E,)``, logged as ``Metrics/<name>``; they influence nothing."""

from __future__ import annotations

import torch

from forcelab.managers import SceneEntityCfg

from ._util import ROBOT, Env


def error_vel_xy(
    env: Env, command_name: str = "base_velocity", asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """Distance between commanded and actual planar velocity in the root frame, m/s. (E,)"""
    command = env.command_manager.get_command(command_name)
    return torch.linalg.vector_norm(
        command[:, :2] - env.scene[asset_cfg.name].data.root_lin_vel_b[:, :2], dim=1
    )


def error_vel_yaw(
    env: Env, command_name: str = "base_velocity", asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """|commanded - actual| yaw rate in the root frame, rad/s. (E,)"""
    command = env.command_manager.get_command(command_name)
    return (command[:, 2] - env.scene[asset_cfg.name].data.root_ang_vel_b[:, 2]).abs()
