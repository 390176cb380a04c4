# SPDX-License-Identifier: Apache-2.0
"""Configurations of observation noise. Importable without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

Value = float | tuple[float, ...]
"""One number, or one per component of the observation's last dimension."""


@dataclass
class NoiseCfg:
    """Base of the noises.

    Attributes:
        func: ``f(data (E, …), cfg) -> (E, …)``, or a dotted path to it.
        operation: "add" adds the draw to the data, "scale" multiplies by it, "abs" replaces the data.

    The numbers of the subclasses are device tensors in a running environment; assignment writes into them.
    """

    func: Any = field(default=None, kw_only=True)
    operation: str = field(default="add", kw_only=True)

    _live: ClassVar[frozenset[str]] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if name in self._live and hasattr(old, "copy_"):
            from .manager_term_cfg import write_live

            write_live(old, value, f"{type(self).__name__}.{name}")
        else:
            object.__setattr__(self, name, value)


@dataclass
class UniformNoiseCfg(NoiseCfg):
    """Uniform noise between ``n_min`` and ``n_max``."""

    _live: ClassVar[frozenset[str]] = frozenset({"n_min", "n_max"})

    func: Any = field(default="forcelab.managers.noise.uniform_noise", kw_only=True)
    n_min: Value = -1.0
    n_max: Value = 1.0


@dataclass
class GaussianNoiseCfg(NoiseCfg):
    """Normal noise."""

    _live: ClassVar[frozenset[str]] = frozenset({"mean", "std"})

    func: Any = field(default="forcelab.managers.noise.gaussian_noise", kw_only=True)
    mean: Value = 0.0
    std: Value = 1.0


@dataclass
class ConstantNoiseCfg(NoiseCfg):
    """The same ``bias`` always."""

    _live: ClassVar[frozenset[str]] = frozenset({"bias"})

    func: Any = field(default="forcelab.managers.noise.constant_noise", kw_only=True)
    bias: Value = 0.0


@dataclass
class NoiseModelCfg:
    """Noise with a state per environment.

    Attributes:
        class_type: A :class:`forcelab.managers.noise.NoiseModel` class, or a dotted path to one.
        noise_cfg: The noise drawn at every step.
    """

    class_type: Any = "forcelab.managers.noise.NoiseModel"
    noise_cfg: NoiseCfg = field(default_factory=NoiseCfg)


@dataclass
class NoiseModelWithAdditiveBiasCfg(NoiseModelCfg):
    """Noise at every step plus a bias that each environment draws at its reset and keeps.

    Attributes:
        bias_noise_cfg: Distribution of the bias.
        sample_bias_per_component: Draw one bias per component; otherwise one for all of them.
    """

    class_type: Any = "forcelab.managers.noise.NoiseModelWithAdditiveBias"
    bias_noise_cfg: NoiseCfg = field(default_factory=NoiseCfg)
    sample_bias_per_component: bool = True


AdditiveUniformNoiseCfg = UniformNoiseCfg
AdditiveGaussianNoiseCfg = GaussianNoiseCfg
Unoise = UniformNoiseCfg
Gnoise = GaussianNoiseCfg
