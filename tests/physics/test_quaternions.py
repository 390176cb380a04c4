# SPDX-License-Identifier: Apache-2.0
"""Quaternions against rotation matrices that the exponential map makes."""

from __future__ import annotations

import torch

from forcelab.physics.quaternions import quat_apply, quat_apply_inverse, quat_mul


def rotations(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Quaternions (count, 4) and matrices (count, 3, 3) of the same random rotations, float64."""
    torch.manual_seed(4)
    vector = torch.randn(count, 3, dtype=torch.float64) * 2.0
    angle = vector.norm(dim=-1, keepdim=True)
    quat = torch.cat((torch.sin(angle / 2) * vector / angle, torch.cos(angle / 2)), dim=-1)
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    skew = torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).view(count, 3, 3)
    return quat, torch.linalg.matrix_exp(skew)


def test_a_quarter_turn() -> None:
    turn = torch.tensor([0.0, 0.0, 0.5**0.5, 0.5**0.5])
    torch.testing.assert_close(quat_apply(turn, torch.tensor([1.0, 0.0, 0.0])), torch.tensor([0.0, 1.0, 0.0]))


def test_rotations_products_and_inverses() -> None:
    (a, A), (b, B) = rotations(40), tuple(t.flip(0) for t in rotations(40))
    v = torch.randn(40, 3, dtype=torch.float64)
    torch.testing.assert_close(quat_apply(a, v), (A @ v[..., None])[..., 0])
    torch.testing.assert_close(quat_apply_inverse(a, v), (A.mT @ v[..., None])[..., 0])
    torch.testing.assert_close(quat_apply(quat_mul(a, b), v), (A @ B @ v[..., None])[..., 0])


def test_leading_dimensions_broadcast() -> None:
    a, A = rotations(3)
    v = torch.randn(5, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(quat_apply(a, v), torch.einsum("bij,ebj->ebi", A, v))
    assert quat_mul(a[:, None], a).shape == (3, 3, 4)
