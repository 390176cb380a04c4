# SPDX-License-Identifier: Apache-2.0
"""Configuration of the joint wrench sensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from forcelab.physics import checks
from forcelab.physics.errors import near

from ..sensor_base_cfg import SensorBaseCfg

if TYPE_CHECKING:
    from ..sensor_base import SensorWorld
    from .joint_wrench_sensor import JointWrenchSensor

CONVENTIONS = ("incoming_joint_frame",)


@dataclass
class JointWrenchSensorCfg(SensorBaseCfg):
    """Forces and torques that joints transmit, as six-axis force/torque sensors mounted in them read.

    Attributes:
        prim_path: the articulation, ``{ENV_REGEX_NS}/Robot``, or its root body.
        convention: ``incoming_joint_frame``: what the parent-side joint applies TO the child body, in the
            child-side joint frame, the torque about the child-side joint anchor.
        cutoff_frequency: keep a copy of the wrenches behind a first-order low-pass filter with this cut-off [Hz],
            which runs at every sample; None: no copy.
    """

    convention: str = "incoming_joint_frame"
    cutoff_frequency: float | None = None

    needs_accelerations: ClassVar[bool] = True

    def check(self, name: str) -> None:
        super().check(name)
        if self.convention not in CONVENTIONS:
            raise ValueError(
                f"scene.{name}.convention is {self.convention!r}.{near(str(self.convention), CONVENTIONS)}"
            )
        if self.cutoff_frequency is not None:
            checks.number(self.cutoff_frequency, f"scene.{name}.cutoff_frequency", above=0.0, unit="Hz")

    def create(self, name: str, world: SensorWorld) -> JointWrenchSensor:
        from .joint_wrench_sensor import JointWrenchSensor

        return JointWrenchSensor(self, name, world)
