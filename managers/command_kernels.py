# SPDX-License-Identifier: Apache-2.0
"""Warp kernels of command terms."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def draw_time(
    mask: wp.array(dtype=wp.bool),
    draw: wp.array(dtype=float),
    bounds: wp.array(dtype=float),
    time_left: wp.array(dtype=float),
    counter: wp.array(dtype=wp.int64),
):
    """A new time and one more draw in masked environments. Infinite times stay infinite."""
    e = wp.tid()
    if not mask[e]:
        return
    time = bounds[0]
    if bounds[1] != bounds[0]:
        time += draw[e] * (bounds[1] - bounds[0])
    time_left[e] = time
    counter[e] = counter[e] + wp.int64(1)
