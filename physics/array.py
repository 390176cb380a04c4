# SPDX-License-Identifier: Apache-2.0
"""The one array type of sensors and assets: a torch tensor that also shows its Warp view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import warp as wp


class Array(torch.Tensor):
    """A tensor with :attr:`torch` and :attr:`warp` views of the same memory.

    Indexing and arithmetic return plain tensors, at no extra cost.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def wrap(tensor: torch.Tensor) -> Array:
        """Wrap ``tensor`` without a copy."""
        return tensor.as_subclass(Array)

    @property
    def torch(self) -> torch.Tensor:
        """The same memory as a plain :class:`torch.Tensor`."""
        return self.as_subclass(torch.Tensor)

    @property
    def warp(self) -> wp.array:
        """The same memory as a Warp array of the same shape and scalar type.

        Warp's arrays have at most four dimensions: beyond them the last one is that of a vector type (``wp.vec3``).
        """
        import warp as wp

        tensor = self.torch
        if tensor.ndim <= 4:
            return wp.from_torch(tensor)
        vector = wp.types.vector(length=tensor.shape[-1], dtype=wp.dtype_from_torch(tensor.dtype))
        return wp.from_torch(tensor, dtype=vector)

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return repr(self.torch)
