# SPDX-License-Identifier: Apache-2.0
"""Command terms: goals that the environment gives to the policy."""

from __future__ import annotations

import math
from typing import Any

import torch

from forcelab.managers import CommandTerm, SceneEntityCfg
from forcelab.physics import checks
from forcelab.physics.launch import launch

from . import command_kernels
from ._util import Env, body_point, step_normal_force, where_env
from .commands_cfg import NullCommandCfg, SlidingPressCommandCfg, UniformVelocityCommandCfg


class NullCommand(CommandTerm):
    """No command; reading it raises RuntimeError."""

    cfg: NullCommandCfg

    @property
    def command(self) -> torch.Tensor:
        """Raises RuntimeError."""
        raise RuntimeError("NullCommand gives no command; no term may read it.")

    def _resample_command(self, env_mask: torch.Tensor) -> None:
        pass

    def _update_command(self) -> None:
        pass

    def _update_metrics(self) -> None:
        pass


class UniformVelocityCommand(CommandTerm):
    """Velocity (v_x, v_y, w_z) in the root frame, drawn uniformly and held until its time is over.

    Per draw an environment stands (command 0) with probability ``rel_standing_envs`` and follows a heading
    with probability ``rel_heading_envs``; in the latter case w_z is computed anew at every step.

    Metrics, mean over the steps of an episode: ``error_vel_xy`` (m/s) and ``error_vel_yaw`` (rad/s), the
    distance between command and actual velocity in the root frame.

    While the environment runs, ``cfg.ranges.lin_vel_x`` and the like, ``cfg.rel_heading_envs``,
    ``cfg.rel_standing_envs`` and ``cfg.heading_control_stiffness`` are device tensors; assigning numbers
    writes into them, and the next draw uses them.

    Attributes:
        vel_command_b: (E, 3) the command, m/s, m/s, rad/s. Writable: what is written lasts until the next
            draw.
        heading_target: (E,) rad, world frame.
        is_heading_env, is_standing_env: (E,) bool.
        bounds: (2, 4) of the draws: row 0 lower, row 1 upper; columns ``RANGES``. ``cfg.ranges`` are its
            views.
    """

    RANGES = ("lin_vel_x", "lin_vel_y", "ang_vel_z", "heading")

    cfg: UniformVelocityCommandCfg

    def __init__(self, cfg: UniformVelocityCommandCfg, env: Env) -> None:
        if cfg.heading_command and cfg.ranges.heading is None:
            raise ValueError(
                "UniformVelocityCommandCfg: heading_command=True needs ranges.heading, which is None. "
                "Set it, e.g. to (-3.14, 3.14)."
            )
        super().__init__(cfg, env)
        num_envs, device = env.num_envs, env.device
        self._robot = env.scene[cfg.asset_name]
        self.bounds = torch.zeros(2, len(self.RANGES), device=device)
        for column, name in enumerate(self.RANGES):
            pair = getattr(cfg.ranges, name)
            if pair is not None:
                self.bounds[0, column], self.bounds[1, column] = float(pair[0]), float(pair[1])
                # Around the live assignment, which would write into the tensor of a cfg already in use.
                object.__setattr__(cfg.ranges, name, self.bounds[:, column])
        numbers = (cfg.rel_heading_envs, cfg.rel_standing_envs, cfg.heading_control_stiffness)
        live = self._settings = torch.tensor([float(x) for x in numbers], device=device)
        object.__setattr__(cfg, "rel_heading_envs", live[0])
        object.__setattr__(cfg, "rel_standing_envs", live[1])
        object.__setattr__(cfg, "heading_control_stiffness", live[2])

        # One buffer for what one draw fills: v_x, v_y, w_z, heading.
        self._drawn = torch.zeros(num_envs, 4, device=device)
        self._kind = torch.zeros(num_envs, 2, dtype=torch.bool, device=device)
        self.vel_command_b, self.heading_target = self._drawn[:, :3], self._drawn[:, 3]
        self.is_heading_env, self.is_standing_env = self._kind[:, 0], self._kind[:, 1]

        self._errors = torch.zeros(num_envs, 2, device=device)
        self._samples = torch.zeros(num_envs, 1, device=device)
        self.metrics["error_vel_xy"], self.metrics["error_vel_yaw"] = self._errors[:, 0], self._errors[:, 1]

    @property
    def command(self) -> torch.Tensor:
        """(E, 3) m/s, m/s, rad/s in the root frame."""
        return self.vel_command_b

    def tracking(self) -> dict[str, tuple[str, torch.Tensor, torch.Tensor]]:
        """Velocities forward and sideways, and the yaw rate."""
        wanted, data = self.vel_command_b, self._robot.data
        return {
            "forward velocity": ("m/s", wanted[:, 0], data.root_lin_vel_b[:, 0]),
            "sideways velocity": ("m/s", wanted[:, 1], data.root_lin_vel_b[:, 1]),
            "yaw rate": ("rad/s", wanted[:, 2], data.root_ang_vel_b[:, 2]),
        }

    def _launch(self, kernel: Any, arguments: list[Any]) -> None:
        launch(self._env.scene.engine, kernel, self.num_envs, arguments)

    def _clear_metrics(self, env_mask: torch.Tensor) -> None:
        self._errors.masked_fill_(env_mask[:, None], 0.0)
        self._samples.masked_fill_(env_mask[:, None], 0.0)

    def _resample_command(self, env_mask: torch.Tensor) -> None:
        draw = torch.rand((self.num_envs, 6), device=self.bounds.device)
        arguments = [env_mask, draw, self.bounds, self._settings[:2], self._drawn, self._kind]
        self._launch(command_kernels.draw_velocity, arguments)

    def _update_command(self) -> None:
        follows = int(bool(self.cfg.heading_command))
        heading = self._robot.data.heading_w if follows else self.heading_target
        arguments = [follows, heading, self._settings, self.bounds, self._kind, self._drawn]
        self._launch(command_kernels.follow_heading, arguments)

    def _update_metrics(self) -> None:
        data = self._robot.data
        arguments = [self._drawn, data.root_lin_vel_b, data.root_ang_vel_b, self._samples, self._errors]
        self._launch(command_kernels.velocity_errors, arguments)


