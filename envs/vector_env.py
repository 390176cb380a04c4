# SPDX-License-Identifier: Apache-2.0
"""The environment as a ``gymnasium.vector.VectorEnv``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from forcelab.physics.errors import near

from .manager_based_rl_env import ManagerBasedRlEnv
from .single_env import check_group, to_numpy

_KINDS = ("numpy", "torch")


class VectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A :class:`ManagerBasedRlEnv` for Gymnasium's vector wrappers.

    With ``to="numpy"`` everything is NumPy, and ``info`` follows Gymnasium: when episodes end in a step,
    ``final_obs`` is an object array with the last observation of each of them, and ``_final_obs`` says
    where. With ``to="torch"`` tensors pass through as the environment returns them.

    Args:
        env: The environment.
        to: ``"numpy"`` or ``"torch"``.
        group: Return this observation group alone, so that the observation space is its Box.
    """

    def __init__(self, env: ManagerBasedRlEnv, to: str = "numpy", group: str | None = None):
        if to not in _KINDS:
            raise ValueError(f"to is {to!r}.{near(str(to), _KINDS)}")
        check_group(env, group)
        self.env = env
        self.to = to
        self.group = group
        self.num_envs = env.num_envs
        self.metadata = dict(env.metadata)
        self.render_mode = env.render_mode
        single: Any = env.single_observation_space
        every: Any = env.observation_space
        self.single_observation_space = single if group is None else single[group]
        self.observation_space = every if group is None else every[group]
        self.single_action_space = env.single_action_space
        self.action_space = env.action_space

    def _pick(self, obs: Any) -> Any:
        obs = obs if self.group is None else obs[self.group]
        return to_numpy(obs) if self.to == "numpy" else obs

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those of ``options["reset_mask"]``."""
        super().reset(seed=seed)
        obs, info = self.env.reset(seed=seed, options=options)
        return self._pick(obs), dict(info)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments with ``actions`` (E, A)."""
        obs, reward, terminated, truncated, info = self.env.step(self.env.action_manager.check(actions))
        if self.to == "torch":
            if self.group is not None and "final_obs" in info:
                info = {**info, "final_obs": info["final_obs"][self.group]}
            return self._pick(obs), reward, terminated, truncated, info
        out: dict[str, Any] = {}
        if "final_obs" in info:
            where = to_numpy(info["_final_obs"])
            if where.any():
                final = self._pick(info["final_obs"])
                rows = np.full(self.num_envs, None, dtype=object)
                for i in np.flatnonzero(where).tolist():
                    rows[i] = _row(final, i)
                out = {"final_obs": rows, "_final_obs": where}
        return self._pick(obs), to_numpy(reward), to_numpy(terminated), to_numpy(truncated), out

    def render(self) -> Any:
        """Pictures, one in a tuple (environment 0); None without a render mode."""
        picture = self.env.render()
        return None if picture is None else (picture,)

    def close_extras(self, **kwargs: Any) -> None:
        """Free the engine."""
        self.env.close()

    def pop_logs(self) -> dict[str, float]:
        """See :meth:`ManagerBasedRlEnv.pop_logs`."""
        return self.env.pop_logs()

    @property
    def device(self) -> torch.device:
        """Device of the simulation."""
        return self.env.device


def _row(value: Any, index: int) -> Any:
    if isinstance(value, dict):
        return {name: _row(v, index) for name, v in value.items()}
    return value[index].copy()
