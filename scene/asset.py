# SPDX-License-Identifier: Apache-2.0
"""What rigid objects and articulations share: root state, bodies, masked writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import warp as wp

from forcelab.physics import checks
from forcelab.physics.array import Array
from forcelab.physics.engine import Engine
from forcelab.physics.launch import launch
from forcelab.physics.paths import find_names

from . import asset_kernels

if TYPE_CHECKING:
    from .asset_cfg import AssetCfg


class AssetData:
    """State of an asset. E environments, B bodies; world frame unless a name ends in ``_b``.

    Arrays show the engine's memory and are current at every read; reading changes nothing.
    Quaternions (x, y, z, w). Velocities are (linear, angular) of the body frame's origin.
    """

    def __init__(self, engine: Engine, path: str, sync: Callable[[], None], default_root: torch.Tensor):
        state = engine.trees[path]
        E, dev = engine.num_envs, engine.device
        self._sync = sync
        self._state = state
        pose, vel = engine.body_pose[:, state.body_slice], engine.body_vel[:, state.body_slice]
        self._body_pose, self._body_vel = pose, vel
        gravity = torch.tensor(engine.cfg.gravity, dtype=torch.float32, device=dev)
        size = gravity.norm()
        down = gravity / size if float(size) > 0 else torch.tensor((0.0, 0.0, -1.0), device=dev)
        #: Direction of gravity (E, 3), unit vector.
        self.GRAVITY_VEC_W = Array.wrap(down.repeat(E, 1))
        self._derived = [torch.zeros(E, 3, device=dev) for _ in range(3)] + [torch.zeros(E, device=dev)]
        #: (E, 7) pose and (E, 6) velocity after a reset, environment origin included.
        self.default_root_pose = Array.wrap(default_root[:, :7].contiguous())
        self.default_root_vel = Array.wrap(default_root[:, 7:].contiguous())
        #: (E, B) masses [kg] and sliding friction as built.
        self.default_body_mass = Array.wrap(state.body_mass.clone())
        self.default_friction = Array.wrap(state.body_friction.clone())
        self._views = {
            "root_pose_w": pose[:, 0],
            "root_pos_w": pose[:, 0, :3],
            "root_quat_w": pose[:, 0, 3:],
            "root_vel_w": vel[:, 0],
            "root_lin_vel_w": vel[:, 0, :3],
            "root_ang_vel_w": vel[:, 0, 3:],
            "body_pose_w": pose,
            "body_pos_w": pose[..., :3],
            "body_quat_w": pose[..., 3:],
            "body_vel_w": vel,
            "body_lin_vel_w": vel[..., :3],
            "body_ang_vel_w": vel[..., 3:],
            "root_lin_vel_b": self._derived[0],
            "root_ang_vel_b": self._derived[1],
            "projected_gravity_b": self._derived[2],
            "heading_w": self._derived[3],
        }
        self._views = {k: Array.wrap(v) for k, v in self._views.items()}
        self._body_mass = Array.wrap(state.body_mass)
        self._friction = Array.wrap(state.body_friction)
        self._derive_args = (
            wp.from_torch(engine.body_pose, dtype=wp.transform),
            wp.from_torch(engine.body_vel, dtype=wp.spatial_vector),
            state.body_slice.start,
            wp.vec3(*(float(v) for v in down)),
        )
        self._derive_out = [wp.from_torch(t, dtype=wp.vec3) for t in self._derived[:3]]
        self._derive_out.append(wp.from_torch(self._derived[3]))
        self._wp_device = self._derive_args[0].device

    def launch_derive(self) -> None:
        """Warp work that brings root-frame quantities up to date."""
        wp.launch(
            asset_kernels.derive_root,
            dim=self._derived[3].shape[0],
            inputs=self._derive_args,
            outputs=self._derive_out,
            device=self._wp_device,
        )

    def _read(self, name: str) -> Array:
        self._sync()
        return self._views[name]  # type: ignore[return-value]

    @property
    def root_pose_w(self) -> Array:
        """(E, 7) position [m] and quaternion of the root body's frame."""
        return self._read("root_pose_w")

    @property
    def root_pos_w(self) -> Array:
        """(E, 3) [m]."""
        return self._read("root_pos_w")

    @property
    def root_quat_w(self) -> Array:
        """(E, 4) (x, y, z, w)."""
        return self._read("root_quat_w")

    @property
    def root_vel_w(self) -> Array:
        """(E, 6) linear [m/s] and angular [rad/s] velocity."""
        return self._read("root_vel_w")

    @property
    def root_lin_vel_w(self) -> Array:
        """(E, 3) [m/s]."""
        return self._read("root_lin_vel_w")

    @property
    def root_ang_vel_w(self) -> Array:
        """(E, 3) [rad/s]."""
        return self._read("root_ang_vel_w")

    @property
    def root_lin_vel_b(self) -> Array:
        """(E, 3) linear velocity in the root's frame [m/s]."""
        return self._read("root_lin_vel_b")

    @property
    def root_ang_vel_b(self) -> Array:
        """(E, 3) angular velocity in the root's frame [rad/s]."""
        return self._read("root_ang_vel_b")

    @property
    def projected_gravity_b(self) -> Array:
        """(E, 3) direction of gravity in the root's frame, unit vector: (0, 0, -1) when upright."""
        return self._read("projected_gravity_b")

    @property
    def heading_w(self) -> Array:
        """(E,) yaw of the root's x axis [rad]."""
        return self._read("heading_w")

    @property
    def body_pose_w(self) -> Array:
        """(E, B, 7)."""
        return self._read("body_pose_w")

    @property
    def body_pos_w(self) -> Array:
        """(E, B, 3) [m]."""
        return self._read("body_pos_w")

    @property
    def body_quat_w(self) -> Array:
        """(E, B, 4) (x, y, z, w)."""
        return self._read("body_quat_w")

    @property
    def body_vel_w(self) -> Array:
        """(E, B, 6) linear [m/s] and angular [rad/s] velocity."""
        return self._read("body_vel_w")

    @property
    def body_lin_vel_w(self) -> Array:
        """(E, B, 3) [m/s]."""
        return self._read("body_lin_vel_w")

    @property
    def body_ang_vel_w(self) -> Array:
        """(E, B, 3) [rad/s]."""
        return self._read("body_ang_vel_w")

    @property
    def body_mass(self) -> Array:
        """(E, B) [kg]."""
        return self._body_mass

    @property
    def body_friction(self) -> Array:
        """(E, B) sliding friction coefficient of each body's shapes."""
        return self._friction


