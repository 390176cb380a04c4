# SPDX-License-Identifier: Apache-2.0
"""Curricula: terms that change the task as training goes on."""

from __future__ import annotations

from typing import Any

import torch

from .manager_base import ManagerBase, Term
from .manager_term_cfg import CurriculumTermCfg


class CurriculumManager(ManagerBase):
    """Calls its terms before each reset and logs what they return.

    A term may return None, a number, a tensor (its mean is logged) or a dict of these. Log keys
    ``Curriculum/<term>`` or ``Curriculum/<term>/<key>``: the latest values.
    """

    section = "curriculum"
    term_type = CurriculumTermCfg
    masked = True

    def _prepare(self) -> None:
        super()._prepare()
        self._state: dict[str, torch.Tensor] = {}
        #: Key paths of terms that returned Python numbers, which a captured step would not follow.
        self.gave_numbers: set[str] = set()

    def compute(self, env_mask: torch.Tensor | None = None) -> None:
        """Call the terms for the environments that are about to be reset."""
        if not self._terms:
            return
        mask = self._env.all_envs if env_mask is None else env_mask
        for name, term in self._terms.items():
            self._call(term.path, term.func, self._compute_term, name, term, mask)

    def _compute_term(self, name: str, term: Term, mask: torch.Tensor) -> None:
        value = term.call_masked(self._env, mask)
        if isinstance(value, dict):
            for key, item in value.items():
                self._store(term.path, f"Curriculum/{name}/{key}", item)
        elif value is not None:
            self._store(term.path, f"Curriculum/{name}", value)

    def _store(self, path: str, key: str, value: Any) -> None:
        slot = self._state.get(key)
        if slot is None:
            # Under inference mode too, memory that stays must be ordinary.
            with torch.inference_mode(False):
                slot = self._state[key] = torch.zeros((), device=self.device)
        if isinstance(value, torch.Tensor):
            slot.copy_(value if value.dim() == 0 else value.float().mean())
        elif isinstance(value, (int, float)):
            self.gave_numbers.add(path)
            slot.fill_(value)
        else:
            raise TypeError(
                f"{path} returned {type(value).__name__} for {key!r}; it must return a number, a tensor, a dict of "
                "these, or None."
            )

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        self._reset_terms(env_mask)
        return {key: value.clone() for key, value in self._state.items()}

    def log_parts(self) -> list[tuple[list[str], torch.Tensor, bool]]:
        return [([key], value.view(1), False) for key, value in self._state.items()]
