# SPDX-License-Identifier: Apache-2.0
"""Readings of the joint wrench sensor."""

from __future__ import annotations

from forcelab.physics.array import Array


class JointWrenchSensorData:
    """What each reported joint applies to its child body. E environments, B reported bodies.

    All are None before the simulation is initialised.
    """

    def __init__(self) -> None:
        self.force: Array | None = None
        """(E, B, 3) force [N], child-side joint frame."""
        self.torque: Array | None = None
        """(E, B, 3) torque about the child-side joint anchor [N·m], child-side joint frame."""
        self.filtered_force: Array | None = None
        """(E, B, 3) force behind the low-pass filter [N]; None without ``cutoff_frequency``."""
        self.filtered_torque: Array | None = None
        """(E, B, 3) torque behind the low-pass filter [N·m]; None without ``cutoff_frequency``."""
        self.quat_w: Array | None = None
        """(E, B, 4) orientation (x, y, z, w) of the joint frame in the world for which the wrench was evaluated: at
        the start of the sampled physics step on Newton."""
