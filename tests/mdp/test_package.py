# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

from forcelab import mdp

MODULES = (
    "actions",
    "commands",
    "curriculums",
    "events",
    "metrics",
    "modifiers",
    "observations",
    "rewards",
    "terminations",
)


@pytest.mark.parametrize("module", [*MODULES, "actions_cfg", "commands_cfg", "modifiers_cfg"])
def test_every_public_term_is_exported(module: str) -> None:
    found = importlib.import_module(f"forcelab.mdp.{module}")
    for name, value in vars(found).items():
        mine = (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == found.__name__
        if mine and not name.startswith("_"):
            assert getattr(mdp, name) is value, name
            assert name in dir(mdp)
            assert value.__doc__, name


def test_importing_and_listing_terms_and_their_cfgs_loads_no_torch() -> None:
    code = (
        "import sys; from forcelab import mdp; assert 'feet_air_time' in dir(mdp); "
        "mdp.JointPositionActionCfg(); mdp.UniformVelocityCommandCfg(ranges={'lin_vel_x': (0, 1)}); "
        "mdp.ForceTorqueSensorModelCfg(force_noise=0.1); "
        "assert not {'torch', 'warp', 'newton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_misspelt_term_is_answered_with_near_names() -> None:
    with pytest.raises(AttributeError, match="feet_air_time"):
        mdp.feet_airtime  # noqa: B018


@pytest.mark.parametrize("module", MODULES)
def test_annotations_of_terms_resolve(module: str) -> None:
    # Configurations convert params by these annotations.
    found = importlib.import_module(f"forcelab.mdp.{module}")
    for value in vars(found).values():
        if inspect.isfunction(value) and value.__module__ == found.__name__:
            inspect.get_annotations(value, eval_str=True)
