# SPDX-License-Identifier: Apache-2.0
"""Properties of timers and flags for any touch pattern, period and debounce, with forces set by hand."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forcelab.physics.engine import Capabilities, ContactQuery, ContactReader
from forcelab.physics.paths import BodyIndex
from forcelab.physics.warp_setup import start_warp
from forcelab.sensors import ContactSensorCfg
from forcelab.sensors.contact import contact_kernels as columns
from forcelab.sensors.sensor_base import SensorWorld

start_warp()

DT = 0.005
PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)


class Engine:
    """As much of an engine as the sensor asks for; its forces are written by the test."""

    name = "by hand"
    num_envs = 1
    dt = DT
    device = torch.device("cpu")
    capabilities = Capabilities()

    def add_contact_reader(self, query: ContactQuery) -> ContactReader:
        self.normal = torch.zeros(1, len(query.bodies), 3)
        return ContactReader(query, self.normal, torch.zeros_like(self.normal))

    def stream(self) -> Any:
        return contextlib.nullcontext()


class Sensor:
    """One sensing body that touches when told."""

    def __init__(self, period: float = 0.0, debounce: int = 0):
        self.engine = Engine()
        cfg = ContactSensorCfg(
            prim_path="{ENV_REGEX_NS}/Foot",
            track_air_time=True,
            update_period=period,
            contact_debounce=debounce,
            history_length=3,
        )
        world = SensorWorld(self.engine, BodyIndex(["Foot"]))  # type: ignore[arg-type]
        self.sensor = cfg.create("foot", world)
        self.sensor.build()
        self.sensor.reset()

    def step(self, touches: bool) -> None:
        self.engine.normal[..., 2] = 1.0 if touches else 0.0
        self.sensor.launch_sample()

    def times(self) -> list[int]:
        """Current air, current contact, last air, last contact, in physics steps."""
        d = self.sensor.data
        found = (d.current_air_time, d.current_contact_time, d.last_air_time, d.last_contact_time)
        steps = [float(t[0, 0]) / DT for t in found]
        assert all(abs(s - round(s)) < 1e-3 for s in steps)
        return [round(s) for s in steps]

    def flags(self, window: int) -> tuple[bool, bool]:
        landed = self.sensor.compute_first_contact(window * DT)
        left = self.sensor.compute_first_air(window * DT)
        return bool(landed), bool(left)


def runs(pattern: list[bool]) -> list[tuple[bool, int]]:
    out: list[list[Any]] = []
    for touches in pattern:
        if out and out[-1][0] == touches:
            out[-1][1] += 1
        else:
            out.append([touches, 1])
    return [(t, n) for t, n in out]


def debounced(pattern: list[bool], debounce: int) -> list[bool]:
    """The mode at each sample: a new one is taken once it has lasted for more than ``debounce`` samples."""
    mode, waiting, out = pattern[0], 0, []
    for touches in pattern:
        waiting = waiting + 1 if touches != mode else 0
        if waiting > debounce:
            mode, waiting = touches, 0
        out.append(mode)
    return out


patterns = st.lists(st.tuples(st.booleans(), st.integers(1, 9)), min_size=1, max_size=12).map(
    lambda parts: [touches for touches, count in parts for _ in range(count)]
)


@PROPERTY
@given(patterns, st.integers(0, 4), st.sampled_from([0, 3200, 2_000_000, 10**9]))
def test_timers_are_the_lengths_of_the_runs(pattern: list[bool], debounce: int, clock: int) -> None:
    """Every run of one mode is closed with the sample that changes it, whatever the clock says."""
    sensor = Sensor(debounce=debounce)
    for i, touches in enumerate(pattern):
        if i == 1:
            for column in (columns.CLOCK, columns.SAMPLED):
                sensor.sensor._state[..., column] += clock
        sensor.step(touches)
        seen = runs(debounced(pattern[: i + 1], debounce))
        air, contact, last_air, last_contact = sensor.times()
        mode, length = seen[-1]
        assert (contact, air) == ((length, 0) if mode else (0, length))
        for value, kind in ((last_air, False), (last_contact, True)):
            closed = [n for t, n in seen[:-1] if t == kind]
            assert value == (closed[-1] + 1 if closed else 0)


@PROPERTY
@given(patterns, st.integers(0, 4), st.integers(1, 8))
def test_one_flag_per_transition(pattern: list[bool], debounce: int, window: int) -> None:
    """Polled every ``window`` steps: flags tell exactly whether the mode at the end began within the window."""
    sensor = Sensor(debounce=debounce)
    modes = debounced(pattern, debounce)
    for i, touches in enumerate(pattern):
        sensor.step(touches)
        if (i + 1) % window:
            continue
        recent = modes[max(0, i - window) : i + 1]  # with the sample before the window
        changed = len(set(recent)) == 2
        landed, left = sensor.flags(window)
        assert landed == (changed and modes[i])
        assert left == (changed and not modes[i])


@PROPERTY
@given(patterns, st.sampled_from([0.001, 0.005, 0.01, 0.0125, 0.02, 0.05, 0.0371]))
def test_sample_times_are_multiples_of_the_period(pattern: list[bool], period: float) -> None:
    """The first step samples, then the first step at or after each multiple; readings hold in between."""
    sensor = Sensor(period=period)
    due, multiple = 1, 1
    for clock, touches in enumerate(pattern, start=1):
        before = float(sensor.sensor.data.net_forces_w[0, 0, 2])
        sensor.step(touches)
        samples = clock == 1
        while multiple * period <= clock * DT + 1e-9:
            samples = samples or multiple * period > (clock - 1) * DT + 1e-9
            multiple += 1
        if samples:
            due = clock
        now = float(sensor.sensor.data.net_forces_w[0, 0, 2])
        assert now == (float(touches) if samples else before)
        assert sum(sensor.times()[:2]) <= due


@PROPERTY
@given(patterns, st.sampled_from([0.001, 0.004, 0.005, 0.01, 0.02]))
def test_flags_of_a_slow_or_a_fast_sensor(pattern: list[bool], period: float) -> None:
    """Polled every 4 steps a sensor flags a transition between its samples once, also below the step time."""
    sensor = Sensor(period=period)
    stride = max(1, round(period / DT))
    samples: list[bool] = []
    flagged = expected = 0
    for clock, touches in enumerate(pattern, start=1):
        sensor.step(touches)
        if clock == 1 or clock % stride == 0:
            samples.append(touches)
        if clock % 4 == 0:
            landed, left = sensor.flags(4)
            flagged += landed + left
            window = samples[-(4 // stride) - 1 :]
            expected += len(set(window)) == 2
    assert flagged == expected


@PROPERTY
@given(patterns, patterns)
def test_a_reset_forgets_everything(before: list[bool], after: list[bool]) -> None:
    """After a reset a used sensor and a new one read the same, flags included."""
    used, new = Sensor(debounce=1), Sensor(debounce=1)
    for touches in before:
        used.step(touches)
    used.sensor.reset(torch.tensor([True]))
    assert used.times() == [0, 0, 0, 0] and used.flags(4) == (False, False)
    assert not used.sensor.data.net_forces_w_history.torch.any()
    for touches in after:
        used.step(touches)
        new.step(touches)
        assert used.times() == new.times() and used.flags(4) == new.flags(4)
        history = [s.sensor.data.net_forces_w_history.torch for s in (used, new)]
        assert torch.equal(*history)


@PROPERTY
@given(patterns)
def test_a_debounce_hides_short_visits_from_the_timers_only(pattern: list[bool]) -> None:
    sensor = Sensor(debounce=100)
    for touches in pattern:
        sensor.step(touches)
        assert sensor.flags(1) == (False, False)
        # Forces are unaffected.
        assert float(sensor.sensor.data.net_forces_w[0, 0, 2]) == float(touches)
    assert sum(sensor.times()[:2]) == len(pattern)
