# SPDX-License-Identifier: Apache-2.0
"""Overrides: reading ``rewards.x.weight=0.5`` and applying it to a tree of configuration objects.

The grammar of values is Hydra's; keys are ours, because a configuration has keys that Hydra cannot spell::

    rewards.feet_slide.weight=-0.5                               change
    ~rewards.feet_slide      or   rewards.feet_slide=null        remove
    +rewards.mine.func=my_pkg.my_term  +rewards.mine.weight=2    add (several + make one term)
    scene.robot.actuators.legs.stiffness[".*_HAA"]=40            a key that is a regular expression
    scene.robot.actuators.legs.stiffness={.*_HAA:40}             the same; other keys stay
    agent.actor.hidden_dims=[128,64]   scene.boxes[0].mass=2     lists, whole or one element
    rewards={}                                                   replace by nothing
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from forcelab.physics.errors import near
from forcelab.scene.collection_cfg import CollectionCfg

from . import convert as cv
from .errors import ConfigError, found, join
from .names import find_class
from .signatures import field_hints, is_term, term_parameters

Key = str | int
Operation = Literal["set", "add", "force", "delete"]
_PREFIXES: dict[str, Operation] = {"++": "force", "+": "add", "~": "delete", "": "set"}
_NOTHING = object()


@dataclass(frozen=True)
class Override:
    """One parsed override.

    Attributes:
        text: As the user wrote it.
        operation: ``set`` (``key=``), ``add`` (``+key=``), ``force`` (``++key=``), ``delete`` (``~key``).
        keys: The path: names, quoted keys and list indices.
        value: Parsed value; None for a deletion without one.
        raw: The value's text.
        choices: Values of a sweep as text (``a,b`` or ``range(…)``); None when it is no sweep.
    """

    text: str
    operation: Operation
    keys: tuple[Key, ...]
    value: Any = None
    raw: str | None = None
    choices: tuple[str, ...] | None = None
    key_text: str = field(default="", compare=False)

    @property
    def path(self) -> str:
        """The key path as errors write it."""
        return functools.reduce(join, self.keys, "")  # type: ignore[arg-type]


def split(text: str) -> tuple[str, str, str | None]:
    """Split an override into prefix, key and value text (None without ``=``)."""
    prefix = next(p for p in _PREFIXES if text.startswith(p))
    body = text[len(prefix) :]
    depth, quote = 0, ""
    for i, char in enumerate(body):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and depth:
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        elif char == "=" and depth <= 0:
            return prefix, body[:i].strip(), body[i + 1 :]
    return prefix, body.strip(), None


def parse_key(key: str, text: str) -> tuple[Key, ...]:
    """Split ``a.b["c.d"].e[0]`` into its parts. Quotes in brackets may be missing (shells eat them)."""
    keys: list[Key] = []
    i = 0
    expect_name = True
    while i < len(key):
        if key[i] == "[" and keys:
            content, i = _bracket(key, i, text)
            keys.append(content)
            expect_name = False
        elif key[i] == "." and not expect_name:
            i += 1
            expect_name = True
        elif expect_name:
            match = re.compile(r"[^.\[\]\s=]+").match(key, i)
            if match is None:
                raise ConfigError(f"cannot read the key of the override {text!r} at {key[i:]!r}")
            name = match.group()
            # `.0` indexes a list, as in OmegaConf.
            keys.append(int(name) if name.isdigit() and keys else name)
            i = match.end()
            expect_name = False
        else:
            raise ConfigError(f"cannot read the key of the override {text!r} at {key[i:]!r}")
    if expect_name:
        raise ConfigError(
            f"the override {text!r} has no key before '='" if not keys else f"the key of {text!r} ends in '.'"
        )
    return tuple(keys)


def _bracket(key: str, start: int, text: str) -> tuple[Key, int]:
    i = start + 1
    if i < len(key) and key[i] in "\"'":
        end = key.find(key[i] + "]", i + 1)
        if end < 0:
            raise ConfigError(f"the override {text!r} has an unclosed quote in its key")
        return key[i + 1 : end], end + 2
    depth = 1
    for j in range(i, len(key)):
        depth += {"[": 1, "]": -1}.get(key[j], 0)
        if depth == 0:
            content = key[i:j]
            return (int(content) if re.fullmatch(r"-?\d+", content) else content), j + 1
    raise ConfigError(f"the override {text!r} has an unclosed '[' in its key")


@functools.cache
def _parser() -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def parse_value(raw: str, key: str) -> tuple[Any, tuple[str, ...] | None]:
    """Read a value with Hydra's grammar.

    Returns:
        The value and, for a sweep, the text of its values.
    """
    from hydra.errors import HydraException

    try:
        parsed = _parser().parse_override(f"key={raw}")
    except HydraException as error:
        value = _flow(raw)
        if value is not _NOTHING:
            return value, None
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"cannot read the value {raw!r} ({reason}); put quotes around text with special characters: "
            f"{key}='\"…\"'",
            key,
        ) from None
    if parsed.is_sweep_override():
        if not parsed.is_discrete_sweep():
            raise ConfigError(
                f"{raw!r} is an interval; write the values to try: a,b or range(start,stop)", key
            )
        return None, tuple(parsed.sweep_string_iterator())
    value = parsed.value()
    if _has_interpolation(value):
        raise ConfigError(f"{raw!r}: interpolations work in YAML files, not in overrides", key)
    return value, None


def _flow(raw: str) -> Any:
    """A list or dictionary in YAML's own notation, which allows quoted keys; else ``_NOTHING``."""
    if not raw.lstrip().startswith(("{", "[")):
        return _NOTHING
    import yaml

    from .yaml_io import Loader

    try:
        value = yaml.load(raw, Loader)
    except yaml.YAMLError:
        return _NOTHING
    return value if isinstance(value, (dict, list)) else _NOTHING


