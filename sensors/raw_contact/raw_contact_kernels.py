# SPDX-License-Identifier: Apache-2.0
"""One kernel takes a sample of a point-like contact sensor, one clears it."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

from ..sampling import tick

wp.set_module_options({"enable_backward": False})

# Columns of the integer state of one environment.
CLOCK = 0  # physics steps since the reset
STEP = 1  # the engine's count of steps when the reading was taken, or cleared
STATE_COLUMNS = 2


@wp.kernel
def sample(
    normal: wp.array2d(dtype=wp.vec3),
    steps: wp.array(dtype=int),
    enabled: wp.array(dtype=wp.bool),
    dt: wp.float64,
    period: wp.float64,
    lower: float,
    upper: float,
    state: wp.array2d(dtype=int),
    value: wp.array(dtype=float),
    in_contact: wp.array(dtype=wp.bool),
):
    e = wp.tid()
    if not tick(state, e, CLOCK, dt, period):
        return
    state[e, STEP] = steps[0]
    force = wp.length(normal[e, 0])
    touches = enabled[0] and force > 0.0 and force >= lower
    in_contact[e] = touches
    if touches:
        value[e] = wp.min(force, upper)
    else:
        value[e] = 0.0


@wp.kernel
def clear(
    mask: wp.array(dtype=wp.bool),
    steps: wp.array(dtype=int),
    state: wp.array2d(dtype=int),
    value: wp.array(dtype=float),
    in_contact: wp.array(dtype=wp.bool),
):
    e = wp.tid()
    if not mask[e]:
        return
    state[e, CLOCK] = 0
    state[e, STEP] = steps[0]
    value[e] = 0.0
    in_contact[e] = False
