# SPDX-License-Identifier: Apache-2.0
"""Commands: goals that are drawn anew from time to time."""

from __future__ import annotations

from typing import Any

import torch

from forcelab.physics.errors import near
from forcelab.physics.launch import launch

from . import command_kernels
from .manager_base import Env, ManagerBase, ManagerTermBase, call_reset, make, mask_to_ids, takes
from .manager_term_cfg import CommandTermCfg, collection_items
from .resolve import load


class CommandTerm(ManagerTermBase):
    """Base of command generators.

    Subclasses give :attr:`command` and write :meth:`_resample_command` (parameter ``env_mask``, or
    ``env_ids`` to get indices), and where needed :meth:`_update_command` and :meth:`_update_metrics`.

    A command is drawn at each reset and whenever its time is over. Its time is over when less than half
    a step is left, so a time that is a multiple of the step takes exactly that many steps.

    Attributes:
        time_left: (E,) s until the next draw.
        command_counter: (E,) int64 draws in the running episode.
        metrics: (E,) float tensors by name; their values at the end of an episode are logged as
            ``Metrics/<command>/<name>`` and set to 0.
    """

    def __init__(self, cfg: CommandTermCfg, env: Env):
        super().__init__(cfg, env)
        self.time_left = torch.zeros(env.num_envs, device=env.device)
        self.command_counter = torch.zeros(env.num_envs, dtype=torch.long, device=env.device)
        self.metrics: dict[str, torch.Tensor] = {}
        bounds = torch.as_tensor(cfg.resampling_time_range, dtype=torch.float32).reshape(-1).tolist()
        if len(bounds) != 2 or not 0.0 < bounds[0] <= bounds[1]:
            raise ValueError(
                f"{type(cfg).__name__}.resampling_time_range is {cfg.resampling_time_range!r}; it must be (lower, "
                "upper) in s, both positive, lower not above upper."
            )
        object.__setattr__(cfg, "resampling_time_range", torch.tensor(bounds, device=env.device))
        self._resample_selector = takes(self._resample_command)

    @property
    def command(self) -> torch.Tensor:
        """The command, (E, n)."""
        raise NotImplementedError

    def _resample_command(self, env_mask: torch.Tensor) -> None:
        """Draw new commands for the chosen environments."""
        raise NotImplementedError

    def _update_command(self) -> None:
        """Derive the command from the state, in every step and after resets.

        It may run twice in a step when environments are reset by hand, so it must not count time.
        """

    def _update_metrics(self) -> None:
        """Update :attr:`metrics` in place, once per step, before environments are reset."""

    def evaluation(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """What ``forcelab evaluate`` averages: by name, values of the last step (E,) and where they count (E,) bool.

        They are taken before environments are reset, as in :meth:`_update_metrics`.
        """
        return {}

    def tracking(self) -> dict[str, tuple[str, torch.Tensor, torch.Tensor]]:
        """What plots compare: by name the unit, what is commanded (E,), and what is measured (E,) of the same."""
        return {}

    def compute(self, dt: float | torch.Tensor) -> None:
        """Let ``dt`` s pass (a number, or (E,)), draw where the time is over, update the command."""
        self.time_left.sub_(dt)
        over = self.time_left <= 0.5 * self._env.step_dt
        if self._env.worth_doing(over):
            self._resample(over)
        self._update_command()

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Draw commands for a new episode; return the means of the metrics."""
        mask = self._env.all_envs if env_mask is None else env_mask
        count = mask.sum().clamp(min=1)
        means = {name: torch.where(mask, value, 0.0).sum() / count for name, value in self.metrics.items()}
        self.begin_episode(mask)
        return means

    def begin_episode(self, env_mask: torch.Tensor) -> None:
        """:meth:`reset` without the means: clear the metrics and draw a command."""
        self._clear_metrics(env_mask)
        self.command_counter.masked_fill_(env_mask, 0)
        self._resample(env_mask)

    def _clear_metrics(self, env_mask: torch.Tensor) -> None:
        for value in self.metrics.values():
            value.masked_fill_(env_mask, 0.0)

    def _resample(self, env_mask: torch.Tensor) -> None:
        engine, draw = self._env.scene.engine, torch.rand_like(self.time_left)
        arguments = [env_mask, draw, self.cfg.resampling_time_range, self.time_left, self.command_counter]
        launch(engine, command_kernels.draw_time, self.num_envs, arguments)
        if self._resample_selector == "env_ids":
            ids = mask_to_ids(env_mask)
            if ids.numel():
                self._resample_command(ids)
        else:
            self._resample_command(env_mask)


class CommandManager(ManagerBase):
    """Holds the command terms.

    Log keys ``Metrics/<command>/<name>``: the terms' metrics, as means over episodes.
    """

    section = "commands"
    term_type = CommandTermCfg

    def _prepare(self) -> None:
        self._commands: dict[str, CommandTerm] = {}
        for name, cfg in collection_items(self.cfg):
            path = f"{self.section}.{name}"
            if not isinstance(cfg, CommandTermCfg):
                raise TypeError(f"{path} is a {type(cfg).__name__}; it must be a CommandTermCfg.")
            term = make(load(cfg.class_type, f"{path}.class_type"), path, cfg, self._env)
            if not isinstance(term, CommandTerm):
                raise TypeError(f"{path}.class_type makes a {type(term).__name__}; it must be a CommandTerm.")
            self._commands[name] = term
        self._paths = {f"{self.section}.{name}": term for name, term in self._commands.items()}
        self._reset_calls = [(path, t, takes(t.reset)) for path, t in self._paths.items()]
        self._keys = [
            f"Metrics/{name}/{key}" for name, term in self._commands.items() for key in term.metrics
        ]
        self._sums = torch.zeros(len(self._keys), device=self.device)

    @property
    def active_terms(self) -> list[str]:
        return list(self._commands)

    def get_term(self, name: str) -> CommandTerm:
        """The command term of that name."""
        try:
            return self._commands[name]
        except KeyError:
            raise KeyError(f"commands has no term {name!r}.{near(name, self._commands)}") from None

    def get_term_cfg(self, name: str) -> Any:
        return self.get_term(name).cfg

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        raise NotImplementedError("Command terms keep their configuration; assign its fields instead.")

    def get_command(self, name: str) -> torch.Tensor:
        """The command (E, n) of a term."""
        return self.get_term(name).command

    def compute(self, dt: float | torch.Tensor) -> None:
        """Let ``dt`` s pass: a number, or (E,) with 0 for environments whose episode has just begun."""
        for path, term in self._paths.items():
            self._call(path, term, term.compute, dt)

    def update_metrics(self) -> None:
        """Update the metrics of all terms, once per environment step."""
        for path, term in self._paths.items():
            self._call(path, term, term._update_metrics)

    def update_commands(self) -> None:
        """Derive all commands from the state again, without letting time pass."""
        for term in self._commands.values():
            term._update_command()

    def accumulate(self, env_mask: torch.Tensor) -> None:
        """Add the metrics of the chosen environments to the log."""
        keys, values = [], []
        for name, term in self._commands.items():
            keys += [f"Metrics/{name}/{key}" for key in term.metrics]
            values += list(term.metrics.values())
        if not keys:
            return
        if keys != self._keys:
            # A term has made metrics since. Under inference mode too, memory that stays must be ordinary.
            with torch.inference_mode(False):
                sums = torch.zeros(len(keys), device=self.device)
                for i, key in enumerate(keys):
                    if key in self._keys:
                        sums[i] = self._sums[self._keys.index(key)]
            self._keys, self._sums = keys, sums
        self._sums.add_(torch.where(env_mask, torch.stack(values), 0.0).sum(dim=1))

    def begin_episode(self, env_mask: torch.Tensor) -> None:
        """Reset the terms in the chosen environments, without log values."""
        for path, term, selector in self._reset_calls:
            if type(term).reset is CommandTerm.reset:
                self._call(path, term, term.begin_episode, env_mask)
            else:
                self._call(path, term, call_reset, term, selector, env_mask)

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        means = {}
        for name, term in self._commands.items():
            for key, value in (term.reset(env_mask) or {}).items():
                means[f"Metrics/{name}/{key}"] = value
        return means

    def log_parts(self) -> list[tuple[list[str], torch.Tensor, bool]]:
        return [(self._keys, self._sums, True)]
