# SPDX-License-Identifier: Apache-2.0
"""The log: sums on the device, one read an iteration, one line of progress."""

from __future__ import annotations

import importlib.util
import io
import math

import pytest
import torch

from forcelab.learning.device_logger import DeviceLogger, ProgressLine, check_logger


def log_iteration(logger, it, total=4, seconds=0.5):
    logger.log(
        it=it,
        total_it=total,
        collect_time=seconds,
        learn_time=seconds,
        loss_dict={"value": 1.0},
        learning_rate=1e-3,
        action_std=torch.ones(2),
    )


def test_returns_and_lengths_of_finished_episodes():
    out = io.StringIO()
    logger = DeviceLogger(None, num_envs=3, steps_per_iteration=4, device="cpu", stream=out)
    rewards = torch.tensor([1.0, 2.0, math.nan])
    for step in range(4):
        done = torch.tensor([step == 1, step == 2, False])
        logger.process_env_step(rewards, done, {"log": {"Episode_Reward/alive": 3.0}} if step == 3 else {})
    log_iteration(logger, 1)
    # Environment 0 ended with return 2 after 2 steps, environment 1 with 6 after 3; NaN stays where it is.
    assert logger.last["Train/mean_reward"] == pytest.approx(4.0)
    assert logger.last["Train/mean_episode_length"] == pytest.approx(2.5)
    assert logger.last["Episode_Reward/alive"] == 3.0
    assert logger.last["Perf/total_fps"] == pytest.approx(12.0)
    text = out.getvalue()
    for part in ("iteration 1/4", "12 env steps/s", "reward 4.00", "episode 2 steps", "time left 0:00:03"):
        assert part in text

    # The next iteration goes on from what is unfinished, and old log entries are not repeated.
    logger.process_env_step(torch.ones(3), torch.tensor([True, False, False]), {})
    log_iteration(logger, 2)
    assert logger.last["Train/mean_reward"] == pytest.approx((2.0 + 6.0 + 3.0) / 3)
    assert "Episode_Reward/alive" not in logger.last


def test_nothing_finished_yet():
    out = io.StringIO()
    logger = DeviceLogger(None, num_envs=1, steps_per_iteration=1, device="cpu", stream=out)
    logger.process_env_step(torch.ones(1), torch.zeros(1, dtype=torch.bool), {})
    log_iteration(logger, 1)
    assert "Train/mean_reward" not in logger.last
    assert "reward ..." in out.getvalue()


def test_state_continues():
    a = DeviceLogger(None, num_envs=2, steps_per_iteration=2, device="cpu")
    a.process_env_step(torch.ones(2), torch.tensor([True, False]), {})
    log_iteration(a, 1)
    b = DeviceLogger(None, num_envs=2, steps_per_iteration=2, device="cpu")
    b.load_state_dict(a.state_dict())
    for logger in (a, b):
        logger.process_env_step(torch.ones(2), torch.tensor([False, True]), {})
        log_iteration(logger, 2)
    assert a.last == b.last
    assert b.last["Train/mean_reward"] == pytest.approx(1.5)


def test_terminal_line_renews_itself():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    line = ProgressLine(out)
    line.show("a long line")
    line.show("short")
    line.close()
    assert out.getvalue() == "\ra long line\rshort      \n"


def test_unknown_and_missing_writers():
    with pytest.raises(ValueError, match="tensorboard"):
        check_logger("tensorbord")
    if importlib.util.find_spec("wandb") is None:
        with pytest.raises(ModuleNotFoundError, match="pip install wandb"):
            check_logger("wandb")
