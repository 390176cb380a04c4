# SPDX-License-Identifier: Apache-2.0
"""The step as one CUDA graph."""

from __future__ import annotations

from typing import Any

import torch


def _no_part(name: str) -> None:
    pass


class StepGraph:
    def __init__(self, env: Any, mode: str):
        self.env, self.mode = env, mode
        self.hook: Any = None
        self.part: Any = _no_part

    def step(self, action: torch.Tensor) -> None:
        self.env._step_work(action)

    def mark_dirty(self, reason: str) -> None:
        pass

    def close(self) -> None:
        pass
