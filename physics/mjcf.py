# SPDX-License-Identifier: Apache-2.0
"""A robot file as a neutral tree of bodies and joints, for engines that do not read MJCF."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .description import ShapeDesc

FramePose = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass
class MjcfBody:
    """One body.

    Attributes:
        name: body name in the file.
        parent: index of the parent body, -1 for the world.
        mass: [kg]. com: centre of mass in the body frame [m].
        inertia: (3, 3) about the centre of mass, axes of the body frame [kg m²].
        shapes: collision shapes in the body frame.
        collides: per shape, whether it touches anything; None: all do.
    """

    name: str
    parent: int
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    shapes: tuple[ShapeDesc, ...] = ()
    collides: tuple[bool, ...] | None = None


@dataclass
class MjcfJoint:
    """One joint; body ``child`` hangs from body ``parent`` (-1: the world).

    Attributes:
        type: ``hinge``, ``slide``, ``free`` or ``fixed``.
        parent_pose, child_pose: (position, quaternion xyzw) of the joint frame in either body.
        axis: unit vector in the joint frame.
        limits: lower and upper [rad, m], infinite when unlimited.
        armature: [kg m², kg]. friction: dry friction [N m, N]. damping, stiffness:
            passive damper and spring [N m s/rad, N s/m; N m/rad, N/m].
        effort_limit: [N m, N]. velocity_limit: [rad/s, m/s].
        default_pos: joint coordinate of the file's home configuration.
    """

    name: str
    type: str
    parent: int
    child: int
    parent_pose: FramePose
    child_pose: FramePose
    axis: tuple[float, float, float] = (1.0, 0.0, 0.0)
    limits: tuple[float, float] = (-float("inf"), float("inf"))
    armature: float = 0.0
    friction: float = 0.0
    damping: float = 0.0
    stiffness: float = 0.0
    effort_limit: float = float("inf")
    velocity_limit: float = float("inf")
    default_pos: float = 0.0


@dataclass
class MjcfModel:
    """Bodies and joints of one robot, in file order; body 0 is the root."""

    bodies: list[MjcfBody] = field(default_factory=list)
    joints: list[MjcfJoint] = field(default_factory=list)

    def tree_path(self, body: int) -> str:
        """Names from the root down to ``body``, joined by slashes."""
        names = []
        while body >= 0:
            names.append(self.bodies[body].name)
            body = self.bodies[body].parent
        return "/".join(reversed(names))
