# SPDX-License-Identifier: Apache-2.0
"""What events and masked writes put into the simulation, against formulas in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers.live_ranges import LivePoseRanges
from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    RigidObjectCfg,
    SphereCfg,
)

E = 6
TURNED = (0.18, -0.36, 0.54, 0.7384)
POSE = {"x": (-1.0, 2.0), "z": (0.1, 0.3), "roll": (-0.7, 0.9), "pitch": (-1.2, 1.0), "yaw": (-3.0, 3.0)}
VELOCITY = {"y": (-1.0, 0.5), "z": (0.2, 0.2), "roll": (-2.0, 2.0), "yaw": (1.0, 3.0)}
KEYS = ("x", "y", "z", "roll", "pitch", "yaw")


class TwoSceneCfg(InteractiveSceneCfg):
    """A robot and a body whose centre of mass is off its origin, both turned."""

    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.3, -0.2, 1.0),
        init_rot=TURNED,
        init_lin_vel=(0.5, 0.0, -0.1),
        init_ang_vel=(0.0, 1.0, 0.3),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.3},
    )
    odd = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Odd",
        spawn=[
            SphereCfg(radius=0.1, mass=0.2),
            CuboidCfg(size=(0.1, 0.2, 0.3), mass=2.0, pos=(0.4, 0.2, 0.1)),
        ],
        init_pos=(0.0, 2.0, 1.0),
        init_rot=TURNED,
    )
    post = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Post",
        spawn=CuboidCfg(size=(0.1, 0.1, 0.1), mass=1.0, fixed=True),
        init_pos=(0.0, -2.0, 1.0),
    )


@pytest.fixture(scope="module")
def _scene() -> Iterator[InteractiveScene]:
    scene = InteractiveScene(TwoSceneCfg(num_envs=E), physics=NewtonCfg(dt=0.005))
    yield scene
    scene.close()


@pytest.fixture
def env(_scene: InteractiveScene, scene_env: Any) -> Any:
    torch.manual_seed(5)
    _scene.reset()
    for _ in range(3):
        _scene.step()
    return scene_env(_scene)


def states(scene: InteractiveScene) -> dict[str, torch.Tensor]:
    found = {}
    for name in ("robot", "odd", "post"):
        data = scene[name].data
        found[f"{name} pose"], found[f"{name} vel"] = data.root_pose_w.clone(), data.root_vel_w.clone()
        found[f"{name} bodies"] = data.body_pose_w.clone()
        found[f"{name} force"] = scene[name]._state.external_force.clone()
    data = scene["robot"].data
    for key in ("joint_pos", "joint_vel", "joint_acc", "joint_pos_target", "applied_torque"):
        found[key] = getattr(data, key).clone()
    return found


def assert_others_untouched(
    before: dict[str, torch.Tensor], scene: InteractiveScene, mask: torch.Tensor
) -> None:
    for key, now in states(scene).items():
        assert torch.equal(now[~mask], before[key][~mask]), key


def masks() -> list[torch.Tensor | None]:
    torch.manual_seed(1)
    return [torch.rand(E) < 0.5, torch.zeros(E, dtype=torch.bool), torch.ones(E, dtype=torch.bool), None]


def bounds(ranges: dict[str, Any]) -> torch.Tensor:
    return torch.tensor([ranges.get(k, (0.0, 0.0)) for k in KEYS], dtype=torch.float64).T


def spread(ranges: dict[str, Any], draw: torch.Tensor) -> torch.Tensor:
    low, high = bounds(ranges)
    return low + draw.double() * (high - low)


def matrix(quat: torch.Tensor) -> torch.Tensor:
    """(E, 3, 3) of (E, 4)."""
    x, y, z, w = quat.double().unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(r, -1) for r in rows], -2)


def about(axis: int, angle: torch.Tensor) -> torch.Tensor:
    """(E, 3, 3) rotations about one axis."""
    generator = torch.zeros(len(angle), 3, 3, dtype=torch.float64)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    generator[:, i, j], generator[:, j, i] = -angle, angle
    return torch.linalg.matrix_exp(generator)


def close(found: torch.Tensor, wanted: torch.Tensor, atol: float = 3e-6) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), atol=atol, rtol=3e-6)


@pytest.mark.parametrize("name", ["robot", "odd"])
@pytest.mark.parametrize("number", range(4))
def test_root_reset(env: Any, name: str, number: int) -> None:
    mask, data = masks()[number], env.scene[name].data
    chosen = torch.ones(E, dtype=torch.bool) if mask is None else mask
    before = states(env.scene)
    torch.manual_seed(11)
    mdp.reset_root_state_uniform(env, mask, POSE, VELOCITY, asset_cfg=env.entity(name))
    torch.manual_seed(11)
    draw = torch.rand(E, 12)
    offset, velocity = spread(POSE, draw[:, :6]), spread(VELOCITY, draw[:, 6:])
    turn = about(2, offset[:, 5]) @ about(1, offset[:, 4]) @ about(0, offset[:, 3])
    close(data.root_pos_w[chosen], (data.default_root_pose[:, :3].double() + offset[:, :3])[chosen])
    close(matrix(data.root_quat_w)[chosen], (matrix(data.default_root_pose[:, 3:]) @ turn)[chosen], atol=1e-5)
    close(data.root_vel_w[chosen], (data.default_root_vel.double() + velocity)[chosen], atol=1e-5)
    assert_others_untouched(before, env.scene, chosen)


@pytest.mark.parametrize("name", ["robot", "odd"])
@pytest.mark.parametrize("number", range(4))
def test_push(env: Any, name: str, number: int) -> None:
    mask, data = masks()[number], env.scene[name].data
    chosen = torch.ones(E, dtype=torch.bool) if mask is None else mask
    mdp.reset_root_state_uniform(env, None, POSE, VELOCITY, asset_cfg=env.entity(name))
    before = states(env.scene)
    torch.manual_seed(11)
    mdp.push_by_setting_velocity(env, mask, VELOCITY, asset_cfg=env.entity(name))
    torch.manual_seed(11)
    pushed = before[f"{name} vel"].double() + spread(VELOCITY, torch.rand(E, 6))
    close(data.root_vel_w[chosen], pushed[chosen], atol=1e-5)
    assert_others_untouched(before, env.scene, chosen)
    env.scene.step()
    # The other bodies move along.
    close(data.root_vel_w[chosen, 3:], pushed[chosen, 3:], atol=0.5)


def test_a_fixed_root_cannot_be_pushed(env: Any) -> None:
    with pytest.raises(ValueError, match="the root is fixed to the world"):
        mdp.push_by_setting_velocity(env, None, VELOCITY, asset_cfg=env.entity("post"))


def test_a_fixed_root_is_reset_as_well(env: Any) -> None:
    mask = torch.arange(E) % 2 == 0
    data, before = env.scene["post"].data, states(env.scene)
    torch.manual_seed(11)
    mdp.reset_root_state_uniform(env, mask, POSE, VELOCITY, asset_cfg=env.entity("post"))
    torch.manual_seed(11)
    offset = spread(POSE, torch.rand(E, 12)[:, :6])
    turn = about(2, offset[:, 5]) @ about(1, offset[:, 4]) @ about(0, offset[:, 3])
    close(data.root_pos_w[mask], (data.default_root_pose[:, :3].double() + offset[:, :3])[mask])
    close(matrix(data.root_quat_w)[mask], turn[mask], atol=1e-5)
    assert_others_untouched(before, env.scene, mask)
    env.scene["post"].reset(mask)
    close(data.root_pose_w, data.default_root_pose)


@pytest.mark.parametrize("names", [[".*"], ["RH_KFE", "LF_HAA", "RF_HFE"], ["LF_.*"]])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("number", range(4))
def test_joint_resets(env: Any, names: list[str], scale: bool, number: int) -> None:
    mask, data = masks()[number], env.scene["robot"].data
    chosen = torch.ones(E, dtype=torch.bool) if mask is None else mask
    robot = env.entity("robot", joint_names=names, preserve_order=True)
    data.default_joint_vel.torch.fill_(0.5)
    before = states(env.scene)
    event = mdp.reset_joints_by_scale if scale else mdp.reset_joints_by_offset
    # Wide enough for the limits to cut.
    pos, vel = torch.tensor((-1.5, 2.0)), torch.tensor((-60.0, 60.0))
    torch.manual_seed(11)
    event(env, mask, pos, vel, asset_cfg=robot)
    torch.manual_seed(11)
    ids = robot.joint_ids
    count = data.joint_pos[:, ids].shape[1]
    draw = torch.rand(E, 2 * count).double()
    wanted = []
    for default, (low, high), u in (
        (data.default_joint_pos, pos.tolist(), draw[:, :count]),
        (data.default_joint_vel, vel.tolist(), draw[:, count:]),
    ):
        drawn = low + u * (high - low)
        default = default[:, ids].double()
        wanted.append(default * drawn if scale else default + drawn)
    limits, speed = data.soft_joint_pos_limits[:, ids].double(), data.joint_vel_limits[:, ids].double()
    close(data.joint_pos[:, ids][chosen], wanted[0].clamp(limits[..., 0], limits[..., 1])[chosen])
    close(data.joint_vel[:, ids][chosen], wanted[1].clamp(-speed, speed)[chosen], atol=1e-5)
    others = torch.ones(12, dtype=torch.bool)
    others[ids] = False
    assert torch.equal(data.joint_pos[:, others], before["joint_pos"][:, others])
    assert torch.equal(data.joint_vel[:, others], before["joint_vel"][:, others])
    assert bool((data.joint_acc[chosen] == 0.0).all())
    assert_others_untouched(before, env.scene, chosen)
    data.default_joint_vel.torch.zero_()


@pytest.mark.parametrize("number", range(4))
def test_external_wrenches(env: Any, number: int) -> None:
    mask, robot = masks()[number], env.scene["robot"]
    chosen = torch.ones(E, dtype=torch.bool) if mask is None else mask
    feet = env.entity("robot", body_names=["RF_FOOT", "base", "LH_FOOT"], preserve_order=True)
    robot.set_external_wrench(torch.full((E, 3), 7.0), torch.full((E, 3), 8.0), body_ids=slice(0, 2))
    before = states(env.scene)
    torch.manual_seed(11)
    mdp.apply_external_force_torque(env, mask, (-5.0, 20.0), torch.tensor((1.0, 2.0)), asset_cfg=feet)
    force, torque = (
        x[:, feet.body_ids][chosen] for x in (robot._state.external_force, robot._state.external_torque)
    )
    assert bool(((force >= -5.0) & (force <= 20.0)).all()) and bool(((torque >= 1.0) & (torque <= 2.0)).all())
    assert force.numel() == 0 or float(force.std()) > 1.0
    assert bool((robot._state.external_force[:, 1] == 7.0).all()) and robot.body_names[1] != "base"
    assert_others_untouched(before, env.scene, chosen)
    env.scene.reset()
    assert bool((robot._state.external_force == 0.0).all())
    assert bool((robot._state.external_torque == 0.0).all())


def test_bounds_are_read_when_the_event_happens(env: Any) -> None:
    data, robot = env.scene["robot"].data, env.entity("robot")
    place, speed = LivePoseRanges({}, "pose_range", env.device), LivePoseRanges({}, "v", env.device)
    factor, zero = torch.ones(2), torch.zeros(2)
    for x, k in ((0.0, 1.0), (3.0, 0.5), (-2.0, 1.1)):
        place["x"], speed["yaw"] = (x, x), (x, x)
        factor.fill_(k)
        mdp.reset_root_state_uniform(env, None, place, speed, asset_cfg=robot)
        mdp.reset_joints_by_scale(env, None, factor, zero, asset_cfg=robot)
        assert torch.equal(data.root_pos_w[:, 0], data.default_root_pose[:, 0] + x)
        close(data.root_vel_w[:, 5], data.default_root_vel[:, 5] + x)
        close(data.joint_pos, data.default_joint_pos * k)
        mdp.push_by_setting_velocity(env, None, speed, asset_cfg=robot)
        close(data.root_vel_w[:, 5], data.default_root_vel[:, 5] + 2 * x)


def test_draws_stay_within_their_bounds(env: Any) -> None:
    data, robot = env.scene["robot"].data, env.entity("robot")
    for _ in range(20):
        mdp.reset_root_state_uniform(env, None, {"y": (0.1, 0.3)}, {}, asset_cfg=robot)
        y = data.root_pos_w[:, 1] - data.default_root_pose[:, 1]
        assert bool(((y > 0.1 - 1e-6) & (y < 0.3 + 1e-6)).all())


@pytest.mark.parametrize("number", range(4))
def test_reset_to_defaults(env: Any, number: int) -> None:
    mask, robot = masks()[number], env.scene["robot"]
    chosen = torch.ones(E, dtype=torch.bool) if mask is None else mask
    robot.set_joint_position_target(torch.rand(E, 12))
    robot.set_external_wrench(torch.rand(E, 3), torch.rand(E, 3))
    for _ in range(2):
        env.scene.step()
    before = states(env.scene)
    robot.reset(mask)
    d = robot.data
    for now, wanted in (
        (d.root_pose_w, d.default_root_pose),
        (d.joint_pos, d.default_joint_pos),
        (d.joint_vel, d.default_joint_vel),
        (d.joint_pos_target, d.default_joint_pos),
    ):
        assert torch.equal(now[chosen], wanted[chosen])
    close(d.root_vel_w[chosen], d.default_root_vel[chosen])
    for zero in (d.joint_acc, d.applied_torque, d.computed_torque, robot._state.external_force):
        assert bool((zero[chosen] == 0.0).all())
    assert bool((robot._age[chosen] == 0).all()) and bool((robot._age[~chosen] > 0).all())
    assert_others_untouched(before, env.scene, chosen)
    odd = env.scene["odd"].data
    assert torch.equal(odd.root_pose_w, before["odd pose"])


def test_joint_writes_in_another_order(env: Any) -> None:
    robot, mask = env.scene["robot"], torch.arange(E) < 3
    before = states(env.scene)
    ids = torch.tensor([5, -1, 0])
    pos, vel = torch.rand(E, 3), torch.rand(E, 3)
    robot.write_joint_state(pos, vel, env_mask=mask, joint_ids=ids)
    wanted = before["joint_pos"].clone()
    wanted[:3, ids] = pos[:3]
    assert torch.equal(robot.data.joint_pos, wanted)
    # What is written may be a view of what it is written to.
    order = torch.arange(11, -1, -1)
    robot.write_joint_state(robot.data.joint_pos, robot.data.joint_vel, joint_ids=order)
    assert torch.equal(robot.data.joint_pos, wanted.flip(1))
