# SPDX-License-Identifier: Apache-2.0
"""Warp kernels of event terms: a uniform draw in [0, 1) becomes what is written."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func
def between(bounds: wp.array2d(dtype=float), column: int, u: float) -> float:
    low = bounds[0, column]
    return low + u * (bounds[1, column] - low)


@wp.func
def within(bounds: wp.array(dtype=float), u: float) -> float:
    return bounds[0] + u * (bounds[1] - bounds[0])


@wp.kernel
def root_state(
    draw: wp.array2d(dtype=float),
    pose_bounds: wp.array2d(dtype=float),
    velocity_bounds: wp.array2d(dtype=float),
    default_pose: wp.array2d(dtype=float),
    default_velocity: wp.array2d(dtype=float),
    pose: wp.array2d(dtype=float),
    velocity: wp.array2d(dtype=float),
):
    """Default pose and velocity plus a draw. The rotation is Rz(yaw) Ry(pitch) Rx(roll) in the default's frame."""
    e = wp.tid()
    roll = 0.5 * between(pose_bounds, 3, draw[e, 3])
    pitch = 0.5 * between(pose_bounds, 4, draw[e, 4])
    yaw = 0.5 * between(pose_bounds, 5, draw[e, 5])
    sr, cr = wp.sin(roll), wp.cos(roll)
    sp, cp = wp.sin(pitch), wp.cos(pitch)
    sy, cy = wp.sin(yaw), wp.cos(yaw)
    turn = wp.quat(
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )
    start = wp.quat(default_pose[e, 3], default_pose[e, 4], default_pose[e, 5], default_pose[e, 6])
    q = start * turn
    for i in range(3):
        pose[e, i] = default_pose[e, i] + between(pose_bounds, i, draw[e, i])
    for i in range(4):
        pose[e, 3 + i] = q[i]
    for i in range(6):
        velocity[e, i] = default_velocity[e, i] + between(velocity_bounds, i, draw[e, 6 + i])


@wp.kernel
def joint_state(
    draw: wp.array2d(dtype=float),
    scales: int,
    pos_bounds: wp.array(dtype=float),
    vel_bounds: wp.array(dtype=float),
    default_pos: wp.array2d(dtype=float),
    default_vel: wp.array2d(dtype=float),
    pos_limits: wp.array3d(dtype=float),
    vel_limits: wp.array2d(dtype=float),
    pos: wp.array2d(dtype=float),
    vel: wp.array2d(dtype=float),
):
    """Default joint state times (``scales``) or plus a draw, cut to the limits."""
    e = wp.tid()
    n = pos.shape[1]
    for j in range(n):
        p = within(pos_bounds, draw[e, j])
        v = within(vel_bounds, draw[e, n + j])
        if scales == 1:
            p = default_pos[e, j] * p
            v = default_vel[e, j] * v
        else:
            p = default_pos[e, j] + p
            v = default_vel[e, j] + v
        pos[e, j] = wp.min(wp.max(p, pos_limits[e, j, 0]), pos_limits[e, j, 1])
        vel[e, j] = wp.min(wp.max(v, -vel_limits[e, j]), vel_limits[e, j])


@wp.kernel
def add_velocity(
    draw: wp.array2d(dtype=float),
    bounds: wp.array2d(dtype=float),
    velocity: wp.array2d(dtype=float),
    out: wp.array2d(dtype=float),
):
    """A velocity plus a draw."""
    e = wp.tid()
    for i in range(6):
        out[e, i] = velocity[e, i] + between(bounds, i, draw[e, i])
