# SPDX-License-Identifier: Apache-2.0
"""Checks of the shapes that an engine gives for drawing (:class:`forcelab.physics.VisualShape`).

How they are drawn: nothing at an alpha of 0; planes, and static meshes wider than 4 m, as a tiled floor
whatever their colour; everything else in its colour. A mesh's faces are counter-clockwise seen from outside.
"""

from __future__ import annotations

from forcelab.physics.description import VisualShape
from forcelab.physics.errors import near

NUM_SIZES = {"box": 3, "sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "plane": 0, "mesh": 0}
"""Kind of shape → how many numbers its ``size`` has."""


def check_shape(shape: VisualShape, index: int, body_paths: list[str]) -> None:
    """Raise a ValueError that names the shape when it cannot be drawn."""
    where = f"visual shape {index} (body {shape.body!r})"
    if shape.kind not in NUM_SIZES:
        raise ValueError(f"{where} has kind {shape.kind!r}.{near(str(shape.kind), NUM_SIZES)}")
    if shape.body is not None and shape.body not in body_paths:
        raise ValueError(f"{where}: there is no such body.{near(shape.body, body_paths)}")
    wanted = NUM_SIZES[shape.kind]
    if wanted and (len(shape.size) != wanted or min(shape.size) <= 0.0):
        raise ValueError(
            f"{where}: size of a {shape.kind} is {wanted} positive number(s), found {shape.size}."
        )
    if len(shape.pos) != 3 or len(shape.quat) != 4 or len(shape.rgba) != 4:
        raise ValueError(
            f"{where}: pos, quat and rgba have 3, 4 and 4 numbers, "
            f"found {shape.pos}, {shape.quat}, {shape.rgba}."
        )
    if shape.kind == "mesh" and (shape.vertices is None or shape.faces is None or len(shape.faces) == 0):
        raise ValueError(f"{where}: a mesh needs vertices (V, 3) and faces (F, 3).")
