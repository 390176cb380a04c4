# SPDX-License-Identifier: Apache-2.0
"""Configuration of the ray caster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forcelab.physics import checks
from forcelab.physics.errors import near

from ..offset_cfg import OffsetCfg, check_offset
from ..sensor_base_cfg import SensorBaseCfg
from .patterns_cfg import GridPatternCfg, PatternCfg

if TYPE_CHECKING:
    from ..sensor_base import SensorWorld
    from .ray_caster import RayCaster

ALIGNMENTS = ("base", "yaw", "world")


@dataclass
class RayCasterCfg(SensorBaseCfg):
    """Where rays that move with a body meet static geometry.

    Attributes:
        prim_path: the body, one per environment.
        offset: the pattern's frame in the body's.
        mesh_prim_paths: expressions over the paths of static geometry (planes, terrain) that the rays see.
        pattern_cfg: the rays.
        ray_alignment: how the pattern, its offset included, turns: ``base`` with the body, ``yaw`` with the body's
            heading alone, ``world`` not at all. It always moves with the body.
        max_distance: a ray that meets nothing within it reads infinity [m].
    """

    offset: OffsetCfg = field(default_factory=OffsetCfg)
    mesh_prim_paths: Sequence[str] = ("/World/ground",)
    pattern_cfg: PatternCfg = field(default_factory=GridPatternCfg)
    ray_alignment: str = "base"
    max_distance: float = 1.0e6

    def check(self, name: str) -> None:
        super().check(name)
        check_offset(self.offset, f"scene.{name}.offset")
        paths = self.mesh_prim_paths
        if not isinstance(paths, (list, tuple)) or not paths or not all(isinstance(p, str) for p in paths):
            raise ValueError(
                f"scene.{name}.mesh_prim_paths is {paths!r}; it must be a list of paths, such as ['/World/ground']."
            )
        if not isinstance(self.pattern_cfg, PatternCfg):
            raise ValueError(f"scene.{name}.pattern_cfg is {self.pattern_cfg!r}; give a GridPatternCfg.")
        self.pattern_cfg.rays(f"scene.{name}.pattern_cfg")
        if self.ray_alignment not in ALIGNMENTS:
            raise ValueError(
                f"scene.{name}.ray_alignment is {self.ray_alignment!r}.{near(str(self.ray_alignment), ALIGNMENTS)}"
            )
        checks.number(self.max_distance, f"scene.{name}.max_distance", above=0.0, unit="m")

    def create(self, name: str, world: SensorWorld) -> RayCaster:
        from .ray_caster import RayCaster

        return RayCaster(self, name, world)
