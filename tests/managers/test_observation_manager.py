# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
import torch

from forcelab.managers import (
    ConstantNoiseCfg,
    DigitalFilterCfg,
    IntegratorCfg,
    ManagerTermBase,
    ModifierCfg,
    NoiseModelWithAdditiveBiasCfg,
    ObservationGroupCfg,
    ObservationManager,
    ObservationTermCfg,
    UniformNoiseCfg,
)
from forcelab.managers.modifiers import bias
from forcelab.mdp import joint_pos

ObsTerm = ObservationTermCfg


def value(env: Any) -> torch.Tensor:
    return env.value


def manager_of(env: Any, group: dict[str, Any] | None = None, **terms: Any) -> ObservationManager:
    class Group(ObservationGroupCfg):
        enable_corruption = True

    cfg = Group()
    for name, entry in {**(group or {}), **terms}.items():
        setattr(cfg, name, entry)
    return ObservationManager({"policy": cfg}, env)


def step(manager: ObservationManager, env: Any, number: float, **kwargs: Any) -> torch.Tensor:
    env.value = torch.full((env.num_envs, 2), number)
    return manager.compute(update_history=True, **kwargs)["policy"]


def test_real_joint_positions_and_copies(env: Any) -> None:
    manager = manager_of(env, q=ObsTerm(func=joint_pos))
    obs = manager.compute(update_history=True)["policy"]
    assert type(obs) is torch.Tensor and obs.shape == (env.num_envs, 2)
    robot = env.scene["robot"]
    robot.write_joint_state(torch.ones(env.num_envs, 2), torch.zeros(env.num_envs, 2))
    assert torch.equal(obs, torch.zeros(env.num_envs, 2))  # earlier results do not change
    assert torch.equal(manager.compute(update_history=True)["policy"], torch.ones(env.num_envs, 2))


def test_order_of_processing(env: Any) -> None:
    manager = manager_of(
        env,
        x=ObsTerm(
            func=value,
            modifiers=[ModifierCfg(func=bias, params={"value": 1.0})],
            noise=ConstantNoiseCfg(bias=0.5),
            clip=(0.0, 2.0),
            scale=10.0,
            delay_min_lag=1,
            delay_max_lag=1,
            history_length=2,
        ),
    )
    assert torch.equal(step(manager, env, 0.0)[0], torch.full((4,), 15.0))
    assert torch.equal(step(manager, env, 5.0)[0], torch.full((4,), 15.0))  # delayed by one step
    assert step(manager, env, 0.0)[0].tolist() == [15.0, 15.0, 20.0, 20.0]  # clipped at 2, oldest first


def test_computing_again_in_one_step_gives_the_same_and_moves_nothing(env: Any) -> None:
    manager = manager_of(
        env,
        x=ObsTerm(
            func=value,
            noise=UniformNoiseCfg(n_min=-1.0, n_max=1.0),
            modifiers=[IntegratorCfg(dt=1.0)],
            delay_max_lag=2,
            history_length=3,
        ),
    )
    step(manager, env, 1.0)
    results = [step(manager, env, 2.0)] + [manager.compute()["policy"] for _ in range(2)]
    assert torch.equal(results[0], results[1]) and torch.equal(results[1], results[2])
    results[1].zero_()  # a copy: nobody else sees it
    assert torch.equal(manager.compute_group("policy"), results[0])
    # The history has two values: the first filled it, the second was pushed once.
    three = results[0].view(env.num_envs, 3, 2)
    assert torch.equal(three[:, 0], three[:, 1])


def test_stateful_modifier_with_history(env: Any) -> None:
    manager = manager_of(
        env, x=ObsTerm(func=value, modifiers=[DigitalFilterCfg(A=[-0.5], B=[1.0])], history_length=5)
    )
    outputs = [step(manager, env, 1.0) for _ in range(6)]
    expected, y = [], 0.0
    for _ in range(6):
        y = 1.0 + 0.5 * y
        expected.append(y)
    assert outputs[-1].shape == (env.num_envs, 10)
    assert torch.allclose(outputs[-1][0, ::2], torch.tensor(expected[1:]))


def test_partial_reset_leaves_the_others_alone(env: Any, first: torch.Tensor) -> None:
    bias_noise = NoiseModelWithAdditiveBiasCfg(
        noise_cfg=ConstantNoiseCfg(), bias_noise_cfg=UniformNoiseCfg(n_min=-1.0, n_max=1.0)
    )
    manager = manager_of(
        env,
        x=ObsTerm(
            func=value, modifiers=[IntegratorCfg(dt=1.0)], delay_min_lag=1, delay_max_lag=1, history_length=3
        ),
        y=ObsTerm(func=value, noise=bias_noise),
    )
    for number in (1.0, 2.0, 3.0):
        before = step(manager, env, number)
    manager.reset(first)
    after = step(manager, env, 4.0, env_mask=first)
    assert torch.equal(after[1:], before[1:])  # values, history, delay, noise of the others
    assert not torch.equal(after[0, -2:], before[0, -2:])  # a new bias
    assert torch.equal(after[0, :6], torch.full((6,), 2.0))  # integral from 0 again, filling the history
    # The next full step goes on from there, for the others as if nothing had happened.
    following = step(manager, env, 5.0)
    assert torch.equal(following[1, :4], before[1, 2:6])
    assert following[1, 4] == 0.5 * 1 + 1.5 + 2.5  # delayed by one step: the integral after 1, 2, 3
    assert following[0, 4] == 2.0


