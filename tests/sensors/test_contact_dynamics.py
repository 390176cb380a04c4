# SPDX-License-Identifier: Apache-2.0
"""Contact forces of moving bodies against Newton's laws, step by step, on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    CylinderCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg

G = 9.81
DT = 0.005
NS = "{ENV_REGEX_NS}"


def sensor(body: str, *filters: str, **kw: Any) -> ContactSensorCfg:
    return ContactSensorCfg(
        prim_path=f"{NS}/{body}", filter_prim_paths_expr=list(filters), track_friction_forces=True, **kw
    )


def body(name: str, spawn: Any, pos: tuple[float, float, float], **kw: Any) -> RigidObjectCfg:
    return RigidObjectCfg(prim_path=f"{NS}/{name}", spawn=spawn, init_pos=pos, **kw)


def settle(scene: InteractiveScene, steps: int) -> None:
    for _ in range(steps):
        scene.step()


def mean_forces(scene: InteractiveScene, name: str, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal and friction (E, 3) of the first sensing body, mean over some steps."""
    normal = friction = torch.zeros(scene.num_envs, 3)
    for _ in range(steps):
        scene.step()
        d = scene[name].data
        normal = normal + d.net_normal_forces_w[:, 0] / steps
        friction = friction + d.net_friction_forces_w[:, 0] / steps
    return normal, friction


# ---- one body on the ground, pushed and turned ----


class FloorCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.4)
    wall = PlaneCfg(
        friction=0.0,
        prim_path="/World/wall",
        init_pos=(-2.0, 0, 0),
        # Its normal is +x.
        init_rot=(0.0, math.sin(math.pi / 4), 0.0, math.cos(math.pi / 4)),
    )
    slab = body("Slab", CuboidCfg(size=(0.4, 0.4, 0.1), mass=2.0, friction=0.4), (0, 0, 0.05))
    disc = body("Disc", CylinderCfg(radius=0.2, height=0.1, mass=3.0, friction=0.4), (0, 2, 0.05))
    on_slab = sensor("Slab", "/World/ground", "/World/wall", "/World/(ground|wall)")
    on_disc = sensor("Disc", "/World/(ground|wall)")


@pytest.fixture(scope="module")
def floor(physics: Callable[..., Any]) -> Iterator[InteractiveScene]:
    scene = InteractiveScene(FloorCfg(num_envs=3, env_spacing=0.0), physics(dt=DT))
    yield scene
    scene.close()


def push(scene: InteractiveScene, *forces: tuple[float, float, float]) -> None:
    """One force for each environment, at the slab's centre of mass."""
    scene["slab"].set_external_wrench(torch.tensor(forces), torch.zeros(len(forces), 3))


def test_friction_equals_the_push_inside_the_cone(floor: InteractiveScene) -> None:
    """Held: friction is the push turned round. The normal force follows a vertical push."""
    floor.reset()
    settle(floor, 60)
    pushes = ((5.0, 0.0, 0.0), (0.0, -3.0, 0.0), (2.0, 2.0, 10.0))
    push(floor, *pushes)
    settle(floor, 60)
    start = floor["slab"].data.root_pos_w.torch.clone()
    normal, friction = mean_forces(floor, "on_slab", 40)
    force = torch.tensor(pushes)
    torch.testing.assert_close(friction[:, :2], -force[:, :2], atol=0.02, rtol=0)
    torch.testing.assert_close(normal[:, 2], 2 * G - force[:, 2], atol=0.05, rtol=0)
    moved = (floor["slab"].data.root_pos_w - start).norm(dim=-1)
    assert float(moved.max()) < 1e-3


def test_friction_is_mu_n_beyond_the_cone(floor: InteractiveScene) -> None:
    """Sliding: μN against the motion, N changed by the vertical part of the push; m·a is the rest of the push."""
    floor.reset()
    settle(floor, 60)
    pushes = ((12.0, 0.0, 0.0), (0.0, -10.0, 0.0), (9.0, 9.0, 8.0))
    push(floor, *pushes)
    settle(floor, 20)
    v0 = floor["slab"].data.root_lin_vel_w.torch.clone()
    normal, friction = mean_forces(floor, "on_slab", 60)
    force = torch.tensor(pushes)
    load = 2 * G - force[:, 2]
    along = force[:, :2] / force[:, :2].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(normal[:, 2], load, rtol=0.01, atol=0)
    torch.testing.assert_close(friction[:, :2], -0.4 * load[:, None] * along, rtol=0.01, atol=0.08)
    acceleration = (floor["slab"].data.root_lin_vel_w - v0)[:, :2] / (60 * DT)
    expected = (force[:, :2] - 0.4 * load[:, None] * along) / 2.0
    torch.testing.assert_close(acceleration, expected, rtol=0.01, atol=0.03)


