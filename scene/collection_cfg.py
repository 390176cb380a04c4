# SPDX-License-Identifier: Apache-2.0
"""The base of scenes, observation groups and collections of terms: entries under their names."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from forcelab.physics.errors import near

_Self = TypeVar("_Self", bound="CollectionCfg")


class _Entry:
    """What a class keeps in place of a declared attribute.

    ``Class.name`` gives the default. On an instance Python finds the instance's own value first, so this
    is reached only for an entry that was deleted there, which must not fall back to the default.
    """

    def __init__(self, name: str, default: Any):
        self.name = name
        self.default = default

    def __get__(self, obj: Any, owner: type) -> Any:
        if obj is None:
            if self.default is dataclasses.MISSING:
                raise AttributeError(f"{owner.__name__}.{self.name} has no default")
            return self.default
        raise AttributeError(f"{owner.__name__} has no entry {self.name!r}.{near(self.name, vars(obj))}")


def _is_entry(name: str, value: Any) -> bool:
    """Whether a class attribute is an entry: not private, not a method, class or descriptor."""
    if name.startswith("_") or isinstance(value, type) or inspect.isroutine(value):
        return False
    return not hasattr(type(value), "__get__")


def _is_class_var(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else repr(annotation)
    return text.removeprefix("typing.").startswith("ClassVar")


class CollectionCfg:
    """A configuration whose class attributes, annotated or not, are its entries.

    .. code-block:: python

        class MyScene(InteractiveSceneCfg):
            ground = PlaneCfg()
            robot: ArticulationCfg = ArticulationCfg(...)

        cfg = MyScene(num_envs=16)      # keyword arguments replace defaults
        cfg.table = RigidObjectCfg(...)  # a new name adds an entry
        cfg.ground = None                # None switches an entry off
        del cfg.robot                    # removes it

    Entries keep the order of declaration, inherited ones first. Each instance gets deep copies of the
    defaults. A bare annotation (or ``dataclasses.MISSING``) declares an entry that must be given before
    the configuration is used. ``__post_init__``, when defined, runs after construction. Methods,
    properties, nested classes, ``ClassVar`` annotations and names that begin with an underscore are not
    entries. ``CollectionCfg(a=…, b=…)`` itself makes a collection without a class.
    """

    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        defaults: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            defaults.update(base.__dict__.get("_declared", {}))
        declared: dict[str, Any] = {}
        annotations = {
            name: value
            for name, value in inspect.get_annotations(cls).items()
            if not name.startswith("_") and not _is_class_var(value)
        }
        skipped = {n for n, v in inspect.get_annotations(cls).items() if _is_class_var(v)}
        order = list(annotations)

        def bare_from(index: int) -> None:
            # The class keeps bare annotations apart from attributes; they go right after the annotated
            # attribute that precedes them.
            while index < len(order) and order[index] not in cls.__dict__:
                declared[order[index]] = dataclasses.MISSING
                index += 1

        bare_from(0)
        for name, value in list(cls.__dict__.items()):
            if name not in skipped and _is_entry(name, value):
                declared[name] = value
                if name in annotations:
                    bare_from(order.index(name) + 1)
        for name, value in declared.items():
            owner = _method_owner(cls.__mro__[1:], name)
            if owner is not None:
                raise TypeError(f"{cls.__name__}.{name}: the name is taken by a method of {owner.__name__}")
            setattr(cls, name, _Entry(name, value))
        defaults.update(declared)
        cls._declared = declared  # type: ignore[attr-defined]
        cls._defaults = defaults

    def __init__(self, **entries: Any) -> None:
        cls = type(self)
        if cls is not CollectionCfg:
            for name in entries:
                if name not in cls._defaults:
                    raise TypeError(f"{cls.__name__} has no entry {name!r}.{near(name, cls._defaults)}")
        for name, default in cls._defaults.items():
            if name not in entries:
                object.__setattr__(
                    self, name, default if default is dataclasses.MISSING else copy.deepcopy(default)
                )
            else:
                object.__setattr__(self, name, entries[name])
        if cls is CollectionCfg:
            for name, value in entries.items():
                setattr(self, name, value)
        post_init = getattr(self, "__post_init__", None)
        if post_init is not None:
            post_init()

    def __setattr__(self, name: str, value: Any) -> None:
        if _method_owner(type(self).__mro__, name) is not None:
            raise AttributeError(f"{type(self).__name__}.{name}: the name is taken by a method")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        # Reached for names that neither the instance nor the class has.
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{type(self).__name__} has no entry {name!r}.{near(name, vars(self))}")

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, value) of every entry that is not None, in order.

        Raises:
            ValueError: An entry was declared without a value and never given one.
        """
        for name, value in list(vars(self).items()):
            if value is dataclasses.MISSING:
                raise ValueError(f"{type(self).__name__}.{name} must be given a value; it has no default")
            if value is not None:
                yield name, value

    def replace(self: _Self, **changes: Any) -> _Self:
        """Return a deep copy with some entries replaced.

        Raises:
            TypeError: A name that this configuration does not have.
        """
        new = copy.deepcopy(self)
        for name, value in changes.items():
            if name not in vars(new):
                raise TypeError(f"{type(self).__name__} has no entry {name!r}.{near(name, vars(new))}")
            object.__setattr__(new, name, value)
        return new

    def __contains__(self, name: object) -> bool:
        return vars(self).get(name) is not None  # type: ignore[call-overload]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{name}={'MISSING' if value is dataclasses.MISSING else repr(value)}"
            for name, value in vars(self).items()
        )
        return f"{type(self).__name__}({inside})"


def _method_owner(classes: Iterable[type], name: str) -> type | None:
    """The first class with a method or property of that name, unless an entry hides it."""
    for cls in classes:
        found = cls.__dict__.get(name)
        if isinstance(found, _Entry):
            return None
        if inspect.isroutine(found) or isinstance(found, (property, staticmethod, classmethod)):
            return cls
    return None


def class_fields(cls: type[CollectionCfg]) -> Mapping[str, Any]:
    """The entries a collection class declares, inherited ones first: name → default.

    ``dataclasses.MISSING`` stands for an entry without a default.
    """
    return dict(cls._defaults)
