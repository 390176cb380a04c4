# SPDX-License-Identifier: Apache-2.0
"""No term makes the host wait for the device: what it calls can be captured in a CUDA graph."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from forcelab import mdp
from forcelab.managers import (
    ActionManager,
    CommandManager,
    CurriculumManager,
    CurriculumTermCfg,
    EventManager,
    EventTermCfg,
    RewardManager,
    RewardTermCfg,
    SceneEntityCfg,
)
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
from forcelab.sensors import GridPatternCfg, ImuCfg, JointWrenchSensorCfg, RayCasterCfg

WAITING = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "is_nonzero",
    "equal",
    "unique",
    "item",
    "allclose",
)


class NoWaiting(TorchDispatchMode):
    """Raises at operations whose result the host needs, and at indexing with a mask or from the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in WAITING or name.startswith(("unique", "nonzero", "lift_fresh")):
            raise AssertionError(f"{func} makes the host wait")
        if name in ("index", "index_put", "index_put_"):
            for index in args[1]:
                if (
                    index is not None
                    and index.dtype is torch.bool
                    and not (name != "index" and args[2].dim() == 0)
                ):
                    raise AssertionError(f"{func} with a mask makes the host wait")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def env(quadruped: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    e = quadruped
    monkeypatch.setattr(e.scene.engine, "looks", False)  # as on CUDA
    e.command_manager = CommandManager(
        {
            "base_velocity": mdp.UniformVelocityCommandCfg(
                heading_command=True, rel_standing_envs=0.2, ranges={"heading": (-3.0, 3.0)}
            )
        },
        e,
    )
    e.action_manager = ActionManager(
        {
            "legs": mdp.JointPositionActionCfg(joint_names=[".*_HAA"], clip={".*": (-1.0, 1.0)}),
            "hips": mdp.RelativeJointPositionActionCfg(joint_names=[".*_HFE"]),
            "knees": mdp.JointVelocityActionCfg(joint_names=[".*_KFE"]),
            "more": mdp.JointEffortActionCfg(joint_names=["LF_KFE"]),
        },
        e,
    )
    e.reward_manager = RewardManager({"alive": RewardTermCfg(mdp.is_alive, weight=1.0)}, e)
    e.termination_manager = SimpleNamespace(terminated=torch.zeros(4, dtype=torch.bool))
    e.step(2)
    return e


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).any()),
        lambda x: x[x > 0],
        lambda x: (x > 0).nonzero(),
        lambda x: float(x[0]),
        lambda x: torch.tensor([1.0, 2.0]),
    ],
)
def test_the_check_sees_waits(wait: Any) -> None:
    x = torch.randn(4)
    with pytest.raises(AssertionError, match="wait"), NoWaiting():
        wait(x)


PARAMS: dict[str, Any] = {
    "bounds": (-1.0, 1.0),
    "command_name": "base_velocity",
    "force_range": (-1.0, 1.0),
    "friction_range": (0.5, 1.0),
    "limit_angle": 1.0,
    "mass_distribution_params": (0.9, 1.1),
    "max_velocity": 5.0,
    "minimum_height": 0.2,
    "pose_range": {"x": (-0.5, 0.5), "yaw": (-3.0, 3.0)},
    "position_range": (0.9, 1.1),
    "pos_distribution_params": (-0.01, 0.01),
    "soft_ratio": 0.9,
    "static_friction_range": (0.5, 1.0),
    "std": 0.5,
    "target_height": 0.5,
    "threshold": 0.5,
    "torque_range": (-1.0, 1.0),
}


def params_of(func: Any) -> dict[str, Any]:
    call = func.__call__ if inspect.isclass(func) else func
    params: dict[str, Any] = {}
    for p in inspect.signature(call).parameters.values():
        if p.name == "sensor_cfg":
            params[p.name] = SceneEntityCfg("touch", body_names=".*_FOOT")
        elif p.name == "asset_cfg":
            params[p.name] = SceneEntityCfg("robot", body_names=".*_FOOT", joint_names=".*_HAA")
        elif p.name == "velocity_range":
            params[p.name] = (-0.1, 0.1) if "joints" in func.__name__ else {"y": (-1.0, 1.0)}
        elif p.name in PARAMS and p.default is p.empty:
            params[p.name] = PARAMS[p.name]
    return params


