# SPDX-License-Identifier: Apache-2.0
"""What sensors look like, as arrows and points that any viewer can draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from forcelab.physics.errors import near

from .arrows import body_row, to_numpy

RGBA = tuple[float, float, float, float]


@dataclass
class DebugVisCfg:
    """How readings become lengths."""

    force_scale: float = 0.003
    """Length of a force arrow, in m per N."""
    torque_scale: float = 0.03
    """Length of a torque arrow, in m per N·m."""
    min_length: float = 0.003
    """Shorter arrows are left out, in m."""
    max_length: float = 1.5
    """Longer arrows are cut to this length, in m."""
    point_radius: float = 0.012
    """Of contact points and ray hits, in m."""
    axis_length: float = 0.15
    """Of the axes of a frame, in m."""
    opacity: float = 0.4
    """Of moving bodies while sensors are drawn, at most 1: contact points lie inside them."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < np.inf:
                raise ValueError(f"debug_vis.{field.name} must be a positive number, found {value!r}.")
        if self.opacity > 1.0:
            raise ValueError(f"debug_vis.opacity must be at most 1, found {self.opacity!r}.")

    @classmethod
    def make(cls, given: DebugVisCfg | Mapping[str, Any] | None) -> DebugVisCfg:
        """A copy of ``given``; a mapping gives some of the fields, None the defaults."""
        if given is None:
            return cls()
        if isinstance(given, DebugVisCfg):
            return replace(given)
        names = [f.name for f in fields(cls)]
        for key in given:
            if key not in names:
                raise ValueError(f"debug_vis.{key} is no setting of the drawing.{near(str(key), names)}")
        return cls(**given)

    def legend(self) -> str:
        """The scales in words."""
        return f"10 N = {1000 * self.force_scale:.3g} cm, 1 N·m = {100 * self.torque_scale:.3g} cm"


@dataclass(frozen=True)
class Arrows:
    """n arrows of one kind.

    Attributes:
        kind: What they show, for legends: "normal force".
        origin, vector: (n, 3) in m, world frame; each goes from origin to origin + vector.
        rgba: Their colour.
        labels: n texts, or none: "LF_FOOT 42 N".
        heads: 2 for torques, whose arrows have two heads.
        width: Thickness, in units of a force arrow's.
    """

    kind: str
    origin: np.ndarray
    vector: np.ndarray
    rgba: RGBA
    labels: tuple[str, ...] = ()
    heads: int = 1
    width: float = 1.0


@dataclass(frozen=True)
class Points:
    """n balls of one kind: ``pos`` (n, 3) and ``radius`` in m, world frame."""

    kind: str
    pos: np.ndarray
    rgba: RGBA
    radius: float


Drawable = Arrows | Points


class Snapshot:
    """What a picture shows of a scene at one time: poses and readings of some environments.

    Everything is copied to the host once, when it is first asked for, and nothing is written.

    Args:
        scene: The scene.
        env_ids: n numbers of environments.
        poses: (n, B, 7) of all bodies if they are known already.
    """

    def __init__(self, scene: Any, env_ids: Sequence[int], poses: np.ndarray | None = None) -> None:
        self.scene = scene
        self.env_ids = tuple(int(i) for i in env_ids)
        self.paths: list[str] = list(scene.body_paths)
        if poses is not None:
            self.poses = poses

    @cached_property
    def poses(self) -> np.ndarray:
        """(n, B, 7) position in m and quaternion (x, y, z, w) of all bodies, world frame."""
        return to_numpy(self.scene.body_poses(self.env_ids))

    def read(self, values: Any) -> np.ndarray:
        """(n, …) float64 of an (E, …) array or tensor on any device; only these environments are copied."""
        values = getattr(values, "torch", values)
        return to_numpy(values[list(self.env_ids)])

    def rows(self, names: Sequence[str], prim_path: str | None = None) -> list[int]:
        """Columns of :attr:`poses` of the bodies (or of the bodies of the shapes) that a sensor names."""
        return [body_row(name, self.paths, prim_path) for name in names]

    def origins(self, sensor: Any) -> np.ndarray:
        """(n, S, 3) where a sensor's bodies are, in m; a shape's own centre where it senses shapes."""
        names = sensor.body_names
        poses = self.poses[:, self.rows(names, getattr(sensor.cfg, "prim_path", None))]
        local = np.zeros((len(names), 3))
        if any(name not in self.paths and "/" in name for name in names):
            centres = {s.path: s.pos for s in self.scene.engine.visual_shapes() if s.path is not None}
            local = np.array([centres.get(name, (0.0, 0.0, 0.0)) for name in names])
        return poses[..., :3] + rotate(poses[..., 3:], local)


def rotate(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Vectors (…, 3) turned by quaternions (…, 4; x, y, z, w); the leading axes broadcast."""
    axis, w = quat[..., :3], quat[..., 3:]
    t = 2.0 * np.cross(axis, vector)
    return vector + w * t + np.cross(axis, t)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of quaternions (…, 4; x, y, z, w); the leading axes broadcast."""
    av, aw, bv, bw = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    vector = aw * bv + bw * av + np.cross(av, bv)
    return np.concatenate((vector, aw * bw - (av * bv).sum(axis=-1, keepdims=True)), axis=-1)


def scaled_arrows(
    kind: str,
    origin: np.ndarray,
    value: np.ndarray,
    scale: float,
    rgba: RGBA,
    cfg: DebugVisCfg,
    names: Sequence[str] = (),
    unit: str = "N",
    heads: int = 1,
) -> Arrows:
    """Arrows of ``scale`` m per unit; those that are too short, or not finite, are left out.

    Args:
        kind: What they show.
        origin, value: (…, 3) in m and in ``unit``, world frame.
        scale: m per unit.
        rgba: Colour.
        cfg: Gives the shortest and longest lengths.
        names: One per entry of the last leading axis, for the labels.
        unit: Of the value.
        heads: Of each arrow.
    """
    leading = value.shape[:-1]
    origin = np.broadcast_to(origin, value.shape).reshape(-1, 3)
    value = value.reshape(-1, 3)
    size = np.linalg.norm(value, axis=-1)
    with np.errstate(invalid="ignore"):
        shown = (size * scale >= cfg.min_length) & np.isfinite(origin).all(axis=-1)
    shown &= np.isfinite(size)
    texts: tuple[str, ...] = ()
    if names:
        all_names = np.broadcast_to(np.asarray(names, dtype=object), leading).reshape(-1)
        texts = tuple(f"{all_names[i]} {size[i]:.3g} {unit}" for i in np.flatnonzero(shown))
    length = np.minimum(size[shown] * scale, cfg.max_length)
    vector = value[shown] * (length / size[shown])[:, None]
    return Arrows(kind, origin[shown], vector, rgba, texts, heads)
