# SPDX-License-Identifier: Apache-2.0
"""The scene: builds its entities in every environment, steps physics, samples sensors."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from forcelab.physics import checks
from forcelab.physics.description import IDENTITY, RigidBodyDesc, SceneDesc, ShapeDesc, StaticDesc
from forcelab.physics.engine import Engine
from forcelab.physics.errors import near
from forcelab.physics.paths import BodyIndex, in_environment
from forcelab.physics.physics_cfg import PhysicsCfg
from forcelab.sensors.sensor_base import SensorBase, SensorBaseCfg, SensorWorld

from .articulation import Articulation, describe
from .asset import Asset
from .asset_cfg import ArticulationCfg, RigidObjectCfg, root_pose
from .rigid_object import RigidObject
from .scene_cfg import InteractiveSceneCfg
from .spawn_cfg import MjcfCfg, PlaneCfg, ShapeCfg, rgba
from .terrain_cfg import TerrainCfg, height_at

_STATIC_PATH = re.compile(r"/World(/[\w-]+)+")
# Far more than any machine holds.
_MOST = 10_000_000
# Beyond this float32 positions resolve less than a tenth of a millimetre.
_FAR = 1000.0


def grid_origins(num_envs: int, spacing: float) -> np.ndarray:
    """(E, 3) origins on a square grid centred at the world's origin [m]."""
    columns = math.ceil(math.sqrt(num_envs))
    rows = math.ceil(num_envs / columns)
    i = np.arange(num_envs)
    x = (i // columns - (rows - 1) / 2) * spacing
    y = (i % columns - (columns - 1) / 2) * spacing
    return np.stack((x, y, np.zeros(num_envs)), axis=-1).astype(np.float32)


def check_device(device: str | torch.device) -> torch.device:
    """A usable device, or a ValueError that says what there is."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"device is {device!r}; use 'cpu' or 'cuda:0'.{near(str(device), ('cpu', 'cuda'))}"
        ) from None
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = found.index if found.index is not None else 0
        if index >= count:
            have = f"{count} CUDA device{'s' if count != 1 else ''}" if count else "no CUDA device"
            raise ValueError(f"device is {str(device)!r}, but torch finds {have} here. Use device=cpu.")
        return torch.device("cuda", index)
    if found.type != "cpu":
        raise ValueError(f"device is {str(device)!r}; 'cpu' and 'cuda:<i>' are supported.")
    return torch.device("cpu")  # torch takes "cpu:1" for another device


def _closed() -> None:
    raise RuntimeError("This scene is closed.")


class InteractiveScene:
    """Robots, objects and sensors in E isolated environments.

    Args:
        cfg: The scene's entities.
        physics: Settings of the engine to build on.
        device: ``cpu`` or ``cuda:<i>``.

    Raises:
        ValueError: Something in ``cfg`` cannot be built; the message names the entity and the key.
    """

    def __init__(self, cfg: InteractiveSceneCfg, physics: PhysicsCfg, device: str | torch.device = "cpu"):
        if not isinstance(cfg, InteractiveSceneCfg):
            raise TypeError(f"scene is a {type(cfg).__name__}; it must be an InteractiveSceneCfg.")
        if not isinstance(physics, PhysicsCfg):
            raise TypeError(f"physics is {physics!r}; it must be a NewtonCfg or an OvPhysxCfg.")
        self.num_envs = checks.whole(cfg.num_envs, "scene.num_envs", at_least=1, at_most=_MOST)
        spacing = checks.number(cfg.env_spacing, "scene.env_spacing", at_least=0.0, unit="m")
        physics.validate()
        self._overflow_told = False
        #: Whether the simulation runs; see :meth:`stop`.
        self.playing = True
        #: Whether :meth:`close` was called.
        self.closed = False
        self._resumed: dict[int, Callable[[], None]] = {}
        self._stopped: dict[int, Callable[[], None]] = {}
        self.cfg = cfg
        self.device = check_device(device)
        origins = grid_origins(self.num_envs, spacing)
        reach = float(np.abs(origins).max())
        if reach > _FAR:
            warnings.warn(
                f"scene.env_spacing={spacing:g} puts environments {reach:g} m from the world's origin, where float32 "
                f"positions come in steps of {float(np.spacing(np.float32(reach))):.1g} m. Environments never touch "
                "one another: a few metres are enough.",
                UserWarning,
                stacklevel=2,
            )
        articulations, bodies = [], []
        statics: list[StaticDesc] = []
        models: dict[str, Any] = {}
        paths: dict[str, str] = {}
        sensors: dict[str, SensorBaseCfg] = {}
        for name, entity in cfg.entities().items():
            if isinstance(entity, ArticulationCfg):
                paths[name] = self._path(name, entity.prim_path, paths)
                robot, models[name] = describe(name, entity, paths[name])
                articulations.append((name, robot))
            elif isinstance(entity, RigidObjectCfg):
                paths[name] = self._path(name, entity.prim_path, paths)
                bodies.append((name, self._describe_body(name, entity, paths[name])))
            elif isinstance(entity, (PlaneCfg, TerrainCfg)):
                kind = "a plane" if isinstance(entity, PlaneCfg) else "a terrain"
                self._check_static_path(name, entity.prim_path, [s.path for s in statics], kind)
                if isinstance(entity, PlaneCfg):
                    statics.append(self._describe_plane(name, entity))
                else:
                    statics.append(entity.describe(f"scene.{name}"))
                    self._put_on_terrain(name, entity, statics[-1], origins, spacing)
            elif isinstance(entity, SensorBaseCfg):
                sensors[name] = entity
            else:
                raise ValueError(
                    f"scene.{name} is a {type(entity).__name__}; a scene holds ArticulationCfg, RigidObjectCfg, "
                    "PlaneCfg, TerrainCfg and sensor configurations."
                )
        if not articulations and not bodies:
            raise ValueError(
                "The scene holds no robot and no object; add an ArticulationCfg or a RigidObjectCfg to it."
            )
        desc = SceneDesc(
            self.num_envs,
            origins,
            tuple(d for _, d in articulations),
            tuple(d for _, d in bodies),
            tuple(statics),
            any(sensor.needs_accelerations for sensor in sensors.values()),
        )
        self.engine: Engine = physics.create(desc, str(self.device))
        try:
            self._build(articulations, bodies, [s.path for s in statics], sensors, paths, models)
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ building
    def _build(
        self,
        articulations: list[Any],
        bodies: list[Any],
        statics: list[str],
        sensors: dict[str, SensorBaseCfg],
        paths: dict[str, str],
        models: dict[str, Any],
    ) -> None:
        cfg, origins = self.cfg, self.engine.desc.env_origins
        #: (E, 3) origins of the environments [m], world frame.
        self.env_origins = torch.as_tensor(origins, device=self.device)
        self.body_index = BodyIndex(
            self.engine.body_paths,
            self.engine.body_tree_paths,
            statics,
            self.engine.shape_paths,
            self.engine.static_shape_paths,
        )
        #: Entities by name.
        self.articulations: dict[str, Articulation] = {}
        self.rigid_objects: dict[str, RigidObject] = {}
        self.sensors: dict[str, SensorBase] = {}
        for name, articulation in articulations:
            given: Any = cfg.entities()[name]
            root = self._default_root(name, articulation.pos, articulation.quat, given)
            self.articulations[name] = Articulation(
                name, given, self.engine, paths[name], self._sync, root, models[name]
            )
        for name, body in bodies:
            given = cfg.entities()[name]
            root = self._default_root(name, body.pos, body.quat, given)
            self.rigid_objects[name] = RigidObject(name, given, self.engine, paths[name], self._sync, root)
        self._assets: list[Asset] = [*self.articulations.values(), *self.rigid_objects.values()]
        world = SensorWorld(self.engine, self.body_index, {a.path: a.name for a in self._assets}, self._sync)
        for name, sensor in sensors.items():
            self.sensors[name] = sensor.create(name, world)
        self.engine.start()
        kinds: dict[type[SensorBase], list[SensorBase]] = {}
        for item in self.sensors.values():
            item.build()
            kinds.setdefault(type(item), []).append(item)
        self._samplers = [kind.sampler(group) for kind, group in kinds.items()]
        self._launch_step = self.engine.compile(self._step_work)
        self._launch_derive = self.engine.compile(self._derive_work)
        self.reset()

    @staticmethod
    def _path(name: str, prim_path: str, taken: dict[str, str]) -> str:
        path = in_environment(prim_path, f"scene.{name}.prim_path")
        if not all(part.replace("_", "").replace("-", "").isalnum() for part in path.split("/")):
            raise ValueError(
                f"scene.{name}.prim_path is {prim_path!r}; an entity's own path holds plain names, no expression."
            )
        for other, used in taken.items():
            if used == path or used.startswith(path + "/") or path.startswith(used + "/"):
                raise ValueError(f"scene.{name}.prim_path {prim_path!r} collides with that of scene.{other}.")
        return path

    @staticmethod
    def _describe_body(name: str, cfg: RigidObjectCfg, path: str) -> RigidBodyDesc:
        what = f"scene.{name}.spawn"
        parts = list(cfg.spawn) if isinstance(cfg.spawn, (list, tuple)) else [cfg.spawn]
        for part in parts:
            if isinstance(part, MjcfCfg):
                raise ValueError(f"{what} is an MjcfCfg; use ArticulationCfg for robot files.")
            if not isinstance(part, ShapeCfg):
                raise ValueError(
                    f"{what} is {part!r}; give CuboidCfg, SphereCfg, CylinderCfg, CapsuleCfg or MeshCfg, or a "
                    "list of them."
                )
        if not parts:
            raise ValueError(f"{what} is an empty list; a body needs at least one shape.")
        pos, rot = root_pose(cfg, f"scene.{name}", (0.0, 0.0, 0.0), IDENTITY)
        where = [what] if len(parts) == 1 else [f"{what}[{i}]" for i in range(len(parts))]
        shapes = tuple(p.describe(at) for p, at in zip(parts, where))
        return RigidBodyDesc(path, shapes, pos, rot, any(p.fixed for p in parts))

    @staticmethod
    def _check_static_path(name: str, path: Any, taken: list[str], kind: str) -> None:
        if not isinstance(path, str) or not _STATIC_PATH.fullmatch(path) or path.startswith("/World/envs"):
            raise ValueError(
                f"scene.{name}.prim_path is {path!r}; {kind} is shared by all environments: use a path such as "
                "'/World/ground'."
            )
        if path in taken:
            raise ValueError(
                f"scene.{name}.prim_path {path!r} is that of another plane or terrain; give each its own."
            )

    @staticmethod
    def _put_on_terrain(
        name: str, cfg: TerrainCfg, desc: StaticDesc, origins: np.ndarray, spacing: float
    ) -> None:
        """Raise the origins of the environments to the surface."""
        middle = np.array(desc.pos)
        heights = middle[2] + height_at(desc.shapes[0], origins[:, :2] - middle[:2])
        if np.isnan(heights).any():
            needed = 2.0 * np.abs(origins[:, :2] - middle[:2]).max(axis=0) + spacing
            raise ValueError(
                f"scene.{name}.size is {tuple(cfg.size)!r} m, but the origins of {len(origins)} environments "
                f"scene.env_spacing={spacing:g} m apart need {needed[0]:g} x {needed[1]:g} m. Make it larger, or the "
                "spacing smaller."
            )
        origins[:, 2] = heights

    @staticmethod
    def _describe_plane(name: str, cfg: PlaneCfg) -> StaticDesc:
        what, path = f"scene.{name}", cfg.prim_path
        friction = checks.number(cfg.friction, f"{what}.friction", at_least=0.0)
        shape = ShapeDesc("plane", friction=friction, rgba=rgba(cfg.color, f"{what}.color"))
        pos: Any = checks.vector(cfg.init_pos, 3, f"{what}.init_pos")
        return StaticDesc(path, (shape,), pos, checks.quaternion(cfg.init_rot, f"{what}.init_rot"))

    def _default_root(self, name: str, pos: Any, quat: Any, cfg: Any) -> torch.Tensor:
        lin = checks.vector(cfg.init_lin_vel, 3, f"scene.{name}.init_lin_vel")
        ang = checks.vector(cfg.init_ang_vel, 3, f"scene.{name}.init_ang_vel")
        row = torch.tensor([*pos, *quat, *lin, *ang], dtype=torch.float32)
        root = row.to(self.device).repeat(self.num_envs, 1)
        root[:, :3] += self.env_origins
        return root

    # ------------------------------------------------------------------ access
    @property
    def physics_dt(self) -> float:
        """Physics time step [s]."""
        return self.engine.dt

    def keys(self) -> list[str]:
        """Names of the entities that can be read."""
        return [*self.articulations, *self.rigid_objects, *self.sensors]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Any:
        for group in (self.articulations, self.rigid_objects, self.sensors):
            if name in group:
                return group[name]
        raise KeyError(f"The scene has no entity {name!r}.{near(name, self.keys())}")

    @property
    def body_paths(self) -> list[str]:
        """Canonical paths of all bodies of one environment."""
        return self.engine.body_paths

    def body_poses(self, env_ids: Any = slice(None)) -> torch.Tensor:
        """(n, B, 7) poses of all bodies of the chosen environments, world frame (a copy)."""
        self._sync()
        if isinstance(env_ids, (tuple, range)):
            env_ids = list(env_ids)  # as an index a tuple would mean one number per dimension
        return self.engine.body_pose[env_ids].clone()

    # ------------------------------------------------------------------ stepping
    def _step_work(self) -> None:
        for asset in self._assets:
            asset.launch_before_step()
        for sensor in self.sensors.values():
            sensor.launch_before_step()
        self.engine.launch_step()
        for asset in self._assets:
            asset.launch_after_step()
        for sample in self._samplers:
            sample()

    def _derive_work(self) -> None:
        for asset in self._assets:
            asset.launch_after_step()
        for sensor in self.sensors.values():
            sensor.launch_derive()

    def _sync(self) -> None:
        if self.engine.stale:
            self.engine.update_kinematics()
            self._launch_derive()

    def step(self) -> None:
        """One physics step: actuators, physics, sensors.

        Raises:
            RuntimeError: The simulation is stopped, or the scene is closed.
        """
        self.check_playing()
        self._sync()
        self._launch_step()
        self.engine.mark_stepped()
        if self.engine.overflowed():
            self.check_overflow()

    def check_playing(self) -> None:
        """Raise the error of a step in a scene that cannot step now."""
        if self.closed:
            _closed()
        if not self.playing:
            raise RuntimeError(
                "The simulation is stopped; call scene.play() or scene.resume() before stepping."
            )

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Default states and cleared sensors for the chosen environments (E,) bool; None: all."""
        checks.env_mask(env_mask, self.num_envs, self.device, "scene.reset: env_mask")
        for asset in self._assets:
            asset.reset(env_mask)
        self.engine.reset(env_mask)
        for sensor in self.sensors.values():
            sensor.reset(env_mask)
        if env_mask is None:
            self._sync()

    # ------------------------------------------------------------------ timeline
    def play(self) -> None:
        """Start the simulation: from the default states if it was stopped. Nothing if it plays already."""
        if not self.playing:
            self.reset()
            self.resume()

    def resume(self) -> None:
        """Go on where :meth:`stop` left off. Nothing if it plays already."""
        if not self.playing:
            self.playing = True
            self._raise_event(self._resumed)

    def stop(self) -> None:
        """Stop the simulation; :meth:`step` raises until :meth:`play` or :meth:`resume`."""
        if self.playing:
            self.playing = False
            self._raise_event(self._stopped)

    def on_resumed(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` whenever the simulation starts or goes on. Returns what ends the subscription."""
        return self._subscribe(self._resumed, callback)

    def on_stopped(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` whenever the simulation is stopped. Returns what ends the subscription."""
        return self._subscribe(self._stopped, callback)

    @staticmethod
    def _subscribe(
        subscribers: dict[int, Callable[[], None]], callback: Callable[[], None]
    ) -> Callable[[], None]:
        if not callable(callback):
            raise TypeError(f"The callback is {callback!r}; it must be callable without arguments.")
        key = max(subscribers, default=0) + 1
        subscribers[key] = callback
        return lambda: subscribers.pop(key, None) and None

    @staticmethod
    def _raise_event(subscribers: dict[int, Callable[[], None]]) -> None:
        for callback in list(subscribers.values()):
            callback()

    def __str__(self) -> str:
        """What the scene holds and how its engine is set, for people."""
        lines = [
            f"{type(self.cfg).__name__}: {self.num_envs} environments on {self.device}",
            f"  engine: {self.engine.describe()}",
        ]
        for name, robot in self.articulations.items():
            lines.append(f"  {name}: articulation, {robot.num_bodies} bodies, {robot.num_joints} joints")
        lines += [f"  {name}: rigid object" for name in self.rigid_objects]
        lines += [
            f"  {name}: {type(sensor).__name__}, {sensor.describe()}" for name, sensor in self.sensors.items()
        ]
        return "\n".join(lines)

    def check_overflow(self) -> None:
        """Warn once (or raise, as ``physics.on_overflow`` says) if a contact capacity was exceeded.

        Every step does this by itself on the CPU; on CUDA the device is read here.

        Raises:
            RuntimeError: With ``physics.on_overflow=raise``.
        """
        message = self.engine.overflow()
        if message is None:
            return
        if getattr(self.engine.cfg, "on_overflow", "warn") == "raise":
            raise RuntimeError(message)
        if not self._overflow_told:
            self._overflow_told = True
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def close(self) -> None:
        """Free the engine. Safe to call twice. Stepping or resetting afterwards is a RuntimeError."""
        self.closed = True
        self._launch_step = self._launch_derive = _closed
        self.engine.close()
