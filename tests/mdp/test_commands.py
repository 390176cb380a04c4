# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers import CommandManager
from forcelab.physics import NewtonCfg
from forcelab.scene import CuboidCfg, InteractiveScene, InteractiveSceneCfg, RigidObjectCfg

COUNT = 2000


class BodiesCfg(InteractiveSceneCfg):
    robot = RigidObjectCfg(prim_path="{ENV_REGEX_NS}/Robot", spawn=CuboidCfg(size=(0.4, 0.2, 0.1), mass=1.0))


@pytest.fixture(scope="module")
def many(scene_env: Any) -> Any:
    """Many bodies floating without gravity: enough for statistics."""
    physics = NewtonCfg(dt=0.005, gravity=(0.0, 0.0, 0.0))
    return scene_env(InteractiveScene(BodiesCfg(num_envs=COUNT), physics=physics, device="cpu"))


def make(env: Any, **settings: Any) -> Any:
    torch.manual_seed(0)
    env.scene.reset()
    env.command_manager = CommandManager({"v": mdp.UniformVelocityCommandCfg(**settings)}, env)
    env.command_manager.reset()
    env.command_manager.compute(0.0)
    return env.command_manager.get_term("v")


RANGES = {
    "lin_vel_x": (-1.0, 2.0),
    "lin_vel_y": (-0.5, 0.5),
    "ang_vel_z": (-1.5, -0.5),
    "heading": (-math.pi, math.pi),
}


def test_draws_are_uniform_and_independent(many: Any) -> None:
    term = make(many, ranges=RANGES)
    command = mdp.generated_commands(many, command_name="v")
    assert command.shape == (COUNT, 3)
    for column, (low, high) in enumerate(list(RANGES.values())[:3]):
        x = command[:, column]
        assert x.min() >= low and x.max() <= high
        assert x.mean().item() == pytest.approx(
            (low + high) / 2, abs=4 * (high - low) / math.sqrt(12 * COUNT)
        )
        assert x.std().item() == pytest.approx((high - low) / math.sqrt(12), rel=0.05)
    assert torch.corrcoef(command.T).fill_diagonal_(0.0).abs().max() < 0.1
    assert not term.cfg.heading_command


def test_standing_environments_get_zero(many: Any) -> None:
    term = make(many, ranges=RANGES, rel_standing_envs=0.3)
    still = (term.command == 0.0).all(dim=1)
    assert still.float().mean().item() == pytest.approx(0.3, abs=0.04)
    assert torch.equal(still, term.is_standing_env)


def test_heading_control_steers_towards_the_target(many: Any) -> None:
    term = make(
        many,
        ranges={**RANGES, "ang_vel_z": (-0.8, 0.6)},
        heading_command=True,
        heading_control_stiffness=0.5,
        rel_heading_envs=0.6,
    )
    assert term.is_heading_env.float().mean().item() == pytest.approx(0.6, abs=0.04)
    pose = many.scene["robot"].data.default_root_pose.clone()
    yaw = torch.linspace(-3.0, 3.0, COUNT)
    pose[:, 5], pose[:, 6] = torch.sin(yaw / 2), torch.cos(yaw / 2)
    pose[:, 3:5] = 0.0
    many.scene["robot"].write_root_pose(pose)
    drawn = term.command.clone()
    many.command_manager.compute(0.0)
    error = torch.atan2(torch.sin(term.heading_target - yaw), torch.cos(term.heading_target - yaw))
    expected = (0.5 * error).clamp(-0.8, 0.6)
    followers = term.is_heading_env
    torch.testing.assert_close(term.command[followers, 2], expected[followers], rtol=1e-4, atol=1e-4)
    assert torch.equal(term.command[~followers], drawn[~followers])
    assert torch.equal(term.command[:, :2], drawn[:, :2])


def test_commands_last_for_their_time(many: Any) -> None:
    term = make(many, ranges=RANGES, resampling_time_range=(0.1, 0.1))
    first = term.command.clone()
    for _ in range(4):
        many.command_manager.compute(many.step_dt)
        assert torch.equal(term.command, first)
    ending = mdp.command_resample(many, command_name="v")
    many.command_manager.compute(many.step_dt)  # 5 steps of 0.02 s
    assert (term.command != first).any(dim=1).all()
    assert ending.all()
    assert not mdp.command_resample(many, command_name="v").any()
    assert term.command_counter.tolist() == [2] * COUNT


