# SPDX-License-Identifier: Apache-2.0
"""Warp kernels that look for numbers that are not finite."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def mark_not_finite(
    values: wp.array2d(dtype=float),
    rows: wp.array(dtype=wp.bool),
    columns: wp.array(dtype=wp.bool),
    bad: wp.array(dtype=wp.bool),
):
    """Set ``rows[e]`` and ``columns[n]`` for each value that is not finite; they stay set.

    ``bad[e]`` says whether the row has one now. ``columns`` and ``bad`` may be empty.
    """
    e = wp.tid()
    hit = bool(False)
    for n in range(values.shape[1]):
        if not wp.isfinite(values[e, n]):
            hit = True
            if columns.shape[0] > 0:
                columns[n] = True
    if hit:
        rows[e] = True
    if bad.shape[0] > 0:
        bad[e] = hit
