# SPDX-License-Identifier: Apache-2.0
"""A robot in every environment: joints, actuators, bodies."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence

import torch
import warp as wp

from forcelab.physics import checks
from forcelab.physics.array import Array
from forcelab.physics.description import ArticulationDesc, JointDriveDesc
from forcelab.physics.engine import Engine
from forcelab.physics.errors import near
from forcelab.physics.launch import launch
from forcelab.physics.paths import find_names

from . import asset_kernels
from .asset import Asset, AssetData
from .asset_cfg import ArticulationCfg, DelayedPdActuatorCfg, PdActuatorCfg, root_pose
from .spawn_cfg import MjcfCfg

JointIds = slice | torch.Tensor | None

# The ring of past commands takes memory for each.
_MAX_DELAY = 10_000
_GEOMS = ("plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh", "sdf")
_ACTUATOR_FIELDS = ("stiffness", "damping", "effort_limit", "velocity_limit", "armature", "friction")


def _by_expression(
    values: Mapping[str, float], names: Sequence[str], what: str, infinite: bool = False
) -> dict[str, float]:
    """Values by joint name; every expression must match, and no joint twice."""
    out: dict[str, float] = {}
    source: dict[str, str] = {}
    for key, value in values.items():
        _, found = find_names(key, names, False, f"joint ({what})")
        for name in found:
            if name in out:
                raise ValueError(f"{what}: joint {name!r} matches both {source[name]!r} and {key!r}.")
            out[name], source[name] = checks.number(value, f"{what}[{key!r}]", infinite=infinite), key
    return out


def _per_joint(model: PdActuatorCfg, field: str, names: Sequence[str], at: str) -> dict[str, float]:
    """A field of an actuator model by joint name; ``at`` is the model's key path."""
    value, what = getattr(model, field), f"{at}.{field}"
    if value is None:
        return {}
    if not isinstance(value, Mapping) and not checks.is_number(value):
        raise ValueError(f"{what} is {value!r}; give a number or a dictionary by joint expression.")
    limit = field.endswith("_limit")
    entries = {f"{what}[{k!r}]": v for k, v in value.items()} if isinstance(value, Mapping) else {what: value}
    for where, entry in entries.items():
        checks.number(
            entry, where, at_least=None if limit else 0.0, above=0.0 if limit else None, infinite=limit
        )
    if isinstance(value, Mapping):
        return _by_expression(value, names, what, infinite=limit)
    return dict.fromkeys(names, float(value))


def _read_mjcf(file: str, what: str, fixed_base: bool | None) -> tuple[ElementTree.Element, list[str]]:
    """The root body's element and the names of the joints, in order of the file.

    Raises:
        ValueError: The file is no robot that can be built.
    """
    try:
        root = ElementTree.parse(file).getroot()
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{what}: {file!r} is not valid XML: {error}.") from None
    world = root.find("worldbody")
    body = None if world is None else world.find("body")
    if world is None or body is None:
        raise ValueError(f"{what}: {file!r} has no <body> in its <worldbody>.")
    moving = [
        b for b in world.findall("body") if b.find("joint") is not None or b.find("freejoint") is not None
    ]
    if len(moving) > 1:
        names = ", ".join(repr(b.get("name", "")) for b in moving)
        raise ValueError(
            f"{what}: {file!r} has several root bodies that move ({names}); a robot has one. Make each its own entity."
        )
    joints: list[str] = []
    for owner in world.iter("body"):
        called = repr(owner.get("name", ""))
        if len(owner.findall("joint")) > 1:
            names = ", ".join(repr(j.get("name", "")) for j in owner.findall("joint"))
            raise ValueError(
                f"{what}: {file!r} has several joints in body {called} ({names}); a body may have one. Put a body with "
                "a little mass between them."
            )
        for joint in owner.findall("joint"):
            if joint.get("type") == "free":
                continue
            name = joint.get("name", "")
            if not name or "/" in name:
                raise ValueError(
                    f"{what}: {file!r} has a joint named {name!r} in body {called}; give every joint a name, "
                    "without '/'."
                )
            joints.append(name)
            if owner is body and fixed_base is not None:
                raise ValueError(
                    f"{what}: the root body {called} of {file!r} hangs on the joint {name!r}, which "
                    f"fixed_base={fixed_base} would replace. Leave fixed_base at None, or "
                    "put the joint on a body below a fixed root."
                )
        if "/" in called:
            raise ValueError(f"{what}: {file!r} has a body named {called}; names must not contain '/'.")
        for geom in owner.findall("geom"):
            kind = geom.get("type", "sphere")
            if kind not in _GEOMS:
                raise ValueError(
                    f"{what}: {file!r} has a geom of type {kind!r} in body {called}.{near(kind, _GEOMS)}"
                )
    return body, joints


