# SPDX-License-Identifier: Apache-2.0
"""The command line."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from forcelab import cli


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = cli.main(words)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("words", [["list"], ["--help"], ["train", "--help"], ["--version"]])
def test_quick_answers_without_torch(words):
    script = (
        "import sys; from forcelab.cli import main; code = main(sys.argv[1:]); "
        "assert not {'torch', 'warp', 'newton', 'hydra'} & set(sys.modules); sys.exit(code)"
    )
    start = time.monotonic()
    result = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    # About half a second on an idle machine; the bound is for a busy one.
    assert time.monotonic() - start < 10.0


def test_list_and_help(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0 and "velocity_flat" in out and "forcelab/Balance-Cartpole-v0" in out
    for name, command in cli.COMMANDS.items():
        code, out, _ = run(capsys, name, "--help")
        assert code == 0 and command.examples[0] in out
    assert run(capsys)[0] == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["trian"], "Did you mean 'train'"),
        (["train", "task=velocity_flt"], "Did you mean 'velocity_flat'"),
        (["train", "velocity_flt"], "Did you mean 'velocity_flat'"),
        (["train", "physics=typo"], "physics: there is no option 'typo'"),
        (["train", "rewards.typo.weight=1"], "rewards.typo"),
        (["train", "--mulitrun"], "Did you mean '--multirun'"),
        (["train", "seed=1,2"], "--multirun"),
        (["train", "resum=true"], "Did you mean 'resume'"),
        (["bench", "steps=x"], "steps: expected int"),
        (["list", "seed=1"], "hydra.searchpath"),
        (["example", "no-such"], "there is no example 'no-such'"),
        (["export", "log_root=/no/such/folder"], "no run with a checkpoint"),
    ],
)
def test_errors_are_one_line(capsys, words, part):
    code, _, err = run(capsys, *words)
    assert code == 2
    assert err.count("\n") == 1 and err.startswith("forcelab: error: ") and part in err


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("device=gpu", "device is 'gpu'"),
        ("num_envs=0", "scene.num_envs is 0"),
        ("physics.dt=-1", "physics.dt is -1.0"),
        ("decimation=0", "decimation is 0"),
        ("episode_length_s=0", "episode_length_s is 0.0"),
        ("scene=null", "scene: there is no option 'None'"),
        ("rewards.alive.weight=nan", "rewards.alive.weight is nan"),
        ("rewards.pole_angle.params.asset_cfg.name=robt", "asset_cfg.name: the scene has no 'robt'"),
        ("actions.cart_force.joint_names=[foo]", "(while making actions.cart_force)"),
        (
            "events.reset_cart.params.position_range=[1,-1]",
            "events.reset_cart.params.position_range is (1.0, -1.0)",
        ),
        ("scene.robot.actuators.cart.effort_limit=0", "scene.robot.actuators.cart.effort_limit is 0.0"),
        ("scene.robot.init_joint_pos={slider_to_cart:5}", "outside its limits"),
        ("agent.actor.hidden_dims=[0]", "agent.actor.hidden_dims"),
    ],
)
def test_wrong_values_stop_before_anything_is_learned(capsys, tmp_path, monkeypatch, override, part):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "train", "task=balance_cartpole", "num_envs=2", override)
    assert code == 2
    assert err.count("\n") == 1 and err.startswith("forcelab: error: ") and part in err
    assert not list(tmp_path.rglob("*.pt"))


def test_debug_shows_the_traceback(capsys, monkeypatch):
    assert "Traceback" in run(capsys, "train", "--debug", "physics=typo")[2]
    monkeypatch.setenv("FORCELAB_DEBUG", "1")
    assert "Traceback" in run(capsys, "train", "physics=typo")[2]


def test_printing_the_configuration(capsys):
    from forcelab.configs import compose, from_yaml

    code, out, _ = run(capsys, "train", "balance_cartpole", "seed=4", "--cfg", "job")
    assert code == 0
    printed = from_yaml(out)
    expected = compose("balance_cartpole", ["seed=4"])
    assert printed.env == expected.env and printed.agent == expected.agent


def test_printing_the_configuration_before_there_is_a_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "play", "balance_cartpole", "--cfg")
    assert code == 0 and out.startswith("task: balance_cartpole")
    assert "the task's own configuration" in err and "no run with a checkpoint" in err
    code, _, err = run(capsys, "play", "balance_cartpole", "checkpoint=typo", "--cfg")
    assert code == 2 and "checkpoint='typo'" in err


def test_plot_channels_pass_the_override_grammar(capsys, monkeypatch):
    seen = []
    command = cli.COMMANDS["play"]
    monkeypatch.setitem(
        cli.COMMANDS,
        "play",
        cli.Command(command.help, lambda cfg, words: seen.append(cfg.run) or 0, command.options),
    )
    words = ["play", "velocity_flat", "checkpoint=pretrained", "debug_vis={force_scale:0.01}"]
    for plot, expected in [
        ("default", "default"),
        ("true", True),
        ("gait.png", "gait.png"),
        ("feet_contact.net_forces_w:.*_FOOT:z", "feet_contact.net_forces_w:.*_FOOT:z"),
        ("[feet_contact.contact,[a.b:L.*,c.d:x]]", ["feet_contact.contact", ["a.b:L.*", "c.d:x"]]),
    ]:
        code, _, err = run(capsys, *words, f"plot={plot}")
        assert code == 0, err
        assert seen[-1].plot == expected and seen[-1].debug_vis == {"force_scale": 0.01}


def test_sweep_runs_every_combination(capsys, monkeypatch):
    seen = []

    def remember(cfg, words):
        seen.append((cfg.env.seed, cfg.env.rewards.alive.weight, cfg.agent.run_name, cfg.run.resume))
        return 0

    command = cli.COMMANDS["train"]
    monkeypatch.setitem(cli.COMMANDS, "train", cli.Command(command.help, remember, command.options))
    code, out, _ = run(
        capsys, "train", "balance_cartpole", "seed=range(1,3)", "rewards.alive.weight=1,2", "-m"
    )
    assert code == 0 and "[4/4] seed=2 rewards.alive.weight=2" in out
    assert seen == [(s, float(w), f"seed={s}_weight={w}", False) for s, w in [(1, 1), (1, 2), (2, 1), (2, 2)]]


def test_train_evaluate_export(capsys, tmp_path, monkeypatch):
    """The whole way on a small environment."""
    monkeypatch.chdir(tmp_path)
    small = ["balance_cartpole", "agent.num_steps_per_env=4", "agent.actor.hidden_dims=[8]", "device=cpu"]
    code, out, err = run(capsys, "train", *small, "num_envs=4", "agent.max_iterations=1", "seed=0")
    assert code == 0, err
    assert list(tmp_path.glob("logs/balance_cartpole/*/model_1.pt"))
    # The width of the network comes from the saved configuration.
    code, out, err = run(
        capsys,
        "evaluate",
        "balance_cartpole",
        "num_envs=2",
        "episode_length_s=0.4",
        "settle=0.1",
        "output=numbers.json",
    )
    assert code in (0, 1), err
    assert (tmp_path / "numbers.json").is_file() and "mean return" in out
    code, out, err = run(capsys, "export", "balance_cartpole", "output=out")
    assert code == 0, err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["policy.json", "policy.onnx", "policy.pt"]
