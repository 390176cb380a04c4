# SPDX-License-Identifier: Apache-2.0
"""The point-like contact sensor, batched over environments."""

from __future__ import annotations

import torch
import warp as wp

from forcelab.physics import checks
from forcelab.physics.array import Array
from forcelab.physics.engine import ContactQuery
from forcelab.physics.errors import near
from forcelab.physics.paths import ENV_REGEX_NS, BodyIndex, in_environment

from ..sensor_base import SensorBase, SensorWorld
from . import raw_contact_kernels as kernels
from .isaac_contact_sensor_cfg import IsaacContactSensorCfg
from .isaac_contact_sensor_data import IsaacContactSensorData


def body_above(bodies: BodyIndex, path: str) -> tuple[str, str] | None:
    """The rigid body that carries a frame.

    Args:
        bodies: All bodies of one environment.
        path: The frame's path below the environment's namespace, by the body's flat or tree path.

    Returns:
        The body's canonical path and what follows it in ``path`` ("" for the body itself); None when no part
        of ``path`` is a rigid body, or a name in it is empty.
    """
    flat_of = {**dict(zip(bodies.tree_paths, bodies.paths)), **{p: p for p in bodies.paths}}
    parts = path.split("/")
    if not all(parts):
        return None
    for i in range(len(parts), 0, -1):
        body = flat_of.get("/".join(parts[:i]))
        if body is not None:
            return body, "/".join(parts[i:])
    return None


class IsaacContactSensor(SensorBase):
    """The load near one frame of one body, in every environment.

    A sample is taken inside every physics step that is due. See :class:`IsaacContactSensorCfg` for the
    settings; :func:`acquire_contact_sensor_interface` reads single sensors by their paths.
    """

    cfg: IsaacContactSensorCfg
    data: IsaacContactSensorData

    def __init__(self, cfg: IsaacContactSensorCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        engine, what = world.engine, f"scene.{name}.prim_path"
        if not engine.capabilities.raw_contacts:
            raise NotImplementedError(
                f"scene.{name}: the {engine.name!r} engine does not report raw contacts; use a ContactSensorCfg, or "
                "another engine."
            )
        path = in_environment(cfg.prim_path, what)
        found = body_above(world.bodies, path)
        if found is None:
            hint = near(path.rpartition("/")[0] or path, world.bodies.paths)
            raise ValueError(
                f"{what} {cfg.prim_path!r} has no rigid body above it. It must be '{ENV_REGEX_NS}/<body path>/<name>', "
                f"without regular expressions.{hint}"
            )
        #: Canonical path of the body that carries the sensor, below the environment's namespace.
        self.body_path: str = found[0]
        #: The sensor's own path, likewise.
        self.frame_path: str = "/".join(filter(None, found))
        origin: tuple[float, float, float] = checks.vector(cfg.translation, 3, what)  # type: ignore[assignment]
        self._reader = engine.add_contact_reader(
            ContactQuery((self.body_path,), origin=origin, radius=max(0.0, float(cfg.radius)))
        )

    def build(self) -> None:
        cfg, dev, E = self.cfg, self.device, self.num_envs
        self._state = torch.zeros(E, kernels.STATE_COLUMNS, dtype=torch.int32, device=dev)
        self._enabled = torch.full((1,), cfg.enabled, dtype=torch.bool, device=dev)
        value = torch.zeros(E, device=dev)
        in_contact = torch.zeros(E, dtype=torch.bool, device=dev)
        self.data = IsaacContactSensorData()
        self.data.value, self.data.in_contact = Array.wrap(value), Array.wrap(in_contact)
        self._steps = wp.from_torch(self._engine.step_count)
        self._buffers = [wp.from_torch(self._state), wp.from_torch(value), wp.from_torch(in_contact)]
        self._sample_args = [
            wp.from_torch(self._reader.normal, dtype=wp.vec3),
            self._steps,
            wp.from_torch(self._enabled),
            wp.float64(self._engine.dt),
            wp.float64(cfg.update_period),
            float(cfg.threshold[0]),
            float(cfg.threshold[1]),
        ]

    def launch_sample(self) -> None:
        wp.launch(
            kernels.sample,
            dim=self.num_envs,
            inputs=self._sample_args,
            outputs=self._buffers,
            device=self._wp_device,
        )

    def launch_reset(self, mask: wp.array) -> None:
        wp.launch(
            kernels.clear,
            dim=self.num_envs,
            inputs=[mask, self._steps],
            outputs=self._buffers,
            device=self._wp_device,
        )

    # ------------------------------------------------------------------ readings
    @property
    def value(self) -> Array:
        """(E,) load on the body [N]; 0 when not in contact, after a reset until the next step, when disabled."""
        return self.data.value

    @property
    def in_contact(self) -> Array:
        """(E,) bool."""
        return self.data.in_contact

    @property
    def enabled(self) -> bool:
        """Whether the sensor measures; reads the device. Assigning works at any time, captured steps included:
        disabled, readings are 0 at once; enabled again, they are 0 until the next sample."""
        return bool(self._enabled[0])

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._enabled.fill_(checks.flag(value, f"sensor {self.name!r}: enabled"))
        if not value:
            self.data.value.torch.zero_()
            self.data.in_contact.torch.zero_()

    def read(self, env: int) -> tuple[float, float, bool]:
        """One environment's reading, copied to the host: simulation time [s], load [N], in contact."""
        step = int(self._state[env, kernels.STEP])
        return step * self._engine.dt, float(self.data.value[env]), bool(self.data.in_contact[env])
