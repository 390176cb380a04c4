# SPDX-License-Identifier: Apache-2.0
"""Relative poses against quaternion algebra of another library."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import FrameCfg, FrameTransformerCfg, OffsetCfg

NS = "{ENV_REGEX_NS}"
SOURCE = ((0.1, -0.2, 0.3), (0.5, 0.5, 0.5, 0.5))
TARGET = ((0.0, 0.05, -0.02), (0.0, 0.6, 0.0, 0.8))


def turn(q: np.ndarray) -> np.ndarray:
    """Rotation matrix of a quaternion (x, y, z, w)."""
    x, y, z, w = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix(pose: object, offset: tuple = ((0, 0, 0), (0, 0, 0, 1))) -> np.ndarray:
    """(4, 4) of a pose of seven numbers, followed by an offset."""

    def one(p: object, q: object) -> np.ndarray:
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = turn(np.asarray(q, dtype=float)), np.asarray(p, dtype=float)
        return out

    numbers = np.asarray(pose, dtype=float)
    return one(numbers[:3], numbers[3:]) @ one(*offset)


class WalkCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    robot = ArticulationCfg(
        prim_path=f"{NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0, 0, 0.8),
        init_joint_pos={".*_HAA": 0.1, ".*_KFE": -0.5},
    )
    box = RigidObjectCfg(
        prim_path=f"{NS}/Box",
        spawn=CuboidCfg(size=(0.1, 0.1, 0.1), mass=1.0),
        init_pos=(1, 0, 2),
        init_ang_vel=(3.0, -2.0, 1.0),
    )
    frames = FrameTransformerCfg(
        prim_path=f"{NS}/Robot/base",
        source_frame_offset=OffsetCfg(*SOURCE),
        target_frames=[
            FrameCfg(f"{NS}/Robot/.*_FOOT"),
            FrameCfg(f"{NS}/Box", name="corner", offset=OffsetCfg(*TARGET)),
        ],
    )
    slow = FrameTransformerCfg(
        prim_path=f"{NS}/Box", target_frames=[FrameCfg(f"{NS}/Robot/base")], update_period=0.05
    )


@pytest.fixture(scope="module")
def walk(physics):
    scene = InteractiveScene(WalkCfg(num_envs=2, env_spacing=5.0), physics(dt=0.005))
    yield scene
    scene.close()


def check(scene: InteractiveScene) -> None:
    frames = scene["frames"]
    poses = dict(zip(scene.body_paths, scene.body_poses().transpose(0, 1).numpy()))
    feet = [f"Robot/{n}" for n in frames.body_names[:4]]
    targets = [(f, ((0, 0, 0), (0, 0, 0, 1))) for f in feet] + [("Box", TARGET)]
    data = frames.data
    for e in range(2):
        source = matrix(poses["Robot/base"][e], SOURCE)
        assert np.allclose(data.source_pos_w[e].numpy(), source[:3, 3], atol=1e-5)
        assert np.allclose(turn(data.source_quat_w[e].numpy()), source[:3, :3], atol=1e-5)
        for t, (path, offset) in enumerate(targets):
            target = matrix(poses[path][e], offset)
            relative = np.linalg.inv(source) @ target
            assert np.allclose(data.target_pos_w[e, t].numpy(), target[:3, 3], atol=1e-5)
            assert np.allclose(turn(data.target_quat_w[e, t].numpy()), target[:3, :3], atol=1e-5)
            assert np.allclose(data.target_pos_source[e, t].numpy(), relative[:3, 3], atol=1e-5)
            assert np.allclose(turn(data.target_quat_source[e, t].numpy()), relative[:3, :3], atol=1e-5)


def test_moving_bodies(walk):
    walk.reset()
    frames = walk["frames"]
    assert sorted(frames.body_names[:4]) == ["LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"]
    assert frames.data.target_frame_names[4] == "corner" and frames.num_bodies == 5
    assert frames.find_bodies(["corner", ".*F_FOOT"])[1][-1] == "corner"
    assert frames.data.target_pos_source.shape == (2, 5, 3)
    check(walk)  # at once after a reset
    for _ in range(40):
        walk.step()
        check(walk)


def test_writes_reset_and_period(walk):
    walk.reset()
    for _ in range(3):
        walk.step()
    held = walk["slow"].data.target_pos_source.clone()
    moved = walk["box"].data.default_root_pose.clone()
    moved[:, 1] += 1.0
    walk["box"].write_root_pose(moved)
    # A sample stays until the next one …
    assert torch.equal(walk["slow"].data.target_pos_source, held)
    # … and a reset environment reads the state that it has now.
    walk["slow"].reset(torch.tensor([True, False]))
    now = walk["slow"].data.target_pos_source
    assert not torch.equal(now[0], held[0]) and torch.equal(now[1], held[1])
    relative = np.linalg.inv(matrix(walk.body_poses()[0, walk.body_paths.index("Box")])) @ matrix(
        walk.body_poses()[0, walk.body_paths.index("Robot/base")]
    )
    assert np.allclose(now[0, 0].numpy(), relative[:3, 3], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prim_path": f"{NS}/Boxx"}, "Did you mean 'Box'"),
        ({"target_frames": [FrameCfg(f"{NS}/Bix")]}, r"target_frames\[0\].prim_path .*Did you mean 'Box'"),
        ({"target_frames": []}, "at least one FrameCfg"),
        ({"target_frames": ["Box"]}, r"target_frames\[0\] is 'Box'"),
        ({"target_frames": [FrameCfg(f"{NS}/.*", name="all")]}, "matches 2 bodies, which cannot share it"),
        (
            {"target_frames": [FrameCfg(f"{NS}/Box"), FrameCfg(f"{NS}/Box")]},
            "second target frame is called 'Box'",
        ),
        ({"source_frame_offset": None}, "source_frame_offset is None"),
        ({"target_frames": [FrameCfg(f"{NS}/Box", offset=OffsetCfg(pos=(0, 0)))]}, r"\[0\].offset.pos"),
    ],
)
def test_errors(change, message):
    cube = CuboidCfg(size=(0.1, 0.1, 0.1))
    given = {"prim_path": f"{NS}/Box", "target_frames": [FrameCfg(f"{NS}/Other")], **change}

    class BadCfg(InteractiveSceneCfg):
        box = RigidObjectCfg(prim_path=f"{NS}/Box", spawn=cube)
        other = RigidObjectCfg(prim_path=f"{NS}/Other", spawn=cube, init_pos=(1, 0, 0))
        frames = FrameTransformerCfg(**given)

    with pytest.raises(ValueError, match=message):
        InteractiveScene(BadCfg(), NewtonCfg())
