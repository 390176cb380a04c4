# SPDX-License-Identifier: Apache-2.0
"""Terrain: a grid of heights shared by all environments, and what makes the heights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from forcelab.physics import checks
from forcelab.physics.description import ShapeDesc, StaticDesc

from .spawn_cfg import Vec3, rgba

# 16 MB of heights; triangles for drawing and for rays take twenty times as much.
_MOST_POINTS = 4_000_000
_GENERATORS = (
    "give FlatTerrainCfg, RandomRoughTerrainCfg, PyramidSlopeTerrainCfg, PyramidStairsTerrainCfg or "
    "WaveTerrainCfg"
)


@dataclass
class HeightFieldCfg:
    """What gives the heights of a terrain; subclass it for one of your own."""

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
        """Heights [m] at all grid points.

        Args:
            x, y: equally spaced coordinates (n,), (m,) [m]; 0 is the middle of the terrain.
            what: key of this configuration, for errors.

        Returns:
            (m, n): one row per y.
        """
        raise NotImplementedError(
            f"{what} is a {type(self).__name__}, which gives no heights; {_GENERATORS}."
        )


@dataclass
class FlatTerrainCfg(HeightFieldCfg):
    """A level surface; ``height`` [m]."""

    height: float = 0.0

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
        return np.full((len(y), len(x)), checks.number(self.height, f"{what}.height", unit="m"))


@dataclass
class RandomRoughTerrainCfg(HeightFieldCfg):
    """Heights drawn at random, linear between the places where they are drawn.

    Attributes:
        height_range: lowest and highest [m].
        spacing: distance between places where heights are drawn [m]; None: every grid point.
        step: heights are multiples of it above the lowest [m]; 0: any.
        seed: the same seed gives the same terrain.
    """

    height_range: tuple[float, float] = (0.0, 0.06)
    spacing: float | None = None
    step: float = 0.0
    seed: int = 0

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
        low, high = checks.vector(self.height_range, 2, f"{what}.height_range")
        if low > high:
            raise ValueError(f"{what}.height_range is {self.height_range!r}; the first must be the lower.")
        step = checks.number(self.step, f"{what}.step", at_least=0.0, unit="m")
        seed = checks.whole(self.seed, f"{what}.seed")
        apart = float(x[1] - x[0])
        if self.spacing is not None:
            apart = checks.number(self.spacing, f"{what}.spacing", at_least=apart * (1 - 1e-9), unit="m")
        columns, rows = (math.ceil((v[-1] - v[0]) / apart - 1e-6) + 1 for v in (x, y))
        rng = np.random.default_rng(seed)
        if step > 0.0 and (high - low) / step > 2**31:
            raise ValueError(
                f"{what}.step is {step:g} m, far too small for a height_range of {high - low:g} m."
            )
        if step > 0.0:
            drawn = low + step * rng.integers(0, int((high - low) / step + 1e-6) + 1, size=(rows, columns))
        else:
            drawn = rng.uniform(low, high, size=(rows, columns))
        if self.spacing is None:
            return drawn

        def between(v: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
            at = (v - v[0]) / apart
            left = np.clip(np.floor(at + 1e-9).astype(int), 0, max(count - 2, 0))
            return left, np.clip(at - left, 0.0, 1.0)

        (i, s), (j, t) = between(x, columns), between(y, rows)
        along = drawn[:, i] * (1 - s) + drawn[:, np.minimum(i + 1, columns - 1)] * s
        return along[j] * (1 - t)[:, None] + along[np.minimum(j + 1, rows - 1)] * t[:, None]


@dataclass
class PyramidCfg(HeightFieldCfg):
    """Square pyramids with a level platform on top.

    Attributes:
        platform: edge length of the platform [m].
        period: distance between the middles of neighbouring pyramids, which begin where the others end [m]; None:
            one pyramid as wide as the terrain's shorter side.
        inverted: pits instead of hills.
    """

    platform: float = 2.0
    period: float | None = None
    inverted: bool = False

    def _rings(self, x: np.ndarray, y: np.ndarray, what: str) -> tuple[np.ndarray, float]:
        """Distance inwards from the foot of the pyramid (m, n), and that of the platform's edge [m]."""
        checks.flag(self.inverted, f"{what}.inverted")
        shorter = float(min(x[-1] - x[0], y[-1] - y[0]))
        platform = checks.number(self.platform, f"{what}.platform", at_least=0.0, unit="m")
        width = shorter
        if self.period is not None:
            width = checks.number(self.period, f"{what}.period", above=0.0, unit="m")
            x, y = ((v + 0.5 * width) % width - 0.5 * width for v in (x, y))
        if platform >= width:
            raise ValueError(
                f"{what}.platform is {platform:g} m, but a pyramid is {width:g} m wide; nothing would rise."
            )
        outwards = np.maximum(np.abs(x)[None, :], np.abs(y)[:, None])
        edge = 0.5 * (width - platform)
        return np.clip(0.5 * width - outwards, 0.0, edge), edge

    def _sign(self, heights: np.ndarray) -> np.ndarray:
        return -heights if self.inverted else heights


