# SPDX-License-Identifier: Apache-2.0
"""Quaternions (x, y, z, w) as torch tensors; leading dimensions broadcast."""

from __future__ import annotations

import torch


def quat_mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Product (…, 4): first rotate by ``b``, then by ``a``."""
    a, b = torch.broadcast_tensors(a, b)
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    vector = aw * bv + bw * av + torch.linalg.cross(av, bv)
    return torch.cat((vector, aw * bw - (av * bv).sum(dim=-1, keepdim=True)), dim=-1)


def quat_apply(quat: torch.Tensor, vec: torch.Tensor) -> torch.Tensor:
    """Vectors (…, 3) rotated by ``quat`` (…, 4)."""
    xyz, w = quat[..., :3], quat[..., 3:]
    xyz, vec = torch.broadcast_tensors(xyz, vec)
    t = 2.0 * torch.linalg.cross(xyz, vec)
    return vec + w * t + torch.linalg.cross(xyz, t)


def quat_apply_inverse(quat: torch.Tensor, vec: torch.Tensor) -> torch.Tensor:
    """Vectors (…, 3) rotated by the inverse of ``quat`` (…, 4)."""
    xyz, w = quat[..., :3], quat[..., 3:]
    xyz, vec = torch.broadcast_tensors(xyz, vec)
    t = 2.0 * torch.linalg.cross(xyz, vec)
    return vec - w * t + torch.linalg.cross(xyz, t)
