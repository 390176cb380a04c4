# SPDX-License-Identifier: Apache-2.0
"""Contact forces against statics and dynamics, on every engine."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg

G = 9.81
TILT = math.radians(20.0)
SLOPE = (0.0, math.sin(TILT / 2), 0.0, math.cos(TILT / 2))  # z axis leans towards +x


def box(name: str, pos: tuple[float, float, float], **kw: object) -> RigidObjectCfg:
    spawn = CuboidCfg(size=kw.pop("size", (0.2, 0.2, 0.2)), **kw)  # type: ignore[arg-type]
    return RigidObjectCfg(prim_path=f"{{ENV_REGEX_NS}}/{name}", spawn=spawn, init_pos=pos)


def touch(name: str, *filters: str, **kw: object) -> ContactSensorCfg:
    return ContactSensorCfg(
        prim_path=f"{{ENV_REGEX_NS}}/{name}",
        filter_prim_paths_expr=list(filters),
        track_friction_forces=True,
        **kw,  # type: ignore[arg-type]
    )


class BlocksCfg(InteractiveSceneCfg):
    ground = PlaneCfg(friction=0.8)
    low = box("Low", (0, 0, 0.16), size=(0.5, 0.5, 0.3), mass=5.0)
    top = box("Top", (0, 0, 0.47), size=(0.3, 0.3, 0.3), mass=2.0)
    light = box("Light", (1.5, 0, 0.026), size=(0.05, 0.05, 0.05), mass=0.05)
    pair_a = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Pair",
        spawn=[
            CuboidCfg(size=(0.1, 0.1, 0.1), mass=1.0, pos=(-0.2, 0, 0)),
            CuboidCfg(size=(0.1, 0.1, 0.1), mass=1.0, pos=(0.2, 0, 0)),
        ],
        init_pos=(0, 1.5, 0.051),
    )
    on_low = touch("Low", "{ENV_REGEX_NS}/Top", "/World/ground", "{ENV_REGEX_NS}/Light")
    on_low_sum = touch("Low", "{ENV_REGEX_NS}/(Top|Light)")
    on_top = touch("Top")
    on_top_again = touch("Top", history_length=2)
    on_light = touch("Light", "{ENV_REGEX_NS}/Top", track_air_time=True)
    on_pair = touch("Pair")


@pytest.fixture(scope="module")
def blocks(physics):
    scene = InteractiveScene(BlocksCfg(num_envs=3), physics(dt=0.005))
    yield scene
    scene.close()


def settle(scene: InteractiveScene, steps: int = 200) -> None:
    for _ in range(steps):
        scene.step()


def near(value: torch.Tensor, expected: object, tol: float = 2e-3) -> bool:
    return torch.allclose(
        torch.as_tensor(value),
        torch.as_tensor(expected, dtype=torch.float32).expand_as(value),
        atol=tol,
        rtol=2e-3,
    )


def test_weights_at_rest(blocks):
    """Each body carries its weight; the force acts ON the body, so that the ground pushes up."""
    blocks.reset()
    settle(blocks)
    up = torch.tensor([0.0, 0.0, 1.0])
    data = {name: sensor.data for name, sensor in blocks.sensors.items()}
    assert near(data["on_low"].net_forces_w, 5 * G * up, 0.05)
    assert near(data["on_top"].net_forces_w, 2 * G * up, 0.05)
    assert near(data["on_light"].net_forces_w, 0.05 * G * up, 0.01)
    assert near(data["on_pair"].net_forces_w, 2 * G * up, 0.05), "two shapes of one body are summed"
    matrix = data["on_low"].force_matrix_w[:, 0]
    assert near(matrix[:, 0], -2 * G * up, 0.05), "the box on top presses down"
    assert near(matrix[:, 1], 7 * G * up, 0.05), "the ground carries both"
    assert near(matrix[:, 2], 0 * up), "no contact with the light box"
    assert near(data["on_low_sum"].force_matrix_w[:, 0, 0], -2 * G * up, 0.05)
    # The net force counts every contact; the columns cover all partners here.
    assert near(matrix.sum(1), data["on_low"].net_forces_w[:, 0], 1e-3)


def test_net_force_is_normal_plus_friction(blocks):
    blocks.reset()
    settle(blocks, 60)
    for name in ("on_low", "on_top", "on_light"):
        d = blocks[name].data
        assert torch.equal(d.net_forces_w, d.net_normal_forces_w + d.net_friction_forces_w)
        assert d.friction_forces_w is d.net_friction_forces_w


def test_filter_never_narrows_the_net_force(blocks):
    """A filter on something untouched leaves the net force alone and reads zero itself."""
    blocks.reset()
    settle(blocks)
    d = blocks["on_light"].data
    assert near(d.net_forces_w[..., 2], 0.05 * G, 0.01)
    assert float(d.force_matrix_w.torch.abs().max()) == 0.0


def test_two_sensors_with_one_selector_are_both_updated(blocks):
    blocks.reset()
    settle(blocks, 100)
    assert torch.equal(blocks["on_top"].data.net_forces_w, blocks["on_top_again"].data.net_forces_w)
    assert float(blocks["on_top_again"].data.net_forces_w[..., 2].min()) > 19


def test_light_box_is_in_contact_at_the_default_threshold(blocks):
    blocks.reset()
    settle(blocks, 100)
    assert bool((blocks["on_light"].data.current_contact_time > 0).all())


def test_lifted_body_reads_zero_after_unread_steps(blocks):
    blocks.reset()
    settle(blocks, 100)
    pose = blocks["light"].data.root_pose_w.torch.clone()
    pose[:, 2] += 1.0
    blocks["light"].write_root_pose(pose)
    blocks["light"].write_root_velocity(torch.zeros(3, 6))
    settle(blocks, 4)
    assert float(blocks["on_light"].data.net_forces_w.torch.abs().max()) == 0.0


def test_reset_clears_only_the_chosen_environment(blocks):
    blocks.reset()
    settle(blocks, 100)
    before = {n: s.data.net_forces_w_history.torch.clone() for n, s in blocks.sensors.items()}
    times = blocks["on_light"].data.current_contact_time.torch.clone()
    mask = torch.tensor([False, True, False])
    pose = blocks["top"].data.default_root_pose.torch.clone()
    pose[:, 2] = 2.0
    blocks.reset(mask)
    blocks["top"].write_root_pose(pose, mask)
    for name, sensor in blocks.sensors.items():
        after = sensor.data.net_forces_w_history
        assert float(after[1].abs().max()) == 0.0, name
        assert torch.equal(after[[0, 2]], before[name][[0, 2]]), name
        assert float(sensor.data.net_normal_forces_w[1].abs().max()) == 0.0
        if sensor.data.force_matrix_w is not None:
            assert float(sensor.data.force_matrix_w[1].abs().max()) == 0.0
    now = blocks["on_light"].data.current_contact_time
    assert float(now[1].max()) == 0.0
    assert torch.equal(now[[0, 2]], times[[0, 2]])
    # Nothing is injected by reading again, and the other environments go on undisturbed.
    assert float(blocks["on_top"].data.net_forces_w[1].abs().max()) == 0.0
    blocks.step()
    assert float(blocks["on_top"].data.net_forces_w[1].abs().max()) == 0.0
    assert near(blocks["on_top"].data.net_forces_w[[0, 2], 0, 2], 2 * G, 0.05)


def test_reset_clears_every_buffer_of_the_chosen_environment_only(blocks):
    """Forces, matrices, timers and all their histories; the others' bit for bit."""
    blocks.reset()
    settle(blocks, 60)
    mask = torch.tensor([True, False, False])

    def buffers() -> dict[str, torch.Tensor]:
        return {
            f"{name}.{field}": value.torch.clone()
            for name, sensor in blocks.sensors.items()
            for field, value in vars(sensor.data).items()
            if isinstance(value, torch.Tensor)
        }

    before = buffers()
    assert {n.rpartition(".")[2] for n in before} >= {
        f"{base}{end}"
        for base in ("net_normal_forces_w", "net_friction_forces_w", "net_forces_w", "force_matrix_w")
        for end in ("", "_history")
    }
    assert sum(bool(v[0].any()) for v in before.values()) > 10
    blocks.reset(mask)
    for _ in range(2):
        for name, after in buffers().items():
            assert not after[0].any(), name
            assert torch.equal(after[1:], before[name][1:]), name
        blocks.body_poses()  # reading on changes nothing


class HistoryCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    cube = box("Cube", (0, 0, 0.1), mass=2.0)
    touch = touch("Cube", "/World/ground", history_length=4)


def test_history_holds_newest_first(physics):
    """A load that grows by 1 N a step is seen as differences of 1 N between neighbours."""
    scene = InteractiveScene(HistoryCfg(num_envs=2), physics(dt=0.005))
    data = scene["touch"].data
    assert data.net_forces_w_history.shape == (2, 4, 1, 3)
    assert data.force_matrix_w_history.shape == (2, 4, 1, 1, 3)
    settle(scene)
    zero = torch.zeros(2, 3)
    for i in range(40):
        scene["cube"].set_external_wrench(torch.tensor([[0.0, 0.0, -float(i)]]).repeat(2, 1), zero)
        scene.step()
    h = data.net_forces_w_history[:, :, 0, 2]
    assert torch.equal(h[:, 0], data.net_forces_w[:, 0, 2])
    steps = h[:, :-1] - h[:, 1:]
    assert near(steps, 1.0, 0.2), steps
    assert torch.equal(data.force_matrix_w_history[:, :, :, 0], data.net_forces_w_history)
    old = h.clone()
    scene.step()
    assert torch.equal(data.net_forces_w_history[:, 1:, 0, 2], old[:, :-1])
    scene.close()


