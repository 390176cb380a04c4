# SPDX-License-Identifier: Apache-2.0
"""Environments, their Gymnasium registration, and adapters. Importing this does not import torch."""

import importlib
from typing import Any

from forcelab.physics.lazy import attach

_getattr, __dir__, __all__ = attach(
    __name__,
    {
        "ManagerBasedRlEnv": "manager_based_rl_env",
        "ManagerBasedRLEnv": "manager_based_rl_env",
        "ManagerBasedRlEnvCfg": "manager_based_rl_env_cfg",
        "ManagerBasedRLEnvCfg": "manager_based_rl_env_cfg",
        "NonFiniteError": "health",
        "SingleEnv": "single_env",
        "VectorEnv": "vector_env",
        "DispatchCheck": "dispatch_check",
        "make_env": "gym_spec",
        "make_vector_env": "gym_spec",
        "register_envs": "gym_spec",
    },
)


def __getattr__(name: str) -> Any:
    if name == "mdp":
        return importlib.import_module("forcelab.mdp")
    return _getattr(name)