class Asset:
    """Base of :class:`RigidObject` and :class:`Articulation`."""

    data: AssetData

    def __init__(self, name: str, cfg: AssetCfg, engine: Engine, path: str):
        self.name = name
        self.cfg = cfg
        self.path = path
        self._engine = engine
        self._state = engine.trees[path]
        self._root_moved = False
        self._all = torch.ones(engine.num_envs, dtype=torch.bool, device=engine.device)
        self._pose = torch.zeros(engine.num_envs, 7, device=engine.device)

    @property
    def num_envs(self) -> int:
        """E."""
        return self._engine.num_envs

    @property
    def device(self) -> torch.device:
        return self._engine.device

    @property
    def body_names(self) -> list[str]:
        """Names of the B bodies, in the robot file's order."""
        return self._state.body_names

    @property
    def num_bodies(self) -> int:
        """B."""
        return len(self._state.body_names)

    @property
    def is_fixed_base(self) -> bool:
        """Whether the root is welded to the world."""
        return self._state.fixed_base

    def find_bodies(
        self, keys: str | Sequence[str], preserve_order: bool = False
    ) -> tuple[list[int], list[str]]:
        """Indices and names of the bodies that full-match ``keys``.

        Raises:
            ValueError: A key matches nothing.
        """
        return find_names(keys, self.body_names, preserve_order, f"body of {self.name!r}")

    def _tensor(self, value: torch.Tensor, what: str) -> torch.Tensor:
        try:
            value = torch.as_tensor(value, dtype=torch.float32, device=self.device)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{self.name}.{what}: a float tensor is needed, found {value!r}.") from None
        return value.detach() if value.requires_grad else value

    def _rows(self, value: torch.Tensor, width: int, what: str) -> torch.Tensor:
        """``value`` as (E, width); one row, or one column, stands for all."""
        value = self._tensor(value, what)
        try:
            return value.expand(self.num_envs, width)
        except RuntimeError:
            raise ValueError(
                f"{self.name}.{what}: the shape is {tuple(value.shape)}; ({self.num_envs}, {width}) is needed."
            ) from None

    def _mask(self, env_mask: torch.Tensor | None, what: str) -> torch.Tensor | None:
        return checks.env_mask(env_mask, self.num_envs, self.device, f"{self.name}.{what}: env_mask")

    def _ids(
        self, ids: slice | torch.Tensor | Sequence[int] | None, count: int, what: str
    ) -> tuple[slice | torch.Tensor, int]:
        """Indices for columns of ``count``, and how many they are."""
        if ids is None:
            return slice(None), count
        if isinstance(ids, slice):
            return ids, len(range(*ids.indices(count)))
        if isinstance(ids, torch.Tensor) and ids.dtype is torch.long and ids.dim() == 1:
            return ids, ids.shape[0]
        if isinstance(ids, (list, tuple)) and all(type(i) is int and -count <= i < count for i in ids):
            return torch.tensor(ids, dtype=torch.long, device=self.device), len(ids)
        raise ValueError(
            f"{self.name}.{what} is {ids!r}; give None, a slice, or indices from 0 to {count - 1} as a 1-D LongTensor."
        )

    def _look(
        self, value: torch.Tensor, env_mask: torch.Tensor | None, what: str, at_least: float = -torch.inf
    ) -> None:
        """Where looking costs nothing: are the chosen rows of ``value`` (E, n) finite and large enough?"""
        if not self._engine.looks:
            return
        bad = ~((value >= at_least) & torch.isfinite(value)).all(dim=1)
        if env_mask is not None:
            bad = bad & env_mask
        if bool(bad.any()):
            which = bad.nonzero().flatten().tolist()[:8]
            kind = "finite numbers" if at_least == -torch.inf else f"numbers, {at_least:g} or more"
            raise ValueError(f"{self.name}.{what}: {kind} are needed; wrong in environments {which}.")

    def write_root_pose(self, pose: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """Set the root pose, (E, 7): position [m] and quaternion (x, y, z, w), world frame.

        Quaternions are brought to length 1. Of a root that hangs on a joint to the world it is the pose at
        joint position zero.

        Raises:
            ValueError: A wrong shape or mask; on the CPU also numbers that are not finite, or a quaternion 0.
        """
        what = "write_root_pose"
        pose, mask = self._rows(pose, 7, what), self._mask(env_mask, what)
        if self._engine.looks:
            self._look(pose[:, :3], mask, f"{what}: position")
            size = pose[:, 3:].norm(dim=1, keepdim=True)
            self._look(size, mask, f"{what}: length of the quaternion", at_least=1e-6)
        launch(self._engine, asset_kernels.unit_quaternion, self.num_envs, [pose.contiguous(), self._pose])
        self._root_moved = True
        self._engine.write_root_pose(self.path, self._pose, mask)

    def write_root_velocity(self, vel: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """Set the root velocity, (E, 6): linear [m/s] and angular [rad/s], world frame, of the root's origin."""
        what = "write_root_velocity"
        if self._state.fixed_base:
            raise ValueError(
                f"{self.name}.{what}: the root is fixed to the world; it has no velocity to write."
            )
        self._engine.write_root_velocity(self.path, self._rows(vel, 6, what), self._mask(env_mask, what))

    def set_external_wrench(
        self,
        force: torch.Tensor,
        torque: torch.Tensor,
        body_ids: slice | torch.Tensor | None = None,
        env_mask: torch.Tensor | None = None,
    ) -> None:
        """Apply a force [N] (at the centre of mass) and torque [N·m], world frame, until changed or reset.

        Args:
            force, torque: (E, n, 3) on ``body_ids``, or (E, 3) on each of them.
            body_ids: a slice or index tensor; None: the root for (E, 3), all bodies for (E, B, 3).
            env_mask: chosen environments (E,) bool; None: all.

        Raises:
            ValueError: A wrong shape, index or mask.
        """
        what = "set_external_wrench"
        parts = [self._tensor(force, f"{what}: force"), self._tensor(torque, f"{what}: torque")]
        if body_ids is None and all(p.dim() < 3 for p in parts):
            body_ids = slice(0, 1)
        ids, count = self._ids(body_ids, self.num_bodies, f"{what}: body_ids")
        mask = self._mask(env_mask, what)
        held = (self._state.external_force, self._state.external_torque)
        for i, value in enumerate(parts):
            try:
                parts[i] = (value if value.dim() > 2 else value.unsqueeze(-2)).expand(self.num_envs, count, 3)
            except RuntimeError:
                raise ValueError(
                    f"{self.name}.{what}: the shape of the {('force', 'torque')[i]} is {tuple(value.shape)}; "
                    f"({self.num_envs}, 3) or ({self.num_envs}, {count}, 3) is needed."
                ) from None
        for buffer, value in zip(held, parts):
            if mask is not None:
                value = torch.where(mask.view(-1, 1, 1), value, buffer[:, ids])
            buffer[:, ids] = value

    def write_body_mass(self, mass: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """Set masses, (E, B) [kg]; inertia tensors scale along.

        Raises:
            ValueError: A wrong shape or mask; on the CPU also masses that are not finite and positive.
        """
        what = "write_body_mass"
        mass, mask = self._rows(mass, self.num_bodies, what), self._mask(env_mask, what)
        self._look(torch.where(self._state.body_mass > 0, mass, 1.0), mask, what, at_least=1e-9)
        self._engine.write_body_mass(self.path, mass, mask)

    def write_friction(self, friction: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """Set the sliding friction coefficient of every body's shapes, (E, B) or (E, 1).

        Raises:
            ValueError: A wrong shape or mask; on the CPU also coefficients that are not finite or negative.
        """
        what = "write_friction"
        friction, mask = self._rows(friction, self.num_bodies, what), self._mask(env_mask, what)
        self._look(friction, mask, what, at_least=0.0)
        self._engine.write_friction(self.path, friction, mask)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Default root state, no external wrench, for the chosen environments."""
        self._mask(env_mask, "reset")
        # A fixed root that was never moved is where it belongs; moving it costs the engine an update.
        if not self._state.fixed_base or self._root_moved:
            self.write_root_pose(self.data.default_root_pose, env_mask)
        if not self._state.fixed_base:
            self.write_root_velocity(self.data.default_root_vel, env_mask)
        mask = self._all if env_mask is None else env_mask
        wrench = [self._state.external_force, self._state.external_torque]
        launch(self._engine, asset_kernels.clear_wrench, self.num_envs, [mask, *wrench])

    def launch_before_step(self) -> None:
        """Warp work at the start of a physics step."""

    def launch_after_step(self) -> None:
        """Warp work at the end of a physics step."""
        self.data.launch_derive()
