# SPDX-License-Identifier: Apache-2.0
"""Terrain: the heights, where environments stand on it, and contact with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CapsuleCfg,
    CuboidCfg,
    CylinderCfg,
    FlatTerrainCfg,
    HeightFieldCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MeshCfg,
    MjcfCfg,
    PlaneCfg,
    PyramidSlopeTerrainCfg,
    PyramidStairsTerrainCfg,
    RandomRoughTerrainCfg,
    RigidObjectCfg,
    SphereCfg,
    TerrainCfg,
    WaveTerrainCfg,
)
from forcelab.scene.terrain_cfg import height_at
from forcelab.sensors import ContactSensorCfg

NS = "{ENV_REGEX_NS}"
G = 9.81
SLOPE = 0.3
TILT = math.atan(SLOPE)
LEANING = (0.0, math.sin(TILT / 2), 0.0, math.cos(TILT / 2))  # z axis leans towards +x


# A prism on a rectangular face, its ridge along x.
WEDGE = [(x, y, -0.1) for x in (-0.2, 0.2) for y in (-0.15, 0.15)] + [(x, 0.0, 0.2) for x in (-0.2, 0.2)]
WEDGE_FACES = [(0, 1, 3), (0, 3, 2), (0, 2, 5), (0, 5, 4), (1, 4, 5), (1, 5, 3), (0, 4, 1), (2, 3, 5)]


@dataclass
class NoHeights(HeightFieldCfg):
    """Gives something else."""

    found: Any = None

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> Any:
        return self.found


def heights(generator: HeightFieldCfg, **fields: Any) -> np.ndarray:
    return TerrainCfg(generator=generator, **fields).grid("scene.ground")[2]


def nearest(triangles: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Nearest point of each triangle (n, 3, 3) to ``point``: the least of its plane's, its edges' and its corners'."""
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    foot = point - normal * np.sum((point - a) * normal, axis=1, keepdims=True)
    inside = np.ones(len(a), dtype=bool)
    candidates = []
    for p, q in ((a, b), (b, c), (c, a)):
        inside &= np.sum(np.cross(q - p, foot - p) * normal, axis=1) >= 0
        t = np.clip(np.sum((point - p) * (q - p), axis=1) / np.sum((q - p) ** 2, axis=1), 0, 1)
        candidates.append(p + t[:, None] * (q - p))
    edges = np.stack(candidates)
    best = edges[np.linalg.norm(edges - point, axis=-1).argmin(axis=0), np.arange(len(a))]
    return np.where(inside[:, None], foot, best)


def surface_under(triangles: np.ndarray, place: np.ndarray) -> float:
    """Height of the triangle around ``place`` there."""
    a, b, c = (triangles[:, k, :2] for k in range(3))
    weights = np.linalg.solve(np.stack((b - a, c - a), axis=-1), (place[:2] - a)[..., None])[..., 0]
    k = int(np.flatnonzero((weights >= -1e-9).all(axis=1) & (weights.sum(axis=1) <= 1 + 1e-9))[0])
    return float(triangles[k, 0, 2] + weights[k] @ (triangles[k, 1:, 2] - triangles[k, 0, 2]))


def height_over(triangles: np.ndarray, place: np.ndarray, distance: float) -> float:
    """Height at which a point over ``place`` is ``distance`` from the surface; the distance grows with the height."""
    low = middle = surface_under(triangles, place)
    high = low + 3.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        point = np.array([place[0], place[1], middle])
        near = np.linalg.norm(nearest(triangles, point) - point, axis=1).min()
        low, high = (middle, high) if near < distance else (low, middle)
    return middle


# ---------------------------------------------------------------------- heights
def test_rough_heights_are_the_seed_s():
    first = heights(RandomRoughTerrainCfg(height_range=(-0.02, 0.06), seed=3))
    assert np.array_equal(first, heights(RandomRoughTerrainCfg(height_range=(-0.02, 0.06), seed=3)))
    assert not np.array_equal(first, heights(RandomRoughTerrainCfg(height_range=(-0.02, 0.06), seed=4)))
    assert first.shape == (201, 201)
    assert -0.02 <= first.min() < -0.019 and 0.059 < first.max() <= 0.06


