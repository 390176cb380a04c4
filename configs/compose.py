# SPDX-License-Identifier: Apache-2.0
"""Composition: Hydra's groups, then typed objects, then overrides with our errors."""

from __future__ import annotations

import copy
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forcelab.learning.agent_cfg import AgentCfg
from forcelab.physics.errors import near

from . import convert as cv
from . import overrides as ov
from .errors import ConfigError, found
from .registry import META_KEYS, TaskInfo, resolve_task
from .yaml_io import dump, load, to_plain

# Short keys of the command line and of gymnasium.make → where they go.
SHORT_KEYS: dict[str, tuple[str, ...]] = {
    "num_envs": ("env", "scene", "num_envs"),
    "logger": ("agent", "logger"),
}
_GROUP_KEY = re.compile(r"[A-Za-z_][\w/]*(@[\w.]*)?$")


@dataclass
class ComposedCfg:
    """A finished configuration.

    Attributes:
        task: Name of the task, the file's name in the group ``task``.
        id: Its Gymnasium id; empty when it has none.
        env: The environment's configuration, a ``ManagerBasedRlEnvCfg``.
        agent: Settings of the learning agent.
        run: Options of the command that runs it; None unless they were passed to :func:`compose`.
        choices: Chosen option of every group.
    """

    task: str
    env: Any
    agent: AgentCfg
    id: str = ""
    run: Any = None
    choices: dict[str, str] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """The configuration as YAML; :func:`from_yaml` reads it."""
        return to_yaml(self)


def compose(
    task: str | None = None,
    overrides: Sequence[str] = (),
    *,
    searchpath: Sequence[str] = (),
    run: Any = None,
) -> ComposedCfg:
    """Compose a task's configuration.

    Args:
        task: Name of a task or its Gymnasium id; None takes ``config.yaml``'s default. ``task=…`` among
            the overrides wins.
        overrides: Hydra-style overrides, applied in order; see :mod:`forcelab.configs.overrides`.
        searchpath: Further configuration trees (folders, ``file://…`` or ``pkg://…``), as by
            ``hydra.searchpath=[…]``.
        run: A dataclass instance with options of the caller; its fields can be overridden by their names.
            It is copied.

    Raises:
        ConfigError: With the full key path, what was found and near names.
    """
    loader, groups, values = _read(overrides, searchpath)
    paths = loader.searchpath
    chosen = [g.partition("=")[2] for g in groups if g.startswith("task=")]
    if chosen or task is not None:
        info = resolve_task(chosen[-1] if chosen else task, paths)  # type: ignore[arg-type]
        groups = [f"task={info.name}", *(g for g in groups if not g.startswith("task="))]
    plain, choices = loader.load(groups)
    meta = {key: plain.pop(key, "") for key in META_KEYS}
    # Names of the robot's parts, which the task's YAML refers to by interpolation.
    plain.pop("robot", None)
    return _finish(
        plain, choices.get("task", ""), str(meta["id"] or ""), choices, values, run, list(loader.groups)
    )


def _read(
    texts: Sequence[str], searchpath: Sequence[str] = ()
) -> tuple[_Loader, list[str], list[ov.Override]]:
    """The loader for the overrides' search path, their choices of groups and their values."""
    paths, texts = take_searchpath(texts, searchpath)
    loader = _Loader(paths)
    groups: list[str] = []
    values: list[ov.Override] = []
    for text in texts:
        choice = loader.classify(text)
        if choice is None:
            values.append(ov.parse(text))
        else:
            groups.append(choice)
    return loader, groups, values


def compose_saved(
    file: pathlib.Path, overrides: Sequence[str] = (), *, run: Any = None
) -> ComposedCfg | None:
    """Load a configuration that was saved beside a checkpoint, with overrides.

    Another engine may be chosen (``physics=ovphysx``); time step and gravity stay as saved. None when the
    overrides choose another task, robot or scene, for which the saved configuration does not serve.

    Raises:
        ConfigError: As :func:`compose` and :func:`from_yaml`.
    """
    loader, groups, values = _read(overrides)
    saved = from_yaml(file, run=run)
    for choice in groups:
        group, _, option = choice.partition("=")
        if group == "task" and resolve_task(option, loader.searchpath).name == saved.task:
            continue
        if group != "physics":
            return None
        fresh = compose(saved.task, [choice], searchpath=loader.searchpath).env.physics
        fresh.dt, fresh.gravity = saved.env.physics.dt, saved.env.physics.gravity
        saved.env.physics = fresh
        saved.choices[group] = option
    apply_overrides(saved, values, loader.groups)
    return saved


