# SPDX-License-Identifier: Apache-2.0
"""forcelab's side of :mod:`forcelab.benchmarks.compare_mjlab`: the same robot, solver and terms."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict
from typing import Any

import torch

from forcelab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
from forcelab.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ManagerTermBase,
    MetricsTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
    UniformNoiseCfg,
)
from forcelab.mdp import JointPositionActionCfg, UniformVelocityCommandCfg
from forcelab.physics import NewtonCfg
from forcelab.physics.quaternions import quat_apply
from forcelab.scene import (
    ArticulationCfg,
    CollectionCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
)
from forcelab.sensors import ContactSensorCfg, GridPatternCfg, RayCasterCfg

from .step_time import _copy_state, measure_parts, without_sensors

FEET = ("FR", "FL", "RR", "RL")
# Centre of a foot's sphere in the frame of its calf, m.
_FOOT = (0.0, 0.0, -0.213)


# -- terms that forcelab.mdp has no equal of, written after what mjlab's compute


class _Feet(ManagerTermBase):
    """Base of terms about the feet."""

    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        robot = env.scene["robot"]
        ids, _ = robot.find_bodies([f"{leg}_calf" for leg in FEET], preserve_order=True)
        self.ids = torch.tensor(ids, device=env.device)
        self.point = torch.tensor(_FOOT, device=env.device).expand(env.num_envs, 4, 3)
        self.data = robot.data
        self.sensor = env.scene["feet"]
        self.rays = [env.scene[f"{leg}_rays"] for leg in FEET]

    def arms(self) -> torch.Tensor:
        """Vectors (E, 4, 3) from the calves' origins to the feet."""
        return quat_apply(self.data.body_quat_w.index_select(1, self.ids), self.point)

    def heights(self) -> torch.Tensor:
        """(E, 4) m above the ground that four rays straight down from each calf meet."""
        feet = []
        for sensor in self.rays:
            data = sensor.data
            hits = data.ray_hits_w[..., 2]
            feet.append(hits.amax(dim=1))
        return (self.foot_z() - torch.stack(feet, dim=1)).clamp(0.0, 1.0)

    def foot_z(self) -> torch.Tensor:
        return self.data.body_pos_w.index_select(1, self.ids)[..., 2] + self.arms()[..., 2]

    def planar_velocity(self, arms: torch.Tensor) -> torch.Tensor:
        """(E, 4, 2) m/s."""
        vel = self.data.body_vel_w.index_select(1, self.ids)
        return (vel[..., :3] + torch.linalg.cross(vel[..., 3:], arms))[..., :2]


def _moving(env: Any, threshold: float = 0.05) -> torch.Tensor:
    command = env.command_manager.get_command("twist")
    return torch.linalg.vector_norm(command[:, :2], dim=1) + command[:, 2].abs() > threshold


class foot_height(_Feet):
    def __call__(self, env: Any) -> torch.Tensor:
        return self.heights()


class foot_clearance(_Feet):
    def __call__(self, env: Any, target_height: float) -> torch.Tensor:
        arms = self.arms()
        speed = torch.linalg.vector_norm(self.planar_velocity(arms), dim=-1)
        return ((self.heights() - target_height).abs() * speed).sum(dim=1) * _moving(env)


class foot_swing_height(_Feet):
    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.peak = torch.zeros((env.num_envs, 4), device=env.device)

    def __call__(self, env: Any, target_height: float) -> torch.Tensor:
        height = torch.maximum(self.peak, self.heights())
        self.peak.copy_(torch.where(self.sensor.data.current_contact_time == 0.0, height, self.peak))
        landed = self.sensor.compute_first_contact(env.step_dt)
        cost = ((self.peak / target_height - 1.0).square() * landed).sum(dim=1) * _moving(env)
        self.peak.masked_fill_(landed, 0.0)
        return cost


class foot_slip(_Feet):
    def __call__(self, env: Any) -> torch.Tensor:
        speed = self.planar_velocity(self.arms()).square().sum(dim=-1)
        return (speed * (self.sensor.data.current_contact_time > 0.0)).sum(dim=1) * _moving(env)