class SlopeCfg(InteractiveSceneCfg):
    # The pair's coefficient is the mean of the two: 0.8 and 0.2.
    slope = PlaneCfg(friction=0.0, init_rot=SLOPE, prim_path="/World/slope")
    sticks = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Sticks",
        spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=2.0, friction=1.6),
        init_pos=(0.1 * math.sin(TILT), -1.0, 0.1 * math.cos(TILT)),
        init_rot=SLOPE,
    )
    slides = sticks_2 = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Slides",
        spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=2.0, friction=0.4),
        init_pos=(0.1 * math.sin(TILT), 1.0, 0.1 * math.cos(TILT)),
        init_rot=SLOPE,
    )
    sticks_2 = None
    on_sticks = touch("Sticks")
    on_slides = touch("Slides")


def test_box_on_a_slope(physics):
    """Sticking: m g cos, m g sin, total straight up. Sliding: friction cone and Newton's second law."""
    scene = InteractiveScene(SlopeCfg(num_envs=1, env_spacing=0.0), physics(dt=0.005))
    settle(scene, 100)
    weight = 2 * G
    d = scene["on_sticks"].data
    assert near(d.net_normal_forces_w.norm(dim=-1), weight * math.cos(TILT), 0.02)
    assert near(d.net_friction_forces_w.norm(dim=-1), weight * math.sin(TILT), 0.02)
    assert near(d.net_forces_w[0, 0], (0.0, 0.0, weight), 0.03)
    s = scene["on_slides"].data
    v0 = scene["slides"].data.root_lin_vel_w.norm()
    stuck_at = scene["sticks"].data.root_pos_w.torch.clone()
    normal, friction = [], []
    for _ in range(100):
        scene.step()
        normal.append(s.net_normal_forces_w.norm())
        friction.append(s.net_friction_forces_w.norm())
    a = (scene["slides"].data.root_lin_vel_w.norm() - v0) / 0.5
    expected = G * (math.sin(TILT) - 0.2 * math.cos(TILT))
    assert near(torch.stack(friction).mean(), 0.2 * weight * math.cos(TILT), 0.02)
    assert near(torch.stack(normal).mean(), weight * math.cos(TILT), 0.05)
    assert near(a, expected, 0.02)
    crept = (scene["sticks"].data.root_pos_w - stuck_at).norm()
    assert float(crept) < 1e-3, "within 0.5 s"
    scene.close()


