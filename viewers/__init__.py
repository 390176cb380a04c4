# SPDX-License-Identifier: Apache-2.0
"""Pictures, videos and plots from engine-neutral poses and sensor data; no display needed."""

from __future__ import annotations

from forcelab.physics.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Arrows": "drawables",
        "BrowserViewer": "browser",
        "CameraCfg": "camera_cfg",
        "DebugVisCfg": "drawables",
        "FrameRecorder": "recorder",
        "GLUnavailableError": "gl",
        "Points": "drawables",
        "SeriesRecorder": "series",
        "Snapshot": "drawables",
        "VisualShape": "shapes",
        "contact_arrows": "arrows",
        "draws": "debug_vis",
        "plot_gait": "plots",
        "plot_learning_curve": "plots",
        "plot_series": "plots",
        "read_learning_curve": "plots",
        "sensor_drawables": "debug_vis",
    },
)
