# SPDX-License-Identifier: Apache-2.0
"""What sensors cost: per physics step, beside the same physics without them; and the time to create a scene.

``forcelab bench sensors num_envs=4096 device=cuda:0`` builds one scene of quadrupeds several times in one
process: without sensors, with four contact sensors, with a joint wrench sensor, with all of them. All step the
same motion by turns, captured, and each is compared with the scene without sensors of the same integrator in the
same round. Then it builds the scene with all sensors for growing numbers of environments.
"""

from __future__ import annotations

import copy
import gc
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from .bench import machine
from .step_time import _device_name, _used_memory, _wait, without_sensors

FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
# A target lasts this many physics steps; so many targets are one gait cycle.
_HOLD, _CYCLE = 4, 32
_SETTLE = 40

#: Name, integrator, contact sensors, joint wrench sensor. Each is compared with the next scene without sensors
#: above it.
VARIANTS = (
    ("physics", "discrete", False, False),
    ("contact", "discrete", True, False),
    ("wrench", "discrete", False, True),
    ("contact + wrench", "discrete", True, True),
    ("physics", "implicitfast", False, False),
    ("contact", "implicitfast", True, False),
)


@dataclass
class Cost:
    """Time of one physics step of one variant. Times in s, medians over the rounds.

    Attributes:
        name, integrator: what was built.
        step_s: one captured physics step with all that belongs to it.
        ratio: to physics alone with the same integrator, in the same round.
        ratio_low, ratio_high: quartiles of that ratio over the rounds.
        contacts: mean number of contacts per environment at the ends of the rounds.
        memory_bytes: device memory that the scene took; 0 on the CPU.
    """

    name: str
    integrator: str
    step_s: float
    ratio: float
    ratio_low: float
    ratio_high: float
    contacts: float
    memory_bytes: int


@dataclass
class Creation:
    """Time to create the scene with all sensors.

    Attributes:
        num_envs: number of environments.
        first_s: the first time, in which the solver compiles a kernel for this number of environments.
        again_s: the second time.
        memory_bytes: device memory of the second one; 0 on the CPU.
    """

    num_envs: int
    first_s: float
    again_s: float
    memory_bytes: int