def describe(name: str, cfg: ArticulationCfg, path: str) -> tuple[ArticulationDesc, dict[str, PdActuatorCfg]]:
    """The neutral description of a robot, and which actuator model drives each joint.

    Raises:
        ValueError: A file, joint expression or value is wrong; the error names the key.
    """
    what = f"scene.{name}"
    if cfg.spawn is None:
        raise ValueError(f"{what}.spawn is missing; give an MjcfCfg with the robot's file.")
    if not isinstance(cfg.spawn, MjcfCfg):
        raise ValueError(f"{what}.spawn is {cfg.spawn!r}; give an MjcfCfg with the robot's file.")
    if cfg.fixed_base is not None:
        checks.flag(cfg.fixed_base, f"{what}.fixed_base")
    checks.flag(cfg.self_collisions, f"{what}.self_collisions")
    checks.number(cfg.soft_joint_pos_limit_factor, f"{what}.soft_joint_pos_limit_factor", above=0.0)
    if cfg.friction is not None:
        checks.number(cfg.friction, f"{what}.friction", at_least=0.0)
    file = cfg.spawn.resolve(f"{what}.spawn.path")
    body, joints = _read_mjcf(file, f"{what}.spawn.path", cfg.fixed_base)
    drives: dict[str, JointDriveDesc] = {}
    models: dict[str, PdActuatorCfg] = {}
    if not isinstance(cfg.actuators, Mapping):
        raise ValueError(f"{what}.actuators is a {type(cfg.actuators).__name__}; give a dictionary by name.")
    for key, actuator in cfg.actuators.items():
        at = f"{what}.actuators.{key}"
        if not isinstance(actuator, PdActuatorCfg):
            raise ValueError(
                f"{at} is a {type(actuator).__name__}; give a PdActuatorCfg, IdealPdActuatorCfg or "
                "DelayedPdActuatorCfg."
            )
        keys = actuator.joint_names
        _, names = find_names(
            keys if isinstance(keys, str) else list(keys), joints, False, f"joint ({at}.joint_names)"
        )
        if not names:
            raise ValueError(f"{at}.joint_names is {keys!r}; it must name at least one joint.")
        values = {field: _per_joint(actuator, field, names, at) for field in _ACTUATOR_FIELDS}
        if isinstance(actuator, DelayedPdActuatorCfg):
            checks.whole(actuator.min_delay, f"{at}.min_delay")
            checks.whole(
                actuator.max_delay, f"{at}.max_delay", at_least=actuator.min_delay, at_most=_MAX_DELAY
            )
        for joint in names:
            if joint in models:
                other = next(k for k, a in cfg.actuators.items() if a is models[joint])
                raise ValueError(
                    f"{at}.joint_names: joint {joint!r} is driven by actuator {other!r} already."
                )
            models[joint] = actuator
            explicit = actuator.explicit
            drives[joint] = JointDriveDesc(
                driven=not explicit,
                stiffness=0.0 if explicit else values["stiffness"].get(joint, 0.0),
                damping=0.0 if explicit else values["damping"].get(joint, 0.0),
                effort_limit=values["effort_limit"].get(joint),
                armature=values["armature"].get(joint),
                friction=values["friction"].get(joint),
            )

    def numbers(field: str, default: tuple[float, ...]) -> tuple[float, ...]:
        text = body.get(field, "")
        where = f"{what}.spawn.path: {file!r}, {field} of body {body.get('name', '')!r},"
        try:
            return checks.vector([float(v) for v in text.split()], len(default), where) if text else default
        except ValueError:
            raise ValueError(f"{where} is {text!r}; it must be {len(default)} numbers.") from None

    w, *xyz = numbers("quat", (1.0, 0.0, 0.0, 0.0))
    pos, quat = root_pose(cfg, what, numbers("pos", (0.0, 0.0, 0.0)), (*xyz, w))  # type: ignore[arg-type]
    desc = ArticulationDesc(
        path=path,
        mjcf=file,
        pos=pos,
        quat=quat,
        fixed_base=cfg.fixed_base,
        self_collisions=cfg.self_collisions,
        joint_pos=_by_expression(cfg.init_joint_pos, joints, f"{what}.init_joint_pos"),
        drives=drives,
        friction=cfg.friction,
    )
    return desc, models


