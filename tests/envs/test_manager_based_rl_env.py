# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from forcelab.envs import ManagerBasedRlEnv, NonFiniteError
from forcelab.managers import (
    CommandTerm,
    CommandTermCfg,
    CurriculumTermCfg,
    EventTermCfg,
    MetricsTermCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)


def actions(env: ManagerBasedRlEnv, steps: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(steps, env.num_envs, 1, generator=generator)


def rollout(env: ManagerBasedRlEnv, steps: int) -> torch.Tensor:
    rows = []
    for action in actions(env, steps):
        obs, reward, _, _, _ = env.step(action)
        rows.append(torch.cat((obs["policy"], reward[:, None]), dim=1))
    return torch.stack(rows)


# -- interface


def test_spaces_shapes_and_fresh_results(cfg: Any, make: Any) -> None:
    env = make(cfg)
    assert env.single_observation_space == gymnasium.spaces.Dict(
        {"policy": gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)}
    )
    assert env.observation_space["policy"].shape == (3, 4) and env.action_space.shape == (3, 1)
    obs, info = env.reset()
    assert info == {} and obs["policy"].dtype == torch.float32
    first = env.step(torch.zeros(3, 1))
    kept = copy.deepcopy(first[:4])
    for action in actions(env, 12):
        result = env.step(action)
        for a, b in zip(result[1:4], first[1:4], strict=True):
            assert a.data_ptr() != b.data_ptr()
    assert torch.equal(first[0]["policy"], kept[0]["policy"])
    assert all(torch.equal(a, b) for a, b in zip(first[1:4], kept[1:4], strict=True))
    obs, reward, terminated, truncated, _ = result
    assert obs["policy"].shape == (3, 4) and reward.shape == (3,)
    assert terminated.dtype == truncated.dtype == torch.bool
    assert type(obs["policy"]) is torch.Tensor
    with pytest.raises(ValueError, match=r"The action has shape \(3, 2\); it must be \(3, 1\)"):
        env.step(torch.zeros(3, 2))


def test_results_may_be_changed_by_the_caller(cfg: Any, make: Any) -> None:
    env = make(cfg)
    obs, _ = env.reset()
    obs["policy"].fill_(7.0)
    assert not (env.obs_buf["policy"] == 7.0).any()
    for _ in range(10):
        obs, reward, _, truncated, _ = env.step(torch.zeros(3, 1))
        for x in (obs["policy"], reward):
            x.fill_(7.0)
        truncated.fill_(True)
    assert not (env.reward_buf == 7.0).any()


def test_time_out_and_same_step_reset(cfg: Any, make: Any) -> None:
    env = make(cfg)
    env.reset()
    assert env.max_episode_length == 10
    for step in range(1, 21):
        _, _, terminated, truncated, _ = env.step(torch.zeros(3, 1))
        assert bool(truncated.all()) == (step % 10 == 0) and not terminated.any()
    assert env.episode_length_buf.tolist() == [0, 0, 0]
    assert env.common_step_counter.item() == 20 and env.common_step_counter.dim() == 0
    memory = env.episode_length_buf.data_ptr()
    env.episode_length_buf = torch.tensor([3, 5, 9])
    assert env.episode_length_buf.data_ptr() == memory
    assert env.step(torch.zeros(3, 1))[3].tolist() == [False, False, True]


def test_final_observation_of_the_environment_that_ends(cfg: Any, make: Any) -> None:
    cfg.scene.num_envs = 2
    cfg.final_obs = True
    cfg.events = None
    cfg.observations.policy.time = ObservationTermCfg(func="current_time_s", history_length=2)
    env = make(cfg)
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    env.reset()
    env.episode_length_buf = torch.tensor([0, 4])
    for step in range(1, 7):
        obs, _, _, truncated, info = env.step(torch.ones(2, 1))
        assert info["_final_obs"].tolist() == truncated.tolist() == [False, step == 6]
    final = info["final_obs"]["policy"]
    assert torch.equal(final[0], torch.zeros(6))
    # The cart moved; its history ends with the last step of the episode.
    assert final[1, 0] > 0 and final[1, 4:].tolist() == pytest.approx([0.18, 0.2])
    assert torch.equal(obs["policy"][1], torch.zeros(6))
    # The other environment's history went on by one.
    assert obs["policy"][0, 4:].tolist() == pytest.approx([0.1, 0.12])


