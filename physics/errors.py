# SPDX-License-Identifier: Apache-2.0
"""Wording shared by every error message: near names first, then what is known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near(name: str, choices: Iterable[str], limit: int = 20) -> str:
    """Text to append to an error about an unknown ``name``: near names, else the known ones.

    Args:
        name: What was found.
        choices: What would have been right.
        limit: At most this many known names are listed when none is near.
    """
    known = [str(c) for c in choices]
    lower = {c.lower(): c for c in known}
    hits = difflib.get_close_matches(str(name).lower(), list(lower), n=3, cutoff=0.6)
    if hits:
        return " Did you mean " + " or ".join(repr(lower[h]) for h in hits) + "?"
    if not known:
        return " There are none."
    shown = ", ".join(repr(c) for c in known[:limit])
    return f" Known: {shown}{', …' if len(known) > limit else ''}."
