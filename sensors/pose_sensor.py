# SPDX-License-Identifier: Apache-2.0
"""The part shared by sensors that read poses and velocities of bodies, not the solver's forces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import warp as wp

from forcelab.physics import checks
from forcelab.physics.array import Array
from forcelab.physics.errors import near
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


def static_paths(world: SensorWorld, patterns: Any, what: str) -> list[str]:
    """Static geometry that the expressions name, each once.

    Raises:
        ValueError: An expression matches no static geometry.
    """
    found: list[str] = []
    for i, pattern in enumerate(patterns):
        where = f"{what}[{i}]"
        if isinstance(pattern, str) and not pattern.startswith("/World/envs") and ENV_REGEX_NS not in pattern:
            found += [p for p in world.bodies.partners(pattern, where) if p not in found]
            continue
        raise ValueError(
            f"{where} is {pattern!r}; rays see static geometry only.{near(str(pattern), world.bodies.statics)}"
        )
    return found


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

    A subclass gives :meth:`allocate`, :meth:`launch_sample`, and :meth:`_launch_settle`.
    """

    data: PoseSensorData

    def __init__(self, cfg: SensorBaseCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        self._sync = world.sync

    @abstractmethod
    def allocate(self) -> dict[str, torch.Tensor]:
        """The buffers behind :attr:`data`, by name; called once."""

    @abstractmethod
    def _launch_settle(self, mask: wp.array) -> None:
        """Zero the clocks of the masked environments and read the states of all whose clock is zero."""

    def build(self) -> None:
        engine, dev = self._engine, self.device
        self._pose = wp.from_torch(engine.body_pose, dtype=wp.transform)
        self._vel = wp.from_torch(engine.body_vel, dtype=wp.spatial_vector)
        self._wp_device = self._pose.device
        self._dt, self._period = wp.float64(engine.dt), wp.float64(self.cfg.update_period)
        self._all = torch.ones(self.num_envs, dtype=torch.bool, device=dev)
        self._none = wp.from_torch(torch.zeros_like(self._all))
        self.data._sync = self._sync
        self.data._arrays = {name: Array.wrap(tensor) for name, tensor in self.allocate().items()}

    def launch_derive(self) -> None:
        self._launch_settle(self._none)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        checks.env_mask(env_mask, self.num_envs, self.device, f"sensor {self.name!r}: env_mask")
        with self._engine.stream():
            self._launch_settle(wp.from_torch(self._all if env_mask is None else env_mask))
