# SPDX-License-Identifier: Apache-2.0
"""A scene made by hand: the three things that viewers read."""

from __future__ import annotations

import numpy as np
import torch

from forcelab.viewers import VisualShape


class HandScene:
    """Bodies at poses written by a test; every environment stands 2 m further along y."""

    def __init__(
        self, shapes: list[VisualShape], poses: dict[str, tuple[float, ...]], num_envs: int = 1
    ) -> None:
        self.shapes = shapes
        self.engine = self
        self.num_envs = num_envs
        self.body_paths = list(poses)
        self.poses = (
            torch.tensor([poses[path] for path in poses], dtype=torch.float32)
            .reshape(1, -1, 7)
            .repeat(num_envs, 1, 1)
        )
        self.poses[:, :, 1] += 2.0 * torch.arange(num_envs).unsqueeze(1)

    def visual_shapes(self) -> list[VisualShape]:
        return self.shapes

    def body_poses(self, env_ids: tuple[int, ...]) -> torch.Tensor:
        return self.poses[list(env_ids)]


def pixel_of(point: tuple[float, float, float], camera: dict, width: int, height: int) -> np.ndarray:
    """(column, row) of a world point, from the camera's definition alone."""
    azimuth, elevation = np.radians(camera["azimuth"]), np.radians(camera["elevation"])
    ahead = np.array(
        [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
    )
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, ahead)
    offset = np.asarray(point) - (np.asarray(camera["lookat"]) - camera["distance"] * ahead)
    focal = 0.5 * height / np.tan(np.radians(camera["fovy"]) / 2.0)
    return np.array(
        [
            0.5 * width + focal * (offset @ right) / (offset @ ahead),
            0.5 * height - focal * (offset @ up) / (offset @ ahead),
        ]
    )


def colored(frame: np.ndarray, channel: int) -> np.ndarray:
    """(H, W) bool: pixels in which one of red, green, blue clearly leads."""
    values = frame.astype(int)
    others = np.delete(values, channel, axis=2).max(axis=2)
    return values[..., channel] > others + 50


def center(mask: np.ndarray) -> np.ndarray:
    """(column, row) of the middle of the marked pixels."""
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean() + 0.5, rows.mean() + 0.5])
