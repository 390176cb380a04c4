# SPDX-License-Identifier: Apache-2.0
"""When a sensor takes a sample: shared by the kernels of all sensors."""

# No `from __future__ import annotations`: Warp reads the annotations of functions.
import warp as wp


@wp.func
def due(clock: int, dt: wp.float64, period: wp.float64) -> bool:
    """Whether the physics step that ends at ``clock`` steps since the reset takes a sample.

    The first step after a reset always does; with a period of 0 every step does; otherwise those do in
    which a multiple of the period lies.
    """
    if period <= wp.float64(0.0) or clock <= 1:
        return True
    slack = wp.float64(1.0e-6)
    now = wp.floor(wp.float64(clock) * dt / period + slack)
    before = wp.floor(wp.float64(clock - 1) * dt / period + slack)
    return now > before


@wp.func
def tick(clock: wp.array2d(dtype=int), e: int, k: int, dt: wp.float64, period: wp.float64) -> bool:
    """Count the physics step that ends now in ``clock[e, k]``; whether it takes a sample."""
    now = clock[e, k] + 1
    clock[e, k] = now
    return due(now, dt, period)


@wp.func
def reads_pose(
    stepped: int,
    cleared: bool,
    clock: wp.array2d(dtype=int),
    e: int,
    k: int,
    dt: wp.float64,
    period: wp.float64,
) -> bool:
    """Whether a sensor of poses reads now: after a step (``stepped`` 1) if a sample is due.

    Between two steps it reads states that were written, as long as no step was taken since the reset, which is now
    where ``cleared``.
    """
    if stepped == 1:
        return tick(clock, e, k, dt, period)
    if cleared:
        clock[e, k] = 0
    return clock[e, k] == 0