def _has_interpolation(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, Mapping):
        return any(_has_interpolation(v) for v in value.values())
    return isinstance(value, list) and any(_has_interpolation(v) for v in value)


def parse(text: str) -> Override:
    """Parse one override.

    Raises:
        ConfigError: The text is no override.
    """
    prefix, key, raw = split(text)
    operation = _PREFIXES[prefix]
    if raw is None and key.count("[") > key.count("]"):
        raise ConfigError(f"the override {text!r} has an unclosed '[' in its key")
    if raw is None and operation != "delete":
        raise ConfigError(f"{text!r} is no override; write key=value (or ~key to remove)")
    keys = parse_key(key, text)
    if raw is None:
        return Override(text, operation, keys, key_text=key)
    value, choices = parse_value(raw, key)
    return Override(text, operation, keys, value, raw, choices, key)


def expand_sweeps(texts: Sequence[str]) -> list[list[str]]:
    """All combinations of overrides that give several values (``a,b``, ``choice(…)``, ``range(…)``).

    The last sweep varies fastest. Without a sweep there is one combination.
    """
    options: list[list[str]] = []
    for text in texts:
        prefix, key, raw = split(text)
        choices = None if raw is None else parse_value(raw, key)[1]
        options.append([text] if choices is None else [f"{prefix}{key}={c}" for c in choices])
    return [list(combination) for combination in itertools.product(*options)]


@dataclass
class _Slot:
    """A place in the tree that can be read, written and emptied."""

    path: str
    exists: bool
    value: Any = None
    write: Callable[[Any], None] = lambda value: None
    convert: Callable[[Any], Any] = lambda value: value
    remove: Callable[[], None] | None = None
    # Error text when the place does not exist.
    missing: str = ""
    # Whether `+` may make the place.
    may_add: bool = False
    # Name of the environment's collection that this place is.
    section: str | None = None


def apply(root: Any, overrides: Sequence[Override]) -> None:
    """Apply overrides, in order, to a tree of dataclasses, collections, dictionaries and lists, in place.

    Raises:
        ConfigError: An override matches nothing, gives a value of the wrong type, or adds what exists.
    """
    pending: dict[tuple[Key, ...], tuple[_Slot, dict[str, Any], Override]] = {}
    touched: dict[int, tuple[Any, str]] = {}
    for override in overrides:
        if override.choices is not None:
            raise ConfigError(
                f"{override.raw!r} gives several values; use --multirun (-m) to try them all", override.path
            )
        begun = next((p for p in pending if override.keys[: len(p)] == p), None)
        if begun is not None:
            _extend(pending, begun, override)
            continue
        _apply_one(root, override, pending, touched)
    for slot, values, first in pending.values():
        try:
            slot.write(slot.convert(values))
        except ConfigError as error:
            if error.path == slot.path and "_target_" in str(error):
                raise ConfigError(
                    f"{first.text!r} begins a new entry that says no class; add +{slot.path}._target_=…",
                    slot.path,
                ) from error
            raise
    for value, path in touched.values():
        _revalidate(value, path)


