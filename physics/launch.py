# SPDX-License-Identifier: Apache-2.0
"""Warp kernels on torch's tensors, in torch's order, cheaply for the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from .engine import Engine


def launch(engine: Engine, kernel: Any, dim: int, inputs: Sequence[Any]) -> None:
    """Launch ``kernel`` with ``dim`` threads on torch's current stream.

    Args:
        engine: Whose device and order.
        kernel: A Warp kernel.
        dim: Number of threads.
        inputs: Its arguments: numbers, Warp arrays, and tensors, which are passed as they lie in memory; expanded
            ones, which are to be read only, are written out.
    """
    with engine.stream():
        kept = [_laid_out(item) if isinstance(item, torch.Tensor) else item for item in inputs]
        arguments = [
            wp.from_torch(item, requires_grad=False, return_ctype=True)
            if isinstance(item, torch.Tensor)
            else item
            for item in kept
        ]
        wp.launch(kernel, dim=dim, inputs=arguments, device=str(engine.device))


def _laid_out(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous() if 0 in tensor.stride() and tensor.numel() > 1 else tensor
