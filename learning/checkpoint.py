# SPDX-License-Identifier: Apache-2.0
"""Checkpoint files: names, atomic writing, finding, reading, and the check that one fits an environment.

A run folder ``<log root>/<experiment>/<time>[_<run name>]`` holds ``model_<iterations done>.pt``, the
composed ``config.yaml``, TensorBoard events, and for the newest checkpoint ``state_<iterations
done>.rank<r>.pt`` with the state of the simulation, from which training continues exactly where it stopped.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from forcelab.physics.errors import near

#: Version of the file layout; raised when an old reader could not understand a new file.
FORMAT = 1

_MODEL = re.compile(r"model_(\d+)\.pt")
_STATE = re.compile(r"state_(\d+)\.rank(\d+)\.pt")
POLICY_DIR = Path(__file__).parent / "policies"


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged, or belongs to something else."""


# ---- writing ----


def save_atomic(data: Any, path: str | os.PathLike[str]) -> None:
    """``torch.save`` that leaves either the old file, or the whole new one.

    The data goes to a temporary file in the same folder, is flushed to the disk and then renamed. A process
    that is killed in between leaves at most a file ``.<name>.<random>.tmp``, which no reader looks at.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text_atomic(text: str, path: str | os.PathLike[str]) -> None:
    """Write a text file so that it is never seen half-written."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


# ---- finding ----


def model_path(run_dir: str | os.PathLike[str], iteration: int) -> Path:
    """Path of the checkpoint written after ``iteration`` iterations."""
    return Path(run_dir) / f"model_{iteration}.pt"


def state_path(run_dir: str | os.PathLike[str], iteration: int, rank: int) -> Path:
    """Path of the simulation state of process ``rank`` after ``iteration`` iterations."""
    return Path(run_dir) / f"state_{iteration}.rank{rank}.pt"


def list_checkpoints(run_dir: str | os.PathLike[str]) -> list[tuple[int, Path]]:
    """(iterations done, path) of every checkpoint of a run, oldest first."""
    found = []
    run_dir = Path(run_dir)
    if run_dir.is_dir():
        for path in run_dir.iterdir():
            match = _MODEL.fullmatch(path.name)
            if match:
                found.append((int(match.group(1)), path))
    return sorted(found)


def list_runs(experiment_dir: str | os.PathLike[str]) -> list[Path]:
    """Run folders of an experiment that hold a checkpoint, oldest first (by their newest checkpoint)."""
    experiment_dir = Path(experiment_dir)
    if not experiment_dir.is_dir():
        return []
    runs = []
    for path in experiment_dir.iterdir():
        checkpoints = list_checkpoints(path)
        if checkpoints:
            runs.append((checkpoints[-1][1].stat().st_mtime_ns, path.name, path))
    return [path for _, _, path in sorted(runs)]


def clean_temporary(run_dir: str | os.PathLike[str]) -> None:
    """Delete what a killed process left half-written."""
    for path in Path(run_dir).glob(".*.tmp"):
        path.unlink(missing_ok=True)


def clean_states(run_dir: str | os.PathLike[str], keep: int, rank: int) -> None:
    """Delete the simulation states of process ``rank`` other than that of iteration ``keep``."""
    for path in Path(run_dir).iterdir():
        match = _STATE.fullmatch(path.name)
        if match and int(match.group(2)) == rank and int(match.group(1)) != keep:
            path.unlink(missing_ok=True)


def find_checkpoint(
    which: str | os.PathLike[str] = "latest",
    *,
    experiment: str | None = None,
    log_root: str | os.PathLike[str] = "logs",
    task: str | None = None,
) -> Path:
    """Path of a checkpoint file.

    Args:
        which: ``latest`` (newest checkpoint of the newest run of the experiment), ``pretrained`` (the policy
            shipped for ``task``), a checkpoint file, a run folder, or the name of a run of the experiment
            (a regular expression is accepted too; the newest match is taken).
        experiment: Experiment name, the folder below ``log_root``.
        log_root: Folder of all experiments.
        task: Task name; needed for ``pretrained``.

    Raises:
        CheckpointError: Nothing is found; the message says where it was looked for and what is there.
    """
    name = os.fspath(which)
    if name == "pretrained":
        return pretrained_path(task)
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        return _newest(path)
    if path.suffix == ".pt" or path.is_absolute():
        here = [str(p.name) for _, p in list_checkpoints(path.parent)]
        raise CheckpointError(f"No checkpoint {str(path)!r}.{near(path.name, here)}")

    if experiment is None:
        raise CheckpointError(
            f"checkpoint={name!r} is no file or folder, and no experiment is named in which to look for it."
        )
    folder = Path(log_root) / experiment
    runs = list_runs(folder)
    if not runs:
        others = [p.name for p in sorted(Path(log_root).glob("*")) if list_runs(p)]
        hint = f" Experiments with checkpoints there: {', '.join(others)}." if others else ""
        raise CheckpointError(
            f"checkpoint={name!r}: no run with a checkpoint in {str(folder)!r}.{hint} "
            "Train first, or give the path of a checkpoint file."
        )
    if name == "latest":
        return _newest(runs[-1])
    matching = [run for run in runs if run.name == name]
    if not matching:
        try:
            matching = [run for run in runs if re.fullmatch(name, run.name)]
        except re.error:
            matching = []
    if not matching:
        raise CheckpointError(f"No run {name!r} in {str(folder)!r}.{near(name, [run.name for run in runs])}")
    return _newest(matching[-1])


