# SPDX-License-Identifier: Apache-2.0
"""Point-like contact sensors one at a time, by their paths, with the engine's raw contacts."""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from forcelab.physics.description import ENV_NAMESPACE
from forcelab.physics.engine import RAW_CONTACT
from forcelab.physics.errors import near
from forcelab.physics.paths import ENV_REGEX_NS, in_environment

from .isaac_contact_sensor import IsaacContactSensor, body_above
from .isaac_contact_sensor_cfg import IsaacContactSensorCfg

_log = logging.getLogger(__name__)
_CONCRETE = re.compile(r"(/World/envs/env_(0|[1-9]\d*))/(.+)")


@dataclass(frozen=True)
class ContactSensorReading:
    """What one sensor reads.

    Attributes:
        is_valid: False for an unknown, removed or disabled sensor and while the simulation is stopped;
            everything else is 0 then.
        time: simulation time of the reading [s], counted from the engine's start; resets do not turn it back.
        value: load on the body [N].
        in_contact: the load reaches the lower threshold.
    """

    is_valid: bool = False
    time: float = 0.0
    value: float = 0.0
    in_contact: bool = False


_INVALID = ContactSensorReading()


@dataclass(frozen=True)
class _Place:
    """What a path names: a frame (or shape, or body) in one environment; env None: in every one."""

    env: int | None
    body: str
    frame: str


