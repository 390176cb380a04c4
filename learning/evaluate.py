# SPDX-License-Identifier: Apache-2.0
"""Judge a trained policy: one episode in every environment, without exploration, noise and pushes."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import torch

from .device_logger import ProgressLine
from .inference import Rollout, open_rollout, velocity_command

#: Bounds a policy has to keep, by name of the result; only those that a task has. Upper ones but for :data:`AT_LEAST`.
CRITERION = {
    "velocity_error": 0.25,
    "terminated_percent": 5.0,
    "sliding_force_error_percent": 15.0,
    "forward_velocity": 2.5,
}
#: Results of which more is better; their bounds are lower ones.
AT_LEAST = frozenset({"forward_velocity"})

_LABELS = {
    "velocity_error": ("mean |v_xy - command|", "m/s"),
    "yaw_rate_error": ("mean |yaw rate - command|", "rad/s"),
    "sliding_force_error_percent": ("mean |force - command| / command, sliding", "%"),
    "force_error_percent": ("the same, all steps", "%"),
    "contact_percent": ("steps in contact", "%"),
    "path_error": ("mean distance from the target", "m"),
    "slide_speed": ("mean sliding speed", "m/s"),
    "forward_velocity": ("mean forward velocity", "m/s"),
    "terminated_percent": ("episodes terminated early", "%"),
    "mean_return": ("mean return", ""),
    "mean_episode_length": ("mean episode length", "s"),
}


def evaluate(
    composed: Any,
    checkpoint: str | os.PathLike[str] = "latest",
    *,
    num_envs: int = 256,
    settle: float = 2.0,
    noise: bool = False,
    pushes: bool = False,
    command: Sequence[float] | None = None,
    criterion: Mapping[str, float] | None = None,
    log_root: str | os.PathLike[str] = "logs",
    make_env: Callable[[Any], Any] | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Run the mean actions of a policy for one episode length and print how well it does.

    Args:
        composed: :func:`forcelab.configs.compose`'s result.
        checkpoint: ``latest``, ``pretrained``, a file, a run folder or a run name.
        num_envs: Number of environments, hence of episodes.
        settle: Tracking counts from this age of an episode on, in s.
        noise: Keep the observation noise.
        pushes: Keep events of mode ``interval``.
        command: Velocity command (m/s, m/s, rad/s) held throughout; None: the task's own.
        criterion: Bounds by name of the result, upper ones but for :data:`AT_LEAST`; None: :data:`CRITERION`.
        log_root: Folder of all experiments.
        make_env: Builds the environment from its configuration; None: ``ManagerBasedRlEnv``.
        stream: Where it is printed; None: standard output.

    Returns:
        ``task``, ``checkpoint``, ``iteration``, ``num_envs``, ``episode_length_s``; ``mean_return``,
        ``mean_episode_length`` (s) of each environment's first episode; ``terminated_percent``: share of them
        that ended before their time; with a velocity command ``velocity_error`` (m/s) and ``yaw_rate_error``
        (rad/s), means over all environments and steps after ``settle``; likewise the task's metrics terms and
        everything that the command terms' ``evaluation()`` gives, under their names; ``criterion`` and ``passed``.

    Raises:
        CheckpointError: No such checkpoint, or it does not fit.
        ValueError: ``settle`` is not within the episode length.
    """
    out = sys.stdout if stream is None else stream
    rollout = open_rollout(
        composed,
        checkpoint,
        num_envs=num_envs,
        log_root=log_root,
        noise=noise,
        interval_events=pushes,
        command=command,
        make_env=make_env,
    )
    try:
        results = run_episodes(rollout, settle=settle, stream=out)
    finally:
        rollout.env.close()
    results = {
        "task": composed.task,
        "checkpoint": str(rollout.path),
        "iteration": rollout.policy.iteration,
        **results,
    }
    judge(results, criterion)
    print_results(results, out)
    return results


def judge(results: dict[str, Any], criterion: Mapping[str, float] | None = None) -> bool:
    """Whether ``results`` keep the bounds; writes ``criterion`` (those that apply) and ``passed`` into them.

    Args:
        results: As :func:`run_episodes` gives them.
        criterion: Bounds by name of the result; None: :data:`CRITERION`.
    """
    bounds = {k: v for k, v in (CRITERION if criterion is None else criterion).items() if k in results}
    results["criterion"] = bounds
    results["passed"] = "gave_up_after_s" not in results and all(
        _keeps(name, results[name], bound) for name, bound in bounds.items()
    )
    return bool(results["passed"])


