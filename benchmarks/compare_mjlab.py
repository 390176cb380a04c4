# SPDX-License-Identifier: Apache-2.0
"""``env.step`` of forcelab beside that of mjlab, with one robot, one solver and one list of terms.

.. code-block:: bash

    python -m forcelab.benchmarks.compare_mjlab --num-envs 64 4096 --device cuda:0 --output mjlab.json

Needs mjlab 1.6 (installed, or ``--mjlab-path`` to a folder that holds it). Each library runs in a process of its
own; the two take turns on the device. The robot file is the Go1 of the installed mjlab, read by forcelab's MJCF
loader.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

#: What remains different, in words.
DIFFERENCES = (
    "mjlab's task is its Go1 velocity task on a plane, less offsets of the centre of mass and spinning and rolling "
    "friction of the feet (drawn once, at the start) and forward-only commands.",
    "Both: robots collide with the ground alone, condim 3, MuJoCo's default softness. Friction is drawn once: by mjlab "
    "for the feet, by forcelab for all bodies of a robot.",
    "Heights of the feet: both cast four rays per foot once per step, mjlab on a ring, forcelab on a square.",
    "mjlab reads the base's velocity at a site 7 cm beside the origin of the root, forcelab at the origin.",
    "mjlab's foot sensors match contacts with the ground, forcelab's all contacts of the feet: the same here.",
    "mjlab widens the command ranges in three stages, on the host; forcelab linearly, on the device.",
    "mjlab's rewards see kinematics from before the last integration, forcelab's from after it.",
    "mjlab logs means of some rewards in every step; forcelab sums all per episode.",
    "Each side runs the mujoco-warp that it installs; the versions are in the report.",
    "Physics alone: mjlab's goes on from where its environments stand; forcelab's on the same scene without sensors.",
)


def _serve(side_name: str, source: IO[str], answer: IO[str]) -> None:
    """Answer one request per line: what a worker process does."""
    import torch

    side: Any = None
    actions: Any = None
    for line in source:
        request = json.loads(line)
        kind = request.pop("do")
        if kind == "build":
            started = time.perf_counter()
            if side_name == "mjlab":
                from forcelab.benchmarks.mjlab_side import Side
            else:
                from forcelab.benchmarks.mjlab_task import Side  # type: ignore[assignment]
            torch.manual_seed(1)
            side = Side(request["num_envs"], request["device"], request["about"])
            generator = torch.Generator().manual_seed(0)
            shape = (16, request["num_envs"], side.num_actions)
            actions = (2.0 * torch.rand(shape, generator=generator) - 1.0).to(request["device"])
            for i in range(request["warmup"]):
                side.step(actions[i % 16])
            reply = {"build_s": time.perf_counter() - started, "about": side.about()}
        elif kind == "close":
            side.close()
            reply = {}
        else:
            number = request["steps"]
            if kind == "physics" and hasattr(side, "begin_physics"):
                side.begin_physics()
            _wait(actions.device)
            started = time.perf_counter()
            for i in range(number):
                side.step(actions[i % 16]) if kind == "step" else side.physics()
            _wait(actions.device)
            reply = {"seconds": (time.perf_counter() - started) / number}
        answer.write(json.dumps(reply) + "\n")
        answer.flush()


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Worker:
    """A process that holds one side."""

    def __init__(self, side: str, path: str, log: Path):
        env = dict(os.environ)
        if side == "mjlab" and path:
            env["PYTHONPATH"] = os.pathsep.join(p for p in (path, env.get("PYTHONPATH", "")) if p)
        self.side, self._log = side, log
        self._errors = log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "forcelab.benchmarks.compare_mjlab", "--serve", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=env,
            text=True,
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            self._errors.flush()
            tail = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])
            hint = " Install mjlab 1.6, or give --mjlab-path." if "No module named 'mjlab'" in tail else ""
            raise RuntimeError(f"The process of {self.side} ended in {do!r}.{hint} Its last words:\n{tail}")
        return json.loads(line)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._errors.close()


@contextlib.contextmanager
def _pair(path: str, folder: Path) -> Iterator[tuple[_Worker, _Worker]]:
    workers: list[_Worker] = []
    try:
        for side in ("mjlab", "forcelab"):
            workers.append(_Worker(side, path, folder / f"{side}.log"))
        yield workers[0], workers[1]
    finally:
        for worker in workers:
            worker.end()


def _check_equal(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Raise RuntimeError if the two do not hold the same robot and the same terms."""
    for key in ("observations", "rewards", "terminations"):
        if theirs[key] != ours[key]:
            raise RuntimeError(f"The sides have different {key}: mjlab {theirs[key]}, forcelab {ours[key]}.")
    if abs(theirs["mass"] - ours["mass"]) > 1e-4 * theirs["mass"]:
        raise RuntimeError(f"The robots weigh {theirs['mass']} kg (mjlab) and {ours['mass']} kg (forcelab).")


