# SPDX-License-Identifier: Apache-2.0
"""Configurations of terms. Importable without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from forcelab.scene.collection_cfg import CollectionCfg

from .modifiers_cfg import ModifierCfg
from .noise_cfg import NoiseCfg, NoiseModelCfg


class TermParams(dict[str, Any]):
    """The ``params`` of a term in a running environment: a dict that tells its manager about changes.

    The manager checks new keys and resolves the :class:`SceneEntityCfg` among new values, so that
    ``term_cfg.params["asset_cfg"] = SceneEntityCfg("robot", joint_names="hip")`` takes effect.
    """

    #: Told of a new value before it is stored; True: it has been taken over, nothing is to be stored.
    on_set: Callable[[str, Any], bool] | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        if self.on_set is None or not self.on_set(key, value):
            super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> TermParams:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        # A copy belongs to no manager yet.
        import copy

        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> Any:
        return (dict, (dict(self),))


class LiveCfg:
    """Base of configurations with fields that may be assigned while the environment runs.

    A manager replaces such a field by a device tensor. Assignment then writes into that tensor, so it
    takes effect with the next step and makes no new tensor.
    """

    _live: ClassVar[frozenset[str]] = frozenset()
    #: Set by the manager that uses this object: called with the name of a field that was assigned.
    _on_assign: Callable[[str], None] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if name in self._live and hasattr(old, "copy_"):
            write_live(old, value, f"{type(self).__name__}.{name}")
        elif isinstance(old, TermParams) and value is not old:
            new = dict(value)
            for key in [k for k in old if k not in new]:
                del old[key]
            old.update(new)
        else:
            object.__setattr__(self, name, value)
            if self._on_assign is not None and value is not old:
                try:
                    self._on_assign(name)
                except Exception:
                    object.__setattr__(self, name, old)
                    raise

    def __getstate__(self) -> dict[str, Any]:
        # A copy belongs to no manager yet.
        return {name: value for name, value in self.__dict__.items() if name != "_on_assign"}


def write_live(tensor: Any, value: Any, what: str) -> None:
    """Write a number, sequence or tensor into ``tensor`` in place.

    Raises:
        ValueError: The value is None, or its shape does not fit.
    """
    if value is tensor:
        return
    if value is None:
        raise ValueError(f"{what} cannot become None while the environment runs; set a neutral value.")
    if isinstance(value, (int, float)):
        tensor.fill_(value)
        return
    if not hasattr(value, "copy_"):
        value = tensor.new_tensor(value)
    try:
        tensor.copy_(value)
    except RuntimeError as error:
        raise ValueError(
            f"{what} has shape {tuple(tensor.shape)}; got a value of shape {tuple(value.shape)}."
        ) from error


@dataclass
class ManagerTermBaseCfg(LiveCfg):
    """A term: what to call, and with which arguments.

    Attributes:
        func: A function ``f(env, **params)``, a class ``C(cfg, env)`` whose instances are called in the
            same way (see :class:`ManagerTermBase`), a dotted path to either, or a name in ``forcelab.mdp``.
        params: Keyword arguments. :class:`SceneEntityCfg` values are resolved against the scene.
    """

    func: Callable[..., Any] | str | None = None
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class ObservationTermCfg(ManagerTermBaseCfg):
    """An observation, processed in this order: func, modifiers, noise, clip, scale, delay, history.

    Attributes:
        modifiers: Applied in order; see :mod:`forcelab.managers.modifiers`.
        noise: Added when the group has ``enable_corruption``.
        clip: (lower, upper), or None.
        scale: A number, or one per component of the last dimension; None leaves values as they are.
        delay_min_lag, delay_max_lag: Bounds (inclusive) of the delay in environment steps; each
            environment draws its own at reset. 0 is no delay.
        history_length: Number of past values kept, the newest last; 0 adds no history.
        flatten_history_dim: (E, H, n) becomes (E, H·n), oldest first.
    """

    _live: ClassVar[frozenset[str]] = frozenset({"clip", "scale"})

    modifiers: list[ModifierCfg] | None = None
    noise: NoiseCfg | NoiseModelCfg | None = None
    clip: tuple[float, float] | None = None
    scale: float | tuple[float, ...] | None = None
    delay_min_lag: int = 0
    delay_max_lag: int = 0
    history_length: int = 0
    flatten_history_dim: bool = True


class ObservationGroupCfg(CollectionCfg):
    """A group of observation terms: class attributes are terms under their names.

    Attributes:
        concatenate_terms: One tensor (E, n) for the group; otherwise a dict of tensors by term.
        concatenate_dim: Dimension to concatenate along, not counting the first (E); -1 is the last.
        enable_corruption: Switches the terms' noise on.
        history_length: Overrides every term's history when not None.
        flatten_history_dim: Used together with ``history_length``.
    """

    concatenate_terms: bool = True
    concatenate_dim: int = -1
    enable_corruption: bool = False
    history_length: int | None = None
    flatten_history_dim: bool = True

    def terms(self) -> Iterable[tuple[str, Any]]:
        """Yield (name, cfg) of the terms, without the group's own settings."""
        for name, value in self.items():
            if name not in _GROUP_SETTINGS:
                yield name, value


