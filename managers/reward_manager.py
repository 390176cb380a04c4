# SPDX-License-Identifier: Apache-2.0
"""Rewards: a weighted sum of terms."""

from __future__ import annotations

import math
from typing import Any

import torch

from .manager_base import ManagerBase, Term
from .manager_term_cfg import RewardTermCfg


class RewardManager(ManagerBase):
    """Sum over the terms of value · weight · step time, per environment.

    Log keys ``Episode_Reward/<term>``: the term's sum over an episode divided by the time limit of an
    episode in s, as a mean over episodes.
    """

    section = "rewards"
    term_type = RewardTermCfg

    def _prepare(self) -> None:
        super()._prepare()
        count = len(self._terms)
        #: (T,) device tensor; each term's ``cfg.weight`` is a 0-dim view of it.
        self.weights = torch.zeros(count, device=self.device)
        for i, term in enumerate(self._terms.values()):
            self._adopt_weight(i, term.cfg)
        self._values = torch.zeros((count, self.num_envs), device=self.device)
        self._weighted = torch.zeros_like(self._values)
        #: (T, E) sums over the running episodes.
        self.episode_sums_buf = torch.zeros_like(self._values)
        self._total = torch.zeros(self.num_envs, device=self.device)
        self._log = torch.zeros(count, device=self.device)
        self._keys = [f"Episode_Reward/{name}" for name in self._terms]

    def _adopt_weight(self, index: int, cfg: RewardTermCfg) -> None:
        view, what = self.weights[index], f"{self.section}.{list(self._terms)[index]}.weight"
        if cfg.weight is None:
            raise ValueError(f"{what} is missing; give a number (0 keeps the term without effect).")
        weight: float | None
        try:
            weight = float(cfg.weight)
        except (TypeError, ValueError):
            weight = None
        if weight is None or isinstance(cfg.weight, bool):
            raise TypeError(f"{what} is {cfg.weight!r}; it must be a number.")
        if not math.isfinite(weight):
            raise ValueError(f"{what} is {weight}; it must be finite.")
        view.fill_(weight)
        object.__setattr__(cfg, "weight", view)

    @property
    def episode_sums(self) -> dict[str, torch.Tensor]:
        """Sum of each term over the running episodes, (E,) by name (views)."""
        return dict(zip(self._terms, self.episode_sums_buf.unbind(0), strict=True))

    @property
    def step_values(self) -> torch.Tensor:
        """(T, E): value · weight · step time of the last step, in the order of :attr:`active_terms`."""
        return self._weighted

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        if cfg is self._lookup(name).cfg:
            return
        super().set_term_cfg(name, cfg)
        self._adopt_weight(list(self._terms).index(name), cfg)

    def compute(self, dt: float) -> torch.Tensor:
        """Evaluate the terms; return the reward (E,) of a step of ``dt`` s, which the next call overwrites."""
        if not self._terms:
            return self._total
        call, value_of = self._call, self._value
        values = [call(term.path, term.func, value_of, term) for term in self._terms.values()]
        self._join()
        torch.stack(values, out=self._values)
        torch.mul(self._values, (self.weights * dt).unsqueeze(1), out=self._weighted)
        self.episode_sums_buf.add_(self._weighted)
        return torch.sum(self._weighted, dim=0, out=self._total)

    def _value(self, term: Term) -> torch.Tensor:
        value = term.call(self._env)
        if type(value) is not torch.Tensor or value.shape != self._total.shape:
            self._check_rows(term, value)
        return value if value.dtype is torch.float32 else value.float()

    def move(self, total: torch.Tensor) -> None:
        """Keep the reward (E,) in ``total``."""
        total.copy_(self._total)
        self._total = total

    def discard(self, env_mask: torch.Tensor) -> None:
        """Take the last step's values of the chosen environments out of the sums and set them to 0."""
        self.episode_sums_buf.sub_(torch.where(env_mask, self._weighted, 0.0)).nan_to_num_(0.0, 0.0, 0.0)
        self._weighted.masked_fill_(env_mask, 0.0)
        self._total.masked_fill_(env_mask, 0.0)

    def episode_values(self) -> torch.Tensor:
        """(T, E) what is logged of episodes that end: sums over the episode."""
        return self.episode_sums_buf

    @property
    def log_scale(self) -> float:
        return 1.0 / self._env.max_episode_length_s

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        means = self._episode_means(env_mask)
        self.clear(env_mask)
        return means

    def _episode_means(self, env_mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
        mask = self._env.all_envs if env_mask is None else env_mask
        sums = torch.where(mask, self.episode_sums_buf, 0.0).sum(dim=1)
        means = sums / (mask.sum().clamp(min=1) * self._env.max_episode_length_s)
        return dict(zip(self._keys, means.unbind(0), strict=True))

    def clear(self, env_mask: torch.Tensor | None) -> None:
        """Begin the next episode of the chosen environments."""
        if env_mask is None:
            self.episode_sums_buf.zero_()
        else:
            self.episode_sums_buf.masked_fill_(env_mask, 0.0)
        self._reset_terms(env_mask)

    def log_parts(self) -> list[tuple[list[str], torch.Tensor, bool]]:
        return [(self._keys, self._log, True)]

    def get_active_iterable_terms(self, env_idx: int) -> list[tuple[str, list[float]]]:
        """(name, [value · weight]) of the last step in one environment. Reads from the device."""
        values = (self._values[:, env_idx] * self.weights).tolist()
        return [(name, [value]) for name, value in zip(self._terms, values, strict=True)]
