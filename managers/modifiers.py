# SPDX-License-Identifier: Apache-2.0
"""Observation modifiers: functions of the data, and classes that remember earlier values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .modifiers_cfg import DigitalFilterCfg, IntegratorCfg, ModifierCfg


def scale(data: torch.Tensor, multiplier: float | torch.Tensor) -> torch.Tensor:
    """``data`` · ``multiplier``."""
    return data * multiplier


def bias(data: torch.Tensor, value: float | torch.Tensor) -> torch.Tensor:
    """``data`` + ``value``."""
    return data + value


def clip(data: torch.Tensor, bounds: Sequence[float | None]) -> torch.Tensor:
    """``data`` cut to (lower, upper); None leaves a side open."""
    return data.clip(bounds[0], bounds[1])


class ModifierBase:
    """A modifier with a state.

    Tensors of E rows that an instance keeps as attributes (or in lists and tuples there) belong to the
    environments: the observation manager keeps the other rows as they were when it observes some
    environments only.

    Args:
        cfg: Its configuration.
        data_dim: Shape (E, …) of the data.
        device: Device of the data.
    """

    def __init__(self, cfg: ModifierCfg, data_dim: tuple[int, ...], device: torch.device):
        self.cfg: Any = cfg
        self.data_dim = data_dim
        self.device = device

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Forget the past of the chosen environments."""

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        """Take the next value (E, …); return the modified one."""
        raise NotImplementedError


def _clear(buffer: torch.Tensor, env_mask: torch.Tensor | None) -> None:
    if env_mask is None:
        buffer.zero_()
    else:
        buffer.masked_fill_(env_mask.view(-1, *[1] * (buffer.dim() - 1)), 0.0)


class DigitalFilter(ModifierBase):
    """Linear recursive (or, without ``A``, finite) filter, starting from zeros at each reset."""

    cfg: DigitalFilterCfg

    def __init__(self, cfg: DigitalFilterCfg, data_dim: tuple[int, ...], device: torch.device):
        super().__init__(cfg, data_dim, device)
        if not cfg.B:
            raise ValueError("DigitalFilterCfg.B needs at least one coefficient.")
        self._a = torch.tensor(cfg.A, dtype=torch.float32, device=device)
        self._b = torch.tensor(cfg.B, dtype=torch.float32, device=device)
        self._x = torch.zeros((*data_dim, len(cfg.B)), device=device)
        self._y = torch.zeros((*data_dim, len(cfg.A)), device=device)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        _clear(self._x, env_mask)
        _clear(self._y, env_mask)

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        self._x.copy_(torch.cat((data.unsqueeze(-1), self._x[..., :-1]), dim=-1))
        out = self._x @ self._b
        if self._y.shape[-1]:
            out = out - self._y @ self._a
            self._y.copy_(torch.cat((out.unsqueeze(-1), self._y[..., :-1]), dim=-1))
        return out


class Integrator(ModifierBase):
    """Trapezoidal integral of the data since the reset: sum += dt · (new + previous) / 2."""

    cfg: IntegratorCfg

    def __init__(self, cfg: IntegratorCfg, data_dim: tuple[int, ...], device: torch.device):
        super().__init__(cfg, data_dim, device)
        if not cfg.dt > 0.0:
            raise ValueError(f"IntegratorCfg.dt is {cfg.dt!r}; it must be a positive number of seconds.")
        self._integral = torch.zeros(data_dim, device=device)
        self._previous = torch.zeros(data_dim, device=device)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        _clear(self._integral, env_mask)
        _clear(self._previous, env_mask)

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        self._integral.add_(self._previous + data, alpha=0.5 * self.cfg.dt)
        self._previous.copy_(data)
        return self._integral.clone()
