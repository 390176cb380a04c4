# SPDX-License-Identifier: Apache-2.0
"""Ranks of a ``torchrun`` job: which device and which seed each process uses.

One process drives one device. ``torchrun`` tells each process its place through ``RANK``, ``LOCAL_RANK`` and
``WORLD_SIZE``; without it there is a single rank 0.
"""

from __future__ import annotations

import atexit
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ranks:
    """Place of this process among the processes of a training job."""

    local_rank: int = 0
    """Index of the process on its machine; also the index of its CUDA device."""
    global_rank: int = 0
    """Index of the process in the whole job; added to the seed."""
    world_size: int = 1
    """Number of processes in the job."""
    launched: bool = False
    """Whether a launcher set ``LOCAL_RANK``; only then does the rank choose the device."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Ranks:
        """Read ``RANK``, ``LOCAL_RANK`` and ``WORLD_SIZE`` (from ``os.environ`` when None is given).

        Raises:
            ValueError: If a variable is not a number or the ranks contradict the world size.
        """
        env = os.environ if environ is None else environ

        def number(name: str, default: int) -> int:
            text = env.get(name)
            if text is None or text == "":
                return default
            try:
                return int(text)
            except ValueError:
                raise ValueError(
                    f"Environment variable {name} must be a whole number, found {text!r}."
                ) from None

        local = number("LOCAL_RANK", 0)
        rank = number("RANK", local)
        size = number("WORLD_SIZE", 1)
        if local < 0 or rank < 0 or size < 1 or (size > 1 and rank >= size):
            raise ValueError(
                f"LOCAL_RANK={local}, RANK={rank}, WORLD_SIZE={size} do not fit together: ranks count from 0 "
                "to WORLD_SIZE - 1. Start several processes with "
                "`torchrun --nproc_per_node=N -m forcelab train …`."
            )
        return cls(local_rank=local, global_rank=rank, world_size=size, launched=bool(env.get("LOCAL_RANK")))

    @property
    def is_main(self) -> bool:
        """Whether this process writes logs and checkpoints."""
        return self.global_rank == 0

    @property
    def is_distributed(self) -> bool:
        """Whether gradients have to be averaged over several processes."""
        return self.world_size > 1

    def device(self, device: str) -> str:
        """Device of this process.

        Args:
            device: Device asked for: ``cpu``, ``cuda`` or ``cuda:<index>``.

        Returns:
            ``cuda:<LOCAL_RANK>`` under a launcher, whatever index was asked for; ``cuda`` alone becomes
            ``cuda:0``; anything else unchanged.
        """
        name = str(device)
        if not name.startswith("cuda"):
            return name
        if self.launched:
            return f"cuda:{self.local_rank}"
        return "cuda:0" if name == "cuda" else name

    def seed(self, base: int) -> int:
        """Seed of this process: ``base`` plus the global rank."""
        return int(base) + self.global_rank


def join(ranks: Ranks, device: str) -> None:
    """Join the process group of the job, if there are several processes and it is not done yet.

    CUDA tensors travel by NCCL, CPU tensors by gloo.
    """
    import torch

    if not ranks.is_distributed or torch.distributed.is_initialized():
        return
    backend = "gloo"
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(torch.device(device))
        backend = "cuda:nccl,cpu:gloo"
    # Left at the end of the process only: joining a second time in one process can race with the other ranks.
    atexit.register(leave)
    torch.distributed.init_process_group(backend, rank=ranks.global_rank, world_size=ranks.world_size)


def leave() -> None:
    """Leave the process group, if this process is in one."""
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def from_main(ranks: Ranks, value: Any) -> Any:
    """The main process's ``value``, on every process; call :func:`join` first."""
    if not ranks.is_distributed:
        return value
    import torch

    box = [value]
    torch.distributed.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    return box[0]


def draw_seed() -> int:
    """A seed from the operating system's randomness; torch's and Python's generators are left alone."""
    return random.SystemRandom().randrange(2**31 - 1)
