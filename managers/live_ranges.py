# SPDX-License-Identifier: Apache-2.0
"""Ranges of terms that may change while the environment runs, also inside a captured step."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from forcelab.physics.errors import near

Range: TypeAlias = Sequence[float] | torch.Tensor
"""Lower and upper bound: a pair of numbers, or a device tensor of shape (2,).

A parameter of a term that is annotated so becomes such a tensor in a running environment; assigning to
``params`` writes into it.
"""

PoseRanges: TypeAlias = Mapping[str, Sequence[float]] | torch.Tensor
"""{"x": (lo, hi), "yaw": (lo, hi), …}, or a device tensor (2, 6): rows lower, upper, columns POSE_KEYS.

A parameter of a term that is annotated so becomes :class:`LivePoseRanges` in a running environment.
"""

POSE_KEYS = ("x", "y", "z", "roll", "pitch", "yaw")


def pair(value: Any, what: str, ordered: bool = True) -> tuple[float, float]:
    """Two finite numbers; with ``ordered`` the first not above the second.

    Raises:
        ValueError: They are not; the message begins with ``what``.
    """
    numbers = value.tolist() if isinstance(value, torch.Tensor) else value
    try:
        low, high = (float(x) for x in numbers)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is {value!r}; it must be two numbers.") from None
    if not (math.isfinite(low) and math.isfinite(high)) or (ordered and low > high):
        need = (
            "(lower, upper), two finite numbers, lower not above upper" if ordered else "two finite numbers"
        )
        raise ValueError(f"{what} is {(low, high)!r}; it must be {need}.")
    return low, high


class LivePoseRanges(dict[str, torch.Tensor]):
    """{"x": (2,) tensor, …} over one device tensor; assignment writes into it.

    Attributes:
        bounds: (2, 6) lower and upper bounds; columns ``POSE_KEYS``.
    """

    def __init__(self, ranges: Mapping[str, Any] | torch.Tensor, what: str, device: torch.device):
        self.bounds = torch.zeros(2, len(POSE_KEYS), device=device)
        self._what = what
        super().__init__({key: self.bounds[:, i] for i, key in enumerate(POSE_KEYS)})
        self.write(ranges)

    def write(self, ranges: Mapping[str, Any] | torch.Tensor) -> None:
        """Replace all bounds; keys that are not given become 0."""
        if isinstance(ranges, torch.Tensor):
            if ranges.shape != self.bounds.shape:
                raise ValueError(f"{self._what} has shape {tuple(ranges.shape)}; it must be (2, 6).")
            if not ranges.is_cuda:
                for key, bounds in zip(POSE_KEYS, ranges.unbind(1), strict=True):
                    self._pair(key, bounds)
            self.bounds.copy_(ranges)
            return
        if not isinstance(ranges, Mapping):
            raise ValueError(f"{self._what} is {ranges!r}; it must be {{'x': (lower, upper), …}}.")
        if ranges is self:
            return
        given = {key: self._pair(key, value) for key, value in ranges.items()}
        for i, key in enumerate(POSE_KEYS):
            low, high = given.get(key, (0.0, 0.0))
            self.bounds[0, i], self.bounds[1, i] = low, high

    def _pair(self, key: str, value: Any) -> tuple[float, float]:
        if key not in POSE_KEYS:
            raise ValueError(f"{self._what} has an unknown key {key!r}.{near(key, POSE_KEYS)}")
        return pair(value, f"{self._what}[{key!r}]")

    def __setitem__(self, key: str, value: Any) -> None:
        column = self.bounds[:, POSE_KEYS.index(key)] if key in POSE_KEYS else None
        low, high = self._pair(key, value)
        assert column is not None
        column[0], column[1] = low, high

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, tuple[float, float]]:
        # A copy belongs to no running environment.
        rows = self.bounds.T.tolist()
        return {key: (row[0], row[1]) for key, row in zip(POSE_KEYS, rows, strict=True)}

    def __reduce__(self) -> Any:
        return (dict, (self.__deepcopy__({}),))


def range_kinds(function: Any) -> dict[str, str]:
    """Parameters of a term that are ranges: name → "Range" or "PoseRanges"."""
    try:
        parameters: Iterable[inspect.Parameter] = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    found = {}
    for p in parameters:
        words = p.annotation if isinstance(p.annotation, str) else _spelled(p.annotation)
        kinds = {word.strip() for word in words.split("|")} - {"None"}
        if len(kinds) == 1 and (kind := kinds.pop()) in ("Range", "PoseRanges"):
            found[p.name] = kind
    return found


def _spelled(annotation: Any) -> str:
    for name, alias in (("Range", Range), ("PoseRanges", PoseRanges)):
        if annotation == alias or annotation == alias | None:
            return name
    return ""


def adopt(value: Any, kind: str, what: str, device: torch.device, ordered: bool = True) -> Any:
    """The live form of a range.

    Args:
        value: What the configuration gives; None stays None.
        kind: From :func:`range_kinds`.
        what: Key path, for messages.
        device: Device of the environment.
        ordered: Whether the first number is a lower bound (not so for a mean).
    """
    if value is None:
        return None
    if kind == "PoseRanges":
        return LivePoseRanges(value, what, device)
    return torch.tensor(pair(value, what, ordered), device=device)


def write(live: Any, value: Any, what: str, ordered: bool = True) -> None:
    """Put new numbers into a live range."""
    if isinstance(live, LivePoseRanges):
        live.write(value)
    elif isinstance(value, torch.Tensor) and value.is_cuda and value.shape == live.shape:
        live.copy_(value)  # looking at it would wait
    elif value is not live:
        low, high = pair(value, what, ordered)
        live[0], live[1] = low, high
