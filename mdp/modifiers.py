# SPDX-License-Identifier: Apache-2.0
"""Observation modifiers: a model of force/torque sensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from forcelab.managers import ModifierBase
from forcelab.physics import checks
from forcelab.physics.errors import near

from ._util import where_env
from .modifiers_cfg import ForceTorqueSensorModelCfg

_CFG = "ForceTorqueSensorModelCfg"


class ForceTorqueSensorModel(ModifierBase):
    """Low-pass filter, then bias and drift, then noise, then saturation, on wrenches (E, 6·n).

    For another order list several of them among the term's modifiers.

    The filter is the exact solution of τ·dy/dt = x - y over one observation interval with x held,
    y += (1 - exp(-dt/τ))·(x - y) with τ = 1/(2π·cut-off) (zero-order hold: Åström and Wittenmark,
    Computer-Controlled Systems, 3rd ed., §2.3); it begins at the first value after a reset. Drift is a random walk
    with independent normal steps of standard deviation strength·√dt.

    Raises:
        TypeError: ``cfg`` is no :class:`ForceTorqueSensorModelCfg`.
        ValueError: A parameter is out of bounds, or the data are no wrenches.
    """

    cfg: ForceTorqueSensorModelCfg

    def __init__(self, cfg: ForceTorqueSensorModelCfg, data_dim: tuple[int, ...], device: torch.device):
        super().__init__(cfg, data_dim, device)
        if not isinstance(cfg, ForceTorqueSensorModelCfg):
            raise TypeError(f"ForceTorqueSensorModel is configured by a {_CFG}, not a {type(cfg).__name__}.")
        for key in cfg.params:
            raise ValueError(
                f"{_CFG}.params has {key!r}, but this modifier reads the fields of its configuration, such as "
                f"{_CFG}(force_noise=0.1).{near(str(key), cfg.FIELDS)}"
            )
        if len(data_dim) != 2 or data_dim[1] % 6:
            raise ValueError(
                f"{_CFG}: the data have shape {tuple(data_dim)}; wrenches (E, 6·n) are needed, per body the force "
                "and the torque."
            )
        #: E, bodies, force and torque, axes.
        self._shape = shape = (data_dim[0], data_dim[1] // 6, 2, 3)
        self._off: set[str] = set()
        self._cutoff = self._live_cutoff()
        self._bias_bounds = self._live("bias", 0.0)
        self._noise_std = self._live("noise", 0.0)
        self._drift_rate = self._live("drift", 0.0)
        self._range = self._live("range", math.inf)
        if self._cutoff is not None or self._drift_rate is not None:
            if cfg.dt is None:
                raise ValueError(
                    f"{_CFG}.dt is None; filter and drift need the time between observations [s]."
                )
            self._dt = checks.number(cfg.dt, f"{_CFG}.dt", above=0.0, unit="s")
        cfg._off = frozenset(self._off)

        def zeros(wanted: torch.Tensor | None) -> torch.Tensor | None:
            return None if wanted is None else torch.zeros(shape, device=device)

        self._bias, self._drift, self._filtered = (
            zeros(x) for x in (self._bias_bounds, self._drift_rate, self._cutoff)
        )
        self._begun = torch.zeros((shape[0], 1, 1, 1), dtype=torch.bool, device=device)
        self.reset()

    def _live_cutoff(self) -> torch.Tensor | None:
        cutoff: Any = self.cfg.cutoff_frequency
        if cutoff is None:
            self._off.add("cutoff_frequency")
            return None
        cutoff = cutoff.tolist() if isinstance(cutoff, torch.Tensor) else cutoff
        value = checks.number(cutoff, f"{_CFG}.cutoff_frequency", above=0.0, unit="Hz")
        tensor = torch.tensor(value, device=self.device)
        object.__setattr__(self.cfg, "cutoff_frequency", tensor)
        return tensor

    def _live(self, effect: str, neutral: float) -> torch.Tensor | None:
        """(2, 3) device tensor whose rows become the two fields of an effect; None if it is off."""
        rows = []
        names = (f"force_{effect}", f"torque_{effect}")
        for name in names:
            value: Any = getattr(self.cfg, name)
            if isinstance(value, torch.Tensor):
                value = value.tolist()
            if value is None and neutral:
                value = neutral
            axes = list(value) if isinstance(value, (list, tuple)) else [value] * 3
            if len(axes) != 3:
                raise ValueError(
                    f"{_CFG}.{name} is {value!r}; give one number, or three for the axes x, y, z."
                )
            for x in axes:
                checks.number(x, f"{_CFG}.{name}", at_least=0.0, infinite=neutral > 0.0)
            rows.append([float(x) for x in axes])
        if all(x == neutral for row in rows for x in row):
            self._off.update(names)
            return None
        table = torch.tensor(rows, device=self.device)
        for name, row in zip(names, table, strict=True):
            object.__setattr__(self.cfg, name, row)
        return table

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """A new bias, no drift and an empty filter in the chosen environments."""
        if self._bias is not None and self._bias_bounds is not None:
            drawn = (2.0 * torch.rand(self._shape, device=self.device) - 1.0) * self._bias_bounds
            self._bias.copy_(where_env(env_mask, drawn, self._bias))
        if self._drift is not None:
            self._drift.copy_(where_env(env_mask, torch.zeros_like(self._drift), self._drift))
        self._begun.copy_(where_env(env_mask, torch.zeros_like(self._begun), self._begun))

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        out = data.reshape(self._shape)
        if self._filtered is not None and self._cutoff is not None:
            gain = -torch.expm1(self._cutoff * (-2.0 * math.pi * self._dt))
            # The old state does not enter the first value, whatever it was.
            moved = torch.lerp(self._filtered, out, gain)
            self._filtered.copy_(torch.where(self._begun, moved, out))
            out = self._filtered.clone()
        if self._bias is not None:
            out = out + self._bias
        if self._drift is not None and self._drift_rate is not None:
            # The first value after a reset belongs to time 0.
            step = torch.randn(self._shape, device=self.device) * (self._drift_rate * math.sqrt(self._dt))
            self._drift.add_(step * self._begun)
            out = out + self._drift
        if self._noise_std is not None:
            out = torch.addcmul(out, torch.randn(self._shape, device=self.device), self._noise_std)
        if self._range is not None:
            out = torch.clamp(out, -self._range, self._range)
        self._begun.fill_(True)
        return out.reshape(self.data_dim)
