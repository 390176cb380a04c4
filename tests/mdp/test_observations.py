# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.physics import NewtonCfg
from forcelab.scene import CuboidCfg, InteractiveScene, InteractiveSceneCfg, PlaneCfg, RigidObjectCfg
from forcelab.sensors import ContactSensorCfg


def rotation(quat: torch.Tensor) -> torch.Tensor:
    """Rotation matrices (E, 3, 3), body to world, of xyzw quaternions (E, 4)."""
    x, y, z, w = quat.unbind(1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(r, dim=1) for r in rows], dim=1)


def test_root_state(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    quat = torch.nn.functional.normalize(torch.randn(4, 4), dim=1)
    quat[0] = torch.tensor([0.0, 0.0, 0.6, -0.8])
    position = torch.randn(4, 3)
    velocity = torch.randn(4, 6)
    robot.write_root_pose(torch.cat((position + quadruped.scene.env_origins, quat), dim=1))
    robot.write_root_velocity(velocity)
    to_body = rotation(quat).transpose(1, 2)
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(mdp.root_pos_w(quadruped), position, **close)
    torch.testing.assert_close(
        mdp.base_pos_z(quadruped)[:, 0], position[:, 2] + quadruped.scene.env_origins[:, 2], **close
    )
    unique = mdp.root_quat_w(quadruped, make_quat_unique=True)
    assert (unique[:, 3] >= 0).all()
    torch.testing.assert_close(rotation(unique), rotation(quat), **close)
    torch.testing.assert_close(mdp.root_lin_vel_w(quadruped).torch, velocity[:, :3], **close)
    torch.testing.assert_close(mdp.root_ang_vel_w(quadruped).torch, velocity[:, 3:], **close)
    in_body = (to_body @ velocity[:, :3, None])[..., 0]
    torch.testing.assert_close(mdp.base_lin_vel(quadruped).torch, in_body, **close)
    in_body = (to_body @ velocity[:, 3:, None])[..., 0]
    torch.testing.assert_close(mdp.base_ang_vel(quadruped).torch, in_body, **close)
    torch.testing.assert_close(mdp.projected_gravity(quadruped).torch, -to_body[:, :, 2], **close)
    pose = mdp.body_pose_w(quadruped, asset_cfg=quadruped.entity("robot", body_names="base"))
    torch.testing.assert_close(pose[:, :3], position, **close)


def test_joint_state_of_chosen_joints(quadruped: Any) -> None:
    robot = quadruped.scene["robot"]
    d = robot.data
    pos, vel = d.default_joint_pos + 0.1 * torch.randn(4, 12), torch.randn(4, 12)
    robot.write_joint_state(pos, vel)
    names = ["RH_KFE", "LF_HFE"]
    some = quadruped.entity("robot", joint_names=names, preserve_order=True)
    ids = [robot.joint_names.index(n) for n in names]
    assert torch.equal(mdp.joint_pos(quadruped, asset_cfg=some), pos[:, ids])
    torch.testing.assert_close(
        mdp.joint_pos_rel(quadruped, asset_cfg=some), (pos - d.default_joint_pos)[:, ids]
    )
    assert torch.equal(mdp.joint_vel(quadruped, asset_cfg=some), vel[:, ids])
    assert torch.equal(mdp.joint_vel_rel(quadruped), vel)
    robot.write_joint_state(d.soft_joint_pos_limits[..., 0], vel)
    lowest = mdp.joint_pos_limit_normalized(quadruped, asset_cfg=some)
    torch.testing.assert_close(lowest, -torch.ones(4, 2))


def test_joint_effort_carries_the_weight(quadruped: Any) -> None:
    quadruped.step(75)
    d = quadruped.scene["robot"].data
    knees = quadruped.entity("robot", joint_names=".*_KFE")
    effort = mdp.joint_effort(quadruped, asset_cfg=knees)
    torch.testing.assert_close(effort, d.applied_torque[:, 2::3])
    assert (effort > 5.0).all()


class PairCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    robot = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Low", spawn=CuboidCfg(size=(0.5, 0.5, 0.2), mass=5.0), init_pos=(0, 0, 0.1)
    )
    top = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Top", spawn=CuboidCfg(size=(0.3, 0.3, 0.2), mass=2.0), init_pos=(0, 0, 0.3)
    )
    low = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Low",
        filter_prim_paths_expr=["{ENV_REGEX_NS}/Top", "/World/ground"],
        track_air_time=True,
    )
    both = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/(Low|Top)", track_air_time=True)


