# SPDX-License-Identifier: Apache-2.0
"""Kernels of the joint wrench sensor."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

from ..sampling import tick

wp.set_module_options({"enable_backward": False})


@wp.kernel
def sample(
    force: wp.array2d(dtype=wp.vec3),
    torque: wp.array2d(dtype=wp.vec3),
    orientation: wp.array2d(dtype=wp.quat),
    dt: wp.float64,
    period: wp.float64,
    time_constant: float,
    clock: wp.array2d(dtype=int),
    sampled: wp.array2d(dtype=int),
    force_out: wp.array2d(dtype=wp.vec3),
    torque_out: wp.array2d(dtype=wp.vec3),
    filtered_force: wp.array2d(dtype=wp.vec3),
    filtered_torque: wp.array2d(dtype=wp.vec3),
    orientation_out: wp.array2d(dtype=wp.quat),
):
    """Take over the engine's wrenches where a sample is due.

    ``clock``: physics steps since the reset; ``sampled``: its value at the last sample. The filter is the exact
    solution of τ·dy/dt = x - y over the time between two samples, x held at the new sample; it begins at the first
    sample.
    """
    e, b = wp.tid()
    if tick(clock, e, b, dt, period):
        now = clock[e, b]
        f = force[e, b]
        t = torque[e, b]
        force_out[e, b] = f
        torque_out[e, b] = t
        orientation_out[e, b] = orientation[e, b]
        if filtered_force.shape[1] > 0:
            gain = float(1.0)
            if sampled[e, b] > 0:
                gain = 1.0 - wp.exp(-float(now - sampled[e, b]) * float(dt) / time_constant)
            filtered_force[e, b] = filtered_force[e, b] + gain * (f - filtered_force[e, b])
            filtered_torque[e, b] = filtered_torque[e, b] + gain * (t - filtered_torque[e, b])
        sampled[e, b] = now


@wp.kernel
def clear(
    mask: wp.array(dtype=wp.bool),
    clock: wp.array2d(dtype=int),
    sampled: wp.array2d(dtype=int),
    force_out: wp.array2d(dtype=wp.vec3),
    torque_out: wp.array2d(dtype=wp.vec3),
    filtered_force: wp.array2d(dtype=wp.vec3),
    filtered_torque: wp.array2d(dtype=wp.vec3),
    orientation_out: wp.array2d(dtype=wp.quat),
):
    """Zero the masked environments."""
    e, b = wp.tid()
    if mask[e]:
        zero = wp.vec3(0.0, 0.0, 0.0)
        clock[e, b] = 0
        sampled[e, b] = 0
        force_out[e, b] = zero
        torque_out[e, b] = zero
        orientation_out[e, b] = wp.quat_identity()
        if filtered_force.shape[1] > 0:
            filtered_force[e, b] = zero
            filtered_torque[e, b] = zero
