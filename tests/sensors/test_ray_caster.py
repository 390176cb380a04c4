# SPDX-License-Identifier: Apache-2.0
"""Rays against planes and terrain, and the height scan."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from forcelab import mdp
from forcelab.managers import SceneEntityCfg
from forcelab.physics import NewtonCfg
from forcelab.scene import (
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    PlaneCfg,
    RandomRoughTerrainCfg,
    RigidObjectCfg,
    SphereCfg,
    TerrainCfg,
    WaveTerrainCfg,
)
from forcelab.scene.terrain_cfg import height_at
from forcelab.sensors import GridPatternCfg, OffsetCfg, RayCasterCfg

NS = "{ENV_REGEX_NS}"
TILT = math.radians(20.0)
WALL = (0.0, math.sin(-math.pi / 4), 0.0, math.cos(math.pi / 4))  # z axis along -x
FORWARD = GridPatternCfg(0.1, (0.0, 0.0), direction=(2.0, 0.0, 0.0))


def body(pos: tuple[float, float, float] = (0, 0, 2)) -> RigidObjectCfg:
    return RigidObjectCfg(prim_path=f"{NS}/Box", spawn=CuboidCfg(size=(0.1, 0.1, 0.1)), init_pos=pos)


def about(axis: tuple[float, float, float], angle: float) -> list[float]:
    return [*(math.sin(angle / 2) * a for a in axis), math.cos(angle / 2)]


class PlanesCfg(InteractiveSceneCfg):
    ground = PlaneCfg(init_pos=(0, 0, 0.5))
    wall = PlaneCfg(prim_path="/World/wall", init_pos=(30, 0, 0), init_rot=WALL)
    box = body()
    base = RayCasterCfg(prim_path=f"{NS}/Box", pattern_cfg=GridPatternCfg(0.5, (1.0, 0.5)))
    yaw = RayCasterCfg(
        prim_path=f"{NS}/Box",
        offset=OffsetCfg(pos=(0.2, 0.0, 20.0)),
        pattern_cfg=GridPatternCfg(0.5, (1.0, 0.5)),
        ray_alignment="yaw",
    )
    world = RayCasterCfg(
        prim_path=f"{NS}/Box", pattern_cfg=GridPatternCfg(0.5, (1.0, 0.5)), ray_alignment="world"
    )
    ahead = RayCasterCfg(
        prim_path=f"{NS}/Box", mesh_prim_paths=["/World/.*"], pattern_cfg=FORWARD, max_distance=100.0
    )
    short = RayCasterCfg(prim_path=f"{NS}/Box", pattern_cfg=GridPatternCfg(0.5, (1.0, 0.5)), max_distance=1.0)
    slow = RayCasterCfg(prim_path=f"{NS}/Box", pattern_cfg=GridPatternCfg(0.5), update_period=0.025)


@pytest.fixture(scope="module")
def planes(physics):
    scene = InteractiveScene(PlanesCfg(num_envs=2, env_spacing=4.0), physics(dt=0.005))
    yield scene
    scene.close()


def put(scene: InteractiveScene, quat: list[float], height: float = 2.0) -> torch.Tensor:
    """Reset, turn the box, and read without a step. Returns the boxes' positions (E, 3)."""
    scene.reset()
    pose = scene["box"].data.default_root_pose.clone()
    pose[:, 2] = height
    pose[:, 3:] = torch.tensor(quat)
    scene["box"].write_root_pose(pose)
    return pose[:, :3]


def test_grid():
    starts, directions = GridPatternCfg(0.1, (1.6, 1.0)).rays("pattern")
    assert starts.shape == (17 * 11, 3) and np.allclose(directions, (0, 0, -1))
    assert np.allclose(starts[0], (-0.8, -0.5, 0)) and np.allclose(starts[-1], (0.8, 0.5, 0))
    assert np.allclose(starts[1] - starts[0], (0.1, 0, 0))  # x first
    starts, directions = GridPatternCfg(0.1, (1.6, 1.0), direction=(0, 3, -4), ordering="yx").rays("pattern")
    assert np.allclose(starts[1] - starts[0], (0, 0.1, 0)) and np.allclose(directions[5], (0, 0.6, -0.8))


def test_straight_down(planes):
    pos = put(planes, [0, 0, 0, 1])
    data = planes["base"].data
    assert data.ray_hits_w.shape == (2, 6, 3) and planes["base"].num_rays == 6
    starts = torch.tensor(GridPatternCfg(0.5, (1.0, 0.5)).rays("")[0], dtype=torch.float32)
    expected = pos[:, None] + starts
    expected[..., 2] = 0.5
    assert torch.allclose(data.ray_hits_w.torch, expected, atol=1e-5)
    assert torch.allclose(data.pos_w.torch, pos) and torch.allclose(data.quat_w[0], torch.eye(4)[3])


