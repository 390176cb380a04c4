# SPDX-License-Identifier: Apache-2.0
"""Observations: groups of terms, each with its pipeline of processing."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from forcelab.physics.errors import near

from .buffers import DelayBuffer, HistoryBuffer
from .manager_base import Env, ManagerBase, Term, call_reset, takes
from .manager_term_cfg import ObservationGroupCfg, ObservationTermCfg, collection_items
from .modifiers import ModifierBase
from .noise import prepare_noise
from .noise_cfg import NoiseCfg, NoiseModelCfg, NoiseModelWithAdditiveBiasCfg
from .resolve import load

Observation = torch.Tensor | dict[str, torch.Tensor]


@dataclass
class _Pipeline:
    """What happens to one term's value, after its function."""

    term: Term
    raw_shape: tuple[int, ...]
    #: Shape of a processed value without E, before history.
    shape: tuple[int, ...] = ()
    modifiers: list[tuple[Callable[..., torch.Tensor], dict[str, Any]]] = field(default_factory=list)
    noise: Callable[[torch.Tensor], torch.Tensor] | None = None
    clip: tuple[torch.Tensor, torch.Tensor] | None = None
    scale: torch.Tensor | None = None
    delay: DelayBuffer | None = None
    history: HistoryBuffer | None = None
    flatten: bool = True
    #: Objects with a state per environment: (object, reset selector).
    stateful: list[tuple[Any, str | None]] = field(default_factory=list)

    @property
    def subject(self) -> list[Any]:
        """The user's part of it: what may keep something between two calls."""
        return [self.term.func, *(function for function, _ in self.modifiers), self.noise]

    def run(self, env: Env, env_mask: torch.Tensor | None) -> torch.Tensor:
        """The processed value; it may be memory that somebody else owns."""
        term = self.term
        value = term.call(env)
        if (
            not isinstance(value, torch.Tensor)
            or value.shape != self.raw_shape
            or value.dtype is not torch.float32
        ):
            value = _as_rows(term, value, self.raw_shape)
        if value.dim() == 1:
            value = value.unsqueeze(1)
        for function, params in self.modifiers:
            value = function(value, **params)
        if self.noise is not None:
            value = self.noise(value)
        if self.clip is not None:
            value = torch.clamp(value, self.clip[0], self.clip[1])
        if self.scale is not None:
            value = value * self.scale
        if self.delay is not None:
            value = self.delay.push(value, env_mask)
        if self.history is not None:
            self.history.push(value, env_mask)
            value = self.history.values
            if self.flatten:
                value = value.flatten(1)
        return value


def _as_rows(term: Term, value: Any, shape: tuple[int, ...]) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{term.path} returned {type(value).__name__}; it must return a tensor (E, …).")
    if value.shape != shape:
        raise ValueError(f"{term.path} returned shape {tuple(value.shape)}; at first it was {tuple(shape)}.")
    return value.float()


@dataclass
class _Group:
    name: str
    cfg: ObservationGroupCfg
    terms: dict[str, _Pipeline]
    concatenate: bool
    dim: int
    #: Values of the present step; the memory stays the same for the life of the environment.
    value: Observation = field(default_factory=dict)
    evaluated: bool = False


