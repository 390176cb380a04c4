# SPDX-License-Identifier: Apache-2.0
"""Gymnasium registration: specifications and the functions behind ``make`` and ``make_vec``."""

from __future__ import annotations

import copy
import dataclasses
import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from forcelab.physics.errors import near

if TYPE_CHECKING:
    from .manager_based_rl_env import ManagerBasedRlEnv
    from .manager_based_rl_env_cfg import ManagerBasedRlEnvCfg
    from .single_env import SingleEnv
    from .vector_env import VectorEnv

_LIMIT_WRAPPER = WrapperSpec("TimeLimit", "forcelab.envs.gym_spec:take_time_limit", {})
_KNOWN = (
    "cfg",
    "overrides",
    "num_envs",
    "device",
    "seed",
    "max_episode_steps",
    "render_mode",
    "single",
    "group",
)


class ForcelabEnvSpec(EnvSpec):
    """A specification whose ``make(max_episode_steps=N)`` limits every environment by itself.

    Gymnasium would wrap its ``TimeLimit``, which counts the steps of the whole batch. ``make`` applies
    ``additional_wrappers`` after that, and ours hands the limit to the environment. ``make_vec`` passes the
    limit on by itself but refuses such wrappers; it copies the specification first, and copies have none.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> EnvSpec:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.init}
        fields["kwargs"] = copy.deepcopy(fields["kwargs"], memo)
        fields["additional_wrappers"] = ()
        return EnvSpec(**fields)


def take_time_limit(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Move the limit of an outermost ``TimeLimit`` wrapper into the environment itself."""
    if not isinstance(env, gymnasium.wrappers.TimeLimit):
        return env
    steps = int(env._max_episode_steps)
    inner, base = env.env, env.unwrapped
    base.set_max_episode_steps(steps)  # type: ignore[attr-defined]
    if base.spec is not None:
        base.spec.kwargs["max_episode_steps"] = steps
    return inner


def register_envs(tasks: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
    """Register Gymnasium ids. Composing the configuration and loading torch wait until ``make``.

    Args:
        tasks: Gymnasium id → name of the task in ``forcelab.configs``. Registering an id again replaces it.
    """
    for env_id, task in dict(tasks).items():
        gymnasium.registry[env_id] = ForcelabEnvSpec(
            id=env_id,
            entry_point="forcelab.envs.gym_spec:make_env",
            vector_entry_point="forcelab.envs.gym_spec:make_vector_env",
            disable_env_checker=True,
            kwargs={"task": task},
            additional_wrappers=(_LIMIT_WRAPPER,),
        )


def _configure(
    task: str,
    cfg: ManagerBasedRlEnvCfg | None,
    overrides: Sequence[str],
    unknown: Mapping[str, Any],
    **settings: Any,
) -> ManagerBasedRlEnvCfg:
    for key in unknown:
        if key == "single":
            raise TypeError("single=True is for gymnasium.make; make_vec makes batched environments.")
        raise TypeError(f"Environment {task!r} has no argument {key!r}.{near(key, _KNOWN)}")
    if cfg is not None and overrides:
        raise ValueError("Give either cfg, a finished configuration, or overrides, not both.")
    if isinstance(overrides, str):
        raise TypeError(
            f"overrides must be a list of strings such as ['scene.num_envs=64'], got {overrides!r}."
        )
    if cfg is None:
        cfg = importlib.import_module("forcelab.configs").compose(task, list(overrides)).env
    else:
        given, cfg = cfg, copy.deepcopy(getattr(cfg, "env", cfg))
        if not hasattr(cfg, "check"):
            raise TypeError(
                f"cfg is {given!r}; it must be a ManagerBasedRlEnvCfg, or what compose() returns."
            )
    assert cfg is not None
    num_envs = settings.pop("num_envs")
    if num_envs is not None:
        cfg.scene.num_envs = num_envs
    for name, value in settings.items():
        if value is not None:
            setattr(cfg, name, value)
    return cfg


def _build(given: Any, cfg: Any, max_episode_steps: int | None, render_mode: str | None) -> ManagerBasedRlEnv:
    from .manager_based_rl_env import ManagerBasedRlEnv

    env = ManagerBasedRlEnv(cfg, render_mode=render_mode)
    given = getattr(given, "env", given)
    if given is not None and given.seed is None:
        given.seed = env.seed
    if max_episode_steps is not None:
        env.set_max_episode_steps(max_episode_steps)
    return env


def make_env(
    task: str,
    *,
    cfg: ManagerBasedRlEnvCfg | None = None,
    overrides: Sequence[str] = (),
    num_envs: int | None = None,
    device: str | None = None,
    seed: int | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    single: bool = False,
    group: str | None = None,
    **unknown: Any,
) -> ManagerBasedRlEnv | SingleEnv:
    """What ``gymnasium.make(id, …)`` calls.

    Args:
        task: Name of the task in ``forcelab.configs``; set by the registration.
        cfg: A finished configuration (or what ``compose`` returns) instead of ``overrides``; it is copied.
        overrides: Overrides of the task's configuration, such as ``"rewards.alive.weight=2"``.
        num_envs: Number of environments E.
        device: ``"cpu"``, ``"cuda:0"`` …
        seed: Seeds everything.
        max_episode_steps: Time limit of an episode in environment steps.
        render_mode: None or ``"rgb_array"``.
        single: One environment with the plain Gymnasium interface in NumPy: a :class:`SingleEnv`.
        group: With ``single``: the observation is this group instead of a dict of groups.

    Raises:
        TypeError: An argument that does not exist.
    """
    if group is not None and not single:
        raise ValueError("group needs single=True; the batched environment returns all groups.")
    if single and num_envs not in (None, 1):
        raise ValueError(f"single=True makes one environment, but num_envs is {num_envs}.")
    final = cfg
    cfg = _configure(
        task, cfg, overrides, unknown, num_envs=1 if single else num_envs, device=device, seed=seed
    )
    if single:
        cfg.final_obs = True
    env = _build(final, cfg, max_episode_steps, render_mode)
    if not single:
        return env
    from .single_env import SingleEnv

    return SingleEnv(env, group)


def make_vector_env(
    task: str,
    *,
    num_envs: int = 1,
    cfg: ManagerBasedRlEnvCfg | None = None,
    overrides: Sequence[str] = (),
    device: str | None = None,
    seed: int | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    to: str = "numpy",
    group: str | None = None,
    **unknown: Any,
) -> VectorEnv:
    """What ``gymnasium.make_vec(id, …)`` calls. See :func:`make_env` and :class:`VectorEnv`.

    ``make_vec`` always passes ``num_envs``, 1 unless told otherwise; 1 therefore keeps the number that ``cfg``
    or ``overrides`` state.
    """
    stated = cfg is not None or any("num_envs=" in str(o) for o in overrides)
    final = cfg
    cfg = _configure(
        task,
        cfg,
        overrides,
        unknown,
        num_envs=None if num_envs == 1 and stated else num_envs,
        device=device,
        seed=seed,
    )
    cfg.final_obs = True
    from .vector_env import VectorEnv

    return VectorEnv(_build(final, cfg, max_episode_steps, render_mode), to=to, group=group)