def test_metadata_belongs_to_the_instance(cfg: Any, make: Any) -> None:
    env = make(cfg)
    other_cfg = cfg.replace(decimation=5)
    other = make(other_cfg)
    assert (env.metadata["render_fps"], other.metadata["render_fps"]) == (50, 20)
    assert "render_fps" not in ManagerBasedRlEnv.metadata
    assert (env.step_dt, other.step_dt) == pytest.approx((0.02, 0.05))


def test_the_configuration_given_stays_as_it_was(cfg: Any, make: Any) -> None:
    before = copy.deepcopy(cfg)
    env = make(cfg)
    env.reset()
    assert cfg == before
    env.cfg.rewards.alive.weight = 5.0
    assert cfg.rewards.alive.weight == 1.0
    reward = env.step(torch.zeros(3, 1))[1]
    assert reward.min() > 0.09


@pytest.mark.parametrize(
    "field, value, message",
    [
        ("decimation", 0, "decimation is 0"),
        ("episode_length_s", 0.0, "episode_length_s is 0.0"),
        ("seed", -1, "seed is -1"),
        ("nan_policy", "rise", "nan_policy is 'rise'.*Did you mean 'raise'"),
    ],
)
def test_configuration_errors(cfg: Any, field: str, value: Any, message: str) -> None:
    setattr(cfg, field, value)
    with pytest.raises(ValueError, match=message):
        ManagerBasedRlEnv(cfg)


def test_no_environments_is_an_error(cfg: Any) -> None:
    cfg.scene.num_envs = 0
    with pytest.raises(ValueError, match=r"scene\.num_envs is 0; it must be a whole number, 1 or more"):
        ManagerBasedRlEnv(cfg)


def test_inference_mode_and_gradients(noisy_cfg: Any, make: Any) -> None:
    noisy_cfg.curriculum.weight = CurriculumTermCfg(func=lambda env, env_mask: raise_weight(env))
    with torch.inference_mode():
        env = make(noisy_cfg)
        env.reset()
        rollout(env, 12)
        env.reset(seed=3)
    rollout(env, 12)
    with torch.inference_mode():
        rollout(env, 3)
    env.reset(options={"reset_mask": torch.tensor([True, False, False])})
    reward = env.step(torch.zeros(3, 1, requires_grad=True) * 2.0)[1]
    assert not reward.requires_grad and not env.action_manager.action.requires_grad
    env.pop_logs()


# -- seeds


def test_equal_seeds_give_equal_runs(noisy_cfg: Any, make: Any) -> None:
    runs, masses = [], []
    for _ in range(2):
        env = make(noisy_cfg)
        env.reset()
        masses.append(env.scene["robot"].data.body_mass.clone())
        runs.append(rollout(env, 25))
    assert torch.equal(runs[0], runs[1]) and torch.equal(masses[0], masses[1])
    assert masses[0].std(dim=0).min() > 0
    noisy_cfg.seed = 2
    env = make(noisy_cfg)
    env.reset()
    assert not torch.equal(env.scene["robot"].data.body_mass, masses[0])


def test_seeded_reset_equals_a_seeded_make(noisy_cfg: Any, make: Any) -> None:
    noisy_cfg.curriculum.weight = CurriculumTermCfg(func=lambda env, env_mask: raise_weight(env))
    env = make(noisy_cfg.replace(seed=5))
    env.reset()
    expected, mass = rollout(env, 25), env.scene["robot"].data.body_mass.clone()
    env = make(noisy_cfg.replace(seed=77))
    env.reset()
    rollout(env, 13)
    env.reward_manager.get_term_cfg("pole").weight = -3.0
    env.reset(seed=5)
    assert torch.equal(env.scene["robot"].data.body_mass, mass)
    assert torch.equal(rollout(env, 25), expected)
    assert env.seed == env.cfg.seed == 5


