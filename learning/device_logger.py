# SPDX-License-Identifier: Apache-2.0
"""Training log that accumulates on the device and is read by the host once per iteration."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, TextIO

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import torch
from rsl_rl.utils import LogWriter
from rsl_rl.utils.logger import Logger

# Returns and lengths are averaged over at least this many finished episodes, if that many exist.
_EPISODES = 100


def check_logger(name: str) -> None:
    """Raise if the log writer ``name`` (``tensorboard`` or ``wandb``) cannot be used here.

    Raises:
        ValueError: Unknown name.
        ModuleNotFoundError: ``wandb`` is asked for and not installed.
    """
    if name not in ("tensorboard", "wandb"):
        raise ValueError(f"agent.logger={name!r} is not known. Use 'tensorboard' or 'wandb'.")
    if name == "wandb" and importlib.util.find_spec("wandb") is None:
        raise ModuleNotFoundError(
            "agent.logger=wandb needs the package wandb, which is not installed. Run `pip install wandb`, "
            "or use agent.logger=tensorboard."
        )


class DeviceLogger(Logger):
    """Replacement for rsl_rl's logger without host reads in the rollout.

    Args:
        log_dir: Folder for TensorBoard events; None writes none.
        num_envs: Number of environments.
        steps_per_iteration: Environment steps of one rollout.
        device: Device of rewards and dones.
        world_size: Number of training processes; counts in the step rate.
        enabled: Whether this process writes and prints (only global rank 0 does).
        writer: ``tensorboard`` or ``wandb``.
        project: wandb project.
        stream: Where progress is printed; None prints nothing.
    """

    def __init__(
        self,
        log_dir: str | None,
        num_envs: int,
        steps_per_iteration: int,
        device: torch.device | str,
        world_size: int = 1,
        enabled: bool = True,
        writer: str = "tensorboard",
        project: str = "forcelab",
        stream: TextIO | None = None,
    ) -> None:
        # rsl_rl's constructor only makes its own host-side buffers, which are not used here.
        self.log_dir = log_dir
        self.num_envs = num_envs
        self.device = str(device)
        self.gpu_world_size = world_size
        self.disable_logs = not enabled
        self.git_status_repos: list[str] = []
        self.writer = None
        self.tot_timesteps = 0
        self.tot_time = 0.0
        self.steps_per_iteration = steps_per_iteration
        self.last: dict[str, float] = {}
        self.progress = ProgressLine(stream) if stream is not None and enabled else None
        self._writer_name = writer
        self._project = project
        self._start_iteration: int | None = None
        self._session_times: list[float] = []
        self._recent: deque[tuple[float, float, float]] = deque()
        self._env_log: dict[str, float] = {}
        # One rollout, and what the unfinished episodes gathered before it.
        self._rewards = torch.zeros(steps_per_iteration, num_envs, device=device)
        self._dones = torch.zeros(steps_per_iteration, num_envs, dtype=torch.bool, device=device)
        self._step = 0
        self._return = torch.zeros(num_envs, device=device)
        self._length = torch.zeros(num_envs, device=device)

    def init_logging_writer(self, purge_step: int | None = None) -> None:
        """Open the writer. Entries at or after ``purge_step`` left by an earlier, killed run are hidden."""
        if self.log_dir is None or self.disable_logs or self.writer is not None:
            return
        check_logger(self._writer_name)
        if self._writer_name == "wandb":
            from rsl_rl.utils.wandb_log_writer import WandbLogWriter

            self.writer = WandbLogWriter(self.log_dir, project_name=self._project)
            return
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(log_dir=self.log_dir, flush_secs=10, purge_step=purge_step or None)  # type: ignore[assignment]

    def process_env_step(
        self,
        rewards: torch.Tensor,
        dones: torch.Tensor,
        extras: dict,
        intrinsic_rewards: torch.Tensor | None = None,
    ) -> None:
        """Add one step. ``rewards`` (E,), ``dones`` (E,) bool; ``extras["log"]`` is kept when present."""
        self._rewards[self._step] = rewards if intrinsic_rewards is None else rewards + intrinsic_rewards
        self._dones[self._step] = dones > 0
        self._step += 1
        if "log" in extras:
            self._env_log = {
                key: float(value.float().mean()) if isinstance(value, torch.Tensor) else float(value)
                for key, value in extras["log"].items()
            }

    def log(  # type: ignore[override]
        self,
        it: int,
        total_it: int,
        collect_time: float,
        learn_time: float,
        loss_dict: Mapping[str, float],
        learning_rate: float,
        action_std: torch.Tensor,
        rnd_weight: float | None = None,
        **_: Any,
    ) -> None:
        """Read the sums, write scalars at step ``it`` (iterations completed) and print one progress line."""
        sums = self._finish_rollout()
        std = action_std.detach().float().mean().to(sums.device)
        returns, lengths, episodes, reward_sum, std = torch.cat([sums, std.reshape(1)]).tolist()
        if episodes > 0:
            self._recent.append((returns, lengths, episodes))
            while sum(e for _, _, e in self._recent) - self._recent[0][2] >= _EPISODES:
                self._recent.popleft()
        steps = self.steps_per_iteration * self.num_envs * self.gpu_world_size
        seconds = max(collect_time + learn_time, 1e-9)
        self.tot_timesteps += steps
        self.tot_time += seconds
        if self._start_iteration is None:
            self._start_iteration = it
        else:
            # The first iteration of a session contains kernel loading and would spoil the time left.
            self._session_times.append(seconds)

        scalars: dict[str, float] = {}
        count = sum(e for _, _, e in self._recent)
        if count:
            scalars["Train/mean_reward"] = sum(r for r, _, _ in self._recent) / count
            scalars["Train/mean_episode_length"] = sum(n for _, n, _ in self._recent) / count
        scalars["Train/mean_step_reward"] = reward_sum / (self.steps_per_iteration * self.num_envs)
        scalars.update({f"Loss/{name}": float(value) for name, value in loss_dict.items()})
        scalars["Loss/learning_rate"] = float(learning_rate)
        scalars["Policy/mean_std"] = std
        scalars["Perf/total_fps"] = steps / seconds
        scalars["Perf/collection_time"] = collect_time
        scalars["Perf/learning_time"] = learn_time
        if rnd_weight is not None:
            scalars["Rnd/weight"] = float(rnd_weight)
        for key, value in self._env_log.items():
            scalars[key if "/" in key else f"Episode/{key}"] = value
        self._env_log = {}
        self.last = scalars
        if self.disable_logs:
            return
        if self.writer is not None:
            for key, value in scalars.items():
                if not math.isnan(value):
                    self.writer.add_scalar(key, value, it)
        if self.progress is not None:
            recent = self._session_times[-20:] or [seconds]
            left = (total_it - it) * sum(recent) / len(recent)
            self.progress.show(self._line(it, total_it, scalars, left), last=it >= total_it)

    def _finish_rollout(self) -> torch.Tensor:
        """(4,) sums over the episodes that ended: returns, lengths, their number; and the sum of all rewards."""
        steps = self._step
        self._step = 0
        rewards = self._rewards[:steps].nan_to_num()
        dones = self._dones[:steps]
        times = torch.arange(1, steps + 1, device=rewards.device).unsqueeze(1).expand_as(rewards)
        # What has been gathered up to and including each step, and up to the last end before it.
        gathered = self._return + rewards.cumsum(0)
        ages = self._length + times
        last_end = torch.where(dones, times, 0).cummax(0).values
        before = torch.cat([torch.zeros_like(last_end[:1]), last_end[:-1]])
        returns = gathered - self._at(gathered, before)
        lengths = ages - self._at(ages, before)
        zero = torch.zeros_like(rewards)
        sums = torch.stack(
            [
                torch.where(dones, returns, zero).sum(),
                torch.where(dones, lengths, zero).sum(),
                dones.sum().to(rewards.dtype),
                rewards.sum(),
            ]
        )
        self._return.copy_((gathered - self._at(gathered, last_end))[-1])
        self._length.copy_((ages - self._at(ages, last_end))[-1])
        return sums

    @staticmethod
    def _at(values: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """``values`` (T, E) at ``times`` (T, E), which count from 1; 0 where the time is 0."""
        return torch.where(times > 0, values.gather(0, (times - 1).clamp(min=0)), 0.0)

    def _line(self, it: int, total: int, scalars: Mapping[str, float], left: float) -> str:
        reward = scalars.get("Train/mean_reward")
        length = scalars.get("Train/mean_episode_length")
        parts = [
            f"iteration {it}/{total}",
            f"{_short(scalars['Perf/total_fps'])} env steps/s",
            "reward ..." if reward is None else f"reward {reward:.2f}",
            "episode ..." if length is None else f"episode {length:.0f} steps",
            f"time left {_clock(left)}",
        ]
        return " | ".join(parts)

    def stop_logging_writer(self) -> None:
        """Finish the progress line and close the writer."""
        if self.progress is not None:
            self.progress.close()
        if isinstance(self.writer, LogWriter):
            self.writer.stop()
        elif self.writer is not None:
            self.writer.close()
        self.writer = None

    def state_dict(self) -> dict[str, Any]:
        """Running totals and unfinished episodes; small host copies."""
        return {
            "timesteps": self.tot_timesteps,
            "time": self.tot_time,
            "recent": [list(entry) for entry in self._recent],
            "return": self._return.cpu().clone(),
            "length": self._length.cpu().clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any], episodes: bool = True) -> None:
        """Restore :meth:`state_dict`. ``episodes=False`` leaves the unfinished episodes at zero."""
        self.tot_timesteps = int(state["timesteps"])
        self.tot_time = float(state["time"])
        self._recent = deque((float(r), float(n), float(e)) for r, n, e in state["recent"])
        if episodes and state["return"].shape == self._return.shape:
            self._return.copy_(state["return"])
            self._length.copy_(state["length"])


class ProgressLine:
    """One line that renews itself on a terminal; elsewhere a line now and then.

    Args:
        stream: Text stream to write to.
        interval: Seconds between two lines when the stream is no terminal.
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 5.0) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.interval = interval
        self._terminal = bool(getattr(self.stream, "isatty", lambda: False)())
        self._width = 0
        self._shown_at = -math.inf
        self._open = False

    def show(self, text: str, last: bool = False) -> None:
        """Show ``text``; ``last`` shows it in any case."""
        now = time.monotonic()
        if self._terminal:
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
            self._open = True
        elif last or now - self._shown_at >= self.interval:
            self.stream.write(text + "\n")
            self._shown_at = now
        self.stream.flush()

    def message(self, text: str) -> None:
        """Print a whole line without disturbing the renewing one."""
        self.close()
        self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """End the renewing line."""
        if self._open:
            self.stream.write("\n")
            self.stream.flush()
            self._open = False
            self._width = 0


def _short(rate: float) -> str:
    if rate >= 1e6:
        return f"{rate / 1e6:.2f} M"
    if rate >= 1e4:
        return f"{rate / 1e3:.1f} k"
    return f"{rate:.0f}"


def _clock(seconds: float) -> str:
    whole = int(seconds + 0.5)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
