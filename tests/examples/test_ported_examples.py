# SPDX-License-Identifier: Apache-2.0
"""Examples that show code as it is written for Isaac Lab, with another import root: what they say and read."""

from __future__ import annotations

import re

import pytest
import torch

import forcelab.assets
import forcelab.envs
import forcelab.envs.mdp
import forcelab.mdp
import forcelab.scene
from forcelab import cli
from forcelab.examples.contact_sensor import ContactSensorSceneCfg
from forcelab.examples.foot_wrenches import FEET_BODY_NAMES, QuadrupedEnvCfg
from forcelab.examples.joint_wrench import JointWrenchSceneCfg
from forcelab.physics import NewtonCfg
from forcelab.scene import InteractiveScene

WEIGHT = 40.8 * 9.81


def test_aliases():
    assert forcelab.assets.ArticulationCfg is forcelab.scene.ArticulationCfg
    assert forcelab.assets.RigidObjectCfg is forcelab.scene.RigidObjectCfg
    assert forcelab.envs.ManagerBasedRLEnv is forcelab.envs.ManagerBasedRlEnv
    assert forcelab.envs.ManagerBasedRLEnvCfg is forcelab.envs.ManagerBasedRlEnvCfg
    assert forcelab.envs.mdp.body_incoming_wrench is forcelab.mdp.body_incoming_wrench
    with pytest.raises(AttributeError, match="Did you mean 'ArticulationCfg'"):
        _ = forcelab.assets.ArticulationCgf


def numbers(line: str) -> list[float]:
    return [float(v) for v in re.findall(r"-?\d+\.\d+", line)]


def test_contact_sensor_prints_as_it_runs(capsys):
    words = ["example", "contact-sensor", "num_envs=3", "max_steps=400", "log_interval=100"]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [int(line.split()[0]) for line in lines] == [100, 200, 300, 400]
    left, left_on_cube, right, right_on_cube, hind = numbers(lines[-1])
    # The left front foot stands on the cube alone, the right one beside it; together they bear the robot.
    assert left == pytest.approx(left_on_cube, abs=0.02) and left > 10.0
    assert right_on_cube == 0.0 and right > 10.0
    assert left + right + 2 * hind == pytest.approx(WEIGHT, rel=0.05)


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("num_env=3", "Did you mean 'num_envs'"),
        ("max_steps=x", "max_steps is 'x'"),
        ("max_steps=0", "at least 1"),
    ],
)
def test_bad_options(word, part, capsys):
    assert cli.main(["example", "contact-sensor", word]) == 2
    assert part in capsys.readouterr().err


def test_contact_sensor_of_one_foot_and_its_filter():
    scene = InteractiveScene(ContactSensorSceneCfg(num_envs=2), NewtonCfg(dt=0.005))
    for _ in range(20):
        scene.step()
    data = scene["left_foot_contact"].data
    assert data.net_normal_forces_w.torch.shape == (2, 1, 3)
    assert data.normal_force_matrix_w.torch.shape == (2, 1, 1, 3)
    assert data.net_normal_forces_w_history.torch.shape == (2, 6, 1, 3)
    assert data.friction_force_matrix_w is None and data.current_air_time.torch.shape == (2, 1)
    assert scene["hind_feet_contact"].body_names == ["LH_FOOT", "RH_FOOT"]
    scene.close()


def test_joint_wrench_of_the_feet():
    scene = InteractiveScene(JointWrenchSceneCfg(num_envs=2), NewtonCfg(dt=0.005))
    for _ in range(400):
        scene.step()
    joint_wrench = scene["joint_wrench"]
    foot_ids, names = joint_wrench.find_bodies([".*FOOT"])
    force, torque = (a.torch[:, foot_ids] for a in (joint_wrench.data.force, joint_wrench.data.torque))
    assert torch.cat((force, torque), dim=-1).shape == (2, 4, 6)
    assert sorted(names) == sorted(FEET_BODY_NAMES)
    # At rest the feet pass on the robot's weight, less their own.
    assert float(force.norm(dim=-1)[0].sum()) == pytest.approx(WEIGHT, rel=0.05)
    scene.close()


def test_foot_wrenches_are_observed():
    env = forcelab.envs.ManagerBasedRLEnv(cfg=QuadrupedEnvCfg())
    env.reset()
    actions = torch.rand(4, 12) - 0.5
    for _ in range(5):
        obs, *_ = env.step(actions)
    sensor = env.scene["joint_wrench"]
    ids = [sensor.body_names.index(name) for name in FEET_BODY_NAMES]
    wrench = torch.cat((sensor.data.force[:, ids], sensor.data.torque[:, ids]), dim=-1)
    assert obs["policy"].shape == (4, 1 + 12 + 24 + 12)
    torch.testing.assert_close(obs["policy"][:, 13:37], 0.1 * wrench.flatten(1))
    torch.testing.assert_close(obs["policy"][:, 37:], actions)
    env.close()
