# SPDX-License-Identifier: Apache-2.0
"""What is None, what is NaN, what raises and what warns: every rule of the contact sensor by itself.

`SITUATIONS` says where each of the situations that broke comparable software is tested.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.physics.array import Array
from forcelab.physics.engine import Capabilities, ContactQuery, ContactReader
from forcelab.physics.paths import BodyIndex
from forcelab.physics.warp_setup import start_warp
from forcelab.scene import InteractiveScene, InteractiveSceneCfg, PlaneCfg, RigidObjectCfg, SphereCfg
from forcelab.sensors import ContactSensorCfg
from forcelab.sensors.contact.contact_sensor import ContactSensor
from forcelab.sensors.sensor_base import SensorWorld

start_warp()

NS = "{ENV_REGEX_NS}"
BALL = f"{NS}/Ball"
FORCES = ("net_normal_forces_w", "net_forces_w")
FRICTION = ("net_friction_forces_w", "friction_forces_w")
MATRICES = ("normal_force_matrix_w", "force_matrix_w")
FRICTION_MATRIX = ("friction_force_matrix_w",)
TIMES = ("current_air_time", "current_contact_time", "last_air_time", "last_contact_time")
POSES = {"pos_w": 3, "quat_w": 4, "pose_w": 7}


# ---- None and NaN, on every engine ----


class BallCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    ball = RigidObjectCfg(prim_path=BALL, spawn=SphereCfg(radius=0.1, mass=1.0), init_pos=(0, 0, 0.2))


CHOICES = list(itertools.product((False, True), repeat=3))


@pytest.fixture(scope="module")
def scene(physics: Callable[..., Any]) -> Iterator[InteractiveScene]:
    """A sensor for every choice of (filters, friction, timers)."""
    cfg = BallCfg(num_envs=2)
    for filters, friction, timers in CHOICES:
        sensor = ContactSensorCfg(
            prim_path=BALL,
            filter_prim_paths_expr=["/World/ground", "/World/gr.*"] if filters else [],
            track_friction_forces=friction,
            track_air_time=timers,
            history_length=3 if timers else 0,
        )
        setattr(cfg, f"s{filters:d}{friction:d}{timers:d}", sensor)
    built = InteractiveScene(cfg, physics(dt=0.005))
    yield built
    built.close()


@pytest.mark.parametrize(("filters", "friction", "timers"), CHOICES)
@pytest.mark.parametrize("stepped", [False, True])
def test_what_is_none(
    scene: InteractiveScene, filters: bool, friction: bool, timers: bool, stepped: bool
) -> None:
    """Exactly what was not asked for, before and after steps; the rest has its shape, zero before a step."""
    scene.reset()
    if stepped:
        for _ in range(60):
            scene.step()
    sensor = scene[f"s{filters:d}{friction:d}{timers:d}"]
    d, depth = sensor.data, 3 if timers else 1
    expected: dict[str, tuple[int, ...] | None] = {}
    for names, there, shape in (
        (FORCES, True, (1, 3)),
        (FRICTION, friction, (1, 3)),
        (MATRICES, filters, (1, 2, 3)),
        (FRICTION_MATRIX, filters and friction, (1, 2, 3)),
    ):
        for name in names:
            expected[name] = (2, *shape) if there else None
            expected[f"{name}_history"] = (2, depth, *shape) if there else None
    expected |= dict.fromkeys(TIMES, (2, 1) if timers else None)
    expected["contact_pos_w"] = None
    for name, shape in expected.items():
        value = getattr(d, name)
        if shape is None:
            assert value is None, name
            continue
        assert isinstance(value, Array) and tuple(value.shape) == shape, name
        assert value.torch.data_ptr() == value.warp.ptr, name
        assert bool(torch.isfinite(value).all()), name
        if not stepped:
            assert not value.any(), name
        if name.endswith("_history"):
            assert torch.equal(value[:, 0], getattr(d, name.removesuffix("_history")).torch), name
    if stepped:
        assert float(d.net_forces_w[..., 2].min()) > 5
    for name in POSES:
        if scene.engine.name == "newton":
            with pytest.raises(NotImplementedError, match=rf"{name}: the 'newton' engine .*data.body_pose_w"):
                getattr(d, name)
        else:
            assert getattr(d, name) is None, name
    if not timers:
        for flags in (sensor.compute_first_contact, sensor.compute_first_air):
            with pytest.raises(RuntimeError, match=rf"'{sensor.name}'.*track_air_time=True"):
                flags(0.005)


@pytest.mark.parametrize("asked", [False, True])
def test_poses_raise_on_newton_whether_or_not_they_are_tracked(asked: bool) -> None:
    cfg = BallCfg(num_envs=1)
    cfg.touch = ContactSensorCfg(prim_path=BALL, track_pose=asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scene = InteractiveScene(cfg, NewtonCfg())
    for stepped in (False, True):
        for name in POSES:
            with pytest.raises(NotImplementedError, match=name):
                getattr(scene["touch"].data, name)
        if not stepped:
            scene.step()
    scene.close()


@pytest.mark.parametrize(("count", "warned"), [(None, 0), (0, 1), (8, 1)])
def test_newton_ignores_the_capacity_for_points_with_one_warning(count: int | None, warned: int) -> None:
    cfg = BallCfg(num_envs=1)
    points: dict[str, Any] = {"filter_prim_paths_expr": ["/World/ground"], "track_contact_points": True}
    cfg.touch = ContactSensorCfg(prim_path=BALL, max_contact_data_count_per_prim=count, **points)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scene = InteractiveScene(cfg, NewtonCfg())
        for _ in range(60):
            scene.step()
            assert scene["touch"].data.contact_pos_w is not None
    assert [w.category for w in told] == [UserWarning] * warned
    for w in told:
        assert "scene.touch.max_contact_data_count_per_prim is ignored by the 'newton' engine" in str(
            w.message
        )
    assert not torch.isnan(scene["touch"].data.contact_pos_w.torch).any(), "nothing is cut"
    scene.close()


# ---- errors, without physics ----


class Engine:
    """An engine that can do nothing but report no contact."""

    name = "plain"
    num_envs, dt = 2, 0.005
    device = torch.device("cpu")
    capabilities = Capabilities()

    def add_contact_reader(self, query: ContactQuery) -> ContactReader:
        none = torch.zeros(2, len(query.bodies), 3)
        matrix = torch.zeros(2, len(query.bodies), len(query.filters), 3) if query.filters else None
        return ContactReader(query, none, none, matrix, matrix)

    def stream(self) -> Any:
        return contextlib.nullcontext()


INDEX = BodyIndex(
    ["Robot/base", "Robot/HIP", "Robot/LF_FOOT", "Robot/RF_FOOT", "Ball"],
    ["Robot/base", "Robot/base/HIP", "Robot/base/HIP/LF_FOOT", "Robot/base/HIP/RF_FOOT", "Ball"],
    ["/World/ground"],
    ["Robot/LF_FOOT/0", "Ball/0"],
    ["/World/ground/0"],
)


def make(**settings: Any) -> ContactSensor:
    cfg = ContactSensorCfg(**{"prim_path": BALL, **settings})
    sensor = cfg.create("touch", SensorWorld(Engine(), INDEX))  # type: ignore[arg-type]
    sensor.build()
    return sensor


NOT_WHOLE: tuple[Any, ...] = (-1, 1.5, True, "2", None, math.nan)
NOT_FLAG: tuple[Any, ...] = (1, 0, "yes", None)
NOT_TIME: tuple[Any, ...] = (-0.01, True, "0.1", None, math.nan, math.inf)
NOT_LIST: tuple[Any, ...] = ("/World/ground", [3], [None], None, {"/World/ground": 1})
FLAGS = ("track_pose", "track_contact_points", "track_friction_forces", "track_air_time", "debug_vis")
LISTS = ("filter_prim_paths_expr", "sensor_shape_prim_expr", "filter_shape_prim_expr")
BAD: dict[str, tuple[tuple[Any, ...], str]] = {
    "update_period": (NOT_TIME, "must be a finite number, 0 or more [s]"),
    "force_threshold": (NOT_TIME, "must be a finite number, 0 or more [N]"),
    "history_length": (NOT_WHOLE, "must be a whole number, 0 or more"),
    "contact_debounce": (NOT_WHOLE, "must be a whole number, 0 or more"),
    "max_contact_data_count_per_prim": (
        tuple(v for v in NOT_WHOLE if v is not None),
        "must be a whole number, 0 or more",
    ),
    **dict.fromkeys(FLAGS, (NOT_FLAG, "must be true or false")),
    **dict.fromkeys(LISTS, (NOT_LIST, "must be a list of path expressions")),
}


@pytest.mark.parametrize(
    ("key", "value", "need"),
    [
        pytest.param(key, value, need, id=f"{key}={value!r}")
        for key, (values, need) in BAD.items()
        for value in values
    ],
)
def test_a_bad_value_is_told_with_its_key_and_what_is_needed(key: str, value: Any, need: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"scene.touch.{key} is {value!r}; it {need}")):
        make(**{key: value})


def test_a_history_longer_than_any_machine_holds() -> None:
    with pytest.raises(
        ValueError, match=r"scene.touch.history_length is 1000000000; it must be at most 10000"
    ):
        make(history_length=10**9)
    with pytest.raises(ValueError, match=r"scene.touch.contact_debounce is 2147483648; it must be at most"):
        make(contact_debounce=2**31)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="force_treshold"):
        ContactSensorCfg(prim_path=BALL, force_treshold=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            f"{NS}/Robot",
            f"'{NS}/Robot' is no rigid body. Rigid bodies below it: {NS}/Robot/base, {NS}/Robot/HIP, ",
        ),
        (f"{NS}/Rob.*t", f"Rigid bodies below it: {NS}/Robot/base, {NS}/Robot/HIP"),
        (f"{NS}/Robot/LF_FOOD", "matches no rigid body. Did you mean 'Robot/LF_FOOT'"),
        (f"{NS}/Robot/FOOT", "matches no rigid body. Did you mean 'Robot/RF_FOOT' or 'Robot/LF_FOOT'"),
        (f"{NS}/Robot/LF_FOOT/0", "matches no rigid body. Did you mean 'Robot/LF_FOOT'"),
        (f"{NS}/Robot/base/LF_FOOT", "matches no rigid body."),
        ("/World/ground", "must begin with '{ENV_REGEX_NS}/'"),
        ("/World/envs/env_0/Ball", "must begin with '{ENV_REGEX_NS}/'"),
        ("Ball", "must begin with '{ENV_REGEX_NS}/'"),
        ("", "give a path such as"),
        (f"{NS}/Robot/(", "is not a regular expression"),
    ],
)
def test_a_path_that_names_no_body(path: str, expected: str) -> None:
    with pytest.raises(ValueError, match=rf"scene\.touch\.prim_path.*{re.escape(expected)}"):
        make(prim_path=path)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"prim_path": f"{NS}/Robot/.*_FOOT", "filter_prim_paths_expr": [BALL]},
            f"scene.touch: with filters, prim_path must name one body, but '{NS}/Robot/.*_FOOT' matches 2: "
            f"{NS}/Robot/LF_FOOT, {NS}/Robot/RF_FOOT. Declare one sensor per body.",
        ),
        (
            {"filter_prim_paths_expr": ["/World/ground", "/World/groun"]},
            "scene.touch.filter_prim_paths_expr[1] '/World/groun' matches neither a body ('{ENV_REGEX_NS}/…') nor "
            "static geometry. Did you mean '/World/ground'",
        ),
        (
            {"filter_prim_paths_expr": [f"{NS}/Robot/base", f"{NS}/Robot"]},
            f"scene.touch.filter_prim_paths_expr[1] '{NS}/Robot' is no rigid body. Rigid bodies below it: ",
        ),
        (
            {"filter_prim_paths_expr": [f"{NS}/Robot/bas"]},
            "matches no rigid body. Did you mean 'Robot/base'",
        ),
        (
            {"track_contact_points": True},
            "scene.touch.track_contact_points needs filter_prim_paths_expr or filter_shape_prim_expr",
        ),
        (
            {"filter_prim_paths_expr": [BALL], "filter_shape_prim_expr": [f"{BALL}/0"]},
            "scene.touch: filter_shape_prim_expr and filter_prim_paths_expr exclude each other; use one.",
        ),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        make(**settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"filter_prim_paths_expr": ["/World/ground"], "track_contact_points": True},
            "scene.touch.track_contact_points: the 'plain' engine does not",
        ),
        ({"track_pose": True}, "scene.touch.track_pose: the 'plain' engine does not"),
        ({"sensor_shape_prim_expr": [f"{BALL}/0"]}, "scene.touch: .*by shape.*'plain' engine; use prim_path"),
        ({"filter_shape_prim_expr": [f"{BALL}/0"]}, "scene.touch: .*by shape.*'plain' engine; use prim_path"),
    ],
)
def test_what_an_engine_lacks_is_told_at_the_build(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(NotImplementedError, match=expected):
        make(**settings)


@pytest.mark.parametrize("period", [0.0, 0.001, 0.01])
@pytest.mark.parametrize("dt", [0.0, -0.005, 0.0073, 0.012, math.nan, math.inf, True, "0.005", None])
def test_the_window_of_flags_is_a_multiple_of_the_sample_interval(period: float, dt: Any) -> None:
    sensor = make(track_air_time=True, update_period=period)
    for flags in (sensor.compute_first_contact, sensor.compute_first_air):
        with pytest.raises(ValueError, match=f"'touch': dt is {re.escape(repr(dt))}"):
            flags(dt)
        assert flags(0.02).dtype == torch.bool and flags(0.02).shape == (2, 1)


def test_the_window_may_be_off_by_rounding() -> None:
    sensor = make(track_air_time=True)
    assert not sensor.compute_first_contact(0.1 * 3 / 15).any()
    assert not sensor.compute_first_air(0.020000001).any()


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        (torch.ones(3, dtype=torch.bool), r"has dtype torch.bool and shape \(3,\)"),
        (torch.tensor([0]), r"has dtype torch.int64 and shape \(1,\)"),
        (torch.ones(2), "has dtype torch.float32"),
        ([True, False], "is a list"),
        (0, "is a int"),
    ],
)
def test_a_reset_takes_a_mask_and_nothing_else(mask: Any, found: str) -> None:
    with pytest.raises(ValueError, match=rf"'touch': env_mask {found}.*bool tensor of shape \(2,\)"):
        make().reset(mask)


def test_names_of_bodies() -> None:
    sensor = make(prim_path=f"{NS}/Robot/base/HIP/.*_FOOT")
    assert sensor.body_names == ["LF_FOOT", "RF_FOOT"] and sensor.num_bodies == 2
    assert sensor.find_bodies("RF_.*") == ([1], ["RF_FOOT"])
    assert sensor.find_bodies(["RF_FOOT", ".*"], preserve_order=True) == ([1, 0], ["RF_FOOT", "LF_FOOT"])
    assert sensor.find_bodies(["RF_FOOT", ".*"]) == ([0, 1], ["LF_FOOT", "RF_FOOT"])
    for key, hint in (
        ("LF_FOO", "Did you mean 'LF_FOOT'"),
        ("LF", "'LF_FOOT'"),
        ("xyz", "Known: 'LF_FOOT', 'RF_FOOT'"),
    ):
        with pytest.raises(ValueError, match=f"No body of sensor 'touch' matches '{key}'. .*{hint}"):
            sensor.find_bodies(["RF_FOOT", key])
    with pytest.raises(ValueError, match=r"sensor 'touch'.* is not a regular expression"):
        sensor.find_bodies("(")
    # Equal names of two robots are told apart by their paths.
    twins = BodyIndex(["A/foot", "B/foot"])
    cfg = ContactSensorCfg(prim_path=f"{NS}/./foot")
    both = cfg.create("touch", SensorWorld(Engine(), twins))  # type: ignore[arg-type]
    assert both.body_names == ["A/foot", "B/foot"]


def test_warp_views_of_matrix_histories_are_arrays_of_vectors() -> None:
    """Warp has four dimensions at most; a kernel that takes `vec3` takes them, and sees the same memory."""
    import warp as wp

    @wp.kernel(enable_backward=False)
    def fill(a: wp.array4d(dtype=wp.vec3)):  # type: ignore[valid-type]
        e, h, s, f = wp.tid()
        a[e, h, s, f] = wp.vec3(float(e), float(h), float(f))

    array = Array.wrap(torch.zeros(2, 3, 1, 4, 3))
    assert array.warp.shape == (2, 3, 1, 4)
    wp.launch(fill, dim=(2, 3, 1, 4), inputs=[array.warp], device="cpu")
    assert array[1, 2, 0, 3].tolist() == [1.0, 2.0, 3.0]
    assert Array.wrap(torch.zeros(2, 1, 4, 3)).warp.shape == (2, 1, 4, 3)


SITUATIONS = {
    "1 clock drift": ["test_contact_sensor:test_one_flag_per_transition_at_any_clock"],
    "2 seldom read": ["test_contact_forces:test_lifted_body_reads_zero_after_unread_steps"],
    "3 read after reset": [
        "test_contact_forces:test_reset_clears_only_the_chosen_environment",
        "test_contact_points:test_reset_makes_points_nan_in_the_chosen_environment_only",
    ],
    "4 partial reset of histories": [
        "test_contact_forces:test_reset_clears_every_buffer_of_the_chosen_environment_only",
        "test_contact_properties:test_every_buffer_follows_the_model",
    ],
    "5 order and shape of histories": [
        "test_contact_forces:test_history_holds_newest_first",
        "test_contact_rules:test_what_is_none",
    ],
    "6 flags are separate tensors": [
        "test_contact_sensor:test_flags_are_separate_bool_tensors_and_reading_changes_nothing"
    ],
    "7 slope of 20 degrees": [
        "test_contact_forces:test_box_on_a_slope",
        "../physics/test_engine_interface:test_slope",
    ],
    "8 filter on something untouched": ["test_contact_forces:test_filter_never_narrows_the_net_force"],
    "9 root path, typo": [
        "test_contact_rules:test_a_path_that_names_no_body",
        "test_contact_sensor:test_bad_configuration_names_the_key_and_what_to_do",
        "../physics/test_paths:test_a_path_above_bodies_lists_them",
    ],
    "10 a box of 50 g": ["test_contact_forces:test_light_box_is_in_contact_at_the_default_threshold"],
    "11 three capacities": ["test_contact_forces:test_forces_do_not_depend_on_capacity"],
    "12 capacity too small": [
        "test_contact_forces:test_too_small_a_capacity_is_told_once_with_the_size_needed"
    ],
    "13 contact points": [
        "test_contact_points:test_a_ball_touches_under_its_centre_in_world_coordinates",
    ],
    "14 spawned on the ground, in the air": [
        "test_contact_sensor:test_no_flag_on_the_first_step_after_a_reset"
    ],
    "15 equal selectors": ["test_contact_forces:test_two_sensors_with_one_selector_are_both_updated"],
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_situation_has_its_test(situation: str) -> None:
    for name in SITUATIONS[situation]:
        module, function = name.split(":")
        text = (Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")
        assert f"\ndef {function}(" in text, name
