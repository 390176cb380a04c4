# SPDX-License-Identifier: Apache-2.0
"""Timers, flags, names, update period and errors of the contact sensor."""

from __future__ import annotations

import random

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import ContactSensorCfg
from forcelab.sensors.contact import contact_kernels as columns

DT = 0.005
CUBE = "{ENV_REGEX_NS}/Cube"


def cube_sensor(**kw: object) -> ContactSensorCfg:
    return ContactSensorCfg(prim_path=CUBE, track_air_time=True, **kw)  # type: ignore[arg-type]


class TouchCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    cube = RigidObjectCfg(
        prim_path=CUBE, spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=2.0), init_pos=(0, 0, 0.0995)
    )
    each = cube_sensor(history_length=3)
    every_4 = cube_sensor(update_period=4 * DT)
    odd = cube_sensor(update_period=0.012)
    bounced = cube_sensor(contact_debounce=2)
    plain = ContactSensorCfg(prim_path=CUBE)
    heavy = cube_sensor(force_threshold=1e6)


@pytest.fixture(scope="module")
def scene():
    s = InteractiveScene(TouchCfg(num_envs=2), NewtonCfg(dt=DT))
    yield s
    s.close()


def step(scene: InteractiveScene, touching: list[bool]) -> None:
    """One physics step with the cube of each environment on or off the ground."""
    pose = scene["cube"].data.default_root_pose.torch.clone()
    pose[:, 2] = torch.tensor([0.0995 if t else 1.0 for t in touching])
    scene["cube"].write_root_pose(pose)
    scene["cube"].write_root_velocity(torch.zeros(2, 6))
    scene.step()
    seen = scene["plain"].data.net_normal_forces_w[:, 0].norm(dim=-1) > 0
    assert seen.tolist() == touching


class Reference:
    """The contract's timers, in plain Python, for one environment."""

    def __init__(self, period: float = 0.0, debounce: int = 0):
        self.period, self.debounce = period, debounce
        self.clock = self.sampled = self.pending = 0
        self.mode: bool | None = None
        self.times = dict.fromkeys(("air", "contact", "last_air", "last_contact"), 0)
        self.changes: list[tuple[int, bool]] = []
        self.samples = 0

    def step(self, touching: bool) -> None:
        self.clock += 1
        if self.period and self.clock > 1:
            due = any(
                abs(k * self.period - self.clock * DT) < 1e-9
                or (self.clock - 1) * DT + 1e-9 < k * self.period <= self.clock * DT + 1e-9
                for k in range(int(self.clock * DT / self.period) + 2)
            )
            if not due:
                return
        elapsed, self.sampled = self.clock - self.sampled, self.clock
        self.samples += 1
        now = "contact" if touching else "air"
        if self.mode is None:
            self.mode = touching
            self.times[now] = elapsed
            return
        old = "contact" if self.mode else "air"
        if touching != self.mode:
            self.pending += 1
            if self.pending > self.debounce:
                self.times[f"last_{old}"] = self.times[old] + elapsed
                self.times[old], self.times[now] = 0, elapsed
                self.mode, self.pending = touching, 0
                self.changes.append((self.samples, touching))
                return
        else:
            self.pending = 0
        self.times[old] += elapsed

    def flag(self, mode: bool, samples: int) -> bool:
        return bool(self.changes and self.mode == mode and self.samples - self.changes[-1][0] < samples)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_timers_follow_the_reference(scene, seed):
    """Random touch patterns, periods and partial resets, against the contract in plain Python."""
    rng = random.Random(seed)
    scene.reset()
    kinds = {"each": (0.0, 0), "every_4": (4 * DT, 0), "odd": (0.012, 0), "bounced": (0.0, 2)}
    refs = {name: [Reference(*args) for _ in range(2)] for name, args in kinds.items()}
    touching = [True, False]
    for i in range(160):
        touching = [t if rng.random() < 0.7 else not t for t in touching]
        if rng.random() < 0.03:
            e = rng.randrange(2)
            scene.reset(torch.tensor([e == 0, e == 1]))
            for name, args in kinds.items():
                refs[name][e] = Reference(*args)
        step(scene, touching)
        for name, (period, _) in kinds.items():
            d = scene[name].data
            interval = period or DT
            first_contact = scene[name].compute_first_contact(4 * interval if not period else interval)
            first_air = scene[name].compute_first_air(4 * interval if not period else interval)
            for e in range(2):
                ref = refs[name][e]
                ref.step(touching[e])
                where = f"{name}, environment {e}, step {i}"
                got = [d.current_air_time, d.current_contact_time, d.last_air_time, d.last_contact_time]
                for value, key in zip(got, ("air", "contact", "last_air", "last_contact")):
                    assert float(value[e, 0]) == pytest.approx(ref.times[key] * DT, abs=1e-6), (
                        f"{where}, {key}"
                    )
                window = 4 if not period else 1
                assert bool(first_contact[e, 0]) == ref.flag(True, window), where
                assert bool(first_air[e, 0]) == ref.flag(False, window), where


