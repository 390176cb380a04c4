# SPDX-License-Identifier: Apache-2.0
"""Warp kernels of the assets: actuators and derived root states."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def actuate(
    pos_target: wp.array2d(dtype=float),
    vel_target: wp.array2d(dtype=float),
    effort_target: wp.array2d(dtype=float),
    pos: wp.array2d(dtype=float),
    vel: wp.array2d(dtype=float),
    stiffness: wp.array2d(dtype=float),
    damping: wp.array2d(dtype=float),
    effort_limit: wp.array(dtype=float),
    is_explicit: wp.array(dtype=int),
    engine_limits_sum: int,
    delay: wp.array2d(dtype=int),
    ring: wp.array4d(dtype=float),
    age: wp.array2d(dtype=int),
    pos_command: wp.array2d(dtype=float),
    vel_command: wp.array2d(dtype=float),
    effort_command: wp.array2d(dtype=float),
    computed: wp.array2d(dtype=float),
    applied: wp.array2d(dtype=float),
):
    """Targets → commands to the engine's drives and efforts; one thread per joint."""
    e, j = wp.tid()
    slots = ring.shape[0]
    now = age[e, j]
    age[e, j] = now + 1
    p = pos_target[e, j]
    v = vel_target[e, j]
    f = effort_target[e, j]
    if slots > 1:
        ring[now % slots, e, j, 0] = p
        ring[now % slots, e, j, 1] = v
        ring[now % slots, e, j, 2] = f
        # Never older than the first command after a reset.
        at = (now - wp.min(delay[e, j], now)) % slots
        p = ring[at, e, j, 0]
        v = ring[at, e, j, 1]
        f = ring[at, e, j, 2]
    limit = effort_limit[j]
    drive = stiffness[e, j] * (p - pos[e, j]) + damping[e, j] * (v - vel[e, j])
    torque = drive + f
    limited = wp.clamp(torque, -limit, limit)
    computed[e, j] = torque
    applied[e, j] = limited
    pos_command[e, j] = p
    vel_command[e, j] = v
    if is_explicit[j] == 1:
        effort_command[e, j] = limited
    elif engine_limits_sum == 0 and (wp.abs(torque) > limit or wp.abs(drive) > limit):
        # The engine limits its drive alone; what is added to it keeps the sum within the limit.
        effort_command[e, j] = limited - wp.clamp(drive, -limit, limit)
    else:
        effort_command[e, j] = f


@wp.kernel
def derive_root(
    body_pose: wp.array2d(dtype=wp.transform),
    body_vel: wp.array2d(dtype=wp.spatial_vector),
    root: int,
    down: wp.vec3,
    lin_vel_b: wp.array(dtype=wp.vec3),
    ang_vel_b: wp.array(dtype=wp.vec3),
    gravity_b: wp.array(dtype=wp.vec3),
    heading: wp.array(dtype=float),
):
    e = wp.tid()
    q = wp.transform_get_rotation(body_pose[e, root])
    v = body_vel[e, root]
    lin_vel_b[e] = wp.quat_rotate_inv(q, wp.spatial_top(v))
    ang_vel_b[e] = wp.quat_rotate_inv(q, wp.spatial_bottom(v))
    gravity_b[e] = wp.quat_rotate_inv(q, down)
    forward = wp.quat_rotate(q, wp.vec3(1.0, 0.0, 0.0))
    heading[e] = wp.atan2(forward[1], forward[0])


@wp.kernel
def unit_quaternion(pose: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    """Poses with their quaternion brought to length 1; one that nearly has it stays as it is, bit for bit."""
    e = wp.tid()
    size = float(0.0)
    for i in range(3, 7):
        size += pose[e, i] * pose[e, i]
    size = wp.sqrt(size)
    factor = float(1.0)
    if wp.abs(size - 1.0) >= 1.0e-5:
        factor = 1.0 / size
    for i in range(3):
        out[e, i] = pose[e, i]
    for i in range(3, 7):
        out[e, i] = pose[e, i] * factor


@wp.kernel
def clear_wrench(
    mask: wp.array(dtype=wp.bool), force: wp.array3d(dtype=float), torque: wp.array3d(dtype=float)
):
    """No external force and torque in masked environments."""
    e = wp.tid()
    if not mask[e]:
        return
    for b in range(force.shape[1]):
        for i in range(3):
            force[e, b, i] = 0.0
            torque[e, b, i] = 0.0


@wp.kernel
def clear_commands(
    mask: wp.array(dtype=wp.bool),
    default_pos: wp.array2d(dtype=float),
    pos_target: wp.array2d(dtype=float),
    vel_target: wp.array2d(dtype=float),
    effort_target: wp.array2d(dtype=float),
    computed: wp.array2d(dtype=float),
    applied: wp.array2d(dtype=float),
    age: wp.array2d(dtype=int),
):
    """Default commands and nothing remembered in masked environments."""
    e = wp.tid()
    if not mask[e]:
        return
    for j in range(pos_target.shape[1]):
        pos_target[e, j] = default_pos[e, j]
        vel_target[e, j] = 0.0
        effort_target[e, j] = 0.0
        computed[e, j] = 0.0
        applied[e, j] = 0.0
        age[e, j] = 0
