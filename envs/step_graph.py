# SPDX-License-Identifier: Apache-2.0
"""The step of an environment as CUDA graphs, with terms that cannot be captured run between them."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from forcelab.managers import manager_base

from .dispatch_check import DispatchCheck
from .env_state import env_tensors
from .python_state import Kept, PythonState, Watch
from .shadow import Probe

Work: TypeAlias = Callable[..., Any]

# Replays after a capture at which the graph's step is compared with an eager one; after them, every so many.
_FIRST_COMPARISONS = (1, 10, 100)
_COMPARISON_INTERVAL = 1000
_MANY_CAPTURES = 5
# Terms of these sections only read, so that they may run side by side, on so many streams.
_INDEPENDENT = ("rewards.", "terminations.", "metrics.", "observations.")
_NUM_BRANCHES = 8


class StepGraphWarning(UserWarning):
    """A part of the step is not captured, or is captured again and again."""


class StepGraphError(RuntimeError):
    """``step_graph`` is ``"required"``, and the step cannot be captured as a whole."""


def _no_part(name: str) -> None:
    pass


def _nothing() -> None:
    pass


@dataclass
class _Eager:
    """A term that runs by itself between two graphs."""

    path: str
    subject: Any
    work: Work
    args: tuple[Any, ...]
    #: Where the graphs after it read its result.
    result: torch.Tensor | None = None

    def run(self) -> None:
        value = self.work(*self.args)
        if self.result is not None:
            self.result.copy_(value)


@dataclass
class _Plan:
    """What a step consists of: graphs and eager terms, in order."""

    items: list[torch.cuda.CUDAGraph | _Eager] = field(default_factory=list)
    #: Name of the part that each item belongs to.
    parts: list[str] = field(default_factory=list)
    pool: Any = None
    #: What the graphs read the action from.
    action: torch.Tensor | None = None
    extras: dict[str, Any] = field(default_factory=dict)

    def run(self, index: int) -> None:
        """Run one item."""
        item = self.items[index]
        item.run() if isinstance(item, _Eager) else item.replay()

    def close(self) -> None:
        for item in self.items:
            if isinstance(item, torch.cuda.CUDAGraph):
                item.reset()
        self.items.clear()
        self.extras = {}
        self.pool = self.action = None


class StepGraph:
    """How an environment runs its steps.

    On CUDA with ``mode`` ``"auto"`` or ``"required"``, the first step after a change runs eagerly, the second
    is watched for what a capture cannot follow, the third is captured, and the rest are replays. A term that
    cannot be captured runs by itself between two graphs ("auto", with one :class:`StepGraphWarning`), or is a
    :class:`StepGraphError` ("required"). On the CPU physics alone is captured, by the engine; "required" then
    watches the second step all the same, so that a task can be checked on a machine without a GPU.

    Replays go on following what lives on the device: state, weights, ranges, levels. They are compared with
    an eager step from time to time, and Python values that terms read are looked at before each; what a
    replay would not follow leads to a new capture, which is reported on stderr.

    Args:
        env: The environment.
        mode: ``"auto"``, ``"required"`` or ``"off"``.

    Attributes:
        captures: Captures so far.
        findings: Why terms run by themselves, by key path of the term.
        hook: Called by the environment in place of a term's work; None to just do the work.
        part: Called by the environment with the name of each part of the step.
        join: Called by the environment before the values of the terms called last are read.
    """

    def __init__(self, env: Any, mode: str):
        self.env = env
        self.mode = mode
        self.captures = 0
        self.findings: dict[str, list[str]] = {}
        self.hook: Callable[[str, Any, Work, tuple[Any, ...]], Any] | None = None
        self.part: Callable[[str], None] = _no_part
        self.join: Callable[[], None] = _nothing
        self._dirty: str | None = None
        self._stage = "warm"
        self._plan: _Plan | None = None
        self._watch: Watch | None = None
        #: Terms found out by what happened, and why: they stay eager also in later captures.
        self._convicted: dict[str, list[str]] = {}
        self._told: set[str] = set()
        self._changes: dict[str, int] = {}
        self._age = self._short_lived = 0
        self._suspicion: str | None = None
        self._cuda = env.device.type == "cuda"
        self._off = False
        if mode == "off" or not env.scene.engine.capabilities.captured:
            if mode == "required":
                raise StepGraphError(
                    f"step_graph is 'required', but the {env.scene.engine.name!r} engine does not capture its steps"
                    + (
                        " (physics.capture is False)."
                        if not getattr(env.cfg.physics, "capture", True)
                        else "."
                    )
                )
            self._off = True
        elif not self._cuda and mode == "auto":
            self._off = True
        self._action = torch.zeros((), device=env.device)

    # -- what others ask

    @property
    def active(self) -> bool:
        """Whether steps are replays of a capture."""
        return self._plan is not None and self._dirty is None

    @property
    def eager_terms(self) -> list[str]:
        """Key paths of the terms that run by themselves between the graphs."""
        return list(self.findings)

    @property
    def segments(self) -> int:
        """Number of graphs that a step consists of; 0 before the capture."""
        return 0 if self._plan is None else sum(not isinstance(i, _Eager) for i in self._plan.items)

    def mark_dirty(self, reason: str) -> None:
        """Capture again: something changed that a replay does not follow. A term that was exchanged starts afresh."""
        for path in [p for p in self._convicted if reason.startswith((f"{p}.", f"{p} ", "the managers"))]:
            del self._convicted[path]
            self._told.discard(path)
        if self._dirty is None:
            self._dirty = reason

    def close(self) -> None:
        """Free the graphs and their memory. The environment then steps eagerly."""
        self._drop()
        self._off = True
        self.hook = None

    def record_parts(self, action: torch.Tensor) -> list[tuple[str, Callable[[], None]]]:
        """Record a step in pieces, one for each part, to measure them: (name, how to run it again), in order.

        Runs a step. A part that comes several times in a step has as many pieces.
        """
        env = self.env
        with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(env.device):
            env.scene._sync()
            plan = _Recorder(self, Watch(env), by_part=True).record(action.clone())
        env.extras = _fresh(env.extras)
        # Each holds the plan, whose memory the graphs read.
        calls = (functools.partial(plan.run, i) for i in range(len(plan.items)))
        return list(zip(plan.parts, calls, strict=True))

    # -- stepping

    def step(self, action: torch.Tensor) -> None:
        """One step of the environment with this action (E, A)."""
        if self._off:
            self.env._step_work(action)
            return
        if self._plan is not None and self._dirty is None and self._watch is not None:
            changed = self._watch.changed()
            if changed is not None:
                self._dirty = self._note_change(*changed)
        if self._dirty is not None:
            self._begin_anew()
        stage = self._stage
        if stage == "replay":
            self._replay(action)
        elif stage == "capture":
            self._capture(action)
        elif stage == "check":
            self._check(action)
        else:
            self.env._step_work(action)
            if stage == "warm":
                self._stage = "check"

    def _note_change(self, path: str, text: str) -> str:
        """A Python value that a term reads has changed. If that goes on, the term runs eagerly."""
        self._changes[path] = self._changes.get(path, 0) + 1
        if path and self._changes[path] == _MANY_CAPTURES:
            self._convicted.setdefault(path, []).append(
                f"{text}, again and again; keep it in a tensor on env.device"
            )
        return f"{path}: {text}" if path else text

    def _begin_anew(self) -> None:
        reason, self._dirty = self._dirty, None
        if self._plan is not None:
            print(f"forcelab: the step is captured anew: {reason}", file=sys.stderr)
            self._short_lived = self._short_lived + 1 if self._age < 10 else 0
            if self._short_lived == _MANY_CAPTURES:
                warnings.warn(
                    f"The step was captured {_MANY_CAPTURES} times within a few steps, the last time because "
                    f"{reason}. Each capture costs about a second. Keep what changes often in a tensor on "
                    "env.device and write into it.",
                    StepGraphWarning,
                    stacklevel=4,
                )
        self._drop()
        self._stage = "warm"
        self._age = 0
        self.findings = {path: list(texts) for path, texts in self._convicted.items()}

    def _drop(self) -> None:
        if self._plan is not None:
            torch.cuda.synchronize(self.env.device)
            self._plan.close()
            self._plan = None
        self._watch = None

    # -- looking for what cannot be captured

    def _check(self, action: torch.Tensor) -> None:
        check = DispatchCheck(self.env)
        found: dict[str, list[str]] = {}
        subjects: dict[str, Any] = {}

        def watching(path: str, subject: Any, work: Work, args: tuple[Any, ...]) -> Any:
            before = PythonState(_subjects(subject, work, args), self.env)
            subjects[path] = subject
            outer, check.owner = check.owner, path
            dirty = self._dirty
            try:
                result = work(*args)
            finally:
                check.owner = outer
            found.setdefault(path, []).extend(_where(subject) + text for text in before.changes())
            if self._dirty is not None and dirty is None:
                found[path].append(
                    f"{_where(subject)}changes a setting that a capture does not follow ({self._dirty})"
                )
            return result

        self.hook = watching
        try:
            with check:
                self.env._step_work(action)
        finally:
            self.hook = None
        self._dirty = None if self._dirty is None or any(found.values()) else self._dirty
        for finding in check.findings:
            path = f"{finding.manager}.{finding.term}" if finding.term else ""
            text = f"{finding.file}:{finding.line}: `{finding.code}`: {finding.op} {finding.reason}"
            if finding.file == manager_base.__file__ and path in subjects:
                text = f"{_where(subjects[path])}{finding.reason}"  # the line is ours, the wish the term's
            found.setdefault(path, []).append(text)
        for path in self.env.curriculum_manager.gave_numbers:
            found.setdefault(path, []).append("returns a Python number; return a tensor on env.device")
        for path, texts in found.items():
            if texts:
                self.findings[path] = list(dict.fromkeys((*self.findings.get(path, []), *texts)))
        self._stage = "capture" if self._cuda else "checked"
        self._report()

    def _report(self) -> None:
        """Tell of the terms that cannot be captured: an error, or one warning."""
        if not self.findings:
            return
        lines = [
            f"  {path or 'outside of terms'}: {text}"
            for path, texts in self.findings.items()
            for text in texts
        ]
        listing = "\n".join(lines)
        advice = (
            "Take env_mask instead of env_ids, torch.where instead of if and of indexing by a mask, and keep what "
            "changes in tensors on env.device that are written in place."
        )
        if self.mode == "required":
            self._stage = "check"
            self.findings = {}
            raise StepGraphError(
                f"step_graph is 'required', but the step cannot be captured:\n{listing}\n{advice}"
            )
        if "" in self.findings:
            self._off = True
        if self._told.issuperset(self.findings):
            return
        self._told.update(self.findings)
        how = (
            "The whole step runs eagerly"
            if "" in self.findings
            else "These terms run by themselves between the graphs of the step, which costs time"
        )
        warnings.warn(f"{how}:\n{listing}\n{advice}", StepGraphWarning, stacklevel=5)

    # -- capturing

    def _capture(self, action: torch.Tensor) -> None:
        """A step that is recorded, in segments that are each run as soon as they are complete."""
        env = self.env
        if self._action.shape != action.shape:
            with torch.inference_mode(False):
                self._action = torch.zeros_like(action)
        saved = Snapshot(env)
        self._watch = Watch(env)
        recorder = _Recorder(self, self._watch)
        try:
            with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(env.device):
                self._action.copy_(action)
                env.scene._sync()
                plan = recorder.record(self._action)
        except BaseException as error:
            recorder.abort()
            saved.restore()
            if recorder.interrupted or not isinstance(error, Exception):
                raise
            self._failed(recorder.failed_in, error)
            env._step_work(action)
            return
        self._plan = plan
        plan.extras, env.extras = env.extras, _fresh(env.extras)
        self.captures += 1
        self._age = 0
        self._stage = "replay"

    def _failed(self, path: str, error: Exception) -> None:
        """Note who made a capture fail; the next step tries again without it."""
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename]
        if frames:
            text = f"{frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`: {text}"
        for known in (self._convicted, self.findings):
            known.setdefault(path, []).append(f"the capture failed: {text}")
        self._report()

    # -- replaying

    def _replay(self, action: torch.Tensor) -> None:
        self._age += 1
        age = self._age
        if self._suspicion is not None or age in _FIRST_COMPARISONS or age % _COMPARISON_INTERVAL == 0:
            self._compare(action)
        else:
            self._run_plan(action)

    def _run_plan(self, action: torch.Tensor) -> None:
        plan, scene = self._plan, self.env.scene
        assert plan is not None
        scene.check_playing()
        self._action.copy_(action)
        # What the user has written since the last step.
        scene._sync()
        for item in plan.items:
            if isinstance(item, _Eager):
                item.run()
                scene._sync()
            else:
                item.replay()
        self.env.extras = _fresh(plan.extras)

    def _compare(self, action: torch.Tensor) -> None:
        """A step both ways; what differs is not captured any more."""
        env, plan = self.env, self._plan
        assert plan is not None
        saved = Snapshot(env)
        eager = [_subjects(i.subject, i.work, i.args) for i in plan.items if isinstance(i, _Eager)]
        kept = Kept([item for items in eager for item in items], env)
        self._run_plan(action)
        replayed = Probe(env)
        saved.restore()
        kept.restore()
        with torch.inference_mode(False), torch.no_grad():
            env._step_work(action.clone())
        different = Probe(env).differences(replayed)
        if not different:
            self._suspicion = None
        elif self._suspicion is None:
            self._suspicion = different[0]  # chance? The next step is compared as well.
        else:
            self._suspicion = None
            text = (
                "its replays differ from eager steps: it depends on something on the host that changes; keep that in "
                "a tensor on env.device"
            )
            for path in different:
                for known in (self._convicted, self.findings):
                    known.setdefault(path, []).append(text)
            self._drop()
            self._stage = "capture"
            self._report()


class Snapshot:
    """The state of an environment and of torch's generators, to go back to."""

    def __init__(self, env: Any):
        self._env = env
        env.scene._sync()
        # Views made under inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.no_grad():
            self._tensors = [(t, t.clone()) for t in env_tensors(env).values()]
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state(env.device) if env.device.type == "cuda" else None

    def restore(self) -> None:
        """Put everything back, in place."""
        with torch.inference_mode(False), torch.no_grad():
            for tensor, copied in self._tensors:
                tensor.copy_(copied)
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda, self._env.device)


