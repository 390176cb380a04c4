# SPDX-License-Identifier: Apache-2.0
"""Articulations and rigid objects of :mod:`forcelab.scene` under another name, for code that is ported."""

from __future__ import annotations

from typing import Any

from forcelab import scene


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(scene, name)


def __dir__() -> list[str]:
    return dir(scene)
