# SPDX-License-Identifier: Apache-2.0
"""Numbers that are not finite: found, named, and remembered on the device until somebody asks."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from forcelab.physics.launch import launch

from . import health_kernels

STATE_FIELDS = ("root_pose_w", "root_vel_w", "joint_pos", "joint_vel")


class NonFiniteError(ValueError):
    """State, action, reward or observation of an environment is NaN or infinite."""


def _envs(mask: torch.Tensor) -> str:
    ids = mask.nonzero().flatten().tolist()
    shown = ", ".join(map(str, ids[:8])) + (", …" if len(ids) > 8 else "")
    return f"environment{'s' if len(ids) > 1 else ''} {shown}"


def _finite(tensor: torch.Tensor) -> bool:
    """Quick host check; an overflowing sum of finite numbers gives a false alarm, which is looked into."""
    return math.isfinite(tensor.sum().item())


class Health:
    """Checks of one environment.

    Args:
        env: The environment.
        policy: ``"raise"``, ``"reset"`` or ``"flag"``.
        at_once: Look at the numbers on the host in every step; otherwise only on :meth:`report`.
    """

    def __init__(self, env: Any, policy: str, at_once: bool):
        self.env, self.policy, self.at_once = env, policy, at_once
        count, device = env.num_envs, env.device

        def flags(n: int) -> torch.Tensor:
            return torch.zeros(n, dtype=torch.bool, device=device)

        self.num_resets = torch.zeros((), device=device)
        self.pending = flags(count)
        self._assets = {**env.scene.articulations, **env.scene.rigid_objects}
        self._bodies = (env.scene.engine.body_pose, env.scene.engine.body_vel)
        self._none = flags(0)
        self._bad = flags(4 * count).view(4, count)
        self._action = flags(count)
        self._action_columns = flags(env.action_manager.total_action_dim)
        self._state = flags(count)
        self._reward = flags(count)
        self._reward_terms = flags(len(env.reward_manager.active_terms))
        self._obs = flags(count)
        self._obs_columns: dict[str, torch.Tensor] = {}
        for name, concatenated in env.observation_manager.group_obs_concatenate.items():
            shape = env.observation_manager.group_obs_dim[name]
            terms = env.observation_manager.active_terms[name]
            self._obs_columns[name] = flags(
                shape[env.observation_manager.group_dim(name) - 1] if concatenated else len(terms)
            )

    # -- checks within the step

    def _mark(
        self,
        values: torch.Tensor,
        rows: torch.Tensor,
        columns: torch.Tensor | None = None,
        bad: torch.Tensor | None = None,
    ) -> None:
        """Note rows and columns of ``values`` (E, n) that are not finite, and in ``bad`` (E,) the rows of now."""
        if values.numel() == 0:
            if bad is not None:
                bad.zero_()
            return
        none, engine = self._none, self.env.scene.engine
        arguments = [values, rows, none if columns is None else columns, none if bad is None else bad]
        launch(engine, health_kernels.mark_not_finite, values.shape[0], arguments)

    def check_action(self, action: torch.Tensor) -> None:
        """Action (E, A). Raises at once, or remembers, whatever the policy."""
        if self.at_once:
            if not _finite(action):
                bad = ~torch.isfinite(action)
                if bool(bad.any()):
                    self._raise_action(bad.any(dim=1), bad.any(dim=0))
            return
        self._mark(action, self._action, self._action_columns)

    def _raise_action(self, envs: torch.Tensor, columns: torch.Tensor) -> None:
        names = []
        for column in columns.nonzero().flatten().tolist():
            name, inside = self.env.action_manager.term_of_column(column)
            names.append(f"actions.{name}[{inside}]")
        raise NonFiniteError(f"The action is not finite in {_envs(envs)}: {', '.join(names)}.")

    def check_state(self) -> torch.Tensor | None:
        """Environments (E,) whose bodies have lost their pose or velocity; None when there are none for sure."""
        if not self.at_once:
            for values, bad in zip(self._bodies, self._bad, strict=False):
                self._mark(values.flatten(1), self._state, None, bad)
            return torch.logical_or(self._bad[0], self._bad[1], out=self._bad[2])
        if all(_finite(t) for t in self._bodies):
            return None
        bad = ~torch.isfinite(self._bodies[0]).flatten(1).all(dim=1)
        bad |= ~torch.isfinite(self._bodies[1]).flatten(1).all(dim=1)
        if not bool(bad.any()):
            return None
        if self.policy == "raise":
            raise NonFiniteError(self._describe_state(bad))
        self._state.logical_or_(bad)
        return bad

    def _describe_state(self, bad: torch.Tensor) -> str:
        parts = []
        for name, asset in self._assets.items():
            for field in STATE_FIELDS:
                value = getattr(asset.data, field, None)
                if isinstance(value, torch.Tensor) and not bool(torch.isfinite(value).all()):
                    parts.append(f"scene[{name!r}].data.{field}")
        text = f"The state is not finite in {_envs(bad)}: {', '.join(parts) or 'body poses'}."
        terms = self._terms_hit()
        if terms:
            text += f" Terms that show it: {', '.join(terms)}."
        return text + " A smaller physics.dt, softer gains or nan_policy='reset' may help."

    def _terms_hit(self) -> list[str]:
        """Reward and observation terms whose functions return something not finite now."""
        hit = []
        env = self.env
        groups = [
            ("rewards", env.reward_manager._terms.values()),
            *(
                (f"observations.{n}", [p.term for p in g.terms.values()])
                for n, g in env.observation_manager._groups.items()
            ),
        ]
        for section, terms in groups:
            for term in terms:
                if term.instance is None and not bool(torch.isfinite(term.func(env, **term.params)).all()):
                    hit.append(f"{section}.{term.name}")
        return hit

    def check_reward(self, total: torch.Tensor, values: torch.Tensor) -> torch.Tensor | None:
        """``total`` (E,) and ``values`` (T, E); returns like :meth:`check_state`."""
        if not self.at_once:
            self._mark(values.T, self._reward, self._reward_terms, self._bad[3])
            return self._bad[3]
        if _finite(total):
            return None
        terms = ~torch.isfinite(values)
        bad = terms.any(dim=0)
        if not bool(bad.any()):
            return None
        if self.policy == "raise":
            raise NonFiniteError(self._describe_reward(bad, terms.any(dim=1)))
        self._reward.logical_or_(bad)
        self._reward_terms.logical_or_(terms.any(dim=1))
        return bad

    def _describe_reward(self, envs: torch.Tensor, terms: torch.Tensor) -> str:
        names = [
            n for n, hit in zip(self.env.reward_manager.active_terms, terms.tolist(), strict=True) if hit
        ]
        return f"The reward is not finite in {_envs(envs)}: {', '.join(f'rewards.{n}' for n in names)}."

    def check_observations(self) -> bool:
        """Look at the present observations.

        With policy "reset" those that are not finite become 0 and the environment is reset in the next step.
        Returns whether the present observations may have been changed.
        """
        manager = self.env.observation_manager
        values = manager.values()
        if self.at_once:
            flat = [v for x in values.values() for v in (x.values() if isinstance(x, dict) else (x,))]
            if all(_finite(v) for v in flat):
                return False
            found = manager.non_finite_terms()
            if not found:
                return False
            bad = torch.stack(list(found.values())).any(dim=0)
            if self.policy == "raise":
                raise NonFiniteError(self._describe_obs(bad, list(found)))
        elif self.policy != "reset" and all(
            isinstance(v, torch.Tensor) and v.dim() == 2 for v in values.values()
        ):
            for name, value in values.items():
                self._mark(value, self._obs, self._obs_columns[name])  # type: ignore[arg-type]
            return False
        bad = torch.zeros_like(self._obs)
        for name, value in values.items():
            if isinstance(value, dict):
                rows = [~torch.isfinite(v).flatten(1).all(dim=1) for v in value.values()]
                hit = torch.stack(rows)
                bad |= hit.any(dim=0)
                self._obs_columns[name].logical_or_(hit.any(dim=1))
            else:
                hit = ~torch.isfinite(value)
                bad |= hit.flatten(1).any(dim=1)
                hit = hit.movedim(manager.group_dim(name), -1)
                self._obs_columns[name].logical_or_(hit.reshape(-1, hit.shape[-1]).any(dim=0))
        self._obs.logical_or_(bad)
        if self.policy == "reset":
            manager.replace_values(bad, 0.0)
            self.pending.logical_or_(bad)
            return True
        return False

    def _describe_obs(self, envs: torch.Tensor, terms: list[str]) -> str:
        names = ", ".join(f"observations.{t}" for t in terms)
        return f"Observations are not finite in {_envs(envs)}: {names}."

    def _obs_terms(self) -> list[str]:
        manager = self.env.observation_manager
        names: dict[str, None] = {}
        for group, columns in self._obs_columns.items():
            for i in columns.nonzero().flatten().tolist():
                if manager.group_obs_concatenate[group]:
                    names[f"{group}.{manager.term_of_index(group, i)}"] = None
                else:
                    names[f"{group}.{manager.active_terms[group][i]}"] = None
        return list(names)

    # -- asked by the host

    def flags(self) -> torch.Tensor:
        """(4,) float: whether actions, state, rewards, observations were not finite since :meth:`clear`."""
        return torch.stack([x.any() for x in (self._action, self._state, self._reward, self._obs)]).float()

    def report(self, flags: list[float]) -> None:
        """Raise or warn about what happened since the last report, then forget it."""
        if not any(flags):
            return
        messages = []
        if flags[1]:
            messages.append(f"The state was not finite in {_envs(self._state)}.")
        if flags[2]:
            messages.append(self._describe_reward(self._reward, self._reward_terms))
        if flags[3]:
            messages.append(self._describe_obs(self._obs, self._obs_terms()))
        action = (self._action.clone(), self._action_columns.clone()) if flags[0] else None
        for tensor in (
            self._action,
            self._action_columns,
            self._state,
            self._reward,
            self._reward_terms,
            self._obs,
            *self._obs_columns.values(),
        ):
            tensor.zero_()
        if action is not None:
            self._raise_action(*action)
        text = " ".join(messages) + " (since the last pop_logs())"
        if self.policy == "raise":
            raise NonFiniteError(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)
