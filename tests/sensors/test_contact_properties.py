# SPDX-License-Identifier: Apache-2.0
"""The whole bookkeeping of the contact sensor against a model in plain Python, and columns on real physics."""

from __future__ import annotations

import contextlib
import math
import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forcelab.physics import NewtonCfg
from forcelab.physics.engine import Capabilities, ContactQuery, ContactReader
from forcelab.physics.paths import BodyIndex
from forcelab.physics.warp_setup import start_warp
from forcelab.scene import (
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg
from forcelab.sensors.sensor_base import SensorWorld

start_warp()

NS = "{ENV_REGEX_NS}"
PARTNERS = ["Cup", "Rod", "Bin"]


class Engine:
    """As much of an engine as the sensor asks for; its forces are written by the test."""

    name = "by hand"
    device = torch.device("cpu")
    capabilities = Capabilities(contact_points=True)

    def __init__(self, num_envs: int, dt: float):
        self.num_envs, self.dt = num_envs, dt

    def add_contact_reader(self, query: ContactQuery) -> ContactReader:
        E, S, F = self.num_envs, len(query.bodies), len(query.filters)
        self.reader = ContactReader(query, torch.zeros(E, S, 3), torch.zeros(E, S, 3))
        if F:
            self.reader.normal_matrix = torch.zeros(E, S, F, 3)
            self.reader.friction_matrix = torch.zeros(E, S, F, 3)
            if query.points:
                self.reader.points = torch.zeros(E, S, F, 4)
        return self.reader

    def stream(self) -> Any:
        return contextlib.nullcontext()


def due(clock: int, dt: Fraction, period: Fraction) -> bool:
    """Whether a multiple of the period lies in the step, exactly."""
    return (
        period <= 0 or clock == 1 or math.floor(clock * dt / period) > math.floor((clock - 1) * dt / period)
    )


@dataclass
class Model:
    """One environment and one body, in the contract's words."""

    dt: Fraction
    period: Fraction
    threshold: float
    debounce: int
    depth: int
    columns: int
    clock: int = 0
    sampled: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    touching: bool | None = None
    waiting: int = 0
    steps: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("air", "contact", "last_air", "last_contact"), 0)
    )
    changed_at: int | None = None

    def step(self, sample: dict[str, Any]) -> None:
        self.clock += 1
        if not due(self.clock, self.dt, self.period):
            return
        elapsed, self.sampled = self.clock - self.sampled, self.clock
        self.samples.append(sample)
        seen = float(np.linalg.norm(sample["normal"].astype(np.float32))) > np.float32(self.threshold)
        names = {True: "contact", False: "air"}
        if self.touching is None:
            self.touching = seen
            self.steps[names[seen]] = elapsed
            return
        self.waiting = self.waiting + 1 if seen != self.touching else 0
        if self.waiting > self.debounce:
            old = names[self.touching]
            self.steps[f"last_{old}"] = self.steps[old] + elapsed
            self.steps[old], self.steps[names[seen]] = 0, elapsed
            self.touching, self.waiting, self.changed_at = seen, 0, len(self.samples)
        else:
            self.steps[names[self.touching]] += elapsed

    def flag(self, touching: bool, window: int) -> bool:
        recent = self.changed_at is not None and len(self.samples) - self.changed_at < window
        return recent and self.touching == touching

    def history(self, key: str) -> np.ndarray:
        zero = np.zeros((3,) if key in ("normal", "friction") else (self.columns, 3))
        newest = [s[key] for s in self.samples[::-1]][: self.depth]
        return np.stack(newest + [zero] * (self.depth - len(newest))).astype(np.float32)

    def points(self) -> np.ndarray:
        if not self.samples:
            return np.full((self.columns, 3), np.nan, dtype=np.float32)
        p = self.samples[-1]["points"]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(p[:, 3:] > 0, p[:, :3] / p[:, 3:], np.nan)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 3),
    bodies=st.integers(1, 2),
    columns=st.integers(0, 3),
    history=st.integers(0, 4),
    debounce=st.integers(0, 3),
    # Time steps and periods in units of 0.5 ms.
    dt=st.sampled_from([2, 4, 10, 40]),
    period=st.sampled_from([0, 1, 4, 10, 17, 24, 40, 100]),
    threshold=st.sampled_from([0.0, 1e-6, 1.0, 3.0]),
    friction=st.booleans(),
    points=st.booleans(),
)
def test_every_buffer_follows_the_model(
    seed: int,
    num_envs: int,
    bodies: int,
    columns: int,
    history: int,
    debounce: int,
    dt: int,
    period: int,
    threshold: float,
    friction: bool,
    points: bool,
) -> None:
    """Forces, matrices, histories, points, timers and flags, through random forces and partial resets."""
    if columns:
        bodies = 1
    points = points and columns > 0
    unit = Fraction(1, 2000)
    engine = Engine(num_envs, float(dt * unit))
    cfg = ContactSensorCfg(
        prim_path=f"{NS}/Foot_.*",
        filter_prim_paths_expr=[f"{NS}/{p}" for p in PARTNERS[:columns]],
        track_air_time=True,
        track_friction_forces=friction,
        track_contact_points=points,
        update_period=float(period * unit),
        contact_debounce=debounce,
        history_length=history,
        force_threshold=threshold,
    )
    index = BodyIndex([*(f"Foot_{i}" for i in range(bodies)), *PARTNERS])
    sensor = cfg.create("feet", SensorWorld(engine, index))  # type: ignore[arg-type]
    sensor.build()
    d, reader, depth = sensor.data, engine.reader, max(1, history)

    def fresh() -> list[Model]:
        return [Model(dt * unit, period * unit, threshold, debounce, depth, columns) for _ in range(bodies)]

    def check(models: list[list[Model]]) -> None:
        def expect(key: str) -> torch.Tensor:
            found = np.stack([np.stack([m.history(key) for m in env], axis=1) for env in models])
            return torch.as_tensor(found)

        pairs = [("net_normal_forces_w", expect("normal"))]
        pairs.append(("net_forces_w", expect("normal") + expect("friction")))
        if friction:
            pairs.append(("net_friction_forces_w", expect("friction")))
        if columns:
            normal, tangent = expect("normal_matrix"), expect("friction_matrix")
            pairs += [("normal_force_matrix_w", normal), ("force_matrix_w", normal + tangent)]
            if friction:
                pairs.append(("friction_force_matrix_w", tangent))
        for name, expected in pairs:
            assert torch.equal(getattr(d, f"{name}_history").torch, expected), name
            assert torch.equal(getattr(d, name).torch, expected[:, 0]), name
        if points:
            expected = torch.as_tensor(np.stack([np.stack([m.points() for m in env]) for env in models]))
            torch.testing.assert_close(d.contact_pos_w.torch, expected, equal_nan=True)
        times = {
            "air": d.current_air_time,
            "contact": d.current_contact_time,
            "last_air": d.last_air_time,
            "last_contact": d.last_contact_time,
        }
        for key, got in times.items():
            expected = [[float(m.steps[key] * m.dt) for m in env] for env in models]
            assert got.tolist() == pytest.approx(np.array(expected), rel=1e-6), key
        interval = max(engine.dt, cfg.update_period)
        for window in (1, 2, 5):
            for flags, touching in ((sensor.compute_first_contact, True), (sensor.compute_first_air, False)):
                assert flags(window * interval).tolist() == [
                    [m.flag(touching, window) for m in env] for env in models
                ], (window, touching)

    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    models = [fresh() for _ in range(num_envs)]
    sensor.reset()
    check(models)
    for _ in range(40):
        if rng.random() < 0.1:
            mask = [rng.random() < 0.5 for _ in range(num_envs)]
            sensor.reset(torch.tensor(mask))
            models = [fresh() if hit else env for hit, env in zip(mask, models)]
            check(models)
        for e in range(num_envs):
            for b in range(bodies):
                # Whole numbers keep sums exact; a norm of exactly the threshold is no contact.
                touch = rng.choice([0.0, 0.0, threshold, threshold + 1.0, 5.0])
                sample = {
                    "normal": np.array([0.0, 0.0, touch]),
                    "friction": numbers.integers(-9, 9, 3).astype(float),
                    "normal_matrix": numbers.integers(-9, 9, (columns, 3)).astype(float),
                    "friction_matrix": numbers.integers(-9, 9, (columns, 3)).astype(float),
                    "points": np.concatenate(
                        [numbers.normal(size=(columns, 3)), numbers.integers(0, 3, (columns, 1))], axis=1
                    ).astype(np.float32),
                }
                reader.normal[e, b] = torch.as_tensor(sample["normal"])
                reader.friction[e, b] = torch.as_tensor(sample["friction"])
                if columns:
                    assert reader.normal_matrix is not None and reader.friction_matrix is not None
                    reader.normal_matrix[e, b] = torch.as_tensor(sample["normal_matrix"])
                    reader.friction_matrix[e, b] = torch.as_tensor(sample["friction_matrix"])
                if reader.points is not None:
                    reader.points[e, b] = torch.as_tensor(sample["points"])
                models[e][b].step(sample)
        sensor.launch_sample()
        check(models)
        # Reads change nothing.
        check(models)


