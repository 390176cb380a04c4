# SPDX-License-Identifier: Apache-2.0
"""What a policy reads and writes: observation terms and action terms with their sizes and scaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .vec_env import RslRlVecEnv


def policy_layout(env: RslRlVecEnv, policy_groups: Sequence[str]) -> dict[str, Any]:
    """Layout of the observation groups a policy reads and of its actions; plain values only.

    Args:
        env: Environment adapter.
        policy_groups: Observation groups of the policy, in order of concatenation.

    Returns:
        ``policy_groups``: the names; ``observations``: group → list of terms (``name``, ``size``, ``scale``,
        ``clip``, ``history_length``, and ``joint_names`` or ``body_names`` where the term has some) in order
        of concatenation; ``actions``: list of terms (``name``, ``type``, ``size``, ``joint_names``, ``scale``,
        ``offset``, ``clip``).
    """
    base = env.unwrapped
    obs = env.get_observations()
    observations = {}
    for group in policy_groups:
        terms = _observation_terms(base, group)
        width = int(obs[group].shape[-1])
        if sum(t["size"] for t in terms) != width:
            # A group the manager does not describe term by term: one entry for all of it.
            terms = [{"name": group, "size": width, "scale": None, "clip": None, "history_length": 0}]
        observations[group] = terms
    return {"policy_groups": list(policy_groups), "observations": observations, "actions": _action_terms(env)}


def _observation_terms(base: Any, group: str) -> list[dict[str, Any]]:
    manager = getattr(base, "observation_manager", None)
    if manager is None:
        return []
    names = manager.active_terms[group]
    sizes = manager.group_obs_term_dim[group]
    cfgs = _term_cfgs(manager, group, names)
    terms = []
    for name, size, cfg in zip(names, sizes, cfgs, strict=True):
        number = 1
        for n in size if isinstance(size, (tuple, list)) else (size,):
            number *= int(n)
        terms.append(
            {
                "name": name,
                "size": number,
                "scale": _plain(getattr(cfg, "scale", None)),
                "clip": _plain(getattr(cfg, "clip", None)),
                "history_length": int(getattr(cfg, "history_length", 0) or 0),
                **_selected(cfg),
            }
        )
    return terms


def _selected(cfg: Any) -> dict[str, list[str]]:
    """Names of the joints and bodies that a term was told to read, in its order."""
    found: dict[str, list[str]] = {}
    for value in (getattr(cfg, "params", None) or {}).values():
        for key in ("joint_names", "body_names"):
            names = getattr(value, key, None)
            if isinstance(names, (list, tuple)) and names:
                found.setdefault(key, []).extend(str(name) for name in names)
    return found


def _term_cfgs(manager: Any, group: str, names: Sequence[str]) -> list[Any]:
    getter = getattr(manager, "get_term_cfg", None)
    out = []
    for name in names:
        cfg = None
        if callable(getter):
            try:
                cfg = getter(group, name)
            except TypeError:
                cfg = None
        out.append(cfg)
    return out


def _action_terms(env: RslRlVecEnv) -> list[dict[str, Any]]:
    manager = env.unwrapped.action_manager
    terms = []
    for name in getattr(manager, "active_terms", []):
        term = manager.get_term(name)
        joints = getattr(term, "joint_names", None) or getattr(term, "_joint_names", None)
        terms.append(
            {
                "name": name,
                "type": type(term).__name__,
                "size": int(term.action_dim),
                "joint_names": None if joints is None else [str(j) for j in joints],
                "scale": _plain(_first(term, ("scale", "_scale"))),
                "offset": _plain(_offset(term)),
                "clip": _plain(getattr(getattr(term, "cfg", None), "clip", None)),
            }
        )
    if sum(t["size"] for t in terms) != env.num_actions:
        terms = [
            {
                "name": "actions",
                "type": None,
                "size": env.num_actions,
                "joint_names": None,
                "scale": None,
                "offset": None,
                "clip": None,
            }
        ]
    return terms


def _offset(term: Any) -> Any:
    # Joint positions may be relative to the default pose, which the term looks up.
    current = getattr(term, "_current_offset", None)
    return current() if callable(current) else _first(term, ("offset", "_offset"))


def _first(value: Any, names: Sequence[str]) -> Any:
    for name in names:
        found = getattr(value, name, None)
        if found is not None:
            return found
    return None


def _plain(value: Any) -> Any:
    """Numbers, strings, lists and dictionaries; a tensor with one row per environment gives its first row."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        while value.dim() > 1:
            value = value[0]
        return value.tolist()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value)
