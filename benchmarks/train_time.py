# SPDX-License-Identifier: Apache-2.0
"""How long training takes from the start of the process until a policy meets the task's criterion."""

from __future__ import annotations

import copy
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

_CHILD = "from forcelab.benchmarks.train_time import child; child()"
_HEAD = (
    f"{'seed':>6}{'met':>6}{'total':>10}{'iterations':>12}{'start-up':>11}{'collect':>10}{'learn':>9}"
    f"{'evaluate':>10}"
)


def train_time(
    composed: Any,
    seeds: Sequence[int] = (1, 2, 3),
    *,
    every: int = 25,
    first: int | None = None,
    episodes: int = 256,
    settle: float = 2.0,
    criterion: Mapping[str, float] | None = None,
    warm: bool = True,
    output: str | os.PathLike[str] | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Train once per seed, each in a fresh process, and print a table.

    The clock starts before the process does and stops when an evaluation is passed. It includes the imports, building
    both environments, and every evaluation. Checkpoints and TensorBoard files are not written.

    Args:
        composed: :func:`forcelab.configs.compose`'s result; ``agent.max_iterations`` is where a run ends in any case.
        seeds: Seeds, one run each.
        every: Iterations between two evaluations; the last iteration is followed by one in any case.
        first: Iterations before the first evaluation; None: ``every``.
        episodes: Environments, hence episodes, of an evaluation.
        settle: Tracking counts from this age of an episode on, in s.
        criterion: Bounds by name of the result; None: those of :func:`forcelab.learning.evaluate.evaluate`.
        warm: Fill Warp's kernel cache first, by a run of one iteration that does not count.
        output: JSON file to write.
        stream: Where the table is printed; None: standard output.

    Returns:
        The report: ``median_s`` (None when the criterion was not met in most runs), ``runs`` with the times and the
        evaluations of each, settings, versions and machine.

    Raises:
        ValueError: Numbers that cannot be.
        RuntimeError: A run failed.
    """
    from .bench import machine

    out = sys.stdout if stream is None else stream
    if not seeds or min(every, episodes, 1 if first is None else first) < 1:
        raise ValueError(
            f"seeds={list(seeds)}, every={every}, first={first}, episodes={episodes}: there must be a seed, and each "
            "number must be at least 1."
        )
    length = float(composed.env.episode_length_s)
    if not 0.0 <= settle < length:
        raise ValueError(f"settle={settle} s must lie within the episode length, {length:g} s.")
    agent, device = composed.agent, str(composed.env.device)
    options = {
        "every": every,
        "first": every if first is None else first,
        "episodes": episodes,
        "settle": settle,
        "criterion": None if criterion is None else dict(criterion),
    }
    print(
        f"{composed.task} on {device}, {composed.env.scene.num_envs} environments, at most {agent.max_iterations} "
        f"iterations; evaluated every {every} iterations by {episodes} episodes",
        file=out,
        flush=True,
    )
    if warm:
        _run(composed, int(seeds[0]), {**options, "first": 1, "every": 1}, iterations=1)
    print(_HEAD, file=out, flush=True)
    runs = []
    for seed in seeds:
        run = _run(composed, int(seed), options, iterations=int(agent.max_iterations))
        runs.append(run)
        print(_row(run), file=out, flush=True)
    total = statistics.median(run["total_s"] if run["met"] else math.inf for run in runs)
    report = {
        "task": composed.task,
        **machine(),
        "device": runs[0]["device"],
        "num_envs": int(composed.env.scene.num_envs),
        "num_steps_per_env": int(agent.num_steps_per_env),
        "max_iterations": int(agent.max_iterations),
        "capture_inference": bool(agent.capture_inference),
        "kernel_cache": "warm: a run before that does not count" if warm else "as found",
        **options,
        "criterion": runs[0]["evaluations"][-1]["criterion"]
        if runs[0]["evaluations"]
        else options["criterion"],
        "median_s": total if math.isfinite(total) else None,
        "runs": runs,
    }
    met = sum(run["met"] for run in runs)
    print(
        f"criterion met by {met} of {len(runs)} seeds"
        + (f", median {total:.1f} s from the start of the process" if math.isfinite(total) else ""),
        file=out,
    )
    if output is not None:
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print(f"Wrote {path}", file=out)
    return report


def _run(composed: Any, seed: int, options: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """One run in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder, "task.yaml")
        task.write_text(composed.to_yaml(), encoding="utf-8")
        order = {**options, "task": str(task), "seed": seed, "iterations": iterations}
        order["result"] = str(Path(folder, "result.json"))
        # A process's monotonic clock says nothing about another's on every system.
        order["started"] = time.time()
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, json.dumps(order)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(
                f"The run with seed {seed} ended with code {done.returncode}:\n{done.stderr.strip()[-2000:]}"
            )
        return dict(json.loads(Path(order["result"]).read_text(encoding="utf-8")))


def child() -> None:
    """The process of one run: the order is JSON in the first argument."""
    order = json.loads(sys.argv[1])
    result = measure(**{k: v for k, v in order.items() if k != "result"})
    Path(order["result"]).write_text(json.dumps(result), encoding="utf-8")


