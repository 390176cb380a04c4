# SPDX-License-Identifier: Apache-2.0
"""Environments in threads, side by side, closed, copied and wrongly used."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import forcelab  # noqa: F401  (registers the environments)
from forcelab.envs import ManagerBasedRlEnv


def rollout(env: ManagerBasedRlEnv, steps: int) -> torch.Tensor:
    return torch.stack([env.step(torch.full((3, 1), 0.3))[0]["policy"] for _ in range(steps)])


def test_environments_in_threads(cfg: Any) -> None:
    """Made and stepped at once in several threads, each goes as if it were alone."""
    cfg.events = None
    alone = ManagerBasedRlEnv(cfg.replace(seed=1))
    alone.reset()
    expected = rollout(alone, 30)
    results: dict[int, Any] = {}

    def work(i: int) -> None:
        try:
            env = ManagerBasedRlEnv(cfg.replace(seed=1))
            env.reset()
            results[i] = rollout(env, 30)
            env.close()
        except BaseException as error:  # shown by the assertion below
            results[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    alone.reset()
    beside = rollout(alone, 30)
    for thread in threads:
        thread.join()
    for result in (*results.values(), beside):
        assert isinstance(result, torch.Tensor), result
        assert torch.equal(result, expected)
    alone.close()


def test_interleaved_steps_do_not_mix(cfg: Any, make: Any) -> None:
    cfg.events = None
    other_cfg = cfg.replace(decimation=3)
    alone, first, second = make(cfg), make(cfg), make(other_cfg)
    for env in (alone, first, second):
        env.reset()
    expected = rollout(alone, 15)
    found = []
    for _ in range(15):
        found.append(first.step(torch.full((3, 1), 0.3))[0]["policy"])
        second.step(torch.full((3, 1), -1.0))
    assert torch.equal(torch.stack(found), expected)


def test_a_closed_environment_says_so(cfg: Any) -> None:
    env = ManagerBasedRlEnv(cfg)
    env.reset()
    env.close()
    env.close()
    for use in (lambda: env.step(torch.zeros(3, 1)), env.reset, lambda: env.reset(seed=1)):
        with pytest.raises(RuntimeError, match="This scene is closed"):
            use()


def test_configurations_can_be_pickled_and_copied(cfg: Any, make: Any) -> None:
    assert pickle.loads(pickle.dumps(cfg)) == cfg and copy.deepcopy(cfg) == cfg
    env = make(cfg)
    env.reset()
    for used in (pickle.loads(pickle.dumps(env.cfg)), copy.deepcopy(env.cfg)):
        again = make(used)
        again.reset()
        assert torch.equal(rollout(again, 3), rollout(make_like(env, make, cfg), 3))


def make_like(env: ManagerBasedRlEnv, make: Any, cfg: Any) -> ManagerBasedRlEnv:
    fresh = make(cfg.replace(seed=env.seed))
    fresh.reset()
    return fresh


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("decimation", 1.5, "decimation is 1.5; it must be a whole number, 1 or more"),
        ("decimation", True, "decimation is True"),
        ("episode_length_s", math.inf, "episode_length_s is inf"),
        ("episode_length_s", True, "episode_length_s is True"),
        ("physics", None, "physics is None; it must be a NewtonCfg"),
        ("scene", None, "scene is None; it must be an InteractiveSceneCfg"),
        ("final_obs", "yes", "final_obs is 'yes'; it must be true or false"),
        ("device", "gpu", "device is 'gpu'.*Did you mean 'cpu'"),
    ],
)
def test_settings(cfg: Any, make: Any, field: str, value: Any, message: str) -> None:
    setattr(cfg, field, value)
    with pytest.raises((ValueError, TypeError), match=message):
        make(cfg)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (torch.zeros(3), r"shape \(3,\); it must be \(3, 1\)"),
        (torch.zeros(2, 1), r"shape \(2, 1\)"),
        (None, "cannot be read as a float tensor"),
        (np.array([["a"]] * 3), "cannot be read as a float tensor"),
        (torch.zeros(3, 1, device="meta"), "cannot be read as a float tensor"),
        (torch.full((3, 1), math.nan), r"not finite in environments 0, 1, 2: actions\.cart\[0\]"),
        (torch.full((3, 1), -math.inf), r"not finite in environments 0, 1, 2: actions\.cart\[0\]"),
    ],
)
def test_actions(cfg: Any, make: Any, action: Any, message: str) -> None:
    env = make(cfg)
    env.reset()
    with pytest.raises((ValueError, TypeError), match=message):
        env.step(action)
    for other in (
        torch.zeros(3, 1).double(),
        torch.zeros(3, 1, dtype=torch.long),
        np.zeros((3, 1)),
        [[0.0]] * 3,
    ):
        assert torch.isfinite(env.step(other)[0]["policy"]).all()


def test_make(cfg: Any) -> None:
    name = "forcelab/Balance-Cartpole-v0"
    with pytest.raises(ValueError, match=r"Give either cfg.*or overrides, not both"):
        gymnasium.make(name, cfg=cfg, overrides=["num_envs=2"])
    with pytest.raises(TypeError, match="cfg is 3; it must be a ManagerBasedRlEnvCfg"):
        gymnasium.make(name, cfg=3)
    with pytest.raises(TypeError, match=r"single=True is for gymnasium.make"):
        gymnasium.make_vec(name, single=True)
    with pytest.raises(ValueError, match=r"reset_mask'.* is 'x'"):
        env = gymnasium.make(name, cfg=cfg)
        env.reset(options={"reset_mask": "x"})
    env.close()
