# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
import torch

from forcelab.managers import ManagerTermBase, RewardManager, RewardTermCfg


def column(env: Any, index: int = 0) -> torch.Tensor:
    return env.value[:, index]


def test_weights_time_and_sums(env: Any, first: torch.Tensor) -> None:
    manager = RewardManager(
        {
            "a": RewardTermCfg(func=column, weight=2.0),
            "b": RewardTermCfg(func=column, weight=-1.0, params={"index": 1}),
        },
        env,
    )
    env.value = torch.tensor([[1.0, 0.0], [2.0, 1.0], [3.0, 2.0], [4.0, 3.0]])
    for _ in range(3):
        reward = manager.compute(0.5)
    assert torch.allclose(reward, 0.5 * (2 * env.value[:, 0] - env.value[:, 1]))
    assert torch.allclose(manager.episode_sums["a"], 3.0 * env.value[:, 0])
    logs = manager.reset(first)
    assert logs["Episode_Reward/a"].item() == pytest.approx(3.0 / env.max_episode_length_s)
    assert manager.episode_sums["a"].tolist() == [0.0, 6.0, 9.0, 12.0]


def test_weight_assignment_writes_into_the_device_tensor(env: Any) -> None:
    cfg = RewardTermCfg(func=column, weight=1.0)
    manager = RewardManager({"a": cfg}, env)
    env.value = torch.ones(env.num_envs, 2)
    memory = manager.weights.data_ptr()
    manager.get_term_cfg("a").weight = 3.0
    assert cfg.weight.dim() == 0 and cfg.weight.data_ptr() == memory == manager.weights.data_ptr()
    assert torch.equal(manager.compute(1.0), torch.full((env.num_envs,), 3.0))
    cfg.weight = torch.tensor(4.0)
    assert manager.weights.tolist() == [4.0]
    manager.set_term_cfg("a", RewardTermCfg(func=column, weight=-2.0, params={"index": 1}))
    assert torch.equal(manager.compute(1.0), torch.full((env.num_envs,), -2.0))
    with pytest.raises(KeyError, match=r"rewards has no term 'aa'.*'a'"):
        manager.get_term_cfg("aa")


def test_a_column_is_a_shape_error_that_names_the_term(env: Any) -> None:
    bad = RewardTermCfg(func=lambda env: env.value[:, :1], weight=1.0)
    manager = RewardManager({"good": RewardTermCfg(func=column, weight=1.0), "bad": bad}, env)
    with pytest.raises(ValueError, match=r"rewards\.bad returned shape \(4, 1\).*squeeze"):
        manager.compute(1.0)


@pytest.mark.parametrize("value", [torch.tensor(1.0), 1.0, torch.zeros(3)])
def test_other_wrong_results(env: Any, value: Any) -> None:
    manager = RewardManager({"bad": RewardTermCfg(func=lambda env: value, weight=1.0)}, env)
    with pytest.raises((ValueError, TypeError), match=r"rewards\.bad returned"):
        manager.compute(1.0)


def test_classes_as_terms(env: Any, first: torch.Tensor) -> None:
    class Steps(ManagerTermBase):
        def __init__(self, cfg: Any, env: Any):
            super().__init__(cfg, env)
            self.steps = torch.zeros(env.num_envs)

        def reset(self, env_ids: torch.Tensor | None = None) -> None:
            self.steps[slice(None) if env_ids is None else env_ids] = 0.0

        def __call__(self, env: Any, gain: float) -> torch.Tensor:
            self.steps += gain
            return self.steps

    manager = RewardManager({"a": RewardTermCfg(func=Steps, weight=1.0, params={"gain": 2.0})}, env)
    manager.compute(1.0)
    assert torch.equal(manager.compute(1.0), torch.full((env.num_envs,), 4.0))
    manager.reset(first)
    assert manager.get_term("a").steps.tolist() == [0.0, 4.0, 4.0, 4.0]
    assert manager.compute(1.0).tolist() == [2.0, 6.0, 6.0, 6.0]


def test_plain_class_as_term(env: Any) -> None:
    class Plain:
        def __init__(self, cfg: Any, env: Any):
            self.value = torch.ones(env.num_envs)

        def __call__(self, env: Any) -> torch.Tensor:
            return self.value

    manager = RewardManager({"a": RewardTermCfg(func=Plain, weight=1.0)}, env)
    manager.compute(1.0)
    manager.reset()


def test_functions_by_path(env: Any) -> None:
    manager = RewardManager({"a": RewardTermCfg(func="forcelab.mdp.rewards.joint_vel_l1", weight=1.0)}, env)
    assert torch.equal(manager.compute(1.0), torch.zeros(env.num_envs))
    RewardManager({"a": RewardTermCfg(func="joint_vel_l1", weight=1.0)}, env)
    with pytest.raises(ValueError, match=r"rewards\.a\.func is 'joint_vel_l3'.*Did you mean 'joint_vel_l"):
        RewardManager({"a": RewardTermCfg(func="joint_vel_l3")}, env)
    with pytest.raises(ValueError, match=r"no module 'nowhere'"):
        RewardManager({"a": RewardTermCfg(func="nowhere.joint_vel")}, env)


def test_signature_check(env: Any) -> None:
    with pytest.raises(ValueError, match=r"rewards\.a\.params has a key 'idx' .*Did you mean 'index'"):
        RewardManager({"a": RewardTermCfg(func=column, params={"idx": 1}, weight=1.0)}, env)

    def needs(env: Any, threshold: float) -> torch.Tensor:
        return env.value[:, 0]

    with pytest.raises(ValueError, match=r"rewards\.a\.params lacks 'threshold', which .*needs"):
        RewardManager({"a": RewardTermCfg(func=needs, weight=1.0)}, env)
    with pytest.raises(ValueError, match=r"rewards\.a\.func is None.*must be given"):
        RewardManager({"a": RewardTermCfg()}, env)
    with pytest.raises(TypeError, match=r"rewards\.a is a dict; it must be a RewardTermCfg"):
        RewardManager({"a": {"func": column}}, env)
    with pytest.raises(TypeError, match=r"first parameter must be env"):
        RewardManager({"a": RewardTermCfg(func=lambda: 0)}, env)

    def open_ended(env: Any, **kwargs: Any) -> torch.Tensor:
        return env.value[:, 0] + kwargs["offset"]

    RewardManager({"a": RewardTermCfg(func=open_ended, weight=1.0, params={"offset": 1.0})}, env).compute(1.0)


def test_entries_that_are_none_are_left_out(env: Any) -> None:
    manager = RewardManager({"a": None, "b": RewardTermCfg(func=column, weight=1.0)}, env)
    assert manager.active_terms == ["b"]
    assert RewardManager(None, env).compute(1.0).shape == (env.num_envs,)
