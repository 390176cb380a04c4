# SPDX-License-Identifier: Apache-2.0
"""The step as CUDA graphs: equal to eager steps, following every setting, safe between replays and after failures."""

from __future__ import annotations

import gc
import itertools
import math
import random
import warnings
from typing import Any

import pytest
import torch

from forcelab import configs
from forcelab.envs import ManagerBasedRlEnv
from forcelab.envs.env_state import load_env_state, read_env_state
from forcelab.envs.manager_based_rl_env import seed_everything
from forcelab.envs.step_graph import Snapshot, StepGraphError, StepGraphWarning
from forcelab.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    MetricsTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    UniformNoiseCfg,
)

pytestmark = pytest.mark.gpu

POLE = SceneEntityCfg("robot", joint_names="cart_to_pole")


def make(task: str, num_envs: int, mode: str = "required", change: Any = None) -> ManagerBasedRlEnv:
    cfg = configs.compose(task, [f"num_envs={num_envs}", "device=cuda:0", "seed=5"]).env
    cfg.step_graph = mode
    if change is not None:
        change(cfg)
    return ManagerBasedRlEnv(cfg)


def close(*envs: ManagerBasedRlEnv) -> None:
    for env in envs:
        env.close()


def actions(env: ManagerBasedRlEnv, steps: int, size: float) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(11)
    shape = (steps, env.num_envs, env.action_manager.total_action_dim)
    return list((size * torch.randn(shape, generator=generator)).to(env.device).unbind(0))


def everything(cfg: Any) -> None:
    """All that changes while an environment runs: noise, delays, histories, intervals, curricula, metrics."""
    cfg.episode_length_s = 1.0
    cfg.final_obs = True
    policy = cfg.observations.policy
    policy.enable_corruption = True
    policy.joint_pos.noise = UniformNoiseCfg(n_min=-0.01, n_max=0.01)
    policy.joint_vel.delay_max_lag = 2
    policy.joint_vel.history_length = 3
    cfg.events.kick = EventTermCfg(
        func="reset_joints_by_offset",
        mode="interval",
        interval_range_s=(0.1, 0.5),
        params={"position_range": (-0.2, 0.2), "velocity_range": (-1.0, 1.0), "asset_cfg": POLE},
    )
    cfg.curriculum.upright = CurriculumTermCfg(
        func="modify_reward_weight", params={"term_name": "pole_angle", "weight": -3.0, "num_steps": 120}
    )
    cfg.metrics.speed = MetricsTermCfg(func="joint_vel_l1")


def test_the_cart_pole_agrees_exactly_over_500_steps() -> None:
    eager, graph = (make("balance_cartpole", 64, mode, everything) for mode in ("off", "required"))
    pushes = actions(eager, 500, 0.5)
    results: list[list[Any]] = []
    logs = []
    for env in (eager, graph):
        env.reset(seed=5)
        found, read = [], []
        for i, action in enumerate(pushes):
            obs, reward, terminated, truncated, info = env.step(action)
            last = info["_final_obs"], info["final_obs"]["policy"]
            found.append((obs["policy"], obs["critic"], reward, terminated, truncated, *last))
            if i % 100 == 99:
                read.append(env.pop_logs())
        results.append(found)
        logs.append(read)
    assert graph.step_graph.captures == 1 and graph.step_graph.segments == 1
    ends = 0
    for step, (a, b) in enumerate(zip(*results)):
        for x, y in zip(a, b):
            assert torch.equal(x, y), step
        ends += int((a[3] | a[4]).sum())
    assert ends > 300  # resets were part of it
    assert logs[0] == logs[1]
    assert float(graph.reward_manager.get_term_cfg("pole_angle").weight) == -3.0
    close(eager, graph)


def run_quadruped(
    env: ManagerBasedRlEnv, pushes: list[torch.Tensor]
) -> tuple[list[torch.Tensor], torch.Tensor]:
    env.reset(seed=5)
    observations, returns = [], torch.zeros(env.num_envs, device=env.device)
    for action in pushes:
        obs, reward = env.step(action)[:2]
        observations.append(obs["policy"])
        returns += reward
    return observations, returns


