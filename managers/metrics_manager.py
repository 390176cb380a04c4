# SPDX-License-Identifier: Apache-2.0
"""Metrics: numbers that are logged and influence nothing."""

from __future__ import annotations

import torch

from .manager_base import ManagerBase, Term
from .manager_term_cfg import MetricsTermCfg


class MetricsManager(ManagerBase):
    """Averages each metric over the steps of an episode.

    Log keys ``Metrics/<term>``: the episode averages, as a mean over episodes.
    """

    section = "metrics"
    term_type = MetricsTermCfg

    def _prepare(self) -> None:
        super()._prepare()
        count = len(self._terms)
        self._values = torch.zeros((count, self.num_envs), device=self.device)
        self._sums = torch.zeros_like(self._values)
        self._steps = torch.zeros(self.num_envs, device=self.device)
        self._log = torch.zeros(count, device=self.device)
        self._keys = [f"Metrics/{name}" for name in self._terms]

    def compute(self) -> None:
        """Evaluate the terms, once per environment step."""
        if not self._terms:
            return
        call, value_of = self._call, self._value
        values = [call(t.path, t.func, value_of, t) for t in self._terms.values()]
        self._join()
        torch.stack(values, out=self._values)
        self._sums.add_(self._values)
        self._steps.add_(1.0)

    def _value(self, term: Term) -> torch.Tensor:
        value = term.call(self._env)
        if type(value) is not torch.Tensor or value.shape != self._steps.shape:
            self._check_rows(term, value)
        return value if value.dtype is torch.float32 else value.float()

    @property
    def values(self) -> dict[str, torch.Tensor]:
        """Values of the last step by term, (E,) each; those of an episode's last step are from before its reset."""
        return dict(zip(self._terms, self._values.unbind(0), strict=True))

    def _averages(self) -> torch.Tensor:
        return self._sums / self._steps.clamp(min=1.0)

    def episode_values(self) -> torch.Tensor:
        """(T, E) what is logged of episodes that end: averages over the episode."""
        return self._averages()

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        mask = self._env.all_envs if env_mask is None else env_mask
        means = torch.where(mask, self._averages(), 0.0).sum(dim=1) / mask.sum().clamp(min=1)
        self.clear(env_mask)
        return dict(zip(self._keys, means.unbind(0), strict=True))

    def clear(self, env_mask: torch.Tensor | None) -> None:
        """Begin the next episode of the chosen environments."""
        if not self._terms:
            return
        if env_mask is None:
            self._sums.zero_()
            self._steps.zero_()
        else:
            self._sums.masked_fill_(env_mask, 0.0)
            self._steps.masked_fill_(env_mask, 0.0)
        self._reset_terms(env_mask)

    def log_parts(self) -> list[tuple[list[str], torch.Tensor, bool]]:
        return [(self._keys, self._log, True)]