def raise_weight(env: Any) -> torch.Tensor:
    weight = env.reward_manager.get_term_cfg("pole").weight
    weight.mul_(1.1)
    return weight


def test_edits_before_the_first_reset_stay(cfg: Any, make: Any) -> None:
    env = make(cfg)
    env.reward_manager.get_term_cfg("alive").weight = 4.0
    manager = env.reward_manager
    env.reset(seed=3)
    assert env.reward_manager is manager
    assert manager.get_term_cfg("alive").weight.item() == 4.0


def test_no_seed_is_drawn_used_and_written_back(noisy_cfg: Any, make: Any) -> None:
    noisy_cfg.seed = None
    env = make(noisy_cfg)
    assert isinstance(noisy_cfg.seed, int) and noisy_cfg.seed == env.cfg.seed == env.seed
    env.reset()
    expected = rollout(env, 5)
    again = make(noisy_cfg)
    again.reset()
    assert torch.equal(rollout(again, 5), expected)
    noisy_cfg.seed = None
    assert make(noisy_cfg).seed != env.seed


# -- resets


class Clock(CommandTerm):
    """Counts what happens to it."""

    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.value = torch.zeros(env.num_envs, 1)

    @property
    def command(self) -> torch.Tensor:
        return self.value

    def _resample_command(self, env_mask: torch.Tensor) -> None:
        self.value.add_(env_mask[:, None])


def test_automatic_and_explicit_resets_are_alike(cfg: Any, make: Any) -> None:
    cfg.commands.clock = CommandTermCfg(class_type=Clock, resampling_time_range=(0.06, 0.06))
    cfg.observations.policy.command = ObservationTermCfg(
        func="generated_commands",
        params={"command_name": "clock"},
        history_length=3,
        delay_min_lag=1,
        delay_max_lag=1,
    )
    cfg.events.start.params = {"position_range": (0.1, 0.1), "velocity_range": (0.0, 0.0)}
    pushes: dict[int, list[Any]] = {}

    def push(env: Any, env_mask: torch.Tensor) -> None:
        pushes.setdefault(id(env), []).append((int(env.common_step_counter), env_mask.tolist()))

    cfg.events.push = EventTermCfg(func=push, mode="interval", interval_range_s=(0.08, 0.08))
    cfg.events.shake = EventTermCfg(
        func=push, mode="interval", interval_range_s=(0.1, 0.1), is_global_time=True
    )
    automatic, by_hand = make(cfg), make(cfg)
    # One is reset by its time limit in environment 0, the other by hand after the same step.
    automatic.reset()
    by_hand.reset()
    by_hand.max_episode_length = 10**6
    automatic.episode_length_buf = torch.tensor([3, 0, 0])
    for step, action in enumerate(actions(automatic, 16), start=1):
        expected = automatic.step(action)[0]
        obs = by_hand.step(action)[0]
        if step == 7:
            assert automatic.reset_time_outs.tolist() == [True, False, False]
            before = obs["policy"].clone()
            obs, _ = by_hand.reset(options={"reset_mask": torch.tensor([True, False, False])})
            assert torch.equal(obs["policy"][1:], before[1:])
        if step < 10:
            assert torch.equal(obs["policy"], expected["policy"]), step
            clocks = [e.command_manager.get_term("clock").time_left for e in (automatic, by_hand)]
            assert torch.equal(*clocks)
            assert torch.equal(automatic.event_manager.time_left, by_hand.event_manager.time_left)
            assert torch.equal(
                automatic.event_manager.global_time_left, by_hand.event_manager.global_time_left
            )
        if step == 9:
            assert pushes[id(automatic)] == pushes[id(by_hand)] and len(pushes[id(automatic)]) >= 3


