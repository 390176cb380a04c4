# SPDX-License-Identifier: Apache-2.0
"""Drawings of sensors, by their class. Another sensor's drawing is registered with :func:`draws`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from forcelab.physics.errors import near

from .arrows import to_numpy
from .drawables import Arrows, DebugVisCfg, Drawable, Points, Snapshot, multiply, rotate, scaled_arrows

Drawing = Callable[[Any, Snapshot, DebugVisCfg], list[Drawable]]

# Told apart by people with any colour vision.
NORMAL = (0.90, 0.25, 0.08, 1.0)
FRICTION = (0.00, 0.45, 0.85, 1.0)
CONTACT_POINT = (0.98, 0.87, 0.15, 1.0)
FORCE = (0.00, 0.62, 0.45, 1.0)
TORQUE = (0.80, 0.40, 0.70, 1.0)
RAY_HIT = (0.34, 0.71, 0.95, 1.0)
AXES = ((0.86, 0.20, 0.18, 1.0), (0.15, 0.62, 0.20, 1.0), (0.16, 0.35, 0.85, 1.0))

_DRAWINGS: dict[type | str, Drawing] = {}


def draws(sensor_class: type | str) -> Callable[[Drawing], Drawing]:
    """Register how sensors of a class, and of its subclasses, are drawn.

    .. code-block:: python

        @draws(MySensor)
        def draw_my_sensor(sensor, snapshot, cfg):
            return [Points("hits", snapshot.read(sensor.data.hits_w).reshape(-1, 3), (1, 0, 0, 1), 0.01)]

    Args:
        sensor_class: The class, or its name, which does not import it.
    """

    def register(function: Drawing) -> Drawing:
        _DRAWINGS[sensor_class] = function
        return function

    return register


def drawing_of(sensor: Any) -> Drawing | None:
    """The function that draws a sensor; None when its class has none."""
    for kind in type(sensor).__mro__:
        found = _DRAWINGS.get(kind) or _DRAWINGS.get(kind.__name__)
        if found is not None:
            return found
    return None


def shown_sensors(scene: Any, names: Iterable[str] | None = None) -> list[str]:
    """Sensors to draw: those named, or those whose configuration says ``debug_vis``.

    Raises:
        ValueError: There is no such sensor; near names are listed.
    """
    sensors = getattr(scene, "sensors", {})
    if names is None:
        return [name for name, sensor in sensors.items() if getattr(sensor.cfg, "debug_vis", False)]
    chosen = list(names)
    for name in chosen:
        if name not in sensors:
            raise ValueError(f"The scene has no sensor {name!r} to draw.{near(name, sensors)}")
    return chosen


def sensor_drawables(
    snapshot: Snapshot, names: Iterable[str] | None = None, cfg: DebugVisCfg | None = None
) -> dict[str, list[Drawable]]:
    """What to draw of each sensor, from poses and readings; nothing is changed.

    Args:
        snapshot: Scene and environments.
        names: Sensors; None: those with ``debug_vis=True``.
        cfg: Scales.

    Raises:
        ValueError: There is no such sensor.
    """
    cfg = DebugVisCfg() if cfg is None else cfg
    result: dict[str, list[Drawable]] = {}
    for name in shown_sensors(snapshot.scene, names):
        sensor = snapshot.scene.sensors[name]
        drawing = drawing_of(sensor)
        result[name] = drawing(sensor, snapshot, cfg) if drawing is not None else []
    return result


def kinds(drawables: Iterable[Drawable]) -> dict[str, tuple[float, ...]]:
    """Kind → colour, each once: a legend."""
    return {item.kind: item.rgba for item in drawables}


def _reading(data: Any, *names: str) -> Any:
    """The first reading that there is; an engine that lacks one gives None or raises."""
    for name in names:
        try:
            value = getattr(data, name, None)
        except NotImplementedError:
            value = None
        if value is not None:
            return value
    return None


@draws("ContactSensor")
def draw_contact(sensor: Any, snapshot: Snapshot, cfg: DebugVisCfg) -> list[Drawable]:
    """Contact points, normal forces and friction.

    Forces of a filter column stand at its contact point where points are tracked, else at the body, as does
    the rest of the net force: what partners outside all columns exert. Arrows of a body sum to its net force.
    """
    data = sensor.data
    bodies = snapshot.origins(sensor)
    matrix_names = _column_names(sensor)
    points = _reading(data, "contact_pos_w")
    at: np.ndarray | None = None
    items: list[Drawable] = []
    if points is not None:
        at = snapshot.read(points)
        items.append(Points("contact point", _finite(at), CONTACT_POINT, cfg.point_radius))
    for kind, rgba, net_name, matrix_name in (
        ("normal force", NORMAL, "net_normal_forces_w", "normal_force_matrix_w"),
        ("friction", FRICTION, "net_friction_forces_w", "friction_force_matrix_w"),
    ):
        value, columns = _reading(data, net_name), _reading(data, matrix_name)
        parts = []
        rest = None if value is None else snapshot.read(value)
        if columns is not None:
            forces = snapshot.read(columns)
            origin = np.broadcast_to(bodies[:, :, None], forces.shape)
            if at is not None:
                origin = np.where(np.isfinite(at), at, origin)
            parts.append((origin, forces, matrix_names))
            if rest is not None:
                rest = _without_rounding(rest, forces)
        if rest is not None:
            parts.append((bodies, rest, list(sensor.body_names)))
        arrows = [
            scaled_arrows(kind, origin, force, cfg.force_scale, rgba, cfg, names)
            for origin, force, names in parts
        ]
        items += [_joined(arrows)] if arrows else []
    return items


def _without_rounding(net: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Net forces (n, S, 3) less the columns (n, S, F, 3), without what is left by rounding."""
    rest = net - columns.sum(axis=2)
    size = np.linalg.norm(net, axis=-1, keepdims=True) + np.linalg.norm(columns, axis=-1).sum(-1)[..., None]
    return np.where(np.linalg.norm(rest, axis=-1, keepdims=True) > 1e-4 * size, rest, 0.0)


