# SPDX-License-Identifier: Apache-2.0
"""Shared by the terms: masks, random draws, ranges, rotations, readings of sensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from forcelab.managers import SceneEntityCfg
from forcelab.managers.live_ranges import POSE_KEYS, LivePoseRanges, PoseRanges, Range
from forcelab.physics.errors import near
from forcelab.physics.quaternions import quat_apply

Env: TypeAlias = Any
"""The environment, :class:`forcelab.envs.ManagerBasedRlEnv`; ``Any`` because terms may not import it."""

ROBOT = SceneEntityCfg("robot")
"""The default asset of terms: everything of the scene's "robot"."""

# Constant tables on the device, by content, so that a term makes them only once. Entries are never dropped: a
# captured graph may hold their addresses.
_tables: dict[tuple[Any, ...], torch.Tensor] = {}


def ordered(bounds: Sequence[float]) -> tuple[float, float]:
    """``bounds`` themselves.

    Raises:
        ValueError: They are not (lower, upper): two finite numbers, the lower not above the upper.
    """
    # Written for speed: terms come here in every call.
    if len(bounds) == 2:
        lo, hi = bounds
        if -math.inf < lo <= hi < math.inf:
            return lo, hi
    raise ValueError(f"A range is (lower, upper), two finite numbers, lower not above upper; got {bounds!r}.")


