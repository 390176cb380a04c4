# SPDX-License-Identifier: Apache-2.0
"""Watch a trained policy: numbers on the terminal, a page in the browser, a video, single frames, a plot."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import torch

from forcelab.physics import checks
from forcelab.physics.errors import near

from .inference import open_rollout, velocity_command

_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")


def play(
    composed: Any,
    checkpoint: str | os.PathLike[str] = "latest",
    *,
    num_envs: int = 1,
    duration: float | None = None,
    command: Sequence[float] | None = None,
    video: str | os.PathLike[str] | None = None,
    frames: str | os.PathLike[str] | None = None,
    plot: bool | str | os.PathLike[str] | Sequence[Any] | None = None,
    plot_file: str | os.PathLike[str] | None = None,
    plot_csv: str | os.PathLike[str] | None = None,
    viewer: str | None = None,
    viewer_host: str = "127.0.0.1",
    viewer_port: int = 8080,
    camera: Any = None,
    debug_vis: Mapping[str, Any] | None = None,
    width: int = 640,
    height: int = 480,
    noise: bool = False,
    pushes: bool = False,
    log_root: str | os.PathLike[str] = "logs",
    make_env: Callable[[Any], Any] | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Step a policy's mean actions and show environment 0.

    Sensors whose configuration says ``debug_vis=True`` are drawn in pages, videos and pictures; if none does, the
    net forces of a contact sensor are (that on the feet, where there is one).

    Args:
        composed: :func:`forcelab.configs.compose`'s result.
        checkpoint: ``latest``, ``pretrained``, a file, a run folder or a run name.
        num_envs: Number of environments; up to 16 of them are drawn.
        duration: Simulated time in s; None: one episode, or with a viewer until it is stopped.
        command: Velocity command (m/s, m/s, rad/s) held throughout, for tasks that have one; None: the task's
        own.
        video: Path of an .mp4 or .gif to write.
        frames: Folder for numbered pictures.
        plot: Channels to plot, see :class:`forcelab.viewers.SeriesRecorder`: ``default`` (or True), one channel, or
            a list. A path of a picture stands for ``default`` with that ``plot_file``.
        plot_file: Path of the plot; None: ``<task>_plot.png``.
        plot_csv: Path for the plotted numbers as a table.
        viewer: ``browser``: a page at a printed address, see :class:`forcelab.viewers.BrowserViewer`.
        viewer_host, viewer_port: Where it listens.
        camera: Camera settings for :class:`forcelab.viewers.FrameRecorder`.
        debug_vis: Scales of what sensors show, see :class:`forcelab.viewers.DebugVisCfg`.
        width, height: Size of the pictures in pixels.
        noise: Keep the observation noise.
        pushes: Keep events of mode ``interval``.
        log_root: Folder of all experiments.
        make_env: Builds the environment from its configuration; None: ``ManagerBasedRlEnv``.
        stream: Where it is printed; None: standard output.

    Returns:
        ``times`` (T,) s; ``command``, ``measured`` (T, 3) for environment 0 with a velocity command; ``panels``
        with a plot; ``files`` that were written.

    Raises:
        CheckpointError: No such checkpoint, or it does not fit.
        ValueError: ``command`` for a task that has no velocity command; a plot channel, viewer or scale that there
            is not.
    """
    out = sys.stdout if stream is None else stream
    if duration is not None:
        checks.number(duration, "duration", above=0.0, unit="s")
    if viewer not in (None, "none", "browser"):
        raise ValueError(f"viewer={viewer!r} is no viewer.{near(str(viewer), ['browser', 'none'])}")
    channels, plot_file = _what_to_plot(plot, plot_file, plot_csv, f"{composed.task}_plot.png")
    # Not after minutes of playing.
    if video is not None and Path(video).suffix.lower() not in (".mp4", ".gif"):
        raise ValueError(f"video={str(video)!r} must end in .mp4 or .gif.")
    if channels is not None and Path(plot_file).suffix.lower() not in _PICTURES:
        raise ValueError(f"plot_file={str(plot_file)!r} must end in one of {', '.join(_PICTURES)}.")
    rollout = open_rollout(
        composed,
        checkpoint,
        num_envs=num_envs,
        log_root=log_root,
        noise=noise,
        interval_events=pushes,
        command=command,
        make_env=make_env,
    )
    env, base, policy = rollout.env, rollout.base, rollout.policy
    recorder = page = series = None
    try:
        if channels is not None:
            from forcelab.viewers import SeriesRecorder

            series = SeriesRecorder(base, channels)
        shown = min(num_envs, 16)
        if video is not None or frames is not None:
            from forcelab.viewers import FrameRecorder

            recorder = FrameRecorder(
                base.scene, range(shown), width=width, height=height, camera=camera, debug_vis=debug_vis
            )
        if viewer == "browser":
            from forcelab.viewers import BrowserViewer

            page = BrowserViewer(
                base.scene,
                shown,
                host=viewer_host,
                port=viewer_port,
                sensors=_drawn(base) or [n for n in [_feet_name(base)] if n],
                debug_vis=debug_vis,
            )
        steps = _num_steps(base, duration, endless=page is not None)
        data = _run(rollout, composed.task, steps, series, recorder, page, out)
        files: list[Path] = []
        if recorder is not None and video is not None:
            files.append(recorder.save_video(video, fps=data["fps"]))
        if recorder is not None and frames is not None:
            saved = recorder.save_frames(frames)
            files.append(Path(frames))
            print(f"{len(saved)} pictures in {frames}", file=out)
        if series is not None:
            from forcelab.viewers import plot_series

            data["panels"] = series.panels()
            title = f"{composed.task}, {policy.iteration} iterations"
            files.append(plot_series(series.times, data["panels"], plot_file, title, series.resets))
            if plot_csv is not None:
                files.append(series.save_csv(plot_csv))
        data["files"] = files
        for path in files:
            print(f"Wrote {path}", file=out)
        return data
    finally:
        for opened in (recorder, page):
            if opened is not None:
                opened.close()
        env.close()


