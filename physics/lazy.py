# SPDX-License-Identifier: Apache-2.0
"""Lazy re-exports: a package names its public things without importing torch, warp or newton."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from .errors import near


def attach(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for ``package``.

    Args:
        package: The package's ``__name__``.
        names: Public name → submodule (relative, without the leading dot) that defines it.
    """
    exported = sorted(names)

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}.{near(name, exported)}")
        value = getattr(importlib.import_module(f"{package}.{names[name]}"), name)
        # Cached in the module, so that the look-up happens once.
        setattr(importlib.import_module(package), name, value)
        return value

    return __getattr__, lambda: exported, exported
