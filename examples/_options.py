# SPDX-License-Identifier: Apache-2.0
"""Options of examples: ``num_envs=16``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from forcelab.physics.errors import near


def read(words: list[str] | None, **defaults: Any) -> SimpleNamespace:
    """The options given as ``name=value`` over their defaults, as attributes.

    Raises:
        ValueError: Unknown name, or a value that is not of the default's type.
    """
    values = dict(defaults)
    for word in words or ():
        name, _, text = word.lstrip("-").partition("=")
        if name not in defaults:
            raise ValueError(f"there is no option {name!r}.{near(name, defaults)}")
        kind = type(defaults[name])
        try:
            values[name] = kind(text)
        except ValueError:
            raise ValueError(f"{name} is {text!r}; give {name}=<{kind.__name__}>") from None
        if kind is int and values[name] < 1:
            raise ValueError(f"{name} is {text}; it must be at least 1")
    return SimpleNamespace(**values)
