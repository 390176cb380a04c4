# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from forcelab.managers import (
    ActionManager,
    ActionTermCfg,
    CommandManager,
    CommandTerm,
    CommandTermCfg,
    CurriculumManager,
    CurriculumTermCfg,
    EventManager,
    EventTermCfg,
    MetricsManager,
    MetricsTermCfg,
    SceneEntityCfg,
    TerminationManager,
    TerminationTermCfg,
)
from forcelab.mdp import JointEffortActionCfg


def mask_of(*ids: int) -> torch.Tensor:
    mask = torch.zeros(4, dtype=torch.bool)
    mask[list(ids)] = True
    return mask


# -- terminations


def test_terminations(env: Any) -> None:
    manager = TerminationManager(
        {
            "fell": TerminationTermCfg(func=lambda env: env.value[:, 0] > 0),
            "late": TerminationTermCfg(func=lambda env: env.value[:, 1] > 0, time_out=True),
            "out": TerminationTermCfg(func=lambda env: env.value[:, 1] > 1),
        },
        env,
    )
    env.value = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    assert manager.compute().tolist() == [False, True, True, True]
    assert manager.terminated.tolist() == [False, True, False, True]
    assert manager.time_outs.tolist() == [False, False, True, True]
    assert manager.active_terms == ["fell", "late", "out"]
    assert manager.get_term("out").tolist() == [False, False, False, True]
    logs = manager.reset(manager.dones)
    # Fractions of the episodes that ended.
    assert logs["Episode_Termination/fell"].item() == pytest.approx(2 / 3)
    assert logs["Episode_Termination/late"].item() == pytest.approx(2 / 3)
    assert logs["Episode_Termination/out"].item() == pytest.approx(1 / 3)


def test_termination_of_the_last_episode_is_kept(env: Any) -> None:
    manager = TerminationManager({"fell": TerminationTermCfg(func=lambda env: env.value[:, 0] > 0)}, env)
    env.value = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    manager.remember(manager.compute().clone())
    env.value = torch.zeros(4, 2)
    manager.remember(manager.compute().clone())
    assert manager.get_last_episode("fell").tolist() == [True, False, False, False]


def test_terminations_must_be_bool(env: Any) -> None:
    manager = TerminationManager({"fell": TerminationTermCfg(func=lambda env: env.value[:, 0])}, env)
    with pytest.raises(TypeError, match=r"terminations\.fell returned torch\.float32"):
        manager.compute()


def test_no_terminations(env: Any) -> None:
    manager = TerminationManager(None, env)
    assert not manager.compute().any() and not manager.terminated.any()


# -- events


class Calls(list):
    def __call__(self, env: Any, env_mask: torch.Tensor) -> None:
        self.append(env_mask.tolist())


def test_reset_events_touch_only_their_environments_and_joints(env: Any) -> None:
    manager = EventManager(
        {
            "pole": EventTermCfg(
                func="reset_joints_by_offset",
                mode="reset",
                params={
                    "position_range": (0.3, 0.3),
                    "velocity_range": (0.0, 0.0),
                    "asset_cfg": SceneEntityCfg("robot", joint_names="cart_to_pole"),
                },
            )
        },
        env,
    )
    robot = env.scene["robot"]
    robot.write_joint_state(torch.full((4, 2), 0.1), torch.zeros(4, 2))
    manager.apply("reset", mask_of(1, 2))
    expected = torch.full((4, 2), 0.1)
    expected[1:3, 1] = 0.3
    assert torch.allclose(robot.data.joint_pos.torch, expected)


def test_env_ids_signature(env: Any) -> None:
    got: list[list[int]] = []

    def event(env: Any, env_ids: torch.Tensor, value: int) -> None:
        assert env_ids.dtype == torch.long
        got.append(env_ids.tolist())

    manager = EventManager({"a": EventTermCfg(func=event, mode="reset", params={"value": 1})}, env)
    manager.apply("reset", mask_of(0, 3))
    manager.apply("reset", mask_of())  # nobody: not called
    manager.apply("reset")
    assert got == [[0, 3], [0, 1, 2, 3]]


def test_second_parameter_must_select_environments(env: Any) -> None:
    with pytest.raises(
        TypeError, match=r"events\.a\.func: the second parameter .* must be env_mask .*it is 'envs'"
    ):
        EventManager({"a": EventTermCfg(func=lambda env, envs: None, mode="reset")}, env)


