# SPDX-License-Identifier: Apache-2.0
"""Metrics: numbers that are logged and influence nothing."""

from __future__ import annotations

import torch

from .manager_base import ManagerBase
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
        self._rows = list(self._values.unbind(0))
        self._sums = torch.zeros_like(self._values)
        self._steps = torch.zeros(self.num_envs, device=self.device)
        self._log = torch.zeros(count, device=self.device)
        self._keys = [f"Metrics/{name}" for name in self._terms]

    def compute(self) -> None:
        """Evaluate the terms, once per environment step."""
        if not self._terms:
            return
        shape = (self.num_envs,)
        for term, row in zip(self._terms.values(), self._rows, strict=True):
            value = term.call(self._env)
            if type(value) is not torch.Tensor or value.shape != shape:
                self._check_rows(term, value)
            row.copy_(value)
        self._sums.add_(self._values)
        self._steps.add_(1.0)

    @property
    def values(self) -> dict[str, torch.Tensor]:
        """Values of the last step by term, (E,) each; those of an episode's last step are from before its reset."""
        return dict(zip(self._terms, self._rows, strict=True))

    def _averages(self) -> torch.Tensor:
        return self._sums / self._steps.clamp(min=1.0)

    def accumulate(self, env_mask: torch.Tensor) -> None:
        """Add the episode averages of the chosen environments to the log."""
        if self._terms:
            self._log.add_(torch.where(env_mask, self._averages(), 0.0).sum(dim=1))

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
