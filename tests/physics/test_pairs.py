# SPDX-License-Identifier: Apache-2.0
"""Which shapes may touch, in every environment, and with what softness."""

from __future__ import annotations

import numpy as np
import pytest

from forcelab.physics import NewtonCfg
from forcelab.scene import ArticulationCfg, InteractiveScene, InteractiveSceneCfg, MjcfCfg, PlaneCfg
from forcelab.sensors import ContactSensorCfg

NS = "{ENV_REGEX_NS}"
E = 3
FILE = """
<mujoco>
  <worldbody>
    <body name="low">
      <freejoint/>
      <geom name="low" type="sphere" size="0.1" mass="1" friction="0.4 0.005 0.0001"/>
      <body name="high" pos="0 0 0.25">
        <joint name="neck" type="hinge" axis="0 1 0" range="-0.1 0.1"/>
        <geom name="high" type="sphere" size="0.1" mass="1" friction="0.4 0.005 0.0001"/>
      </body>
    </body>
  </worldbody>
  <contact>%s</contact>
</mujoco>
"""
PAIR = '<pair geom1="low" geom2="high" margin="0.3" solref="0.5 1" friction="2 2 0.01 0.01 0.01"/>'


@pytest.mark.parametrize("own", [0, 1, 5])
def test_pairs_of_a_robot_file_change_nothing(tmp_path, own):
    """forcelab makes its own pairs, with its own softness, for whatever may touch."""
    file = tmp_path / "robot.xml"
    file.write_text(FILE % (PAIR * own))

    class RestCfg(InteractiveSceneCfg):
        num_envs = E
        ground = PlaneCfg(friction=0.8)
        robot = ArticulationCfg(prim_path=f"{NS}/Robot", spawn=MjcfCfg(str(file)), init_pos=(0, 0, 0.1))
        touch = ContactSensorCfg(prim_path=f"{NS}/Robot/low")

    cfg = NewtonCfg()
    scene = InteractiveScene(RestCfg(), cfg, "cpu")
    for _ in range(200):
        scene.step()
    assert scene["touch"].data.net_forces_w[:, 0, 2].tolist() == pytest.approx([2 * 9.81] * E, rel=2e-3)
    engine = scene.engine
    model = engine.solver.mjw_model
    # Each sphere on the plane; bodies of one robot do not touch one another.
    shapes = sorted(engine._pairs)
    assert shapes == [(0, 1), (0, 2)]
    assert model.pair_solref.numpy() == pytest.approx(
        np.broadcast_to((cfg.contact_time_constant, cfg.contact_damping_ratio), (E, 2, 2))
    )
    assert model.pair_solreffriction.numpy() == pytest.approx(
        np.broadcast_to((cfg.friction_time_constant, cfg.friction_damping_ratio), (E, 2, 2))
    )
    assert model.pair_friction.numpy()[..., :2] == pytest.approx(0.6)
    assert not model.pair_margin.numpy().any()
    rows = [
        getattr(engine.model.mujoco, f"pair_{k}").numpy().reshape(E, -1)[:, :2] for k in ("geom1", "geom2")
    ]
    assert (rows[0] == 0).all()
    assert rows[1].tolist() == [[1, 2], [3, 4], [5, 6]]
    scene.close()
