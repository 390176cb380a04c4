# SPDX-License-Identifier: Apache-2.0
"""The benchmark of training: a fresh process per seed, and where its time goes."""

from __future__ import annotations

import json
import time

import pytest

from forcelab import cli
from forcelab.benchmarks.train_time import measure, train_time
from forcelab.configs import compose

SMALL = ["num_envs=4", "device=cpu", "agent.num_steps_per_env=8", "episode_length_s=1"]
PARTS = ("start_up_s", "collection_s", "learning_s", "evaluation_s", "other_s")


def test_a_run_in_a_fresh_process(tmp_path, capsys):
    path = tmp_path / "deep" / "train.json"
    words = [*SMALL, "seeds=[3]", "every=2", "episodes=3", "settle=0.5", "warm=false", f"output={path}"]
    before = time.time()
    code = cli.main(["bench", "train", "balance_cartpole", "agent.max_iterations=2", *words])
    took = time.time() - before
    out = capsys.readouterr().out
    assert code == 1 and "criterion met by 0 of 1 seeds" in out and "start-up" in out
    report = json.loads(path.read_text())
    assert report["task"] == "balance_cartpole" and report["median_s"] is None and report["num_envs"] == 4
    assert report["kernel_cache"] == "as found" and report["versions"]["newton"]
    assert report["criterion"] == {"terminated_percent": 5.0}
    (run,) = report["runs"]
    assert (run["seed"], run["met"], run["iterations"], run["env_steps"]) == (3, False, 2, 64)
    assert run["confirmation"] is None
    assert [e["iteration"] for e in run["evaluations"]] == [2]
    assert 0.0 < run["evaluations"][0]["at_s"] <= run["total_s"] < took
    assert sum(run[part] for part in PARTS) == pytest.approx(run["total_s"])
    assert sum(run["start_up"].values()) == pytest.approx(run["start_up_s"])
    # Interpreter and imports are in it.
    assert run["start_up"]["imports_s"] > 0.3 and all(run[part] > 0.0 for part in PARTS)


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text(compose("balance_cartpole", SMALL).to_yaml())
    return str(path)


def run(task, iterations, criterion, **options):
    options = {"every": 2, "first": 3, "episodes": 3, "settle": 0.5, **options}
    return measure(task, 3, iterations, criterion=criterion, started=time.time(), **options)


def test_it_stops_at_the_first_evaluation_that_is_passed(task):
    result = run(task, 9, {"terminated_percent": 100.0})
    assert result["met"] and result["iterations"] == 3
    (evaluation,) = result["evaluations"]
    assert evaluation["passed"] and evaluation["at_s"] <= result["total_s"]
    assert result["confirmation"]["mean_return"] != evaluation["mean_return"]  # other random numbers


def test_evaluating_does_not_change_training(task):
    """The same policies are judged, whatever was evaluated before."""
    never = {"mean_return": -1.0, "mean_episode_length": -1.0, "terminated_percent": 100.0}
    often = run(task, 4, never, first=1, every=1)
    once = run(task, 4, never, first=4, every=9)
    assert [e["iteration"] for e in often["evaluations"]] == [1, 2, 3, 4]
    assert [e["iteration"] for e in once["evaluations"]] == [4]
    keep = [k for k in once["evaluations"][0] if k not in ("at_s", "took_s")]
    last, only = often["evaluations"][-1], once["evaluations"][0]
    assert {k: last[k] for k in keep} == {k: only[k] for k in keep}


def test_a_hopeless_evaluation_is_given_up(tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text(compose("balance_cartpole", [*SMALL, "episode_length_s=4"]).to_yaml())
    result = run(str(path), 1, {"terminated_percent": 5.0})
    (evaluation,) = result["evaluations"]
    assert evaluation["gave_up_after_s"] < 4.0 and not evaluation["passed"] and not result["met"]


def test_a_robot_that_stands_is_given_up(tmp_path):
    path = tmp_path / "task.yaml"
    words = [*SMALL, "episode_length_s=6", "agent.actor.distribution.init_std=0.01"]
    words += ["commands.base_velocity.ranges.lin_vel_x=[2,2]", "commands.base_velocity.rel_standing_envs=0"]
    path.write_text(compose("velocity_flat", words).to_yaml())
    (evaluation,) = run(str(path), 1, None)["evaluations"]
    assert evaluation["velocity_error"] > 1.5 and evaluation["gave_up_after_s"] <= 3.0


def test_bad_numbers():
    composed = compose("balance_cartpole", SMALL)
    with pytest.raises(ValueError, match=r"every=0"):
        train_time(composed, every=0)
    with pytest.raises(ValueError, match=r"seeds=\[\]"):
        train_time(composed, [])
    with pytest.raises(ValueError, match=r"settle=2\.0 s must lie within the episode length, 1 s"):
        train_time(composed)


def test_a_run_that_fails_says_why():
    composed = compose("balance_cartpole", [*SMALL, "device=cuda:77"])
    with pytest.raises(RuntimeError, match=r"seed 1 ended with code 1:(?s:.*)cuda:77"):
        train_time(composed, [1], settle=0.5, warm=False)
