# SPDX-License-Identifier: Apache-2.0
"""Names in configurations: short names of forcelab's classes and terms, and dotted paths."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from forcelab.physics.errors import near

from .errors import ConfigError

# Packages whose public names may be written short, in the order they are searched.
CLASS_PACKAGES = (
    "forcelab.scene",
    "forcelab.sensors",
    "forcelab.managers",
    "forcelab.mdp",
    "forcelab.physics",
    "forcelab.envs",
    "forcelab.learning",
)
FUNCTION_PACKAGES = ("forcelab.mdp", "forcelab.managers")
# Modules whose classes a configuration names although their packages do not export them.
_EXTRA_MODULES = (
    "forcelab.scene.collection_cfg",
    "forcelab.learning.agent_cfg",
    "forcelab.envs.manager_based_rl_env_cfg",
)


def _public(package: str) -> list[str]:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None)
    return list(names) if names is not None else [n for n in vars(module) if not n.startswith("_")]


def _own(module: str) -> list[str]:
    return [
        n for n, v in vars(importlib.import_module(module)).items() if getattr(v, "__module__", "") == module
    ]


def _places(packages: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    for package in packages:
        yield package, _public(package)
    for module in _EXTRA_MODULES:
        yield module, _own(module)


def _load(package: str, name: str, path: str) -> Any:
    try:
        return getattr(importlib.import_module(package), name)
    except ImportError as error:
        raise ConfigError(f"{name} cannot be imported: {error}", path) from error


def lookup(name: str, packages: tuple[str, ...] = CLASS_PACKAGES) -> Any:
    """The object with a short name, or None."""
    for package, names in _places(packages):
        if name in names:
            return getattr(importlib.import_module(package), name)
    return None


def find_class(name: str, path: str) -> Any:
    """The class that ``_target_: name`` or ``class_type: name`` stands for.

    Args:
        name: Short name or dotted path (``pkg.module.Class`` or ``pkg.module:Class``).
        path: Key path for error messages.
    """
    if name == "slice":
        return slice
    if "." in name or ":" in name:
        value = import_dotted(name, path)
        if not isinstance(value, type):
            raise ConfigError(f"{name} is not a class", path)
        return value
    known: list[str] = []
    for package, names in _places(CLASS_PACKAGES):
        if name in names:
            value = _load(package, name, path)
            if isinstance(value, type):
                return value
        known += names
    classes = sorted(n for n in known if n[:1].isupper())
    raise ConfigError(
        f"no class {name!r} in forcelab; write a dotted path for your own.{near(name, classes)}", path
    )


def find_callable(name: str, path: str) -> Callable[..., Any]:
    """The function or class that ``func: name`` stands for: a name in forcelab.mdp or a dotted path."""
    if "." in name or ":" in name:
        value = import_dotted(name, path)
        if not callable(value):
            raise ConfigError(f"{name} is not a function or class", path)
        return value
    known: list[str] = []
    for package in FUNCTION_PACKAGES:
        names = _public(package)
        if name in names:
            return _load(package, name, path)
        known += [n for n in names if package == "forcelab.mdp" and not n.endswith("Cfg")]
    raise ConfigError(
        f"no term {name!r} in forcelab.mdp; write a dotted path for your own.{near(name, sorted(known))}",
        path,
    )


def import_dotted(name: str, path: str) -> Any:
    """Import ``pkg.module.attribute`` or ``pkg.module:attribute``."""
    if ":" in name:
        module_name, _, attributes = name.partition(":")
        splits = [(module_name, attributes.split("."))]
    else:
        parts = name.split(".")
        splits = [(".".join(parts[:i]), parts[i:]) for i in range(len(parts) - 1, 0, -1)]
    if "<" in name:
        raise ConfigError(f"{name} is a local function or lambda and cannot be loaded by name", path)
    for module_name, attribute_names in splits:
        try:
            value: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            # Only "this very module does not exist" leads to the next split; a module that exists and
            # fails to import something else must say so.
            if error.name is not None and (
                module_name == error.name or module_name.startswith(error.name + ".")
            ):
                continue
            raise ConfigError(f"{name} cannot be imported: {error}", path) from error
        except (ImportError, ValueError) as error:
            raise ConfigError(f"{name} cannot be imported: {error}", path) from error
        for attribute in attribute_names:
            try:
                value = getattr(value, attribute)
            except AttributeError:
                where = value.__name__ if isinstance(value, (ModuleType, type)) else type(value).__name__
                choices = [n for n in dir(value) if not n.startswith("_")]
                raise ConfigError(f"{where} has no {attribute!r}.{near(attribute, choices)}", path) from None
        return value
    raise ConfigError(
        f"{name} cannot be imported: there is no module {name.split(':')[0].split('.')[0]!r} "
        "on the Python path",
        path,
    )


def name_of(value: Any) -> str:
    """The short name of a class or function if it has one, else its dotted path."""
    name = getattr(value, "__name__", "")
    for package in (*CLASS_PACKAGES, *_EXTRA_MODULES):
        module = sys.modules.get(package)
        # Only packages already imported: the object's own package is one of them, if any is.
        if module is None or name not in (_public(package) if package in CLASS_PACKAGES else _own(package)):
            continue
        try:
            if getattr(module, name) is value:
                return name
        except ImportError:
            continue
    module_name = getattr(value, "__module__", None)
    qualified = getattr(value, "__qualname__", None)
    if module_name is None or qualified is None:
        raise ConfigError(f"{value!r} has no name to write into YAML")
    return qualified if module_name == builtins.__name__ else f"{module_name}.{qualified}"


class _Fallback:
    """Names of an annotation that its module only imports for type checkers."""

    def __init__(self, namespace: dict[str, Any]):
        self.namespace = namespace

    def __getitem__(self, name: str) -> Any:
        if name in self.namespace or hasattr(builtins, name):
            raise KeyError(name)
        value = lookup(name)
        return Any if value is None else value


def evaluate(annotation: Any, namespace: dict[str, Any]) -> Any:
    """The type an annotation stands for; ``Any`` when it cannot be told at run time.

    Each annotation is evaluated by itself, since one that names a type imported only for type checkers
    must not spoil the others.
    """
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, namespace, _Fallback(namespace))  # type: ignore[arg-type]
    except Exception:
        return Any
