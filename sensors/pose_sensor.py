# SPDX-License-Identifier: Apache-2.0
"""The part shared by sensors that read poses and velocities of bodies, not the solver's forces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
import warp as wp

from forcelab.physics.array import Array
from forcelab.physics.paths import ENV_REGEX_NS

from .offset_cfg import OffsetCfg
from .sensor_base import SensorBase, SensorBaseCfg, SensorWorld


def one_body(world: SensorWorld, prim_path: str, what: str) -> int:
    """Column of :attr:`Engine.body_pose` of the one body that ``prim_path`` names.

    Raises:
        ValueError: No body, or several; names are listed.
    """
    found = world.bodies.sensing(prim_path, what)
    if len(found) > 1:
        listed = ", ".join(f"{ENV_REGEX_NS}/{b}" for b in found[:6]) + (", …" if len(found) > 6 else "")
        raise ValueError(f"{what} {prim_path!r} matches {len(found)} bodies; it must name one of {listed}.")
    return world.engine.body_paths.index(found[0])


def transform(offset: OffsetCfg, what: str) -> wp.transform:
    """The offset as Warp's pose."""
    return wp.transform(*offset.pose(what))


class PoseSensorData:
    """Buffers under the names that :meth:`PoseSensor.allocate` gives; states written before are taken in first."""

    def __init__(self) -> None:
        self._sync: Callable[[], None] = lambda: None
        self._arrays: dict[str, Array] = {}

    def _read(self, name: str) -> Array:
        self._sync()
        return self._arrays[name]


class PoseSensor(SensorBase):
    """Sampled inside every physics step. After a reset it reads the state that was reset to, at once.

    A subclass gives :meth:`allocate` and :meth:`launch_read`.
    """

    data: PoseSensorData

    def __init__(self, cfg: SensorBaseCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        self._sync = world.sync

    @abstractmethod
    def allocate(self) -> dict[str, torch.Tensor]:
        """The buffers behind :attr:`data`, by name; called once, and the place to prepare a kernel's arguments."""

    @abstractmethod
    def launch_read(self, stepped: int, mask: wp.array) -> None:
        """Read where :func:`~forcelab.sensors.sampling.reads_pose` says so, ``mask`` (E,) being reset."""

    def build(self) -> None:
        engine = self._engine
        self._pose = wp.from_torch(engine.body_pose, dtype=wp.transform)
        self._vel = wp.from_torch(engine.body_vel, dtype=wp.spatial_vector)
        self._dt, self._period = wp.float64(engine.dt), wp.float64(self.cfg.update_period)
        self._no_envs = wp.from_torch(torch.zeros_like(self._all_envs))
        self.data._sync = self._sync
        self.data._arrays = {name: Array.wrap(tensor) for name, tensor in self.allocate().items()}

    def launch_sample(self) -> None:
        self.launch_read(1, self._no_envs)

    def launch_derive(self) -> None:
        self.launch_read(0, self._no_envs)

    def launch_reset(self, mask: wp.array) -> None:
        self.launch_read(0, mask)
