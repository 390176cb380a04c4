# SPDX-License-Identifier: Apache-2.0
"""A real scene (cart-poles beside boxes on the ground) and the little of an environment that managers use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import ContactSensorCfg

E = 4


class SceneCfg(InteractiveSceneCfg):
    num_envs = E
    ground = PlaneCfg()
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg(str(Path(__file__).parents[2] / "scene/robots/cartpole.xml")),
        init_pos=(0.0, 0.0, 2.0),
    )
    box = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Box", spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=2.0), init_pos=(0, 0, 0.1)
    )
    touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Box")


class Env:
    """What managers read of an environment, over a real scene."""

    step_dt = 0.02
    max_episode_length_s = 2.0

    def __init__(self, scene: InteractiveScene):
        self.scene = scene
        self.num_envs = scene.num_envs
        self.device = scene.device
        self.all_envs = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        self.common_step_counter = torch.zeros((), dtype=torch.long, device=self.device)
        self.value = torch.zeros(self.num_envs, 2)

    def worth_doing(self, mask: torch.Tensor) -> bool:
        return bool(mask.any())


@pytest.fixture(scope="session")
def scene() -> Any:
    scene = InteractiveScene(SceneCfg(), NewtonCfg(dt=0.01), "cpu")
    yield scene
    scene.close()


@pytest.fixture
def env(scene: InteractiveScene) -> Env:
    torch.manual_seed(0)
    scene.reset()
    return Env(scene)


@pytest.fixture
def first() -> torch.Tensor:
    """The mask of environment 0."""
    mask = torch.zeros(E, dtype=torch.bool)
    mask[0] = True
    return mask
