# SPDX-License-Identifier: Apache-2.0
"""The same promises on CUDA: physics, resets, equality with the CPU, no host synchronisation."""

from __future__ import annotations

import pytest
import torch

from forcelab import configs
from forcelab.envs import ManagerBasedRlEnv

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def env():
    cfg = configs.compose("velocity_flat", ["num_envs=64", "device=cuda:0", "seed=3", "~events.push"]).env
    e = ManagerBasedRlEnv(cfg)
    e.reset()
    yield e
    e.close()


def test_standing_robot_weighs_what_it_weighs(env):
    env.reset(seed=3)
    zero = torch.zeros(64, 12, device=env.device)
    total = torch.zeros(64, device=env.device)
    for i in range(150):
        env.step(zero)
        if i >= 100:
            # A robot may have come to rest on a shank.
            for name in ("feet_contact", "body_contact"):
                total += env.scene[name].data.net_forces_w[..., 2].sum(1) / 50
    weight = env.scene["robot"].data.body_mass.sum(1) * 9.81
    # Those that are just toppling do not stand.
    still = env.scene["robot"].data.root_vel_w.norm(dim=1) < 0.5
    standing = (env.episode_length_buf >= 150) & still
    assert int(standing.sum()) > 48
    error = ((total - weight) / weight)[standing].abs()
    assert float(error.max()) < 0.02


def test_partial_reset_leaves_the_others_bit_for_bit(env):
    for _ in range(20):
        env.step(torch.zeros(64, 12, device=env.device))
    mask = torch.zeros(64, dtype=torch.bool, device=env.device)
    mask[::3] = True
    robot, feet = env.scene["robot"].data, env.scene["feet_contact"].data
    before = robot.joint_pos.clone(), feet.net_forces_w_history.clone(), feet.current_contact_time.clone()
    env.reset(options={"reset_mask": mask})
    for old, new in zip(before, (robot.joint_pos, feet.net_forces_w_history, feet.current_contact_time)):
        assert torch.equal(old[~mask], new[~mask])
    assert float(feet.net_forces_w_history[mask].abs().max()) == 0.0
    assert int(env.episode_length_buf[mask].max()) == 0


def test_replayed_steps_agree_with_the_cpu():
    """Equal starts, ten environment steps: single precision apart."""
    ends = []
    for device in ("cpu", "cuda:0"):
        cfg = configs.compose("balance_cartpole", ["num_envs=8", f"device={device}", "seed=1"]).env
        e = ManagerBasedRlEnv(cfg)
        e.reset()
        robot = e.scene["robot"]
        start = torch.linspace(-0.1, 0.1, 16).view(8, 2).to(e.device)
        robot.write_joint_state(start, torch.zeros_like(start))
        for i in range(10):
            e.step(torch.full((8, 1), 0.1 * (i % 3 - 1), device=e.device))
        ends.append(robot.data.joint_pos.torch.cpu().clone())
        e.close()
    assert torch.allclose(ends[0], ends[1], atol=1e-4)


def test_a_step_does_not_wait_for_the_device(env):
    action = torch.zeros(64, 12, device=env.device)
    # Capture, and the comparisons with eager steps that follow it, do wait.
    for _ in range(16):
        env.step(action)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        env.step(action)
    finally:
        torch.cuda.set_sync_debug_mode("default")
