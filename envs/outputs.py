# SPDX-License-Identifier: Apache-2.0
"""What a step returns: kept in one place, so that a fresh copy of all takes two operations."""

from __future__ import annotations

import math
from typing import Any

import torch

Shape = tuple[int, ...]


class Outputs:
    """Moves the managers' results into two pieces of memory, one of floats, one of bools.

    Args:
        env: An environment whose managers have just been made.
    """

    def __init__(self, env: Any):
        observations, rewards = env.observation_manager, env.reward_manager
        shapes: list[Shape] = []
        #: Per group its slots; a slot of None is the whole group.
        self._groups: dict[str, list[tuple[str | None, int]]] = {}
        for group, value in observations.values().items():
            parts = value if isinstance(value, dict) else {None: value}
            self._groups[group] = []
            for name, tensor in parts.items():
                self._groups[group].append((name, len(shapes)))
                shapes.append(tuple(tensor.shape))
        shapes.append((env.num_envs,))
        self._shapes = shapes
        self._sizes = [math.prod(shape) for shape in shapes]
        self._floats = torch.zeros(sum(self._sizes), device=env.device)
        self._flags = torch.zeros((2, env.num_envs), dtype=torch.bool, device=env.device)
        places = self._split(self._floats)
        for group, slots in self._groups.items():
            observations.move(group, {name: places[i] for name, i in slots})
        rewards.move(places[-1])
        env.termination_manager.move(*self._flags.unbind(0))

    def _split(self, floats: torch.Tensor) -> list[torch.Tensor]:
        return [part.view(s) for part, s in zip(floats.split(self._sizes), self._shapes, strict=True)]

    def copies(self) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor, torch.Tensor]:
        """Observations, reward, terminated, truncated: new tensors."""
        parts = self._split(self._floats.clone())
        obs: dict[str, Any] = {}
        for group, slots in self._groups.items():
            if slots[0][0] is None:
                obs[group] = parts[slots[0][1]]
            else:
                obs[group] = {name: parts[i] for name, i in slots}
        terminated, truncated = self._flags.clone().unbind(0)
        return obs, parts[-1], terminated, truncated
