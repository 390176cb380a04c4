# SPDX-License-Identifier: Apache-2.0
"""A bench on two feet: the load under each of them, and every single contact, read by path."""

from __future__ import annotations

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    CapsuleCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import IsaacContactSensorCfg, acquire_contact_sensor_interface

_ALONG_Y = (0.5**0.5, 0.0, 0.0, 0.5**0.5)


class BenchCfg(InteractiveSceneCfg):
    """A plate of 4 kg on feet of 1 and 3 kg, and a sensor at each foot's sole."""

    ground = PlaneCfg()
    bench = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Bench",
        spawn=[
            CuboidCfg(name="plate", size=(0.8, 0.2, 0.02), mass=4.0),
            CapsuleCfg(name="left", radius=0.05, height=0.1, rot=_ALONG_Y, pos=(-0.3, 0, -0.06), mass=1.0),
            CapsuleCfg(name="right", radius=0.05, height=0.1, rot=_ALONG_Y, pos=(0.3, 0, -0.06), mass=3.0),
        ],
        init_pos=(0, 0, 0.111),
    )
    left = IsaacContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Bench/at_left", translation=(-0.3, 0, -0.11), radius=0.15
    )
    right = IsaacContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Bench/at_right", translation=(0.3, 0, -0.11), radius=0.15
    )


def main() -> None:
    """Let the bench settle and read it: all environments at once, then one sensor, then its contacts."""
    scene = InteractiveScene(BenchCfg(num_envs=4, env_spacing=2.0), physics=NewtonCfg(dt=0.005))
    for _ in range(200):
        scene.step()
    print("Load under the left foot in every environment [N]:", scene["left"].value.tolist())

    contacts = acquire_contact_sensor_interface(scene)
    for name in ("at_left", "at_right"):
        reading = contacts.get_sensor_reading(f"/World/envs/env_3/Bench/{name}")
        print(f"{name}: {reading.value:.2f} N at {reading.time:.3f} s, in contact: {reading.in_contact}")

    print("Contacts of the bench in environment 3:")
    for contact in contacts.get_raw_contacts("/World/envs/env_3/Bench/at_left"):
        position = ", ".join(f"{v:6.3f}" for v in contact["position"])
        print(
            f"  with {contact['body1']} at ({position}) m: {contact['impulse'][2] / contact['dt']:.2f} N upwards"
        )
    scene.close()


if __name__ == "__main__":
    main()