@pytest.fixture(scope="module")
def pair(scene_env: Any) -> Any:
    """Two stacks turned by 90° about z; in environment 1 the upper box is lifted."""
    env = scene_env(InteractiveScene(PairCfg(num_envs=2), physics=NewtonCfg(dt=0.005), device="cpu"))
    pose = env.scene["robot"].data.default_root_pose.clone()
    pose[:, 3:] = torch.tensor([0.0, 0.0, 0.5**0.5, 0.5**0.5])
    env.scene["robot"].write_root_pose(pose)
    pose = env.scene["top"].data.default_root_pose.clone()
    pose[1, 2] += 10.0
    env.scene["top"].write_root_pose(pose)
    env.step(20)
    return env


def test_contact_observations(pair: Any) -> None:
    both = pair.entity("both")
    g = 9.81
    forces = mdp.body_contact_forces(pair, sensor_cfg=both)
    assert forces.shape == (2, 6)
    expected = torch.tensor([[0, 0, 5 * g, 0, 0, 2 * g], [0, 0, 5 * g, 0, 0, 0]])
    torch.testing.assert_close(forces, expected, rtol=0.01, atol=0.05)
    norms = mdp.body_contact_force_norm(pair, sensor_cfg=both)
    torch.testing.assert_close(norms, expected[:, [2, 5]], rtol=0.01, atol=0.05)
    matrix = mdp.body_contact_force_matrix(pair, sensor_cfg=pair.entity("low"))
    assert matrix.shape == (2, 6)
    expected = torch.tensor([[0, 0, -2 * g, 0, 0, 7 * g], [0, 0, 0, 0, 0, 5 * g]])
    torch.testing.assert_close(matrix, expected, rtol=0.01, atol=0.05)
    with pytest.raises(ValueError, match="filter_prim_paths_expr"):
        mdp.body_contact_force_matrix(pair, sensor_cfg=both)
    assert mdp.body_in_contact(pair, sensor_cfg=both).tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert mdp.body_in_contact(pair, sensor_cfg=both, threshold=30.0).tolist() == [[1.0, 0.0], [1.0, 0.0]]
    time = 20 * pair.step_dt
    air = mdp.body_air_time(pair, sensor_cfg=both)
    assert air[1, 1].item() == pytest.approx(time) and air[0].tolist() == [0.0, 0.0]
    assert mdp.body_contact_time(pair, sensor_cfg=both)[0, 0].item() == pytest.approx(time, abs=0.02)


def test_contact_forces_in_the_root_frame(pair: Any) -> None:
    push = torch.tensor([[6.0, 0.0, 0.0]]).repeat(2, 1)
    pair.scene["robot"].set_external_wrench(push, torch.zeros(2, 3))
    pair.step(5)
    low = pair.entity("both", body_names="Low")
    world = mdp.body_contact_forces(pair, sensor_cfg=low)
    body = mdp.body_contact_forces(pair, sensor_cfg=low, in_root_frame=True)
    pair.scene["robot"].set_external_wrench(torch.zeros(2, 3), torch.zeros(2, 3))
    assert world[1, 0].item() == pytest.approx(-6.0, abs=0.2)  # friction holds the box
    # Turned by +90° about z: world x is the body's -y.
    torch.testing.assert_close(body[:, 1], -world[:, 0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(body[:, 2], world[:, 2], rtol=1e-3, atol=1e-3)


def test_incoming_wrench_is_force_then_torque_per_body(quadruped: Any) -> None:
    force, torque = torch.randn(4, 3, 3), torch.randn(4, 3, 3)
    sensor = SimpleNamespace(data=SimpleNamespace(force=force, torque=torque))
    env = SimpleNamespace(scene={"wrench": sensor})
    cfg = SimpleNamespace(name="wrench", body_ids=torch.tensor([2, 0]))
    got = mdp.body_incoming_wrench(env, sensor_cfg=cfg)
    assert got.shape == (4, 12)
    assert torch.equal(got, torch.cat((force[:, 2], torque[:, 2], force[:, 0], torque[:, 0]), dim=1))
    sensor.data.force = None
    with pytest.raises(RuntimeError, match=r"'wrench'.*simulation starts"):
        mdp.body_incoming_wrench(env, sensor_cfg=cfg)
    env.scene["wrench"].data = SimpleNamespace(net_forces_w=None)
    with pytest.raises(ValueError, match=r"sensor_cfg\.name is 'wrench', a .*; give a joint wrench sensor"):
        mdp.body_incoming_wrench(env, sensor_cfg=cfg)


def test_time_observations(quadruped: Any) -> None:
    quadruped.episode_length_buf[:] = torch.tensor([0, 10, 500, 1000])
    torch.testing.assert_close(mdp.current_time_s(quadruped)[:, 0], torch.tensor([0.0, 0.2, 10.0, 20.0]))
    torch.testing.assert_close(mdp.remaining_time_s(quadruped)[:, 0], torch.tensor([20.0, 19.8, 10.0, 0.0]))
