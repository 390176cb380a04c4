# SPDX-License-Identifier: Apache-2.0
"""The shipped robots: names, masses, limits, and standing."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

import forcelab.scene.robots
from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
)
from forcelab.sensors import ContactSensorCfg, JointWrenchSensorCfg

FOLDER = Path(forcelab.scene.robots.__file__).parent
LEGS = ("LF", "RF", "LH", "RH")
STANDING = {".*_HAA": 0.0, ".*_HFE": 0.68, ".*_KFE": -1.3}


def load(name: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(FOLDER / f"{name}.xml"))


def names(model: mujoco.MjModel, kind: str, count: int) -> list[str]:
    return [getattr(model, kind)(i).name for i in range(count)]


@pytest.mark.parametrize("name", ["quadruped", "ant", "cartpole", "arm"])
def test_inertias_are_those_of_real_bodies(name: str) -> None:
    model = load(name)
    for i in range(1, model.nbody):
        a, b, c = sorted(model.body_inertia[i])
        assert model.body_mass[i] > 0 and a > 0, model.body(i).name
        assert a + b >= c * (1 - 1e-9), model.body(i).name


@pytest.mark.parametrize("name", ["quadruped", "ant", "cartpole", "arm"])
def test_geoms_have_names_and_are_primitives(name: str) -> None:
    model = load(name)
    geoms = names(model, "geom", model.ngeom)
    assert all(geoms) and len(set(geoms)) == len(geoms)
    assert model.nmesh == 0
    text = (FOLDER / f"{name}.xml").read_text()
    assert text.startswith("<!-- SPDX-License-Identifier: Apache-2.0")


def test_quadruped_names_and_limits() -> None:
    model = load("quadruped")
    assert 30.0 < model.body_mass.sum() < 50.0
    bodies = ["world", "base"] + [
        f"{leg}_{part}" for leg in LEGS for part in ("HIP", "THIGH", "SHANK", "FOOT")
    ]
    assert names(model, "body", model.nbody) == bodies
    joints = [f"{leg}_{part}" for leg in LEGS for part in ("HAA", "HFE", "KFE")]
    assert names(model, "joint", model.njnt)[1:] == joints
    assert model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    for i in range(1, model.njnt):
        low, high = model.jnt_range[i]
        assert model.jnt_limited[i] and -3.2 < low < high < 3.2
        assert model.jnt_actfrclimited[i] and 20.0 < model.jnt_actfrcrange[i][1] < 200.0
        assert model.dof_armature[model.jnt_dofadr[i]] > 0
    for leg in LEGS:
        foot = model.body(f"{leg}_FOOT")
        assert foot.jntnum == 0 and foot.geomnum == 1
        assert model.geom_type[foot.geomadr[0]] == mujoco.mjtGeom.mjGEOM_SPHERE


def test_quadruped_is_symmetric_and_its_feet_reach_the_ground() -> None:
    model = load("quadruped")
    data = mujoco.MjData(model)
    data.qpos[7:] = [0.0, 0.68, -1.3] * 4
    mujoco.mj_forward(model, data)
    feet = np.array([data.body(f"{leg}_FOOT").xpos for leg in LEGS])
    assert np.allclose(feet[:, 2], 0.03, atol=2e-3)  # the radius of a foot
    assert np.allclose(feet[0] * [1, -1, 1], feet[1]) and np.allclose(feet[2] * [1, -1, 1], feet[3])
    # The centre of mass is above the middle of the feet, within 1 cm.
    assert np.allclose(data.subtree_com[1][:2], feet[:, :2].mean(0), atol=0.01)
    assert data.ncon == 0  # nothing overlaps


def test_cartpole_names_and_limits() -> None:
    model = load("cartpole")
    assert names(model, "body", model.nbody) == ["world", "rail", "cart", "pole"]
    assert names(model, "joint", model.njnt) == ["slider_to_cart", "cart_to_pole"]
    assert list(model.jnt_range[0]) == [-3.0, 3.0] and not model.jnt_limited[1]
    assert not model.geom_contype.any() and not model.geom_conaffinity.any()


ANT_LEGS = ("front_left", "back_left", "back_right", "front_right")


def test_ant_names_and_limits() -> None:
    model = load("ant")
    assert model.body_mass.sum() == pytest.approx(10.2)
    bodies = [f"{leg}_{part}" for leg in ANT_LEGS for part in ("leg", "foot")]
    assert names(model, "body", model.nbody) == ["world", "torso", *bodies]
    joints = [f"{leg}_{part}" for leg in ANT_LEGS for part in ("hip", "ankle")]
    assert names(model, "joint", model.njnt)[1:] == joints
    assert model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    for i in range(1, model.njnt):
        low, high = model.jnt_range[i]
        assert model.jnt_limited[i] and -1.0 < low < high < 2.0
        assert model.jnt_actfrclimited[i] and model.jnt_actfrcrange[i][1] == 15.0
        assert model.dof_armature[model.jnt_dofadr[i]] > 0
        # Hips turn about the vertical, ankles about a horizontal axis.
        assert list(model.jnt_axis[i]) == ([0, 0, 1] if i % 2 else [0, 1, 0])
    # Each foot is a body of its own, moved by its ankle, so that there is a wrench to report.
    for leg in ANT_LEGS:
        foot = model.body(f"{leg}_foot")
        assert foot.jntnum == 1 and foot.geomnum == 1
        assert model.body(foot.parentid[0]).name == f"{leg}_leg"


def test_ant_is_symmetric_and_its_feet_reach_the_ground() -> None:
    model = load("ant")
    for part in ("leg", "foot"):
        twins = [model.body(f"{leg}_{part}") for leg in ANT_LEGS]
        for twin in twins[1:]:
            assert np.allclose(twin.mass, twins[0].mass) and np.allclose(twin.inertia, twins[0].inertia)
    data = mujoco.MjData(model)

    def tips(hip: float, ankle: float) -> np.ndarray:
        """(4, 3) lower end of each foot's capsule, with the same angles in all legs."""
        data.qpos[7:] = [hip, ankle] * 4
        mujoco.mj_forward(model, data)
        found = []
        for leg in ANT_LEGS:
            i = model.geom(f"{leg}_foot").id
            axis, half = data.geom_xmat[i].reshape(3, 3)[:, 2], model.geom_size[i][1]
            ends = data.geom_xpos[i] + np.outer([half, -half], axis)
            found.append(ends[ends[:, 2].argmin()])
        return np.array(found)

    standing = tips(0.0, 1.05)
    assert data.ncon == 0  # nothing overlaps
    # The capsules' radius is 30 mm; init_pos of the configuration is the file's.
    assert np.allclose(standing[:, 2], 0.03, atol=2e-3)
    mirrored = standing * [1, -1, 1]
    assert np.allclose(standing[0], mirrored[3], atol=1e-5) and np.allclose(
        standing[1], mirrored[2], atol=1e-5
    )
    assert np.allclose(standing[0], standing[1] * [-1, 1, 1], atol=1e-5)
    com = data.subtree_com[1]
    assert abs(com[1]) < 1e-6 and abs(com[0]) < 0.02  # the head lies in front
    # Signs: positive ankles lower the feet, positive hips turn counter-clockwise seen from above.
    assert (tips(0.0, 1.3)[:, 2] < standing[:, 2]).all()
    turned = tips(0.3, 1.05)
    assert (np.cross(standing, turned)[:, 2] > 0).all()


