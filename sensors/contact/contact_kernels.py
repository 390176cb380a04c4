# SPDX-License-Identifier: Apache-2.0
"""One kernel takes the samples of all contact sensors: clocks, histories, timers, flags."""

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


# What a series records.
FORCES = 0
POINTS = 1
TIMERS = 2


@wp.struct
class Series:
    """One thing that a sensor records of one sensing body: one force's history, one contact point, or the timers.

    Arrays are views that begin with the environment, of shape (E,) where nothing else is said; those that the kind
    of series has no use for are empty.
    """

    kind: int
    period: wp.float64
    # physics steps since the reset; the timers have theirs in the state
    clock: wp.array(dtype=int)
    # the force: normal, friction or both
    has_normal: int
    has_friction: int
    normal: wp.array(dtype=wp.vec3)
    friction: wp.array(dtype=wp.vec3)
    history: wp.array2d(dtype=wp.vec3)  # (E, H)
    # sum and count of contact points, and their mean
    points: wp.array(dtype=wp.vec4)
    position: wp.array(dtype=wp.vec3)
    # timers
    threshold: float
    debounce: int
    state: wp.array2d(dtype=int)  # (E, STATE_COLUMNS)
    times: wp.array2d(dtype=float)  # (4, E)


@wp.func
def keep_time(
    state: wp.array2d(dtype=int),
    times: wp.array2d(dtype=float),
    e: int,
    seen: int,
    debounce: int,
    dt: wp.float64,
):
    """Take a sample in which the body was ``seen`` in a mode: 1 contact, 2 air."""
    clock = state[e, CLOCK]
    elapsed = clock - state[e, SAMPLED]
    state[e, SAMPLED] = clock
    mode = state[e, MODE]
    if mode == 0:
        # The first sample after a reset starts a mode; nothing has changed.
        state[e, MODE] = seen
        state[e, MODE_SAMPLES] = 1
        state[e, CHANGED] = 0
        if seen == 1:
            state[e, CONTACT] = elapsed
        else:
            state[e, AIR] = elapsed
    else:
        turn = int(0)
        if seen != mode:
            pending = state[e, PENDING] + 1
            state[e, PENDING] = pending
            if pending > debounce:
                turn = int(1)
        else:
            state[e, PENDING] = 0
        if turn == 1:
            # The sample that changes the mode closes the old one and opens the new one.
            if mode == 1:
                state[e, LAST_CONTACT] = state[e, CONTACT] + elapsed
                state[e, CONTACT] = 0
                state[e, AIR] = elapsed
            else:
                state[e, LAST_AIR] = state[e, AIR] + elapsed
                state[e, AIR] = 0
                state[e, CONTACT] = elapsed
            state[e, MODE] = seen
            state[e, MODE_SAMPLES] = 1
            state[e, CHANGED] = 1
            state[e, PENDING] = 0
        else:
            if mode == 1:
                state[e, CONTACT] = state[e, CONTACT] + elapsed
            else:
                state[e, AIR] = state[e, AIR] + elapsed
            state[e, MODE_SAMPLES] = state[e, MODE_SAMPLES] + 1
    for k in range(4):
        times[k, e] = float(wp.float64(state[e, AIR + k]) * dt)


@wp.kernel
def sample(series: wp.array(dtype=Series), dt: wp.float64):
    """One sample of every series of every contact sensor: many short threads, where a thread per body would wait."""
    i, e = wp.tid()
    r = series[i]
    if r.kind == TIMERS:
        clock = r.state[e, CLOCK] + 1
        r.state[e, CLOCK] = clock
        if due(clock, dt, r.period):
            seen = int(2)
            if wp.length(r.normal[e]) > r.threshold:
                seen = int(1)
            keep_time(r.state, r.times, e, seen, r.debounce, dt)
        return
    clock = r.clock[e] + 1
    r.clock[e] = clock
    if not due(clock, dt, r.period):
        return
    if r.kind == POINTS:
        p = r.points[e]
        mean = wp.vec3(wp.nan, wp.nan, wp.nan)
        if p[3] > 0.0:
            mean = wp.vec3(p[0], p[1], p[2]) / p[3]
        r.position[e] = mean
        return
    force = wp.vec3(0.0, 0.0, 0.0)
    if r.has_normal == 1:
        force = r.normal[e]
    if r.has_friction == 1:
        force += r.friction[e]
    for h in range(r.history.shape[1]):
        older = r.history[e, h]
        r.history[e, h] = force
        force = older


@wp.kernel
def clear(
    mask: wp.array(dtype=wp.bool),
    clocks: wp.array2d(dtype=int),
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
    if s == 0:
        for k in range(clocks.shape[0]):
            clocks[k, e] = 0
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
