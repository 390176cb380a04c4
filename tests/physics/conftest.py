# SPDX-License-Identifier: Apache-2.0
"""Engines to test: every test that takes ``physics_cfg`` runs once per installed engine."""

from __future__ import annotations

import importlib.util

import pytest

from forcelab.physics import NewtonCfg, OvPhysxCfg, PhysicsCfg

ENGINES = {"newton": NewtonCfg, "ovphysx": OvPhysxCfg}


def make_cfg(name: str) -> PhysicsCfg:
    """Settings of the engine ``name``, or a skip when it is not installed."""
    if name == "ovphysx" and importlib.util.find_spec("ovphysx") is None:
        pytest.skip('needs pip install "forcelab[ovphysx]"')
    return ENGINES[name]()


@pytest.fixture(params=list(ENGINES), scope="module")
def physics_cfg(request: pytest.FixtureRequest) -> PhysicsCfg:
    """Default settings of one engine (dt 0.005 s, gravity 9.81 m/s² down)."""
    return make_cfg(request.param)