def test_alignment(planes):
    """Heading 90°, then a pitch of 20°: nose down along +y."""
    s, c = math.sin(math.pi / 4), math.cos(math.pi / 4)
    sp, cp = math.sin(TILT / 2), math.cos(TILT / 2)
    pos = put(planes, [-s * sp, c * sp, s * cp, c * cp])
    starts = torch.tensor(GridPatternCfg(0.5, (1.0, 0.5)).rays("")[0], dtype=torch.float32)
    turned = torch.stack((-starts[:, 1], starts[:, 0], starts[:, 2]), dim=-1)
    expected = pos[:, None, :2] + turned[:, :2] + torch.tensor([0.0, 0.2])
    assert torch.allclose(planes["yaw"].data.ray_hits_w[..., :2], expected, atol=1e-4)
    assert torch.allclose(planes["yaw"].data.ray_hits_w[..., 2], torch.tensor(0.5), atol=1e-4)
    assert torch.allclose(
        planes["world"].data.ray_hits_w[..., :2], pos[:, None, :2] + starts[:, :2], atol=1e-4
    )
    # The grid pitches with the body, and its rays lean backwards by the same angle.
    along, across = starts[:, 0], starts[:, 1]
    height = 1.5 - along * math.sin(TILT)
    reach = along * math.cos(TILT) - height * math.tan(TILT)
    expected = pos[:, None, :2] + torch.stack((-across, reach), dim=-1)
    assert torch.allclose(planes["base"].data.ray_hits_w[..., :2], expected, atol=1e-4)


def test_the_nearest_is_met_and_nothing_beyond_reach(planes):
    pos = put(planes, [0, 0, 0, 1])
    hits = planes["ahead"].data.ray_hits_w[:, 0]
    expected = pos.clone()
    expected[:, 0] = 30.0
    assert torch.allclose(hits, expected, atol=1e-4)
    # Down by 20°: the ground comes before the wall.
    pos = put(planes, about((0, 1, 0), TILT))
    hits = planes["ahead"].data.ray_hits_w[:, 0]
    assert torch.allclose(hits[:, 0], pos[:, 0] + 1.5 / math.tan(TILT), atol=1e-3)
    # Backwards there is nothing.
    put(planes, about((0, 0, 1), math.pi))
    assert torch.isinf(planes["ahead"].data.ray_hits_w).all()
    assert torch.isinf(planes["short"].data.ray_hits_w).all()
    put(planes, [0, 0, 0, 1], height=1.4)
    assert torch.allclose(planes["short"].data.ray_hits_w[..., 2], torch.tensor(0.5), atol=1e-5)


def test_height_scan(planes):
    env = SimpleNamespace(scene=planes)
    put(planes, [0, 0, 0, 1], height=1.4)
    scan = mdp.height_scan(env, SceneEntityCfg("short"))
    assert scan.shape == (2, 6) and torch.allclose(scan, torch.tensor(0.4), atol=1e-5)
    assert torch.allclose(
        mdp.height_scan(env, SceneEntityCfg("yaw"), offset=0.9), torch.tensor(0.0), atol=1e-4
    )
    put(planes, [0, 0, 0, 1], height=4.0)
    # Nothing within 1 m: as far below as the sensor sees.
    assert torch.equal(mdp.height_scan(env, SceneEntityCfg("short")), torch.full((2, 6), 0.5))


def test_samples_follow_the_step_and_the_period(planes):
    put(planes, [0, 0, 0, 1], height=10.0)
    slow, fast = planes["slow"].data, planes["base"].data
    changes, last = [], None
    for i in range(1, 13):
        planes.step()
        assert torch.allclose(fast.pos_w.torch, planes["box"].data.root_pos_w.torch)
        assert torch.allclose(fast.ray_hits_w[..., 2], torch.tensor(0.5), atol=1e-4)
        now = float(slow.pos_w[0, 2])
        if now != last:
            changes.append(i)
        last = now
    assert changes == [1, 5, 10]
    # A masked reset reads the new state there, and leaves the other environment.
    before = slow.pos_w.clone()
    planes.reset(torch.tensor([False, True]))
    assert torch.equal(slow.pos_w[0], before[0]) and float(slow.pos_w[1, 2]) == 2.0