def _finish(
    plain: dict[str, Any],
    task: str,
    id: str,
    choices: dict[str, str],
    values: Sequence[ov.Override],
    run: Any,
    groups: Sequence[str],
) -> ComposedCfg:
    from forcelab.envs.manager_based_rl_env_cfg import ManagerBasedRlEnvCfg

    agent_values = plain.pop("agent", None) or {}
    env = cv.build(plain, ManagerBasedRlEnvCfg, "")
    agent = cv.build(agent_values, AgentCfg, "agent")
    result = ComposedCfg(task, env, agent, id, copy.deepcopy(run), dict(choices))
    apply_overrides(result, values, groups)
    return result


def apply_overrides(cfg: Any, overrides: Sequence[str | ov.Override], groups: Sequence[str] = ()) -> None:
    """Apply value overrides, in place, to a composed configuration or to an environment's alone.

    A change of group (``physics=ovphysx``) is no value override; only :func:`compose` understands it.

    Raises:
        ConfigError: With the full key path, what was found and near names.
    """
    parsed = [o if isinstance(o, ov.Override) else ov.parse(o) for o in overrides]
    if isinstance(cfg, ComposedCfg):
        objects: dict[str, Any] = {"env": cfg.env, "agent": cfg.agent}
        if cfg.run is not None:
            objects["run"] = cfg.run
        # A command's own num_envs comes before the environment's.
        root = ov.Root(objects, tuple(n for n in ("run", "env") if n in objects), SHORT_KEYS, groups)
        ov.apply(root, parsed)
        _check_env(cfg.env)
        cv.check(cfg.agent, "agent")
    else:
        ov.apply(ov.Root({"env": cfg}, ("env",), SHORT_KEYS, groups), parsed)
        _check_env(cfg)


def _check_env(env: Any) -> None:
    cv.check(env)
    if cv.is_environment(type(env)) and hasattr(env, "check"):
        try:
            env.check()
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from error


