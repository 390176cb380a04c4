# SPDX-License-Identifier: Apache-2.0
"""Event terms: ``f(env, env_mask, **params)``; they change the simulation of the environments in the mask.

``env_mask`` is a bool tensor (E,), or None for all environments. Every draw has one fixed size, for all
environments; the mask decides where it is written. Ranges are pairs of numbers, or device tensors that may
change at run time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from forcelab.managers import EventTermCfg, ManagerTermBase, SceneEntityCfg
from forcelab.physics.launch import launch

from . import event_kernels
from ._util import (
    ROBOT,
    Env,
    PoseRanges,
    Range,
    combine,
    draw,
    pose_bounds,
    range_bounds,
    uniform,
    where_env,
)

# -- resets


def reset_scene_to_default(env: Env, env_mask: torch.Tensor | None) -> None:
    """Put every articulation and rigid object back to its default state: pose, velocity, joints, commands.

    External wrenches become 0.
    """
    for asset in (*env.scene.articulations.values(), *env.scene.rigid_objects.values()):
        asset.reset(env_mask)


def reset_root_state_uniform(
    env: Env,
    env_mask: torch.Tensor | None,
    pose_range: PoseRanges,
    velocity_range: PoseRanges,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Default root pose and velocity plus a uniform draw.

    Args:
        env: The environment.
        env_mask: Chosen environments.
        pose_range: {x, y, z: (lo, hi) m in the world frame; roll, pitch, yaw: (lo, hi) rad, a rotation
            applied in the default pose's own frame}. Absent keys are 0.
        velocity_range: The same keys, m/s and rad/s in the world frame; not used for a root that is fixed to
            the world.
        asset_cfg: The asset.
    """
    asset = env.scene[asset_cfg.name]
    data, device, count = asset.data, env.device, env.num_envs
    bounds = [
        pose_bounds(r, n, device) for r, n in ((pose_range, "pose_range"), (velocity_range, "velocity_range"))
    ]
    default = [data.default_root_pose.torch, data.default_root_vel.torch]
    pose, velocity = torch.empty(count, 7, device=device), torch.empty(count, 6, device=device)
    draw = torch.rand(count, 12, device=device)
    launch(env.scene.engine, event_kernels.root_state, count, [draw, *bounds, *default, pose, velocity])
    asset.write_root_pose(pose, env_mask=env_mask)
    if not asset.is_fixed_base:
        asset.write_root_velocity(velocity, env_mask=env_mask)


def _reset_joints(
    env: Env,
    env_mask: torch.Tensor | None,
    asset_cfg: SceneEntityCfg,
    position_range: Range,
    velocity_range: Range,
    scales: bool,
) -> None:
    """Selected joints to default plus or times a draw, cut to their soft position and their velocity limits."""
    asset, ids = env.scene[asset_cfg.name], asset_cfg.joint_ids
    data, device = asset.data, env.device
    limits = data.soft_joint_pos_limits[:, ids], data.joint_vel_limits[:, ids]
    default = data.default_joint_pos[:, ids], data.default_joint_vel[:, ids]
    bounds = range_bounds(position_range, device), range_bounds(velocity_range, device)
    pos, vel = torch.empty_like(default[0]), torch.empty_like(default[1])
    draw = torch.rand(pos.shape[0], 2 * pos.shape[1], device=device)
    arguments = [draw, int(scales), *bounds, *default, *limits, pos, vel]
    launch(env.scene.engine, event_kernels.joint_state, env.num_envs, arguments)
    asset.write_joint_state(pos, vel, env_mask=env_mask, joint_ids=ids)


