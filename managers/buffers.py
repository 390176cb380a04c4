# SPDX-License-Identifier: Apache-2.0
"""Past values of a batch: history and delay. Fixed memory, masked resets, no host decisions."""

from __future__ import annotations

import torch


class HistoryBuffer:
    """The last ``length`` values of a batch (E, …).

    The first value after a reset fills the whole history of its environment.

    Args:
        length: H, at least 1.
        shape: Shape (E, …) of one value.
        device: Device of the values.
    """

    def __init__(self, length: int, shape: tuple[int, ...], device: torch.device):
        if length < 1:
            raise ValueError(f"A history needs length 1 or more, got {length}.")
        self.length = length
        self._ones = [1] * (len(shape) - 1)
        #: (E, H, …), the oldest value first.
        self.values = torch.zeros((shape[0], length, *shape[1:]), device=device)
        self._empty = torch.ones(shape[0], dtype=torch.bool, device=device)

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Forget the past of the chosen environments."""
        if env_mask is None:
            self._empty.fill_(True)
            self.values.zero_()
        else:
            self._empty.logical_or_(env_mask)
            self.values.masked_fill_(env_mask.view(-1, 1, *self._ones), 0.0)

    def push(self, value: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        """Append ``value`` (E, …) in the chosen environments."""
        new = value.unsqueeze(1)
        shifted = torch.cat((self.values[:, 1:], new), dim=1)
        shifted = torch.where(self._empty.view(-1, 1, *self._ones), new, shifted)
        if env_mask is None:
            self.values.copy_(shifted)
            self._empty.fill_(False)
        else:
            self.values.copy_(torch.where(env_mask.view(-1, 1, *self._ones), shifted, self.values))
            self._empty.logical_and_(~env_mask)


class DelayBuffer:
    """Values of a batch (E, …) as they were some steps ago.

    Each environment draws its lag uniformly from ``min_lag`` … ``max_lag`` steps at its reset and keeps
    it. Until enough values are there the first one is returned.

    Args:
        min_lag, max_lag: Bounds of the lag in steps, inclusive.
        shape: Shape (E, …) of one value.
        device: Device of the values.
    """

    def __init__(self, min_lag: int, max_lag: int, shape: tuple[int, ...], device: torch.device):
        if not 0 <= min_lag <= max_lag:
            raise ValueError(f"A delay needs 0 <= min_lag <= max_lag, got {min_lag} and {max_lag}.")
        self.min_lag, self.max_lag = min_lag, max_lag
        self._history = HistoryBuffer(max_lag + 1, shape, device)
        self._rows = torch.arange(shape[0], device=device)
        #: (E,) int64, steps.
        self.lag = torch.full((shape[0],), min_lag, dtype=torch.long, device=device)
        self.reset()

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Forget the past of the chosen environments and draw their lags."""
        self._history.reset(env_mask)
        if self.max_lag > self.min_lag:
            lag = torch.randint(self.min_lag, self.max_lag + 1, self.lag.shape, device=self.lag.device)
            self.lag.copy_(lag if env_mask is None else torch.where(env_mask, lag, self.lag))

    def push(self, value: torch.Tensor, env_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Append ``value`` (E, …) in the chosen environments; return the delayed values (E, …)."""
        self._history.push(value, env_mask)
        return self._history.values[self._rows, self.max_lag - self.lag]
