# SPDX-License-Identifier: Apache-2.0
"""The kernel of the frame transformer; one thread per environment and target frame."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

from ..sampling import reads_pose

wp.set_module_options({"enable_backward": False})


@wp.kernel
def sample(
    stepped: int,
    mask: wp.array(dtype=wp.bool),
    pose: wp.array2d(dtype=wp.transform),
    source_body: int,
    source_offset: wp.transform,
    target_body: wp.array(dtype=int),
    target_offset: wp.array(dtype=wp.transform),
    dt: wp.float64,
    period: wp.float64,
    clock: wp.array2d(dtype=int),
    source_pos_w: wp.array(dtype=wp.vec3),
    source_quat_w: wp.array(dtype=wp.quat),
    target_pos_w: wp.array2d(dtype=wp.vec3),
    target_quat_w: wp.array2d(dtype=wp.quat),
    target_pos: wp.array2d(dtype=wp.vec3),
    target_quat: wp.array2d(dtype=wp.quat),
):
    """Poses of the target frames, where :func:`reads_pose` says so."""
    e, t = wp.tid()
    if not reads_pose(stepped, mask[e], clock, e, t, dt, period):
        return
    source = pose[e, source_body] * source_offset
    target = pose[e, target_body[t]] * target_offset[t]
    p = wp.transform_get_translation(target) - wp.transform_get_translation(source)
    if t == 0:
        source_pos_w[e] = wp.transform_get_translation(source)
        source_quat_w[e] = wp.transform_get_rotation(source)
    target_pos_w[e, t] = wp.transform_get_translation(target)
    target_quat_w[e, t] = wp.transform_get_rotation(target)
    q = wp.transform_get_rotation(source)
    # The difference first: far from the world's origin nothing is lost.
    target_pos[e, t] = wp.quat_rotate_inv(q, p)
    target_quat[e, t] = wp.quat_inverse(q) * wp.transform_get_rotation(target)
