# SPDX-License-Identifier: Apache-2.0
"""The shipped tasks: composition, overrides of every form, saving and loading. No environment is built."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from forcelab import mdp
from forcelab.configs import (
    ConfigError,
    apply_overrides,
    compose,
    compose_saved,
    from_yaml,
    list_tasks,
    to_yaml,
)
from forcelab.envs import ManagerBasedRlEnvCfg
from forcelab.managers import EventTermCfg, ObservationTermCfg, RewardTermCfg, SceneEntityCfg, UniformNoiseCfg
from forcelab.physics import NewtonCfg, OvPhysxCfg
from forcelab.scene import ArticulationCfg, IdealPdActuatorCfg, InteractiveSceneCfg, PdActuatorCfg
from forcelab.sensors import ContactSensorCfg

TASKS = [t.name for t in list_tasks()]


def velocity(*overrides: str, **kwargs):
    return compose("velocity_flat", overrides, **kwargs)


def error(*overrides: str) -> str:
    with pytest.raises(ConfigError) as info:
        velocity(*overrides)
    assert "\n" not in str(info.value)
    return str(info.value)


def test_tasks_and_ids():
    assert {t.name: t.id for t in list_tasks()} == {
        "velocity_flat": "forcelab/Velocity-Flat-Quadruped-v0",
        "balance_cartpole": "forcelab/Balance-Cartpole-v0",
        "press_arm": "forcelab/Press-Arm-v0",
        "run_flat_ant": "forcelab/Run-Flat-Ant-v0",
    }
    assert all(t.description for t in list_tasks())
    assert compose("forcelab/Balance-Cartpole-v0").task == "balance_cartpole"
    assert compose().task == "velocity_flat"
    assert compose("velocity_flat", ["task=balance_cartpole"]).task == "balance_cartpole"


def test_typed_objects():
    cfg = velocity()
    env = cfg.env
    assert type(env) is ManagerBasedRlEnvCfg and type(env.physics) is NewtonCfg
    assert isinstance(env.scene, InteractiveSceneCfg) and type(env.scene.robot) is ArticulationCfg
    assert type(env.scene.robot.actuators["legs"]) is PdActuatorCfg
    assert env.scene.robot.init_pos == (0.0, 0.0, 0.507)
    assert env.scene.feet_contact.prim_path == "{ENV_REGEX_NS}/Robot/.*_FOOT"
    assert env.rewards.feet_slide == RewardTermCfg(
        mdp.feet_slide,
        {
            "sensor_cfg": SceneEntityCfg("feet_contact"),
            "asset_cfg": SceneEntityCfg("robot", body_names=".*_FOOT"),
        },
        weight=-0.1,
    )
    assert env.observations.policy.joint_vel == ObservationTermCfg(
        mdp.joint_vel_rel, noise=UniformNoiseCfg(n_min=-1.5, n_max=1.5)
    )
    assert env.observations.policy.enable_corruption and not env.observations.critic.enable_corruption
    assert type(env.events.push) is EventTermCfg and env.events.push.interval_range_s == (10.0, 15.0)
    assert env.commands.base_velocity.ranges.heading == (-3.14159265, 3.14159265)
    assert cfg.agent.experiment_name == "velocity_flat" and cfg.agent.actor.distribution is not None
    assert cfg.agent.critic.distribution is None


def test_override_forms():
    cfg = velocity(
        "rewards.feet_air_time.weight=-1e-3",
        "~rewards.feet_slide",
        "rewards.joint_acc_l2=null",
        "+rewards.standing.func=joint_deviation_l1",
        "+rewards.standing.weight=-0.1",
        "+rewards.standing.params.asset_cfg={name:robot,joint_names:[.*_HAA]}",
        "scene.feet_contact.history_length=3",
        "physics=ovphysx",
        "physics.dt=1e-3",
        "num_envs=256",
        "device=cuda:0",
        "seed=1",
        "agent.max_iterations=200",
        "agent.actor.hidden_dims=[64,32,16,8]",
        'scene.robot.actuators.legs.stiffness[".*_HAA"]=40',
        "scene.robot.actuators.legs.damping={.*_HFE:3}",
        "rewards.undesired_contacts.params.sensor_cfg.body_names=[a,b]",
        "+observations.policy.force={func:body_contact_forces,params:{sensor_cfg:{name:feet_contact}},clip:[-9,9]}",
        "commands.base_velocity.ranges.lin_vel_x=[-2,2]",
        "events={}",
        "+scene.wall={_target_:ContactSensorCfg,prim_path:x}",
    )
    env, rewards = cfg.env, dict(cfg.env.rewards.items())
    assert rewards["feet_air_time"].weight == -1e-3
    assert "feet_slide" not in rewards and "joint_acc_l2" not in rewards
    assert rewards["standing"] == RewardTermCfg(
        mdp.joint_deviation_l1, {"asset_cfg": SceneEntityCfg("robot", joint_names=[".*_HAA"])}, -0.1
    )
    assert env.scene.feet_contact.history_length == 3 and env.scene.num_envs == 256
    assert type(env.physics) is OvPhysxCfg and env.physics.dt == 1e-3
    assert (env.device, env.seed) == ("cuda:0", 1)
    assert cfg.agent.max_iterations == 200 and cfg.agent.actor.hidden_dims == [64, 32, 16, 8]
    legs = env.scene.robot.actuators["legs"]
    before = velocity().env.scene.robot.actuators["legs"]
    assert legs.stiffness == {**before.stiffness, ".*_HAA": 40.0}
    assert legs.damping == {**before.damping, ".*_HFE": 3.0}
    assert rewards["undesired_contacts"].params["sensor_cfg"].body_names == ["a", "b"]
    assert env.observations.policy.force.clip == (-9.0, 9.0)
    assert env.commands.base_velocity.ranges.lin_vel_x == (-2.0, 2.0)
    assert list(env.events.items()) == []
    assert env.scene.wall == ContactSensorCfg(prim_path="x")
    assert cfg.choices["physics"] == "ovphysx"


def test_another_class_keeps_what_was_set():
    legs = velocity("scene.robot.actuators.legs._target_=IdealPdActuatorCfg").env.scene.robot.actuators[
        "legs"
    ]
    before = velocity().env.scene.robot.actuators["legs"]
    assert type(legs) is IdealPdActuatorCfg and legs.effort_limit == before.effort_limit == 80.0
    assert legs.stiffness == before.stiffness
    action = velocity("actions.joint_pos._target_=JointVelocityActionCfg").env.actions.joint_pos
    assert action.scale == 0.25 and action.class_type.endswith("JointVelocityAction")


def test_overrides_change_no_other_composition():
    before = velocity()
    velocity("rewards={}", "scene.robot.init_joint_pos={}", "agent.actor.hidden_dims=[1]")
    assert velocity() == before


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("physics=typo", ["physics", "'newton', 'ovphysx'"]),
        ("physics=newtn", ["Did you mean 'newton'"]),
        ("phisics=newton", ["Did you mean 'physics'"]),
        ("task=velocity_flut", ["Did you mean 'velocity_flat'"]),
        ("rewards.typo.weight=1", ["rewards.typo", "'feet_slide'"]),
        ("rewards.feet_slid.weight=1", ["rewards.feet_slid", "Did you mean 'feet_slide'"]),
        ("rewards.feet_slide.func=feet_slyde", ["rewards.feet_slide.func", "Did you mean 'feet_slide'"]),
        ("rewards.feet_slide.params.treshold=1", ["rewards.feet_slide.params.treshold", "'threshold'"]),
        ("scene.feet_contact.histroy_length=1", ["scene.feet_contact.histroy_length", "'history_length'"]),
        (
            "scene.feet_contact.history_length=x",
            ["scene.feet_contact.history_length", "expected int", "'x' (str)"],
        ),
        ("+scene.box._target_=CubiodCfg", ["scene.box._target_", "Did you mean 'CuboidCfg'"]),
        ("+rewards.mine.weight=1", ["rewards.mine.func: must be given"]),
        ("agent.logger=tensorbord", ["agent.logger", "Did you mean 'tensorboard'"]),
        ("decimation=0", ["decimation"]),
        ("robot.feet=x", ["robot", "group"]),
        ("hydra/launcher=joblib", ["hydra/launcher", "not supported"]),
        ("hydra.searchpath=[/no/such/folder]", ["/no/such/folder"]),
        ("robot=quadruped,cartpole", ["--multirun"]),
    ],
)
def test_errors(override, parts):
    message = error(override)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("task", TASKS)
def test_yaml_round_trip(task):
    cfg = compose(task, ["~rewards.feet_slide"] if task == "velocity_flat" else ["seed=3", "rewards={}"])
    text = to_yaml(cfg)
    again = from_yaml(text)
    assert again == cfg
    assert to_yaml(again) == text
    assert from_yaml(text, ["num_envs=7"]).env.scene.num_envs == 7


@pytest.mark.parametrize("task", TASKS)
def test_reward_terms_by_path(task):
    """Every weight can be reached by its path, and a misspelt path is told."""
    cfg = compose(task)
    terms = [name for name, _ in cfg.env.rewards.items()]
    changed = compose(task, [f"rewards.{n}.weight={i}" for i, n in enumerate(terms)])
    assert [t.weight for _, t in changed.env.rewards.items()] == list(range(len(terms)))
    for name in terms:
        with pytest.raises(ConfigError, match="Did you mean"):
            apply_overrides(cfg, [f"rewards.{name}x.weight=1"])


def test_saved_configuration_on_another_engine(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(velocity("physics.dt=0.002", "~rewards.feet_slide")), encoding="utf-8")
    cfg = compose_saved(file, ["task=velocity_flat", "physics=ovphysx", "num_envs=3"])
    assert type(cfg.env.physics) is OvPhysxCfg and cfg.env.physics.dt == 0.002
    assert cfg.env.scene.num_envs == 3 and "feet_slide" not in cfg.env.rewards
    assert compose_saved(file, ["task=balance_cartpole"]) is None


def test_users_own_tree(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "terrain").mkdir()
    (tmp_path / "terrain" / "slippery.yaml").write_text(
        "# @package scene\nground: {_target_: PlaneCfg, friction: 1e-1}\n", encoding="utf-8"
    )
    (tmp_path / "task" / "mine.yaml").write_text(
        textwrap.dedent(
            """
            # @package _global_
            defaults: [velocity_flat, _self_]
            id: my/Task-v0
            description: Mine.
            rewards:
              feet_slide: null
              slow: {func: joint_vel_l2, weight: -1e-3}
            """
        ),
        encoding="utf-8",
    )
    path = f"hydra.searchpath=[{tmp_path}]"
    cfg = compose("mine", [path])
    assert (cfg.task, cfg.id) == ("mine", "my/Task-v0")
    assert "feet_slide" not in cfg.env.rewards and cfg.env.rewards.slow.weight == -1e-3
    assert compose("my/Task-v0", [f"hydra.searchpath=[file://{tmp_path}]"]).task == "mine"
    assert compose("mine", ["+terrain=slippery"], searchpath=[str(tmp_path)]).env.scene.ground.friction == 0.1
    assert [t.name for t in list_tasks([str(tmp_path)])] == [*TASKS, "mine"]
    with pytest.raises(ConfigError, match="no task 'mine'"):
        compose("mine")


def test_inside_a_users_hydra_main(tmp_path):
    """Hydra's own `compose` refuses to run there."""
    (tmp_path / "app.py").write_text(
        textwrap.dedent(
            """
            import hydra
            from forcelab.configs import compose

            @hydra.main(version_base=None, config_path=None)
            def main(cfg):
                print(compose("balance_cartpole", ["seed=5"]).env.seed)

            main()
            """
        ),
        encoding="utf-8",
    )
    result = subprocess.run(
        [sys.executable, "app.py", f"hydra.run.dir={tmp_path}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.stdout.strip() == "5", result.stderr


def test_python_configuration_takes_overrides():
    """A configuration written as classes is changed by the same overrides."""
    from forcelab.scene import CollectionCfg

    class Rewards(CollectionCfg):
        alive = RewardTermCfg(mdp.is_alive, weight=1.0)

    class MyEnvCfg(ManagerBasedRlEnvCfg):
        rewards = Rewards()
        decimation = 2

        def __post_init__(self):
            self.episode_length_s = 7.0

    cfg = MyEnvCfg()
    apply_overrides(
        cfg,
        [
            "rewards.alive.weight=2",
            "+rewards.slow={func:action_l2,weight:-1}",
            "episode_length_s=3",
            "num_envs=9",
        ],
    )
    assert cfg.rewards.alive.weight == 2.0 and cfg.rewards.slow.func is mdp.action_l2
    assert cfg.episode_length_s == 3.0 and cfg.scene.num_envs == 9
    with pytest.raises(ConfigError, match="Did you mean 'alive'"):
        apply_overrides(cfg, ["rewards.alife.weight=2"])


def test_a_robot_without_the_parts_that_a_task_needs():
    with pytest.raises(
        ConfigError, match=r"actions\.joint_pos\.clip.*\$\{robot\.target_limits\}.*names\s+all parts"
    ):
        compose("run_flat_ant", ["robot=quadruped"])
