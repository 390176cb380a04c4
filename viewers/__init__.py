# SPDX-License-Identifier: Apache-2.0
"""Pictures, videos and plots from engine-neutral poses and sensor data; no display needed."""

from __future__ import annotations

from forcelab.physics.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "CameraCfg": "camera_cfg",
        "FrameRecorder": "recorder",
        "GLUnavailableError": "gl",
        "VisualShape": "shapes",
        "contact_arrows": "arrows",
        "plot_gait": "plots",
        "plot_learning_curve": "plots",
        "read_learning_curve": "plots",
    },
)
