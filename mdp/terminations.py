# SPDX-License-Identifier: Apache-2.0
"""Termination terms: ``f(env, **params) -> (E,)`` bool."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from forcelab.managers import SceneEntityCfg

from ._util import ROBOT, Env, body_point, select, table, wrench_and_limits

# -- time and commands


def time_out(env: Env) -> torch.Tensor:
    """The episode has reached its greatest length. (E,)"""
    return env.episode_length_buf >= env.max_episode_length


def command_resample(env: Env, command_name: str, num_resamples: int = 1) -> torch.Tensor:
    """The command has been drawn ``num_resamples`` times and its time ends with this step. (E,)"""
    command = env.command_manager.get_term(command_name)
    # This step still has to be taken off; a command's time is over with half a step left.
    return (command.time_left <= 1.5 * env.step_dt) & (command.command_counter == num_resamples)


# -- root


def bad_orientation(env: Env, limit_angle: float, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """The root's z axis is tilted from the vertical by more than ``limit_angle`` (rad). (E,)"""
    # The angle is acos(-g_z); comparing cosines saves the acos and its rounding outside [-1, 1].
    cos = torch.cos(limit_angle) if isinstance(limit_angle, torch.Tensor) else math.cos(limit_angle)
    return env.scene[asset_cfg.name].data.projected_gravity_b[:, 2] > -cos


def root_height_below_minimum(
    env: Env, minimum_height: float, asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """The root is lower than ``minimum_height``, m above its environment's origin. For even ground. (E,)"""
    return env.scene[asset_cfg.name].data.root_pos_w[:, 2] - env.scene.env_origins[:, 2] < minimum_height


def body_pos_out_of_bounds(
    env: Env,
    lower: Sequence[float],
    upper: Sequence[float],
    point: Sequence[float] = (0.0, 0.0, 0.0),
    asset_cfg: SceneEntityCfg = ROBOT,
) -> torch.Tensor:
    """A point of the selected body is outside a box. (E,)

    Args:
        env: The environment.
        lower, upper: Corners of the box relative to the environment's origin, world axes, m.
        point: In the body's frame, m.
        asset_cfg: The asset and its body; of several the first counts.
    """
    vectors = table((lower, upper, point), env.device)
    position, _, _ = body_point(env, asset_cfg, vectors[2])
    return ((position < vectors[0]) | (position > vectors[1])).any(dim=1)


# -- joints


def joint_pos_out_of_limit(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """A selected joint is outside its soft position limits. (E,)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    position, limits = data.joint_pos[:, ids], data.soft_joint_pos_limits[:, ids]
    return ((position < limits[..., 0]) | (position > limits[..., 1])).any(dim=1)


def joint_pos_out_of_manual_limit(
    env: Env, bounds: Sequence[float], asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """A selected joint is outside ``bounds`` = (lower, upper), rad or m. (E,)"""
    position = env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids]
    return ((position < bounds[0]) | (position > bounds[1])).any(dim=1)


def joint_vel_out_of_limit(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """A selected joint is faster than its velocity limit. (E,)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return (data.joint_vel[:, ids].abs() > data.joint_vel_limits[:, ids]).any(dim=1)


def joint_vel_out_of_manual_limit(
    env: Env, max_velocity: float, asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """A selected joint is faster than ``max_velocity``, rad/s or m/s. (E,)"""
    return (env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids].abs() > max_velocity).any(dim=1)


def joint_effort_out_of_limit(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """A selected joint's actuator asks for more effort than its limit lets through. (E,)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    computed, applied = data.computed_torque[:, ids], data.applied_torque[:, ids]
    # The two are equal unless the limit cut; the margin is for rounding only.
    return ((computed - applied).abs() > 1.0e-5 * computed.abs() + 1.0e-6).any(dim=1)


# -- contacts


def illegal_contact(env: Env, threshold: float, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """A selected sensor body feels, or felt within the sensor's history, more than ``threshold`` (N). (E,)"""
    forces = select(env.scene[sensor_cfg.name].data.net_forces_w_history, 2, sensor_cfg.body_ids)
    return torch.linalg.vector_norm(forces, dim=-1).amax(dim=(1, 2)) > threshold


def joint_wrench_out_of_limit(
    env: Env,
    sensor_cfg: SceneEntityCfg,
    force_limit: float | None = None,
    torque_limit: float | None = None,
) -> torch.Tensor:
    """The force (N) or torque (N·m) of any selected joint exceeds its limit in norm. (E,)

    ``sensor_cfg`` names a joint wrench sensor and its bodies. Raises ValueError when no limit is given or one is
    not above 0.
    """
    exceeded = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    for vector, limit in wrench_and_limits(env, sensor_cfg, force_limit, torque_limit):
        exceeded = exceeded | (torch.linalg.vector_norm(vector, dim=-1) > limit).any(dim=1)
    return exceeded
