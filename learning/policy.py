# SPDX-License-Identifier: Apache-2.0
"""A trained policy without its training: the actor network, its normaliser, and what it expects."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import torch
from rsl_rl.models import MLPModel
from rsl_rl.utils import resolve_callable
from tensordict import TensorDict

from .checkpoint import read_checkpoint


class Policy:
    """Deterministic policy: observations by group → mean actions.

    Attributes:
        header: The checkpoint's ``forcelab`` entry: ``task``, ``iteration``, ``layout``, ``actor`` ….
        model: rsl_rl's actor network in evaluation mode.
        device: Where it runs.
        clip_actions: Actions are clamped to ± this value; None: not clamped.
    """

    def __init__(
        self, header: Mapping[str, Any], state: Mapping[str, Any], device: torch.device | str = "cpu"
    ):
        self.header = dict(header)
        self.device = torch.device(device)
        self.clip_actions: float | None = header.get("clip_actions")
        layout = header["layout"]
        groups: list[str] = list(layout["policy_groups"])
        sizes = {g: sum(int(term["size"]) for term in layout["observations"][g]) for g in groups}
        example = TensorDict({g: torch.zeros(1, n) for g, n in sizes.items()}, batch_size=[1])
        options = copy.deepcopy(dict(header["actor"]))
        model_class = resolve_callable(options.pop("class_name"))
        # Initial weights are overwritten: do not let them use up the caller's random numbers.
        with torch.random.fork_rng(devices=[]):
            self.model: MLPModel = model_class(
                example, {"actor": groups}, "actor", self.num_actions, **options
            )
        self.model.load_state_dict(dict(state))
        self.model.to(self.device).eval()

    @property
    def task(self) -> str:
        """Task the policy was trained on."""
        return str(self.header["task"])

    @property
    def iteration(self) -> int:
        """Training iterations behind the policy."""
        return int(self.header["iteration"])

    @property
    def groups(self) -> list[str]:
        """Observation groups the policy reads, in order of concatenation."""
        return list(self.header["layout"]["policy_groups"])

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return sum(int(term["size"]) for term in self.header["layout"]["actions"])

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Mean actions (E, A) for ``obs``: group → (E, n)."""
        chosen = {g: obs[g] for g in self.groups}
        batch = next(iter(chosen.values())).shape[0]
        actions = self.model(TensorDict(chosen, batch_size=[batch]))
        return actions if self.clip_actions is None else actions.clamp(-self.clip_actions, self.clip_actions)

    def reset(self, dones: torch.Tensor | None = None) -> None:
        """Forget the memory of recurrent networks where ``dones`` (E,) is set; None: everywhere."""
        self.model.reset(dones)


def load_policy(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Policy:
    """Read the policy of a checkpoint or of a shipped policy file.

    Raises:
        CheckpointError: The file is missing, damaged or not one of ours.
    """
    data = read_checkpoint(path)
    return Policy(data["forcelab"], data["actor_state_dict"], device)
