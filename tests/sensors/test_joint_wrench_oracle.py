# SPDX-License-Identifier: Apache-2.0
"""Joint wrenches and total momentum of moving robots against Pinocchio's inverse dynamics.

The oracle reads the robot's file itself. It is given the measured joint states at the start of each step, the
accelerations that the step produced (differences of velocities), and the contact forces at their points. Bodies
welded to others get a hinge in the oracle's copy of the file that stays at rest, so that their wrench is reported.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forcelab.configs import compose
from forcelab.physics import NewtonCfg
from forcelab.scene import InteractiveScene
from forcelab.sensors import ContactSensorCfg, JointWrenchSensorCfg

pin = pytest.importorskip("pinocchio", reason="pip install pin")

ROBOTS = Path(__file__).parents[2] / "scene" / "robots"
NS = "{ENV_REGEX_NS}"
# task whose robot and scene are used, touching bodies, their partner, amplitude of random targets [rad]
CASES = {
    "quadruped": ("velocity_flat", ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"], "/World/ground", 0.1),
    "ant": (
        "run_flat_ant",
        [f"{a}_{b}_foot" for a in ("front", "back") for b in ("left", "right")],
        "/World/ground",
        0.4,
    ),
    "arm": ("press_arm", ["tool"], f"{NS}/Table", 0.08),
}


def oracle_model(file: Path, folder: Path) -> tuple[Any, set[str]]:
    """Pinocchio's model, and the names of the hinges that stand for welds."""
    tree = ElementTree.parse(file)
    added = set()

    def visit(body: ElementTree.Element, top: bool) -> None:
        if not top and body.find("joint") is None and body.find("freejoint") is None:
            name = f"{body.get('name')}_weld"
            body.insert(0, ElementTree.Element("joint", name=name, type="hinge", axis="0 1 0"))
            added.add(name)
        for child in body.findall("body"):
            visit(child, False)

    for root in tree.getroot().find("worldbody").findall("body"):  # type: ignore[union-attr]
        visit(root, True)
    path = folder / file.name
    tree.write(path)
    return pin.buildModelFromMJCF(str(path)), added


def joint_of_body(file: Path, added: set[str]) -> dict[str, str]:
    """Name of each body's own joint."""
    found = {}
    for body in ElementTree.parse(file).getroot().iter("body"):
        joint = body.find("joint")
        name = body.get("name") or ""
        if joint is not None:
            found[name] = joint.get("name") or ""
        elif f"{name}_weld" in added:
            found[name] = f"{name}_weld"
    return found


class Oracle:
    """Inverse dynamics of one environment."""

    def __init__(self, file: Path, folder: Path, robot: Any):
        self.model, added = oracle_model(file, folder)
        self.data = self.model.createData()
        self.joint_of = joint_of_body(file, added)
        self.free = self.model.joints[1].nq == 7
        self.robot = robot

    def state(self) -> dict[str, np.ndarray]:
        data = self.robot.data
        names = ("joint_pos", "joint_vel", "root_pose_w", "root_vel_w")
        return {n: getattr(data, n)[0].double().numpy().copy() for n in names}

    def wrenches(
        self, before: dict[str, np.ndarray], after: dict[str, np.ndarray], dt: float, contacts: list[Any]
    ) -> dict[str, np.ndarray]:
        """(6,) force and torque per body: what its joint applies to it, in the body's joint frame."""
        model, data = self.model, self.data
        q, v, a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for i, name in enumerate(self.robot.joint_names):
            joint = model.joints[model.getJointId(name)]
            q[joint.idx_q] = before["joint_pos"][i]
            v[joint.idx_v] = before["joint_vel"][i]
            a[joint.idx_v] = (after["joint_vel"][i] - before["joint_vel"][i]) / dt
        if self.free:
            q[:7] = before["root_pose_w"]
            q[3:7] /= np.linalg.norm(q[3:7])
            R0, R1 = (pin.Quaternion(*s["root_pose_w"][[6, 3, 4, 5]]).matrix() for s in (before, after))
            linear, omega = before["root_vel_w"][:3], R0.T @ before["root_vel_w"][3:]
            v[:3], v[3:6] = R0.T @ linear, omega
            a[3:6] = (R1.T @ after["root_vel_w"][3:] - omega) / dt
            # Spatial acceleration in the body's frame: the classical one less the cross product of ω and v.
            a[:3] = R0.T @ (after["root_vel_w"][:3] - linear) / dt - np.cross(omega, v[:3])
        pin.forwardKinematics(model, data, q, v, a)
        base = np.zeros(3) if self.free else before["root_pose_w"][:3]
        external = [pin.Force.Zero() for _ in range(model.njoints)]
        for body, force, point in contacts:
            j = model.getJointId(self.joint_of[body])
            placement = data.oMi[j]
            local = placement.rotation.T @ force
            arm = placement.actInv(point - base)
            external[j] += pin.Force(local, np.cross(arm, local))
        #: (3,) acceleration of the robot's centre of mass, world frame.
        pin.centerOfMass(model, data, q, v, a)
        self.com_acceleration = data.acom[0].copy()
        pin.rnea(model, data, q, v, a, external)
        return {
            body: data.f[model.getJointId(name)].vector.copy()
            for body, name in self.joint_of.items()
            if not (self.free and name == model.names[1])
        }


