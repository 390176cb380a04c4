# SPDX-License-Identifier: Apache-2.0
"""What all managers share: terms, their checks, and how they are called."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch

from forcelab.physics.errors import near

from . import live_ranges
from .manager_term_cfg import ManagerTermBaseCfg, TermParams, collection_items
from .resolve import load
from .scene_entity_cfg import SceneEntityCfg

Env: TypeAlias = Any
"""The environment (:class:`forcelab.envs.ManagerBasedRlEnv`); ``Any`` because this room may not import that one."""

SELECTORS = ("env_mask", "env_ids")


class ManagerTermBase:
    """Base of terms that are classes: made once as ``C(cfg, env)``, then called as ``term(env, **params)``.

    Tensors of E rows that an instance keeps as attributes belong to the environments (see
    :class:`ObservationManager`).
    """

    def __init__(self, cfg: Any, env: Env):
        self.cfg = cfg
        self._env = env

    @property
    def num_envs(self) -> int:
        """Number of environments E."""
        return self._env.num_envs

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return self._env.device

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self).__name__

    def reset(self, env_mask: torch.Tensor | None = None) -> Any:
        """Start anew in the chosen environments (bool (E,); None for all).

        A parameter named ``env_ids`` gets a LongTensor of indices instead.
        """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __call__.")


def takes(function: Any) -> str | None:
    """Whether a callable has a parameter named ``env_mask`` or ``env_ids``; its name, or None."""
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    return next((s for s in SELECTORS if s in names), None)


def mask_to_ids(env_mask: torch.Tensor) -> torch.Tensor:
    """Indices of a mask as a LongTensor. Waits for the device: only for terms that ask for ``env_ids``."""
    return env_mask.nonzero().squeeze(-1)


def make(cls: Any, path: str, cfg: Any, env: Env) -> Any:
    """``cls(cfg, env)``, with errors that name ``path``.

    Raises:
        TypeError: The class is not made in that way.
    """
    try:
        inspect.signature(cls).bind(cfg, env)
    except TypeError:
        raise TypeError(
            f"{path}: class {cls.__qualname__} must be made as {cls.__name__}(cfg, env); its parameters are "
            f"{inspect.signature(cls)}."
        ) from None
    except ValueError:
        pass  # written in C: nothing to check
    try:
        return cls(cfg, env)
    except Exception as error:
        error.add_note(f"(while making {path})")
        raise


def _same(old: Any, new: Any) -> bool:
    """Whether two plain values are equal, so that nothing has changed."""
    plain = (bool, int, float, str, tuple, list, type(None))
    if not (isinstance(old, plain) and type(old) is type(new)):
        return False
    try:
        return bool(old == new)
    except (TypeError, ValueError, RuntimeError):
        return False


@dataclass
class Term:
    """A term in a running environment.

    Attributes:
        name: Its name in the collection.
        path: Its key path, for messages.
        cfg: Its configuration.
        func: What is called.
        params: Keyword arguments of the call; the same object as ``cfg.params``.
        selector: "env_mask", "env_ids" or None: the second parameter.
        instance: ``func`` when it is an instance of a class, which is reset with its environments.
    """

    name: str
    path: str
    cfg: Any
    func: Callable[..., Any]
    params: dict[str, Any]
    selector: str | None = None
    instance: Any = None
    reset_selector: str | None = None

    def reset(self, env_mask: torch.Tensor | None) -> None:
        """Reset the instance of a class term."""
        if self.instance is not None:
            call_reset(self.instance, self.reset_selector, env_mask)

    def call(self, env: Env) -> Any:
        """``func(env, **params)``; an error says which term it comes from."""
        try:
            return self.func(env, **self.params)
        except Exception as error:
            error.add_note(f"(in {self.path})")
            raise

    def call_masked(self, env: Env, env_mask: torch.Tensor) -> Any:
        """Call an event or curriculum for the environments of the mask."""
        try:
            if self.selector == "env_ids":
                ids = mask_to_ids(env_mask)
                return self.func(env, ids, **self.params) if ids.numel() else None
            return self.func(env, env_mask, **self.params)
        except Exception as error:
            error.add_note(f"(in {self.path})")
            raise


def call_plainly(path: str, subject: Any, work: Callable[..., Any], *args: Any) -> Any:
    """What ``env.call_term`` does where nothing is captured: ``work(*args)``."""
    return work(*args)


def _ignore(reason: str) -> None:
    pass


def _nothing() -> None:
    pass


def call_reset(instance: Any, selector: str | None, env_mask: torch.Tensor | None) -> Any:
    """Call ``instance.reset`` with a mask, or with indices when its parameter is named ``env_ids``."""
    if selector == "env_ids":
        if env_mask is None:
            return instance.reset(None)
        ids = mask_to_ids(env_mask)
        return instance.reset(ids) if ids.numel() else None
    return instance.reset(env_mask)


class ManagerBase:
    """Base of the managers.

    Args:
        cfg: The collection of term configurations; entries that are None are left out. The manager
            uses (and changes) the objects given; the environment hands over its own copy.
        env: The environment.
    """

    #: Key of the collection in the environment's configuration; begins every key path in messages.
    section: ClassVar[str] = "terms"
    #: Type of the term configurations.
    term_type: ClassVar[Any] = ManagerTermBaseCfg
    #: Terms are ``f(env, env_mask | env_ids, **params)`` rather than ``f(env, **params)``.
    masked: ClassVar[bool] = False

    def __init__(self, cfg: Any, env: Env):
        self.cfg = cfg
        self._env = env
        self.num_envs: int = env.num_envs
        self.device: torch.device = env.device
        # Everything of a term that a step runs goes through this, so that the step graph can tell terms apart.
        self._call: Callable[..., Any] = getattr(env, "call_term", call_plainly)
        #: Called when all terms of a kind have been called, before their values are read.
        self._join: Callable[[], None] = getattr(env, "join_terms", _nothing)
        #: To be told of what a captured step cannot follow by itself.
        self._changed: Callable[[str], None] = getattr(env, "on_change", _ignore)
        self._terms: dict[str, Term] = {}
        self._prepare()

    # -- to be written by subclasses

    def _prepare(self) -> None:
        self._add_terms(self.cfg)

    @property
    def active_terms(self) -> Any:
        """Names of the terms, in order."""
        return list(self._terms)

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Reset the chosen environments; return log values (0-dim tensors, means over them) by key."""
        self._reset_terms(env_mask)
        return {}

    def log_parts(self) -> list[tuple[list[str], torch.Tensor, bool]]:
        """Accumulated log values as (keys, tensor (n,), is_sum).

        Sums run over the episodes that ended since the last :meth:`clear_logs`; the others are present
        values.
        """
        return []

    @property
    def log_scale(self) -> float:
        """What the sums of :meth:`log_parts` are multiplied by when they are read."""
        return 1.0

    def clear_logs(self) -> None:
        """Begin the next period of :meth:`log_parts`."""
        for _, values, is_sum in self.log_parts():
            if is_sum:
                values.zero_()

    # -- terms

    def get_term(self, name: str) -> Any:
        """The function, instance or term object that is called under ``name``."""
        return self._lookup(name).func

    def get_term_cfg(self, name: str) -> Any:
        """Configuration of a term. Assigning its fields takes effect with the next step."""
        return self._lookup(name).cfg

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        """Replace the configuration of a term, which keeps its place; class terms are made anew."""
        old = self._lookup(name)
        if cfg is not old.cfg:
            self._terms[name] = self._make_term(name, cfg, old.path)
            self._changed(f"{old.path} was replaced")

    def _lookup(self, name: str) -> Term:
        try:
            return self._terms[name]
        except KeyError:
            raise KeyError(f"{self.section} has no term {name!r}.{near(name, self._terms)}") from None

    def _add_terms(self, cfg: Any) -> None:
        for name, term_cfg in collection_items(cfg):
            self._terms[name] = self._make_term(name, term_cfg, f"{self.section}.{name}")

    def _make_term(self, name: str, cfg: Any, path: str) -> Term:
        if not isinstance(cfg, self.term_type):
            raise TypeError(f"{path} is a {type(cfg).__name__}; it must be a {self.term_type.__name__}.")
        func = load(cfg.func, f"{path}.func")
        is_class = inspect.isclass(func)
        if not isinstance(cfg.params, Mapping):
            raise TypeError(f"{path}.params is {cfg.params!r}; it must be a dictionary.")
        params = TermParams(cfg.params)
        self._check_signature(func, params, path)
        for key, value in params.items():
            self._resolve_entities(value, f"{path}.params.{key}")
        kinds = live_ranges.range_kinds(func.__call__ if is_class else func)
        for key in kinds.keys() & params.keys():
            what = f"{path}.params.{key}"
            adopted = live_ranges.adopt(
                params[key], kinds[key], what, self.device, self._ordered(func, params)
            )
            dict.__setitem__(params, key, adopted)
        params.on_set = self._watch(path, func, params, kinds)
        object.__setattr__(cfg, "params", params)
        object.__setattr__(cfg, "_on_assign", functools.partial(self._on_assign, name, cfg))
        instance: Any = make(func, f"{path}.func", cfg, self._env) if is_class else None
        called: Any = instance if is_class else func
        return Term(
            name=name,
            path=path,
            cfg=cfg,
            func=called,
            params=params,
            selector=takes(called) if self.masked else None,
            instance=instance if is_class and hasattr(instance, "reset") else None,
            reset_selector=takes(instance.reset) if is_class and hasattr(instance, "reset") else None,
        )

    @staticmethod
    def _ordered(func: Any, params: Mapping[str, Any]) -> bool:
        """Whether ranges of a term are (lower, upper) rather than (mean, standard deviation)."""
        function = func.__call__ if inspect.isclass(func) else func
        default = inspect.signature(function).parameters.get("distribution")
        return params.get("distribution", default.default if default is not None else None) != "gaussian"

    def _watch(
        self, path: str, func: Any, params: TermParams, kinds: Mapping[str, str]
    ) -> Callable[[str, Any], bool]:
        """What is to happen when something is assigned to ``params``."""
        accepted, required, open_ended = self._accepted(func)

        def on_delete(key: str) -> None:
            if key in required:
                raise ValueError(f"{path}.params.{key} cannot be removed: {path}.func needs it.")
            self._changed(f"{path}.params.{key} was removed")

        params.on_delete = on_delete

        def on_set(key: str, value: Any) -> bool:
            what = f"{path}.params.{key}"
            if not open_ended and key not in accepted:
                raise ValueError(f"{path}.params has an unknown key {key!r}.{near(key, accepted)}")
            old = params.get(key)
            if value is None and key in kinds and key in required:
                raise ValueError(f"{what} is None; it must be given.")
            if key in kinds and value is not None:
                ordered = self._ordered(func, params)
                if old is not None:
                    live_ranges.write(old, value, what, ordered)
                    return True
                value = live_ranges.adopt(value, kinds[key], what, self.device, ordered)
                dict.__setitem__(params, key, value)
                self._changed(f"{what} was set")
                return True
            if value is old:
                return False
            self._resolve_entities(value, what)
            if not _same(old, value):
                self._changed(f"{what} changed")
            return False

        return on_set

    def _on_assign(self, name: str, cfg: Any, field: str) -> None:
        """A field of a term's configuration was assigned; another function takes effect with the next step."""
        term = self._terms.get(name)
        if field == "func" and term is not None and term.cfg is cfg:
            self._terms[name] = self._make_term(name, cfg, term.path)
            self._rebuild()
        self._changed(f"{self.section}.{name}.{field} changed")

    def _rebuild(self) -> None:
        """Take up a term that was exchanged, in lists made of the terms."""

    def _accepted(self, func: Any) -> tuple[list[str], list[str], bool]:
        """Keyword parameters of a term: (all, those without default, accepts any)."""
        function = func.__call__ if inspect.isclass(func) else func
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return [], [], True  # written in C: nothing to check
        if inspect.isclass(func) and parameters:
            parameters = parameters[1:]  # self
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return [], [], True
        skip = 2 if self.masked else 1
        rest = parameters[skip:]
        keywords = [p for p in rest if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        return (
            [p.name for p in keywords],
            [p.name for p in keywords if p.default is p.empty],
            any(p.kind is p.VAR_KEYWORD for p in parameters),
        )

    def _check_signature(self, func: Any, params: dict[str, Any], path: str) -> None:
        label = getattr(func, "__qualname__", repr(func))
        function = func.__call__ if inspect.isclass(func) else func
        if inspect.isclass(func) and func.__call__ is ManagerTermBase.__call__:
            raise TypeError(f"{path}.func: class {label} has no __call__.")
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return
        if inspect.isclass(func):
            parameters = parameters[1:]
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if not variadic:
            if not positional:
                raise TypeError(
                    f"{path}.func: {label} takes no environment; its first parameter must be env."
                )
            if self.masked and (len(positional) < 2 or positional[1].name not in SELECTORS):
                found = positional[1].name if len(positional) > 1 else None
                raise TypeError(
                    f"{path}.func: the second parameter of {label} must be env_mask (bool (E,)) or env_ids "
                    f"(LongTensor); it is {found!r}."
                )
        accepted, required, open_ended = self._accepted(func)
        if not open_ended:
            for key in params:
                if key not in accepted:
                    raise ValueError(
                        f"{path}.params has a key {key!r} that {label} does not take.{near(key, accepted)}"
                    )
        missing = [key for key in required if key not in params]
        if missing:
            raise ValueError(f"{path}.params lacks {', '.join(map(repr, missing))}, which {label} needs.")
        for p in parameters:
            given = params.get(p.name)
            selects = isinstance(p.default, SceneEntityCfg) or p.annotation in (
                SceneEntityCfg,
                "SceneEntityCfg",
            )
            if selects and given is not None and not isinstance(given, SceneEntityCfg):
                raise TypeError(f"{path}.params.{p.name} is {given!r}; it must be a SceneEntityCfg.")
        # Selections that are defaults of the function are resolved like given ones.
        for p in parameters:
            if isinstance(p.default, SceneEntityCfg) and p.name not in params:
                default = copy.deepcopy(p.default)
                selects = default.joint_names is not None or default.body_names is not None
                # A default that selects nothing is only a name, which the function may never look up.
                if selects or default.name in list(self._env.scene.keys()):
                    params[p.name] = default

    def _resolve_entities(self, value: Any, path: str) -> None:
        if isinstance(value, SceneEntityCfg):
            value.resolve(self._env.scene, path)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._resolve_entities(item, f"{path}.{key}")
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                self._resolve_entities(item, f"{path}[{i}]")

    def _reset_terms(self, env_mask: torch.Tensor | None) -> None:
        for term in self._terms.values():
            if term.instance is not None:
                self._call(term.path, term.instance, term.reset, env_mask)

    def _check_rows(self, term: Term, value: Any) -> None:
        """Raise unless ``value`` is a tensor of shape (E,)."""
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"{term.path} returned {type(value).__name__}; it must return a tensor ({self.num_envs},)."
            )
        if value.shape != (self.num_envs,):
            hint = ""
            if value.shape == (self.num_envs, 1):
                hint = " Drop the last dimension, for example with .squeeze(-1)."
            raise ValueError(
                f"{term.path} returned shape {tuple(value.shape)}; it must be ({self.num_envs},), one value per "
                f"environment.{hint}"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.active_terms}>"
