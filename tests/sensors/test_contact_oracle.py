# SPDX-License-Identifier: Apache-2.0
"""The contact sensor against Newton's own, which takes another way from the solver's rows to forces.

Newton's sensor knows bodies or shapes as partners, one column for each; ours is asked the same question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import newton
import pytest
import torch
import warp as wp
from newton.sensors import SensorContact

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CapsuleCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg

NS = "{ENV_REGEX_NS}"
E = 3
BODIES = ["Box", "Ball", "Bone", "Robot/LF_FOOT"]


def sensor(path: str, *filters: str, **kw: Any) -> ContactSensorCfg:
    return ContactSensorCfg(
        prim_path=f"{NS}/{path}", filter_prim_paths_expr=list(filters), track_friction_forces=True, **kw
    )


def body(name: str, spawn: Any, pos: tuple[float, float, float], **kw: Any) -> RigidObjectCfg:
    return RigidObjectCfg(prim_path=f"{NS}/{name}", spawn=spawn, init_pos=pos, **kw)


class OracleCfg(InteractiveSceneCfg):
    """A robot that drops onto the ground while things rain on it."""

    ground = PlaneCfg(friction=0.7)
    robot = ArticulationCfg(
        prim_path=f"{NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.53),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.30},
        init_lin_vel=(0.5, 0.2, 0.0),
        actuators={"legs": PdActuatorCfg(stiffness=100.0, damping=3.0)},
    )
    box = body("Box", CuboidCfg(size=(0.3, 0.2, 0.1), mass=2.0, friction=0.5), (0.0, 0.0, 0.67))
    ball = body("Ball", SphereCfg(radius=0.08, mass=1.0, friction=0.3), (0.1, 0.05, 0.82))
    bone = body(
        "Bone",
        [
            SphereCfg(radius=0.07, mass=0.5, pos=(-0.15, 0, 0), name="near"),
            CapsuleCfg(radius=0.03, height=0.3, mass=0.2, rot=(0, 0.7071, 0, 0.7071), name="shaft"),
            SphereCfg(radius=0.07, mass=0.5, pos=(0.15, 0, 0), name="far"),
        ],
        (-0.05, 0.0, 0.93),
        init_ang_vel=(1.0, 2.0, 3.0),
    )
    on_box = sensor("Box", *(f"{NS}/{b}" for b in BODIES), f"{NS}/Robot/base")
    on_bone = sensor("Bone", *(f"{NS}/{b}" for b in BODIES), f"{NS}/Robot/base")
    on_foot = sensor("Robot/LF_FOOT", *(f"{NS}/{b}" for b in BODIES), f"{NS}/Robot/base", "/World/ground")
    robot_all = sensor("Robot/.*")
    bone_shapes = sensor(
        "Bone",
        sensor_shape_prim_expr=[f"{NS}/Bone/.*"],
        filter_shape_prim_expr=["/World/ground/0", f"{NS}/Robot/base/base_trunk", f"{NS}/Box/0"],
        track_contact_points=True,
    )


class Oracle:
    """Newton's sensors on the engine of a scene, fed by every step that the scene takes."""

    def __init__(self, scene: InteractiveScene):
        self.scene = scene
        engine: Any = scene.engine
        self.engine, self.model = engine, engine.model
        solver = engine.solver
        pipe = newton.CollisionPipeline(
            self.model, rigid_contact_max=solver.get_max_contact_count(), soft_contact_max=0
        )
        self.contacts = pipe.contacts()
        self.observables = solver.observables({"contact_f"}, contacts=self.contacts)
        step = solver.step

        def observed(
            state0: Any, state1: Any, control: Any, contacts: Any, dt: float, observables: Any
        ) -> None:
            step(state0, state1, control, self.contacts, dt, observables=self.observables)

        solver.step = observed
        self.sensors: list[SensorContact] = []

    def bodies(self, *paths: str) -> list[int]:
        """Numbers in Newton's model, environment by environment."""
        count = len(self.engine.body_paths)
        return [e * count + self.engine.body_paths.index(p) for e in range(E) for p in paths]

    def shapes(self, *paths: str) -> list[int]:
        engine = self.engine
        numbers = {engine._shape_path(s): s for s in range(len(engine._shape_body))}
        out = []
        for e in range(E):
            for path in paths:
                s = numbers[path]
                out.append(s if s < engine._n_static else s + e * engine._n_shapes)
        return out

    def add(self, **kw: Any) -> SensorContact:
        self.sensors.append(SensorContact(self.model, request_contact_attributes=False, **kw))
        return self.sensors[-1]

    def step(self) -> None:
        self.scene.step()
        for item in self.sensors:
            item.update(self.engine._state, self.contacts, observables=self.observables)


def torch_of(array: wp.array, *shape: int) -> torch.Tensor:
    return wp.to_torch(array).view(*shape)


