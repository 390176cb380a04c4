# SPDX-License-Identifier: Apache-2.0
"""The inertial measurement unit against mechanics."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import ImuCfg, OffsetCfg

G = 9.81
DT = 0.002
NS = "{ENV_REGEX_NS}"
# Turned by 90° about x: the sensor's y axis points up when the body is upright.
ON_SIDE = (math.sin(math.pi / 4), 0.0, 0.0, math.cos(math.pi / 4))


def box(name: str, pos: tuple[float, float, float]) -> RigidObjectCfg:
    return RigidObjectCfg(
        prim_path=f"{NS}/{name}", spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=2.0), init_pos=pos
    )


class BoxesCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    resting = box("Resting", (0, 0, 0.1))
    flying = box("Flying", (1, 0, 50.0))
    at_rest = ImuCfg(prim_path=f"{NS}/Resting", offset=OffsetCfg(pos=(0.05, 0.1, 0.02), rot=ON_SIDE))
    in_flight = ImuCfg(prim_path=f"{NS}/Flying")
    off_centre = ImuCfg(prim_path=f"{NS}/Flying", offset=OffsetCfg(pos=(0.3, 0.0, 0.0)))
    coordinate = ImuCfg(prim_path=f"{NS}/Flying", gravity_bias=(0, 0, 0))
    slow = ImuCfg(prim_path=f"{NS}/Flying", update_period=5 * DT)


def near(value: torch.Tensor, expected: object, tol: float = 2e-3) -> bool:
    want = torch.as_tensor(expected, dtype=torch.float32).expand_as(value)
    return torch.allclose(torch.as_tensor(value).as_subclass(torch.Tensor), want, atol=tol, rtol=1e-3)


def run(scene: InteractiveScene, steps: int) -> None:
    for _ in range(steps):
        scene.step()


@pytest.fixture(scope="module")
def boxes(physics):
    scene = InteractiveScene(BoxesCfg(num_envs=2, env_spacing=4.0), physics(dt=DT))
    yield scene
    scene.close()


@pytest.fixture
def scene(boxes):
    boxes.reset()
    return boxes


def spin(scene: InteractiveScene, rate: float) -> None:
    velocity = torch.zeros(2, 6)
    velocity[:, 5] = rate
    scene["flying"].write_root_velocity(velocity)


def test_at_rest_reads_gravity_upwards(scene):
    run(scene, 300)
    data = scene["at_rest"].data
    # World z is the sensor's y.
    assert near(data.lin_acc_b, (0.0, G, 0.0), tol=0.02)
    assert near(data.projected_gravity_b, (0.0, -1.0, 0.0))
    assert near(data.ang_vel_b, 0.0) and near(data.lin_vel_b, 0.0) and near(data.ang_acc_b, 0.0, tol=0.05)
    pos = data.pos_w - scene.env_origins
    assert near(pos, (0.05, 0.1, 0.12), tol=1e-3)
    assert near(data.quat_w, ON_SIDE)


def test_free_fall_reads_nothing(scene):
    run(scene, 5)
    assert near(scene["in_flight"].data.lin_acc_b, 0.0, tol=5e-3)
    assert near(scene["coordinate"].data.lin_acc_b, (0.0, 0.0, -G), tol=5e-3)
    assert near(scene["in_flight"].data.lin_vel_b, (0.0, 0.0, -G * 5 * DT), tol=1e-4)


def test_rotation_about_a_fixed_axis(scene):
    rate, arm = 4.0, 0.3
    spin(scene, rate)
    run(scene, 20)
    data = scene["off_centre"].data
    # A difference over one step is the acceleration in its middle, half a step's turn behind the frame at its end.
    lag = 0.5 * rate * DT
    pull = rate**2 * arm
    expected = (-pull * math.cos(lag), pull * math.sin(lag), 0.0)
    assert near(data.lin_acc_b, expected, tol=0.01)
    assert near(data.lin_vel_b[:, :2], (0.0, rate * arm), tol=1e-3)
    assert near(data.ang_vel_b, (0.0, 0.0, rate), tol=1e-3)
    assert near(data.ang_acc_b, 0.0, tol=0.01)


def test_torque_gives_angular_acceleration(scene):
    torque = torch.tensor([[0.0, 0.0, 0.02], [0.0, 0.0, -0.04]])
    scene["flying"].set_external_wrench(torch.zeros(2, 3), torque)
    run(scene, 2)
    scene["flying"].set_external_wrench(torch.zeros(2, 3), torch.zeros(2, 3))
    inertia = 2.0 / 12.0 * (0.2**2 + 0.2**2)
    assert near(scene["in_flight"].data.ang_acc_b, torque / inertia, tol=0.01)


def test_reset_and_writes_make_no_jump(scene):
    run(scene, 10)
    data = scene["in_flight"].data
    moved = scene["flying"].data.default_root_pose.clone()
    moved[:, 0] += 5.0
    scene["flying"].write_root_pose(moved)
    spin(scene, 3.0)
    run(scene, 1)
    assert near(data.lin_acc_b, 0.0, tol=5e-3) and near(data.ang_acc_b, 0.0, tol=0.01)
    assert near(data.ang_vel_b, (0.0, 0.0, 3.0), tol=1e-3)
    # One environment is reset: its accelerations are zero, its pose is that of the reset; the other keeps all.
    rest = scene["coordinate"].data
    before = rest.lin_acc_b.clone()
    scene.reset(torch.tensor([True, False]))
    assert near(rest.lin_acc_b[0], 0.0, tol=0.0) and torch.equal(rest.lin_acc_b[1], before[1])
    assert near(data.ang_vel_b[0], 0.0, tol=0.0) and near(data.ang_vel_b[1], (0.0, 0.0, 3.0), tol=1e-3)
    assert near(data.pos_w[0] - scene.env_origins[0], (1.0, 0.0, 50.0), tol=1e-4)
    # States written after the reset count too, as in reset events.
    scene["flying"].write_root_pose(moved, torch.tensor([True, False]))
    assert near(data.pos_w[0] - scene.env_origins[0], (6.0, 0.0, 50.0), tol=1e-4)
    run(scene, 1)
    assert near(data.lin_acc_b, 0.0, tol=5e-3) and near(data.ang_acc_b, 0.0, tol=0.01)


def test_update_period_holds_samples(scene):
    read = []
    for _ in range(12):
        scene.step()
        read.append(float(scene["slow"].data.lin_vel_b[0, 2]))
    changes = [i + 1 for i in range(12) if i == 0 or read[i] != read[i - 1]]
    assert changes == [1, 5, 10]
    # The acceleration is that of one step, however long the period.
    assert near(scene["slow"].data.lin_acc_b, 0.0, tol=5e-3)


PENDULUM = """
<mujoco>
  <worldbody>
    <body name="post" pos="0 0 3">
      <geom type="sphere" size="0.02" mass="1" contype="0" conaffinity="0"/>
      <body name="rod">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom type="sphere" pos="0 0 -0.8" size="0.05" mass="1.5" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_pendulum(physics, tmp_path: Path):
    """At every moment the tip's specific force is what its motion and gravity give."""
    file = tmp_path / "pendulum.xml"
    file.write_text(PENDULUM)
    length = 0.8

    class PendulumCfg(InteractiveSceneCfg):
        robot = ArticulationCfg(
            prim_path=f"{NS}/Robot",
            spawn=MjcfCfg(str(file)),
            fixed_base=True,
            init_joint_pos={"hinge": 1.0},
        )
        tip = ImuCfg(prim_path=f"{NS}/Robot/rod", offset=OffsetCfg(pos=(0.0, 0.0, -length)))

    dt = 0.001
    scene = InteractiveScene(PendulumCfg(num_envs=1), physics(dt=dt))
    inertia = 1.5 * length**2 + 0.4 * 1.5 * 0.05**2
    worst = 0.0
    theta0, omega0 = 1.0, 0.0
    for _ in range(400):
        scene.step()
        theta = float(scene["robot"].data.joint_pos[0, 0])
        omega = float(scene["robot"].data.joint_vel[0, 0])
        mid, rate = 0.5 * (theta + theta0), 0.5 * (omega + omega0)
        theta0, omega0 = theta, omega
        alpha = -1.5 * G * length * math.sin(mid) / inertia
        # In the rod's frame: its z axis points from the tip to the hinge.
        along = rate**2 * length + G * math.cos(mid)
        across = -alpha * length - G * math.sin(mid)
        found = scene["tip"].data.lin_acc_b[0]
        worst = max(worst, abs(float(found[2]) - along), abs(float(found[0]) - across))
        assert abs(float(scene["tip"].data.ang_acc_b[0, 1]) - alpha) < 0.1
    scene.close()
    assert worst < 0.1  # of up to 23 m/s²


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prim_path": f"{NS}/Boxx"}, "Did you mean 'Box'"),
        ({"prim_path": f"{NS}/.*"}, "matches 2 bodies"),
        ({"prim_path": "/World/ground"}, r"scene.imu.prim_path is '/World/ground'"),
        ({"offset": (0, 0, 1)}, r"scene.imu.offset is \(0, 0, 1\); give OffsetCfg"),
        ({"offset": OffsetCfg(rot=(0, 0, 0, 0))}, r"scene.imu.offset.rot"),
        ({"gravity_bias": 9.81}, r"scene.imu.gravity_bias is 9.81"),
        ({"update_period": -1.0}, r"scene.imu.update_period"),
    ],
)
def test_errors(change, message):
    class BadCfg(InteractiveSceneCfg):
        first = box("Box", (0, 0, 1))
        other = box("Other", (1, 0, 1))
        imu = ImuCfg(**{"prim_path": f"{NS}/Box", **change})

    with pytest.raises(ValueError, match=message):
        InteractiveScene(BadCfg(), NewtonCfg())
