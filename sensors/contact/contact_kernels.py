# SPDX-License-Identifier: Apache-2.0
"""Samples of a contact sensor: clocks, histories, timers, flags."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

from ..sampling import due

wp.set_module_options({"enable_backward": False})

# Columns of the integer state of one sensing body.
CLOCK = 0  # physics steps since the reset
SAMPLED = 1  # clock of the last sample
MODE = 2  # 0 none yet, 1 contact, 2 air
MODE_SAMPLES = 3  # samples in the mode, the one that changed it included
CHANGED = 4  # the mode began by a transition, not by a reset
PENDING = 5  # samples in the other mode, not taken yet (debounce)
STATE_COLUMNS = 10
# 6…9: current air, current contact, last air, last contact, in physics steps.
AIR = 6
CONTACT = 7
LAST_AIR = 8
LAST_CONTACT = 9


@wp.func
def keep_time(
    state: wp.array3d(dtype=int),
    times: wp.array3d(dtype=float),
    e: int,
    s: int,
    seen: int,
    debounce: int,
    dt: wp.float64,
):
    """Take a sample in which the body was ``seen`` in a mode: 1 contact, 2 air."""
    clock = state[e, s, CLOCK]
    elapsed = clock - state[e, s, SAMPLED]
    state[e, s, SAMPLED] = clock
    mode = state[e, s, MODE]
    if mode == 0:
        # The first sample after a reset starts a mode; nothing has changed.
        state[e, s, MODE] = seen
        state[e, s, MODE_SAMPLES] = 1
        state[e, s, CHANGED] = 0
        if seen == 1:
            state[e, s, CONTACT] = elapsed
        else:
            state[e, s, AIR] = elapsed
    else:
        turn = int(0)
        if seen != mode:
            pending = state[e, s, PENDING] + 1
            state[e, s, PENDING] = pending
            if pending > debounce:
                turn = int(1)
        else:
            state[e, s, PENDING] = 0
        if turn == 1:
            # The sample that changes the mode closes the old one and opens the new one.
            if mode == 1:
                state[e, s, LAST_CONTACT] = state[e, s, CONTACT] + elapsed
                state[e, s, CONTACT] = 0
                state[e, s, AIR] = elapsed
            else:
                state[e, s, LAST_AIR] = state[e, s, AIR] + elapsed
                state[e, s, AIR] = 0
                state[e, s, CONTACT] = elapsed
            state[e, s, MODE] = seen
            state[e, s, MODE_SAMPLES] = 1
            state[e, s, CHANGED] = 1
            state[e, s, PENDING] = 0
        else:
            if mode == 1:
                state[e, s, CONTACT] = state[e, s, CONTACT] + elapsed
            else:
                state[e, s, AIR] = state[e, s, AIR] + elapsed
            state[e, s, MODE_SAMPLES] = state[e, s, MODE_SAMPLES] + 1
    for k in range(4):
        times[k, e, s] = float(wp.float64(state[e, s, AIR + k]) * dt)


@wp.func
def push(history: wp.array3d(dtype=wp.vec3), e: int, s: int, value: wp.vec3):
    """The newest first; the oldest drops out."""
    for h in range(history.shape[1]):
        older = history[e, h, s]
        history[e, h, s] = value
        value = older


@wp.func
def push_column(history: wp.array4d(dtype=wp.vec3), e: int, s: int, c: int, value: wp.vec3):
    for h in range(history.shape[1]):
        older = history[e, h, s, c]
        history[e, h, s, c] = value
        value = older


@wp.kernel
def sample(
    dt: wp.float64,
    period: wp.float64,
    # timers
    timed: int,
    threshold: float,
    debounce: int,
    # forces of the last physics step: net (E, S), by filter column (E, S, F), sum and number of contact points
    normal: wp.array2d(dtype=wp.vec3),
    friction: wp.array2d(dtype=wp.vec3),
    normal_matrix: wp.array3d(dtype=wp.vec3),
    friction_matrix: wp.array3d(dtype=wp.vec3),
    points: wp.array3d(dtype=wp.vec4),
    # out
    clocks: wp.array3d(dtype=int),
    state: wp.array3d(dtype=int),
    times: wp.array3d(dtype=float),
    normal_history: wp.array3d(dtype=wp.vec3),
    friction_history: wp.array3d(dtype=wp.vec3),
    total_history: wp.array3d(dtype=wp.vec3),
    normal_matrix_history: wp.array4d(dtype=wp.vec3),
    friction_matrix_history: wp.array4d(dtype=wp.vec3),
    total_matrix_history: wp.array4d(dtype=wp.vec3),
    contact_pos: wp.array3d(dtype=wp.vec3),
):
    """One sample. A thread per environment, body and column; column 0 is the net force, with the timers."""
    e, s, c = wp.tid()
    clock = clocks[e, s, c] + 1
    clocks[e, s, c] = clock
    if timed == 1 and c == 0:
        state[e, s, CLOCK] = clock
    if not due(clock, dt, period):
        return
    if c == 0:
        n, f = normal[e, s], friction[e, s]
        push(normal_history, e, s, n)
        push(friction_history, e, s, f)
        push(total_history, e, s, n + f)
        if timed == 1:
            seen = int(2)
            if wp.length(n) > threshold:
                seen = int(1)
            keep_time(state, times, e, s, seen, debounce, dt)
        return
    k = c - 1
    nm, fm = normal_matrix[e, s, k], friction_matrix[e, s, k]
    push_column(normal_matrix_history, e, s, k, nm)
    push_column(friction_matrix_history, e, s, k, fm)
    push_column(total_matrix_history, e, s, k, nm + fm)
    if contact_pos.shape[2] > 0:
        p = points[e, s, k]
        mean = wp.vec3(wp.nan, wp.nan, wp.nan)
        if p[3] > 0.0:
            mean = wp.vec3(p[0], p[1], p[2]) / p[3]
        contact_pos[e, s, k] = mean


@wp.kernel
def clear(
    mask: wp.array(dtype=wp.bool),
    clocks: wp.array3d(dtype=int),
    state: wp.array3d(dtype=int),
    times: wp.array3d(dtype=float),
    normal_history: wp.array3d(dtype=wp.vec3),
    friction_history: wp.array3d(dtype=wp.vec3),
    total_history: wp.array3d(dtype=wp.vec3),
    normal_matrix_history: wp.array4d(dtype=wp.vec3),
    friction_matrix_history: wp.array4d(dtype=wp.vec3),
    total_matrix_history: wp.array4d(dtype=wp.vec3),
    contact_pos: wp.array3d(dtype=wp.vec3),
):
    e, s = wp.tid()
    if not mask[e]:
        return
    zero = wp.vec3(0.0, 0.0, 0.0)
    for k in range(clocks.shape[2]):
        clocks[e, s, k] = 0
    for k in range(state.shape[2]):
        state[e, s, k] = 0
    for k in range(times.shape[0]):
        times[k, e, s] = 0.0
    for h in range(total_history.shape[1]):
        normal_history[e, h, s] = zero
        total_history[e, h, s] = zero
        if friction_history.shape[1] > 0:
            friction_history[e, h, s] = zero
        for c in range(normal_matrix_history.shape[3]):
            normal_matrix_history[e, h, s, c] = zero
            total_matrix_history[e, h, s, c] = zero
            if friction_matrix_history.shape[1] > 0:
                friction_matrix_history[e, h, s, c] = zero
    for c in range(contact_pos.shape[2]):
        contact_pos[e, s, c] = wp.vec3(wp.nan, wp.nan, wp.nan)
