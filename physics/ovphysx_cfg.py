# SPDX-License-Identifier: Apache-2.0
"""Settings of the OvPhysX engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .physics_cfg import PhysicsCfg

if TYPE_CHECKING:
    from .description import SceneDesc
    from .engine import Engine


@dataclass
class OvPhysxCfg(PhysicsCfg):
    """PhysX through the ``ovphysx`` wheel (optional extra ``ovphysx``), on the CPU.

    Attributes:
        position_iterations, velocity_iterations: solver iterations of every articulation and body.
        num_threads: worker threads of the simulation; while several scenes are open, the first one's count holds.
    """

    position_iterations: int = 8
    velocity_iterations: int = 1
    num_threads: int = 2

    def validate(self) -> None:
        super().validate()
        for key, lowest in (("position_iterations", 1), ("velocity_iterations", 0), ("num_threads", 1)):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= 255:
                raise ValueError(f"physics.{key} is {value!r}; it must be an integer from {lowest} to 255.")

    def create(self, desc: SceneDesc, device: str) -> Engine:
        self.validate()
        from .ovphysx import OvPhysxEngine

        return OvPhysxEngine(self, desc, device)
