# SPDX-License-Identifier: Apache-2.0
"""Checks of values that users give. Each error names the key, what was found and what is needed. Needs no torch."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

# Engines and sensors compute in float32: larger numbers are infinite there, smaller ones zero.
_LARGEST, _SMALLEST = 3.4e38, 1.2e-38


def is_number(value: Any) -> bool:
    """Whether ``value`` is a real number that is not NaN, and no bool."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def number(
    value: Any,
    what: str,
    at_least: float | None = None,
    above: float | None = None,
    infinite: bool = False,
    unit: str = "",
) -> float:
    """``value`` as a float.

    Args:
        what: Key path, for the error.
        at_least, above: Bounds.
        infinite: Infinity is allowed.
        unit: Unit, for the error.

    Raises:
        ValueError: It is no number (bool and NaN are none), beyond float32, or out of bounds.
    """
    good = is_number(value) and (abs(value) <= _LARGEST or (infinite and math.isinf(value)))
    if good and above == 0.0:
        good = value >= _SMALLEST
    if good and (at_least is None or value >= at_least) and (above is None or value > above):
        return float(value)
    kind = "a number" if infinite else "a finite number"
    if above is not None:
        kind += f" above {above:g}"
    elif at_least is not None:
        kind += f", {at_least:g} or more"
    raise ValueError(f"{what} is {value!r}; it must be {kind}{f' [{unit}]' if unit else ''}.")


def whole(value: Any, what: str, at_least: int = 0, at_most: int | None = None) -> int:
    """``value`` as an int.

    Raises:
        ValueError: It is no whole number (bool is none), or too small or large.
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= at_least:
        if at_most is None or int(value) <= at_most:
            return int(value)
        raise ValueError(f"{what} is {value!r}; it must be at most {at_most}.")
    raise ValueError(f"{what} is {value!r}; it must be a whole number, {at_least} or more.")


def flag(value: Any, what: str) -> bool:
    """``value`` itself.

    Raises:
        ValueError: It is neither True nor False.
    """
    if isinstance(value, bool):
        return value
    raise ValueError(f"{what} is {value!r}; it must be true or false.")


def vector(value: Any, count: int, what: str) -> tuple[float, ...]:
    """``value`` as ``count`` floats.

    Raises:
        ValueError: It is no sequence of that many finite numbers.
    """
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        # Tensors and arrays give their own scalars when iterated over.
        items = value.tolist() if hasattr(value, "tolist") else list(value)
        if (
            isinstance(items, list)
            and len(items) == count
            and all(is_number(v) and abs(v) <= _LARGEST for v in items)
        ):
            return tuple(float(v) for v in items)
    raise ValueError(f"{what} is {value!r}; it must be {count} finite numbers.")


def quaternion(value: Any, what: str) -> tuple[float, float, float, float]:
    """``value`` (x, y, z, w) with length 1.

    Raises:
        ValueError: It is no four finite numbers, or all are zero.
    """
    x, y, z, w = vector(value, 4, what)
    size = math.hypot(x, y, z, w)
    if size < 1e-6:
        raise ValueError(f"{what} is {value!r}; it must be a quaternion (x, y, z, w), not zero.")
    return (x / size, y / size, z / size, w / size)


def env_mask(mask: Any, num_envs: int, device: Any, what: str) -> Any:
    """``mask`` itself, a bool tensor (E,) on the device, or None. Looks at no element.

    Raises:
        ValueError: It is something else.
    """
    if mask is None:
        return None
    shape, dtype = getattr(mask, "shape", None), str(getattr(mask, "dtype", ""))
    if dtype == "torch.bool" and tuple(shape or ()) == (num_envs,):
        if mask.device == device:
            return mask
        found = f"is on {mask.device}"
    elif dtype.startswith("torch."):
        found = f"has dtype {dtype} and shape {tuple(shape or ())}"
    else:
        found = f"is a {type(mask).__name__}"
    raise ValueError(f"{what} {found}; a bool tensor of shape ({num_envs},) on {device} is needed, or None.")
