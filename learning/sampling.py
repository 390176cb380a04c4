# SPDX-License-Identifier: Apache-2.0
"""Actions drawn without the host's waiting for the device."""

from __future__ import annotations

import os
from types import MethodType
from typing import Any

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import torch
from rsl_rl.modules.distribution import GaussianDistribution


def draw_on_device(policy: Any) -> None:
    """Make a policy with Gaussian actions draw them without looking at the deviations on the host.

    ``torch.normal`` with a tensor of deviations compares their smallest with zero on the host: one wait per
    environment step, and it cannot be captured. rsl_rl keeps them positive anyway. The same random numbers give the
    same actions. Other distributions are left as they are.

    Args:
        policy: rsl_rl's actor network.
    """
    distribution = getattr(policy, "distribution", None)
    if (
        isinstance(distribution, GaussianDistribution)
        and type(distribution).sample is GaussianDistribution.sample
    ):
        distribution.sample = MethodType(_sample, distribution)  # type: ignore[method-assign]


def _sample(distribution: GaussianDistribution) -> torch.Tensor:
    with torch.no_grad():
        mean, std = distribution.params
        return mean + std * torch.randn_like(mean)
