# SPDX-License-Identifier: Apache-2.0
"""Where a sensor sits on its body."""

from __future__ import annotations

from dataclasses import dataclass

from forcelab.physics import checks

IDENTITY = (0.0, 0.0, 0.0, 1.0)


@dataclass
class OffsetCfg:
    """A frame seen from a body's frame.

    Attributes:
        pos: origin [m].
        rot: orientation, quaternion (x, y, z, w).
    """

    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rot: tuple[float, float, float, float] = IDENTITY

    def pose(self, what: str) -> tuple[float, ...]:
        """Position and unit quaternion, seven numbers; ``what`` names the key in errors."""
        return (*checks.vector(self.pos, 3, f"{what}.pos"), *checks.quaternion(self.rot, f"{what}.rot"))


def check_offset(offset: object, what: str) -> None:
    """Raise ValueError unless ``offset`` is a usable :class:`OffsetCfg`."""
    if not isinstance(offset, OffsetCfg):
        raise ValueError(f"{what} is {offset!r}; give OffsetCfg(pos=(x, y, z), rot=(x, y, z, w)).")
    offset.pose(what)
