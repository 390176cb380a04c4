# SPDX-License-Identifier: Apache-2.0
"""Observation terms: ``f(env, **params) -> (E, n)`` float32.

Terms return views where they can; the observation manager copies before it changes anything.
"""

from __future__ import annotations

import torch

from forcelab.managers import SceneEntityCfg

from ._util import ROBOT, Env, quat_apply_inverse

# -- root state


def base_pos_z(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Height of the root in the world frame, m. (E, 1)"""
    return env.scene[asset_cfg.name].data.root_pos_w[:, 2:3]


def base_lin_vel(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Linear velocity of the root in the root frame, m/s. (E, 3)"""
    return env.scene[asset_cfg.name].data.root_lin_vel_b


def base_ang_vel(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Angular velocity of the root in the root frame, rad/s. (E, 3)"""
    return env.scene[asset_cfg.name].data.root_ang_vel_b


def projected_gravity(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Unit vector of gravity in the root frame; (0, 0, -1) when upright. (E, 3)"""
    return env.scene[asset_cfg.name].data.projected_gravity_b


def root_pos_w(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Position of the root, world axes, relative to its environment's origin, m. (E, 3)"""
    return env.scene[asset_cfg.name].data.root_pos_w - env.scene.env_origins


def root_quat_w(env: Env, make_quat_unique: bool = False, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Orientation of the root in the world frame, quaternion xyzw. (E, 4)

    ``make_quat_unique`` turns the sign so that w is never negative (q and -q are the same rotation).
    """
    quat = env.scene[asset_cfg.name].data.root_quat_w
    return torch.where(quat[:, 3:] < 0.0, -quat, quat) if make_quat_unique else quat


def root_lin_vel_w(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Linear velocity of the root in the world frame, m/s. (E, 3)"""
    return env.scene[asset_cfg.name].data.root_lin_vel_w


def root_ang_vel_w(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Angular velocity of the root in the world frame, rad/s. (E, 3)"""
    return env.scene[asset_cfg.name].data.root_ang_vel_w


def body_pose_w(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Poses of the selected bodies: position relative to the environment's origin, m, then xyzw. (E, 7·n)"""
    pose = env.scene[asset_cfg.name].data.body_pose_w[:, asset_cfg.body_ids]
    position = pose[..., :3] - env.scene.env_origins[:, None]
    return torch.cat((position, pose[..., 3:]), dim=-1).flatten(1)


# -- joints


def joint_pos(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Positions of the selected joints, rad or m. (E, n)"""
    return env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids]


def joint_pos_rel(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Positions of the selected joints minus their defaults, rad or m. (E, n)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return data.joint_pos[:, ids] - data.default_joint_pos[:, ids]


def joint_pos_limit_normalized(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Positions of the selected joints, -1 at the lower and 1 at the upper soft limit. (E, n)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    lower, upper = data.soft_joint_pos_limits[:, ids].unbind(-1)
    return (2.0 * data.joint_pos[:, ids] - lower - upper) / (upper - lower)


def joint_vel(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Velocities of the selected joints, rad/s or m/s. (E, n)"""
    return env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids]


def joint_vel_rel(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Velocities of the selected joints minus their defaults, rad/s or m/s. (E, n)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return data.joint_vel[:, ids] - data.default_joint_vel[:, ids]


def joint_effort(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Efforts that the actuators apply to the selected joints, N·m or N. (E, n)"""
    return env.scene[asset_cfg.name].data.applied_torque[:, asset_cfg.joint_ids]


# -- forces


def body_contact_forces(env: Env, sensor_cfg: SceneEntityCfg, in_root_frame: bool = False) -> torch.Tensor:
    """Net contact forces on the selected sensor bodies, N: x, y, z of each body in turn. (E, 3·n)

    Args:
        env: The environment.
        sensor_cfg: A contact sensor and its bodies.
        in_root_frame: Rotate from the world frame into the root frame of the scene's "robot".
    """
    forces = env.scene[sensor_cfg.name].data.net_forces_w[:, sensor_cfg.body_ids]
    if in_root_frame:
        forces = quat_apply_inverse(env.scene["robot"].data.root_quat_w[:, None], forces)
    return forces.flatten(1)


def body_contact_force_norm(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Magnitude of the net contact force on each selected sensor body, N. (E, n)"""
    forces = env.scene[sensor_cfg.name].data.net_forces_w[:, sensor_cfg.body_ids]
    return torch.linalg.vector_norm(forces, dim=-1)


def body_contact_force_matrix(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Contact forces of each selected sensor body with each filter column, N. (E, n·F·3)

    The sensor needs ``filter_prim_paths_expr`` (or shape filters); without them this raises ValueError.
    """
    matrix = env.scene[sensor_cfg.name].data.force_matrix_w
    if matrix is None:
        raise ValueError(
            f"body_contact_force_matrix: sensor {sensor_cfg.name!r} has no filters and so no force matrix. "
            "Set its filter_prim_paths_expr."
        )
    return matrix[:, sensor_cfg.body_ids].flatten(1)


def body_in_contact(env: Env, sensor_cfg: SceneEntityCfg, threshold: float = 1.0) -> torch.Tensor:
    """1 where the net contact force on a sensor body exceeds ``threshold`` (N), else 0. (E, n)"""
    return (body_contact_force_norm(env, sensor_cfg) > threshold).float()


def body_air_time(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Time since each selected sensor body left the ground, s; 0 in contact. (E, n)"""
    return env.scene[sensor_cfg.name].data.current_air_time[:, sensor_cfg.body_ids]


def body_contact_time(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Time since each selected sensor body touched down, s; 0 in the air. (E, n)"""
    return env.scene[sensor_cfg.name].data.current_contact_time[:, sensor_cfg.body_ids]


def body_incoming_wrench(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Wrench that each selected body's joint applies to it. (E, 6·n)

    Per body the force (N), then the torque (N·m), in the child-side joint frame. ``sensor_cfg`` names a joint
    wrench sensor and its bodies. Raises RuntimeError before the simulation has started.
    """
    data = env.scene[sensor_cfg.name].data
    force, torque = data.force, data.torque
    if force is None or torque is None:
        raise RuntimeError(
            f"body_incoming_wrench: joint wrench sensor {sensor_cfg.name!r} has no data before the "
            "simulation starts."
        )
    ids = sensor_cfg.body_ids
    return torch.cat((force[:, ids], torque[:, ids]), dim=-1).flatten(1)


# -- actions, commands, time


def last_action(env: Env, action_name: str | None = None) -> torch.Tensor:
    """The policy's last action as it was given, of one action term or (None) of all. (E, n)"""
    if action_name is None:
        return env.action_manager.action
    return env.action_manager.get_term(action_name).raw_actions


def generated_commands(env: Env, command_name: str) -> torch.Tensor:
    """The command of the named command term. (E, n)"""
    return env.command_manager.get_command(command_name)


def current_time_s(env: Env) -> torch.Tensor:
    """Time since the episode began, s. (E, 1)"""
    return (env.episode_length_buf * env.step_dt)[:, None]


def remaining_time_s(env: Env) -> torch.Tensor:
    """Time until the episode's time limit, s. (E, 1)"""
    return (env.max_episode_length_s - env.episode_length_buf * env.step_dt)[:, None]
