# SPDX-License-Identifier: Apache-2.0
"""What is special about the OvPhysX engine: its errors, its life cycle, its exporter."""

from __future__ import annotations

import gc
import importlib.util
import sys
import warnings

import numpy as np
import pytest
import torch

from forcelab.physics import (
    ArticulationDesc,
    ContactQuery,
    ContactReader,
    Engine,
    OvPhysxCfg,
    RigidBodyDesc,
    SceneDesc,
    ShapeDesc,
    StaticDesc,
)
from forcelab.physics.usd_export import mass_properties

needs_ovphysx = pytest.mark.skipif(
    importlib.util.find_spec("ovphysx") is None, reason='needs pip install "forcelab[ovphysx]"'
)

CORNERS = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)])
FACES = np.array(
    [
        0,
        1,
        3,
        0,
        3,
        2,
        4,
        6,
        7,
        4,
        7,
        5,
        0,
        4,
        5,
        0,
        5,
        1,
        2,
        3,
        7,
        2,
        7,
        6,
        0,
        2,
        6,
        0,
        6,
        4,
        1,
        5,
        7,
        1,
        7,
        3,
    ]
)
FACES = FACES.reshape(-1, 3)


def ball(count: int = 2, **settings: object) -> tuple[Engine, ContactReader]:
    """A resting 1 kg sphere, and its contact reader."""
    desc = SceneDesc(
        count,
        np.zeros((count, 3)),
        rigid_bodies=(RigidBodyDesc("Ball", (ShapeDesc("sphere", (0.1,), mass=1.0),), pos=(0, 0, 0.101)),),
        statics=(StaticDesc("/World/ground", (ShapeDesc("plane"),)),),
    )
    with warnings.catch_warnings():
        # The engine lets none of its library's deprecation notices through.
        warnings.simplefilter("error", DeprecationWarning)
        engine = OvPhysxCfg(**settings).create(desc, "cpu")  # type: ignore[arg-type]
        reader = engine.add_contact_reader(ContactQuery(("Ball",)))
        engine.start()
        for _ in range(100):
            engine.step()
    return engine, reader


@needs_ovphysx
def test_scenes_live_side_by_side_and_close_in_any_order() -> None:
    first, on_earth = ball(2)
    second, on_moon = ball(3, gravity=(0.0, 0.0, -1.62))
    torch.testing.assert_close(on_earth.normal[:, 0, 2], torch.full((2,), 9.81), rtol=1e-3, atol=0)
    torch.testing.assert_close(on_moon.normal[:, 0, 2], torch.full((3,), 1.62), rtol=1e-3, atol=0)
    first.close()
    first.close()
    second.step()
    with pytest.raises(RuntimeError, match="closed"):
        first.step()
    # Dropped without being closed, in a reference cycle.
    second.me = second  # type: ignore[attr-defined]
    del second
    gc.collect()
    third, again = ball(1)
    assert float(again.normal[0, 0, 2]) == pytest.approx(9.81, rel=1e-3)
    third.close()


@needs_ovphysx
def test_equal_builds_give_equal_bits() -> None:
    forces = []
    for _ in range(2):
        engine, reader = ball(3)
        forces.append((reader.normal.clone(), engine.body_pose.clone()))
        engine.close()
    assert torch.equal(forces[0][0], forces[1][0]) and torch.equal(forces[0][1], forces[1][1])


@needs_ovphysx
def test_cuda_is_refused() -> None:
    with pytest.raises(ValueError, match="CPU only"):
        OvPhysxCfg().create(SceneDesc(1, np.zeros((1, 3))), "cuda:0")


@needs_ovphysx
def test_meshes_and_statics_with_several_shapes() -> None:
    mesh = ShapeDesc("mesh", vertices=CORNERS, faces=FACES, mass=3.0)
    table = (
        ShapeDesc("mesh", vertices=CORNERS * [10, 10, 1], faces=FACES),
        ShapeDesc("box", (0.4, 0.4, 0.2), pos=(2.5, 0, 0)),
    )
    desc = SceneDesc(
        1,
        np.zeros((1, 3)),
        rigid_bodies=(
            RigidBodyDesc("Mesh", (mesh,), pos=(0, 0, 0.301)),
            RigidBodyDesc("Drum", (ShapeDesc("cylinder", (0.1, 0.2), mass=1.0),), pos=(2.5, 0, 0.301)),
        ),
        statics=(StaticDesc("/World/table", table, pos=(0, 0, 0.1)),),
    )
    engine = OvPhysxCfg().create(desc, "cpu")
    try:
        reader = engine.add_contact_reader(ContactQuery(("Mesh", "Drum"), (("/World/table",), ("Mesh",))))
        engine.start()
        for _ in range(200):
            engine.step()
        assert reader.normal_matrix is not None
        expected = torch.tensor([[3 * 9.81, 0.0], [9.81, 0.0]])
        torch.testing.assert_close(reader.normal_matrix[0, :, :, 2], expected, rtol=2e-3, atol=1e-3)
    finally:
        engine.close()


@needs_ovphysx
def test_a_passive_spring_is_refused_by_name(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "spring.xml"
    file.write_text(
        "<mujoco><worldbody><body name='a'><geom size='0.1'/><body name='b' pos='0 0 1'>"
        "<joint name='bend' type='hinge' stiffness='3'/><geom size='0.1'/></body></body></worldbody></mujoco>"
    )
    desc = SceneDesc(1, np.zeros((1, 3)), articulations=(ArticulationDesc("Robot", str(file)),))
    with pytest.raises(NotImplementedError, match=r"'bend'.*NewtonCfg"):
        OvPhysxCfg().create(desc, "cpu")


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import forcelab.physics.ovphysx as module

    monkeypatch.setitem(sys.modules, "ovphysx", None)
    monkeypatch.setattr(module, "_runtime", None)
    with pytest.raises(ImportError, match=r"pip install .forcelab\[ovphysx\]"):
        OvPhysxCfg().create(SceneDesc(1, np.zeros((1, 3))), "cpu")


@pytest.mark.parametrize("key", ["position_iterations", "num_threads"])
def test_settings_are_checked(key: str) -> None:
    with pytest.raises(ValueError, match=f"physics.{key}"):
        OvPhysxCfg(**{key: 0}).validate()


def test_mass_properties() -> None:
    box = mass_properties([ShapeDesc("box", (0.2, 0.2, 0.2))])
    mesh = mass_properties([ShapeDesc("mesh", vertices=CORNERS, faces=FACES)])
    assert box.mass == pytest.approx(8.0) and mesh.mass == pytest.approx(8.0)
    np.testing.assert_allclose(mesh.inertia, box.inertia, atol=1e-9)
    # Two point-like spheres, 1 m apart: a dumbbell about its middle.
    ends = [ShapeDesc("sphere", (1e-4,), pos=(x, 0, 0), mass=2.0) for x in (1.0, 2.0)]
    dumbbell = mass_properties(ends)
    np.testing.assert_allclose(dumbbell.com, [1.5, 0, 0])
    np.testing.assert_allclose(np.diag(dumbbell.inertia), [0.0, 1.0, 1.0], atol=1e-6)
    with pytest.raises(ValueError, match="no mass"):
        mass_properties([])
