# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers import (
    CommandManager,
    CurriculumManager,
    CurriculumTermCfg,
    RewardManager,
    RewardTermCfg,
)


def tracking(env: Any) -> torch.Tensor:
    return env.quality


@pytest.fixture
def env(quadruped: Any) -> Any:
    quadruped.quality = torch.ones(4)
    ranges = {"lin_vel_x": (-0.5, 0.5), "lin_vel_y": (0.0, 0.0), "ang_vel_z": (-1.0, 1.0)}
    quadruped.command_manager = CommandManager({"v": mdp.UniformVelocityCommandCfg(ranges=ranges)}, quadruped)
    quadruped.reward_manager = RewardManager({"track": RewardTermCfg(tracking, weight=2.0)}, quadruped)
    return quadruped


def curriculum(env: Any, func: Any, **params: Any) -> CurriculumManager:
    return CurriculumManager({"c": CurriculumTermCfg(func, params)}, env)


def test_reward_weight_changes_after_its_step(env: Any) -> None:
    manager = curriculum(env, mdp.modify_reward_weight, term_name="track", weight=-0.5, num_steps=10)
    weight = env.reward_manager.get_term_cfg("track").weight
    env.common_step_counter.fill_(10)
    manager.compute(env.all_envs)
    assert weight.item() == 2.0
    env.common_step_counter.fill_(11)
    manager.compute(env.all_envs)
    assert weight.item() == -0.5
    assert manager.reset()["Curriculum/c"].item() == -0.5
    env.reward_manager.compute(dt=0.02)
    torch.testing.assert_close(env.reward_manager.step_values[0], torch.full((4,), -0.01))


def test_ranges_widen_with_the_steps(env: Any) -> None:
    limits = {"lin_vel_x": (-1.0, 2.0), "lin_vel_y": (-0.4, 0.4)}
    manager = curriculum(env, mdp.command_velocity_ranges, command_name="v", limits=limits, num_steps=100)
    command = env.command_manager.get_term("v")
    for steps, expected in [
        (0, [(-0.5, 0.5), (0.0, 0.0)]),
        (50, [(-0.75, 1.25), (-0.2, 0.2)]),
        (100, [(-1.0, 2.0), (-0.4, 0.4)]),
        (5000, [(-1.0, 2.0), (-0.4, 0.4)]),
    ]:
        env.common_step_counter.fill_(steps)
        manager.compute(env.mask(0))
        bounds = command.bounds
        for column, pair in enumerate(expected):
            assert bounds[:, column].tolist() == pytest.approx(list(pair))
        assert bounds[:, 2].tolist() == [-1.0, 1.0]  # not named in limits
        assert command.cfg.ranges.lin_vel_x.tolist() == bounds[:, 0].tolist()


def run_episode(env: Any, manager: CurriculumManager, quality: list[float], envs: tuple[int, ...]) -> None:
    """Rewards of a full episode, then its end in ``envs``."""
    env.quality = torch.tensor(quality)
    env.reward_manager.compute(dt=env.max_episode_length_s)
    env.episode_length_buf[:] = env.max_episode_length
    mask = env.mask(*envs)
    manager.compute(mask)
    env.reward_manager.reset(mask)
    env.episode_length_buf[mask] = 0


def test_ranges_widen_with_the_tracking_reward(env: Any) -> None:
    manager = curriculum(
        env,
        mdp.command_velocity_ranges,
        command_name="v",
        limits={"lin_vel_x": (-1.5, 1.5)},
        reward_term="track",
        threshold=0.8,
        increment=0.25,
    )
    upper = env.command_manager.get_term("v").bounds[1]
    manager.compute(env.all_envs)  # the reset before the first episode says nothing
    assert upper[0].item() == 0.5
    run_episode(env, manager, [0.9] * 4, (0, 1))
    assert upper[0].item() == 0.5  # two of four episodes: too few to decide
    run_episode(env, manager, [0.9, 0.9, 0.0, 0.0], (0, 1))
    assert upper[0].item() == pytest.approx(0.75)
    env.reward_manager.reset()
    run_episode(env, manager, [0.9, 0.9, 0.7, 0.6], (0, 1, 2, 3))
    assert upper[0].item() == pytest.approx(0.75)  # mean 0.775
    for _ in range(6):
        run_episode(env, manager, [1.0] * 4, (0, 1, 2, 3))
    assert upper[0].item() == pytest.approx(1.5)
    assert manager.reset()["Curriculum/c"].item() == 1.0


def test_wrong_parameters_are_errors(env: Any) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        curriculum(env, mdp.command_velocity_ranges, command_name="v", limits={})
    with pytest.raises(ValueError, match="lin_vel_x"):
        curriculum(
            env, mdp.command_velocity_ranges, command_name="v", limits={"lin_vel": (0, 1)}, num_steps=5
        )
