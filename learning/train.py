# SPDX-License-Identifier: Apache-2.0
"""Train a policy: run folder, resuming, Ctrl-C."""

from __future__ import annotations

import copy
import difflib
import os
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from . import checkpoint as ckpt
from .device_logger import check_logger
from .distributed import Ranks, draw_seed, from_main, join
from .inference import default_env
from .runner import PpoRunner
from .vec_env import RslRlVecEnv


@dataclass
class TrainResult:
    """What :func:`train` did.

    Attributes:
        run_dir: Run folder.
        checkpoint: Newest checkpoint; None when there is none.
        iterations: Iterations completed since the start of training, earlier sessions included.
        signal: Number of the signal that ended training early; None when it was completed.
        scalars: The last iteration's logged numbers (``Train/mean_reward`` …).
    """

    run_dir: Path
    checkpoint: Path | None
    iterations: int
    signal: int | None
    scalars: dict[str, float]

    @property
    def exit_code(self) -> int:
        """0, or what a shell reports for a process ended by the signal (130 for Ctrl-C)."""
        return 0 if self.signal is None else 128 + self.signal


def train(
    composed: Any,
    *,
    resume: bool | str | os.PathLike[str] = False,
    log_root: str | os.PathLike[str] = "logs",
    command: Sequence[str] | None = None,
    make_env: Callable[[Any], Any] | None = None,
    stream: TextIO | None = None,
) -> TrainResult:
    """Train ``composed.agent`` on ``composed.env``.

    Args:
        composed: :func:`forcelab.configs.compose`'s result: ``task``, ``env``, ``agent`` and ``to_yaml()``.
        resume: True continues the newest run of the experiment; a path or run name continues that one.
            Training ends at ``agent.max_iterations`` iterations in total. From a checkpoint that is not the
            newest of its run, training continues in a new run folder.
        log_root: Folder of all experiments.
        command: The command line without its program name, for the hint how to resume.
        make_env: Builds the environment from its configuration; None: ``ManagerBasedRlEnv``.
        stream: Where progress is printed; None: standard output.

    Raises:
        CheckpointError: The checkpoint to resume does not exist, is damaged or is of another task.
        ModuleNotFoundError: ``agent.logger=wandb`` without wandb.
    """
    out = sys.stdout if stream is None else stream
    agent, task = composed.agent, composed.task
    ranks = Ranks.from_environ()
    check_logger(agent.logger)
    _check_numbers(agent)

    source: Path | None = None
    header: dict[str, Any] = {}
    if resume:
        which = "latest" if resume is True or str(resume).lower() in ("true", "latest") else resume
        source = ckpt.find_checkpoint(which, experiment=agent.experiment_name, log_root=log_root, task=task)
        header = ckpt.read_checkpoint(source)["forcelab"]
        ckpt.check_task(header, task, source)
        if int(header["iteration"]) >= agent.max_iterations:
            if ranks.is_main:
                print(
                    f"{source} has {header['iteration']} iterations already; agent.max_iterations="
                    f"{agent.max_iterations} asks for no more. Raise it to continue.",
                    file=out,
                )
            return TrainResult(source.parent, source, int(header["iteration"]), None, {})

    device = ranks.device(composed.env.device)
    join(ranks, device)
    # One base seed for all processes; a resumed run keeps its own, so that startup randomisation is the same.
    seed = composed.env.seed
    if seed is None:
        seed = header.get("seed")
    if seed is None:
        seed = from_main(ranks, draw_seed())
    composed.env.seed = seed
    text = composed.to_yaml()
    run_dir = _run_dir(source, Path(log_root), agent, ranks)
    old_text = _newest_config(source.parent) if source is not None else None
    same_config = old_text is None or _without_agent(old_text) == _without_agent(text)

    env_cfg = copy.deepcopy(composed.env)
    env_cfg.device = device
    env_cfg.seed = ranks.seed(seed)
    stop = _StopSignals(out if ranks.is_main else None)
    env: RslRlVecEnv | None = None
    runner: PpoRunner | None = None
    saved: Path | None = source
    try:
        with stop:
            base = default_env(env_cfg) if make_env is None else make_env(env_cfg)
            env = RslRlVecEnv(base, rollout_length=agent.num_steps_per_env, clip_actions=agent.clip_actions)
            runner = PpoRunner(
                env,
                agent,
                run_dir,
                device=str(env.device),
                task=task,
                ranks=ranks,
                seed=seed,
                stream=out,
            )
            if source is not None:
                notes = runner.resume(source, same_config=same_config)
                if ranks.is_main:
                    print(
                        f"Resuming {source} after {runner.current_learning_iteration} iterations.", file=out
                    )
                    if not same_config:
                        changed = _changed_lines(old_text or "", text)
                        notes.append(f"the environment's configuration has changed ({changed})")
                    for note in notes:
                        print(f"  Note: {note}.", file=out)
            if ranks.is_main:
                ckpt.clean_temporary(run_dir)
                name = "config.yaml"
                if (
                    source is not None
                    and source.parent == run_dir
                    and old_text is not None
                    and old_text != text
                ):
                    name = f"config_from_{runner.current_learning_iteration}.yaml"
                ckpt.write_text_atomic(text, run_dir / name)
                each = f" in each of {ranks.world_size} processes" if ranks.is_distributed else ""
                print(
                    f"Training {task} in {run_dir}: {env.num_envs} environments on {env.device}{each}, "
                    f"seed {seed}, {agent.max_iterations} iterations.",
                    file=out,
                )
            stop.target = runner
            finished = runner.learn_until(
                agent.max_iterations, init_at_random_ep_len=agent.init_at_random_ep_len and source is None
            )
            done = runner.current_learning_iteration
            if not finished:
                saved = ckpt.model_path(run_dir, done)
                if not saved.is_file() and done > int(header.get("iteration", 0)):
                    runner.save_checkpoint()
            newest = ckpt.list_checkpoints(run_dir)
            saved = newest[-1][1] if newest else source
    except Exception as error:
        newest = ckpt.list_checkpoints(run_dir)
        if newest:
            error.add_note(f"Newest checkpoint: {newest[-1][1]}")
        raise
    except KeyboardInterrupt:
        # A second Ctrl-C, or one before training started: nothing more is written.
        newest = ckpt.list_checkpoints(run_dir)
        saved = newest[-1][1] if newest else source
    finally:
        if env is not None:
            env.close()
        if ranks.is_main and not any(run_dir.iterdir()):
            run_dir.rmdir()

    done = 0 if runner is None else runner.current_learning_iteration
    scalars = {} if runner is None else dict(runner.logger.last)
    if ranks.is_main:
        if stop.received is None:
            print(f"Finished {done} iterations: {saved}", file=out)
        elif saved is None:
            print("Stopped before the first checkpoint: there is nothing to resume.", file=out)
        else:
            hint = _resume_command(command, task, run_dir if ckpt.list_checkpoints(run_dir) else saved)
            print(f"Stopped after {done} iterations: {saved}\nResume with: {hint}", file=out)
    return TrainResult(run_dir, saved, done, stop.received, scalars)


