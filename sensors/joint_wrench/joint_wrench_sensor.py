# SPDX-License-Identifier: Apache-2.0
"""The joint wrench sensor: names, sampling and resets, the same on every engine."""

from __future__ import annotations

import math

import torch
import warp as wp

from forcelab.physics.array import Array
from forcelab.physics.errors import near
from forcelab.physics.paths import ENV_REGEX_NS, in_environment

from ..sensor_base import NamedBodies, SensorBase, SensorWorld
from . import joint_wrench_kernels as kernels
from .joint_wrench_sensor_cfg import JointWrenchSensorCfg
from .joint_wrench_sensor_data import JointWrenchSensorData


class JointWrenchSensor(NamedBodies, SensorBase):
    """Forces and torques of the joints of one articulation, in every environment.

    Which bodies are reported, and in which order, is the engine's: use :attr:`body_names` and
    :meth:`find_bodies`.

    Raises:
        ValueError: ``prim_path`` names no articulation.
        RuntimeError: The articulation has no joint to report.
    """

    cfg: JointWrenchSensorCfg
    data: JointWrenchSensorData

    def __init__(self, cfg: JointWrenchSensorCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        path = self._articulation(cfg.prim_path, f"scene.{name}.prim_path")
        try:
            self._reader = world.engine.add_joint_wrench_reader(path)
        except RuntimeError as error:
            raise RuntimeError(f"scene.{name}: {error}") from None
        #: Names of the B reported bodies.
        self.body_names: list[str] = list(self._reader.body_names)
        #: Name of the articulation in the scene.
        self.asset_name: str = world.assets.get(path, path)
        #: (B, 7) pose of the child-side joint frame in the child body's frame.
        self.joint_frame = self._reader.joint_frame
        self.data = JointWrenchSensorData()

    def _articulation(self, prim_path: str, what: str) -> str:
        path = in_environment(prim_path, what)
        trees = self._engine.trees
        robots = {a.path for a in self._engine.desc.articulations}
        for robot in robots:
            if path in (robot, f"{robot}/{trees[robot].body_names[0]}"):
                return robot
        known = [f"{ENV_REGEX_NS}/{r}" for r in robots]
        if path in trees:
            raise ValueError(
                f"{what} {prim_path!r} is a rigid object, which has no joints. Articulations: {known}."
            )
        owner = next((r for r in robots if path.startswith(r + "/")), None)
        if owner is not None:
            raise ValueError(
                f"{what} is {prim_path!r}; give the articulation itself, '{ENV_REGEX_NS}/{owner}', and select bodies "
                "by their names when reading (body_names, find_bodies)."
            )
        raise ValueError(f"{what} {prim_path!r} is no articulation.{near(prim_path, known)}")

    def build(self) -> None:
        E, B, dev = self.num_envs, self.num_bodies, self.device
        cutoff = self.cfg.cutoff_frequency
        clock, sampled = (torch.zeros(E, B, dtype=torch.int32, device=dev) for _ in range(2))
        force, torque = (torch.zeros(E, B, 3, device=dev) for _ in range(2))
        filtered = [torch.zeros(E, B if cutoff else 0, 3, device=dev) for _ in range(2)]
        quat = torch.tensor([0.0, 0.0, 0.0, 1.0], device=dev).repeat(E, B, 1)
        data = self.data
        data.quat_w = Array.wrap(quat)
        data.force, data.torque = Array.wrap(force), Array.wrap(torque)
        if cutoff:
            data.filtered_force, data.filtered_torque = (Array.wrap(t) for t in filtered)
        self._inputs = [
            wp.from_torch(self._reader.force, dtype=wp.vec3),
            wp.from_torch(self._reader.torque, dtype=wp.vec3),
            wp.from_torch(self._reader.quat, dtype=wp.quat),
            wp.float64(self._engine.dt),
            wp.float64(self.cfg.update_period),
            1.0 / (2.0 * math.pi * cutoff) if cutoff else 0.0,
        ]
        self._buffers = [
            wp.from_torch(clock),
            wp.from_torch(sampled),
            *(wp.from_torch(t, dtype=wp.vec3) for t in (force, torque, *filtered)),
            wp.from_torch(quat, dtype=wp.quat),
        ]

    def launch_sample(self) -> None:
        wp.launch(
            kernels.sample,
            dim=(self.num_envs, self.num_bodies),
            inputs=self._inputs,
            outputs=self._buffers,
            device=self._wp_device,
        )

    def launch_reset(self, mask: wp.array) -> None:
        wp.launch(
            kernels.clear,
            dim=(self.num_envs, self.num_bodies),
            inputs=[mask],
            outputs=self._buffers,
            device=self._wp_device,
        )