OTHER_SENSORS = {
    "body_contact_force_matrix",
    "body_incoming_wrench",
    "height_scan",
    "imu_ang_vel",
    "imu_lin_acc",
    "imu_projected_gravity",
    "joint_wrench_limits",
    "joint_wrench_out_of_limit",
}
# Tested on an arm that presses on a table, below.
PRESSING = {
    "body_axis_deviation_l2",
    "body_pos_out_of_bounds",
    "normal_force_error",
    "track_normal_force_exp",
    "track_target_point_exp",
    "track_target_velocity_exp",
}
VALUES = [n for m in ("observations", "rewards", "terminations", "metrics") for n in mdp._TERMS[m]]


@pytest.mark.parametrize("name", [n for n in VALUES if n not in OTHER_SENSORS | PRESSING])
def test_values(env: Any, name: str) -> None:
    func = getattr(mdp, name)
    params = params_of(func)
    for value in params.values():
        if isinstance(value, SceneEntityCfg):
            value.resolve(env.scene)
    with NoWaiting():
        got = func(env, **params)
    assert got.shape[0] == 4
    if name in mdp._TERMS["observations"]:
        assert got.dim() == 2 and got.dtype == torch.float32
    else:
        assert got.shape == (4,)
        assert got.dtype == (torch.bool if name in mdp._TERMS["terminations"] else torch.float32)
    assert not torch.isnan(got).any() or name == "joint_pos_limit_normalized"


class ScanSceneCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    box = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Box", spawn=CuboidCfg(size=(0.1, 0.1, 0.1)), init_pos=(0, 0, 1)
    )
    scan = RayCasterCfg(prim_path="{ENV_REGEX_NS}/Box", pattern_cfg=GridPatternCfg(0.5, (1.0, 1.0)))
    imu = ImuCfg(prim_path="{ENV_REGEX_NS}/Box")


def test_scan_and_imu() -> None:
    scene = InteractiveScene(ScanSceneCfg(num_envs=2), NewtonCfg())
    env: Any = SimpleNamespace(scene=scene)
    scene.engine.looks = False  # as on CUDA
    scene.step()
    scene["box"].write_root_velocity(torch.zeros(2, 6))  # the next reading takes this in
    with NoWaiting():
        scan = mdp.height_scan(env, SceneEntityCfg("scan"))
        others = [
            term(env, SceneEntityCfg("imu"))
            for term in (mdp.imu_ang_vel, mdp.imu_lin_acc, mdp.imu_projected_gravity)
        ]
        scene.reset(torch.ones(2, dtype=torch.bool))
    assert scan.shape == (2, 9) and all(other.shape == (2, 3) for other in others)
    assert torch.allclose(scan, torch.tensor(0.5), atol=1e-3)
    scene.close()


class WrenchSceneCfg(InteractiveSceneCfg):
    robot = ArticulationCfg(prim_path="{ENV_REGEX_NS}/Robot", spawn=MjcfCfg("cartpole.xml"), fixed_base=True)
    joint_wrench = JointWrenchSensorCfg(prim_path="{ENV_REGEX_NS}/Robot", cutoff_frequency=10.0)


def test_wrenches() -> None:
    scene = InteractiveScene(WrenchSceneCfg(num_envs=2), NewtonCfg())
    env: Any = SimpleNamespace(scene=scene, num_envs=2, device=scene.device)
    entity = SceneEntityCfg("joint_wrench", body_names=["pole"])
    entity.resolve(scene)
    cfg = mdp.ForceTorqueSensorModelCfg(
        dt=0.02,
        cutoff_frequency=10.0,
        force_bias=1.0,
        force_noise=1.0,
        force_drift=1.0,
        force_range=50.0,
    )
    model = mdp.ForceTorqueSensorModel(cfg, (2, 6), scene.device)
    scene.engine.looks = False  # as on CUDA
    scene.step()
    mask = torch.tensor([True, False])
    with NoWaiting():
        for frame in ("sensor", "body", "world"):
            for filtered in (False, True):
                wrench = mdp.body_incoming_wrench(env, entity, frame=frame, filtered=filtered)
        out = model(wrench)
        limits = {"force_limit": 5.0, "torque_limit": 1.0}
        penalty = mdp.joint_wrench_limits(env, entity, **limits)
        over = mdp.joint_wrench_out_of_limit(env, entity, **limits)
        cfg.force_noise = 2.0
        cfg.cutoff_frequency = 5.0
        model.reset(mask)
        scene.reset(mask)
    assert out.shape == (2, 6) and penalty.shape == over.shape == (2,)
    assert (wrench[:, 2] > 0.5).all()  # the pole's weight, 0.98 N
    scene.close()


