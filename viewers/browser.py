# SPDX-License-Identifier: Apache-2.0
"""A live view of a scene in a web browser."""

from __future__ import annotations

import contextlib
import errno
import io
import math
import socket
import threading
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from forcelab.physics import checks

from .debug_vis import drawing_of, kinds, sensor_drawables, shown_sensors
from .drawables import Arrows, DebugVisCfg, Drawable, Points, Snapshot
from .extras import require
from .meshes import merge, shape_mesh, sphere_mesh
from .shapes import check_shape

MAX_ENVS = 16
_MAX_LABELS = 40
_SPEEDS = {"0.1": 0.1, "0.25": 0.25, "0.5": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "unlimited": math.inf}


def _check_address(host: str, port: int) -> None:
    """The server binds in a thread of its own: an error there would be waited for without end."""
    checks.whole(port, "viewer_port", at_most=65535)
    try:
        family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except (OSError, UnicodeError, TypeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            return  # the next free port is taken
        raise ValueError(
            f"viewer_host is {host!r} and viewer_port {port}, where this machine cannot listen ({error}). Use "
            "127.0.0.1, or 0.0.0.0 to let other machines in, and a port above 1023."
        ) from None


class BrowserViewer:
    """A page with the scene, its sensors, and buttons to pause and step; it needs the extra ``viewer``.

    Works on every engine: it reads only ``scene.engine.visual_shapes()``, ``scene.body_paths``,
    ``scene.body_poses(env_ids)`` and the data of sensors, copies them to the host when it draws and not
    otherwise, and changes nothing.

    .. code-block:: python

        with BrowserViewer(env.unwrapped.scene) as viewer:
            print(viewer.url)
            while viewer.wait(env.unwrapped.step_dt):  # until Stop is pressed; keeps real time; honours Pause
                env.step(policy(obs))
                viewer.draw()

    Args:
        scene: The scene.
        num_shown: How many environments are shown at first, beginning with the chosen one.
        host: Address to listen on; ``0.0.0.0`` lets other machines connect.
        port: Port to listen on, or the next free one; 0: any.
        sensors: Sensors drawn at first; None: those with ``debug_vis=True``.
        debug_vis: Scales of what sensors show: a :class:`DebugVisCfg`, or a dictionary with some of its fields.
        fps: Most pictures per second.

    Raises:
        ImportError: The extra ``viewer`` is missing; the message says how to install it.
        ValueError: A shape, a sensor, the address or the port is wrong; the message names it.
    """

    def __init__(
        self,
        scene: Any,
        num_shown: int = 1,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        sensors: Sequence[str] | None = None,
        debug_vis: DebugVisCfg | Mapping[str, Any] | None = None,
        fps: float = 30.0,
    ) -> None:
        viser = require("viser", "The viewer in the browser")
        _check_address(host, port)
        checks.number(fps, "fps", above=0.0, unit="Hz")
        self.scene = scene
        self.debug_vis = DebugVisCfg.make(debug_vis)
        self.num_pictures = 0
        """Pictures sent so far."""
        self._interval = 1.0 / fps
        self._drawn_at = -math.inf
        self._next_step: float | None = None
        self._paused = self._stopped = False
        self._steps = 0
        self._reset = False
        self._changed = threading.Event()
        self._marks: dict[str, Any] = {}
        self._labels: list[Any] = []
        shapes = scene.engine.visual_shapes()
        paths = list(scene.body_paths)
        for i, shape in enumerate(shapes):
            check_shape(shape, i, paths)
        active = shown_sensors(scene, sensors)
        most = min(scene.num_envs, MAX_ENVS)

        with contextlib.redirect_stdout(io.StringIO()):  # a banner
            self.server = viser.ViserServer(host=host, port=port, verbose=False)
        try:
            address = "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "") else host
            #: Where the page is.
            self.url = f"http://{address}:{self.server.get_port()}"
            self._add_shapes(shapes, paths)
            self._add_controls(max(1, min(num_shown, most)), most, active)
            self.server.initial_camera.position = (2.2, 2.2, 1.4)
            self.server.initial_camera.look_at = (0.0, 0.0, 0.2)
            self.server.initial_camera.fov = math.radians(50.0)
            self.draw(force=True)
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ building
    def _add_shapes(self, shapes: Sequence[Any], paths: list[str]) -> None:
        page = self.server.scene
        page.set_up_direction("+z")
        page.configure_default_lights(enabled=False)
        page.configure_environment_map(None)
        page.add_light_hemisphere(
            "/lights/sky", sky_color=(255, 255, 255), ground_color=(150, 155, 165), intensity=1.6
        )
        page.add_light_directional(
            "/lights/sun", color=(255, 250, 240), intensity=1.8, position=(-3.0, -2.5, 8.0), cast_shadow=True
        )
        #: Moves so that what is looked at stays at the page's origin, around which the camera turns.
        self._world = page.add_frame("/world", show_axes=False)
        shapes = [s for s in shapes if s.rgba[3] > 0.0]
        for i, shape in enumerate(s for s in shapes if s.body is None):
            name = f"/world/static/{i}"
            if shape.kind == "plane":
                page.add_grid(
                    name,
                    infinite_grid=True,
                    fade_distance=30.0,
                    plane_color=(225, 229, 235),
                    plane_opacity=1.0,
                    shadow_opacity=0.25,
                    position=shape.pos,
                    wxyz=np.roll(shape.quat, 1),
                )
            else:
                vertices, faces = shape_mesh(shape)
                page.add_mesh_simple(
                    name, vertices.astype(np.float32), faces.astype(np.uint32), color=_bytes(shape.rgba)
                )
        # One node per body and colour holds the body in every environment shown.
        self._bodies: list[tuple[int, float, Any]] = []
        self._followed = None
        zero = np.zeros((1, 3), dtype=np.float32), np.array([[1, 0, 0, 0]], dtype=np.float32)
        for column, path in enumerate(paths):
            colors: dict[tuple[float, ...], list[Any]] = {}
            for shape in shapes:
                if shape.body == path and shape.kind != "plane":
                    colors.setdefault(tuple(shape.rgba), []).append(shape_mesh(shape))
            if colors and self._followed is None:
                self._followed = column
            for k, (rgba, meshes) in enumerate(colors.items()):
                vertices, faces = merge(meshes)
                handle = page.add_batched_meshes_simple(
                    f"/world/{path}/{k}",
                    vertices.astype(np.float32),
                    faces.astype(np.uint32),
                    batched_wxyzs=zero[1],
                    batched_positions=zero[0],
                    batched_colors=np.array(_bytes(rgba), dtype=np.uint8),
                    opacity=float(rgba[3]),
                    lod="off",
                )
                self._bodies.append((column, float(rgba[3]), handle))

    def _add_controls(self, shown: int, most: int, active: list[str]) -> None:
        gui = self.server.gui
        gui.configure_theme(show_share_button=False)
        self._status = gui.add_markdown("")
        self._pause = gui.add_button("Pause")
        self._step = gui.add_button("One step", disabled=True)
        again = gui.add_button("Reset")
        stop = gui.add_button("Stop")
        self._pause.on_click(lambda _: self.resume() if self._paused else self.pause())
        self._step.on_click(lambda _: self.step())
        again.on_click(lambda _: self._request_reset())
        stop.on_click(lambda _: self.stop())
        self._speed = gui.add_dropdown(
            "Speed", tuple(_SPEEDS), initial_value="1", hint="Times real time, at most"
        )
        last = self.scene.num_envs - 1
        self._env = gui.add_slider("Environment", 0, max(last, 1), 1, 0, disabled=last == 0)
        self._shown = gui.add_slider("How many", 1, max(most, 2), 1, shown, disabled=most == 1)
        self._follow = gui.add_checkbox("Follow the robot", True)
        self._boxes: dict[str, Any] = {}
        opacity = self.debug_vis.opacity if active else 1.0
        self._opacity = gui.add_slider("Opacity", 0.1, 1.0, 0.05, opacity, hint="Of the bodies")
        controls = [self._opacity, self._env, self._shown, self._follow]
        with gui.add_folder("Sensors"):
            for name, sensor in self.scene.sensors.items() if hasattr(self.scene, "sensors") else ():
                known = drawing_of(sensor) is not None
                self._boxes[name] = gui.add_checkbox(
                    name,
                    known and name in active,
                    disabled=not known,
                    hint=type(sensor).__name__ + ("" if known else " has no drawing"),
                )
            self._legend = gui.add_html("")
            self._values = gui.add_checkbox("Values", False, hint="Write values beside the arrows")
            scale = 1000.0 * self.debug_vis.force_scale, 100.0 * self.debug_vis.torque_scale
            self._force = gui.add_number("cm per 10 N", scale[0], min=0.01, step=0.1)
            self._torque = gui.add_number("cm per 1 N·m", scale[1], min=0.01, step=0.1)
        controls += [*self._boxes.values(), self._values, self._force, self._torque]
        for control in controls:
            control.on_update(lambda _: self._changed.set())

    # ------------------------------------------------------------------ control
    @property
    def env_ids(self) -> tuple[int, ...]:
        """Environments shown; the chosen one first."""
        first = min(int(self._env.value), self.scene.num_envs - 1)
        count = min(int(self._shown.value), self.scene.num_envs, MAX_ENVS)
        return tuple((first + i) % self.scene.num_envs for i in range(count))

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def stopped(self) -> bool:
        """Stop was pressed."""
        return self._stopped

    def pause(self) -> None:
        """Let :meth:`wait` block."""
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        self._paused = paused
        self._steps = 0
        self._next_step = None
        self._pause.label = "Resume" if paused else "Pause"
        self._step.disabled = not paused
        self._changed.set()

    def step(self) -> None:
        """Let one step pass while paused."""
        self._steps += 1
        self._changed.set()

    def stop(self) -> None:
        """Let :meth:`wait` return False."""
        self._stopped = True
        self._changed.set()

    def _request_reset(self) -> None:
        self._reset = True
        self._steps += 1  # a paused simulation shows it
        self._changed.set()

    def take_reset(self) -> bool:
        """Whether Reset was pressed since the last call; the caller resets its environments."""
        taken, self._reset = self._reset, False
        return taken

    def wait(self, dt: float) -> bool:
        """Before a step of ``dt`` s: keep real time (or the chosen speed); while paused, block and redraw.

        Returns:
            Whether to go on; False after Stop.
        """
        while self._paused and self._steps == 0 and not self._stopped:
            if self._changed.wait(0.1):
                self.draw(force=True)
        if self._stopped:
            return False
        if self._paused:
            self._steps -= 1
            return True
        now = clock.perf_counter()
        due = now if self._next_step is None else self._next_step
        if due > now:
            clock.sleep(due - now)
        # A slow simulation is not made up for later.
        self._next_step = max(due, now - 0.1) + dt / _SPEEDS[str(self._speed.value)]
        return not self._stopped

    # ------------------------------------------------------------------ drawing
    def draw(self, text: str = "", force: bool = False) -> bool:
        """Send the scene as it is now, unless the last picture is younger than 1 / ``fps``.

        Args:
            text: For the panel, in Markdown.
            force: Send it in any case.

        Returns:
            Whether it was sent.
        """
        now = clock.perf_counter()
        if not (force or self._paused or self._changed.is_set()) and now - self._drawn_at < self._interval:
            return False
        self._drawn_at = now
        self._changed.clear()
        snapshot = Snapshot(self.scene, self.env_ids)
        cfg = replace(
            self.debug_vis,
            force_scale=max(float(self._force.value), 1e-3) / 1000.0,
            torque_scale=max(float(self._torque.value), 1e-3) / 100.0,
        )
        names = [name for name, box in self._boxes.items() if box.value]
        drawn = sensor_drawables(snapshot, names, cfg)
        if text:
            self._text = text
        with self.server.atomic():
            self._place(snapshot)
            used: set[str] = set()
            legend: dict[str, tuple[float, ...]] = {}
            labels: list[tuple[np.ndarray, str]] = []
            for sensor, items in drawn.items():
                legend.update(kinds(items))
                for item in items:
                    self._mark(f"/world/sensors/{sensor}/{item.kind.replace(' ', '_')}", item, used)
                    if isinstance(item, Arrows):
                        labels += zip(item.origin + item.vector, item.labels)
            for name in set(self._marks) - used:
                self._marks[name].visible = False
            self._write(labels if self._values.value else [])
            self._show_legend(legend, cfg)
            state = "Paused. " if self._paused else ""
            self._status.content = state + getattr(self, "_text", "")
        self.num_pictures += 1
        return True

    def _place(self, snapshot: Snapshot) -> None:
        poses = snapshot.poses
        if not np.isfinite(poses).all():
            self._text = "Some poses are not finite."
            poses = np.nan_to_num(poses, nan=0.0, posinf=0.0, neginf=0.0)
        opacity = float(self._opacity.value)
        for column, own, handle in self._bodies:
            handle.batched_positions = poses[:, column, :3].astype(np.float32)
            handle.batched_wxyzs = np.roll(poses[:, column, 3:], 1, axis=-1).astype(np.float32)
            if handle.opacity != own * opacity:
                handle.opacity = own * opacity
        if self._followed is not None and self._follow.value:
            centre = poses[0, self._followed, :3] * (1.0, 1.0, 0.0)
            self._world.position = -centre

    def _mark(self, name: str, item: Drawable, used: set[str]) -> None:
        """Update, or add, the node of one kind of one sensor."""
        count = len(item.pos) if isinstance(item, Points) else len(item.origin)
        if count == 0:
            return
        used.add(name)
        handle = self._marks.get(name)
        if isinstance(item, Points):
            pos = item.pos.astype(np.float32)
            turn = np.tile(np.array([[1, 0, 0, 0]], dtype=np.float32), (count, 1))
            if handle is None:
                vertices, faces = sphere_mesh(item.radius)
                self._marks[name] = self.server.scene.add_batched_meshes_simple(
                    name,
                    vertices.astype(np.float32),
                    faces.astype(np.uint32),
                    batched_wxyzs=turn,
                    batched_positions=pos,
                    batched_colors=np.array(_bytes(item.rgba), dtype=np.uint8),
                    lod="off",
                    cast_shadow=False,
                )
                return
            if len(handle.batched_positions) != count:
                handle.batched_wxyzs = turn
            handle.batched_positions = pos
        else:
            tips = item.origin + item.vector
            segments = np.stack((item.origin, tips), axis=1)
            if item.heads == 2:
                # The second head sits behind the first: a shorter arrow over the same shaft.
                length = np.linalg.norm(item.vector, axis=-1, keepdims=True)
                second = item.origin + item.vector * np.maximum(0.5, 1.0 - 0.04 / np.maximum(length, 1e-6))
                segments = np.concatenate((segments, np.stack((item.origin, second), axis=1)))
            points = segments.astype(np.float32)
            if handle is None:
                self._marks[name] = self.server.scene.add_arrows(
                    name,
                    points,
                    np.array(_bytes(item.rgba), dtype=np.uint8),
                    shaft_radius=0.007 * item.width,
                    head_radius=0.018 * item.width,
                    head_length=0.04 * item.width,
                )
                return
            handle.points = points
        if not handle.visible:
            handle.visible = True

    def _write(self, labels: list[tuple[np.ndarray, str]]) -> None:
        labels = labels[:_MAX_LABELS]
        while len(self._labels) < len(labels):
            self._labels.append(
                self.server.scene.add_label(f"/world/labels/{len(self._labels)}", "", font_screen_scale=0.7)
            )
        for i, handle in enumerate(self._labels):
            if i < len(labels):
                handle.position, handle.text = labels[i]
            if handle.visible != (i < len(labels)):
                handle.visible = i < len(labels)

    def _show_legend(self, legend: Mapping[str, Sequence[float]], cfg: DebugVisCfg) -> None:
        rows = [
            f'<span style="color:rgb{_bytes(rgba)}">&#9632;</span> {kind}' for kind, rgba in legend.items()
        ]
        text = '<div style="font-size:0.8em;padding:0 1em">' + "<br>".join([*rows, cfg.legend()]) + "</div>"
        if text != self._legend.content:
            self._legend.content = text

    def close(self) -> None:
        """Stop the server; safe to repeat."""
        self._stopped = True
        server, self.server = self.server, None
        if server is not None:
            with contextlib.redirect_stdout(io.StringIO()):
                server.stop()

    def __enter__(self) -> BrowserViewer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _bytes(rgba: Sequence[float]) -> tuple[int, int, int]:
    """Red, green, blue from 0 to 255."""
    r, g, b = (round(255 * min(max(float(v), 0.0), 1.0)) for v in rgba[:3])
    return r, g, b