class ArticulationData(AssetData):
    """State of a robot with J joints, in the robot file's order; see :class:`AssetData`."""

    def __init__(
        self,
        engine: Engine,
        path: str,
        sync: Callable[[], None],
        default_root: torch.Tensor,
        cfg: ArticulationCfg,
        name: str,
    ):
        super().__init__(engine, path, sync, default_root)
        s = self._state
        E, J, dev = engine.num_envs, len(s.joint_names), engine.device

        def buffer() -> Array:
            return Array.wrap(torch.zeros(E, J, device=dev))

        #: (E, J) joint positions [rad or m], velocities, and accelerations (change of velocity over
        #: the last physics step divided by dt).
        self.joint_pos = Array.wrap(s.joint_pos)
        self.joint_vel = Array.wrap(s.joint_vel)
        self.joint_acc = Array.wrap(s.joint_acc)
        #: (E, J) commands, as set last.
        self.joint_pos_target, self.joint_vel_target, self.joint_effort_target = buffer(), buffer(), buffer()
        #: (E, J) effort that the PD law asks for, and after the effort limit [N·m or N], at the start
        #: of the last physics step.
        self.computed_torque, self.applied_torque = buffer(), buffer()
        self.default_joint_pos = Array.wrap(s.default_joint_pos.repeat(E, 1))
        self._check_limits(cfg, name)
        vel = _by_expression(cfg.init_joint_vel, s.joint_names, f"scene.{name}.init_joint_vel")
        self.default_joint_vel = buffer()
        for j, joint in enumerate(s.joint_names):
            self.default_joint_vel.torch[:, j] = vel.get(joint, 0.0)
        #: (E, J, 2) limits [rad or m], and the same shrunk by the soft limit factor.
        self.joint_pos_limits = Array.wrap(s.joint_pos_limits.repeat(E, 1, 1))
        middle = s.joint_pos_limits.mean(-1, keepdim=True)
        half = 0.5 * (s.joint_pos_limits[:, 1:] - s.joint_pos_limits[:, :1]) * cfg.soft_joint_pos_limit_factor
        self.soft_joint_pos_limits = Array.wrap(torch.cat((middle - half, middle + half), -1).repeat(E, 1, 1))
        self.joint_vel_limits = Array.wrap(s.velocity_limits.repeat(E, 1))
        self.joint_effort_limits = Array.wrap(s.effort_limits.repeat(E, 1))
        #: (E, J) gains of the PD law [N·m/rad, N·m·s/rad].
        self.joint_stiffness = Array.wrap(s.stiffness.clone())
        self.joint_damping = Array.wrap(s.damping.clone())

    def _check_limits(self, cfg: ArticulationCfg, name: str) -> None:
        what, s = f"scene.{name}.init_joint_pos", self._state
        limits = s.joint_pos_limits.cpu().numpy()
        for joint, value in _by_expression(cfg.init_joint_pos, s.joint_names, what).items():
            low, high = limits[s.joint_names.index(joint)]
            if not low - 1e-4 <= value <= high + 1e-4:
                raise ValueError(
                    f"{what} puts joint {joint!r} at {value:g}, outside its limits {low:g} … {high:g}."
                )


