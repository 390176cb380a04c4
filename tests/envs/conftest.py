# SPDX-License-Identifier: Apache-2.0
"""A small cart-pole task, built from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
from forcelab.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
    UniformNoiseCfg,
)
from forcelab.mdp import JointEffortActionCfg
from forcelab.physics import NewtonCfg
from forcelab.scene import ArticulationCfg, CollectionCfg, InteractiveSceneCfg, MjcfCfg

POLE = SceneEntityCfg("robot", joint_names="cart_to_pole")


class CartpoleSceneCfg(InteractiveSceneCfg):
    num_envs = 3
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg(str(Path(__file__).parents[2] / "scene/robots/cartpole.xml")),
        init_pos=(0.0, 0.0, 2.0),
    )


class PolicyCfg(ObservationGroupCfg):
    joint_pos = ObservationTermCfg(func="joint_pos_rel")
    joint_vel = ObservationTermCfg(func="joint_vel_rel")


def scale_mass(env: Any, env_mask: torch.Tensor) -> None:
    robot = env.scene["robot"]
    factor = 0.5 + torch.rand(env.num_envs, 1)
    robot.write_body_mass(robot.data.default_body_mass * factor, env_mask)


class CartpoleCfg(ManagerBasedRlEnvCfg):
    scene = CartpoleSceneCfg()
    physics = NewtonCfg(dt=0.01)
    decimation = 2
    episode_length_s = 0.2
    seed = 1
    observations = CollectionCfg(policy=PolicyCfg())
    actions = CollectionCfg(cart=JointEffortActionCfg(joint_names=["slider_to_cart"], scale=10.0))
    rewards = CollectionCfg(
        alive=RewardTermCfg(func="is_alive", weight=1.0),
        pole=RewardTermCfg(func="joint_vel_l2", weight=-0.1, params={"asset_cfg": POLE}),
    )
    terminations = CollectionCfg(time_out=TerminationTermCfg(func="time_out", time_out=True))
    events = CollectionCfg(
        mass=EventTermCfg(func=scale_mass, mode="startup"),
        start=EventTermCfg(
            func="reset_joints_by_offset",
            mode="reset",
            params={"position_range": (-0.1, 0.1), "velocity_range": (-0.1, 0.1)},
        ),
    )


@pytest.fixture
def cfg() -> CartpoleCfg:
    return CartpoleCfg()


@pytest.fixture
def noisy_cfg(cfg: CartpoleCfg) -> CartpoleCfg:
    """With everything that draws random numbers."""
    policy = cfg.observations.policy
    policy.enable_corruption = True
    policy.joint_pos.noise = UniformNoiseCfg(n_min=-0.01, n_max=0.01)
    policy.joint_vel.delay_max_lag = 2
    policy.joint_vel.history_length = 3
    return cfg


@pytest.fixture
def make() -> Iterator[Callable[..., ManagerBasedRlEnv]]:
    """Makes environments and closes them at the end."""
    made = []

    def make(cfg: ManagerBasedRlEnvCfg, **kwargs: Any) -> ManagerBasedRlEnv:
        made.append(ManagerBasedRlEnv(cfg, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close()
