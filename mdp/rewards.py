# SPDX-License-Identifier: Apache-2.0
"""Reward terms: ``f(env, **params) -> (E,)`` float32.

The reward manager multiplies each value by the term's weight and by the environment's step time, so penalties
are positive here and get a negative weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from forcelab.managers import SceneEntityCfg
from forcelab.physics.quaternions import quat_apply

from ._util import ROBOT, Env, select, step_normal_force, table, wrap_to_pi, wrench_and_limits


def _sum_square(x: torch.Tensor) -> torch.Tensor:
    return torch.square(x).sum(dim=1)


def _peak_forces(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Greatest net contact force within the sensor's history per selected body, N. (E, n)"""
    forces = select(env.scene[sensor_cfg.name].data.net_forces_w_history, 2, sensor_cfg.body_ids)
    return torch.linalg.vector_norm(forces, dim=-1).amax(dim=1)


def _planar_speed(env: Env, command_name: str) -> torch.Tensor:
    """Norm of the command's first two columns, m/s. (E,)"""
    return torch.linalg.vector_norm(env.command_manager.get_command(command_name)[:, :2], dim=1)


# -- general


def is_alive(env: Env) -> torch.Tensor:
    """1 while the episode goes on or is cut by a time limit, 0 when it terminates. (E,)"""
    return (~env.termination_manager.terminated).float()


def is_terminated(env: Env) -> torch.Tensor:
    """1 when the episode terminates for a reason other than a time limit. (E,)"""
    return env.termination_manager.terminated.float()


# -- root


