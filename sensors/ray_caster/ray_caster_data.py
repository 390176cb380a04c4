# SPDX-License-Identifier: Apache-2.0
"""Readings of the ray caster."""

from __future__ import annotations

from forcelab.physics.array import Array

from ..pose_sensor import PoseSensorData


class RayCasterData(PoseSensorData):
    """What the rays met at the last sample; E environments, R rays."""

    @property
    def pos_w(self) -> Array:
        """(E, 3) position of the body that carries the rays, without the offset [m]."""
        return self._read("pos_w")

    @property
    def quat_w(self) -> Array:
        """(E, 4) its orientation (x, y, z, w)."""
        return self._read("quat_w")

    @property
    def ray_hits_w(self) -> Array:
        """(E, R, 3) first points that the rays meet [m]; infinity where there is none within ``max_distance``."""
        return self._read("ray_hits_w")