class _Recorder:
    """Records one step.

    Args:
        owner: Whose findings say which terms run eagerly.
        watch: Told of all terms.
        by_part: Also begin a new graph at each part of the step.
    """

    def __init__(self, owner: StepGraph, watch: Watch, by_part: bool = False):
        self.owner, self.env, self.watch, self.by_part = owner, owner.env, watch, by_part
        self.failed_in = ""
        self.interrupted = False
        self._plan = _Plan(pool=torch.cuda.graph_pool_handle())
        self._part = ""
        self._graph: torch.cuda.CUDAGraph | None = None
        self._joined: contextlib.AbstractContextManager[None] | None = None
        self._stream = torch.cuda.Stream(self.env.device)
        self._branches = [torch.cuda.Stream(self.env.device) for _ in range(_NUM_BRANCHES)]
        self._open: list[torch.cuda.Stream] = []

    def record(self, action: torch.Tensor) -> _Plan:
        """Run a step with ``action`` and return what it consists of."""
        env, owner = self.env, self.owner
        self._plan.action = action
        main = torch.cuda.current_stream()
        # A collection within the capture could free graphs or events, which breaks it.
        gc.collect()
        enabled = gc.isenabled()
        gc.disable()
        owner.hook = self._term
        owner.part = self._begin_part
        owner.join = self._join_branches
        try:
            self._stream.wait_stream(main)
            with torch.cuda.stream(self._stream):
                self._begin()
                env._step_work(action)
                env.scene._sync()
                self._end()
            main.wait_stream(self._stream)
        finally:
            owner.hook, owner.part, owner.join = None, _no_part, _nothing
            if enabled:
                gc.enable()
        return self._plan

    def _begin(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        # Only this thread's calls count: a data loader or a viewer may go on.
        self._graph.capture_begin(pool=self._plan.pool, capture_error_mode="thread_local")
        self._joined = self.env.scene.engine.join_capture()
        self._joined.__enter__()

    def _end(self) -> None:
        """Complete the present graph and run it."""
        graph, joined = self._graph, self._joined
        assert graph is not None and joined is not None
        self._joined = None
        joined.__exit__(None, None, None)
        self._graph = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing may lie between two eager terms
            graph.capture_end()
        self._plan.items.append(graph)
        self._plan.parts.append(self._part)
        graph.replay()

    def _begin_part(self, name: str) -> None:
        if self.by_part and self._part and name != self._part:
            self._end()
            self._part = name
            self._begin()
        self._part = name

    def _term(self, path: str, subject: Any, work: Work, args: tuple[Any, ...]) -> Any:
        if path not in self.owner.findings:
            self.watch.add(path, _subjects(subject, work, args))
            try:
                if path.startswith(_INDEPENDENT) and all(map(_reads_only, _listed(subject))):
                    with self._branch():
                        return work(*args)
                self._join_branches()
                return work(*args)
            except Exception:
                self.failed_in = self.failed_in or path
                raise
        scene = self.env.scene
        self._join_branches()
        scene._sync()
        self._end()
        self.owner.hook = None
        self.interrupted = True  # an error from here on is the term's own
        value = work(*args)
        self.interrupted = False
        self.owner.hook = self._term
        item = _Eager(path, subject, work, args)
        if isinstance(value, torch.Tensor):
            item.result = value.clone()
        scene._sync()
        self._plan.items.append(item)
        self._plan.parts.append(self._part)
        self._begin()
        return item.result

    @contextlib.contextmanager
    def _branch(self) -> Iterator[None]:
        """What is recorded inside depends on all before, and nothing on it until :meth:`_join_branches`."""
        self.env.scene._sync()
        stream = self._branches[len(self._open) % len(self._branches)]
        if len(self._open) < len(self._branches):
            stream.wait_stream(self._stream)
        self._open.append(stream)
        with torch.cuda.stream(stream):
            yield

    def _join_branches(self) -> None:
        for stream in self._branches[: len(self._open)]:
            self._stream.wait_stream(stream)
        self._open.clear()

    def abort(self) -> None:
        """Leave torch, Warp and the random generator usable after a capture that failed."""
        joined, graph = self._joined, self._graph
        self._joined = self._graph = None
        device = self.env.device
        with torch.cuda.device(device):
            with torch.cuda.stream(self._stream):
                if joined is not None:
                    with contextlib.suppress(Exception):
                        joined.__exit__(None, None, None)
                if graph is not None:
                    with contextlib.suppress(Exception):
                        graph.capture_end()
            with contextlib.suppress(Exception):
                torch._C._cuda_endAllocateToPool(device.index or 0, self._plan.pool)
            self._plan.close()
            _free_generator()
            torch.cuda.current_stream().wait_stream(self._stream)


def _free_generator() -> None:
    """A capture that fails leaves the generator waiting for its end; one that succeeds brings that about."""
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        torch.rand(1, device="cuda")
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)


def _listed(subject: Any) -> list[Any]:
    return [item for item in subject if item is not None] if isinstance(subject, list) else [subject]


def _reads_only(item: Any) -> bool:
    """Whether a function or object of a term is the library's, whose terms change nothing but themselves."""
    while isinstance(item, functools.partial):
        item = item.func
    module = getattr(item, "__module__", None) or type(item).__module__
    return module.split(".")[0] == "forcelab"


def _subjects(subject: Any, work: Work, args: tuple[Any, ...]) -> list[Any]:
    """The user's part of a term, with its parameters."""
    found = list(subject) if isinstance(subject, list) else [subject]
    for item in (getattr(work, "__self__", None), *args):
        params = getattr(getattr(item, "term", item), "params", None)
        if isinstance(params, dict):
            found.append(params)
    return found


def _where(subject: Any) -> str:
    """File and line of a function or class, for messages."""
    item = subject[0] if isinstance(subject, list) and subject else subject
    code = getattr(item, "__code__", None)
    if code is None:
        code = getattr(vars(type(item)).get("__call__"), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""


def _fresh(value: Any) -> Any:
    """``value`` with new tensors in place of those that the next replay overwrites."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _fresh(item) for key, item in value.items()}
    return value
