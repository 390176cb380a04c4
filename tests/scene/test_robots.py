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
from forcelab.sensors import ContactSensorCfg

FOLDER = Path(forcelab.scene.robots.__file__).parent
LEGS = ("LF", "RF", "LH", "RH")
STANDING = {".*_HAA": 0.0, ".*_HFE": 0.68, ".*_KFE": -1.3}


def load(name: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(FOLDER / f"{name}.xml"))


def names(model: mujoco.MjModel, kind: str, count: int) -> list[str]:
    return [getattr(model, kind)(i).name for i in range(count)]


@pytest.mark.parametrize("name", ["quadruped", "cartpole"])
def test_inertias_are_those_of_real_bodies(name: str) -> None:
    model = load(name)
    for i in range(1, model.nbody):
        a, b, c = sorted(model.body_inertia[i])
        assert model.body_mass[i] > 0 and a > 0, model.body(i).name
        assert a + b >= c * (1 - 1e-9), model.body(i).name


@pytest.mark.parametrize("name", ["quadruped", "cartpole"])
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
