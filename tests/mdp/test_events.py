# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers import EventTermCfg, SceneEntityCfg
from forcelab.physics import NewtonCfg
from forcelab.scene import CuboidCfg, InteractiveScene, InteractiveSceneCfg, PlaneCfg, RigidObjectCfg
from forcelab.sensors import ContactSensorCfg

GRAVITY = 9.81
SLOPE = math.radians(20.0)
TILT = (0.0, math.sin(SLOPE / 2), 0.0, math.cos(SLOPE / 2))


class SlopeCfg(InteractiveSceneCfg):
    """A box on a 20° slope and one on the level ground; the friction of a pair is the mean of both."""

    ground = PlaneCfg(friction=0.5)
    slope = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Slope",
        spawn=CuboidCfg(size=(4.0, 1.0, 0.2), friction=0.5, fixed=True),
        init_pos=(0.0, 2.0, 2.0),
        init_rot=TILT,
    )
    box = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Box",
        spawn=CuboidCfg(size=(0.3, 0.3, 0.2), mass=2.0, friction=0.5),
        init_pos=(0.2 * math.sin(SLOPE), 2.0, 2.0 + 0.2 * math.cos(SLOPE)),
        init_rot=TILT,
    )
    load = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Load",
        spawn=CuboidCfg(size=(0.3, 0.3, 0.2), mass=2.0, friction=0.5),
        init_pos=(0.0, -1.0, 0.1),
    )
    touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Load")


@pytest.fixture(scope="module")
def _slope() -> InteractiveScene:
    return InteractiveScene(SlopeCfg(num_envs=4), physics=NewtonCfg(dt=0.005), device="cpu")


@pytest.fixture
def slope(_slope: InteractiveScene, scene_env: Any) -> Any:
    torch.manual_seed(0)
    for asset in _slope.rigid_objects.values():
        asset.write_body_mass(asset.data.default_body_mass)
        asset.write_friction(asset.data.default_friction)
    _slope.reset()
    return scene_env(_slope)


# -- resets


