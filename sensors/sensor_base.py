# SPDX-License-Identifier: Apache-2.0
"""The part that all sensors share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import warp as wp

from forcelab.physics import checks
from forcelab.physics.engine import Engine
from forcelab.physics.paths import BodyIndex, find_names

from .sensor_base_cfg import SensorBaseCfg

__all__ = ["NamedBodies", "SensorBase", "SensorBaseCfg", "SensorWorld"]


@dataclass
class SensorWorld:
    """What a sensor may know of its scene: the engine, the bodies, the assets' paths.

    ``sync`` makes poses, and what sensors derive of them, current after writes; to be called before reading.
    """

    engine: Engine
    bodies: BodyIndex
    assets: dict[str, str] = field(default_factory=dict)
    sync: Callable[[], None] = lambda: None


class NamedBodies:
    """For sensors whose readings have one row per body: what the rows are called.

    Attributes:
        body_names: names of the rows, in their order.
    """

    name: str
    body_names: list[str]
    _row = "body"

    @property
    def num_bodies(self) -> int:
        """Number of :attr:`body_names`."""
        return len(self.body_names)

    def find_bodies(
        self, keys: str | Sequence[str], preserve_order: bool = False
    ) -> tuple[list[int], list[str]]:
        """Indices and names among :attr:`body_names` that full-match ``keys``.

        Raises:
            ValueError: A key matches nothing; near names are listed.
        """
        return find_names(keys, self.body_names, preserve_order, f"{self._row} of sensor {self.name!r}")


class SensorBase(ABC):
    """A sensor that is sampled inside every physics step, whether or not anybody reads it."""

    data: Any

    def __init__(self, cfg: SensorBaseCfg, name: str, world: SensorWorld):
        cfg.check(name)
        self.cfg = cfg
        self.name = name
        self._engine = world.engine
        self._wp_device = wp.device_from_torch(self.device)
        self._all_envs = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)

    @property
    def num_envs(self) -> int:
        """E."""
        return self._engine.num_envs

    @property
    def device(self) -> torch.device:
        """Where the readings are."""
        return self._engine.device

    @abstractmethod
    def build(self) -> None:
        """Allocate buffers, once the engine's readers are in place."""

    def launch_before_step(self) -> None:
        """Warp work at the start of a step, where poses and velocities are current; part of the compiled step."""

    @abstractmethod
    def launch_sample(self) -> None:
        """The Warp work of one sample; part of the compiled physics step."""

    @classmethod
    def sampler(cls, sensors: Sequence[SensorBase]) -> Callable[[], None]:
        """What takes one sample of each of a scene's sensors of this class; here one after the other."""

        def launch() -> None:
            for sensor in sensors:
                sensor.launch_sample()

        return launch

    def launch_derive(self) -> None:
        """Warp work after states were written between two steps, once poses and velocities are current again."""

    @abstractmethod
    def launch_reset(self, mask: wp.array) -> None:
        """The Warp work of :meth:`reset`, for the masked environments (E,) bool."""

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Clear the chosen environments (E,) bool; None: all.

        Raises:
            ValueError: ``env_mask`` has another shape, type or device.
        """
        checks.env_mask(env_mask, self.num_envs, self.device, f"sensor {self.name!r}: env_mask")
        with self._engine.stream():
            self.launch_reset(wp.from_torch(self._all_envs if env_mask is None else env_mask))

    def describe(self) -> str:
        """What it is attached to, in a few words, for the scene's printout."""
        every = f", every {self.cfg.update_period:g} s" if self.cfg.update_period else ""
        return f"{self.cfg.prim_path}{every}"

    def update(self, dt: float | None = None, force_recompute: bool = False) -> None:
        """Nothing to do: samples are taken by the physics step. Kept for code written elsewhere."""