@dataclass
class PyramidSlopeTerrainCfg(PyramidCfg):
    """Pyramids with sloping sides; ``slope``: rise over run, 0.3 is about 17°."""

    slope: float = 0.3

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
        slope = checks.number(self.slope, f"{what}.slope", at_least=0.0)
        return self._sign(slope * self._rings(x, y, what)[0])


@dataclass
class PyramidStairsTerrainCfg(PyramidCfg):
    """Pyramids of steps. A riser leans over one grid cell: heights are a function of x and y.

    Attributes:
        step_height, step_width: of one step [m].
    """

    step_height: float = 0.1
    step_width: float = 0.4

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
        rise = checks.number(self.step_height, f"{what}.step_height", at_least=0.0, unit="m")
        run = checks.number(
            self.step_width, f"{what}.step_width", at_least=float(x[1] - x[0]) * (1 - 1e-9), unit="m"
        )
        inwards, _ = self._rings(x, y, what)
        return self._sign(rise * np.floor(inwards / run + 1e-6))


@dataclass
class WaveTerrainCfg(HeightFieldCfg):
    """Waves along x and along y, added: ``amplitude / 2 · (sin(2π x / wavelength) + sin(2π y / wavelength))``.

    Attributes:
        amplitude: greatest height above the mean [m].
        wavelength: [m].
    """

    amplitude: float = 0.1
    wavelength: float = 2.0

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
        amplitude = checks.number(self.amplitude, f"{what}.amplitude", at_least=0.0, unit="m")
        least = 4 * float(x[1] - x[0])
        length = checks.number(self.wavelength, f"{what}.wavelength", at_least=least * (1 - 1e-9), unit="m")
        sines = [np.sin(2.0 * np.pi * v / length) for v in (x, y)]
        return 0.5 * amplitude * (sines[0][None, :] + sines[1][:, None])


