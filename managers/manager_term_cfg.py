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
    #: Told of a key before it is removed.
    on_delete: Callable[[str], None] | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        if self.on_set is None or not self.on_set(key, value):
            super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __delitem__(self, key: str) -> None:
        if self.on_delete is not None and key in self:
            self.on_delete(key)
        super().__delitem__(key)

    def pop(self, key: str, *default: Any) -> Any:
        if key in self:
            value = self[key]
            del self[key]
            return value
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

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
    #: Live fields that are (lower, upper), and those of them that must be positive.
    _ranges: ClassVar[frozenset[str]] = frozenset()
    _positive: ClassVar[frozenset[str]] = frozenset()
    #: Set by the manager that uses this object: called with the name of a field that was assigned.
    _on_assign: Callable[[str], None] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        if name in self._live and hasattr(old, "copy_"):
            what = f"{type(self).__name__}.{name}"
            if name in self._ranges and value is not None:
                check_bounds(value, what, name in self._positive)
            write_live(old, value, what)
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


def check_bounds(value: Any, what: str, positive: bool = False) -> None:
    """Raise ValueError, beginning with ``what``, unless ``value`` is (lower, upper); infinity is a number.

    Tensors on a GPU are taken as they are: looking at them would wait.
    """
    if getattr(value, "is_cuda", False):
        return
    try:
        low, high = (float(x) for x in value)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not low <= high or (positive and not low > 0.0):
        need = "both positive, lower not above upper" if positive else "lower not above upper"
        raise ValueError(f"{what} is {value!r}; it must be (lower, upper), two numbers, {need}.")


def write_live(tensor: Any, value: Any, what: str) -> None:
    """Write a number, sequence or tensor into ``tensor`` in place.

    Raises:
        ValueError: The value is None, no number or not a number, or its shape does not fit.
    """
    if value is tensor:
        return
    if value is None:
        raise ValueError(f"{what} cannot become None while the environment runs; set a neutral value.")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value:
        tensor.fill_(value)  # copies nothing from the host
        return
    if not hasattr(value, "copy_"):
        given = value
        try:
            value = tensor.new_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            value = None
        if value is None or isinstance(given, bool) or not _are_numbers(given):
            raise ValueError(f"{what} is {given!r}; it must be {_shape_in_words(tuple(tensor.shape))}.")
    try:
        tensor.copy_(value)
    except RuntimeError as error:
        raise ValueError(
            f"{what} has shape {tuple(tensor.shape)}; got a value of shape {tuple(value.shape)}."
        ) from error


def _are_numbers(value: Any) -> bool:
    """Whether nothing in a number or (nested) sequence is NaN."""
    return all(map(_are_numbers, value)) if hasattr(value, "__iter__") else bool(value == value)


def _shape_in_words(shape: tuple[int, ...]) -> str:
    return "a number" if not shape else f"numbers of shape {shape}"


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
    _ranges = _positive = _live

    mode: str | None = None
    interval_range_s: tuple[float, float] | None = None
    is_global_time: bool = False
    min_step_count_between_reset: int = 0


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
    _ranges = _positive = _live


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