class HillsCfg(InteractiveSceneCfg):
    rough = TerrainCfg(
        generator=RandomRoughTerrainCfg((0.0, 0.2), seed=3),
        size=(8.0, 8.0),
        prim_path="/World/rough",
        init_pos=(0, 0, -20.0),
    )
    # Environments stand on this one.
    ground = TerrainCfg(generator=WaveTerrainCfg(0.3, 2.0), size=(8.0, 6.0), init_pos=(1, 0, 0.2))
    box = RigidObjectCfg(prim_path=f"{NS}/Box", spawn=SphereCfg(radius=0.05), init_pos=(0, 0, 1.0))
    scan = RayCasterCfg(
        prim_path=f"{NS}/Box",
        offset=OffsetCfg(pos=(0, 0, 20.0)),
        pattern_cfg=GridPatternCfg(0.07, (1.4, 1.4)),
        ray_alignment="yaw",
    )
    below = RayCasterCfg(
        prim_path=f"{NS}/Box",
        mesh_prim_paths=["/World/rough"],
        pattern_cfg=GridPatternCfg(0.07, (1.4, 1.4)),
        ray_alignment="yaw",
    )
    both = RayCasterCfg(
        prim_path=f"{NS}/Box",
        mesh_prim_paths=["/World/ground", "/World/rough"],
        pattern_cfg=GridPatternCfg(1.1, (8.8, 0.0)),
        ray_alignment="world",
    )


@pytest.mark.filterwarnings("ignore:Heightfield-vs-heightfield")
def test_hits_lie_on_the_generated_heights():
    scene = InteractiveScene(HillsCfg(num_envs=2, env_spacing=2.0), NewtonCfg(dt=0.005))
    scene["box"].write_root_velocity(torch.tensor([[1.0, 0.5, 3.0, 0.0, 0.0, 2.0]]).expand(2, 6))
    rough, waves = scene.engine.desc.statics
    for step in range(60):
        if step:
            scene.step()  # the kernel is part of the replayed step
        hits = scene["scan"].data.ray_hits_w.numpy().reshape(-1, 3)
        expected = 0.2 + height_at(waves.shapes[0], hits[:, :2] - (1.0, 0.0))
        assert np.allclose(hits[:, 2], expected, atol=1e-4)
        x, y = hits[:, 0] - 1.0, hits[:, 1]
        smooth = 0.2 + 0.15 * (np.sin(np.pi * x) + np.sin(np.pi * y))
        assert np.abs(hits[:, 2] - smooth).max() < 0.15 * np.pi**2 * 0.1**2  # flat triangles
        hits = scene["below"].data.ray_hits_w.numpy().reshape(-1, 3)
        assert np.allclose(hits[:, 2], height_at(rough.shapes[0], hits[:, :2]) - 20.0, atol=1e-4)
    # Beyond the edge of one terrain the other is seen, beyond both nothing.
    scene.reset()
    hits = scene["both"].data.ray_hits_w
    assert hits.shape == (2, 9, 3)
    x = scene["box"].data.root_pos_w[:, :1] + 1.1 * torch.arange(-4, 5)
    first, second = (x > -3.0) & (x < 5.0), (x > -4.0) & (x < 4.0)
    assert torch.equal(hits[..., 2] > -5.0, first | ~second)
    assert torch.equal(torch.isinf(hits[..., 2]), ~first & ~second)
    scene.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prim_path": f"{NS}/Bix"}, "Did you mean 'Box'"),
        ({"mesh_prim_paths": ["/World/groud"]}, r"mesh_prim_paths\[0\] .*Did you mean '/World/ground'"),
        ({"mesh_prim_paths": [f"{NS}/Box"]}, "rays see static geometry only"),
        ({"mesh_prim_paths": "/World/ground"}, "must be a list of paths"),
        ({"mesh_prim_paths": []}, "must be a list of paths"),
        ({"pattern_cfg": GridPatternCfg(0.0)}, "pattern_cfg.resolution is 0.0"),
        ({"pattern_cfg": GridPatternCfg(0.1, (1.0,))}, "pattern_cfg.size"),
        ({"pattern_cfg": GridPatternCfg(0.1, (1.0, -1.0))}, r"pattern_cfg.size\[1\] is -1.0"),
        ({"pattern_cfg": GridPatternCfg(0.001, (100.0, 100.0))}, "rays; at most"),
        ({"pattern_cfg": GridPatternCfg(direction=(0, 0, 0))}, "direction .* must not be zero"),
        ({"pattern_cfg": GridPatternCfg(ordering="xz")}, "ordering is 'xz'"),
        ({"pattern_cfg": GridPatternCfg(5e-324)}, "pattern_cfg.resolution is 5e-324"),
        ({"pattern_cfg": 0.1}, "give a GridPatternCfg"),
        ({"ray_alignment": "yaaw"}, "Did you mean 'yaw'"),
        ({"max_distance": 0.0}, "max_distance is 0.0"),
    ],
)
def test_errors(change, message):
    class BadCfg(InteractiveSceneCfg):
        ground = PlaneCfg()
        box = body()
        scan = RayCasterCfg(**{"prim_path": f"{NS}/Box", **change})

    with pytest.raises(ValueError, match=message):
        InteractiveScene(BadCfg(), NewtonCfg())