def test_a_partial_reset_leaves_the_others(many: Any) -> None:
    term = make(many, ranges=RANGES, rel_standing_envs=0.5, resampling_time_range=(5.0, 10.0))
    before, time_left = term.command.clone(), term.time_left.clone()
    many.command_manager.reset(many.mask(0, 7))
    many.command_manager.compute(0.0)
    changed = (term.time_left != time_left).nonzero().squeeze(1).tolist()
    assert changed == [0, 7]
    others = ~many.mask(0, 7)
    assert torch.equal(term.command[others], before[others])


def test_ranges_can_change_while_running(many: Any) -> None:
    term = make(many, ranges=RANGES, rel_standing_envs=1.0)
    cfg = many.command_manager.get_term_cfg("v")
    assert term.command.abs().max() == 0.0
    cfg.ranges.lin_vel_x = (3.0, 4.0)
    cfg.ranges.lin_vel_y.copy_(torch.tensor([-2.0, -1.0]))
    cfg.rel_standing_envs = 0.0
    many.command_manager.reset()
    many.command_manager.compute(0.0)
    assert term.command[:, 0].min() >= 3.0 and term.command[:, 0].max() <= 4.0
    assert term.command[:, 1].max() <= -1.0
    cfg.ranges = mdp.UniformVelocityRangesCfg(lin_vel_x=(0.1, 0.2))
    many.command_manager.reset()
    assert term.command[:, 0].min() >= 0.1 and term.command[:, 0].max() <= 0.2


def test_a_configuration_in_use_can_build_another_environment(many: Any) -> None:
    cfg = mdp.UniformVelocityCommandCfg(ranges=RANGES)
    first = CommandManager({"v": cfg}, many).get_term("v")
    second = CommandManager({"v": copy.deepcopy(cfg)}, many).get_term("v")
    torch.testing.assert_close(first.bounds, second.bounds)
    second.cfg.ranges.lin_vel_x = (7.0, 8.0)
    assert first.bounds[:, 0].tolist() == [-1.0, 2.0]
    assert second.bounds[:, 0].tolist() == [7.0, 8.0]


def test_metrics_are_the_mean_error_over_the_episode(many: Any) -> None:
    term = make(many, ranges=RANGES)
    robot = many.scene["robot"]
    expected = torch.zeros(3, COUNT)
    for n in range(3):
        velocity = torch.randn(COUNT, 6)
        robot.write_root_velocity(velocity)
        many.command_manager.update_metrics()
        expected[n] = (term.command[:, :2] - velocity[:, :2]).norm(dim=1)
        torch.testing.assert_close(
            mdp.error_vel_xy(many, command_name="v"), expected[n], rtol=1e-4, atol=1e-5
        )
        yaw = (term.command[:, 2] - velocity[:, 5]).abs()
        torch.testing.assert_close(mdp.error_vel_yaw(many, command_name="v"), yaw, rtol=1e-4, atol=1e-5)
    mean = expected.mean(dim=0)
    torch.testing.assert_close(term.metrics["error_vel_xy"], mean, rtol=1e-4, atol=1e-5)
    logs = many.command_manager.reset(many.mask(4, 5))
    assert logs["Metrics/v/error_vel_xy"].item() == pytest.approx(mean[[4, 5]].mean().item(), rel=1e-4)
    assert term.metrics["error_vel_xy"][[4, 5]].tolist() == [0.0, 0.0]
    robot.write_root_velocity(torch.zeros(COUNT, 6))
    many.command_manager.update_metrics()
    speed = term.command[4, :2].norm().item()
    assert term.metrics["error_vel_xy"][4].item() == pytest.approx(speed, rel=1e-4)


def test_null_command(many: Any) -> None:
    many.command_manager = CommandManager({"none": mdp.NullCommandCfg()}, many)
    many.command_manager.reset()
    many.command_manager.compute(0.02)
    with pytest.raises(RuntimeError, match="NullCommand"):
        many.command_manager.get_command("none")


def test_wrong_settings_are_errors(many: Any) -> None:
    with pytest.raises(ValueError, match=r"ranges.heading"):
        make(many, heading_command=True, ranges={"lin_vel_x": (0, 1)})
    with pytest.raises(TypeError, match="lin_vel_x"):
        mdp.UniformVelocityCommandCfg(ranges={"lin_vel_xx": (0, 1)})
