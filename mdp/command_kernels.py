# SPDX-License-Identifier: Apache-2.0
"""Warp kernels of the velocity command."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def draw_velocity(
    mask: wp.array(dtype=wp.bool),
    draw: wp.array2d(dtype=float),
    bounds: wp.array2d(dtype=float),
    probability: wp.array(dtype=float),
    command: wp.array2d(dtype=float),
    kind: wp.array2d(dtype=wp.bool),
):
    """v_x, v_y, w_z and heading between the bounds, and whether to follow the heading and to stand."""
    e = wp.tid()
    if not mask[e]:
        return
    for i in range(4):
        command[e, i] = bounds[0, i] + draw[e, i] * (bounds[1, i] - bounds[0, i])
    for i in range(2):
        kind[e, i] = draw[e, 4 + i] < probability[i]


@wp.kernel
def follow_heading(
    follows: int,
    heading: wp.array(dtype=float),
    settings: wp.array(dtype=float),
    bounds: wp.array2d(dtype=float),
    kind: wp.array2d(dtype=wp.bool),
    command: wp.array2d(dtype=float),
):
    """The yaw rate of those that follow a heading; no velocity for those that stand."""
    e = wp.tid()
    if follows == 1 and kind[e, 0]:
        error = command[e, 3] - heading[e]
        error = error - 2.0 * wp.pi * wp.floor((error + wp.pi) / (2.0 * wp.pi))
        command[e, 2] = wp.min(wp.max(settings[2] * error, bounds[0, 2]), bounds[1, 2])
    if kind[e, 1]:
        for i in range(3):
            command[e, i] = 0.0


@wp.kernel
def velocity_errors(
    command: wp.array2d(dtype=float),
    lin_vel: wp.array2d(dtype=float),
    ang_vel: wp.array2d(dtype=float),
    samples: wp.array2d(dtype=float),
    errors: wp.array2d(dtype=float),
):
    """Running means over an episode: m += (x - m) / n."""
    e = wp.tid()
    n = samples[e, 0] + 1.0
    samples[e, 0] = n
    x = command[e, 0] - lin_vel[e, 0]
    y = command[e, 1] - lin_vel[e, 1]
    errors[e, 0] = errors[e, 0] + (wp.sqrt(x * x + y * y) - errors[e, 0]) / n
    errors[e, 1] = errors[e, 1] + (wp.abs(command[e, 2] - ang_vel[e, 2]) - errors[e, 1]) / n
