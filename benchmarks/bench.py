# SPDX-License-Identifier: Apache-2.0
"""Step times of a task at several sizes, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from .step_time import StepTime, measure

_HEAD = (
    f"{'envs':>7}{'env.step':>12}{'physics':>12}{'ratio':>8}{'env steps/s':>14}{'memory':>10}{'spread':>9}"
)


def bench(
    composed: Any,
    num_envs: int | Sequence[int] = (64, 1024, 4096),
    *,
    steps: int = 50,
    repeats: int = 5,
    output: str | os.PathLike[str] | None = None,
    stream: TextIO | None = None,
) -> list[StepTime]:
    """Time ``env.step`` and the physics steps in it for each number of environments, and print a table.

    Args:
        composed: :func:`forcelab.configs.compose`'s result: ``task`` and ``env``.
        num_envs: One number of environments or several.
        steps: Environment steps per repeat.
        repeats: Repeats; medians are reported.
        output: JSON file to write.
        stream: Where the table is printed; None: standard output.
    """
    out = sys.stdout if stream is None else stream
    sizes = [num_envs] if isinstance(num_envs, int) else list(num_envs)
    results: list[StepTime] = []
    print(
        f"{composed.task} on {composed.env.device}: medians of {repeats} repeats of {steps} steps, "
        "random actions",
        file=out,
    )
    print(_HEAD, file=out, flush=True)
    for size in sizes:
        result = measure(composed.env, int(size), steps=steps, repeats=repeats)
        results.append(result)
        print(_row(result), file=out, flush=True)
        for line in _part_rows(result):
            print(line, file=out, flush=True)
    if output is not None:
        path = Path(output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report(composed.task, results), indent=2) + "\n", encoding="utf-8")
        print(f"Wrote {path}", file=out)
    return results


def report(task: str, results: Sequence[StepTime]) -> dict[str, Any]:
    """Results with what is needed to compare them: versions and machine."""
    return {"task": task, **machine(), "results": [result.as_dict() for result in results]}


def machine() -> dict[str, Any]:
    """Versions and machine."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in ("forcelab", "torch", "warp-lang", "newton", "mujoco-warp", "ovphysx"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "versions": versions,
    }


def _row(result: StepTime) -> str:
    memory = f"{result.memory_bytes / 2**30:.2f} GiB" if result.memory_bytes else "-"
    spread = max(result.step_spread, result.physics_spread)
    return (
        f"{result.num_envs:>7}{result.step_s * 1e3:>9.2f} ms{result.physics_s * 1e3:>9.2f} ms"
        f"{result.ratio:>8.2f}{result.env_steps_per_s:>14,.0f}{memory:>10}{spread:>8.0%}"
    )


def _part_rows(result: StepTime) -> list[str]:
    if not result.step_kernels:
        return []
    outside = result.step_kernels - result.physics_kernels
    rows = [
        f"{'':>9}kernels in a step: {result.step_kernels}, {outside} of them beside those of physics alone"
    ]
    for part in result.parts:
        rows.append(f"{'':>9}{part.name:<20}{part.seconds * 1e3:>9.3f} ms{part.kernels:>6} kernels")
    return rows
