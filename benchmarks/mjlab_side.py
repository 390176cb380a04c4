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
from mjlab.tasks.velocity.config.go1.env_cfgs import unitree_go1_flat_env_cfg  # noqa: E402
from mjlab.utils.lab_api.string import resolve_matching_names_values  # noqa: E402
from mjlab.utils.spec_config import CollisionCfg  # noqa: E402


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
    for name in ("foot_friction_spin", "foot_friction_roll", "base_com"):
        del cfg.events[name]
    for name in ("body_ang_vel", "angular_momentum", "air_time"):
        del cfg.rewards[name]  # their weight is 0, with which mjlab does not call them
    cfg.commands["twist"].rel_forward_envs = 0.0
    cfg.commands["twist"].debug_vis = False
    return cfg


class Side:
    """One environment of mjlab."""

    name = "mjlab"

    def __init__(self, num_envs: int, device: str, about: dict[str, Any]):
        self.env = ManagerBasedRlEnv(task(num_envs), device=device)
        option = self.env.sim.wp_model.opt
        if getattr(option, "warn_overflow", 0):
            # Messages printed by kernels would cost time; forcelab's side prints none.
            option.warn_overflow = 0
            self.env.sim.create_graph()
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