def _extend(pending: dict[tuple[Key, ...], Any], begun: tuple[Key, ...], override: Override) -> None:
    rest = override.keys[len(begun) :]
    if not rest:
        if override.operation == "delete":
            del pending[begun]
            return
        raise ConfigError(f"{override.text!r} gives the whole of what another override began", override.path)
    node = pending[begun][1]
    for key in rest[:-1]:
        node = node.setdefault(key, {})
        if not isinstance(node, dict):
            raise ConfigError(f"{override.text!r} goes below a value", override.path)
    if override.operation == "delete":
        node.pop(rest[-1], None)
    else:
        node[rest[-1]] = override.value


def _apply_one(
    root: Any, override: Override, pending: dict[tuple[Key, ...], Any], touched: dict[int, Any]
) -> None:
    slot = _Slot("", True, root)
    owner: Any = None
    for depth, key in enumerate(override.keys):
        owner = slot.value
        slot = _child(slot, key)
        last = depth == len(override.keys) - 1
        if last:
            break
        if slot.exists and slot.value is not None:
            continue
        adds = override.operation in ("add", "force")
        if adds and (slot.exists or slot.may_add):
            values: dict[str, Any] = {}
            prefix = override.keys[: depth + 1]
            pending[prefix] = (slot, values, override)
            _extend(pending, prefix, override)
            return
        if slot.exists:
            raise ConfigError(
                f"is null, without {override.keys[depth + 1]!r}; give it whole or begin the override with +",
                slot.path,
            )
        raise ConfigError(slot.missing, slot.path)
    _operate(slot, override)
    if cv.is_dataclass(owner):
        touched[id(owner)] = (owner, slot.path.rsplit(".", 1)[0] if "." in slot.path else "")


def _operate(slot: _Slot, override: Override) -> None:
    operation, value = override.operation, override.value
    if operation == "delete":
        if not slot.exists:
            raise ConfigError(slot.missing, slot.path)
        if override.raw is not None and value != slot.value:
            raise ConfigError(f"is {found(slot.value)}, not {found(value)}; nothing removed", slot.path)
        if slot.remove is None:
            raise ConfigError("is a field and cannot be removed; set it to another value", slot.path)
        slot.remove()
        return
    if operation == "add" and slot.exists and slot.value is not None:
        raise ConfigError(
            "exists already; write the override without + to change it, with ++ for either", slot.path
        )
    if not slot.exists and (operation == "set" or not slot.may_add):
        raise ConfigError(slot.missing, slot.path)
    try:
        new = slot.convert(value)
    except ConfigError as error:
        # A number where text is expected: `run_name=2026` means the text.
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (numeric and "expected str" in str(error) and override.raw is not None):
            raise
        new = slot.convert(override.raw.strip())
    slot.write(new)


def _revalidate(value: Any, path: str) -> None:
    """Let a dataclass check its own values again, as if it were made anew."""
    try:
        dataclasses.replace(copy.deepcopy(value))
    except ConfigError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(" ".join(str(error.args[0] if error.args else error).split()), path) from error


def _child(parent: _Slot, key: Key) -> _Slot:
    """The place below ``parent`` that ``key`` names."""
    value = parent.value
    path = join(parent.path, key)
    if isinstance(value, Root):
        return value.child(key)
    if is_term(value) and key == "params":
        return _params_slot(value, path)
    if isinstance(value, _Params):
        return _param_slot(value, key, path)
    if cv.is_dataclass(value):
        if key == cv.TARGET:
            return _class_slot(value, path, parent)
        return _field_slot(value, key, path)
    if isinstance(value, CollectionCfg):
        return _entry_slot(value, key, path, parent.section)
    if isinstance(value, dict):
        return _item_slot(value, key, path, parent)
    if isinstance(value, (list, tuple)):
        return _element_slot(value, key, path, parent)
    raise ConfigError(f"is {found(value)}; it has no {key!r}", parent.path)