def track_lin_vel_xy_exp(
    env: Env, std: float, command_name: str, asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """exp(-|c_xy - v_xy|² / std²): planar velocity in the root frame against the command, m/s. (E,)"""
    command = env.command_manager.get_command(command_name)
    error = _sum_square(command[:, :2] - env.scene[asset_cfg.name].data.root_lin_vel_b[:, :2])
    return torch.exp(error / -(std * std))


def track_ang_vel_z_exp(
    env: Env, std: float, command_name: str, asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """exp(-(c_z - w_z)² / std²): yaw rate in the root frame against the command, rad/s. (E,)"""
    command = env.command_manager.get_command(command_name)
    error = torch.square(command[:, 2] - env.scene[asset_cfg.name].data.root_ang_vel_b[:, 2])
    return torch.exp(error / -(std * std))


def lin_vel_z_l2(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """v_z² in the root frame, (m/s)². (E,)"""
    return torch.square(env.scene[asset_cfg.name].data.root_lin_vel_b[:, 2])


def ang_vel_xy_l2(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """w_x² + w_y² in the root frame, (rad/s)². (E,)"""
    return _sum_square(env.scene[asset_cfg.name].data.root_ang_vel_b[:, :2])


def flat_orientation_l2(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """g_x² + g_y² of the unit gravity vector in the root frame: sin² of the tilt. (E,)"""
    return _sum_square(env.scene[asset_cfg.name].data.projected_gravity_b[:, :2])


def forward_velocity(
    env: Env, max_speed: float = float("inf"), asset_cfg: SceneEntityCfg = ROBOT
) -> torch.Tensor:
    """Velocity of the root along the world's x axis, m/s; more than ``max_speed`` counts as that. (E,)"""
    return env.scene[asset_cfg.name].data.root_lin_vel_w[:, 0].clamp(max=max_speed)


def lin_vel_y_l2(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Squared velocity of the root along the world's y axis, (m/s)². (E,)"""
    return env.scene[asset_cfg.name].data.root_lin_vel_w[:, 1].square()


def heading_l2(env: Env, target_heading: float = 0.0, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Squared angle between the root's heading and ``target_heading`` (from the world's x axis), rad². (E,)"""
    return wrap_to_pi(env.scene[asset_cfg.name].data.heading_w - target_heading).square()


def base_height_l2(env: Env, target_height: float, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """(z - target_height)² of the root, z above its environment's origin, m². For even ground. (E,)"""
    height = env.scene[asset_cfg.name].data.root_pos_w[:, 2] - env.scene.env_origins[:, 2]
    return torch.square(height - target_height)


# -- joints


def joint_torques_l2(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum of squared applied efforts over the selected joints, (N·m)². (E,)"""
    return _sum_square(env.scene[asset_cfg.name].data.applied_torque[:, asset_cfg.joint_ids])


def joint_power_l1(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum of the mechanical power of the selected joints without regard to sign, Σ|τ·q̇|, W. (E,)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return (data.applied_torque[:, ids] * data.joint_vel[:, ids]).abs().sum(dim=1)


def joint_vel_l1(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum of absolute velocities over the selected joints, rad/s. (E,)"""
    return env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids].abs().sum(dim=1)


def joint_vel_l2(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum of squared velocities over the selected joints, (rad/s)². (E,)"""
    return _sum_square(env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids])


def joint_acc_l2(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum of squared accelerations over the selected joints, (rad/s²)². (E,)"""
    return _sum_square(env.scene[asset_cfg.name].data.joint_acc[:, asset_cfg.joint_ids])


def joint_deviation_l1(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum of |position - default| over the selected joints, rad. (E,)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return (data.joint_pos[:, ids] - data.default_joint_pos[:, ids]).abs().sum(dim=1)


def stand_still_joint_deviation_l1(
    env: Env,
    command_name: str,
    command_threshold: float = 0.06,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> torch.Tensor:
    """:func:`joint_deviation_l1` while the planar command is below ``command_threshold`` (m/s). (E,)"""
    return joint_deviation_l1(env, asset_cfg) * (_planar_speed(env, command_name) < command_threshold)


def joint_pos_limits(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum over the selected joints of how far each is outside its soft position limits, rad. (E,)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    position, limits = data.joint_pos[:, ids], data.soft_joint_pos_limits[:, ids]
    return (position - torch.clamp(position, limits[..., 0], limits[..., 1])).abs().sum(dim=1)


def joint_vel_limits(env: Env, soft_ratio: float, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum over the selected joints of clip(|velocity| - soft_ratio · limit, 0, 1), rad/s. (E,)

    The cut at 1 keeps one runaway joint from drowning every other reward.
    """
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    excess = data.joint_vel[:, ids].abs() - data.joint_vel_limits[:, ids] * soft_ratio
    return excess.clamp_(0.0, 1.0).sum(dim=1)


def applied_torque_limits(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sum over the selected joints of the effort that the limits cut off, |computed - applied|, N·m. (E,)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return (data.applied_torque[:, ids] - data.computed_torque[:, ids]).abs().sum(dim=1)


# -- actions


def action_rate_l2(env: Env) -> torch.Tensor:
    """Sum of squared differences between this action and the one before. (E,)"""
    return _sum_square(env.action_manager.action - env.action_manager.prev_action)


def action_l2(env: Env) -> torch.Tensor:
    """Sum of squared actions. (E,)"""
    return _sum_square(env.action_manager.action)


# -- contacts


def undesired_contacts(env: Env, threshold: float, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Number of selected bodies that feel, or felt within the history, more than ``threshold`` (N). (E,)"""
    return (_peak_forces(env, sensor_cfg) > threshold).sum(dim=1, dtype=torch.float32)


def desired_contacts(env: Env, sensor_cfg: SceneEntityCfg, threshold: float = 1.0) -> torch.Tensor:
    """1 when NONE of the selected bodies feels, or felt within the history, more than ``threshold`` (N). (E,)

    A penalty for standing on nothing; give it a negative weight.
    """
    return (_peak_forces(env, sensor_cfg).amax(dim=1) <= threshold).float()


def contact_forces(env: Env, threshold: float, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Sum over the selected bodies of max(peak force - threshold, 0), N; peak within the history. (E,)"""
    return (_peak_forces(env, sensor_cfg) - threshold).clamp_(min=0.0).sum(dim=1)


def feet_air_time(
    env: Env, command_name: str | None, sensor_cfg: SceneEntityCfg, threshold: float
) -> torch.Tensor:
    """Sum over the feet that land in this step of (air time - threshold), s. (E,)

    0 while the planar command is 0.1 m/s or less; without a command (None) landings always count. Short steps give
    negative values. The sensor needs ``track_air_time``.
    """
    sensor, ids = env.scene[sensor_cfg.name], sensor_cfg.body_ids
    landed = sensor.compute_first_contact(env.step_dt)[:, ids]
    gain = ((sensor.data.last_air_time[:, ids] - threshold) * landed).sum(dim=1)
    return gain if command_name is None else gain * (_planar_speed(env, command_name) > 0.1)


def feet_air_time_positive_biped(
    env: Env, command_name: str, threshold: float, sensor_cfg: SceneEntityCfg
) -> torch.Tensor:
    """While one foot alone stands: time that all have kept their mode, at most ``threshold``, s. (E,)

    0 while the planar command is 0.1 m/s or less. The sensor needs ``track_air_time``.
    """
    data, ids = env.scene[sensor_cfg.name].data, sensor_cfg.body_ids
    air_time, contact_time = data.current_air_time[:, ids], data.current_contact_time[:, ids]
    stands = contact_time > 0.0
    mode_time = torch.where(stands, contact_time, air_time).amin(dim=1)
    rewarded = (stands.sum(dim=1) == 1) & (_planar_speed(env, command_name) > 0.1)
    return mode_time.clamp_(max=threshold) * rewarded


def feet_gait(
    env: Env,
    command_name: str | None,
    sensor_cfg: SceneEntityCfg,
    std: float = 0.2,
    max_error: float = 0.2,
    command_threshold: float = 0.1,
) -> torch.Tensor:
    """How well two pairs of feet step in turn, 0 to 1. (E,)

    The first two selected feet form one pair, the last two the other (with ``preserve_order``): diagonal pairs
    make a trot. With air time a and contact time c of the present modes (s), errors e² are (aᵢ - aⱼ)² +
    (cᵢ - cⱼ)² within a pair and (aᵢ - cⱼ)² + (cᵢ - aⱼ)² across pairs, each square cut at ``max_error``²; the
    value is exp(-mean over the six combinations of e² / std²). 1 while the command's norm is
    ``command_threshold`` or less; without a command (None) the feet always have to step. The sensor needs
    ``track_air_time``.
    """
    data, ids = env.scene[sensor_cfg.name].data, sensor_cfg.body_ids
    air, contact = data.current_air_time[:, ids], data.current_contact_time[:, ids]
    if air.shape[1] != 4:
        raise ValueError(
            f"feet_gait: sensor_cfg selects {air.shape[1]} bodies of {sensor_cfg.name!r}; it needs 4 feet."
        )
    cut = max_error**2

    def square(x: torch.Tensor) -> torch.Tensor:
        return torch.square(x).clamp_(max=cut).sum(dim=1)

    within = square(air[:, 0::2] - air[:, 1::2]) + square(contact[:, 0::2] - contact[:, 1::2])
    # Feet (0, 1) against (2, 3) and against (3, 2): all four combinations across the pairs.
    first_air, first_contact = air[:, :2].repeat(1, 2), contact[:, :2].repeat(1, 2)
    other = torch.cat((air[:, 2:], air[:, 2:].flip(1)), dim=1)
    other_contact = torch.cat((contact[:, 2:], contact[:, 2:].flip(1)), dim=1)
    across = square(first_air - other_contact) + square(first_contact - other)
    value = torch.exp(-(within + across) / (6.0 * std**2))
    if command_name is None:
        return value
    moving = (
        torch.linalg.vector_norm(env.command_manager.get_command(command_name), dim=1) > command_threshold
    )
    return torch.where(moving, value, 1.0)


def feet_slide(
    env: Env,
    sensor_cfg: SceneEntityCfg,
    asset_cfg: SceneEntityCfg = ROBOT,
    threshold: float = 1.0,
) -> torch.Tensor:
    """Sum of the planar speeds (world frame, m/s) of the selected bodies that are in contact. (E,)

    In contact: a peak force above ``threshold`` (N) within the sensor's history. ``sensor_cfg`` and
        ``asset_cfg``
    select the same bodies in the same order, otherwise this raises ValueError.
    """
    touching = _peak_forces(env, sensor_cfg) > threshold
    velocity = env.scene[asset_cfg.name].data.body_lin_vel_w[:, asset_cfg.body_ids, :2]
    if velocity.shape[1] != touching.shape[1]:
        raise ValueError(
            f"feet_slide: sensor_cfg selects {touching.shape[1]} bodies of {sensor_cfg.name!r}, asset_cfg "
            f"{velocity.shape[1]} of {asset_cfg.name!r}. Give both the same body_names."
        )
    return (torch.linalg.vector_norm(velocity, dim=-1) * touching).sum(dim=1)


# -- pressing and sliding


def track_normal_force_exp(
    env: Env, command_name: str, sensor_cfg: SceneEntityCfg, std: float
) -> torch.Tensor:
    """exp(-((f - c) / c)² / std²): normal force against the command's first column c, N. (E,)

    f is the force between the sensor's body and its filter partners, averaged over the environment step; the sensor
    needs filters and a history over one step.
    """
    command = env.command_manager.get_command(command_name)[:, 0]
    error = (step_normal_force(env, sensor_cfg) - command) / command
    return torch.exp(torch.square(error) / -(std * std))


def normal_force_error(
    env: Env, command_name: str, sensor_cfg: SceneEntityCfg, max_error: float = 2.0
) -> torch.Tensor:
    """|f - c| / c, at most ``max_error``, with f and c as in :func:`track_normal_force_exp`. (E,)"""
    command = env.command_manager.get_command(command_name)[:, 0]
    error = (step_normal_force(env, sensor_cfg) - command) / command
    return error.abs().clamp(max=max_error)


def track_target_point_exp(env: Env, command_name: str, std: float) -> torch.Tensor:
    """exp(-d² / std²), d the planar distance (m) of a :class:`forcelab.mdp.SlidingPressCommand`'s point from its
    target. (E,)"""
    return torch.exp(_sum_square(env.command_manager.get_term(command_name).offset()) / -(std * std))


def track_target_velocity_exp(env: Env, command_name: str, std: float) -> torch.Tensor:
    """exp(-|v - c|² / std²), planar velocities (m/s) of a :class:`forcelab.mdp.SlidingPressCommand`'s point and
    target. (E,)"""
    term = env.command_manager.get_term(command_name)
    return torch.exp(_sum_square(term.target_vel - term.point()[1][:, :2]) / -(std * std))


def body_axis_deviation_l2(
    env: Env,
    axis: Sequence[float] = (0.0, 0.0, 1.0),
    direction: Sequence[float] = (0.0, 0.0, 1.0),
    asset_cfg: SceneEntityCfg = ROBOT,
) -> torch.Tensor:
    """Sum over the selected bodies of |a - d|², a the body's ``axis`` in the world frame, d the ``direction``. (E,)

    Both are unit vectors; for a small angle it is the angle squared, 4 for opposite vectors.
    """
    vectors = table((axis, direction), env.device)
    actual = quat_apply(env.scene[asset_cfg.name].data.body_quat_w[:, asset_cfg.body_ids], vectors[0])
    return torch.square(actual - vectors[1]).sum(dim=(1, 2))


# -- joint wrenches


def joint_wrench_limits(
    env: Env,
    sensor_cfg: SceneEntityCfg,
    force_limit: float | None = None,
    torque_limit: float | None = None,
) -> torch.Tensor:
    """How far the wrenches of the selected joints lie above their limits, as a share of the limits. (E,)

    Σ max(0, |F|/F_max - 1) + Σ max(0, |T|/T_max - 1).

    Args:
        env: The environment.
        sensor_cfg: A joint wrench sensor and its bodies.
        force_limit: F_max, N; None: forces are not limited.
        torque_limit: T_max, N·m; None: torques are not limited.

    Raises:
        ValueError: No limit is given, or one is not above 0.
    """
    total = torch.zeros(env.num_envs, device=env.device)
    for vector, limit in wrench_and_limits(env, sensor_cfg, force_limit, torque_limit):
        total = total + (torch.linalg.vector_norm(vector, dim=-1) / limit - 1.0).clamp(min=0.0).sum(dim=1)
    return total
