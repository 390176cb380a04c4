# SPDX-License-Identifier: Apache-2.0
"""Measures how steady the force of a sliding tool is; prints a table in Markdown.

    python -m forcelab.benchmarks.sliding_press            # all variants
    python -m forcelab.benchmarks.sliding_press --quick    # the defaults and MuJoCo's own values

The arm of the task press_arm slides its tool to and fro over its table (friction of the pair 0.6) at 0.05, 0.1 and
0.2 m/s and presses with 5, 15 and 30 N. No learning: a plain force law moves the tool at 100 Hz along the vertical at
``GAIN`` · (force - command) / stiffness, joint targets follow through the Jacobian. Turning points (1 m/s²) count.

Reported for each force, the three speeds in turn: mean |force - command| in percent of the command, the force averaged
over each control step; and over all nine, the share of single samples near zero, and friction over normal force.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch

from forcelab.benchmarks.solver_settings import MUJOCO, SOFTER, name
from forcelab.configs import compose
from forcelab.mdp._util import quat_apply
from forcelab.physics import NewtonCfg
from forcelab.scene import InteractiveScene

FORCES = (5.0, 15.0, 30.0)
SPEEDS = (0.05, 0.1, 0.2)
GAIN = 15.0  # 1/s
STIFFNESS = 1200.0  # of the drives along the vertical at the tool, N/m, roughly
STEP = 0.01  # s
FRICTION = 0.6
PATCH = torch.tensor([[0.42, -0.12], [0.58, 0.12]])
DOWN = torch.tensor([0.0, 0.0, -1.0])


@dataclass
class Result:
    """What one variant gave; percent, (3 forces, 3 speeds)."""

    error: torch.Tensor
    zeros: float
    friction: float


class Tool:
    """Pose and Jacobian of the tool's ball."""

    def __init__(self, robot: Any):
        self.robot = robot
        bodies = ("shoulder", "upper_arm", "forearm", "wrist_1", "wrist_2", "wrist_3")
        self.links = torch.tensor([robot.body_names.index(b) for b in bodies])
        self.tool = robot.body_names.index("tool")
        # Joint axes in the frames of their bodies: z; y, y; x; y; x.
        self.axes = torch.eye(3)[torch.tensor([2, 1, 1, 0, 1, 0])].expand(robot.num_envs, 6, 3)
        self.ball = torch.tensor([0.1, 0.0, 0.0]).expand(robot.num_envs, 3)
        self.along = torch.tensor([1.0, 0.0, 0.0]).expand(robot.num_envs, 3)

    def read(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Position (E, 3), direction (E, 3) of the tool, Jacobian (E, 6, 6): linear rows, then angular."""
        pos, quat = self.robot.data.body_pos_w.torch, self.robot.data.body_quat_w.torch
        ball = pos[:, self.tool] + quat_apply(quat[:, self.tool], self.ball)
        axes = quat_apply(quat[:, self.links], self.axes)
        linear = torch.linalg.cross(axes, ball[:, None] - pos[:, self.links])
        jacobian = torch.cat((linear, axes), dim=-1).transpose(1, 2)
        return ball, quat_apply(quat[:, self.tool], self.along), jacobian


def measure(cfg: NewtonCfg, seconds: float = 6.0) -> Result:
    """Press and slide with all forces and speeds at once, one environment each."""
    substeps = round(STEP / cfg.dt)
    count = len(FORCES) * len(SPEEDS)
    overrides = [f"num_envs={count}", f"scene.tool_contact.history_length={substeps}"]
    scene = InteractiveScene(compose("press_arm", overrides).env.scene, physics=cfg, device="cpu")
    scene.reset()
    robot, touch = scene["robot"], scene["tool_contact"]
    scene["table"].write_friction(torch.full((count, 1), FRICTION))
    tool = Tool(robot)
    force = torch.tensor(FORCES).repeat_interleave(len(SPEEDS))
    speed = torch.tensor(SPEEDS).repeat(len(FORCES))
    heading = speed[:, None] * torch.tensor([0.6, 0.8])
    velocity = torch.zeros(count, 2)
    goal = tool.read()[0][:, :2].clone()
    target = robot.data.joint_pos.torch.clone()
    history = touch.data.normal_force_matrix_w_history
    forces, friction = [], []
    for i in range(round(seconds / STEP)):
        ball, along, jacobian = tool.read()
        if i * STEP > 1.0:  # the tool has come down
            stop = goal - scene.env_origins[:, :2] + velocity * velocity.abs() / 2.0
            size = heading.abs()
            heading = torch.where(stop >= PATCH[1], -size, torch.where(stop <= PATCH[0], size, heading))
            velocity = velocity + (heading - velocity).clamp(-STEP, STEP)
            goal = goal + velocity * STEP
        wanted = torch.zeros(count, 6)
        wanted[:, :2] = velocity + 5.0 * (goal - ball[:, :2])
        error = history[:, :, 0, 0, 2].mean(1) - force
        wanted[:, 2] = (GAIN / STIFFNESS * error).clamp(-0.1, 0.1)
        wanted[:, 3:] = 5.0 * torch.linalg.cross(along, DOWN.expand(count, 3))
        damped = jacobian @ jacobian.transpose(1, 2) + 1e-4 * torch.eye(6)
        rates = jacobian.transpose(1, 2) @ torch.linalg.solve(damped, wanted[..., None])
        target = target + STEP * rates[..., 0]
        robot.set_joint_position_target(target)
        for _ in range(substeps):
            scene.step()
        if i * STEP > 2.5:
            forces.append(history[:, :, 0, 0, 2].clone())
            friction.append(touch.data.net_friction_forces_w[:, 0].norm(dim=1))
    samples = torch.stack(forces)
    means = samples.mean(-1)
    error = 100.0 * ((means - force).abs() / force).mean(0)
    scene.close()
    return Result(
        error.reshape(len(FORCES), len(SPEEDS)),
        100.0 * float((samples < 0.01 * force[:, None]).float().mean()),
        float((torch.stack(friction) / means.clamp(min=0.1)).median()),
    )


def variants(quick: bool) -> list[dict[str, Any]]:
    """Keyword arguments of NewtonCfg, the defaults first."""
    found: list[dict[str, Any]] = [{}, dict(MUJOCO)]
    if quick:
        return found
    found += [{**MUJOCO, "cone": "pyramidal"}, {"contact_impedance": MUJOCO["contact_impedance"]}]
    found += [dict(SOFTER)]
    found += [{"friction_time_constant": c} for c in (0.02, 0.05, 0.2)]
    found += [{"contact_time_constant": c} for c in (0.01, 0.05)]
    found += [{"impratio": i} for i in (1.0, 10.0)]
    found += [{"iterations": 5, "ls_iterations": 10}, {"dt": 0.0025}, {"dt": 0.01}]
    return found


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two variants only")
    args = parser.parse_args(argv)
    packages = ", ".join(f"{p} {version(p)}" for p in ("newton", "warp-lang", "mujoco-warp", "torch"))
    print(f"Python {platform.python_version()}, {packages}, CPU, {time.strftime('%Y-%m-%d')}\n")
    heads = [f"{force:g} N: error %" for force in FORCES]
    columns = ["settings changed", *heads, "samples near zero %", "friction / normal"]
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns), flush=True)
    for change in variants(args.quick):
        r = measure(NewtonCfg(integrator="discrete", **change))
        cells = [" ".join(f"{e:.1f}" for e in row) for row in r.error]
        print(f"| {name(change)} | {' | '.join(cells)} | {r.zeros:.1f} | {r.friction:.2f} |", flush=True)


if __name__ == "__main__":
    main()
