# SPDX-License-Identifier: Apache-2.0
"""Configurations of observation modifiers. Importable without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from forcelab.managers import ModifierCfg
from forcelab.managers.manager_term_cfg import write_live

PerAxis = float | tuple[float, float, float]
"""One number for all three axes, or one for each of x, y, z."""


@dataclass
class ForceTorqueSensorModelCfg(ModifierCfg):
    """What a real six-axis force/torque sensor makes of wrenches; see :class:`forcelab.mdp.ForceTorqueSensorModel`.

    The term's data are wrenches, (E, 6·n): per body force (N), then torque (N·m), before the term's scale. Every
    effect is off at its default. In a running environment the numbers of the effects that are on are device
    tensors; assignment writes into them. The model is part of the sensor: unlike the term's ``noise`` it does not
    follow the group's ``enable_corruption``.

    Attributes:
        dt: time between two observations [s]; None: the environment's step time.
        cutoff_frequency: of a first-order low-pass filter [Hz]; None: none.
        force_bias, torque_bias: bounds ± of a constant error per axis, drawn at each reset [N, N·m].
        force_noise, torque_noise: standard deviation of white noise per axis [N, N·m].
        force_drift, torque_drift: strength of a random walk per axis: its standard deviation after one second
            [N, N·m]; after t seconds √t times as much. It begins at 0 at each reset.
        force_range, torque_range: readings saturate at ± these values per axis [N, N·m]; None: never.
    """

    func: Any = "forcelab.mdp.modifiers.ForceTorqueSensorModel"
    dt: float | None = None
    cutoff_frequency: float | None = None
    force_bias: PerAxis = 0.0
    torque_bias: PerAxis = 0.0
    force_noise: PerAxis = 0.0
    torque_noise: PerAxis = 0.0
    force_drift: PerAxis = 0.0
    torque_drift: PerAxis = 0.0
    force_range: PerAxis | None = None
    torque_range: PerAxis | None = None
    #: Fields of effects that were off when the environment was made.
    _off: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    FIELDS: ClassVar[tuple[str, ...]] = (
        "dt",
        "cutoff_frequency",
        *("force_bias", "torque_bias", "force_noise", "torque_noise"),
        *("force_drift", "torque_drift", "force_range", "torque_range"),
    )

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if name in self.FIELDS and hasattr(old, "copy_"):
            write_live(old, value, f"ForceTorqueSensorModelCfg.{name}")
        elif name in self.__dict__.get("_off", ()):
            raise ValueError(
                f"ForceTorqueSensorModelCfg.{name} was off when the environment was made and cannot be switched on "
                "while it runs; begin with a value that changes little."
            )
        else:
            object.__setattr__(self, name, value)
