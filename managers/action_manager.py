# SPDX-License-Identifier: Apache-2.0
"""Actions: the policy's vector, cut into terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from forcelab.physics.errors import near

from .manager_base import Env, ManagerBase, ManagerTermBase, call_reset, make, takes
from .manager_term_cfg import ActionTermCfg, collection_items
from .resolve import load


class ActionTerm(ManagerTermBase):
    """Base of action terms: numbers of the policy become commands to an asset.

    Subclasses give :attr:`action_dim`, :attr:`raw_actions`, :attr:`processed_actions`,
    :meth:`process_actions` (once per environment step) and :meth:`apply_actions` (at every physics step).
    """

    def __init__(self, cfg: Any, env: Env):
        super().__init__(cfg, env)
        known = list(env.scene.keys())
        if cfg.asset_name not in known:
            raise ValueError(
                f"{type(cfg).__name__}.asset_name: the scene has no {cfg.asset_name!r}.{near(cfg.asset_name, known)}"
            )
        self._asset: Any = env.scene[cfg.asset_name]

    @property
    def action_dim(self) -> int:
        """Number of action components A."""
        raise NotImplementedError

    @property
    def raw_actions(self) -> torch.Tensor:
        """The policy's numbers of the last step, (E, A)."""
        raise NotImplementedError

    @property
    def processed_actions(self) -> torch.Tensor:
        """What is applied, (E, …)."""
        raise NotImplementedError

    def process_actions(self, actions: torch.Tensor) -> None:
        """Take the policy's numbers (E, A)."""
        raise NotImplementedError

    def apply_actions(self) -> None:
        """Write the commands to the asset."""
        raise NotImplementedError


class ActionManager(ManagerBase):
    """Splits the action (E, A) among its terms, in order."""

    section = "actions"
    term_type = ActionTermCfg

    def _prepare(self) -> None:
        self._actions: dict[str, ActionTerm] = {}
        for name, cfg in collection_items(self.cfg):
            path = f"{self.section}.{name}"
            if not isinstance(cfg, ActionTermCfg):
                raise TypeError(f"{path} is a {type(cfg).__name__}; it must be an ActionTermCfg.")
            term = make(load(cfg.class_type, f"{path}.class_type"), path, cfg, self._env)
            if not isinstance(term, ActionTerm):
                raise TypeError(f"{path}.class_type makes a {type(term).__name__}; it must be an ActionTerm.")
            self._actions[name] = term
        shape = (self.num_envs, self.total_action_dim)
        # The last two actions in one piece of memory, so that one operation resets both.
        self._both = torch.zeros((2, *shape), device=self.device)
        self._action, self._prev_action = self._both.unbind(0)
        #: Key path, term, its columns of the action.
        self._parts: list[tuple[str, ActionTerm, slice, torch.Tensor]] = []
        start = 0
        for name, term in self._actions.items():
            columns = slice(start, start + term.action_dim)
            self._parts.append((f"{self.section}.{name}", term, columns, self._action[:, columns]))
            start += term.action_dim
        self._reset_calls = [(path, term, takes(term.reset)) for (path, term, *_) in self._parts]

    @property
    def active_terms(self) -> list[str]:
        return list(self._actions)

    @property
    def action_term_dim(self) -> list[int]:
        """Number of components of each term."""
        return [term.action_dim for term in self._actions.values()]

    @property
    def total_action_dim(self) -> int:
        """Number of components A."""
        return sum(self.action_term_dim)

    @property
    def action(self) -> torch.Tensor:
        """The policy's last action, (E, A); 0 after a reset."""
        return self._action

    @property
    def prev_action(self) -> torch.Tensor:
        """The action before the last, (E, A); 0 after a reset."""
        return self._prev_action

    def get_term(self, name: str) -> ActionTerm:
        """The action term of that name."""
        try:
            return self._actions[name]
        except KeyError:
            raise KeyError(f"actions has no term {name!r}.{near(name, self._actions)}") from None

    def get_term_cfg(self, name: str) -> Any:
        return self.get_term(name).cfg

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        raise NotImplementedError("Action terms keep their configuration; edit the term instead.")

    def term_of_column(self, column: int) -> tuple[str, int]:
        """Name of the term that owns a column of the action, and the column within it."""
        for name, (*_, part, _) in zip(self._actions, self._parts, strict=True):
            if column < part.stop:
                return name, column - part.start
        raise IndexError(f"The action has {self.total_action_dim} columns, not {column + 1}.")

    def check(self, action: Any) -> torch.Tensor:
        """``action`` as a float32 tensor on the device.

        Raises:
            ValueError: Its shape is not (E, A).
            TypeError: It is no tensor, array or sequence of numbers.
        """
        if (
            type(action) is not torch.Tensor
            or action.dtype is not torch.float32
            or action.device != self.device
        ):
            try:
                action = torch.as_tensor(action, dtype=torch.float32, device=self.device)
            except (TypeError, ValueError, RuntimeError) as error:
                raise TypeError(f"The action cannot be read as a float tensor: {error}") from None
        if action.requires_grad:
            action = action.detach()
        if action.shape != self._action.shape:
            parts = ", ".join(f"{name} {term.action_dim}" for name, term in self._actions.items())
            raise ValueError(
                f"The action has shape {tuple(action.shape)}; it must be {tuple(self._action.shape)}: "
                f"{self.num_envs} environments, {self.total_action_dim} components ({parts or 'no action terms'})."
            )
        return action

    def process_action(self, action: torch.Tensor) -> None:
        """Take the policy's action (E, A), once per environment step."""
        action = self.check(action)
        self._prev_action.copy_(self._action)
        self._action.copy_(action)
        for path, term, _, values in self._parts:
            self._call(path, term, term.process_actions, values)

    def apply_action(self) -> None:
        """Write all terms' commands, at every physics step."""
        for path, term, _, _ in self._parts:
            self._call(path, term, term.apply_actions)

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        if env_mask is None:
            self._both.zero_()
        else:
            self._both.masked_fill_(env_mask[:, None], 0.0)
        for path, term, selector in self._reset_calls:
            self._call(path, term, call_reset, term, selector, env_mask)
        return {}

    def get_active_iterable_terms(self, env_idx: int) -> Iterator[tuple[str, list[float]]]:
        """(name, raw action) in one environment. Reads from the device."""
        for name, term in self._actions.items():
            yield name, term.raw_actions[env_idx].tolist()