class SlidingPressCommand(CommandTerm):
    """Press with a normal force while a point of the robot follows a target that moves in a horizontal patch.

    The target point moves at constant speed and turns away from the edges of the patch with a bounded
    acceleration. At each step it is where the robot's point shall be at the END of the next step. The force goes
    from one draw to the next at a bounded rate. An episode starts with the target under the point, at rest.

    Command (E, 5): normal force, N; velocity of the target along x and y, m/s; target minus point along x and y,
    m; world axes.

    While the environment runs, ``cfg.ranges.force``, ``cfg.ranges.speed``, ``cfg.force_rate``,
    ``cfg.max_acceleration`` and ``cfg.settle_time`` are device tensors; assigning numbers writes into them.

    Metrics, mean over the steps of an episode after ``settle_time``: ``force_error_percent`` (|force - command|
    in percent of the command; the force is the mean over the environment step), ``path_error`` (distance of
    point and target in the plane, m), ``slide_speed`` (of the point in the plane, m/s) and ``contact_percent``
    (steps with contact).

    Attributes:
        force: (E,) commanded normal force, N.
        target_pos: (E, 2) target point relative to the environment's origin, m.
        target_vel: (E, 2) its velocity, m/s.
        measured_force: (E,) normal force of the last step, N.
    """

    cfg: SlidingPressCommandCfg

    METRICS = ("force_error_percent", "path_error", "slide_speed", "contact_percent")

    def __init__(self, cfg: SlidingPressCommandCfg, env: Env) -> None:
        super().__init__(cfg, env)
        name, num_envs, device = type(cfg).__name__, env.num_envs, env.device
        self._body = SceneEntityCfg(cfg.asset_name, body_names=cfg.body_name)
        self._sensor = SceneEntityCfg(cfg.sensor_name)
        self._body.resolve(env.scene)
        self._sensor.resolve(env.scene)
        self._point = torch.tensor(checks.vector(cfg.point, 3, f"{name}.point"), device=device)
        patch = checks.vector(cfg.patch, 4, f"{name}.patch")
        if not (patch[0] < patch[1] and patch[2] < patch[3]):
            raise ValueError(
                f"{name}.patch is {cfg.patch!r}; it must be (x lower, x upper, y lower, y upper), lower below upper."
            )
        self._patch = torch.tensor([[patch[0], patch[2]], [patch[1], patch[3]]], device=device)
        for field in ("force_rate", "max_acceleration", "settle_time"):
            value = getattr(cfg, field)
            value = value.item() if isinstance(value, torch.Tensor) else value
            above = None if field == "settle_time" else 0.0
            live = torch.tensor(
                checks.number(value, f"{name}.{field}", at_least=0.0, above=above), device=device
            )
            object.__setattr__(cfg, field, live)
        #: (2, 2) of the draws: row 0 lower, row 1 upper; columns force, speed. ``cfg.ranges`` are its views.
        self.bounds = torch.zeros(2, 2, device=device)
        for column, key in enumerate(("force", "speed")):
            low, high = checks.vector(getattr(cfg.ranges, key), 2, f"{name}.ranges.{key}")
            if not 0.0 < low <= high:
                raise ValueError(
                    f"{name}.ranges.{key} is {getattr(cfg.ranges, key)!r}; it must be (lower, upper), both positive."
                )
            self.bounds[0, column], self.bounds[1, column] = low, high
            object.__setattr__(cfg.ranges, key, self.bounds[:, column])

        self._command = torch.zeros(num_envs, 5, device=device)
        self.force = torch.zeros(num_envs, device=device)
        self.target_pos = torch.zeros(num_envs, 2, device=device)
        self.target_vel = torch.zeros(num_envs, 2, device=device)
        self.measured_force = torch.zeros(num_envs, device=device)
        self._drawn_force = torch.zeros(num_envs, device=device)
        self._heading = torch.zeros(num_envs, 2, device=device)  # velocity that the target turns to, m/s
        self._values = torch.zeros(num_envs, len(self.METRICS), device=device)
        self._means = torch.zeros(num_envs, len(self.METRICS), device=device)
        self._samples = torch.zeros(num_envs, 1, device=device)
        self._counts = torch.zeros(num_envs, dtype=torch.bool, device=device)
        for column, key in enumerate(self.METRICS):
            self.metrics[key] = self._means[:, column]

    @property
    def command(self) -> torch.Tensor:
        """(E, 5): N; m/s, m/s; m, m."""
        return self._command

    def point(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Position (E, 3) relative to the environment's origin, m, and velocity (E, 3), m/s, of the point."""
        position, velocity, _ = body_point(self._env, self._body, self._point)
        return position, velocity

    def offset(self) -> torch.Tensor:
        """Target minus point in the plane, m. (E, 2)"""
        return self.target_pos - self.point()[0][:, :2]

    def evaluation(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """The metrics' values of the last step, after ``settle_time``.

        ``sliding_force_error_percent`` is the force error in steps whose sliding speed is within ``ranges.speed``.
        """
        values = {key: (self._values[:, i], self._counts) for i, key in enumerate(self.METRICS)}
        speed = self._values[:, self.METRICS.index("slide_speed")]
        slides = self._counts & (speed >= self.bounds[0, 1]) & (speed <= self.bounds[1, 1])
        return {"sliding_force_error_percent": (values["force_error_percent"][0], slides), **values}

    def tracking(self) -> dict[str, tuple[str, torch.Tensor, torch.Tensor]]:
        """Normal force (mean over the last step), and the position in the plane."""
        position, target = self.point()[0], self.target_pos
        return {
            "normal force": ("N", self.force, self.measured_force),
            "position x": ("m", target[:, 0], position[:, 0]),
            "position y": ("m", target[:, 1], position[:, 1]),
        }

    def compute(self, dt: float | torch.Tensor) -> None:
        """Let ``dt`` s pass, draw where the time is over, and move target and force."""
        self._advance(dt)
        super().compute(dt)

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Log the metrics of the chosen environments, clear them and begin under the point."""
        logs = super().reset(env_mask)
        self._samples.copy_(where_env(env_mask, torch.zeros_like(self._samples), self._samples))
        start = torch.clamp(self.point()[0][:, :2], self._patch[0], self._patch[1])
        self.target_pos.copy_(where_env(env_mask, start, self.target_pos))
        self.target_vel.copy_(where_env(env_mask, torch.zeros_like(start), self.target_vel))
        self.force.copy_(where_env(env_mask, self._drawn_force, self.force))
        return logs

    def _resample_command(self, env_mask: torch.Tensor | None) -> None:
        u = torch.rand((self.num_envs, 3), device=self.bounds.device)
        drawn = torch.lerp(self.bounds[0], self.bounds[1], u[:, :2])
        angle = 2.0 * math.pi * u[:, 2]
        heading = drawn[:, 1:] * torch.stack((torch.cos(angle), torch.sin(angle)), dim=1)
        self._drawn_force.copy_(where_env(env_mask, drawn[:, 0], self._drawn_force))
        self._heading.copy_(where_env(env_mask, heading, self._heading))

    def _advance(self, dt: float | torch.Tensor) -> None:
        time = dt if isinstance(dt, torch.Tensor) else torch.full_like(self.force, dt)
        most = self.cfg.force_rate * time
        self.force.add_(torch.clamp(self._drawn_force - self.force, -most, most))
        time = time[:, None]
        # Where the target would come to rest if it began to brake after one more step: there it must turn.
        vel, size = self.target_vel, self._heading.abs()
        stop = self.target_pos + vel * (vel.abs() / (2.0 * self.cfg.max_acceleration) + time)
        heading = torch.where(stop >= self._patch[1], -size, self._heading)
        self._heading.copy_(torch.where(stop <= self._patch[0], size, heading))
        most = self.cfg.max_acceleration * time
        vel.add_(torch.clamp(self._heading - vel, -most, most))
        self.target_pos.add_(vel * time)

    def _update_command(self) -> None:
        self._command[:, 0] = self.force
        self._command[:, 1:3] = self.target_vel
        self._command[:, 3:] = self.offset()

    def _update_metrics(self) -> None:
        self.measured_force.copy_(step_normal_force(self._env, self._sensor))
        position, velocity = self.point()
        error = 100.0 * (self.measured_force - self.force).abs() / self.force
        path = torch.linalg.vector_norm(self.target_pos - position[:, :2], dim=1)
        speed = torch.linalg.vector_norm(velocity[:, :2], dim=1)
        contact = 100.0 * (self.measured_force > 0.0)
        self._values.copy_(torch.stack((error, path, speed, contact), dim=1))
        age = self._env.episode_length_buf * self._env.step_dt
        self._counts.copy_(age > self.cfg.settle_time)
        # Running mean over the steps that count: m += (x - m) / n.
        counts = self._counts[:, None]
        self._samples.add_(counts)
        self._means.lerp_(self._values, counts / self._samples.clamp(min=1.0))
