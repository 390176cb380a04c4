# SPDX-License-Identifier: Apache-2.0
"""The neutral description of a scene that every engine builds from.

Positions in metres, quaternions (x, y, z, w), masses in kilograms. Paths are relative to one
environment's namespace (``Robot``, ``Object``), or absolute for things that all environments
share (``/World/ground``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

IDENTITY = (0.0, 0.0, 0.0, 1.0)
ENV_NAMESPACE = "/World/envs/env_{}"


@dataclass(frozen=True)
class ShapeDesc:
    """One collision shape.

    Attributes:
        kind: ``box``, ``sphere``, ``capsule``, ``cylinder``, ``plane``, ``mesh`` or, in static geometry,
            ``heightfield``.
        size: box: full edge lengths (x, y, z); sphere: (radius,); capsule and cylinder:
            (radius, length of the straight part) along local z; plane: (); heightfield: extents (x, y).
        pos, quat: pose in the body frame.
        friction: sliding friction coefficient of the shape.
        mass: mass [kg]; if None, ``density`` times the volume.
        density: [kg/m³], used when ``mass`` is None.
        vertices, faces: triangles of a mesh (V, 3), (F, 3), and of a heightfield's surface.
        heights: of a heightfield, (rows along y, columns along x), centred at the shape's origin. Every cell is
            cut in two from its corner at the lowest x and y.
    """

    kind: str
    size: tuple[float, ...] = ()
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = IDENTITY
    friction: float = 1.0
    mass: float | None = None
    density: float = 1000.0
    rgba: tuple[float, float, float, float] | None = None
    name: str | None = None
    vertices: np.ndarray | None = None
    faces: np.ndarray | None = None
    heights: np.ndarray | None = None


@dataclass(frozen=True)
class RigidBodyDesc:
    """A free (or, with ``fixed``, immovable) body in every environment. Pose: environment frame."""

    path: str
    shapes: tuple[ShapeDesc, ...]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = IDENTITY
    fixed: bool = False


@dataclass(frozen=True)
class JointDriveDesc:
    """How one joint is driven. Gains in N·m/rad and N·m·s/rad (N/m, N·s/m for slides)."""

    driven: bool = False
    stiffness: float = 0.0
    damping: float = 0.0
    effort_limit: float | None = None
    armature: float | None = None
    friction: float | None = None


@dataclass(frozen=True)
class ArticulationDesc:
    """A robot from an MJCF file. ``drives`` maps joint names to their drive."""

    path: str
    mjcf: str
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = IDENTITY
    fixed_base: bool | None = None
    self_collisions: bool = False
    joint_pos: dict[str, float] = field(default_factory=dict)
    drives: dict[str, JointDriveDesc] = field(default_factory=dict)
    friction: float | None = None


@dataclass(frozen=True)
class StaticDesc:
    """Immovable geometry shared by all environments, with an absolute path."""

    path: str
    shapes: tuple[ShapeDesc, ...]
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = IDENTITY


@dataclass(frozen=True)
class SceneDesc:
    """Everything an engine needs to build ``num_envs`` isolated copies of one environment.

    Attributes:
        accelerations: something in the scene reads joint wrenches or accelerations of the solver.
    """

    num_envs: int
    env_origins: np.ndarray
    articulations: tuple[ArticulationDesc, ...] = ()
    rigid_bodies: tuple[RigidBodyDesc, ...] = ()
    statics: tuple[StaticDesc, ...] = ()
    accelerations: bool = False


@dataclass(frozen=True)
class VisualShape:
    """One shape to draw. ``body`` is a canonical body path, None for static geometry.

    ``path``: the shape's own path, ``<body path>/<shape name>``, where the engine knows it.
    ``size``: box half extents; sphere (radius,); capsule and cylinder (radius, half length of
    the straight part) along local z; plane ().
    """

    body: str | None
    kind: str
    size: tuple[float, ...] = ()
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat: tuple[float, float, float, float] = IDENTITY
    rgba: tuple[float, float, float, float] = (0.6, 0.65, 0.7, 1.0)
    vertices: np.ndarray | None = None
    faces: np.ndarray | None = None
    path: str | None = None