def test_intervals_take_the_right_number_of_steps(env: Any) -> None:
    calls = Calls()
    manager = EventManager({"a": EventTermCfg(func=calls, mode="interval", interval_range_s=(0.1, 0.1))}, env)
    steps = []
    for step in range(1, 26):
        before = len(calls)
        manager.apply("interval", dt=env.step_dt)
        if len(calls) > before:
            steps.append(step)
    assert steps == [5, 10, 15, 20, 25]


def test_reset_restarts_the_timers_of_its_environments(env: Any) -> None:
    calls = Calls()
    manager = EventManager({"a": EventTermCfg(func=calls, mode="interval", interval_range_s=(0.1, 0.1))}, env)
    for _ in range(3):
        manager.apply("interval", dt=env.step_dt)
    manager.reset(mask_of(2))
    for _ in range(5):
        manager.apply("interval", dt=env.step_dt)
    assert calls == [mask_of(0, 1, 3).tolist(), mask_of(2).tolist()]


def test_global_interval(env: Any) -> None:
    calls = Calls()
    cfg = EventTermCfg(func=calls, mode="interval", interval_range_s=(0.1, 0.1), is_global_time=True)
    manager = EventManager({"a": cfg}, env)
    for step in range(1, 11):
        manager.apply("interval", dt=torch.full((4,), env.step_dt))
        if step == 3:
            manager.reset(mask_of(0))
    assert calls == [[True] * 4, [True] * 4]


def test_minimum_steps_between_resets(env: Any) -> None:
    calls = Calls()
    manager = EventManager(
        {"a": EventTermCfg(func=calls, mode="reset", min_step_count_between_reset=10)}, env
    )
    manager.apply("reset", mask_of(0))
    env.common_step_counter.fill_(5)
    manager.apply("reset", mask_of(0, 1))
    env.common_step_counter.fill_(12)
    manager.apply("reset", mask_of(0, 1))
    assert calls == [mask_of(0).tolist(), mask_of(1).tolist(), mask_of(0).tolist()]