def _what_to_plot(plot: Any, file: Any, csv: Any, default_file: str) -> tuple[Any, Any]:
    """Channels (None: no plot) and the picture's path."""
    if isinstance(plot, os.PathLike) or (isinstance(plot, str) and Path(plot).suffix in _PICTURES):
        if file is not None:
            raise ValueError(f"plot={str(plot)!r} and plot_file={str(file)!r} both name a picture.")
        plot, file = "default", plot
    if plot is None or plot is False:
        if file is None and csv is None:
            return None, None
        plot = "default"
    return ("default" if plot is True else plot), (default_file if file is None else file)


def _num_steps(base: Any, duration: float | None, endless: bool) -> int | None:
    if duration is not None:
        return max(1, round(duration / float(base.step_dt)))
    return None if endless else int(base.max_episode_length)


@torch.no_grad()
def _run(
    rollout: Any, task: str, steps: int | None, series: Any, recorder: Any, page: Any, out: TextIO
) -> dict[str, Any]:
    """Play ``steps`` steps, or until the page is stopped (or Ctrl-C pressed)."""
    env, base, policy = rollout.env, rollout.base, rollout.policy
    dt = float(base.step_dt)
    # At most 50 pictures per simulated second.
    stride = max(1, round(0.02 / dt))
    second = max(1, round(1.0 / dt))
    length = f"for {steps * dt:g} s" if steps is not None else "until it is stopped"
    print(f"Playing {task} {length}: {rollout.path} (iteration {policy.iteration})", file=out)
    if page is not None:
        print(f"Open {page.url} in a browser; Stop there, or Ctrl-C here, ends it.", file=out, flush=True)

    obs, _ = env.reset()
    policy.reset()
    found = velocity_command(base)
    term = base.command_manager.get_term(found[0]) if found else None
    rows: dict[str, list[torch.Tensor]] = {"command": [], "measured": []}
    falls = torch.zeros((), device=env.device)
    total = torch.zeros((), device=env.device)
    played = 0
    try:
        for step in itertools.count() if steps is None else range(steps):
            if page is not None:
                if not page.wait(dt):
                    break
                if page.take_reset():
                    obs, _ = env.reset()
                    policy.reset()
            if steps is None:  # for the last second's means only
                for kept in rows.values():
                    del kept[:-second]
            if term is not None:
                rows["command"].append(term.vel_command_b[0].clone())
            if series is not None:
                series.before_step()
            obs, reward, done, extras = env.step(policy(obs))
            policy.reset(done)
            total += reward.mean()
            falls += (done & ~extras["time_outs"]).sum()
            if found is not None:
                data = found[1].data
                velocity = torch.cat([data.root_lin_vel_b[0, :2], data.root_ang_vel_b[0, 2:3]])
                rows["measured"].append(velocity.clone())
            if series is not None:
                series.after_step(done)
            if recorder is not None and step % stride == 0:
                recorder.capture(arrows=_arrows(recorder, base))
            if page is not None:
                page.draw(_page_text(task, (step + 1) * dt, rows))
            played = step + 1
            if played % second == 0 or played == steps:
                _print_second(out, played * dt, rows, second, total, falls)
    except KeyboardInterrupt:
        if steps is not None:
            raise
    results: dict[str, Any] = {"times": [(i + 1) * dt for i in range(played)], "fps": 1.0 / (dt * stride)}
    results.update({name: torch.stack(values).cpu().numpy() for name, values in rows.items() if values})
    base.pop_logs()
    return results


def _page_text(task: str, time: float, rows: Any) -> str:
    text = f"**{task}**, {time:.1f} s"
    if rows["command"]:
        text += f"  \ncommand {_velocity(rows['command'][-1].tolist())}"
        text += f"  \nmeasured {_velocity(rows['measured'][-1].tolist())}"
    return text


def _print_second(
    out: TextIO, time: float, rows: Any, second: int, total: torch.Tensor, falls: torch.Tensor
) -> None:
    text = f"{time:6.1f} s"
    if rows["command"]:
        wanted = torch.stack(rows["command"][-second:]).mean(0).tolist()
        got = torch.stack(rows["measured"][-second:]).mean(0).tolist()
        text += "  command " + _velocity(wanted) + "  measured " + _velocity(got)
    text += f"  return {float(total):.2f}"
    if int(falls):
        text += f"  terminations {int(falls)}"
    print(text, file=out, flush=True)


def _velocity(values: Sequence[float]) -> str:
    return f"({values[0]:+.2f}, {values[1]:+.2f} m/s, {values[2]:+.2f} rad/s)"


def _drawn(base: Any) -> list[str]:
    """Sensors whose configuration asks to draw them."""
    return [name for name, sensor in base.scene.sensors.items() if sensor.cfg.debug_vis]


def _feet_name(base: Any) -> str | None:
    """The contact sensor to draw by default: one whose name says feet or foot, else the first; None without any."""
    from forcelab.sensors import ContactSensor

    names = [n for n, s in base.scene.sensors.items() if isinstance(s, ContactSensor)]
    feet = [n for n in names if "feet" in n.lower() or "foot" in n.lower()]
    return next(iter([*feet, *names]), None)


def _arrows(recorder: Any, base: Any) -> list[Any]:
    """Net forces on the feet, unless sensors are drawn anyway."""
    name = None if _drawn(base) else _feet_name(base)
    return [] if name is None else recorder.contact_arrows(base.scene[name])
