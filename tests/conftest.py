# SPDX-License-Identifier: Apache-2.0
"""Shared by all tests: engines, and one thread for torch's small operations."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import pytest

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
os.environ.setdefault("MPLBACKEND", "Agg")

ENGINES = ["newton", "ovphysx"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_configure() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", params=ENGINES)
def physics(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes the physics settings of each engine in turn: ``physics(dt=0.005)``."""
    from forcelab.physics import NewtonCfg, OvPhysxCfg

    if request.param == "ovphysx" and importlib.util.find_spec("ovphysx") is None:
        pytest.skip('the optional engine is not installed: pip install "forcelab[ovphysx]"')
    return {"newton": NewtonCfg, "ovphysx": OvPhysxCfg}[request.param]
