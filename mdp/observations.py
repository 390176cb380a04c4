# SPDX-License-Identifier: Apache-2.0
"""Observation terms: ``f(env, **params) -> (E, n)`` float32.

Terms return views where they can; the observation manager copies before it changes anything.
"""

from __future__ import annotations

import torch

from forcelab.managers import SceneEntityCfg
from forcelab.physics.quaternions import quat_apply_inverse

from ._util import ROBOT, Env, joint_wrench

# -- root state


def base_pos_z(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Height of the root above its environment's origin, m. (E, 1)"""
    return env.scene[asset_cfg.name].data.root_pos_w[:, 2:3] - env.scene.env_origins[:, 2:3]


def base_lin_vel(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Linear velocity of the root in the root frame, m/s. (E, 3)"""
    return env.scene[asset_cfg.name].data.root_lin_vel_b


def base_ang_vel(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Angular velocity of the root in the root frame, rad/s. (E, 3)"""
    return env.scene[asset_cfg.name].data.root_ang_vel_b


def projected_gravity(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Unit vector of gravity in the root frame; (0, 0, -1) when upright. (E, 3)"""
    return env.scene[asset_cfg.name].data.projected_gravity_b


def base_heading(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Cosine and sine of the root's heading from the world's x axis. (E, 2)"""
    heading = env.scene[asset_cfg.name].data.heading_w
    return torch.stack((heading.cos(), heading.sin()), dim=1)


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


def body_friction(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Sliding friction coefficients of the selected bodies. (E, n)"""
    return env.scene[asset_cfg.name].data.body_friction[:, asset_cfg.body_ids]


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


def joint_pos_target_lead(env: Env, asset_cfg: SceneEntityCfg = ROBOT) -> torch.Tensor:
    """Position targets of the selected joints minus their positions, rad or m. (E, n)"""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return data.joint_pos_target[:, ids] - data.joint_pos[:, ids]


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


def body_incoming_wrench(
    env: Env, sensor_cfg: SceneEntityCfg, frame: str = "sensor", filtered: bool = False
) -> torch.Tensor:
    """Wrench that each selected body's joint applies to it. (E, 6·n)

    Per body the force (N), then the torque (N·m) about the child-side joint anchor.

    Args:
        env: The environment.
        sensor_cfg: A joint wrench sensor and its bodies.
        frame: Axes: "sensor": the child-side joint frame, as the sensor reports; "body": the child body's
            frame; "world".
        filtered: What the sensor's low-pass filter lets pass; needs its ``cutoff_frequency``.

    Raises:
        RuntimeError: The simulation has not started.
        ValueError: Unknown frame, or the sensor has no filter.
    """
    return torch.cat(joint_wrench(env, sensor_cfg, frame, filtered), dim=-1).flatten(1)


# -- other sensors


def height_scan(env: Env, sensor_cfg: SceneEntityCfg, offset: float = 0.5) -> torch.Tensor:
    """How far below the body that carries a ray caster each ray meets the ground, minus ``offset``, m. (E, R)

    A ray that meets nothing within the sensor's ``max_distance`` counts as that far below.
    """
    sensor = env.scene[sensor_cfg.name]
    data = sensor.data
    below = data.pos_w[:, 2:3] - data.ray_hits_w[..., 2]
    return torch.where(torch.isinf(below), sensor.cfg.max_distance, below) - offset


def imu_lin_acc(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Linear acceleration that an IMU reads, its gravity bias included, sensor frame, m/s². (E, 3)"""
    return env.scene[sensor_cfg.name].data.lin_acc_b


def imu_ang_vel(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Angular velocity that an IMU reads, sensor frame, rad/s. (E, 3)"""
    return env.scene[sensor_cfg.name].data.ang_vel_b


def imu_projected_gravity(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Unit vector of gravity in an IMU's frame; (0, 0, -1) when upright. (E, 3)"""
    return env.scene[sensor_cfg.name].data.projected_gravity_b


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
