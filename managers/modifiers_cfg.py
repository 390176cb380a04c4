# SPDX-License-Identifier: Apache-2.0
"""Configurations of observation modifiers. Importable without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ModifierCfg:
    """A change to an observation before noise.

    Attributes:
        func: ``f(data (E, …), **params) -> (E, …)``, a :class:`ModifierBase` class, or a dotted path.
        params: Keyword arguments of a function. A class reads its own configuration fields.
    """

    func: Any = None
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class DigitalFilterCfg(ModifierCfg):
    """y[t] = Σ B[k]·x[t-k] - Σ A[k]·y[t-1-k]; see :class:`forcelab.managers.DigitalFilter`.

    Attributes:
        A: Coefficients of past outputs, the newest first; the leading 1 is left out.
        B: Coefficients of inputs, the newest first.
    """

    func: Any = "forcelab.managers.modifiers.DigitalFilter"
    A: list[float] = field(default_factory=list)
    B: list[float] = field(default_factory=lambda: [1.0])


@dataclass
class IntegratorCfg(ModifierCfg):
    """Trapezoidal integral over time; see :class:`forcelab.managers.Integrator`.

    Attributes:
        dt: Time between two values, s; the environment's step time in most cases.
    """

    func: Any = "forcelab.managers.modifiers.Integrator"
    dt: float = 0.0
