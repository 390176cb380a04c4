# SPDX-License-Identifier: Apache-2.0
"""Pictures and videos of a scene, without a display."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from forcelab.physics.errors import near

from .arrows import Arrow, contact_arrows, to_numpy
from .camera_cfg import CameraCfg
from .debug_vis import sensor_drawables
from .drawables import Arrows, DebugVisCfg, Drawable, Snapshot
from .extras import require

MAX_ENVS = 64
_JUMP = 1.0  # m; a followed body that moves farther between two frames was reset, not moved


class FrameRecorder:
    """Draws some environments of a scene and keeps the pictures.

    Works on every engine: it reads only ``scene.engine.visual_shapes()``, ``scene.body_paths``,
    ``scene.body_poses(env_ids)`` and the data of sensors. Sensors whose configuration says ``debug_vis=True``
    are drawn (contacts, wrenches, rays, frames); nothing in the scene is changed by it. Pictures wait in a
    temporary file, so that long videos need no memory.

    .. code-block:: python

        with FrameRecorder(env.unwrapped.scene, width=640, height=480) as recorder:
            for _ in range(200):
                env.step(policy(obs))
                recorder.capture(arrows=recorder.contact_arrows(scene["feet_contact"]))
            recorder.save_video("walk.mp4", fps=50)

    Args:
        scene: The scene.
        env_ids: Environments to draw, at most 64.
        width: Of the pictures, in pixels.
        height: Of the pictures, in pixels.
        camera: A :class:`CameraCfg`, or a dictionary with some of its fields.
        debug_vis: Scales of what sensors show: a :class:`DebugVisCfg`, or a dictionary with some of its fields.

    Raises:
        GLUnavailableError: No OpenGL context can be made; the message says what to install.
        ValueError: An environment, a body or a shape is wrong; the message names it.
    """

    def __init__(
        self,
        scene: Any,
        env_ids: Sequence[int] = (0,),
        width: int = 640,
        height: int = 480,
        camera: CameraCfg | Mapping[str, Any] | None = None,
        debug_vis: DebugVisCfg | Mapping[str, Any] | None = None,
    ) -> None:
        self.debug_vis = DebugVisCfg.make(debug_vis)
        self.scene = scene
        self.env_ids = tuple(int(i) for i in env_ids)
        self.width, self.height = int(width), int(height)
        self.camera = CameraCfg.make(camera)
        self._check(getattr(scene, "num_envs", None))
        from .stage import Stage  # MuJoCo's renderer is loaded only to draw

        paths = list(scene.body_paths)
        self._stage = Stage(
            scene.engine.visual_shapes(), paths, len(self.env_ids), self.width, self.height, self.camera
        )
        self._followed = self._find_followed(paths)
        self._lookat: np.ndarray | None = None
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close())
        self.num_frames = 0
        """Pictures kept so far."""

    def _check(self, num_envs: int | None) -> None:
        if not 0 < len(self.env_ids) <= MAX_ENVS:
            raise ValueError(
                f"env_ids: between 1 and {MAX_ENVS} environments can be drawn, found {len(self.env_ids)}."
            )
        wrong = [i for i in self.env_ids if i < 0 or (num_envs is not None and i >= num_envs)]
        if wrong:
            raise ValueError(
                f"env_ids: {wrong} do not exist; the scene has environments 0 to {(num_envs or 0) - 1}."
            )
        if self.width < 16 or self.height < 16:
            raise ValueError(
                f"width and height must be at least 16 pixels, found {self.width} x {self.height}."
            )

    def _find_followed(self, paths: list[str]) -> tuple[int, int] | None:
        """(row in env_ids, body) that the camera follows."""
        if not self.camera.follow:
            return None
        env_id = self.env_ids[0] if self.camera.env_id is None else self.camera.env_id
        if env_id not in self.env_ids:
            raise ValueError(f"camera.env_id: environment {env_id} is not drawn; env_ids is {self.env_ids}.")
        if self.camera.body is None:
            return (self.env_ids.index(env_id), self._stage.drawn[0]) if self._stage.drawn else None
        if self.camera.body not in paths:
            raise ValueError(f"camera.body: {self.camera.body!r} is no body.{near(self.camera.body, paths)}")
        return self.env_ids.index(env_id), paths.index(self.camera.body)

    def capture(
        self, arrows: Sequence[Arrow] = (), keep: bool = True, sensors: Sequence[str] | None = None
    ) -> np.ndarray:
        """Draw the scene as it is now.

        Args:
            arrows: (origin (3) in m, vector (3), rgba (4), scale) each, world frame: an arrow from the origin
                to origin + scale * vector. With a force in N, ``scale`` is in m per N.
            keep: Whether the picture joins the video.
            sensors: Names of the sensors to draw; None: those with ``debug_vis=True``.

        Returns:
            (height, width, 3) uint8, a new array.

        Raises:
            ValueError: A pose is not finite, or there is no such sensor.
        """
        poses = to_numpy(self.scene.body_poses(self.env_ids))
        shown = poses[:, self._stage.drawn]
        if not np.isfinite(shown).all():
            row, column = np.argwhere(~np.isfinite(shown).all(axis=-1))[0]
            path = self.scene.body_paths[self._stage.drawn[column]]
            raise ValueError(f"The pose of {path!r} in environment {self.env_ids[row]} is not finite.")
        marks: list[Drawable] = []
        for origin, vector, rgba, scale in arrows:
            tail, along = to_numpy(origin).reshape(1, 3), float(scale) * to_numpy(vector).reshape(1, 3)
            marks.append(Arrows("arrow", tail, along, tuple(to_numpy(rgba).reshape(4))))
        snapshot = Snapshot(self.scene, self.env_ids, poses)
        drawn = sensor_drawables(snapshot, sensors, self.debug_vis)
        frame = self._stage.draw(
            poses,
            self._aim(poses),
            [*marks, *(item for items in drawn.values() for item in items)],
            arrow_width=0.006 * self.camera.distance,
            opacity=self.debug_vis.opacity if drawn else 1.0,
        )
        if keep:
            self._file.seek(0, 2)
            self._file.write(frame.tobytes())
            self.num_frames += 1
        return frame

    def _aim(self, poses: np.ndarray) -> np.ndarray:
        """(3,) point to look at, in m."""
        offset = np.asarray(self.camera.lookat, dtype=np.float64)
        if self._followed is None:
            return offset
        goal = poses[self._followed][:3] + offset
        if self._lookat is None or np.linalg.norm(goal - self._lookat) > _JUMP + self.camera.distance:
            self._lookat = goal
        else:
            self._lookat = self.camera.smoothing * self._lookat + (1.0 - self.camera.smoothing) * goal
        return self._lookat

    def contact_arrows(self, sensor: Any, env_id: int | None = None, **options: Any) -> list[Arrow]:
        """:func:`contact_arrows` with this recorder's scene; ``env_id`` None: every environment drawn."""
        ids = self.env_ids if env_id is None else (env_id,)
        return [arrow for i in ids for arrow in contact_arrows(sensor, i, scene=self.scene, **options)]

    def frames(self) -> Iterator[np.ndarray]:
        """The kept pictures, (height, width, 3) uint8 each, oldest first."""
        num_bytes = self.height * self.width * 3
        for i in range(self.num_frames):
            self._file.seek(i * num_bytes)
            pixels = np.frombuffer(self._file.read(num_bytes), dtype=np.uint8)
            yield pixels.reshape(self.height, self.width, 3).copy()

    def clear(self) -> None:
        """Forget the kept pictures, and where the camera was."""
        self._file.seek(0)
        self._file.truncate()
        self.num_frames = 0
        self._lookat = None

    def save_video(self, path: str | PathLike[str], fps: float = 50.0) -> Path:
        """Write the kept pictures as .mp4 (H.264) or .gif; parent folders are made.

        Raises:
            ImportError: The extra ``viewer`` is missing.
            ValueError: No pictures, another suffix, an odd size (mp4), or more than 50 frames/s (gif).
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in (".mp4", ".gif"):
            raise ValueError(f"save_video writes .mp4 or .gif, found {path.name!r}.")
        self._check_kept("save_video")
        if not fps > 0.0:
            raise ValueError(f"fps must be positive, found {fps}.")
        if suffix == ".gif":
            self._save_gif(path, fps)
            return path
        if self.width % 2 or self.height % 2:
            raise ValueError(f"H.264 needs an even width and height, found {self.width} x {self.height}.")
        ffmpeg = require("imageio_ffmpeg", "Writing a video")
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = ffmpeg.write_frames(
            str(path),
            (self.width, self.height),
            fps=fps,
            codec="libx264",
            macro_block_size=2,
            ffmpeg_log_level="error",
            output_params=["-crf", "20", "-preset", "medium", "-movflags", "+faststart"],
        )
        writer.send(None)
        try:
            for frame in self.frames():
                writer.send(frame)
        finally:
            writer.close()
        return path

    def _save_gif(self, path: Path, fps: float) -> None:
        if fps > 50.0:
            raise ValueError(
                f"A gif shows at most 50 frames/s, found {fps}: capture less often, or write an .mp4."
            )
        image = require("PIL.Image", "Writing a gif")
        # One palette, from pictures spread over the video: single palettes flicker.
        step = max(1, self.num_frames // 8)
        samples = [frame[::2, ::2] for i, frame in enumerate(self.frames()) if i % step == 0]
        palette = image.fromarray(np.concatenate(samples)).quantize(colors=255)
        images = [
            image.fromarray(f).quantize(palette=palette, dither=image.Dither.NONE) for f in self.frames()
        ]
        # A gif counts in 10 ms: rounding the running time keeps the speed right on average.
        ends = np.round(np.arange(1, len(images) + 1) * 100.0 / fps).astype(int)
        durations = [int(d) * 10 for d in np.diff(ends, prepend=0)]
        path.parent.mkdir(parents=True, exist_ok=True)
        images[0].save(
            path,
            save_all=True,
            append_images=images[1:],
            duration=durations,
            loop=0,
            optimize=False,
            disposal=1,
        )

    def save_frames(self, directory: str | PathLike[str]) -> list[Path]:
        """Write the kept pictures as ``frame_00000.png``, … into ``directory``, made if missing."""
        self._check_kept("save_frames")
        image = require("PIL.Image", "Writing pictures")
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        paths = []
        for i, frame in enumerate(self.frames()):
            paths.append(directory / f"frame_{i:05d}.png")
            image.fromarray(frame).save(paths[-1])
        return paths

    def _check_kept(self, what: str) -> None:
        if self._file.closed:
            raise RuntimeError(f"{what}: this recorder is closed; save before the end of its `with` block.")
        if self.num_frames == 0:
            raise ValueError(f"{what}: there are no pictures yet; call capture() first.")

    def close(self) -> None:
        """Free the OpenGL context and the kept pictures; safe to repeat."""
        self._stage.close()
        self._file.close()

    def __enter__(self) -> FrameRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
