# SPDX-License-Identifier: Apache-2.0
"""Time series of chosen channels of one environment: names, units, sampling, and panels for a plot."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from forcelab.physics.errors import near
from forcelab.physics.paths import find_names

from .arrows import to_numpy
from .debug_vis import column_names

MAX_LINES = 16
"""Most series in one panel."""

SYNTAX = (
    "A channel is <sensor or asset>.<reading>[:<bodies>][:<component>], e.g. feet_contact.net_forces_w:LF_.*:z, "
    "or commands.<name>[:<quantity>]"
)

_COMPONENTS = {3: "xyz", 4: "xyzw"}
# Unit by the words of a reading's name; the first that matches.
_UNITS = (
    (r"air_time|contact_time|time_left", "s"),
    (r"(^|_)torques?($|_)|effort", "N·m"),
    (r"forces?($|_)|^value$", "N"),
    (r"lin_acc", "m/s²"),
    (r"ang_acc", "rad/s²"),
    (r"joint_acc", "rad/s² or m/s²"),
    (r"lin_vel|root_vel|body_vel", "m/s"),
    (r"ang_vel", "rad/s"),
    (r"joint_vel", "rad/s or m/s"),
    (r"joint_pos", "rad or m"),
    (r"heading|angle", "rad"),
    (r"pos(_|$)|position|hits|distance|height", "m"),
    (r"mass", "kg"),
)


@dataclass
class Line:
    """One series: ``values`` (T,), NaN where there is none.

    Attributes:
        role: ``value``; or ``command`` and ``measured`` for two lines that belong together.
        color: Lines with an equal one have one colour throughout a figure, such as those of one body.
    """

    label: str
    values: np.ndarray
    role: str = "value"
    color: str | None = None


@dataclass
class Panel:
    """One set of axes: ``kind`` is ``lines``, or ``bars`` for stretches of True."""

    title: str
    ylabel: str
    unit: str = ""
    kind: str = "lines"
    lines: list[Line] = field(default_factory=list)

    @property
    def axis_label(self) -> str:
        return f"{self.ylabel} [{self.unit}]" if self.unit else self.ylabel


@dataclass
class _Channel:
    """A resolved channel: how its k numbers are read, and what they are called."""

    text: str
    title: str
    ylabel: str
    unit: str
    names: list[str]
    labels: list[str]
    colors: list[str]
    read: Callable[[], Any]
    kind: str = "lines"
    role: str = "value"
    before_step: bool = False
    rows: list[Any] = field(default_factory=list)


class SeriesRecorder:
    """Samples channels of one environment once per environment step, on its device.

    .. code-block:: python

        recorder = SeriesRecorder(env.unwrapped, ["feet_contact.contact", "feet_contact.net_forces_w"])
        for _ in range(200):
            recorder.before_step()
            _, _, terminated, truncated, _ = env.step(action)
            recorder.after_step(terminated | truncated)
        plot_series(recorder.times, recorder.panels(), "forces.png", resets=recorder.resets)

    Channels (see :data:`SYNTAX`): the reading is an attribute of the sensor's or asset's ``data``, or ``contact``
    of a contact sensor, drawn as bars. Bodies are a regular expression that matches whole names of bodies,
    joints, frames or filter columns. The component is ``x``, ``y``, ``z``, ``w``, ``norm``, or ``all``; forces
    and torques give their norm by default, other vectors all components. ``commands.<name>`` compares what
    is commanded with what is measured. A list of channels within the list shares one panel. ``default``
    stands for what suits the environment's sensors.

    Args:
        env: The environment (:class:`forcelab.envs.ManagerBasedRlEnv`), unwrapped.
        channels: ``default``, one channel, or a list.
        env_id: Which of its environments.

    Raises:
        ValueError: A channel names something that there is not; near names are listed.
    """

    def __init__(self, env: Any, channels: Any = "default", env_id: int = 0) -> None:
        self._env, self._scene, self._id = env, env.scene, int(env_id)
        if not 0 <= self._id < env.num_envs:
            raise ValueError(f"plot: environment {env_id} does not exist; there are {env.num_envs}.")
        if channels in (True, None, "default"):
            channels = default_channels(env)
        entries = [channels] if isinstance(channels, str) else list(channels)
        if not entries:
            raise ValueError(f"plot=[] names no channel. {SYNTAX}.")
        self._panels: list[list[_Channel]] = []
        for entry in entries:
            shared = list(entry) if isinstance(entry, (list, tuple)) else [entry]
            if not shared:
                raise ValueError(f"plot={entries!r} has a panel without a channel. {SYNTAX}.")
            found = [channel for text in shared for channel in self._resolve(text)]
            for panel in [found] if isinstance(entry, (list, tuple)) else _share(found):
                self._check(panel, entry)
                self._panels.append(panel)
        self._channels = [channel for panel in self._panels for channel in panel]
        self.times: list[float] = []
        """End of each step, in s."""
        self._done: list[Any] = []

    @staticmethod
    def _check(panel: list[_Channel], entry: Any) -> None:
        count = sum(len(c.labels) for c in panel)
        if count > MAX_LINES:
            raise ValueError(
                f"plot channel {entry!r} gives {count} series, more than the {MAX_LINES} that can be told apart; "
                f"choose some: {panel[0].text.split(':')[0]}:<regular expression>. There are: "
                f"{', '.join(panel[0].names[:40])}."
            )
        if len({c.kind for c in panel}) > 1:
            raise ValueError(f"plot channels {entry!r}: contact bars need a panel of their own.")

    # ------------------------------------------------------------------ sampling
    def before_step(self) -> None:
        """Sample the commands that the coming step shall follow."""
        for channel in self._channels:
            if channel.before_step:
                channel.rows.append(channel.read())

    def after_step(self, done: Any = None) -> None:
        """Sample everything else.

        Args:
            done: (E,) bool: which environments were reset by this step.
        """
        for channel in self._channels:
            if not channel.before_step:
                channel.rows.append(channel.read())
        self.times.append((len(self.times) + 1) * float(self._env.step_dt))
        if done is not None:
            self._done.append(done[self._id].clone())

    # ------------------------------------------------------------------ results
    @property
    def resets(self) -> list[float]:
        """Times at which the environment was reset, in s."""
        return [t for t, done in zip(self.times, self._done) if bool(done)]

    def _values(self, channel: _Channel) -> np.ndarray:
        """(T, k)."""
        import torch

        if not channel.rows:
            return np.zeros((0, len(channel.labels)))
        return to_numpy(torch.stack(channel.rows[: len(self.times)]))

    def panels(self) -> list[Panel]:
        """What was sampled so far, for :func:`forcelab.viewers.plot_series`."""
        result = []
        for channels in self._panels:
            first = channels[0]
            labels = list(dict.fromkeys(c.ylabel for c in channels))
            units = list(dict.fromkeys(c.unit for c in channels if c.unit))
            titles = list(dict.fromkeys(c.title for c in channels))
            # "forward velocity" and "sideways velocity" are velocities; the legend says which.
            shared = [w for w in labels[0].split() if all(w in label.split() for label in labels)]
            panel = Panel(
                ", ".join(titles), " ".join(shared) or "\n".join(labels), ", ".join(units), first.kind
            )
            values_of = [c for c in channels if c.role == "value"]
            for channel in channels:
                # What the title or the axis cannot say for all lines goes to their names.
                prefix = ""
                if channel.role == "value":
                    prefix += f"{channel.title} " if len({c.title for c in values_of}) > 1 else ""
                    several = len({c.ylabel for c in values_of}) > 1
                    prefix += f"{channel.ylabel} " if several and channel.labels != [channel.ylabel] else ""
                values = self._values(channel)
                for k, label in enumerate(channel.labels):
                    panel.lines.append(Line(prefix + label, values[:, k], channel.role, channel.colors[k]))
            result.append(panel)
        return result

    def save_csv(self, path: str | PathLike[str]) -> Path:
        """Write all series: a column ``time [s]``, then one column each."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        names, columns = ["time [s]"], [np.asarray(self.times)]
        for channel in self._channels:
            values = self._values(channel)
            for k, label in enumerate(channel.labels):
                unit = f" [{channel.unit}]" if channel.unit else ""
                role = "" if channel.role == "value" else f" {channel.role}"
                names.append(f"{channel.text.split(':')[0]} {label}{role}{unit}".replace("  ", " "))
                columns.append(values[:, k])
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows([f"{v:.7g}" for v in row] for row in zip(*columns))
        return path

    # ------------------------------------------------------------------ names
    def _resolve(self, text: Any) -> list[_Channel]:
        if not isinstance(text, str):
            raise ValueError(f"plot channel {text!r} is no text. {SYNTAX}.")
        source, reading, bodies, component = _parse(text)
        if source == "commands":
            return self._command(text, reading, bodies, component)
        scene = self._scene
        if source not in scene.keys():  # noqa: SIM118  (a scene is no mapping)
            raise ValueError(
                f"plot channel {text!r}: there is no sensor or asset {source!r}."
                f"{near(source, [*scene.keys(), 'commands'])}"
            )
        entity = scene[source]
        if reading == "contact" and hasattr(entity.data, "net_normal_forces_w"):
            return [self._contact(text, source, entity, bodies, component)]
        values, known = _reading(entity.data, reading), readings(entity.data)
        if values is None:
            if "net_normal_forces_w" in known:
                known = ["contact", *known]
            if hasattr(type(entity.data), reading) or reading in vars(entity.data):
                raise ValueError(
                    f"plot channel {text!r}: {source} does not track {reading!r}; its configuration can switch it on. "
                    f"It has: {', '.join(known)}."
                )
            raise ValueError(
                f"plot channel {text!r}: {source} has no reading {reading!r}.{near(reading, known)}"
            )
        return [self._array(text, source, reading, entity, bodies, component)]

    def _contact(
        self, text: str, source: str, sensor: Any, bodies: str | None, component: str | None
    ) -> _Channel:
        if component is not None:
            raise ValueError(f"plot channel {text!r}: contact has no component {component!r}.")
        ids, names = _choose(bodies, [list(sensor.body_names)], text)
        index, data, threshold = self._ids(ids), sensor.data, float(sensor.cfg.force_threshold)

        def read() -> Any:
            if data.current_contact_time is not None:
                return (data.current_contact_time[self._id] > 0.0)[index]
            return (data.net_normal_forces_w[self._id].norm(dim=-1) > threshold)[index]

        return _Channel(text, source, "in contact", "", names, names, names, read, kind="bars")

    def _array(
        self, text: str, source: str, reading: str, entity: Any, bodies: str | None, component: str | None
    ) -> _Channel:
        data, env = entity.data, self._id
        shape = tuple(getattr(data, reading).shape)[1:]
        if reading.endswith("_history"):
            raise ValueError(
                f"plot channel {text!r}: a plot is a history itself; use {source}.{reading.removesuffix('_history')}."
            )
        rows = _row_names(entity, reading, shape)
        vector = shape[len(rows) :]  # what is left of an entry
        if len(vector) > 1:
            raise ValueError(f"plot channel {text!r}: an array of shape {shape} cannot be drawn as lines.")
        unit = unit_of(reading)
        if not rows and bodies is not None:
            raise ValueError(
                f"plot channel {text!r}: {reading} is one vector, it has no bodies to choose {bodies!r} from."
            )
        ids, names = _choose(bodies, rows, text) if rows else ([0], [""])
        parts = _components(vector[0], component, unit, text) if vector else [""]
        if not vector and component is not None:
            raise ValueError(f"plot channel {text!r}: {reading} has no components, found {component!r}.")
        # A component that one letter gives is in the axis' label; several are in the legend.
        several = len(parts) > 1
        labels = [f"{name} {part}".strip() if several else name for name in names for part in parts]
        where = self._ids(ids)
        columns = None
        if vector and parts != ["norm"]:
            columns = self._ids([_column(vector[0], part) for part in parts])

        def read() -> Any:
            value = getattr(data, reading)[env]
            value = value.reshape(-1, *vector)[where] if rows else value.reshape(1, *vector)
            if not vector:
                return value.clone().reshape(-1)
            if columns is None:
                return value.norm(dim=-1).reshape(-1)
            return value[:, columns].reshape(-1)

        ylabel = _words(reading)
        if vector and not several:
            ylabel += {"norm": ""}.get(parts[0], f", {parts[0]}")
        if labels == [""]:
            labels = [_words(reading)]
        kind = "bars" if getattr(data, reading).dtype == _bool() else "lines"
        return _Channel(text, source, ylabel, unit, names, labels, labels, read, kind)

    def _command(self, text: str, name: str, chosen: str | None, component: str | None) -> list[_Channel]:
        manager = getattr(self._env, "command_manager", None)
        terms = list(getattr(manager, "active_terms", None) or ())
        if name not in terms:
            raise ValueError(f"plot channel {text!r}: the task has no command {name!r}.{near(name, terms)}")
        term: Any = manager.get_term(name)  # type: ignore[union-attr]
        if component is not None:
            raise ValueError(f"plot channel {text!r}: a command has no component {component!r}. {SYNTAX}.")
        found = term.tracking()
        if not found:
            count = int(term.command.shape[1])
            labels = [f"command {i}" for i in range(count)] if count > 1 else ["command"]
            ids, labels = _choose(chosen, [labels], text)
            index = self._ids(ids)
            return [
                _Channel(
                    text, f"command {name}", "command", "", labels, labels, labels,
                    lambda: term.command[self._id][index], role="command", before_step=True,
                )
            ]  # fmt: skip
        _, names = _choose(chosen, [list(found)], text)
        channels = []
        for key in names:
            unit = found[key][0]
            for role, column in (("command", 1), ("measured", 2)):

                def read(key: str = key, column: int = column) -> Any:
                    return term.tracking()[key][column][self._id].reshape(1).clone()

                channels.append(
                    _Channel(
                        text,
                        f"command {name}",
                        key,
                        unit,
                        [key],
                        [key],
                        [key],
                        read,
                        "lines",
                        role,
                        column == 1,
                    )
                )
        return channels

    def _ids(self, ids: Sequence[int]) -> Any:
        import torch

        return torch.as_tensor(list(ids), dtype=torch.long, device=self._env.device)


