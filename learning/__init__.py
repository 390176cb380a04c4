# SPDX-License-Identifier: Apache-2.0
"""Training, evaluation, checkpoints, export and shipped policies."""

from __future__ import annotations

from forcelab.physics.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "AgentCfg": "agent_cfg",
        "AlgorithmCfg": "agent_cfg",
        "CheckpointError": "checkpoint",
        "DistributionCfg": "agent_cfg",
        "ModelCfg": "agent_cfg",
        "Policy": "policy",
        "PpoRunner": "runner",
        "Ranks": "distributed",
        "RslRlVecEnv": "vec_env",
        "TrainingDiverged": "runner",
        "export_policy": "export",
        "find_checkpoint": "checkpoint",
        "list_checkpoints": "checkpoint",
        "load_policy": "policy",
        "ship": "export",
    },
)