@dataclass
class Run:
    """What was measured and what the oracle expects. Wrenches: (steps, B, 6)."""

    names: list[str]
    free: bool
    mass: float
    measured: np.ndarray
    expected: np.ndarray
    contact_force: np.ndarray  # (steps, 3) sum of all contacts
    com_acceleration: np.ndarray  # (steps, 3)


@pytest.fixture(scope="module", params=list(CASES))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    task, names, partner, amplitude = CASES[request.param]
    env = compose(task, []).env
    cfg = env.scene
    cfg.num_envs = 1
    cfg.joint_wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")
    for name in names:
        touch = ContactSensorCfg(
            prim_path=f"{NS}/Robot/{name}", filter_prim_paths_expr=[partner], track_contact_points=True
        )
        setattr(cfg, f"touch_{name}", touch)
    cfg.everything = ContactSensorCfg(prim_path=f"{NS}/Robot/.*")
    if request.param == "arm":
        # The table under the tool's tip, so that the arm leans on it.
        cfg.table.init_pos = (0.55, 0.0, 0.155)
    scene = InteractiveScene(cfg, NewtonCfg(dt=0.005), device="cpu")
    robot, wrench = scene["robot"], scene["joint_wrench"]
    oracle = Oracle(ROBOTS / f"{request.param}.xml", tmp_path_factory.mktemp("oracle"), robot)
    generator = torch.Generator().manual_seed(7)
    measured, expected, forces, accelerations = [], [], [], []
    rest = robot.data.default_joint_pos.clone()
    for step in range(240):
        if step % 12 == 0:
            noise = torch.randn(rest.shape, generator=generator) * amplitude
            robot.set_joint_position_target(rest + noise)
        before = oracle.state()
        scene.step()
        after = oracle.state()
        contacts, total = [], torch.zeros(3)
        for name in names:
            data = scene[f"touch_{name}"].data
            force, point = data.force_matrix_w[0, 0, 0], data.contact_pos_w[0, 0, 0]
            if force.norm() > 0:
                contacts.append((name, force.double().numpy(), point.double().numpy()))
                total = total + force
        # The oracle knows all contacts there are.
        assert torch.allclose(total, scene["everything"].data.net_forces_w[0].sum(0), atol=1e-3)
        if step < 40:
            continue
        forces.append(total.double().numpy())
        found = oracle.wrenches(before, after, scene.physics_dt, contacts)
        assert set(found) == set(wrench.body_names)
        accelerations.append(oracle.com_acceleration)
        expected.append([found[name] for name in wrench.body_names])
        measured.append(torch.cat((wrench.data.force[0], wrench.data.torque[0]), dim=-1).double().numpy())
    mass = float(robot.data.body_mass[0].sum())
    scene.close()
    return Run(
        wrench.body_names,
        oracle.free,
        mass,
        *(np.array(x) for x in (measured, expected, forces, accelerations)),
    )


def test_wrenches_agree(run: Run) -> None:
    assert (run.contact_force != 0).any(-1).mean() > 0.3
    for part, unit in ((slice(0, 3), "force"), (slice(3, 6), "torque")):
        error = np.linalg.norm(run.measured[..., part] - run.expected[..., part], axis=-1)
        size = np.linalg.norm(run.expected[..., part], axis=-1)
        for b, name in enumerate(run.names):
            typical = np.sqrt((size[:, b] ** 2).mean())
            relative = error[:, b] / np.maximum(size[:, b], 0.1 * typical + 1e-3)
            assert np.median(relative) < 0.01, f"{unit} on {name}: median error {np.median(relative):.2%}"
            assert np.sqrt((error[:, b] ** 2).mean()) < 0.01 * typical + 1e-3, f"{unit} on {name}"


def test_momentum_balance(run: Run) -> None:
    """Σ contact forces + weight = m · acceleration of the centre of mass."""
    if not run.free:
        pytest.skip("the mount of a fixed base carries a part of the load")
    weight = np.array([0.0, 0.0, -9.81]) * run.mass
    error = run.contact_force + weight - run.mass * run.com_acceleration
    assert np.median(np.linalg.norm(run.com_acceleration, axis=-1)) > 1.0  # it really moves
    assert np.median(np.linalg.norm(error, axis=-1)) < 0.1
