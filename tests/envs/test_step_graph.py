# SPDX-License-Identifier: Apache-2.0
"""What a captured step could not follow is found on any device; settings are live; see also test_step_graph_cuda."""

from __future__ import annotations

import functools
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from forcelab.envs.python_state import Kept, PythonState, Watch
from forcelab.envs.shadow import Probe
from forcelab.envs.step_graph import Snapshot, StepGraphError
from forcelab.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    LivePoseRanges,
    ManagerTermBase,
    MetricsTermCfg,
    RewardTermCfg,
)

# -- terms with which a capture goes wrong

CALLS = 0
SIZE = 0.5


def looks(env: Any) -> torch.Tensor:
    speed = env.scene["robot"].data.joint_vel[:, 0]
    return speed if speed.abs().max() > 1.0 else -speed


def selects(env: Any) -> torch.Tensor:
    speed = env.scene["robot"].data.joint_vel[:, 0].clone()
    return speed - speed[speed > 0].sum()


def counts_in_the_module(env: Any) -> torch.Tensor:
    global CALLS
    CALLS += 1
    return torch.full((env.num_envs,), float(CALLS))


def shakes(env: Any) -> torch.Tensor:
    return torch.full((env.num_envs,), random.random())


def shakes_numpy(env: Any) -> torch.Tensor:
    return torch.full((env.num_envs,), float(np.random.rand()))


def counts_in_the_environment(env: Any) -> torch.Tensor:
    env.my_steps = getattr(env, "my_steps", 0) + 1
    return torch.zeros(env.num_envs)


class Counts(ManagerTermBase):
    """Keeps its number in Python, and a tensor that it replaces."""

    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.number = 0

    def __call__(self, env: Any) -> torch.Tensor:
        self.number += 1
        return torch.zeros(env.num_envs)


class Replaces(ManagerTermBase):
    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.last = torch.zeros(env.num_envs)

    def __call__(self, env: Any) -> torch.Tensor:
        self.last = self.last + 1.0
        return self.last


class Steady(ManagerTermBase):
    """Changes its tensor in place: as it should be."""

    offset = 0.0

    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.last = torch.zeros(env.num_envs, device=env.device)

    def __call__(self, env: Any) -> torch.Tensor:
        self.last.add_(1.0)
        return self.last * SIZE + self.offset


def remembering() -> Any:
    seen: list[float] = []

    def remembers(env: Any) -> torch.Tensor:
        seen.append(1.0)
        return torch.full((env.num_envs,), float(len(seen)))

    return remembers


def by_ids(env: Any, env_ids: torch.Tensor) -> None:
    pass


def level(env: Any, env_mask: torch.Tensor) -> float:
    return 0.5


def reweighs(env: Any, env_mask: torch.Tensor) -> None:
    env.event_manager.get_term_cfg("start").params["asset_cfg"] = object()


@pytest.mark.parametrize(
    ("function", "line", "reason"),
    [
        (looks, "if speed.abs().max() > 1.0", "reads a value on the host"),
        (selects, "speed[speed > 0]", "use torch.where"),
        (counts_in_the_module, __file__, "changes CALLS from"),
        (shakes, __file__, "Python's random"),
        (shakes_numpy, __file__, "NumPy"),
        (counts_in_the_environment, __file__, "env.my_steps from 1 to 2"),
        (Counts, __file__, "Counts.number from 1 to 2"),
        (Replaces, __file__, "another tensor in the place of Replaces.last"),
        (remembering(), __file__, "len(seen)"),
    ],
)
def test_required_names_term_line_and_reason(
    make: Any, cfg: Any, function: Any, line: str, reason: str
) -> None:
    cfg.step_graph = "required"
    cfg.rewards.bad = RewardTermCfg(func=function, weight=1.0)
    env = make(cfg)
    env.reset()
    zero = torch.zeros(3, 1)
    env.step(zero)
    with pytest.raises(StepGraphError) as error:
        env.step(zero)
    told = [text for text in str(error.value).splitlines() if "rewards.bad" in text]
    assert told and any(line in text and reason in text for text in told), str(error.value)
    assert "tensors on env.device" in str(error.value)
    assert not any(other in str(error.value) for other in ("rewards.alive", "rewards.pole", "terminations."))


def test_required_names_events_and_curricula(make: Any, cfg: Any) -> None:
    cfg.step_graph = "required"
    cfg.events.ids = EventTermCfg(func=by_ids, mode="reset")
    cfg.curriculum.level = CurriculumTermCfg(func=level)
    env = make(cfg)
    env.reset()
    env.step(torch.zeros(3, 1))
    with pytest.raises(StepGraphError) as error:
        env.step(torch.zeros(3, 1))
    assert f"events.ids: {__file__}" in str(error.value) and "take env_mask instead" in str(error.value)
    assert "curriculum.level: returns a Python number" in str(error.value)


