# SPDX-License-Identifier: Apache-2.0
"""mjlab's side of :mod:`forcelab.benchmarks.compare_mjlab`: its Go1 task on flat ground, in a process of its own.

Imports mjlab, and nothing of forcelab beside the loop that answers requests.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

import torch

# Packages that mjlab imports for drawing, logging and height fields. Where they are absent, empty ones stand in.
_UNUSED = (
    "wandb",
    "mediapy",
    "mjviser",
    "viser",
    "torchrunx",
    "scipy",
    "trimesh",
    "tensorboard",
    "onnx",
    "onnxscript",
    "imageio_ffmpeg",
    "IPython",
    "PIL",
)


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives empty modules for packages that are not installed and not used here."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] in _UNUSED:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        module = types.ModuleType(spec.name)

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"__init__": lambda self, *args, **kwargs: None})

        module.__getattr__ = missing  # type: ignore[method-assign]
        return module

    def exec_module(self, module: Any) -> None:
        pass


sys.meta_path.append(_Absent())  # last: an installed package comes first

import mujoco_warp  # noqa: E402
from mjlab.asset_zoo.robots import get_go1_robot_cfg  # noqa: E402
from mjlab.asset_zoo.robots.unitree_go1.go1_constants import GO1_ACTION_SCALE, GO1_XML, INIT_STATE  # noqa: E402
from mjlab.envs import ManagerBasedRlEnv  # noqa: E402
from mjlab.managers.reward_manager import RewardTermCfg  # noqa: E402
from mjlab.managers.scene_entity_config import SceneEntityCfg  # noqa: E402
from mjlab.tasks.velocity.config.go1.env_cfgs import unitree_go1_flat_env_cfg  # noqa: E402
from mjlab.utils.lab_api.string import resolve_matching_names_values  # noqa: E402
from mjlab.utils.spec_config import CollisionCfg  # noqa: E402

_FEET = SceneEntityCfg("robot", site_names=("FR", "FL", "RR", "RL"))


# -- terms that read the feet's heights from their poses instead of casting rays


def _moving(env: Any, threshold: float) -> torch.Tensor:
    command = env.command_manager.get_command("twist")
    return (torch.norm(command[:, :2], dim=1) + command[:, 2].abs() > threshold).float()


def foot_height(env: Any, asset_cfg: Any = _FEET) -> torch.Tensor:
    return env.scene["robot"].data.site_pos_w[:, asset_cfg.site_ids, 2]


def foot_clearance(env: Any, target_height: float, asset_cfg: Any) -> torch.Tensor:
    data = env.scene["robot"].data
    speed = torch.norm(data.site_lin_vel_w[:, asset_cfg.site_ids, :2], dim=-1)
    off = (data.site_pos_w[:, asset_cfg.site_ids, 2] - target_height).abs()
    return torch.sum(off * speed, dim=1) * _moving(env, 0.05)


class foot_swing_height:
    def __init__(self, cfg: Any, env: Any):
        self.peak = torch.zeros((env.num_envs, 4), device=env.device)

    def __call__(self, env: Any, target_height: float, asset_cfg: Any) -> torch.Tensor:
        sensor = env.scene["feet_ground_contact"]
        height = env.scene["robot"].data.site_pos_w[:, asset_cfg.site_ids, 2]
        self.peak = torch.where(sensor.data.found == 0, torch.maximum(self.peak, height), self.peak)
        landed = sensor.compute_first_contact(dt=env.step_dt)
        error = self.peak / target_height - 1.0
        cost = torch.sum(torch.square(error) * landed.float(), dim=1) * _moving(env, 0.05)
        self.peak = torch.where(landed, torch.zeros_like(self.peak), self.peak)
        return cost


def task(num_envs: int) -> Any:
    """mjlab's task, less what forcelab has no equal of; see DIFFERENCES in compare_mjlab."""
    cfg = unitree_go1_flat_env_cfg()
    cfg.scene.num_envs = num_envs
    robot = get_go1_robot_cfg()
    # Robots collide with the ground alone, with condim 3 and MuJoCo's softness, as on the other side.
    robot.collisions = (
        CollisionCfg(
            geom_names_expr=(r".*_collision\d*",),
            contype=0,
            conaffinity=1,
            condim=3,
            priority=1,
            friction=(1.0,),
        ),
    )
    cfg.scene.entities = {"robot": robot}
    cfg.scene.sensors = tuple(s for s in cfg.scene.sensors if s.name != "foot_height_scan")
    for name in ("foot_friction_spin", "foot_friction_roll", "encoder_bias", "base_com"):
        del cfg.events[name]
    cfg.observations["actor"].terms["joint_pos"].params = {}
    cfg.observations["critic"].terms["foot_height"].func = foot_height
    cfg.observations["critic"].terms["foot_height"].params = {"asset_cfg": _FEET}
    for name in ("body_ang_vel", "angular_momentum", "air_time"):
        del cfg.rewards[name]  # their weight is 0, with which mjlab does not call them
    params = {"target_height": 0.1, "asset_cfg": _FEET}
    cfg.rewards["foot_clearance"] = RewardTermCfg(func=foot_clearance, weight=-2.0, params=params)
    cfg.rewards["foot_swing_height"] = RewardTermCfg(
        func=foot_swing_height, weight=-0.25, params=dict(params)
    )
    cfg.commands["twist"].rel_forward_envs = 0.0
    cfg.commands["twist"].debug_vis = False
    return cfg


