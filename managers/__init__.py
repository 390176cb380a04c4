# SPDX-License-Identifier: Apache-2.0
"""Managers: they call the terms of a task and hold its configuration types."""

from forcelab.physics.lazy import attach

_CFGS = (
    "ManagerTermBaseCfg ObservationTermCfg ObservationGroupCfg RewardTermCfg TerminationTermCfg EventTermCfg "
    "CurriculumTermCfg MetricsTermCfg CommandTermCfg ActionTermCfg TermParams"
)
_NOISE = (
    "NoiseCfg UniformNoiseCfg GaussianNoiseCfg ConstantNoiseCfg NoiseModelCfg NoiseModelWithAdditiveBiasCfg "
    "AdditiveUniformNoiseCfg AdditiveGaussianNoiseCfg Unoise Gnoise"
)

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        **dict.fromkeys(_CFGS.split(), "manager_term_cfg"),
        **dict.fromkeys(_NOISE.split(), "noise_cfg"),
        **dict.fromkeys(["ModifierCfg", "DigitalFilterCfg", "IntegratorCfg"], "modifiers_cfg"),
        "SceneEntityCfg": "scene_entity_cfg",
        "Range": "live_ranges",
        "PoseRanges": "live_ranges",
        "LivePoseRanges": "live_ranges",
        "ManagerBase": "manager_base",
        "ManagerTermBase": "manager_base",
        "ActionManager": "action_manager",
        "ActionTerm": "action_manager",
        "CommandManager": "command_manager",
        "CommandTerm": "command_manager",
        "CurriculumManager": "curriculum_manager",
        "EventManager": "event_manager",
        "MetricsManager": "metrics_manager",
        "ObservationManager": "observation_manager",
        "RewardManager": "reward_manager",
        "TerminationManager": "termination_manager",
        "ModifierBase": "modifiers",
        "DigitalFilter": "modifiers",
        "Integrator": "modifiers",
        "NoiseModel": "noise",
        "NoiseModelWithAdditiveBias": "noise",
        "DelayBuffer": "buffers",
        "HistoryBuffer": "buffers",
    },
)
