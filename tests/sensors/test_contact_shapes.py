# SPDX-License-Identifier: Apache-2.0
"""Sensing and filtering by single shapes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forcelab.physics import NewtonCfg, OvPhysxCfg
from forcelab.scene import (
    ArticulationCfg,
    CuboidCfg,
    InteractiveScene,
    InteractiveSceneCfg,
    MjcfCfg,
    PlaneCfg,
    RigidObjectCfg,
    SphereCfg,
)
from forcelab.sensors import ContactSensorCfg

NS = "{ENV_REGEX_NS}"
G = 9.81
CRATE = Path(__file__).parent / "crate.xml"


def shapes(body: str, *expressions: str, **kw: Any) -> ContactSensorCfg:
    """A sensor of shapes; expressions are relative to the environment."""
    return ContactSensorCfg(
        prim_path=f"{NS}/{body}",
        sensor_shape_prim_expr=[f"{NS}/{e}" for e in expressions],
        track_friction_forces=True,
        **kw,
    )


class ShapesCfg(InteractiveSceneCfg):
    ground = PlaneCfg()
    # A cross beam on four feet; more load on the right ones.
    table = RigidObjectCfg(
        prim_path=f"{NS}/Table",
        spawn=[
            SphereCfg(radius=0.05, mass=1.0, pos=(-0.3, -0.2, 0), name="left"),
            SphereCfg(radius=0.05, mass=1.0, pos=(-0.3, 0.2, 0)),
            SphereCfg(radius=0.05, mass=2.0, pos=(0.3, -0.2, 0), name="right"),
            SphereCfg(radius=0.05, mass=2.0, pos=(0.3, 0.2, 0)),
            CuboidCfg(size=(0.6, 0.4, 0.02), mass=1.0, pos=(0, 0, 0.04), name="top"),
        ],
        init_pos=(0, 0, 0.05),
    )
    cup = RigidObjectCfg(
        prim_path=f"{NS}/Cup",
        spawn=[
            SphereCfg(radius=0.04, mass=0.5, pos=(-0.1, 0, 0), name="a"),
            SphereCfg(radius=0.04, mass=0.5, pos=(0.1, -0.1, 0), name="b"),
            SphereCfg(radius=0.04, mass=0.5, pos=(0.1, 0.1, 0), name="c"),
        ],
        init_pos=(0, 0, 0.1 + 0.04),
    )
    crate = ArticulationCfg(prim_path=f"{NS}/Crate", spawn=MjcfCfg(str(CRATE)), init_pos=(0, 1.5, 0.05))

    feet = shapes("Table", "Table/(left|right)", "Table/[13]", filter_prim_paths_expr=["/World/ground"])
    whole = ContactSensorCfg(
        prim_path=f"{NS}/Table",
        filter_prim_paths_expr=["/World/ground", f"{NS}/Cup"],
        track_friction_forces=True,
    )
    everything = shapes("Table", "Table/.*", history_length=3, track_air_time=True)
    top = shapes(
        "Table",
        "Table/top",
        filter_shape_prim_expr=[f"{NS}/Cup/a", f"{NS}/Cup/[bc]", "/World/ground/.*", f"{NS}/Cup/.*"],
        track_contact_points=True,
    )
    by_shape = ContactSensorCfg(
        prim_path=f"{NS}/Cup",
        filter_shape_prim_expr=[f"{NS}/Table/top", f"{NS}/Table/(left|right|1|3)", f"{NS}/Table/.*"],
    )
    crate_feet = shapes("Crate/crate", "Crate/crate/.*")
    lid_by_tree = shapes("Crate/crate/lid", "Crate/crate/lid/.*")
    lid_by_name = shapes("Crate/lid", "Crate/lid/[01]")


@pytest.fixture(scope="module")
def scene() -> Iterator[InteractiveScene]:
    built = InteractiveScene(ShapesCfg(num_envs=2), NewtonCfg())
    for _ in range(300):
        built.step()
    yield built
    built.close()


def test_unnamed_shapes_are_numbered_and_order_is_the_files(scene: InteractiveScene) -> None:
    """S counts the matched shapes; however many expressions match one, in whatever order, it is there once."""
    assert scene["feet"].body_names == ["Table/left", "Table/1", "Table/right", "Table/3"]
    assert scene["feet"].num_bodies == 4
    assert scene["everything"].body_names == [f"Table/{n}" for n in ("left", "1", "right", "3", "top")]
    assert scene["top"].body_names == ["Table/top"]
    assert scene["whole"].body_names == ["Table"] and scene["by_shape"].body_names == ["Cup"]


def test_geoms_of_a_robot_file(scene: InteractiveScene) -> None:
    """What is only for show is not counted; a geom that is called by a number keeps its name."""
    assert scene["crate_feet"].body_names == [f"Crate/crate/{n}" for n in ("0", "1", "front", "3")]
    assert sorted(scene["lid_by_tree"].body_names) == ["Crate/lid/0", "Crate/lid/1"]
    assert scene["lid_by_tree"].body_names == scene["lid_by_name"].body_names
    paths = scene.engine.shape_paths
    assert len(set(paths)) == len(paths)
    assert not any("kerb" in p for p in paths), "geometry of the world belongs to no body"


def test_names_are_found_as_paths(scene: InteractiveScene) -> None:
    sensor = scene["feet"]
    assert sensor.find_bodies(".*/right") == ([2], ["Table/right"])
    keys = ["Table/3", "Table/left"]
    assert sensor.find_bodies(keys) == ([0, 3], ["Table/left", "Table/3"])
    assert sensor.find_bodies(keys, preserve_order=True) == ([3, 0], keys)
    with pytest.raises(ValueError, match="Did you mean 'Table/left'"):
        sensor.find_bodies("Table/lft")


def test_shapes_share_the_load_of_their_body(scene: InteractiveScene) -> None:
    d = scene["feet"].data
    assert d.net_forces_w.shape == (2, 4, 3) and d.force_matrix_w.shape == (2, 4, 1, 3)
    assert d.friction_force_matrix_w.shape == (2, 4, 1, 3)
    # Table 7 kg with more on the right, cup 1.5 kg at a third of the way.
    load = d.net_forces_w[..., 2]
    assert torch.allclose(load.sum(1), torch.tensor(8.5 * G), rtol=2e-3)
    moment = (load * torch.tensor([-0.3, -0.3, 0.3, 0.3])).sum(1)
    expected = (4 - 2) * G * 0.3 + (2 * 0.5 - 0.5) * G * 0.1
    assert torch.allclose(moment, torch.tensor(expected), rtol=1e-2)
    torch.testing.assert_close(d.force_matrix_w[:, :, 0], d.net_forces_w.torch)


def test_shapes_sum_to_their_body(scene: InteractiveScene) -> None:
    whole, parts = scene["whole"].data, scene["everything"].data
    for name in ("net_forces_w", "net_normal_forces_w", "net_friction_forces_w"):
        torch.testing.assert_close(
            getattr(parts, name).sum(1), getattr(whole, name)[:, 0], rtol=1e-4, atol=1e-3
        )
    assert parts.net_forces_w_history.shape == (2, 3, 5, 3)
    assert parts.current_contact_time.shape == (2, 5) and bool((parts.current_contact_time > 1).all())


def test_columns_of_shapes(scene: InteractiveScene) -> None:
    """One column per expression: one shape, two summed, a static shape, all."""
    matrix = scene["top"].data.force_matrix_w[:, 0, :, 2]
    expected = torch.tensor([-0.5 * G, -1.0 * G, 0.0, -1.5 * G])
    torch.testing.assert_close(matrix, expected.expand(2, 4), rtol=5e-3, atol=1e-3)
    matrix = scene["by_shape"].data.force_matrix_w[:, 0, :, 2]
    torch.testing.assert_close(
        matrix, torch.tensor([1.5 * G, 0.0, 1.5 * G]).expand(2, 3), rtol=5e-3, atol=1e-3
    )
    assert scene["by_shape"].data.friction_force_matrix_w is None


def test_points_of_shapes(scene: InteractiveScene) -> None:
    pos = scene["top"].data.contact_pos_w[:, 0] - scene["cup"].data.root_pos_w[:, None]
    torch.testing.assert_close(pos[:, 0, :2], torch.tensor([-0.1, 0.0]).expand(2, 2), atol=1e-3, rtol=0)
    torch.testing.assert_close(pos[:, 1, :2], torch.tensor([0.1, 0.0]).expand(2, 2), atol=1e-3, rtol=0)
    assert bool(torch.isnan(pos[:, 2]).all())
    # The plain mean of three points, not of two columns.
    torch.testing.assert_close(pos[:, 3, :2], torch.tensor([0.1 / 3, 0.0]).expand(2, 2), atol=1e-3, rtol=0)


def test_lone_feet_of_the_robot_file_carry_it(scene: InteractiveScene) -> None:
    load = scene["crate_feet"].data.net_forces_w[..., 2]
    assert torch.allclose(load.sum(1), torch.tensor(5.1 * G), rtol=5e-3)
    assert float(load.min()) > 0.15 * 5.1 * G
    assert float(scene["lid_by_tree"].data.net_forces_w.torch.abs().max()) == 0.0


def test_raw_contacts_of_geometry_of_the_world() -> None:
    """A robot that leans on a kerb of its own file: the partner is no body of the robot."""

    class KerbCfg(InteractiveSceneCfg):
        ground = PlaneCfg()
        crate = ArticulationCfg(prim_path=f"{NS}/Crate", spawn=MjcfCfg(str(CRATE)), init_pos=(2.0, 0, 0.16))
        on = ContactSensorCfg(prim_path=f"{NS}/Crate/crate", filter_prim_paths_expr=["/World/ground"])

    scene = InteractiveScene(KerbCfg(num_envs=1), NewtonCfg())
    partners = set()
    for _ in range(60):
        scene.step()
        partners |= {str(n) for n in scene.engine.raw_contacts("Crate/crate", 0)["body1"]}
    assert partners, "it fell on something"
    assert not any("lid" in p for p in partners), partners
    scene.close()


# ---- errors ----


def build(physics: Any = None, **sensor: Any) -> None:
    cfg = ShapesCfg(num_envs=1)
    for name in [n for n, v in cfg.items() if isinstance(v, ContactSensorCfg)]:
        setattr(cfg, name, None)
    cfg.touch = ContactSensorCfg(**{"prim_path": f"{NS}/Table", **sensor})
    InteractiveScene(cfg, physics or NewtonCfg()).close()


@pytest.mark.parametrize(
    ("sensor", "expected"),
    [
        pytest.param(
            {"filter_shape_prim_expr": [f"{NS}/Cup/a"], "filter_prim_paths_expr": ["/World/ground"]},
            r"scene.touch: filter_shape_prim_expr and filter_prim_paths_expr exclude each other; use one",
            id="both kinds of filters",
        ),
        pytest.param(
            {"sensor_shape_prim_expr": [f"{NS}/Table/lefd"]},
            r"scene.touch.sensor_shape_prim_expr\[0\] .*Table/lefd' matches no collision shape. "
            r"Did you mean .*Table/left'",
            id="a typo",
        ),
        pytest.param(
            {"sensor_shape_prim_expr": [f"{NS}/Table/left", f"{NS}/Cup/a"]},
            r"scene.touch.sensor_shape_prim_expr\[1\] .*other bodies than prim_path names .*Cup/a.*"
            r"Shapes there: .*Table/1",
            id="shapes of another body",
        ),
        pytest.param(
            {"filter_shape_prim_expr": [f"{NS}/Cup/a", f"{NS}/Cup/d"]},
            r"scene.touch.filter_shape_prim_expr\[1\] .*Cup/d' matches no collision shape. Did you mean .*Cup/",
            id="a partner's typo",
        ),
        pytest.param(
            {"filter_shape_prim_expr": ["/World/ground"]},
            r"filter_shape_prim_expr\[0\] '/World/ground' matches no collision shape. Did you mean '/World/ground/0'",
            id="a body where a shape is needed",
        ),
        pytest.param(
            {"sensor_shape_prim_expr": ["Table/left"]},
            r"scene.touch.sensor_shape_prim_expr\[0\] is 'Table/left'; it must begin with",
            id="outside of the environment",
        ),
        pytest.param(
            {"sensor_shape_prim_expr": [f"{NS}/Table/*("]},
            r"scene.touch.sensor_shape_prim_expr\[0\].*not a regular expression",
            id="a bad expression",
        ),
        pytest.param(
            {"sensor_shape_prim_expr": f"{NS}/Table/left"},
            r"scene.touch.sensor_shape_prim_expr is '.*'; it must be a list",
            id="no list",
        ),
        pytest.param(
            {"filter_shape_prim_expr": [3]},
            r"scene.touch.filter_shape_prim_expr is \[3\]; it must be a list",
            id="a list of something else",
        ),
        pytest.param(
            {"prim_path": f"{NS}/(Table|Cup)", "filter_shape_prim_expr": ["/World/ground/0"]},
            r"scene.touch.*must name one body.*Table.*Cup.*one sensor per body",
            id="two bodies and a filter",
        ),
    ],
)
def test_errors_name_the_key_and_what_to_do(sensor: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        build(**sensor)


@pytest.mark.skipif(
    importlib.util.find_spec("ovphysx") is None, reason='needs pip install "forcelab[ovphysx]"'
)
@pytest.mark.parametrize("key", ["sensor_shape_prim_expr", "filter_shape_prim_expr"])
def test_an_engine_without_shapes_says_so_when_the_scene_is_built(key: str) -> None:
    cfg = InteractiveSceneCfg(num_envs=1)
    cfg.ball = RigidObjectCfg(prim_path=f"{NS}/Ball", spawn=SphereCfg(name="shell"), init_pos=(0, 0, 1))
    cfg.touch = ContactSensorCfg(prim_path=f"{NS}/Ball", **{key: [f"{NS}/Ball/shell"]})
    with pytest.raises(
        NotImplementedError, match=r"scene.touch.*by shape.*'ovphysx'.*filter_prim_paths_expr"
    ):
        InteractiveScene(cfg, OvPhysxCfg())