@pytest.mark.parametrize("start", [0.0, 16.0, 10_000.0])
@pytest.mark.parametrize("substep", [0, 1, 2, 3])
def test_one_flag_per_transition_at_any_clock(scene, start, substep):
    """Landings and take-offs on each substep of a policy step of 4; polled once per policy step."""
    scene.reset()
    sensor = scene["each"]
    step(scene, [False, False])
    for _ in range(3):
        step(scene, [False, False])
    for column in (columns.CLOCK, columns.SAMPLED):
        sensor._state[..., column] += round(start / DT)
    landings = take_offs = 0
    down = False
    for _cycle in range(6):
        for i in range(4):
            if i == substep:
                down = not down
            step(scene, [down, down])
        landings += sensor.compute_first_contact(4 * DT).int()
        take_offs += sensor.compute_first_air(4 * DT).int()
    assert landings.tolist() == [[3], [3]]
    assert take_offs.tolist() == [[3], [3]]


def test_the_sample_that_changes_the_mode_belongs_to_both(scene):
    scene.reset()
    d = scene["each"].data
    step(scene, [False, False])
    step(scene, [False, False])
    step(scene, [True, True])
    assert float(d.last_air_time[0]) == pytest.approx(3 * DT)
    assert float(d.current_contact_time[0]) == pytest.approx(DT)
    assert float(d.current_air_time[0]) == 0.0


@pytest.mark.parametrize("touching", [True, False])
def test_no_flag_on_the_first_step_after_a_reset(scene, touching):
    """A robot spawned on the ground has not landed; one spawned in the air has not taken off."""
    for _ in range(3):
        step(scene, [not touching, not touching])
    scene.reset()
    step(scene, [touching, touching])
    assert not scene["each"].compute_first_contact(DT).any()
    assert not scene["each"].compute_first_air(DT).any()


def test_flags_are_separate_bool_tensors_and_reading_changes_nothing(scene):
    scene.reset()
    step(scene, [False, False])
    step(scene, [True, True])
    sensor = scene["each"]
    landed = sensor.compute_first_contact(DT)
    kept = landed.clone()
    left = sensor.compute_first_air(DT)
    assert landed.dtype == torch.bool and landed.shape == (2, 1)
    assert torch.equal(landed, kept) and landed.data_ptr() != left.data_ptr()
    assert torch.equal(sensor.compute_first_contact(DT), kept)
    assert bool(kept.all()) and not bool(left.any())


def test_threshold_is_strict_and_in_newtons(scene):
    scene.reset()
    step(scene, [True, True])
    assert float(scene["heavy"].data.current_contact_time.max()) == 0.0
    assert float(scene["heavy"].data.current_air_time.min()) > 0.0


def test_update_period_holds_readings_between_samples(scene):
    scene.reset()
    d = scene["every_4"].data
    step(scene, [True, True])  # the first step after a reset always samples
    first = d.net_forces_w.torch.clone()
    assert float(first[..., 2].min()) > 0
    for _ in range(2):
        step(scene, [False, False])
        assert torch.equal(d.net_forces_w, first)
    step(scene, [False, False])  # clock 4: due
    assert float(d.net_forces_w.torch.abs().max()) == 0.0


def test_short_contact_is_not_lost_between_reads(scene):
    scene.reset()
    for touching in (False, True, False, False):
        step(scene, [touching, touching])
    h = scene["each"].data.net_normal_forces_w_history
    assert h.shape == (2, 3, 1, 3)
    assert [float(v) > 0 for v in h[0, :, 0].norm(dim=-1)] == [False, False, True]
    assert float(scene["each"].data.last_contact_time[0, 0]) == pytest.approx(2 * DT)