@pytest.mark.parametrize("name", mdp._TERMS["events"])
def test_events(env: Any, name: str) -> None:
    func = getattr(mdp, name)
    manager = EventManager({name: EventTermCfg(func, params_of(func), mode="mine")}, env)
    default = env.scene["robot"].data.default_joint_pos
    built = default.clone()
    manager.apply("mine", env_mask=env.mask(0, 2))  # constants are made on the first call
    with NoWaiting():
        manager.apply("mine", env_mask=env.all_envs)
    default.copy_(built)


def test_commands(env: Any) -> None:
    mask = env.mask(1)
    with NoWaiting():
        env.command_manager.update_metrics()
        env.command_manager.reset(mask)
        env.command_manager.compute(env.step_dt)


def test_pressing(arm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm.scene.engine, "looks", False)  # as on CUDA
    arm.command_manager = CommandManager({"press": mdp.SlidingPressCommandCfg()}, arm)
    arm.action_manager = ActionManager({"joints": mdp.IncrementalJointPositionActionCfg()}, arm)
    arm.command_manager.reset()
    arm.action_manager.reset()
    tool, sensor = arm.entity("robot", body_names="tool"), arm.entity("tool_contact")
    box = {"lower": (0.3, -0.2, 0.0), "upper": (0.7, 0.2, 0.4), "asset_cfg": tool}
    # Constants are made on the first call.
    mdp.body_pos_out_of_bounds(arm, **box)
    mdp.body_axis_deviation_l2(arm, asset_cfg=tool)
    mask, dt, action = arm.mask(1), torch.full((2,), arm.step_dt), torch.randn(2, 6)
    with NoWaiting():
        arm.action_manager.process_action(action)
        arm.action_manager.apply_action()
        mdp.body_pos_out_of_bounds(arm, **box)
        mdp.body_axis_deviation_l2(arm, asset_cfg=tool)
        mdp.normal_force_error(arm, "press", sensor)
        mdp.track_normal_force_exp(arm, "press", sensor, std=0.1)
        mdp.track_target_point_exp(arm, "press", std=0.1)
        mdp.track_target_velocity_exp(arm, "press", std=0.1)
        arm.command_manager.update_metrics()
        arm.command_manager.reset(mask)
        arm.command_manager.compute(dt)
        arm.command_manager.compute(arm.step_dt)
        arm.action_manager.reset(mask)


def test_actions(env: Any) -> None:
    action, mask = torch.randn(4, 13), env.mask(1)
    with NoWaiting():
        env.action_manager.process_action(action)
        env.action_manager.apply_action()
        env.action_manager.reset(mask)


@pytest.mark.parametrize("drive", [{"num_steps": 10}, {"reward_term": "alive"}])
def test_curricula(env: Any, drive: dict[str, Any]) -> None:
    ranges = dict(command_name="base_velocity", limits={"lin_vel_x": (-2.0, 2.0)}, **drive)
    weight = {"term_name": "alive", "weight": 0.5, "num_steps": 1}
    manager = CurriculumManager(
        {
            "ranges": CurriculumTermCfg(mdp.command_velocity_ranges, ranges),
            "weight": CurriculumTermCfg(mdp.modify_reward_weight, weight),
        },
        env,
    )
    manager.compute(env.all_envs)
    mask = env.mask(1)
    with NoWaiting():
        manager.compute(mask)
