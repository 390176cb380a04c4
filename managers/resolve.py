# SPDX-License-Identifier: Apache-2.0
"""From dotted paths to the functions and classes they name."""

from __future__ import annotations

import importlib
from typing import Any

from forcelab.physics.errors import near

_TERMS = "forcelab.mdp"


def load(target: Any, path: str) -> Any:
    """Return ``target`` itself, or what it names when it is a string.

    Args:
        target: A callable, ``"package.module.name"``, ``"package.module:name"``, or a name in
            ``forcelab.mdp``.
        path: Key path of the setting, for the error message.

    Raises:
        ValueError: Nothing is found there, or it cannot be called.
    """
    found = target
    if isinstance(target, str):
        module_name, _, name = target.replace(":", ".").rpartition(".")
        module_name = module_name or _TERMS
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not (module_name + ".").startswith(error.name + "."):
                raise  # the module exists; something that it imports does not
            raise ValueError(f"{path} is {target!r}, but there is no module {error.name!r}.") from error
        try:
            found = getattr(module, name)
        except AttributeError:
            public = [n for n in dir(module) if not n.startswith("_")]
            raise ValueError(
                f"{path} is {target!r}: {module_name} has no {name!r}.{near(name, public)}"
            ) from None
    if not callable(found):
        hint = "It must be given." if found is None else "It must be a function, a class or a dotted path."
        raise ValueError(f"{path} is {found!r}. {hint}")
    return found