def test_a_coasting_body_is_slowed_by_dry_friction(floor: InteractiveScene) -> None:
    """Left alone: μ g against the motion, at 0.3 m/s as at any speed; then it stops and does not turn back."""
    floor.reset()
    push(floor, *((0.0, 0.0, 0.0),) * 3)
    settle(floor, 60)
    along = torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [-0.6, 0.8, 0.0]])
    velocity = torch.zeros(3, 6)
    velocity[:, :3] = 0.6 * along
    floor["slab"].write_root_velocity(velocity)
    start = floor["slab"].data.root_pos_w.torch.clone()
    # Newton's normal force swings for some ten steps when a body starts to slide all at once.
    settle(floor, 13)
    before = floor["slab"].data.root_lin_vel_w.torch.clone()
    settle(floor, 4)
    after = floor["slab"].data.root_lin_vel_w.torch.clone()
    at = ((before + after) / 2 * along).sum(-1)
    torch.testing.assert_close(at, torch.full((3,), 0.3), atol=0.02, rtol=0)
    slowed = (before - after) / (4 * DT)
    torch.testing.assert_close((slowed * along).sum(-1), torch.full((3,), 0.4 * G), rtol=0.05, atol=0)
    torch.testing.assert_close(slowed[:, :2], 0.4 * G * along[:, :2], rtol=0.05, atol=0.01)
    assert float(slowed[:, 2].abs().max()) < 0.05 * G
    settle(floor, 90)
    assert float(floor["slab"].data.root_lin_vel_w.norm(dim=-1).max()) < 2e-3
    way = floor["slab"].data.root_pos_w - start
    # Soft friction lets it coast a little further than v² / 2 μ g: half of μ g (0.047 s)².
    dry = 0.6**2 / (2 * 0.4 * G)
    torch.testing.assert_close((way * along).sum(-1), torch.full((3,), dry), rtol=0.12, atol=0)
    sideways = way - (way * along).sum(-1, keepdim=True) * along
    assert float(sideways[:, :2].norm(dim=-1).max()) < 1e-3


