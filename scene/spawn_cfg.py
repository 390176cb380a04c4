# SPDX-License-Identifier: Apache-2.0
"""What an entity is made of: primitive shapes, meshes, or a robot file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forcelab.physics.description import IDENTITY, ShapeDesc
from forcelab.physics.errors import near

ROBOTS = Path(__file__).resolve().parent / "robots"

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]


def _positive(values: Sequence[float], what: str) -> None:
    if not all(isinstance(v, (int, float)) and math.isfinite(v) and v > 0 for v in values):
        raise ValueError(f"{what} is {values!r}; every number must be finite and positive.")


@dataclass
class ShapeCfg:
    """What all shapes have.

    Attributes:
        mass: [kg]; None: from ``density`` and the volume.
        density: [kg/m³].
        friction: sliding friction coefficient. Two bodies slide on each other with the mean of
            their coefficients, on every engine.
        pos, rot: pose of the shape in the body's frame [m], quaternion (x, y, z, w).
        color: (r, g, b) or (r, g, b, a), 0 to 1.
        name: name of the shape; unnamed ones are numbered.
        fixed: the body cannot move.
    """

    mass: float | None = None
    density: float = 1000.0
    friction: float = 1.0
    pos: Vec3 = (0.0, 0.0, 0.0)
    rot: Quat = IDENTITY
    color: tuple[float, ...] | None = None
    name: str | None = None
    fixed: bool = False

    kind = ""

    def _size(self) -> tuple[float, ...]:
        raise NotImplementedError

    def describe(self, what: str) -> ShapeDesc:
        """The neutral description; ``what`` names the entity in errors."""
        size = self._size()
        if size:
            _positive(size, f"{what}: size of {type(self).__name__}")
        if self.mass is not None:
            _positive((self.mass,), f"{what}: mass of {type(self).__name__}")
        if not (math.isfinite(self.friction) and self.friction >= 0):
            raise ValueError(f"{what}: friction is {self.friction!r}; it must be zero or positive.")
        rgba: Any = None if self.color is None else (*self.color, 1.0)[:4]
        return ShapeDesc(
            self.kind,
            tuple(float(v) for v in size),
            tuple(self.pos),
            tuple(self.rot),
            float(self.friction),
            self.mass,
            self.density,
            rgba,
            self.name,
            *self._mesh(),
        )

    def _mesh(self) -> tuple[Any, Any]:
        return None, None


@dataclass
class CuboidCfg(ShapeCfg):
    """A box; ``size``: edge lengths (x, y, z) [m]."""

    size: Vec3 = (1.0, 1.0, 1.0)
    kind = "box"

    def _size(self) -> tuple[float, ...]:
        return tuple(self.size)


@dataclass
class SphereCfg(ShapeCfg):
    """A sphere [m]."""

    radius: float = 0.5
    kind = "sphere"

    def _size(self) -> tuple[float, ...]:
        return (self.radius,)


@dataclass
class CylinderCfg(ShapeCfg):
    """A cylinder along its z axis [m]."""

    radius: float = 0.5
    height: float = 1.0
    kind = "cylinder"

    def _size(self) -> tuple[float, ...]:
        return (self.radius, self.height)


@dataclass
class CapsuleCfg(ShapeCfg):
    """A capsule along its z axis; ``height`` is the straight part, without the caps [m]."""

    radius: float = 0.5
    height: float = 1.0
    kind = "capsule"

    def _size(self) -> tuple[float, ...]:
        return (self.radius, self.height)


@dataclass
class MeshCfg(ShapeCfg):
    """The convex hull of a triangle mesh: ``vertices`` (n, 3) [m], ``faces`` (m, 3)."""

    vertices: Any = None
    faces: Any = None
    kind = "mesh"

    def _size(self) -> tuple[float, ...]:
        return ()

    def _mesh(self) -> tuple[Any, Any]:
        import numpy as np

        if self.vertices is None or self.faces is None:
            raise ValueError("MeshCfg needs vertices (n, 3) and faces (m, 3).")
        return np.asarray(self.vertices, dtype=np.float32), np.asarray(self.faces, dtype=np.int32)


@dataclass
class PlaneCfg:
    """An infinite plane shared by all environments; its normal is its z axis.

    Attributes:
        prim_path: absolute path, by which contact filters name it.
        friction: sliding friction coefficient.
        init_pos, init_rot: a point of the plane [m] and its orientation (x, y, z, w).
    """

    friction: float = 1.0
    prim_path: str = "/World/ground"
    init_pos: Vec3 = (0.0, 0.0, 0.0)
    init_rot: Quat = IDENTITY
    color: tuple[float, ...] | None = None


@dataclass
class MjcfCfg:
    """A robot in an MJCF file.

    Attributes:
        path: a file, or the plain name of a robot that comes with the package (``quadruped.xml``).
    """

    path: str = ""

    def resolve(self, what: str) -> str:
        """The file's absolute path.

        Raises:
            ValueError: There is no such file; the robots of the package are listed.
        """
        file = Path(self.path).expanduser()
        shipped = ROBOTS / self.path
        for candidate in (file, shipped):
            if self.path and candidate.is_file():
                return str(candidate.resolve())
        known = sorted(p.name for p in ROBOTS.glob("*.xml"))
        raise ValueError(f"{what}: no MJCF file {self.path!r}.{near(self.path, known)}")
