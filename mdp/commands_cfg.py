# SPDX-License-Identifier: Apache-2.0
"""Configurations of the command terms. Importable without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from forcelab.managers.manager_term_cfg import CommandTermCfg, LiveCfg
from forcelab.physics.errors import near


@dataclass
class _RangesCommandCfg(CommandTermCfg):
    """Base of commands with ``ranges``: a mapping is accepted, and a running environment takes over new bounds."""

    Ranges: ClassVar[Any]

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "ranges":
            super().__setattr__(name, value)
            return
        known = [f.name for f in fields(self.Ranges)]
        if isinstance(value, Mapping):
            for key in value:
                if key not in known:
                    raise TypeError(f"{type(self).__name__}.ranges: no field {key!r}.{near(key, known)}")
            value = self.Ranges(**value)
        old = self.__dict__.get("ranges")
        if any(hasattr(getattr(old, key, None), "copy_") for key in known):
            # In a running environment the old object's fields are the device tensors that the term reads.
            for key in known:
                if getattr(value, key) is not None:
                    setattr(old, key, getattr(value, key))
        else:
            super().__setattr__("ranges", value)


@dataclass
class NullCommandCfg(CommandTermCfg):
    """A command that is never given. See :class:`forcelab.mdp.NullCommand`."""

    class_type: Any = "forcelab.mdp.commands.NullCommand"
    resampling_time_range: tuple[float, float] = (math.inf, math.inf)


@dataclass
class UniformVelocityRangesCfg(LiveCfg):
    """Bounds (lower, upper) of a velocity command.

    Attributes:
        lin_vel_x, lin_vel_y: Velocity along the root's x and y axes, m/s.
        ang_vel_z: Yaw rate, rad/s; also bounds what the heading control asks for.
        heading: Heading in the world frame, rad; needed with ``heading_command``.
    """

    _live: ClassVar[frozenset[str]] = frozenset({"lin_vel_x", "lin_vel_y", "ang_vel_z", "heading"})
    _ranges = _live

    lin_vel_x: tuple[float, float] = (-1.0, 1.0)
    lin_vel_y: tuple[float, float] = (-1.0, 1.0)
    ang_vel_z: tuple[float, float] = (-1.0, 1.0)
    heading: tuple[float, float] | None = None


@dataclass
class UniformVelocityCommandCfg(_RangesCommandCfg):
    """Planar velocity commands drawn uniformly. See :class:`forcelab.mdp.UniformVelocityCommand`.

    Attributes:
        resampling_time_range: (from the base) seconds between two draws, drawn uniformly as well.
        asset_name: The robot in the scene.
        heading_command: Let the environments chosen by ``rel_heading_envs`` steer towards a heading: their
            yaw rate is ``heading_control_stiffness`` · (heading error), cut to ``ranges.ang_vel_z``.
        heading_control_stiffness: 1/s.
        rel_standing_envs: Probability that a draw tells the robot to stand (command 0).
        rel_heading_envs: Probability that a draw uses the heading; without ``heading_command`` it has no
            effect.
        ranges: Bounds of the draws; a mapping is accepted.
    """

    _live: ClassVar[frozenset[str]] = CommandTermCfg._live | {
        "heading_control_stiffness",
        "rel_standing_envs",
        "rel_heading_envs",
    }
    Ranges: ClassVar[Any] = UniformVelocityRangesCfg

    class_type: Any = "forcelab.mdp.commands.UniformVelocityCommand"
    resampling_time_range: tuple[float, float] = (10.0, 10.0)
    asset_name: str = "robot"
    heading_command: bool = False
    heading_control_stiffness: float = 1.0
    rel_standing_envs: float = 0.0
    rel_heading_envs: float = 1.0
    ranges: UniformVelocityRangesCfg = field(default_factory=UniformVelocityRangesCfg)


@dataclass
class SlidingPressRangesCfg(LiveCfg):
    """Bounds (lower, upper) of a :class:`SlidingPressCommandCfg`'s draws.

    Attributes:
        force: Normal force, N.
        speed: Speed of the target point, m/s.
    """

    _live: ClassVar[frozenset[str]] = frozenset({"force", "speed"})
    _ranges = _live

    force: tuple[float, float] = (5.0, 30.0)
    speed: tuple[float, float] = (0.05, 0.2)


@dataclass
class SlidingPressCommandCfg(_RangesCommandCfg):
    """Press on a surface while following a moving point. See :class:`forcelab.mdp.SlidingPressCommand`.

    Attributes:
        resampling_time_range: (from the base) seconds between two draws of force, speed and direction.
        asset_name, body_name: The robot and the body that presses.
        point: The point of that body that follows, in its frame, m.
        sensor_name: Contact sensor of that body, filtered on what it presses against, with a history over one
            environment step.
        patch: (x lower, x upper, y lower, y upper) of the area in which the target point moves, m, relative to
            the environment's origin.
        ranges: Bounds of the draws; a mapping is accepted.
        force_rate: The commanded force moves to a newly drawn one at this rate, N/s.
        max_acceleration: The target point turns and changes its speed at this rate, along x and y each, m/s².
        settle_time: Metrics count from this age of an episode on, s: the tool starts above the surface.
    """

    _live: ClassVar[frozenset[str]] = CommandTermCfg._live | {"force_rate", "max_acceleration", "settle_time"}
    Ranges: ClassVar[Any] = SlidingPressRangesCfg

    class_type: Any = "forcelab.mdp.commands.SlidingPressCommand"
    resampling_time_range: tuple[float, float] = (2.0, 4.0)
    asset_name: str = "robot"
    body_name: str = "tool"
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    sensor_name: str = "tool_contact"
    patch: tuple[float, float, float, float] = (0.4, 0.6, -0.1, 0.1)
    ranges: SlidingPressRangesCfg = field(default_factory=SlidingPressRangesCfg)
    force_rate: float = 25.0
    max_acceleration: float = 1.0
    settle_time: float = 2.0