def test_required_is_content_with_terms_that_can_be_captured(make: Any, noisy_cfg: Any) -> None:
    noisy_cfg.step_graph = "required"
    noisy_cfg.rewards.steady = RewardTermCfg(func=Steady, weight=1.0)
    noisy_cfg.metrics.speed = MetricsTermCfg(func="joint_vel_l1")
    env = make(noisy_cfg)
    env.reset()
    for _ in range(20):
        env.step(torch.rand(3, 1))
    assert env.step_graph.findings == {} and not env.step_graph.active
    # After a change the step is checked anew.
    env.reward_manager.get_term_cfg("steady").func = looks
    env.step(torch.zeros(3, 1))
    with pytest.raises(StepGraphError, match=r"rewards\.steady"):
        env.step(torch.zeros(3, 1))


def test_auto_and_off_say_nothing_on_the_cpu(make: Any, cfg: Any) -> None:
    cfg.rewards.bad = RewardTermCfg(func=looks, weight=1.0)
    for mode in ("auto", "off"):
        cfg.step_graph = mode
        env = make(cfg)
        env.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(4):
                env.step(torch.zeros(3, 1))
        assert env.step_graph.captures == 0


def test_physics_that_is_not_captured(make: Any, cfg: Any) -> None:
    cfg.physics.capture = False
    env = make(cfg)
    env.reset()
    env.step(torch.zeros(3, 1))
    cfg.step_graph = "required"
    with pytest.raises(StepGraphError, match=r"physics\.capture is False"):
        make(cfg)


@pytest.mark.parametrize("mode", ["on", "Auto", None, True])
def test_unknown_modes(make: Any, cfg: Any, mode: Any) -> None:
    cfg.step_graph = mode
    with pytest.raises(ValueError, match=r"step_graph is .*(auto|Did you mean)"):
        make(cfg)


def test_a_term_that_was_exchanged_starts_afresh(make: Any, cfg: Any) -> None:
    env = make(cfg)
    convicted = env.step_graph._convicted
    convicted.update({"rewards.alive": ["differs"], "rewards.pole": ["differs"]})
    env.reward_manager.get_term_cfg("alive").func = looks
    assert list(convicted) == ["rewards.pole"]
    env.reset(seed=1)
    assert convicted == {}


# -- Python values


