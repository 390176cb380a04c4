# SPDX-License-Identifier: Apache-2.0
"""Gymnasium spaces of an environment's observations and actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space


def _box(low: Any, high: Any) -> spaces.Box:
    return spaces.Box(low.numpy().astype(np.float32), high.numpy().astype(np.float32), dtype=np.float32)


def observation_space(manager: Any) -> spaces.Dict:
    """Space of one environment: a Box per concatenated group, a Dict of Boxes per other group.

    Bounds are those of the terms' ``clip`` (times ``scale``), infinite where nothing is clipped.
    """
    groups: dict[str, gymnasium.Space[Any]] = {}
    for name, concatenated in manager.group_obs_concatenate.items():
        if concatenated:
            groups[name] = _box(*manager.group_bounds(name))
        else:
            terms = manager.active_terms[name]
            groups[name] = spaces.Dict({term: _box(*manager.term_bounds(name, term)) for term in terms})
    return spaces.Dict(groups)


def action_space(manager: Any) -> spaces.Box:
    """Space of one environment's action: unbounded, (A,)."""
    return spaces.Box(-np.inf, np.inf, (manager.total_action_dim,), np.float32)


def batched(space: gymnasium.Space[Any], num_envs: int) -> Any:
    """The space of ``num_envs`` environments."""
    return batch_space(space, num_envs)
