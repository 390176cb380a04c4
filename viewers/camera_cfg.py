# SPDX-License-Identifier: Apache-2.0
"""Where the camera stands and what it follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from forcelab.physics.errors import near


@dataclass
class CameraCfg:
    """A camera that circles a point, fixed in the world or moving with a body."""

    distance: float = 3.0
    """From the point looked at, in m."""
    azimuth: float = 130.0
    """Direction of sight around the vertical, in degrees: 0 looks along +x, 90 along +y."""
    elevation: float = -18.0
    """Angle of sight above the horizontal, in degrees: negative looks down."""
    fovy: float = 40.0
    """Vertical field of view, in degrees."""
    lookat: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The point looked at, in m: an offset from the followed body, or in the world with ``follow=False``."""
    follow: bool = True
    """Whether the point moves with a body."""
    body: str | None = None
    """Path of the followed body; None is the first body that has a shape."""
    env_id: int | None = None
    """Followed environment; None is the first one drawn."""
    smoothing: float = 0.8
    """Share of the previous point kept at each frame, in [0, 1); 0 follows rigidly."""

    def __post_init__(self) -> None:
        if not self.distance > 0.0:
            raise ValueError(f"camera.distance must be positive (m), found {self.distance!r}.")
        if not 0.0 < self.fovy < 180.0:
            raise ValueError(f"camera.fovy must be in (0, 180) degrees, found {self.fovy!r}.")
        if not 0.0 <= self.smoothing < 1.0:
            raise ValueError(f"camera.smoothing must be in [0, 1), found {self.smoothing!r}.")
        if len(self.lookat) != 3:
            raise ValueError(f"camera.lookat must be three numbers (m), found {self.lookat!r}.")

    @classmethod
    def make(cls, camera: CameraCfg | Mapping[str, Any] | None) -> CameraCfg:
        """A copy of ``camera``; a mapping gives some of the fields, None the defaults."""
        if camera is None:
            return cls()
        if isinstance(camera, CameraCfg):
            return replace(camera)
        names = [f.name for f in fields(cls)]
        for key in camera:
            if key not in names:
                raise ValueError(f"camera.{key} is no field of the camera.{near(key, names)}")
        return cls(**camera)
