# SPDX-License-Identifier: Apache-2.0
"""Action terms: they turn the policy's numbers into joint targets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from forcelab.managers import ActionTerm
from forcelab.managers.scene_entity_cfg import match_names
from forcelab.physics import checks

from ._util import Env, where_env
from .actions_cfg import (
    IncrementalJointPositionActionCfg,
    JointActionCfg,
    JointEffortActionCfg,
    JointPositionActionCfg,
    JointVelocityActionCfg,
    RelativeJointPositionActionCfg,
)


def _by_joint(values: Mapping[str, Any], joint_names: Sequence[str], what: str) -> dict[int, Any]:
    """Column → value of {regex: value}. ValueError: a key matches no joint, or a joint two keys."""
    found: dict[int, Any] = {}
    ids, _ = match_names(list(values), joint_names, True, what, "joint of the action")
    for i in ids:
        found[i] = next(
            v for k, v in values.items() if k == joint_names[i] or re.fullmatch(k, joint_names[i])
        )
    return found


class JointAction(ActionTerm):
    """Base of the joint actions: processed = clip(scale · raw + offset), (E, n) for n joints.

    ``scale`` and ``offset`` are device tensors, 0-dim or (n,), that may be edited in place.
    """

    cfg: JointActionCfg

    def __init__(self, cfg: JointActionCfg, env: Env) -> None:
        super().__init__(cfg, env)
        ids, self.joint_names = self._asset.find_joints(cfg.joint_names, preserve_order=cfg.preserve_order)
        everything = ids == list(range(self._asset.num_joints))
        self.joint_ids: slice | torch.Tensor = (
            slice(None) if everything else torch.tensor(ids, dtype=torch.long, device=env.device)
        )
        shape = (env.num_envs, len(ids))
        self._raw_actions = torch.zeros(shape, device=env.device)
        self._processed_actions = torch.zeros(shape, device=env.device)
        self.scale = self._parameter(cfg.scale, 1.0, "scale")
        self.offset = self._parameter(cfg.offset, 0.0, "offset")
        self._lower, self._upper = self._clip_bounds(cfg.clip)

    def _parameter(self, value: float | Mapping[str, float], default: float, what: str) -> torch.Tensor:
        device, what = self._raw_actions.device, f"{type(self.cfg).__name__}.{what}"
        if isinstance(value, Mapping):
            row = [default] * len(self.joint_names)
            for i, x in _by_joint(value, self.joint_names, what).items():
                row[i] = checks.number(x, f"{what} of {self.joint_names[i]!r}")
            return torch.tensor(row, device=device)
        return torch.tensor(checks.number(value, what), device=device)

    def _clip_bounds(
        self, clip: Mapping[str, Sequence[float]] | None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        if clip is None:
            return None, None
        low, high = [-torch.inf] * len(self.joint_names), [torch.inf] * len(self.joint_names)
        for i, pair in _by_joint(clip, self.joint_names, f"{type(self.cfg).__name__}.clip").items():
            if len(pair) != 2 or not all(checks.is_number(x) for x in pair) or not pair[0] <= pair[1]:
                raise ValueError(
                    f"{type(self.cfg).__name__}.clip of {self.joint_names[i]!r} is {pair!r}; it must be (lower, upper)."
                )
            low[i], high[i] = (float(x) for x in pair)
        device = self._raw_actions.device
        return torch.tensor(low, device=device), torch.tensor(high, device=device)

    @property
    def action_dim(self) -> int:
        """Number of joints n."""
        return len(self.joint_names)

    @property
    def raw_actions(self) -> torch.Tensor:
        """The policy's numbers of the last step, (E, n)."""
        return self._raw_actions

    @property
    def processed_actions(self) -> torch.Tensor:
        """What is applied, (E, n)."""
        return self._processed_actions

    def _current_offset(self) -> torch.Tensor:
        return self.offset

    def process_actions(self, actions: torch.Tensor) -> None:
        """Take the policy's numbers (E, n), once per environment step."""
        self._raw_actions.copy_(actions)
        torch.addcmul(self._current_offset(), self._raw_actions, self.scale, out=self._processed_actions)
        if self._lower is not None:
            torch.clamp(self._processed_actions, self._lower, self._upper, out=self._processed_actions)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Zero the remembered raw actions of the chosen environments."""
        if env_mask is None:
            self._raw_actions.zero_()
        else:
            self._raw_actions.masked_fill_(env_mask[:, None], 0.0)


class JointPositionAction(JointAction):
    """Joint position targets, rad or m.

    With ``use_default_offset`` an action of 0 is the default pose. The default positions are read at every
    step, so :class:`forcelab.mdp.randomize_joint_default_pos` reaches the action as well.
    """

    cfg: JointPositionActionCfg

    def _current_offset(self) -> torch.Tensor:
        if self.cfg.use_default_offset:
            return self._asset.data.default_joint_pos[:, self.joint_ids]
        return self.offset

    def apply_actions(self) -> None:
        """Set the targets, at every physics step."""
        self._asset.set_joint_position_target(self._processed_actions, joint_ids=self.joint_ids)


class RelativeJointPositionAction(JointAction):
    """Joint position targets relative to the present positions: target = position + processed, rad or m.

    The position is read at every physics step, so the target moves along within one environment step.
    """

    cfg: RelativeJointPositionActionCfg

    def __init__(self, cfg: RelativeJointPositionActionCfg, env: Env) -> None:
        super().__init__(cfg, env)
        if cfg.use_zero_offset:
            self.offset.zero_()

    def apply_actions(self) -> None:
        """Set the targets, at every physics step."""
        target = self._asset.data.joint_pos[:, self.joint_ids] + self._processed_actions
        self._asset.set_joint_position_target(target, joint_ids=self.joint_ids)


class IncrementalJointPositionAction(JointAction):
    """Joint position targets that move: target += clip(scale · raw + offset) once per environment step, rad or m.

    With a soft drive the lead of the target over the joint is a torque, so the policy moves forces as it moves
    positions, and holds both with an action of 0. The lead is at most ``max_lead``, and targets stay within the
    soft position limits. A reset puts the targets where the joints are.
    """

    cfg: IncrementalJointPositionActionCfg

    def __init__(self, cfg: IncrementalJointPositionActionCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self.max_lead = self._parameter(cfg.max_lead, torch.inf, "max_lead")
        if bool((self.max_lead <= 0.0).any()):
            raise ValueError(f"{type(cfg).__name__}.max_lead is {cfg.max_lead!r}; it must be above 0.")
        self._processed_actions.copy_(self._asset.data.default_joint_pos[:, self.joint_ids])

    def process_actions(self, actions: torch.Tensor) -> None:
        """Take the policy's numbers (E, n) and move the targets, once per environment step."""
        held = self._processed_actions.clone()
        super().process_actions(actions)
        data = self._asset.data
        position, limits = data.joint_pos[:, self.joint_ids], data.soft_joint_pos_limits[:, self.joint_ids]
        target = torch.clamp(
            held + self._processed_actions, position - self.max_lead, position + self.max_lead
        )
        torch.clamp(target, limits[..., 0], limits[..., 1], out=self._processed_actions)

    def apply_actions(self) -> None:
        """Set the targets, at every physics step."""
        self._asset.set_joint_position_target(self._processed_actions, joint_ids=self.joint_ids)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Put the targets of the chosen environments where the joints are, and forget the raw actions."""
        super().reset(env_mask)
        position = self._asset.data.joint_pos[:, self.joint_ids]
        self._processed_actions.copy_(where_env(env_mask, position, self._processed_actions))
        self.apply_actions()  # so that observations of the targets are right before the first step


class JointVelocityAction(JointAction):
    """Joint velocity targets, rad/s or m/s."""

    cfg: JointVelocityActionCfg

    def _current_offset(self) -> torch.Tensor:
        if self.cfg.use_default_offset:
            return self._asset.data.default_joint_vel[:, self.joint_ids]
        return self.offset

    def apply_actions(self) -> None:
        """Set the targets, at every physics step."""
        self._asset.set_joint_velocity_target(self._processed_actions, joint_ids=self.joint_ids)


class JointEffortAction(JointAction):
    """Joint efforts, N·m or N."""

    cfg: JointEffortActionCfg

    def apply_actions(self) -> None:
        """Set the efforts, at every physics step."""
        self._asset.set_joint_effort_target(self._processed_actions, joint_ids=self.joint_ids)
