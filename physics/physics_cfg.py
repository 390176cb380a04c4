# SPDX-License-Identifier: Apache-2.0
"""What every engine's configuration has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .description import SceneDesc
    from .engine import Engine


@dataclass
class PhysicsCfg:
    """Settings shared by all engines.

    Attributes:
        dt: physics time step [s].
        gravity: [m/s²], world frame.
        contact_capacity: contacts per environment (the pool is shared); None: from the shapes.
            Engines whose buffers grow by themselves ignore the capacities.
        constraint_capacity: constraint rows per environment; None: from contacts and joints.
    """

    dt: float = 0.005
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    contact_capacity: int | None = None
    constraint_capacity: int | None = None

    def validate(self) -> None:
        """Raise ValueError, naming the field, for values no engine can use."""
        if not (isinstance(self.dt, (int, float)) and math.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"physics.dt is {self.dt!r}; it must be a positive number of seconds.")
        if len(self.gravity) != 3 or not all(math.isfinite(g) for g in self.gravity):
            raise ValueError(f"physics.gravity is {self.gravity!r}; it must be three finite numbers in m/s².")

        for key in ("contact_capacity", "constraint_capacity"):
            value = getattr(self, key)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"physics.{key} is {value!r}; it must be a positive integer or null.")

    def create(self, desc: SceneDesc, device: str) -> Engine:
        """Build the engine for a scene. Engine classes are imported only here."""
        raise NotImplementedError(f"{type(self).__name__} names no engine; use NewtonCfg or OvPhysxCfg.")
