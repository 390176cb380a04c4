# SPDX-License-Identifier: Apache-2.0
"""A single rigid body in every environment."""

from __future__ import annotations

from collections.abc import Callable

import torch

from forcelab.physics.engine import Engine

from .asset import Asset, AssetData
from .asset_cfg import RigidObjectCfg


class RigidObject(Asset):
    """One body, free or fixed. ``data`` as in :class:`AssetData` with B = 1."""

    cfg: RigidObjectCfg

    def __init__(
        self,
        name: str,
        cfg: RigidObjectCfg,
        engine: Engine,
        path: str,
        sync: Callable[[], None],
        default_root: torch.Tensor,
    ):
        super().__init__(name, cfg, engine, path)
        self.data = AssetData(engine, path, sync, default_root)
