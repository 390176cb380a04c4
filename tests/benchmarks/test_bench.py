# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of steps and of sensors: numbers that belong together, a table, a JSON file."""

from __future__ import annotations

import json

import pytest

from forcelab import cli
from forcelab.benchmarks.bench import bench
from forcelab.benchmarks.sensors import FEET, scene_cfg
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


def test_sensors(tmp_path, capsys):
    """Every variant in one run, compared with the scene without sensors of the same integrator."""
    path = tmp_path / "sensors.json"
    words = ["num_envs=2", "rounds=2", "steps=5", "creation=[1,2]", "device=cpu", f"output={path}"]
    assert cli.main(["bench", "sensors", *words]) == 0
    out = capsys.readouterr().out
    assert "contact capacity 24 and constraint capacity 96" in out and "per environment +" in out
    report = json.loads(path.read_text())
    assert report["contact_capacity"] == 24 and report["versions"]["newton"]
    cost = {(c["name"], c["integrator"]): c for c in report["cost"]}
    assert len(cost) == 6
    for (name, _), c in cost.items():
        assert c["step_s"] > 0.0 and c["ratio_low"] <= c["ratio"] <= c["ratio_high"]
        assert c["contacts"] >= 1.0
        if name == "physics":
            assert c["ratio"] == 1.0
    assert [c["num_envs"] for c in report["creation"]["sizes"]] == [1, 2]


def test_every_foot_has_all_options():
    scene = compose("velocity_flat", []).env
    found = dict(scene_cfg(scene, 2, True, True).items())
    feet = [found[f"{foot.lower()}_contact"] for foot in FEET]
    assert all(
        f.history_length == 6 and f.track_air_time and f.track_contact_points and f.track_friction_forces
        for f in feet
    )
    assert "joint_wrench" in found and "feet_contact" not in found
    assert "joint_wrench" not in dict(scene_cfg(scene, 2, True, False).items())


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["rounds=0"], "rounds=0"),
        (["creation=[0]"], "creation"),
        (["physics=ovphysx"], "physics=newton"),
    ],
)
def test_bad_numbers_for_sensors(words, part, capsys):
    assert cli.main(["bench", "sensors", "device=cpu", "num_envs=1", *words]) == 2
    assert part in capsys.readouterr().err