ARM_JOINTS = ("shoulder_yaw", "shoulder_pitch", "elbow", "wrist_roll", "wrist_pitch", "flange_roll")
TOOL_DOWN = {"shoulder_pitch": 0.63, "elbow": -0.07, "wrist_pitch": 1.01}


def test_arm_names_limits_and_reach() -> None:
    model = load("arm")
    assert model.body_mass.sum() == pytest.approx(15.0)
    bodies = ["base", "shoulder", "upper_arm", "forearm", "wrist_1", "wrist_2", "wrist_3", "flange", "tool"]
    assert names(model, "body", model.nbody) == ["world", *bodies]
    assert names(model, "joint", model.njnt) == list(ARM_JOINTS)
    for i in range(model.njnt):
        low, high = model.jnt_range[i]
        assert model.jnt_limited[i] and -3.2 < low < high < 3.2
        assert model.jnt_actfrclimited[i] and model.jnt_actfrcrange[i][1] in (30.0, 150.0)
        assert model.dof_armature[model.jnt_dofadr[i]] > 0
    # Base, flange and tool are welded.
    assert [model.body(n).jntnum[0] for n in ("base", "flange", "tool")] == [0, 0, 0]
    data = mujoco.MjData(model)
    data.qpos[1] = np.pi / 2  # stretched out forwards: upper arm and forearm in line
    data.qpos[2] = -np.pi / 2
    mujoco.mj_forward(model, data)
    shoulder, flange = data.body("upper_arm").xpos, data.body("flange").xpos
    assert np.linalg.norm(flange - shoulder) == pytest.approx(0.79, abs=1e-6)
    assert shoulder[2] == pytest.approx(0.30)
    # The ball is the lowest part when the tool points down.
    for joint, value in TOOL_DOWN.items():
        data.qpos[model.joint(joint).qposadr[0]] = value
    mujoco.mj_forward(model, data)
    tip = data.geom("tool_tip").xpos
    assert tip == pytest.approx([0.5, 0.0, 0.2], abs=2e-3)
    assert data.body("tool").xmat.reshape(3, 3)[:, 0] == pytest.approx([0.0, 0.0, -1.0], abs=0.05)


