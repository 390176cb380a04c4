# SPDX-License-Identifier: Apache-2.0
"""What every engine promises through :mod:`forcelab.physics.engine`, on real physics."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from forcelab.physics import (
    ArticulationDesc,
    ContactQuery,
    ContactReader,
    Engine,
    JointDriveDesc,
    JointWrenchReader,
    PhysicsCfg,
    RigidBodyDesc,
    SceneDesc,
    ShapeDesc,
    StaticDesc,
)

HERE = Path(__file__).parent
G = 9.81
GROUND = StaticDesc("/World/ground", (ShapeDesc("plane", friction=0.8),))
E = 11


def origins(count: int, step: float) -> np.ndarray:
    return np.array([[i * step, 0.0, 0.0] for i in range(count)], dtype=np.float32)


def about(axis: str, angle: float) -> tuple[float, float, float, float]:
    v = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}[axis]
    return (*(c * math.sin(angle / 2) for c in v), math.cos(angle / 2))  # type: ignore[return-value]


def rotate(quat: torch.Tensor, vec: torch.Tensor) -> torch.Tensor:
    u, w = quat[..., :3], quat[..., 3:]
    t = 2 * torch.linalg.cross(u, vec)
    return vec + w * t + torch.linalg.cross(u, t)


def unrotate(quat: torch.Tensor, vec: torch.Tensor) -> torch.Tensor:
    return rotate(quat * torch.tensor([-1.0, -1.0, -1.0, 1.0]), vec)


def steps(engine: Engine, count: int) -> None:
    for _ in range(count):
        engine.step()


def restore(engine: Engine) -> None:
    """Every state and command at its default."""
    rest = torch.as_tensor(np.asarray(engine.desc.env_origins), dtype=torch.float32)
    for desc in (*engine.desc.articulations, *engine.desc.rigid_bodies):
        tree = engine.trees[desc.path]
        if tree.joint_names:
            pos = tree.default_joint_pos.expand(engine.num_envs, -1)
            engine.write_joint_state(desc.path, pos, torch.zeros_like(tree.joint_vel))
            tree.joint_pos_target.copy_(pos)
            tree.joint_vel_target.zero_()
            tree.joint_effort.zero_()
        pose = torch.tensor([*desc.pos, *desc.quat]).repeat(engine.num_envs, 1)
        pose[:, :3] += rest
        if not tree.fixed_base:
            engine.write_root_pose(desc.path, pose)
            engine.write_root_velocity(desc.path, torch.zeros(engine.num_envs, 6))
        tree.external_force.zero_()
        tree.external_torque.zero_()
    engine.reset()
    engine.update_kinematics()


def body(engine: Engine, path: str) -> torch.Tensor:
    return engine.body_pose[:, engine.body_paths.index(path)]


def only(*envs: int, count: int = E) -> torch.Tensor:
    mask = torch.zeros(count, dtype=torch.bool)
    mask[list(envs)] = True
    return mask


# ---- boxes: eleven environments so close together that they overlap ----


class Boxes:
    def __init__(self, cfg: PhysicsCfg):
        box = ShapeDesc("box", (0.5, 0.5, 0.3), friction=0.8, mass=5.0)
        small = ShapeDesc("box", (0.3, 0.3, 0.3), friction=0.8, mass=2.0)
        # Centre of mass away from the frame's origin.
        odd = (
            ShapeDesc("sphere", (0.1,), pos=(0.3, 0.0, 0.0), mass=3.0),
            ShapeDesc("sphere", (0.1,), pos=(-0.1, 0.2, 0.1), mass=1.0),
        )
        desc = SceneDesc(
            E,
            origins(E, 0.1),
            rigid_bodies=(
                RigidBodyDesc("Low", (box,), pos=(0, 0, 0.16)),
                RigidBodyDesc("Top", (small,), pos=(0, 0, 0.47)),
                RigidBodyDesc("Odd", odd, pos=(0, 3, 5)),
                RigidBodyDesc("Feather", (ShapeDesc("sphere", (0.05,), mass=0.05),), pos=(0, -3, 0.06)),
                RigidBodyDesc(
                    "Shelf", (ShapeDesc("box", (0.4, 0.4, 0.1), friction=0.8),), pos=(3, 0, 1), fixed=True
                ),
            ),
            statics=(GROUND,),
        )
        self.engine = cfg.create(desc, "cpu")
        add = self.engine.add_contact_reader
        self.all = add(ContactQuery(("Feather", "Top", "Low")))
        columns = (("/World/ground",), ("Top",), ("Top", "/World/ground"), ("Feather",))
        self.low = add(ContactQuery(("Low",), columns))
        self.top = add(ContactQuery(("Top",), (("Shelf",),)))
        self.engine.start()


@pytest.fixture(scope="module")
def boxes(physics_cfg: PhysicsCfg) -> Iterator[Boxes]:
    scene = Boxes(physics_cfg)
    yield scene
    scene.engine.close()
    scene.engine.close()


def test_resting_boxes_read_their_load(boxes: Boxes) -> None:
    engine = boxes.engine
    restore(engine)
    steps(engine, 300)
    total = boxes.all.normal + boxes.all.friction
    load = torch.tensor([0.05 * G, 2 * G, 5 * G])
    assert total.shape == (E, 3, 3)
    # Every environment, although all overlap: environments do not touch one another.
    torch.testing.assert_close(total[..., 2], load.expand(E, 3), rtol=2e-3, atol=2e-3)
    assert total[..., :2].abs().max() < 0.05
    matrix = boxes.low.normal_matrix
    assert matrix is not None and boxes.low.friction_matrix is not None
    expected = torch.tensor([7 * G, -2 * G, 5 * G, 0.0]).expand(E, 4)
    torch.testing.assert_close(matrix[:, 0, :, 2], expected, rtol=2e-3, atol=1e-2)
    assert boxes.low.friction_matrix.shape == (E, 1, 4, 3)


def test_environments_come_in_numeric_order(boxes: Boxes) -> None:
    engine = boxes.engine
    restore(engine)
    i = torch.arange(E, dtype=torch.float32)
    pose = body(engine, "Top").clone()
    pose[:, 2] = 1.0 + 0.2 * i
    engine.write_root_pose("Top", pose)
    engine.update_kinematics()
    torch.testing.assert_close(body(engine, "Top"), pose)
    torch.testing.assert_close(body(engine, "Low")[:, 0], 0.1 * i)
    # Falls of different heights: environment by environment the ground is reached later.
    impact = torch.full((E,), -1)
    for k in range(250):
        engine.step()
        touching = (boxes.all.normal[:, 1, 2] > 0) & (impact < 0)
        impact = torch.where(touching, torch.tensor(k), impact)
    fall = torch.sqrt(2 * (1.0 + 0.2 * i - 0.45) / G) / engine.dt
    assert (impact.float() - fall).abs().max() <= 3


def test_fixed_body_holds_and_is_a_partner(boxes: Boxes) -> None:
    engine = boxes.engine
    restore(engine)
    pose = body(engine, "Shelf").clone()
    pose[:, 2] += 0.201
    engine.write_root_pose("Top", pose)
    engine.write_root_velocity("Top", torch.zeros(E, 6))
    steps(engine, 200)
    assert engine.trees["Shelf"].fixed_base
    torch.testing.assert_close(body(engine, "Shelf")[:, 2], torch.ones(E))
    assert boxes.top.normal_matrix is not None
    torch.testing.assert_close(
        boxes.top.normal_matrix[:, 0, 0, 2], torch.full((E,), 2 * G), rtol=2e-3, atol=1e-2
    )


def test_masked_writes_touch_only_their_environments(boxes: Boxes) -> None:
    engine = boxes.engine
    restore(engine)
    steps(engine, 50)
    before_pose, before_vel = engine.body_pose.clone(), engine.body_vel.clone()
    mask = only(2, 10)
    pose = torch.tensor([0.5, 0.2, 3.0, *about("z", 0.7)]).repeat(E, 1)
    vel = torch.tensor([1.0, 2.0, 3.0, 0.4, 0.5, 0.6]).repeat(E, 1)
    engine.write_root_pose("Odd", pose, mask)
    engine.write_root_velocity("Odd", vel, mask)
    assert engine.stale
    engine.update_kinematics()
    k = engine.body_paths.index("Odd")
    torch.testing.assert_close(engine.body_pose[mask, k], pose[mask])
    # The velocity is that of the frame's origin, not of the centre of mass.
    torch.testing.assert_close(engine.body_vel[mask, k], vel[mask], atol=1e-5, rtol=1e-5)
    assert torch.equal(engine.body_pose[~mask], before_pose[~mask])
    others = [j for j in range(len(engine.body_paths)) if j != k]
    assert torch.equal(engine.body_pose[:, others], before_pose[:, others])
    torch.testing.assert_close(engine.body_vel[~mask], before_vel[~mask], atol=1e-6, rtol=0)
    engine.reset(mask)
    engine.update_kinematics()
    torch.testing.assert_close(engine.body_pose[mask, k], pose[mask])


def test_velocity_is_that_of_the_origin(boxes: Boxes) -> None:
    engine = boxes.engine
    restore(engine)
    vel = torch.tensor([0.3, 0.0, 4.0, 0.0, 0.0, 3.0]).repeat(E, 1)
    engine.write_root_velocity("Odd", vel)
    engine.step()
    k = engine.body_paths.index("Odd")
    before = engine.body_pose[:, k, :3].clone()
    v0 = engine.body_vel[:, k, :3].clone()
    engine.step()
    moved = (engine.body_pose[:, k, :3] - before) / engine.dt
    torch.testing.assert_close(moved, 0.5 * (v0 + engine.body_vel[:, k, :3]), atol=0.04, rtol=0)


def test_external_wrench_acts_at_the_centre_of_mass(boxes: Boxes) -> None:
    engine = boxes.engine
    restore(engine)
    tree = engine.trees["Odd"]
    mask = only(3)
    tree.external_force[mask, 0] = torch.tensor([0.0, 0.0, 4.0 * G])
    steps(engine, 20)
    k = engine.body_paths.index("Odd")
    # Held against gravity without turning; the others fall.
    assert engine.body_vel[mask, k].abs().max() < 1e-3
    torch.testing.assert_close(
        engine.body_vel[~mask, k, 2], torch.full((E - 1,), -G * 0.1), rtol=1e-3, atol=1e-3
    )
    tree.external_force.zero_()
    tree.external_torque[mask, 0] = torch.tensor([0.0, 0.0, 1.0])
    steps(engine, 20)
    assert (engine.body_vel[mask, k, 5] > 0.2).all() and engine.body_vel[~mask, k, 3:].abs().max() < 1e-4
    tree.external_torque.zero_()


def test_mass_write(boxes: Boxes) -> None:
    engine = boxes.engine
    restore(engine)
    mass = engine.trees["Top"].body_mass.clone()
    mask = only(1)
    engine.write_body_mass("Top", mass * 2, mask)
    try:
        steps(engine, 300)
        expected = torch.where(mask, 4 * G, 2 * G)
        torch.testing.assert_close(boxes.all.normal[:, 1, 2], expected, rtol=3e-3, atol=1e-2)
        torch.testing.assert_close(engine.trees["Top"].body_mass[:, 0], expected / G)
    finally:
        engine.write_body_mass("Top", mass)


def test_wrong_names_are_errors_with_near_names(boxes: Boxes) -> None:
    with pytest.raises((KeyError, RuntimeError)):
        boxes.engine.add_contact_reader(ContactQuery(("Lowe",)))


def test_visual_shapes(boxes: Boxes) -> None:
    shapes = {s.body: s for s in boxes.engine.visual_shapes()}
    assert shapes["Low"].kind == "box" and shapes["Low"].size == pytest.approx((0.25, 0.25, 0.15))
    assert shapes[None].kind == "plane"


# ---- 20 degree slope ----

SLOPE = math.radians(20)


@pytest.fixture(scope="module")
def slope(physics_cfg: PhysicsCfg) -> Iterator[tuple[Engine, ContactReader]]:
    # The coefficient of a pair is the mean of both: 0.8 and 0.2 against a plane of 0.2.
    def box(friction: float) -> tuple[ShapeDesc, ...]:
        return (ShapeDesc("box", (0.2, 0.2, 0.2), friction=friction, mass=2.0),)

    turn = about("y", SLOPE)
    height = 0.1005 / math.cos(SLOPE)
    desc = SceneDesc(
        2,
        origins(2, 0.0),
        rigid_bodies=(
            RigidBodyDesc("Stick", box(1.4), pos=(0, 0, height), quat=turn),
            RigidBodyDesc("Slide", box(0.2), pos=(0, 1, height), quat=turn),
        ),
        statics=(StaticDesc("/World/ramp", (ShapeDesc("plane", friction=0.2),), quat=turn),),
    )
    engine = physics_cfg.create(desc, "cpu")
    reader = engine.add_contact_reader(ContactQuery(("Stick", "Slide")))
    engine.start()
    yield engine, reader
    engine.close()


def mean_forces(engine: Engine, reader: ContactReader, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    normal, friction = torch.zeros_like(reader.normal), torch.zeros_like(reader.friction)
    for _ in range(count):
        engine.step()
        normal += reader.normal / count
        friction += reader.friction / count
    return normal, friction


def test_slope(slope: tuple[Engine, ContactReader]) -> None:
    engine, reader = slope
    restore(engine)
    steps(engine, 100)
    v0 = engine.body_vel[..., :3].clone()
    normal, friction = mean_forces(engine, reader, 40)
    acceleration = (engine.body_vel[..., :3] - v0).norm(dim=-1) / (40 * engine.dt)
    n, sticking, sliding = 2 * G * math.cos(SLOPE), 2 * G * math.sin(SLOPE), 0.2 * 2 * G * math.cos(SLOPE)
    torch.testing.assert_close(normal.norm(dim=-1), torch.full((2, 2), n), rtol=5e-3, atol=0)
    torch.testing.assert_close(friction[:, 0].norm(dim=-1), torch.full((2,), sticking), rtol=5e-3, atol=0)
    torch.testing.assert_close(friction[:, 1].norm(dim=-1), torch.full((2,), sliding), rtol=5e-3, atol=0)
    total = normal[:, 0] + friction[:, 0]
    torch.testing.assert_close(total, torch.tensor([0.0, 0.0, 2 * G]).expand(2, 3), rtol=5e-3, atol=0.05)
    torch.testing.assert_close(acceleration[:, 1], torch.full((2,), 1.512), rtol=1e-2, atol=0)
    assert acceleration[:, 0].max() < 0.01


def test_friction_write_is_masked(slope: tuple[Engine, ContactReader]) -> None:
    engine, reader = slope
    restore(engine)
    tree = engine.trees["Stick"]
    before = tree.body_friction.clone()
    mask = only(1, count=2)
    engine.write_friction("Stick", torch.full((2, 1), 0.2), mask)
    try:
        torch.testing.assert_close(tree.body_friction[:, 0], torch.tensor([1.4, 0.2]))
        steps(engine, 100)
        _, friction = mean_forces(engine, reader, 40)
        size = friction[:, 0].norm(dim=-1)
        torch.testing.assert_close(size, torch.tensor([6.710, 3.687]), rtol=5e-3, atol=0)
    finally:
        engine.write_friction("Stick", before)


# ---- arms on a fixed base, a pendulum on the world ----


class Arms:
    KP, KD = 400.0, 60.0
    #: About the mast's axis: box, offset, rotor.
    MAST_INERTIA = 1.0 * (0.2**2 + 0.1**2) / 12 + 1.0 * 0.2**2 + 0.01

    def __init__(self, cfg: PhysicsCfg):
        held = JointDriveDesc(driven=True, stiffness=self.KP, damping=self.KD)
        desc = SceneDesc(
            2,
            origins(2, 3.0),
            articulations=(
                ArticulationDesc(
                    "Arms",
                    str(HERE / "arms.xml"),
                    pos=(0, 0, 0.5),
                    joint_pos={"arm_joint": 0.2},
                    drives={
                        "arm_joint": held,
                        "skew_joint": held,
                        "mast_joint": JointDriveDesc(driven=True, effort_limit=2.0),
                    },
                ),
                ArticulationDesc("Pendulum", str(HERE / "pendulum.xml"), pos=(0, 2, 2)),
            ),
        )
        self.engine = cfg.create(desc, "cpu")
        self.wrench = self.engine.add_joint_wrench_reader("Arms")
        self.pendulum = self.engine.add_joint_wrench_reader("Pendulum")
        self.engine.start()

    def read(self, reader: JointWrenchReader, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        k = reader.body_names.index(name)
        return reader.force[:, k], reader.torque[:, k]


@pytest.fixture(scope="module")
def arms(physics_cfg: PhysicsCfg) -> Iterator[Arms]:
    scene = Arms(physics_cfg)
    yield scene
    scene.engine.close()


def statics(
    engine: Engine, loads: list[tuple[str, float]], child: str, anchor: tuple[float, ...]
) -> torch.Tensor:
    """(E, 6) wrench that holds ``loads`` (body, mass) still at the joint of ``child``, in its frame."""
    pose = body(engine, child)
    at = pose[:, :3] + rotate(pose[:, 3:], torch.tensor(anchor).expand(engine.num_envs, 3))
    force = torch.zeros(engine.num_envs, 3)
    torque = torch.zeros(engine.num_envs, 3)
    for path, mass in loads:
        tree = engine.trees[path.split("/")[0]]
        com = tree.body_com[tree.body_names.index(path.split("/")[1])]
        p = body(engine, path)
        arm = p[:, :3] + rotate(p[:, 3:], com.expand(engine.num_envs, 3)) - at
        up = torch.tensor([0.0, 0.0, mass * G]).expand(engine.num_envs, 3)
        force += up
        torque += torch.linalg.cross(arm, up)
    return torch.cat([unrotate(pose[:, 3:], force), unrotate(pose[:, 3:], torque)], dim=-1)


def test_order_of_bodies_and_joints_is_the_files(arms: Arms) -> None:
    tree = arms.engine.trees["Arms"]
    assert tree.body_names == ["pedestal", "arm", "tool", "skew", "mast"]
    assert tree.joint_names == ["arm_joint", "skew_joint", "mast_joint"]
    assert arms.engine.trees["Pendulum"].joint_names == ["swing", "rod"]
    assert arms.engine.body_paths[1] == "Arms/arm"
    assert arms.engine.body_tree_paths[2] == "Arms/pedestal/arm/tool"
    assert tree.fixed_base
    torch.testing.assert_close(tree.default_joint_pos, torch.tensor([0.2, 0.0, 0.0]))
    torch.testing.assert_close(tree.body_mass[0], torch.tensor([5.0, 2.0, 0.5, 1.5, 1.0]))
    torch.testing.assert_close(arms.engine.trees["Pendulum"].joint_pos_limits[1], torch.tensor([-0.1, 0.1]))


def test_joint_wrench_of_a_held_arm(arms: Arms) -> None:
    engine = arms.engine
    restore(engine)
    steps(engine, 400)
    assert engine.trees["Arms"].joint_vel[:, :2].abs().max() < 1e-3
    for name, loads, anchor in (
        ("arm", [("Arms/arm", 2.0), ("Arms/tool", 0.5)], (0.0, 0.0, 0.0)),
        ("tool", [("Arms/tool", 0.5)], (0.0, 0.0, 0.0)),
        ("skew", [("Arms/skew", 1.5)], (0.05, 0.0, 0.02)),
    ):
        force, torque = arms.read(arms.wrench, name)
        expected = statics(engine, loads, f"Arms/{name}", anchor)
        torch.testing.assert_close(force, expected[:, :3], rtol=2e-3, atol=5e-3)
        torch.testing.assert_close(torque, expected[:, 3:], rtol=2e-3, atol=5e-3)
        weight = sum(m for _, m in loads) * G
        torch.testing.assert_close(force.norm(dim=-1), torch.full((2,), weight), rtol=2e-3, atol=0)
    # Turned by 90 degrees: gravity lies along the joint frame's y axis, not its z axis.
    force, _ = arms.read(arms.wrench, "arm")
    assert force[:, 2].abs().max() < 1e-2


def test_drive_holds_its_target(arms: Arms) -> None:
    engine, tree = arms.engine, arms.engine.trees["Arms"]
    restore(engine)
    tree.joint_pos_target[:, 0] = torch.tensor([0.5, -0.4])
    steps(engine, 500)
    _, torque = arms.read(arms.wrench, "arm")
    # kp (target - q) is what the joint transmits about its axis.
    sag = torque[:, 2] / arms.KP
    torch.testing.assert_close(tree.joint_pos[:, 0], torch.tensor([0.5, -0.4]) - sag, atol=1e-3, rtol=0)
    assert sag.abs().max() > 1e-3


def test_gains_and_efforts(arms: Arms) -> None:
    engine, tree = arms.engine, arms.engine.trees["Arms"]
    restore(engine)
    stiffness, damping = tree.stiffness.clone(), tree.damping.clone()
    assert stiffness[0].tolist() == [arms.KP, arms.KP, 0.0]
    tree.stiffness[1, 0] = 0.0
    tree.damping[1, 0] = 0.0
    engine.notify_gains("Arms")
    try:
        # The mast turns freely: 1 N·m about its axis accelerates inertia plus armature.
        tree.joint_effort[:, 2] = torch.tensor([1.0, -0.5])
        engine.step()
        inertia = arms.MAST_INERTIA
        torch.testing.assert_close(
            tree.joint_acc[:, 2], torch.tensor([1.0, -0.5]) / inertia, rtol=1e-2, atol=0
        )
        steps(engine, 100)
        assert abs(float(tree.joint_pos[0, 0]) - 0.2) < 0.05
        assert abs(float(tree.joint_pos[1, 0]) - 0.2) > 0.3
    finally:
        tree.stiffness.copy_(stiffness)
        tree.damping.copy_(damping)
        engine.notify_gains("Arms")


def test_effort_limit_and_damper(arms: Arms) -> None:
    engine, tree = arms.engine, arms.engine.trees["Arms"]
    restore(engine)
    torch.testing.assert_close(tree.effort_limits[2], torch.tensor(2.0))
    # Soft, because an implicit integrator adds dt² times the stiffness to the inertia.
    tree.stiffness[:, 2] = 4.0
    engine.notify_gains("Arms")
    try:
        tree.joint_pos_target[:, 2] = torch.tensor([1.0, -1.0])
        engine.step()
        torch.testing.assert_close(
            tree.joint_acc[:, 2], torch.tensor([2.0, -2.0]) / arms.MAST_INERTIA, rtol=1e-2, atol=0
        )
    finally:
        tree.stiffness[:, 2] = 0.0
        engine.notify_gains("Arms")
    restore(engine)
    engine.write_joint_state("Arms", tree.joint_pos.clone(), torch.tensor([0.0, 0.0, 1.0]).repeat(2, 1))
    steps(engine, 100)
    slowed = math.exp(-0.05 * 0.5 / arms.MAST_INERTIA)
    torch.testing.assert_close(tree.joint_vel[:, 2], torch.full((2,), slowed), rtol=1e-2, atol=0)


def test_masked_joint_write(arms: Arms) -> None:
    engine, tree = arms.engine, arms.engine.trees["Arms"]
    restore(engine)
    steps(engine, 20)
    pos, vel = tree.joint_pos.clone(), tree.joint_vel.clone()
    poses = engine.body_pose.clone()
    new_pos, new_vel = torch.tensor([0.9, -0.3, 1.2]).repeat(2, 1), torch.tensor([0.1, 0.2, 0.3]).repeat(2, 1)
    engine.write_joint_state("Arms", new_pos, new_vel, only(1, count=2))
    engine.update_kinematics()
    torch.testing.assert_close(tree.joint_pos, torch.stack([pos[0], new_pos[1]]))
    torch.testing.assert_close(tree.joint_vel, torch.stack([vel[0], new_vel[1]]))
    torch.testing.assert_close(engine.body_pose[0], poses[0], rtol=0, atol=1e-6)
    # The mast turns about -z: its yaw in the world is -1.2 rad.
    torch.testing.assert_close(
        body(engine, "Arms/mast")[1, 3:], torch.tensor(about("z", -1.2)), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        engine.body_vel[1, engine.body_paths.index("Arms/mast"), 3:],
        torch.tensor([0.0, 0.0, -0.3]),
        atol=1e-5,
        rtol=0,
    )


def test_fixed_base_moves_only_when_written(arms: Arms) -> None:
    engine = arms.engine
    restore(engine)
    home = body(engine, "Arms/pedestal").clone()
    pose = home.clone()
    pose[:, 2] += 1.0
    engine.write_root_pose("Arms", pose, only(1, count=2))
    try:
        steps(engine, 20)
        torch.testing.assert_close(body(engine, "Arms/pedestal")[:, 2], torch.tensor([0.5, 1.5]))
        torch.testing.assert_close(body(engine, "Arms/mast")[:, 2], torch.tensor([1.0, 2.0]))
        with pytest.raises(ValueError, match="fixed to the world"):
            engine.write_root_velocity("Arms", torch.zeros(2, 6))
    finally:
        engine.write_root_pose("Arms", home)


def test_pendulum_on_the_world(arms: Arms) -> None:
    engine, tree = arms.engine, arms.engine.trees["Pendulum"]
    restore(engine)
    torch.testing.assert_close(body(engine, "Pendulum/bob")[:, :3], torch.tensor([[0.0, 2, 2], [3.0, 2, 2]]))
    hanging = torch.tensor([[math.pi / 2, 0.1], [math.pi / 2, 0.1]])
    engine.write_joint_state("Pendulum", hanging, torch.zeros(2, 2))
    steps(engine, 50)
    # Hangs still; the slide rests on its limit, whose load the joint carries along the rod.
    assert tree.joint_vel.abs().max() < 0.05
    force, _ = arms.read(arms.pendulum, "bob")
    torch.testing.assert_close(force.norm(dim=-1), torch.full((2,), 2.25 * G), rtol=1e-2, atol=0)
    force, _ = arms.read(arms.pendulum, "weight")
    torch.testing.assert_close(force[:, 0], torch.full((2,), -0.25 * G), rtol=2e-2, atol=0)


# ---- the quadruped ----


def test_quadruped_stands_on_its_weight(physics_cfg: PhysicsCfg) -> None:
    from forcelab.scene import robots

    file = Path(robots.__file__).parent / "quadruped.xml"
    legs = ("LF", "RF", "LH", "RH")
    angle = {"HAA": 0.0, "HFE": 0.65, "KFE": -1.3}
    pos = {f"{leg}_{joint}": value for leg in legs for joint, value in angle.items()}
    drives = {
        name: JointDriveDesc(driven=True, stiffness=300.0, damping=8.0, effort_limit=80.0) for name in pos
    }
    robot = ArticulationDesc("Robot", str(file), pos=(0, 0, 0.515), joint_pos=pos, drives=drives)
    engine = physics_cfg.create(SceneDesc(2, origins(2, 3.0), (robot,), statics=(GROUND,)), "cpu")
    try:
        feet = engine.add_contact_reader(ContactQuery(tuple(f"Robot/{leg}_FOOT" for leg in legs)))
        wrench = engine.add_joint_wrench_reader("Robot")
        engine.start()
        tree = engine.trees["Robot"]
        steps(engine, 600)
        normal, friction = mean_forces(engine, feet, 50)
        weight = float(tree.body_mass[0].sum()) * G
        total = (normal + friction).sum(1)
        torch.testing.assert_close(total[:, 2], torch.full((2,), weight), rtol=1e-2, atol=0)
        assert total[:, :2].abs().max() < 0.02 * weight
        assert (normal[..., 2] > 0.15 * weight).all()
        # A foot is welded to its shank: the weld carries the ground force less the foot's weight.
        k = wrench.body_names.index("LF_FOOT")
        pose = body(engine, "Robot/LF_FOOT")
        load = rotate(pose[:, 3:], wrench.force[:, k])
        ground = (feet.normal + feet.friction)[:, 0]
        torch.testing.assert_close(load[:, 2], 0.15 * G - ground[:, 2], rtol=2e-2, atol=0.5)
    finally:
        engine.close()