def sensors(
    composed: Any,
    num_envs: int = 4096,
    *,
    rounds: int = 20,
    steps: int = 200,
    creation: Sequence[int] = (256, 512, 1024, 2048, 4096, 8192),
    output: str | os.PathLike[str] | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Measure, print tables, and return what was written to ``output``.

    Args:
        composed: :func:`forcelab.configs.compose`'s result; its robot, ground, physics and device are used.
        num_envs: Number of environments for the cost of a step.
        rounds: Rounds, in each of which every variant has its turn; the order rotates.
        steps: Physics steps of one turn.
        creation: Numbers of environments to create; empty: none.
        output: JSON file to write.
        stream: Where the tables are printed; None: standard output.
    """
    if min(num_envs, rounds, steps, *creation) < 1:
        raise ValueError(
            f"num_envs={num_envs}, rounds={rounds}, steps={steps}, creation={list(creation)}: each must be at least 1."
        )
    out = sys.stdout if stream is None else stream
    env_cfg = composed.env
    device = torch.device(env_cfg.device)
    print(f"Building {len(VARIANTS)} scenes of {num_envs} environments on {device} …", file=out, flush=True)
    costs, engine = measure_cost(env_cfg, num_envs, rounds, steps)
    report = {
        "date": time.strftime("%Y-%m-%d"),
        **machine(),
        "device": _device_name(device),
        "num_envs": num_envs,
        "rounds": rounds,
        "steps": steps,
        **engine,
        "cost": [asdict(c) for c in costs],
    }
    settings = (
        f"physics steps of {engine['dt']:g} s, contact capacity {engine['contact_capacity']} and constraint capacity "
        f"{engine['constraint_capacity']} per environment"
    )
    versions = ", ".join(f"{name} {v}" for name, v in report["versions"].items())
    print(f"{report['device']}, {report['date']}, Python {report['python']}, {versions}", file=out)
    print(
        f"{num_envs} quadrupeds, {settings}; medians of {rounds} rounds of {steps} steps, by turns", file=out
    )
    print(f"{'':<18}{'integrator':<14}{'step':>10}{'cost':>8}{'quartiles':>20}{'contacts':>10}", file=out)
    for c in costs:
        spread = f"{c.ratio_low - 1:+.1%} … {c.ratio_high - 1:+.1%}"
        step = f"{c.step_s * 1e3:.3f} ms"
        print(
            f"{c.name:<18}{c.integrator:<14}{step:>10}{c.ratio - 1:>+8.1%}{spread:>20}{c.contacts:>10.2f}",
            file=out,
            flush=True,
        )
    if creation:
        report["creation"] = _creation(env_cfg, creation, out)
    if output is not None:
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print(f"Wrote {path}", file=out)
    return report


def scene_cfg(env_cfg: Any, num_envs: int, contact: bool, wrench: bool) -> Any:
    """The task's robot and ground with the sensors of one variant."""
    from forcelab.sensors import ContactSensorCfg, JointWrenchSensorCfg

    cfg = without_sensors(env_cfg.scene)
    cfg.num_envs = num_envs
    if contact:
        for foot in FEET:
            sensor = ContactSensorCfg(
                prim_path=f"{{ENV_REGEX_NS}}/Robot/{foot}",
                history_length=6,
                track_air_time=True,
                track_contact_points=True,
                track_friction_forces=True,
                filter_prim_paths_expr=["/World/ground", "{ENV_REGEX_NS}/Robot/.*_SHANK"],
            )
            setattr(cfg, f"{foot.lower()}_contact", sensor)
    if wrench:
        cfg.joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")
    return cfg


def create(env_cfg: Any, num_envs: int, integrator: str, contact: bool, wrench: bool) -> Any:
    """One scene."""
    from forcelab.scene import InteractiveScene

    physics = copy.deepcopy(env_cfg.physics)
    if not hasattr(physics, "integrator"):
        raise ValueError("bench sensors measures the Newton engine; use physics=newton.")
    physics.integrator = integrator
    return InteractiveScene(scene_cfg(env_cfg, num_envs, contact, wrench), physics, env_cfg.device)


class _Motion:
    """Targets of a trot with random amplitudes, and random states to start a round from; the same for all scenes."""

    def __init__(self, robot: Any):
        generator = torch.Generator().manual_seed(0)
        self._generator, self._shape = generator, (robot.num_envs, robot.num_joints)
        self._default = robot.data.default_joint_pos.torch.clone()
        time_in_cycle = torch.arange(_CYCLE).view(-1, 1, 1) / _CYCLE
        diagonal = torch.tensor([0.0 if n[:2] in ("LF", "RH") else 0.5 for n in robot.joint_names])
        size = torch.tensor([{"HFE": 0.2, "KFE": 0.4}.get(n[3:], 0.05) for n in robot.joint_names])
        amplitude = size * torch.rand(self._shape, generator=generator)
        wave = torch.sin(2 * math.pi * (time_in_cycle + diagonal))
        noise = 0.1 * (torch.rand(_CYCLE, *self._shape, generator=generator) - 0.5)
        offsets = (amplitude * wave + noise).to(self._default.device)
        self._targets = list(self._default + offsets)

    def draw(self) -> torch.Tensor:
        """Joint positions to start a round from. (E, J)"""
        noise = 0.1 * (torch.rand(self._shape, generator=self._generator) - 0.5)
        return self._default + noise.to(self._default.device)

    def start(self, scene: Any, joint_pos: torch.Tensor) -> None:
        """Put a scene's robots on the ground, moving."""
        scene.reset()
        scene["robot"].write_joint_state(joint_pos, torch.zeros_like(joint_pos))
        self.run(scene, _SETTLE)

    def run(self, scene: Any, steps: int) -> None:
        """Step a scene."""
        robot, targets = scene["robot"], self._targets
        for i in range(steps):
            if i % _HOLD == 0:
                robot.set_joint_position_target(targets[i // _HOLD % _CYCLE])
            scene.step()


def measure_cost(
    env_cfg: Any, num_envs: int, rounds: int, steps: int
) -> tuple[list[Cost], dict[str, float | int]]:
    """Times of a physics step for all :data:`VARIANTS`, and the settings of the engine that all have."""
    device = torch.device(env_cfg.device)
    scenes: list[Any] = []
    memory = []
    try:
        for _, integrator, contact, wrench in VARIANTS:
            before = _used_memory(device)
            scenes.append(create(env_cfg, num_envs, integrator, contact, wrench))
            memory.append(_used_memory(device) - before)
        engine = scenes[0].engine
        settings = {
            "dt": engine.dt,
            "contact_capacity": engine.contact_capacity,
            "constraint_capacity": engine.constraint_capacity,
        }
        motion = _Motion(scenes[0]["robot"])
        times: list[list[float]] = [[] for _ in scenes]
        contacts: list[list[float]] = [[] for _ in scenes]
        for number in range(rounds + 1):
            state = motion.draw()
            for turn in range(len(scenes)):
                i = (turn + number) % len(scenes)
                motion.start(scenes[i], state)
                _wait(device)
                started = time.perf_counter()
                motion.run(scenes[i], steps)
                _wait(device)
                elapsed = (time.perf_counter() - started) / steps
                if number:  # the first round warms up
                    times[i].append(elapsed)
                    contacts[i].append(_contacts(scenes[i]))
    finally:
        for scene in scenes:
            scene.close()
    del scenes, motion
    costs = []
    base = 0
    for i, (name, integrator, contact, wrench) in enumerate(VARIANTS):
        if not (contact or wrench):
            base = i
        ratios = [a / b for a, b in zip(times[i], times[base])]
        low, middle, high = (float(v) for v in np.percentile(ratios, (25, 50, 75)))
        costs.append(
            Cost(
                name,
                integrator,
                statistics.median(times[i]),
                middle,
                low,
                high,
                statistics.fmean(contacts[i]),
                memory[i],
            )
        )
    return costs, settings


def _collect(device: torch.device) -> None:
    """Let go of the memory of scenes that are closed."""
    gc.collect()
    if device.type == "cuda":
        _wait(device)
        torch.cuda.empty_cache()


def _contacts(scene: Any) -> float:
    """Contacts per environment in the last step."""
    return float(scene.engine.solver.mjw_data.nacon.numpy()[0]) / scene.num_envs


def _creation(env_cfg: Any, sizes: Sequence[int], out: TextIO) -> dict[str, Any]:
    device = torch.device(env_cfg.device)
    results = []
    print(
        "\nTime to create the scene with all sensors; the solver compiles a kernel for each new size",
        file=out,
    )
    print(f"{'envs':>7}{'first':>11}{'again':>11}{'per env':>12}{'memory':>12}", file=out, flush=True)
    for size in sizes:
        taken = []
        for _ in range(2):
            _collect(device)
            before = _used_memory(device)
            started = time.perf_counter()
            scene = create(env_cfg, size, "discrete", True, True)
            _wait(device)
            taken.append(time.perf_counter() - started)
            memory = _used_memory(device) - before
            scene.close()
            del scene
        results.append(Creation(size, taken[0], taken[1], memory))
        r = results[-1]
        gib = f"{r.memory_bytes / 2**30:.2f} GiB" if r.memory_bytes else "-"
        print(
            f"{size:>7}{r.first_s:>9.2f} s{r.again_s:>9.2f} s{r.again_s / size * 1e3:>9.3f} ms{gib:>12}",
            file=out,
            flush=True,
        )
    report: dict[str, Any] = {"sizes": [asdict(r) for r in results]}
    if len(results) > 1:
        report.update(_growth(results))
        print(
            f"{report['seconds_per_env'] * 1e3:.3f} ms per environment + {report['fixed_s']:.2f} s; grows with the "
            f"number of environments to the power {report['exponent']:.2f} between the two largest",
            file=out,
        )
    return report


def _growth(results: Sequence[Creation]) -> dict[str, float]:
    """A straight line through the times, and the exponent between the two largest sizes."""
    slope, fixed = statistics.linear_regression(
        [float(r.num_envs) for r in results], [r.again_s for r in results]
    )
    last, before = results[-1], results[-2]
    exponent = math.log(last.again_s / before.again_s) / math.log(last.num_envs / before.num_envs)
    return {"seconds_per_env": slope, "fixed_s": fixed, "exponent": exponent}


if __name__ == "__main__":
    from forcelab.cli import main as command

    raise SystemExit(command(["bench", "sensors", *sys.argv[1:]]))