def test_the_quadruped_agrees_over_10_steps() -> None:
    """From a stand. Two eager runs differ as well: the order in which a GPU adds up contacts is not fixed."""
    eager, graph = (make("velocity_flat", 16, mode) for mode in ("off", "required"))
    stand = torch.zeros(16, 12, device=eager.device)
    pushes = actions(eager, 10, 0.1)
    eager.reset(seed=5)
    for _ in range(40):
        eager.step(stand)
    state = read_env_state(eager)
    found = []
    for env in (eager, graph):
        env.reset(seed=5)
        assert load_env_state(env, state) is None
        seed_everything(3)
        found.append([env.step(action)[0]["policy"] for action in pushes])
    assert graph.step_graph.active
    for x, y in zip(*found):
        assert torch.allclose(x, y, atol=1e-4), float((x - y).abs().max())
    close(eager, graph)


def test_returns_of_the_quadruped_come_from_one_distribution() -> None:
    """Two-sample Kolmogorov-Smirnov test on returns over 500 steps, at the level 0.001."""
    eager, graph = (make("velocity_flat", 1024, mode) for mode in ("off", "required"))
    pushes = actions(eager, 500, 0.3)
    a, b = (run_quadruped(env, pushes)[1].cpu().sort().values for env in (eager, graph))
    both = torch.cat((a, b)).sort().values
    distance = (
        torch.searchsorted(a, both, right=True) - torch.searchsorted(b, both, right=True)
    ).abs().max() / 1024
    assert float(distance) < math.sqrt(-0.5 * math.log(0.001 / 2)) * math.sqrt(2 / 1024)
    close(eager, graph)


# -- settings


def test_settings_take_effect_without_a_new_capture(capsys: pytest.CaptureFixture[str]) -> None:
    env = make("velocity_flat", 64)
    zero = torch.zeros(64, 12, device=env.device)
    env.reset(seed=5)
    for _ in range(5):
        env.step(zero)
    assert env.step_graph.captures == 1
    rewards = env.reward_manager
    for name in rewards.active_terms:
        rewards.get_term_cfg(name).weight = 0.0
    assert float(env.step(zero)[1].abs().max()) == 0.0
    name = "track_lin_vel" if "track_lin_vel" in rewards.active_terms else rewards.active_terms[0]
    rewards.get_term_cfg(name).weight = 7.0
    reward = env.step(zero)[1]
    expected = 7.0 * env.step_dt * rewards._values[rewards.active_terms.index(name)]
    assert torch.allclose(reward, expected)
    # Command ranges: all environments draw anew when their time is over.
    term = env.command_manager.get_term(env.command_manager.active_terms[0])
    term.cfg.ranges.lin_vel_x = (0.7, 0.7)
    term.cfg.rel_standing_envs = 0.0
    term.time_left.zero_()
    env.step(zero)
    assert torch.allclose(term.command[:, 0], torch.full((64,), 0.7, device=env.device))
    # Randomisation ranges: a reset starts where the new range says.
    starts = next(t for t in env.event_manager.active_terms["reset"] if "root" in t or "base" in t)
    cfg = env.event_manager.get_term_cfg(starts)
    cfg.params["pose_range"] = {"x": (0.25, 0.25), "z": (1.0, 1.0)}
    env.episode_length_buf = torch.full((64,), env.max_episode_length, device=env.device)
    env.step(zero)
    robot = env.scene["robot"].data
    x = robot.root_pos_w[:, 0] - env.scene.env_origins[:, 0]
    assert torch.allclose(x, torch.full_like(x, 0.25), atol=1e-5)
    # Push size and interval.
    push = env.event_manager.get_term_cfg("push")
    push.params["velocity_range"] = {"x": (3.0, 3.0)}
    push.interval_range_s = (env.step_dt, env.step_dt)
    env.event_manager.time_left.zero_()
    before = robot.root_lin_vel_w[:, 0].clone()
    env.step(zero)
    assert float((robot.root_lin_vel_w[:, 0] - before).mean()) > 2.0
    assert env.step_graph.captures == 1 and env.step_graph.active
    assert capsys.readouterr().err == ""
    close(env)


THRESHOLD = 0.25


