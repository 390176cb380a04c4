# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.physics import NewtonCfg
from forcelab.scene import InteractiveScene, InteractiveSceneCfg, PlaneCfg, RigidObjectCfg, SphereCfg
from forcelab.sensors import ContactSensorCfg

GRAVITY = 9.81


class BallsCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    left = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Left", spawn=SphereCfg(radius=0.1, mass=1.0), init_pos=(0.0, 0.5, 0.5)
    )
    right = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Right", spawn=SphereCfg(radius=0.1, mass=1.0), init_pos=(0.0, -0.5, 0.1)
    )
    feet = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/(Left|Right)", track_air_time=True, history_length=4, contact_debounce=0
    )


@pytest.fixture(scope="module")
def balls(scene_env: Any) -> Any:
    return scene_env(InteractiveScene(BallsCfg(num_envs=3), physics=NewtonCfg(dt=0.005), device="cpu"))


def drop(env: Any, heights: list[float]) -> None:
    """Left balls fall freely by ``heights`` (m), one per environment; right balls rest."""
    env.scene.reset()
    pose = env.scene["left"].data.default_root_pose.clone()
    pose[:, 2] = torch.tensor(heights) + 0.1
    env.scene["left"].write_root_pose(pose)


def test_feet_air_time_of_dropped_balls(balls: Any, fixed_commands: Any) -> None:
    heights, threshold = [0.2, 0.5, 0.9], 0.25
    drop(balls, heights)
    balls.command_manager = fixed_commands(torch.tensor([[1.0, 0, 0], [0, 0.5, 0], [0.05, 0, 1.0]]))
    params = {
        "command_name": "c",
        "sensor_cfg": balls.entity("feet", body_names="Left"),
        "threshold": threshold,
    }
    got = torch.zeros(3)
    landings = torch.zeros(3)
    always = {**params, "command_name": None}
    for _ in range(30):
        balls.step()
        value = mdp.feet_air_time(balls, **params)
        assert torch.equal(mdp.feet_air_time(balls, **always)[:2], value[:2])
        first = got == 0.0
        got = torch.where(first, value, got)
        landings += balls.scene["feet"].compute_first_contact(balls.step_dt)[:, 0]
    assert (landings >= 1).all()
    for i, h in enumerate(heights[:2]):
        fall = math.sqrt(2.0 * h / GRAVITY)
        assert got[i].item() == pytest.approx(fall - threshold, abs=2 * balls.physics_dt + 1e-4)
    assert got[2] == 0.0  # commanded to stand


def test_feet_air_time_positive_biped_needs_one_standing_foot(balls: Any, fixed_commands: Any) -> None:
    balls.command_manager = fixed_commands(torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0.0, 0, 0]]))
    drop(balls, [2.0, 0.0, 2.0])
    feet = balls.entity("feet")
    balls.step(5)
    data = balls.scene["feet"].data
    air, stand = data.current_air_time[:, 0], data.current_contact_time[:, 1]
    got = mdp.feet_air_time_positive_biped(balls, command_name="c", threshold=0.5, sensor_cfg=feet)
    assert got[0].item() == pytest.approx(min(air[0], stand[0]).item()) and got[0] > 0.05
    assert got[1] == 0.0  # both stand
    assert got[2] == 0.0  # not told to walk
    capped = mdp.feet_air_time_positive_biped(balls, command_name="c", threshold=0.04, sensor_cfg=feet)
    assert capped[0].item() == pytest.approx(0.04)


def test_contact_penalties_count_bodies_by_force(balls: Any) -> None:
    drop(balls, [2.0, 0.0, 2.0])
    balls.step(10)
    feet = balls.entity("feet")
    weight = 1.0 * GRAVITY
    assert mdp.undesired_contacts(balls, threshold=1.0, sensor_cfg=feet).tolist() == [1.0, 2.0, 1.0]
    assert mdp.undesired_contacts(balls, threshold=2 * weight, sensor_cfg=feet).tolist() == [0.0, 0.0, 0.0]
    left = balls.entity("feet", body_names=["Left"])
    assert mdp.desired_contacts(balls, sensor_cfg=left).tolist() == [1.0, 0.0, 1.0]
    assert mdp.illegal_contact(balls, threshold=1.0, sensor_cfg=left).tolist() == [False, True, False]
    excess = mdp.contact_forces(balls, threshold=4.0, sensor_cfg=feet)
    assert excess.tolist() == pytest.approx([weight - 4.0, 2 * (weight - 4.0), weight - 4.0], abs=0.05)