def _bool() -> Any:
    import torch

    return torch.bool


def _share(channels: list[_Channel]) -> list[list[_Channel]]:
    """Quantities of a command with equal units share a panel."""
    panels: dict[str, list[_Channel]] = {}
    for channel in channels:
        panels.setdefault(channel.unit, []).append(channel)
    return list(panels.values())


def _parse(text: str) -> tuple[str, str, str | None, str | None]:
    """Source, reading, bodies, component of a channel."""
    # Colons inside brackets belong to a regular expression.
    parts = re.split(r":(?![^()\[\]]*[)\]])", text.strip())
    source, dot, reading = parts[0].partition(".")
    if not dot or not source or not reading or len(parts) > 3 or not all(parts):
        raise ValueError(f"plot channel {text!r} cannot be read. {SYNTAX}.")
    rest = parts[1:]
    component = None
    if rest and (len(rest) == 2 or re.fullmatch(r"[xyzw]+|norm|all", rest[-1])):
        component = rest.pop()
    return source, reading, rest[0] if rest else None, component


def readings(data: Any) -> list[str]:
    """Names of the arrays that a sensor's or an asset's data holds now."""
    names = [n for n in dict.fromkeys([*vars(data), *dir(type(data))]) if not n.startswith("_")]
    return sorted(n for n in names if not n.endswith("_history") and _reading(data, n) is not None)


