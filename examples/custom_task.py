# SPDX-License-Identifier: Apache-2.0
"""A task in Python with a reward of its own: a quadruped learns to stand with its weight spread evenly."""

from __future__ import annotations

import torch

from forcelab import mdp
from forcelab.configs import ComposedCfg, compose
from forcelab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
from forcelab.managers import ObservationGroupCfg, ObservationTermCfg, RewardTermCfg, SceneEntityCfg
from forcelab.managers import TerminationTermCfg as Termination
from forcelab.scene import CollectionCfg

FEET = {"sensor_cfg": SceneEntityCfg("feet_contact", body_names=".*_FOOT")}


def uneven_load(env, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Spread of the vertical forces over the feet, as a share of their mean. (E,)"""
    load = env.scene[sensor_cfg.name].data.net_forces_w[:, sensor_cfg.body_ids, 2]
    return load.std(dim=1) / load.mean(dim=1).clamp(min=1.0)


class PolicyCfg(ObservationGroupCfg):
    joint_pos = ObservationTermCfg(func=mdp.joint_pos_rel)
    load = ObservationTermCfg(func=mdp.body_contact_forces, params=FEET, scale=0.01)


class StandCfg(ManagerBasedRlEnvCfg):
    scene = compose("velocity_flat", ["num_envs=16"]).env.scene  # its robot, ground and sensors
    decimation = 4  # physics steps of 5 ms
    actions = CollectionCfg(legs=mdp.JointPositionActionCfg(scale=0.25))
    observations = CollectionCfg(policy=PolicyCfg())
    rewards = CollectionCfg(
        alive=RewardTermCfg(func=mdp.is_alive, weight=1.0),
        uneven_load=RewardTermCfg(func=uneven_load, weight=-0.5, params=FEET),
    )
    terminations = CollectionCfg(time_out=Termination(func=mdp.time_out, time_out=True))


def main(argv: list[str] | None = None) -> None:
    """Step the task with zero actions; with the argument ``train``, train it for ten iterations."""
    if argv and argv[0] == "train":
        from forcelab.learning import AgentCfg
        from forcelab.learning.train import train

        agent = AgentCfg(experiment_name="stand", max_iterations=10)
        agent.obs_groups = {"actor": ["policy"], "critic": ["policy"]}
        train(ComposedCfg("stand", StandCfg(seed=1), agent))
        return
    env = ManagerBasedRlEnv(StandCfg(seed=1))
    env.reset()
    for _ in range(100):
        obs, reward, _, _, _ = env.step(torch.zeros(16, 12))
    print(f"policy observations {tuple(obs['policy'].shape)}, mean reward {reward.mean():.4f}")
    print(env.reward_manager.get_active_iterable_terms(0))
    env.close()


if __name__ == "__main__":
    main()
