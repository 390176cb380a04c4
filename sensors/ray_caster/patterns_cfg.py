# SPDX-License-Identifier: Apache-2.0
"""Patterns of rays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forcelab.physics import checks
from forcelab.physics.errors import near

ORDERINGS = ("xy", "yx")
_MOST_RAYS = 100_000


@dataclass
class PatternCfg:
    """A set of rays in the sensor's frame."""

    def rays(self, what: str) -> tuple[np.ndarray, np.ndarray]:
        """Starting points (R, 3) [m] and unit directions (R, 3); ``what`` names the key in errors.

        Raises:
            ValueError: A setting is of no use.
        """
        raise NotImplementedError(
            f"{what} is a {type(self).__name__}, which makes no rays; give a GridPatternCfg."
        )


@dataclass
class GridPatternCfg(PatternCfg):
    """Parallel rays that start on a grid in the sensor's x-y plane, centred at its origin.

    Attributes:
        resolution: distance between neighbouring rays [m].
        size: extents along x and y [m]; rays start on the edges too where the resolution divides the extent.
        direction: of all rays, sensor frame; any length.
        ordering: ``xy``: x changes fastest from ray to ray; ``yx``: y does.
    """

    resolution: float = 0.1
    size: tuple[float, float] = (1.6, 1.0)
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    ordering: str = "xy"

    def rays(self, what: str) -> tuple[np.ndarray, np.ndarray]:
        step = checks.number(self.resolution, f"{what}.resolution", above=0.0, unit="m")
        size = checks.vector(self.size, 2, f"{what}.size")
        for i, extent in enumerate(size):
            checks.number(extent, f"{what}.size[{i}]", at_least=0.0, unit="m")
        direction = np.array(checks.vector(self.direction, 3, f"{what}.direction"))
        length = float(np.linalg.norm(direction))
        if length < 1e-6:
            raise ValueError(f"{what}.direction is {self.direction!r}; it must not be zero.")
        if self.ordering not in ORDERINGS:
            raise ValueError(
                f"{what}.ordering is {self.ordering!r}.{near(str(self.ordering), ORDERINGS)}"
                f" It must be one of {ORDERINGS}."
            )
        # Rounding must not cost the last row.
        counts = [math.floor(extent / step + 1e-6) + 1 for extent in size]
        if counts[0] * counts[1] > _MOST_RAYS:
            raise ValueError(
                f"{what} makes {counts[0]} x {counts[1]} rays; at most {_MOST_RAYS} are possible. Use a larger "
                "resolution or a smaller size."
            )
        x, y = (np.arange(n) * step - 0.5 * extent for n, extent in zip(counts, size))
        grid_x, grid_y = np.meshgrid(x, y, indexing="xy" if self.ordering == "xy" else "ij")
        starts = np.stack((grid_x.ravel(), grid_y.ravel(), np.zeros(grid_x.size)), axis=-1)
        return starts, np.broadcast_to(direction / length, starts.shape).copy()
