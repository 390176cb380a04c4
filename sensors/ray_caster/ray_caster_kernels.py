# SPDX-License-Identifier: Apache-2.0
"""The kernel of the ray caster; one thread per environment and ray."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

from ..sampling import reads_pose

wp.set_module_options({"enable_backward": False})

BASE = wp.constant(0)
YAW = wp.constant(1)


@wp.func
def yaw_of(q: wp.quat) -> wp.quat:
    """The rotation about the world's z axis that the body's heading makes."""
    forward = wp.quat_rotate(q, wp.vec3(1.0, 0.0, 0.0))
    return wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), wp.atan2(forward[1], forward[0]))


@wp.kernel
def sample(
    stepped: int,
    mask: wp.array(dtype=wp.bool),
    pose: wp.array2d(dtype=wp.transform),
    body: int,
    alignment: int,
    starts: wp.array(dtype=wp.vec3),
    directions: wp.array(dtype=wp.vec3),
    planes: wp.array(dtype=wp.vec4),
    mesh: wp.uint64,
    reach: float,
    dt: wp.float64,
    period: wp.float64,
    clock: wp.array2d(dtype=int),
    pos_w: wp.array(dtype=wp.vec3),
    quat_w: wp.array(dtype=wp.quat),
    hits: wp.array2d(dtype=wp.vec3),
):
    """First hits of the rays, where :func:`reads_pose` says so.

    ``planes`` are normal and offset, n·p = d. ``mesh`` 0: there is none.
    """
    e, r = wp.tid()
    if not reads_pose(stepped, mask[e], clock, e, r, dt, period):
        return
    origin = wp.transform_get_translation(pose[e, body])
    q = wp.transform_get_rotation(pose[e, body])
    if r == 0:
        pos_w[e] = origin
        quat_w[e] = q
    turn = wp.quat(0.0, 0.0, 0.0, 1.0)
    if alignment == BASE:
        turn = q
    elif alignment == YAW:
        turn = yaw_of(q)
    start = origin + wp.quat_rotate(turn, starts[r])
    direction = wp.quat_rotate(turn, directions[r])
    best = float(wp.inf)
    for k in range(planes.shape[0]):
        normal = wp.vec3(planes[k][0], planes[k][1], planes[k][2])
        along = wp.dot(normal, direction)
        if along != 0.0:
            t = (planes[k][3] - wp.dot(normal, start)) / along
            if t >= 0.0 and t <= reach and t < best:
                best = t
    if mesh != wp.uint64(0):
        query = wp.mesh_query_ray(mesh, start, direction, wp.min(reach, best))
        if query.result:
            best = query.t
    if best < wp.inf:
        hits[e, r] = start + best * direction
    else:
        hits[e, r] = wp.vec3(wp.inf, wp.inf, wp.inf)
