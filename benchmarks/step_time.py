# SPDX-License-Identifier: Apache-2.0
"""How long one environment step takes, beside the physics steps it contains."""

from __future__ import annotations

import copy
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from forcelab.envs.step_graph import Snapshot


@dataclass
class Part:
    """A part of a captured step.

    Attributes:
        name: What it does.
        seconds: Its time on the device when the parts are separate graphs, one after the other.
        kernels: Kernels and copies it runs on the device.
    """

    name: str
    seconds: float
    kernels: int


@dataclass
class StepTime:
    """Times of one environment at one size. Times are medians over repeats, in seconds.

    Attributes:
        num_envs: Number of environments.
        device: Device.
        decimation: Physics steps in one environment step.
        step_s: One ``env.step`` with random actions: everything, resets included.
        physics_s: The same number of physics steps alone, on a scene without sensors.
        step_spread, physics_spread: (largest - smallest) / median over the repeats.
        steps: Environment steps per repeat.
        repeats: Repeats; the two kinds take turns.
        build_s: Time to build the environment, first steps included.
        memory_bytes: Device memory taken by the environment; 0 on the CPU.
        step_kernels: Kernels and copies that one step runs on the device; 0 on the CPU.
        physics_kernels: The same of physics alone.
        parts: The parts of a captured step, in order; empty when steps are not captured.
    """

    num_envs: int
    device: str
    decimation: int
    step_s: float
    physics_s: float
    step_spread: float
    physics_spread: float
    steps: int
    repeats: int
    build_s: float
    memory_bytes: int
    step_kernels: int = 0
    physics_kernels: int = 0
    parts: list[Part] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Environment step over physics alone."""
        return self.step_s / self.physics_s

    @property
    def env_steps_per_s(self) -> float:
        """Environment steps per second, summed over the environments."""
        return self.num_envs / self.step_s

    def as_dict(self) -> dict[str, Any]:
        """Plain values, the derived ones included."""
        return {**asdict(self), "ratio": self.ratio, "env_steps_per_s": self.env_steps_per_s}


def measure(env_cfg: Any, num_envs: int, *, steps: int = 50, repeats: int = 5, warmup: int = 20) -> StepTime:
    """Build an environment of ``num_envs`` and time it.

    Physics alone runs the engine's steps on an identical scene without sensors. It starts every environment
    step from the environment's states and uses its joint targets, so that both solve the same contacts. Each
    is waited for by itself.

    Args:
        env_cfg: :class:`forcelab.envs.ManagerBasedRlEnvCfg`; it is copied.
        num_envs: Number of environments.
        steps: Environment steps per repeat.
        repeats: Repeats.
        warmup: Environment steps before the first repeat; on CUDA at least 120.
    """
    from forcelab.envs import ManagerBasedRlEnv
    from forcelab.scene import InteractiveScene

    if min(num_envs, steps, repeats) < 1:
        raise ValueError(f"num_envs={num_envs}, steps={steps}, repeats={repeats}: each must be at least 1.")
    cfg = copy.deepcopy(env_cfg)
    cfg.scene.num_envs = num_envs
    device = torch.device(cfg.device)
    if device.type == "cuda":
        # Past the capture, and past the replays that are compared with eager steps.
        warmup = max(warmup, 120)
    before = _used_memory(device)
    started = time.perf_counter()
    env = ManagerBasedRlEnv(cfg)
    try:
        env.reset()
        generator = torch.Generator(device="cpu").manual_seed(0)
        shape = (16, num_envs, env.action_manager.total_action_dim)
        actions = torch.rand(shape, generator=generator).mul_(2.0).sub_(1.0).to(env.device)

        def env_steps(number: int) -> None:
            for i in range(number):
                env.step(actions[i % len(actions)])

        env_steps(1)
        _wait(device)
        build = time.perf_counter() - started
        env_steps(warmup)
        _wait(device)
        memory = _used_memory(device) - before

        bare = InteractiveScene(
            without_sensors(cfg.scene), physics=copy.deepcopy(cfg.physics), device=str(device)
        )
        bare.reset()

        def physics_steps() -> None:
            for _ in range(env.decimation):
                bare.engine.step()

        _copy_state(env.scene, bare)
        for _ in range(warmup):
            physics_steps()
        step_times, physics_times = [], []
        for _ in range(repeats):
            pairs = [_timed_pair(env, bare, actions[i % len(actions)]) for i in range(steps)]
            step_times.append(sum(p[0] for p in pairs) / steps)
            physics_times.append(sum(p[1] for p in pairs) / steps)
        counts, parts = (0, 0), []
        if device.type == "cuda":
            counts = _kernels_of_a_pair(env, bare, actions[0])
            if env.step_graph.active:
                parts = measure_parts(env, actions[0])
        env.pop_logs()
    finally:
        env.close()
    close = getattr(bare, "close", None)
    if callable(close):
        close()
    step, physics = statistics.median(step_times), statistics.median(physics_times)
    return StepTime(
        num_envs=num_envs,
        device=_device_name(device),
        decimation=int(env.decimation),
        step_s=step,
        physics_s=physics,
        step_spread=(max(step_times) - min(step_times)) / step,
        physics_spread=(max(physics_times) - min(physics_times)) / physics,
        steps=steps,
        repeats=repeats,
        build_s=build,
        memory_bytes=memory,
        step_kernels=counts[0],
        physics_kernels=counts[1],
        parts=parts,
    )


def kernels(work: Callable[[], Any]) -> int:
    """How many kernels, copies and fills ``work`` runs on the CUDA device."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about cycles of a profiler that has but one
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            work()
            torch.cuda.synchronize()
    return sum(event.count for event in profiler.key_averages() if event.self_device_time_total > 0)


