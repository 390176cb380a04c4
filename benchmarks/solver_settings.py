# SPDX-License-Identifier: Apache-2.0
"""Measures what Newton's contact settings do to forces; prints a table in Markdown.

    python -m forcelab.benchmarks.solver_settings            # all variants
    python -m forcelab.benchmarks.solver_settings --quick    # the defaults and MuJoCo's own values

The integrator is ``discrete`` unless the line says otherwise. Cases, all at the same time step:

* drag: a 2 kg box (free) and a 2 kg sphere (on a vertical slide) are pulled over a plane with friction
  0.5 at constant speed. Expected normal force 19.62 N. Reported as ``mean |error| % / samples near zero %``,
  once for single samples and once for means over four samples, and the mean friction over 0.5 m g;
* creep: the box on a 20 degree slope with friction 0.8, speed in mm/s (0 expected);
* slide: the same with friction 0.2, acceleration (1.512 m/s² expected) and noise of the normal force;
* coast: the box on a plane with friction 0.4, given 0.8 m/s and left alone. Reported as deceleration over
  μ g (1 expected) while it passes 0.4, 0.2, 0.1 and 0.05 m/s, averaged over the steps within a tenth of
  that speed, of eight boxes;
* rest: weight (19.62 N expected) and depth of penetration;
* quadruped: standing, pushed, its feet dragged over a slippery floor, trotting on the spot: sum of the
  contact forces over the weight, noise while dragged, and for changed numbers of iterations, the
  distance of the joint positions from the first line's.
"""

from __future__ import annotations

import argparse
import math
import platform
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
    RigidObjectCfg,
)
from forcelab.sensors import ContactSensorCfg