@torch.no_grad()
def run_episodes(
    rollout: Rollout,
    settle: float = 2.0,
    stream: TextIO | None = None,
    give_up: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The numbers of :func:`evaluate` for an open environment; sums stay on the device until the end.

    Args:
        rollout: Environment and policy; the environment is reset.
        settle: Tracking counts from this age of an episode on, in s.
        stream: Where progress is printed; None prints nothing.
        give_up: Bounds as in :data:`CRITERION`. Stop when ``terminated_percent`` or ``velocity_error`` cannot keep
            its bound any more, looked at once per second of the simulation. The results then are those up to there,
            and say ``gave_up_after_s``.
    """
    env, base, policy = rollout.env, rollout.base, rollout.policy
    steps = int(base.max_episode_length)
    dt = float(base.step_dt)
    if not 0.0 <= settle < steps * dt:
        raise ValueError(f"settle={settle} s must lie within the episode length, {steps * dt:g} s.")
    settle_steps = math.ceil(settle / dt - 1e-6)
    device = env.device
    obs, _ = env.reset()
    policy.reset()
    found = velocity_command(base)
    zeros = torch.zeros(env.num_envs, device=device)
    running = torch.ones(env.num_envs, dtype=torch.bool, device=device)
    fell = torch.zeros_like(running)
    returns, lengths = zeros.clone(), zeros.clone()
    tracking = torch.zeros(3, device=device, dtype=torch.float64)
    manager: Any = getattr(base, "command_manager", None)
    terms = [manager.get_term(name) for name in getattr(manager, "active_terms", None) or ()]
    metrics: Any = getattr(base, "metrics_manager", None)
    metric_values: dict[str, torch.Tensor] = {} if metrics is None else metrics.values
    names = [*metric_values, *(name for term in terms for name in term.evaluation())]
    judged = torch.zeros(2, len(names), device=device, dtype=torch.float64)
    progress = ProgressLine(stream) if stream is not None else None
    every = max(1, round(1.0 / dt))
    gave_up: float | None = None

    for step in range(steps):
        # The step draws new commands at its end: judge by the command that was in force.
        command = base.command_manager.get_command(found[0]).clone() if found else None
        obs, reward, done, extras = env.step(policy(obs))
        policy.reset(done)
        returns += torch.where(running, reward, zeros)
        lengths += running
        fell |= running & done & ~extras["time_outs"]
        running &= ~done
        # Environments that were just reset have age 0 and a new pose.
        old_enough = base.episode_length_buf > settle_steps
        if names:
            pairs = [(value, old_enough) for value in metric_values.values()]
            pairs += [pair for term in terms for pair in term.evaluation().values()]
            values, counts = (torch.stack(x, dim=1) for x in zip(*pairs, strict=True))
            counts = counts & old_enough[:, None]
            judged += torch.stack([torch.where(counts, values, 0.0).sum(0), counts.sum(0)]).double()
        if found is not None and command is not None:
            data = found[1].data
            planar = torch.linalg.vector_norm(data.root_lin_vel_b[:, :2] - command[:, :2], dim=1)
            yaw = (data.root_ang_vel_b[:, 2] - command[:, 2]).abs()
            zero = torch.zeros_like(planar)
            tracking += torch.stack(
                [
                    torch.where(old_enough, planar, zero).sum(),
                    torch.where(old_enough, yaw, zero).sum(),
                    old_enough.sum().to(planar.dtype),
                ]
            ).double()
        if (step + 1) % every == 0 and step + 1 < steps:
            if progress is not None:
                progress.show(f"{(step + 1) * dt:.0f} of {steps * dt:.0f} s simulated")
            if give_up is not None:
                terminated, error = torch.stack([fell.double().mean(), tracking[0]]).tolist()
                # The least that the error can become, with none in the steps that are left.
                error /= env.num_envs * (steps - settle_steps)
                bounds = {"terminated_percent": 100.0 * terminated, "velocity_error": error}
                if any(value > give_up.get(name, math.inf) for name, value in bounds.items()):
                    gave_up = (step + 1) * dt
                    break
    if progress is not None:
        progress.close()

    results: dict[str, Any] = {
        "num_envs": env.num_envs,
        "episode_length_s": steps * dt,
        "mean_return": float(returns.mean()),
        "mean_episode_length": float(lengths.mean()) * dt,
        "terminated_percent": 100.0 * float(fell.float().mean()),
    }
    if gave_up is not None:
        results["gave_up_after_s"] = gave_up
    if found is not None or names:
        results["settle_s"] = settle
    sums, numbers = judged.tolist()
    results.update({n: x / c if c else math.nan for n, x, c in zip(names, sums, numbers, strict=True)})
    if found is not None:
        planar_sum, yaw_sum, count = tracking.tolist()
        results["velocity_error"] = planar_sum / count if count else math.nan
        results["yaw_rate_error"] = yaw_sum / count if count else math.nan
    base.pop_logs()
    return results


def print_results(results: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Print the numbers of :func:`evaluate` with the criterion beside them."""
    out = sys.stdout if stream is None else stream
    print(
        f"{results['task']}: {results['num_envs']} episodes of {results['episode_length_s']:g} s, "
        f"{_short_path(results['checkpoint'])} (iteration {results['iteration']})",
        file=out,
    )
    # A task's own metrics have no label: their names serve.
    told = {"episode_length_s", "settle_s", *_LABELS}
    own = {n: (n, "") for n, x in results.items() if isinstance(x, float) and n not in told}
    for name, (label, unit) in {**own, **_LABELS}.items():
        if name not in results:
            continue
        value, bound = results[name], results["criterion"].get(name)
        line = f"  {label:<44}{value:>10.3f} {unit:<6}"
        if bound is not None:
            side = "at least" if name in AT_LEAST else "at most"
            line += f"  {side} {bound:g}: {'met' if _keeps(name, value, bound) else 'NOT met'}"
        print(line.rstrip(), file=out)
    if results["criterion"]:
        print(f"  criterion {'met' if results['passed'] else 'NOT met'}", file=out)


def _keeps(name: str, value: float, bound: float) -> bool:
    return value >= bound if name in AT_LEAST else value <= bound


def _short_path(path: str) -> str:
    return str(Path(*Path(path).parts[-2:]))