def _kernels_of_a_pair(env: Any, bare: Any, action: torch.Tensor) -> tuple[int, int]:
    """Kernels of one environment step, and of the same physics steps alone."""
    _copy_state(env.scene, bare)
    step = kernels(lambda: env.step(action))
    _copy_targets(env.scene, bare)
    return step, kernels(lambda: [bare.engine.step() for _ in range(env.decimation)])


def measure_parts(env: Any, action: torch.Tensor, repeats: int = 20) -> list[Part]:
    """Time the parts of a captured step, each as a graph of its own; the same step over and over."""
    pieces = env.step_graph.record_parts(action)
    start = Snapshot(env)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(pieces) + 1)]
    seconds: dict[str, list[float]] = {}
    for repeat in range(repeats + 3):
        start.restore()
        torch.cuda.synchronize()
        for mark, (_, run) in zip(marks, pieces, strict=False):
            mark.record()
            run()
        marks[-1].record()
        torch.cuda.synchronize()
        sums: dict[str, float] = {}
        for (name, _), begin, end in zip(pieces, marks, marks[1:], strict=False):
            sums[name] = sums.get(name, 0.0) + begin.elapsed_time(end) * 1e-3
        if repeat >= 3:
            for name, value in sums.items():
                seconds.setdefault(name, []).append(value)
    start.restore()
    counts: dict[str, int] = {}
    for name, run in pieces:
        counts[name] = counts.get(name, 0) + kernels(run)
    return [Part(name, statistics.median(values), counts[name]) for name, values in seconds.items()]


def without_sensors(scene_cfg: Any) -> Any:
    """A copy of a scene configuration in which every sensor is switched off."""
    from forcelab.sensors import SensorBaseCfg

    cfg = copy.deepcopy(scene_cfg)
    for name, entry in list(cfg.items()):
        if isinstance(entry, SensorBaseCfg):
            setattr(cfg, name, None)
    return cfg


def _copy_state(source: Any, target: Any) -> None:
    """Give ``target`` the states and commands of ``source``; both hold the same robots and objects."""
    for path, tree in source.engine.trees.items():
        root = (
            source.engine.body_pose[:, tree.body_slice.start],
            source.engine.body_vel[:, tree.body_slice.start],
        )
        if not tree.fixed_base:
            target.engine.write_root_pose(path, root[0].clone())
            target.engine.write_root_velocity(path, root[1].clone())
        if tree.joint_names:
            target.engine.write_joint_state(path, tree.joint_pos.clone(), tree.joint_vel.clone())
    _copy_targets(source, target)
    target.engine.reset()
    memory = target.engine.solver_memory()
    for name, value in source.engine.solver_memory().items():
        memory[name].copy_(value)
    target.engine.update_kinematics()


def _copy_targets(source: Any, target: Any) -> None:
    """Give ``target`` the joint targets of ``source``."""
    for path, tree in source.engine.trees.items():
        if tree.joint_names:
            other = target.engine.trees[path]
            other.joint_pos_target.copy_(tree.joint_pos_target)
            other.joint_vel_target.copy_(tree.joint_vel_target)
            other.joint_effort.copy_(tree.joint_effort)


def _timed_pair(env: Any, bare: Any, action: torch.Tensor) -> tuple[float, float]:
    """Seconds of one environment step, and of the same physics steps alone."""
    _copy_state(env.scene, bare)
    _wait(env.device)
    started = time.perf_counter()
    env.step(action)
    _wait(env.device)
    middle = time.perf_counter()
    _copy_targets(env.scene, bare)
    _wait(env.device)
    again = time.perf_counter()
    for _ in range(env.decimation):
        bare.engine.step()
    _wait(env.device)
    return middle - started, time.perf_counter() - again


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _used_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    _wait(device)
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def _device_name(device: torch.device) -> str:
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


if __name__ == "__main__":
    # ``python -m forcelab.benchmarks.step_time task=velocity_flat 'num_envs=[64,256]' device=cpu``
    import sys

    from forcelab.cli import main as command

    raise SystemExit(command(["bench", *sys.argv[1:]]))
