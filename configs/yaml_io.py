# SPDX-License-Identifier: Apache-2.0
"""Configuration objects to YAML and back."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import yaml

from forcelab.scene.collection_cfg import CollectionCfg

from .errors import ConfigError, join
from .names import name_of


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which also reads ``1e-3`` as a number."""


Loader.yaml_implicit_resolvers = {k: list(v) for k, v in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$|^[-+]?\.\d+([eE][-+]?\d+)?$"),
    list("-+0123456789."),
)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_plain(value: Any, path: str = "") -> Any:
    """Turn configuration objects into dictionaries, lists and scalars that :mod:`yaml` writes.

    Objects carry their class as ``_target_``, functions and classes their name.

    Raises:
        ConfigError: A value that YAML cannot hold.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if value is dataclasses.MISSING:
        return None
    if isinstance(value, CollectionCfg):
        entries = {k: to_plain(v, join(path, k)) for k, v in vars(value).items() if not k.startswith("_")}
        # Entries that the class declares and this object lost would come back; null keeps them away.
        lost = {k: None for k in type(value)._defaults if k not in vars(value)}
        return {"_target_": name_of(type(value)), **entries, **lost}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: to_plain(getattr(value, f.name), join(path, f.name))
            for f in dataclasses.fields(value)
            # "All" where that is the default would only be noise.
            if f.init and not (_is_all(getattr(value, f.name)) and _is_all(_default(f)))
        }
        return {"_target_": name_of(type(value)), **fields}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping):
        return {
            k if type(k) in (int, float, bool, str) else str(k): to_plain(v, join(path, k))
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [to_plain(v, join(path, i)) for i, v in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return sorted(to_plain(v, path) for v in value)
    if isinstance(value, slice):
        return {"_target_": "slice", "start": value.start, "stop": value.stop, "step": value.step}
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return name_of(value)
    # Tensors and arrays, numbers of numpy: duck-typed, so that torch need not be imported.
    if hasattr(value, "tolist"):
        return to_plain(value.tolist(), path)
    if isinstance(value, (bool, int, float, str)):
        return next(t(value) for t in (bool, int, float, str) if isinstance(value, t))
    raise ConfigError(f"a {type(value).__name__} cannot be written to YAML", path)


def _default(f: dataclasses.Field[Any]) -> Any:
    return f.default if f.default_factory is dataclasses.MISSING else f.default_factory()


def _is_all(value: Any) -> bool:
    return isinstance(value, slice) and value == slice(None)


def dump(plain: Any) -> str:
    """YAML text of plain values; innermost lists and dictionaries on one line."""
    return yaml.dump(
        plain, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=160, allow_unicode=True
    )


def load(text: str, source: str = "") -> Any:
    """Plain values of YAML text.

    Raises:
        ConfigError: The text is not YAML.
    """
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ConfigError(
            f"{source or 'the text'} is not valid YAML: {' '.join(str(error).split())}"
        ) from error
