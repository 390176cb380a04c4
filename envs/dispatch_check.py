# SPDX-License-Identifier: Apache-2.0
"""Finds lines of terms that would make the host wait for a GPU, on any device."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_OPS = {
    "aten::_local_scalar_dense": "reads a value on the host (.item(), float(), bool(), if, indexing by a 0-dim tensor)",
    "aten::nonzero": "the size of the result depends on the data",
    "aten::masked_select": "the size of the result depends on the data",
    "aten::equal": "compares on the host",
    "aten::allclose": "compares on the host",
    "aten::is_nonzero": "reads a value on the host",
    "aten::_unique2": "the size of the result depends on the data",
    "aten::unique_dim": "the size of the result depends on the data",
    "aten::unique_consecutive": "the size of the result depends on the data",
    "aten::repeat_interleave": "the size of the result depends on the data (give output_size)",
    "aten::bincount": "the size of the result depends on the data",
}
_TO_HOST = {
    "cpu": "copies to the host",
    "numpy": "copies to the host",
    "tolist": "copies to the host",
    "__array__": "copies to the host",
}
_FROM_HOST = {
    torch.tensor: "copies from the host at every call; make the tensor once",
    torch.as_tensor: "copies from the host at every call; make the tensor once",
}
_HERE = os.path.dirname(os.path.abspath(__file__))
_MANAGERS = os.path.join(os.path.dirname(_HERE), "managers")
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))


@dataclass(frozen=True)
class Finding:
    """A line that makes the host wait, or cannot be captured.

    Attributes:
        manager: Section of the configuration ("rewards", …), or "" outside terms.
        term: Name of the term, or "".
        file, line, code: Where.
        op: The operation.
        reason: Why it waits.
    """

    manager: str
    term: str
    file: str
    line: int
    code: str
    op: str
    reason: str

    def __str__(self) -> str:
        owner = f"{self.manager}.{self.term}: " if self.term else ""
        return f"{owner}{self.file}:{self.line}: `{self.code}`: {self.op} {self.reason}"


class DispatchCheck:
    """Watches an environment for operations that wait for the device.

    .. code-block:: python

        with DispatchCheck(env) as check:
            env.step(action)
        print("\\n".join(map(str, check.findings)))

    While it watches, the environment takes the path it takes on CUDA: all masked work is done and
    nothing is looked at on the host. Numbers that are not finite are then reported by ``pop_logs()``.
    Terms that ask for ``env_ids`` are found as such.

    Args:
        env: A :class:`ManagerBasedRlEnv`; None watches torch alone.
        raise_on_exit: Raise RuntimeError with all findings at the end.
    """

    def __init__(self, env: Any = None, raise_on_exit: bool = False):
        self.env = env
        self.raise_on_exit = raise_on_exit
        #: Key path of the term that runs now, when it is known; otherwise it is looked for in the stack.
        self.owner = ""
        self._found: dict[Finding, None] = {}

    @property
    def findings(self) -> list[Finding]:
        """What was found, each once, in order."""
        return list(self._found)

    def __enter__(self) -> DispatchCheck:
        if self.env is not None:
            engine = self.env.scene.engine
            self._saved = (self.env._looks, self.env.health.at_once, engine.looks)
            self.env._looks = engine.looks = False
            self.env.health.at_once = False
        self._modes = (_Functions(self), _Dispatch(self))
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(kind, error, trace)
        if self.env is not None:
            self.env._looks, self.env.health.at_once, self.env.scene.engine.looks = self._saved
        if kind is None and self.raise_on_exit and self._found:
            raise RuntimeError("Lines that wait for the device:\n" + "\n".join(map(str, self._found)))

    def add(self, op: str, reason: str) -> None:
        """Record an operation of the present stack."""
        frame: FrameType | None = sys._getframe(2)
        culprit: FrameType | None = None
        manager, _, term = self.owner.partition(".")
        while frame is not None:
            file = frame.f_code.co_filename
            if culprit is None and not file.startswith(_TORCH) and file != __file__:
                culprit = frame
            if not term and os.path.dirname(os.path.abspath(file)) == _MANAGERS:
                manager, term = _owner(frame)
            frame = frame.f_back
        if culprit is None:
            return
        file, line = culprit.f_code.co_filename, culprit.f_lineno
        if term and culprit.f_code.co_name == "mask_to_ids":
            reason = "the term asks for env_ids; take env_mask instead"
        code = linecache.getline(file, line).strip()
        self._found[Finding(manager, term, file, line, code, op, reason)] = None


def _owner(frame: FrameType) -> tuple[str, str]:
    """(section, term) of a manager's frame that is calling a term, or ("", "")."""
    from forcelab.managers.action_manager import ActionTerm
    from forcelab.managers.command_manager import CommandTerm
    from forcelab.managers.manager_base import Term

    values = frame.f_locals
    for key in ("term", "self", "pipe"):
        value = values.get(key)
        value = getattr(value, "term", value)
        if isinstance(value, Term):
            section, _, name = value.path.partition(".")
            return section, name
        if isinstance(value, (ActionTerm, CommandTerm)):
            section = "actions" if isinstance(value, ActionTerm) else "commands"
            manager: Any = getattr(
                value._env, "action_manager" if section == "actions" else "command_manager", None
            )
            for name in manager.active_terms if manager is not None else ():
                if manager.get_term(name) is value:
                    return section, name
    return "", ""


