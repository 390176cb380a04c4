# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
import torch

from forcelab.managers import RewardManager, RewardTermCfg, SceneEntityCfg

JOINTS = ["slider_to_cart", "cart_to_pole"]


def test_everything_in_natural_order_is_a_slice(env: Any) -> None:
    for names in (None, ".*", JOINTS):
        cfg = SceneEntityCfg("robot", joint_names=names)
        cfg.resolve(env.scene)
        assert cfg.joint_ids == slice(None)
    assert cfg.joint_names == JOINTS


def test_reversed_list_of_all_joints_keeps_its_order(env: Any) -> None:
    cfg = SceneEntityCfg("robot", joint_names=JOINTS[::-1], preserve_order=True)
    cfg.resolve(env.scene)
    assert cfg.joint_names == JOINTS[::-1]
    assert cfg.joint_ids.tolist() == [1, 0]
    names = env.scene["robot"].joint_names
    assert [names[i] for i in cfg.joint_ids] == cfg.joint_names


def test_swapped_names_without_preserve_order_correspond(env: Any) -> None:
    cfg = SceneEntityCfg("robot", body_names=["pole", "cart"])
    cfg.resolve(env.scene)
    names = env.scene["robot"].body_names
    assert cfg.body_names == ["cart", "pole"]
    assert [names[i] for i in cfg.body_ids] == cfg.body_names
    assert cfg.body_ids.dtype == torch.long


def test_full_match(env: Any) -> None:
    with pytest.raises(ValueError, match=r"x\.joint_names: 'slider' matches no joint of 'robot'"):
        SceneEntityCfg("robot", joint_names="slider").resolve(env.scene, "x")
    cfg = SceneEntityCfg("robot", joint_names="slider.*")
    cfg.resolve(env.scene)
    assert cfg.joint_names == ["slider_to_cart"] and cfg.joint_ids.tolist() == [0]


def test_an_empty_selection_is_refused(env: Any) -> None:
    with pytest.raises(ValueError, match=r"x\.body_names is \[\], which selects no body; leave it out"):
        SceneEntityCfg("robot", body_names=[]).resolve(env.scene, "x")


def test_bodies_of_a_sensor(env: Any) -> None:
    cfg = SceneEntityCfg("touch", body_names="Box")
    cfg.resolve(env.scene)
    assert cfg.body_ids == slice(None)


def test_ids_instead_of_names(env: Any) -> None:
    cfg = SceneEntityCfg("robot", joint_ids=[1])
    cfg.resolve(env.scene)
    assert cfg.joint_names == ["cart_to_pole"] and cfg.joint_ids.tolist() == [1]
    with pytest.raises(ValueError, match=r"index 5"):
        SceneEntityCfg("robot", joint_ids=[5]).resolve(env.scene)
    with pytest.raises(ValueError, match=r"says \[0\]"):
        SceneEntityCfg("robot", joint_names="cart_to_pole", joint_ids=[0]).resolve(env.scene)


def test_resolving_again_changes_nothing(env: Any) -> None:
    cfg = SceneEntityCfg("robot", joint_names=JOINTS[::-1], preserve_order=True)
    cfg.resolve(env.scene)
    again = copy.deepcopy(cfg)
    again.resolve(env.scene)
    assert again.joint_ids.tolist() == [1, 0] and again.joint_names == cfg.joint_names


@pytest.mark.parametrize(
    "entity, message",
    [
        (SceneEntityCfg("robto"), r"rewards\.x\.params\.asset_cfg\.name: .*'robto'.*Did you mean 'robot'"),
        (
            SceneEntityCfg("robot", joint_names="cart_to_pol"),
            r"rewards\.x\.params\.asset_cfg\.joint_names: 'cart_to_pol'.*Did you mean 'cart_to_pole'",
        ),
        (SceneEntityCfg("box", joint_names=".*"), r"params\.asset_cfg\.joint_names: 'box' .*has no joints"),
        (SceneEntityCfg("robot", joint_names="("), r"no regular expression"),
        (
            SceneEntityCfg("robot", joint_names=[".*", "cart_to_pole"]),
            r"matched by '\.\*' and by 'cart_to_pole'",
        ),
    ],
)
def test_errors_name_the_key(env: Any, entity: SceneEntityCfg, message: str) -> None:
    def term(env: Any, asset_cfg: SceneEntityCfg) -> torch.Tensor:
        return env.value[:, 0]

    with pytest.raises(ValueError, match=message):
        RewardManager({"x": RewardTermCfg(func=term, weight=1.0, params={"asset_cfg": entity})}, env)


def test_defaults_of_functions_are_resolved(env: Any) -> None:
    pole = SceneEntityCfg("robot", joint_names="cart_to_pole")

    def term(env: Any, asset_cfg: SceneEntityCfg = pole) -> torch.Tensor:
        return env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids].sum(1)

    robot = env.scene["robot"]
    position = torch.tensor([[1.0, 0.25]]).repeat(env.num_envs, 1)
    robot.write_joint_state(position, torch.zeros_like(position))
    manager = RewardManager({"x": RewardTermCfg(func=term, weight=1.0)}, env)
    assert torch.allclose(manager.compute(1.0), torch.full((env.num_envs,), 0.25))


def test_selection_assigned_later_is_resolved(env: Any) -> None:
    def term(env: Any, asset_cfg: SceneEntityCfg) -> torch.Tensor:
        return env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids].sum(1)

    cfg = RewardTermCfg(func=term, weight=1.0, params={"asset_cfg": SceneEntityCfg("robot")})
    manager = RewardManager({"x": cfg}, env)
    cfg.params["asset_cfg"] = SceneEntityCfg("robot", joint_names="cart_to_pole")
    assert cfg.params["asset_cfg"].joint_ids.tolist() == [1]
    with pytest.raises(ValueError, match="Did you mean 'asset_cfg'"):
        cfg.params["aset_cfg"] = 1
    cfg.params = {"asset_cfg": SceneEntityCfg("robot", joint_names="slider.*")}
    assert manager.get_term_cfg("x").params["asset_cfg"].joint_ids.tolist() == [0]


def test_configurations_import_without_torch() -> None:
    import subprocess

    code = (
        "import sys, forcelab.envs, forcelab.envs.gym_spec\n"
        "from forcelab.managers import RewardTermCfg, SceneEntityCfg, UniformNoiseCfg, DigitalFilterCfg\n"
        "from forcelab.envs import ManagerBasedRlEnvCfg, register_envs\n"
        "assert not {'torch', 'warp', 'newton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