class Articulation(Asset):
    """A robot. Commands are held until changed; every write takes a mask of environments."""

    cfg: ArticulationCfg
    data: ArticulationData

    def __init__(
        self,
        name: str,
        cfg: ArticulationCfg,
        engine: Engine,
        path: str,
        sync: Callable[[], None],
        default_root: torch.Tensor,
        models: dict[str, PdActuatorCfg],
    ):
        super().__init__(name, cfg, engine, path)
        self.data = ArticulationData(engine, path, sync, default_root, cfg, name)
        names, J, E, dev = self.joint_names, self.num_joints, self.num_envs, self.device
        d = self.data
        explicit = torch.zeros(J, dtype=torch.int32, device=dev)
        limits = self._state.effort_limits.clone()
        low = torch.zeros(J, dtype=torch.int32, device=dev)
        high = torch.zeros(J, dtype=torch.int32, device=dev)
        for j, joint in enumerate(names):
            model = models.get(joint)
            if model is None:
                continue
            covered, at = [n for n in names if models.get(n) is model], f"scene.{name}.actuators"
            limit = _per_joint(model, "velocity_limit", covered, at).get(joint)
            if limit is not None:
                d.joint_vel_limits.torch[:, j] = limit
            if model.explicit:
                explicit[j] = 1
                d.joint_stiffness.torch[:, j] = _per_joint(model, "stiffness", covered, at).get(joint, 0.0)
                d.joint_damping.torch[:, j] = _per_joint(model, "damping", covered, at).get(joint, 0.0)
            if isinstance(model, DelayedPdActuatorCfg):
                low[j], high[j] = model.min_delay, model.max_delay
        self._explicit = explicit.bool()
        self._any_explicit = bool(self._explicit.any())
        self._all_explicit = bool(self._explicit.all())
        #: (E, J) gains as configured.
        d.default_joint_stiffness = Array.wrap(d.joint_stiffness.torch.clone())  # type: ignore[attr-defined]
        d.default_joint_damping = Array.wrap(d.joint_damping.torch.clone())  # type: ignore[attr-defined]
        self._delay_low, self._delay_span = low, high - low + 1
        self._delayed = bool((high > 0).any())
        slots = int(high.max()) + 1 if J and self._delayed else 1
        self._delay = low.repeat(E, 1)
        self._ring = torch.zeros((slots, E, J, 3) if slots > 1 else (1, 1, 1, 1), device=dev)
        self._age = torch.zeros(E, J, dtype=torch.int32, device=dev)
        s = self._state
        arrays = [
            wp.from_torch(t)
            for t in (
                d.joint_pos_target.torch,
                d.joint_vel_target.torch,
                d.joint_effort_target.torch,
                s.joint_pos,
                s.joint_vel,
                d.joint_stiffness.torch,
                d.joint_damping.torch,
                limits,
                explicit,
                self._delay,
                self._ring,
                self._age,
            )
        ]
        self._actuate_args = [*arrays[:9], int(engine.limits_sum_of_efforts), *arrays[9:]]
        self._actuate_out = [
            wp.from_torch(t)
            for t in (
                s.joint_pos_target,
                s.joint_vel_target,
                s.joint_effort,
                d.computed_torque.torch,
                d.applied_torque.torch,
            )
        ]
        self._wp_device = self._actuate_args[0].device
        commands = (d.joint_pos_target, d.joint_vel_target, d.joint_effort_target)
        efforts = (d.computed_torque, d.applied_torque)
        #: What a reset clears, after the default positions that the first of them gets.
        self._cleared = [t.torch for t in (d.default_joint_pos, *commands, *efforts)] + [self._age]

    @property
    def joint_names(self) -> list[str]:
        """Names of the J joints, in the robot file's order."""
        return self._state.joint_names

    @property
    def num_joints(self) -> int:
        """J."""
        return len(self._state.joint_names)

    def find_joints(
        self, keys: str | Sequence[str], preserve_order: bool = False
    ) -> tuple[list[int], list[str]]:
        """Indices and names of the joints that full-match ``keys``.

        Raises:
            ValueError: A key matches nothing.
        """
        return find_names(keys, self.joint_names, preserve_order, f"joint of {self.name!r}")

    def _set(
        self,
        target: Array,
        value: torch.Tensor,
        joint_ids: JointIds,
        env_mask: torch.Tensor | None,
        what: str,
    ) -> None:
        buffer = target.torch
        ids, count = self._ids(joint_ids, self.num_joints, f"{what}: joint_ids")
        value = self._rows(value, count, what)
        mask = self._mask(env_mask, what)
        if mask is not None:
            value = torch.where(mask.unsqueeze(-1), value, buffer[:, ids])
        buffer[:, ids] = value

    def set_joint_position_target(
        self, target: torch.Tensor, joint_ids: JointIds = None, env_mask: torch.Tensor | None = None
    ) -> None:
        """Set position commands, (E, n) [rad or m], for ``joint_ids`` (None: all)."""
        self._set(self.data.joint_pos_target, target, joint_ids, env_mask, "set_joint_position_target")

    def set_joint_velocity_target(
        self, target: torch.Tensor, joint_ids: JointIds = None, env_mask: torch.Tensor | None = None
    ) -> None:
        """Set velocity commands, (E, n) [rad/s or m/s]."""
        self._set(self.data.joint_vel_target, target, joint_ids, env_mask, "set_joint_velocity_target")

    def set_joint_effort_target(
        self, target: torch.Tensor, joint_ids: JointIds = None, env_mask: torch.Tensor | None = None
    ) -> None:
        """Set efforts added to the PD law, (E, n) [N·m or N]."""
        self._set(self.data.joint_effort_target, target, joint_ids, env_mask, "set_joint_effort_target")

    def write_joint_state(
        self,
        pos: torch.Tensor,
        vel: torch.Tensor,
        env_mask: torch.Tensor | None = None,
        joint_ids: JointIds = None,
    ) -> None:
        """Set joint positions and velocities, (E, n) each, of ``joint_ids`` (None: all)."""
        what = "write_joint_state"
        ids, count = self._ids(joint_ids, self.num_joints, f"{what}: joint_ids")
        pos, vel = self._rows(pos, count, f"{what}: pos"), self._rows(vel, count, f"{what}: vel")
        if joint_ids is not None and joint_ids != slice(None):
            full_pos, full_vel = self._state.joint_pos.clone(), self._state.joint_vel.clone()
            full_pos[:, ids] = pos
            full_vel[:, ids] = vel
            pos, vel = full_pos, full_vel
        self._engine.write_joint_state(self.path, pos, vel, self._mask(env_mask, what))

    def write_joint_gains(
        self,
        stiffness: torch.Tensor | None,
        damping: torch.Tensor | None,
        env_mask: torch.Tensor | None = None,
        joint_ids: JointIds = None,
    ) -> None:
        """Set gains of the PD law, (E, n) each; None leaves one as it is."""
        d, s = self.data, self._state
        for gains, given, name in (
            (d.joint_stiffness, stiffness, "stiffness"),
            (d.joint_damping, damping, "damping"),
        ):
            if given is not None:
                what = f"write_joint_gains: {name}"
                given = self._rows(
                    given, self._ids(joint_ids, self.num_joints, f"{what}: joint_ids")[1], what
                )
                self._look(given, self._mask(env_mask, what), what, at_least=0.0)
                self._set(gains, given, joint_ids, env_mask, what)
        if self._all_explicit:
            return
        # Explicit joints keep zero gains in the engine.
        s.stiffness.copy_(d.joint_stiffness.torch.masked_fill(self._explicit, 0.0))
        s.damping.copy_(d.joint_damping.torch.masked_fill(self._explicit, 0.0))
        self._engine.notify_gains(self.path)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Default root and joint state, default commands, fresh delays, for the chosen environments."""
        self._mask(env_mask, "reset")
        super().reset(env_mask)
        d = self.data
        self.write_joint_state(d.default_joint_pos, d.default_joint_vel, env_mask)
        if self.num_joints:
            mask = self._all if env_mask is None else env_mask
            launch(self._engine, asset_kernels.clear_commands, self.num_envs, [mask, *self._cleared])
        if self._delayed:
            draw = torch.rand(self.num_envs, 1, device=self.device) * self._delay_span
            fresh = self._delay_low + draw.int().clamp_(max=2**30)
            if env_mask is None:
                self._delay.copy_(fresh)
            else:
                self._delay.copy_(torch.where(env_mask.unsqueeze(-1), fresh, self._delay))

    def launch_before_step(self) -> None:
        if self.num_joints:
            wp.launch(
                asset_kernels.actuate,
                dim=(self.num_envs, self.num_joints),
                inputs=self._actuate_args,
                outputs=self._actuate_out,
                device=self._wp_device,
            )