def _field_slot(obj: Any, key: Key, path: str) -> _Slot:
    cls = type(obj)
    hints = field_hints(cls)
    if key not in hints:
        return _Slot(path, False, missing=f"{cls.__name__} has no field {key!r}.{near(str(key), hints)}")
    name = str(key)
    current = getattr(obj, name)
    section = name if cv.is_environment(cls) and name in cv.SECTIONS else None
    hint = hints[name]

    def to_field(value: Any) -> Any:
        if isinstance(value, Mapping) and cv.TARGET not in value:
            if not value and (section or isinstance(current, (CollectionCfg, dict))):
                return (
                    type(current)()
                    if isinstance(current, dict) or type(current) is CollectionCfg
                    else _emptied(current)
                )
            if isinstance(current, dict):
                return cv.convert(_merged(current, value), hint, path)
        return cv.field_value(value, hint, path, current, section)

    def remove() -> None:
        setattr(obj, name, CollectionCfg() if current is None else to_field({}))

    slot = _Slot(path, True, current, functools.partial(setattr, obj, name), to_field, section=section)
    if section:
        slot.remove = remove
    return slot


def _class_slot(obj: Any, path: str, parent: _Slot) -> _Slot:
    """``x._target_=Class``: another class with the values that were set; defaults are the new class's."""

    def to_object(value: Any) -> Any:
        if not isinstance(value, str):
            raise ConfigError(f"expected the name of a class, found {found(value)}", path)
        cls = find_class(value, path)
        values: dict[str, Any] = {cv.TARGET: cls}
        names = field_hints(cls)
        if dataclasses.is_dataclass(cls):
            for f in dataclasses.fields(obj):
                current = getattr(obj, f.name)
                default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
                if f.init and f.name in names and current != default:
                    values[f.name] = current
        return parent.convert(values)

    return _Slot(path, True, type(obj).__name__, parent.write, to_object)


def _emptied(collection: Any) -> Any:
    """A copy of a collection without its terms; plain fields stay."""
    if not isinstance(collection, CollectionCfg):
        return CollectionCfg()
    new = copy.deepcopy(collection)
    for name, value in list(vars(new).items()):
        if cv.is_dataclass(value) or isinstance(value, CollectionCfg):
            delattr(new, name)
    return new


