# SPDX-License-Identifier: Apache-2.0
"""All sensors on CUDA read what they read on the CPU: one robot, settled in the same pose, on both devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
)
from forcelab.sensors import (
    ContactSensorCfg,
    FrameCfg,
    FrameTransformerCfg,
    GridPatternCfg,
    ImuCfg,
    IsaacContactSensorCfg,
    JointWrenchSensorCfg,
    RayCasterCfg,
    acquire_contact_sensor_interface,
)

pytestmark = pytest.mark.gpu
NS = "{ENV_REGEX_NS}"
E = 16


class AntCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    robot = ArticulationCfg(
        prim_path=f"{NS}/Robot",
        spawn=MjcfCfg("ant.xml"),
        init_pos=(0.0, 0.0, 0.326),
        init_joint_pos={".*_hip": 0.0, ".*_ankle": 1.05},
        actuators={"legs": PdActuatorCfg(joint_names=[".*"], stiffness=40.0, damping=1.5, effort_limit=25.0)},
    )
    foot = ContactSensorCfg(
        prim_path=f"{NS}/Robot/front_left_foot",
        filter_prim_paths_expr=["/World/ground"],
        history_length=3,
        track_friction_forces=True,
        track_contact_points=True,
        track_air_time=True,
    )
    everything = ContactSensorCfg(prim_path=f"{NS}/Robot/.*")
    wrench = JointWrenchSensorCfg(prim_path=f"{NS}/Robot")
    heel = IsaacContactSensorCfg(prim_path=f"{NS}/Robot/back_left_foot/heel")
    imu = ImuCfg(prim_path=f"{NS}/Robot/torso")
    frames = FrameTransformerCfg(
        prim_path=f"{NS}/Robot/torso", target_frames=[FrameCfg(prim_path=f"{NS}/Robot/back_left_foot")]
    )
    scan = RayCasterCfg(
        prim_path=f"{NS}/Robot/torso", pattern_cfg=GridPatternCfg(resolution=0.2, size=(0.4, 0.4))
    )


def settled(device: str) -> InteractiveScene:
    scene = InteractiveScene(AntCfg(num_envs=E, env_spacing=3.0), NewtonCfg(dt=0.005), device=device)
    for _ in range(300):
        scene.step()
    return scene


def readings(scene: InteractiveScene) -> dict[str, torch.Tensor]:
    found = {}
    for name, sensor in scene.sensors.items():
        for key in (*vars(sensor.data), "value"):
            value = getattr(sensor.data, key, None)
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                found[f"{name}.{key}"] = value.as_subclass(torch.Tensor).cpu()
    return found


@pytest.fixture(scope="module")
def scenes() -> Iterator[tuple[InteractiveScene, InteractiveScene]]:
    pair = settled("cpu"), settled("cuda:0")
    yield pair
    for scene in pair:
        scene.close()


def test_equal_readings(scenes: tuple[InteractiveScene, InteractiveScene]) -> None:
    cpu, cuda = (readings(scene) for scene in scenes)
    assert set(cpu) == set(cuda) and len(cpu) > 20
    for key, expected in cpu.items():
        # The pose agrees to what two orders of summation leave after 300 steps.
        torch.testing.assert_close(
            cuda[key], expected, rtol=0.02, atol=0.05, equal_nan=True, msg=lambda m, k=key: f"{k}: {m}"
        )


def test_physics_on_cuda(scenes: tuple[InteractiveScene, InteractiveScene]) -> None:
    scene = scenes[1]
    weight = 10.2 * 9.81
    total = scene["everything"].data.net_forces_w[..., 2].sum(1)
    torch.testing.assert_close(total, torch.full_like(total, weight), rtol=0.02, atol=0)
    point = scene["foot"].data.contact_pos_w[:, 0, 0]
    assert point[:, 2].abs().max() < 0.01
    assert scene["scan"].data.ray_hits_w[..., 2].abs().max() < 1e-4
    up = scene["imu"].data.lin_acc_b[:, 2]
    torch.testing.assert_close(up, torch.full_like(up, 9.81), rtol=0.02, atol=0)
    interface = acquire_contact_sensor_interface(scene)
    reading = interface.get_sensor_reading("/World/envs/env_3/Robot/back_left_foot/heel")
    assert reading.is_valid and reading.in_contact
    assert reading.value == pytest.approx(float(scene["heel"].data.value[3]), rel=1e-4)


def test_masked_reset_on_cuda(scenes: tuple[InteractiveScene, InteractiveScene]) -> None:
    scene = scenes[1]
    before = readings(scene)
    mask = torch.arange(E, device="cuda:0") < 5
    scene.reset(mask)
    after = readings(scene)
    for key, old in before.items():
        same = torch.equal(torch.nan_to_num(after[key][5:]), torch.nan_to_num(old[5:]))
        assert same or old.shape[0] != E, key
    assert not after["foot.net_forces_w"][:5].any() and torch.isnan(after["foot.contact_pos_w"][:5]).all()
    assert not after["wrench.force"][:5].any() and not after["heel.value"][:5].any()
    scene.step()
    assert scene["wrench"].data.force[:5].abs().sum() > 0
