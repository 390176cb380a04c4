# SPDX-License-Identifier: Apache-2.0
"""Sensors inside the scene."""

from forcelab.physics.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "ContactSensor": "contact.contact_sensor",
        "ContactSensorCfg": "contact.contact_sensor_cfg",
        "ContactSensorData": "contact.contact_sensor_data",
        "SensorBase": "sensor_base",
        "SensorBaseCfg": "sensor_base_cfg",
    },
)