def test_joint_resets_touch_only_the_chosen_joints_and_environments(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    for reset in (mdp.reset_joints_by_scale, mdp.reset_joints_by_offset):
        before_pos = robot.data.default_joint_pos + 0.05 * torch.randn(4, 12)
        before_vel = torch.randn(4, 12)
        robot.write_joint_state(before_pos, before_vel)
        reset(
            quadruped,
            quadruped.mask(1, 3),
            position_range=(0.11, 0.12),
            velocity_range=(0.3, 0.4),
            asset_cfg=quadruped.entity("robot", joint_names=["RH_HFE"]),
        )
        joint = robot.joint_names.index("RH_HFE")
        touched = torch.zeros(4, 12, dtype=torch.bool)
        touched[[1, 3], joint] = True
        pos, vel = robot.data.joint_pos.torch, robot.data.joint_vel.torch
        assert torch.equal(pos[~touched], before_pos[~touched])
        assert torch.equal(vel[~touched], before_vel[~touched])
        default = robot.data.default_joint_pos[0, joint].item()
        if reset is mdp.reset_joints_by_scale:
            low, high = 0.11 * default, 0.12 * default
            assert vel[touched].tolist() == [0.0, 0.0]  # the default velocity is 0
        else:
            low, high = default + 0.11, default + 0.12
            assert ((vel[touched] >= 0.3) & (vel[touched] <= 0.4)).all()
        assert ((pos[touched] >= low) & (pos[touched] <= high)).all()
        assert pos[touched][0] != pos[touched][1]


def test_joint_resets_stay_within_the_limits(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    mdp.reset_joints_by_offset(quadruped, None, position_range=(5.0, 6.0), velocity_range=(0.0, 0.0))
    torch.testing.assert_close(robot.data.joint_pos.torch, robot.data.soft_joint_pos_limits[..., 1])


def test_root_reset_draws_around_the_default(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    quadruped.step(3)
    before = robot.data.root_pose_w.clone()
    mdp.reset_root_state_uniform(
        quadruped,
        quadruped.mask(0, 2),
        pose_range={"x": (0.4, 0.5), "z": (0.1, 0.1), "yaw": (1.0, 1.2)},
        velocity_range={"y": (-2.0, -1.0), "roll": (3.0, 3.0)},
    )
    data = robot.data
    offset = data.root_pos_w - data.default_root_pose[:, :3]
    for env in (0, 2):
        assert 0.4 <= offset[env, 0] <= 0.5
        assert offset[env, 1:].tolist() == pytest.approx([0.0, 0.1], abs=1e-6)
        assert 1.0 <= data.heading_w[env] <= 1.2
        assert data.projected_gravity_b[env].tolist() == pytest.approx([0, 0, -1], abs=1e-6)
        velocity = data.root_vel_w[env].tolist()
        assert -2.0 <= velocity[1] <= -1.0
        assert [velocity[i] for i in (0, 2, 3, 4, 5)] == pytest.approx([0, 0, 3.0, 0, 0], abs=1e-5)
    assert torch.equal(data.root_pose_w[[1, 3]], before[[1, 3]])
    # The bodies follow before the next step.
    assert (data.body_pos_w[0, :, 2].mean() - data.body_pos_w[1, :, 2].mean()) > 0.05


def test_root_reset_turns_in_roll_pitch_yaw_order(quadruped: Any) -> None:
    roll, pitch, yaw = 0.3, -0.5, 0.9
    mdp.reset_root_state_uniform(
        quadruped,
        None,
        pose_range={"roll": (roll, roll), "pitch": (pitch, pitch), "yaw": (yaw, yaw)},
        velocity_range={},
    )
    data = quadruped.scene["robot"].data
    gravity = [math.sin(pitch), -math.sin(roll) * math.cos(pitch), -math.cos(roll) * math.cos(pitch)]
    assert data.projected_gravity_b[1].tolist() == pytest.approx(gravity, abs=1e-5)
    assert data.heading_w[1].item() == pytest.approx(yaw, abs=1e-5)


def test_a_misspelt_pose_key_is_an_error(quadruped: Any) -> None:
    with pytest.raises(ValueError, match=r"velocity_range has an unknown key 'yw'.*'yaw'"):
        mdp.push_by_setting_velocity(quadruped, None, velocity_range={"yw": (0, 1)})


def test_reset_scene_to_default(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    robot.set_joint_position_target(torch.full((4, 12), 0.3))
    robot.set_external_wrench(torch.full((4, 3), 50.0), torch.zeros(4, 3))
    quadruped.step(5)
    before = robot.data.joint_pos.clone()
    mdp.reset_scene_to_default(quadruped, quadruped.mask(2))
    data = robot.data
    torch.testing.assert_close(data.root_pose_w[2], data.default_root_pose[2])
    torch.testing.assert_close(data.joint_pos[2], data.default_joint_pos[2])
    torch.testing.assert_close(data.joint_pos_target[2], data.default_joint_pos[2])
    assert torch.equal(data.joint_pos[[0, 1, 3]], before[[0, 1, 3]])
    assert data.joint_pos_target[0].tolist() == pytest.approx([0.3] * 12)


# -- disturbances


def test_a_push_adds_what_was_drawn(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    robot.write_root_velocity(torch.randn(4, 6))
    before = robot.data.root_vel_w.clone()
    mask = quadruped.mask(0, 3)
    torch.manual_seed(5)
    mdp.push_by_setting_velocity(quadruped, mask, velocity_range={"x": (-0.5, 0.5), "yaw": (1.0, 2.0)})
    torch.manual_seed(5)
    draw = torch.rand(4, 6)
    expected = torch.zeros(4, 6)
    expected[:, 0] = draw[:, 0] - 0.5
    expected[:, 5] = 1.0 + draw[:, 5]
    torch.testing.assert_close(robot.data.root_vel_w - before, expected * mask[:, None], rtol=1e-4, atol=1e-5)


def test_push_sizes_may_live_on_the_device(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    size = torch.zeros(2, 6)
    mdp.push_by_setting_velocity(quadruped, None, velocity_range=size)
    assert robot.data.root_vel_w.abs().max() < 1e-6
    size[:, 1] = 2.0
    mdp.push_by_setting_velocity(quadruped, None, velocity_range=size)
    torch.testing.assert_close(robot.data.root_lin_vel_w[:, 1], torch.full((4,), 2.0))


def test_external_force_accelerates_until_reset(slope: Any) -> None:
    load = slope.entity("load")
    box = slope.scene["load"]
    mdp.apply_external_force_torque(slope, slope.mask(1), (30.0, 30.0), (0.0, 0.0), asset_cfg=load)
    mdp.apply_external_force_torque(slope, slope.mask(2), (50.0, 50.0), (0.0, 0.0), asset_cfg=load)
    for _ in range(10):
        slope.scene.step()
    velocity = box.data.root_lin_vel_w[:, 2]
    time = 10 * slope.physics_dt
    assert velocity[1].item() == pytest.approx((30.0 / 2.0 - GRAVITY) * time, rel=1e-3)
    assert velocity[2].item() == pytest.approx((50.0 / 2.0 - GRAVITY) * time, rel=1e-3)
    assert velocity[[0, 3]].abs().max() < 1e-2
    box.reset(slope.mask(1))
    slope.step(10)
    assert box.data.root_pos_w[1, 2].item() == pytest.approx(0.1, abs=2e-3)
    assert box.data.root_pos_w[2, 2] > 0.2


# -- randomisation of the model


def test_mass_randomisation_changes_the_weight(slope: Any) -> None:
    load = slope.entity("load")
    mask = slope.mask(0, 1, 2)
    mdp.randomize_rigid_body_mass(
        slope, mask, mass_distribution_params=(0.5, 3.0), operation="scale", asset_cfg=load
    )
    mass = slope.scene["load"].data.body_mass[:, 0].clone()
    assert mass[3].item() == pytest.approx(2.0) and (mass[:3] - 2.0).abs().min() > 1e-3
    assert ((mass >= 1.0) & (mass <= 6.0)).all()
    slope.step(50)
    force = slope.scene["touch"].data.net_forces_w[:, 0, 2]
    torch.testing.assert_close(force, mass * GRAVITY, rtol=5e-3, atol=0.0)
    # Draws start from the default mass, not from the last draw.
    mdp.randomize_rigid_body_mass(
        slope, None, mass_distribution_params=(0.25, 0.25), operation="add", asset_cfg=load
    )
    assert slope.scene["load"].data.body_mass[:, 0].tolist() == pytest.approx([2.25] * 4)
    mdp.randomize_rigid_body_mass(
        slope, None, mass_distribution_params=(-9.0, -9.0), operation="add", min_mass=0.3, asset_cfg=load
    )
    assert slope.scene["load"].data.body_mass[:, 0].tolist() == pytest.approx([0.3] * 4)


def test_mass_randomisation_of_chosen_bodies(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    some = quadruped.entity("robot", body_names="base")
    mdp.randomize_rigid_body_mass(
        quadruped, None, mass_distribution_params=(7.0, 7.0), operation="abs", asset_cfg=some
    )
    mass, default = robot.data.body_mass, robot.data.default_body_mass
    assert mass[:, 0].tolist() == pytest.approx([7.0] * 4)
    torch.testing.assert_close(mass[:, 1:], default[:, 1:])


def test_friction_randomisation_decides_whether_a_box_slides(slope: Any) -> None:
    box = slope.entity("box")
    # Mean with the slope's 0.5: 0.3 slides on 20° (tan = 0.364), 0.5 and more holds.
    mdp.randomize_rigid_body_friction(slope, slope.mask(0, 1), friction_range=(0.1, 0.1), asset_cfg=box)
    mdp.randomize_rigid_body_friction(slope, slope.mask(2), friction_range=(1.0, 1.1), asset_cfg=box)
    friction = slope.scene["box"].data.body_friction[:, 0]
    assert friction[:2].tolist() == pytest.approx([0.1, 0.1])
    assert 1.0 <= friction[2] <= 1.1
    assert friction[3].item() == pytest.approx(0.5)
    start = slope.scene["box"].data.root_pos_w.clone()
    slope.step(25)
    path = (slope.scene["box"].data.root_pos_w - start).norm(dim=1)
    acceleration = GRAVITY * (math.sin(SLOPE) - 0.3 * math.cos(SLOPE))
    time = 25 * slope.step_dt
    assert path[:2].tolist() == pytest.approx([0.5 * acceleration * time**2] * 2, rel=0.05)
    assert path[2:].max() < 2e-3


def test_friction_draws_shared_by_the_bodies(quadruped: Any) -> None:
    feet = quadruped.entity("robot", body_names=".*_FOOT")
    mdp.randomize_rigid_body_friction(quadruped, None, friction_range=(0.2, 1.0), shared=True, asset_cfg=feet)
    friction = quadruped.scene["robot"].data.body_friction
    drawn = friction[:, feet.body_ids]
    assert torch.equal(drawn, drawn[:, :1].expand(4, 4)) and len(set(drawn[:, 0].tolist())) == 4
    assert friction[:, 0].tolist() == pytest.approx([0.8] * 4)


def test_material_randomisation_under_isaac_labs_parameters(slope: Any) -> None:
    box = slope.entity("box")
    params = {
        "static_friction_range": (0.3, 0.3),
        "restitution_range": (0.0, 0.0),
        "num_buckets": 64,
        "asset_cfg": box,
    }
    with pytest.warns(UserWarning, match="dynamic_friction_range"):
        mdp.randomize_rigid_body_material(slope, None, dynamic_friction_range=(0.1, 0.2), **params)
    assert slope.scene["box"].data.body_friction[:, 0].tolist() == pytest.approx([0.3] * 4)
    params["restitution_range"] = (0.0, 0.5)
    with pytest.raises(ValueError, match="restitution"):
        mdp.randomize_rigid_body_material(slope, None, **params)


def test_gain_randomisation_changes_the_torque(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    data = robot.data
    chosen = quadruped.entity("robot", joint_names=".*_KFE")
    mdp.randomize_actuator_gains(
        quadruped,
        quadruped.mask(1, 2),
        stiffness_distribution_params=(0.5, 0.6),
        damping_distribution_params=(2.0, 2.5),
        operation="scale",
        asset_cfg=chosen,
    )
    changed = data.joint_stiffness != data.default_joint_stiffness
    expected = torch.zeros(4, 12, dtype=torch.bool)
    expected[1:3, 2::3] = True
    assert torch.equal(changed, expected)
    assert torch.equal(data.joint_damping != data.default_joint_damping, expected)
    ratio = data.joint_stiffness[expected] / data.default_joint_stiffness[expected]
    assert ((ratio >= 0.5) & (ratio <= 0.6)).all()
    # Softer knees sag more under the same load.
    quadruped.step(75)
    height = data.root_pos_w[:, 2]
    assert height[1] < height[0] - 0.01 and height[2] < height[0] - 0.01
    assert height[3].item() == pytest.approx(height[0].item(), abs=1e-4)
    torque = (
        data.joint_stiffness * (data.joint_pos_target - data.joint_pos) - data.joint_damping * data.joint_vel
    )
    torch.testing.assert_close(data.applied_torque.torch, torque, rtol=0.02, atol=0.1)


def test_stiffness_alone_leaves_the_damping(quadruped: Any) -> None:
    mdp.randomize_actuator_gains(
        quadruped,
        None,
        stiffness_distribution_params=(10.0, 100.0),
        operation="abs",
        distribution="log_uniform",
    )
    data = quadruped.scene["robot"].data
    assert ((data.joint_stiffness >= 10.0) & (data.joint_stiffness <= 100.0)).all()
    assert torch.equal(data.joint_damping, data.default_joint_damping)


def test_default_joint_positions_shift_around_the_built_ones(quadruped: Any) -> None:
    data = quadruped.scene["robot"].data
    built = data.default_joint_pos.clone()
    asset_cfg = SceneEntityCfg("robot", joint_names=".*_HAA")
    asset_cfg.resolve(quadruped.scene)
    cfg = EventTermCfg(func=mdp.randomize_joint_default_pos, mode="reset", params={"asset_cfg": asset_cfg})
    term = mdp.randomize_joint_default_pos(cfg, quadruped)
    try:
        for _ in range(3):  # shifts do not add up
            term(quadruped, quadruped.mask(0, 1), pos_distribution_params=(0.05, 0.1), asset_cfg=asset_cfg)
        shift = data.default_joint_pos - built
        drawn = shift[:2, 0::3].clone()
        assert ((drawn >= 0.05 - 1e-6) & (drawn <= 0.1 + 1e-6)).all()
        shift[:2, 0::3] = 0.0
        assert shift.abs().max() == 0.0
        torch.testing.assert_close(mdp.joint_pos_rel(quadruped)[:2, 0::3], -drawn)
    finally:
        data.default_joint_pos.copy_(built)


@pytest.mark.parametrize(
    ("key", "value", "near"), [("operation", "scael", "scale"), ("distribution", "gausian", "gaussian")]
)
def test_unknown_operations_and_distributions(quadruped: Any, key: str, value: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"{value}.*{near}"):
        mdp.randomize_rigid_body_mass(quadruped, None, mass_distribution_params=(1.0, 2.0), **{key: value})
