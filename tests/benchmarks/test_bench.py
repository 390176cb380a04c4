# SPDX-License-Identifier: Apache-2.0
"""The step-time benchmark: numbers that belong together, a table, a JSON file."""

from __future__ import annotations

import json

import pytest

from forcelab.benchmarks.bench import bench
from forcelab.benchmarks.step_time import without_sensors
from forcelab.configs import compose


def test_table_and_json(tmp_path, capsys):
    path = tmp_path / "times.json"
    bench(compose("balance_cartpole", []), [2, 3], steps=5, repeats=3, output=path)
    table = capsys.readouterr().out.splitlines()
    assert "balance_cartpole on cpu" in table[0] and "ratio" in table[1]
    results = json.loads(path.read_text())["results"]
    assert [r["num_envs"] for r in results] == [2, 3]
    for r in results:
        assert 0.0 < r["physics_s"] < r["step_s"]
        assert r["ratio"] == pytest.approx(r["step_s"] / r["physics_s"])
        assert r["env_steps_per_s"] == pytest.approx(r["num_envs"] / r["step_s"])
        assert r["decimation"] == 2 and r["memory_bytes"] == 0


def test_physics_alone_has_no_sensors():
    scene = compose("velocity_flat", []).env.scene
    bare = without_sensors(scene)
    names = dict(bare.items())
    assert "feet_contact" not in names and "robot" in names
    assert scene.feet_contact is not None


def test_bad_numbers():
    with pytest.raises(ValueError, match="num_envs=0"):
        bench(compose("balance_cartpole", []), 0)