@dataclass
class TerrainCfg:
    """Ground with heights, shared by all environments. Their origins are put on its surface.

    Attributes:
        generator: what gives the heights.
        size: extents along x and y [m]; whole numbers of grid cells. Beyond them there is no ground.
        resolution: edge length of a grid cell [m].
        friction: sliding friction coefficient.
        prim_path: absolute path, by which contact filters and ray casters name it.
        init_pos: where the middle of the terrain at height zero is [m], world frame.
    """

    generator: HeightFieldCfg = field(default_factory=FlatTerrainCfg)
    size: tuple[float, float] = (20.0, 20.0)
    resolution: float = 0.1
    friction: float = 1.0
    prim_path: str = "/World/ground"
    init_pos: Vec3 = (0.0, 0.0, 0.0)
    color: tuple[float, ...] | None = None

    def grid(self, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coordinates x (n,) and y (m,) about the middle, and heights (m, n), float32 [m].

        Raises:
            ValueError: A setting is of no use.
        """
        cell = checks.number(self.resolution, f"{what}.resolution", above=0.0, unit="m")
        size = checks.vector(self.size, 2, f"{what}.size")
        counts = []
        for i, extent in enumerate(size):
            checks.number(extent, f"{what}.size[{i}]", above=0.0, unit="m")
            count = round(extent / cell)
            if count < 1 or abs(count * cell - extent) > 1e-6 * extent + 1e-9:
                raise ValueError(
                    f"{what}.size[{i}] is {extent:g} m, which is no whole number of cells of {cell:g} m "
                    f"({what}.resolution). Try {max(count, 1) * cell:g} m."
                )
            counts.append(count + 1)
        if counts[0] * counts[1] > _MOST_POINTS:
            raise ValueError(
                f"{what} has {counts[0]} x {counts[1]} points; at most {_MOST_POINTS} are possible. Use a larger "
                "resolution or a smaller size."
            )
        if not isinstance(self.generator, HeightFieldCfg):
            raise ValueError(f"{what}.generator is {self.generator!r}; {_GENERATORS}.")
        x, y = ((np.arange(n) - 0.5 * (n - 1)) * cell for n in counts)
        made = self.generator.heights(x, y, f"{what}.generator")
        try:
            heights = np.asarray(made, dtype=np.float32)
        except (TypeError, ValueError):
            raise ValueError(
                f"{what}.generator gives a {type(made).__name__}; heights of shape {(len(y), len(x))} are needed."
            ) from None
        if heights.shape != (len(y), len(x)) or not np.isfinite(heights).all():
            raise ValueError(
                f"{what}.generator gives heights of shape {heights.shape}; {(len(y), len(x))} finite ones are needed."
            )
        return x, y, heights

    def describe(self, what: str) -> StaticDesc:
        """The neutral description; ``what`` names the entity in errors."""
        x, y, heights = self.grid(what)
        vertices, faces = surface(x, y, heights)
        shape = ShapeDesc(
            "heightfield",
            (float(x[-1] - x[0]), float(y[-1] - y[0])),
            friction=checks.number(self.friction, f"{what}.friction", at_least=0.0),
            rgba=rgba(self.color, f"{what}.color"),
            vertices=vertices,
            faces=faces,
            heights=heights,
        )
        pos = checks.vector(self.init_pos, 3, f"{what}.init_pos")
        return StaticDesc(self.prim_path, (shape,), pos)  # type: ignore[arg-type]


def surface(x: np.ndarray, y: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) and counter-clockwise faces (F, 3) of a grid of heights.

    Every cell is cut from its corner at the lowest x and y to the opposite one.
    """
    grid_x, grid_y = np.meshgrid(x, y)
    vertices = np.stack((grid_x, grid_y, heights), axis=-1).reshape(-1, 3).astype(np.float32)
    n = len(x)
    low = (np.arange(len(y) - 1)[:, None] * n + np.arange(n - 1)).reshape(-1).astype(np.int32)
    faces = np.stack((low, low + n + 1, low + n, low, low + 1, low + n + 1), axis=-1)
    return vertices, faces.reshape(-1, 3)


def height_at(shape: ShapeDesc, points: np.ndarray) -> np.ndarray:
    """Heights (k,) of a terrain's surface at points (k, 2) [m], seen from its middle; NaN beyond its edge."""
    heights = np.asarray(shape.heights, dtype=np.float64)
    cells = np.array([heights.shape[1] - 1, heights.shape[0] - 1])
    at = (np.asarray(points, dtype=np.float64) / np.asarray(shape.size) + 0.5) * cells
    corner = np.clip(np.floor(at).astype(int), 0, cells - 1)
    fx, fy = (at - corner).T
    c, r = corner.T
    low, high = heights[r, c], heights[r + 1, c + 1]
    right = low + fx * (heights[r, c + 1] - low) + fy * (high - heights[r, c + 1])
    left = low + fy * (heights[r + 1, c] - low) + fx * (high - heights[r + 1, c])
    inside = ((at > -1e-6) & (at < cells + 1e-6)).all(axis=-1)
    return np.where(inside, np.where(fx >= fy, right, left), np.nan)
