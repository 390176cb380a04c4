# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a task whose command says itself how well it is followed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.configs import compose
from forcelab.envs import ManagerBasedRlEnv
from forcelab.learning.evaluate import CRITERION, print_results, run_episodes
from forcelab.learning.inference import Rollout
from forcelab.learning.vec_env import RslRlVecEnv

torch.set_num_threads(1)


class Still:
    """A policy that moves no target."""

    iteration = 0

    def __call__(self, obs: Any) -> torch.Tensor:
        return torch.zeros(obs["policy"].shape[0], 6)

    def reset(self, done: torch.Tensor | None = None) -> None:
        pass


def test_results_of_the_press_command() -> None:
    overrides = [
        "num_envs=2",
        "device=cpu",
        "seed=0",
        "episode_length_s=0.5",
        "commands.press.settle_time=0.1",
    ]
    env = ManagerBasedRlEnv(compose("press_arm", overrides).env)
    table = env.scene["table"]
    try:
        results = run_episodes(Rollout(RslRlVecEnv(env), Still(), Path("none")), settle=0.2)  # type: ignore[arg-type]
        assert results["settle_s"] == 0.2 and results["terminated_percent"] == 0.0
        # Nobody presses: the force is 0 and the error all of the command.
        assert results["force_error_percent"] == pytest.approx(100.0, abs=1e-4)
        assert results["contact_percent"] == 0.0
        assert 0.0 < results["path_error"] < 0.1
        # A sliding speed of the tool above 0.05 m/s does not occur in so short a time.
        assert results["sliding_force_error_percent"] != results["sliding_force_error_percent"]  # NaN
        values, counts = env.command_manager.get_term("press").evaluation()["force_error_percent"]
        assert values.shape == counts.shape == (2,) and counts.dtype is torch.bool
        assert float(table.data.root_pos_w[0, 2]) > 0.0
    finally:
        env.close()
    out = io.StringIO()
    shown = {"task": "press_arm", "checkpoint": "a/b/c.pt", "iteration": 0, **results}
    bounds = {k: v for k, v in CRITERION.items() if k in shown}
    print_results({**shown, "criterion": bounds, "passed": False}, out)
    assert (
        "mean |force - command| / command, sliding" in out.getvalue()
        and "at most 15: NOT met" in out.getvalue()
    )