def constant(env: Any) -> torch.Tensor:
    return torch.full((env.num_envs,), THRESHOLD, device=env.device)


def twice(env: Any) -> torch.Tensor:
    return torch.full((env.num_envs,), 2.0, device=env.device)


def test_what_needs_a_new_capture_gets_one_visibly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(cfg: Any) -> None:
        cfg.rewards.extra = RewardTermCfg(func=constant, weight=1.0)

    env = make("balance_cartpole", 8, change=change)
    zero = torch.zeros(8, 1, device=env.device)
    row = env.reward_manager.active_terms.index("extra")

    def value() -> float:
        return float(env.reward_manager._values[row, 0])

    env.reset()
    for _ in range(4):
        env.step(zero)
    assert env.step_graph.active and value() == 0.25
    # A number of the module that the function reads.
    monkeypatch.setitem(constant.__globals__, "THRESHOLD", 0.5)
    env.step(zero)
    assert value() == 0.5
    assert "captured anew" in capsys.readouterr().err
    for _ in range(3):
        env.step(zero)
    assert env.step_graph.captures == 2 and env.step_graph.active
    # Another function.
    env.reward_manager.get_term_cfg("extra").func = twice
    env.step(zero)
    assert value() == 2.0
    assert "rewards.extra" in capsys.readouterr().err
    # A number of the environment.
    for _ in range(3):
        env.step(zero)
    env.max_episode_length = 3
    env.episode_length_buf = torch.full((8,), 2, device=env.device)
    _, _, _, truncated, _ = env.step(zero)
    assert "env.max_episode_length" in capsys.readouterr().err and bool(truncated.all())
    # A seeded reset makes the managers anew.
    for _ in range(3):
        env.step(zero)
    captures = env.step_graph.captures
    env.reset(seed=1)
    for _ in range(4):
        env.step(zero)
    assert env.step_graph.captures == captures + 1 and env.step_graph.active
    close(env)


# -- terms that cannot be captured


def looks(env: Any) -> torch.Tensor:
    pole = env.scene["robot"].data.joint_pos[:, 1]
    if pole.abs().max() > 0.05:
        return pole.abs()
    return torch.zeros_like(pole)


class counts:
    """Keeps its count in Python."""

    def __init__(self, cfg: Any, env: Any):
        self.count = 0

    def __call__(self, env: Any) -> torch.Tensor:
        self.count += 1
        return torch.full((env.num_envs,), float(self.count), device=env.device)


def by_ids(env: Any, env_ids: torch.Tensor) -> None:
    """In the way of Isaac Lab."""
    robot = env.scene["robot"]
    pos, vel = robot.data.joint_pos.clone(), robot.data.joint_vel.clone()
    pos[env_ids, 1] = 0.1 * torch.rand(len(env_ids), device=env.device)
    mask = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    mask[env_ids] = True
    robot.write_joint_state(pos, vel, mask)


def level(env: Any, env_mask: torch.Tensor) -> float:
    return float(env.common_step_counter)


def shaken(env: Any) -> torch.Tensor:
    return torch.full((env.num_envs,), random.random(), device=env.device)


def eager_terms(cfg: Any) -> None:
    everything(cfg)
    cfg.rewards.looks = RewardTermCfg(func=looks, weight=0.1)
    cfg.rewards.counts = RewardTermCfg(func=counts, weight=1e-3)
    cfg.rewards.shaken = RewardTermCfg(func=shaken, weight=0.1)
    cfg.events.by_ids = EventTermCfg(func=by_ids, mode="reset")
    cfg.curriculum.level = CurriculumTermCfg(func=level)