class ArmCfg(InteractiveSceneCfg):
    env_spacing = 2.5
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg(str(FOLDER / "arm.xml")),
        fixed_base=True,
        init_joint_pos=TOOL_DOWN,
        actuators={"joints": PdActuatorCfg(joint_names=[".*"], stiffness=600.0, damping=40.0)},
    )
    wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")


@pytest.fixture(scope="module")
def resting_arms() -> InteractiveScene:
    """Three arms at rest in different poses; the drives carry them."""
    scene = InteractiveScene(ArmCfg(num_envs=3), physics=NewtonCfg(), device="cpu")
    scene.reset()
    robot = scene["robot"]
    target = robot.data.default_joint_pos.clone()
    target[1] += torch.tensor([0.5, -0.4, 0.6, 0.7, -0.5, 0.3])
    target[2] = torch.tensor([-0.8, 0.9, -0.6, -1.2, 0.4, 1.5])
    robot.set_joint_position_target(target)
    for _ in range(800):
        scene.step()
    assert robot.data.joint_vel.abs().max() < 1e-3
    return scene


def test_arm_torques_at_rest_are_those_of_gravity(resting_arms: InteractiveScene) -> None:
    robot = resting_arms["robot"]
    assert robot.joint_names == list(ARM_JOINTS)
    model = load("arm")
    data = mujoco.MjData(model)
    for env in range(3):
        data.qpos[:] = robot.data.joint_pos[env].double().numpy()
        mujoco.mj_forward(model, data)
        expected = []
        for j in range(model.njnt):
            # By hand: the moment of all that lies beyond the joint, about its axis.
            moment = np.zeros(3)
            for b in range(1, model.nbody):
                above = b
                while above and model.body_jntadr[above] != j:
                    above = model.body_parentid[above]
                if above:
                    weight = np.array([0.0, 0.0, -9.81 * model.body_mass[b]])
                    moment += np.cross(data.xipos[b] - data.xanchor[j], weight)
            expected.append(-moment @ data.xaxis[j])
        torque = robot.data.applied_torque[env].double().numpy()
        assert torque == pytest.approx(np.array(expected), abs=0.02)
        assert np.abs(torque[1]) > 3.0


def test_arm_flange_wrench_carries_flange_and_tool(resting_arms: InteractiveScene) -> None:
    robot, wrench = resting_arms["robot"], resting_arms["wrench"]
    names_in_sensor = wrench.body_names
    flange, tool = names_in_sensor.index("flange"), names_in_sensor.index("tool")
    model = load("arm")
    data = mujoco.MjData(model)
    for env in range(3):
        data.qpos[:] = robot.data.joint_pos[env].double().numpy()
        mujoco.mj_forward(model, data)
        for column, carried in ((flange, ("flange", "tool")), (tool, ("tool",))):
            body = data.body(carried[0])
            frame = body.xmat.reshape(3, 3)
            force = sum(np.array([0.0, 0.0, 9.81 * model.body(n).mass[0]]) for n in carried)
            torque = sum(
                np.cross(data.body(n).xipos - body.xpos, [0.0, 0.0, 9.81 * model.body(n).mass[0]])
                for n in carried
            )
            got = (wrench.data.force[env, column], wrench.data.torque[env, column])
            assert got[0].double().numpy() == pytest.approx(frame.T @ force, abs=0.01)
            assert got[1].double().numpy() == pytest.approx(frame.T @ torque, abs=0.002)
    assert wrench.data.force[:, flange].norm(dim=1).numpy() == pytest.approx(0.5 * 9.81, rel=1e-3)


class StandCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.8)
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg(str(FOLDER / "quadruped.xml")),
        init_pos=(0.0, 0.0, 0.507),
        init_joint_pos=STANDING,
        actuators={
            "legs": PdActuatorCfg(joint_names=[".*"], stiffness=200.0, damping=8.0, effort_limit=80.0)
        },
    )
    contacts = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*")


class AntCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=1.0)
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg(str(FOLDER / "ant.xml")),
        init_pos=(0.0, 0.0, 0.326),
        init_joint_pos={".*_ankle": 1.05},
        actuators={"legs": PdActuatorCfg(joint_names=[".*"], stiffness=40.0, damping=1.5)},
    )
    contacts = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*")
    wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")


class PoleCfg(InteractiveSceneCfg):
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Cartpole",
        spawn=MjcfCfg(str(FOLDER / "cartpole.xml")),
        init_joint_pos={"cart_to_pole": 0.05},
        actuators={"cart": PdActuatorCfg(joint_names=["slider_to_cart"], stiffness=0.0, damping=0.0)},
    )


