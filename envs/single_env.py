# SPDX-License-Identifier: Apache-2.0
"""One environment with the plain Gymnasium interface, in NumPy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from forcelab.physics.errors import near

from .manager_based_rl_env import ManagerBasedRlEnv


def to_numpy(value: Any, row: int | None = None) -> Any:
    """Tensors (or dicts of them) as new NumPy arrays; with ``row`` only that environment's."""
    if isinstance(value, dict):
        return {name: to_numpy(v, row) for name, v in value.items()}
    return (value if row is None else value[row]).detach().cpu().numpy().copy()


def check_group(env: ManagerBasedRlEnv, group: str | None) -> None:
    """Raise ValueError unless ``group`` is None or a group of observations."""
    known = list(env.observation_manager.active_terms)
    if group is not None and group not in known:
        raise ValueError(f"The environment has no observation group {group!r}.{near(group, known)}")


class SingleEnv(gymnasium.Env[Any, np.ndarray]):
    """A :class:`ManagerBasedRlEnv` of one environment, without the batch dimension.

    Observations are NumPy arrays in a dict of groups (or those of one group), rewards floats, terminated
    and truncated bools. At the end of an episode the observation is the episode's last one, and
    :meth:`reset` begins the next episode.

    Args:
        env: An environment with ``num_envs=1`` and ``final_obs=True``.
        group: Return this group alone, so that the observation space is its Box.
    """

    def __init__(self, env: ManagerBasedRlEnv, group: str | None = None):
        if env.num_envs != 1:
            raise ValueError(f"SingleEnv needs num_envs=1, got {env.num_envs}.")
        if not env.cfg.final_obs:
            raise ValueError("SingleEnv needs final_obs=True in the environment's configuration.")
        check_group(env, group)
        self.env = env
        self.group = group
        self.render_mode = env.render_mode
        self.metadata = {k: v for k, v in env.metadata.items() if k != "autoreset_mode"}
        space = env.single_observation_space
        self.observation_space = space if group is None else space[group]
        self.action_space = env.single_action_space

    def set_max_episode_steps(self, steps: int) -> None:
        """See :meth:`ManagerBasedRlEnv.set_max_episode_steps`."""
        self.env.set_max_episode_steps(steps)

    def _pick(self, obs: Any) -> Any:
        return to_numpy(obs if self.group is None else obs[self.group], 0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        obs, _ = self.env.reset(seed=seed, options=options)
        return self._pick(obs), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply ``action`` (A,) for one environment step."""
        array = np.asarray(action, dtype=np.float32)
        if array.shape != self.action_space.shape:
            raise ValueError(f"The action has shape {array.shape}; it must be {self.action_space.shape}.")
        obs, reward, terminated, truncated, info = self.env.step(self.env.action_manager.check(array[None]))
        ended, cut = bool(terminated[0]), bool(truncated[0])
        return self._pick(info["final_obs"] if ended or cut else obs), float(reward[0]), ended, cut, {}

    def render(self) -> Any:
        """See :meth:`ManagerBasedRlEnv.render`."""
        return self.env.render()

    def close(self) -> None:
        """Free the engine."""
        self.env.close()
