# SPDX-License-Identifier: Apache-2.0
"""The task press_arm: what varies, what the policy may know, and a few steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from forcelab.configs import compose
from forcelab.envs import ManagerBasedRlEnv
from forcelab.physics.quaternions import quat_apply

torch.set_num_threads(1)
NUM_ENVS = 4


@pytest.fixture(scope="module")
def _env() -> Iterator[ManagerBasedRlEnv]:
    quiet = "observations.policy.enable_corruption=false"
    cfg = compose("press_arm", [f"num_envs={NUM_ENVS}", "seed=3", "device=cpu", quiet])
    env = ManagerBasedRlEnv(cfg.env)
    yield env
    env.close()


@pytest.fixture
def env(_env: ManagerBasedRlEnv) -> ManagerBasedRlEnv:
    _env.reset(seed=3)
    return _env


def columns(env: Any, group: str) -> dict[str, slice]:
    """Where each term lies in a group's vector."""
    manager, start, found = env.observation_manager, 0, {}
    for name, shape in zip(manager.active_terms[group], manager.group_obs_term_dim[group], strict=True):
        found[name] = slice(start, start + shape[-1])
        start += shape[-1]
    return found


def test_spaces_and_groups(env: Any) -> None:
    obs, _ = env.reset()
    assert obs["policy"].shape == (NUM_ENVS, 35) and obs["critic"].shape == (NUM_ENVS, 40)
    assert env.action_manager.total_action_dim == 6
    policy, critic = columns(env, "policy"), columns(env, "critic")
    # The policy learns of table and tool only what the wrist feels.
    assert set(critic) - set(policy) == {"tool_force", "table_height", "table_friction"}
    assert policy["wrist_wrench"].stop - policy["wrist_wrench"].start == 6


def test_table_height_and_friction_vary_and_the_policy_does_not_see_them(env: Any) -> None:
    table, seen, friction = env.scene["table"], [], []
    for _ in range(10):
        env.reset()
        seen.append(table.data.root_pos_w[:, 2].clone())
        friction.append(table.data.body_friction[:, 0].clone())
    height, coefficient = torch.stack(seen), torch.stack(friction)
    for values, low, high in ((height, 0.045, 0.105), (coefficient, 0.2, 1.0)):
        assert values.min() >= low - 1e-6 and values.max() <= high + 1e-6
        assert values.min() < low + 0.2 * (high - low) and values.max() > high - 0.2 * (high - low)
        assert values[0].std() > 0.0 and values[:, 0].std() > 0.0  # among environments and in time
    # Moving table and friction alone changes what the critic is told, and nothing for the policy.
    before = env.observation_manager.compute(update_history=True)
    pose = table.data.root_pose_w.clone()
    pose[:, 2] -= 0.01
    table.write_root_pose(pose)
    table.write_friction(torch.full((NUM_ENVS, 1), 0.123))
    after = env.observation_manager.compute(update_history=True)
    where = columns(env, "critic")
    assert (before["critic"] - after["critic"])[:, where["table_height"]].abs().min() > 0.05
    torch.testing.assert_close(after["critic"][:, where["table_friction"]], torch.full((NUM_ENVS, 1), 0.123))
    assert torch.equal(before["policy"], after["policy"])


def test_steps_target_in_the_patch_and_metrics(env: Any) -> None:
    term = env.command_manager.get_term("press")
    x0, x1, y0, y1 = term.cfg.patch
    touched = torch.zeros(NUM_ENVS, dtype=torch.bool)
    for i in range(120):
        # Sink onto the table: the shoulder leans forward a little in every step.
        action = torch.zeros(NUM_ENVS, 6)
        action[:, 1] = 1.0 if i < 60 else 0.0
        obs, reward, *_ = env.step(action)
        x, y = term.target_pos.unbind(1)
        assert ((x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)).all()
        assert ((term.force >= 5.0) & (term.force <= 30.0)).all()
        assert torch.isfinite(reward).all() and all(torch.isfinite(v).all() for v in obs.values())
        touched |= term.measured_force > 0.0
    assert touched.all()
    # Force and wrench agree: what the tool feels, flange and tool's weight apart, passes through the weld.
    column = env.scene["wrist"].body_names.index("flange")
    robot = env.scene["robot"]
    for _ in range(100):
        env.step(torch.zeros(NUM_ENVS, 6))
    flange = robot.data.body_quat_w[:, robot.body_names.index("flange")]
    force = quat_apply(flange, env.scene["wrist"].data.force[:, column])
    contact = env.scene["tool_contact"].data.net_forces_w[:, 0]
    weight = torch.tensor([0.0, 0.0, 0.5 * 9.81])
    torch.testing.assert_close(force, weight - contact, atol=0.3, rtol=0.02)
    assert env.scene["wrist"].data.force[:, column].norm(dim=1).max() > 1.0
    assert env.scene.engine.integrator == "discrete"


def test_episode_ends_and_logs(env: Any) -> None:
    env.episode_length_buf = torch.full((NUM_ENVS,), env.max_episode_length - 1)
    *_, truncated, _ = env.step(torch.zeros(NUM_ENVS, 6))
    assert truncated.all()
    logs = env.pop_logs()
    for name in ("force_error_percent", "path_error", "slide_speed", "contact_percent"):
        assert f"Metrics/press/{name}" in logs
    assert logs["Episode_Termination/time_out"] == 1.0
