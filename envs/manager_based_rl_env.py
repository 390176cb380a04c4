# SPDX-License-Identifier: Apache-2.0
"""The environment: a scene, the managers of a task, and the order in which they act."""

from __future__ import annotations

import copy
import math
import os
import random
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from forcelab.managers.action_manager import ActionManager
from forcelab.managers.command_manager import CommandManager
from forcelab.managers.curriculum_manager import CurriculumManager
from forcelab.managers.event_manager import EventManager
from forcelab.managers.manager_term_cfg import TerminationTermCfg, collection_items
from forcelab.managers.metrics_manager import MetricsManager
from forcelab.managers.observation_manager import Observation, ObservationManager
from forcelab.managers.reward_manager import RewardManager
from forcelab.managers.termination_manager import TerminationManager
from forcelab.physics.errors import near
from forcelab.scene.articulation import Articulation
from forcelab.scene.interactive_scene import InteractiveScene

from . import spaces
from .health import Health
from .manager_based_rl_env_cfg import ManagerBasedRlEnvCfg
from .outputs import Outputs
from .step_graph import StepGraph

#: Managers in the order they are made: attribute, section of the configuration, class.
_MANAGERS: tuple[tuple[str, str, Any], ...] = (
    ("event_manager", "events", EventManager),
    ("command_manager", "commands", CommandManager),
    ("action_manager", "actions", ActionManager),
    ("observation_manager", "observations", ObservationManager),
    ("termination_manager", "terminations", TerminationManager),
    ("reward_manager", "rewards", RewardManager),
    ("metrics_manager", "metrics", MetricsManager),
    ("curriculum_manager", "curriculum", CurriculumManager),
)
_LIMIT_TERM = "max_episode_steps"


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def draw_seed() -> int:
    """A seed from the operating system, 0 … 2³¹ - 1."""
    return int.from_bytes(os.urandom(4), "little") >> 1


def episode_limit_reached(env: Any) -> torch.Tensor:
    """(E,) bool: the episode has as many steps as ``max_episode_steps`` allows."""
    return env.episode_length_buf >= env.max_episode_length


