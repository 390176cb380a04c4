# SPDX-License-Identifier: Apache-2.0
"""Terms for pressing and sliding, on an arm with a table: positions, forces, commands, increments."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers import ActionManager, CommandManager, EventManager, EventTermCfg

POINT = (0.1, 0.0, 0.0)
PATCH = (0.42, 0.58, -0.1, 0.1)
RADIUS = 0.018


def press(env: Any, **settings: Any) -> Any:
    torch.manual_seed(0)
    env.episode_length_buf.zero_()
    cfg = mdp.SlidingPressCommandCfg(point=POINT, patch=PATCH, settle_time=0.0, **settings)
    env.command_manager = CommandManager({"press": cfg}, env)
    env.command_manager.reset()
    env.command_manager.compute(torch.zeros(env.num_envs))
    return env.command_manager.get_term("press")


def lean_on_the_table(env: Any) -> torch.Tensor:
    """Press on the table with constant targets; the normal force (E,), N."""
    robot = env.scene["robot"]
    target = robot.data.default_joint_pos.clone()
    target[:, robot.joint_names.index("shoulder_pitch")] += 0.2
    robot.set_joint_position_target(target)
    env.step(300)
    return env.scene["tool_contact"].data.net_normal_forces_w[:, 0, 2].clone()


def test_target_starts_under_the_point_at_rest(arm: Any) -> None:
    term = press(arm)
    position, velocity = term.point()
    tool = arm.scene["robot"].body_names.index("tool")
    pose = arm.scene["robot"].data.body_pose_w[:, tool]
    # The tool points straight down in the default pose: the ball is 0.1 m below the tool's origin.
    expected = pose[:, :3] - arm.scene.env_origins - torch.tensor([0.0, 0.0, 0.1])
    torch.testing.assert_close(position, expected, atol=1e-3, rtol=0.0)
    assert velocity.abs().max() < 1e-5
    command = mdp.generated_commands(arm, "press")
    assert command.shape == (arm.num_envs, 5)
    assert command[:, 1:].abs().max() < 1e-6
    assert ((command[:, 0] >= 5.0) & (command[:, 0] <= 30.0)).all()


def test_point_velocity_is_the_change_of_its_position(arm: Any) -> None:
    term = press(arm)
    robot = arm.scene["robot"]
    robot.set_joint_velocity_target(torch.zeros(arm.num_envs, 6))
    target = robot.data.default_joint_pos.clone()
    target[:, 0] += 0.1
    target[:, 4] -= 0.1
    robot.set_joint_position_target(target)
    arm.step(5)
    before = term.point()[0].clone()
    arm.scene.step()
    velocity = term.point()[1].clone()
    arm.scene.step()
    # Positions move with the velocity at the end of each physics step.
    velocity = 0.5 * (velocity + term.point()[1])
    change = (term.point()[0] - before) / (2.0 * arm.physics_dt)
    torch.testing.assert_close(change, velocity, atol=0.01, rtol=0.02)
    assert velocity.norm(dim=1).min() > 0.05


def test_target_stays_in_the_patch_at_its_speed(arm: Any) -> None:
    term = press(arm, resampling_time_range=(1.0, 2.0), max_acceleration=1.0, force_rate=25.0)
    low, high = torch.tensor(PATCH[0::2]), torch.tensor(PATCH[1::2])
    speeds, forces, last, dt = [], [], term.target_vel.clone(), arm.step_dt
    reached = torch.zeros(2)
    for _ in range(3000):
        old, force = term.target_pos.clone(), term.force.clone()
        arm.command_manager.compute(dt)
        assert ((term.target_pos >= low) & (term.target_pos <= high)).all()
        torch.testing.assert_close(term.target_pos - old, term.target_vel * dt, atol=1e-6, rtol=1e-5)
        assert (term.target_vel - last).abs().max() <= 1.0 * dt + 1e-6
        assert (term.force - force).abs().max() <= 25.0 * dt + 1e-4
        last = term.target_vel.clone()
        speeds.append(last.norm(dim=1))
        forces.append(term.force.clone())
        reached = torch.maximum(reached, (term.target_pos - (low + high) / 2).abs().amax(dim=0))
    speed, force = torch.stack(speeds[100:]), torch.stack(forces)
    inside = ((speed >= 0.05 - 1e-4) & (speed <= 0.2 + 1e-4)).float().mean()
    assert inside > 0.85  # slower only while it turns, and never faster
    assert speed.max() <= 0.2 + 1e-4
    assert force.min() >= 5.0 - 1e-3 and force.max() <= 30.0 + 1e-3 and force.std() > 4.0
    assert (reached > 0.9 * (high - low) / 2).all()  # it uses the patch


def test_force_is_the_mean_over_the_step(arm: Any) -> None:
    term = press(arm)
    force = lean_on_the_table(arm)
    assert (force > 5.0).all()
    sensor = arm.entity("tool_contact")
    history = arm.scene["tool_contact"].data.normal_force_matrix_w_history
    history[:, :, 0, 0, 2] = torch.tensor([10.0, 20.0, 90.0])  # the third sample is of the step before
    arm.decimation = 2
    term.force.fill_(12.0)
    arm.command_manager.compute(0.0)
    term.force.fill_(12.0)
    term._update_command()
    expected = math.exp(-((3.0 / 12.0) ** 2) / 0.15**2)
    got = mdp.track_normal_force_exp(arm, "press", sensor, std=0.15)
    torch.testing.assert_close(got, torch.full((arm.num_envs,), expected))
    torch.testing.assert_close(
        mdp.normal_force_error(arm, "press", sensor), torch.full((arm.num_envs,), 0.25)
    )
    assert (mdp.normal_force_error(arm, "press", sensor, max_error=0.1) == 0.1).all()
    arm.episode_length_buf += 1
    arm.command_manager.update_metrics()
    torch.testing.assert_close(term.measured_force, torch.full((arm.num_envs,), 15.0))
    torch.testing.assert_close(term.metrics["force_error_percent"], torch.full((arm.num_envs,), 25.0))
    assert (term.metrics["contact_percent"] == 100.0).all()
    values, counts = term.evaluation()["force_error_percent"]
    assert counts.all() and torch.equal(values, torch.full_like(values, 25.0))
    # Nothing slides here.
    assert not term.evaluation()["sliding_force_error_percent"][1].any()


def test_a_sensor_without_filters_is_refused(arm: Any) -> None:
    press(arm)
    with pytest.raises(ValueError, match=r"'link_contact' has no filters.*filter_prim_paths_expr"):
        mdp.normal_force_error(arm, "press", arm.entity("link_contact"))


def test_path_rewards(arm: Any) -> None:
    term = press(arm)
    term.target_pos.copy_(term.point()[0][:, :2] + torch.tensor([0.03, -0.04]))
    term.target_vel.copy_(term.point()[1][:, :2] + torch.tensor([0.0, 0.1]))
    n = arm.num_envs
    got = mdp.track_target_point_exp(arm, "press", std=0.05)
    torch.testing.assert_close(got, torch.full((n,), math.exp(-1.0)), rtol=1e-3, atol=1e-5)
    got = mdp.track_target_velocity_exp(arm, "press", std=0.05)
    torch.testing.assert_close(got, torch.full((n,), math.exp(-4.0)), rtol=1e-3, atol=1e-5)


def test_tool_axis_and_bounds(arm: Any) -> None:
    tool = arm.entity("robot", body_names="tool")
    down = mdp.body_axis_deviation_l2(arm, axis=(1.0, 0.0, 0.0), direction=(0.0, 0.0, -1.0), asset_cfg=tool)
    assert down.max() < 1e-3
    up = mdp.body_axis_deviation_l2(arm, axis=(1.0, 0.0, 0.0), direction=(0.0, 0.0, 1.0), asset_cfg=tool)
    torch.testing.assert_close(up, torch.full((arm.num_envs,), 4.0), rtol=1e-3, atol=1e-3)
    robot = arm.scene["robot"]
    pos = robot.data.default_joint_pos.clone()
    pos[0, robot.joint_names.index("wrist_pitch")] += 0.2
    robot.write_joint_state(pos, torch.zeros_like(pos))
    tilt = mdp.body_axis_deviation_l2(arm, axis=(1.0, 0.0, 0.0), direction=(0.0, 0.0, -1.0), asset_cfg=tool)
    assert float(tilt[0]) == pytest.approx(4.0 * math.sin(0.1) ** 2, rel=0.1)
    box: dict[str, Any] = {"lower": (0.4, -0.1, 0.0), "upper": (0.6, 0.1, 0.4), "asset_cfg": tool}
    assert not mdp.body_pos_out_of_bounds(arm, point=POINT, **box).any()
    pos[1, 0] = 0.6  # turned to the side: y = 0.28
    robot.write_joint_state(pos, torch.zeros_like(pos))
    assert mdp.body_pos_out_of_bounds(arm, point=POINT, **box).tolist() == [False, True]


def test_increments_move_targets_and_holding_keeps_the_force(arm: Any) -> None:
    robot = arm.scene["robot"]
    cfg = mdp.IncrementalJointPositionActionCfg(scale=0.01, max_lead=0.05)
    arm.action_manager = ActionManager({"joints": cfg}, arm)
    arm.action_manager.reset()
    start = robot.data.joint_pos.clone()
    action = torch.zeros(arm.num_envs, 6)
    action[:, 0] = 1.0
    for i in range(3):
        arm.action_manager.process_action(action)
        arm.action_manager.apply_action()
        expected = start.clone()
        expected[:, 0] += 0.01 * (i + 1)
        torch.testing.assert_close(robot.data.joint_pos_target.torch, expected)
    torch.testing.assert_close(mdp.joint_pos_target_lead(arm)[:, 0], torch.full((arm.num_envs,), 0.03))
    arm.action_manager.process_action(torch.full_like(action, 20.0))
    lead = arm.action_manager.get_term("joints").processed_actions - robot.data.joint_pos
    torch.testing.assert_close(lead, torch.full_like(lead, 0.05))
    # A reset puts the targets where the joints are, in the chosen environments only.
    arm.action_manager.reset(arm.mask(1))
    processed = arm.action_manager.get_term("joints").processed_actions
    torch.testing.assert_close(processed[1], robot.data.joint_pos[1])
    torch.testing.assert_close(processed[0], robot.data.joint_pos[0] + 0.05)
    torch.testing.assert_close(robot.data.joint_pos_target.torch, processed)


def test_settings_can_change_while_running(arm: Any) -> None:
    term = press(arm)
    cfg = arm.command_manager.get_term_cfg("press")
    bounds = term.bounds
    cfg.ranges = mdp.SlidingPressRangesCfg(force=(40.0, 41.0), speed=(0.3, 0.4))
    assert term.bounds is bounds
    torch.testing.assert_close(bounds, torch.tensor([[40.0, 0.3], [41.0, 0.4]]))
    cfg.ranges = {"force": (50.0, 51.0)}
    assert bounds[:, 0].tolist() == [50.0, 51.0]
    cfg.force_rate = 10.0
    arm.command_manager.reset()
    assert ((term.force >= 50.0) & (term.force <= 51.0)).all()
    cfg.ranges.force = (20.0, 20.0)
    term._resample_command(None)
    before = term.force.clone()
    arm.command_manager.compute(0.1)
    torch.testing.assert_close(term.force, before - 1.0)


def test_bad_settings_are_told(arm: Any) -> None:
    with pytest.raises(ValueError, match=r"SlidingPressCommandCfg\.ranges\.speed is .*both positive"):
        press(arm, ranges={"speed": (0.0, 0.2)})
    with pytest.raises(TypeError, match=r"no field 'forces'.*'force'"):
        mdp.SlidingPressCommandCfg(ranges={"forces": (1.0, 2.0)})
    with pytest.raises(ValueError, match=r"max_lead is 0\.0; it must be above 0"):
        ActionManager({"joints": mdp.IncrementalJointPositionActionCfg(max_lead=0.0)}, arm)
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=r"patch is .*lower below upper"):
        cfg = mdp.SlidingPressCommandCfg(point=POINT, patch=(0.6, 0.4, -0.1, 0.1))
        CommandManager({"press": cfg}, arm)


def test_table_height_changes_where_the_tool_rests(arm: Any) -> None:
    table = arm.scene["table"]
    params = {"pose_range": {"z": (0.02, 0.02)}, "velocity_range": {}, "asset_cfg": arm.entity("table")}
    events = EventManager({"height": EventTermCfg(mdp.reset_root_state_uniform, params, mode="reset")}, arm)
    events.apply("reset", env_mask=arm.mask(1))
    height = mdp.base_pos_z(arm, arm.entity("table"))[:, 0]
    torch.testing.assert_close(height, torch.tensor([0.075, 0.095]))
    term = press(arm)
    lean_on_the_table(arm)
    rest = term.point()[0][:, 2]
    top = torch.tensor([0.10, 0.12])
    torch.testing.assert_close(rest, top + RADIUS, atol=2e-3, rtol=0.0)
    table.reset()
    torch.testing.assert_close(table.data.root_pose_w.torch, table.data.default_root_pose.torch)


def test_friction_of_table_and_tool_is_averaged(arm: Any) -> None:
    table = arm.scene["table"]
    table.write_friction(torch.tensor([[0.2], [1.0]]))
    assert mdp.body_friction(arm, arm.entity("table"))[:, 0].tolist() == pytest.approx([0.2, 1.0])
    lean_on_the_table(arm)
    robot = arm.scene["robot"]
    target = robot.data.joint_pos_target.clone()
    ratios = []
    for _ in range(150):  # turn the arm: the tool slides sideways
        target[:, 0] += 0.002
        robot.set_joint_position_target(target)
        arm.step(1)
        data = arm.scene["tool_contact"].data
        ratios.append(
            data.net_friction_forces_w[:, 0].norm(dim=1) / data.net_normal_forces_w[:, 0].norm(dim=1)
        )
    # The tool's own coefficient is 0.6.
    torch.testing.assert_close(
        torch.stack(ratios[50:]).mean(0), torch.tensor([0.4, 0.8]), rtol=0.03, atol=0.0
    )
