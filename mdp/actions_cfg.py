# SPDX-License-Identifier: Apache-2.0
"""Configurations of the action terms. Importable without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from forcelab.managers import ActionTermCfg


@dataclass
class JointActionCfg(ActionTermCfg):
    """What all joint actions share: processed = clip(scale · raw + offset).

    Attributes:
        joint_names: Names or full-match regular expressions of the joints that the term drives.
        scale: One number for all joints, or {regex: number}; joints that no key matches have 1.
        offset: One number for all joints, or {regex: number}; joints that no key matches have 0.
        clip: (from the base) {regex: (lower, upper)} for the processed action; None does not clip.
        preserve_order: Keep the order of ``joint_names`` instead of the robot's joint order.
    """

    joint_names: Sequence[str] = field(default_factory=lambda: [".*"])
    scale: float | dict[str, float] = 1.0
    offset: float | dict[str, float] = 0.0
    preserve_order: bool = False


@dataclass
class JointPositionActionCfg(JointActionCfg):
    """Position targets, rad or m. See :class:`forcelab.mdp.JointPositionAction`.

    Attributes:
        use_default_offset: The offset is the joints' default positions, as they are at each step;
            ``offset`` is then ignored.
    """

    class_type: Any = "forcelab.mdp.actions.JointPositionAction"
    use_default_offset: bool = True


@dataclass
class RelativeJointPositionActionCfg(JointActionCfg):
    """Relative position targets, rad or m. See :class:`forcelab.mdp.RelativeJointPositionAction`.

    Attributes:
        use_zero_offset: The offset is 0; ``offset`` is then ignored.
    """

    class_type: Any = "forcelab.mdp.actions.RelativeJointPositionAction"
    use_zero_offset: bool = True


@dataclass
class IncrementalJointPositionActionCfg(JointActionCfg):
    """Position targets that move by increments, rad or m. See
    :class:`forcelab.mdp.IncrementalJointPositionAction`.

    Attributes:
        max_lead: The target stays within this distance of the joint's position, rad or m: one number for all
            joints, or {regex: number}; joints that no key matches have no bound.
    """

    class_type: Any = "forcelab.mdp.actions.IncrementalJointPositionAction"
    max_lead: float | dict[str, float] = 0.2


@dataclass
class JointVelocityActionCfg(JointActionCfg):
    """Velocity targets, rad/s or m/s. See :class:`forcelab.mdp.JointVelocityAction`.

    Attributes:
        use_default_offset: The offset is the joints' default velocities; ``offset`` is then ignored.
    """

    class_type: Any = "forcelab.mdp.actions.JointVelocityAction"
    use_default_offset: bool = True


@dataclass
class JointEffortActionCfg(JointActionCfg):
    """Efforts, N·m or N. See :class:`forcelab.mdp.JointEffortAction`."""

    class_type: Any = "forcelab.mdp.actions.JointEffortAction"