class _Dispatch(TorchDispatchMode):
    def __init__(self, check: DispatchCheck):
        super().__init__()
        self.check = check

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        reason = _OPS.get(name)
        if name == "aten::repeat_interleave" and (kwargs or {}).get("output_size") is not None:
            reason = None
        if name == "aten::normal" and len(args) > 1 and isinstance(args[1], torch.Tensor):
            reason = "compares the deviations with zero on the host; use mean + std * torch.randn_like(mean)"
        if reason is None and name in ("aten::index", "aten::index_put_", "aten::index_put"):
            reason = self._index_reason(name, args)
        if reason is None and name == "aten::lift_fresh" and args[0].dim() > 0:
            caller = sys._getframe(1)
            if caller is not None and not _inside_factory(caller):
                reason = "a list of indices is copied from the host; use a device tensor or a slice"
        if reason is None and name == "aten::_to_copy":
            target = (kwargs or {}).get("device")
            if target is not None and torch.device(target).type != args[0].device.type:
                reason = "copies between host and device"
        if reason is None and _frozen_scalar(name, args):
            reason = "takes a number from a CPU tensor; keep it in a tensor on env.device"
        if reason is not None:
            self.check.add(name, reason)
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _index_reason(name: str, args: Any) -> str | None:
        masks = [i for i in args[1] if i is not None and i.dtype in (torch.bool, torch.uint8)]
        if not masks:
            return None
        if name == "aten::index":
            return "selects by a mask: the size of the result depends on the data (use torch.where)"
        value = args[2]
        if isinstance(value, torch.Tensor) and value.numel() > 1:
            return "assigns rows by a mask (use torch.where)"
        return None


def _frozen_scalar(name: str, args: Any) -> bool:
    """A number in a CPU tensor beside tensors on a GPU: a graph keeps the value it had at the capture."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if name == "aten::_to_copy" or len({t.device.type for t in tensors}) < 2:
        return False
    return any(t.device.type == "cpu" and t.dim() == 0 for t in tensors)


def _inside_factory(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "__torch_function__":
            return bool(frame.f_locals.get("factory"))
        frame = frame.f_back
    return False


class _Functions(TorchFunctionMode):
    def __init__(self, check: DispatchCheck):
        super().__init__()
        self.check = check

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        factory = func in _FROM_HOST
        if factory:
            data = args[0] if args else (kwargs or {}).get("data")
            if not isinstance(data, torch.Tensor):
                self.check.add(f"torch.{name}", _FROM_HOST[func])
        elif name in _TO_HOST:
            self.check.add(f"Tensor.{name}", _TO_HOST[name])
        return func(*args, **(kwargs or {}))
