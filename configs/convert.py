# SPDX-License-Identifier: Apache-2.0
"""From plain values (YAML, overrides) to typed configuration objects, by annotations."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import enum
import inspect
import pathlib
import types
import typing
from collections.abc import Mapping
from typing import Any

from forcelab.physics.errors import near
from forcelab.scene.collection_cfg import CollectionCfg

from .errors import ConfigError, found, join
from .names import evaluate, find_callable, find_class, lookup
from .signatures import Parameter, field_hints, is_term, term_parameters

TARGET = "_target_"

# Collections of an environment's configuration → class of an entry that does not name its own. An entry
# of the others (scene, actions, commands) has to say `_target_`.
SECTIONS: dict[str, str | None] = {
    "scene": None,
    "observations": "ObservationGroupCfg",
    "actions": None,
    "commands": None,
    "rewards": "RewardTermCfg",
    "terminations": "TerminationTermCfg",
    "events": "EventTermCfg",
    "curriculum": "CurriculumTermCfg",
    "metrics": "MetricsTermCfg",
}
# Class of the entries of a collection, by the name of the collection's class.
_ENTRIES = {"ObservationGroupCfg": "ObservationTermCfg"}


def is_dataclass(value: Any) -> bool:
    """Whether a value is an instance of a dataclass (not the class itself)."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def is_environment(cls: type) -> bool:
    """Whether a dataclass is an environment's configuration: it has collections of terms."""
    return dataclasses.is_dataclass(cls) and {"rewards", "terminations"} <= {
        f.name for f in dataclasses.fields(cls)
    }


def entry_class(collection: Any, section: str | None) -> type | None:
    """Class of new entries: of an environment's section, or of an observation group."""
    name = SECTIONS.get(section) if section is not None else None
    if name is None:
        for base in type(collection).__mro__:
            if base.__name__ in _ENTRIES:
                name = _ENTRIES[base.__name__]
                break
    return None if name is None else lookup(name)


def describe(hint: Any) -> str:
    """A type as errors write it."""
    if hint is type(None) or hint is None:
        return "null"
    if hint is Any:
        return "anything"
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(describe(a) for a in args)
    if origin is typing.Literal:
        return " | ".join(repr(a) for a in args)
    if origin is collections.abc.Callable or hint in (collections.abc.Callable, typing.Callable):
        return "function"
    if origin is type or hint is type:
        return "class"
    if origin is not None:
        inside = ", ".join("…" if a is Ellipsis else describe(a) for a in args)
        return f"{getattr(origin, '__name__', str(origin))}[{inside}]"
    return getattr(hint, "__name__", str(hint))


def _wrong(value: Any, hint: Any, path: str, note: str = "") -> ConfigError:
    return ConfigError(f"expected {describe(hint)}, found {found(value)}{note}", path)


def convert(value: Any, hint: Any, path: str) -> Any:
    """Convert a plain value to the type that ``hint`` asks for.

    Objects that already have the type pass through. Strings become classes and functions where the type
    is a class or a function; dictionaries become configuration objects; lists become lists or tuples.

    Raises:
        ConfigError: Key path, expected type and found value.
    """
    if isinstance(hint, typing.TypeVar) or hint in (Any, object, inspect.Parameter.empty):
        return untyped(value, path)
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (typing.Annotated, typing.Final, typing.ClassVar):
        return convert(value, args[0], path)
    if origin in (typing.Union, types.UnionType):
        return _union(value, hint, path)
    if origin is typing.Literal:
        if value in args and type(value) in {type(a) for a in args}:
            return value
        tail = near(value, [str(a) for a in args]) if isinstance(value, str) else ""
        raise _wrong(value, hint, path, f".{tail}" if tail.startswith(" Did") else "")
    if hint is None or hint is type(None):
        if value is None:
            return None
        raise _wrong(value, hint, path)
    if origin is collections.abc.Callable or hint in (collections.abc.Callable, typing.Callable):
        if isinstance(value, str):
            return find_callable(value, path)
        if callable(value):
            return value
        raise _wrong(value, hint, path)
    if origin is type or hint is type:
        if isinstance(value, str):
            return find_class(value, path)
        if isinstance(value, type):
            return value
        raise _wrong(value, hint, path)
    container = origin or hint
    if container is tuple:
        return _tuple(value, hint, args, path)
    if container in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        return _dict(value, hint, args, path)
    if container in (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection):
        if not isinstance(value, (list, tuple)):
            raise _wrong(value, hint, path)
        inner = args[0] if args else Any
        items = [convert(v, inner, join(path, i)) for i, v in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) and container is not list else items
    if container in (set, frozenset):
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise _wrong(value, hint, path)
        inner = args[0] if args else Any
        return container(convert(v, inner, join(path, i)) for i, v in enumerate(value))
    if isinstance(container, type):
        return _instance(value, container, path)
    return untyped(value, path)