def test_partial_reset_leaves_the_others_alone(noisy_cfg: Any, make: Any) -> None:
    env = make(noisy_cfg)
    env.reset()
    rollout(env, 5)
    before = env.obs_buf["policy"].clone()
    state = env.scene["robot"].data.joint_pos.clone()
    mask = np.array([False, True, False])
    obs, _ = env.reset(options={"reset_mask": mask})
    assert torch.equal(obs["policy"][[0, 2]], before[[0, 2]])
    assert not torch.equal(obs["policy"][1], before[1])
    assert torch.equal(env.scene["robot"].data.joint_pos[[0, 2]], state[[0, 2]])
    assert env.episode_length_buf.tolist() == [5, 0, 5]


def test_reset_errors(cfg: Any, make: Any) -> None:
    env = make(cfg)
    with pytest.raises(ValueError, match=r"unknown key 'reset_mak'.*Did you mean 'reset_mask'"):
        env.reset(options={"reset_mak": None})
    for mask in (torch.zeros(2, dtype=torch.bool), torch.zeros(3)):
        with pytest.raises(ValueError, match=r"it must be bool \(3,\)"):
            env.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="concerns all environments"):
        env.reset(seed=1, options={"reset_mask": torch.zeros(3, dtype=torch.bool)})
    with pytest.raises(ValueError, match="seed is -3"):
        env.reset(seed=-3)


def test_max_episode_steps(cfg: Any, make: Any) -> None:
    cfg.terminations = type(cfg.terminations)()
    env = make(cfg)
    env.set_max_episode_steps(4)
    env.reset(seed=3)
    env.episode_length_buf = torch.tensor([0, 1, 2])
    truncated = torch.stack([env.step(torch.zeros(3, 1))[3] for _ in range(8)])
    assert [row.tolist() for row in truncated.T.nonzero()] == [[0, 3], [0, 7], [1, 2], [1, 6], [2, 1], [2, 5]]


# -- logs


def test_logs_are_means_over_episodes_and_never_repeat(cfg: Any, make: Any) -> None:
    cfg.terminations.far = TerminationTermCfg(func=lambda env: env.episode_length_buf == 4)
    cfg.metrics.length = MetricsTermCfg(func=lambda env: env.episode_length_buf.float())
    cfg.curriculum.level = CurriculumTermCfg(func=lambda env, env_mask: 2.0)
    env = make(cfg)
    env.reset()
    assert env.pop_logs() == {"Curriculum/level": 2.0}  # no episode has ended
    env.episode_length_buf = torch.tensor([6, 0, 6])
    for _ in range(3):
        env.step(torch.zeros(3, 1))
    assert set(env.pop_logs()) == {"Curriculum/level"}
    env.step(torch.zeros(3, 1))  # 0 and 2 time out, 1 is far
    logs = env.pop_logs()
    assert logs["Episode_Termination/time_out"] == pytest.approx(2 / 3)
    assert logs["Episode_Termination/far"] == pytest.approx(1 / 3)
    assert logs["Metrics/length"] == pytest.approx((8.5 + 2.5 + 8.5) / 3)
    # Four steps of 0.02 s (three for the environment that ended otherwise), limit 0.2 s.
    assert logs["Episode_Reward/alive"] == pytest.approx((0.08 + 0.06 + 0.08) / 3 / 0.2)
    assert set(env.pop_logs()) == {"Curriculum/level"}


def test_a_column_reward_names_the_term(cfg: Any, make: Any) -> None:
    cfg.rewards.bad = RewardTermCfg(func="current_time_s", weight=1.0)
    env = make(cfg)
    env.reset()
    with pytest.raises(ValueError, match=r"rewards\.bad returned shape \(3, 1\)"):
        env.step(torch.zeros(3, 1))


# -- numbers that are not finite


def spoil(env: ManagerBasedRlEnv, index: int, value: float = float("nan")) -> None:
    robot = env.scene["robot"]
    velocity = robot.data.joint_vel.clone()
    velocity[index, 1] = value
    robot.write_joint_state(robot.data.joint_pos.clone(), velocity)


