# SPDX-License-Identifier: Apache-2.0
"""Another name of :mod:`forcelab.mdp`, for code that is ported."""

import sys
from typing import Any

import forcelab.mdp


def __getattr__(name: str) -> Any:
    # For type checkers: the module is exchanged below.
    return getattr(forcelab.mdp, name)


sys.modules[__name__] = forcelab.mdp
