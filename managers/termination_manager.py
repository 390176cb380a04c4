# SPDX-License-Identifier: Apache-2.0
"""Terminations: why episodes end."""

from __future__ import annotations

from typing import Any

import torch

from .manager_base import ManagerBase, Term
from .manager_term_cfg import TerminationTermCfg


class TerminationManager(ManagerBase):
    """Evaluates the reasons to end an episode.

    Log keys ``Episode_Termination/<term>``: the fraction of ended episodes in which the term was true at
    the end.
    """

    section = "terminations"
    term_type = TerminationTermCfg

    def _prepare(self) -> None:
        super()._prepare()
        # Rows of the time-outs come first, so that each kind is one slice.
        ordered = sorted(self._terms.values(), key=lambda t: not t.cfg.time_out)
        self._row_of = {term.name: i for i, term in enumerate(ordered)}
        self._num_time_outs = sum(bool(t.cfg.time_out) for t in ordered)
        count = len(ordered)
        self._dones = torch.zeros((count, self.num_envs), dtype=torch.bool, device=self.device)
        self._ordered_terms = [t.name for t in ordered]
        self._last_episode = torch.zeros_like(self._dones)
        self._log = torch.zeros(count, device=self.device)
        self._keys = [f"Episode_Termination/{t.name}" for t in ordered]
        none = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self._terminated, self._time_outs, self._ended = none, none.clone(), none.clone()

    @property
    def terminated(self) -> torch.Tensor:
        """(E,) bool: ended by a term that is no time-out, in the last step."""
        return self._terminated

    @property
    def time_outs(self) -> torch.Tensor:
        """(E,) bool: cut by a time-out, in the last step."""
        return self._time_outs

    @property
    def dones(self) -> torch.Tensor:
        """(E,) bool: either of them."""
        return self._ended

    def compute(self) -> torch.Tensor:
        """Evaluate the terms; return :attr:`dones`, which the next call overwrites."""
        if not self._terms:
            return self._ended
        call, value_of, terms = self._call, self._value, self._terms
        values = [call(terms[n].path, terms[n].func, value_of, terms[n]) for n in self._ordered_terms]
        self._join()
        torch.stack(values, out=self._dones)
        k = self._num_time_outs
        torch.any(self._dones[:k], dim=0, out=self._time_outs)
        torch.any(self._dones[k:], dim=0, out=self._terminated)
        torch.logical_or(self._time_outs, self._terminated, out=self._ended)
        return self._ended

    def _value(self, term: Term) -> torch.Tensor:
        value = term.call(self._env)
        if type(value) is not torch.Tensor or value.shape != self._ended.shape:
            self._check_rows(term, value)
        if value.dtype is not torch.bool:
            raise TypeError(f"{term.path} returned {value.dtype}; a termination must return bool.")
        return value

    def move(self, terminated: torch.Tensor, time_outs: torch.Tensor) -> None:
        """Keep :attr:`terminated` and :attr:`time_outs` in these."""
        terminated.copy_(self._terminated)
        time_outs.copy_(self._time_outs)
        self._terminated, self._time_outs = terminated, time_outs

    def terminate(self, env_mask: torch.Tensor) -> None:
        """End the episodes of the chosen environments in this step, for a reason outside the terms."""
        self._terminated.logical_or_(env_mask)
        self._ended.logical_or_(env_mask)

    def get_term(self, name: str) -> torch.Tensor:
        """(E,) bool: the value of a term in the last step (a view)."""
        self._lookup(name)
        return self._dones[self._row_of[name]]

    def get_last_episode(self, name: str) -> torch.Tensor:
        """(E,) bool: whether a term was true when each environment's last episode ended (a view)."""
        self._lookup(name)
        return self._last_episode[self._row_of[name]]

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        if cfg is self._lookup(name).cfg:
            return
        if bool(cfg.time_out) != bool(self._lookup(name).cfg.time_out):
            raise ValueError(f"{self.section}.{name}.time_out cannot change while the environment runs.")
        super().set_term_cfg(name, cfg)

    def episode_values(self) -> torch.Tensor:
        """(T, E) what is logged of episodes that end: which terms are true."""
        return self._dones

    def remember(self, env_mask: torch.Tensor) -> None:
        """Keep the terms of the chosen environments, whose episodes end, for :meth:`get_last_episode`."""
        if self._terms:
            torch.where(env_mask, self._dones, self._last_episode, out=self._last_episode)

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        mask = self._env.all_envs if env_mask is None else env_mask
        fractions = (self._dones & mask).sum(dim=1) / mask.sum().clamp(min=1)
        self.clear(env_mask)
        return dict(zip(self._keys, fractions.unbind(0), strict=True))

    def clear(self, env_mask: torch.Tensor | None) -> None:
        """Begin the next episode of the chosen environments. The last step's values stay readable."""
        self._reset_terms(env_mask)

    def log_parts(self) -> list[tuple[list[str], torch.Tensor, bool]]:
        return [(self._keys, self._log, True)]

    def get_active_iterable_terms(self, env_idx: int) -> list[tuple[str, list[float]]]:
        """(name, [0 or 1]) of the last step in one environment. Reads from the device."""
        return [(name, [float(self.get_term(name)[env_idx])]) for name in self._terms]
