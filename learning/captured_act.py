# SPDX-License-Identifier: Apache-2.0
"""Inference of a rollout (actor, critic, drawing of actions) as one CUDA graph."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import torch
from rsl_rl.algorithms import PPO
from tensordict import TensorDict

#: Computes from fixed inputs; see :func:`record_cuda`.
Infer = Callable[[], tuple[torch.Tensor, ...]]


def why_not_captured(alg: Any, device: torch.device | str, compiled: bool = False) -> str | None:
    """Why the inference of ``alg`` cannot be captured on ``device``; None when it can."""
    if torch.device(device).type != "cuda":
        return f"networks on {device!s} run eagerly, a CUDA graph needs a CUDA device"
    if alg.get_policy().is_recurrent or alg.critic.is_recurrent:
        return "recurrent networks carry a hidden state from step to step and run eagerly"
    if getattr(type(alg), "act", None) is not PPO.act:
        return f"{type(alg).__name__} has its own way to act and runs eagerly"
    if compiled:
        return "networks compiled by agent.torch_compile_mode launch few kernels already and run as they are"
    return None


def record_cuda(
    infer: Infer, device: torch.device | str
) -> tuple[Callable[[], None], tuple[torch.Tensor, ...]]:
    """Capture ``infer`` on ``device``.

    Random numbers come from the device's default generator, which torch registers with the graph: a replay draws what
    the eager calls would have drawn. The generator is left as it was.

    Returns:
        The replay, and the tensors that it writes.

    Raises:
        RuntimeError: Something in ``infer`` waits for the device or cannot be captured.
    """
    device = torch.device(device)
    generator = torch.cuda.get_rng_state(device)
    mode = torch.cuda.get_sync_debug_mode()
    main, side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    try:
        with torch.cuda.device(device):
            # Libraries make their workspaces in the first calls, and those must not fall into the capture.
            side.wait_stream(main)
            with torch.cuda.stream(side):
                infer()
                # A wait found here is an ordinary error; in a capture it would spoil the stream.
                torch.cuda.set_sync_debug_mode("error")
                for _ in range(2):
                    infer()
            torch.cuda.set_sync_debug_mode(mode)
            main.wait_stream(side)
            torch.cuda.set_rng_state(generator, device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                outputs = infer()
    finally:
        torch.cuda.set_sync_debug_mode(mode)
        torch.cuda.set_rng_state(generator, device)
    return graph.replay, outputs


class CapturedAct:
    """rsl_rl's ``PPO.act`` with everything but its bookkeeping in one graph.

    The graph reads the networks' own tensors, which the optimiser changes in place. Buffers that are replaced instead
    (the normaliser's deviation is, at every update) are copied back into the tensors the graph reads; parameters that
    are replaced make it capture anew. Settings of the networks that are plain numbers are fixed by the capture.

    What is returned, and what the transition holds, is overwritten by the next call; the storage has copied it by then.

    Args:
        alg: rsl_rl's PPO with networks that are not recurrent.
        groups: Observation groups that the networks read.
        device: Device of the networks.
        record: Records a function of fixed inputs and outputs; for tests.
    """

    def __init__(
        self,
        alg: PPO,
        groups: Sequence[str],
        device: torch.device | str,
        record: Callable[..., tuple[Callable[[], None], tuple[torch.Tensor, ...]]] = record_cuda,
    ) -> None:
        self.alg = alg
        self.device = torch.device(device)
        self.captures = 0
        self._groups = list(dict.fromkeys(groups))
        self._record = record
        self._networks = (alg.actor, alg.critic)
        self._replay: Callable[[], None] | None = None
        self._failed = False

    @torch.no_grad()
    def __call__(self, obs: TensorDict) -> torch.Tensor:
        """Actions (E, A) for ``obs``; the transition is filled as by ``PPO.act``."""
        values = [obs[group] for group in self._groups]
        if self._failed or not (self._is_current(values) or self._capture(values)):
            return self.alg.act(obs)
        assert self._replay is not None
        for held, value in zip(self._inputs, values, strict=True):
            held.copy_(value)
        self._replay()
        transition = self.alg.transition
        transition.hidden_states = (None, None)
        transition.actions, transition.values, transition.actions_log_prob, *params = self._outputs
        transition.distribution_params = tuple(params)
        transition.observations = obs
        return self._outputs[0]

    def _capture(self, values: list[torch.Tensor]) -> bool:
        self._inputs = [value.clone() for value in values]
        inputs = TensorDict(dict(zip(self._groups, self._inputs)), batch_size=[values[0].shape[0]])
        actor, critic = self.alg.actor, self.alg.critic

        def infer() -> tuple[torch.Tensor, ...]:
            actions = actor(inputs, stochastic_output=True)
            value = critic(inputs)
            return actions, value, actor.get_output_log_prob(actions), *actor.output_distribution_params

        self._replay = None
        try:
            self._replay, self._outputs = self._record(infer, self.device)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            self._failed = True
            warnings.warn(
                "agent.capture_inference: the networks could not be captured in a CUDA graph and run eagerly "
                f"({' '.join(str(error).split())[:300]}).",
                stacklevel=2,
            )
            return False
        self.captures += 1
        self._mode = self._training()
        modules = list(dict.fromkeys(m for network in self._networks for m in network.modules()))
        self._buffers = [(m, n, b) for m in modules for n, b in m._buffers.items() if b is not None]
        self._parameters = [
            (m, n, p, p.data_ptr()) for m in modules for n, p in m._parameters.items() if p is not None
        ]
        return True

    def _is_current(self, values: list[torch.Tensor]) -> bool:
        """Whether the graph computes what the networks would; brings replaced buffers back into its tensors."""
        if self._replay is None or self._mode != self._training():
            return False
        for held, value in zip(self._inputs, values, strict=True):
            if held.shape != value.shape or held.dtype != value.dtype:
                return False
        for module, name, parameter, address in self._parameters:
            if module._parameters.get(name) is not parameter or parameter.data_ptr() != address:
                return False
        for module, name, held in self._buffers:
            now = module._buffers.get(name)
            if now is held:
                continue
            if now is None or (now.shape, now.dtype, now.device) != (held.shape, held.dtype, held.device):
                return False
            held.copy_(now)
            module._buffers[name] = held
        return True

    def _training(self) -> tuple[bool, ...]:
        return tuple(network.training for network in self._networks)
