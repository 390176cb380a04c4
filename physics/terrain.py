# SPDX-License-Identifier: Apache-2.0
"""Contacts with height fields on the Newton engine: what :mod:`.terrain_kernels` needs from the solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from . import terrain_kernels as kernels
from .description import ShapeDesc

# The solver's number of height fields among the types of its shapes.
_HEIGHTFIELD = 1


@dataclass
class _Terrain:
    field: Any
    geom: int
    pairs: wp.array
    geoms: wp.array


class TerrainContacts:
    """Takes the search for contacts with terrain over from the solver.

    Args:
        model, data: the solver's.
        terrains: per height field its geom, its shape in world coordinates, and the numbers of the pairs it
            belongs to with their other geoms.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        terrains: Sequence[tuple[int, ShapeDesc, Sequence[tuple[int, int]]]],
        device: Any,
    ):
        self._device = device
        self._terrains = []
        for geom, shape, pairs in terrains:
            numbers = np.array(pairs, dtype=np.int32).reshape(-1, 2)
            self._terrains.append(
                _Terrain(
                    _field(shape, device),
                    geom,
                    wp.array(numbers[:, 0].copy(), dtype=int, device=device),
                    wp.array(numbers[:, 1].copy(), dtype=int, device=device),
                )
            )
        _switch_off(model, [geom for geom, _, _ in terrains], device)
        self._inputs = [
            model.geom_type,
            model.geom_dataid,
            model.geom_size,
            model.geom_rbound,
            model.mesh_vertadr,
            model.mesh_vertnum,
            model.mesh_vert,
            model.pair_dim,
            model.pair_solref,
            model.pair_solreffriction,
            model.pair_solimp,
            model.pair_margin,
            model.pair_friction,
            data.geom_xpos,
            data.geom_xmat,
            data.naconmax,
        ]
        contact = data.contact
        self._outputs = [
            data.nacon,
            contact.dist,
            contact.pos,
            contact.frame,
            contact.includemargin,
            contact.friction,
            contact.solref,
            contact.solreffriction,
            contact.solimp,
            contact.dim,
            contact.geom,
            contact.efc_address,
            contact.worldid,
            contact.type,
            contact.geomcollisionid,
            contact.adhesion,
        ]
        self._worlds = data.nworld
        model.callback.contactfilter = self._launch

    def _launch(self, model: Any, data: Any) -> None:
        for terrain in self._terrains:
            wp.launch(
                kernels.terrain_contacts,
                dim=(self._worlds, terrain.pairs.shape[0]),
                inputs=[terrain.field, terrain.geom, terrain.pairs, terrain.geoms, *self._inputs],
                outputs=self._outputs,
                device=self._device,
            )


def _field(shape: ShapeDesc, device: Any) -> Any:
    heights = np.ascontiguousarray(shape.heights, dtype=np.float32)
    rows, columns = heights.shape
    field = kernels.Field()
    field.heights = wp.array(heights, dtype=float, device=device)
    field.pose = wp.transform(shape.pos, shape.quat)
    field.half = wp.vec2(shape.size[0] / 2, shape.size[1] / 2)
    field.cell = wp.vec2(shape.size[0] / (columns - 1), shape.size[1] / (rows - 1))
    field.low, field.high = float(heights.min()), float(heights.max())
    return field


def _switch_off(model: Any, geoms: Sequence[int], device: Any) -> None:
    """Keep the solver from looking for contacts of ``geoms`` itself."""
    pairs, ids = model.nxn_geom_pair_filtered.numpy(), model.nxn_pairid_filtered.numpy()
    others = ~np.isin(pairs, geoms).any(axis=1)
    model.nxn_geom_pair_filtered = wp.array(pairs[others], dtype=wp.vec2i, device=device)
    model.nxn_pairid_filtered = wp.array(ids[others], dtype=wp.vec2i, device=device)
    every = model.nxn_pairid.numpy()
    every[np.isin(model.nxn_geom_pair.numpy(), geoms).any(axis=1), 0] = -2
    model.nxn_pairid = wp.array(every, dtype=wp.vec2i, device=device)
    if not np.isin(np.flatnonzero(model.geom_type.numpy() == _HEIGHTFIELD), geoms).all():
        return
    # No kernels for kinds of pairs that do not occur: counts by two types, the lower one first.
    counts = list(model.geom_pair_type_count)
    kinds = (math.isqrt(8 * len(counts) + 1) - 1) // 2
    for k in range(_HEIGHTFIELD, kinds):
        counts[_HEIGHTFIELD * (2 * kinds - _HEIGHTFIELD - 1) // 2 + k] = 0
    model.geom_pair_type_count = tuple(counts)