SPEEDS = (0.05, 0.1, 0.2, 0.3, 0.6, 1.0)
COASTING = (0.4, 0.2, 0.1, 0.05)
MASS = 2.0
SLOPE = math.radians(20.0)
G = 9.81
SPHERE = """<mujoco model="slider">
  <worldbody>
    <body name="carriage" pos="0 0 0.1">
      <joint name="x" type="slide" axis="1 0 0"/>
      <geom name="carriage" type="sphere" size="0.02" mass="0.2" contype="0" conaffinity="0"/>
      <body name="ball">
        <joint name="z" type="slide" axis="0 0 1"/>
        <geom name="ball" type="sphere" size="0.1" mass="2" friction="0.5 0.005 0.0001"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
STANDING = {".*_HAA": 0.0, ".*_HFE": 0.68, ".*_KFE": -1.3}
MUJOCO: dict[str, Any] = {
    "impratio": 1.0,
    "friction_time_constant": 0.02,
    "contact_impedance": (0.9, 0.95, 0.001),
}
# Steady up to higher speeds, but viscous where a coasting body comes to rest.
SOFTER: dict[str, Any] = {"friction_time_constant": 0.3, "contact_impedance": (0.2, 0.95, 0.001)}


@dataclass
class Noise:
    """Deviation of force samples from the expected value, in percent of it."""

    error: float
    zeros: float
    error4: float
    mean: float

    @classmethod
    def of(cls, samples: torch.Tensor, expected: float) -> Noise:
        n = len(samples) // 4 * 4
        four = samples[:n].reshape(-1, 4).mean(1)
        return cls(
            100 * float((samples - expected).abs().mean()) / expected,
            100 * float((samples < 0.01 * expected).float().mean()),
            100 * float((four - expected).abs().mean()) / expected,
            float(samples.mean()) / expected,
        )

    def __str__(self) -> str:
        return f"{self.error:.1f}/{self.zeros:.0f}"


@dataclass
class Result:
    """What one variant gave."""

    box: list[Noise] = field(default_factory=list)
    box_friction: list[float] = field(default_factory=list)
    sphere: list[Noise] = field(default_factory=list)
    creep: float = math.nan
    slide: float = math.nan
    slide_noise: Noise | None = None
    coast: list[float] = field(default_factory=list)
    rest: float = math.nan
    depth: float = math.nan
    standing: float = math.nan
    dragged: Noise | None = None
    joints: torch.Tensor | None = None


def _box_scene(friction: float, num_envs: int) -> InteractiveSceneCfg:
    class BoxCfg(InteractiveSceneCfg):
        ground = PlaneCfg(friction=friction)
        box = RigidObjectCfg(
            prim_path="{ENV_REGEX_NS}/Box",
            spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=MASS, friction=friction),
            init_pos=(0.0, 0.0, 0.1),
        )
        touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Box", track_friction_forces=True)

    return BoxCfg(num_envs=num_envs, env_spacing=3.0)


def _sphere_scene(path: Path) -> InteractiveSceneCfg:
    class SphereCfg(InteractiveSceneCfg):
        ground = PlaneCfg(friction=0.5)
        ball = ArticulationCfg(
            prim_path="{ENV_REGEX_NS}/Slider",
            spawn=MjcfCfg(str(path)),
            actuators={
                "x": PdActuatorCfg(joint_names=["x"], stiffness=0.0, damping=2.0e4, effort_limit=1.0e6)
            },
        )
        touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Slider/ball", track_friction_forces=True)

    return SphereCfg(num_envs=len(SPEEDS), env_spacing=3.0)


def _robot_scene() -> InteractiveSceneCfg:
    import forcelab.scene.robots

    path = Path(forcelab.scene.robots.__file__).with_name("quadruped.xml")

    class RobotCfg(InteractiveSceneCfg):
        ground = PlaneCfg(friction=0.5)
        robot = ArticulationCfg(
            prim_path="{ENV_REGEX_NS}/Robot",
            spawn=MjcfCfg(str(path)),
            init_pos=(0.0, 0.0, 0.507),
            init_joint_pos=STANDING,
            actuators={
                "legs": PdActuatorCfg(joint_names=[".*"], stiffness=200.0, damping=8.0, effort_limit=80.0)
            },
        )
        touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*")

    return RobotCfg(num_envs=4, env_spacing=3.0)


def _drag_box(cfg: NewtonCfg, out: Result) -> None:
    scene = InteractiveScene(_box_scene(0.5, 1 + len(SPEEDS)), physics=cfg, device="cpu")
    scene.reset()
    box, touch = scene["box"], scene["touch"]
    speed = torch.tensor((0.0, *SPEEDS))
    moving = torch.tensor([0.0] + [1.0] * len(SPEEDS))
    force, torque = torch.zeros(len(speed), 3), torch.zeros(len(speed), 3)
    normal, friction = [], []
    steps = round(3.0 / cfg.dt)
    for i in range(steps):
        pull = moving * (0.5 * MASS * G + 100.0 * (speed - box.data.root_lin_vel_w[:, 0]))
        force[:, 0] = pull
        torque[:, 1] = -0.05 * pull  # pulled 5 cm above the floor
        box.set_external_wrench(force, torque)
        scene.step()
        if i >= steps // 3:
            normal.append(touch.data.net_normal_forces_w[:, 0, 2].clone())
            friction.append(touch.data.net_friction_forces_w[:, 0, 0].clone())
    n, f = torch.stack(normal), torch.stack(friction)
    out.rest = float(n[:, 0].mean())
    out.depth = 1e3 * (0.1 - float(box.data.root_pos_w[0, 2]))
    out.box = [Noise.of(n[:, 1 + i], MASS * G) for i in range(len(SPEEDS))]
    out.box_friction = [float(-f[:, 1 + i].mean()) / (0.5 * MASS * G) for i in range(len(SPEEDS))]


def _drag_sphere(cfg: NewtonCfg, path: Path, out: Result) -> None:
    scene = InteractiveScene(_sphere_scene(path), physics=cfg, device="cpu")
    scene.reset()
    ball, touch = scene["ball"], scene["touch"]
    target = torch.zeros(len(SPEEDS), ball.num_joints)
    target[:, ball.joint_names.index("x")] = torch.tensor(SPEEDS)
    ball.set_joint_velocity_target(target)
    normal = []
    steps = round(3.0 / cfg.dt)
    for i in range(steps):
        scene.step()
        if i >= steps // 3:
            normal.append(touch.data.net_normal_forces_w[:, 0, 2].clone())
    n = torch.stack(normal)
    out.sphere = [Noise.of(n[:, i], MASS * G) for i in range(len(SPEEDS))]


def _slopes(cfg: NewtonCfg, out: Result) -> None:
    tilted = {**vars(cfg), "gravity": (G * math.sin(SLOPE), 0.0, -G * math.cos(SLOPE))}
    for friction in (0.8, 0.2):
        scene = InteractiveScene(_box_scene(friction, 1), physics=NewtonCfg(**tilted), device="cpu")
        scene.reset()
        box, touch = scene["box"], scene["touch"]
        x, v, n = [], [], []
        for _ in range(round(2.5 / cfg.dt)):
            scene.step()
            x.append(float(box.data.root_pos_w[0, 0]))
            v.append(float(box.data.root_lin_vel_w[0, 0]))
            n.append(touch.data.net_normal_forces_w[0, 0, 2].clone())
        one, two = round(0.5 / cfg.dt), round(2.0 / cfg.dt)
        if friction > 0.5:
            out.creep = 1e3 * (x[two] - x[one]) / 1.5
        else:
            out.slide = (v[two] - v[one]) / 1.5
            out.slide_noise = Noise.of(torch.stack(n[one:two]), MASS * G * math.cos(SLOPE))


def _coast(cfg: NewtonCfg, out: Result) -> None:
    friction, count = 0.4, 8
    scene = InteractiveScene(_box_scene(friction, count), physics=cfg, device="cpu")
    scene.reset()
    for _ in range(round(0.5 / cfg.dt)):
        scene.step()
    box = scene["box"]
    velocity = torch.zeros(count, 6)
    # Spread over what one step takes away, so that the boxes pass a speed at different times within a step.
    velocity[:, 0] = 0.8 + friction * G * cfg.dt * torch.arange(count) / count
    box.write_root_velocity(velocity)
    speeds = [velocity[:, 0]]
    for _ in range(round(1.5 / cfg.dt)):
        scene.step()
        speeds.append(box.data.root_lin_vel_w[:, 0].clone())
    v = torch.stack(speeds)
    braking = (v[:-1] - v[1:]) / cfg.dt / (friction * G)
    middle = (v[:-1] + v[1:]) / 2.0
    out.coast = [float(braking[(middle - q).abs() <= 0.1 * q].mean()) for q in COASTING]


def _robot(cfg: NewtonCfg, out: Result) -> None:
    scene = InteractiveScene(_robot_scene(), physics=cfg, device="cpu")
    scene.reset()
    robot, touch = scene["robot"], scene["touch"]
    friction = robot.data.default_friction.clone()
    friction[2] = 0.0  # with the floor's 0.5: 0.25
    robot.write_friction(friction)
    weight = float(robot.data.body_mass[0].sum()) * G
    rest = robot.data.default_joint_pos.clone()
    target = rest.clone()
    hfe = [i for i, name in enumerate(robot.joint_names) if name.endswith("HFE")]
    phases = {"LF": 0.0, "RF": math.pi, "LH": math.pi, "RH": 0.0}
    force, torque = torch.zeros(4, 3), torch.zeros(4, 3)
    total, joints = [], []
    steps = round(3.0 / cfg.dt)
    for i in range(steps):
        t = i * cfg.dt
        force[1, 1] = 120.0 if 1.0 <= t < 1.3 else 0.0
        pull = 0.25 * weight + 400.0 * (0.3 - float(robot.data.root_lin_vel_w[2, 0])) if t > 0.5 else 0.0
        force[2, 0], torque[2, 1] = pull, -0.3 * pull
        if t > 0.5:
            for j in hfe:
                lift = 0.35 * max(0.0, math.sin(4 * math.pi * t + phases[robot.joint_names[j][:2]]))
                knee = robot.joint_names.index(robot.joint_names[j].replace("HFE", "KFE"))
                target[3, j], target[3, knee] = rest[3, j] + lift, rest[3, knee] - 2 * lift
        robot.set_external_wrench(force, torque)
        robot.set_joint_position_target(target)
        scene.step()
        total.append(touch.data.net_forces_w[:, :, 2].sum(1))
        joints.append(robot.data.joint_pos.clone())
    f = torch.stack(total)[steps // 3 :]
    out.standing = float(f[:, 0].mean()) / weight
    out.dragged = Noise.of(f[:, 2], weight)
    out.joints = torch.stack(joints)


def measure(cfg: NewtonCfg) -> Result:
    """All cases for one set of settings."""
    out = Result()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slider.xml"
        path.write_text(SPHERE)
        _drag_sphere(cfg, path, out)
    _drag_box(cfg, out)
    _slopes(cfg, out)
    _coast(cfg, out)
    _robot(cfg, out)
    return out


def variants(quick: bool) -> list[dict[str, Any]]:
    """Keyword arguments of NewtonCfg, the reference (many iterations) first, then the defaults."""
    found: list[dict[str, Any]] = [{"iterations": 100, "ls_iterations": 50}, {}, dict(MUJOCO), dict(SOFTER)]
    if quick:
        return found
    found += [{**MUJOCO, "cone": "pyramidal"}]
    found += [{"contact_impedance": (d, 0.95, 0.001)} for d in (0.1, 0.2, 0.5, 0.9)]
    found += [{"friction_time_constant": c} for c in (0.15, 0.07, 0.05, 0.02)]
    found += [{"impratio": i} for i in (10.0, 30.0)]
    found += [{"integrator": "implicitfast"}, {"cone": "pyramidal"}, {"dt": 0.0025}, {"dt": 0.01}]
    found += [{"iterations": i, "ls_iterations": n} for i, n in ((5, 10), (10, 20))]
    return found


def name(change: dict[str, Any]) -> str:
    """A short label for a variant: what differs from the defaults."""
    default = NewtonCfg()
    parts = [f"{k}={v}" for k, v in change.items() if getattr(default, k) != v]
    return ", ".join(parts) or "**defaults**"


def row(change: dict[str, Any], r: Result, reference: torch.Tensor | None) -> str:
    """One line of the table."""
    # Other settings are other physics; the distance then says nothing about convergence.
    far = "-"
    if reference is not None and r.joints is not None and set(change) <= {"iterations", "ls_iterations"}:
        far = f"{float((r.joints - reference).abs().max()):.3f}"
    cells = [
        name(change),
        " ".join(str(n) for n in r.sphere),
        " ".join(str(n) for n in r.box),
        " ".join(f"{n.error4:.1f}" for n in r.box),
        " ".join(f"{f:.2f}" for f in r.box_friction),
        f"{r.creep:.2f}",
        f"{r.slide:.3f}",
        str(r.slide_noise),
        " ".join(f"{c:.2f}" for c in r.coast),
        f"{r.rest:.2f}",
        f"{r.depth:.2f}",
        f"{r.standing:.4f}",
        str(r.dragged),
        far,
    ]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "settings changed",
    "sphere: error/zeros %",
    "box: error/zeros %",
    "box, mean of 4: error %",
    "box: friction / μ m g",
    "creep mm/s",
    "slide m/s²",
    "slide: error/zeros %",
    "coast: friction / μ m g",
    "rest N",
    "depth mm",
    "robot stands: ΣF/W",
    "robot dragged: error/zeros %",
    "robot: joints off by rad",
)


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="four variants only")
    args = parser.parse_args(argv)
    packages = ", ".join(f"{p} {version(p)}" for p in ("newton", "warp-lang", "mujoco-warp", "torch"))
    print(f"Python {platform.python_version()}, {packages}, CPU, {time.strftime('%Y-%m-%d')}")
    print(f"\nSpeeds of the dragged bodies: {', '.join(str(s) for s in SPEEDS)} m/s.\n")
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD), flush=True)
    reference: torch.Tensor | None = None
    for change in variants(args.quick):
        result = measure(NewtonCfg(**{"integrator": "discrete", **change}))
        reference = result.joints if reference is None else reference
        print(row(change, result, reference), flush=True)


if __name__ == "__main__":
    main()
