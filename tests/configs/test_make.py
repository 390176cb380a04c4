# SPDX-License-Identifier: Apache-2.0
"""Environments built from the shipped tasks."""

from __future__ import annotations

import gymnasium
import pytest
import torch

import forcelab  # noqa: F401  (registers the environments)
from forcelab.configs import ConfigError, from_yaml, list_tasks, to_yaml

# Widths of the observation groups, and of the action.
SIZES = {
    "balance_cartpole": ({"policy": 4, "critic": 4}, 1),
    "press_arm": ({"policy": 35, "critic": 40}, 6),
    "run_flat_ant": ({"policy": 60}, 8),
    "velocity_flat": ({"policy": 48, "critic": 56}, 12),
}


@pytest.mark.parametrize("task", [t for t in list_tasks() if t.id], ids=lambda t: t.name)
def test_make_step_and_save(task):
    env = gymnasium.make(task.id, num_envs=3, device="cpu", seed=0)
    base = env.unwrapped
    groups, actions = SIZES[task.name]
    obs, _ = env.reset(seed=1)
    assert {name: tuple(o.shape) for name, o in obs.items()} == {name: (3, n) for name, n in groups.items()}
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
