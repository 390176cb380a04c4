# SPDX-License-Identifier: Apache-2.0
"""Mistakes in terms are answered with the term's key path."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from forcelab.managers import (
    ActionManager,
    CommandManager,
    EventManager,
    EventTermCfg,
    ManagerTermBase,
    ObservationGroupCfg,
    ObservationManager,
    ObservationTermCfg,
    RewardManager,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationManager,
    TerminationTermCfg,
)
from forcelab.mdp import JointEffortActionCfg, UniformVelocityCommandCfg


class NoParameters:
    def __init__(self) -> None: ...

    def __call__(self, env: Any) -> torch.Tensor:
        return torch.zeros(env.num_envs)


class Breaks(ManagerTermBase):
    def __init__(self, cfg: Any, env: Any):
        raise KeyError("inside")

    def __call__(self, env: Any) -> torch.Tensor:
        return torch.zeros(env.num_envs)


def reward(env: Any, **fields: Any) -> RewardManager:
    values = {"func": "is_alive", "weight": 1.0, **fields}
    return RewardManager({"x": RewardTermCfg(**values)}, env)


def test_classes_are_made_with_cfg_and_env(env: Any) -> None:
    with pytest.raises(
        TypeError, match=r"rewards\.x\.func: class NoParameters must be made as NoParameters\(cfg, env\)"
    ):
        reward(env, func=NoParameters)
    with pytest.raises(KeyError, match=r"inside(.|\n)*while making rewards\.x\.func"):
        reward(env, func=Breaks)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("a", TypeError, "weight is 'a'; it must be a number"),
        (None, ValueError, "weight is missing"),
        (True, TypeError, "weight is True"),
        (float("nan"), ValueError, "weight is nan; it must be finite"),
        (float("inf"), ValueError, "weight is inf"),
    ],
)
def test_weights(env: Any, value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"rewards\.x\.{message}"):
        reward(env, weight=value)
    reward(env, weight=-1.0)
    reward(env, weight=0)


@pytest.mark.parametrize("params", [None, [1], "asset_cfg"])
def test_params_are_a_dictionary(env: Any, params: Any) -> None:
    with pytest.raises(TypeError, match=r"rewards\.x\.params is .*; it must be a dictionary"):
        reward(env, params=params)


@pytest.mark.parametrize("value", ["robot", {"name": "robot"}])
def test_selections_are_scene_entity_cfgs(env: Any, value: Any) -> None:
    with pytest.raises(TypeError, match=r"rewards\.x\.params\.asset_cfg is .*; it must be a SceneEntityCfg"):
        reward(env, func="joint_vel_l2", params={"asset_cfg": value})
    reward(env, func="joint_vel_l2", params={"asset_cfg": SceneEntityCfg("robot")})


def boom(env: Any, *masks: torch.Tensor) -> torch.Tensor:
    raise ZeroDivisionError("boom")


def boom_masked(env: Any, env_mask: torch.Tensor) -> None:
    raise ZeroDivisionError("boom")


class PolicyCfg(ObservationGroupCfg):
    x = ObservationTermCfg(func=boom)


def test_an_error_inside_a_term_names_the_term(env: Any) -> None:
    cases: list[tuple[str, Any]] = [
        ("rewards.x", lambda: reward(env, func=boom).compute(0.02)),
        ("terminations.x", lambda: TerminationManager({"x": TerminationTermCfg(func=boom)}, env).compute()),
        (
            "observations.policy.x",
            lambda: ObservationManager({"policy": PolicyCfg()}, env),
        ),
        (
            "events.x",
            lambda: EventManager({"x": EventTermCfg(func=boom_masked, mode="reset")}, env).apply(
                "reset", env.all_envs
            ),
        ),
    ]
    for path, call in cases:
        with pytest.raises(ZeroDivisionError, match=rf"boom(.|\n)*\(in {path}\)"):
            call()


@pytest.mark.parametrize("bounds", [(1.0,), (0.1, -0.1), (float("nan"), 1.0), (0.0, float("inf"))])
def test_ranges_of_events(env: Any, bounds: Any) -> None:
    params = {"position_range": bounds, "velocity_range": (0.0, 0.0)}
    need = r".*must be (two numbers|\(lower, upper\))"
    with pytest.raises(ValueError, match=r"events\.x\.params\.position_range is" + need):
        EventManager({"x": EventTermCfg(func="reset_joints_by_offset", mode="reset", params=params)}, env)
    params = {"pose_range": {"x": bounds}, "velocity_range": {}, "asset_cfg": SceneEntityCfg("box")}
    with pytest.raises(ValueError, match=r"events\.x\.params\.pose_range\['x'\] is" + need):
        EventManager({"x": EventTermCfg(func="reset_root_state_uniform", mode="reset", params=params)}, env)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"joint_names": ["slidr"]}, "matches 'slidr'"),
        ({"joint_names": [".*"], "asset_name": "robt"}, "Did you mean 'robot'"),
        ({"joint_names": [".*"], "scale": float("nan")}, "scale is nan"),
        ({"joint_names": [".*"], "offset": {"cart_to_pole": "a"}}, "offset of 'cart_to_pole' is 'a'"),
        ({"joint_names": [".*"], "clip": {".*": (1.0, -1.0)}}, r"clip of 'slider_to_cart' is \(1.0, -1.0\)"),
    ],
)
def test_actions(env: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"{message}(.|\n)*while making actions\.a"):
        ActionManager({"a": JointEffortActionCfg(**fields)}, env)


def test_commands(env: Any) -> None:
    cfg = UniformVelocityCommandCfg(resampling_time_range=(2.0, 1.0))
    with pytest.raises(ValueError, match=r"resampling_time_range(.|\n)*while making commands\.walk"):
        CommandManager({"walk": cfg}, env)