class _StopSignals:
    """While active, SIGINT or SIGTERM asks the runner to stop after the iteration; a second stops at once."""

    def __init__(self, out: TextIO | None) -> None:
        self.out = out
        self.target: PpoRunner | None = None
        self.received: int | None = None
        self._received_at: float | None = None
        self._old: dict[int, Any] = {}

    def __enter__(self) -> _StopSignals:
        # Python delivers signals to the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._old.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        # Launchers pass a signal on that the process group gets as well: twice at once counts once.
        again = self._received_at is not None
        if self._received_at is not None and now - self._received_at < 0.5:
            return
        self.received, self._received_at = number, now
        if self.target is None or again:
            raise KeyboardInterrupt
        self.target.stop_requested = True
        if self.out is not None:
            self.out.write("\nStopping after this iteration; once more to stop at once, without saving.\n")
            self.out.flush()


def _check_numbers(agent: Any) -> None:
    for name in ("num_steps_per_env", "max_iterations", "save_interval"):
        value = getattr(agent, name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"agent.{name} must be a whole number of at least 1, found {value!r}.")
    for model in ("actor", "critic"):
        widths = getattr(agent, model).hidden_dims
        if not all(isinstance(w, int) and w > 0 for w in widths):
            raise ValueError(
                f"agent.{model}.hidden_dims must be whole numbers of at least 1, found {widths!r}."
            )


def _run_dir(source: Path | None, log_root: Path, agent: Any, ranks: Ranks) -> Path:
    if source is not None:
        checkpoints = ckpt.list_checkpoints(source.parent)
        if checkpoints and checkpoints[-1][1] == source:
            return source.parent
    path = _new_dir(log_root / agent.experiment_name, agent.run_name) if ranks.is_main else None
    return from_main(ranks, path)


def _new_dir(experiment: Path, run_name: str) -> Path:
    name = time.strftime("%Y-%m-%d_%H-%M-%S") + (f"_{_file_name(run_name)}" if run_name else "")
    number = 1
    while True:
        path = experiment / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            number += 1


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text)


def _newest_config(run_dir: Path) -> str | None:
    found = [(-1, run_dir / "config.yaml")]
    for path in run_dir.glob("config_from_*.yaml"):
        number = path.stem.rpartition("_")[2]
        if number.isdigit():
            found.append((int(number), path))
    path = max(found)[1]
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _without_agent(text: str) -> list[str]:
    """Lines of a composed configuration that belong to the environment, without seed and device."""
    lines, inside = [], False
    for line in text.splitlines():
        if line and not line[0].isspace() and not line.startswith("-"):
            inside = line.split(":", 1)[0].strip() in ("agent", "choices")
        if not inside and line.strip().split(":", 1)[0] not in ("seed", "device"):
            lines.append(line)
    return lines


def _changed_lines(old: str, new: str) -> str:
    diff = [
        line
        for line in difflib.unified_diff(_without_agent(old), _without_agent(new), lineterm="", n=0)
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    shown = "; ".join(f"{line[0]} {line[1:].strip()}" for line in diff[:4])
    return shown + ("; …" if len(diff) > 4 else "")


def _resume_command(command: Sequence[str] | None, task: str, where: Path) -> str:
    words = ["train", f"task={task}"] if not command else [w for w in command if not w.startswith("resume=")]
    return "forcelab " + " ".join(shlex.quote(word) for word in [*words, f"resume={where}"])
