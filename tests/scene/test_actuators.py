# SPDX-License-Identifier: Apache-2.0
"""Actuator models against a hand computation: a mass of 2 kg on a frictionless rail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    DelayedPdActuatorCfg,
    IdealPdActuatorCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
)

DT, MASS = 0.01, 2.0
SLIDER = (
    "<mujoco><worldbody><body name='base'><geom type='box' size='.1 .1 .1' mass='1'/>"
    "<body name='a'><joint name='j' type='slide' axis='1 0 0' range='-1 1'/>"
    "<geom type='box' size='.1 .1 .1' mass='2'/></body></body></worldbody></mujoco>"
)


@pytest.fixture
def slider(tmp_path: Path) -> Any:
    """Makes scenes of three sliders."""
    file = tmp_path / "slider.xml"
    file.write_text(SLIDER)
    made = []

    def make(actuator: PdActuatorCfg, physics: Callable[..., Any] = NewtonCfg) -> InteractiveScene:
        cfg = InteractiveSceneCfg(num_envs=3)
        cfg.robot = ArticulationCfg(
            prim_path="{ENV_REGEX_NS}/Robot",
            spawn=MjcfCfg(str(file)),
            fixed_base=True,
            actuators={"drive": actuator},
        )
        made.append(InteractiveScene(cfg, physics(dt=DT, gravity=(0.0, 0.0, 0.0))))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def target(step: int) -> float:
    return 0.5 if step < 20 else -0.3


def by_hand(steps: int, limit: float, delay: int) -> list[tuple[float, float, float, float]]:
    """(position, velocity, asked effort, applied effort) after each step."""
    x = v = 0.0
    out = []
    for i in range(steps):
        asked = 40.0 * (target(max(0, i - delay)) - x) - 3.0 * v
        applied = max(-limit, min(limit, asked))
        v += DT * applied / MASS
        x += DT * v
        out.append((x, v, asked, applied))
    return out


@pytest.mark.parametrize(("limit", "delay"), [(8.0, 0), (1e9, 0), (8.0, 3)])
def test_explicit_law(slider: Any, limit: float, delay: int) -> None:
    gains = {"stiffness": 40.0, "damping": 3.0, "effort_limit": limit}
    if delay:
        scene = slider(DelayedPdActuatorCfg("j", **gains, min_delay=delay, max_delay=delay))
    else:
        scene = slider(IdealPdActuatorCfg("j", **gains))
    data = scene["robot"].data
    for i, (x, v, asked, applied) in enumerate(by_hand(40, limit, delay)):
        scene["robot"].set_joint_position_target(torch.full((3, 1), target(i)))
        scene.step()
        found = [
            float(t[1, 0])
            for t in (data.joint_pos, data.joint_vel, data.computed_torque, data.applied_torque)
        ]
        assert found == pytest.approx([x, v, asked, applied], abs=2e-5), i
        assert float(data.joint_acc[1, 0]) == pytest.approx(applied / MASS, abs=2e-3)


def test_delays_are_drawn_per_environment_and_begin_anew_at_a_reset(slider: Any) -> None:
    torch.manual_seed(3)
    scene = slider(DelayedPdActuatorCfg("j", stiffness=40.0, damping=3.0, max_delay=4))
    robot = scene["robot"]
    seen = set()
    for _ in range(12):
        scene.reset()
        first = torch.full((3,), -1)
        for i in range(8):
            # The command before the jump is the only one there is at first.
            robot.set_joint_position_target(torch.full((3, 1), 0.0 if i < 2 else 0.5))
            scene.step()
            moves = (robot.data.applied_torque[:, 0].abs() > 0) & (first < 0)
            first = torch.where(moves, torch.tensor(i - 2), first)
        seen.update(first.tolist())
    assert seen == {0, 1, 2, 3, 4}
    before = robot._delay[0].clone()
    scene.reset(torch.tensor([False, True, False]))
    assert torch.equal(robot._delay[0], before) and robot._age[:, 0].tolist() == [8, 0, 8]


@pytest.mark.parametrize(
    ("position", "effort", "expected"),
    [
        (0.0, 20.0, 8.0),  # the added effort alone
        (0.0, -5.0, -5.0),
        (1.0, 20.0, 8.0),  # both at the limit
        (1.0, -9.0, 8.0),  # 100 - 9
        (0.05, 2.0, 7.0),
        (0.05, 9.0, 8.0),
        (-1.0, 100.0, 0.0),  # they cancel
    ],
)
def test_the_limit_holds_for_the_sum_of_drive_and_effort(
    slider: Any, physics: Callable[..., Any], position: float, effort: float, expected: float
) -> None:
    """What is reported is what acts: the acceleration times the mass."""
    scene = slider(PdActuatorCfg("j", stiffness=100.0, effort_limit=8.0), physics)
    robot = scene["robot"]
    robot.set_joint_position_target(torch.full((3, 1), position))
    robot.set_joint_effort_target(torch.full((3, 1), effort))
    scene.step()
    assert float(robot.data.applied_torque[0, 0]) == pytest.approx(expected, abs=1e-4)
    # The engine's own drive is implicit: it yields a little within the step.
    assert float(robot.data.joint_vel[0, 0]) * MASS / DT == pytest.approx(expected, abs=0.05)


def test_gains_change_while_running(slider: Any) -> None:
    for kind in (PdActuatorCfg, IdealPdActuatorCfg):
        scene = slider(kind("j", stiffness=40.0, damping=8.0))
        robot = scene["robot"]
        robot.write_joint_gains(torch.full((3, 1), 80.0), None, torch.tensor([False, True, False]))
        robot.set_joint_position_target(torch.full((3, 1), 0.1))
        scene.step()
        assert robot.data.applied_torque[:, 0].tolist() == pytest.approx([4.0, 8.0, 4.0], abs=1e-4)
        force = robot.data.joint_vel[:, 0] * MASS / DT
        assert force.tolist() == pytest.approx([4.0, 8.0, 4.0], rel=0.05)


def test_joint_limits_hold(slider: Any) -> None:
    scene = slider(PdActuatorCfg("j", stiffness=40.0, damping=8.0))
    scene["robot"].set_joint_position_target(torch.full((3, 1), 3.0))
    for _ in range(200):
        scene.step()
    assert (scene["robot"].data.joint_pos - 1.0).abs().max() < 0.01
