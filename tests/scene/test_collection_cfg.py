# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import ClassVar

import pytest

from forcelab.scene.collection_cfg import CollectionCfg, class_fields


@dataclasses.dataclass
class Thing:
    size: list[int] = dataclasses.field(default_factory=lambda: [1, 2])


class Base(CollectionCfg):
    num_envs: int = 1
    ground = Thing()
    kind: ClassVar[str] = "scene"


class Scene(Base):
    robot: Thing = Thing([3])
    late: Thing
    table = None

    class Inner:
        pass

    def helper(self) -> int:
        return 1

    @property
    def double(self) -> int:
        return 2 * self.num_envs


class Child(Scene):
    ground = None
    late = Thing([9])


def test_fields_in_order_of_declaration():
    assert list(class_fields(Scene)) == ["num_envs", "ground", "robot", "late", "table"]
    assert list(class_fields(Child)) == ["num_envs", "ground", "robot", "late", "table"]
    assert class_fields(Scene)["late"] is dataclasses.MISSING
    assert Scene.robot == Thing([3])
    assert Scene.kind == "scene"


def test_instances_own_deep_copies():
    a, b = Child(), Child()
    a.robot.size.append(7)
    assert b.robot.size == [3] and Child.robot.size == [3]
    assert Child(num_envs=5).double == 10
    assert a.helper() == 1


def test_items_skip_none_and_refuse_missing():
    assert [n for n, _ in Child().items()] == ["num_envs", "robot", "late"]
    with pytest.raises(ValueError, match="late must be given"):
        list(Scene().items())
    assert "ground" not in Child() and "robot" in Child()


def test_set_new_delete_and_errors():
    cfg = Child()
    cfg.extra = Thing()
    assert [n for n, _ in cfg.items()][-1] == "extra"
    del cfg.robot
    assert "robot" not in dict(cfg.items())
    with pytest.raises(AttributeError, match="no entry 'robot'"):
        _ = cfg.robot
    with pytest.raises(AttributeError, match="Did you mean 'ground'"):
        _ = cfg.grund
    with pytest.raises(TypeError, match="Did you mean 'robot'"):
        Child(robt=None)
    with pytest.raises(TypeError, match="Did you mean 'num_envs'"):
        Child().replace(num_env=3)
    with pytest.raises(AttributeError, match="taken by a method"):
        cfg.items = Thing()
    with pytest.raises(TypeError, match="taken by a method"):
        type("Bad", (CollectionCfg,), {"replace": 1})


def test_replace_equality_repr_copy_pickle():
    a = Child()
    b = a.replace(num_envs=3)
    assert a.num_envs == 1 and b.num_envs == 3 and a != b
    assert b.robot is not a.robot
    assert copy.deepcopy(a) == a and pickle.loads(pickle.dumps(a)) == a
    assert repr(CollectionCfg(a=1)) == "CollectionCfg(a=1)"
    assert CollectionCfg(a=1) == CollectionCfg(a=1)


def test_post_init_runs():
    class Group(CollectionCfg):
        corrupt = False

        def __post_init__(self):
            self.corrupt = True

    assert Group().corrupt is True
