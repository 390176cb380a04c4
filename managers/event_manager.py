# SPDX-License-Identifier: Apache-2.0
"""Events: randomisation and disturbances, at startup, at resets, and at intervals."""

from __future__ import annotations

from typing import Any

import torch

from forcelab.physics.errors import near

from .manager_base import ManagerBase, Term
from .manager_term_cfg import EventTermCfg


class EventManager(ManagerBase):
    """Calls event terms for the environments they are due in.

    Modes are ``startup``, ``reset``, ``interval``, and any name used with :meth:`apply`. Interval timers
    are device tensors (s). A timer is due when less than half a step is left, so an interval that is a
    multiple of the step time takes exactly that many steps.
    """

    section = "events"
    term_type = EventTermCfg
    masked = True

    def _prepare(self) -> None:
        super()._prepare()
        self._by_mode: dict[str, list[Term]] = {}
        for name, term in self._terms.items():
            cfg = term.cfg
            if not isinstance(cfg.mode, str):
                raise ValueError(
                    f"events.{name}.mode is {cfg.mode!r}; it must be 'startup', 'reset', 'interval' or a name of yours."
                )
            self._by_mode.setdefault(cfg.mode, []).append(term)
            if cfg.mode == "interval":
                self._check_interval(name, cfg)
        for mode in self._by_mode:
            if mode not in ("startup", "reset", "interval") and "Did you mean" in near(
                mode, ("startup", "reset", "interval")
            ):
                names = [t.name for t in self._by_mode[mode]]
                raise ValueError(
                    f"events.{names[0]}.mode is {mode!r}.{near(mode, ('startup', 'reset', 'interval'))}"
                )
        every = self._by_mode.get("interval", [])
        self._local = [t for t in every if not t.cfg.is_global_time]
        self._global = [t for t in every if t.cfg.is_global_time]
        #: Bounds of the intervals, (T, 2) s.
        self._local_range = self._ranges(self._local)
        self._global_range = self._ranges(self._global)
        self._adopt_ranges()
        #: Time left until the next call, s: (T, E) for terms with a timer per environment, (T, 1) for the others.
        self.time_left = torch.zeros((len(self._local), self.num_envs), device=self.device)
        self.global_time_left = torch.zeros((len(self._global), 1), device=self.device)
        self._draw_local(None)
        if self._global:
            self.global_time_left.copy_(self._draw(self._global_range, self.global_time_left))
        self._last_run = {
            t.name: torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
            for t in self._by_mode.get("reset", [])
            if t.cfg.min_step_count_between_reset > 0
        }
        self._has_run = {
            name: torch.zeros(self.num_envs, dtype=torch.bool, device=self.device) for name in self._last_run
        }

    def _check_interval(self, name: str, cfg: Any) -> None:
        bounds = cfg.interval_range_s
        if bounds is None or len(bounds) != 2 or not 0.0 < float(bounds[0]) <= float(bounds[1]):
            raise ValueError(
                f"events.{name}.interval_range_s is {bounds!r}; mode 'interval' needs (lower, upper) in s, both "
                "positive, lower not above upper."
            )

    def _ranges(self, terms: list[Term]) -> torch.Tensor:
        rows = [[float(x) for x in t.cfg.interval_range_s] for t in terms]
        return torch.tensor(rows, dtype=torch.float32, device=self.device).view(-1, 2)

    def _adopt_ranges(self) -> None:
        """Make the terms' ``interval_range_s`` views of the bounds, so that assigning to them takes effect."""
        for terms, bounds in ((self._local, self._local_range), (self._global, self._global_range)):
            for term, row in zip(terms, bounds.unbind(0), strict=True):
                object.__setattr__(term.cfg, "interval_range_s", row)

    def _draw(self, bounds: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        low, high = bounds[:, :1], bounds[:, 1:]
        return torch.lerp(low.expand_as(like), high.expand_as(like), torch.rand_like(like))

    def _draw_local(self, env_mask: torch.Tensor | None) -> None:
        if self._local:
            new = self._draw(self._local_range, self.time_left)
            self.time_left.copy_(new if env_mask is None else torch.where(env_mask, new, self.time_left))

    @property
    def active_terms(self) -> dict[str, list[str]]:
        """Names of the terms by mode."""
        return {mode: [t.name for t in terms] for mode, terms in self._by_mode.items()}

    @property
    def available_modes(self) -> list[str]:
        """Modes with at least one term."""
        return list(self._by_mode)

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        old = self._lookup(name)
        if cfg is old.cfg:
            return
        if cfg.mode != old.cfg.mode or cfg.is_global_time != old.cfg.is_global_time:
            raise ValueError(
                f"events.{name}: mode and is_global_time cannot change while the environment runs."
            )
        if cfg.mode == "interval":
            self._check_interval(name, cfg)
        super().set_term_cfg(name, cfg)
        self._rebuild()
        self._local_range.copy_(self._ranges(self._local))
        self._global_range.copy_(self._ranges(self._global))
        self._adopt_ranges()

    def _rebuild(self) -> None:
        for terms in (*self._by_mode.values(), self._local, self._global):
            terms[:] = [self._terms[t.name] for t in terms]

    def apply(
        self, mode: str, env_mask: torch.Tensor | None = None, dt: float | torch.Tensor | None = None
    ) -> None:
        """Call the terms of ``mode``.

        Args:
            mode: ``startup``, ``reset``, ``interval`` or a mode of your own. Nothing happens when it has
                no terms.
            env_mask: The chosen environments, bool (E,); None for all. Not used by ``interval``.
            dt: Time since the last call with mode ``interval``, s: a number, or (E,) with 0 for
                environments whose episode has just begun.
        """
        terms = self._by_mode.get(mode)
        if not terms:
            return
        if mode == "interval":
            if dt is None:
                raise ValueError("apply('interval') needs dt, the time since the last call in s.")
            self._apply_interval(dt)
            return
        mask = self._env.all_envs if env_mask is None else env_mask
        for term in terms:
            last = self._last_run.get(term.name) if mode == "reset" else None
            if last is None:
                self._call(term.path, term.func, term.call_masked, self._env, mask)
                continue
            has_run, now = self._has_run[term.name], self._env.common_step_counter
            due = mask & (((now - last) >= term.cfg.min_step_count_between_reset) | ~has_run)
            last.copy_(torch.where(due, now, last))
            has_run.logical_or_(due)
            self._call(term.path, term.func, term.call_masked, self._env, due)

    def _apply_interval(self, dt: float | torch.Tensor) -> None:
        env = self._env
        slack = 0.5 * env.step_dt
        if self._global:
            # One clock for all environments; their resets do not stop it.
            self.global_time_left.sub_(dt if isinstance(dt, (int, float)) else env.step_dt)
            due = self.global_time_left <= slack
            if env.worth_doing(due):
                new = self._draw(self._global_range, self.global_time_left)
                self.global_time_left.copy_(torch.where(due, new, self.global_time_left))
                self._call_due(self._global, due.expand(-1, self.num_envs).contiguous())
        if self._local:
            self.time_left.sub_(dt)
            due = self.time_left <= slack
            if env.worth_doing(due):
                new = self._draw(self._local_range, self.time_left)
                self.time_left.copy_(torch.where(due, new, self.time_left))
                self._call_due(self._local, due)

    def _call_due(self, terms: list[Term], due: torch.Tensor) -> None:
        env = self._env
        for term, row in zip(terms, due.unbind(0), strict=True):
            if env.worth_doing(row):
                self._call(term.path, term.func, term.call_masked, env, row)

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Draw new intervals for the chosen environments and reset class terms."""
        self._draw_local(env_mask)
        self._reset_terms(env_mask)
        return {}
