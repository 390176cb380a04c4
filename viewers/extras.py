# SPDX-License-Identifier: Apache-2.0
"""Packages that only drawing needs."""

from __future__ import annotations

import importlib
from types import ModuleType

INSTALL = 'pip install "forcelab[viewer]"'


def require(module: str, what: str) -> ModuleType:
    """Import ``module``, or say which extra brings it.

    Args:
        module: Dotted name of the module.
        what: What the caller was about to do, for the message ("writing a video").

    Raises:
        ImportError: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        # The same type: a package that is missing is told from one that is broken.
        raise type(error)(f"{what} needs the package {package!r} ({error}). Install it: {INSTALL}") from error