def test_state_that_is_not_finite_is_named(cfg: Any, make: Any) -> None:
    env = make(cfg)
    env.reset()
    spoil(env, 1)
    with pytest.raises(
        NonFiniteError, match=r"environment 1: scene\['robot'\].*rewards\.pole.*policy\.joint_"
    ):
        env.step(torch.zeros(3, 1))


def test_only_the_spoilt_environment_is_reset(cfg: Any, make: Any) -> None:
    cfg.nan_policy = "reset"
    env = make(cfg)
    env.reset()
    env.step(torch.zeros(3, 1))
    spoil(env, 1)
    obs, reward, terminated, truncated, _ = env.step(torch.zeros(3, 1))
    assert terminated.tolist() == [False, True, False] and not truncated.any()
    assert torch.isfinite(obs["policy"]).all() and torch.isfinite(reward).all() and reward[1] == 0
    assert env.episode_length_buf.tolist() == [2, 0, 2]
    for _ in range(12):
        obs, reward, _, _, _ = env.step(torch.zeros(3, 1))
        assert torch.isfinite(obs["policy"]).all() and torch.isfinite(reward).all()
    with pytest.warns(RuntimeWarning, match="environment 1"):
        logs = env.pop_logs()
    assert logs["Health/non_finite_resets"] == 1
    assert all(np.isfinite(v) for v in logs.values())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_terms_that_are_not_finite_are_named(cfg: Any, make: Any, value: float) -> None:
    spoilt_reward, spoilt_obs = torch.zeros(3), torch.zeros(3, 1)
    cfg.rewards.bad = RewardTermCfg(func=lambda env: spoilt_reward, weight=1.0)
    cfg.observations.policy.worse = ObservationTermCfg(func=lambda env: spoilt_obs)
    env = make(cfg)
    env.reset()
    spoilt_reward[2] = value
    with pytest.raises(NonFiniteError, match=r"environment 2: rewards\.bad\."):
        env.step(torch.zeros(3, 1))
    spoilt_reward.zero_()
    spoilt_obs[2] = value
    with pytest.raises(NonFiniteError, match=r"environment 2: observations\.policy\.worse"):
        env.step(torch.zeros(3, 1))


def test_observations_that_are_not_finite_reset_in_the_next_step(cfg: Any, make: Any) -> None:
    cfg.nan_policy = "reset"
    bad = torch.zeros(3, 1)
    cfg.observations.policy.bad = ObservationTermCfg(func=lambda env: bad.clone())
    env = make(cfg)
    env.reset()
    bad[0] = float("nan")
    obs, _, terminated, _, _ = env.step(torch.zeros(3, 1))
    assert torch.isfinite(obs["policy"]).all() and not terminated.any()
    bad[0] = 0.0
    assert env.step(torch.zeros(3, 1))[2].tolist() == [True, False, False]
    assert not env.step(torch.zeros(3, 1))[2].any()


def test_flags_are_reported_by_pop_logs(cfg: Any, make: Any) -> None:
    """What CUDA does without ``validate``: nothing is looked at until somebody asks."""
    env = make(cfg)
    env.health.at_once = False
    env.reset()
    action = torch.zeros(3, 1)
    action[2] = float("nan")
    env.step(action)
    with pytest.raises(
        NonFiniteError, match=r"The action is not finite in environment 2: actions\.cart\[0\]"
    ):
        env.pop_logs()
    env.reset()
    env.pop_logs()
    spoil(env, 0)
    env.step(torch.zeros(3, 1))
    with pytest.raises(
        NonFiniteError, match=r"state was not finite in environment 0.*rewards\.pole.*policy\.joint_"
    ):
        env.pop_logs()
    env.reset()
    env.pop_logs()  # forgotten


def test_nan_action_is_refused_before_it_does_harm(cfg: Any, make: Any) -> None:
    env = make(cfg)
    env.reset()
    action = torch.zeros(3, 1)
    action[1] = float("inf")
    with pytest.raises(NonFiniteError, match=r"environment 1: actions\.cart\[0\]"):
        env.step(action)
    assert torch.isfinite(env.step(torch.zeros(3, 1))[0]["policy"]).all()
