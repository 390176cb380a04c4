# SPDX-License-Identifier: Apache-2.0
"""Export a policy for use without forcelab: ONNX, TorchScript, and a JSON file about input and output."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import checkpoint as ckpt
from .policy import Policy, load_policy


def export_policy(
    checkpoint: str | os.PathLike[str], directory: str | os.PathLike[str], *, name: str = "policy"
) -> dict[str, Path]:
    """Write ``<name>.onnx``, ``<name>.pt`` (TorchScript) and ``<name>.json`` into ``directory``.

    Both networks take one tensor ``obs`` (batch, n), the observation terms in the order of the JSON file,
    scaled and clipped as it says, and return ``actions`` (batch, A), the mean actions before the action
    terms' scale and offset. Observation normalisation is part of the networks.

    Args:
        checkpoint: Checkpoint or shipped policy file.
        directory: Folder, made if missing.
        name: Stem of the files.

    Returns:
        ``onnx``, ``torchscript`` and ``layout``: the three paths.

    Raises:
        CheckpointError: The file is missing or damaged.
        NotImplementedError: The actor is recurrent or convolutional.
    """
    policy = load_policy(checkpoint)
    if policy.model.is_recurrent or type(policy.model).__name__ != "MLPModel":
        raise NotImplementedError(
            f"Only MLPModel policies can be exported, this is a {type(policy.model).__name__}."
        )
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    paths = {
        "onnx": directory / f"{name}.onnx",
        "torchscript": directory / f"{name}.pt",
        "layout": directory / f"{name}.json",
    }
    _replace(paths["torchscript"], lambda path: _torchscript(policy, path))
    _replace(paths["onnx"], lambda path: _onnx(policy, path))
    text = json.dumps(layout_description(policy), indent=2) + "\n"
    ckpt.write_text_atomic(text, paths["layout"])
    return paths


def layout_description(policy: Policy) -> dict[str, Any]:
    """Content of the JSON file: every part of the input and output vectors has a term, a start and a size."""
    layout = policy.header["layout"]
    terms, start = [], 0
    for group in layout["policy_groups"]:
        for term in layout["observations"][group]:
            terms.append({"group": group, **term, "start": start})
            start += int(term["size"])
    actions, first = [], 0
    for term in layout["actions"]:
        actions.append({**term, "start": first})
        first += int(term["size"])
    return {
        "task": policy.task,
        "iteration": policy.iteration,
        "step_dt": policy.header.get("step_dt"),
        "input": {"name": "obs", "size": start, "terms": terms},
        "output": {"name": "actions", "size": first, "clip": policy.clip_actions, "terms": actions},
        "applied": "clip(scale * action + offset), as the term's type says",
        "normalization": "inside the network" if policy.header["actor"].get("obs_normalization") else "none",
    }


def ship(
    checkpoint: str | os.PathLike[str], task: str, directory: str | os.PathLike[str] | None = None
) -> Path:
    """Write the small file that ``checkpoint=pretrained`` loads: actor, normaliser, layout, task.

    Args:
        checkpoint: Checkpoint of ``task``.
        task: Task name; the file is ``<task>.pt``.
        directory: Folder; None: the one shipped with the package.

    Raises:
        CheckpointError: The checkpoint is of another task.
    """
    data = ckpt.read_checkpoint(checkpoint)
    ckpt.check_task(data["forcelab"], task, checkpoint)
    path = (ckpt.POLICY_DIR if directory is None else Path(directory)) / f"{task}.pt"
    header = {**data["forcelab"], "shipped": time.strftime("%Y-%m-%d")}
    actor = {key: value.cpu().clone() for key, value in data["actor_state_dict"].items()}
    ckpt.save_atomic({"forcelab": header, "actor_state_dict": actor}, path)
    return path


def _torchscript(policy: Policy, path: Path) -> None:
    module = policy.model.as_jit().cpu().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        scripted = torch.jit.script(_Clamped(module, policy.clip_actions))
        scripted.save(str(path))


def _onnx(policy: Policy, path: Path) -> None:
    module: Any = policy.model.as_onnx(verbose=False).cpu().eval()
    example = module.get_dummy_inputs()
    # The exporter reports its stages on standard output and through logging.
    level = logging.getLogger("torch.onnx").level
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        try:
            torch.onnx.export(
                _Clamped(module, policy.clip_actions),
                example,
                str(path),
                input_names=["obs"],
                output_names=["actions"],
                opset_version=18,
                dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        finally:
            logging.getLogger("torch.onnx").setLevel(level)


class _Clamped(torch.nn.Module):
    """The network with the clamp that training applied to its actions."""

    def __init__(self, network: torch.nn.Module, limit: float | None) -> None:
        super().__init__()
        self.network = network
        self.limit = float("inf") if limit is None else float(limit)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        actions = self.network(obs)
        if self.limit < float("inf"):
            actions = actions.clamp(-self.limit, self.limit)
        return actions


def _replace(path: Path, write: Callable[[Path], None]) -> None:
    temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