def test_terms_that_cannot_be_captured_run_between_the_graphs() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results, logs = [], []
        for mode in ("off", "auto"):
            env = make("balance_cartpole", 32, mode, eager_terms)
            env.reset(seed=5)
            random.seed(3)
            found = []
            for action in actions(env, 130, 0.5):
                obs, reward, *_ = env.step(action)
                found.append((obs["policy"], reward))
            results.append(found)
            logs.append(env.pop_logs())
            close(env)
    told = [str(w.message) for w in caught if issubclass(w.category, StepGraphWarning)]
    assert len(told) == 1, told
    for name, reason in (
        ("rewards.looks", "reads a value on the host"),
        ("rewards.counts", "counts.count from"),
        ("rewards.shaken", "Python's random"),
        ("events.by_ids", "env_mask"),
        ("curriculum.level", "reads a value on the host"),
    ):
        assert any(name in line and reason in line for line in told[0].splitlines()), (name, told[0])
    assert f"{__file__}:" in told[0] and "if pole.abs().max() > 0.05:" in told[0]
    for step, (a, b) in enumerate(zip(*results)):
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]), step
    assert logs[0] == logs[1]


def test_required_names_them_all() -> None:
    env = make("balance_cartpole", 8, "required", eager_terms)
    env.reset()
    zero = torch.zeros(8, 1, device=env.device)
    env.step(zero)
    with pytest.raises(StepGraphError) as error:
        env.step(zero)
    for name in ("rewards.looks", "rewards.counts", "rewards.shaken", "events.by_ids", "curriculum.level"):
        assert name in str(error.value)
    with pytest.raises(StepGraphError):
        env.step(zero)
    close(env)


def test_the_graphs_of_a_step_with_eager_terms() -> None:
    def change(cfg: Any) -> None:
        cfg.rewards.looks = RewardTermCfg(func=looks, weight=0.1)

    with pytest.warns(StepGraphWarning):
        env = make("balance_cartpole", 8, "auto", change)
        env.reset()
        for _ in range(4):
            env.step(torch.zeros(8, 1, device=env.device))
    assert env.step_graph.segments == 2 and env.step_graph.eager_terms == ["rewards.looks"]
    close(env)


NUMBERS = itertools.count()


def hidden(env: Any) -> torch.Tensor:
    """Changes on the host where no check of Python values sees it."""
    return torch.full((env.num_envs,), float(next(NUMBERS)), device=env.device)


def test_the_comparison_with_eager_steps_finds_what_a_replay_misses() -> None:
    def change(cfg: Any) -> None:
        cfg.rewards.hidden = RewardTermCfg(func=hidden, weight=1.0)

    with pytest.warns(StepGraphWarning, match=r"rewards\.hidden: its replays differ"):
        env = make("balance_cartpole", 8, "auto", change)
        env.reset()
        for _ in range(8):
            env.step(torch.zeros(8, 1, device=env.device))
    assert env.step_graph.eager_terms == ["rewards.hidden"]
    row = env.reward_manager.active_terms.index("hidden")
    seen = []
    for _ in range(3):
        env.step(torch.zeros(8, 1, device=env.device))
        seen.append(float(env.reward_manager._values[row, 0]))
    assert seen[0] < seen[1] < seen[2]
    close(env)


def waits(env: Any) -> torch.Tensor:
    torch.cuda.synchronize()
    return torch.zeros(env.num_envs, device=env.device)


