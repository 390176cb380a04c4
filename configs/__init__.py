# SPDX-License-Identifier: Apache-2.0
"""The Hydra tree and what makes typed configurations of it. Imports neither torch nor Hydra."""

# Imported at once rather than on demand: the function `compose` shares its name with its module.
from .compose import ComposedCfg, apply_overrides, compose, compose_saved, from_yaml, take_searchpath, to_yaml
from .errors import ConfigError
from .overrides import expand_sweeps
from .registry import TaskInfo, list_tasks, resolve_task

__all__ = [
    "ComposedCfg",
    "ConfigError",
    "TaskInfo",
    "apply_overrides",
    "compose",
    "compose_saved",
    "expand_sweeps",
    "from_yaml",
    "list_tasks",
    "resolve_task",
    "take_searchpath",
    "to_yaml",
]
