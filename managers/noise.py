# SPDX-License-Identifier: Apache-2.0
"""Observation noise: functions of (data, cfg), and models that keep a state per environment."""

from __future__ import annotations

from typing import Any

import torch

from forcelab.physics.errors import near

from .noise_cfg import NoiseCfg, NoiseModelCfg, NoiseModelWithAdditiveBiasCfg
from .resolve import load

_OPERATIONS = ("add", "scale", "abs")


def _combine(data: torch.Tensor, noise: torch.Tensor, operation: str) -> torch.Tensor:
    if operation == "add":
        return data + noise
    if operation == "scale":
        return data * noise
    return noise.expand_as(data)


def uniform_noise(data: torch.Tensor, cfg: Any) -> torch.Tensor:
    """Uniform draw between ``cfg.n_min`` and ``cfg.n_max``, one per element."""
    draw = torch.rand(data.shape, device=data.device)
    return _combine(data, torch.lerp(cfg.n_min, cfg.n_max, draw), cfg.operation)


def gaussian_noise(data: torch.Tensor, cfg: Any) -> torch.Tensor:
    """Normal draw of mean ``cfg.mean`` and standard deviation ``cfg.std``, one per element."""
    draw = torch.randn(data.shape, device=data.device)
    return _combine(data, torch.addcmul(cfg.mean, draw, cfg.std), cfg.operation)


def constant_noise(data: torch.Tensor, cfg: Any) -> torch.Tensor:
    """``cfg.bias`` for every environment."""
    return _combine(data, cfg.bias, cfg.operation)


def prepare_noise(cfg: NoiseCfg, device: torch.device, path: str) -> None:
    """Check ``cfg`` and turn its numbers into device tensors, in place."""
    if cfg.operation not in _OPERATIONS:
        raise ValueError(f"{path}.operation is {cfg.operation!r}.{near(str(cfg.operation), _OPERATIONS)}")
    if cfg.func is None:
        raise ValueError(
            f"{path} is a {type(cfg).__name__} without func; use UniformNoiseCfg, GaussianNoiseCfg or "
            "ConstantNoiseCfg, or give a function f(data, cfg)."
        )
    cfg.func = load(cfg.func, f"{path}.func")
    for name in cfg._live:
        value = getattr(cfg, name)
        if isinstance(value, torch.Tensor):
            value = value.detach().clone()
        object.__setattr__(cfg, name, torch.as_tensor(value, dtype=torch.float32, device=device))


class NoiseModel:
    """Noise of ``cfg.noise_cfg`` at every step, without a state.

    Args:
        cfg: Its configuration, with the numbers as device tensors.
        num_envs: E.
        device: Device of the data.
    """

    def __init__(self, cfg: NoiseModelCfg, num_envs: int, device: torch.device):
        self.cfg = cfg
        self.num_envs = num_envs
        self.device = device

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Start anew in the chosen environments."""

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        """Return ``data`` (E, …) with noise."""
        return self.cfg.noise_cfg.func(data, self.cfg.noise_cfg)


class NoiseModelWithAdditiveBias(NoiseModel):
    """Noise at every step plus a bias that each environment draws at its reset and keeps."""

    cfg: NoiseModelWithAdditiveBiasCfg

    def __init__(self, cfg: NoiseModelWithAdditiveBiasCfg, num_envs: int, device: torch.device):
        super().__init__(cfg, num_envs, device)
        self._bias: torch.Tensor | None = None

    def prepare(self, shape: tuple[int, ...]) -> None:
        """Make the buffer for data of ``shape`` (E, …)."""
        if not self.cfg.sample_bias_per_component:
            shape = (shape[0], *[1] * (len(shape) - 1))
        self._bias = torch.zeros(shape, device=self.device)
        self.reset()

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        """Draw new biases for the chosen environments."""
        if self._bias is None:
            return
        new = self.cfg.bias_noise_cfg.func(torch.zeros_like(self._bias), self.cfg.bias_noise_cfg)
        if env_mask is not None:
            new = torch.where(env_mask.view(-1, *[1] * (self._bias.dim() - 1)), new, self._bias)
        self._bias.copy_(new)

    def __call__(self, data: torch.Tensor) -> torch.Tensor:
        assert self._bias is not None, "prepare() makes the buffer"
        return super().__call__(data) + self._bias