def test_rough_heights_come_in_steps_and_are_linear_between_drawn_places():
    stepped = heights(RandomRoughTerrainCfg(height_range=(0.0, 0.05), step=0.01))
    levels = stepped / 0.01
    assert np.allclose(levels, levels.round(), atol=1e-4) and set(levels.round().ravel()) == set(range(6))
    coarse = heights(RandomRoughTerrainCfg(spacing=0.5), size=(3.0, 2.0))
    assert coarse.shape == (21, 31)
    for axis in (0, 1):
        bend = np.abs(np.diff(coarse, n=2, axis=axis)).max(axis=1 - axis)
        # Only the grid points where heights were drawn bend the surface.
        drawn = (np.arange(1, coarse.shape[axis] - 1) % 5) == 0
        assert bend[~drawn].max() < 1e-6 < bend[drawn].min()


def test_a_pyramid_slopes_and_its_platform_is_level():
    size = {"size": (8.0, 8.0), "resolution": 0.5}
    hill = heights(PyramidSlopeTerrainCfg(platform=2.0, slope=SLOPE), **size)
    along = hill[8]  # through the middle, from x = -4 to 4
    expected = SLOPE * np.clip(4.0 - np.abs(np.arange(-4, 4.5, 0.5)), 0.0, 3.0)
    assert np.allclose(along, expected, atol=1e-6)
    assert np.allclose(hill, hill.T) and np.allclose(hill, hill[::-1])
    assert np.allclose(
        heights(PyramidSlopeTerrainCfg(platform=2.0, slope=SLOPE, inverted=True), **size), -hill
    )
    many = heights(PyramidSlopeTerrainCfg(platform=1.0, slope=SLOPE, period=4.0), **size)
    assert np.allclose(many[:, :9], many[:, 8:]) and many[0, 0] == pytest.approx(SLOPE * 1.5, abs=1e-6)


def test_stairs_rise_by_whole_steps():
    stairs = heights(PyramidStairsTerrainCfg(platform=1.0, step_height=0.15, step_width=0.5), size=(6.0, 6.0))
    along = stairs[30]
    assert np.allclose(along[:31:5], 0.15 * np.array([0, 1, 2, 3, 4, 5, 5]), atol=1e-6)
    rises = np.diff(along[:31])
    assert np.isclose(rises[rises > 1e-6], 0.15).all() and (rises > 1e-6).sum() == 5


def test_waves_and_a_flat_field():
    waves = WaveTerrainCfg(amplitude=0.2, wavelength=2.0)
    x, y, found = TerrainCfg(generator=waves, size=(4.0, 6.0)).grid("scene.ground")
    expected = 0.1 * (np.sin(np.pi * x)[None, :] + np.sin(np.pi * y)[:, None])
    assert np.allclose(found, expected, atol=1e-6) and found.max() == pytest.approx(0.2, abs=1e-6)
    assert np.all(heights(FlatTerrainCfg(height=0.25)) == 0.25)


@dataclass
class Ramp(HeightFieldCfg):
    """Someone's own heights."""

    wrong: bool = False

    def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
        return np.zeros(3) if self.wrong else 0.5 * x[None, :] + 0.25 * y[:, None]