def pretrained_path(task: str | None) -> Path:
    """Path of the policy shipped for ``task``.

    Raises:
        CheckpointError: No policy is shipped for this task.
    """
    shipped = sorted(p.stem for p in POLICY_DIR.glob("*.pt"))
    path = POLICY_DIR / f"{task}.pt"
    if task is None or not path.is_file():
        raise CheckpointError(
            f"No pretrained policy is shipped for task {task!r}. "
            + (f"Shipped: {', '.join(shipped)}." if shipped else "None is shipped with this version.")
        )
    return path


def _newest(run_dir: Path) -> Path:
    checkpoints = list_checkpoints(run_dir)
    if not checkpoints:
        raise CheckpointError(f"No checkpoint (model_<iterations>.pt) in {str(run_dir)!r}.")
    return checkpoints[-1][1]


# ---- reading ----


def read_checkpoint(path: str | os.PathLike[str], map_location: Any = "cpu") -> dict[str, Any]:
    """Read a checkpoint or shipped policy. Only tensors and plain Python values are unpickled.

    Raises:
        CheckpointError: The file is missing, damaged, or not one of ours.
    """
    data = _read(path, map_location)
    header = data.get("forcelab") if isinstance(data, dict) else None
    if not isinstance(header, dict) or "actor_state_dict" not in data:
        raise CheckpointError(f"{str(path)!r} was not written by forcelab: it has no forcelab header.")
    if int(header.get("format", 0)) > FORMAT:
        raise CheckpointError(
            f"{str(path)!r} has file format {header['format']}, this version reads up to {FORMAT}: "
            "install a newer forcelab."
        )
    return data


def read_state(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Read a simulation state; None when there is no such file."""
    return _read(path, "cpu") if Path(path).is_file() else None


def _read(path: str | os.PathLike[str], map_location: Any) -> Any:
    path = Path(path)
    if not path.is_file():
        others = [p.name for _, p in list_checkpoints(path.parent)]
        raise CheckpointError(f"No checkpoint {str(path)!r}.{near(path.name, others)}")
    try:
        return torch.load(path, map_location=map_location, weights_only=True)
    except Exception as error:
        # A damaged file can make the unpickler raise anything.
        others = [p.name for _, p in list_checkpoints(path.parent) if p != path]
        instead = f" Others beside it: {', '.join(others[-3:])}." if others else ""
        raise CheckpointError(
            f"Cannot read checkpoint {str(path)!r}: it is damaged or no checkpoint ({type(error).__name__}).{instead}"
        ) from None


# ---- checking ----


def check_task(header: Mapping[str, Any], task: str, path: str | os.PathLike[str]) -> None:
    """Raise if a checkpoint was trained on another task (used for resuming).

    Raises:
        CheckpointError: Names both tasks.
    """
    if header.get("task") != task:
        trained = header.get("task")
        raise CheckpointError(
            f"Checkpoint {os.fspath(path)!r} was trained on task {trained!r}, but this is task {task!r}. "
            f"Use task={trained} or another checkpoint."
        )


def check_layout(
    header: Mapping[str, Any], layout: Mapping[str, Any], task: str, path: str | os.PathLike[str]
) -> None:
    """Raise if the environment's observations or actions are not those the policy was trained with.

    Args:
        header: The checkpoint's ``forcelab`` entry.
        layout: :func:`forcelab.learning.layout.policy_layout` of the environment.
        task: Task of the environment.
        path: Checkpoint path, for the message.

    Raises:
        CheckpointError: Names both tasks and the first differences.
    """
    differences = layout_differences(header["layout"], layout)
    if not differences:
        return
    trained = header.get("task")
    what = (
        f"was trained on task {trained!r} and does not fit task {task!r}"
        if trained != task
        else f"does not fit task {task!r} as it is configured now"
    )
    shown = "; ".join(differences[:6]) + ("; …" if len(differences) > 6 else "")
    raise CheckpointError(f"Checkpoint {os.fspath(path)!r} {what}: {shown}.")


def layout_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What matters to a policy and differs: groups, terms, sizes, history; action terms, joints, sizes."""
    out: list[str] = []
    if list(old["policy_groups"]) != list(new["policy_groups"]):
        out.append(
            f"observation groups: checkpoint {old['policy_groups']}, environment {new['policy_groups']}"
        )
        return out
    for group in old["policy_groups"]:
        out += _entries(
            f"observation group {group!r}",
            old["observations"][group],
            new["observations"][group],
            ("size", "history_length"),
        )
    out += _entries("actions", old["actions"], new["actions"], ("size", "joint_names"))
    return out


def _entries(what: str, old: Any, new: Any, keys: tuple[str, ...]) -> list[str]:
    out = []
    a, b = [t["name"] for t in old], [t["name"] for t in new]
    if a != b:
        missing = [n for n in a if n not in b]
        extra = [n for n in b if n not in a]
        if missing:
            out.append(f"{what}: the checkpoint has {', '.join(missing)}, the environment has not")
        if extra:
            out.append(f"{what}: the environment has {', '.join(extra)}, the checkpoint has not")
        if not missing and not extra:
            out.append(f"{what}: order in the checkpoint {a}, in the environment {b}")
        return out
    for x, y in zip(old, new, strict=True):
        for key in keys:
            then, now = x.get(key), y.get(key)
            if then != now:
                out.append(
                    f"{what}, {x['name']}: {key} is {then} in the checkpoint, {now} in the environment"
                )
    return out