def test_quadruped_stands() -> None:
    scene = InteractiveScene(StandCfg(num_envs=2, env_spacing=3.0), physics=NewtonCfg(), device="cpu")
    scene.reset()
    robot, contacts = scene["robot"], scene["contacts"]
    assert set(robot.joint_names) == {f"{leg}_{part}" for leg in LEGS for part in ("HAA", "HFE", "KFE")}
    for _ in range(800):  # the sway of the first moments dies out
        scene.step()
    total = []
    for _ in range(100):
        scene.step()
        total.append(contacts.data.net_forces_w.sum(1))
    weight = float(robot.data.body_mass[0].sum()) * 9.81
    assert weight == pytest.approx(40.8 * 9.81, rel=1e-5)
    forces = torch.stack(total)
    assert torch.allclose(forces[..., 2], torch.tensor(weight), rtol=0.01)
    assert forces[..., :2].abs().max() < 0.02 * weight
    # Only the feet touch, and each carries its part.
    feet, _ = contacts.find_bodies(".*_FOOT")
    others = [i for i in range(contacts.num_bodies) if i not in feet]
    assert (contacts.data.net_forces_w[:, feet, 2] > 0.15 * weight).all()
    assert contacts.data.net_forces_w[:, others].abs().max() == 0
    # Joints hold their targets within what the load bends the springs, and the trunk is level.
    assert (robot.data.joint_pos - robot.data.default_joint_pos).abs().max() < 0.15
    assert robot.data.joint_vel.abs().max() < 0.02
    assert (robot.data.projected_gravity_b[:, 2] < -0.999).all()
    assert (robot.data.root_pos_w[:, 2] > 0.47).all()


def test_ant_stands_and_its_feet_carry_it() -> None:
    scene = InteractiveScene(AntCfg(num_envs=2, env_spacing=3.0), physics=NewtonCfg(), device="cpu")
    scene.reset()
    robot, contacts, wrench = scene["robot"], scene["contacts"], scene["wrench"]
    for _ in range(500):
        scene.step()
    weight = float(robot.data.body_mass[0].sum()) * 9.81
    assert weight == pytest.approx(10.2 * 9.81, rel=1e-5)
    forces = contacts.data.net_forces_w
    assert torch.allclose(forces.sum(1)[:, 2], torch.tensor(weight), rtol=0.01)
    assert forces.sum(1)[:, :2].abs().max() < 0.02 * weight
    feet, feet_names = contacts.find_bodies(".*_foot")
    others = [i for i in range(contacts.num_bodies) if i not in feet]
    assert forces[:, others].abs().max() == 0
    assert (forces[:, feet, 2] > 0.15 * weight).all()
    # What the ankles apply to the feet and what the ground applies to them carry the feet's own weight.
    columns = [wrench.body_names.index(name) for name in feet_names]
    bodies = [robot.body_names.index(name) for name in feet_names]
    for env in range(2):
        for column, body, foot in zip(columns, bodies, feet, strict=True):
            x, y, z, w = robot.data.body_quat_w[env, body].double().tolist()
            frame = np.empty(9)
            mujoco.mju_quat2Mat(frame, np.array([w, x, y, z]))
            ankle = frame.reshape(3, 3) @ wrench.data.force[env, column].double().numpy()
            ground = forces[env, foot].double().numpy()
            assert ankle + ground == pytest.approx(np.array([0.0, 0.0, 0.6 * 9.81]), abs=0.05)
    assert (robot.data.joint_pos - robot.data.default_joint_pos).abs().max() < 0.15
    assert robot.data.joint_vel.abs().max() < 0.02
    assert (robot.data.projected_gravity_b[:, 2] < -0.999).all()
    assert (robot.data.root_pos_w[:, 2] > 0.28).all()


def test_cartpole_falls_like_a_rod() -> None:
    scene = InteractiveScene(PoleCfg(num_envs=1), physics=NewtonCfg(), device="cpu")
    scene.reset()
    robot = scene["robot"]
    pole, cart = robot.joint_names.index("cart_to_pole"), robot.joint_names.index("slider_to_cart")
    steps = 40
    for _ in range(steps):
        scene.step()
    # Uniform rod (m, L) on a free cart (M), small angles: q'' = 6 (M+m) g q / (L (4 M + m)).
    m, big, length = 0.1, 1.0, 1.0
    rate = np.sqrt(6 * (big + m) * 9.81 / (length * (4 * big + m)))
    expected = 0.05 * np.cosh(rate * steps * 0.005)
    assert float(robot.data.joint_pos[0, pole]) == pytest.approx(expected, rel=0.03)
    assert float(robot.data.joint_pos[0, cart]) < 0  # the cart gives way
