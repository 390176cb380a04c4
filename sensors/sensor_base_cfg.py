# SPDX-License-Identifier: Apache-2.0
"""What every sensor's configuration has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from forcelab.physics import checks

if TYPE_CHECKING:
    from .sensor_base import SensorBase, SensorWorld


@dataclass
class SensorBaseCfg:
    """Settings shared by all sensors.

    Attributes:
        prim_path: what the sensor is attached to; ``{ENV_REGEX_NS}`` stands for one environment.
        update_period: 0 samples every physics step; otherwise sample times are its multiples [s].
        debug_vis: draw the sensor's readings; never changes data.
    """

    prim_path: str = ""
    update_period: float = 0.0
    debug_vis: bool = False

    #: Readings depend on the accelerations that the solver reports: engines choose an exact integrator then.
    needs_accelerations: ClassVar[bool] = False

    def check(self, name: str) -> None:
        """Raise ValueError for values that no scene can use."""
        checks.number(self.update_period, f"scene.{name}.update_period", at_least=0.0, unit="s")
        checks.flag(self.debug_vis, f"scene.{name}.debug_vis")

    def create(self, name: str, world: SensorWorld) -> SensorBase:
        """Make the sensor for a scene."""
        raise NotImplementedError
