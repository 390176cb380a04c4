# SPDX-License-Identifier: Apache-2.0
"""Readings of the inertial measurement unit."""

from __future__ import annotations

from forcelab.physics.array import Array

from ..pose_sensor import PoseSensorData


class ImuData(PoseSensorData):
    """What the unit measured at its last sample; E environments. ``_b`` is the sensor's frame."""

    @property
    def pos_w(self) -> Array:
        """(E, 3) position of the sensor [m]."""
        return self._read("pos_w")

    @property
    def quat_w(self) -> Array:
        """(E, 4) orientation of the sensor (x, y, z, w)."""
        return self._read("quat_w")

    @property
    def lin_vel_b(self) -> Array:
        """(E, 3) velocity of the sensor's origin [m/s]."""
        return self._read("lin_vel_b")

    @property
    def ang_vel_b(self) -> Array:
        """(E, 3) angular velocity [rad/s]."""
        return self._read("ang_vel_b")

    @property
    def lin_acc_b(self) -> Array:
        """(E, 3) acceleration of the sensor's origin plus ``gravity_bias``, mean over the step [m/s²].

        Zero from a reset until the next step.
        """
        return self._read("lin_acc_b")

    @property
    def ang_acc_b(self) -> Array:
        """(E, 3) angular acceleration, mean over the step [rad/s²]. Zero from a reset until the next step."""
        return self._read("ang_acc_b")

    @property
    def projected_gravity_b(self) -> Array:
        """(E, 3) unit vector of gravity; (0, 0, -1) when upright."""
        return self._read("projected_gravity_b")