def untyped(value: Any, path: str) -> Any:
    """Convert a value whose type nothing tells: objects where a dictionary says ``_target_``."""
    if isinstance(value, Mapping):
        if TARGET in value:
            return build(value, object, path)
        return {k: untyped(v, join(path, k)) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(untyped(v, join(path, i)) for i, v in enumerate(value))
    return value


def _instance(value: Any, cls: type, path: str) -> Any:
    if cls is bool:
        if isinstance(value, bool):
            return value
    elif cls is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    elif cls is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif cls is str:
        if isinstance(value, str):
            return value
    elif issubclass(cls, pathlib.PurePath):
        if isinstance(value, (str, pathlib.PurePath)):
            return cls(value)
    elif issubclass(cls, enum.Enum) and not isinstance(value, cls):
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]
        try:
            return cls(value)
        except ValueError:
            tail = near(value, list(cls.__members__)) if isinstance(value, str) else ""
            raise _wrong(value, cls, path, f".{tail}") from None
    elif isinstance(value, cls):
        return value
    elif isinstance(value, Mapping):
        return build(value, cls, path)
    raise _wrong(value, cls, path)


def _tuple(value: Any, hint: Any, args: tuple[Any, ...], path: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(value, hint, path)
    if not args:
        return tuple(untyped(v, join(path, i)) for i, v in enumerate(value))
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(convert(v, args[0], join(path, i)) for i, v in enumerate(value))
    if len(value) != len(args):
        raise ConfigError(f"expected {len(args)} values, found {len(value)}: {found(value)}", path)
    return tuple(convert(v, a, join(path, i)) for i, (v, a) in enumerate(zip(value, args)))


def _dict(value: Any, hint: Any, args: tuple[Any, ...], path: str) -> dict[Any, Any]:
    if isinstance(value, CollectionCfg):
        return dict(value.items())
    if not isinstance(value, Mapping):
        raise _wrong(value, hint, path)
    key_hint, value_hint = args if len(args) == 2 else (Any, Any)
    return {convert(k, key_hint, path): convert(v, value_hint, join(path, k)) for k, v in value.items()}


def _union(value: Any, hint: Any, path: str) -> Any:
    args = typing.get_args(hint)
    if value is None and type(None) in args:
        return None
    if Any in args:
        return untyped(value, path)
    if isinstance(value, Mapping) and TARGET in value:
        return build(value, object, path)
    plain = [a for a in args if a in (bool, int, float, str) and type(value) is a]
    # A name stands for a function or class before it stands for itself.
    callables = [
        a
        for a in args
        if isinstance(value, str)
        and (
            a in (type, collections.abc.Callable, typing.Callable)
            or typing.get_origin(a) in (type, collections.abc.Callable)
        )
    ]
    if callables:
        functions = [a for a in callables if a is not type and typing.get_origin(a) is not type]
        return convert(value, (functions or callables)[0], path)
    errors: list[ConfigError] = []
    for arg in [*plain, *(a for a in args if a not in plain)]:
        try:
            return convert(value, arg, path)
        except ConfigError as error:
            errors.append(error)
    # An error deeper in the value says more than "none of the types".
    deepest = max(errors, key=lambda e: len(e.path))
    if len(deepest.path) > len(path):
        raise deepest
    members = [a for a in args if a is not type(None)]
    if len(members) == 1 and isinstance(members[0], type) and isinstance(value, Mapping):
        raise deepest
    raise _wrong(value, hint, path)


def build(data: Mapping[Any, Any], cls: type, path: str, base: Any = None, section: str | None = None) -> Any:
    """Build an object from a dictionary.

    Args:
        data: Field or entry values; ``_target_`` names the class.
        cls: Class to build when ``_target_`` is absent, and which a ``_target_`` must be or derive from.
        path: Key path for errors.
        base: Existing object whose values stay where ``data`` says nothing; it is copied.
        section: Name of the environment's collection, when this is one.
    """
    data = dict(data)
    target = data.pop(TARGET, None)
    if target is not None:
        if isinstance(target, str):
            target = find_class(target, join(path, TARGET))
        if cls is not object and not (isinstance(target, type) and issubclass(target, cls)):
            raise ConfigError(f"expected {describe(cls)}, found {getattr(target, '__name__', target)}", path)
        cls, base = target, None
    if cls is slice:
        return slice(data.get("start"), data.get("stop"), data.get("step"))
    bad = [k for k in data if not isinstance(k, str)]
    if bad:
        raise ConfigError(f"a field name must be text, found {found(bad[0])}", path)
    if issubclass(cls, CollectionCfg):
        return _collection(data, cls, path, base, section)
    if dataclasses.is_dataclass(cls):
        return _dataclass(data, cls, path, base)
    return _call(data, cls, path)


def _dataclass(data: dict[str, Any], cls: type, path: str, base: Any) -> Any:
    hints = field_hints(cls)
    for key in data:
        if key not in hints:
            raise ConfigError(f"{cls.__name__} has no field {key!r}.{near(key, hints)}", join(path, key))
    environment = is_environment(cls)
    values: dict[str, Any] = {}
    for f in dataclasses.fields(cls):  # type: ignore[arg-type]
        if f.name not in data:
            continue
        here = join(path, f.name)
        default = getattr(base, f.name) if base is not None else _default(f)
        values[f.name] = field_value(
            data[f.name], hints[f.name], here, default, f.name if environment and f.name in SECTIONS else None
        )
    if base is not None:
        # Not through __init__: a __post_init__ may set values, which would undo what was changed since.
        result = copy.deepcopy(base)
        for name, value in values.items():
            setattr(result, name, value)
    else:
        result = _construct(cls, values, path)
    if is_term(result):
        convert_params(result, path)
    return result


def _construct(cls: type, values: dict[str, Any], path: str) -> Any:
    missing = [
        f.name
        for f in dataclasses.fields(cls)  # type: ignore[arg-type]
        if f.init
        and f.name not in values
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{cls.__name__} needs {', '.join(missing)}", path)
    try:
        return cls(**values)
    except ConfigError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(_reason(error), path) from error


def _reason(error: Exception) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__


def _default(f: dataclasses.Field[Any]) -> Any:
    if f.default is not dataclasses.MISSING:
        return f.default
    if f.default_factory is not dataclasses.MISSING:
        return f.default_factory()
    return None


def field_value(value: Any, hint: Any, path: str, current: Any, section: str | None = None) -> Any:
    """A field's new value; a dictionary given for a configuration object changes only what it spells."""
    if section is not None and (value is None or isinstance(value, Mapping)):
        return _section(value, hint, path, current, section)
    if (
        isinstance(value, Mapping)
        and TARGET not in value
        and (is_dataclass(current) or isinstance(current, CollectionCfg))
    ):
        return build(value, type(current), path, base=current)
    new = convert(value, hint, path)
    if typing.get_origin(hint) is collections.abc.Sequence and type(current) in (list, tuple):
        # `Sequence` leaves open which of the two; a saved configuration must load as it was.
        return type(current)(new)
    return new


def _section(value: Mapping[str, Any] | None, hint: Any, path: str, current: Any, section: str) -> Any:
    if value is None:
        value = {}
        if not isinstance(current, CollectionCfg):
            return CollectionCfg()
    if TARGET in value or isinstance(current, CollectionCfg):
        cls = CollectionCfg if TARGET in value else type(current)
        return build(value, cls, path, base=current, section=section)
    classes = [
        a for a in (hint, *typing.get_args(hint)) if isinstance(a, type) and issubclass(a, CollectionCfg)
    ]
    return build(value, classes[0] if classes else CollectionCfg, path, section=section)


def _collection(
    data: dict[str, Any], cls: type[CollectionCfg], path: str, base: Any, section: str | None
) -> Any:
    if base is None:
        try:
            result = cls()
        except (ValueError, TypeError) as error:
            raise ConfigError(_reason(error), path) from error
    else:
        result = copy.deepcopy(base)
    for key, value in data.items():
        here = join(path, key)
        try:
            setattr(result, key, entry_value(result, key, value, here, section))
        except AttributeError as error:
            raise ConfigError(str(error), here) from error
    return result


def entry_value(collection: CollectionCfg, key: str, value: Any, path: str, section: str | None) -> Any:
    """The value of an entry of a collection: an entity, a term, or a plain field."""
    current = vars(collection).get(key)
    if current is dataclasses.MISSING:
        current = None
    hint = field_hints(type(collection)).get(key, Any)
    known = key in type(collection)._defaults
    expected = entry_class(collection, section)
    if isinstance(value, Mapping):
        # `func` says that a term is meant as a whole, not a change to the one that was there.
        whole = TARGET in value or "func" in value
        if (
            current is not None
            and not whole
            and (is_dataclass(current) or isinstance(current, CollectionCfg))
        ):
            return build(value, type(current), path, base=current)
        if TARGET in value:
            return build(value, hint if isinstance(hint, type) and hint is not Any else object, path)
        if hint is not Any:
            return convert(value, hint, path)
        if known and current is not None and not is_dataclass(current):
            return convert(value, type(current), path)
        if expected is None:
            raise ConfigError("says no class; write its name as _target_", path)
        return build(value, expected, path)
    if value is None and (hint is Any or is_dataclass(current) or isinstance(current, CollectionCfg)):
        return None
    if hint is not Any:
        return convert(value, hint, path)
    if known and isinstance(current, (bool, int, float, str)):
        return convert(value, type(current), path)
    if is_dataclass(value) or isinstance(value, CollectionCfg) or (known and not is_dataclass(current)):
        return value
    what = expected.__name__ if expected is not None else "a configuration object"
    plain = [n for n in type(collection)._defaults if not is_dataclass(getattr(collection, n, None))]
    tail = near(key, plain)
    raise ConfigError(f"expected {what}, found {found(value)}{'.' + tail if ' Did' in tail else ''}", path)


def _call(data: dict[str, Any], cls: type, path: str) -> Any:
    """Build an object of an ordinary class from keyword arguments."""
    try:
        parameters = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    names = [p.name for p in parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    is_open = not parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    namespace = getattr(getattr(cls, "__init__", None), "__globals__", {})
    values = {}
    for key, value in data.items():
        here = join(path, key)
        if key not in names and not is_open:
            raise ConfigError(f"{cls.__name__} has no parameter {key!r}.{near(key, names)}", here)
        annotation = parameters[key].annotation if key in parameters else Any
        values[key] = convert(value, evaluate(annotation, namespace), here)
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise ConfigError(_reason(error), path) from error


def convert_params(term: Any, path: str, complete: bool = False) -> None:
    """Convert a term's ``params`` in place by the annotations of its function, and check their names.

    Args:
        term: A configuration with ``func`` and ``params``.
        path: Key path of the term.
        complete: Also require every parameter without a default.
    """
    if term.params is None:
        term.params = {}
    if not isinstance(term.params, Mapping):
        raise _wrong(term.params, dict, join(path, "params"))
    if isinstance(term.func, str):
        term.func = find_callable(term.func, join(path, "func"))
    if term.func is None and complete:
        raise ConfigError("must be given: a name in forcelab.mdp or a dotted path", join(path, "func"))
    if not callable(term.func):
        return
    parameters, is_open = term_parameters(term.func)
    name = getattr(term.func, "__name__", type(term.func).__name__)
    params_path = join(path, "params")
    for key, value in list(term.params.items()):
        here = join(params_path, key)
        if key in parameters:
            new = param_value(value, parameters[key], here, None)
        elif is_open:
            new = untyped(value, here)
        else:
            raise ConfigError(f"{name} has no parameter {key!r}.{near(str(key), parameters)}", here)
        if new is not value:
            term.params[key] = new  # type: ignore[index]
    missing = [k for k, p in parameters.items() if p.required and k not in term.params]
    if complete and missing:
        raise ConfigError(f"{name} needs {', '.join(missing)}", params_path)


def param_value(value: Any, parameter: Parameter, path: str, current: Any) -> Any:
    """A term parameter's new value."""
    if value is None and parameter.default is None:
        return None
    return field_value(value, parameter.hint, path, current)


def check(root: Any, path: str = "") -> None:
    """Walk a finished configuration: term parameters are complete and known, required entries given.

    Raises:
        ConfigError: The first fault, with its key path.
    """
    if is_term(root):
        convert_params(root, path, complete=True)
    if is_dataclass(root):
        for f in dataclasses.fields(root):
            check(getattr(root, f.name, None), join(path, f.name))
    elif isinstance(root, CollectionCfg):
        for name, value in vars(root).items():
            if value is dataclasses.MISSING:
                raise ConfigError(
                    f"{type(root).__name__} declares it without a value; it must be given", join(path, name)
                )
            check(value, join(path, name))
    elif isinstance(root, Mapping):
        for name, value in root.items():
            check(value, join(path, name))
    elif isinstance(root, (list, tuple)):
        for i, value in enumerate(root):
            check(value, join(path, i))
