# SPDX-License-Identifier: Apache-2.0
"""Command terms: goals that the environment gives to the policy."""

from __future__ import annotations

import torch

from forcelab.managers import CommandTerm

from ._util import Env, where_env, wrap_to_pi
from .commands_cfg import NullCommandCfg, UniformVelocityCommandCfg


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
        live = torch.tensor([float(x) for x in numbers], device=device)
        self._probability = live[:2]
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

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Log the metrics of the chosen environments, clear them and draw new commands."""
        logs = super().reset(env_mask)
        self._samples.copy_(where_env(env_mask, torch.zeros_like(self._samples), self._samples))
        return logs

    def _resample_command(self, env_mask: torch.Tensor | None) -> None:
        u = torch.rand((self.num_envs, 6), device=self.bounds.device)
        drawn = torch.lerp(self.bounds[0], self.bounds[1], u[:, :4])
        self._drawn.copy_(where_env(env_mask, drawn, self._drawn))
        self._kind.copy_(where_env(env_mask, u[:, 4:] < self._probability, self._kind))

    def _update_command(self) -> None:
        if self.cfg.heading_command:
            error = wrap_to_pi(self.heading_target - self._robot.data.heading_w)
            low, high = self.bounds[:, 2].unbind()
            rate = torch.clamp(self.cfg.heading_control_stiffness * error, low, high)
            self.vel_command_b[:, 2] = torch.where(self.is_heading_env, rate, self.vel_command_b[:, 2])
        self.vel_command_b.masked_fill_(self.is_standing_env[:, None], 0.0)

    def _update_metrics(self) -> None:
        data = self._robot.data
        planar = torch.linalg.vector_norm(self.vel_command_b[:, :2] - data.root_lin_vel_b[:, :2], dim=1)
        yaw = (self.vel_command_b[:, 2] - data.root_ang_vel_b[:, 2]).abs()
        # Running mean: m += (x - m) / n.
        self._samples += 1.0
        self._errors.lerp_(torch.stack((planar, yaw), dim=1), 1.0 / self._samples)