def test_a_watch_sees_attributes_globals_closures_and_the_environment(
    make: Any, cfg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make(cfg)
    steady = Steady(None, env)
    scale = 1.0

    def closed(env: Any) -> torch.Tensor:
        return torch.full((3,), scale)

    watch = Watch(env)
    watch.add("a", [functools.partial(steady)])
    watch.add("b", closed)
    steady(env)
    assert watch.changed() is None
    monkeypatch.setitem(globals(), "SIZE", 0.75)
    assert watch.changed() == ("a", "SIZE changed from 0.5 to 0.75")
    monkeypatch.undo()
    assert watch.changed() is None
    monkeypatch.setattr(Steady, "offset", 1.0)
    assert watch.changed() == ("a", "Steady.offset changed from 0.0 to 1.0")
    monkeypatch.undo()
    scale = 2.0
    name, text = watch.changed() or ("", "")
    assert name == "b" and text == "scale changed from 1.0 to 2.0"
    scale = 1.0
    steady.last = torch.ones(3)
    assert (watch.changed() or ("", ""))[0] == "a"
    watch = Watch(env)
    env.max_episode_length += 1
    assert "env.max_episode_length" in (watch.changed() or ("", ""))[1]
    # Switches.
    for owner, name, value in ((env.cfg, "final_obs", True), (env.health, "policy", "flag")):
        watch = Watch(env)
        setattr(owner, name, value)
        assert name in (watch.changed() or ("", ""))[1]


def test_python_values_are_put_back(make: Any, cfg: Any) -> None:
    env = make(cfg)
    counts, remembers = Counts(None, env), remembering()
    remembers(env)
    kept = Kept([counts, remembers, counts_in_the_environment, shakes], env)
    first = [float(x(env)[0]) for x in (remembers, shakes)]
    counts(env)
    counts_in_the_environment(env)
    kept.restore()
    assert counts.number == 0
    assert [float(x(env)[0]) for x in (remembers, shakes)] == first


def test_nothing_changes_in_a_term_that_only_reads(make: Any, cfg: Any) -> None:
    env = make(cfg)
    state = PythonState([looks, Steady(None, env)], env)
    looks(env)
    assert state.changes() == []


# -- a step twice


def test_a_step_from_a_snapshot_is_the_same_step(make: Any, noisy_cfg: Any) -> None:
    env = make(noisy_cfg)
    env.reset()
    action = torch.rand(3, 1)
    for _ in range(5):
        env.step(action)
    saved = Snapshot(env)
    obs, reward, *_ = env.step(action)
    first = Probe(env)
    saved.restore()
    again, reward_again, *_ = env.step(action)
    assert torch.equal(obs["policy"], again["policy"]) and torch.equal(reward, reward_again)
    assert Probe(env).differences(first) == []
    saved.restore()
    env.reward_manager.get_term_cfg("alive").func = looks
    env.step(action)
    assert Probe(env).differences(first) == ["rewards.alive"]


# -- live ranges


def test_ranges_are_live(make: Any, cfg: Any) -> None:
    cfg.events.push = EventTermCfg(
        func="reset_joints_by_offset",
        mode="interval",
        interval_range_s=(1.0, 1.0),
        params={"position_range": (0.3, 0.3), "velocity_range": (0.0, 0.0)},
    )
    env = make(cfg)
    reasons: list[str] = []
    env.on_change = reasons.append
    for manager in (env.event_manager, env.reward_manager):
        manager._changed = reasons.append
    start = env.event_manager.get_term_cfg("start")
    live = start.params["position_range"]
    start.params["position_range"] = (0.25, 0.25)
    start.params["velocity_range"] = torch.zeros(2)
    assert start.params["position_range"] is live
    env.event_manager.get_term_cfg("push").interval_range_s = (0.5, 0.5)
    env.reward_manager.get_term_cfg("pole").weight = 2.0
    assert reasons == []
    env.reset()
    offset = env.scene["robot"].data.joint_pos - env.scene["robot"].data.default_joint_pos
    assert torch.allclose(offset, torch.full_like(offset, 0.25))
    assert torch.allclose(env.event_manager.time_left, torch.full((1, 3), 0.5))
    with pytest.raises(ValueError, match=r"events\.start\.params\.position_range is \(0\.2, 0\.1\)"):
        start.params["position_range"] = (0.2, 0.1)
    with pytest.raises(ValueError, match="interval_range_s"):
        env.event_manager.get_term_cfg("push").interval_range_s = (0.0, -1.0)
    # What a capture does not follow is reported.
    env.reward_manager.get_term_cfg("alive").func = looks
    assert reasons == ["rewards.alive.func changed"]


def test_ranges_of_poses_are_live() -> None:
    live = LivePoseRanges({"x": (0.0, 1.0)}, "params.pose_range", torch.device("cpu"))
    bounds = live.bounds
    live["yaw"] = (-1.0, 1.0)
    assert bounds[:, 5].tolist() == [-1.0, 1.0] and bounds[:, 0].tolist() == [0.0, 1.0]
    live.write({"y": (0.5, 0.5)})
    assert bounds[:, 1].tolist() == [0.5, 0.5] and bounds[:, 0].tolist() == [0.0, 0.0]
    for value, message in (
        ({"yau": (0, 1)}, "unknown key 'yau'. Did you mean 'yaw'"),
        ({"x": (1, 0)}, r"\['x'\] is \(1.0, 0.0\)"),
        (3.0, "it must be {'x'"),
        (torch.zeros(6), r"it must be \(2, 6\)"),
        (torch.tensor([[1.0] * 6, [0.0] * 6]), r"\['x'\] is \(1\.0, 0\.0\)"),
        (torch.full((2, 6), torch.nan), r"\['x'\] is \(nan, nan\)"),
    ):
        with pytest.raises(ValueError, match=f"params.pose_range.*{message}"):
            live.write(value)
    with pytest.raises(ValueError, match="unknown key"):
        live["w"] = (0, 1)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("weight", "x", r"RewardTermCfg\.weight is 'x'; it must be a number"),
        ("weight", float("nan"), r"RewardTermCfg\.weight is nan"),
        ("weight", True, r"RewardTermCfg\.weight is True"),
        ("weight", [1.0, 2.0], r"weight has shape \(\); got a value of shape \(2,\)"),
        ("range", None, r"events\.start\.params\.position_range is None; it must be given"),
        ("range", (1.0, 0.0), r"position_range is \(1\.0, 0\.0\); it must be \(lower, upper\)"),
        ("interval", (0.0, 1.0), r"interval_range_s is \(0\.0, 1\.0\).*both positive"),
        (
            "delete",
            None,
            r"events\.start\.params\.position_range cannot be removed: events\.start\.func needs it",
        ),
    ],
)
def test_settings_of_a_running_environment_are_checked(
    make: Any, cfg: Any, where: str, value: Any, message: str
) -> None:
    params = {"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0)}
    cfg.events.push = EventTermCfg(
        func="reset_joints_by_offset", mode="interval", interval_range_s=(1.0, 1.0), params=params
    )
    env = make(cfg)
    start = env.event_manager.get_term_cfg("start")
    with pytest.raises(ValueError, match=message):
        if where == "weight":
            env.reward_manager.get_term_cfg("pole").weight = value
        elif where == "range":
            start.params["position_range"] = value
        elif where == "interval":
            env.event_manager.get_term_cfg("push").interval_range_s = value
        else:
            del start.params["position_range"]
    env.reset()
    assert torch.isfinite(env.step(torch.zeros(3, 1))[1]).all()