def measure(
    task: str,
    seed: int,
    iterations: int,
    *,
    every: int,
    first: int,
    episodes: int,
    settle: float,
    criterion: Mapping[str, float] | None,
    started: float,
) -> dict[str, Any]:
    """One run in this process.

    Args:
        task: YAML file of a composed configuration.
        seed: Seed of the environment, the networks and the rollouts.
        iterations: Iterations after which the run ends in any case.
        every, first, episodes, settle, criterion: See :func:`train_time`.
        started: ``time.time()`` of the start.

    Returns:
        Times in s. ``start_up`` splits into ``imports_s``, ``environment_s``, ``evaluation_environment_s``,
        ``networks_s`` and ``first_steps_s``: what the first rollout took longer than the median one, which is the
        compilation and the capturing that was left. ``confirmation`` is one more evaluation with other random numbers
        after the clock was stopped.
    """
    from forcelab.configs import from_yaml
    from forcelab.learning.evaluate import CRITERION, judge, run_episodes
    from forcelab.learning.inference import Rollout, default_env, quiet_env_cfg
    from forcelab.learning.policy import Policy
    from forcelab.learning.runner import PpoRunner, generator_states, load_generator_states
    from forcelab.learning.vec_env import RslRlVecEnv

    from .step_time import _device_name

    composed = from_yaml(Path(task))
    agent, cfg = composed.agent, composed.env
    cfg.seed = seed
    if type(cfg.physics).__name__ == "NewtonCfg":
        import forcelab.physics.newton  # noqa: F401 - otherwise imported while the environment is built
    marks = {"imports_s": time.time()}
    env = RslRlVecEnv(default_env(copy.deepcopy(cfg)), agent.num_steps_per_env, agent.clip_actions)
    marks["environment_s"] = time.time()
    judged: RslRlVecEnv | None = None
    try:
        runner = PpoRunner(env, agent, device=str(env.device), task=composed.task, seed=seed)
        data = runner.checkpoint_data()
        policy = Policy(data["forcelab"], data["actor_state_dict"], env.device)
        marks["networks_s"] = time.time()

        # Building an environment seeds the generators; training goes on as if it had not been built.
        states = generator_states(env.device)
        quiet = quiet_env_cfg(cfg)
        quiet.scene.num_envs = episodes
        judged = RslRlVecEnv(default_env(quiet), clip_actions=agent.clip_actions)
        rollout = Rollout(judged, policy, Path(task))
        load_generator_states(states, env.device)
        marks["evaluation_environment_s"] = time.time()

        collection, learning, evaluations = [], [], []
        evaluating = 0.0
        bounds = CRITERION if criterion is None else criterion

        def evaluate(number: int, give_up: Mapping[str, float] | None) -> dict[str, Any]:
            import torch

            states = generator_states(env.device)
            torch.manual_seed(number)
            policy.model.load_state_dict(runner.alg.get_policy().state_dict())
            results = run_episodes(rollout, settle, give_up=give_up)
            load_generator_states(states, env.device)
            judge(results, bounds)
            return results

        def after(runner: PpoRunner) -> None:
            nonlocal evaluating
            collection.append(runner.logger.last["Perf/collection_time"])
            learning.append(runner.logger.last["Perf/learning_time"])
            done = runner.current_learning_iteration
            due = done >= first and (done - first) % every == 0
            if not due and done < iterations:
                return
            before = time.time()
            results = evaluate(1_000_003 * seed, bounds)
            now = time.time()
            evaluating += now - before
            evaluations.append({"iteration": done, "at_s": now - started, "took_s": now - before, **results})
            runner.stop_requested = bool(results["passed"])

        runner.learn_until(iterations, init_at_random_ep_len=agent.init_at_random_ep_len, on_iteration=after)
        total = time.time() - started
        met = bool(evaluations and evaluations[-1]["passed"])
        confirmation = evaluate(1_000_003 * seed + 1, None) if met else None
    finally:
        for each in (env, judged):
            if each is not None:
                each.close()

    extra = max(0.0, collection[0] - statistics.median(collection[1:])) if len(collection) > 1 else 0.0
    start_up, last = {}, started
    for name, mark in marks.items():
        start_up[name], last = mark - last, mark
    start_up["first_steps_s"] = extra
    times = {
        "start_up_s": sum(start_up.values()),
        "collection_s": sum(collection) - extra,
        "learning_s": sum(learning),
        "evaluation_s": evaluating,
    }
    return {
        "seed": seed,
        "device": _device_name(env.device),
        "met": met,
        "total_s": total,
        "iterations": runner.current_learning_iteration,
        "env_steps": runner.logger.tot_timesteps,
        **times,
        "other_s": total - sum(times.values()),
        "start_up": start_up,
        "evaluations": evaluations,
        "confirmation": confirmation,
    }


def _row(run: Mapping[str, Any]) -> str:
    parts = (f"{run[f'{name}_s']:.1f} s" for name in ("start_up", "collection", "learning", "evaluation"))
    start, collect, learn, judge = parts
    return (
        f"{run['seed']:>6}{'yes' if run['met'] else 'no':>6}{run['total_s']:>8.1f} s{run['iterations']:>12}"
        f"{start:>11}{collect:>10}{learn:>9}{judge:>10}"
    )


if __name__ == "__main__":
    # ``python -m forcelab.benchmarks.train_time task=velocity_flat device=cuda:0 'seeds=[1,2,3]'``
    from forcelab.cli import main as command

    raise SystemExit(command(["bench", "train", *sys.argv[1:]]))
