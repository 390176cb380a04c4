# SPDX-License-Identifier: Apache-2.0
"""Configuration of rigid objects, articulations and their actuators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from forcelab.physics import checks

from .spawn_cfg import MjcfCfg, Quat, Vec3


@dataclass
class PdActuatorCfg:
    """A PD drive by the engine's own (implicit, stable) gains.

    Attributes:
        joint_names: expressions that full-match joint names.
        stiffness: N·m/rad (N/m for slides); a number, or a dictionary by joint expression.
        damping: N·m·s/rad (N·s/m); likewise.
        effort_limit: largest effort [N·m or N]; None: the robot file's.
        velocity_limit: [rad/s or m/s], for terms that ask for it; None: the robot file's.
        armature: reflected rotor inertia [kg·m² or kg]; None: the robot file's.
        friction: dry friction of the joint [N·m or N]; None: the robot file's.
    """

    joint_names: Sequence[str] = (".*",)
    stiffness: float | dict[str, float] = 0.0
    damping: float | dict[str, float] = 0.0
    effort_limit: float | dict[str, float] | None = None
    velocity_limit: float | dict[str, float] | None = None
    armature: float | dict[str, float] | None = None
    friction: float | dict[str, float] | None = None

    explicit = False


@dataclass
class IdealPdActuatorCfg(PdActuatorCfg):
    """A PD law computed every physics step, its effort clipped to ``effort_limit``."""

    explicit = True


@dataclass
class DelayedPdActuatorCfg(IdealPdActuatorCfg):
    """An explicit PD law whose commands arrive late.

    Attributes:
        min_delay, max_delay: bounds of the delay in physics steps, drawn per environment at reset.
    """

    min_delay: int = 0
    max_delay: int = 0


@dataclass
class AssetCfg:
    """What rigid objects and articulations share.

    Attributes:
        prim_path: ``{ENV_REGEX_NS}/<name>``.
        init_pos, init_rot: root pose in the environment's frame [m], (x, y, z, w). None: the robot
            file's.
        init_lin_vel, init_ang_vel: root velocity [m/s], [rad/s], world frame.
    """

    prim_path: str = ""
    spawn: Any = None
    init_pos: Vec3 | None = None
    init_rot: Quat | None = None
    init_lin_vel: Vec3 = (0.0, 0.0, 0.0)
    init_ang_vel: Vec3 = (0.0, 0.0, 0.0)


def root_pose(cfg: AssetCfg, what: str, pos: Vec3, rot: Quat) -> tuple[Vec3, Quat]:
    """The configured root pose, with ``pos`` and ``rot`` where None; the quaternion has length 1.

    Raises:
        ValueError: One of them is no position or quaternion.
    """
    given = checks.vector(pos if cfg.init_pos is None else cfg.init_pos, 3, f"{what}.init_pos")
    turned = checks.quaternion(rot if cfg.init_rot is None else cfg.init_rot, f"{what}.init_rot")
    return given, turned  # type: ignore[return-value]


@dataclass
class RigidObjectCfg(AssetCfg):
    """One body of one shape, or of several given as a list (``fixed`` if any part is)."""


@dataclass
class ArticulationCfg(AssetCfg):
    """A robot.

    Attributes:
        spawn: an :class:`MjcfCfg`.
        init_joint_pos, init_joint_vel: default joint state by joint expression [rad], [rad/s]; positions
            within the joints' limits.
        actuators: actuator models by name; joints that none covers are passive.
        fixed_base: weld the root to the world (True) or free it (False); None: as in the file, the only
            choice for a root that hangs on a hinge or slide. Its root pose is that at joint position zero.
        self_collisions: bodies of the robot collide with each other.
        friction: sliding friction of all its shapes; None: the file's.
        soft_joint_pos_limit_factor: the soft limits are the limits shrunk by this about their middle.
    """

    spawn: MjcfCfg | None = None
    init_joint_pos: dict[str, float] = field(default_factory=dict)
    init_joint_vel: dict[str, float] = field(default_factory=dict)
    actuators: dict[str, PdActuatorCfg] = field(default_factory=dict)
    fixed_base: bool | None = None
    self_collisions: bool = False
    friction: float | None = None
    soft_joint_pos_limit_factor: float = 1.0