def test_masked_update_keeps_rows_of_class_terms(env: Any, first: torch.Tensor) -> None:
    class Count(ManagerTermBase):
        def __init__(self, cfg: Any, env: Any):
            super().__init__(cfg, env)
            self.count = torch.zeros(env.num_envs, 1)

        def reset(self, env_mask: torch.Tensor | None = None) -> None:
            self.count.masked_fill_(
                torch.ones_like(first)[:, None] if env_mask is None else env_mask[:, None], 0.0
            )

        def __call__(self, env: Any) -> torch.Tensor:
            self.count += 1.0
            return self.count

    manager = manager_of(env, x=ObsTerm(func=Count))
    for _ in range(3):
        step(manager, env, 0.0)
    manager.reset(first)
    assert step(manager, env, 0.0, env_mask=first)[:, 0].tolist() == [1.0, 3.0, 3.0, 3.0]
    assert step(manager, env, 0.0)[:, 0].tolist() == [2.0, 4.0, 4.0, 4.0]


def test_corruption_switch(env: Any) -> None:
    noisy = ObsTerm(func=value, noise=UniformNoiseCfg(n_min=1.0, n_max=2.0))
    manager = manager_of(env, group={"enable_corruption": False}, x=noisy)
    assert torch.equal(step(manager, env, 0.0), torch.zeros(env.num_envs, 2))
    manager = manager_of(env, x=noisy)
    obs = step(manager, env, 0.0)
    assert obs.min() >= 1.0 and obs.max() <= 2.0


def test_noise_and_scale_change_in_place(env: Any) -> None:
    term = ObsTerm(func=value, noise=UniformNoiseCfg(n_min=0.0, n_max=0.0), scale=(1.0, 2.0))
    manager = manager_of(env, x=term)
    memory = term.noise.n_min.data_ptr()
    term.noise.n_min = term.noise.n_max = 3.0
    term.scale = (2.0, 1.0)
    assert step(manager, env, 1.0)[0].tolist() == [8.0, 4.0]
    assert term.noise.n_min.data_ptr() == memory
    with pytest.raises(ValueError, match="scale"):
        term.scale = (1.0, 2.0, 3.0)


def test_group_without_concatenation(env: Any) -> None:
    manager = manager_of(
        env,
        group={"concatenate_terms": False},
        a=ObsTerm(func=value, history_length=3, flatten_history_dim=False),
        b=ObsTerm(func=lambda env: env.value[:, 0], clip=(-1.0, 2.0), scale=-2.0),
    )
    obs = step(manager, env, 5.0)
    assert (
        set(obs) == {"a", "b"}
        and obs["a"].shape == (env.num_envs, 3, 2)
        and obs["b"].shape == (env.num_envs, 1)
    )
    assert manager.group_obs_dim["policy"] == [(3, 2), (1,)]
    low, high = manager.term_bounds("policy", "b")
    assert (low.item(), high.item()) == (-4.0, 2.0)


def test_history_of_the_group_overrides_the_terms(env: Any) -> None:
    terms = {"a": ObsTerm(func=value, history_length=5), "b": ObsTerm(func=value)}
    manager = manager_of(env, group={"history_length": 2}, **terms)
    assert manager.group_obs_dim["policy"] == (8,)
    assert manager.group_obs_term_dim["policy"] == [(4,), (4,)]


def test_delay_is_drawn_per_environment(env: Any) -> None:
    manager = manager_of(env, x=ObsTerm(func=value, delay_min_lag=0, delay_max_lag=3))
    lags = manager._groups["policy"].terms["x"].delay.lag
    lags.copy_(torch.tensor([0, 1, 2, 3]))
    for number in range(6):
        obs = step(manager, env, float(number))
    assert obs[:, 0].tolist() == [5.0, 4.0, 3.0, 2.0]


def test_errors(env: Any) -> None:
    with pytest.raises(ValueError, match=r"observations\.policy\.x returned \(2, 3\)"):
        manager_of(env, x=ObsTerm(func=lambda env: torch.zeros(2, 3)))
    with pytest.raises(ValueError, match=r"delay_min_lag is 3"):
        manager_of(env, x=ObsTerm(func=value, delay_min_lag=3, delay_max_lag=1))
    with pytest.raises(ValueError, match=r"x\.scale has shape \(3,\)"):
        manager_of(env, x=ObsTerm(func=value, scale=(1.0, 2.0, 3.0)))
    with pytest.raises(ValueError, match=r"cannot be concatenated"):
        manager_of(env, a=ObsTerm(func=value), b=ObsTerm(func=lambda env: torch.zeros(env.num_envs, 2, 2)))
    with pytest.raises(ValueError, match=r"operation is 'ad'.*Did you mean 'add'"):
        manager_of(env, a=ObsTerm(func=value, noise=UniformNoiseCfg(operation="ad")))
    with pytest.raises(TypeError, match=r"observations\.policy\.a is a int"):
        manager_of(env, a=3)
    with pytest.raises(KeyError, match=r"no group 'polcy'.*policy"):
        manager_of(env, a=ObsTerm(func=value)).compute_group("polcy")
    manager = manager_of(env, a=ObsTerm(func=value))
    env.value = torch.zeros(env.num_envs, 3)
    with pytest.raises(ValueError, match=r"policy\.a returned shape \(4, 3\); at first it was \(4, 2\)"):
        manager.compute(update_history=True)
