# SPDX-License-Identifier: Apache-2.0
"""Readings of the frame transformer."""

from __future__ import annotations

from forcelab.physics.array import Array

from ..pose_sensor import PoseSensorData


class FrameTransformerData(PoseSensorData):
    """Poses at the last sample; E environments, T target frames, quaternions (x, y, z, w)."""

    def __init__(self) -> None:
        super().__init__()
        #: Names of the T target frames.
        self.target_frame_names: list[str] = []

    @property
    def source_pos_w(self) -> Array:
        """(E, 3) position of the source frame [m]."""
        return self._read("source_pos_w")

    @property
    def source_quat_w(self) -> Array:
        """(E, 4) orientation of the source frame."""
        return self._read("source_quat_w")

    @property
    def target_pos_w(self) -> Array:
        """(E, T, 3) positions of the target frames [m]."""
        return self._read("target_pos_w")

    @property
    def target_quat_w(self) -> Array:
        """(E, T, 4) orientations of the target frames."""
        return self._read("target_quat_w")

    @property
    def target_pos_source(self) -> Array:
        """(E, T, 3) positions of the target frames in the source frame [m]."""
        return self._read("target_pos_source")

    @property
    def target_quat_source(self) -> Array:
        """(E, T, 4) orientations of the target frames in the source frame."""
        return self._read("target_quat_source")
