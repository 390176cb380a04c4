# SPDX-License-Identifier: Apache-2.0
"""Readings of the point-like contact sensor."""

from __future__ import annotations

from forcelab.physics.array import Array


class IsaacContactSensorData:
    """What a point-like contact sensor read at its last sample; E environments. Reading changes nothing."""

    value: Array
    """(E,) load on the body, the norm of its summed normal contact forces within the radius [N]."""
    in_contact: Array
    """(E,) bool."""