def test_height_between_the_grid_points_is_that_of_the_triangles():
    cfg = TerrainCfg(
        generator=RandomRoughTerrainCfg(height_range=(0.0, 1.0), seed=1), size=(1.5, 1.0), resolution=0.25
    )
    shape = cfg.describe("scene.ground").shapes[0]
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.5, 0.5, (200, 2)) * shape.size
    found = height_at(shape, points)
    corners = np.asarray(shape.vertices, dtype=float)[shape.faces]
    assert corners.shape == (2 * 6 * 4, 3, 3)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (normals[:, 2] > 0).all()
    for point, height in zip(points, found):
        assert height == pytest.approx(surface_under(corners, point), abs=1e-6)
    assert np.isnan(height_at(shape, np.array([[0.8, 0.0], [0.0, -0.51]]))).all()
    ramp = TerrainCfg(generator=Ramp(), size=(2.0, 2.0)).describe("scene.ground").shapes[0]
    assert height_at(ramp, np.array([[0.33, -0.71]]))[0] == pytest.approx(0.165 - 0.1775, abs=1e-6)


# ---------------------------------------------------------------------- contact
class HillCfg(InteractiveSceneCfg):
    ground = TerrainCfg(
        generator=PyramidSlopeTerrainCfg(platform=2.0, slope=SLOPE),
        size=(12.0, 12.0),
        resolution=0.25,
        friction=0.8,
        init_pos=(0.0, 0.0, 0.5),
    )
    ball = RigidObjectCfg(
        prim_path=f"{NS}/Ball", spawn=SphereCfg(radius=0.1, mass=1.0), init_pos=(-0.55, 0.05, 0.1)
    )
    box = RigidObjectCfg(
        prim_path=f"{NS}/Box",
        spawn=CuboidCfg(size=(0.3, 0.3, 0.2), mass=2.0, friction=0.8),
        init_pos=(0.3, 0.0, 0.1),
    )
    # On the slope that falls towards +x.
    sticking = RigidObjectCfg(
        prim_path=f"{NS}/Sticking",
        spawn=CuboidCfg(size=(0.3, 0.3, 0.2), mass=2.0, friction=0.8),
        init_pos=(3.0 + 0.1 * math.sin(TILT), 0.0, -2.0 * SLOPE + 0.1 * math.cos(TILT)),
        init_rot=LEANING,
    )
    touch_ball = ContactSensorCfg(
        prim_path=f"{NS}/Ball",
        filter_prim_paths_expr=["/World/ground", f"{NS}/Box"],
        track_friction_forces=True,
    )
    touch_box = ContactSensorCfg(
        prim_path=f"{NS}/Box", filter_prim_paths_expr=["/World/.*"], track_friction_forces=True
    )
    touch_sticking = ContactSensorCfg(
        prim_path=f"{NS}/Sticking", filter_prim_paths_expr=["/World/ground"], track_friction_forces=True
    )


@pytest.fixture(scope="module")
def hill(physics):
    scene = InteractiveScene(HillCfg(num_envs=2, env_spacing=1.0), physics(dt=0.005))
    yield scene
    scene.close()


