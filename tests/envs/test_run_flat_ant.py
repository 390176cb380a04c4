# SPDX-License-Identifier: Apache-2.0
"""The task run_flat_ant: what the policy is told, a few steps, and how episodes end."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.configs import compose
from forcelab.envs import ManagerBasedRlEnv
from forcelab.learning.evaluate import CRITERION, print_results, run_episodes
from forcelab.learning.inference import Rollout
from forcelab.learning.vec_env import RslRlVecEnv
from forcelab.physics.quaternions import quat_apply

torch.set_num_threads(1)
NUM_ENVS = 4
LAYOUT = {
    "base_height": 1,
    "base_lin_vel": 3,
    "base_ang_vel": 3,
    "projected_gravity": 3,
    "base_heading": 2,
    "joint_pos": 8,
    "joint_vel": 8,
    "feet_wrenches": 24,
    "actions": 8,
}
FEET = ["front_left_foot", "back_left_foot", "back_right_foot", "front_right_foot"]


@pytest.fixture(scope="module")
def _env() -> Iterator[ManagerBasedRlEnv]:
    env = ManagerBasedRlEnv(compose("run_flat_ant", [f"num_envs={NUM_ENVS}", "seed=3", "device=cpu"]).env)
    yield env
    env.close()


@pytest.fixture
def env(_env: ManagerBasedRlEnv) -> ManagerBasedRlEnv:
    _env.reset(seed=3)
    return _env


def column(name: str) -> slice:
    """Where a term lies in the vector of the group."""
    start = 0
    for term, width in LAYOUT.items():
        if term == name:
            return slice(start, start + width)
        start += width
    raise KeyError(name)


def test_layout_of_the_observations(env: Any) -> None:
    obs, _ = env.reset()
    manager = env.observation_manager
    widths = [shape[-1] for shape in manager.group_obs_term_dim["policy"]]
    assert dict(zip(manager.active_terms["policy"], widths, strict=True)) == LAYOUT
    assert {name: tuple(value.shape) for name, value in obs.items()} == {"policy": (NUM_ENVS, 60)}
    assert env.action_manager.total_action_dim == 8
    heading = env.scene["robot"].data.heading_w
    torch.testing.assert_close(obs["policy"][:, column("base_heading")][:, 1], heading.sin())
    torch.testing.assert_close(
        obs["policy"][:, column("base_height")], env.scene["robot"].data.root_pos_w[:, 2:]
    )


def test_feet_wrenches_are_a_tenth_of_the_sensors_in_the_order_of_the_robot(env: Any) -> None:
    for _ in range(50):
        obs, *_ = env.step(torch.zeros(NUM_ENVS, 8))
    wrench, robot = env.scene["joint_wrench"], env.scene["robot"]
    seen = obs["policy"][:, column("feet_wrenches")].view(NUM_ENVS, 4, 6)
    for i, name in enumerate(FEET):
        at = wrench.body_names.index(name)
        torch.testing.assert_close(seen[:, i, :3], 0.1 * wrench.data.force[:, at])
        torch.testing.assert_close(seen[:, i, 3:], 0.1 * wrench.data.torque[:, at])
    # At rest the trunk and the legs weigh on the feet: downwards, in the world's frame.
    quat = robot.data.body_quat_w[:, [robot.body_names.index(name) for name in FEET]]
    downwards = quat_apply(quat, 10.0 * seen[..., :3]).sum(dim=1)
    weight = (10.2 - 4 * 0.6) * 9.81
    expected = torch.tensor([0.0, 0.0, -weight]).expand(NUM_ENVS, 3)
    torch.testing.assert_close(downwards, expected, atol=1.5, rtol=0.0)
    assert env.scene.engine.integrator == "discrete"


def test_random_actions_and_logs(env: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        action = torch.randn(NUM_ENVS, 8, generator=generator)
        obs, reward, terminated, truncated, _ = env.step(action)
        assert torch.isfinite(obs["policy"]).all() and torch.isfinite(reward).all()
        assert not (terminated & truncated).any()
        assert torch.equal(
            obs["policy"][:, column("actions")], torch.where(env.reset_buf[:, None], 0.0, action)
        )
    env.episode_length_buf = torch.full((NUM_ENVS,), env.max_episode_length - 1)
    *_, truncated, _ = env.step(torch.zeros(NUM_ENVS, 8))
    assert truncated.any()
    logs = env.pop_logs()
    assert set(env.reward_manager.active_terms) == {
        name.split("/")[1] for name in logs if name.startswith("Episode_Reward/")
    }
    assert "Metrics/forward_velocity" in logs
    assert env.scene.engine.overflow() is None


def test_lying_on_its_back_or_belly_ends_the_episode(env: Any) -> None:
    robot = env.scene["robot"]
    pose = robot.data.root_pose_w.clone()
    pose[1, 3:] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # on its back
    pose[2, 2] = 0.128  # the trunk touches the ground, between legs stretched out
    joints = robot.data.joint_pos.clone()
    joints[2, 1::2] = 0.3
    robot.write_root_pose(pose)
    robot.write_joint_state(joints, torch.zeros_like(joints), env_mask=torch.arange(NUM_ENVS) == 2)
    action = torch.zeros(NUM_ENVS, 8)
    action[2, 1::2] = -1.5  # 0.3 rad: the ankles stay and do not lift the trunk
    *_, terminated, truncated, _ = env.step(action)
    assert terminated.tolist() == [False, True, True, False] and not truncated.any()


class Push:
    """A policy that stands, while the test pushes."""

    iteration = 0

    def __init__(self, env: ManagerBasedRlEnv, speed: float):
        self.env, self.speed = env, speed

    def __call__(self, obs: Any) -> torch.Tensor:
        robot = self.env.scene["robot"]
        velocity = torch.zeros(NUM_ENVS, 6)
        velocity[:, 0] = self.speed
        robot.write_root_pose(robot.data.default_root_pose + torch.tensor([0, 0, 0.5, 0, 0, 0, 0]))
        robot.write_root_velocity(velocity)
        return torch.zeros(NUM_ENVS, 8)

    def reset(self, done: torch.Tensor | None = None) -> None:
        pass


@pytest.mark.parametrize(("speed", "side"), [(3.0, "met"), (1.5, "NOT met")])
def test_evaluation_judges_the_forward_velocity(env: Any, speed: float, side: str) -> None:
    before, env.max_episode_length = env.max_episode_length, 30
    try:
        rollout = Rollout(RslRlVecEnv(env), Push(env, speed), Path("none"))  # type: ignore[arg-type]
        results = run_episodes(rollout, settle=0.2)
    finally:
        env.max_episode_length = before
    # In the air and at rest but for the push: nothing slows the trunk within a step.
    assert results["forward_velocity"] == pytest.approx(speed, abs=0.1)
    bounds = {k: v for k, v in CRITERION.items() if k in results}
    assert set(bounds) == {"forward_velocity", "terminated_percent"}
    out = io.StringIO()
    shown = {"task": "run_flat_ant", "checkpoint": "a/b/c.pt", "iteration": 0, **results}
    print_results({**shown, "criterion": bounds, "passed": True}, out)
    assert f"at least {bounds['forward_velocity']:g}: {side}" in out.getvalue()