def reset_joints_by_scale(
    env: Env,
    env_mask: torch.Tensor | None,
    position_range: Range,
    velocity_range: Range,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Selected joints to default · uniform factor, cut to the limits.

    Joints that ``asset_cfg`` does not select stay as they are.
    """
    _reset_joints(env, env_mask, asset_cfg, position_range, velocity_range, scales=True)


def reset_joints_by_offset(
    env: Env,
    env_mask: torch.Tensor | None,
    position_range: Range,
    velocity_range: Range,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Selected joints to default + uniform offset (rad and rad/s, m and m/s), cut to the limits.

    Joints that ``asset_cfg`` does not select stay as they are.
    """
    _reset_joints(env, env_mask, asset_cfg, position_range, velocity_range, scales=False)


# -- disturbances


def push_by_setting_velocity(
    env: Env,
    env_mask: torch.Tensor | None,
    velocity_range: PoseRanges,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Add a uniform draw to the root velocity: a shove.

    ``velocity_range``: {x, y, z: (lo, hi) m/s; roll, pitch, yaw: (lo, hi) rad/s}, world frame; or a device
    tensor (2, 6) of lower and upper bounds.
    """
    asset = env.scene[asset_cfg.name]
    bounds = pose_bounds(velocity_range, "velocity_range", env.device)
    pushed = torch.empty(env.num_envs, 6, device=env.device)
    arguments = [torch.rand_like(pushed), bounds, asset.data.root_vel_w, pushed]
    launch(env.scene.engine, event_kernels.add_velocity, env.num_envs, arguments)
    asset.write_root_velocity(pushed, env_mask=env_mask)


def apply_external_force_torque(
    env: Env,
    env_mask: torch.Tensor | None,
    force_range: Range,
    torque_range: Range,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Forces (N) and torques (N·m) on the selected bodies, each component uniform, in the world frame.

    They act at the centre of mass and are held until the next draw or until the asset is reset.
    """
    asset, ids = env.scene[asset_cfg.name], asset_cfg.body_ids
    shape = asset.data.body_pos_w[:, ids].shape
    force = uniform(force_range, shape, env.device)
    torque = uniform(torque_range, shape, env.device)
    asset.set_external_wrench(force, torque, body_ids=ids, env_mask=env_mask)


# -- randomisation of the model


def randomize_rigid_body_mass(
    env: Env,
    env_mask: torch.Tensor | None,
    mass_distribution_params: Range,
    operation: str = "scale",
    distribution: str = "uniform",
    recompute_inertia: bool = True,
    min_mass: float = 1.0e-3,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Draw the masses of the selected bodies, starting from their defaults; inertia scales along.

    Args:
        env: The environment.
        env_mask: Chosen environments.
        mass_distribution_params: Bounds, or mean and standard deviation ("gaussian"): kg for "add" and "abs",
            a factor for "scale".
        operation: "add", "scale" or "abs".
        distribution: "uniform", "log_uniform" or "gaussian".
        recompute_inertia: Must be True.
        min_mass: No mass becomes smaller, kg.
        asset_cfg: The asset and its bodies.
    """
    if not recompute_inertia:
        raise ValueError(
            "randomize_rigid_body_mass: recompute_inertia is False, but inertia always scales along with the mass."
        )
    asset, ids = env.scene[asset_cfg.name], asset_cfg.body_ids
    default = asset.data.default_body_mass[:, ids]
    value = draw(mass_distribution_params, default.shape, env.device, distribution)
    mass = asset.data.body_mass.clone()
    mass[:, ids] = combine(default, value, operation).clamp(min=min_mass)
    asset.write_body_mass(mass, env_mask=env_mask)


def randomize_rigid_body_friction(
    env: Env,
    env_mask: torch.Tensor | None,
    friction_range: Range,
    operation: str = "abs",
    distribution: str = "uniform",
    shared: bool = False,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Draw the sliding friction coefficient of the selected bodies' shapes.

    Args:
        env: The environment.
        env_mask: Chosen environments.
        friction_range: Bounds, or mean and standard deviation ("gaussian"): a coefficient for "abs" and
            "add", a factor of the default for "scale". Negative results become 0.
        operation: "abs", "scale" or "add".
        distribution: "uniform", "log_uniform" or "gaussian".
        shared: One draw per environment for all selected bodies instead of one per body.
        asset_cfg: The asset and its bodies.
    """
    asset, ids = env.scene[asset_cfg.name], asset_cfg.body_ids
    default = asset.data.default_friction[:, ids]
    shape = (default.shape[0], 1) if shared else default.shape
    value = draw(friction_range, shape, env.device, distribution)
    friction = asset.data.body_friction.clone()
    friction[:, ids] = combine(default, value, operation).clamp(min=0.0)
    asset.write_friction(friction, env_mask=env_mask)


def randomize_rigid_body_material(
    env: Env,
    env_mask: torch.Tensor | None,
    static_friction_range: Sequence[float] | torch.Tensor,
    dynamic_friction_range: Sequence[float] | torch.Tensor | None = None,
    restitution_range: Sequence[float] | torch.Tensor | None = None,
    num_buckets: int | None = None,
    make_consistent: bool = False,
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """:func:`randomize_rigid_body_friction` under the parameters of Isaac Lab.

    The engines have ONE friction coefficient per shape: it is drawn from ``static_friction_range``, and a
        different
    ``dynamic_friction_range`` gives a UserWarning. A ``restitution_range`` other than (0, 0) is a ValueError.
    ``num_buckets`` and ``make_consistent`` change nothing: every body has its own draw.
    """
    if restitution_range is not None and (
        isinstance(restitution_range, torch.Tensor) or tuple(restitution_range) != (0.0, 0.0)
    ):
        raise ValueError(
            f"randomize_rigid_body_material: restitution_range is {restitution_range}, but restitution "
            "cannot be randomised. Leave it out or set it to (0, 0)."
        )
    ranges = [
        static_friction_range,
        static_friction_range if dynamic_friction_range is None else dynamic_friction_range,
    ]
    if not any(isinstance(r, torch.Tensor) for r in ranges) and tuple(ranges[0]) != tuple(ranges[1]):
        warnings.warn(
            "randomize_rigid_body_material: there is one friction coefficient per shape, drawn from "
            f"static_friction_range {ranges[0]}; dynamic_friction_range {ranges[1]} is not used.",
            UserWarning,
            stacklevel=2,
        )
    randomize_rigid_body_friction(env, env_mask, static_friction_range, asset_cfg=asset_cfg)


def randomize_actuator_gains(
    env: Env,
    env_mask: torch.Tensor | None,
    stiffness_distribution_params: Range | None = None,
    damping_distribution_params: Range | None = None,
    operation: str = "abs",
    distribution: str = "uniform",
    asset_cfg: SceneEntityCfg = ROBOT,
) -> None:
    """Draw the actuator gains of the selected joints, starting from their defaults.

    Args:
        env: The environment.
        env_mask: Chosen environments.
        stiffness_distribution_params: Bounds, or mean and standard deviation ("gaussian"): N·m/rad for "abs"
            and "add", a factor for "scale". None leaves the stiffness. Negative results become 0.
        damping_distribution_params: The same for the damping, N·m·s/rad.
        operation: "abs", "scale" or "add".
        distribution: "uniform", "log_uniform" or "gaussian".
        asset_cfg: The articulation and its joints.
    """
    asset, ids = env.scene[asset_cfg.name], asset_cfg.joint_ids
    data = asset.data
    stiffness, damping = data.joint_stiffness[:, ids], data.joint_damping[:, ids]
    if stiffness_distribution_params is not None:
        default = data.default_joint_stiffness[:, ids]
        value = draw(stiffness_distribution_params, default.shape, env.device, distribution)
        stiffness = combine(default, value, operation).clamp(min=0.0)
    if damping_distribution_params is not None:
        default = data.default_joint_damping[:, ids]
        value = draw(damping_distribution_params, default.shape, env.device, distribution)
        damping = combine(default, value, operation).clamp(min=0.0)
    asset.write_joint_gains(stiffness, damping, env_mask=env_mask, joint_ids=ids)


class randomize_joint_default_pos(ManagerTermBase):
    """Draw the default positions of the selected joints, starting from the values at the build.

    The defaults are what :func:`forcelab.mdp.joint_pos_rel` subtracts and what a position action with
    ``use_default_offset`` adds, so a shift acts like a calibration error of the joint encoders.
    """

    def __init__(self, cfg: EventTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        asset_cfg = cfg.params.get("asset_cfg", ROBOT)
        self._built = env.scene[asset_cfg.name].data.default_joint_pos.torch.clone()

    def __call__(
        self,
        env: Env,
        env_mask: torch.Tensor | None,
        pos_distribution_params: Range,
        operation: str = "add",
        distribution: str = "uniform",
        asset_cfg: SceneEntityCfg = ROBOT,
    ) -> None:
        """Draw and write.

        Args:
            env: The environment.
            env_mask: Chosen environments.
            pos_distribution_params: Bounds, or mean and standard deviation ("gaussian"): rad or m for "add"
                and "abs", a factor for "scale".
            operation: "add", "scale" or "abs".
            distribution: "uniform", "log_uniform" or "gaussian".
            asset_cfg: The articulation and its joints.
        """
        ids, default = asset_cfg.joint_ids, env.scene[asset_cfg.name].data.default_joint_pos
        built = self._built[:, ids]
        value = draw(pos_distribution_params, built.shape, env.device, distribution)
        default[:, ids] = where_env(env_mask, combine(built, value, operation), default[:, ids])