@pytest.fixture(scope="module", params=["elliptic", "pyramidal"])
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    scene = InteractiveScene(OracleCfg(num_envs=E), NewtonCfg(capture=False, cone=request.param))
    for e, name in ((1, "ball"), (2, "bone")):
        # Another fall in every environment.
        vel = torch.zeros(E, 6)
        vel[:, :3] = torch.tensor([0.3, -0.2, -1.0])
        mask = torch.zeros(E, dtype=torch.bool)
        mask[e] = True
        scene[name].write_root_velocity(vel, mask)
    yield Oracle(scene)
    scene.close()


def test_forces_of_a_fall_agree_at_every_step(oracle: Oracle) -> None:
    """Net and per partner, total and friction, bodies and shapes, 70 steps in three environments."""
    scene, engine = oracle.scene, oracle.engine
    partners = [*BODIES, "Robot/base"]
    columns = oracle.bodies(*partners)
    pairs = [
        ("on_box", oracle.add(sensing_bodies=oracle.bodies("Box"), counterpart_bodies=columns)),
        ("on_bone", oracle.add(sensing_bodies=oracle.bodies("Bone"), counterpart_bodies=columns)),
        ("on_foot", oracle.add(sensing_bodies=oracle.bodies("Robot/LF_FOOT"), counterpart_bodies=columns)),
    ]
    robot = scene["robot_all"]
    paths = [f"Robot/{n}" for n in robot.body_names]
    whole = oracle.add(sensing_bodies=oracle.bodies(*paths))
    ground = oracle.add(
        sensing_bodies=oracle.bodies("Robot/LF_FOOT"),
        counterpart_shapes=sorted(set(oracle.shapes("/World/ground/0"))),
    )
    shape_columns = ["/World/ground/0", "Robot/base/base_trunk", "Box/0"]
    shapes = oracle.add(
        sensing_shapes=oracle.shapes(*scene["bone_shapes"].body_names),
        counterpart_shapes=sorted({s for p in shape_columns for s in oracle.shapes(p)}),
    )
    # Newton orders columns by number, the ground first.
    counterparts = shapes.counterpart_indices[0]
    order = [counterparts.index(oracle.shapes(p)[0]) for p in shape_columns]
    body_order = {
        name: [item.counterpart_indices[0].index(oracle.bodies(p)[0]) for p in partners]
        for name, item in pairs
    }
    close = {"rtol": 2e-4, "atol": 2e-3}
    met: dict[str, float] = {}
    for _ in range(70):
        oracle.step()
        for name, item in pairs:
            d = scene[name].data
            net = torch_of(item.total_force, E, 1, 3)
            torch.testing.assert_close(d.net_forces_w.torch, net, **close)
            torch.testing.assert_close(
                d.net_friction_forces_w.torch, torch_of(item.total_force_friction, E, 1, 3), **close
            )
            for ours, theirs in (
                (d.force_matrix_w, item.force_matrix),
                (d.friction_force_matrix_w, item.force_matrix_friction),
            ):
                matrix = torch_of(theirs, E, 1, -1, 3)[:, :, body_order[name]]
                torch.testing.assert_close(ours[:, :, : len(partners)], matrix, **close)
            for c, partner in enumerate(partners):
                force = float(d.force_matrix_w[:, 0, c].norm(dim=-1).max())
                met[f"{name}-{partner}"] = max(met.get(f"{name}-{partner}", 0.0), force)
        torch.testing.assert_close(
            robot.data.net_forces_w.torch, torch_of(whole.total_force, E, len(paths), 3), **close
        )
        foot = scene["on_foot"].data.force_matrix_w[:, :, -1]
        torch.testing.assert_close(foot, torch_of(ground.force_matrix, E, 1, 3), **close)
        met["foot-ground"] = max(met.get("foot-ground", 0.0), float(foot.norm(dim=-1).max()))
        d = scene["bone_shapes"].data
        theirs = torch_of(shapes.force_matrix, E, 3, -1, 3)[:, :, order]
        torch.testing.assert_close(d.force_matrix_w.torch, theirs, **close)
        torch.testing.assert_close(d.net_forces_w.torch, torch_of(shapes.total_force, E, 3, 3), **close)
        # A pair that touches has a point, and only that; where it is one point there is no weighting to tell apart.
        touching = theirs.norm(dim=-1) > 1e-3
        has_point = ~torch.isnan(d.contact_pos_w[..., 0])
        assert torch.equal(has_point | ~touching, torch.ones_like(touching))
        single = torch.zeros_like(touching)
        single[:, [0, 2], 0] = touching[:, [0, 2], 0]  # a sphere on a plane
        where = torch_of(shapes.position_matrix, E, 3, -1, 3)[:, :, order]
        # Theirs is carried along with the bodies' motion during the step.
        torch.testing.assert_close(d.contact_pos_w[single], where[single], atol=0.03, rtol=0)
    assert met["foot-ground"] > 50
    assert met["on_box-Ball"] > 5 and met["on_box-Robot/base"] > 5 and met["on_bone-Box"] > 5, met
    assert engine.overflow() is None
