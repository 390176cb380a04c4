# SPDX-License-Identifier: Apache-2.0
"""Options of the commands: what the command line takes besides the task's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class TrainRun:
    """Options of ``forcelab train``."""

    resume: bool | str = field(
        default=False,
        metadata={"help": "true: continue the newest run; or a run's folder or name, or a checkpoint"},
    )
    log_root: str = field(default="logs", metadata={"help": "folder of all experiments"})


@dataclass
class _PolicyRun:
    checkpoint: str = field(
        default="latest", metadata={"help": "latest, pretrained, a file, a run's folder or name"}
    )
    log_root: str = field(default="logs", metadata={"help": "folder of all experiments"})


@dataclass
class PlayRun(_PolicyRun):
    """Options of ``forcelab play``."""

    num_envs: int = field(default=1, metadata={"help": "number of environments; up to 16 of them are drawn"})
    duration: float | None = field(default=None, metadata={"help": "simulated time in s; null: one episode"})
    command: list[float] | None = field(
        default=None, metadata={"help": "velocity command to hold, [m/s,m/s,rad/s]; null: the task's own"}
    )
    video: bool | str = field(default=False, metadata={"help": "path of an .mp4 or .gif; true: <task>.mp4"})
    frames: bool | str = field(default=False, metadata={"help": "folder for numbered pictures; true: frames"})
    plot: bool | str | list[Any] = field(
        default=False,
        metadata={"help": "time series: default, or channels such as [feet_contact.net_forces_w:LF_.*:z,…]"},
    )
    plot_file: str | None = field(default=None, metadata={"help": "path of the plot; null: <task>_plot.png"})
    plot_csv: bool | str = field(
        default=False, metadata={"help": "path for the plotted numbers; true: <task>_plot.csv"}
    )
    viewer: str | None = field(default=None, metadata={"help": "browser: a live page at a printed address"})
    viewer_host: str = field(
        default="127.0.0.1",
        metadata={"help": "address that the page listens on; 0.0.0.0: other machines too"},
    )
    viewer_port: int = field(default=8080, metadata={"help": "its port, or the next free one; 0: any"})
    debug_vis: dict[str, Any] = field(
        default_factory=dict,
        metadata={"help": "scales of drawn sensors: force_scale (m/N), torque_scale (m/(N·m)), opacity, …"},
    )
    camera: dict[str, Any] = field(
        default_factory=dict,
        metadata={"help": "camera settings: distance, azimuth, elevation, fovy, lookat, follow, …"},
    )
    width: int = field(default=640, metadata={"help": "width of pictures, pixels"})
    height: int = field(default=480, metadata={"help": "height of pictures, pixels"})
    noise: bool = field(default=False, metadata={"help": "keep the observation noise"})
    pushes: bool = field(default=False, metadata={"help": "keep events at intervals, such as pushes"})


@dataclass
class EvaluateRun(_PolicyRun):
    """Options of ``forcelab evaluate``."""

    num_envs: int = field(default=256, metadata={"help": "number of environments, hence of episodes"})
    settle: float = field(default=2.0, metadata={"help": "age of an episode from which tracking counts, s"})
    noise: bool = field(default=False, metadata={"help": "keep the observation noise"})
    pushes: bool = field(default=False, metadata={"help": "keep events at intervals, such as pushes"})
    output: str | None = field(default=None, metadata={"help": "JSON file for the numbers"})


@dataclass
class ExportRun(_PolicyRun):
    """Options of ``forcelab export``."""

    output: str = field(default="exported", metadata={"help": "folder for the files"})
    name: str = field(default="policy", metadata={"help": "stem of the files' names"})


@dataclass
class BenchRun:
    """Options of ``forcelab bench``."""

    num_envs: int | list[int] = field(
        default_factory=lambda: [64, 1024, 4096], metadata={"help": "numbers of environments, one or a list"}
    )
    steps: int = field(default=50, metadata={"help": "environment steps of one repeat"})
    repeats: int = field(default=5, metadata={"help": "repeats; medians are reported"})
    output: str | None = field(default=None, metadata={"help": "JSON file for the numbers"})


@dataclass
class BenchSensorsRun:
    """Options of ``forcelab bench sensors``."""

    num_envs: int = field(default=4096, metadata={"help": "number of environments for the cost of a step"})
    rounds: int = field(default=20, metadata={"help": "rounds in which every variant has its turn"})
    steps: int = field(default=200, metadata={"help": "physics steps of one turn"})
    creation: list[int] = field(
        default_factory=lambda: [256, 512, 1024, 2048, 4096, 8192],
        metadata={"help": "numbers of environments to create; []: none"},
    )
    output: str | None = field(default=None, metadata={"help": "JSON file for the numbers"})


@dataclass
class BenchTrainRun:
    """Options of ``forcelab bench train``."""

    seeds: list[int] = field(default_factory=lambda: [1, 2, 3], metadata={"help": "one run for each seed"})
    every: int = field(default=25, metadata={"help": "iterations between two evaluations"})
    first: int = field(default=0, metadata={"help": "iterations before the first evaluation; 0: as every"})
    episodes: int = field(default=256, metadata={"help": "environments, hence episodes, of an evaluation"})
    settle: float = field(default=2.0, metadata={"help": "age of an episode from which tracking counts, s"})
    criterion: dict[str, float] = field(
        default_factory=dict, metadata={"help": "bounds by name of the result; {}: those of evaluate"}
    )
    warm: bool = field(
        default=True, metadata={"help": "fill the kernel cache by a run that does not count first"}
    )
    output: str | None = field(default=None, metadata={"help": "JSON file for the numbers"})