def take_searchpath(texts: Sequence[str], searchpath: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Separate ``hydra.…`` overrides from the others.

    Returns:
        The search path (``file://…`` and ``pkg://…``) and the remaining overrides.

    Raises:
        ConfigError: A ``hydra`` setting that has no meaning here, or a folder that does not exist.
    """
    paths = [_as_url(p) for p in searchpath]
    rest = []
    for text in texts:
        if not isinstance(text, str):
            raise ConfigError(f"an override must be text such as 'seed=1', found {found(text)}")
        _, key, raw = ov.split(text)
        if not key.startswith(("hydra.", "hydra/")):
            rest.append(text)
        elif key == "hydra.searchpath":
            value = ov.parse(text).value
            if not isinstance(value, list):
                value = [value]
            if not all(isinstance(v, str) for v in value):
                raise ConfigError(f"expected a list of folders, found {found(value)}", key)
            paths += [_as_url(v) for v in value]
        elif not (key in ("hydra/launcher", "hydra/sweeper") and raw == "basic"):
            raise ConfigError(
                "is not supported here: hydra/launcher, hydra.launcher.…, hydra.sweep.… and hydra.job.… serve a "
                "launcher of a sweep (-m), and of Hydra's other settings only hydra.searchpath=[…] is used",
                key,
            )
    return paths, rest


def _as_url(path: str) -> str:
    scheme, sep, rest = path.partition("://")
    if sep and scheme != "file":
        return path
    folder = pathlib.Path(rest if sep else path).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {str(folder)!r}", "hydra.searchpath")
    return f"file://{folder}"


class _Loader:
    """Hydra's configuration loader over forcelab's tree and the user's.

    It is used directly, since Hydra's ``compose`` refuses to run inside a user's ``@hydra.main``.
    """

    def __init__(self, searchpath: Sequence[str]):
        import hydra.conf  # noqa: F401  (registers Hydra's own schema)
        from hydra._internal.config_loader_impl import ConfigLoaderImpl
        from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
        from hydra.core.plugins import Plugins

        Plugins.instance()
        self.searchpath = list(searchpath)
        path = ConfigSearchPathImpl()
        path.append("hydra", "pkg://hydra.conf")
        path.append("forcelab", "pkg://forcelab.configs")
        for entry in searchpath:
            path.append("hydra.searchpath", entry)
        path.append("schema", "structured://")
        self._impl = ConfigLoaderImpl(path)
        self.groups = [g for g in self._impl.list_groups("") if g not in ("hydra", "__pycache__")]

    def options(self, group: str) -> list[str]:
        from hydra.core.object_type import ObjectType

        return list(self._impl.get_group_options(group, ObjectType.CONFIG))

    def classify(self, text: str) -> str | None:
        """The override as Hydra takes it if it chooses a group's option, else None."""
        _, key, raw = ov.split(text)
        if not _GROUP_KEY.match(key):
            return None
        group = key.partition("@")[0]
        if group in SHORT_KEYS or group.split("/")[0] not in self.groups:
            return None
        options = self.options(group)
        if not options:
            return None
        if raw is None:
            return text
        value, choices = ov.parse_value(raw, key)
        if choices is not None:
            raise ConfigError(f"{raw!r} gives several values; use --multirun (-m) to try them all", key)
        if isinstance(value, dict):
            return None
        for option in value if isinstance(value, list) else [value]:
            if group == "task" and isinstance(option, str):
                continue
            if isinstance(option, str) and ("/" in option or option in options):
                continue
            raise ConfigError(f"there is no option {str(option)!r}.{near(str(option), options)}", group)
        return text

    def load(self, overrides: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Compose the groups.

        Returns:
            Plain values, interpolations resolved, and the chosen option of every group.
        """
        from hydra.errors import HydraException
        from hydra.types import RunMode
        from omegaconf import OmegaConf, flag_override
        from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException

        try:
            config = self._impl.load_configuration(
                "config", overrides, run_mode=RunMode.RUN, from_shell=False
            )
            choices = dict(config.hydra.runtime.choices)
            with flag_override(config, ["struct", "readonly"], False):
                del config["hydra"]
            plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        except InterpolationKeyError as error:
            missing = str(error).partition("'")[2].partition("'")[0]
            raise ConfigError(
                f"refers to ${{{missing}}}, which none of the chosen groups gives. A task needs a robot whose file "
                "names all parts that the task asks for",
                str(error.full_key),
            ) from error
        except (HydraException, OmegaConfBaseException) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise ConfigError("; ".join(lines[:3])) from error
        except Exception as error:
            # YAML that cannot be parsed.
            if type(error).__module__.split(".")[0] != "yaml":
                raise
            raise ConfigError(" ".join(str(error).split())) from error
        assert isinstance(plain, dict)
        return (
            {str(k): v for k, v in plain.items()},
            {str(k): str(v) for k, v in choices.items() if not str(k).startswith("hydra/")},
        )


def to_yaml(cfg: Any) -> str:
    """Write a composed configuration, or any configuration object, as YAML.

    Every field is written, so that later changes of defaults do not change what was saved.

    Raises:
        ConfigError: A value that YAML cannot hold.
    """
    if isinstance(cfg, ComposedCfg):
        plain = {
            "task": cfg.task,
            "id": cfg.id,
            "choices": cfg.choices,
            "env": to_plain(cfg.env, "env"),
            "agent": to_plain(cfg.agent, "agent"),
        }
        return dump(plain)
    return dump(to_plain(cfg))


def from_yaml(text: str | pathlib.Path, overrides: Sequence[str] = (), *, run: Any = None) -> Any:
    """Load what :func:`to_yaml` wrote.

    Args:
        text: YAML text, or the path of a file.
        overrides: Value overrides, applied to the loaded configuration.
        run: As for :func:`compose`.

    Returns:
        A :class:`ComposedCfg`, or the object that was written.

    Raises:
        ConfigError: The text does not describe a configuration.
    """
    source = str(text) if isinstance(text, pathlib.Path) else ""
    plain = load(text.read_text(encoding="utf-8") if isinstance(text, pathlib.Path) else text, source)
    if not isinstance(plain, Mapping):
        raise ConfigError(f"expected a configuration, found {found(plain)}", source)
    if "env" in plain and cv.TARGET not in plain:
        env = cv.build(plain["env"], object, "env")
        agent = cv.build(plain.get("agent") or {}, AgentCfg, "agent")
        result = ComposedCfg(
            str(plain.get("task", "")),
            env,
            agent,
            str(plain.get("id") or ""),
            copy.deepcopy(run),
            dict(plain.get("choices") or {}),
        )
        apply_overrides(result, list(overrides))
        return result
    result = cv.untyped(plain, "")
    if overrides:
        apply_overrides(result, list(overrides))
    return result


__all__ = [
    "ComposedCfg",
    "TaskInfo",
    "apply_overrides",
    "compose",
    "compose_saved",
    "from_yaml",
    "take_searchpath",
    "to_yaml",
]