def compare(
    num_envs: int,
    device: str,
    *,
    rounds: int = 5,
    steps: int = 50,
    warmup: int = 120,
    mjlab_path: str = "",
    folder: Path,
) -> dict[str, Any]:
    """Both sides by turns at one size. Times in s per environment step, medians over the rounds."""
    with _pair(mjlab_path, folder) as (theirs, ours):
        common = {"num_envs": num_envs, "device": device, "warmup": warmup}
        first = theirs.ask("build", about={}, **common)
        second = ours.ask("build", about=first["about"], **common)
        _check_equal(first["about"], second["about"])
        times: dict[str, list[float]] = {
            f"{s}_{k}": [] for s in ("mjlab", "forcelab") for k in ("step", "physics")
        }
        for _ in range(rounds):
            for worker in (theirs, ours):
                for kind in ("step", "physics"):
                    times[f"{worker.side}_{kind}"].append(worker.ask(kind, steps=steps)["seconds"])
        medians = {f"{name}_s": statistics.median(values) for name, values in times.items()}
        ratios = [a / b for a, b in zip(times["mjlab_step"], times["forcelab_step"], strict=True)]
        return {
            "num_envs": num_envs,
            **medians,
            "ratio": statistics.median(ratios),
            "ratio_range": [min(ratios), max(ratios)],
            "rounds": times,
            "mjlab": first["about"],
            "forcelab": second["about"],
        }


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 1024, 4096])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50, help="environment steps of each side per round")
    parser.add_argument("--warmup", type=int, default=120)
    parser.add_argument("--mjlab-path", default="", help="folder, or folders with ':', that holds mjlab")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--logs", type=Path, default=Path("."), help="folder for what the processes print")
    parser.add_argument("--serve", choices=("mjlab", "forcelab"), help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.serve:
        # Requests and answers go through the pipes; whatever a library prints goes to the log.
        answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        _serve(args.serve, sys.stdin, answer)
        return 0
    if min(*args.num_envs, args.rounds, args.steps) < 1:
        parser.error("--num-envs, --rounds and --steps must be at least 1")
    from .bench import machine

    args.logs.mkdir(parents=True, exist_ok=True)
    print(
        f"mjlab and forcelab on {args.device}: medians of {args.rounds} rounds of {args.steps} steps, random actions"
    )
    print(
        f"{'envs':>7}{'mjlab':>11}{'its physics':>13}{'forcelab':>11}{'its physics':>13}{'ratio':>8}",
        flush=True,
    )
    results = []
    for size in args.num_envs:
        try:
            result = compare(
                size,
                args.device,
                rounds=args.rounds,
                steps=args.steps,
                warmup=args.warmup,
                mjlab_path=args.mjlab_path,
                folder=args.logs,
            )
        except RuntimeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        results.append(result)
        columns = (result[f"{s}_{k}_s"] * 1e3 for s in ("mjlab", "forcelab") for k in ("step", "physics"))
        a, b, c, d = columns
        print(
            f"{size:>7}{a:>8.2f} ms{b:>10.2f} ms{c:>8.2f} ms{d:>10.2f} ms{result['ratio']:>8.2f}", flush=True
        )
    print("What remains different:")
    for text in DIFFERENCES:
        print(f"  * {text}")
    if args.output is not None:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        report = {**machine(), "device": args.device, "differences": DIFFERENCES, "results": results}
        args.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print(f"Wrote {args.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