class ManagerBasedRlEnv(gymnasium.Env[dict[str, Any], torch.Tensor]):
    """E environments that step together.

    Observations are a dict of groups, each (E, n) float32 (or a dict of tensors by term); reward (E,)
    float32, terminated and truncated (E,) bool, on :attr:`device`. Environments whose episode ends are
    reset within the same step, and the observations returned are those after the reset. Everything
    returned is a new tensor.

    Order of a step: process action; ``decimation`` times (apply action, physics step); counters;
    terminations; rewards; metrics; masked reset (curriculum, scene, reset events, managers); commands;
    interval events; observations.

    Args:
        cfg: Its configuration; the environment works on a copy. A seed that is drawn is written back.
        device: Overrides ``cfg.device``.
        render_mode: None, or ``"rgb_array"``: :meth:`render` returns a picture of environment 0.

    Attributes:
        episode_length_buf: (E,) int64 steps since the reset; assignment copies into the same memory.
        common_step_counter: 0-dim int64 tensor, environment steps since the start.
        reset_buf, reset_terminated, reset_time_outs: (E,) bool of the last step.
        obs_buf, reward_buf: What the last step returned.
        extras: The ``info`` of the last step or reset.
    """

    metadata: dict[str, Any] = {  # instances have their own, with render_fps
        "render_modes": ["rgb_array"],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    # Buffers made under inference mode could not be written to outside of it.
    @torch.inference_mode(False)
    def __init__(
        self,
        cfg: ManagerBasedRlEnvCfg,
        device: str | torch.device | None = None,
        render_mode: str | None = None,
    ):
        cfg.check()
        if cfg.seed is None:
            cfg.seed = draw_seed()
        self.cfg = copy.deepcopy(cfg)
        if device is not None:
            self.cfg.device = str(device)
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}; it must be None or 'rgb_array'.")
        self.render_mode = render_mode
        self._seed(self.cfg.seed)  # type: ignore[arg-type]
        self.scene = InteractiveScene(self.cfg.scene, self.cfg.physics, self.cfg.device)  # type: ignore[arg-type]
        self.num_envs: int = self.scene.num_envs
        self.device: torch.device = self.scene.device
        self.decimation: int = self.cfg.decimation
        self.physics_dt: float = self.scene.physics_dt
        self.step_dt: float = self.physics_dt * self.decimation
        self.max_episode_length_s: float = float(self.cfg.episode_length_s)
        self.max_episode_length: int = math.ceil(self.max_episode_length_s / self.step_dt - 1e-6)
        fps = 1.0 / self.step_dt
        self.metadata = {
            **type(self).metadata,
            "render_fps": round(fps) if abs(fps - round(fps)) < 1e-6 else fps,
        }
        #: (E,) bool, all True.
        self.all_envs = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        self._episode_length = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self.common_step_counter = torch.zeros((), dtype=torch.long, device=self.device)
        self._no_envs = torch.zeros_like(self.all_envs)
        self.extras: dict[str, Any] = {}
        # On the CPU a look at the data costs next to nothing and saves whole branches; on CUDA it would stall.
        self._looks = self.device.type == "cpu"
        self._num_ended = torch.zeros((), device=self.device)
        self._defaults = self._read_defaults()
        self._initial_cfgs: list[tuple[Any, dict[str, Any]]] | None = None
        self._recorder: Any = None
        #: How the step is captured; see :class:`StepGraph`.
        self.step_graph = StepGraph(self, self.cfg.step_graph)
        # Again, so that a seeded reset, which does not build the scene anew, starts from the same point.
        seed_everything(self.seed)
        self._load_managers()
        self.single_observation_space = spaces.observation_space(self.observation_manager)
        self.single_action_space = spaces.action_space(self.action_manager)
        self.observation_space = spaces.batched(self.single_observation_space, self.num_envs)
        self.action_space = spaces.batched(self.single_action_space, self.num_envs)
        self.event_manager.apply("startup")

    # -- building

    def _seed(self, seed: int) -> None:
        self.seed: int = int(seed)
        self.cfg.seed = self.seed
        self._np_random, self._np_random_seed = seeding.np_random(self.seed)
        seed_everything(self.seed)

    def _load_managers(self) -> None:
        """Make the managers, or start them anew (the same objects) after a seeded reset."""
        for attribute, section, cls in _MANAGERS:
            cfg = getattr(self.cfg, section)
            manager = self.__dict__.get(attribute)
            if manager is None:
                setattr(self, attribute, cls(cfg, self))
            else:
                manager.__init__(cfg, self)
        self.health = Health(self, self.cfg.nan_policy, self._looks)
        self._join_managers()

    def _join_managers(self) -> None:
        """Keep what the managers give, and what they log, in few pieces of memory."""
        self._outputs = Outputs(self)
        self._logged: list[RewardManager | TerminationManager | MetricsManager] = [
            self.reward_manager,
            self.termination_manager,
            self.metrics_manager,
        ]
        counts = [manager.episode_values().shape[0] for manager in self._logged]
        self._episode_log = torch.zeros(sum(counts), device=self.device)
        for manager, part in zip(self._logged, self._episode_log.split(counts), strict=True):
            manager._log = part
        self.on_change("the managers were made anew")

    def call_term(self, path: str, subject: Any, work: Any, *args: Any) -> Any:
        """Do a term's part of the step, ``work(*args)``; all managers call their terms through this.

        Args:
            path: Key path of the term.
            subject: The function or object of the user, or a list of them.
            work: What to do. What it returns is a tensor or None.
            args: Arguments of ``work``.
        """
        hook = self.step_graph.hook
        return work(*args) if hook is None else hook(path, subject, work, args)

    def join_terms(self) -> None:
        """The values of the terms called last are about to be read."""
        self.step_graph.join()

    def on_change(self, reason: str) -> None:
        """Something changed that a captured step does not follow: it is captured anew."""
        self.step_graph.mark_dirty(reason)

    event_manager: EventManager
    command_manager: CommandManager
    action_manager: ActionManager
    observation_manager: ObservationManager
    termination_manager: TerminationManager
    reward_manager: RewardManager
    metrics_manager: MetricsManager
    curriculum_manager: CurriculumManager

    # -- properties

    @property
    def episode_length_buf(self) -> torch.Tensor:
        return self._episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self._episode_length.copy_(value)

    @property
    def reset_terminated(self) -> torch.Tensor:
        return self.termination_manager.terminated

    @property
    def reset_time_outs(self) -> torch.Tensor:
        return self.termination_manager.time_outs

    @property
    def reset_buf(self) -> torch.Tensor:
        return self.termination_manager.dones

    @property
    def reward_buf(self) -> torch.Tensor:
        return self.reward_manager._total

    @property
    def obs_buf(self) -> dict[str, Observation]:
        return self.observation_manager.compute()

    def worth_doing(self, mask: torch.Tensor) -> bool:
        """Whether masked work has to be done: always on CUDA, on the CPU only if some element is True."""
        return bool(mask.any()) if self._looks else True

    def set_max_episode_steps(self, steps: int) -> None:
        """Cut episodes after ``steps`` environment steps, whatever the time limit of the configuration.

        Adds the time-out term ``max_episode_steps``.
        """
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ValueError(f"max_episode_steps is {steps!r}; it must be a whole number, 1 or more.")
        self.max_episode_length = steps
        self.max_episode_length_s = self.cfg.episode_length_s = steps * self.step_dt
        term = TerminationTermCfg(func=episode_limit_reached, time_out=True)
        if isinstance(self.cfg.terminations, dict):
            self.cfg.terminations[_LIMIT_TERM] = term
        else:
            setattr(self.cfg.terminations, _LIMIT_TERM, term)
        self.termination_manager.__init__(self.cfg.terminations, self)  # type: ignore[misc]
        self._join_managers()

    # -- Gymnasium

    def step(  # type: ignore[override]
        self, action: torch.Tensor
    ) -> tuple[dict[str, Observation], torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Apply ``action`` (E, A) for one environment step of ``step_dt`` s.

        Returns:
            Observations, reward (E,), terminated (E,) bool, truncated (E,) bool, info. With
            ``cfg.final_obs``, info has ``final_obs``: observations at the end of the episodes that ended
            in this step (0 in the other environments), and ``_final_obs`` (E,) bool: where.

        Raises:
            ValueError: The shape of the action is wrong, or a term returns a wrong shape; the message
                names the term. Not-finite numbers, see ``cfg.nan_policy``.
        """
        self.step_graph.step(self.action_manager.check(action))
        if self.cfg.validate and not self._looks:
            self.health.report(self.health.flags().tolist())
        obs, reward, terminated, truncated = self._outputs.copies()
        return obs, reward, terminated, truncated, self.extras

    def _step_work(self, action: torch.Tensor) -> None:
        """One step; everything that it gives lies in buffers of the managers, and in :attr:`extras`."""
        part = self.step_graph.part
        part("actions")
        info: dict[str, Any] = {}
        self.extras = info
        self.health.check_action(action)
        self.action_manager.process_action(action)
        for _ in range(self.decimation):
            part("actions")
            self.action_manager.apply_action()
            part("physics and sensors")
            self.scene.step()
        part("terminations")
        self._episode_length.add_(1)
        self.common_step_counter.add_(1)
        bad = self.health.check_state()
        ended = self.termination_manager.compute()
        part("rewards")
        reward = self.reward_manager.compute(self.step_dt)
        bad_reward = self.health.check_reward(reward, self.reward_manager.step_values)
        if self.health.policy == "reset":
            bad = self._end_non_finite(bad, bad_reward)
        self.metrics_manager.compute()
        self.command_manager.update_metrics()
        part("resets")
        dt: float | torch.Tensor = self.step_dt
        resets = self.worth_doing(ended)
        if resets:
            if self.cfg.final_obs:
                self._add_final_obs(info, ended)
            self._reset_envs(ended, bad)
            # The clocks of an episode start with its first step, not with the reset before it.
            dt = torch.where(ended, 0.0, self.step_dt)
        elif self.cfg.final_obs:
            self._add_no_final_obs(info)
        part("commands")
        self.command_manager.compute(dt)
        part("interval events")
        self.event_manager.apply("interval", dt=dt)
        part("observations")
        self._observe()

    def reset(  # type: ignore[override]
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Any]]:
        """Reset all environments, or some.

        Args:
            seed: Starts everything anew, as if made with this seed: defaults (of the scene, and of the
                term configurations as they were at the first reset), counters and generators, and redraws
                startup randomisation.
            options: ``{"reset_mask": bool (E,)}`` resets these environments only; the others keep their
                state and observations.

        Returns:
            Observations and info.

        Raises:
            ValueError: Unknown option, wrong mask, or a seed together with a mask.
        """
        mask = self._reset_mask(options)
        if self._initial_cfgs is None:
            self._initial_cfgs = self._read_cfgs()
        if seed is not None:
            if mask is not None:
                raise ValueError("reset(seed=…) concerns all environments; give it without 'reset_mask'.")
            if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
                raise ValueError(f"seed is {seed!r}; it must be a whole number, 0 or more, or None.")
            self._start_anew(int(seed))
        self.extras = {}
        self._reset_envs(self.all_envs if mask is None else mask, None, all_envs=mask is None)
        self.command_manager.update_commands()
        self._observe(mask)
        return self.observation_manager.compute(), self.extras

    def _reset_mask(self, options: dict[str, Any] | None) -> torch.Tensor | None:
        for key in options or {}:
            if key != "reset_mask":
                raise ValueError(f"options has an unknown key {key!r}.{near(key, ['reset_mask'])}")
        mask = (options or {}).get("reset_mask")
        if mask is None:
            return None
        try:
            mask = torch.as_tensor(mask, device=self.device)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(
                f"options['reset_mask'] is {mask!r}; it must be bool ({self.num_envs},)."
            ) from None
        if mask.dtype is not torch.bool or mask.shape != (self.num_envs,):
            raise ValueError(
                f"options['reset_mask'] has dtype {mask.dtype} and shape {tuple(mask.shape)}; it must be bool "
                f"({self.num_envs},)."
            )
        return mask

    def render(self) -> Any:
        """A picture (height, width, 3) uint8 of environment 0; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._recorder is None:
            # Viewers may import environments, so they are looked up only when somebody wants a picture.
            import importlib

            viewers = importlib.import_module("forcelab.viewers")
            self._recorder = viewers.FrameRecorder(self.scene)
        return self._recorder.capture(keep=False)

    def close(self) -> None:
        """Free the engine. Safe to call twice."""
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None
        self.step_graph.close()
        self.scene.close()

    # -- parts of a step

    def _observe(self, env_mask: torch.Tensor | None = None) -> None:
        self.observation_manager.update(env_mask)
        self.health.check_observations()

    def _end_non_finite(
        self, bad_state: torch.Tensor | None, bad_reward: torch.Tensor | None
    ) -> torch.Tensor | None:
        """End the episodes of environments whose numbers are not finite; their reward is 0."""
        pending = self.health.pending
        bad = pending.clone() if self.worth_doing(pending) else None
        for found in (bad_state, bad_reward):
            if found is not None:
                bad = found if bad is None else bad | found
        if bad is not None:
            self.termination_manager.terminate(bad)
            self.reward_manager.discard(bad)
            self.health.num_resets.add_(bad.sum())
            pending.zero_()
        return bad

    def _add_final_obs(self, info: dict[str, Any], ended: torch.Tensor) -> None:
        obs = self.observation_manager.compute(update_history=True, env_mask=ended)

        def only_ended(value: Observation) -> Observation:
            if isinstance(value, dict):
                return {name: only_ended(v) for name, v in value.items()}  # type: ignore[misc]
            return torch.where(ended.view(-1, *[1] * (value.dim() - 1)), value, 0.0)

        info["final_obs"] = {name: only_ended(value) for name, value in obs.items()}
        info["_final_obs"] = ended.clone()

    def _add_no_final_obs(self, info: dict[str, Any]) -> None:
        def zeros(value: Observation) -> Observation:
            if isinstance(value, dict):
                return {name: torch.zeros_like(v) for name, v in value.items()}
            return torch.zeros_like(value)

        info["final_obs"] = {name: zeros(v) for name, v in self.observation_manager.values().items()}
        info["_final_obs"] = self._no_envs.clone()

    def _reset_envs(self, mask: torch.Tensor, bad: torch.Tensor | None, all_envs: bool = False) -> None:
        """Begin a new episode in the environments of ``mask``; ``all_envs``: the mask is all True."""
        chosen = None if all_envs else mask
        # Episodes that never began are no episodes; those that ended in nonsense would spoil the means.
        ended = mask & (self._episode_length > 0)
        if bad is not None:
            ended = ended & ~bad
        self._num_ended.add_(ended.sum())
        self.curriculum_manager.compute(mask)
        sources = [manager.episode_values().float() for manager in self._logged]
        self._episode_log.add_(torch.where(ended, torch.cat(sources), 0.0).sum(dim=1))
        self.termination_manager.remember(ended)
        self.command_manager.accumulate(ended)
        self.scene.reset(chosen)
        self.event_manager.apply("reset", mask)
        self.observation_manager.reset(chosen)
        self.action_manager.reset(chosen)
        self.reward_manager.clear(chosen)
        self.termination_manager.clear(chosen)
        self.metrics_manager.clear(chosen)
        self.curriculum_manager._reset_terms(chosen)
        self.command_manager.begin_episode(mask)
        self.event_manager.reset(chosen)
        self._episode_length.masked_fill_(mask, 0)

    # -- seeded restart

    @torch.inference_mode(False)
    def _read_cfgs(self) -> list[tuple[Any, dict[str, Any]]]:
        """(configuration of a term, copy of its fields) for all terms."""
        found: list[Any] = []
        for _, section, _ in _MANAGERS:
            for _, entry in collection_items(getattr(self.cfg, section)):
                found += [t for _, t in collection_items(entry)] if section == "observations" else [entry]
        memo: dict[int, Any] = {}
        return [
            (cfg, {n: copy.deepcopy(v, memo) for n, v in vars(cfg).items() if n != "_on_assign"})
            for cfg in found
        ]

    @torch.inference_mode(False)
    def _start_anew(self, seed: int) -> None:
        self._seed(seed)
        self._write_defaults()
        self._episode_length.zero_()
        self.common_step_counter.zero_()
        assert self._initial_cfgs is not None
        memo: dict[int, Any] = {}
        for cfg, fields in self._initial_cfgs:
            for name, value in copy.deepcopy(fields, memo).items():
                object.__setattr__(cfg, name, value)
        seed_everything(self.seed)
        self._load_managers()
        self._num_ended.zero_()
        self.scene.reset()
        self.event_manager.apply("startup")

    def _read_defaults(self) -> list[tuple[Any, torch.Tensor]]:
        """(tensor, copy) of everything about the assets that terms may randomise."""
        found = []
        for asset in (*self.scene.articulations.values(), *self.scene.rigid_objects.values()):
            for name, value in vars(asset.data).items():
                if name.startswith("default_") or name.endswith("_limits"):
                    plain = value.as_subclass(torch.Tensor)
                    found.append((plain, plain.clone()))
        return found

    def _write_defaults(self) -> None:
        for tensor, copied in self._defaults:
            tensor.copy_(copied)
        for asset in (*self.scene.articulations.values(), *self.scene.rigid_objects.values()):
            asset.write_body_mass(asset.data.default_body_mass)
            asset.write_friction(asset.data.default_friction)
            if isinstance(asset, Articulation) and asset.joint_names:
                data: Any = asset.data
                asset.write_joint_gains(data.default_joint_stiffness, data.default_joint_damping)

    # -- logs

    def pop_logs(self) -> dict[str, float]:
        """Log values since the last call, as numbers. Waits for the device, once.

        ``Episode_Reward/<term>``, ``Episode_Termination/<term>``, ``Metrics/…`` are means over the
        episodes that ended since the last call, and absent when none did; ``Curriculum/…`` are the latest
        values. ``Health/non_finite_resets`` counts what ``nan_policy="reset"`` did.

        Raises:
            NonFiniteError: On CUDA, something was not finite since the last call (see ``cfg.nan_policy``).
            RuntimeError: A contact capacity was exceeded and ``physics.on_overflow`` is ``"raise"``.
        """
        parts = [
            (*part, manager.log_scale)
            for manager in (
                self.reward_manager,
                self.termination_manager,
                self.metrics_manager,
                self.command_manager,
                self.curriculum_manager,
            )
            for part in manager.log_parts()
        ]
        head = [self.health.flags(), self._num_ended.view(1), self.health.num_resets.view(1)]
        numbers = torch.cat([*head, *(values.float() for _, values, *_ in parts)]).tolist()
        flags, (ended, resets), rest = numbers[:4], numbers[4:6], iter(numbers[6:])
        logs: dict[str, float] = {}
        for keys, values, is_sum, scale in parts:
            for key in keys:
                value = next(rest)
                if not is_sum:
                    logs[key] = value
                elif ended:
                    logs[key] = scale * value / ended
            if is_sum:
                values.zero_()
        if self.health.policy == "reset":
            logs["Health/non_finite_resets"] = resets
        self._num_ended.zero_()
        self.health.num_resets.zero_()
        self.health.report(flags)
        self.scene.check_overflow()
        return logs


ManagerBasedRLEnv = ManagerBasedRlEnv
