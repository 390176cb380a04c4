# SPDX-License-Identifier: Apache-2.0
"""The scene: builds its entities in every environment, steps physics, samples sensors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from forcelab.physics.description import IDENTITY, RigidBodyDesc, SceneDesc, ShapeDesc, StaticDesc
from forcelab.physics.engine import Engine
from forcelab.physics.errors import near
from forcelab.physics.paths import BodyIndex, in_environment
from forcelab.physics.physics_cfg import PhysicsCfg
from forcelab.sensors.sensor_base import SensorBase, SensorBaseCfg, SensorWorld

from .articulation import Articulation, describe
from .asset import Asset
from .asset_cfg import ArticulationCfg, RigidObjectCfg
from .rigid_object import RigidObject
from .scene_cfg import InteractiveSceneCfg
from .spawn_cfg import MjcfCfg, PlaneCfg, ShapeCfg


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
    return found


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
        if isinstance(cfg.num_envs, bool) or not isinstance(cfg.num_envs, int) or cfg.num_envs < 1:
            raise ValueError(f"scene.num_envs is {cfg.num_envs!r}; it must be a positive integer.")
        if not (math.isfinite(cfg.env_spacing) and cfg.env_spacing >= 0):
            raise ValueError(f"scene.env_spacing is {cfg.env_spacing!r}; it must be zero or positive [m].")
        physics.validate()
        self._overflow_told = False
        self.cfg = cfg
        self.device = check_device(device)
        self.num_envs = cfg.num_envs
        origins = grid_origins(cfg.num_envs, cfg.env_spacing)
        articulations, bodies, statics = [], [], []
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
            elif isinstance(entity, PlaneCfg):
                if not entity.prim_path.startswith("/World/") or "env_" in entity.prim_path:
                    raise ValueError(
                        f"scene.{name}.prim_path is {entity.prim_path!r}; a plane is shared by all environments: "
                        "use a path such as '/World/ground'."
                    )
                color: Any = None if entity.color is None else (*entity.color, 1.0)[:4]
                shape = ShapeDesc("plane", friction=entity.friction, rgba=color)
                statics.append(StaticDesc(entity.prim_path, (shape,), entity.init_pos, entity.init_rot))
            elif isinstance(entity, SensorBaseCfg):
                sensors[name] = entity
            else:
                raise ValueError(
                    f"scene.{name} is a {type(entity).__name__}; a scene holds ArticulationCfg, RigidObjectCfg, "
                    "PlaneCfg and sensor configurations."
                )
        desc = SceneDesc(
            cfg.num_envs,
            origins,
            tuple(d for _, d in articulations),
            tuple(d for _, d in bodies),
            tuple(statics),
        )
        self.engine: Engine = physics.create(desc, str(self.device))
        #: (E, 3) origins of the environments [m], world frame.
        self.env_origins = torch.as_tensor(origins, device=self.device)
        self.body_index = BodyIndex(
            self.engine.body_paths, self.engine.body_tree_paths, [s.path for s in statics]
        )
        #: Entities by name.
        self.articulations: dict[str, Articulation] = {}
        self.rigid_objects: dict[str, RigidObject] = {}
        self.sensors: dict[str, SensorBase] = {}
        for name, articulation in articulations:
            entity: Any = cfg.entities()[name]
            root = self._default_root(articulation.pos, articulation.quat, entity)
            self.articulations[name] = Articulation(
                name,
                entity,
                self.engine,
                paths[name],
                self._sync,
                root,
                models[name],  # type: ignore[arg-type]
            )
        for name, body in bodies:
            entity = cfg.entities()[name]
            root = self._default_root(body.pos, body.quat, entity)
            self.rigid_objects[name] = RigidObject(name, entity, self.engine, paths[name], self._sync, root)  # type: ignore[arg-type]
        self._assets: list[Asset] = [*self.articulations.values(), *self.rigid_objects.values()]
        world = SensorWorld(self.engine, self.body_index, {a.path: a.name for a in self._assets})
        for name, sensor in sensors.items():
            self.sensors[name] = sensor.create(name, world)
        self.engine.start()
        for item in self.sensors.values():
            item.build()
        self._launch_step = self.engine.compile(self._step_work)
        self._launch_derive = self.engine.compile(self._derive_work)
        self.reset()

    # ------------------------------------------------------------------ building
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
        return RigidBodyDesc(
            path,
            tuple(p.describe(what) for p in parts),
            cfg.init_pos or (0.0, 0.0, 0.0),
            cfg.init_rot or IDENTITY,
            any(p.fixed for p in parts),
        )

    def _default_root(self, pos: Any, quat: Any, cfg: Any) -> torch.Tensor:
        row = torch.tensor([*pos, *quat, *cfg.init_lin_vel, *cfg.init_ang_vel], dtype=torch.float32)
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
        self.engine.launch_step()
        for asset in self._assets:
            asset.launch_after_step()
        for sensor in self.sensors.values():
            sensor.launch_sample()

    def _derive_work(self) -> None:
        for asset in self._assets:
            asset.launch_after_step()

    def _sync(self) -> None:
        if self.engine.stale:
            self.engine.update_kinematics()
            self._launch_derive()

    def step(self) -> None:
        """One physics step: actuators, physics, sensors."""
        self._launch_step()
        self.engine.mark_stepped()
        if self.engine.overflowed():
            self.check_overflow()

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Default states and cleared sensors for the chosen environments (E,) bool; None: all."""
        if env_mask is not None and (env_mask.dtype != torch.bool or env_mask.shape != (self.num_envs,)):
            raise ValueError(
                f"env_mask has dtype {env_mask.dtype} and shape {tuple(env_mask.shape)}; "
                f"a bool tensor of shape ({self.num_envs},) is needed."
            )
        for asset in self._assets:
            asset.reset(env_mask)
        self.engine.reset(env_mask)
        for sensor in self.sensors.values():
            sensor.reset(env_mask)
        if env_mask is None:
            self._sync()

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
        """Free the engine. Safe to call twice."""
        self.engine.close()