class Side:
    """One environment of mjlab."""

    name = "mjlab"

    def __init__(self, num_envs: int, device: str, about: dict[str, Any]):
        self.env = ManagerBasedRlEnv(task(num_envs), device=device)
        self.env.reset()
        self.num_actions = self.env.action_manager.total_action_dim

    def step(self, action: torch.Tensor) -> None:
        self.env.step(action)

    def physics(self) -> None:
        """The physics steps of one environment step."""
        for _ in range(self.env.cfg.decimation):
            self.env.sim.step()

    def about(self) -> dict[str, Any]:
        """What the other side needs to build the same robot and the same solver."""
        env = self.env
        model, option = env.sim.mj_model, env.sim.cfg.mujoco
        joints = {}
        names = env.scene["robot"].joint_names
        default = _numbers(INIT_STATE.joint_pos, names)
        scale = _numbers(GO1_ACTION_SCALE, names)
        for i, name in enumerate(names):
            joint = model.joint(f"robot/{name}")
            actuator = next(a for a in range(model.nu) if model.actuator_trnid[a, 0] == joint.id)
            joints[name] = {
                "stiffness": float(model.actuator_gainprm[actuator, 0]),
                "damping": float(-model.actuator_biasprm[actuator, 2]),
                "effort_limit": float(model.actuator_forcerange[actuator, 1]),
                "armature": float(model.dof_armature[joint.dofadr[0]]),
                "default": float(default[i]),
                "scale": float(scale[i]),
            }
        data = env.sim.wp_data
        return {
            "file": str(GO1_XML),
            "joints": joints,
            "height": float(INIT_STATE.pos[2]),
            "dt": option.timestep,
            "decimation": env.cfg.decimation,
            "iterations": option.iterations,
            "ls_iterations": option.ls_iterations,
            "tolerance": option.tolerance,
            "impratio": option.impratio,
            "cone": option.cone,
            "integrator": option.integrator,
            "constraint_capacity": int(data.njmax),
            "contact_capacity": max(1, int(data.naconmax) // env.num_envs),
            "mass": float(model.body_mass.sum()),
            "episode_length_s": env.cfg.episode_length_s,
            "observations": {
                group: list(names) for group, names in env.observation_manager.active_terms.items()
            },
            "rewards": list(env.reward_manager.active_terms),
            "terminations": list(env.termination_manager.active_terms),
            "versions": {
                "mjlab": _version("mjlab"),
                "mujoco-warp": _version("mujoco-warp") or mujoco_warp.__version__,
            },
        }

    def close(self) -> None:
        self.env.close()


def _numbers(by_expression: dict[str, float], names: Sequence[str]) -> list[float]:
    found = dict.fromkeys(names, 0.0)
    _, matched, values = resolve_matching_names_values(dict(by_expression), list(names))
    found.update(zip(matched, values, strict=True))
    return [found[name] for name in names]


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