def _merged(current: dict[Any, Any], value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {**current, **value} if value else {}


def _entry_slot(obj: CollectionCfg, key: Key, path: str, section: str | None) -> _Slot:
    name = str(key)
    exists = isinstance(key, str) and name in vars(obj)
    kind = type(obj).__name__ if type(obj) is not CollectionCfg else path.rsplit(".", 1)[0]
    known = [n for n in vars(obj) if not n.startswith("_")]

    def remove() -> None:
        delattr(obj, name)

    def to_entry(value: Any) -> Any:
        if value == {} and exists and isinstance(vars(obj)[name], CollectionCfg):
            return _emptied(vars(obj)[name])
        return cv.entry_value(obj, name, value, path, section)

    value = vars(obj).get(name)
    return _Slot(
        path,
        exists,
        None if value is dataclasses.MISSING else value,
        functools.partial(setattr, obj, name),
        to_entry,
        remove,
        missing=f"{kind} has no entry {name!r}.{near(name, known)} A new entry is begun with +.",
        may_add=isinstance(key, str),
    )


class _Params:
    """The ``params`` of a term, with the parameters of its function."""

    def __init__(self, term: Any):
        self.term = term


def _params_slot(term: Any, path: str) -> _Slot:
    def to_params(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ConfigError(f"expected dict, found {found(value)}", path)
        # Checked against the signature when all overrides are in, since `func` may change as well.
        return _merged(dict(term.params), value)

    return _Slot(path, True, _Params(term), functools.partial(setattr, term, "params"), to_params)


def _param_slot(params: _Params, key: Key, path: str) -> _Slot:
    term, name = params.term, str(key)
    parameters, is_open = term_parameters(term.func) if callable(term.func) else ({}, True)
    func = getattr(term.func, "__name__", str(term.func))
    parameter = parameters.get(name)
    exists = name in term.params or parameter is not None
    current = term.params.get(name, _NOTHING)
    if current is _NOTHING:
        current = None if parameter is None or parameter.required else copy.deepcopy(parameter.default)
        if cv.is_dataclass(current):
            # The function's own default, made explicit so that parts of it can be changed.
            term.params[name] = current

    def write(value: Any) -> None:
        term.params[name] = value

    def to_param(value: Any) -> Any:
        if parameter is None:
            return cv.untyped(value, path)
        if isinstance(value, Mapping) and isinstance(current, dict) and cv.TARGET not in value:
            value = _merged(current, value)
        return cv.param_value(value, parameter, path, current)

    return _Slot(
        path,
        exists,
        current,
        write,
        to_param,
        lambda: term.params.pop(name, None),
        missing=f"{func} has no parameter {name!r}.{near(name, parameters)}",
        may_add=is_open,
    )


def _item_slot(obj: dict[Any, Any], key: Key, path: str, parent: _Slot) -> _Slot:
    # `.0` and `[0]` are read as integers; the dictionary's keys may be text.
    actual = key if key in obj or str(key) not in obj else str(key)
    known = [str(k) for k in obj]

    def to_item(value: Any) -> Any:
        current = obj.get(actual)
        if isinstance(value, Mapping) and isinstance(current, dict) and cv.TARGET not in value:
            value = _merged(current, value)
        elif isinstance(value, Mapping) and cv.is_dataclass(current) and cv.TARGET not in value:
            return cv.build(value, type(current), path, base=current)
        expected = cv.entry_class(obj, parent.section)
        if expected is not None and isinstance(value, Mapping) and cv.TARGET not in value:
            return cv.build(value, expected, path)
        # The dictionary as a whole knows the type of its values.
        return parent.convert({**{k: v for k, v in obj.items() if k == actual}, actual: value})[actual]

    return _Slot(
        path,
        actual in obj,
        obj.get(actual),
        functools.partial(obj.__setitem__, actual),
        to_item,
        lambda: obj.pop(actual, None),
        missing=f"there is no key {str(key)!r}.{near(str(key), known)} A new key is begun with +.",
        may_add=True,
    )


def _element_slot(obj: Any, key: Key, path: str, parent: _Slot) -> _Slot:
    if not isinstance(key, int):
        raise ConfigError(f"is a list of {len(obj)}; {key!r} is no index", parent.path)
    exists = -len(obj) <= key < len(obj)

    def replaced(value: Any) -> Any:
        items = list(obj)
        items[key] = value
        return items

    def write(value: Any) -> None:
        if isinstance(obj, list):
            obj[key] = value
        else:
            parent.write(tuple(replaced(value)))

    def to_element(value: Any) -> Any:
        current = obj[key]
        if isinstance(value, Mapping) and cv.is_dataclass(current) and cv.TARGET not in value:
            return cv.build(value, type(current), path, base=current)
        try:
            return parent.convert(replaced(value))[key]
        except ConfigError as error:
            raise ConfigError(str(error).removeprefix(f"{error.path}: "), path) from error

    return _Slot(
        path,
        exists,
        obj[key] if exists else None,
        write,
        to_element,
        missing=f"the list has {len(obj)} elements, counted from 0; write the whole list to make it longer",
    )


class Root:
    """The top of the tree: several objects whose fields are addressed without a prefix.

    Args:
        objects: Prefix → object; the fields of those in ``open`` can be written without the prefix.
        open: Prefixes that may be left out, in the order they are searched.
        short: Short key → key path, such as ``num_envs`` → ``("env", "scene", "num_envs")``.
        groups: Further names that an error may suggest.
    """

    def __init__(
        self,
        objects: dict[str, Any],
        open: tuple[str, ...],
        short: Mapping[str, tuple[str, ...]],
        groups: Sequence[str] = (),
    ):
        self.objects = objects
        self.open = open
        self.short = short
        self.groups = groups

    def child(self, key: Key) -> _Slot:
        name = str(key)
        for prefix in self.open:
            obj = self.objects[prefix]
            if name in field_hints(type(obj)):
                return _field_slot(obj, name, name)
        if name in self.short:
            slot = _Slot("", True, self)
            for part in self.short[name]:
                slot = _child(slot, part)
            return slot
        if name in self.objects:
            # Errors below `env` write paths as overrides do, without the prefix.
            return _Slot("" if name in self.open else name, True, self.objects[name])
        known = [*self.short, *(k for k in self.objects if k not in self.open)]
        for prefix in self.open:
            known += field_hints(type(self.objects[prefix]))
        if name in self.groups:
            return _Slot(name, False, missing=f"is a group; choose one of its options by {name}=…")
        known += self.groups
        return _Slot(name, False, missing=f"there is no such key.{near(name, dict.fromkeys(known))}")
