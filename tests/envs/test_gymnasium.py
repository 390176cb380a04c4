# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from forcelab.envs import ManagerBasedRlEnv, SingleEnv, VectorEnv, register_envs

ID = "forcelab-test/Cartpole-v0"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_envs([(ID, "balance_cartpole")])
    yield
    del gymnasium.registry[ID]


def test_make_gives_the_batched_environment(cfg: Any) -> None:
    env = gymnasium.make(ID, cfg=cfg, num_envs=2, seed=4)
    base = env.unwrapped
    assert isinstance(base, ManagerBasedRlEnv) and base.num_envs == 2 and base.seed == 4
    assert cfg.scene.num_envs == 3 and cfg.seed == 1  # the configuration given is copied
    obs, _ = env.reset()
    assert obs["policy"].shape == (2, 4) and torch.is_tensor(obs["policy"])
    env.close()
    env.close()


def test_make_composes_the_task() -> None:
    env = gymnasium.make(ID, overrides=["rewards.alive.weight=3"], num_envs=2)
    assert env.unwrapped.reward_manager.get_term_cfg("alive").weight.item() == 3.0
    env.close()


def test_seed_is_written_back(cfg: Any) -> None:
    cfg.seed = None
    env = gymnasium.make(ID, cfg=cfg)
    assert cfg.seed == env.unwrapped.seed
    env.close()


def test_max_episode_steps_counts_per_environment(cfg: Any) -> None:
    env = gymnasium.make(ID, cfg=cfg, max_episode_steps=5)
    assert not isinstance(env, gymnasium.wrappers.TimeLimit)
    assert env.unwrapped.spec.kwargs["max_episode_steps"] == 5
    env.reset()
    env.unwrapped.episode_length_buf = torch.tensor([0, 1, 3])
    truncated = torch.stack([env.step(torch.zeros(3, 1))[3] for _ in range(5)])
    assert truncated.int().argmax(dim=0).tolist() == [4, 3, 1]
    env.close()
    env = gymnasium.make(ID, cfg=cfg)  # the next one is not concerned
    assert env.unwrapped.max_episode_length == 10
    env.close()


def test_make_errors(cfg: Any) -> None:
    with pytest.raises(TypeError, match=r"no argument 'num_env'.*Did you mean 'num_envs'"):
        gymnasium.make(ID, cfg=cfg, num_env=2)
    with pytest.raises(ValueError, match="either cfg"):
        gymnasium.make(ID, cfg=cfg, overrides=["seed=1"])
    with pytest.raises(ValueError, match="num_envs is 3"):
        gymnasium.make(ID, cfg=cfg, single=True, num_envs=3)
    with pytest.raises(TypeError, match="list of strings"):
        gymnasium.make(ID, overrides="seed=1")


def test_make_vec_numpy(cfg: Any) -> None:
    env = gymnasium.make_vec(ID, num_envs=2, cfg=cfg)
    assert isinstance(env, VectorEnv) and env.num_envs == 2
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    obs, _ = env.reset(seed=3)
    assert obs in env.observation_space
    env.env.episode_length_buf = torch.tensor([0, 2])
    for step in range(1, 9):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample() * 0)
        assert all(isinstance(x, np.ndarray) for x in (obs["policy"], reward, terminated, truncated))
        assert ("final_obs" in info) == (step == 8)
    assert truncated.tolist() == [False, True] == info["_final_obs"].tolist()
    assert info["final_obs"][0] is None
    assert info["final_obs"][1] in env.single_observation_space
    assert not np.array_equal(info["final_obs"][1]["policy"], obs["policy"][1])
    env.reset(options={"reset_mask": np.array([True, False])})
    env.close()


def test_vector_wrappers_work(cfg: Any) -> None:
    # Gymnasium's observation wrappers refuse same-step resets; the others take them.
    env = gymnasium.make_vec(ID, num_envs=3, cfg=cfg, group="policy")
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    env = gymnasium.wrappers.vector.ClipReward(env, -0.01, 0.01)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (3, 4)
    for _ in range(10):
        obs, _, _, truncated, info = env.step(np.zeros((3, 1), dtype=np.float32))
    assert truncated.all() and info["episode"]["l"].tolist() == [10, 10, 10]
    assert info["final_obs"][0].shape == (4,)
    env.close()


def test_make_vec_torch_and_time_limit(cfg: Any) -> None:
    env = gymnasium.make_vec(ID, cfg=cfg, to="torch", max_episode_steps=4)
    assert env.num_envs == 3  # what the configuration says
    obs, _ = env.reset()
    assert torch.is_tensor(obs["policy"])
    for _ in range(4):
        _, reward, _, truncated, info = env.step(torch.zeros(3, 1))
    assert truncated.all() and torch.is_tensor(reward) and info["_final_obs"].all()
    env.close()
    with pytest.raises(ValueError, match=r"to is 'nump'.*Did you mean 'numpy'"):
        gymnasium.make_vec(ID, cfg=cfg, to="nump")


def test_single_environment_passes_the_checker(cfg: Any) -> None:
    env = gymnasium.make(ID, cfg=cfg, single=True)
    assert isinstance(env.unwrapped, SingleEnv)
    with warnings.catch_warnings():
        # Unbounded spaces are what they are.
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric and normalized).*")
        warnings.filterwarnings("ignore", message=".*different from the unwrapped.*")
        check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_single_environment_episode(cfg: Any) -> None:
    env = gymnasium.make(ID, cfg=cfg, single=True, group="policy", max_episode_steps=3)
    assert env.observation_space.shape == (4,)
    obs, info = env.reset(seed=1)
    assert obs in env.observation_space and info == {}
    for step in range(1, 4):
        obs, reward, terminated, truncated, _ = env.step(np.ones(1, dtype=np.float32))
        assert type(reward) is float and terminated is False and truncated is (step == 3)
    assert obs[2] > 0.1  # the last observation of the episode, not the first of the next
    obs, _ = env.reset()
    assert abs(obs[2]) <= 0.1
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        env.step(np.zeros(2))
    env.close()
    with pytest.raises(ValueError, match=r"no observation group 'polic'.*'policy'"):
        gymnasium.make(ID, cfg=cfg, single=True, group="polic")


def test_specification_can_be_made_again(cfg: Any) -> None:
    env = gymnasium.make(ID, cfg=cfg, max_episode_steps=7)
    spec = copy.deepcopy(env.spec)
    env.close()
    again = gymnasium.make(spec)
    assert again.unwrapped.max_episode_length == 7 and again.unwrapped.num_envs == 3
    again.close()
