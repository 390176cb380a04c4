# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from forcelab.envs import ManagerBasedRlEnvCfg
from forcelab.physics import NewtonCfg
from forcelab.scene import CollectionCfg, InteractiveSceneCfg


class Scene(InteractiveSceneCfg):
    num_envs = 7


class Plain(ManagerBasedRlEnvCfg):
    scene = Scene()
    decimation = 4
    physics = NewtonCfg(dt=0.002)
    my_field: int = 3

    def __post_init__(self) -> None:
        self.episode_length_s = 5.0


@dataclass
class Decorated(Plain):
    decimation: int = 5
    scene: Scene = Scene(num_envs=9)  # noqa: RUF009
    rewards: CollectionCfg = CollectionCfg()  # noqa: RUF009


def test_class_attributes_are_defaults() -> None:
    cfg, other = Plain(), Plain(decimation=6)
    assert (cfg.scene.num_envs, cfg.decimation, cfg.physics.dt, cfg.episode_length_s) == (7, 4, 0.002, 5.0)
    assert other.decimation == 6
    cfg.scene.num_envs = 1
    assert other.scene.num_envs == 7 and Plain().scene.num_envs == 7  # every instance has its own
    assert "my_field" in {f.name for f in fields(Plain)}
    assert ManagerBasedRlEnvCfg().decimation == 1


def test_decorated_subclass_of_a_subclass() -> None:
    cfg = Decorated(seed=4)
    assert (cfg.decimation, cfg.scene.num_envs, cfg.my_field, cfg.seed) == (5, 9, 3, 4)
    assert cfg.rewards is not Decorated().rewards


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"no field 'decimaton'.*Did you mean 'decimation'"):
        ManagerBasedRlEnvCfg().decimaton = 3
    with pytest.raises(TypeError, match=r"Typo\.decimaton is no field.*Did you mean 'decimation'"):

        class Typo(ManagerBasedRlEnvCfg):
            decimaton = 3

    with pytest.raises(TypeError):
        ManagerBasedRlEnvCfg(decimaton=3)


def test_replace_makes_a_deep_copy() -> None:
    cfg = Plain()
    new = cfg.replace(decimation=9)
    new.scene.num_envs = 2
    assert (cfg.decimation, cfg.scene.num_envs, new.decimation) == (4, 7, 9)


def test_aliases() -> None:
    import forcelab.envs
    import forcelab.mdp

    assert forcelab.envs.ManagerBasedRLEnv is forcelab.envs.ManagerBasedRlEnv
    assert forcelab.envs.ManagerBasedRLEnvCfg is ManagerBasedRlEnvCfg
    assert forcelab.envs.mdp is forcelab.mdp
    import forcelab.envs.mdp as mdp

    assert mdp is forcelab.mdp and mdp.joint_pos is forcelab.mdp.joint_pos
