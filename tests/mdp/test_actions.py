# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers import ActionManager


def manager(env: Any, **terms: Any) -> ActionManager:
    env.action_manager = ActionManager(terms, env)
    return env.action_manager


def test_position_action_scales_offsets_and_clips(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    cfg = mdp.JointPositionActionCfg(
        joint_names=[".*"], scale={".*_HAA": 0.25, "LF_.FE": 0.5}, clip={".*_KFE": (-1.4, -1.2)}
    )
    actions = manager(quadruped, joints=cfg)
    action = torch.randn(4, 12)
    actions.process_action(action)
    actions.apply_action()
    scale = torch.ones(12)
    scale[0::3] = 0.25
    scale[[1, 2]] = 0.5
    expected = robot.data.default_joint_pos + action * scale
    expected[:, 2::3] = expected[:, 2::3].clamp(-1.4, -1.2)
    torch.testing.assert_close(robot.data.joint_pos_target.torch, expected)
    term = actions.get_term("joints")
    assert torch.equal(term.raw_actions, action)
    torch.testing.assert_close(term.processed_actions, expected)


def test_zero_action_holds_the_default_pose(quadruped: Any) -> None:
    data = quadruped.scene["robot"].data
    actions = manager(quadruped, joints=mdp.JointPositionActionCfg(scale=0.5))
    for _ in range(50):
        actions.process_action(torch.zeros(4, 12))
        for _ in range(4):
            actions.apply_action()
            quadruped.scene.step()
    assert (data.joint_pos - data.default_joint_pos).abs().max() < 0.35  # the legs sag under the weight
    assert (data.root_pos_w[:, 2] > 0.4).all()


@pytest.mark.parametrize("keep", [False, True])
def test_order_of_the_joints(quadruped: Any, keep: bool) -> None:
    robot = quadruped.scene["robot"]
    names = ["RH_KFE", "LF_HAA", "RF_HFE"]
    cfg = mdp.JointPositionActionCfg(
        joint_names=names, preserve_order=keep, use_default_offset=False, offset={"LF_HAA": 0.1}, scale=1.0
    )
    actions = manager(quadruped, joints=cfg)
    term = actions.get_term("joints")
    order = names if keep else ["LF_HAA", "RF_HFE", "RH_KFE"]
    assert term.joint_names == order and term.action_dim == 3
    before = robot.data.joint_pos_target.clone()
    actions.process_action(torch.tensor([[1.0, 2.0, 3.0]]).repeat(4, 1))
    actions.apply_action()
    got = {n: robot.data.joint_pos_target[1, robot.joint_names.index(n)].item() for n in names}
    expected = {n: float(i + 1) + (0.1 if n == "LF_HAA" else 0.0) for i, n in enumerate(order)}
    assert got == pytest.approx(expected)
    others = [i for i, n in enumerate(robot.joint_names) if n not in names]
    assert torch.equal(robot.data.joint_pos_target[:, others], before[:, others])


def test_all_joints_in_reversed_order(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    names = list(reversed(robot.joint_names))
    cfg = mdp.JointPositionActionCfg(joint_names=names, preserve_order=True)
    actions = manager(quadruped, joints=cfg)
    assert actions.get_term("joints").joint_names == names
    action = torch.randn(4, 12)
    actions.process_action(action)
    actions.apply_action()
    torch.testing.assert_close(
        robot.data.joint_pos_target.torch, robot.data.default_joint_pos + action.flip(1)
    )


def test_relative_velocity_and_effort_actions(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    actions = manager(
        quadruped,
        shift=mdp.RelativeJointPositionActionCfg(joint_names=["LF_HAA"], scale=0.1, offset=5.0),
        speed=mdp.JointVelocityActionCfg(joint_names=["RF_HAA", "LH_HAA"], scale=2.0),
        force=mdp.JointEffortActionCfg(joint_names=["RH_HAA"], scale=10.0, clip={"RH_HAA": (-15.0, 15.0)}),
    )
    actions.process_action(torch.tensor([[1.0, 0.5, -0.5, 3.0]]).repeat(4, 1))
    actions.apply_action()
    d = robot.data
    torch.testing.assert_close(d.joint_pos_target[:, 0], d.joint_pos[:, 0] + 0.1)
    assert d.joint_vel_target[0, [3, 6]].tolist() == pytest.approx([1.0, -1.0])
    assert d.joint_effort_target[0, 9].item() == 15.0
    quadruped.scene.step()
    actions.apply_action()  # the relative target follows the joint within the step
    torch.testing.assert_close(d.joint_pos_target[:, 0], d.joint_pos[:, 0] + 0.1)


def test_reset_zeroes_the_chosen_environments(quadruped: Any) -> None:
    actions = manager(quadruped, joints=mdp.JointPositionActionCfg())
    actions.process_action(torch.ones(4, 12))
    actions.reset(quadruped.mask(1))
    raw = actions.get_term("joints").raw_actions
    assert raw.sum(dim=1).tolist() == [12.0, 0.0, 12.0, 12.0]
    torch.testing.assert_close(mdp.last_action(quadruped), raw)
    torch.testing.assert_close(mdp.last_action(quadruped, action_name="joints"), raw)


def test_a_shifted_default_reaches_the_action(quadruped: Any) -> None:
    data = quadruped.scene["robot"].data
    actions = manager(quadruped, joints=mdp.JointPositionActionCfg())
    built = data.default_joint_pos.clone()
    try:
        data.default_joint_pos[2] += 0.1
        actions.process_action(torch.zeros(4, 12))
        actions.apply_action()
        torch.testing.assert_close(data.joint_pos_target[2], built[2] + 0.1)
    finally:
        data.default_joint_pos.copy_(built)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"scale": {".*_HAX": 1.0}}, "scale.*HAX"),
        ({"scale": {".*_HAA": 1.0, "LF_.*": 2.0}}, "LF_HAA.*matched by"),
        ({"clip": {"knee": (0, 1)}}, "clip.*knee"),
        ({"joint_names": ["LF_HAB"]}, "LF_HAA"),
        ({"asset_name": "robbot"}, "robot"),
    ],
)
def test_wrong_names_are_errors(quadruped: Any, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        manager(quadruped, joints=mdp.JointPositionActionCfg(**setting))
