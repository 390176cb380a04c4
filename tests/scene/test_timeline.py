# SPDX-License-Identifier: Apache-2.0
"""Play, stop, resume and their events; what the scene says about the integrator that it chose."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

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
from forcelab.sensors import ContactSensorCfg, SensorBase, SensorBaseCfg

NS = "{ENV_REGEX_NS}"


class BoxCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    box = RigidObjectCfg(
        prim_path=f"{NS}/Box", spawn=CuboidCfg(size=(0.2, 0.2, 0.2), mass=1.0), init_pos=(0, 0, 0.5)
    )
    touch = ContactSensorCfg(prim_path=f"{NS}/Box")


@pytest.fixture(scope="module")
def falling():
    scene = InteractiveScene(BoxCfg(num_envs=2), NewtonCfg(dt=0.005))
    yield scene
    scene.close()


@pytest.fixture
def scene(falling):
    falling.resume()
    falling.reset()
    return falling


def height(scene: InteractiveScene) -> list[float]:
    return scene["box"].data.root_pos_w[:, 2].tolist()


# ---------------------------------------------------------------------- the timeline
def test_plays_from_the_start(scene):
    assert scene.playing
    scene.step()


def test_no_step_while_stopped(scene):
    scene.step()
    before = height(scene)
    scene.stop()
    assert not scene.playing
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"stopped; call scene.play\(\) or scene.resume\(\)"):
            scene.step()
    assert height(scene) == before


def test_resume_goes_on_where_it_was_stopped(scene):
    for _ in range(20):
        scene.step()
    scene.reset()
    for _ in range(10):
        scene.step()
    scene.stop()
    scene.resume()
    assert scene.playing
    for _ in range(10):
        scene.step()
    stopped = height(scene)
    scene.reset()
    for _ in range(20):
        scene.step()
    assert stopped == height(scene)


def test_play_begins_at_the_default_states(scene):
    for _ in range(100):
        scene.step()
    assert scene["touch"].data.net_forces_w.any()
    scene.stop()
    assert scene["touch"].data.net_forces_w.any()
    scene.play()
    assert scene.playing and height(scene) == [0.5, 0.5]
    assert not scene["touch"].data.net_forces_w.any()


def test_play_while_playing_changes_nothing(scene):
    scene.step()
    before = height(scene)
    scene.play()
    scene.resume()
    assert scene.playing and height(scene) == before != [0.5, 0.5]


def test_reset_and_writes_are_allowed_while_stopped(scene):
    scene.stop()
    pose = scene["box"].data.default_root_pose.torch.clone()
    pose[:, 2] = 2.0
    scene["box"].write_root_pose(pose)
    assert height(scene) == [2.0, 2.0]
    scene.reset(torch.tensor([True, False]))
    assert height(scene) == [0.5, 2.0]
    assert not scene.playing


# ---------------------------------------------------------------------- events
def test_events_come_once_for_each_change(scene):
    events: list[str] = []
    ends = [
        scene.on_stopped(lambda: events.append("stopped")),
        scene.on_resumed(lambda: events.append("resumed")),
    ]
    scene.resume()
    scene.play()
    assert events == []
    for _ in range(2):
        scene.stop()
    assert events == ["stopped"]
    for _ in range(2):
        scene.resume()
    assert events == ["stopped", "resumed"]
    scene.stop()
    scene.play()
    scene.play()
    assert events == ["stopped", "resumed"] * 2
    scene.reset()
    scene.step()
    assert len(events) == 4
    for end in ends:
        end()


def test_callbacks_see_the_new_state_and_come_in_order(scene):
    seen: list[Any] = []
    ends = [scene.on_stopped(lambda i=i: seen.append((i, scene.playing))) for i in range(3)]
    ends.append(scene.on_resumed(lambda: seen.append((scene.playing, height(scene)))))
    scene.step()
    scene.stop()
    scene.play()
    assert seen == [(0, False), (1, False), (2, False), (True, [0.5, 0.5])]
    for end in ends:
        end()


def test_unsubscribing(scene):
    seen: list[str] = []
    # One function may be there twice; each subscription ends by itself.
    first = scene.on_stopped(lambda: seen.append("first"))
    again = scene.on_stopped(lambda: seen.append("again"))
    first()
    first()
    scene.stop()
    scene.resume()
    assert seen == ["again"]
    # A later subscription is not ended by an old handle.
    last = scene.on_stopped(lambda: seen.append("last"))
    again()
    again()
    newest = scene.on_stopped(lambda: seen.append("newest"))
    first()
    again()
    scene.stop()
    assert seen == ["again", "last", "newest"]
    last()
    newest()


def test_a_callback_may_unsubscribe_and_subscribe(scene):
    seen: list[str] = []
    ends: list[Any] = []

    def once() -> None:
        seen.append("once")
        ends[0]()
        ends.append(scene.on_stopped(lambda: seen.append("later")))

    ends.append(scene.on_stopped(once))
    scene.stop()
    assert seen == ["once"]
    scene.resume()
    scene.stop()
    assert seen == ["once", "later"]
    ends[1]()


@pytest.mark.parametrize("callback", [None, "stop", 3])
@pytest.mark.parametrize("event", ["on_stopped", "on_resumed"])
def test_a_callback_is_callable(scene, event, callback):
    with pytest.raises(TypeError, match=f"The callback is {callback!r}; it must be callable"):
        getattr(scene, event)(callback)


# ---------------------------------------------------------------------- the integrator
@dataclass
class ExactCfg(SensorBaseCfg):
    """A sensor that reads accelerations, or even joint wrenches."""

    wrench: bool = False
    needs_accelerations: ClassVar[bool] = True

    def create(self, name: str, world: Any) -> SensorBase:
        if self.wrench:
            world.engine.add_joint_wrench_reader("Cart")
        return _Idle(self, name, world)


class OnlyAReaderCfg(ExactCfg):
    """One that does not say what it needs: the engine sees the reader."""

    needs_accelerations: ClassVar[bool] = False


class _Idle(SensorBase):
    def build(self) -> None: ...

    def launch_sample(self) -> None: ...

    def launch_reset(self, mask: Any) -> None: ...


def printed(physics: NewtonCfg, sensor: SensorBaseCfg | None = None) -> str:
    cfg = InteractiveSceneCfg(num_envs=1)
    cfg.cart = ArticulationCfg(prim_path=f"{NS}/Cart", spawn=MjcfCfg("cartpole.xml"), fixed_base=True)
    cfg.exact = sensor
    scene = InteractiveScene(cfg, physics)
    text = str(scene)
    scene.close()
    return text


@pytest.mark.parametrize(
    ("sensor", "integrator", "why"),
    [
        (None, "implicitfast", "no joint wrench and no acceleration is read"),
        (ContactSensorCfg(prim_path=f"{NS}/Cart/cart"), "implicitfast", "no joint wrench"),
        (ExactCfg(prim_path=f"{NS}/Cart"), "discrete", "since joint wrenches or accelerations are read"),
        (ExactCfg(prim_path=f"{NS}/Cart", wrench=True), "discrete", "since joint wrenches"),
        (OnlyAReaderCfg(prim_path=f"{NS}/Cart", wrench=True), "discrete", "since joint wrenches"),
    ],
)
def test_the_automatic_integrator(sensor, integrator, why):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        text = printed(NewtonCfg(), sensor)
    assert f"integrator {integrator}," in text and why in text


@pytest.mark.parametrize("wrench", [False, True])
def test_an_inexact_integrator_with_wrenches_warns(wrench):
    with pytest.warns(
        UserWarning, match=r"physics.integrator is 'implicitfast', but .*Use 'discrete' or 'auto'"
    ):
        text = printed(NewtonCfg(integrator="implicitfast"), ExactCfg(prim_path=f"{NS}/Cart", wrench=wrench))
    assert "integrator implicitfast" in text and "is read" not in text


@pytest.mark.parametrize("integrator", ["implicitfast", "discrete"])
def test_an_explicit_integrator_is_taken(integrator):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        text = printed(NewtonCfg(integrator=integrator))
    assert f"integrator {integrator};" in text


def test_the_printout_names_everything(scene):
    lines = str(scene).splitlines()
    assert lines[0] == "BoxCfg: 2 environments on cpu"
    assert lines[1].startswith("  engine: newton ") and "dt 0.005 s" in lines[1]
    assert lines[2:] == ["  box: rigid object", f"  touch: ContactSensor, {NS}/Box"]


def test_the_printout_counts_robots_and_says_the_period():
    text = printed(NewtonCfg(), ContactSensorCfg(prim_path=f"{NS}/Cart/cart", update_period=0.02))
    assert "  cart: articulation, 3 bodies, 2 joints" in text
    assert f"  exact: ContactSensor, {NS}/Cart/cart, every 0.02 s" in text


def test_an_unknown_integrator():
    with pytest.raises(ValueError, match=r"physics.integrator is 'discret'. Did you mean 'discrete'"):
        printed(NewtonCfg(integrator="discret"))
