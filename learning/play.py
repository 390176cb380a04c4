# SPDX-License-Identifier: Apache-2.0
"""Watch a trained policy: numbers on the terminal, a video, single frames, a gait plot."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import torch

from forcelab.physics import checks

from .inference import open_rollout, velocity_command


def play(
    composed: Any,
    checkpoint: str | os.PathLike[str] = "latest",
    *,
    num_envs: int = 1,
    duration: float | None = None,
    command: Sequence[float] | None = None,
    video: str | os.PathLike[str] | None = None,
    frames: str | os.PathLike[str] | None = None,
    plot: str | os.PathLike[str] | None = None,
    camera: Any = None,
    width: int = 640,
    height: int = 480,
    noise: bool = False,
    pushes: bool = False,
    log_root: str | os.PathLike[str] = "logs",
    make_env: Callable[[Any], Any] | None = None,
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Step a policy's mean actions and show environment 0.

    Args:
        composed: :func:`forcelab.configs.compose`'s result.
        checkpoint: ``latest``, ``pretrained``, a file, a run folder or a run name.
        num_envs: Number of environments; up to 16 of them are drawn.
        duration: Simulated time in s; None: one episode.
        command: Velocity command (m/s, m/s, rad/s) held throughout, for tasks that have one; None: the task's
        own.
        video: Path of an .mp4 or .gif to write.
        frames: Folder for numbered pictures.
        plot: Path of a gait plot (contact and vertical force of each foot); needs a contact sensor.
        camera: Camera settings for :class:`forcelab.viewers.FrameRecorder`.
        width, height: Size of the pictures in pixels.
        noise: Keep the observation noise.
        pushes: Keep events of mode ``interval``.
        log_root: Folder of all experiments.
        make_env: Builds the environment from its configuration; None: ``ManagerBasedRlEnv``.
        stream: Where it is printed; None: standard output.

    Returns:
        ``times`` (T,) s; ``command``, ``measured`` (T, 3) for environment 0 with a velocity command;
        ``contact`` (T, S) bool, ``forces`` (T, S) N and ``names`` with a contact sensor; ``files`` that were
        written.

    Raises:
        CheckpointError: No such checkpoint, or it does not fit.
        ValueError: ``command`` or ``plot`` for a task that has no velocity command or contact sensor.
    """
    out = sys.stdout if stream is None else stream
    if duration is not None:
        checks.number(duration, "duration", above=0.0, unit="s")
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
    recorder = None
    try:
        found = velocity_command(base)
        sensor = feet_sensor(base) if plot is not None else None
        if plot is not None and sensor is None:
            raise ValueError(f"plot={str(plot)!r}: task {composed.task!r} has no contact sensor.")
        if video is not None or frames is not None:
            from forcelab.viewers import FrameRecorder

            recorder = FrameRecorder(
                base.scene, env_ids=range(min(num_envs, 16)), width=width, height=height, camera=camera
            )
        data = _run(rollout, composed.task, duration, found, sensor, recorder, video is not None, out)
        files: list[Path] = []
        if recorder is not None and video is not None:
            files.append(recorder.save_video(video, fps=data.pop("fps")))
        if recorder is not None and frames is not None:
            saved = recorder.save_frames(frames)
            files.append(Path(frames))
            print(f"{len(saved)} pictures in {frames}", file=out)
        if plot is not None:
            from forcelab.viewers import plot_gait

            velocities = {k: data[k] for k in ("command", "measured") if k in data}
            title = f"{composed.task}, {policy.iteration} iterations"
            files.append(
                plot_gait(
                    data["times"], data["contact"], data["forces"], data["names"], plot, title, **velocities
                )
            )
        data["files"] = files
        for path in files:
            print(f"Wrote {path}", file=out)
        return data
    finally:
        if recorder is not None:
            recorder.close()
        env.close()


@torch.no_grad()
def _run(
    rollout: Any,
    task: str,
    duration: float | None,
    found: tuple[str, Any] | None,
    sensor: Any,
    recorder: Any,
    for_video: bool,
    out: TextIO,
) -> dict[str, Any]:
    env, base, policy = rollout.env, rollout.base, rollout.policy
    dt = float(base.step_dt)
    steps = int(base.max_episode_length) if duration is None else max(1, round(duration / dt))
    # At most 50 pictures per simulated second.
    stride = max(1, round(0.02 / dt))
    second = max(1, round(1.0 / dt))
    print(f"Playing {task} for {steps * dt:g} s: {rollout.path} (iteration {policy.iteration})", file=out)

    obs, _ = env.reset()
    policy.reset()
    term = base.command_manager.get_term(found[0]) if found else None
    rows: dict[str, list[torch.Tensor]] = {"command": [], "measured": [], "contact": [], "forces": []}
    falls = torch.zeros((), device=env.device)
    total = torch.zeros((), device=env.device)
    for step in range(steps):
        if term is not None:
            rows["command"].append(term.vel_command_b[0].clone())
        obs, reward, done, extras = env.step(policy(obs))
        policy.reset(done)
        total += reward.mean()
        falls += (done & ~extras["time_outs"]).sum()
        if found is not None:
            data = found[1].data
            rows["measured"].append(
                torch.cat([data.root_lin_vel_b[0, :2], data.root_ang_vel_b[0, 2:3]]).clone()
            )
        if sensor is not None:
            net = sensor.data.net_forces_w[0]
            rows["contact"].append(torch.linalg.vector_norm(net, dim=-1) > 1.0)
            rows["forces"].append(net[:, 2].clone())
        if recorder is not None and step % stride == 0:
            recorder.capture(arrows=_arrows(recorder, base))
        if (step + 1) % second == 0 or step + 1 == steps:
            _print_second(out, (step + 1) * dt, rows, second, total, falls)
    results: dict[str, Any] = {"times": [(i + 1) * dt for i in range(steps)]}
    results.update({name: torch.stack(values).cpu().numpy() for name, values in rows.items() if values})
    if sensor is not None:
        results["names"] = list(sensor.body_names)
    if for_video:
        results["fps"] = 1.0 / (dt * stride)
    base.pop_logs()
    return results


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


def feet_sensor(base: Any) -> Any:
    """The contact sensor to plot: one whose name says feet or foot, else the first; None without any."""
    from forcelab.sensors import ContactSensor

    sensors = {n: s for n, s in base.scene.sensors.items() if isinstance(s, ContactSensor)}
    for name, sensor in sensors.items():
        if "feet" in name.lower() or "foot" in name.lower():
            return sensor
    return next(iter(sensors.values()), None)


def _arrows(recorder: Any, base: Any) -> list[Any]:
    sensor = feet_sensor(base)
    return [] if sensor is None else recorder.contact_arrows(sensor)
