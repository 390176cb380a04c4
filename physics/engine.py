# SPDX-License-Identifier: Apache-2.0
"""The narrow interface between physics engines and everything above them.

An engine owns the state of ``num_envs`` isolated environments and contributes numbers only:
poses, velocities, contact forces, joint wrenches. Names, history, timers, reset rules and
errors live above, once, for every engine.

All tensors are float32 on :attr:`Engine.device`, first dimension E = ``num_envs``; world frame,
SI units, quaternions (x, y, z, w). Velocities are (linear, angular), the linear part being that
of the body frame's ORIGIN. Masks are bool tensors (E,); None stands for all environments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from .description import SceneDesc, VisualShape
from .physics_cfg import PhysicsCfg

#: One touching contact of a body in the last step. Times in s, world frame, m, N·s. ``time`` is the end of that
#: step since the engine started. ``normal`` points from body 1 to body 0, ``impulse`` is the normal impulse on body 0.
RAW_CONTACT = np.dtype(
    [
        ("time", "f8"),
        ("dt", "f8"),
        ("body0", "U256"),
        ("body1", "U256"),
        ("position", "f8", (3,)),
        ("normal", "f8", (3,)),
        ("impulse", "f8", (3,)),
    ]
)


@dataclass(frozen=True)
class Capabilities:
    """What an engine can report."""

    contact_points: bool = False
    pose_tracking: bool = False
    shape_contacts: bool = False
    raw_contacts: bool = False
    joint_wrench: bool = True
    captured: bool = False


@dataclass(frozen=True)
class ContactQuery:
    """What one contact sensor asks for.

    Attributes:
        bodies: canonical paths of the sensing bodies (S), or of single shapes, ``<body path>/<shape name>``.
        filters: one tuple of partner paths per column (F); a partner is a canonical body path or
            an absolute static path, or a single shape of either. Matches of one column are summed.
        points: contact points per column are wanted.
        origin, radius: with a radius above 0 only contacts closer than it [m] to ``origin``, a point in the
            sensing body's frame, are counted.
    """

    bodies: tuple[str, ...]
    filters: tuple[tuple[str, ...], ...] = ()
    points: bool = False
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = 0.0


@dataclass
class ContactReader:
    """Contact forces ON the sensing bodies of one query [N], refreshed by every step.

    Attributes:
        normal, friction: (E, S, 3), every contact of the scene.
        normal_matrix, friction_matrix: (E, S, F, 3), or None without filters.
        points: (E, S, F, 4) sum of the positions [m] of the points that carry force, and their number; None
            unless asked for.
    """

    query: ContactQuery
    normal: torch.Tensor
    friction: torch.Tensor
    normal_matrix: torch.Tensor | None = None
    friction_matrix: torch.Tensor | None = None
    points: torch.Tensor | None = None


@dataclass
class JointWrenchReader:
    """Incoming joint wrenches of one articulation, refreshed by every step.

    What the parent-side joint applies to the child body, in the child-side joint frame, torque
    about the child-side joint anchor.

    Attributes:
        body_names: names of the reported bodies (the engine's coverage and order).
        force, torque: (E, B, 3) in N and N·m.
        joint_frame: (B, 7) pose of the child-side joint frame in the child body's frame.
        quat: (E, B, 4) orientation of that frame in the world, for which the wrench holds.
    """

    body_names: list[str]
    force: torch.Tensor
    torque: torch.Tensor
    joint_frame: torch.Tensor
    quat: torch.Tensor


@dataclass
class TreeState:
    """State, commands and properties of one articulation, or of one free body (no joints).

    The engine keeps every tensor current; those under "commands" are written from above, in
    place, and read by the next step. Joint order is the robot file's.

    Attributes:
        path: canonical path of the articulation or body.
        body_names, joint_names: B and J names.
        body_slice: columns of :attr:`Engine.body_pose` that are this tree's bodies; the first is the root.
        fixed_base: the root cannot move.
        joint_pos, joint_vel, joint_acc: (E, J) rad, rad/s, rad/s² (m for slides); the acceleration
            is the change of velocity over the last step divided by dt.
        joint_pos_target, joint_vel_target: (E, J) commands to the engine's own drives.
        joint_effort: (E, J) command added to the drives [N·m, N].
        external_force, external_torque: (E, B, 3) commands, world frame, force applied at the
            centre of mass; held until changed.
        stiffness, damping: (E, J) drive gains; call :meth:`Engine.notify_gains` after editing.
        body_mass: (E, B); set with :meth:`Engine.write_body_mass`.
        body_friction: (E, B) sliding friction of each body's shapes; :meth:`Engine.write_friction`.
        joint_pos_limits: (J, 2). effort_limits, velocity_limits: (J,).
        default_joint_pos: (J,) from the file and the description.
        body_com: (B, 3) centre of mass in the body frame.
    """

    path: str
    body_names: list[str]
    joint_names: list[str]
    body_slice: slice
    fixed_base: bool
    joint_pos: torch.Tensor
    joint_vel: torch.Tensor
    joint_acc: torch.Tensor
    joint_pos_target: torch.Tensor
    joint_vel_target: torch.Tensor
    joint_effort: torch.Tensor
    external_force: torch.Tensor
    external_torque: torch.Tensor
    stiffness: torch.Tensor
    damping: torch.Tensor
    body_mass: torch.Tensor
    body_friction: torch.Tensor
    joint_pos_limits: torch.Tensor
    effort_limits: torch.Tensor
    velocity_limits: torch.Tensor
    default_joint_pos: torch.Tensor
    body_com: torch.Tensor


class Engine(ABC):
    """One simulation of a :class:`SceneDesc`."""

    name: str
    capabilities: Capabilities
    #: Effort limits hold for the sum of the engine's drive and ``joint_effort``, not for the drive alone.
    limits_sum_of_efforts = False

    def __init__(self, cfg: PhysicsCfg, desc: SceneDesc, device: str):
        self.cfg = cfg
        self.desc = desc
        self.device = torch.device(device)
        self.num_envs = desc.num_envs
        self.dt = float(cfg.dt)
        #: Canonical paths of all bodies of one environment (NB): ``Robot/base``, ``Object`` …
        self.body_paths: list[str] = []
        #: The same bodies by their place in the robot's tree: ``Robot/base/LF_HIP/LF_THIGH`` …
        self.body_tree_paths: list[str] = []
        #: Paths of all shapes of one environment, ``<body path>/<shape name>``, and of the static world. Shapes
        #: without a name are numbered in the order of the file.
        self.shape_paths: list[str] = []
        self.static_shape_paths: list[str] = []
        #: By path of the articulation or rigid body.
        self.trees: dict[str, TreeState] = {}
        #: (E, NB, 7) and (E, NB, 6); current after :meth:`step` and :meth:`update_kinematics`.
        self.body_pose: torch.Tensor
        self.body_vel: torch.Tensor
        #: Whether input is looked at on the host, which costs next to nothing on the CPU and would stall CUDA.
        self.looks = self.device.type == "cpu"
        #: States were written since the last step: call :meth:`update_kinematics` before reading poses.
        self.stale = False
        #: (1,) int32, physics steps taken so far.
        self.step_count: torch.Tensor

    # ---- building ----
    @abstractmethod
    def add_contact_reader(self, query: ContactQuery) -> ContactReader:
        """Register a contact query; before :meth:`start`."""

    @abstractmethod
    def add_joint_wrench_reader(self, path: str) -> JointWrenchReader:
        """Register the joint wrenches of one articulation; before :meth:`start`."""

    def raw_contacts(self, path: str, env: int) -> np.ndarray:
        """The touching contacts of one body in the last step, read to the host.

        Args:
            path: canonical body path.
            env: number of the environment.

        Returns:
            Structured array of :data:`RAW_CONTACT`, this body as ``body0``.
        """
        raise NotImplementedError(f"The {self.name!r} engine does not report raw contacts.")

    def describe(self) -> str:
        """One line on the engine and the settings that it chose."""
        return self.name

    @abstractmethod
    def start(self) -> None:
        """Finish the build: everything allocated, kernels loaded, all states at their defaults."""

    @abstractmethod
    def visual_shapes(self) -> list[VisualShape]:
        """Shapes of one environment and of the static world, for drawing."""

    def close(self) -> None:
        """Free the engine. Safe to call twice."""

    # ---- stepping ----
    @abstractmethod
    def step(self) -> None:
        """One physics step of ``dt``, then all readers. No host synchronisation."""

    def launch_step(self) -> None:
        """The work of :meth:`step`, for functions given to :meth:`compile`."""
        self.step()

    def mark_stepped(self) -> None:
        """To be called after a compiled function that contains :meth:`launch_step`."""
        self.stale = False

    def compile(self, function: Callable[[], None]) -> Callable[[], None]:
        """Return ``function``, which launches only engine and Warp work on fixed buffers, in its
        fastest replayable form. It runs ``function`` a few times; reset the state afterwards."""
        return function

    @abstractmethod
    def update_kinematics(self) -> None:
        """Make :attr:`body_pose` and :attr:`body_vel` agree with states written since the last step."""

    def stream(self) -> AbstractContextManager[None]:
        """Launch Warp work inside this, so that it and torch's work see one order."""
        return nullcontext()

    def join_capture(self) -> AbstractContextManager[None]:
        """Inside this, while torch captures its current stream, the engine's work becomes part of that graph.

        Only for engines whose ``capabilities.captured`` is True.
        """
        raise NotImplementedError(f"The {self.name!r} engine cannot be captured.")

    # ---- masked writes ----
    @abstractmethod
    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Clear what the solver remembers (warm starts, applied forces); states stay as they are."""

    @abstractmethod
    def write_root_pose(self, path: str, pose: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """(E, 7) pose of the root body's frame."""

    @abstractmethod
    def write_root_velocity(self, path: str, vel: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """(E, 6) velocity of the root body's origin, for the root pose as it is now."""

    @abstractmethod
    def write_joint_state(
        self, path: str, pos: torch.Tensor, vel: torch.Tensor, env_mask: torch.Tensor | None = None
    ) -> None:
        """(E, J) each, all joints."""

    @abstractmethod
    def notify_gains(self, path: str) -> None:
        """Take the edited ``stiffness`` and ``damping``."""

    @abstractmethod
    def write_body_mass(self, path: str, mass: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """(E, B) masses [kg]; inertia tensors scale along."""

    @abstractmethod
    def write_friction(self, path: str, friction: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """(E, B) sliding friction of all shapes of each body."""

    # ---- saving ----
    def solver_memory(self) -> dict[str, torch.Tensor]:
        """What the solver carries from step to step besides the states (warm starts), by name: live tensors.

        Whoever saves a simulation to continue it exactly saves these too.
        """
        return {}

    # ---- health ----
    def overflowed(self) -> bool:
        """Whether a capacity was exceeded, where the host can see it at no cost (the CPU)."""
        return False

    def overflow(self) -> str | None:
        """Read (host) whether a capacity was exceeded since the last call; a message, or None."""
        return None
