# SPDX-License-Identifier: Apache-2.0
"""rsl_rl's on-policy runner with exact resuming, atomic checkpoints and a log that stays on the device."""

from __future__ import annotations

import contextlib
import io
import math
import os
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import numpy as np
import torch
from rsl_rl.runners import OnPolicyRunner

from forcelab.envs.env_state import load_env_state, load_settings, read_env_state, read_settings
from forcelab.physics.errors import near

from . import checkpoint as ckpt
from .agent_cfg import AgentCfg
from .captured_act import CapturedAct, why_not_captured
from .device_logger import DeviceLogger
from .distributed import Ranks, join
from .layout import policy_layout
from .sampling import draw_on_device
from .vec_env import RslRlVecEnv


class TrainingDiverged(RuntimeError):
    """A loss became NaN or infinite."""


class PpoRunner(OnPolicyRunner):
    """Training loop.

    ``current_learning_iteration`` is the number of iterations COMPLETED, also in checkpoint names and
    contents.

    Args:
        env: Environment adapter.
        agent: Agent configuration.
        log_dir: Run folder; None writes nothing.
        device: Device of networks and rollouts.
        task: Task name, written into the checkpoints.
        ranks: Place of this process in a ``torchrun`` job.
        seed: Base seed, written into the checkpoints.
        stream: Where progress is printed; None prints nothing.
    """

    logger: DeviceLogger

    def __init__(
        self,
        env: RslRlVecEnv,
        agent: AgentCfg,
        log_dir: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        *,
        task: str = "unnamed",
        ranks: Ranks | None = None,
        seed: int | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self.agent = agent
        self.task = task
        self.ranks = ranks or Ranks()
        self.seed = seed
        self.log_dir = None if log_dir is None else Path(log_dir)
        self.stop_requested = False
        cfg = agent.to_rsl_rl()
        _check_groups(env, cfg["obs_groups"])
        # rsl_rl prints both networks in full.
        with contextlib.redirect_stdout(io.StringIO()):
            super().__init__(env, cfg, log_dir=None, device=str(device))
        draw_on_device(self.alg.get_policy())
        self._act: Callable[[Any], torch.Tensor] = self.alg.act
        if agent.capture_inference:
            self._capture_inference(cfg["obs_groups"])
        # Whether networks and simulation are on different devices.
        self._elsewhere = torch.device(self.device) != torch.device(env.device)
        self.logger = DeviceLogger(
            None if log_dir is None else str(log_dir),
            num_envs=env.num_envs,
            steps_per_iteration=cfg["num_steps_per_env"],
            device=self.device,
            world_size=self.gpu_world_size,
            enabled=self.ranks.is_main,
            writer=agent.logger,
            project=agent.experiment_name,
            stream=stream,
        )
        self.layout = policy_layout(env, cfg["obs_groups"]["actor"])

    def _configure_multi_gpu(self) -> None:
        """Join the process group: NCCL on CUDA devices, gloo on the CPU."""
        self.is_distributed = self.ranks.is_distributed
        self.gpu_world_size = self.ranks.world_size
        self.gpu_local_rank = self.ranks.local_rank
        self.gpu_global_rank = self.ranks.global_rank
        if not self.is_distributed:
            self.cfg["multi_gpu"] = None
            return
        self.cfg["multi_gpu"] = {
            "global_rank": self.gpu_global_rank,
            "local_rank": self.gpu_local_rank,
            "world_size": self.gpu_world_size,
        }
        join(self.ranks, self.device)

    def _capture_inference(self, obs_groups: dict[str, list[str]]) -> None:
        compiled = self.agent.torch_compile_mode is not None
        reason = why_not_captured(self.alg, self.device, compiled)
        if reason is not None:
            warnings.warn(f"agent.capture_inference=true has no effect: {reason}.", stacklevel=3)
            return
        groups = [*obs_groups["actor"], *obs_groups["critic"]]
        self._act = CapturedAct(self.alg, groups, self.device)

    # ---- training ----

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Run that many MORE iterations; :meth:`learn_until` counts from the start of training."""
        self.learn_until(self.current_learning_iteration + num_learning_iterations, init_at_random_ep_len)

    def learn_until(
        self,
        total: int,
        init_at_random_ep_len: bool = False,
        on_iteration: Callable[[PpoRunner], None] | None = None,
    ) -> bool:
        """Train until ``total`` iterations are completed, or until :attr:`stop_requested`.

        Args:
            total: Iterations counted from the start of training, earlier sessions included.
            init_at_random_ep_len: Give the environments random ages first, so that they do not all time out
                in the same step.
            on_iteration: Called after each iteration, before a checkpoint is written.

        Returns:
            Whether training is complete; False when it was asked to stop.

        Raises:
            TrainingDiverged: A loss is not finite; nothing is saved then.
        """
        if init_at_random_ep_len:
            self.env.episode_length_buf = torch.randint_like(
                self.env.episode_length_buf, high=max(int(self.env.max_episode_length), 1)
            )
        obs = self.env.get_observations().to(self.device)
        self.alg.train_mode()
        if self.is_distributed:
            self.alg.broadcast_parameters()
        self.logger.init_logging_writer(purge_step=self.current_learning_iteration + 1)
        try:
            while self.current_learning_iteration < total and not self._should_stop():
                obs = self._iteration(obs, total)
                if on_iteration is not None:
                    on_iteration(self)
                done = self.current_learning_iteration
                if done % self.agent.save_interval == 0 or done >= total:
                    self.save_checkpoint()
        finally:
            self.logger.stop_logging_writer()
        return self.current_learning_iteration >= total

    def _iteration(self, obs: Any, total: int) -> Any:
        start = time.perf_counter()
        # no_grad instead of inference_mode: tensors that the environment makes here stay writable later.
        with torch.no_grad():
            for _ in range(self.cfg["num_steps_per_env"]):
                obs = self._env_step(obs)
            self.alg.compute_returns(obs)
        collected = time.perf_counter()
        losses = self.alg.update()
        learned = time.perf_counter()
        bad = [name for name, value in losses.items() if not math.isfinite(value)]
        if bad:
            raise TrainingDiverged(
                f"Training diverged in iteration {self.current_learning_iteration + 1}: the {bad[0]} loss is "
                f"{losses[bad[0]]}. Checkpoints written before are intact. Usual causes: unbounded rewards "
                "or observations, a learning rate that is too high."
            )
        self.current_learning_iteration += 1
        self.logger.log(
            it=self.current_learning_iteration,
            total_it=total,
            collect_time=collected - start,
            learn_time=learned - collected,
            loss_dict=losses,
            learning_rate=self.alg.learning_rate,
            action_std=self.alg.get_policy().output_std,
            rnd_weight=self.alg.rnd.weight if self.alg.rnd else None,
        )
        return obs

    def _env_step(self, obs: Any) -> Any:
        """One step of a rollout; nothing in it waits for the device, but for the logs of a rollout's last step."""
        actions = self._act(obs)
        if self._elsewhere:
            actions = actions.to(self.env.device)
        obs, rewards, dones, extras = self.env.step(actions)
        if self._elsewhere:
            obs, rewards, dones = obs.to(self.device), rewards.to(self.device), dones.to(self.device)
        self.alg.process_env_step(obs, rewards, dones, extras)
        intrinsic = self.alg.intrinsic_rewards if self.alg.rnd else None
        self.logger.process_env_step(rewards, dones, extras, intrinsic)
        return obs

    def _should_stop(self) -> bool:
        if not self.is_distributed:
            return self.stop_requested
        # All processes have to leave the loop after the same iteration.
        flag = torch.tensor([float(self.stop_requested)], device=self.device)
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
        return bool(flag.item())

    # ---- checkpoints ----

    def checkpoint_data(self) -> dict[str, Any]:
        """Everything a checkpoint file holds; plain values and tensors only."""
        data = self.alg.save()
        data["iter"] = self.current_learning_iteration
        data["infos"] = {
            "common_step_counter": int(self.env.unwrapped.common_step_counter),
            "generators": generator_states(self.device),
            "logger": self.logger.state_dict(),
            "settings": read_settings(self.env.unwrapped),
        }
        data["forcelab"] = {
            "format": ckpt.FORMAT,
            "task": self.task,
            "iteration": self.current_learning_iteration,
            "seed": self.seed,
            "num_envs": self.env.num_envs,
            "world_size": self.gpu_world_size,
            "step_dt": float(self.env.unwrapped.step_dt),
            "clip_actions": self.agent.clip_actions,
            "actor": self.agent.to_rsl_rl()["actor"],
            "layout": self.layout,
        }
        return data

    def save_checkpoint(self) -> Path | None:
        """Write the checkpoint of this iteration into the run folder; every process writes its own state.

        Returns:
            Path of the checkpoint (also on processes that did not write it); None without a run folder.
        """
        if self.log_dir is None:
            return None
        done, rank = self.current_learning_iteration, self.gpu_global_rank
        path = ckpt.model_path(self.log_dir, done)
        # The state goes first: a checkpoint that can be seen is complete.
        state = {
            "env": read_env_state(self.env.unwrapped),
            "observations": {k: v.cpu() for k, v in self.env.get_observations().items()},
            "generators": generator_states(self.device),
            "num_envs": self.env.num_envs,
        }
        ckpt.save_atomic(state, ckpt.state_path(self.log_dir, done, rank))
        if self.ranks.is_main:
            self.save(str(path))
        if self.is_distributed:
            torch.distributed.barrier()
        ckpt.clean_states(self.log_dir, keep=done, rank=rank)
        return path

    def save(self, path: str, infos: dict | None = None) -> None:
        """Write a checkpoint atomically (without the state of the simulation)."""
        data = self.checkpoint_data()
        data["infos"].update(infos or {})
        ckpt.save_atomic(data, path)
        self.logger.save_model(str(path), self.current_learning_iteration)

    def resume(self, path: str | os.PathLike[str], same_config: bool = True) -> list[str]:
        """Continue from a checkpoint: networks, optimiser, learning rate, iteration, generators, simulation.

        Args:
            path: Checkpoint file; the state of the simulation is looked for beside it.
            same_config: The environment's configuration is the one the checkpoint was trained with. False
                keeps weights, ranges and the like of the environment instead of those of the checkpoint.

        Returns:
            What could not be restored, one sentence each; empty when training continues exactly.

        Raises:
            CheckpointError: The checkpoint is of another task or does not fit; nothing has been changed then.
        """
        data = ckpt.read_checkpoint(path)
        header = data["forcelab"]
        ckpt.check_task(header, self.task, path)
        ckpt.check_layout(header, self.layout, self.task, path)
        if "critic_state_dict" not in data:
            raise ckpt.CheckpointError(
                f"{os.fspath(path)!r} holds a policy only (no critic, no optimiser): it can be played and "
                "evaluated, not trained further."
            )
        _check_shapes(self.alg._raw_actor, data["actor_state_dict"], "actor", path)
        _check_shapes(self.alg._raw_critic, data["critic_state_dict"], "critic", path)
        self.alg.load(data, None, True)
        self.current_learning_iteration = int(data["iter"])
        infos = data["infos"]

        notes: list[str] = []
        path = Path(path)
        state = ckpt.read_state(
            ckpt.state_path(path.parent, self.current_learning_iteration, self.gpu_global_rank)
        )
        same_number = int(header["num_envs"]) == self.env.num_envs
        if state is None:
            notes.append(
                "the state of the simulation is kept for the newest checkpoint only: episodes start anew"
            )
        elif int(state["num_envs"]) != self.env.num_envs:
            notes.append(
                f"the checkpoint was written with {state['num_envs']} environments, now there are "
                f"{self.env.num_envs}: episodes start anew"
            )
        else:
            problem = load_env_state(self.env.unwrapped, state["env"], settings=same_config)
            if problem is None:
                self.env.set_observations(state["observations"])
            else:
                notes.append(f"the state of the simulation does not fit ({problem}): episodes start anew")
        if notes:
            load_settings(self.env.unwrapped, infos["settings"], only_progress=not same_config)
            self.env.unwrapped.common_step_counter.fill_(int(infos["common_step_counter"]))
        self.logger.load_state_dict(infos["logger"], episodes=same_number and not notes)
        # Last, because everything above may have drawn random numbers.
        if state is not None:
            load_generator_states(state["generators"], self.device)
        elif self.ranks.is_main:
            # The checkpoint holds the main process's; with it, all processes would draw the same numbers.
            load_generator_states(infos["generators"], self.device)
        return notes

    def load(
        self, path: str, load_cfg: dict | None = None, strict: bool = True, map_location: str | None = None
    ) -> dict:
        """Load networks, optimiser and iteration (or what ``load_cfg`` chooses) from a checkpoint."""
        data = ckpt.read_checkpoint(path, map_location or "cpu")
        ckpt.check_layout(data["forcelab"], self.layout, self.task, path)
        if self.alg.load(data, load_cfg, strict):
            self.current_learning_iteration = int(data["iter"])
        return data["infos"]


# ---- generators ----


def generator_states(device: torch.device | str) -> dict[str, Any]:
    """Generator states of torch (CPU and ``device``), NumPy and Python, as plain values and tensors."""
    legacy: Any = np.random.get_state()
    kind, keys, position, has_gauss, cached = legacy
    version, internal, gauss = random.getstate()
    states: dict[str, Any] = {
        "cpu": torch.get_rng_state(),
        "numpy": [
            str(kind),
            torch.from_numpy(keys.astype(np.int64)),
            int(position),
            int(has_gauss),
            float(cached),
        ],
        "python": [version, list(internal), gauss],
    }
    if torch.device(device).type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(torch.device(device))
    return states


def load_generator_states(states: dict[str, Any], device: torch.device | str) -> None:
    """Restore :func:`generator_states`; a CUDA generator's state is skipped on another kind of device."""
    torch.set_rng_state(states["cpu"].cpu())
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    if torch.device(device).type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), torch.device(device))


