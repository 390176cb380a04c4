# SPDX-License-Identifier: Apache-2.0
"""Physics engines behind one narrow interface (see :mod:`forcelab.physics.engine`)."""

from .lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Array": "array",
        "Engine": "engine",
        "NewtonCfg": "newton_cfg",
        "OvPhysxCfg": "ovphysx_cfg",
        "PhysicsCfg": "physics_cfg",
        "SceneDesc": "description",
        "ArticulationDesc": "description",
        "RigidBodyDesc": "description",
        "StaticDesc": "description",
        "ShapeDesc": "description",
        "JointDriveDesc": "description",
        "VisualShape": "description",
        "ContactQuery": "engine",
        "ContactReader": "engine",
        "JointWrenchReader": "engine",
    },
)