def _merge(env_mask: torch.Tensor, new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    return torch.where(env_mask.view(-1, *[1] * (old.dim() - 1)), new, old)


def _item(read: Callable[[], Any], key: Any) -> Any:
    return read()[key]


def _draw(cfg: NoiseCfg, data: torch.Tensor) -> torch.Tensor:
    return cfg.func(data, cfg)


class _KeptRows:
    """Keeps the rows of unchosen environments in the tensors that ``owners`` hold as attributes."""

    def __init__(self, owners: list[Any], num_envs: int, env_mask: torch.Tensor):
        self._mask = env_mask
        self._saved: list[tuple[Callable[[], Any], torch.Tensor]] = []
        for owner in owners:
            for name, value in vars(owner).items():
                self._collect(functools.partial(getattr, owner, name), value, num_envs)

    def _collect(self, read: Callable[[], Any], value: Any, num_envs: int) -> None:
        if isinstance(value, torch.Tensor):
            if value.dim() and value.shape[0] == num_envs:
                self._saved.append((read, value.clone()))
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                self._collect(functools.partial(_item, read, i), item, num_envs)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._collect(functools.partial(_item, read, key), item, num_envs)

    def restore(self) -> None:
        for read, old in self._saved:
            now = read()
            if isinstance(now, torch.Tensor) and now.shape == old.shape:
                now.copy_(_merge(self._mask, now, old))


class ObservationManager(ManagerBase):
    """Evaluates groups of observation terms.

    The order of processing is func, modifiers, noise, clip, scale, delay, history. The environment
    evaluates the terms once per step (:meth:`compute` with ``update_history``); asking again within
    the step gives copies of the same values, so noise is drawn, and delays and histories move, once.
    """

    section = "observations"
    term_type = ObservationTermCfg

    def _prepare(self) -> None:
        self._groups: dict[str, _Group] = {}
        for name, cfg in collection_items(self.cfg):
            if not isinstance(cfg, ObservationGroupCfg):
                raise TypeError(
                    f"observations.{name} is a {type(cfg).__name__}; it must be an ObservationGroupCfg."
                )
            self._groups[name] = self._make_group(name, cfg)

    # -- building

    def _make_group(self, name: str, cfg: ObservationGroupCfg) -> _Group:
        terms: dict[str, _Pipeline] = {}
        for term_name, term_cfg in collection_items(cfg):
            terms[term_name] = self._make_pipeline(name, term_name, term_cfg, cfg)
        if not terms:
            raise ValueError(f"observations.{name} has no terms; set the group to None to leave it out.")
        group = _Group(name, cfg, terms, bool(cfg.concatenate_terms), -1)
        shapes = {n: self._out_shape(p) for n, p in terms.items()}
        if group.concatenate:
            group.dim = self._concatenation_dim(group)
            first, axis = next(iter(shapes.values())), group.dim - 1
            total = sum(s[axis] for s in shapes.values())
            group.value = torch.zeros(
                (self.num_envs, *first[:axis], total, *first[axis + 1 :]), device=self.device
            )
        else:
            group.value = {n: torch.zeros((self.num_envs, *s), device=self.device) for n, s in shapes.items()}
        return group

    def _concatenation_dim(self, group: _Group) -> int:
        shapes = {n: self._out_shape(p) for n, p in group.terms.items()}
        first = next(iter(shapes.values()))
        path = f"observations.{group.name}"
        wanted = group.cfg.concatenate_dim
        dim = wanted if wanted >= 0 else len(first) + wanted
        if not 0 <= dim < len(first):
            raise ValueError(
                f"{path}.concatenate_dim is {wanted}, but its terms have {len(first)} dimensions."
            )
        for name, shape in shapes.items():
            if len(shape) != len(first) or any(
                a != b for i, (a, b) in enumerate(zip(shape, first, strict=True)) if i != dim
            ):
                listing = ", ".join(f"{n} {s}" for n, s in shapes.items())
                raise ValueError(
                    f"{path}: term {name!r} of shape {shape} cannot be concatenated with the others ({listing}); set "
                    "concatenate_terms to False, or flatten it."
                )
        return dim + 1

    def _make_pipeline(
        self, group_name: str, name: str, cfg: ObservationTermCfg, group: ObservationGroupCfg
    ) -> _Pipeline:
        path = f"{self.section}.{group_name}.{name}"
        term = self._make_term(name, cfg, path)
        value = term.call(self._env)
        if not isinstance(value, torch.Tensor) or value.dim() < 1 or value.shape[0] != self.num_envs:
            found = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise ValueError(f"{path} returned {found}; it must return a tensor ({self.num_envs}, …).")
        pipe = _Pipeline(term, tuple(value.shape))
        shape = pipe.raw_shape if value.dim() > 1 else (*pipe.raw_shape, 1)
        sample = value.as_subclass(torch.Tensor).float().reshape(shape)
        if term.instance is not None:
            pipe.stateful.append((term.instance, term.reset_selector))
        for i, modifier in enumerate(cfg.modifiers or []):
            sample = self._add_modifier(pipe, modifier, sample, f"{path}.modifiers[{i}]")
        shape = tuple(sample.shape)
        pipe.shape = shape[1:]
        if group.enable_corruption and cfg.noise is not None:
            pipe.noise = self._make_noise(pipe, cfg.noise, shape, f"{path}.noise")
        if cfg.clip is not None:
            pipe.clip = self._make_clip(cfg, path)
        if cfg.scale is not None:
            pipe.scale = self._make_scale(cfg, shape, path)
        if cfg.delay_min_lag or cfg.delay_max_lag:
            try:
                pipe.delay = DelayBuffer(cfg.delay_min_lag, cfg.delay_max_lag, shape, self.device)
            except ValueError:
                raise ValueError(
                    f"{path}: delay_min_lag is {cfg.delay_min_lag} and delay_max_lag {cfg.delay_max_lag}; they need "
                    "0 <= delay_min_lag <= delay_max_lag."
                ) from None
        length, pipe.flatten = cfg.history_length, cfg.flatten_history_dim
        if group.history_length is not None:
            length, pipe.flatten = group.history_length, group.flatten_history_dim
        if length < 0:
            raise ValueError(f"{path}: history_length is {length}; it must be 0 or more.")
        if length:
            pipe.history = HistoryBuffer(length, shape, self.device)
        self._reset_pipeline(pipe, None)
        return pipe

    def _add_modifier(self, pipe: _Pipeline, cfg: Any, sample: torch.Tensor, path: str) -> torch.Tensor:
        function: Any = load(cfg.func, f"{path}.func")
        params: dict[str, Any] = dict(cfg.params)
        if inspect.isclass(function):
            made: Any = function
            if getattr(cfg, "dt", 0.0) is None:
                cfg.dt = self._env.step_dt
            try:
                instance = made(cfg, tuple(sample.shape), self.device)
            except Exception as error:
                error.add_note(f"(while making {path})")
                raise
            if isinstance(instance, ModifierBase) or hasattr(instance, "reset"):
                pipe.stateful.append((instance, takes(instance.reset)))
            function, params = instance, {}
        else:
            names = list(inspect.signature(function).parameters)[1:]
            for key in params:
                if key not in names:
                    raise ValueError(f"{path}.params has an unknown key {key!r}.{near(key, names)}")
        pipe.modifiers.append((function, params))
        out = function(sample, **params)
        if not isinstance(out, torch.Tensor) or out.shape[0] != self.num_envs:
            raise ValueError(f"{path} must return a tensor ({self.num_envs}, …).")
        return out

    def _make_noise(
        self, pipe: _Pipeline, cfg: Any, shape: tuple[int, ...], path: str
    ) -> Callable[[torch.Tensor], torch.Tensor]:
        if isinstance(cfg, NoiseCfg):
            prepare_noise(cfg, self.device, path)
            return functools.partial(_draw, cfg)
        if not isinstance(cfg, NoiseModelCfg):
            raise TypeError(f"{path} is a {type(cfg).__name__}; it must be a NoiseCfg or a NoiseModelCfg.")
        prepare_noise(cfg.noise_cfg, self.device, f"{path}.noise_cfg")
        if isinstance(cfg, NoiseModelWithAdditiveBiasCfg):
            prepare_noise(cfg.bias_noise_cfg, self.device, f"{path}.bias_noise_cfg")
        model = load(cfg.class_type, f"{path}.class_type")(cfg, self.num_envs, self.device)
        if hasattr(model, "prepare"):
            model.prepare(shape)
        pipe.stateful.append((model, takes(model.reset)))
        return model

    def _make_clip(self, cfg: ObservationTermCfg, path: str) -> tuple[torch.Tensor, torch.Tensor]:
        bounds = torch.as_tensor(cfg.clip, dtype=torch.float32).reshape(-1).tolist()
        if len(bounds) != 2 or not bounds[0] <= bounds[1]:
            raise ValueError(f"{path}.clip is {cfg.clip!r}; it must be (lower, upper).")
        live = torch.tensor(bounds, device=self.device)
        object.__setattr__(cfg, "clip", live)
        return live[0], live[1]

    def _make_scale(self, cfg: ObservationTermCfg, shape: tuple[int, ...], path: str) -> torch.Tensor:
        live = torch.as_tensor(cfg.scale, dtype=torch.float32).detach().clone().to(self.device)
        if live.dim() > 1 or (live.dim() == 1 and live.shape[0] not in (1, shape[-1])):
            raise ValueError(
                f"{path}.scale has shape {tuple(live.shape)}; it must be one number or {shape[-1]}, one per component."
            )
        object.__setattr__(cfg, "scale", live)
        return live

    # -- description

    @property
    def active_terms(self) -> dict[str, list[str]]:
        """Names of the terms by group."""
        return {name: list(group.terms) for name, group in self._groups.items()}

    @property
    def group_obs_concatenate(self) -> dict[str, bool]:
        """Whether each group is one tensor."""
        return {name: group.concatenate for name, group in self._groups.items()}

    @property
    def group_obs_term_dim(self) -> dict[str, list[tuple[int, ...]]]:
        """Shape of each term without E, by group."""
        return {n: [self._out_shape(p) for p in g.terms.values()] for n, g in self._groups.items()}

    @property
    def group_obs_dim(self) -> dict[str, tuple[int, ...] | list[tuple[int, ...]]]:
        """Shape of each group without E: one for a concatenated group, otherwise one per term."""
        dims: dict[str, tuple[int, ...] | list[tuple[int, ...]]] = {}
        for name, group in self._groups.items():
            shapes = [self._out_shape(p) for p in group.terms.values()]
            if group.concatenate:
                axis = group.dim - 1
                total = sum(s[axis] for s in shapes)
                dims[name] = (*shapes[0][:axis], total, *shapes[0][axis + 1 :])
            else:
                dims[name] = shapes
        return dims

    def _out_shape(self, pipe: _Pipeline) -> tuple[int, ...]:
        shape = pipe.shape
        if pipe.history is None:
            return shape
        length = pipe.history.length
        return (length * math.prod(shape),) if pipe.flatten else (length, *shape)

    def term_bounds(self, group: str, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Lower and upper bound of a term's values, each of the term's shape without E (host tensors)."""
        pipe = self._groups[group].terms[name]
        shape = pipe.shape
        low, high = torch.full(shape, -torch.inf), torch.full(shape, torch.inf)
        if pipe.clip is not None:
            low.fill_(float(pipe.clip[0]))
            high.fill_(float(pipe.clip[1]))
        if pipe.scale is not None:
            scale = pipe.scale.cpu()
            a, b = low * scale, high * scale
            # A scale of 0 makes 0 of an infinite bound.
            a, b = (
                torch.nan_to_num(a, 0.0, torch.inf, -torch.inf),
                torch.nan_to_num(b, 0.0, torch.inf, -torch.inf),
            )
            low, high = torch.minimum(a, b), torch.maximum(a, b)
        if pipe.history is not None:
            length = pipe.history.length
            low, high = (x.expand(length, *shape) for x in (low, high))
            if pipe.flatten:
                low, high = low.reshape(-1), high.reshape(-1)
        return low.contiguous(), high.contiguous()

    def group_bounds(self, group: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Bounds of a concatenated group, each of its shape without E (host tensors)."""
        found = self._groups[group]
        pairs = [self.term_bounds(group, name) for name in found.terms]
        axis = found.dim - 1
        return torch.cat([p[0] for p in pairs], dim=axis), torch.cat([p[1] for p in pairs], dim=axis)

    def group_dim(self, group: str) -> int:
        """Dimension along which a group is concatenated, counting E."""
        return self._groups[group].dim

    def term_of_index(self, group: str, index: int) -> str:
        """Name of the term that owns position ``index`` along a group's concatenated dimension."""
        found = self._groups[group]
        for name, pipe in found.terms.items():
            size = self._out_shape(pipe)[found.dim - 1]
            if index < size:
                return name
            index -= size
        raise IndexError(f"observations.{group} has no position {index}.")

    # -- terms

    def _lookup(self, name: str) -> Term:
        """A term by ``group.term``, or by its own name when one group has it."""
        group, _, term = name.rpartition(".")
        hits = [
            g.terms[term] for n, g in self._groups.items() if term in g.terms and (not group or group == n)
        ]
        if len(hits) != 1:
            names = [f"{n}.{t}" for n, g in self._groups.items() for t in g.terms]
            if len(hits) > 1:
                raise KeyError(f"observations has several terms {name!r}; say which, as 'group.term'.")
            raise KeyError(f"observations has no term {name!r}.{near(name, names)}")
        return hits[0].term

    def set_term_cfg(self, name: str, cfg: Any) -> None:
        if cfg is not self._lookup(name).cfg:
            raise NotImplementedError(
                "Observation terms keep their place and shape; assign fields of get_term_cfg('group.term') instead."
            )

    # -- computing

    def compute(
        self, update_history: bool = False, env_mask: torch.Tensor | None = None
    ) -> dict[str, Observation]:
        """The observations by group: (E, n) tensors, or dicts of tensors by term. Always new tensors.

        Args:
            update_history: Evaluate the terms: a new step. Otherwise the values of the present step are
                given again.
            env_mask: With ``update_history``: evaluate in these environments only; the others keep their
                values, delays and histories.
        """
        return {
            name: self._compute_group(group, update_history, env_mask) for name, group in self._groups.items()
        }

    def compute_group(
        self, group_name: str, update_history: bool = False, env_mask: torch.Tensor | None = None
    ) -> Observation:
        """One group of :meth:`compute`."""
        if group_name not in self._groups:
            raise KeyError(f"observations has no group {group_name!r}.{near(group_name, self._groups)}")
        return self._compute_group(self._groups[group_name], update_history, env_mask)

    def _compute_group(
        self, group: _Group, update_history: bool, env_mask: torch.Tensor | None
    ) -> Observation:
        if update_history or not group.evaluated:
            self._update_group(group, env_mask if update_history else None)
        value = group.value
        return {n: v.clone() for n, v in value.items()} if isinstance(value, dict) else value.clone()

    def update(self, env_mask: torch.Tensor | None = None) -> None:
        """Evaluate the terms: a new step, or (with ``env_mask``) in these environments only."""
        for group in self._groups.values():
            self._update_group(group, env_mask)

    def _update_group(self, group: _Group, env_mask: torch.Tensor | None) -> None:
        if env_mask is None or not group.evaluated:
            parts = self._evaluate(group, None)
            if isinstance(group.value, dict):
                for name, value in parts.items():
                    group.value[name].copy_(value)
            else:
                torch.cat(list(parts.values()), dim=group.dim, out=group.value)
            group.evaluated = True
            return
        owners = [owner for pipe in group.terms.values() for owner, _ in pipe.stateful]
        kept = _KeptRows(owners, self.num_envs, env_mask)
        parts = self._evaluate(group, env_mask)
        kept.restore()
        if isinstance(group.value, dict):
            for name, value in parts.items():
                group.value[name].copy_(_merge(env_mask, value, group.value[name]))
        else:
            new = torch.cat(list(parts.values()), dim=group.dim)
            group.value.copy_(_merge(env_mask, new, group.value))

    def _evaluate(self, group: _Group, env_mask: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Run the terms; the results may share memory with them."""
        env, call = self._env, self._call
        values = {
            name: call(pipe.term.path, pipe.subject, pipe.run, env, env_mask)
            for name, pipe in group.terms.items()
        }
        self._join()
        return values

    def values(self) -> dict[str, Observation]:
        """The values of the present step themselves, not copies: read only."""
        return {name: g.value for name, g in self._groups.items()}

    def split_terms(self, group: str, value: Observation) -> dict[str, torch.Tensor]:
        """The part of each term in a group's value (views)."""
        if isinstance(value, dict):
            return value
        found = self._groups[group]
        sizes = [self._out_shape(p)[found.dim - 1] for p in found.terms.values()]
        return dict(zip(found.terms, value.split(sizes, dim=found.dim), strict=True))

    def move(self, group: str, places: dict[str | None, torch.Tensor]) -> None:
        """Keep a group's values elsewhere: by term, or under None for a concatenated group."""
        found = self._groups[group]
        for name, place in places.items():
            if name is None:
                assert isinstance(found.value, torch.Tensor)
                place.copy_(found.value)
                found.value = place
            else:
                assert isinstance(found.value, dict)
                place.copy_(found.value[name])
                found.value[name] = place

    def replace_values(self, env_mask: torch.Tensor, fill: float) -> None:
        """Put ``fill`` in place of the present values of the chosen environments."""
        for group in self._groups.values():
            parts = group.value.values() if isinstance(group.value, dict) else [group.value]
            for value in parts:
                value.masked_fill_(env_mask.view(-1, *[1] * (value.dim() - 1)), fill)

    def non_finite_terms(self) -> dict[str, torch.Tensor]:
        """Terms whose present values are not all finite: (E,) masks by ``group.term``. Reads from the device."""
        found: dict[str, torch.Tensor] = {}
        for group_name, group in self._groups.items():
            parts = self.split_terms(group_name, group.value)
            for name, value in parts.items():
                bad = ~torch.isfinite(value).flatten(1).all(dim=1)
                if bool(bad.any()):
                    found[f"{group_name}.{name}"] = bad
        return found

    def _reset_pipeline(self, pipe: _Pipeline, env_mask: torch.Tensor | None) -> None:
        for owner, selector in pipe.stateful:
            call_reset(owner, selector, env_mask)
        if pipe.delay is not None:
            pipe.delay.reset(env_mask)
        if pipe.history is not None:
            pipe.history.reset(env_mask)

    def reset(self, env_mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        """Clear modifiers, noise models, delays and histories of the chosen environments."""
        for group in self._groups.values():
            for pipe in group.terms.values():
                if pipe.stateful or pipe.delay is not None or pipe.history is not None:
                    self._call(pipe.term.path, pipe.subject, self._reset_pipeline, pipe, env_mask)
        return {}