def _column_names(sensor: Any) -> Any:
    """(S, F) texts "body ← partner"."""
    partners = column_names(sensor)
    return [[f"{body} ← {partner}" for partner in partners] for body in sensor.body_names]


def column_names(sensor: Any) -> list[str]:
    """Short names of a contact sensor's F filter columns: the ends of their expressions."""
    cfg = sensor.cfg
    paths = [*getattr(cfg, "filter_prim_paths_expr", ()), *getattr(cfg, "filter_shape_prim_expr", ())]
    short = [path.rstrip("/").rsplit("/", 1)[-1] for path in paths]
    return short if len(set(short)) == len(short) else paths


def _joined(arrows: Sequence[Arrows]) -> Arrows:
    first = arrows[0]
    if len(arrows) == 1:
        return first
    return Arrows(
        first.kind,
        np.concatenate([a.origin for a in arrows]),
        np.concatenate([a.vector for a in arrows]),
        first.rgba,
        tuple(label for a in arrows for label in a.labels),
        first.heads,
        first.width,
    )


def _finite(points: np.ndarray) -> np.ndarray:
    points = points.reshape(-1, 3)
    return points[np.isfinite(points).all(axis=-1)]


@draws("JointWrenchSensor")
def draw_joint_wrench(sensor: Any, snapshot: Snapshot, cfg: DebugVisCfg) -> list[Drawable]:
    """Force and torque (an arrow with two heads) that each joint applies to its child, at its anchor."""
    force, torque = _reading(sensor.data, "force"), _reading(sensor.data, "torque")
    if force is None or torque is None:
        return []
    names = list(sensor.body_names)
    robot = snapshot.scene[sensor.asset_name].path
    rows = [snapshot.paths.index(f"{robot}/{name}") for name in names]
    frames = to_numpy(sensor.joint_frame).reshape(len(names), 7)
    poses = snapshot.poses[:, rows]
    anchor = poses[..., :3] + rotate(poses[..., 3:], frames[:, :3])
    turn = multiply(poses[..., 3:], np.broadcast_to(frames[:, 3:], poses[..., 3:].shape))
    return [
        scaled_arrows(
            "joint force", anchor, rotate(turn, snapshot.read(force)), cfg.force_scale, FORCE, cfg, names
        ),
        scaled_arrows(
            "joint torque",
            anchor,
            rotate(turn, snapshot.read(torque)),
            cfg.torque_scale,
            TORQUE,
            cfg,
            names,
            "N·m",
            heads=2,
        ),
    ]


def frame_axes(pos: np.ndarray, quat: np.ndarray, cfg: DebugVisCfg) -> list[Drawable]:
    """Axes x (red), y (green), z (blue) of frames at ``pos`` (…, 3) turned by ``quat`` (…, 4; x, y, z, w)."""
    pos, quat = pos.reshape(-1, 3), quat.reshape(-1, 4)
    good = np.isfinite(pos).all(axis=-1) & np.isfinite(quat).all(axis=-1)
    pos, quat = pos[good], quat[good]
    return [
        Arrows(f"{letter} axis", pos, rotate(quat, cfg.axis_length * np.eye(3)[i]), AXES[i], width=0.5)
        for i, letter in enumerate("xyz")
    ]


@draws("Imu")
def draw_imu(sensor: Any, snapshot: Snapshot, cfg: DebugVisCfg) -> list[Drawable]:
    """Axes of the unit's frame."""
    data = sensor.data
    return frame_axes(snapshot.read(data.pos_w), snapshot.read(data.quat_w), cfg)


@draws("FrameTransformer")
def draw_frames(sensor: Any, snapshot: Snapshot, cfg: DebugVisCfg) -> list[Drawable]:
    """Axes of the source and of all targets."""
    data = sensor.data
    pos = [snapshot.read(data.source_pos_w)[:, None], snapshot.read(data.target_pos_w)]
    quat = [snapshot.read(data.source_quat_w)[:, None], snapshot.read(data.target_quat_w)]
    return frame_axes(np.concatenate(pos, axis=1), np.concatenate(quat, axis=1), cfg)


@draws("RayCaster")
def draw_rays(sensor: Any, snapshot: Snapshot, cfg: DebugVisCfg) -> list[Drawable]:
    """Where the rays hit."""
    hits = snapshot.read(sensor.data.ray_hits_w)
    return [Points("ray hit", _finite(hits), RAY_HIT, cfg.point_radius)]


@draws("IsaacContactSensor")
def draw_point_contact(sensor: Any, snapshot: Snapshot, cfg: DebugVisCfg) -> list[Drawable]:
    """The sensor's point while it is in contact."""
    poses = snapshot.poses[:, snapshot.paths.index(sensor.body_path)]
    pos = poses[:, :3] + rotate(poses[:, 3:], np.asarray(sensor.cfg.translation, dtype=np.float64))
    touching = snapshot.read(sensor.data.in_contact) > 0.5
    return [Points("in contact", pos[touching], CONTACT_POINT, 1.5 * cfg.point_radius)]
