# SPDX-License-Identifier: Apache-2.0
"""What cannot be built: one error each, which names the key, what was found and what to do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    DelayedPdActuatorCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MeshCfg,
    MjcfCfg,
    PdActuatorCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg

NS = "{ENV_REGEX_NS}"
NAN = math.nan
GEOM = "<geom type='sphere' size='0.1' mass='1'/>"


def box(**fields: Any) -> RigidObjectCfg:
    values = {"prim_path": f"{NS}/Box", "spawn": CuboidCfg(size=(0.2, 0.2, 0.2), mass=1.0), **fields}
    return RigidObjectCfg(**values)


def cart(**fields: Any) -> ArticulationCfg:
    values = {"prim_path": f"{NS}/Robot", "spawn": MjcfCfg("cartpole.xml"), "fixed_base": True, **fields}
    return ArticulationCfg(**values)


def driven(kind: type[PdActuatorCfg] = PdActuatorCfg, **fields: Any) -> ArticulationCfg:
    values = {"joint_names": ["slider_to_cart"], **fields}
    return cart(actuators={"a": kind(**values)})


def build(
    physics: Any = None, num_envs: Any = 1, env_spacing: Any = 2.5, device: Any = "cpu", **entities: Any
) -> None:
    cfg = InteractiveSceneCfg(num_envs=num_envs, env_spacing=env_spacing)
    for name, entity in entities.items():
        setattr(cfg, name, entity)
    InteractiveScene(cfg, NewtonCfg() if physics is None else physics, device).close()


def refused(message: str, **scene: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        build(**scene)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "4", None, 10**20])
def test_number_of_environments(value: Any) -> None:
    refused(r"scene\.num_envs is .*(whole number, 1 or more|at most)", num_envs=value, box=box())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("gpu", "device is 'gpu'.*Did you mean 'cpu'"),
        ("cuda:97", "device is 'cuda:97', but torch finds .* Use device=cpu"),
        ("mps", "'cpu' and 'cuda:<i>' are supported"),
        (None, "device is None; use 'cpu'"),
    ],
)
def test_device(value: Any, message: str) -> None:
    refused(message, device=value, box=box())


@pytest.mark.parametrize("value", [0, -0.005, NAN, math.inf, True, "0.005", None])
def test_time_step(value: Any) -> None:
    refused(r"physics\.dt is .*finite number above 0 \[s\]", physics=NewtonCfg(dt=value), box=box())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("gravity", -9.81, r"physics\.gravity \[m/s²\] is -9\.81; it must be 3 finite numbers"),
        ("gravity", (0.0, 0.0, NAN), r"physics\.gravity"),
        ("cone", "eliptic", r"physics\.cone is 'eliptic'.*Did you mean 'elliptic'"),
        ("iterations", 0, r"physics\.iterations is 0"),
        ("contact_capacity", True, r"physics\.contact_capacity is True"),
        ("contact_capacity", 10**12, r"physics\.contact_capacity is 1000000000000; it must be at most"),
        ("gravity", torch.tensor(9.81), r"physics\.gravity .* it must be 3 finite numbers"),
        ("dt", 1e-300, r"physics\.dt is 1e-300"),
        ("dt", 10**400, r"physics\.dt is 1000"),
        ("impratio", 1e39, r"physics\.impratio is 1e\+39"),
        ("contact_time_constant", "soft", r"physics\.contact_time_constant is 'soft'"),
        ("contact_impedance", (0.1, 0.9), r"physics\.contact_impedance"),
        ("capture", "maybe", r"physics\.capture is 'maybe'; it must be true or false"),
    ],
)
def test_engine_settings(field: str, value: Any, message: str) -> None:
    refused(message, physics=NewtonCfg(**{field: value}), box=box())


def test_what_is_no_scene_or_engine() -> None:
    refused("physics is 'newton'; it must be a NewtonCfg", physics="newton", box=box())
    refused(r"env_spacing is -1", env_spacing=-1, box=box())
    refused("no robot and no object", ground=PlaneCfg())
    refused("scene.box is a type", box=RigidObjectCfg)
    with pytest.raises(TypeError, match="scene is a dict"):
        InteractiveScene({"box": box()}, NewtonCfg())  # type: ignore[arg-type]


def test_far_environments_are_told() -> None:
    with pytest.warns(UserWarning, match=r"env_spacing=1e\+06 puts environments .*few metres are enough"):
        build(num_envs=4, env_spacing=1e6, box=box())


@pytest.mark.parametrize("name", ["items", "replace", "entities"])
def test_names_taken_by_methods(name: str) -> None:
    with pytest.raises(AttributeError, match=f"{name}: the name is taken by a method"):
        setattr(InteractiveSceneCfg(), name, box())
    with pytest.raises(TypeError, match=f"{name}: the name is taken by a method"):
        type("Scene", (InteractiveSceneCfg,), {name: box()})


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        (box(prim_path="/World/Box"), "scene.box.prim_path is '/World/Box'; it must begin with"),
        (box(prim_path="/World/envs/env_0/Box"), "must begin with"),
        (box(prim_path=""), "give a path such as"),
        (box(prim_path=f"{NS}/B.*"), "plain names, no expression"),
        (box(prim_path=f"{NS}/Robot/cart/Box"), "collides with that of scene.robot"),
        (box(init_pos=(0.0, 1.0)), r"scene\.box\.init_pos is \(0\.0, 1\.0\); it must be 3 finite numbers"),
        (box(init_pos=(0.0, 0.0, NAN)), r"scene\.box\.init_pos"),
        (box(init_rot=(0.0, 0.0, 0.0, 0.0)), r"scene\.box\.init_rot .* quaternion \(x, y, z, w\), not zero"),
        (box(init_lin_vel=(0.0, 1.0)), r"scene\.box\.init_lin_vel"),
        (box(spawn=None), r"scene\.box\.spawn is None; give CuboidCfg"),
        (box(spawn=MjcfCfg("cartpole.xml")), "use ArticulationCfg"),
        (box(spawn=CuboidCfg(size=(0.1, 0.1))), r"scene\.box\.spawn\.size"),
        (box(spawn=CuboidCfg(size=(0.1, -0.1, 0.1))), r"scene\.box\.spawn\.size\[1\] is -0\.1"),
        (box(spawn=[SphereCfg(), SphereCfg(radius=NAN)]), r"scene\.box\.spawn\[1\]\.radius is nan"),
        (box(spawn=CuboidCfg(mass=0)), r"scene\.box\.spawn\.mass is 0"),
        (box(spawn=CuboidCfg(mass=1e300)), r"scene\.box\.spawn\.mass is 1e\+300"),
        (box(spawn=CuboidCfg(size=(1e300, 1.0, 1.0))), r"scene\.box\.spawn\.size"),
        (box(spawn=CuboidCfg(color=(255, 0, 0))), r"scene\.box\.spawn\.color .* from 0 to 1"),
        (box(spawn=CuboidCfg(color=torch.tensor(0.5))), r"scene\.box\.spawn\.color"),
        (box(spawn=CuboidCfg(friction=-0.1)), r"scene\.box\.spawn\.friction is -0\.1"),
        (box(spawn=CuboidCfg(rot=(0, 0, 0, 0))), r"scene\.box\.spawn\.rot"),
        (box(spawn=CuboidCfg(color=(1.0,))), r"scene\.box\.spawn\.color"),
        (box(spawn=MeshCfg()), r"scene\.box\.spawn: MeshCfg needs vertices"),
        (box(spawn=MeshCfg(vertices=[[0, 0, 0]], faces=[[0, 1, 2]])), "faces has vertex 2"),
    ],
)
def test_objects(entity: RigidObjectCfg, message: str) -> None:
    refused(message, robot=cart(), box=entity)


@pytest.mark.parametrize(
    ("plane", "message"),
    [
        (PlaneCfg(), "is that of another plane"),
        (PlaneCfg(prim_path=f"{NS}/ground"), "a plane is shared by all environments"),
        (PlaneCfg(prim_path="/World/envs/env_0/ground"), "a plane is shared by all environments"),
        (PlaneCfg(prim_path="ground"), "use a path such as '/World/ground'"),
        (PlaneCfg(prim_path="/World/b", friction=-1.0), r"scene\.second\.friction is -1\.0"),
        (PlaneCfg(prim_path="/World/b", init_rot=(0, 0, 0, 0)), r"scene\.second\.init_rot"),
    ],
)
def test_planes(plane: PlaneCfg, message: str) -> None:
    refused(message, ground=PlaneCfg(), second=plane, box=box())


@pytest.mark.parametrize(
    ("robot", "message"),
    [
        (cart(spawn=None), r"scene\.robot\.spawn is missing"),
        (cart(spawn="cartpole.xml"), r"scene\.robot\.spawn is 'cartpole\.xml'; give an MjcfCfg"),
        (cart(spawn=MjcfCfg("cartpol.xml")), "no MJCF file 'cartpol.xml'. Did you mean 'cartpole.xml'"),
        (cart(fixed_base="yes"), r"scene\.robot\.fixed_base is 'yes'; it must be true or false"),
        (cart(friction=-1.0), r"scene\.robot\.friction is -1\.0"),
        (cart(init_rot=(0, 0, 0, 0)), r"scene\.robot\.init_rot"),
        (
            cart(init_joint_pos={"slider": 0.0}),
            "init_joint_pos.* matches 'slider'. Did you mean 'slider_to_cart'",
        ),
        (cart(init_joint_pos={"slider_to_cart": NAN}), r"init_joint_pos\['slider_to_cart'\] is nan"),
        (cart(init_joint_pos={".*": 0.0, "cart.*": 0.0}), "'cart_to_pole' matches both"),
        (cart(init_joint_pos={"slider_to_cart": 5.0}), r"'slider_to_cart' at 5, outside its limits -3 … 3"),
        (cart(init_joint_vel={"slidr": 0.0}), "init_joint_vel"),
        (cart(actuators=[PdActuatorCfg()]), r"scene\.robot\.actuators is a list; give a dictionary"),
        (cart(actuators={"a": {"stiffness": 1.0}}), r"scene\.robot\.actuators\.a is a dict"),
        (
            cart(actuators={"a": PdActuatorCfg(), "b": PdActuatorCfg(["cart_to_pole"])}),
            r"actuators\.b\.joint_names: joint 'cart_to_pole' is driven by actuator 'a' already",
        ),
        (driven(joint_names=["slider_to_crt"]), "Did you mean 'slider_to_cart'"),
        (driven(joint_names="slider_to_crt"), "matches 'slider_to_crt'"),
        (driven(joint_names=[]), r"actuators\.a\.joint_names is \[\]"),
        (driven(stiffness=-1.0), r"scene\.robot\.actuators\.a\.stiffness is -1\.0"),
        (driven(damping={"slider_to_cart": NAN}), r"actuators\.a\.damping\['slider_to_cart'\] is nan"),
        (driven(stiffness=True), r"actuators\.a\.stiffness is True"),
        (driven(effort_limit=0), r"actuators\.a\.effort_limit is 0; it must be a number above 0"),
        (driven(effort_limit=-5.0), r"actuators\.a\.effort_limit is -5\.0"),
        (driven(velocity_limit={"cart_to_pole": 1.0}), r"actuators\.a\.velocity_limit"),
        (driven(DelayedPdActuatorCfg, min_delay=2, max_delay=1), r"a\.max_delay is 1.*2 or more"),
        (driven(DelayedPdActuatorCfg, min_delay=0.5, max_delay=1), r"a\.min_delay is 0\.5"),
        (driven(DelayedPdActuatorCfg, max_delay=10**9), r"a\.max_delay is 1000000000; it must be at most"),
    ],
)
def test_robots(robot: ArticulationCfg, message: str) -> None:
    refused(message, robot=robot)


def test_one_expression_needs_no_list() -> None:
    build(robot=driven(joint_names="slider_.*", stiffness=1.0))


def child(joint: str, inside: str = GEOM, name: str = "b") -> str:
    return f"<body name='a'>{GEOM}<body name='{name}'>{joint}{inside}</body></body>"


@pytest.mark.parametrize(
    ("bodies", "fixed_base", "message"),
    [
        ("", None, "has no <body>"),
        (
            "<body name='a'><geom type='sphre' size='1'/></body>",
            None,
            "of type 'sphre'.*Did you mean 'sphere'",
        ),
        (f"<body name='a' pos='0 x 0'>{GEOM}</body>", True, "pos of body 'a', is '0 x 0'"),
        (child("<joint name='j' type='ball'/>"), True, "joint 'j' is of type BALL; hinge and slide joints"),
        (child("<joint name='j'/><joint name='k'/>"), True, r"several joints in body 'b' \('j', 'k'\)"),
        (child("<joint type='hinge'/>"), True, "a joint named '' in body 'b'; give every joint a name"),
        (child("<joint name='j'/>", inside=""), True, r"body 'b' .* moves \(joint 'j'\) but has no mass"),
        (child("<joint name='j'/>", name="a"), True, "two body names are 'a'"),
        (child("<joint name='j'/>", name="a/b"), True, "a body named 'a/b'; names must not contain '/'"),
        (
            child("<joint name='j'/>") + f"<body name='c'><joint name='j'/>{GEOM}</body>",
            None,
            "two joint names",
        ),
        (
            f"<body name='a'><freejoint/>{GEOM}</body><body name='b'><freejoint/>{GEOM}</body>",
            None,
            r"several root bodies that move \('a', 'b'\)",
        ),
        (
            f"<body name='a'><joint name='j' type='hinge'/>{GEOM}</body>",
            True,
            "hangs on the joint 'j'.*at None",
        ),
        (
            f"<body name='a'><joint name='j' type='slide'/>{GEOM}</body>",
            True,
            "hangs on the joint 'j'.*at None",
        ),
        (
            f"<body name='a'><joint name='j' type='slide'/>{GEOM}</body>",
            False,
            "fixed_base=False would replace",
        ),
        (f"<include file='nowhere.xml'/><body name='a'>{GEOM}</body>", True, "cannot be read: .*nowhere.xml"),
    ],
)
def test_robot_files(tmp_path: Path, bodies: str, fixed_base: bool | None, message: str) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    refused(message, robot=cart(spawn=MjcfCfg(str(file)), fixed_base=fixed_base))


@pytest.mark.parametrize("text", ["", "<mujoco><worldbody>", "\x00\x01", "not xml"])
def test_files_that_are_no_xml(tmp_path: Path, text: str) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(text)
    refused(
        r"scene\.robot\.spawn\.path: .*robot\.xml' is not valid XML", robot=cart(spawn=MjcfCfg(str(file)))
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prim_path": f"{NS}/B[ox"}, r"scene\.touch\.prim_path: 'B\[ox' is not a regular expression"),
        ({"prim_path": "/World/ground"}, "must begin with"),
        ({"filter_prim_paths_expr": "/World/ground"}, "must be a list of path expressions"),
        ({"filter_prim_paths_expr": None}, "must be a list of path expressions"),
        ({"history_length": 10**9}, r"scene\.touch\.history_length is 1000000000; it must be at most"),
        ({"history_length": True}, r"scene\.touch\.history_length is True"),
        ({"contact_debounce": 1.5}, r"scene\.touch\.contact_debounce is 1\.5"),
        ({"update_period": NAN}, r"scene\.touch\.update_period is nan"),
        ({"force_threshold": True}, r"scene\.touch\.force_threshold is True"),
        ({"track_air_time": "yes"}, r"scene\.touch\.track_air_time is 'yes'; it must be true or false"),
        ({"max_contact_data_count_per_prim": -1}, r"max_contact_data_count_per_prim is -1"),
    ],
)
def test_sensors(fields: dict[str, Any], message: str) -> None:
    sensor = ContactSensorCfg(**{"prim_path": f"{NS}/Box", **fields})
    refused(message, touch=sensor, ground=PlaneCfg(), box=box())


def test_a_failed_build_closes_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    from forcelab.physics.newton import NewtonEngine

    monkeypatch.setattr(NewtonEngine, "close", lambda self: closed.append(self))
    refused("matches no rigid body", box=box(), touch=ContactSensorCfg(prim_path=f"{NS}/Bx"))
    assert len(closed) == 1
