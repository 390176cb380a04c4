# SPDX-License-Identifier: Apache-2.0
"""Read and restore the whole changing state of an environment, for exact resuming.

The state of a forcelab environment lives in tensors that are allocated once and changed in place: physics
state, sensor histories and timers, manager buffers, counters, weights, curriculum levels, command and
randomisation ranges. They are found by walking the environment's own objects, so that user-written terms are
covered without doing anything, and are restored in place, so that captured graphs stay valid.

Not covered: Python numbers that a term keeps in attributes, and tensors that a term replaces instead of
changing in place (a shape that differs is reported).
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

# Attributes that hold configuration, spaces or results, not state.
_SKIP = {
    "cfg",
    "spec",
    "action_space",
    "observation_space",
    "single_action_space",
    "single_observation_space",
}
# Results and logs are views of what the managers hold.
_SKIP |= {
    "step_graph",
    "_outputs",
    "_episode_log",
    "_initial_cfgs",
    "metadata",
    "render_mode",
    "_np_random",
    "extras",
}


def env_tensors(env: Any) -> dict[str, torch.Tensor]:
    """Path → tensor (the live one) of everything that may change in ``env``.

    The engine adds what it names in ``engine.solver_memory()``: what the solver remembers between two steps.
    """
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    memory: set[tuple[Any, ...]] = set()
    # Keeps ids unique while walking: objects made by properties must not be freed in between.
    alive: list[Any] = []

    def add(path: str, tensor: torch.Tensor) -> None:
        plain = tensor.detach().as_subclass(torch.Tensor)
        key = (plain.data_ptr(), tuple(plain.shape), plain.stride(), plain.dtype, str(plain.device))
        if plain.numel() == 0 or key in memory or 0 in plain.stride():
            return
        memory.add(key)
        found[path] = plain

    def walk(path: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            add(path, value)
            return
        if value is None or isinstance(
            value, (str, bytes, int, float, bool, complex, type, types.ModuleType)
        ):
            return
        if id(value) in seen:
            return
        if isinstance(value, Mapping):
            seen.add(id(value))
            alive.append(value)
            for key, item in value.items():
                walk(f"{path}.{key}" if path else str(key), item)
        elif isinstance(value, (list, tuple)):
            seen.add(id(value))
            alive.append(value)
            for index, item in enumerate(value):
                walk(f"{path}.{index}", item)
        elif _is_warp_array(value):
            tensor = _warp_tensor(value)
            if tensor is not None:
                add(path, tensor)
        elif _is_ours(value):
            seen.add(id(value))
            alive.append(value)
            solver_memory = getattr(value, "solver_memory", None)
            if callable(solver_memory):
                for key, item in solver_memory().items():
                    walk(f"{path}.solver.{key}", item)
            for key, item in _attributes(value):
                if key not in _SKIP:
                    walk(f"{path}.{key}" if path else key, item)

    walk("", env)
    return found


def read_env_state(env: Any) -> dict[str, torch.Tensor]:
    """Host copies of :func:`env_tensors`."""
    _settle(env)
    return {path: tensor.to("cpu", copy=True) for path, tensor in env_tensors(env).items()}


def load_env_state(env: Any, state: Mapping[str, torch.Tensor], settings: bool = True) -> str | None:
    """Copy ``state`` into the tensors of ``env``, in place.

    Args:
        env: An environment built from the same configuration.
        state: From :func:`read_env_state`.
        settings: Also restore tensors without one row per environment: weights, ranges, levels, counters.
            False keeps those of ``env``, as is right when its configuration was changed on purpose;
            curriculum levels and step counters are restored in any case.

    Returns:
        None, or why the state does not fit; nothing has been changed then.
    """
    _settle(env)
    live = env_tensors(env)
    missing, extra = sorted(state.keys() - live.keys()), sorted(live.keys() - state.keys())
    if missing or extra:
        what = f"{missing[0]} is not there now" if missing else f"{extra[0]} was not there then"
        return f"{what}; {len(missing) + len(extra)} entries differ"
    for path, tensor in live.items():
        if tensor.shape != state[path].shape:
            return f"{path} had shape {tuple(state[path].shape)}, has {tuple(tensor.shape)}"
    num_envs = int(env.num_envs)
    with torch.no_grad():
        for path, tensor in live.items():
            if settings or _has_rows(tensor, num_envs) or _is_progress(path):
                tensor.copy_(state[path])
    _tell_engine(env)
    return None


def _settle(env: Any) -> None:
    """Let the scene finish what earlier writes left to do at the next read."""
    scene: Any = getattr(env, "scene", None)
    if hasattr(scene, "body_poses"):
        scene.body_poses(slice(0, 0))


def _tell_engine(env: Any) -> None:
    """Have the engine take restored masses, friction coefficients and gains into its own model."""
    engine: Any = getattr(getattr(env, "scene", None), "engine", None)
    for path, tree in getattr(engine, "trees", {}).items():
        engine.write_body_mass(path, tree.body_mass.clone())
        engine.write_friction(path, tree.body_friction.clone())
        if tree.joint_names:
            engine.notify_gains(path)


def read_settings(env: Any) -> dict[str, torch.Tensor]:
    """Host copies of the managers' small tensors without a row per environment: weights, ranges, levels."""
    num_envs = int(env.num_envs)
    return {
        path: tensor.to("cpu", copy=True)
        for path, tensor in env_tensors(env).items()
        if "manager" in path and not _has_rows(tensor, num_envs) and tensor.numel() <= 1024
    }


def load_settings(env: Any, settings: Mapping[str, torch.Tensor], only_progress: bool = False) -> None:
    """Restore what ``env`` has of :func:`read_settings`; ``only_progress``: levels and counters alone."""
    num_envs = int(env.num_envs)
    with torch.no_grad():
        for path, tensor in env_tensors(env).items():
            if path not in settings or tensor.shape != settings[path].shape or _has_rows(tensor, num_envs):
                continue
            if not only_progress or _is_progress(path):
                tensor.copy_(settings[path])


def _has_rows(tensor: torch.Tensor, num_envs: int) -> bool:
    return tensor.dim() > 0 and tensor.shape[0] == num_envs


def _is_progress(path: str) -> bool:
    return path.startswith("curriculum_manager") or "counter" in path or "step" in path.rsplit(".", 1)[-1]


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "__dict__"):
        yield from vars(value).items()
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)


def _is_ours(value: Any) -> bool:
    if callable(value) and isinstance(
        value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
    ):
        return False
    if any(cls.__module__.split(".")[0] == "forcelab" for cls in type(value).__mro__):
        return True
    # Records of user code.
    return dataclasses.is_dataclass(value)


def _is_warp_array(value: Any) -> bool:
    warp = sys.modules.get("warp")
    return warp is not None and isinstance(value, warp.array)


def _warp_tensor(value: Any) -> torch.Tensor | None:
    warp = sys.modules["warp"]
    try:
        return warp.to_torch(value, requires_grad=False)
    except (TypeError, RuntimeError, ValueError):
        # Structures and the like: kernel arguments, not state.
        return None
