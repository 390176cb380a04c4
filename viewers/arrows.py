# SPDX-License-Identifier: Apache-2.0
"""Forces as arrows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from forcelab.physics.errors import near

Arrow = tuple[Any, Any, Any, float]
"""(origin (3) in m, vector (3), rgba (4), scale): drawn from the origin to origin + scale * vector."""

CONTACT_RGBA = (0.93, 0.26, 0.16, 1.0)


def to_numpy(value: Any) -> np.ndarray:
    """A float64 array from a sensor's array, a tensor on any device, or anything NumPy takes."""
    value = getattr(value, "torch", value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value, dtype=np.float64)


def contact_arrows(
    sensor: Any,
    env_id: int = 0,
    scene: Any = None,
    scale: float = 0.003,
    rgba: Sequence[float] = CONTACT_RGBA,
    min_force: float = 1.0,
) -> list[Arrow]:
    """Arrows for the net contact force on each body of a contact sensor, for ``FrameRecorder.capture``.

    They start at the bodies' origins: the sensor's own ``pos_w`` where it tracks the pose, else the pose that
    ``scene`` reports. ``FrameRecorder.contact_arrows`` passes its scene.

    Args:
        sensor: A contact sensor.
        env_id: The environment.
        scene: The sensor's scene; needed where the sensor does not track the pose.
        scale: Length of an arrow in m per N.
        rgba: Colour.
        min_force: Forces of a smaller norm, in N, get no arrow.

    Raises:
        ValueError: No position is known for the sensor's bodies.
    """
    forces = to_numpy(sensor.data.net_forces_w)[env_id]
    origins = _positions(sensor, env_id, scene)
    return [
        (origin, force, tuple(rgba), scale)
        for origin, force in zip(origins, forces)
        if np.linalg.norm(force) >= min_force
    ]


def _positions(sensor: Any, env_id: int, scene: Any) -> np.ndarray:
    """(S, 3) world positions of the sensor's bodies, in m."""
    if scene is None:
        try:
            pos = sensor.data.pos_w
        except (AttributeError, NotImplementedError):
            pos = None
        if pos is None:
            raise ValueError(
                f"contact_arrows: the sensor on {sensor.body_names} does not track the pose of its bodies; "
                "pass scene=, or use FrameRecorder.contact_arrows."
            )
        return to_numpy(pos)[env_id]
    paths = list(scene.body_paths)
    rows = [
        body_row(name, paths, getattr(getattr(sensor, "cfg", None), "prim_path", None))
        for name in sensor.body_names
    ]
    return to_numpy(scene.body_poses((env_id,)))[0, rows, :3]


def body_row(name: str, paths: list[str], prim_path: str | None) -> int:
    """Which of ``paths`` is the sensor body ``name`` (a name, a path, or the path of a body's shape).

    The sensor's own path decides between robots.

    Raises:
        ValueError: None, or several.
    """
    if name in paths:
        return paths.index(name)
    if name.rpartition("/")[0] in paths:
        return paths.index(name.rpartition("/")[0])
    rows = [i for i, path in enumerate(paths) if path.rpartition("/")[2] == name]
    if len(rows) > 1 and prim_path is not None:
        pattern = re.sub(r"^(\{ENV_REGEX_NS\}|/World/envs/env_[^/]+)/", "", prim_path)
        rows = [i for i in rows if re.fullmatch(pattern, re.sub(r"^/World/envs/env_[^/]+/", "", paths[i]))]
    if len(rows) != 1:
        found = f"{len(rows)} bodies of the scene have this name." if rows else near(name, paths).strip()
        raise ValueError(f"debug_vis: cannot place sensor body {name!r}: {found}")
    return rows[0]
