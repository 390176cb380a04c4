# SPDX-License-Identifier: Apache-2.0
"""Nothing in a rollout makes the host wait for the device, on the path that CUDA takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from forcelab.configs import compose
from forcelab.envs import DispatchCheck
from forcelab.learning.inference import default_env
from forcelab.learning.runner import PpoRunner
from forcelab.learning.sampling import draw_on_device
from forcelab.learning.vec_env import RslRlVecEnv

STEPS = 6
SMALL = [
    "num_envs=4",
    "seed=1",
    "device=cpu",
    "episode_length_s=0.08",
    f"agent.num_steps_per_env={STEPS}",
    "agent.actor.hidden_dims=[16]",
    "agent.critic.hidden_dims=[16]",
    "agent.actor.obs_normalization=true",
]


@pytest.fixture
def make():
    envs = []

    def build(task, *overrides):
        cfg = compose(task, [*SMALL, *overrides])
        envs.append(RslRlVecEnv(default_env(cfg.env), STEPS, clip_actions=5.0))
        return PpoRunner(envs[-1], cfg.agent)

    yield build
    for env in envs:
        env.close()


def collect(runner, steps):
    with torch.no_grad():
        obs = runner.env.get_observations()
        for _ in range(steps):
            obs = runner._env_step(obs)
    return obs


RECURRENT = [
    f"agent.{model}.{rest}"
    for model in ("actor", "critic")
    for rest in ("class_name=RNNModel", "extra={rnn_type: lstm, rnn_hidden_dim: 8}")
]


@pytest.mark.parametrize(
    "task, overrides",
    [
        ("balance_cartpole", []),
        ("balance_cartpole", ["agent.actor.distribution.std_type=log"]),
        ("balance_cartpole", ["agent.actor.distribution.class_name=BetaDistribution"]),
        ("balance_cartpole", RECURRENT),
        ("velocity_flat", []),
    ],
    ids=["gaussian", "log", "beta", "recurrent", "velocity_flat"],
)
def test_act_step_store_and_log_do_not_wait(make, task, overrides):
    runner = make(task, *overrides)
    with DispatchCheck(runner.env.unwrapped) as check:
        collect(runner, STEPS - 1)
        assert bool(runner.logger._dones.any())  # episodes ended meanwhile
    assert [str(f) for f in check.findings if "_dones.any()" not in f.code] == []
    assert len(check.findings) == 1  # it was watching
    # The last step reads the environment's logs, and nothing else waits.
    with DispatchCheck(runner.env.unwrapped) as check:
        collect(runner, 1)
    assert {Path(f.file).name for f in check.findings} <= {"manager_based_rl_env.py", "health.py"}
    assert runner.logger._env_log


def test_a_wait_in_any_part_is_found(make):
    runner = make("balance_cartpole")
    runner.alg.process_env_step = lambda obs, rewards, dones, extras: dones.nonzero()
    with DispatchCheck(runner.env.unwrapped) as check:
        collect(runner, 1)
    assert [f.op for f in check.findings] == ["aten::nonzero"]


@pytest.mark.parametrize("std_type", ["scalar", "log"])
def test_the_same_actions_are_drawn(make, std_type):
    policy = make("balance_cartpole", f"agent.actor.distribution.std_type={std_type}").alg.get_policy()
    own, distribution = policy.distribution.sample, policy.distribution
    distribution.update(torch.linspace(-2.0, 2.0, 40).view(40, 1))
    torch.manual_seed(3)
    drawn = own()
    del distribution.sample
    torch.manual_seed(3)
    assert torch.equal(drawn, distribution.sample()) and not drawn.requires_grad
    draw_on_device(policy)
    assert distribution.sample is not own and "sample" in vars(distribution)
