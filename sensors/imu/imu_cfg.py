# SPDX-License-Identifier: Apache-2.0
"""Configuration of the inertial measurement unit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from forcelab.physics import checks

from ..offset_cfg import OffsetCfg, check_offset
from ..sensor_base_cfg import SensorBaseCfg

if TYPE_CHECKING:
    from ..sensor_base import SensorWorld
    from .imu import Imu


@dataclass
class ImuCfg(SensorBaseCfg):
    """Velocities and accelerations of one point of a body, in the sensor's own frame.

    Attributes:
        prim_path: the body, one per environment.
        offset: the sensor's frame in the body's.
        gravity_bias: added to the linear acceleration, world frame [m/s²]: with the default an accelerometer at
            rest reads +9.81 upwards and one in free fall reads zero. (0, 0, 0) gives the coordinate acceleration.
    """

    offset: OffsetCfg = field(default_factory=OffsetCfg)
    gravity_bias: tuple[float, float, float] = (0.0, 0.0, 9.81)

    # The differences of velocity that the unit reads are right with any integrator: an arm under stiff PD gains was
    # off the mean acceleration of steps twenty times shorter by the same amounts with `implicitfast` as with `discrete`
    # (medians 0.3 to 1.1 m/s² of 54 to 414). Accelerations that the solver itself reports are so with `discrete`
    # alone; a scene that reads accelerations takes it, so that all of them agree.
    needs_accelerations: ClassVar[bool] = True

    def check(self, name: str) -> None:
        super().check(name)
        check_offset(self.offset, f"scene.{name}.offset")
        checks.vector(self.gravity_bias, 3, f"scene.{name}.gravity_bias")

    def create(self, name: str, world: SensorWorld) -> Imu:
        from .imu import Imu

        return Imu(self, name, world)