def test_untracked_properties_are_none(scene):
    d = scene["plain"].data
    assert d.net_friction_forces_w is None and d.friction_forces_w is None
    assert d.normal_force_matrix_w is None and d.force_matrix_w is None and d.friction_force_matrix_w is None
    assert d.normal_force_matrix_w_history is None and d.net_friction_forces_w_history is None
    assert d.contact_pos_w is None and d.current_air_time is None and d.last_contact_time is None
    assert d.net_forces_w_history.shape == (2, 1, 1, 3)
    with pytest.raises(RuntimeError, match="track_air_time"):
        scene["plain"].compute_first_contact(DT)
    for name in ("pos_w", "quat_w", "pose_w"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(d, name)


def test_dt_must_be_a_multiple_of_the_sample_interval(scene):
    with pytest.raises(ValueError, match="multiple of the sample interval"):
        scene["each"].compute_first_contact(0.0073)
    with pytest.raises(ValueError, match="multiple of the sample interval"):
        scene["every_4"].compute_first_air(DT)


def test_arrays_show_one_memory(scene):
    scene.reset()
    step(scene, [True, True])
    force = scene["each"].data.net_forces_w
    assert type(force[0]) is torch.Tensor and type(force.torch) is torch.Tensor
    assert force.torch.data_ptr() == force.warp.ptr
    assert type(force * 2) is torch.Tensor


class RobotCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    robot = ArticulationCfg(prim_path="{ENV_REGEX_NS}/Robot", spawn=MjcfCfg("quadruped.xml"))


def robot_scene(**sensor: object) -> InteractiveScene:
    cfg = RobotCfg(num_envs=1)
    cfg.touch = ContactSensorCfg(**sensor)  # type: ignore[arg-type]
    return InteractiveScene(cfg, NewtonCfg())


@pytest.mark.parametrize(
    ("sensor", "expected"),
    [
        ({"prim_path": "{ENV_REGEX_NS}/Robot"}, "is no rigid body. Rigid bodies below it: .*Robot/LF_FOOT"),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/LF_FOT"}, "Did you mean 'Robot/LF_FOOT'"),
        ({"prim_path": "/Robot/LF_FOOT"}, "must begin with"),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/*("}, "not a regular expression"),
        (
            {"prim_path": "{ENV_REGEX_NS}/Robot/.*_FOOT", "filter_prim_paths_expr": ["/World/ground"]},
            "must name one body.*LF_FOOT.*one sensor per body",
        ),
        (
            {"prim_path": "{ENV_REGEX_NS}/Robot/LF_FOOT", "filter_prim_paths_expr": ["/World/grund"]},
            "Did you mean '/World/ground'",
        ),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/LF_FOOT", "force_threshold": True}, "force_threshold is True"),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/LF_FOOT", "force_threshold": -1.0}, "force_threshold is -1.0"),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/LF_FOOT", "update_period": -0.1}, "update_period is -0.1"),
        ({"prim_path": "{ENV_REGEX_NS}/Robot/LF_FOOT", "history_length": -1}, "history_length is -1"),
        (
            {"prim_path": "{ENV_REGEX_NS}/Robot/LF_FOOT", "track_contact_points": True},
            "needs filter_prim_paths_expr",
        ),
    ],
)
def test_bad_configuration_names_the_key_and_what_to_do(sensor, expected):
    with pytest.raises(ValueError, match=expected):
        robot_scene(**sensor)


def test_names_flat_and_tree_paths():
    cfg = RobotCfg(num_envs=2)
    ns = "{ENV_REGEX_NS}/Robot"
    cfg.feet = ContactSensorCfg(prim_path=f"{ns}/.*_FOOT")
    cfg.tree = ContactSensorCfg(prim_path=f"{ns}/base/LF_HIP/LF_THIGH/LF_SHANK/LF_FOOT")
    cfg.other = ContactSensorCfg(prim_path="/World/envs/env_.*/Robot/(LF|RH)_SHANK")
    with pytest.warns(UserWarning, match="max_contact_data_count_per_prim is ignored"):
        cfg.warned = ContactSensorCfg(prim_path=f"{ns}/base", max_contact_data_count_per_prim=8)
        scene = InteractiveScene(cfg, NewtonCfg())
    feet = scene["feet"]
    assert feet.body_names == ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"] and feet.num_bodies == 4
    assert scene["tree"].body_names == ["LF_FOOT"]
    assert scene["other"].body_names == ["LF_SHANK", "RH_SHANK"]
    assert feet.find_bodies(["RH_FOOT", "LF_FOOT"]) == ([0, 3], ["LF_FOOT", "RH_FOOT"])
    assert feet.find_bodies(["RH_FOOT", "LF_FOOT"], preserve_order=True) == ([3, 0], ["RH_FOOT", "LF_FOOT"])
    assert feet.find_bodies(".*")[0] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="Did you mean 'LF_FOOT'"):
        feet.find_bodies("LF_FOO")
    with pytest.raises(KeyError, match="Did you mean 'feet'"):
        scene["feat"]
    scene.close()
