# SPDX-License-Identifier: Apache-2.0
"""Geometry that a robot file puts into its world stands where the file says, whatever the robot's own pose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg, OvPhysxCfg
from forcelab.scene import ArticulationCfg, InteractiveScene, InteractiveSceneCfg, MjcfCfg
from forcelab.sensors import ContactSensorCfg

FILE = """<mujoco><worldbody>
  <geom name="floor" type="plane" size="5 5 0.1" pos="0 0 0.2"/>
  <body name="ball" pos="0 0 0.5"><freejoint/><geom type="sphere" size="0.1" mass="2"/></body>
</worldbody></mujoco>"""


def config(tmp_path: Path, **settings: Any) -> InteractiveSceneCfg:
    file = tmp_path / "ball.xml"
    file.write_text(FILE)

    class Cfg(InteractiveSceneCfg):
        robot = ArticulationCfg(prim_path="{ENV_REGEX_NS}/Robot", spawn=MjcfCfg(str(file)), **settings)
        touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/ball")

    return Cfg(num_envs=2, env_spacing=5.0)


@pytest.mark.parametrize("settings", [{}, {"init_pos": (0.3, 0.0, 0.6), "init_rot": (0.0, 0.0, 0.6, 0.8)}])
def test_a_floor_of_the_file_stays_where_it_is(tmp_path: Path, settings: dict[str, Any]) -> None:
    scene = InteractiveScene(config(tmp_path, **settings), NewtonCfg())
    for _ in range(300):
        scene.step()
    # Radius above the floor, less the millimetre that contact is soft.
    height = scene["robot"].data.root_pos_w[:, 2]
    torch.testing.assert_close(height, torch.full((2,), 0.3), atol=1e-3, rtol=0)
    weight = torch.tensor([0.0, 0.0, 2 * 9.81]).expand(2, 3)
    torch.testing.assert_close(scene["touch"].data.net_forces_w[:, 0], weight, atol=0.05, rtol=0)
    scene.close()


def test_other_engines_say_so(tmp_path: Path) -> None:
    pytest.importorskip("ovphysx")
    with pytest.raises(ValueError, match=r"geometry of the world itself \(floor\).*PlaneCfg"):
        InteractiveScene(config(tmp_path), OvPhysxCfg())