# ---- columns on real physics ----

THINGS = ["Tray", "Ball", "Cube", "Far"]
SINGLES = ["/World/ground", "/World/wall", *(f"{NS}/{t}" for t in THINGS)]


class ThingsCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.5)
    wall = PlaneCfg(prim_path="/World/wall", init_pos=(-0.31, 0, 0), init_rot=(0, 0.70710678, 0, 0.70710678))
    tray = RigidObjectCfg(
        prim_path=f"{NS}/Tray",
        spawn=CuboidCfg(size=(0.6, 0.6, 0.1), mass=3.0),
        init_pos=(0, 0, 0.05),
        init_lin_vel=(-0.5, 0, 0),
    )
    ball = RigidObjectCfg(
        prim_path=f"{NS}/Ball",
        spawn=SphereCfg(radius=0.1, mass=1.0),
        init_pos=(-0.1, 0.1, 0.21),
        init_ang_vel=(0, 4, 0),
    )
    cube = RigidObjectCfg(
        prim_path=f"{NS}/Cube", spawn=[CuboidCfg(size=(0.1, 0.1, 0.1), mass=0.5)], init_pos=(0.1, -0.1, 0.16)
    )
    far = RigidObjectCfg(prim_path=f"{NS}/Far", spawn=SphereCfg(radius=0.1), init_pos=(3, 0, 0.1))
    single = ContactSensorCfg(
        prim_path=f"{NS}/Tray",
        filter_prim_paths_expr=SINGLES,
        track_friction_forces=True,
        track_contact_points=True,
    )


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(THINGS), min_size=1, max_size=4, unique=True),
            st.lists(st.sampled_from(["ground", "wall"]), min_size=1, max_size=2, unique=True),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_a_column_is_the_sum_of_its_partners(columns: list[list[str]]) -> None:
    """Any assignment of partners to columns, one partner in several of them as well, against one column each."""
    cfg = ThingsCfg(num_envs=2, env_spacing=0.0)
    cfg.mixed = ContactSensorCfg(
        prim_path=f"{NS}/Tray",
        filter_prim_paths_expr=[
            f"/World/({'|'.join(c)})" if c[0] in ("ground", "wall") else f"{NS}/({'|'.join(c)})"
            for c in columns
        ],
        track_friction_forces=True,
        track_contact_points=True,
    )
    scene = InteractiveScene(cfg, NewtonCfg())
    single, mixed = scene["single"].data, scene["mixed"].data
    member = torch.zeros(len(columns), len(SINGLES))
    for c, names in enumerate(columns):
        for name in names:
            member[c, [s.rsplit("/", 1)[-1] for s in SINGLES].index(name)] = 1.0
    touched = torch.zeros(len(SINGLES))
    for _ in range(25):
        scene.step()
        for name in ("force_matrix_w", "normal_force_matrix_w", "friction_force_matrix_w"):
            parts = getattr(single, name)[:, 0]
            torch.testing.assert_close(
                getattr(mixed, name)[:, 0], torch.einsum("cp,epd->ecd", member, parts), rtol=1e-4, atol=1e-3
            )
        assert torch.equal(mixed.net_forces_w.torch, single.net_forces_w.torch)
        touched += single.force_matrix_w[0, 0].norm(dim=-1)
        # Where exactly one of its partners touches, a column's point is that partner's.
        here = ~torch.isnan(single.contact_pos_w[:, 0, :, 0])
        count = torch.einsum("cp,ep->ec", member, here.float())
        points = torch.einsum("cp,epd->ecd", member, torch.nan_to_num(single.contact_pos_w[:, 0]))
        torch.testing.assert_close(
            mixed.contact_pos_w[:, 0][count == 1], points[count == 1], rtol=1e-4, atol=1e-5
        )
        assert bool((torch.isnan(mixed.contact_pos_w[:, 0, :, 0]) == (count == 0)).all())
    assert (touched > 0).tolist() == [True, True, False, True, True, False]
    scene.close()
