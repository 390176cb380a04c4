# SPDX-License-Identifier: Apache-2.0
"""Sweeps through Hydra's launchers."""

from __future__ import annotations

import os

import pytest

from forcelab import cli
from forcelab.configs.errors import ConfigError
from forcelab.configs.launch import launch, take_launcher


def twice(number: int) -> int:
    return 2 * number


def test_words_for_the_launcher_are_taken_out():
    words = ["task=a", "seed=1,2", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "hydra.searchpath=[x]"]
    assert take_launcher(words) == (words[2:4], [*words[:2], words[4]])
    assert take_launcher(words[:2]) == ([], words[:2])
    basic = ["seed=1,2", "hydra/launcher=basic"]
    assert take_launcher(basic) == ([], basic)


def test_jobs_of_the_basic_launcher(tmp_path):
    from hydra.core.global_hydra import GlobalHydra

    folder = tmp_path / "sweep"
    here = os.getcwd()
    assert launch(twice, 3, [f"hydra.sweep.dir={folder}"]) == [0, 2, 4]
    assert (folder / "multirun.yaml").is_file() and os.getcwd() == here
    assert not GlobalHydra.instance().is_initialized()


def test_a_sweep_reaches_the_launcher(monkeypatch, capsys):
    seen = {}

    def stand_in(function, number, words):
        seen.update(words=words, codes=[function(i) for i in range(number)])
        return [0, 3]

    def remember(cfg, words):
        seen.setdefault("runs", []).append((cfg.env.seed, cfg.agent.run_name))
        return cfg.env.seed

    command = cli.COMMANDS["train"]
    monkeypatch.setitem(cli.COMMANDS, "train", cli.Command(command.help, remember, command.options))
    monkeypatch.setattr("forcelab.configs.launch.launch", stand_in)
    words = ["hydra/launcher=submitit_slurm", "hydra.launcher.partition=gpu"]
    assert cli.main(["train", "balance_cartpole", "seed=4,5", *words, "-m"]) == 3
    assert seen == {"words": words, "codes": [4, 5], "runs": [(4, "seed=4"), (5, "seed=5")]}
    assert "[2/2] seed=5" in capsys.readouterr().out


def test_misuse(capsys):
    with pytest.raises(ConfigError, match=r"there is no hydra/launcher=fast"):
        launch(twice, 1, ["hydra/launcher=fast"])
    with pytest.raises(ConfigError, match="n_jobz"):
        launch(twice, 1, ["hydra/launcher=basic", "hydra.launcher.n_jobz=2"])
    assert cli.main(["train", "balance_cartpole", "hydra/launcher=joblib"]) == 2
    assert "serve a launcher of a sweep (-m)" in capsys.readouterr().err


def test_a_launcher_that_is_not_installed():
    try:
        import hydra_plugins.hydra_rq_launcher  # noqa: F401

        pytest.skip("the launcher is installed")
    except ModuleNotFoundError:
        pass
    with pytest.raises(ConfigError, match="pip install hydra-rq-launcher"):
        launch(twice, 1, ["hydra/launcher=rq"])


def test_jobs_in_other_processes(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    words = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", f"hydra.sweep.dir={tmp_path}"]
    pids = launch(_process, 2, words)
    assert os.getpid() not in pids


def _process(number: int) -> int:
    return os.getpid()
