# SPDX-License-Identifier: Apache-2.0
"""Overrides on small configurations made here; no task, no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest

from forcelab.configs import ConfigError, expand_sweeps, from_yaml, to_yaml
from forcelab.configs import convert as cv
from forcelab.configs import overrides as ov
from forcelab.scene.collection_cfg import CollectionCfg

if TYPE_CHECKING:
    from nowhere import Environment  # an import that only type checkers follow


@dataclass
class Entity:
    name: str
    joint_names: str | list[str] | None = None


def slide(env: Environment, sensor_cfg: Entity, threshold: float = 1.0) -> None:
    """A term whose environment type does not exist at run time."""


ROBOT = Entity("robot")


def other(env, asset_cfg: Entity = ROBOT, gain: float = 1.0, shift: tuple[float, float] = (0.0, 1.0)):
    """A term with a default selection."""


def anything(env, **kwargs):
    """A term with open parameters."""


class ClassTerm:
    def __call__(self, env, scale: float) -> None: ...


@dataclass
class Term:
    func: Callable[..., Any] | str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    weight: float = 0.0


@dataclass
class Motor:
    stiffness: float | dict[str, float] | None = None
    effort: float = 80.0


@dataclass
class GearedMotor(Motor):
    ratio: float = 6.0


@dataclass
class Robot:
    path: str = "robot.xml"
    position: tuple[float, float, float] = (0.0, 0.0, 0.5)
    motors: dict[str, Motor] = field(default_factory=dict)
    parts: list[Motor] = field(default_factory=list)
    mode: Literal["free", "fixed"] = "free"
    ids: Any = None

    def __post_init__(self) -> None:
        if self.position[2] < 0:
            raise ValueError(f"position {self.position!r} is below the ground")


class Scene(CollectionCfg):
    num_envs: int = 4
    spacing: float = 2.0
    robot = Robot(
        motors={"legs": Motor({".*_HAA": 80.0, ".*_KFE": 60.0}), "neck": GearedMotor(5.0)},
        parts=[Motor(1.0), GearedMotor(2.0)],
    )


@dataclass
class Env:
    scene: Scene = field(default_factory=Scene)
    rewards: Any = field(
        default_factory=lambda: CollectionCfg(
            slide=Term(slide, {"sensor_cfg": Entity("feet")}, -0.1), other=Term(other, {}, 1.0)
        )
    )
    terminations: Any = field(default_factory=CollectionCfg)
    seed: int | None = None
    device: str = "cpu"
    sizes: list[int] = field(default_factory=lambda: [512, 256, 128, 64, 32])
    extra: dict[str, Any] = field(default_factory=dict)
    flag: bool = False


@pytest.fixture(autouse=True)
def _terms(monkeypatch):
    monkeypatch.setattr(cv, "entry_class", lambda obj, section: Term if section == "rewards" else None)


def change(*texts: str, env: Env | None = None) -> Env:
    env = env or Env()
    root = ov.Root({"env": env}, ("env",), {"num_envs": ("env", "scene", "num_envs")})
    ov.apply(root, [ov.parse(t) for t in texts])
    cv.check(env)
    return env


def error(*texts: str) -> str:
    with pytest.raises(ConfigError) as info:
        change(*texts)
    assert "\n" not in str(info.value)
    return str(info.value)


HERE = __name__


# -- values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rewards.slide.weight=-1e-3", -1e-3),
        ("rewards.slide.weight=1e-3", 1e-3),
        ("rewards.slide.weight=2", 2.0),
        ("rewards.slide.weight=-.5", -0.5),
    ],
)
def test_floats(text, value):
    weight = change(text).rewards.slide.weight
    assert type(weight) is float and weight == value


def test_lists_of_any_length_null_and_text():
    env = change("sizes=[64,32,16,8]", "seed=3", "device=cuda:0")
    assert env.sizes == [64, 32, 16, 8] and env.seed == 3 and env.device == "cuda:0"
    assert change("seed=null", env=env).seed is None
    assert change("sizes=[]").sizes == []
    assert change("sizes[1]=7").sizes == [512, 7, 128, 64, 32]
    assert change("sizes.0=7").sizes[0] == 7
    assert change("num_envs=256").scene.num_envs == 256
    assert change("env.scene.num_envs=256").scene.num_envs == 256
    assert change("scene.num_envs=1e3").scene.num_envs == 1000
    assert change("scene.robot.path=2026").scene.robot.path == "2026"
    assert change("scene.robot.position=[1,2,3]").scene.robot.position == (1.0, 2.0, 3.0)
    assert change("scene.robot.position[2]=3").scene.robot.position == (0.0, 0.0, 3.0)


def test_keys_that_are_regular_expressions():
    key = "scene.robot.motors.legs.stiffness"
    both = {".*_HAA": 40.0, ".*_KFE": 60.0}
    for text in (f'{key}[".*_HAA"]=40', f"{key}['.*_HAA']=40", f"{key}[.*_HAA]=40", f"{key}={{.*_HAA:40}}"):
        assert change(text).scene.robot.motors["legs"].stiffness == both, text
    env = change(f'+{key}["[LR]F_.*"]=5')
    assert env.scene.robot.motors["legs"].stiffness["[LR]F_.*"] == 5.0
    assert "Did you mean '.*_HAA'" in error(f'{key}[".*_HA"]=40')
    assert change(f"{key}={{'[LR]F_.*': 7}}").scene.robot.motors["legs"].stiffness["[LR]F_.*"] == 7.0
    assert change(f"{key}=40").scene.robot.motors["legs"].stiffness == 40.0
    assert change(f'~{key}[".*_HAA"]').scene.robot.motors["legs"].stiffness == {".*_KFE": 60.0}


def test_dictionaries_merge_and_empty_replaces():
    assert list(change("rewards={}").rewards.items()) == []
    assert change("+extra.a=1", "+extra.b.c=[1]").extra == {"a": 1, "b": {"c": [1]}}
    env = change("extra={a:1}")
    assert change("extra={b:2}", env=env).extra == {"a": 1, "b": 2}
    assert change("extra={}", env=env).extra == {}
    env = change("rewards={slide:{weight:3}}")
    assert env.rewards.slide.weight == 3.0 and env.rewards.slide.func is slide
    assert change("scene.robot={mode:fixed}").scene.robot.mode == "fixed"


# -- terms and entries


def test_remove_by_tilde_and_null():
    assert [n for n, _ in change("~rewards.slide").rewards.items()] == ["other"]
    assert [n for n, _ in change("rewards.slide=null").rewards.items()] == ["other"]
    assert [n for n, _ in change("~scene.robot").scene.items()] == ["num_envs", "spacing"]
    assert list(change("~rewards").rewards.items()) == []
    assert "no entry 'slid'. Did you mean 'slide'" in error("~rewards.slid")
    assert "cannot be removed" in error("~scene.robot.mode")


def test_add_a_term():
    env = change(
        f"+rewards.mine.func={HERE}.slide",
        "+rewards.mine.weight=2",
        "+rewards.mine.params.sensor_cfg={name:feet,joint_names:[a,b]}",
        "+rewards.mine.params.threshold=3",
    )
    assert env.rewards.mine == Term(slide, {"sensor_cfg": Entity("feet", ["a", "b"]), "threshold": 3.0}, 2.0)
    assert change(f"+rewards.mine={{func:{HERE}.anything,params:{{x:1}}}}").rewards.mine.params == {"x": 1}
    assert "exists already" in error(f"+rewards.slide.func={HERE}.other")
    assert change(f"++rewards.other.func={HERE}.anything").rewards.other.func is anything
    assert "slide needs sensor_cfg" in error(f"+rewards.mine.func={HERE}.slide")
    assert "_target_" in error("+scene.box.size=1")
    assert change(f"+scene.box._target_={HERE}.Robot", "+scene.box.path=x").scene.box == Robot("x")


def test_params_by_the_functions_own_annotations():
    env = change("rewards.slide.params.sensor_cfg={name:hands}", "rewards.slide.params.threshold=2")
    assert env.rewards.slide.params == {"sensor_cfg": Entity("hands"), "threshold": 2.0}
    env = change("rewards.other.params.asset_cfg.joint_names=.*_hip", "rewards.other.params.shift=[1,2]")
    assert env.rewards.other.params == {"asset_cfg": Entity("robot", ".*_hip"), "shift": (1.0, 2.0)}
    assert other.__defaults__[0] == Entity("robot")
    assert (
        "rewards.slide.params.treshold: slide has no parameter 'treshold'. Did you mean 'threshold'"
        in error("rewards.slide.params.treshold=2")
    )
    assert "rewards.slide.params.treshold" in error("+rewards.slide.params.treshold=2")
    assert "rewards.slide.params.sensor_cfg.nam" in error("rewards.slide.params.sensor_cfg={nam:a}")
    assert "expected float, found 'x' (str)" in error("rewards.slide.params.threshold=x")
    assert "expected 2 values, found 1" in error("rewards.other.params.shift=[1]")
    # A new function brings its own parameters.
    assert "ClassTerm has no parameter 'sensor_cfg'" in error(f"rewards.slide.func={HERE}.ClassTerm")
    env = change(f"rewards.slide={{func:{HERE}.ClassTerm,params:{{scale:2}}}}")
    assert env.rewards.slide.params == {"scale": 2.0}


def test_typed_objects_inside_lists_and_dictionaries():
    env = change("scene.robot.parts[1].ratio=9", "scene.robot.motors.neck.ratio=3")
    assert env.scene.robot.parts == [Motor(1.0), GearedMotor(2.0, ratio=9.0)]
    assert env.scene.robot.motors["neck"].ratio == 3.0
    env = change(f"scene.robot.parts=[{{stiffness:3}},{{_target_:{HERE}.GearedMotor,ratio:2}}]")
    assert env.scene.robot.parts == [Motor(3.0), GearedMotor(ratio=2.0)]
    env = change("+scene.robot.motors.tail.stiffness=4")
    assert env.scene.robot.motors["tail"] == Motor(4.0)
    assert change("scene.robot.ids={_target_:slice,start:0,stop:3}").scene.robot.ids == slice(0, 3)
    assert "expected Motor, found 5 (int)" in error("scene.robot.parts=[5]")
    assert "scene.robot.parts[4]: the list has 2 elements" in error("scene.robot.parts[4]=1")
    assert "Motor has no field 'ratio'" in error("scene.robot.parts[0].ratio=1")


# -- errors


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("rewards.slid.weight=1", ["rewards.slid", "Did you mean 'slide'"]),
        ("reward.slide.weight=1", ["reward: ", "Did you mean 'rewards'"]),
        ("rewards.slide.wieght=1", ["rewards.slide.wieght", "Did you mean 'weight'"]),
        ("num_env=3", ["Did you mean 'num_envs'"]),
        ("scene.num_env=3", ["scene.num_env", "Did you mean 'num_envs'"]),
        ("rewards.slide.weight=abc", ["rewards.slide.weight", "expected float", "found 'abc' (str)"]),
        ("rewards.slide.weight=true", ["expected float", "found True (bool)"]),
        ("scene.num_envs=1.5", ["scene.num_envs", "expected int", "found 1.5 (float)"]),
        ("flag=1", ["flag", "expected bool", "found 1 (int)"]),
        ("sizes=3", ["expected list[int]", "found 3"]),
        ("sizes=[1,a]", ["sizes[1]", "expected int", "found 'a'"]),
        ("scene.robot.mode=fixd", ["scene.robot.mode", "Did you mean 'fixed'"]),
        ("scene.robot.position=[1,2]", ["expected 3 values, found 2"]),
        ("scene.robot.position=[0,0,-1]", ["scene.robot: position (0.0, 0.0, -1.0) is below the ground"]),
        ("scene.robot=5", ["scene.robot", "found 5 (int)"]),
        ("scene.robot=null", []),
        ("rewards.slide.func=feet_slyde", ["rewards.slide.func", "no term 'feet_slyde'"]),
        ("rewards.slide.func=nowhere.term", ["rewards.slide.func", "there is no module 'nowhere'"]),
        ("rewards.slide.func=math.sinus", ["math has no 'sinus'"]),
        ("seed.x=1", ["seed", "null"]),
        ("device.x=1", ["device", "it has no 'x'"]),
        ("sizes.x=1", ["'x' is no index"]),
        ("seed", ["write key=value"]),
        ("=3", ["no key"]),
        ("seed=1,2", ["--multirun"]),
        ("device=(x", ["device", "quotes"]),
        ("device=${seed}", ["interpolations"]),
        ("sizes[0=1", ["unclosed '['"]),
    ],
)
def test_errors_name_the_key(text, parts):
    if not parts:
        change(text)
        return
    message = error(text)
    for part in parts:
        assert part in message


# -- sweeps


def test_sweeps():
    assert expand_sweeps(["a=1"]) == [["a=1"]]
    assert expand_sweeps(["a=1,2", "b=x", 'c.s[".*_HAA"]=3,4']) == [
        ["a=1", "b=x", 'c.s[".*_HAA"]=3'],
        ["a=1", "b=x", 'c.s[".*_HAA"]=4'],
        ["a=2", "b=x", 'c.s[".*_HAA"]=3'],
        ["a=2", "b=x", 'c.s[".*_HAA"]=4'],
    ]
    assert [r[0] for r in expand_sweeps(["a=range(0,3)"])] == ["a=0", "a=1", "a=2"]
    assert expand_sweeps(["a=[1,2],[3]"]) == [["a=[1,2]"], ["a=[3]"]]
    with pytest.raises(ConfigError, match="interval"):
        expand_sweeps(["a=interval(0,1)"])


# -- YAML


def test_yaml_round_trip():
    env = change("rewards.slide.weight=-1e-5", "+scene.robot.motors.tail.stiffness=null", "~rewards.other")
    env.scene.robot.ids = slice(0, 3)
    text = to_yaml(env)
    again = from_yaml(text)
    assert again == env and isinstance(again.scene, Scene) and again.rewards.slide.func is slide
    assert to_yaml(again) == text
    del env.scene.robot
    assert from_yaml(to_yaml(env)).scene.robot is None
    assert from_yaml("{a: 1e-3, b: -1e-3, c: 1e5}") == {"a": 1e-3, "b": -1e-3, "c": 1e5}
    with pytest.raises(ConfigError, match="cannot be written"):
        to_yaml(Env(extra={"x": object()}))
    with pytest.raises(ConfigError, match="lambda"):
        from_yaml(to_yaml(Env(rewards=CollectionCfg(a=Term(lambda env: 0)))))