def test_dropped_box_takes_the_impulse_of_its_momentum(physics):
    """Σ F·dt of the contact = m·Δv + m·g·t over the landing, whatever the shape of the peak."""

    class DropCfg(InteractiveSceneCfg):
        ground = PlaneCfg()
        ball = RigidObjectCfg(
            prim_path="{ENV_REGEX_NS}/Ball", spawn=SphereCfg(radius=0.1, mass=3.0), init_pos=(0, 0, 0.6)
        )
        touch = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Ball")

    dt = 0.002
    scene = InteractiveScene(DropCfg(num_envs=1), physics(dt=dt))
    impulse, speed = 0.0, []
    steps = 300
    for _ in range(steps):
        scene.step()
        impulse += float(scene["touch"].data.net_forces_w[0, 0, 2]) * dt
        speed.append(float(scene["ball"].data.root_lin_vel_w[0, 2]))
    assert min(speed) < -2.5, "it fell freely for half a metre"
    expected = 3.0 * (speed[-1] - 0.0) + 3.0 * G * steps * dt
    assert impulse == pytest.approx(expected, rel=0.01)
    scene.close()


def test_forces_do_not_depend_on_capacity():
    forces = []
    for capacity in (16, 64, 256):
        scene = InteractiveScene(
            HistoryCfg(num_envs=2), NewtonCfg(contact_capacity=capacity, constraint_capacity=3 * capacity)
        )
        settle(scene, 50)
        forces.append(scene["touch"].data.net_forces_w.torch.clone())
        scene.check_overflow()
        scene.close()
    assert torch.equal(forces[0], forces[1]) and torch.equal(forces[1], forces[2])


def test_many_objects_at_rest_have_room_by_default():
    """Twenty boxes on four corners each."""
    cfg = HistoryCfg(num_envs=1)
    for i in range(20):
        setattr(cfg, f"b{i}", box(f"B{i}", (0.5 * (i % 5) - 3.0, 0.5 * (i // 5) + 1.0, 0.1), mass=1.0))
    scene = InteractiveScene(cfg, NewtonCfg(on_overflow="raise"))
    settle(scene, 20)
    scene.close()


@pytest.mark.parametrize("how", ["warn", "raise"])
def test_too_small_a_capacity_is_told_once_with_the_size_needed(how):
    """Four boxes fall from 0.3 m onto room for four contacts; they need sixteen."""
    cfg = HistoryCfg(num_envs=2)
    for i in range(4):
        setattr(cfg, f"b{i}", box(f"B{i}", (0.5 * i + 0.5, 0, 0.4), mass=1.0))
    cfg.cube.init_pos = (0.0, 0.0, 0.4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scene = InteractiveScene(cfg, NewtonCfg(contact_capacity=5, constraint_capacity=200, on_overflow=how))
        assert not told
        if how == "raise":
            with pytest.raises(
                RuntimeError, match=r"physics.contact_capacity: 5 per environment, needed (\d+)"
            ):
                settle(scene, 100)
        else:
            settle(scene, 100)
            scene.check_overflow()
            assert len(told) == 1 and issubclass(told[0].category, RuntimeWarning)
            message = str(told[0].message)
            assert "contacts were lost" in message and "environments (0, 1)" in message
            assert int(message.split("needed ")[1].split(".")[0]) > 5
    assert bool(torch.isfinite(scene.body_poses()).all())
    scene.close()