def test_a_contact_within_the_history_counts(balls: Any) -> None:
    drop(balls, [0.0, 0.0, 0.0])
    balls.step(10)
    pose = balls.scene["left"].data.root_pose_w.clone()
    pose[:, 2] += 1.0
    balls.scene["left"].write_root_pose(pose, env_mask=balls.mask(0))
    left = balls.entity("feet", body_names="Left")
    balls.scene.step()
    assert mdp.undesired_contacts(balls, threshold=1.0, sensor_cfg=left).tolist() == [1.0, 1.0, 1.0]
    balls.step()  # four more samples: the history of four holds no contact any more
    assert mdp.undesired_contacts(balls, threshold=1.0, sensor_cfg=left).tolist() == [0.0, 1.0, 1.0]


def test_undesired_contacts_of_a_robot_on_its_belly(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    shell = quadruped.entity("touch", body_names=["base", ".*_THIGH", ".*_SHANK"])
    feet = quadruped.entity("touch", body_names=".*_FOOT")
    # Environment 0 loses its strength and sinks, the others stand.
    nothing = torch.zeros(4, 12)
    robot.write_joint_gains(nothing, nothing, env_mask=quadruped.mask(0))
    quadruped.step(75)
    assert robot.data.root_pos_w[0, 2] < 0.25 and (robot.data.root_pos_w[1:, 2] > 0.4).all()
    counts = mdp.undesired_contacts(quadruped, threshold=1.0, sensor_cfg=shell)
    assert counts[0] >= 1.0
    assert counts[1:].tolist() == [0.0, 0.0, 0.0]
    assert mdp.desired_contacts(quadruped, sensor_cfg=feet)[1:].tolist() == [0.0, 0.0, 0.0]
    weight = robot.data.default_body_mass[0].sum().item() * GRAVITY
    total = quadruped.scene["touch"].data.net_forces_w[:, :, 2].sum(dim=1)
    assert total[1].item() == pytest.approx(weight, rel=0.1)
    assert total[0].item() == pytest.approx(weight, rel=0.2)


def test_feet_slide_is_the_speed_of_feet_on_the_ground(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    quadruped.step(40)
    velocity = robot.data.root_vel_w.clone()
    velocity[:, :2] = torch.tensor([0.6, 0.8])
    robot.write_root_velocity(velocity, env_mask=quadruped.mask(1, 2))
    params = {
        "sensor_cfg": quadruped.entity("touch", body_names=".*_FOOT"),
        "asset_cfg": quadruped.entity("robot", body_names=".*_FOOT"),
    }
    got = mdp.feet_slide(quadruped, **params)
    speed = robot.data.body_lin_vel_w[:, params["asset_cfg"].body_ids, :2].norm(dim=-1).sum(dim=1)
    torch.testing.assert_close(got, speed)
    assert got[1].item() == pytest.approx(4.0, abs=0.2)
    assert got[0] < 0.1
    pose = robot.data.root_pose_w.clone()
    pose[:, 2] += 1.0
    robot.write_root_pose(pose)
    quadruped.step(2)
    assert mdp.feet_slide(quadruped, **params).tolist() == [0.0] * 4  # in the air
    with pytest.raises(ValueError, match="same body_names"):
        mdp.feet_slide(quadruped, sensor_cfg=params["sensor_cfg"], asset_cfg=quadruped.entity("robot"))


def move(env: Any) -> Any:
    """Put the quadrupeds in different states of motion; return their data."""
    robot = env.scene["robot"]
    data = robot.data
    robot.write_joint_state(
        data.default_joint_pos + 0.3 * torch.randn(4, 12),
        torch.randn(4, 12) * torch.tensor([[1.0], [5], [9], [0]]),
    )
    pose = data.default_root_pose.clone()
    pose[:, 2] += 1.0
    pose[:, 3:] = torch.nn.functional.normalize(torch.randn(4, 4), dim=1)
    robot.write_root_pose(pose)
    robot.write_root_velocity(torch.randn(4, 6))
    env.scene.step()
    return data


def test_tracking_rewards_are_exponentials_of_the_squared_error(quadruped: Any, fixed_commands: Any) -> None:
    data = move(quadruped)
    command = torch.randn(4, 3)
    quadruped.command_manager = fixed_commands(command)
    error = ((command[:, :2] - data.root_lin_vel_b.torch[:, :2]) ** 2).sum(1)
    got = mdp.track_lin_vel_xy_exp(quadruped, std=0.5, command_name="c")
    torch.testing.assert_close(got, torch.exp(-error / 0.25))
    yaw = (command[:, 2] - data.root_ang_vel_b.torch[:, 2]) ** 2
    got = mdp.track_ang_vel_z_exp(quadruped, std=0.7, command_name="c")
    torch.testing.assert_close(got, torch.exp(-yaw / 0.49))
    quadruped.command_manager = fixed_commands(
        torch.cat((data.root_lin_vel_b[:, :2], data.root_ang_vel_b[:, 2:]), dim=1)
    )
    assert mdp.track_lin_vel_xy_exp(quadruped, std=0.5, command_name="c").tolist() == [1.0] * 4
    torch.testing.assert_close(mdp.error_vel_xy(quadruped, command_name="c"), torch.zeros(4))
    torch.testing.assert_close(mdp.error_vel_yaw(quadruped, command_name="c"), torch.zeros(4))


def test_root_and_joint_penalties(quadruped: Any) -> None:
    d = move(quadruped)
    some = quadruped.entity("robot", joint_names=["RF_KFE", "LF_HAA"])
    ids = [0, 5]
    expected = {
        "lin_vel_z_l2": d.root_lin_vel_b[:, 2] ** 2,
        "ang_vel_xy_l2": (d.root_ang_vel_b[:, :2] ** 2).sum(1),
        "flat_orientation_l2": 1.0 - d.projected_gravity_b[:, 2] ** 2,
    }
    for name, value in expected.items():
        torch.testing.assert_close(getattr(mdp, name)(quadruped), value, msg=name, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        mdp.base_height_l2(quadruped, target_height=0.4), (d.root_pos_w[:, 2] - 0.4) ** 2
    )
    assert torch.equal(mdp.forward_velocity(quadruped), d.root_lin_vel_w[:, 0])
    torch.testing.assert_close(mdp.lin_vel_y_l2(quadruped), d.root_lin_vel_w[:, 1] ** 2)
    expected = {
        "joint_torques_l2": d.applied_torque[:, ids].square().sum(1),
        "joint_vel_l1": d.joint_vel[:, ids].abs().sum(1),
        "joint_vel_l2": d.joint_vel[:, ids].square().sum(1),
        "joint_acc_l2": d.joint_acc[:, ids].square().sum(1),
        "joint_deviation_l1": (d.joint_pos - d.default_joint_pos)[:, ids].abs().sum(1),
        "joint_power_l1": (d.applied_torque * d.joint_vel)[:, ids].abs().sum(1),
        "applied_torque_limits": (d.applied_torque - d.computed_torque)[:, ids].abs().sum(1),
    }
    for name, value in expected.items():
        assert value.abs().max() > 0.0 or name == "applied_torque_limits", name
        torch.testing.assert_close(getattr(mdp, name)(quadruped, asset_cfg=some), value, msg=name)


def test_heading_is_measured_from_the_target_around_the_circle(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    heading = torch.tensor([0.0, 0.5, -3.0, 3.0])
    pose = robot.data.default_root_pose.clone()
    pose[:, 3:] = 0.0
    pose[:, 5], pose[:, 6] = torch.sin(heading / 2), torch.cos(heading / 2)
    robot.write_root_pose(pose)
    torch.testing.assert_close(mdp.heading_l2(quadruped), heading**2, rtol=1e-4, atol=1e-5)
    # The short way round: from 3 rad to -3 rad it is 2π - 6.
    got = mdp.heading_l2(quadruped, target_heading=3.0)
    expected = torch.tensor([3.0, 2.5, 2 * math.pi - 6.0, 0.0]) ** 2
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    direction = mdp.base_heading(quadruped)
    torch.testing.assert_close(
        direction, torch.stack((heading.cos(), heading.sin()), 1), rtol=1e-4, atol=1e-5
    )


def test_limit_penalties(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    pos = robot.data.default_joint_pos.clone()
    limits = robot.data.soft_joint_pos_limits.torch
    pos[1, 0] = limits[1, 0, 1] + 0.2
    pos[1, 5] = limits[1, 5, 0] - 0.1
    robot.write_joint_state(pos, torch.zeros(4, 12))
    assert mdp.joint_pos_limits(quadruped).tolist() == pytest.approx([0.0, 0.3, 0.0, 0.0], abs=1e-5)
    assert mdp.joint_pos_out_of_limit(quadruped).tolist() == [False, True, False, False]
    ratio = 2.0 / robot.data.joint_vel_limits[0, 0].item()
    vel = torch.zeros(4, 12)
    vel[2, 3], vel[3, 3], vel[3, 4] = 2.4, -9.0, 2.1
    robot.write_joint_state(pos, vel)
    got = mdp.joint_vel_limits(quadruped, soft_ratio=ratio)
    assert got.tolist() == pytest.approx([0.0, 0.0, 0.4, 1.1], abs=1e-4)


def test_effort_limits(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    target = robot.data.default_joint_pos.clone()
    target[2, 4] += 2.0  # 120 N·m/rad · 2 rad = 240 N·m, limit 80 N·m
    robot.set_joint_position_target(target)
    quadruped.scene.step()
    d = robot.data
    cut = mdp.applied_torque_limits(quadruped)
    assert (
        cut[2].item() == pytest.approx(d.computed_torque[2, 4].abs().item() - 80.0, abs=1e-3) and cut[2] > 100
    )
    assert cut[[0, 1, 3]].tolist() == [0.0] * 3
    assert mdp.joint_effort_out_of_limit(quadruped).tolist() == [False, False, True, False]


def test_stand_still(quadruped: Any, fixed_commands: Any) -> None:
    move(quadruped)
    quadruped.command_manager = fixed_commands(
        torch.tensor([[0.05, 0, 0], [0.05, 0, 2], [0.05, 0.05, 0], [1.0, 0, 0]])
    )
    got = mdp.stand_still_joint_deviation_l1(quadruped, command_name="c")
    deviation = mdp.joint_deviation_l1(quadruped)
    torch.testing.assert_close(got[:2], deviation[:2])
    assert got[2:].tolist() == [0.0, 0.0]


def test_action_and_survival_rewards(quadruped: Any) -> None:
    action, before = torch.randn(4, 12), torch.randn(4, 12)
    quadruped.action_manager = SimpleNamespace(action=action, prev_action=before)
    torch.testing.assert_close(mdp.action_l2(quadruped), (action**2).sum(1))
    torch.testing.assert_close(mdp.action_rate_l2(quadruped), ((action - before) ** 2).sum(1))
    quadruped.termination_manager = SimpleNamespace(terminated=torch.tensor([True, False, False, True]))
    assert mdp.is_terminated(quadruped).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert mdp.is_alive(quadruped).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_feet_gait_is_one_for_a_trot_and_less_otherwise(fixed_commands: Any) -> None:
    """Modes written by hand: a pair that stands while the other swings, in step and out of step."""

    def value(air: list[float], contact: list[float], command: float = 1.0, name: str | None = "c") -> float:
        data = SimpleNamespace(
            current_air_time=torch.tensor([air], dtype=torch.float32),
            current_contact_time=torch.tensor([contact], dtype=torch.float32),
        )
        env = SimpleNamespace(
            scene={"feet": SimpleNamespace(data=data)},
            command_manager=fixed_commands(torch.tensor([[command, 0.0, 0.0]])),
        )
        cfg = SimpleNamespace(name="feet", body_ids=slice(None))
        return float(mdp.feet_gait(env, command_name=name, sensor_cfg=cfg)[0])

    trot = value([0.1, 0.1, 0, 0], [0, 0, 0.1, 0.1])
    assert trot == pytest.approx(1.0)
    # All feet on the ground: nothing within the pairs, 0.1² twice in each of the four across them.
    stand = value([0, 0, 0, 0], [0.1] * 4)
    assert stand == pytest.approx(math.exp(-(4 * 2 * 0.1**2) / (6 * 0.2**2)))
    pace = value([0.1, 0, 0.1, 0], [0, 0.1, 0, 0.1])
    assert pace < 1.0
    assert value([0, 0, 0, 0], [5.0] * 4) == pytest.approx(math.exp(-(4 * 2 * 0.2**2) / (6 * 0.2**2)))
    assert value([0, 0, 0, 0], [0.1] * 4, command=0.0) == 1.0
    assert value([0, 0, 0, 0], [0.1] * 4, command=0.0, name=None) == stand  # no command is asked
