# SPDX-License-Identifier: Apache-2.0
"""Adapter from :class:`forcelab.envs.ManagerBasedRlEnv` to the vectorised environment that rsl_rl expects."""

from __future__ import annotations

import os
from typing import Any

# rsl_rl imports GitPython, which raises on machines without a git binary unless it is told to be quiet.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict


class RslRlVecEnv(VecEnv):
    """A forcelab environment as rsl_rl's ``VecEnv``.

    Nothing in :meth:`step` waits for the device: ``extras["time_outs"]`` is the truncation mask, and the
    logs, which the environment accumulates on the device, are read (``env.pop_logs()``) only on the last step
    of each rollout and handed over as ``extras["log"]``.

    Args:
        env: The environment, or a Gymnasium wrapper around it.
        rollout_length: Environment steps per training iteration. None: the logs are never read by ``step``;
            call ``env.pop_logs()`` yourself.
        clip_actions: Actions are clamped to ±this value before they reach the environment. None: not clamped.
    """

    def __init__(
        self, env: Any, rollout_length: int | None = None, clip_actions: float | None = None
    ) -> None:
        self.env = env.unwrapped
        self.rollout_length = rollout_length
        self.clip_actions = clip_actions
        self.num_envs: int = int(self.env.num_envs)
        self.num_actions: int = int(self.env.action_manager.total_action_dim)
        self.device = torch.device(self.env.device)
        self.max_episode_length = int(self.env.max_episode_length)
        self._step_in_rollout = 0
        obs, _ = self.env.reset()
        self._obs = self._as_tensordict(obs)

    @property
    def cfg(self) -> Any:  # type: ignore[override]
        """The environment's configuration."""
        return self.env.cfg

    @property
    def unwrapped(self) -> Any:
        """The forcelab environment."""
        return self.env

    @property
    def episode_length_buf(self) -> torch.Tensor:  # type: ignore[override]
        """Steps since the last reset of each environment, (E,) int64. Assignment copies in place."""
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self.env.episode_length_buf = value

    def get_observations(self) -> TensorDict:
        """Observations returned by the last step or reset; nothing is computed anew."""
        return self._obs

    def set_observations(self, obs: dict[str, torch.Tensor]) -> None:
        """Replace the observations that :meth:`get_observations` returns (after a state was restored)."""
        self._obs = self._as_tensordict({name: value.to(self.device) for name, value in obs.items()})
        self._step_in_rollout = 0

    def reset(self) -> tuple[TensorDict, dict]:
        """Reset every environment."""
        obs, info = self.env.reset()
        self._obs = self._as_tensordict(obs)
        self._step_in_rollout = 0
        return self._obs, info

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Apply ``actions`` (E, A); returns observations by group, reward (E,), dones (E,) bool, extras."""
        if self.clip_actions is not None:
            actions = actions.clamp(-self.clip_actions, self.clip_actions)
        obs, reward, terminated, truncated, _ = self.env.step(actions)
        self._obs = self._as_tensordict(obs)
        extras: dict[str, Any] = {"time_outs": truncated}
        if self.rollout_length is not None:
            self._step_in_rollout += 1
            if self._step_in_rollout >= self.rollout_length:
                self._step_in_rollout = 0
                extras["log"] = self.env.pop_logs()
        return self._obs, reward, terminated | truncated, extras

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _as_tensordict(self, obs: dict[str, Any]) -> TensorDict:
        return TensorDict(dict(obs), batch_size=[self.num_envs])