def test_a_wall_and_the_floor_are_columns_and_one_expression_sums_them(floor: InteractiveScene) -> None:
    """Pressed against the wall: it pushes back along its normal, the floor carries, all of it sums to the load."""
    floor.reset()
    pose = floor["slab"].data.default_root_pose.torch.clone()
    pose[:, 0] = -1.8
    floor["slab"].write_root_pose(pose)
    push(floor, *((-20.0, 0.0, 0.0),) * 3)
    settle(floor, 200)
    d = floor["on_slab"].data
    normal, matrix, net = d.normal_force_matrix_w[:, 0], d.force_matrix_w[:, 0], d.net_forces_w[:, 0]
    assert float(normal[:, 0, :2].abs().max()) < 1e-3 and float(normal[:, 1, 1:].abs().max()) < 1e-3
    assert float(normal[:, 1, 0].min()) > 20 - 0.4 * 2 * G - 0.1, "friction on the floor takes a part at most"
    assert float(d.friction_force_matrix_w[:, 0, 1, 0].abs().max()) < 1e-3
    torch.testing.assert_close(matrix[:, 2], matrix[:, 0] + matrix[:, 1], atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(net, matrix[:, 2], atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(net, torch.tensor([20.0, 0.0, 2 * G]).expand(3, 3), atol=0.05, rtol=0)


def test_a_spinning_disc_is_slowed_by_friction_that_sums_to_nothing(floor: InteractiveScene) -> None:
    """Friction turns against the spin: its forces cancel, its torque does not. The normal force is the weight."""
    floor.reset()
    settle(floor, 40)
    spin = torch.zeros(3, 6)
    spin[:, 5] = torch.tensor([10.0, -10.0, 0.0])
    floor["disc"].write_root_velocity(spin)
    speeds, frictions = [spin[:, 5]], []
    for _ in range(30):
        floor.step()
        speeds.append(floor["disc"].data.root_ang_vel_w[:, 2].clone())
        frictions.append(floor["on_disc"].data.net_friction_forces_w[:, 0].clone())
    normal, _ = mean_forces(floor, "on_disc", 40)
    assert float(torch.stack(frictions).mean(0).norm(dim=-1).max()) < 0.03 * 0.4 * 3 * G
    torch.testing.assert_close(normal[:, 2], torch.full((3,), 3 * G), rtol=0.01, atol=0)
    speed = torch.stack(speeds).abs()
    assert bool((speed[1:6, :2] < speed[:5, :2]).all()), "slower at every step"
    # Between all the load at the rim, and all of it at half the radius.
    slowed = (speed[0, :2] - speed[10, :2]) / (10 * DT)
    assert bool((slowed < 1.1 * 2 * 0.4 * G / 0.2).all()) and bool((slowed > 0.5 * 2 * 0.4 * G / 0.2).all())
    assert float(speed[:, 2].max()) < 0.02


class MixedCfg(InteractiveSceneCfg):
    """Three sliders with coefficients of their own; two planes; one slider of two parts."""

    ground = PlaneCfg(friction=0.2)
    wall = PlaneCfg(
        friction=0.9, prim_path="/World/wall", init_pos=(-5.0, 0, 0), init_rot=(0, 0.7071, 0, 0.7071)
    )
    slow = body("Slow", CuboidCfg(size=(0.3, 0.3, 0.1), mass=1.0, friction=0.8), (0, 0, 0.05))
    parts = body(
        "Parts",
        [
            CuboidCfg(size=(0.1, 0.1, 0.1), mass=0.5, friction=0.4, pos=(0, -0.1, 0)),
            CuboidCfg(size=(0.1, 0.1, 0.1), mass=0.5, friction=0.4, pos=(0, 0.1, 0)),
        ],
        (0, 1, 0.05),
    )
    fast = body("Fast", CuboidCfg(size=(0.3, 0.3, 0.1), mass=1.0, friction=0.0), (0, 2, 0.05))
    on_slow = sensor("Slow")
    on_parts = sensor("Parts")
    on_fast = sensor("Fast")


def test_every_pair_slides_with_its_own_coefficient(physics: Callable[..., Any]) -> None:
    """The mean of the two surfaces, for the pair that touches and no other; after a write as well."""
    scene = InteractiveScene(MixedCfg(num_envs=2), physics(dt=DT))
    force = torch.zeros(2, 3)
    force[:, 0] = 9.0

    def ratios(name: str) -> list[float]:
        scene.reset()
        settle(scene, 40)
        scene[name].set_external_wrench(force, torch.zeros(2, 3))
        settle(scene, 20)
        normal, friction = mean_forces(scene, f"on_{name}", 40)
        return (friction.norm(dim=-1) / normal.norm(dim=-1)).tolist()

    for name, coefficient in (("slow", 0.5), ("parts", 0.3), ("fast", 0.1)):
        assert ratios(name) == pytest.approx([coefficient] * 2, rel=0.03), name
    bodies = len(scene["parts"].body_names)
    scene["parts"].write_friction(torch.full((2, bodies), 0.6), torch.tensor([False, True]))
    for name, coefficients in (("slow", [0.5, 0.5]), ("parts", [0.3, 0.4]), ("fast", [0.1, 0.1])):
        assert ratios(name) == pytest.approx(coefficients, rel=0.03), name
    scene.close()


# ---- several bodies that collide ----


class PileCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.6)
    slab = body("Slab", CuboidCfg(size=(0.5, 0.5, 0.1), mass=4.0, friction=0.6), (0, 0, 0.05))
    ball = body("Ball", SphereCfg(radius=0.1, mass=1.0, friction=0.6), (0.05, 0.02, 0.5))
    bone = body(
        "Bone",
        [
            SphereCfg(radius=0.08, mass=0.5, pos=(-0.15, 0, 0), friction=0.6),
            SphereCfg(radius=0.08, mass=0.5, pos=(0.15, 0, 0), friction=0.6),
            CylinderCfg(radius=0.03, height=0.3, mass=0.2, rot=(0, math.sqrt(0.5), 0, math.sqrt(0.5))),
        ],
        (0.0, 0.0, 0.8),
        init_ang_vel=(0.0, 2.0, 1.0),
    )
    on_slab = sensor("Slab", "/World/ground", f"{NS}/Ball", f"{NS}/Bone", f"{NS}/B.*", f"{NS}/.*")
    on_ball = sensor("Ball", "/World/ground", f"{NS}/Slab", f"{NS}/Bone")
    on_bone = sensor("Bone", "/World/ground", f"{NS}/Slab", f"{NS}/Ball")


@pytest.fixture(scope="module")
def pile(physics: Callable[..., Any]) -> Iterator[InteractiveScene]:
    scene = InteractiveScene(PileCfg(num_envs=3), physics(dt=DT))
    yield scene
    scene.close()


def throw(scene: InteractiveScene) -> None:
    """Another throw in every environment."""
    scene.reset()
    for name, across in (("ball", 0.6), ("bone", -0.4)):
        vel = torch.zeros(3, 6)
        vel[:, 0] = torch.tensor([0.0, across, -across])
        vel[:, 4] = torch.tensor([0.0, 3.0, -5.0])
        scene[name].write_root_velocity(vel)


MASS = {"slab": 4.0, "ball": 1.0, "bone": 1.2}


def test_net_force_is_mass_times_acceleration_at_every_step(pile: InteractiveScene) -> None:
    """m·Δv/dt = m·g + Σ contact forces, for each body by itself while they fall upon one another."""
    throw(pile)
    gravity = torch.tensor([0.0, 0.0, -G])
    before = {name: pile[name].data.root_lin_vel_w.torch.clone() for name in MASS}
    impulse = {name: torch.zeros(3, 3) for name in MASS}
    start = {name: v.clone() for name, v in before.items()}
    largest = 0.0
    for i in range(160):
        pile.step()
        for name, mass in MASS.items():
            now = pile[name].data.root_lin_vel_w.torch.clone()
            force = pile[f"on_{name}"].data.net_forces_w[:, 0]
            expected = mass * ((now - before[name]) / DT - gravity)
            before[name] = now
            impulse[name] += force * DT
            largest = max(largest, float(force.norm(dim=-1).max()))
            torch.testing.assert_close(
                force, expected, rtol=1e-3, atol=0.02, msg=lambda m, at=f"{name}, step {i}": f"{at}: {m}"
            )
    assert largest > 100, "they hit hard"
    for name, mass in MASS.items():
        expected = mass * (before[name] - start[name] - gravity * 160 * DT)
        torch.testing.assert_close(impulse[name], expected, rtol=1e-3, atol=2e-3)


def test_action_equals_reaction_and_columns_add_up(pile: InteractiveScene) -> None:
    """Each pair's two readings are opposite; columns over all partners sum to the net force; part by part."""
    throw(pile)
    touched = torch.zeros(3)
    for _ in range(160):
        pile.step()
        slab, ball, bone = (pile[f"on_{name}"].data for name in MASS)
        for kind in ("force_matrix_w", "normal_force_matrix_w", "friction_force_matrix_w"):
            s, a, o = (getattr(d, kind)[:, 0] for d in (slab, ball, bone))
            for left, right in ((s[:, 1], a[:, 1]), (s[:, 2], o[:, 1]), (a[:, 2], o[:, 2])):
                torch.testing.assert_close(left, -right, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(s[:, 3], s[:, 1] + s[:, 2], rtol=1e-4, atol=1e-4)
            # Its own path is among those that the expression matches, and adds nothing.
            torch.testing.assert_close(s[:, 4], s[:, 3], rtol=1e-4, atol=1e-4)
            net = kind.replace("_force_matrix_w", "_forces_w").replace("force_matrix_w", "forces_w")
            for d, m in ((slab, s[:, :3]), (ball, a), (bone, o)):
                torch.testing.assert_close(getattr(d, f"net_{net}")[:, 0], m.sum(1), rtol=1e-4, atol=1e-3)
            touched += torch.tensor([float(x.norm(dim=-1).sum()) for x in (s[:, 1], s[:, 2], a[:, 2])])
        for d in (slab, ball, bone):
            total = d.normal_force_matrix_w + d.friction_force_matrix_w
            assert torch.equal(d.force_matrix_w.torch, total)
    assert float(touched.min()) > 0, "every pair met"


def test_partners_with_several_colliders_are_one_column(pile: InteractiveScene) -> None:
    """The bone at rest on the slab: two balls and a rod, one column with its whole weight."""
    pile.reset()
    pose = pile["bone"].data.default_root_pose.torch.clone()
    pose[:, 2] = 0.1 + 0.08
    away = pile["ball"].data.default_root_pose.torch.clone()
    away[:, 0] += 1.0
    pile["bone"].write_root_pose(pose)
    pile["bone"].write_root_velocity(torch.zeros(3, 6))
    pile["ball"].write_root_pose(away)
    settle(pile, 200)
    matrix = pile["on_slab"].data.force_matrix_w[:, 0]
    weight = torch.tensor([5.2 * G, 0.0, -1.2 * G, -1.2 * G, -1.2 * G])
    torch.testing.assert_close(matrix[..., 2], weight.expand(3, 5), atol=0.1, rtol=0.01)


class ShelfCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    shelf = body("Shelf", CuboidCfg(size=(0.4, 0.4, 0.1), fixed=True), (0, 0, 0.5))
    ball = body("Ball", SphereCfg(radius=0.1, mass=3.0), (0.0, 0.0, 0.65))
    on_shelf = sensor("Shelf", f"{NS}/Ball", "/World/ground")


def test_an_immovable_body_feels_what_lies_on_it(physics: Callable[..., Any]) -> None:
    scene = InteractiveScene(ShelfCfg(num_envs=2), physics(dt=DT))
    settle(scene, 100)
    d = scene["on_shelf"].data
    torch.testing.assert_close(d.net_forces_w[:, 0, 2], torch.full((2,), -3 * G), rtol=2e-3, atol=0)
    torch.testing.assert_close(d.force_matrix_w[:, :, 0], d.net_forces_w.torch)
    assert not d.force_matrix_w[:, :, 1].any()
    scene.close()


# ---- a robot ----


class StandCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.8)
    robot = ArticulationCfg(
        prim_path=f"{NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.51),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.30},
        actuators={"legs": PdActuatorCfg(stiffness=800.0, damping=20.0)},
    )
    feet = sensor("Robot/.*_FOOT")
    rest = sensor("Robot/(base|.*_(HIP|THIGH|SHANK))")
    front_left = sensor("Robot/LF_FOOT", "/World/ground", f"{NS}/Robot/.*")
    shank = sensor("Robot/base/LF_HIP/LF_THIGH/LF_SHANK", "/World/ground")


def test_welded_feet_carry_the_robot_and_the_shanks_nothing(physics: Callable[..., Any]) -> None:
    """A foot welded to its shank is a body of its own: contact forces are not passed on."""
    scene = InteractiveScene(StandCfg(num_envs=2), physics(dt=DT))
    settle(scene, 600)
    weight = float(scene["robot"].data.body_mass[0].sum()) * G
    feet, rest = scene["feet"], scene["rest"]
    assert feet.num_bodies == 4 and rest.num_bodies == 13
    total = feet.data.net_forces_w.sum(1)
    torch.testing.assert_close(
        total, torch.tensor([0.0, 0.0, weight]).expand(2, 3), atol=0.005 * weight, rtol=0
    )
    assert float(feet.data.net_forces_w[..., 2].min()) > 0.15 * weight
    assert float(rest.data.net_forces_w.torch.abs().max()) == 0.0
    one = scene["front_left"].data
    torch.testing.assert_close(one.force_matrix_w[:, :, 0], one.net_forces_w.torch, rtol=1e-5, atol=1e-4)
    assert float(one.force_matrix_w[:, :, 1].abs().max()) == 0.0
    assert float(scene["shank"].data.force_matrix_w.torch.abs().max()) == 0.0
    scene.close()
