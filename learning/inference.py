# SPDX-License-Identifier: Apache-2.0
"""An environment and a trained policy for it, set up for evaluation and playing."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import checkpoint as ckpt
from .distributed import draw_seed
from .layout import policy_layout
from .policy import Policy, load_policy
from .vec_env import RslRlVecEnv


@dataclass
class Rollout:
    """An environment with the policy that fits it.

    Attributes:
        env: Environment adapter, reset.
        policy: The policy on the environment's device.
        path: Checkpoint file.
    """

    env: RslRlVecEnv
    policy: Policy
    path: Path

    @property
    def base(self) -> Any:
        """The forcelab environment."""
        return self.env.unwrapped


def quiet_env_cfg(
    cfg: Any, *, noise: bool = False, interval_events: bool = False, curriculum: bool = False
) -> Any:
    """A copy of an environment configuration for judging a policy.

    Args:
        cfg: :class:`forcelab.envs.ManagerBasedRlEnvCfg`.
        noise: Keep the observation noise.
        interval_events: Keep events of mode ``interval``, such as pushes.
        curriculum: Keep the curriculum; without it everything stays as it was configured.
    """
    cfg = copy.deepcopy(cfg)
    if not interval_events:
        for name, term in _entries(getattr(cfg, "events", None)):
            if getattr(term, "mode", None) == "interval":
                _switch_off(cfg.events, name)
    if not noise:
        for _, group in _entries(getattr(cfg, "observations", None)):
            if hasattr(group, "enable_corruption"):
                group.enable_corruption = False
    if not curriculum:
        for name, _ in _entries(getattr(cfg, "curriculum", None)):
            _switch_off(cfg.curriculum, name)
    return cfg


def open_rollout(
    composed: Any,
    checkpoint: str | os.PathLike[str] = "latest",
    *,
    num_envs: int | None = None,
    log_root: str | os.PathLike[str] = "logs",
    noise: bool = False,
    interval_events: bool = False,
    curriculum: bool = False,
    command: Sequence[float] | None = None,
    make_env: Callable[[Any], Any] | None = None,
) -> Rollout:
    """Find and read the checkpoint, build the environment, and check that they fit.

    Args:
        composed: :func:`forcelab.configs.compose`'s result: ``task``, ``env`` and ``agent``.
        checkpoint: As for :func:`forcelab.learning.checkpoint.find_checkpoint`.
        num_envs: Number of environments; None: as configured.
        log_root: Folder of all experiments.
        noise, interval_events, curriculum: See :func:`quiet_env_cfg`.
        command: Velocity command (m/s, m/s, rad/s) to hold; None: the task draws its own.
        make_env: Builds the environment from its configuration; None: ``ManagerBasedRlEnv``.

    Raises:
        CheckpointError: No such checkpoint, or it does not fit the environment.
        ValueError: ``command`` is not three numbers, or the task has no velocity command.
    """
    path = ckpt.find_checkpoint(
        checkpoint, experiment=composed.agent.experiment_name, log_root=log_root, task=composed.task
    )
    # Read before the environment is built, which may take a minute.
    policy = load_policy(path)
    cfg = quiet_env_cfg(composed.env, noise=noise, interval_events=interval_events, curriculum=curriculum)
    if command is not None:
        hold_command(cfg, command, composed.task)
    if num_envs is not None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, found {num_envs}.")
        cfg.scene.num_envs = num_envs
    if cfg.seed is None:
        cfg.seed = draw_seed()
    missing = [g for g in policy.groups if g not in dict(_entries(cfg.observations))]
    if missing:
        known = [name for name, _ in _entries(cfg.observations)]
        raise ckpt.CheckpointError(
            f"Checkpoint {str(path)!r} was trained on task {policy.task!r} and does not fit task "
            f"{composed.task!r}: it reads observation group {missing[0]!r}; this task has {', '.join(known)}."
        )
    base = default_env(cfg) if make_env is None else make_env(cfg)
    try:
        env = RslRlVecEnv(base, clip_actions=policy.clip_actions)
        ckpt.check_layout(policy.header, policy_layout(env, policy.groups), composed.task, path)
    except BaseException:
        base.close()
        raise
    policy.model.to(env.device)
    policy.device = torch.device(env.device)
    return Rollout(env, policy, path)


def default_env(cfg: Any) -> Any:
    """Build :class:`forcelab.envs.ManagerBasedRlEnv`."""
    from forcelab.envs import ManagerBasedRlEnv

    return ManagerBasedRlEnv(cfg)


def hold_command(cfg: Any, command: Sequence[float], task: str) -> None:
    """Change the velocity commands of an environment configuration so that they always draw ``command``.

    Raises:
        ValueError: ``command`` is not three numbers, or there is no velocity command.
    """
    if len(command) != 3:
        raise ValueError(f"command needs three numbers (m/s, m/s, rad/s), found {list(command)!r}.")
    forward, sideways, turn = (float(x) for x in command)
    terms = [t for _, t in _entries(cfg.commands) if hasattr(getattr(t, "ranges", None), "lin_vel_x")]
    if not terms:
        raise ValueError(f"command={list(command)!r}: task {task!r} has no velocity command.")
    for term in terms:
        term.ranges.lin_vel_x = (forward, forward)
        term.ranges.lin_vel_y = (sideways, sideways)
        term.ranges.ang_vel_z = (turn, turn)
        term.heading_command = False
        term.rel_standing_envs = 0.0


def velocity_command(base: Any) -> tuple[str, Any] | None:
    """Name and robot of the environment's velocity command; None when the task has none.

    A velocity command is a command term with an attribute ``vel_command_b`` (E, 3): velocities along x and y
    and yaw rate in the robot's frame.
    """
    manager: Any = getattr(base, "command_manager", None)
    for name in getattr(manager, "active_terms", None) or ():
        term = manager.get_term(name)
        if hasattr(term, "vel_command_b"):
            return name, base.scene[term.cfg.asset_name]
    return None


def _entries(collection: Any) -> Iterator[tuple[str, Any]]:
    if collection is None:
        return iter(())
    return iter([(name, value) for name, value in collection.items() if value is not None])


def _switch_off(collection: Any, name: str) -> None:
    if isinstance(collection, dict):
        collection[name] = None
    else:
        setattr(collection, name, None)
