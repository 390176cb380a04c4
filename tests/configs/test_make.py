# SPDX-License-Identifier: Apache-2.0
"""Environments built from the shipped tasks."""

from __future__ import annotations

import gymnasium
import pytest
import torch

import forcelab  # noqa: F401  (registers the environments)
from forcelab.configs import ConfigError, from_yaml, list_tasks, to_yaml

SIZES = {"velocity_flat": (48, 56, 12), "balance_cartpole": (4, 4, 1)}


@pytest.mark.parametrize("task", [t for t in list_tasks() if t.id], ids=lambda t: t.name)
def test_make_step_and_save(task):
    env = gymnasium.make(task.id, num_envs=3, device="cpu", seed=0)
    base = env.unwrapped
    policy, critic, actions = SIZES[task.name]
    obs, _ = env.reset(seed=1)
    assert obs["policy"].shape == (3, policy) and obs["critic"].shape == (3, critic)
    for _ in range(5):
        obs, reward, terminated, truncated, _ = env.step(torch.zeros(3, actions))
    assert torch.isfinite(reward).all() and not terminated.any() and not truncated.any()
    # What the environment holds now, resolved names and device tensors included, is written and read back.
    text = to_yaml(base.cfg)
    assert to_yaml(from_yaml(text)) == text
    env.close()


def test_make_reports_overrides():
    with pytest.raises(ConfigError, match="Did you mean 'alive'"):
        gymnasium.make("forcelab/Balance-Cartpole-v0", overrides=["rewards.alife.weight=1"])
