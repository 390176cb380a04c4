# SPDX-License-Identifier: Apache-2.0
"""Scenes: robots, objects and sensors in many isolated environments."""

from forcelab.physics.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Articulation": "articulation",
        "ArticulationCfg": "asset_cfg",
        "CapsuleCfg": "spawn_cfg",
        "CollectionCfg": "collection_cfg",
        "CuboidCfg": "spawn_cfg",
        "CylinderCfg": "spawn_cfg",
        "DelayedPdActuatorCfg": "asset_cfg",
        "FlatTerrainCfg": "terrain_cfg",
        "IdealPdActuatorCfg": "asset_cfg",
        "InteractiveScene": "interactive_scene",
        "InteractiveSceneCfg": "scene_cfg",
        "MeshCfg": "spawn_cfg",
        "MjcfCfg": "spawn_cfg",
        "PdActuatorCfg": "asset_cfg",
        "PlaneCfg": "spawn_cfg",
        "PyramidSlopeTerrainCfg": "terrain_cfg",
        "PyramidStairsTerrainCfg": "terrain_cfg",
        "RandomRoughTerrainCfg": "terrain_cfg",
        "RigidObject": "rigid_object",
        "RigidObjectCfg": "asset_cfg",
        "SphereCfg": "spawn_cfg",
        "TerrainCfg": "terrain_cfg",
        "HeightFieldCfg": "terrain_cfg",
        "WaveTerrainCfg": "terrain_cfg",
    },
)
