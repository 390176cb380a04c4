# SPDX-License-Identifier: Apache-2.0
"""forcelab: manager-based reinforcement-learning environments for robots that feel force.

Importing it registers the environments with Gymnasium and loads neither torch nor an engine.
"""

from __future__ import annotations

__version__ = "0.1.0"


def _register() -> None:
    from forcelab.configs.registry import list_tasks
    from forcelab.envs import register_envs

    register_envs({task.id: task.name for task in list_tasks() if task.id})


_register()
