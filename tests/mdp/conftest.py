# SPDX-License-Identifier: Apache-2.0
"""A scene with real physics and what terms read from an environment, without the environment."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from forcelab.managers import SceneEntityCfg
from forcelab.physics import NewtonCfg
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
from forcelab.sensors import ContactSensorCfg

torch.set_num_threads(1)


class SceneEnv:
    """What terms use of an environment; managers are put in by the tests."""

    def __init__(self, scene: InteractiveScene, decimation: int = 4):
        self.scene = scene
        self.num_envs = scene.num_envs
        self.device = scene.device
        self.physics_dt = scene.physics_dt
        self.decimation = decimation
        self.step_dt = decimation * scene.physics_dt
        self.max_episode_length = 1000
        self.max_episode_length_s = self.max_episode_length * self.step_dt
        self.episode_length_buf = torch.zeros(scene.num_envs, dtype=torch.long, device=scene.device)
        self.common_step_counter = torch.zeros((), dtype=torch.long, device=scene.device)
        self.all_envs = torch.ones(scene.num_envs, dtype=torch.bool, device=scene.device)
        self.command_manager: Any = None
        self.action_manager: Any = None
        self.reward_manager: Any = None
        self.termination_manager: Any = None

    def worth_doing(self, condition: torch.Tensor) -> bool:
        return True

    def step(self, count: int = 1) -> None:
        """Environment steps without actions."""
        for _ in range(count):
            for _ in range(self.decimation):
                self.scene.step()
            self.episode_length_buf += 1
            self.common_step_counter += 1

    def entity(self, name: str, **selection: Any) -> SceneEntityCfg:
        cfg = SceneEntityCfg(name, **selection)
        cfg.resolve(self.scene)
        return cfg

    def mask(self, *envs: int) -> torch.Tensor:
        mask = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        mask[list(envs)] = True
        return mask


class FixedCommands:
    """A command manager with one command that does not change."""

    def __init__(self, command: torch.Tensor):
        self.command = command

    def get_command(self, name: str) -> torch.Tensor:
        return self.command


class QuadrupedSceneCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.8)
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.51),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.3},
        actuators={
            "legs": PdActuatorCfg(joint_names=[".*"], stiffness=120.0, damping=4.0, effort_limit=80.0)
        },
    )
    touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*", history_length=3, track_air_time=True)


@pytest.fixture(scope="session")
def _quadruped() -> InteractiveScene:
    return InteractiveScene(QuadrupedSceneCfg(num_envs=4), physics=NewtonCfg(dt=0.005), device="cpu")


@pytest.fixture(scope="session")
def scene_env() -> type[SceneEnv]:
    """The class that wraps a scene for terms."""
    return SceneEnv


@pytest.fixture(scope="session")
def fixed_commands() -> type[FixedCommands]:
    """The class of a command manager with one constant command."""
    return FixedCommands


@pytest.fixture
def quadruped(_quadruped: InteractiveScene) -> SceneEnv:
    """Four quadrupeds in their default state, with a contact sensor "touch" on every body."""
    torch.manual_seed(0)
    robot = _quadruped["robot"]
    robot.write_body_mass(robot.data.default_body_mass)
    robot.write_friction(robot.data.default_friction)
    robot.write_joint_gains(robot.data.default_joint_stiffness, robot.data.default_joint_damping)
    _quadruped.reset()
    return SceneEnv(_quadruped)


class ArmSceneCfg(InteractiveSceneCfg):
    env_spacing = 2.5
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("arm.xml"),
        fixed_base=True,
        init_joint_pos={"shoulder_pitch": 0.63, "elbow": -0.07, "wrist_pitch": 1.01},
        actuators={"joints": PdActuatorCfg(joint_names=[".*"], stiffness=500.0, damping=30.0)},
    )
    table = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Table",
        spawn=CuboidCfg(size=(0.6, 0.9, 0.05), mass=20.0, friction=0.6, fixed=True),
        init_pos=(0.55, 0.0, 0.075),
    )
    tool_contact = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Robot/tool",
        filter_prim_paths_expr=["{ENV_REGEX_NS}/Table"],
        history_length=3,
        track_friction_forces=True,
    )
    link_contact = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/(forearm|wrist_.*)")


@pytest.fixture(scope="session")
def _arm() -> InteractiveScene:
    return InteractiveScene(ArmSceneCfg(num_envs=2), physics=NewtonCfg(dt=0.005), device="cpu")


@pytest.fixture
def arm(_arm: InteractiveScene) -> SceneEnv:
    """Two arms in their default state above a table, with contact sensors "tool_contact" and "link_contact"."""
    torch.manual_seed(0)
    table = _arm["table"]
    table.write_friction(table.data.default_friction)
    _arm.reset()
    return SceneEnv(_arm, decimation=2)