def _reading(data: Any, name: str) -> Any:
    try:
        value = getattr(data, name, None)
    except (NotImplementedError, RuntimeError):
        return None
    return value if len(getattr(value, "shape", ())) > 0 else None


def _row_names(entity: Any, reading: str, shape: tuple[int, ...]) -> list[list[str]]:
    """Names along the leading axes of one environment's reading: bodies, joints, frames, filter columns."""
    if not shape:
        return []
    if hasattr(entity, "joint_names") and re.match(r"(soft_|default_)?joint_|applied_|computed_", reading):
        return [list(entity.joint_names)]
    rows: list[list[str]] = []
    for attribute in ("target_frame_names", "frame_names", "body_names"):
        names = getattr(entity, attribute, None) or getattr(entity.data, attribute, None)
        asset = hasattr(entity, "find_joints") or hasattr(entity, "write_root_pose")
        if names and len(names) == shape[0] and not (asset and not re.search("body|friction", reading)):
            rows = [list(names)]
            break
    if rows and ("matrix" in reading or reading == "contact_pos_w"):
        rows.append([f"← {name}" for name in column_names(entity)])
    if not rows and (len(shape) > 1 or re.search("distance|height", reading)):
        rows = [[str(i) for i in range(shape[0])]]
    return rows


def _choose(expression: str | None, rows: list[list[str]], text: str) -> tuple[list[int], list[str]]:
    """Flat indices and names of the entries whose name, or part of it, an expression fully matches."""
    names = rows[0] if len(rows) == 1 else [f"{a} {b}" for a in rows[0] for b in rows[1]]
    if expression is None:
        return list(range(len(names))), names
    if len(rows) == 1:
        return find_names(expression, names, False, f"entry of plot channel {text!r}")
    parts = [(f"{a} {b}", a, b, b.removeprefix("← ")) for a in rows[0] for b in rows[1]]
    try:
        hits = [i for i, p in enumerate(parts) if any(re.fullmatch(expression, part) for part in p)]
    except re.error as error:
        raise ValueError(f"plot channel {text!r}: {expression!r} is no regular expression: {error}") from None
    if not hits:
        known = dict.fromkeys([*rows[0], *(b.removeprefix("← ") for b in rows[1])])
        raise ValueError(
            f"No entry of plot channel {text!r} matches {expression!r}.{near(expression, known)}"
        )
    return hits, [names[i] for i in hits]