class IContactSensor:
    """Reads the contact sensors of one scene by path; made by :func:`acquire_contact_sensor_interface`.

    A path names a configured :class:`IsaacContactSensorCfg`, or a rigid body or one of its shapes, where
    :meth:`create_sensor` puts a sensor with the default settings (whole body, no lower threshold).
    ``/World/envs/env_3/…`` means environment 3. ``{ENV_REGEX_NS}/…`` and ``/World/envs/env_.*/…`` mean every
    environment for :meth:`create_sensor` and :meth:`remove_sensor` and environment 0 for single reads.

    The interface follows the simulation by itself. It does not keep the scene alive; once that is closed or
    gone, all readings are invalid. Every read copies from the device: for training use the batched readings of
    :class:`IsaacContactSensor`, which removing a sensor here leaves alone.
    """

    def __init__(self, scene: Any):
        # Weak, and nothing else of the scene is kept: the table of interfaces must not keep scenes alive.
        self._scene = weakref.ref(scene)
        # Frame → (E,) bool, the environments where it has a sensor.
        self._created: dict[str, np.ndarray] = {}
        self._unsubscribe: list[Callable[[], None]] = []
        self._playing = False

    # ------------------------------------------------------------------ lifecycle
    def _start(self) -> bool:
        """Follow the simulation's events; whether that is new."""
        scene = self._scene()
        if self._unsubscribe or scene is None:
            return False
        self._playing = scene.playing
        self._unsubscribe = [scene.on_resumed(self._on_resumed), scene.on_stopped(self._on_stopped)]
        return True

    def _on_resumed(self) -> None:
        self._playing = True

    def _on_stopped(self) -> None:
        self._playing = False

    def _discover(self) -> None:
        """A sensor in every environment for each one that the scene configures."""
        scene = self._scene()
        if scene is None:
            return
        names: dict[str, str] = {}
        for name, sensor in scene.sensors.items():
            if not isinstance(sensor, IsaacContactSensor):
                continue
            first = names.setdefault(sensor.frame_path, name)
            if first != name:
                _log.warning(
                    "Sensors %r and %r of the scene have one path, %s; reads by path give the first.",
                    first,
                    name,
                    sensor.cfg.prim_path,
                )
            self._created[sensor.frame_path] = np.ones(scene.num_envs, dtype=bool)

    def shutdown(self) -> None:
        """Remove all sensors and follow the simulation no more. Safe to call again.

        :meth:`create_sensor` afterwards starts the interface anew with that sensor alone,
        :func:`acquire_contact_sensor_interface` with all that the scene configures.
        """
        for end in self._unsubscribe:
            end()
        self._unsubscribe = []
        self._created.clear()
        self._playing = False

    # ------------------------------------------------------------------ sensors
    def create_sensor(self, path: str) -> bool:
        """Put a sensor at a configured frame, a rigid body or a shape of one.

        Returns:
            True when the sensor is there now, also when it was before. False, with a logged warning that lists
            near paths, when there is nothing at ``path`` or no rigid body above it.

        Raises:
            TypeError: ``path`` is no string.
        """
        scene = self._open_scene()
        place = self._place(path)
        if scene is None:
            _log.warning("No contact sensor at %r: the scene is closed or gone.", path)
            return False
        if isinstance(place, str):
            _log.warning("No contact sensor at %r: %s", path, place)
            return False
        self._start()
        where = self._created.setdefault(place.frame, np.zeros(scene.num_envs, dtype=bool))
        where[slice(None) if place.env is None else place.env] = True
        return True

    def remove_sensor(self, path: str) -> None:
        """Remove a sensor; nothing if there is none.

        Raises:
            TypeError: ``path`` is no string.
        """
        place = self._place(path)
        if not isinstance(place, str) and place.frame in self._created:
            self._created[place.frame][slice(None) if place.env is None else place.env] = False

    # ------------------------------------------------------------------ reading
    def get_sensor_reading(self, path: str) -> ContactSensorReading:
        """The last sample of one sensor.

        After a reset of its environment the reading is valid and 0 until the next physics step.

        Raises:
            TypeError: ``path`` is no string.
        """
        found = self._live(path)
        if found is None:
            return _INVALID
        scene, env, place, sensor = found
        if sensor is not None:
            time, value, in_contact = sensor.read(env)
            return ContactSensorReading(True, time, value, in_contact)
        engine = scene.engine
        impulse = engine.raw_contacts(place.body, env)["impulse"].sum(axis=0)
        lower, upper = IsaacContactSensorCfg.threshold
        force = float(np.linalg.norm(impulse)) / engine.dt
        in_contact = force > 0.0 and force >= lower
        time = int(engine.step_count[0]) * engine.dt
        return ContactSensorReading(True, time, min(force, upper) if in_contact else 0.0, in_contact)

    def get_raw_contacts(self, path: str) -> np.ndarray:
        """The touching contacts of the sensor's BODY in the last physics step, whatever the sensor's radius.

        Returns:
            Structured array: ``time`` and ``dt`` [s], ``body0`` (this body) and ``body1`` (its partner) as
            full paths, ``position`` [m], ``normal`` (from body 1 to body 0) and ``impulse`` (normal impulse on
            body 0 [N·s]) in the world frame. Empty without contact and where :meth:`get_sensor_reading` is
            invalid.

        Raises:
            TypeError: ``path`` is no string.
        """
        found = self._live(path)
        if found is None:
            return np.zeros(0, dtype=RAW_CONTACT)
        scene, env, place, _ = found
        return scene.engine.raw_contacts(place.body, env)

    def decode_body_name(self, body: str) -> str:
        """The path of a body in a raw contact; the records hold it already.

        Raises:
            TypeError: ``body`` is no string.
        """
        if not isinstance(body, str):
            raise TypeError(f"body is {body!r}; raw contacts hold paths: give their 'body0' or 'body1'.")
        return str(body)

    # ------------------------------------------------------------------ paths
    def _open_scene(self) -> Any:
        scene = self._scene()
        return None if scene is None or scene.closed else scene

    def _live(self, path: str) -> tuple[Any, int, _Place, IsaacContactSensor | None] | None:
        """Scene, environment, place and configured sensor, if ``path`` can be read now."""
        place, scene = self._place(path), self._open_scene()
        if scene is None or isinstance(place, str) or not self._playing:
            return None
        env = place.env or 0
        where = self._created.get(place.frame)
        if where is None or not where[env]:
            return None
        sensor = self._sensor(scene, place.frame)
        return None if sensor is not None and not sensor.enabled else (scene, env, place, sensor)

    @staticmethod
    def _sensor(scene: Any, frame: str) -> IsaacContactSensor | None:
        for sensor in scene.sensors.values():
            if isinstance(sensor, IsaacContactSensor) and sensor.frame_path == frame:
                return sensor
        return None

    def _place(self, path: str) -> _Place | str:
        """What ``path`` names, or why it names nothing."""
        if not isinstance(path, str):
            raise TypeError(
                f"path is {path!r}; give the sensor's path, such as '/World/envs/env_0/Robot/LF_FOOT/contact'."
            )
        scene = self._scene()
        if scene is None:
            return "the scene is gone."
        bodies = scene.body_index
        frames = [s.frame_path for s in scene.sensors.values() if isinstance(s, IsaacContactSensor)]
        known = list(dict.fromkeys([*frames, *bodies.paths, *bodies.shapes]))
        concrete = _CONCRETE.fullmatch(path)
        env: int | None = None
        if concrete:
            scope, env, below = concrete.group(1), int(concrete.group(2)), concrete.group(3)
            if env >= scene.num_envs:
                return f"the scene has {scene.num_envs} environments, env_0 to env_{scene.num_envs - 1}."
        else:
            scope = ENV_REGEX_NS
            try:
                below = in_environment(path, "the path")
            except ValueError:
                return (
                    f"no rigid body above it; bodies lie below '{ENV_REGEX_NS}/' or '{ENV_NAMESPACE.format(0)}/'."
                    f"{near(path, [f'{scope}/{k}' for k in known])}"
                )
        found = body_above(bodies, below)
        if found is None:
            return f"no rigid body above it.{near(path, [f'{scope}/{k}' for k in known])}"
        body, rest = found
        frame = f"{body}/{rest}" if rest else body
        if frame not in known:
            return (
                f"no sensor of the scene, no rigid body and no shape of {scope}/{body} has this path."
                f"{near(f'{scope}/{frame}', [f'{scope}/{k}' for k in known])}"
            )
        return _Place(env, body, frame)


_interfaces: weakref.WeakKeyDictionary[Any, IContactSensor] = weakref.WeakKeyDictionary()
_SCENE = ("engine", "sensors", "body_index", "on_resumed", "on_stopped")


def acquire_contact_sensor_interface(scene: Any) -> IContactSensor:
    """The one contact sensor interface of a scene; the same object on every call.

    When it starts it holds every :class:`IsaacContactSensorCfg` of the scene. Starting again after
    :meth:`IContactSensor.shutdown` is a start, too.

    Args:
        scene: An InteractiveScene.

    Raises:
        TypeError: ``scene`` is something else.
        NotImplementedError: The scene's engine does not report raw contacts.
    """
    if not all(hasattr(scene, name) for name in _SCENE):
        hint = " Give the environment's scene: env.unwrapped.scene." if hasattr(scene, "unwrapped") else ""
        raise TypeError(f"scene is a {type(scene).__name__}; it must be an InteractiveScene.{hint}")
    if not scene.engine.capabilities.raw_contacts:
        raise NotImplementedError(
            f"The {scene.engine.name!r} engine does not report raw contacts; use another engine."
        )
    found = _interfaces.get(scene)
    if found is None:
        found = _interfaces[scene] = IContactSensor(scene)
    if found._start():
        found._discover()
    return found
