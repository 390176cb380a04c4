# SPDX-License-Identifier: Apache-2.0
"""Configuration of the point-like contact sensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forcelab.physics import checks

from ..sensor_base_cfg import SensorBaseCfg

if TYPE_CHECKING:
    from ..sensor_base import SensorWorld
    from .isaac_contact_sensor import IsaacContactSensor


@dataclass
class IsaacContactSensorCfg(SensorBaseCfg):
    """A contact sensor at a frame that is attached to a rigid body: one number per environment.

    Attributes:
        prim_path: the sensor's own frame, ``{ENV_REGEX_NS}/Robot/LF_FOOT/contact``: a plain path, no
            expression. The rigid body is found by walking up the path.
        translation: the frame's origin in the frame of that body [m].
        radius: contacts closer than this to the origin count [m]; 0 or less: all contacts of the body.
        threshold: (lower, upper) [N]. Below the lower one the sensor reads 0 and is not in contact; readings
            are cut at the upper one.
        enabled: a disabled sensor reads 0. Can be changed later by the sensor's ``enabled``.
    """

    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = -1.0
    threshold: tuple[float, float] = (0.0, 100000.0)
    enabled: bool = True

    def check(self, name: str) -> None:
        super().check(name)
        checks.vector(self.translation, 3, f"scene.{name}.translation")
        checks.number(self.radius, f"scene.{name}.radius", unit="m")
        checks.flag(self.enabled, f"scene.{name}.enabled")
        what = f"scene.{name}.threshold"
        pair = self.threshold
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise ValueError(f"{what} is {pair!r}; it must be two forces, (lower, upper) [N].")
        lower = checks.number(pair[0], f"{what}[0]", at_least=0.0, unit="N")
        upper = checks.number(pair[1], f"{what}[1]", at_least=0.0, infinite=True, unit="N")
        if upper < lower:
            raise ValueError(f"{what} is {pair!r}; the lower force comes first: (lower, upper) [N].")

    def create(self, name: str, world: SensorWorld) -> IsaacContactSensor:
        from .isaac_contact_sensor import IsaacContactSensor

        return IsaacContactSensor(self, name, world)
