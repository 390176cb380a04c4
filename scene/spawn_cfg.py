# SPDX-License-Identifier: Apache-2.0
"""What an entity is made of: primitive shapes, meshes, or a robot file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forcelab.physics import checks
from forcelab.physics.description import IDENTITY, ShapeDesc
from forcelab.physics.errors import near

ROBOTS = Path(__file__).resolve().parent / "robots"

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]


def rgba(color: Any, what: str) -> Any:
    """(r, g, b) or (r, g, b, a) as (r, g, b, a); None stays None."""
    if color is None:
        return None
    scalar = getattr(color, "ndim", None) == 0  # has a length that fails
    count = 4 if not scalar and hasattr(color, "__len__") and len(color) == 4 else 3
    parts = checks.vector(color, count, what)
    if not all(0.0 <= v <= 1.0 for v in parts):
        raise ValueError(f"{what} is {color!r}; its {count} numbers must be from 0 to 1.")
    return (*parts, 1.0)[:4]


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

    def _size(self, what: str) -> tuple[float, ...]:
        raise NotImplementedError

    def describe(self, what: str) -> ShapeDesc:
        """The neutral description; ``what`` names the entity in errors."""
        if self.mass is not None:
            checks.number(self.mass, f"{what}.mass", above=0.0, unit="kg")
        if self.name is not None and (not isinstance(self.name, str) or not self.name or "/" in self.name):
            raise ValueError(f"{what}.name is {self.name!r}; it must be a plain name, without '/'.")
        checks.flag(self.fixed, f"{what}.fixed")
        return ShapeDesc(
            self.kind,
            self._size(what),
            checks.vector(self.pos, 3, f"{what}.pos"),  # type: ignore[arg-type]
            checks.quaternion(self.rot, f"{what}.rot"),
            checks.number(self.friction, f"{what}.friction", at_least=0.0),
            self.mass,
            checks.number(self.density, f"{what}.density", at_least=0.0, unit="kg/m³"),
            rgba(self.color, f"{what}.color"),
            self.name,
            *self._mesh(what),
        )

    def _length(self, field: str, what: str) -> float:
        return checks.number(getattr(self, field), f"{what}.{field}", above=0.0, unit="m")

    def _mesh(self, what: str) -> tuple[Any, Any]:
        return None, None


@dataclass
class CuboidCfg(ShapeCfg):
    """A box; ``size``: edge lengths (x, y, z) [m]."""

    size: Vec3 = (1.0, 1.0, 1.0)
    kind = "box"

    def _size(self, what: str) -> tuple[float, ...]:
        size = checks.vector(self.size, 3, f"{what}.size")
        return tuple(checks.number(v, f"{what}.size[{i}]", above=0.0, unit="m") for i, v in enumerate(size))


@dataclass
class SphereCfg(ShapeCfg):
    """A sphere [m]."""

    radius: float = 0.5
    kind = "sphere"

    def _size(self, what: str) -> tuple[float, ...]:
        return (self._length("radius", what),)


@dataclass
class CylinderCfg(ShapeCfg):
    """A cylinder along its z axis [m]."""

    radius: float = 0.5
    height: float = 1.0
    kind = "cylinder"

    def _size(self, what: str) -> tuple[float, ...]:
        return (self._length("radius", what), self._length("height", what))


@dataclass
class CapsuleCfg(ShapeCfg):
    """A capsule along its z axis; ``height`` is the straight part, without the caps [m]."""

    radius: float = 0.5
    height: float = 1.0
    kind = "capsule"

    def _size(self, what: str) -> tuple[float, ...]:
        return (self._length("radius", what), self._length("height", what))


@dataclass
class MeshCfg(ShapeCfg):
    """The convex hull of a triangle mesh: ``vertices`` (n, 3) [m], ``faces`` (m, 3)."""

    vertices: Any = None
    faces: Any = None
    kind = "mesh"

    def _size(self, what: str) -> tuple[float, ...]:
        return ()

    def _mesh(self, what: str) -> tuple[Any, Any]:
        import numpy as np

        if self.vertices is None or self.faces is None:
            raise ValueError(f"{what}: MeshCfg needs vertices (n, 3) and faces (m, 3).")
        vertices = np.asarray(self.vertices, dtype=np.float32)
        faces = np.asarray(self.faces, dtype=np.int32)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.isfinite(vertices).all():
            raise ValueError(f"{what}.vertices has shape {vertices.shape}; (n, 3) finite numbers are needed.")
        faces = faces.reshape(-1, 3) if faces.ndim == 1 and faces.size % 3 == 0 else faces
        if faces.ndim != 2 or faces.shape[1] != 3:
            raise ValueError(f"{what}.faces has shape {faces.shape}; (m, 3) is needed.")
        if faces.size and not (faces.min() >= 0 and faces.max() < len(vertices)):
            raise ValueError(
                f"{what}.faces has vertex {int(faces.max())}, but there are {len(vertices)} vertices."
            )
        return vertices, faces


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
