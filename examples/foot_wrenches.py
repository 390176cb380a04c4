# SPDX-License-Identifier: Apache-2.0
"""A task in Python whose policy observes the wrenches in the joints of the feet."""

from __future__ import annotations

import torch

import forcelab.envs.mdp as mdp
from forcelab.assets import ArticulationCfg
from forcelab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg
from forcelab.managers import ObservationGroupCfg as ObsGroup
from forcelab.managers import ObservationTermCfg as ObsTerm
from forcelab.managers import RewardTermCfg as RewTerm
from forcelab.managers import SceneEntityCfg
from forcelab.managers import TerminationTermCfg as DoneTerm
from forcelab.physics import NewtonCfg
from forcelab.scene import CollectionCfg, InteractiveSceneCfg, MjcfCfg, PdActuatorCfg, PlaneCfg
from forcelab.sensors import JointWrenchSensorCfg

FEET_BODY_NAMES = ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"]


class QuadrupedSceneCfg(InteractiveSceneCfg):
    """A robot with a sensor for the wrenches of its joints."""

    num_envs = 4
    ground = PlaneCfg()
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.507),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.30},
        actuators={"legs": PdActuatorCfg(stiffness=200.0, damping=8.0)},
    )
    joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot")


class ObservationsCfg(CollectionCfg):
    """What the policy sees."""

    class PolicyCfg(ObsGroup):
        """One group of terms, joined in this order."""

        base_height = ObsTerm(func=mdp.base_pos_z)
        joint_pos = ObsTerm(func=mdp.joint_pos_rel)
        feet_wrenches = ObsTerm(
            func=mdp.body_incoming_wrench,
            scale=0.1,
            params={"sensor_cfg": SceneEntityCfg("joint_wrench", body_names=FEET_BODY_NAMES)},
        )
        actions = ObsTerm(func=mdp.last_action)

    policy = PolicyCfg()


class QuadrupedEnvCfg(ManagerBasedRLEnvCfg):
    """Stand still."""

    scene = QuadrupedSceneCfg()
    physics = NewtonCfg(dt=0.005)
    decimation = 4
    episode_length_s = 5.0
    observations = ObservationsCfg()
    actions = CollectionCfg(legs=mdp.JointPositionActionCfg(asset_name="robot", scale=0.25))
    rewards = CollectionCfg(alive=RewTerm(func=mdp.is_alive, weight=1.0))
    terminations = CollectionCfg(time_out=DoneTerm(func=mdp.time_out, time_out=True))


def main() -> None:
    """Step with zero actions and print the observed wrenches of environment 0."""
    env = ManagerBasedRLEnv(cfg=QuadrupedEnvCfg())
    env.reset()
    actions = torch.zeros(env.num_envs, env.action_manager.total_action_dim)
    for _ in range(50):
        obs, _, _, _, _ = env.step(actions)
    print(f"policy observations {tuple(obs['policy'].shape)}")
    # After the height and twelve joint positions: force and torque of each foot, times 0.1.
    wrenches = obs["policy"][0, 13:37].view(4, 6) / 0.1
    for name, wrench in zip(FEET_BODY_NAMES, wrenches.tolist()):
        force, torque = (", ".join(f"{v:7.2f}" for v in part) for part in (wrench[:3], wrench[3:]))
        print(f"{name}: force ({force}) N, torque ({torque}) N·m")
    env.close()


if __name__ == "__main__":
    main()
