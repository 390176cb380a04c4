# SPDX-License-Identifier: Apache-2.0
"""The command ``forcelab``. Listing, help and errors of spelling come without importing torch."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import json
import os
import pathlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from forcelab import __version__, configs
from forcelab.configs import launch, run_cfg
from forcelab.configs.errors import ConfigError
from forcelab.physics.errors import near

# What a user can cause and mend; anything else is shown with its type and a hint at the traceback.
_EXPECTED = (ValueError, KeyError, ModuleNotFoundError, NotImplementedError, OSError)


@dataclass(frozen=True)
class Command:
    """One command: its one-line help, its options and what it does with a composed configuration."""

    help: str
    run: Callable[[Any, list[str]], int]
    options: type | None = None
    examples: tuple[str, ...] = ()


def _train(cfg: Any, words: list[str]) -> int:
    from forcelab.learning.train import train

    _choose_device(cfg, words)
    return int(train(cfg, resume=cfg.run.resume, log_root=cfg.run.log_root, command=words).exit_code)


def _play(cfg: Any, words: list[str]) -> int:
    from forcelab.learning.play import play

    _choose_device(cfg, words)
    run = cfg.run
    play(
        cfg,
        run.checkpoint,
        num_envs=run.num_envs,
        duration=run.duration,
        command=run.command,
        video=_path(run.video, f"{cfg.task}.mp4"),
        frames=_path(run.frames, "frames"),
        plot=run.plot,
        plot_file=run.plot_file,
        plot_csv=_path(run.plot_csv, f"{cfg.task}_plot.csv"),
        viewer=run.viewer,
        viewer_host=run.viewer_host,
        viewer_port=run.viewer_port,
        camera=run.camera or None,
        debug_vis=run.debug_vis or None,
        width=run.width,
        height=run.height,
        noise=run.noise,
        pushes=run.pushes,
        log_root=run.log_root,
    )
    return 0


def _evaluate(cfg: Any, words: list[str]) -> int:
    from forcelab.learning.evaluate import evaluate

    _choose_device(cfg, words)
    run = cfg.run
    results = evaluate(
        cfg,
        run.checkpoint,
        num_envs=run.num_envs,
        settle=run.settle,
        noise=run.noise,
        pushes=run.pushes,
        log_root=run.log_root,
    )
    if run.output is not None:
        path = pathlib.Path(run.output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=2, default=str) + "\n", encoding="utf-8")
        print(f"Wrote {path}")
    return 0 if results.get("passed", True) or not results.get("criterion") else 1


def _export(cfg: Any, words: list[str]) -> int:
    from forcelab.learning.checkpoint import find_checkpoint
    from forcelab.learning.export import export_policy

    run = cfg.run
    path = find_checkpoint(
        run.checkpoint, experiment=cfg.agent.experiment_name, log_root=run.log_root, task=cfg.task
    )
    for file in export_policy(path, run.output, name=run.name).values():
        print(f"Wrote {file}")
    return 0


def _bench(cfg: Any, words: list[str]) -> int:
    from forcelab.benchmarks.bench import bench

    _choose_device(cfg, words)
    run = cfg.run
    bench(cfg, run.num_envs, steps=run.steps, repeats=run.repeats, output=run.output)
    return 0


def _bench_sensors(cfg: Any, words: list[str]) -> int:
    from forcelab.benchmarks.sensors import sensors

    _choose_device(cfg, words)
    run = cfg.run
    sensors(cfg, run.num_envs, rounds=run.rounds, steps=run.steps, creation=run.creation, output=run.output)
    return 0


def _bench_train(cfg: Any, words: list[str]) -> int:
    from forcelab.benchmarks.train_time import train_time

    _choose_device(cfg, words)
    run = cfg.run
    report = train_time(
        cfg,
        run.seeds,
        every=run.every,
        first=run.first or None,
        episodes=run.episodes,
        settle=run.settle,
        criterion=run.criterion or None,
        warm=run.warm,
        output=run.output,
    )
    return 0 if report["median_s"] is not None else 1


def _path(value: bool | str, default: str) -> str | None:
    return (default if value else None) if isinstance(value, bool) else value


def _choose_device(cfg: Any, words: list[str]) -> None:
    """Take the GPU, if there is one that the engine can use and no device was asked for."""
    if any(w.partition("=")[0].lstrip("+") in ("device", "env.device") for w in words):
        return
    if type(cfg.env.physics).__name__ == "NewtonCfg" and cfg.env.device == "cpu":
        import torch

        if torch.cuda.is_available():
            cfg.env.device = "cuda:0"


COMMANDS: dict[str, Command] = {
    "train": Command(
        "train a policy",
        _train,
        run_cfg.TrainRun,
        (
            "forcelab train task=velocity_flat num_envs=4096 device=cuda:0",
            "forcelab train task=balance_cartpole agent.max_iterations=50",
            "forcelab train task=velocity_flat rewards.feet_air_time.weight=0.25,0.5 -m",
            "forcelab train task=velocity_flat resume=true",
        ),
    ),
    "play": Command(
        "watch a policy: numbers, browser, video, pictures, plots",
        _play,
        run_cfg.PlayRun,
        (
            "forcelab play task=velocity_flat checkpoint=pretrained video=walk.mp4 'command=[1,0,0]'",
            "forcelab play task=velocity_flat checkpoint=pretrained viewer=browser scene.feet_contact.debug_vis=true",
            "forcelab play task=velocity_flat plot=default plot_csv=true",
            "forcelab play task=velocity_flat 'plot=[feet_contact.net_forces_w:LF_FOOT:all,commands.base_velocity]'",
        ),
    ),
    "evaluate": Command(
        "measure a policy",
        _evaluate,
        run_cfg.EvaluateRun,
        ("forcelab evaluate task=velocity_flat checkpoint=latest num_envs=256",),
    ),
    "export": Command(
        "write a policy as ONNX and TorchScript",
        _export,
        run_cfg.ExportRun,
        ("forcelab export task=velocity_flat checkpoint=latest output=exported",),
    ),
    "bench": Command(
        "measure step times",
        _bench,
        run_cfg.BenchRun,
        ("forcelab bench task=velocity_flat 'num_envs=[64,4096]' device=cuda:0",),
    ),
    "bench sensors": Command(
        "measure what sensors cost, and the time to create a scene",
        _bench_sensors,
        run_cfg.BenchSensorsRun,
        ("forcelab bench sensors num_envs=4096 device=cuda:0 output=sensors.json",),
    ),
    "bench train": Command(
        "measure the time from the start of the process to a policy that meets the criterion",
        _bench_train,
        run_cfg.BenchTrainRun,
        (
            "forcelab bench train task=velocity_flat num_envs=4096 device=cuda:0 'seeds=[1,2,3]' output=train.json",
        ),
    ),
}
_OTHER = {"list": "list the tasks", "example": "run a documented example; without a name, list them"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; None takes the process's.

    Returns:
        Exit code: 0; 1 when an evaluation missed its criterion; 2 after an error, which is one line on
        standard error; 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = os.environ.get("FORCELAB_DEBUG", "") not in ("", "0")
    if "--debug" in words:
        debug = True
        words = [w for w in words if w != "--debug"]
    # A user's own terms in the working folder; last, so that they hide nothing.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`forcelab list | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(_message(error, debug), file=sys.stderr)
        return 2


def _message(error: Exception, debug: bool) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split()) or type(error).__name__
    if not isinstance(error, _EXPECTED):
        text = f"{type(error).__name__}: {text}"
        if not debug:
            text += " (--debug shows the traceback)"
    for note in getattr(error, "__notes__", ()):
        text += f" {note}"
    return f"forcelab: error: {text}"


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        topic = words[1] if len(words) > 1 and words[0] == "help" else None
        print(_command_help(topic) if topic in COMMANDS else _help())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"forcelab {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name == "bench" and rest[:1] in (["sensors"], ["train"]):
        name, rest = f"bench {rest[0]}", rest[1:]
        if name == "bench sensors" and not any(w.startswith("task=") for w in rest):
            rest.insert(0, "task=velocity_flat")
    if name not in COMMANDS and name not in _OTHER:
        raise ConfigError(f"there is no command {name!r}.{near(name, [*COMMANDS, *_OTHER])}")
    if name == "example":
        return _example(rest)
    if "-h" in rest or "--help" in rest:
        print(_command_help(name) if name in COMMANDS else _help())
        return 0
    if name == "list":
        return _list(rest)
    return _run(name, rest)


def _run(name: str, rest: list[str]) -> int:
    command = COMMANDS[name]
    sweep = show = False
    texts: list[str] = []
    words = iter(rest)
    for word in words:
        if word in ("-m", "--multirun"):
            sweep = True
        elif word in ("--cfg", "-c"):
            show = True
            # Hydra's `--cfg job`: the task's configuration is the only one there is.
            following = next(words, None)
            if following is not None and following != "job":
                words = iter([following, *words])
        elif word.startswith("-") and not word.startswith("-="):
            raise ConfigError(
                f"there is no option {word!r}.{near(word, ['--help', '--multirun', '--cfg', '--debug'])}"
            )
        elif not texts and "=" not in word and not word.startswith("~"):
            texts.append(f"task={word}")
        else:
            texts.append(word)
    if not sweep:
        return _run_one(name, command, texts, show)
    hydra, texts = launch.take_launcher(texts)
    jobs = []
    for combination in configs.expand_sweeps(texts):
        changed = [new for old, new in zip(texts, combination) if old != new]
        if name == "train" and not any(t.startswith("agent.run_name=") for t in combination):
            parts = (c.partition("=") for c in changed)
            label = "_".join(f"{key.rpartition('.')[2]}={value}" for key, _, value in parts)
            combination = [*combination, f"agent.run_name={json.dumps(label, ensure_ascii=False)}"]
        jobs.append((" ".join(changed), combination))
    if hydra and not show:
        for number, (changed_words, _) in enumerate(jobs, 1):
            print(f"[{number}/{len(jobs)}] {changed_words}", flush=True)
        orders = [[*name.split(), *combination] for _, combination in jobs]
        return max(launch.launch(functools.partial(_job, orders), len(orders), hydra), default=0)
    codes = []
    for number, (changed_words, combination) in enumerate(jobs, 1):
        print(f"[{number}/{len(jobs)}] {changed_words}", flush=True)
        code = _run_one(name, command, combination, show)
        if code >= 128:
            return code
        codes.append(code)
    return max(codes, default=0)


def _job(orders: list[list[str]], number: int) -> int:
    """One run of a sweep, in the process that a launcher chose."""
    return main(orders[number])


def _run_one(name: str, command: Command, texts: list[str], show: bool) -> int:
    assert command.options is not None
    cfg = configs.compose(None, texts, run=command.options())
    if hasattr(cfg.run, "checkpoint"):
        try:
            cfg = _as_trained(cfg, texts)
        except ValueError as error:
            # There is something to print before there is a run.
            if not show or cfg.run.checkpoint != "latest":
                raise
            print(f"forcelab: this is the task's own configuration: {error}", file=sys.stderr)
    if show:
        print(configs.to_yaml(cfg), end="")
        return 0
    return command.run(cfg, [name, *texts])


def _as_trained(cfg: Any, texts: list[str]) -> Any:
    """The configuration that was saved beside the checkpoint, if there is one and no other is asked for."""
    from forcelab.learning.checkpoint import find_checkpoint

    run = cfg.run
    if run.checkpoint == "pretrained":
        return cfg
    path = find_checkpoint(
        run.checkpoint, experiment=cfg.agent.experiment_name, log_root=run.log_root, task=cfg.task
    )
    files = [path.parent / "config.yaml"]
    files += sorted(
        (p for p in path.parent.glob("config_from_*.yaml") if p.stem.rpartition("_")[2].isdigit()),
        key=lambda p: int(p.stem.rpartition("_")[2]),
    )
    files = [f for f in files if f.is_file()]
    if not files:
        return cfg
    return configs.compose_saved(files[-1], texts, run=type(run)()) or cfg


def _list(rest: list[str]) -> int:
    paths, others = configs.take_searchpath(rest)
    if others:
        raise ConfigError(f"`forcelab list` takes hydra.searchpath=[…] only, found {others[0]!r}")
    tasks = configs.list_tasks(paths)
    rows = [("TASK", "GYMNASIUM ID", "DESCRIPTION"), *((t.name, t.id or "-", t.description) for t in tasks)]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for row in rows:
        print(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip())
    return 0


def _examples() -> dict[str, str]:
    """Name → first line of the documentation of every example, read without running it."""
    folder = pathlib.Path(__file__).parent / "examples"
    found = {}
    for file in sorted(folder.glob("*.py")):
        if not file.name.startswith("_"):
            text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            found[file.stem.replace("_", "-")] = text.partition("\n")[0]
    return found


def _example(rest: list[str]) -> int:
    examples = _examples()
    if not rest or rest[0] in ("-h", "--help", "list"):
        print("usage: forcelab example NAME [arguments]\n")
        width = max((len(n) for n in examples), default=0)
        for name, text in examples.items():
            print(f"  {name:<{width}}  {text}".rstrip())
        return 0
    name = rest[0].replace("_", "-")
    if name not in examples:
        raise ConfigError(f"there is no example {rest[0]!r}.{near(name, examples)}")
    module = importlib.import_module(f"forcelab.examples.{name.replace('-', '_')}")
    takes_arguments = bool(inspect.signature(module.main).parameters)
    if rest[1:] and not takes_arguments:
        raise ConfigError(f"the example {name} takes no arguments, found {rest[1]!r}")
    return int((module.main(rest[1:]) if takes_arguments else module.main()) or 0)


def _help() -> str:
    commands = {**{n: c.help for n, c in COMMANDS.items()}, **_OTHER}
    lines = [
        "usage: forcelab COMMAND [task] [key=value …] [-m] [--cfg] [--debug]",
        "",
        "Reinforcement-learning environments for robots that feel force.",
        "",
        "commands:",
        *(f"  {name:<13} {text}" for name, text in commands.items()),
        "",
        "overrides:",
        "  task=… robot=… scene=… physics=… agent=…     choose from the groups",
        "  num_envs=… device=… seed=… physics.dt=…       set any value of the configuration",
        "  rewards.feet_slide.weight=-0.5                change a term;  ~rewards.feet_slide  removes it",
        "  +rewards.mine.func=my_pkg.my_term             add one",
        "  'scene.robot.actuators.legs.stiffness[\".*_HAA\"]=40'",
        "  hydra.searchpath=[folder]                     your own tasks, robots, …",
        "",
        "  -m, --multirun   run every combination of values such as weight=0.1,0.2 or range(1,4)",
        "  -c, --cfg        print the composed configuration instead of running",
        "  --debug          show tracebacks (also FORCELAB_DEBUG=1)",
        "  -V, --version    print the version",
        "",
        "`forcelab COMMAND --help` shows a command's own options.",
    ]
    return "\n".join(lines)


def _command_help(name: str | None) -> str:
    assert name is not None
    command = COMMANDS[name]
    assert command.options is not None
    defaults = command.options()
    lines = [
        f"usage: forcelab {name} [task] [key=value …]",
        "",
        f"{command.help.capitalize()}.",
        "",
        "options:",
    ]
    for f in dataclasses.fields(command.options):
        value = getattr(defaults, f.name)
        text = json.dumps(value).replace('"', "")
        lines.append(f"  {f'{f.name}={text}'.replace(' ', ''):<26} {f.metadata['help']}")
    lines += [
        "",
        "examples:",
        *(f"  {e}" for e in command.examples),
        "",
        "`forcelab --help` explains overrides.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
