# SPDX-License-Identifier: Apache-2.0
"""The inertial measurement unit, the same on every engine."""

from __future__ import annotations

import math

import torch
import warp as wp

from ..pose_sensor import PoseSensor, one_body, transform
from ..sensor_base import SensorWorld
from . import imu_kernels as kernels
from .imu_cfg import ImuCfg
from .imu_data import ImuData

_VECTORS = ("lin_vel_b", "ang_vel_b", "projected_gravity_b", "lin_acc_b", "ang_acc_b")


class Imu(PoseSensor):
    """An accelerometer and gyroscope on one body of every environment.

    Accelerations are differences of the velocity over one physics step, divided by its length: what the body
    really did, impacts included, on every engine.

    Raises:
        ValueError: ``prim_path`` names no body, or several.
    """

    cfg: ImuCfg
    data: ImuData

    def __init__(self, cfg: ImuCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        self._body = one_body(world, cfg.prim_path, f"scene.{name}.prim_path")
        self._offset = transform(cfg.offset, f"scene.{name}.offset")
        self.data = ImuData()

    def allocate(self) -> dict[str, torch.Tensor]:
        E, dev = self.num_envs, self.device
        out = {"pos_w": torch.zeros(E, 3, device=dev), "quat_w": torch.zeros(E, 4, device=dev)}
        out |= {name: torch.zeros(E, 3, device=dev) for name in _VECTORS}
        gravity = [float(v) for v in self._engine.cfg.gravity]
        size = math.hypot(*gravity) or 1.0
        self._start = [
            wp.from_torch(torch.zeros(E, 3, device=dev), dtype=wp.vec3),
            wp.from_torch(torch.zeros(E, 3, device=dev), dtype=wp.vec3),
        ]
        self._source = [self._pose, self._vel, self._body, self._offset]
        self._inputs = [
            *self._source,
            wp.vec3(*(v / size for v in gravity)),
            wp.vec3(*(float(v) for v in self.cfg.gravity_bias)),
            self._dt,
            self._period,
            *self._start,
        ]
        self._out = [
            wp.from_torch(torch.zeros(E, 1, dtype=torch.int32, device=dev)),
            wp.from_torch(out["pos_w"], dtype=wp.vec3),
            wp.from_torch(out["quat_w"], dtype=wp.quat),
            *(wp.from_torch(out[name], dtype=wp.vec3) for name in _VECTORS),
        ]
        return out

    def launch_before_step(self) -> None:
        wp.launch(
            kernels.before,
            dim=self.num_envs,
            inputs=self._source,
            outputs=self._start,
            device=self._wp_device,
        )

    def launch_read(self, stepped: int, mask: wp.array) -> None:
        wp.launch(
            kernels.sample,
            dim=self.num_envs,
            inputs=[stepped, mask, *self._inputs],
            outputs=self._out,
            device=self._wp_device,
        )
