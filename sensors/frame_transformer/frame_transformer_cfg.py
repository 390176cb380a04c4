# SPDX-License-Identifier: Apache-2.0
"""Configuration of the frame transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..offset_cfg import OffsetCfg, check_offset
from ..sensor_base_cfg import SensorBaseCfg

if TYPE_CHECKING:
    from ..sensor_base import SensorWorld
    from .frame_transformer import FrameTransformer


@dataclass
class FrameCfg:
    """Target frames.

    Attributes:
        prim_path: the body; an expression that matches several makes one frame of each, in the engine's order.
        name: name of the frame; None: the body's.
        offset: the frame in the body's.
    """

    prim_path: str = ""
    name: str | None = None
    offset: OffsetCfg = field(default_factory=OffsetCfg)


@dataclass
class FrameTransformerCfg(SensorBaseCfg):
    """Poses of target frames, in the world and seen from a source frame.

    Attributes:
        prim_path: the body of the source frame, one per environment.
        source_frame_offset: the source frame in that body's.
        target_frames: the T targets.
    """

    source_frame_offset: OffsetCfg = field(default_factory=OffsetCfg)
    target_frames: Sequence[FrameCfg] = ()

    def check(self, name: str) -> None:
        super().check(name)
        check_offset(self.source_frame_offset, f"scene.{name}.source_frame_offset")
        what = f"scene.{name}.target_frames"
        if not isinstance(self.target_frames, (list, tuple)) or not self.target_frames:
            raise ValueError(f"{what} is {self.target_frames!r}; give a list with at least one FrameCfg.")
        for i, frame in enumerate(self.target_frames):
            if not isinstance(frame, FrameCfg):
                raise ValueError(f"{what}[{i}] is {frame!r}; it must be a FrameCfg.")
            if frame.name is not None and (not isinstance(frame.name, str) or not frame.name):
                raise ValueError(f"{what}[{i}].name is {frame.name!r}; it must be a name, or None.")
            check_offset(frame.offset, f"{what}[{i}].offset")

    def create(self, name: str, world: SensorWorld) -> FrameTransformer:
        from .frame_transformer import FrameTransformer

        return FrameTransformer(self, name, world)