def test_event_errors(env: Any) -> None:
    for mode, message in ((None, "mode is None"), ("strtup", "Did you mean 'startup'")):
        with pytest.raises(ValueError, match=message):
            EventManager({"a": EventTermCfg(func=Calls(), mode=mode)}, env)
    for bounds in (None, (0.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match=r"events\.a\.interval_range_s"):
            EventManager({"a": EventTermCfg(func=Calls(), mode="interval", interval_range_s=bounds)}, env)


# -- commands


class Goal(CommandTerm):
    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.goal = torch.zeros(env.num_envs, 1)
        self.metrics["error"] = torch.zeros(env.num_envs)
        self.drawn: list[list[bool]] = []

    @property
    def command(self) -> torch.Tensor:
        return self.goal

    def _resample_command(self, env_mask: torch.Tensor) -> None:
        self.drawn.append(env_mask.tolist())
        self.goal.copy_(torch.where(env_mask[:, None], self.goal + 1.0, self.goal))

    def _update_metrics(self) -> None:
        self.metrics["error"] += 1.0


class GoalByIds(Goal):
    def _resample_command(self, env_ids: torch.Tensor) -> None:  # type: ignore[override]
        self.goal[env_ids] += 1.0


@dataclass
class GoalCfg(CommandTermCfg):
    class_type: Any = Goal
    resampling_time_range: tuple[float, float] = (0.1, 0.1)


@pytest.mark.parametrize("kind", [Goal, GoalByIds])
def test_commands(env: Any, kind: type) -> None:
    manager = CommandManager({"goal": GoalCfg(class_type=kind)}, env)
    manager.reset()
    for _ in range(12):
        manager.update_metrics()
        manager.compute(env.step_dt)
    term = manager.get_term("goal")
    assert term.command_counter.tolist() == [3, 3, 3, 3]  # at the reset and after 5 and 10 steps
    assert torch.equal(manager.get_command("goal"), torch.full((4, 1), 3.0))
    logs = manager.reset(mask_of(1))
    assert logs["Metrics/goal/error"].item() == 12.0
    assert term.command_counter.tolist() == [3, 1, 3, 3]
    assert term.metrics["error"].tolist() == [12.0, 0.0, 12.0, 12.0]
    assert term.time_left.tolist() == pytest.approx([0.06, 0.1, 0.06, 0.06], abs=1e-6)


def test_command_times_change_in_place_and_may_be_infinite(env: Any) -> None:
    cfg = GoalCfg(resampling_time_range=(float("inf"), float("inf")))
    manager = CommandManager({"goal": cfg}, env)
    manager.reset()
    manager.compute(env.step_dt)
    assert torch.isinf(manager.get_term("goal").time_left).all()
    cfg.resampling_time_range = (1.0, 1.0)
    manager.reset()
    assert torch.equal(manager.get_term("goal").time_left, torch.ones(4))


def test_command_errors(env: Any) -> None:
    with pytest.raises(KeyError, match=r"commands has no term 'gaol'.*'goal'"):
        CommandManager({"goal": GoalCfg()}, env).get_command("gaol")
    with pytest.raises(ValueError, match="resampling_time_range"):
        CommandManager({"goal": GoalCfg(resampling_time_range=(2.0, 1.0))}, env)
    with pytest.raises(ValueError, match=r"commands\.goal\.class_type is None"):
        CommandManager({"goal": CommandTermCfg()}, env)


# -- curricula and metrics


def test_curriculum_logs_what_terms_return(env: Any) -> None:
    seen: list[Any] = []

    def by_ids(env: Any, env_ids: torch.Tensor) -> dict[str, float]:
        seen.append(env_ids.tolist())
        return {"level": 2.0}

    manager = CurriculumManager(
        {
            "number": CurriculumTermCfg(func=lambda env, env_mask: 1.5),
            "tensor": CurriculumTermCfg(func=lambda env, env_mask: torch.arange(4.0)),
            "dict": CurriculumTermCfg(func=by_ids),
            "none": CurriculumTermCfg(func=lambda env, env_mask: None),
        },
        env,
    )
    manager.compute(mask_of(1))
    logs = {key: value.item() for key, value in manager.reset(mask_of(1)).items()}
    assert logs == {"Curriculum/number": 1.5, "Curriculum/tensor": 1.5, "Curriculum/dict/level": 2.0}
    assert seen == [[1]]
    bad = CurriculumManager({"bad": CurriculumTermCfg(func=lambda env, env_mask: "x")}, env)
    with pytest.raises(TypeError, match=r"curriculum\.bad returned str"):
        bad.compute()


def test_metrics_are_episode_means(env: Any) -> None:
    manager = MetricsManager({"m": MetricsTermCfg(func=lambda env: env.value[:, 0])}, env)
    for number in (1.0, 2.0, 6.0):
        env.value = torch.full((4, 2), number)
        manager.compute()
        assert manager.values["m"].tolist() == [number] * 4
    assert manager.reset(mask_of(0))["Metrics/m"].item() == 3.0
    assert manager.values["m"].tolist() == [6.0] * 4  # of the last step, not of the episode
    env.value = torch.ones(4, 2)
    manager.compute()
    assert manager.reset(mask_of(0, 1))["Metrics/m"].item() == pytest.approx((1.0 + 2.5) / 2)


# -- actions


def test_actions(env: Any) -> None:
    manager = ActionManager(
        {
            "cart": JointEffortActionCfg(joint_names=["slider_to_cart"], scale=2.0),
            "pole": JointEffortActionCfg(joint_names=["cart_to_pole"]),
        },
        env,
    )
    assert manager.total_action_dim == 2 and manager.action_term_dim == [1, 1]
    action = torch.arange(8.0).view(4, 2)
    manager.process_action(action)
    manager.apply_action()
    target = env.scene["robot"].data.joint_effort_target.torch
    assert torch.equal(target, action * torch.tensor([2.0, 1.0]))
    manager.process_action(action + 1.0)
    assert torch.equal(manager.prev_action, action) and torch.equal(manager.action, action + 1.0)
    manager.reset(mask_of(0))
    assert torch.equal(manager.action[0], torch.zeros(2)) and torch.equal(
        manager.action[1:], action[1:] + 1.0
    )
    assert torch.equal(manager.get_term("cart").raw_actions[0], torch.zeros(1))
    assert manager.term_of_column(1) == ("pole", 0)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (3, 2), (2,)])
def test_wrong_action_shape(env: Any, shape: tuple[int, ...]) -> None:
    manager = ActionManager({"joints": JointEffortActionCfg()}, env)
    with pytest.raises(ValueError, match=r"it must be \(4, 2\): 4 environments, 2 components \(joints 2\)"):
        manager.process_action(torch.zeros(shape))


def test_action_errors(env: Any) -> None:
    with pytest.raises(ValueError, match=r"asset_name: the scene has no 'robo'.*'robot'"):
        ActionManager({"a": JointEffortActionCfg(asset_name="robo")}, env)
    with pytest.raises(ValueError, match=r"actions\.a\.class_type is None"):
        ActionManager({"a": ActionTermCfg()}, env)
    with pytest.raises(TypeError, match="cannot be read as a float tensor"):
        ActionManager({"a": JointEffortActionCfg()}, env).process_action("left")
