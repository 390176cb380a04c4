# SPDX-License-Identifier: Apache-2.0
"""Contact points: where bodies touch, in world coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg

NS = "{ENV_REGEX_NS}"
E = 4


def points(body: str, *filters: str, **kw: Any) -> ContactSensorCfg:
    return ContactSensorCfg(
        prim_path=f"{NS}/{body}", filter_prim_paths_expr=list(filters), track_contact_points=True, **kw
    )


def body(name: str, spawn: Any, pos: tuple[float, float, float]) -> RigidObjectCfg:
    return RigidObjectCfg(prim_path=f"{NS}/{name}", spawn=spawn, init_pos=pos)


class PointsCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    ball = body("Ball", SphereCfg(radius=0.1, mass=1.0), (0.3, -0.2, 0.3))
    slab = body("Slab", CuboidCfg(size=(0.6, 0.4, 0.1), mass=5.0), (0, 1.5, 0.05))
    # Two feet under the heavy end, one under the light end: the mean of points is not the centre of force.
    stool = body(
        "Stool",
        [
            SphereCfg(radius=0.05, mass=1.0, pos=(-0.3, -0.2, 0)),
            SphereCfg(radius=0.05, mass=1.0, pos=(-0.3, 0.2, 0)),
            SphereCfg(radius=0.05, mass=0.1, pos=(0.3, 0.0, 0)),
        ],
        (0, -1.5, 0.05),
    )
    on_ball = points("Ball", "/World/ground", f"{NS}/Slab", f"{NS}/(Slab|Stool)", history_length=2)
    on_slab = points("Slab", "/World/ground", f"{NS}/Ball", f"{NS}/Stool", track_friction_forces=True)
    on_stool = points("Stool", "/World/ground")
    slow = points("Ball", "/World/ground", update_period=0.02)
    untracked = ContactSensorCfg(prim_path=f"{NS}/Ball", filter_prim_paths_expr=["/World/ground"])


@pytest.fixture(scope="module")
def built() -> Iterator[InteractiveScene]:
    scene = InteractiveScene(PointsCfg(num_envs=E, env_spacing=3.0), NewtonCfg())
    yield scene
    scene.close()


@pytest.fixture
def scene(built: InteractiveScene) -> InteractiveScene:
    built.reset()
    return built


def settle(scene: InteractiveScene, steps: int) -> None:
    for _ in range(steps):
        scene.step()


def place(scene: InteractiveScene, name: str, x: float, y: float, z: float, mask: Any = None) -> None:
    pose = scene[name].data.default_root_pose.torch.clone()
    pose[:, :3] = torch.tensor([x, y, z]) + scene.env_origins
    scene[name].write_root_pose(pose, mask)
    scene[name].write_root_velocity(torch.zeros(E, 6), mask)


def is_nan(value: torch.Tensor) -> bool:
    return bool(torch.isnan(torch.as_tensor(value)).all())


def test_a_ball_touches_under_its_centre_in_world_coordinates(scene: InteractiveScene) -> None:
    """In every environment; NaN before the first step, while it falls, and again after it has left."""
    pos = scene["on_ball"].data.contact_pos_w
    assert pos.shape == (E, 1, 3, 3) and is_nan(pos)
    settle(scene, 5)
    assert is_nan(pos), "it still falls"
    settle(scene, 150)
    centre = scene["ball"].data.root_pos_w
    assert float((scene.env_origins[3] - scene.env_origins[0]).norm()) > 3, "environment 3 lies elsewhere"
    torch.testing.assert_close(pos[:, 0, 0, :2], centre[:, :2], atol=1e-5, rtol=0)
    torch.testing.assert_close(
        pos[3, 0, 0, :2], scene.env_origins[3, :2] + torch.tensor([0.3, -0.2]), atol=1e-3, rtol=0
    )
    assert float(pos[:, 0, 0, 2].abs().max()) < 1e-3
    assert is_nan(pos[:, 0, 1:]), "columns of what it does not touch"
    place(scene, "ball", 0.3, -0.2, 1.0, torch.tensor([False, False, True, True]))
    scene.step()
    assert is_nan(pos[2:]) and not bool(torch.isnan(pos[:2, 0, 0]).any())


def test_a_box_reports_the_plain_mean_of_its_corners(scene: InteractiveScene) -> None:
    """Its centre, also with a ball on one end, which moves the centre of force but no corner."""
    settle(scene, 50)
    d = scene["on_slab"].data
    centre = scene["slab"].data.root_pos_w
    torch.testing.assert_close(d.contact_pos_w[:, 0, 0, :2], centre[:, :2], atol=1e-4, rtol=0)
    place(scene, "ball", 0.2, 1.6, 0.199)
    settle(scene, 30)
    mean = d.contact_pos_w[:, 0, 0]
    torch.testing.assert_close(mean[:, :2], centre[:, :2], atol=1e-4, rtol=0)
    # Two columns at once, each with its own point; the third touches nothing.
    ball = scene["ball"].data.root_pos_w
    torch.testing.assert_close(d.contact_pos_w[:, 0, 1, :2], ball[:, :2], atol=1e-4, rtol=0)
    assert float((d.contact_pos_w[:, 0, 1, 2] - 0.1).abs().max()) < 2e-3
    assert is_nan(d.contact_pos_w[:, 0, 2])
    assert bool((d.force_matrix_w[:, 0, :2].norm(dim=-1) > 1).all())
    # Seen from the ball it is the same point, once per column that names the slab.
    other = scene["on_ball"].data.contact_pos_w
    for column in (1, 2):
        assert torch.equal(other[:, 0, column], d.contact_pos_w[:, 0, 1]), column


def test_points_are_not_weighted_by_force(scene: InteractiveScene) -> None:
    """Three feet with different loads: the mean of the feet, not the point under the centre of mass."""
    settle(scene, 100)
    pos = scene["on_stool"].data.contact_pos_w[:, 0, 0] - scene.env_origins
    torch.testing.assert_close(pos[:, :2], torch.tensor([-0.1, -1.5]).expand(E, 2), atol=2e-3, rtol=0)
    com = (-0.3 * 2.0 + 0.3 * 0.1) / 2.1
    assert abs(com + 0.1) > 0.1


def test_a_tilted_box_touches_with_its_edge(scene: InteractiveScene) -> None:
    """A box that stands on one edge: the mean lies on that edge, not at its centre."""
    half = math.radians(20) / 2
    pose = scene["slab"].data.default_root_pose.torch.clone()
    pose[:, 3:] = torch.tensor([0.0, math.sin(half), 0.0, math.cos(half)])
    c, s = math.cos(2 * half), math.sin(2 * half)
    pose[:, 2] = 0.3 * s + 0.05 * c - 0.0005
    scene["slab"].write_root_pose(pose)
    scene.step()
    pos = scene["on_slab"].data.contact_pos_w[:, 0, 0]
    # The edge at +x of the body is the low one when it turns about +y.
    edge = pose[:, :3] + torch.tensor([0.3 * c - 0.05 * s, 0.0, -0.3 * s - 0.05 * c])
    torch.testing.assert_close(pos, edge, atol=2e-3, rtol=0)


def test_reset_makes_points_nan_in_the_chosen_environment_only(scene: InteractiveScene) -> None:
    settle(scene, 150)
    sensors = [scene[n].data.contact_pos_w for n in ("on_ball", "on_slab", "on_stool", "slow")]
    before = [s.torch.clone() for s in sensors]
    assert all(not torch.isnan(b[:, 0, 0]).any() for b in before)
    mask = torch.tensor([False, True, False, False])
    scene.reset(mask)
    for _ in range(2):  # reading changes nothing
        for now, old in zip(sensors, before):
            assert is_nan(now[1])
            assert torch.equal(torch.nan_to_num(now[~mask]), torch.nan_to_num(old[~mask]))
    settle(scene, 3)
    assert is_nan(sensors[0][1]), "the ball of that environment is in the air"
    assert not bool(torch.isnan(sensors[2][1]).any()), "the stool stands again"


def test_points_hold_between_samples_of_a_slow_sensor(scene: InteractiveScene) -> None:
    settle(scene, 148)
    pos = scene["slow"].data.contact_pos_w
    held = pos.torch.clone()
    assert not bool(torch.isnan(held).any())
    place(scene, "ball", 0.3, -0.2, 1.0)
    for _ in range(3):
        scene.step()
        assert torch.equal(pos.torch, held)
        assert is_nan(scene["on_ball"].data.contact_pos_w)
    scene.step()  # step 152, the next multiple of four
    assert is_nan(pos)


def test_points_are_none_unless_tracked_and_one_memory(scene: InteractiveScene) -> None:
    assert scene["untracked"].data.contact_pos_w is None
    pos = scene["on_ball"].data.contact_pos_w
    assert pos.torch.data_ptr() == pos.warp.ptr and pos.dtype == torch.float32


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_rows_without_force_are_no_points(cone: str) -> None:
    """A box that is pulled up until one edge lifts: only points that carry load count."""

    class LiftCfg(InteractiveSceneCfg):
        ground = PlaneCfg()
        slab = body("Slab", CuboidCfg(size=(0.6, 0.4, 0.1), mass=5.0), (0, 0, 0.05))
        on = points("Slab", "/World/ground")

    scene = InteractiveScene(LiftCfg(num_envs=1), NewtonCfg(cone=cone))
    settle(scene, 50)
    # A moment that unloads the edge at -x without lifting it off: m g 0.3 would tip the box.
    scene["slab"].set_external_wrench(torch.zeros(1, 3), torch.tensor([[0.0, 5 * 9.81 * 0.3 * 0.8, 0.0]]))
    settle(scene, 100)
    before = float(scene["on"].data.contact_pos_w[0, 0, 0, 0])
    assert before == pytest.approx(0.0, abs=1e-2), "all four corners are loaded"
    scene["slab"].set_external_wrench(torch.zeros(1, 3), torch.tensor([[0.0, 5 * 9.81 * 0.3 * 1.3, 0.0]]))
    seen = []
    for _ in range(20):
        scene.step()
        seen.append(float(scene["on"].data.contact_pos_w[0, 0, 0, 0]))
        if seen[-1] > 0.2:
            break
    assert seen[-1] == pytest.approx(0.3, abs=0.01), "the edge about which it tips"
    scene.close()
