# SPDX-License-Identifier: Apache-2.0
"""The frame transformer, the same on every engine."""

from __future__ import annotations

import numpy as np
import torch
import warp as wp

from ..pose_sensor import PoseSensor, one_body, transform
from ..sensor_base import NamedBodies, SensorWorld
from . import frame_transformer_kernels as kernels
from .frame_transformer_cfg import FrameTransformerCfg
from .frame_transformer_data import FrameTransformerData


class FrameTransformer(NamedBodies, PoseSensor):
    """Poses of T target frames of every environment, in the world and in a source frame.

    Raises:
        ValueError: A path names no body, the source path several; or two frames have one name.
    """

    cfg: FrameTransformerCfg
    data: FrameTransformerData
    _row = "target frame"

    def __init__(self, cfg: FrameTransformerCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        what = f"scene.{name}"
        self._source = one_body(world, cfg.prim_path, f"{what}.prim_path")
        self._source_offset = transform(cfg.source_frame_offset, f"{what}.source_frame_offset")
        self._columns: list[int] = []
        self._offsets: list[tuple[float, ...]] = []
        names: list[str] = []
        for i, frame in enumerate(cfg.target_frames):
            where = f"{what}.target_frames[{i}]"
            bodies = world.bodies.sensing(frame.prim_path, f"{where}.prim_path")
            if frame.name is not None and len(bodies) > 1:
                raise ValueError(
                    f"{where}.name is {frame.name!r}, but its prim_path {frame.prim_path!r} matches {len(bodies)} "
                    "bodies, which cannot share it. Leave the name out: every frame is called by its body then."
                )
            for body in bodies:
                label = frame.name or body.rsplit("/", 1)[-1]
                if label in names:
                    raise ValueError(
                        f"{where}: a second target frame is called {label!r}; give it another name."
                    )
                names.append(label)
                self._columns.append(world.engine.body_paths.index(body))
                self._offsets.append(frame.offset.pose(f"{where}.offset"))
        self.data = FrameTransformerData()
        self.data.target_frame_names = names
        #: Names of the T target frames.
        self.body_names = names

    def allocate(self) -> dict[str, torch.Tensor]:
        E, T, dev = self.num_envs, self.num_bodies, self.device
        shapes = {
            "source_pos_w": (E, 3),
            "source_quat_w": (E, 4),
            "target_pos_w": (E, T, 3),
            "target_quat_w": (E, T, 4),
            "target_pos_source": (E, T, 3),
            "target_quat_source": (E, T, 4),
        }
        out = {name: torch.zeros(shape, device=dev) for name, shape in shapes.items()}
        columns, offsets = np.array(self._columns, np.int32), np.array(self._offsets, np.float32)
        self._inputs = [
            self._pose,
            self._source,
            self._source_offset,
            wp.array(columns, dtype=int, device=self._wp_device),
            wp.array(offsets, dtype=wp.transform, device=self._wp_device),
            self._dt,
            self._period,
        ]
        self._out = [wp.from_torch(torch.zeros(E, T, dtype=torch.int32, device=dev))]
        self._out += [
            wp.from_torch(tensor, dtype=wp.vec3 if tensor.shape[-1] == 3 else wp.quat)
            for tensor in out.values()
        ]
        return out

    def launch_read(self, stepped: int, mask: wp.array) -> None:
        wp.launch(
            kernels.sample,
            dim=(self.num_envs, self.num_bodies),
            inputs=[stepped, mask, *self._inputs],
            outputs=self._out,
            device=self._wp_device,
        )
