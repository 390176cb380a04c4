# SPDX-License-Identifier: Apache-2.0
"""Triangles of the neutral shapes, for viewers that draw meshes only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forcelab.physics.description import VisualShape

from .drawables import rotate

Mesh = tuple[np.ndarray, np.ndarray]
"""(V, 3) float vertices in m, (F, 3) int faces, counter-clockwise seen from outside.

Vertices are shared within smooth surfaces only, so that smooth shading keeps edges sharp.
"""

_AROUND = 24
_HALF = 8  # rings from a pole to the equator


def shape_mesh(shape: VisualShape) -> Mesh:
    """Triangles of a shape in its body's frame (the world's for static ones).

    Raises:
        ValueError: A plane, which has no end.
    """
    size = shape.size
    if shape.kind == "box":
        mesh = _flat(*_box(size))
    elif shape.kind == "sphere":
        mesh = _turned([_arc(size[0], 0.0, -1.0) + _arc(size[0], 0.0, 1.0)[1:]])
    elif shape.kind == "ellipsoid":
        vertices, faces = _turned([_arc(1.0, 0.0, -1.0) + _arc(1.0, 0.0, 1.0)[1:]])
        mesh = vertices * np.asarray(size), faces
    elif shape.kind == "capsule":
        mesh = _turned([_arc(size[0], -size[1], -1.0) + _arc(size[0], size[1], 1.0)])
    elif shape.kind == "cylinder":
        r, h = size
        mesh = _turned([[(0.0, -h), (r, -h)], [(r, -h), (r, h)], [(r, h), (0.0, h)]])
    elif shape.kind == "mesh":
        mesh = _flat(
            np.asarray(shape.vertices, dtype=np.float64).reshape(-1, 3),
            np.asarray(shape.faces, dtype=np.int64).reshape(-1, 3),
        )
    else:
        raise ValueError(f"A {shape.kind} cannot be drawn as triangles.")
    vertices, faces = mesh
    return np.asarray(shape.pos) + rotate(np.asarray(shape.quat, dtype=np.float64), vertices), faces


def sphere_mesh(radius: float) -> Mesh:
    """A small ball."""
    return shape_mesh(VisualShape(None, "sphere", (radius,)))


def merge(meshes: Sequence[Mesh]) -> Mesh:
    """All of them as one mesh."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in meshes[:-1])])
    return (
        np.concatenate([vertices for vertices, _ in meshes]),
        np.concatenate([faces + start for (_, faces), start in zip(meshes, starts)]),
    )


def _flat(vertices: np.ndarray, faces: np.ndarray) -> Mesh:
    """No vertex shared: every face is shaded as a plane."""
    return vertices[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3)


def _box(half: Sequence[float]) -> Mesh:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * np.asarray(half)
    squares = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
    return corners, np.array([t for a, b, c, d in squares for t in ((a, b, c), (a, c, d))])


def _arc(radius: float, z: float, side: float) -> list[tuple[float, float]]:
    """(distance from the axis, height) along a quarter circle, from low to high."""
    angles = np.linspace(-np.pi / 2 if side < 0.0 else 0.0, 0.0 if side < 0.0 else np.pi / 2, _HALF + 1)
    return [(radius * float(np.cos(a)), z + radius * float(np.sin(a))) for a in angles]


def _turned(profiles: Sequence[Sequence[tuple[float, float]]]) -> Mesh:
    """Surfaces that profiles (distance from the axis, height), going up, sweep around the z axis."""
    around = np.linspace(0.0, 2.0 * np.pi, _AROUND, endpoint=False)
    parts = []
    for profile in profiles:
        rings = [
            np.stack((r * np.cos(around), r * np.sin(around), np.full(_AROUND, z)), -1) for r, z in profile
        ]
        i, j = np.meshgrid(np.arange(len(profile) - 1), np.arange(_AROUND), indexing="ij")
        a, b = i * _AROUND + j, i * _AROUND + (j + 1) % _AROUND
        c, d = a + _AROUND, b + _AROUND
        faces = np.stack((np.stack((a, b, d), -1), np.stack((a, d, c), -1)), -2).reshape(-1, 3)
        parts.append((np.concatenate(rings), faces))
    return merge(parts)
