# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.configs import compose, list_tasks
from forcelab.envs import DispatchCheck, ManagerBasedRlEnv
from forcelab.managers import EventTermCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg


def test_a_step_without_waiting_terms_is_clean(noisy_cfg: Any, make: Any) -> None:
    noisy_cfg.final_obs = True
    noisy_cfg.nan_policy = "reset"
    env = make(noisy_cfg)
    env.reset()
    mask = torch.tensor([True, False, False])
    with DispatchCheck(env, raise_on_exit=True) as check:
        for _ in range(12):
            env.step(torch.zeros(3, 1))
        env.reset(options={"reset_mask": mask})
    assert check.findings == []
    assert env.worth_doing(torch.zeros(3, dtype=torch.bool)) is False  # back to the CPU's ways


def by_item(env: Any) -> torch.Tensor:
    if env.episode_length_buf.sum().item() > 3:
        return torch.ones(3)
    return torch.zeros(3)


def by_mask(env: Any) -> torch.Tensor:
    value = env.scene["robot"].data.joint_pos.clone()
    value[env.episode_length_buf > 2] = torch.tensor([1.0, 2.0])
    return value


def by_list(env: Any) -> torch.Tensor:
    return env.scene["robot"].data.joint_pos[:, [1, 0]]


def by_nonzero(env: Any) -> torch.Tensor:
    done = torch.zeros(3, dtype=torch.bool)
    done[torch.where(env.episode_length_buf > 5)[0]] = True
    return done


def by_ids(env: Any, env_ids: torch.Tensor) -> None:
    pass


def test_waiting_lines_are_named(cfg: Any, make: Any) -> None:
    cfg.rewards.item = RewardTermCfg(func=by_item, weight=1.0)
    cfg.observations.policy.mask = ObservationTermCfg(func=by_mask)
    cfg.observations.policy.columns = ObservationTermCfg(func=by_list)
    cfg.terminations.where = TerminationTermCfg(func=by_nonzero)
    cfg.events.ids = EventTermCfg(func=by_ids, mode="reset")
    env = make(cfg)
    env.reset()
    with DispatchCheck(env) as check:
        for _ in range(10):
            env.step(torch.zeros(3, 1))
    found = {(f.manager, f.term): f for f in check.findings}
    assert set(found) == {
        ("rewards", "item"),
        ("observations", "policy.mask"),
        ("observations", "policy.columns"),
        ("terminations", "where"),
        ("events", "ids"),
    }
    item = found["rewards", "item"]
    assert (
        Path(item.file) == Path(__file__)
        and ".item() > 3" in item.code
        and item.op == "aten::_local_scalar_dense"
    )
    assert "take env_mask instead" in found["events", "ids"].reason
    masks = [f for f in check.findings if f.term == "policy.mask"]
    assert {"torch.tensor", "aten::index_put_"} == {f.op for f in masks}
    assert "list of indices" in found["observations", "policy.columns"].reason
    assert str(item).startswith("rewards.item: ")
    with (
        pytest.raises(RuntimeError, match=r"rewards\.item: .*by_item|rewards\.item"),
        DispatchCheck(env, True),
    ):
        env.step(torch.zeros(3, 1))


def test_without_an_environment() -> None:
    x = torch.arange(6.0).view(3, 2)
    rows = torch.tensor([2, 0])
    mask = x[:, 0] > 1
    with DispatchCheck() as check:
        x[mask] = 0.0  # one number: fine
        torch.where(mask[:, None], x, 1.0)
        torch.normal(x, 1.0)
        x[rows].sum()
    assert check.findings == []
    with DispatchCheck() as check:
        x.tolist()
        x.numpy()
        bool(mask.any())
        x[mask]
        torch.as_tensor([1.0])
        torch.as_tensor(x)
        torch.normal(x, x)
    assert len(check.findings) == 6


@pytest.mark.parametrize("task", [t.name for t in list_tasks()])
def test_no_shipped_task_waits_for_the_device(task: str) -> None:
    """Steps, ends of episodes and partial resets of every task, taken as they are on CUDA."""
    env = ManagerBasedRlEnv(compose(task, ["num_envs=3", "device=cpu", "seed=1", "episode_length_s=0.1"]).env)
    env.reset()
    actions = torch.zeros(3, env.action_manager.total_action_dim)
    mask = torch.tensor([True, False, False])
    with DispatchCheck(env) as check:
        for _ in range(12):
            env.step(actions)
        env.reset(options={"reset_mask": mask})
    env.close()
    assert check.findings == []