def uniform(bounds: Range, shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """Uniform draw between ``bounds``, float32 of ``shape``."""
    if isinstance(bounds, torch.Tensor):
        return torch.lerp(bounds[0], bounds[1], torch.rand(tuple(shape), device=device))
    lo, hi = ordered(bounds)
    return torch.empty(tuple(shape), device=device).uniform_(lo, hi)


def draw(params: Range, shape: Sequence[int], device: torch.device, distribution: str) -> torch.Tensor:
    """Draw float32 numbers of ``shape``.

    Args:
        params: Lower and upper bound ("uniform", "log_uniform"), or mean and standard deviation ("gaussian").
        shape: Shape of the result.
        device: Device of the result.
        distribution: "uniform", "log_uniform" or "gaussian".
    """
    if distribution == "uniform":
        return uniform(params, shape, device)
    if distribution == "log_uniform":
        if isinstance(params, torch.Tensor):
            return uniform(params.log(), shape, device).exp_()
        lo, hi = ordered(params)
        if lo <= 0.0:
            raise ValueError(f"A log_uniform draw needs positive bounds, got ({lo}, {hi}).")
        return uniform((math.log(lo), math.log(hi)), shape, device).exp_()
    if distribution == "gaussian":
        mean, std = params
        return torch.randn(tuple(shape), device=device).mul_(std).add_(mean)
    raise ValueError(
        f"Unknown distribution {distribution!r}.{near(distribution, ('uniform', 'log_uniform', 'gaussian'))}"
    )


def combine(base: torch.Tensor, value: torch.Tensor, operation: str) -> torch.Tensor:
    """``base`` changed by ``value``: "add" sums, "scale" multiplies, "abs" replaces. Shapes broadcast."""
    if operation == "add":
        return base + value
    if operation == "scale":
        return base * value
    if operation == "abs":
        return value.expand_as(base)
    raise ValueError(f"Unknown operation {operation!r}.{near(operation, ('add', 'scale', 'abs'))}")


def table(rows: Sequence[Sequence[float]], device: torch.device) -> torch.Tensor:
    """Constant (len(rows), n) float32 tensor on ``device``; equal content gives the same tensor."""
    key = (str(device), tuple(tuple(float(x) for x in row) for row in rows))
    found = _tables.get(key)
    if found is None:
        found = _tables[key] = torch.empty(len(rows), len(rows[0]), device=device)
        for i, row in enumerate(key[1]):
            for j, value in enumerate(row):
                found[i, j] = value  # a fill on the device: copies nothing from the host
    return found


def pose_bounds(ranges: PoseRanges, what: str, device: torch.device) -> torch.Tensor:
    """Bounds (2, 6): row 0 lower, row 1 upper, columns x, y, z, roll, pitch, yaw.

    Args:
        ranges: {"x": (lo, hi), …}, absent keys are 0; or a device tensor (2, 6) that may change at run time.
        what: The parameter's name, for the error message.
        device: Device of the result.
    """
    if isinstance(ranges, torch.Tensor):
        return ranges
    if isinstance(ranges, LivePoseRanges):
        return ranges.bounds
    for key in ranges:
        if key not in POSE_KEYS:
            raise ValueError(f"{what} has an unknown key {key!r}.{near(key, POSE_KEYS)}")
    pairs = [ordered(ranges.get(key, (0.0, 0.0))) for key in POSE_KEYS]
    return table([[p[0] for p in pairs], [p[1] for p in pairs]], device)


def range_bounds(bounds: Range, device: torch.device) -> torch.Tensor:
    """``bounds`` as a device tensor (2,)."""
    return bounds if isinstance(bounds, torch.Tensor) else table([ordered(bounds)], device)[0]


def where_env(env_mask: torch.Tensor | None, new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """``new`` in the environments of ``env_mask`` (E,), ``old`` in the others; ``None`` means all of them."""
    if env_mask is None:
        return new
    return torch.where(env_mask.view(-1, *[1] * (old.dim() - 1)), new, old)


def select(x: torch.Tensor, dim: int, ids: slice | torch.Tensor) -> torch.Tensor:
    """``x`` with dimension ``dim`` reduced to ``ids``; faster than indexing where ``ids`` is a LongTensor."""
    if isinstance(ids, torch.Tensor):
        return x.index_select(dim, ids)
    return x[(slice(None),) * dim + (ids,)]


def wrap_to_pi(angle: torch.Tensor) -> torch.Tensor:
    """The same angle in [-pi, pi), rad."""
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi


def body_point(
    env: Env, asset_cfg: SceneEntityCfg, point: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A point fixed to the first selected body: position (E, 3) relative to the environment's origin, m,
    velocity (E, 3), m/s, and the body's quaternion (E, 4) xyzw; world axes.

    Args:
        env: The environment.
        asset_cfg: The asset and its body.
        point: (3,) or (E, 3) in the body's frame, m.
    """
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.body_ids
    pose, vel = data.body_pose_w[:, ids][:, 0], data.body_vel_w[:, ids][:, 0]
    arm = quat_apply(pose[:, 3:], point)
    velocity = vel[:, :3] + torch.linalg.cross(vel[:, 3:], arm)
    return pose[:, :3] + arm - env.scene.env_origins, velocity, pose[:, 3:]


def step_normal_force(env: Env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Normal force between the sensor's first selected body and its filter partners, N. (E,)

    Summed over the filter columns and averaged over the samples of the last environment step, so the sensor needs
    filters and, to see the whole step, ``history_length`` of at least the decimation.
    """
    history = env.scene[sensor_cfg.name].data.normal_force_matrix_w_history
    if history is None:
        raise ValueError(
            f"sensor {sensor_cfg.name!r} has no filters and so no force matrix. Set its filter_prim_paths_expr."
        )
    samples = select(history[:, : env.decimation], 2, sensor_cfg.body_ids)[:, :, 0]
    return torch.linalg.vector_norm(samples.sum(dim=2).mean(dim=1), dim=-1)


_FRAMES = ("sensor", "body", "world")


def joint_wrench(
    env: Env, sensor_cfg: SceneEntityCfg, frame: str = "sensor", filtered: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Force, N, and torque about the joint anchor, N·m, (E, n, 3) each, of the selected bodies' joints.

    For the arguments and errors see :func:`forcelab.mdp.body_incoming_wrench`.
    """
    sensor, ids = env.scene[sensor_cfg.name], sensor_cfg.body_ids
    data = sensor.data
    if not hasattr(data, "force"):
        raise ValueError(
            f"sensor_cfg.name is {sensor_cfg.name!r}, a {type(sensor).__name__}; give a joint wrench sensor."
        )
    force, torque = (data.filtered_force, data.filtered_torque) if filtered else (data.force, data.torque)
    if force is None or torque is None:
        if filtered and data.force is not None:
            raise ValueError(
                f"joint wrench sensor {sensor_cfg.name!r} has no low-pass filter; set its cutoff_frequency [Hz]."
            )
        raise RuntimeError(
            f"joint wrench sensor {sensor_cfg.name!r} has no data before the simulation starts."
        )
    force, torque = select(force, 1, ids), select(torque, 1, ids)
    if frame not in _FRAMES:
        raise ValueError(f"frame is {frame!r}.{near(str(frame), _FRAMES)}")
    if frame == "sensor":
        return force, torque
    if frame == "world":
        quat = select(data.quat_w, 1, ids)
    else:
        quat = select(sensor.joint_frame[None, :, 3:], 1, ids)
    return quat_apply(quat, force), quat_apply(quat, torque)


def wrench_and_limits(
    env: Env, sensor_cfg: SceneEntityCfg, force_limit: float | None, torque_limit: float | None
) -> list[tuple[torch.Tensor, float]]:
    """(E, n, 3) forces and torques of the selected joints, each with its limit, without those that have none.

    Raises:
        ValueError: No limit is given, or one is not above 0.
    """
    if force_limit is None and torque_limit is None:
        raise ValueError("Neither force_limit [N] nor torque_limit [N·m] is given; give at least one.")
    limits = {"force_limit": force_limit, "torque_limit": torque_limit}
    found = []
    for (name, limit), vector in zip(limits.items(), joint_wrench(env, sensor_cfg), strict=True):
        if limit is None:
            continue
        if not isinstance(limit, torch.Tensor) and not limit > 0.0:
            raise ValueError(f"{name} is {limit!r}; it must be above 0.")
        found.append((vector, limit))
    return found