_GROUP_SETTINGS = frozenset(
    {"concatenate_terms", "concatenate_dim", "enable_corruption", "history_length", "flatten_history_dim"}
)


@dataclass
class RewardTermCfg(ManagerTermBaseCfg):
    """A reward ``f(env, **params) -> (E,)``, multiplied by ``weight`` and by the step time.

    ``weight`` must be given; 0 keeps a term without effect. In a running environment it is a 0-dim device tensor;
    assigning a number writes into it.
    """

    _live: ClassVar[frozenset[str]] = frozenset({"weight"})

    weight: float | None = None


@dataclass
class TerminationTermCfg(ManagerTermBaseCfg):
    """A reason to end an episode, ``f(env, **params) -> (E,)`` bool.

    Attributes:
        time_out: The episode is cut (truncated) rather than ended by the task.
    """

    time_out: bool = False


@dataclass
class EventTermCfg(ManagerTermBaseCfg):
    """Something that happens to the chosen environments: ``f(env, env_mask, **params)``.

    A second parameter named ``env_ids`` gets a LongTensor of indices instead of the bool mask.

    Attributes:
        mode: ``startup`` (once, and again after a seeded reset), ``reset``, ``interval``, or a mode of
            your own for :meth:`EventManager.apply`.
        interval_range_s: Bounds of the time between two calls in mode ``interval``, s.
        is_global_time: One timer for all environments, which an episode's reset leaves alone.
        min_step_count_between_reset: In mode ``reset``, environments in which the term ran fewer
            environment steps ago are left out.
    """

    _live: ClassVar[frozenset[str]] = frozenset({"interval_range_s"})

    mode: str | None = None
    interval_range_s: tuple[float, float] | None = None
    is_global_time: bool = False
    min_step_count_between_reset: int = 0

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "interval_range_s" and hasattr(self.__dict__.get(name), "copy_"):
            try:
                low, high = (float(x) for x in value)
            except (TypeError, ValueError):
                low, high = 0.0, 0.0
            if not 0.0 < low <= high:
                raise ValueError(
                    f"{type(self).__name__}.interval_range_s is {value!r}; it must be (lower, upper) in s, both "
                    "positive, lower not above upper."
                )
        super().__setattr__(name, value)


@dataclass
class CurriculumTermCfg(ManagerTermBaseCfg):
    """``f(env, env_mask, **params)``, called before each reset; what it returns is logged.

    A second parameter named ``env_ids`` gets a LongTensor of indices instead of the bool mask.
    """


@dataclass
class MetricsTermCfg(ManagerTermBaseCfg):
    """``f(env, **params) -> (E,)``, averaged over the episode and logged; it influences nothing."""


@dataclass
class CommandTermCfg(LiveCfg):
    """A command generator.

    Attributes:
        class_type: A :class:`CommandTerm` subclass, or a dotted path to one.
        resampling_time_range: Bounds of the time between two draws, s.
        debug_vis: Asks viewers to draw the command.
    """

    class_type: Any = None
    resampling_time_range: tuple[float, float] = (10.0, 10.0)
    debug_vis: bool = False

    _live: ClassVar[frozenset[str]] = frozenset({"resampling_time_range"})


@dataclass
class ActionTermCfg:
    """A part of the action vector.

    Attributes:
        class_type: An :class:`ActionTerm` subclass, or a dotted path to one.
        asset_name: Name of the robot or object in the scene.
        clip: {name pattern: (lower, upper)} for the processed action; None does not clip.
        debug_vis: Asks viewers to draw the action.
    """

    class_type: Any = None
    asset_name: str = "robot"
    clip: dict[str, tuple[float, float]] | None = None
    debug_vis: bool = False


def collection_items(cfg: Any) -> list[tuple[str, Any]]:
    """(name, value) of a collection's entries that are not None.

    Accepts a :class:`CollectionCfg`, a mapping, or any object whose class and instance attributes are
    the entries. None is an empty collection.
    """
    if cfg is None:
        return []
    if isinstance(cfg, Mapping):
        return [(str(k), v) for k, v in cfg.items() if v is not None]
    if isinstance(cfg, ObservationGroupCfg):
        return list(cfg.terms())
    if isinstance(cfg, CollectionCfg):
        return list(cfg.items())
    names: dict[str, None] = {}
    for cls in reversed(type(cfg).__mro__[:-1]):
        names.update(dict.fromkeys(n for n, v in vars(cls).items() if not callable(v)))
    names.update(dict.fromkeys(vars(cfg)))
    found = [(n, getattr(cfg, n)) for n in names if not n.startswith("_")]
    return [(n, v) for n, v in found if v is not None]