def _components(size: int, component: str | None, unit: str, text: str) -> list[str]:
    letters = _COMPONENTS.get(size, "")
    every = list(letters) or [str(i) for i in range(size)]
    if component is None:
        return ["norm"] if size == 3 and unit in ("N", "N·m") else every
    if component == "norm":
        return ["norm"]
    if component == "all":
        return every
    for letter in component:
        if letter not in every:
            raise ValueError(
                f"plot channel {text!r}: there is no component {letter!r}; use {', '.join(every)}, norm or all."
            )
    return list(component)


def _column(size: int, part: str) -> int:
    letters = _COMPONENTS.get(size, "")
    return letters.index(part) if part in letters and letters else int(part)


def unit_of(reading: str) -> str:
    """Unit by a reading's name; empty where it has none, or none is known."""
    if re.search("quat|projected_gravity|friction(?!_force)", reading):
        return ""
    for pattern, unit in _UNITS:
        if re.search(pattern, reading):
            return unit
    return ""


_WORDS = {
    "pos": "position",
    "lin": "linear",
    "ang": "angular",
    "vel": "velocity",
    "acc": "acceleration",
    "quat": "orientation",
    "w": "",
    "b": "",
    "matrix": "",
}


def _words(reading: str) -> str:
    """A reading's name for people: ``net_normal_forces_w`` is "net normal force"."""
    words = [
        _WORDS.get(word, word.removesuffix("s") if word == "forces" else word) for word in reading.split("_")
    ]
    return " ".join(word for word in words if word)