def soft_landing(env: Any) -> torch.Tensor:
    sensor = env.scene["feet"]
    force = torch.linalg.vector_norm(sensor.data.net_forces_w, dim=-1)
    return (force * sensor.compute_first_contact(env.step_dt)).sum(dim=1) * _moving(env)


def foot_contact_forces(env: Any) -> torch.Tensor:
    force = env.scene["feet"].data.net_forces_w.flatten(1)
    return force.sign() * force.abs().log1p()


def foot_contact(env: Any) -> torch.Tensor:
    return (env.scene["feet"].data.current_contact_time > 0.0).float()


def foot_air_time(env: Any) -> torch.Tensor:
    return env.scene["feet"].data.current_air_time.as_subclass(torch.Tensor)


def track_linear_velocity(env: Any, std: float) -> torch.Tensor:
    velocity = env.scene["robot"].data.root_lin_vel_b
    command = env.command_manager.get_command("twist")
    error = (command[:, :2] - velocity[:, :2]).square().sum(dim=1) + velocity[:, 2].square()
    return torch.exp(-error / std**2)


def track_angular_velocity(env: Any, std: float) -> torch.Tensor:
    velocity = env.scene["robot"].data.root_ang_vel_b
    command = env.command_manager.get_command("twist")
    error = (command[:, 2] - velocity[:, 2]).square() + velocity[:, :2].square().sum(dim=1)
    return torch.exp(-error / std**2)


def upright(env: Any, std: float) -> torch.Tensor:
    return torch.exp(-env.scene["robot"].data.projected_gravity_b[:, :2].square().sum(dim=1) / std**2)


class pose(ManagerTermBase):
    """How near the joints are to their default, with a tolerance that depends on the command."""

    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        calf = torch.tensor(["calf" in n for n in env.scene["robot"].joint_names], device=env.device)
        self.standing = torch.where(calf, 0.1, 0.05)
        self.moving = torch.where(calf, 0.6, 0.3)

    def __call__(self, env: Any) -> torch.Tensor:
        data = env.scene["robot"].data
        std = torch.where(_moving(env).unsqueeze(1), self.moving, self.standing)
        return torch.exp(-((data.joint_pos - data.default_joint_pos) / std).square().mean(dim=1))


class biased_joint_pos(ManagerTermBase):
    """Joint positions with the constant error of each encoder."""

    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.robot = env.scene["robot"].data
        self.bias = (2.0 * torch.rand_like(self.robot.joint_pos.torch) - 1.0) * 0.015

    def __call__(self, env: Any) -> torch.Tensor:
        return self.robot.joint_pos - self.robot.default_joint_pos + self.bias


class mean_action_acc(ManagerTermBase):
    def __init__(self, cfg: Any, env: Any):
        super().__init__(cfg, env)
        self.before = torch.zeros_like(env.action_manager.action)

    def __call__(self, env: Any) -> torch.Tensor:
        manager = env.action_manager
        value = (manager.action - 2.0 * manager.prev_action + self.before).abs().mean(dim=-1)
        self.before.copy_(manager.prev_action)
        return value


def _group(terms: dict[str, ObservationTermCfg], **settings: Any) -> ObservationGroupCfg:
    group = ObservationGroupCfg(**settings)
    for name, term in terms.items():
        setattr(group, name, term)
    return group


