# SPDX-License-Identifier: Apache-2.0
"""The tasks that exist, read from the group ``task`` of the trees. Imports neither torch nor Hydra."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from forcelab.physics.errors import near

from .errors import ConfigError
from .yaml_io import load

# Keys of a task's file that describe it and are no configuration.
META_KEYS = ("id", "description")


@dataclass(frozen=True)
class TaskInfo:
    """One task.

    Attributes:
        name: Its name in ``task=name``, the file's name.
        id: Its Gymnasium id; empty when it has none.
        description: One line.
    """

    name: str
    id: str
    description: str


def _folders(searchpath: Sequence[str]) -> list[pathlib.Path]:
    folders = [pathlib.Path(__file__).parent]
    for entry in searchpath:
        scheme, sep, rest = entry.partition("://")
        if not sep:
            folders.append(pathlib.Path(entry))
        elif scheme == "file":
            folders.append(pathlib.Path(rest))
        elif scheme == "pkg":
            try:
                spec = importlib.util.find_spec(rest.replace("/", "."))
            except ModuleNotFoundError:
                spec = None
            if spec is None:
                raise ConfigError(f"there is no package {rest!r}", "hydra.searchpath")
            folders += [pathlib.Path(p) for p in spec.submodule_search_locations or ()]
    return folders


def list_tasks(searchpath: Sequence[str] = ()) -> list[TaskInfo]:
    """All tasks, forcelab's first, each tree in alphabetical order.

    Args:
        searchpath: Further trees: folders, ``file://…`` or ``pkg://…``.

    Raises:
        ConfigError: A task's file is not valid YAML.
    """
    tasks: dict[str, TaskInfo] = {}
    for folder in _folders(searchpath):
        for file in sorted((folder / "task").glob("*.yaml")):
            values = load(file.read_text(encoding="utf-8"), str(file))
            values = values if isinstance(values, dict) else {}
            # Of equal names Hydra takes the first tree's.
            tasks.setdefault(
                file.stem,
                TaskInfo(
                    file.stem,
                    str(values.get("id") or ""),
                    " ".join(str(values.get("description") or "").split()),
                ),
            )
    return list(tasks.values())


def resolve_task(name: str, searchpath: Sequence[str] = ()) -> TaskInfo:
    """The task with a name or Gymnasium id.

    Raises:
        ConfigError: There is none; near names.
    """
    tasks = list_tasks(searchpath)
    for task in tasks:
        if name in (task.name, task.id) and name:
            return task
    known = [t.id for t in tasks if t.id] if "/" in name else [t.name for t in tasks]
    raise ConfigError(f"there is no task {name!r}.{near(name, known)}", "task")
