# SPDX-License-Identifier: Apache-2.0
"""Parameters of term functions and fields of configuration classes, with their types."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forcelab.scene.collection_cfg import CollectionCfg

from .names import evaluate, lookup

# Given by the manager, never by `params`.
_GIVEN = frozenset({"self", "env", "env_mask", "env_ids"})


@dataclass(frozen=True)
class Parameter:
    """One parameter of a term function."""

    hint: Any
    default: Any

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


def term_parameters(func: Callable[..., Any]) -> tuple[dict[str, Parameter], bool]:
    """The parameters that ``params`` may give, and whether any other name is accepted (``**kwargs``).

    The first parameter (the environment, or the data of a modifier) and ``env_mask``/``env_ids`` are the
    manager's. For a class the signature of its ``__call__`` counts.
    """
    target: Any = func
    if isinstance(func, type):
        if "__call__" not in dir(func) or func.__call__ is type.__call__:
            return {}, True
        target = func.__call__
    elif not inspect.isroutine(func) and not isinstance(func, functools.partial):
        target = type(func).__call__
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return {}, True
    inner = inspect.unwrap(target.func if isinstance(target, functools.partial) else target)
    namespace = getattr(inner, "__globals__", {})
    positional = [p for p in signature.parameters.values() if p.name != "self"]
    first = positional[0].name if positional else None
    parameters: dict[str, Parameter] = {}
    open_ended = False
    for p in positional:
        if p.kind is p.VAR_KEYWORD:
            open_ended = True
        if (
            p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL, p.POSITIONAL_ONLY)
            or p.name in _GIVEN
            or p.name == first
        ):
            continue
        hint = evaluate(p.annotation, namespace)
        if hint is Any and dataclasses.is_dataclass(p.default) and not isinstance(p.default, type):
            hint = type(p.default)
        elif hint is Any and p.annotation is p.empty and p.name.endswith("_cfg"):
            # The convention of every term: `asset_cfg`, `sensor_cfg` select from the scene.
            hint = lookup("SceneEntityCfg") or Any
        parameters[p.name] = Parameter(hint, p.default)
    return parameters, open_ended


_hints: dict[type, dict[str, Any]] = {}


def field_hints(cls: type) -> dict[str, Any]:
    """Types of the fields of a dataclass, or of the annotated entries of a collection class."""
    if cls not in _hints:
        _hints[cls] = _field_hints(cls)
    return _hints[cls]


def _field_hints(cls: type) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        module = sys.modules.get(base.__module__)
        namespace = dict(vars(module)) if module is not None else {}
        for name, annotation in inspect.get_annotations(base).items():
            hints[name] = evaluate(annotation, namespace)
    if dataclasses.is_dataclass(cls):
        return {f.name: hints.get(f.name, Any) for f in dataclasses.fields(cls) if f.init}
    if issubclass(cls, CollectionCfg):
        return {name: hint for name, hint in hints.items() if name in cls._defaults}
    return hints


def is_term(value: Any) -> bool:
    """Whether a value configures a term: it has ``func`` and ``params``."""
    return (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and hasattr(value, "func")
        and hasattr(value, "params")
    )