def mean_forces(scene: InteractiveScene, name: str, steps: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    data = scene[name].data
    normal, friction = [], []
    for _ in range(steps):
        scene.step()
        normal.append(data.net_normal_forces_w[:, 0].clone())
        friction.append(data.net_friction_forces_w[:, 0].clone())
    return torch.stack(normal).mean(0), torch.stack(friction).mean(0)


def settle(scene: InteractiveScene, steps: int = 200) -> None:
    for _ in range(steps):
        scene.step()


def close(value: torch.Tensor, expected: Any, tol: float) -> bool:
    expected = torch.as_tensor(expected, dtype=torch.float32)
    return torch.allclose(value, expected.expand_as(value), atol=tol, rtol=0)


def test_resting_bodies_weigh_what_they_weigh(hill):
    hill.reset()
    settle(hill)
    for name, weight in (("touch_ball", G), ("touch_box", 2 * G)):
        normal, friction = mean_forces(hill, name)
        assert close(normal + friction, (0.0, 0.0, weight), 0.02 * weight)
    ball, box = hill["touch_ball"].data, hill["touch_box"].data
    assert torch.equal(ball.force_matrix_w[:, 0, 0], ball.net_forces_w[:, 0])
    assert not ball.force_matrix_w[:, 0, 1].any()
    assert torch.equal(box.force_matrix_w[:, 0, 0], box.net_forces_w[:, 0])
    drop = hill["box"].data.root_pos_w - hill["box"].data.default_root_pose[:, :3]
    assert float(drop.abs().max()) < 3e-3


def test_a_box_sticks_on_the_slope(hill):
    hill.reset()
    settle(hill)
    normal, friction = mean_forces(hill, "touch_sticking")
    up = torch.tensor([math.sin(TILT), 0.0, math.cos(TILT)])
    uphill = torch.tensor([-math.cos(TILT), 0.0, math.sin(TILT)])
    assert close(normal, up * 2 * G * math.cos(TILT), 0.2)
    assert close(friction, uphill * 2 * G * math.sin(TILT), 0.2)


def test_environments_stand_on_the_surface(hill):
    """Origins, default poses and poses after a partial reset."""
    assert close(hill.env_origins, [[0.0, -0.5, 0.5 + 5.0 * SLOPE], [0.0, 0.5, 0.5 + 5.0 * SLOPE]], 1e-5)
    ball = hill["ball"]
    expected = hill.env_origins + torch.tensor([-0.55, 0.05, 0.1])
    hill.reset()
    assert close(ball.data.root_pos_w, expected, 1e-5)
    ball.write_root_pose(torch.tensor([50.0, 0.0, 9.0, 0.0, 0.0, 0.0, 1.0]))
    hill.reset(torch.tensor([False, True]))
    assert close(ball.data.root_pos_w, [[50.0, 0.0, 9.0], expected[1].tolist()], 1e-5)


def test_there_is_no_ground_beyond_the_edge(hill):
    hill.reset()
    hill["ball"].write_root_pose(torch.tensor([6.3, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]))
    settle(hill, 100)
    expected = 1.0 - 0.5 * G * 0.5**2
    assert close(hill["ball"].data.root_pos_w[:, 2], expected, 0.05)
    assert not hill["touch_ball"].data.net_forces_w.any()
    hill.reset()


def test_friction_is_the_mean_of_both_coefficients(physics):
    """A ball that cannot roll slides down a slope too steep for it: a = g (sin - mu cos)."""

    class Cfg(InteractiveSceneCfg):
        ground = TerrainCfg(
            generator=Ramp(), size=(16.0, 16.0), resolution=0.5, friction=0.1, init_pos=(0.0, 0.0, 1.0)
        )
        sled = RigidObjectCfg(
            prim_path=f"{NS}/Sled",
            spawn=[
                SphereCfg(radius=0.1, mass=0.25, friction=0.3, pos=(x, y, 0))
                for x in (-0.3, 0.3)
                for y in (-0.3, 0.3)
            ],
        )
        touch = ContactSensorCfg(prim_path=f"{NS}/Sled", track_friction_forces=True)

    normal = np.array([-0.5, -0.25, 1.0]) / math.hypot(0.5, 0.25, 1.0)
    turn = np.array([0.25, -0.5, 0.0, 1.0 + 1.0 / normal[2]])  # takes z onto the normal, up to its length
    turn[:3] = np.cross([0.0, 0.0, 1.0], normal)
    turn[3] = 1.0 + normal[2]
    turn /= np.linalg.norm(turn)
    scene = InteractiveScene(Cfg(num_envs=1), physics(dt=0.005))
    assert float(scene.env_origins[0, 2]) == pytest.approx(1.0, abs=1e-5)
    start = torch.as_tensor([*(normal * 0.1 + [3.0, 3.0, 1.0 + 2.25]), *turn], dtype=torch.float32)
    scene["sled"].write_root_pose(start)
    settle(scene, 40)
    before = scene["sled"].data.root_lin_vel_w.clone()
    normals, frictions = mean_forces(scene, "touch", 100)
    gained = float((scene["sled"].data.root_lin_vel_w - before).norm()) / 0.5
    steep = math.acos(normal[2])
    assert close(normals, normal * G * math.cos(steep), 0.15)
    assert float(frictions.norm() / normals.norm()) == pytest.approx(0.2, abs=0.01)
    assert gained == pytest.approx(G * (math.sin(steep) - 0.2 * math.cos(steep)), rel=0.03)
    scene.close()


PROBE = """
<mujoco><worldbody><body name="mast"><geom name="mount" type="sphere" size="0.01" mass="1" contype="0" conaffinity="0"/>
<body name="tip" pos="0 0 1"><joint name="slide" type="slide" axis="0 0 1" damping="2"/>
<geom type="sphere" size="0.02" mass="0.1"/></body></body></worldbody></mujoco>
"""


def test_the_surface_is_where_height_at_says(physics, tmp_path: Path):
    """Balls on vertical slides come to rest on the triangles, in the middle of cells and off it."""
    file = tmp_path / "probe.xml"
    file.write_text(PROBE)

    class Cfg(InteractiveSceneCfg):
        ground = TerrainCfg(
            generator=RandomRoughTerrainCfg(height_range=(-0.3, 0.3), seed=5),
            size=(8.0, 6.0),
            resolution=1.0,
            friction=0.0,
            init_pos=(0.5, -0.25, 2.0),
        )
        probe = ArticulationCfg(
            prim_path=f"{NS}/Probe", spawn=MjcfCfg(str(file)), fixed_base=True, init_pos=(0.0, 0.0, -0.5)
        )
        touch = ContactSensorCfg(prim_path=f"{NS}/Probe/tip", filter_prim_paths_expr=["/World/ground"])

    cfg = Cfg(num_envs=16, env_spacing=1.25)
    scene = InteractiveScene(cfg, physics(dt=0.005))
    shape = cfg.ground.describe("scene.ground").shapes[0]
    places = scene.env_origins[:, :2].numpy() - [0.5, -0.25]
    surface = 2.0 + height_at(shape, places)
    assert close(scene.env_origins[:, 2], surface, 1e-5)
    settle(scene, 400)
    tip = scene["probe"].find_bodies("tip")[0][0]
    pos = scene["probe"].data.body_pos_w[:, tip].numpy()
    triangles = np.asarray(shape.vertices, dtype=float)[shape.faces] + [0.5, -0.25, 2.0]
    expected = [height_over(triangles, p, 0.02) for p in pos]
    assert np.abs(pos[:, 2] - expected).max() < 2e-3
    # On an edge PhysX does not come to rest.
    assert close(
        scene["touch"].data.force_matrix_w[:, 0, 0, 2], 0.1 * G, 0.02 if physics is NewtonCfg else 0.3
    )
    scene.close()


# ---------------------------------------------------------------------- where shapes touch
def rough_scene(spawn: Any, num_envs: int, **fields: Any) -> tuple[InteractiveScene, np.ndarray]:
    """Something in the air over rough ground, without gravity; and the triangles of the ground."""
    cfg = InteractiveSceneCfg(num_envs=num_envs, env_spacing=0.3)
    cfg.ground = TerrainCfg(
        generator=RandomRoughTerrainCfg(height_range=(-0.15, 0.15), seed=2),
        size=(4.0, 4.0),
        resolution=0.25,
        **fields,
    )
    cfg.thing = RigidObjectCfg(prim_path=f"{NS}/Thing", spawn=spawn, init_pos=(0.0, 0.0, 1.0))
    scene = InteractiveScene(cfg, NewtonCfg(dt=0.001, gravity=(0.0, 0.0, 0.0)))
    shape = cfg.ground.describe("scene.ground").shapes[0]
    return scene, np.asarray(shape.vertices, dtype=float)[shape.faces] + cfg.ground.init_pos


def contacts(scene: InteractiveScene) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Distances, positions and normals that the solver found in the last step, per environment."""
    data = scene.engine.solver.mjw_data  # type: ignore[attr-defined]
    n = int(data.nacon.numpy()[0])
    parts = [
        a.numpy()[:n].copy()
        for a in (data.contact.worldid, data.contact.dist, data.contact.pos, data.contact.frame)
    ]
    return [
        tuple(p[parts[0] == e] for p in (parts[1], parts[2], parts[3][:, 0]))  # type: ignore[misc]
        for e in range(scene.num_envs)
    ]


@pytest.mark.parametrize("radius", [0.04, 0.3])
def test_balls_touch_where_the_distance_has_a_minimum(radius: float):
    """Against distances to all triangles, for balls that dip in by up to a quarter of their radius."""
    E = 36
    scene, triangles = rough_scene(SphereCfg(radius=radius, mass=1.0), E, init_pos=(0.1, 0.05, 0.4))
    rng = np.random.default_rng(1)
    touched = several = 0
    for _ in range(3):
        places = np.concatenate((rng.uniform(-1.5, 1.5, (E, 2)), np.full((E, 1), 3.0)), axis=1)
        # The nearest triangle is between 3/4 and 5/4 of the radius away.
        wanted = radius * rng.uniform(0.75, 1.25, E)
        for e in range(E):
            places[e, 2] = height_over(triangles, places[e], wanted[e])
        scene["thing"].write_root_pose(
            torch.as_tensor(
                np.concatenate((places, np.tile([0, 0, 0, 1.0], (E, 1))), axis=1), dtype=torch.float32
            )
        )
        scene["thing"].write_root_velocity(torch.zeros(6))
        scene.step()
        for e, (dist, pos, normal) in enumerate(contacts(scene)):
            points = nearest(triangles, places[e])
            gaps = np.linalg.norm(points - places[e], axis=1)
            if gaps.min() > radius:
                assert len(dist) == 0
                continue
            touched += 1
            assert dist.min() == pytest.approx(gaps.min() - radius, abs=2e-5)
            # Every contact lies on the surface, in the direction of its normal, and none is there twice.
            on_surface = pos - normal * (0.5 * dist)[:, None]
            assert np.allclose(places[e] - on_surface, normal * (dist + radius)[:, None], atol=5e-5)
            for k, point in enumerate(on_surface):
                assert np.linalg.norm(nearest(triangles, point) - point, axis=1).min() < 5e-5
                assert np.linalg.norm(on_surface[:k] - point, axis=1).min(initial=1.0) > 1e-4
            several += len(dist) > 1
    assert touched > E and (radius < 0.1 or several > 5)
    scene.close()


@pytest.mark.parametrize(
    "spawn, corners",
    [
        (CuboidCfg(size=(0.3, 0.3, 0.2), mass=2.0), 4),
        (CylinderCfg(radius=0.15, height=0.2, mass=2.0), 4),
        (CapsuleCfg(radius=0.1, height=0.3, mass=2.0, rot=(0.5**0.5, 0.0, 0.0, 0.5**0.5)), 2),
        (SphereCfg(radius=0.1, mass=2.0), 1),
        (MeshCfg(vertices=WEDGE, faces=WEDGE_FACES, mass=2.0), 4),
    ],
)
@pytest.mark.parametrize("resolution", [0.5, 0.02])
def test_things_that_fall_on_level_ground_lie_still(spawn: Any, corners: int, resolution: float):
    """Wherever they come down, seams between triangles are not felt, however many lie under the thing."""
    E = 16
    cfg = InteractiveSceneCfg(num_envs=E, env_spacing=0.213)
    cfg.ground = TerrainCfg(size=(2.0, 2.0), resolution=resolution)
    cfg.thing = RigidObjectCfg(prim_path=f"{NS}/Thing", spawn=spawn, init_pos=(0.0, 0.0, 0.12))
    cfg.touch = ContactSensorCfg(prim_path=f"{NS}/Thing", track_friction_forces=True)
    scene = InteractiveScene(cfg, NewtonCfg(dt=0.005))
    yaw = torch.linspace(0.0, 1.5, E)
    start = scene["thing"].data.default_root_pose.clone()
    start[:, 5], start[:, 6] = torch.sin(yaw), torch.cos(yaw)
    scene["thing"].write_root_pose(start)
    settle(scene, 150)
    moved = scene["thing"].data.root_pos_w - start[:, :3]
    assert float(moved[:, :2].abs().max()) < 1e-3
    for dist, _, normal in contacts(scene):
        assert len(dist) == corners and np.allclose(normal, (0.0, 0.0, 1.0), atol=1e-6)
    assert close(scene["touch"].data.net_forces_w[:, 0, 2], 2 * G, 0.05)
    scene.close()


@pytest.mark.gpu
def test_cuda_finds_the_contacts_of_the_cpu():
    """Boxes, balls and capsules that fall on rough ground, in a captured step."""
    heights = []
    for device in ("cpu", "cuda:0"):
        cfg = InteractiveSceneCfg(num_envs=64, env_spacing=0.5)
        cfg.ground = TerrainCfg(generator=RandomRoughTerrainCfg(height_range=(0.0, 0.1)), size=(6.0, 6.0))
        for k, spawn in enumerate(
            (
                CuboidCfg(size=(0.2, 0.2, 0.2), mass=1.0),
                SphereCfg(radius=0.1, mass=1.0),
                CapsuleCfg(radius=0.05, height=0.2, mass=1.0, rot=(0.5**0.5, 0.0, 0.0, 0.5**0.5)),
            )
        ):
            thing = RigidObjectCfg(prim_path=f"{NS}/Thing{k}", spawn=spawn, init_pos=(0.4 * k, 0.0, 0.25))
            setattr(cfg, f"thing{k}", thing)
        scene = InteractiveScene(cfg, NewtonCfg(dt=0.005), device)
        settle(scene, 60)
        heights.append(scene.body_poses()[..., 2].cpu())
        scene.close()
    # What balances on an edge may tip either way.
    error = (heights[0] - heights[1]).abs()
    assert float(error.median()) < 1e-4
    assert float((error < 2e-3).float().mean()) > 0.95


def test_a_box_rests_on_the_peak_that_sticks_into_its_face():
    """Four boxes on a table of one peak each are carried by it, and tip over it."""

    @dataclass
    class Peaks(HeightFieldCfg):
        def heights(self, x: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
            out = np.zeros((len(y), len(x)))
            out[len(y) // 2, len(x) // 2] = 0.1
            return out

    cfg = InteractiveSceneCfg(num_envs=1)
    cfg.ground = TerrainCfg(generator=Peaks(), size=(2.0, 2.0), resolution=0.1)
    cfg.box = RigidObjectCfg(
        prim_path=f"{NS}/Box", spawn=CuboidCfg(size=(0.6, 0.6, 0.1), mass=2.0), init_pos=(0.0, 0.0, 0.0499)
    )
    cfg.touch = ContactSensorCfg(prim_path=f"{NS}/Box")
    scene = InteractiveScene(cfg, NewtonCfg(dt=0.002))
    assert float(scene.env_origins[0, 2]) == pytest.approx(0.1)
    settle(scene, 20)
    ((dist, pos, normal),) = contacts(scene)
    assert len(dist) == 1 and np.allclose(pos[0], (0.0, 0.0, 0.1), atol=2e-3) and normal[0, 2] > 0.99
    assert close(scene["touch"].data.net_forces_w[:, 0, 2], 2 * G, 2.0)
    scene.close()


# ---------------------------------------------------------------------- limits and errors
def test_what_is_drawn_is_the_surface(hill):
    (ground,) = [s for s in hill.engine.visual_shapes() if s.body is None]
    assert ground.kind == "mesh" and ground.size == () and len(ground.faces) == 2 * 48 * 48
    corners = np.asarray(ground.vertices) + np.asarray(ground.pos)
    assert corners[:, 2].max() == pytest.approx(0.5 + 5.0 * SLOPE, abs=1e-5)
    assert corners.min(axis=0) == pytest.approx([-6.0, -6.0, 0.5], abs=1e-5)


@pytest.mark.parametrize(
    "fields, message",
    [
        (
            {"size": (10.0, 10.05)},
            r"scene.ground.size\[1\] is 10.05 m, which is no whole number of cells of 0.1 m .* Try 10",
        ),
        ({"size": (10.0, -1.0)}, r"scene.ground.size\[1\] is -1.0; it must be a finite number above 0 \[m\]"),
        ({"size": 10.0}, r"scene.ground.size is 10.0; it must be 2 finite numbers"),
        ({"resolution": 0.0}, r"scene.ground.resolution is 0.0; .* above 0"),
        ({"resolution": 0.001}, r"scene.ground has 20001 x 20001 points; at most 4000000"),
        ({"friction": -1.0}, r"scene.ground.friction is -1.0"),
        ({"init_pos": (0.0, 0.0)}, r"scene.ground.init_pos is \(0.0, 0.0\)"),
        ({"color": (1, 2)}, r"scene.ground.color"),
        ({"generator": "rough"}, r"scene.ground.generator is 'rough'; give FlatTerrainCfg"),
        ({"generator": Ramp(wrong=True)}, r"generator gives heights of shape \(3,\); \(201, 201\)"),
        (
            {"generator": RandomRoughTerrainCfg(height_range=(1.0, 0.0))},
            r"generator.height_range is .* lower",
        ),
        ({"generator": RandomRoughTerrainCfg(spacing=0.01)}, r"generator.spacing is 0.01; .* 0.1 or more"),
        ({"generator": RandomRoughTerrainCfg(seed=-1)}, r"generator.seed is -1; it must be a whole number"),
        (
            {"generator": PyramidSlopeTerrainCfg(platform=30.0)},
            r"generator.platform is 30 m, but a pyramid is 20 m",
        ),
        (
            {"generator": PyramidStairsTerrainCfg(step_width=0.05)},
            r"generator.step_width is 0.05; .* 0.1 or more",
        ),
        (
            {"generator": PyramidSlopeTerrainCfg(inverted=1)},
            r"generator.inverted is 1; it must be true or false",
        ),
        ({"generator": NoHeights("a text")}, r"generator gives a str; heights of shape \(201, 201\)"),
        (
            {"generator": RandomRoughTerrainCfg((0.0, 1e6), step=1e-9)},
            r"generator.step is 1e-09 m, far too small",
        ),
        ({"generator": WaveTerrainCfg(wavelength=0.2)}, r"generator.wavelength is 0.2; .* 0.4 or more"),
        (
            {"prim_path": f"{NS}/ground"},
            r"scene.ground.prim_path is .*; a terrain is shared by all environments",
        ),
        (
            {"prim_path": "/World/floor"},
            r"scene.ground.prim_path '/World/floor' is that of another plane or terrain",
        ),
    ],
)
def test_bad_terrain_is_refused_by_name(fields: dict[str, Any], message: str):
    cfg = InteractiveSceneCfg()
    cfg.floor = PlaneCfg(prim_path="/World/floor")
    cfg.ground = TerrainCfg(**fields)
    cfg.ball = RigidObjectCfg(prim_path=f"{NS}/Ball", spawn=SphereCfg(radius=0.1))
    with pytest.raises(ValueError, match=message):
        InteractiveScene(cfg, NewtonCfg())


def test_terrain_smaller_than_the_environments_is_refused():
    cfg = InteractiveSceneCfg(num_envs=16, env_spacing=4.0)
    cfg.ground = TerrainCfg(size=(10.0, 10.0))
    cfg.ball = RigidObjectCfg(prim_path=f"{NS}/Ball", spawn=SphereCfg(radius=0.1))
    with pytest.raises(ValueError, match=r"scene.ground.size is \(10.0, 10.0\) m, .* 16 .* need 16 x 16 m"):
        InteractiveScene(cfg, NewtonCfg())
