# SPDX-License-Identifier: Apache-2.0
"""Sensors are drawn on the other engine as well, from the same poses and readings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from forcelab.physics import OvPhysxCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import ContactSensorCfg, JointWrenchSensorCfg
from forcelab.viewers import BrowserViewer, DebugVisCfg, Snapshot, sensor_drawables

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ovphysx") is None, reason='needs pip install "forcelab[ovphysx]"'
)
PENDULUM = Path(__file__).parent.parent / "physics" / "pendulum.xml"


class SceneCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    box = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Box",
        spawn=CuboidCfg(size=(0.4, 0.4, 0.2), mass=5.0),
        init_pos=(0, 1.5, 0.1),
    )
    pendulum = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Pendulum",
        spawn=MjcfCfg(str(PENDULUM)),
        init_joint_pos={"swing": float(np.pi / 2)},
    )
    touch = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Box", filter_prim_paths_expr=["/World/ground"], debug_vis=True
    )
    wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Pendulum", debug_vis=True)


def test_contacts_and_wrenches_on_ovphysx():
    pytest.importorskip("viser")
    scene = InteractiveScene(SceneCfg(num_envs=2, env_spacing=4.0), OvPhysxCfg())
    try:
        for _ in range(100):
            scene.step()
        drawn = sensor_drawables(Snapshot(scene, (1,)), cfg=DebugVisCfg(force_scale=0.01))
        [normal] = drawn["touch"]
        np.testing.assert_allclose(normal.vector, [(0, 0, 0.01 * 5.0 * 9.81)], atol=5e-3)
        force = drawn["wrench"][0]
        bob = scene["wrench"].body_names.index("bob")
        np.testing.assert_allclose(force.vector[bob], (0, 0, 0.01 * 2.25 * 9.81), atol=2e-3)
        anchor = np.add(scene.env_origins[1].numpy(), (0.0, 0.0, 2.0))
        np.testing.assert_allclose(force.origin[bob], anchor, atol=1e-3)
        with BrowserViewer(scene, 2, port=0) as viewer:
            assert {c for c, _, _ in viewer._bodies} == set(range(len(scene.body_paths)))
            assert "/world/sensors/wrench/joint_force" in viewer._marks
    finally:
        scene.close()
