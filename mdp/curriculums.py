# SPDX-License-Identifier: Apache-2.0
"""Curriculum terms: ``f(env, env_mask, **params)``; they change the task while it is learnt.

They run for the environments of a reset, before anything else is reset, and return what is logged. Everything
they decide and change is a device tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from forcelab.managers import CurriculumTermCfg, ManagerTermBase
from forcelab.physics.errors import near

from ._util import Env


def modify_reward_weight(
    env: Env, env_mask: torch.Tensor | None, term_name: str, weight: float, num_steps: int
) -> torch.Tensor:
    """Set a reward term's weight to ``weight`` once the environment has made more than ``num_steps`` steps.

    Returns:
        The weight in use, 0-dim.
    """
    current = env.reward_manager.get_term_cfg(term_name).weight
    current.copy_(torch.where(env.common_step_counter > num_steps, weight, current))
    return current


class command_velocity_ranges(ManagerTermBase):
    """Widen a :class:`forcelab.mdp.UniformVelocityCommand` from its configured ranges to ``limits``.

    A level between 0 (as configured) and 1 (``limits``) says how far; bounds that ``limits`` does not name
    stay. The level follows either the steps made (``num_steps``) or the tracking reward (``reward_term``):
    whenever as many episodes have ended as there are environments, it rises by ``increment`` if their mean
    return of that term was more than ``threshold`` of the most that an exp-kernel term can give (weight ·
    episode length).

    The term owns the ranges: it writes them on every call.
    """

    def __init__(self, cfg: CurriculumTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        params = cfg.params
        if (params.get("num_steps") is None) == (params.get("reward_term") is None):
            raise ValueError(
                "command_velocity_ranges needs exactly one of num_steps (level by steps) and reward_term "
                f"(level by tracking performance); got num_steps={params.get('num_steps')!r}, "
                f"reward_term={params.get('reward_term')!r}."
            )
        if params.get("reward_term") is not None:
            env.reward_manager.get_term_cfg(
                params["reward_term"]
            )  # a KeyError now rather than at the first reset
        self._command = env.command_manager.get_term(params["command_name"])
        self._start = self._command.bounds.clone()
        self._end = self._start.clone()
        for name, (low, high) in params["limits"].items():
            if name not in self._command.RANGES:
                raise ValueError(
                    f"command_velocity_ranges: unknown range {name!r}.{near(name, self._command.RANGES)}"
                )
            column = self._command.RANGES.index(name)
            self._end[0, column], self._end[1, column] = low, high
        self.level = torch.zeros((), device=env.device)
        # Mean tracking (0 to 1) summed over the episodes since the last decision, and their number.
        self._score = torch.zeros((), device=env.device)
        self._episodes = torch.zeros((), device=env.device)

    def __call__(
        self,
        env: Env,
        env_mask: torch.Tensor | None,
        command_name: str,
        limits: Mapping[str, Sequence[float]],
        num_steps: int | None = None,
        reward_term: str | None = None,
        threshold: float = 0.8,
        increment: float = 0.1,
    ) -> torch.Tensor:
        """Decide the level and write the ranges.

        Args:
            env: The environment.
            env_mask: Environments whose episode ends now.
            command_name: The command term.
            limits: {lin_vel_x, lin_vel_y, ang_vel_z, heading: (lower, upper)} at level 1; read at the build.
            num_steps: Environment steps until level 1.
            reward_term: The tracking reward term.
            threshold: Part of the greatest return that counts as good.
            increment: Rise of the level per decision.

        Returns:
            The level, 0-dim.
        """
        if reward_term is None:
            assert num_steps is not None
            self.level.copy_((env.common_step_counter / num_steps).clamp(max=1.0))
        else:
            self._judge(env, env_mask, reward_term, threshold, increment)
        torch.lerp(self._start, self._end, self.level, out=self._command.bounds)
        return self.level

    def _judge(
        self, env: Env, env_mask: torch.Tensor | None, reward_term: str, threshold: float, increment: float
    ) -> None:
        ended = env.episode_length_buf > 0
        if env_mask is not None:
            ended = ended & env_mask
        best = env.reward_manager.get_term_cfg(reward_term).weight * env.max_episode_length_s
        returns = env.reward_manager.episode_sums[reward_term] / best
        self._score += torch.where(ended, returns, 0.0).sum()
        self._episodes += ended.sum()
        decide = self._episodes >= env.num_envs
        rise = decide & (self._score > threshold * self._episodes)
        self.level.copy_((self.level + rise * increment).clamp(max=1.0))
        self._score.masked_fill_(decide, 0.0)
        self._episodes.masked_fill_(decide, 0.0)
