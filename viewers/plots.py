# SPDX-License-Identifier: Apache-2.0
"""Plots of gaits and of training, as picture files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .arrows import to_numpy
from .extras import require
from .series import Line, Panel

# Told apart by people with any colour vision, and in print.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5C3E", "#444444")
_TRACKING = ("Metrics/", "error")  # tags of tracking errors start and go on like this

Source = str | PathLike[str] | Mapping[str, Any]


def _figure(rows: int, heights: Sequence[float], size: tuple[float, float]) -> tuple[Any, list[Any]]:
    """A figure that draws to files only (Agg), whatever backend the user's session has, and its axes."""
    figures = require("matplotlib.figure", "Drawing a plot")
    agg = require("matplotlib.backends.backend_agg", "Drawing a plot")
    figure = figures.Figure(figsize=size, dpi=150, layout="constrained")
    agg.FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": list(heights)})
    for axis in axes[:, 0]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=9)
        axis.grid(color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, list(axes[:, 0])


def _save(figure: Any, path: str | PathLike[str]) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.align_ylabels()
    figure.savefig(path, facecolor="white")
    return path


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """[first, one past last) of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist()))


def plot_gait(
    times: Any,
    contact: Any,
    forces: Any,
    names: Sequence[str],
    path: str | PathLike[str],
    title: str | None = None,
    command: Any = None,
    measured: Any = None,
    velocity_names: Sequence[str] = ("forward", "sideways", "yaw"),
) -> Path:
    """Gait diagram (which foot stands when) above the feet's vertical forces, and velocities if given.

    Args:
        times: (T,) increasing, in s.
        contact: (T, N) bool: foot n touches something at time t.
        forces: (T, N) vertical contact force on each foot, in N.
        names: N names, drawn from top to bottom.
        path: Of the picture; the suffix chooses the format (.png, .svg, .pdf). Parent folders are made.
        title: Above the plot.
        command: Commanded velocity: a number, (T,), or (T, K) for K of ``velocity_names``; m/s and rad/s.
        measured: Measured velocity, as ``command``.
        velocity_names: Names of the velocities' columns.

    Returns:
        The path.

    Raises:
        ImportError: The extra ``viewer`` is missing.
        ValueError: A shape does not fit; the message names it.
    """
    times = to_numpy(times).ravel()
    contact, forces = to_numpy(contact).astype(bool), to_numpy(forces)
    shape = (len(times), len(names))
    for what, array in (("contact", contact), ("forces", forces)):
        if array.shape != shape:
            raise ValueError(
                f"plot_gait: {what} must be (T, N) = {shape} for times and names, found {array.shape}."
            )
    if len(times) < 2 or np.any(np.diff(times) <= 0.0):
        raise ValueError("plot_gait: times must be at least two increasing numbers, in s.")
    series = {
        label: _columns(values, len(times), label)
        for label, values in (("command", command), ("measured", measured))
        if values is not None
    }
    panels = [
        Panel("", "in contact", kind="bars", lines=[Line(n, contact[:, i]) for i, n in enumerate(names)]),
        Panel("", "vertical force", "N", lines=[Line(n, forces[:, i]) for i, n in enumerate(names)]),
    ]
    if series:
        widest = max(values.shape[1] for values in series.values())
        what = "velocity" if widest > 1 else f"{velocity_names[0]}\nvelocity"
        panel = Panel("", what, "m/s" if widest < 3 else "m/s, rad/s")
        for label, values in series.items():
            for k in range(values.shape[1]):
                name = velocity_names[k] if k < len(velocity_names) else str(k)
                panel.lines.append(Line("" if widest == 1 else name, values[:, k], label))
        panels.append(panel)
    return plot_series(times, panels, path, title)


def plot_series(
    times: Any,
    panels: Sequence[Panel],
    path: str | PathLike[str],
    title: str | None = None,
    resets: Sequence[float] = (),
) -> Path:
    """Time series in panels above one another: lines, and bars for contacts.

    Args:
        times: (T,) increasing, in s.
        panels: As from :meth:`forcelab.viewers.SeriesRecorder.panels`; values of T samples.
        path: Of the picture; the suffix chooses the format (.png, .svg, .pdf). Parent folders are made.
        title: Above the plot.
        resets: Times to mark by a vertical line, in s.

    Returns:
        The path.

    Raises:
        ImportError: The extra ``viewer`` is missing.
        ValueError: There are fewer than two samples, or a series of another length.
    """
    times = to_numpy(times).ravel()
    if len(times) < 2 or np.any(np.diff(times) <= 0.0):
        raise ValueError("plot_series: times must be at least two increasing numbers, in s.")
    if not panels:
        raise ValueError("plot_series: there is no panel.")
    for panel in panels:
        for line in panel.lines:
            if np.shape(line.values) != times.shape:
                raise ValueError(
                    f"plot_series: {line.label!r} of {panel.title!r} has shape {np.shape(line.values)}, "
                    f"times has {times.shape}."
                )
    tall = 1.9 if len(panels) < 4 else 1.35 if len(panels) < 7 else 1.0
    heights = [0.22 * len(p.lines) + 0.25 if p.kind == "bars" else tall for p in panels]
    titles = sum(bool(p.title) for p in panels)
    figure, axes = _figure(len(panels), heights, (8.5, 1.0 + 1.25 * sum(heights) + 0.2 * titles))
    ends = np.append(times, times[-1] + np.median(np.diff(times)))  # a sample lasts until the next one
    colors: dict[str, str] = {}
    for axis, panel in zip(axes, panels):
        if panel.kind == "bars":
            _draw_bars(axis, ends, panel, colors)
        else:
            _draw_lines(axis, times, panel, colors)
        axis.set_ylabel(_wrapped(panel.axis_label), fontsize=10)
        if panel.title:
            axis.set_title(panel.title, fontsize=9, loc="left", color="#555555", pad=4)
        for time in resets:
            axis.axvline(time, color="#888888", linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    if len(resets):
        axes[0].annotate(
            "reset",
            (resets[0], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(2, -2),
            textcoords="offset points",
            fontsize=8,
            color="#666666",
            va="top",
        )
    if title:
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    axes[-1].set_xlabel("time [s]", fontsize=10)
    axes[-1].set_xlim(times[0], ends[-1])
    return _save(figure, path)


def _color(line: Line, colors: dict[str, str]) -> str:
    """One colour per body (or whatever the lines are of) throughout a figure."""
    key = line.color or line.label
    if key not in colors:
        colors[key] = COLORS[len(colors) % len(COLORS)]
    return colors[key]


def _draw_bars(axis: Any, ends: np.ndarray, panel: Panel, colors: dict[str, str]) -> None:
    count = len(panel.lines)
    for n, line in enumerate(panel.lines):
        on = np.nan_to_num(to_numpy(line.values)) > 0.5
        bars = [(ends[a], ends[b] - ends[a]) for a, b in _runs(on)]
        axis.broken_barh(bars, (count - 1 - n - 0.36, 0.72), facecolors=_color(line, colors))
    axis.set_yticks(range(count), [line.label for line in reversed(panel.lines)])
    axis.set_ylim(-0.6, count - 0.4)
    axis.grid(visible=False, axis="y")


def _draw_lines(axis: Any, times: np.ndarray, panel: Panel, colors: dict[str, str]) -> None:
    pairs = [line for line in panel.lines if line.role != "value"]
    wanted = [line for line in pairs if line.role == "command"]
    single = len(wanted) == 1
    # Colours repeat after a while; then dashes tell lines apart.
    own: dict[str, str] = {}
    used = (
        colors
        if len({line.color or line.label for line in panel.lines} | set(colors)) <= len(COLORS)
        else own
    )
    seen: dict[str, int] = {}
    for line in panel.lines:
        color, style = _color(line, used), "-"
        if line.role == "command":
            style = "--"
            color = "#222222" if single else color
        elif line.role == "value":
            style = ("-", "--", ":", "-.")[seen.setdefault(color, 0) % 4]
            seen[color] += 1
        label = line.label if line.role == "value" else f"{line.label}, {line.role}".removeprefix(", ")
        axis.plot(
            times,
            line.values,
            color=color,
            linestyle=style,
            linewidth=1.5 if line.role == "command" else 1.2,
            drawstyle="steps-post" if line.role == "command" else "default",  # commands jump
            zorder=3 if line.role == "command" else 2,
            label=label,
        )
        if panel.unit == "N" and len(panel.lines) <= 6 and line.role == "value":
            axis.fill_between(times, 0.0, line.values, color=color, alpha=0.08, linewidth=0.0)
    if len(panel.lines) > 1 or panel.lines[0].label not in panel.ylabel:
        small = len(panel.lines) > 8
        axis.legend(
            loc="upper left",
            bbox_to_anchor=(1.0, 1.05),
            fontsize=7 if small else 9,
            labelspacing=0.2 if small else 0.5,
            frameon=False,
        )


def _wrapped(label: str, width: int = 22) -> str:
    """An axis label on several lines where it is long; the unit stays with the last word."""
    lines: list[str] = []
    for part in label.split("\n"):
        words = re.split(r" (?![^\[]*\])", part)
        row = words[0]
        for word in words[1:]:
            if len(row) + 1 + len(word) > width:
                lines.append(row)
                row = word
            else:
                row += f" {word}"
        lines.append(row)
    return "\n".join(lines)


def _columns(values: Any, length: int, what: str) -> np.ndarray:
    """(T, K) from a number, (T,) or (T, K)."""
    array = to_numpy(values)
    if array.ndim == 0:
        return np.full((length, 1), float(array))
    if array.shape[0] != length or array.ndim > 2:
        raise ValueError(
            f"plot_gait: {what} must be a number, ({length},) or ({length}, K), found {array.shape}."
        )
    return array.reshape(length, -1)


def read_learning_curve(source: str | PathLike[str]) -> dict[str, Any]:
    """Read the scalars of a training run from its TensorBoard event files.

    Args:
        source: An event file, or a folder that holds some; those of a resumed run are joined, and where they
            overlap the later file wins.

    Returns:
        ``iteration`` (T,) int64; ``time`` (T,) training time in s, pauses between files left out; ``reward``
        (T,) and ``episode_length`` (T,) means over episodes; ``tracking_error`` {name: (T,)}; NaN where a
        quantity was not logged.

    Raises:
        FileNotFoundError: There is no event file.
        ValueError: The files hold no training curves.
    """
    module = require("tensorboard.backend.event_processing.event_accumulator", "Reading event files")
    source = Path(source)
    files = [source] if source.is_file() else sorted(source.glob("*tfevents*"))
    if not files:
        raise FileNotFoundError(f"There is no TensorBoard event file (*tfevents*) at {source}.")
    values: dict[str, dict[int, float]] = {}
    clock: dict[int, float] = {}
    elapsed = 0.0
    for file in files:
        events = module.EventAccumulator(str(file), size_guidance={module.SCALARS: 0})
        events.Reload()
        stamps: dict[int, float] = {}
        for tag in events.Tags()["scalars"]:
            if tag.endswith("/time"):  # the same values again, with the training time as their step
                continue
            points = events.Scalars(tag)
            values.setdefault(tag, {}).update({p.step: p.value for p in points})
            for point in points:
                stamps[point.step] = max(stamps.get(point.step, point.wall_time), point.wall_time)
        if stamps:
            first = min(stamps)
            # A resumed run repeats some iterations: its clock goes on from where its checkpoint was made.
            before = [step for step in clock if step < first]
            elapsed = clock[max(before)] if before else 0.0
            clock = {step: clock[step] for step in before}
            clock.update({step: elapsed + stamp - stamps[first] for step, stamp in stamps.items()})
    rewards = values.get("Train/mean_reward", {})
    tracked = [
        tag for tag in values if tag.startswith(_TRACKING[0]) and _TRACKING[1] in tag.rpartition("/")[2]
    ]
    if not rewards and not tracked:
        raise ValueError(f"{files[0]} has no 'Train/mean_reward'; its scalars are {sorted(values)}.")
    steps = sorted(clock)

    def column(tag: str) -> np.ndarray:
        return np.array([values.get(tag, {}).get(step, np.nan) for step in steps])

    return {
        "iteration": np.array(steps, dtype=np.int64),
        "time": np.array([clock[step] for step in steps]),
        "reward": column("Train/mean_reward"),
        "episode_length": column("Train/mean_episode_length"),
        "tracking_error": {tag.removeprefix(_TRACKING[0]): column(tag) for tag in sorted(tracked)},
    }


def plot_learning_curve(
    source: Source | Sequence[Source],
    path: str | PathLike[str],
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> Path:
    """Mean reward, episode length and tracking errors against iteration (below) and wall time (above).

    Args:
        source: A run: an event file, a folder of them, or arrays as :func:`read_learning_curve` returns them
            (``iteration`` and any of ``time``, ``reward``, ``episode_length``, ``tracking_error``). Or a list
            of runs, which are drawn over one another; the time axis is then the first run's.
        path: Of the picture; parent folders are made.
        labels: Names of the runs.
        title: Above the plot.

    Returns:
        The path.

    Raises:
        ImportError: The extra ``viewer`` is missing.
        FileNotFoundError: There is no event file.
        ValueError: There is nothing to draw, or an array has another length than ``iteration``.
    """
    one = isinstance(source, (str, PathLike, Mapping))
    sources: Sequence[Any] = [source] if one else list(source)  # type: ignore[arg-type, list-item]
    if labels is not None and len(labels) != len(sources):
        raise ValueError(f"plot_learning_curve: {len(labels)} labels for {len(sources)} runs.")
    runs = [_curves(s) for s in sources]
    panels: dict[str, str] = {}
    for key, label in (("reward", "mean reward"), ("episode_length", "episode length\n[steps]")):
        if any(key in run for run in runs):
            panels[key] = label
    if any(run["tracking_error"] for run in runs):
        panels["tracking_error"] = "tracking error"
    if not panels:
        raise ValueError("plot_learning_curve: the runs hold no reward, episode length or tracking error.")

    figure, axes = _figure(len(panels), [1.0] * len(panels), (7.5, 0.9 + 1.7 * len(panels)))
    names = list(labels) if labels is not None else [f"run {i}" for i in range(len(runs))]
    for axis, (key, ylabel) in zip(axes, panels.items()):
        lines = 0
        for i, run in enumerate(runs):
            curves = run["tracking_error"] if key == "tracking_error" else {None: run.get(key)}
            for k, (name, curve) in enumerate(curves.items()):
                if curve is None:
                    continue
                known = np.isfinite(curve)
                parts = [_with_unit(name)] if name else []
                parts += [names[i]] if len(runs) > 1 or labels is not None else []
                axis.plot(
                    run["iteration"][known],
                    curve[known],
                    # Colours tell runs apart, or the curves of a single run.
                    color=COLORS[(i if len(runs) > 1 else k) % len(COLORS)],
                    linestyle=("-", "--", ":", "-.")[k % 4 if len(runs) > 1 else 0],
                    linewidth=1.4,
                    label=", ".join(parts) or None,
                )
                lines += bool(parts)
        axis.set_ylabel(ylabel, fontsize=10)
        if key == "tracking_error":
            axis.set_ylim(bottom=0.0)
        if lines and (key == "tracking_error" or axis is axes[0]):
            axis.legend(fontsize=9, frameon=False)
    axes[-1].set_xlabel("iteration", fontsize=10)
    _time_axis(axes[0], runs[0])
    if title:
        axes[0].set_title(title, fontsize=11, loc="left")
    return _save(figure, path)


def _curves(source: Any) -> dict[str, Any]:
    """Arrays of one run, checked."""
    given = source if isinstance(source, Mapping) else read_learning_curve(source)
    if "iteration" not in given:
        raise ValueError(f"plot_learning_curve: arrays need 'iteration', found {sorted(given)}.")
    run: dict[str, Any] = {"iteration": to_numpy(given["iteration"]).ravel(), "tracking_error": {}}
    length = len(run["iteration"])
    errors = given.get("tracking_error") or {}
    named = errors.items() if isinstance(errors, Mapping) else [("", errors)]
    for key, value in [*((k, given.get(k)) for k in ("time", "reward", "episode_length")), *named]:
        if value is None:
            continue
        array = to_numpy(value).ravel()
        if len(array) != length:
            raise ValueError(f"plot_learning_curve: {key!r} has {len(array)} values for {length} iterations.")
        if not np.isfinite(array).any():
            continue
        if key in ("time", "reward", "episode_length"):
            run[key] = array
        else:
            run["tracking_error"][key] = array
    return run


def _with_unit(tag: str) -> str:
    """A tracking error's name for the legend, with the unit that its name implies."""
    words = tag.rpartition("/")[2].removeprefix("error_").split("_")
    angular = {"yaw", "ang", "heading"} & set(words)
    velocity = "vel" in words
    unit = (" [rad/s]" if angular else " [m/s]") if velocity else (" [rad]" if angular else "")
    return " ".join("velocity" if word == "vel" else word for word in words) + unit


def _time_axis(axis: Any, run: dict[str, Any]) -> None:
    """A second scale, above: the wall time at which an iteration was done."""
    if "time" not in run or len(run["time"]) < 2 or run["time"][-1] <= run["time"][0]:
        return
    steps, seconds = run["iteration"], run["time"]
    unit, name = (60.0, "min") if seconds[-1] < 3 * 3600.0 else (3600.0, "h")
    if seconds[-1] < 180.0:
        unit, name = 1.0, "s"
    # Strictly increasing, and going on at the mean rate outside: the axis's limits lie there.
    rate = (seconds[-1] - seconds[0]) / max(steps[-1] - steps[0], 1)
    grown = np.maximum.accumulate(seconds + 1e-9 * np.arange(len(seconds)))
    far = 10.0 * max(steps[-1] - steps[0], 1)
    xs = np.concatenate(([steps[0] - far], steps, [steps[-1] + far]))
    ts = np.concatenate(([grown[0] - far * rate], grown, [grown[-1] + far * rate])) / unit
    above = axis.secondary_xaxis(
        "top", functions=(lambda x: np.interp(x, xs, ts), lambda t: np.interp(t, ts, xs))
    )
    above.set_xlabel(f"wall time [{name}]", fontsize=10)
    above.tick_params(labelsize=9)


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m forcelab.viewers.plots RUN_FOLDER [PICTURE]`` draws the learning curve of a run."""
    import sys

    words = list(sys.argv[1:] if argv is None else argv)
    if not 1 <= len(words) <= 2:
        print("usage: python -m forcelab.viewers.plots RUN_FOLDER [PICTURE]", file=sys.stderr)
        return 2
    picture = words[1] if len(words) == 2 else "learning_curve.png"
    try:
        plot_learning_curve(words[0], picture)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Wrote {picture}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
