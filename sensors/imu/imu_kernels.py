# SPDX-License-Identifier: Apache-2.0
"""Kernels of the inertial measurement unit; one thread per environment."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

from ..sampling import reads_pose

wp.set_module_options({"enable_backward": False})


@wp.func
def point_velocity(pose: wp.transform, vel: wp.spatial_vector, offset: wp.transform) -> wp.vec3:
    """Velocity of the sensor's origin, world frame."""
    arm = wp.quat_rotate(wp.transform_get_rotation(pose), wp.transform_get_translation(offset))
    return wp.spatial_top(vel) + wp.cross(wp.spatial_bottom(vel), arm)


@wp.kernel
def before(
    pose: wp.array2d(dtype=wp.transform),
    vel: wp.array2d(dtype=wp.spatial_vector),
    body: int,
    offset: wp.transform,
    lin_before: wp.array(dtype=wp.vec3),
    ang_before: wp.array(dtype=wp.vec3),
):
    """Keep the velocities with which the step begins, whatever was written since the last one."""
    e = wp.tid()
    lin_before[e] = point_velocity(pose[e, body], vel[e, body], offset)
    ang_before[e] = wp.spatial_bottom(vel[e, body])


@wp.kernel
def sample(
    stepped: int,
    mask: wp.array(dtype=wp.bool),
    pose: wp.array2d(dtype=wp.transform),
    vel: wp.array2d(dtype=wp.spatial_vector),
    body: int,
    offset: wp.transform,
    down: wp.vec3,
    bias: wp.vec3,
    dt: wp.float64,
    period: wp.float64,
    lin_before: wp.array(dtype=wp.vec3),
    ang_before: wp.array(dtype=wp.vec3),
    clock: wp.array2d(dtype=int),
    pos_w: wp.array(dtype=wp.vec3),
    quat_w: wp.array(dtype=wp.quat),
    lin_vel: wp.array(dtype=wp.vec3),
    ang_vel: wp.array(dtype=wp.vec3),
    gravity: wp.array(dtype=wp.vec3),
    lin_acc: wp.array(dtype=wp.vec3),
    ang_acc: wp.array(dtype=wp.vec3),
):
    """Readings where :func:`reads_pose` says so; without a step there are no accelerations."""
    e = wp.tid()
    if not reads_pose(stepped, mask[e], clock, e, 0, dt, period):
        return
    sensor = pose[e, body] * offset
    q = wp.transform_get_rotation(sensor)
    v = point_velocity(pose[e, body], vel[e, body], offset)
    w = wp.spatial_bottom(vel[e, body])
    pos_w[e] = wp.transform_get_translation(sensor)
    quat_w[e] = q
    lin_vel[e] = wp.quat_rotate_inv(q, v)
    ang_vel[e] = wp.quat_rotate_inv(q, w)
    gravity[e] = wp.quat_rotate_inv(q, down)
    if stepped == 1:
        rate = 1.0 / float(dt)
        lin_acc[e] = wp.quat_rotate_inv(q, (v - lin_before[e]) * rate + bias)
        ang_acc[e] = wp.quat_rotate_inv(q, (w - ang_before[e]) * rate)
    else:
        lin_acc[e] = wp.vec3(0.0, 0.0, 0.0)
        ang_acc[e] = wp.vec3(0.0, 0.0, 0.0)
