# SPDX-License-Identifier: Apache-2.0
"""What a term keeps in Python: a captured step would not see it change.

A graph repeats operations on the device. A counter in an attribute, a threshold in a module, a tensor that
is replaced instead of written to: what they were when the graph was made stays in it. So they are looked at
before and after a term runs, and between two steps.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from forcelab.managers.manager_base import ManagerTermBase
from forcelab.managers.manager_term_cfg import LiveCfg
from forcelab.managers.scene_entity_cfg import SceneEntityCfg

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_LEAVES = (*_SCALARS, torch.Tensor, np.ndarray, np.generic)
_MAX_DEPTH = 3
_MAX_ITEMS = 64
_LIBRARIES = {"torch", "warp", "newton", "numpy", "gymnasium", "rsl_rl", *sys.stdlib_module_names}
# Attributes of the environment that change with every step.
_OF_ENV = {"extras", "_recorder"}
_GONE = object()


@dataclass
class Place:
    """A Python value or tensor that a term may read.

    Attributes:
        path: Where, in words.
        holder: Dict, sequence or closure cell that holds it; None for the length of a container.
        key: Key in the holder; the container itself for a length.
        value: The value.
    """

    path: str
    holder: Any
    key: Any
    value: Any

    def read(self) -> Any:
        """The value now."""
        try:
            return self.holder.cell_contents if self.key is _GONE else self.holder[self.key]
        except (KeyError, IndexError, ValueError):
            return _GONE


def _identity(place: Place) -> tuple[int, Any]:
    # The dictionary of a class is wrapped anew at each look.
    proxy = isinstance(place.holder, types.MappingProxyType)
    return (0, place.path) if proxy else (id(place.holder), place.key)


def _of_forcelab(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == "forcelab"


def _looked_into(value: Any) -> bool:
    """Terms, their modifiers and noise, and objects of classes that no library defines."""
    if isinstance(value, (type, types.ModuleType, torch.nn.Module)) or not hasattr(value, "__dict__"):
        return False
    if isinstance(value, (ManagerTermBase, SceneEntityCfg, LiveCfg)):
        return True
    module = type(value).__module__
    if _of_forcelab(module):
        return module.startswith("forcelab.managers.") and not hasattr(value, "active_terms")
    return module.split(".")[0] not in _LIBRARIES


def places(subject: Any, env: Any) -> Iterator[Place]:
    """What a function or an object (or a list of them) may read, except from the environment."""
    seen = {id(env)}
    stack: list[tuple[str, Any, int]] = []
    for item in subject if isinstance(subject, list) else [subject]:
        stack.append((getattr(item, "__name__", type(item).__name__), item, 0))
    while stack:
        path, value, depth = stack.pop()
        if id(value) in seen or depth > _MAX_DEPTH:
            continue
        seen.add(id(value))
        for place in _inside(path, value):
            if isinstance(place.value, _LEAVES):
                yield place
            else:
                stack.append((place.path, place.value, depth + 1))


def _inside(path: str, value: Any) -> Iterator[Place]:
    if isinstance(value, functools.partial):
        parts = (value.func, *value.args, *value.keywords.values())
        yield from (Place(f"{path}[{i}]", parts, i, item) for i, item in enumerate(parts))
    elif isinstance(value, types.MethodType):
        pair = (value.__self__, value.__func__)
        yield from (Place(path, pair, i, item) for i, item in enumerate(pair))
    elif isinstance(value, types.FunctionType):
        if not _of_forcelab(value.__module__):
            yield from _inside_function(path, value)
    elif isinstance(value, dict):
        yield Place(f"len({path})", None, value, len(value))
        for key, item in list(value.items())[:_MAX_ITEMS]:
            yield Place(f"{path}[{key!r}]", value, key, item)
    elif isinstance(value, (list, tuple, deque)):
        if not isinstance(value, tuple):
            yield Place(f"len({path})", None, value, len(value))
        for i, item in enumerate(list(value)[:_MAX_ITEMS]):
            yield Place(f"{path}[{i}]", value, i, item)
    elif isinstance(value, set):
        yield Place(f"len({path})", None, value, len(value))
    elif _looked_into(value):
        for name, item in vars(value).items():
            yield Place(f"{path}.{name}", vars(value), name, item)
        if not _of_forcelab(type(value).__module__):
            for name, item in vars(type(value)).items():
                if isinstance(item, types.FunctionType) and name != "__init__":
                    yield from _inside_function(path, item)
                elif isinstance(item, _SCALARS) and not name.startswith("__"):
                    yield Place(f"{type(value).__name__}.{name}", vars(type(value)), name, item)


def _inside_function(path: str, function: types.FunctionType) -> Iterator[Place]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield Place(name, cell, _GONE, cell.cell_contents)
        except ValueError:
            continue  # not yet set
    for name in code.co_names:
        if name in function.__globals__:
            yield Place(name, function.__globals__, name, function.__globals__[name])
    for name, item in vars(function).items():
        yield Place(f"{path}.{name}", vars(function), name, item)
    for group in (function.__defaults__ or (), tuple((function.__kwdefaults__ or {}).values())):
        yield from (Place(f"a default of {path}", group, i, item) for i, item in enumerate(group))


def env_places(env: Any) -> Iterator[Place]:
    """Numbers and tensors in attributes of the environment, and its switches."""
    for path, owner in (("env", env), ("env.cfg", env.cfg), ("env.health", env.health)):
        for name, value in vars(owner).items():
            if name not in _OF_ENV and isinstance(value, _LEAVES):
                yield Place(f"{path}.{name}", vars(owner), name, value)


def _token(value: Any) -> Any:
    """Equal for two values that are the same to a graph."""
    if isinstance(value, torch.Tensor):
        token = (value.data_ptr(), tuple(value.shape), str(value.device))
        # Beside a GPU, a tensor on the host is read when the graph is made.
        return (
            (*token, value._version) if value.device.type == "cpu" and torch.cuda.is_initialized() else token
        )
    if isinstance(value, np.ndarray):
        return id(value), value.tobytes() if value.nbytes <= 4096 else None
    return (type(value), value) if value == value else "nan"


def _describe(value: Any) -> str:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"{type(value).__name__} {tuple(value.shape)}"
    text = "nothing" if value is _GONE else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


class PythonState:
    """The Python values around a term at one time.

    Args:
        subject: The function or object, or a list of them.
        env: The environment, whose own numbers are looked at as well.
    """

    def __init__(self, subject: Any, env: Any):
        self._subject, self._env = subject, env
        self._before = self._read()
        self._random = random.getstate()
        self._numpy: Any = np.random.get_state()

    def _read(self) -> dict[str, tuple[Any, Any]]:
        found = (*places(self._subject, self._env), *env_places(self._env))
        return {place.path: (_token(place.value), place.value) for place in found}

    def changes(self) -> list[str]:
        """What has changed since, in words, with what to do."""
        found = []
        for path, (token, value) in self._read().items():
            old = self._before.get(path)
            if old is None:
                found.append(f"makes {path} anew; make it in __init__")
            elif old[0] != token:
                found.append(_change(path, old[1], value))
        if random.getstate() != self._random:
            found.append("draws from Python's random, on the host; draw with torch on env.device")
        numpy: Any = np.random.get_state()
        if numpy[2] != self._numpy[2] or not np.array_equal(numpy[1], self._numpy[1]):
            found.append("draws from NumPy, on the host; draw with torch on env.device")
        return found


def _change(path: str, old: Any, new: Any) -> str:
    if isinstance(new, torch.Tensor) and isinstance(old, torch.Tensor):
        if new.data_ptr() == old.data_ptr():
            return f"changes {path}, a tensor on the CPU; keep it on env.device"
        return f"puts another tensor in the place of {path}; write into the same one, with copy_() or [:]"
    return f"changes {path} from {_describe(old)} to {_describe(new)}; keep it in a tensor on env.device"


class Kept:
    """Python values of terms that are to run twice, to go back to before the second time."""

    def __init__(self, subjects: list[Any], env: Any):
        self._places: dict[tuple[int, Any], Place] = {}
        self._containers: dict[int, tuple[Any, Any]] = {}
        for place in (*places(subjects, env), *env_places(env)):
            if place.holder is None:
                self._containers[id(place.key)] = (place.key, place.key.copy())
            else:
                self._places[_identity(place)] = place
        self._random, self._numpy = random.getstate(), np.random.get_state()

    def restore(self) -> None:
        """Put the values back where they were."""
        for container, copied in self._containers.values():
            container.clear()
            container.extend(copied) if hasattr(container, "extend") else container.update(copied)
        for place in self._places.values():
            if place.key is _GONE:
                place.holder.cell_contents = place.value
            elif (
                not isinstance(place.holder, (tuple, types.MappingProxyType))
                and place.read() is not place.value
            ):
                place.holder[place.key] = place.value
        random.setstate(self._random)
        np.random.set_state(self._numpy)


class Watch:
    """Notices between two steps that Python values changed after a capture. Some 20 µs of the host for a task."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._places: dict[tuple[int, Any], tuple[str, Place]] = {}
        self._add("", env_places(env))

    def add(self, name: str, subject: Any) -> None:
        """Watch what a term of this name reads."""
        self._add(name, places(subject, self._env))

    def _add(self, name: str, found: Iterator[Place]) -> None:
        for place in found:
            if place.holder is not None and not isinstance(place.value, np.ndarray):
                self._places.setdefault(_identity(place), (name, place))

    def changed(self) -> tuple[str, str] | None:
        """The first value that is not what it was: name of the term ("" for the environment's), and in words."""
        for name, place in self._places.values():
            now, value = place.read(), place.value
            if now is value or (type(now) is type(value) and isinstance(value, _SCALARS) and now == value):
                continue
            if isinstance(now, float) and isinstance(value, float) and now != now and value != value:
                continue  # not a number, before and after
            return name, f"{place.path} changed from {_describe(value)} to {_describe(now)}"
        return None