def default_channels(env: Any) -> list[Any]:
    """What suits an environment's sensors: contacts, forces, wrenches, motion, commands."""
    scene = env.scene
    kinds = {name: _kind(sensor) for name, sensor in scene.sensors.items()}
    contacts = [name for name, kind in kinds.items() if kind == "contact"]
    contacts.sort(key=lambda n: not _is_main(n, scene.sensors[n]))
    channels: list[Any] = []
    feeling: list[str] = []
    for name in contacts[:2]:
        sensor = scene.sensors[name]
        if len(sensor.body_names) > 8 or (channels and not _is_main(name, sensor)):
            continue
        feeling += [n.rsplit("/", 1)[-1] for n in sensor.body_names]
        matrix = sensor.data.normal_force_matrix_w
        few = matrix is not None and matrix.shape[1] * matrix.shape[2] <= 8
        channels += [f"{name}.contact", f"{name}.{'normal_force_matrix_w' if few else 'net_normal_forces_w'}"]
        if sensor.data.net_friction_forces_w is not None:
            channels.append(f"{name}.net_friction_forces_w")
    for name in [n for n, kind in kinds.items() if kind == "wrench"][:1]:
        names = list(scene.sensors[name].body_names)
        chosen = [n for n in names if n in feeling][:6] or names[-4:]
        bodies = "|".join(re.escape(n) for n in chosen)
        bodies = f"({bodies})" if len(chosen) > 1 else bodies
        if names == chosen:
            bodies = ".*"
        channels += [f"{name}.force:{bodies}", f"{name}.torque:{bodies}"]
    for name in [n for n, kind in kinds.items() if kind == "imu"][:1]:
        data = scene.sensors[name].data
        channels += [f"{name}.{r}" for r in ("lin_acc_b", "ang_vel_b") if _reading(data, r) is not None]
    manager = getattr(env, "command_manager", None)
    for name in getattr(manager, "active_terms", None) or ():
        if type(manager.get_term(name)).__name__ != "NullCommand":  # type: ignore[union-attr]
            channels.append(f"commands.{name}")
    if not channels:
        for name, robot in scene.articulations.items():
            if robot.num_joints:
                some = "" if robot.num_joints <= MAX_LINES else f":({'|'.join(robot.joint_names[:6])})"
                channels += [f"{name}.joint_pos{some}", f"{name}.joint_vel{some}"]
    if not channels:
        channels = [f"{name}.root_pos_w" for name in [*scene.rigid_objects, *scene.articulations][:2]]
    return channels


def _kind(sensor: Any) -> str:
    names = {kind.__name__ for kind in type(sensor).__mro__}
    for kind, name in (("contact", "ContactSensor"), ("wrench", "JointWrenchSensor"), ("imu", "Imu")):
        if name in names or f"{name}Sensor" in names:
            return kind
    return ""


def _is_main(name: str, sensor: Any) -> bool:
    """Whether a contact sensor is about what shall touch: feet, tools, filtered partners."""
    words = ("feet", "foot", "tool", "hand", "finger", "tip")
    return any(w in name.lower() for w in words) or sensor.data.force_matrix_w is not None
