# SPDX-License-Identifier: Apache-2.0
"""Sensors inside the scene."""

from forcelab.physics.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "ContactSensor": "contact.contact_sensor",
        "ContactSensorCfg": "contact.contact_sensor_cfg",
        "ContactSensorData": "contact.contact_sensor_data",
        "ContactSensorReading": "raw_contact.contact_sensor_interface",
        "FrameCfg": "frame_transformer.frame_transformer_cfg",
        "FrameTransformer": "frame_transformer.frame_transformer",
        "FrameTransformerCfg": "frame_transformer.frame_transformer_cfg",
        "FrameTransformerData": "frame_transformer.frame_transformer_data",
        "GridPatternCfg": "ray_caster.patterns_cfg",
        "IContactSensor": "raw_contact.contact_sensor_interface",
        "Imu": "imu.imu",
        "ImuCfg": "imu.imu_cfg",
        "ImuData": "imu.imu_data",
        "IsaacContactSensor": "raw_contact.isaac_contact_sensor",
        "IsaacContactSensorCfg": "raw_contact.isaac_contact_sensor_cfg",
        "IsaacContactSensorData": "raw_contact.isaac_contact_sensor_data",
        "JointWrenchSensor": "joint_wrench.joint_wrench_sensor",
        "JointWrenchSensorCfg": "joint_wrench.joint_wrench_sensor_cfg",
        "JointWrenchSensorData": "joint_wrench.joint_wrench_sensor_data",
        "OffsetCfg": "offset_cfg",
        "RayCaster": "ray_caster.ray_caster",
        "RayCasterCfg": "ray_caster.ray_caster_cfg",
        "RayCasterData": "ray_caster.ray_caster_data",
        "SensorBase": "sensor_base",
        "SensorBaseCfg": "sensor_base_cfg",
        "acquire_contact_sensor_interface": "raw_contact.contact_sensor_interface",
    },
)
