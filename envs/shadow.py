# SPDX-License-Identifier: Apache-2.0
"""A step replayed and the same step run eagerly: which terms differ."""

from __future__ import annotations

import math
from typing import Any

import torch

# A term differs when in this part of the environments it is off by this part of its mean magnitude. Sums that a GPU
# forms in any order differ by far less within one step.
_PART_OF_ENVS = 0.05
_TOLERANCE = 1e-2


class Probe:
    """Copies of what the terms gave in the last step.

    Args:
        env: The environment.
    """

    def __init__(self, env: Any):
        self._env = env
        #: By stage of the step, in order: key path → (E, …).
        self._stages = [
            self._actions(env),
            {
                **self._rows("rewards", env.reward_manager, env.reward_manager._values),
                **self._rows("terminations", env.termination_manager, env.termination_manager._dones),
                **self._rows("metrics", env.metrics_manager, env.metrics_manager._values),
            },
            self._state(env),
            self._commands(env),
            self._observations(env),
        ]

    @staticmethod
    def _actions(env: Any) -> dict[str, torch.Tensor]:
        manager = env.action_manager
        return {f"actions.{n}": manager.get_term(n).processed_actions.clone() for n in manager.active_terms}

    @staticmethod
    def _rows(section: str, manager: Any, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        names = getattr(manager, "_ordered_terms", list(manager._terms))
        return {f"{section}.{n}": row.clone() for n, row in zip(names, rows, strict=True)}

    @staticmethod
    def _state(env: Any) -> dict[str, torch.Tensor]:
        engine = env.scene.engine
        env.scene._sync()
        return {"pose": engine.body_pose.clone(), "velocity": engine.body_vel.clone()}

    @staticmethod
    def _commands(env: Any) -> dict[str, torch.Tensor]:
        found = {}
        for name in env.command_manager.active_terms:
            try:
                found[f"commands.{name}"] = env.command_manager.get_command(name).clone()
            except RuntimeError:
                continue  # gives no command
        return found

    @staticmethod
    def _observations(env: Any) -> dict[str, torch.Tensor]:
        manager = env.observation_manager
        found = {}
        for group, value in manager.values().items():
            for name, part in manager.split_terms(group, value).items():
                found[f"observations.{group}.{name}"] = part.clone()
        return found

    def differences(self, other: Probe) -> list[str]:
        """Key paths of the terms to blame, the first stage that differs; "" when it is none of them."""
        actions, values, state, commands, observations = [
            [path for path, value in mine.items() if _differ(value, theirs[path])]
            for mine, theirs in zip(self._stages, other._stages, strict=True)
        ]
        if actions or values:
            return actions or values
        if state:
            return self._writers() or [""]
        return commands or observations

    def _writers(self) -> list[str]:
        """Terms that may have written the state and are not of this library."""
        env, found = self._env, []
        for manager in (env.curriculum_manager, env.event_manager):
            for term in manager._terms.values():
                if not getattr(term.func, "__module__", type(term.func).__module__).startswith("forcelab."):
                    found.append(term.path)
        return found


def _differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype is torch.bool:
        off = a != b
    else:
        a, b = (torch.nan_to_num(x.float()) for x in (a, b))
        scale = torch.maximum(a.abs().mean(), b.abs().mean())
        off = (a - b).abs() > _TOLERANCE * scale
    count = int(off.flatten(1).any(dim=1).sum()) if off.dim() > 1 else int(off.sum())
    return count >= max(1, math.ceil(_PART_OF_ENVS * a.shape[0]))
