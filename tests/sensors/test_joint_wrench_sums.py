# SPDX-License-Identifier: Apache-2.0
"""Joint wrenches summed by the Newton adapter are those that the solver itself reports."""

from __future__ import annotations

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.physics.newton import NewtonEngine
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import ContactSensorCfg, JointWrenchSensorCfg

NS = "{ENV_REGEX_NS}"
E = 2


class WalkerCfg(InteractiveSceneCfg):
    """A robot that walks on the spot while a block falls on its back."""

    num_envs = E
    env_spacing = 40.0
    ground = PlaneCfg(friction=1.0)
    robot = ArticulationCfg(
        prim_path=f"{NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.507),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.30},
        actuators={"legs": PdActuatorCfg(stiffness=150.0, damping=5.0)},
    )
    block = RigidObjectCfg(
        prim_path=f"{NS}/Block", spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=3.0), init_pos=(0.0, 0.0, 0.8)
    )
    joint_wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")


class TouchingWalkerCfg(WalkerCfg):
    touch = ContactSensorCfg(prim_path=f"{NS}/Robot/base", filter_prim_paths_expr=[f"{NS}/Block"])


HINGES = """
<mujoco>
  <worldbody>
    <body name="base">
      <inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
      <body name="left" pos="0.1 0 0" euler="20 0 0">
        <joint name="left" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/>
      </body>
      <body name="right" pos="-0.1 0 0">
        <joint name="right" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  %s
</mujoco>
"""
EQUAL = '<equality><joint joint1="left" joint2="right"/></equality>'


def build(cfg: InteractiveSceneCfg, summed: bool, monkeypatch: pytest.MonkeyPatch) -> InteractiveScene:
    monkeypatch.setattr(NewtonEngine, "sums_wrenches", summed)
    return InteractiveScene(cfg, NewtonCfg(), "cpu")


@pytest.mark.parametrize("kind", [WalkerCfg, TouchingWalkerCfg])
def test_sums_are_the_solvers_own(kind, monkeypatch):
    scenes = [build(kind(), summed, monkeypatch) for summed in (True, False)]
    ours, solvers = (scene["joint_wrench"].data for scene in scenes)
    default = scenes[0]["robot"].data.default_joint_pos
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator) - 0.5

    for i in range(150):
        if i % 10 == 0:
            target, force, torque = default + 0.6 * draw(E, 12), 40 * draw(E, 3), 4 * draw(E, 3)
        for scene in scenes:
            scene["robot"].set_joint_position_target(target)
            scene["robot"].set_external_wrench(force, torque)
            scene.step()
        torch.testing.assert_close(ours.force.torch, solvers.force.torch, rtol=1e-5, atol=1e-3)
        torch.testing.assert_close(ours.torque.torch, solvers.torque.torch, rtol=1e-5, atol=1e-3)
    # It did move, and the feet did touch.
    assert float(solvers.force.torch.norm(dim=-1).max()) > 100.0
    mask = torch.tensor([True, False])
    for scene in scenes:
        scene.reset(mask)
        scene.step()
    torch.testing.assert_close(ours.force.torch, solvers.force.torch, rtol=1e-5, atol=1e-3)


def test_forces_that_only_the_solver_knows_are_left_to_it(tmp_path, monkeypatch):
    """An equality constraint between two joints: its forces are in the wrenches."""
    found = {}
    for name, text in (("free", ""), ("equal", EQUAL)):
        file = tmp_path / f"{name}.xml"
        file.write_text(HINGES % text)

        class TwoCfg(InteractiveSceneCfg):
            robot = ArticulationCfg(prim_path=f"{NS}/Robot", spawn=MjcfCfg(str(file)), fixed_base=True)
            joint_wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")

        scene = build(TwoCfg(), True, monkeypatch)
        for _ in range(5):
            scene.step()
        found[name] = scene
    assert found["free"].engine._loads is not None and found["free"].engine._observables is None
    assert found["equal"].engine._loads is None and found["equal"].engine._observables is not None
    force = found["equal"]["joint_wrench"].data.force.torch
    assert bool(torch.isfinite(force).all()) and float(force.norm(dim=-1).max()) > 1.0