# ---- checks ----


def _check_groups(env: RslRlVecEnv, obs_groups: dict[str, list[str]]) -> None:
    obs = env.get_observations()
    known = [str(key) for key in obs.keys()]  # noqa: SIM118 - iterating a TensorDict gives rows
    for name, groups in obs_groups.items():
        for group in groups:
            if group not in known:
                raise KeyError(
                    f"agent.obs_groups.{name} names observation group {group!r}, which the environment does "
                    f"not have.{near(group, known)}"
                )
            if not isinstance(obs[group], torch.Tensor) or obs[group].dim() != 2:
                raise ValueError(
                    f"agent.obs_groups.{name}: observation group {group!r} is not one (E, n) tensor. "
                    f"Set observations.{group}.concatenate_terms=true."
                )


def _check_shapes(module: torch.nn.Module, state: dict[str, Any], what: str, path: Any) -> None:
    own = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    other = {name: tuple(value.shape) for name, value in state.items()}
    if own == other:
        return
    differing = sorted(n for n in own.keys() | other.keys() if own.get(n) != other.get(n))
    name = differing[0]
    raise ckpt.CheckpointError(
        f"The {what} network of checkpoint {os.fspath(path)!r} differs from agent.{what}: {name} is "
        f"{other.get(name, 'missing')} in the checkpoint, {own.get(name, 'missing')} here "
        f"({len(differing)} entries differ). Use the agent settings it was trained with (config.yaml beside "
        "it)."
    )
