# SPDX-License-Identifier: Apache-2.0
"""Channels of a real environment: names, values, units, errors, tables, pictures."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

from forcelab.configs import compose
from forcelab.envs import ManagerBasedRlEnv
from forcelab.viewers import SeriesRecorder, plot_series
from forcelab.viewers.series import Line, Panel, _parse, default_channels, unit_of

FEET = ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"]
EXTRA = [
    "+scene.tip._target_=ContactSensorCfg",
    "+scene.tip.prim_path={ENV_REGEX_NS}/Robot/LF_FOOT",
    "+scene.tip.filter_prim_paths_expr=[/World/ground]",
    "+scene.tip.track_contact_points=true",
]


@pytest.fixture(scope="module")
def env():
    env = ManagerBasedRlEnv(compose("velocity_flat", ["num_envs=2", "seed=3", "device=cpu", *quoted()]).env)
    env.reset()
    yield env
    env.close()


def quoted() -> list[str]:
    """Braces have to be quoted in overrides."""
    return [
        f'{key}="{value}"' if "{" in value else f"{key}={value}"
        for key, _, value in (e.partition("=") for e in EXTRA)
    ]


def sample(env, channels, steps=3, env_id=0):
    recorder = SeriesRecorder(env, channels, env_id)
    seen = []
    for _ in range(steps):
        recorder.before_step()
        command = env.command_manager.get_term("base_velocity").vel_command_b[env_id].clone()
        _, _, terminated, truncated, _ = env.step(torch.zeros(2, env.action_manager.total_action_dim))
        recorder.after_step(terminated | truncated)
        feet = env.scene["feet_contact"].data
        seen.append(
            {
                "net": feet.net_forces_w[env_id].clone(),
                "contact": feet.current_contact_time[env_id] > 0.0,
                "command": command,
                "velocity": env.scene["robot"].data.root_lin_vel_b[env_id].clone(),
                "joints": env.scene["robot"].data.joint_pos[env_id].clone(),
                "point": env.scene["tip"].data.contact_pos_w[env_id, 0, 0].clone(),
            }
        )
    return recorder, {key: torch.stack([s[key] for s in seen]).double().numpy() for key in seen[0]}


def one(recorder) -> Panel:
    [panel] = recorder.panels()
    return panel


def values(panel) -> np.ndarray:
    return np.stack([line.values for line in panel.lines], axis=1)


def test_forces_give_the_norm_per_body(env):
    recorder, seen = sample(env, "feet_contact.net_forces_w", env_id=1)
    panel = one(recorder)
    assert [line.label for line in panel.lines] == FEET
    assert panel.axis_label == "net force [N]" and panel.title == "feet_contact"
    np.testing.assert_allclose(values(panel), np.linalg.norm(seen["net"], axis=-1), rtol=1e-6)
    np.testing.assert_allclose(recorder.times, [0.02, 0.04, 0.06])


def test_bodies_and_components(env):
    recorder, seen = sample(
        env, ["feet_contact.net_forces_w:L._FOOT:z", "feet_contact.net_forces_w:RH_FOOT:all"]
    )
    vertical, all_of_one = recorder.panels()
    assert [line.label for line in vertical.lines] == ["LF_FOOT", "LH_FOOT"]
    assert vertical.axis_label == "net force, z [N]"
    np.testing.assert_allclose(values(vertical), seen["net"][:, [0, 2], 2])
    assert [line.label for line in all_of_one.lines] == ["RH_FOOT x", "RH_FOOT y", "RH_FOOT z"]
    np.testing.assert_allclose(values(all_of_one), seen["net"][:, 3])


def test_contacts_are_bars(env):
    recorder, seen = sample(env, "feet_contact.contact")
    panel = one(recorder)
    assert panel.kind == "bars" and [line.label for line in panel.lines] == FEET
    np.testing.assert_array_equal(values(panel), seen["contact"])
    # A sensor without timers: by its threshold.
    recorder, _ = sample(env, "tip.contact", steps=1)
    assert one(recorder).lines[0].values[0] == float(env.scene["tip"].data.net_forces_w[0, 0].norm() > 0.0)


def test_filter_columns_are_chosen_by_their_names(env):
    for chosen in ("", ":ground", ":LF_FOOT", ":.*ground"):
        recorder, _ = sample(env, f"tip.normal_force_matrix_w{chosen}", steps=1)
        assert [line.label for line in one(recorder).lines] == ["LF_FOOT ← ground"]
    recorder, seen = sample(env, "tip.contact_pos_w")
    panel = one(recorder)
    assert panel.unit == "m" and len(panel.lines) == 3
    np.testing.assert_allclose(values(panel), seen["point"])  # NaN in the air


def test_joints_and_vectors_of_assets(env):
    recorder, seen = sample(env, ["robot.joint_pos:LF_.*", "robot.root_lin_vel_b"])
    joints, velocity = recorder.panels()
    assert [line.label for line in joints.lines] == ["LF_HAA", "LF_HFE", "LF_KFE"]
    ids, _ = env.scene["robot"].find_joints("LF_.*")
    np.testing.assert_allclose(values(joints), seen["joints"][:, ids])
    assert velocity.axis_label == "root linear velocity [m/s]"
    np.testing.assert_allclose(values(velocity), seen["velocity"])


def test_commands_beside_what_is_measured(env):
    recorder, seen = sample(env, "commands.base_velocity")
    planar, yaw = recorder.panels()
    assert [(line.label, line.role) for line in planar.lines] == [
        ("forward velocity", "command"),
        ("forward velocity", "measured"),
        ("sideways velocity", "command"),
        ("sideways velocity", "measured"),
    ]
    assert planar.axis_label == "velocity [m/s]" and yaw.axis_label == "yaw rate [rad/s]"
    # The command that held during the step, not the one drawn at its end.
    np.testing.assert_allclose(values(planar)[:, [0, 2]], seen["command"][:, :2])
    np.testing.assert_allclose(values(planar)[:, [1, 3]], seen["velocity"][:, :2])
    recorder, _ = sample(env, "commands.base_velocity:yaw rate", steps=1)
    assert len(one(recorder).lines) == 2


def test_an_inner_list_shares_a_panel(env):
    recorder, _ = sample(env, [["robot.joint_pos:LF_HAA", "robot.joint_pos_target:LF_HAA"], "tip.contact"])
    first, _ = recorder.panels()
    assert [line.label for line in first.lines] == ["joint position LF_HAA", "joint position target LF_HAA"]
    recorder, _ = sample(env, [["tip.net_forces_w", "feet_contact.net_forces_w:LF_FOOT"]])
    assert [line.label for line in one(recorder).lines] == ["tip LF_FOOT", "feet_contact LF_FOOT"]


def test_default_and_the_whole_way_to_files(env, tmp_path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    channels = default_channels(env)
    assert channels[:2] == ["feet_contact.contact", "feet_contact.net_normal_forces_w"]
    assert channels[-1] == "commands.base_velocity" and not any("body_contact" in c for c in channels)
    recorder, seen = sample(env, "default")
    path = plot_series(recorder.times, recorder.panels(), tmp_path / "a" / "p.png", "title", resets=[0.04])
    assert image.open(path).size[0] > 1000
    with open(recorder.save_csv(tmp_path / "b" / "p.csv"), encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[0] == "time [s]" and "feet_contact.net_normal_forces_w LF_FOOT [N]" in header
    assert "commands.base_velocity forward velocity command [m/s]" in header
    column = header.index("commands.base_velocity forward velocity measured [m/s]")
    np.testing.assert_allclose([float(row[column]) for row in rows], seen["velocity"][:, 0], rtol=1e-5)


def test_sampling_changes_nothing():
    runs = []
    for watched in (True, False):
        env = ManagerBasedRlEnv(compose("balance_cartpole", ["num_envs=2", "seed=3", "device=cpu"]).env)
        env.reset()
        recorder = SeriesRecorder(env) if watched else None
        for _ in range(5):
            if recorder is not None:
                recorder.before_step()
            obs, _, terminated, truncated, _ = env.step(torch.ones(2, 1))
            if recorder is not None:
                recorder.after_step(terminated | truncated)
        if recorder is not None:  # a task without sensors: its joints
            assert [p.title for p in recorder.panels()] == ["robot", "robot"]
        runs.append(obs["policy"].clone())
        env.close()
    assert torch.equal(*runs)


@pytest.mark.parametrize(
    "channels, message",
    [
        ("feet_contat.contact", r"there is no sensor or asset 'feet_contat'\. Did you mean 'feet_contact'"),
        ("feet_contact.net_force_w", "has no reading 'net_force_w'. Did you mean 'net_forces_w'"),
        ("feet_contact.force_matrix_w", "does not track 'force_matrix_w'.*It has: contact, current_air_time"),
        ("feet_contact.pos_w", "does not track 'pos_w'"),
        ("feet_contact.net_forces_w:LF_FOT", "matches 'LF_FOT'. Did you mean 'LF_FOOT'"),
        ("feet_contact.net_forces_w:LF_FOOT:xq", "no component 'q'; use x, y, z, norm or all"),
        ("feet_contact.contact:LF_FOOT:z", "contact has no component 'z'"),
        ("feet_contact.current_air_time:.*:z", "has no components, found 'z'"),
        ("feet_contact.net_forces_w_history", "use feet_contact.net_forces_w"),
        ("tip.normal_force_matrix_w:grund", "matches 'grund'. Did you mean 'ground'"),
        ("robot.root_lin_vel_b:base", "is one vector, it has no bodies"),
        ("robot.body_pos_w", "51 series.*choose some: robot.body_pos_w:<regular.*There are: base, LF_HIP"),
        ("commands.base_velocty", "no command 'base_velocty'. Did you mean 'base_velocity'"),
        ("commands.base_velocity:yaw", "matches 'yaw'. Known: 'forward velocity', "),
        ([["feet_contact.contact", "feet_contact.net_forces_w"]], "contact bars need a panel of their own"),
        ("feet_contact", "cannot be read. A channel is <sensor or asset>"),
        ([3], "plot channel 3 is no text"),
        ([], "names no channel"),
        ([[]], "a panel without a channel"),
    ],
)
def test_wrong_channels_are_named(env, channels, message):
    with pytest.raises(ValueError, match=message):
        SeriesRecorder(env, channels)


def test_an_environment_that_is_not_there(env):
    with pytest.raises(ValueError, match="environment 2 does not exist; there are 2"):
        SeriesRecorder(env, env_id=2)


@pytest.mark.parametrize(
    "text, parts",
    [
        ("a.b", ("a", "b", None, None)),
        ("a.b:z", ("a", "b", None, "z")),
        ("a.b:norm", ("a", "b", None, "norm")),
        ("a.b:.*_FOOT:xy", ("a", "b", ".*_FOOT", "xy")),
        ("a.b:(?:L|R)F:z", ("a", "b", "(?:L|R)F", "z")),
    ],
)
def test_parts_of_a_channel(text, parts):
    assert _parse(text) == parts


@pytest.mark.parametrize(
    "reading, unit",
    [
        ("net_forces_w", "N"),
        ("force", "N"),
        ("torque", "N·m"),
        ("applied_torque", "N·m"),
        ("current_air_time", "s"),
        ("lin_acc_b", "m/s²"),
        ("ang_vel_b", "rad/s"),
        ("contact_pos_w", "m"),
        ("root_quat_w", ""),
        ("projected_gravity_b", ""),
        ("default_friction", ""),
        ("friction_force_matrix_w", "N"),
    ],
)
def test_units(reading, unit):
    assert unit_of(reading) == unit


def test_wrong_series_are_named(tmp_path):
    panel = Panel("p", "force", "N", lines=[Line("a", np.zeros(3))])
    with pytest.raises(ValueError, match=r"'a' of 'p' has shape \(3,\), times has \(2,\)"):
        plot_series([0.0, 1.0], [panel], tmp_path / "x.png")
    with pytest.raises(ValueError, match="there is no panel"):
        plot_series([0.0, 1.0], [], tmp_path / "x.png")