def test_a_capture_that_fails_leaves_everything_usable() -> None:
    def change(cfg: Any) -> None:
        everything(cfg)
        cfg.rewards.waits = RewardTermCfg(func=waits, weight=1.0)

    results = []
    for mode in ("off", "auto"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            env = make("balance_cartpole", 16, mode, change)
            env.reset(seed=5)
            results.append([env.step(action)[:2] for action in actions(env, 40, 0.5)])
        told = [str(w.message) for w in caught if issubclass(w.category, StepGraphWarning)]
        if mode == "auto":
            assert len(told) == 1 and "rewards.waits" in told[0] and "torch.cuda.synchronize()" in told[0]
            assert env.step_graph.eager_terms == ["rewards.waits"] and env.step_graph.active
        close(env)
    for a, b in zip(*results):
        assert torch.equal(a[0]["policy"], b[0]["policy"]) and torch.equal(a[1], b[1])
    # The generator, the allocator and other environments go on.
    assert torch.rand(3, device="cuda:0").shape == (3,)
    other = make("balance_cartpole", 4)
    other.reset()
    for _ in range(5):
        other.step(torch.zeros(4, 1, device=other.device))
    assert other.step_graph.active
    close(other)
    env = make("balance_cartpole", 4, "required", change)
    env.reset()
    env.step(torch.zeros(4, 1, device=env.device))
    env.step(torch.zeros(4, 1, device=env.device))
    with pytest.raises(StepGraphError, match=r"rewards\.waits"):
        env.step(torch.zeros(4, 1, device=env.device))
    close(env)


# -- between replays


def test_writes_reads_and_resets_between_replays() -> None:
    eager, graph = (make("balance_cartpole", 16, mode, everything) for mode in ("off", "required"))
    results = []
    for env in (eager, graph):
        env.reset(seed=5)
        robot = env.scene["robot"]
        found = []
        mask = torch.zeros(16, dtype=torch.bool, device=env.device)
        mask[::3] = True
        for i, action in enumerate(actions(env, 30, 0.5)):
            obs, *_ = env.step(action)
            kept = {name: value.clone() for name, value in obs.items()}
            if i % 5 == 3:
                pos = robot.data.joint_pos.clone()
                pos[:, 1] = 0.01 * i
                robot.write_joint_state(pos, torch.zeros_like(pos))
                found.append(robot.data.body_pos_w.clone())
            if i % 7 == 5:
                found.append(env.reset(options={"reset_mask": mask})[0]["policy"])
                assert int(env.episode_length_buf[mask].max()) == 0
            found.append(obs["policy"])
            env.step(action)
            assert all(torch.equal(obs[name], kept[name]) for name in obs)  # what was returned stays
        results.append(found)
    assert graph.step_graph.captures == 1
    assert all(torch.equal(a, b) for a, b in zip(*results))
    close(eager, graph)


def test_measuring_its_parts_leaves_the_graph_as_it_is() -> None:
    eager, graph = (make("balance_cartpole", 16, mode, everything) for mode in ("off", "required"))
    pushes = actions(eager, 20, 0.5)
    results = []
    for env in (eager, graph):
        env.reset(seed=5)
        for action in pushes[:10]:
            env.step(action)
        if env is graph:
            start = Snapshot(env)
            parts = env.step_graph.record_parts(pushes[0])
            assert {"physics and sensors", "rewards", "observations"} <= {name for name, _ in parts}
            start.restore()
        results.append([env.step(action)[0]["policy"] for action in pushes[10:]])
    assert all(torch.equal(a, b) for a, b in zip(*results))
    assert graph.step_graph.captures == 1 and graph.step_graph.eager_terms == []
    close(eager, graph)


def test_several_environments_with_graphs_take_turns() -> None:
    envs = [make("balance_cartpole", 16) for _ in range(3)]
    # Near upright: no episode ends, so nothing is drawn from the generator that they share.
    start = 0.05 * torch.linspace(-1.0, 1.0, 32, device=envs[0].device).view(16, 2)

    def begin(env: ManagerBasedRlEnv) -> None:
        env.reset(seed=5)
        env.scene["robot"].write_joint_state(start, torch.zeros_like(start))

    pushes = actions(envs[0], 12, 0.1)
    begin(envs[0])
    expected = [envs[0].step(a)[0]["critic"] for a in pushes]
    first, second = envs[1:]
    for env in (first, second):
        begin(env)
    for action, want in zip(pushes, expected):
        for env in (first, second):
            assert torch.equal(env.step(action)[0]["critic"], want)
    assert first.step_graph.active and second.step_graph.active
    close(*envs)


def test_closing_frees_the_memory() -> None:
    def used() -> int:
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        return total - free

    levels = []
    for _ in range(4):
        env = make("velocity_flat", 2048)
        env.reset()
        for _ in range(4):
            env.step(torch.zeros(2048, 12, device=env.device))
        assert env.step_graph.active
        close(env)
        del env
        levels.append(used())
    # The first leaves modules and library handles; after it nothing grows.
    assert levels[3] - levels[1] < 32 << 20, levels


def test_inference_mode_is_the_same() -> None:
    env = make("balance_cartpole", 8, change=everything)
    with torch.inference_mode():
        env.reset(seed=5)
        for action in actions(env, 15, 0.5):
            env.step(action)
    assert env.step_graph.active
    for action in actions(env, 15, 0.5):
        env.step(action)
    env.reset()
    close(env)