def task(num_envs: int, device: str, about: dict[str, Any]) -> ManagerBasedRlEnvCfg:
    """The task with the numbers that mjlab's side told."""
    joints = about["joints"]

    def by_joint(key: str) -> dict[str, float]:
        return {name: values[key] for name, values in joints.items()}

    def noise(size: float) -> UniformNoiseCfg:
        return UniformNoiseCfg(n_min=-size, n_max=size)

    command = {"command_name": "twist"}
    plain = {
        "base_lin_vel": ObservationTermCfg(func="base_lin_vel"),
        "base_ang_vel": ObservationTermCfg(func="base_ang_vel"),
        "projected_gravity": ObservationTermCfg(func="projected_gravity"),
        "joint_pos": ObservationTermCfg(func="joint_pos_rel"),
        "joint_vel": ObservationTermCfg(func="joint_vel_rel"),
        "actions": ObservationTermCfg(func="last_action"),
        "command": ObservationTermCfg(func="generated_commands", params=dict(command)),
    }
    actor = copy.deepcopy(plain)
    actor["joint_pos"].func = biased_joint_pos
    for name, size in (
        ("base_lin_vel", 0.5),
        ("base_ang_vel", 0.2),
        ("projected_gravity", 0.05),
        ("joint_pos", 0.01),
        ("joint_vel", 1.5),
    ):
        actor[name].noise = noise(size)
    critic = {
        **plain,
        "foot_height": ObservationTermCfg(func=foot_height),
        "foot_air_time": ObservationTermCfg(func=foot_air_time),
        "foot_contact": ObservationTermCfg(func=foot_contact),
        "foot_contact_forces": ObservationTermCfg(func=foot_contact_forces),
    }
    scene = InteractiveSceneCfg(num_envs=num_envs)
    scene.ground = PlaneCfg()
    scene.robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg(about["file"]),
        init_pos=(0.0, 0.0, about["height"]),
        init_joint_pos=by_joint("default"),
        soft_joint_pos_limit_factor=0.9,
        friction=1.0,
        actuators={
            "legs": PdActuatorCfg(
                joint_names=list(joints),
                stiffness=by_joint("stiffness"),
                damping=by_joint("damping"),
                effort_limit=by_joint("effort_limit"),
                armature=by_joint("armature"),
            )
        },
    )
    scene.feet = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Robot/.*_calf",
        sensor_shape_prim_expr=["{ENV_REGEX_NS}/Robot/.*_calf/.*_foot_collision"],
        track_air_time=True,
    )
    for leg in FEET:
        rays = RayCasterCfg(
            prim_path=f"{{ENV_REGEX_NS}}/Robot/{leg}_calf",
            pattern_cfg=GridPatternCfg(size=(0.056, 0.056), resolution=0.056),
            ray_alignment="yaw",
            max_distance=1.0,
            update_period=about["dt"] * about["decimation"],
        )
        setattr(scene, f"{leg}_rays", rays)
    return ManagerBasedRlEnvCfg(
        scene=scene,
        physics=NewtonCfg(
            dt=about["dt"],
            integrator=about["integrator"],
            iterations=about["iterations"],
            ls_iterations=about["ls_iterations"],
            tolerance=about["tolerance"],
            impratio=about["impratio"],
            cone=about["cone"],
            contact_time_constant=0.02,
            friction_time_constant=0.02,
            contact_impedance=(0.9, 0.95, 0.001),
            contact_capacity=about["contact_capacity"],
            constraint_capacity=about["constraint_capacity"],
        ),
        decimation=about["decimation"],
        episode_length_s=about["episode_length_s"],
        device=device,
        seed=1,
        observations=CollectionCfg(actor=_group(actor, enable_corruption=True), critic=_group(critic)),
        actions=CollectionCfg(
            joint_pos=JointPositionActionCfg(
                joint_names=list(joints), scale=by_joint("scale"), use_default_offset=True
            )
        ),
        commands=CollectionCfg(
            twist=UniformVelocityCommandCfg(
                asset_name="robot",
                resampling_time_range=(3.0, 8.0),
                rel_standing_envs=0.1,
                rel_heading_envs=0.3,
                heading_command=True,
                heading_control_stiffness=0.5,
                ranges={
                    "lin_vel_x": (-1.0, 1.0),
                    "lin_vel_y": (-1.0, 1.0),
                    "ang_vel_z": (-0.5, 0.5),
                    "heading": (-math.pi, math.pi),
                },
            )
        ),
        rewards=CollectionCfg(
            track_linear_velocity=RewardTermCfg(func=track_linear_velocity, weight=2.0, params={"std": 0.5}),
            track_angular_velocity=RewardTermCfg(
                func=track_angular_velocity, weight=2.0, params={"std": math.sqrt(0.5)}
            ),
            upright=RewardTermCfg(func=upright, weight=1.0, params={"std": math.sqrt(0.2)}),
            pose=RewardTermCfg(func=pose, weight=1.0),
            dof_pos_limits=RewardTermCfg(func="joint_pos_limits", weight=-1.0),
            action_rate_l2=RewardTermCfg(func="action_rate_l2", weight=-0.1),
            foot_clearance=RewardTermCfg(func=foot_clearance, weight=-2.0, params={"target_height": 0.1}),
            foot_swing_height=RewardTermCfg(
                func=foot_swing_height, weight=-0.25, params={"target_height": 0.1}
            ),
            foot_slip=RewardTermCfg(func=foot_slip, weight=-0.1),
            soft_landing=RewardTermCfg(func=soft_landing, weight=-1e-5),
        ),
        terminations=CollectionCfg(
            time_out=TerminationTermCfg(func="time_out", time_out=True),
            fell_over=TerminationTermCfg(func="bad_orientation", params={"limit_angle": math.radians(70.0)}),
        ),
        events=CollectionCfg(
            foot_friction_slide=EventTermCfg(
                func="randomize_rigid_body_friction",
                mode="startup",
                params={"friction_range": (0.3, 1.5), "shared": True},
            ),
            reset_base=EventTermCfg(
                func="reset_root_state_uniform",
                mode="reset",
                params={
                    "pose_range": {
                        "x": (-0.5, 0.5),
                        "y": (-0.5, 0.5),
                        "z": (0.01, 0.05),
                        "yaw": (-3.14, 3.14),
                    },
                    "velocity_range": {},
                },
            ),
            reset_robot_joints=EventTermCfg(
                func="reset_joints_by_offset",
                mode="reset",
                params={"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0)},
            ),
            push_robot=EventTermCfg(
                func="push_by_setting_velocity",
                mode="interval",
                interval_range_s=(1.0, 3.0),
                params={
                    "velocity_range": {
                        "x": (-0.5, 0.5),
                        "y": (-0.5, 0.5),
                        "z": (-0.4, 0.4),
                        "roll": (-0.52, 0.52),
                        "pitch": (-0.52, 0.52),
                        "yaw": (-0.78, 0.78),
                    }
                },
            ),
        ),
        curriculum=CollectionCfg(
            command_vel=CurriculumTermCfg(
                func="command_velocity_ranges",
                params={
                    "command_name": "twist",
                    "limits": {"lin_vel_x": (-2.0, 3.0), "ang_vel_z": (-0.7, 0.7)},
                    "num_steps": 240_000,
                },
            )
        ),
        metrics=CollectionCfg(mean_action_acc=MetricsTermCfg(func=mean_action_acc)),
    )


class Side:
    """One environment of forcelab, and the same scene without sensors for physics alone."""

    name = "forcelab"

    def __init__(self, num_envs: int, device: str, about: dict[str, Any]):
        cfg = task(num_envs, device, about)
        self.env = ManagerBasedRlEnv(cfg)
        self.env.reset()
        self.num_actions = self.env.action_manager.total_action_dim
        self.bare = InteractiveScene(
            without_sensors(cfg.scene), physics=copy.deepcopy(cfg.physics), device=device
        )
        self.bare.reset()

    def step(self, action: torch.Tensor) -> None:
        self.env.step(action)

    def begin_physics(self) -> None:
        _copy_state(self.env.scene, self.bare)

    def physics(self) -> None:
        """The physics steps of one environment step."""
        for _ in range(self.env.decimation):
            self.bare.engine.step()

    def about(self) -> dict[str, Any]:
        env = self.env
        parts = []
        if env.step_graph.active:
            action = torch.zeros(env.num_envs, self.num_actions, device=env.device)
            parts = [asdict(part) for part in measure_parts(env, action)]
        return {
            "parts": parts,
            "mass": float(env.scene["robot"].data.default_body_mass[0].sum()),
            "observations": dict(env.observation_manager.active_terms),
            "rewards": list(env.reward_manager.active_terms),
            "terminations": list(env.termination_manager.active_terms),
            "step_graph": {
                "mode": env.step_graph.mode,
                "captures": env.step_graph.captures,
                "eager_terms": env.step_graph.eager_terms,
            },
        }

    def close(self) -> None:
        self.env.close()
        self.bare.close()
