# SPDX-License-Identifier: Apache-2.0
"""What every engine's configuration has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import checks

if TYPE_CHECKING:
    from .description import SceneDesc
    from .engine import Engine

# Per environment; far more than memory holds.
_MOST = 10_000_000


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
        checks.number(self.dt, "physics.dt", above=0.0, unit="s")
        checks.vector(self.gravity, 3, "physics.gravity [m/s²]")
        for key in ("contact_capacity", "constraint_capacity"):
            if getattr(self, key) is not None:
                checks.whole(getattr(self, key), f"physics.{key}", at_least=1, at_most=_MOST)

    def create(self, desc: SceneDesc, device: str) -> Engine:
        """Build the engine for a scene. Engine classes are imported only here."""
        raise NotImplementedError(f"{type(self).__name__} names no engine; use NewtonCfg or OvPhysxCfg.")
