# SPDX-License-Identifier: Apache-2.0
"""The one error of configuration."""

from __future__ import annotations


class ConfigError(ValueError):
    """A configuration or an override that cannot be used. The message is one line.

    Attributes:
        path: Full key path, such as ``rewards.feet_slide.weight``; empty when no key is to blame.
    """

    def __init__(self, message: str, path: str = ""):
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


def found(value: object, limit: int = 80) -> str:
    """How an error names a value: its text and its type."""
    text = repr(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return "null" if value is None else f"{text} ({type(value).__name__})"


def join(path: str, key: object) -> str:
    """The key path of ``key`` below ``path``, written as an override would write it."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    text = str(key)
    if text.replace("_", "a").replace("-", "a").isalnum():
        return f"{path}.{text}" if path else text
    return f'{path}["{text}"]'
