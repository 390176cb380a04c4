# SPDX-License-Identifier: Apache-2.0
"""Offscreen OpenGL contexts, chosen without the user's help."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import Any

INSTALL = (
    "Install one of them (Debian, Ubuntu: `apt-get install libegl1 libgl1-mesa-dri`, "
    "or `apt-get install libosmesa6`) and start Python again; no display and no GPU is needed. "
    "MUJOCO_GL=egl or MUJOCO_GL=osmesa forces one."
)

_working: str | None = None  # the backend that worked before in this process


class GLUnavailableError(RuntimeError):
    """No offscreen OpenGL context can be made on this machine."""


def candidates() -> list[str]:
    """Backends to try, best first. MUJOCO_GL, when set, is obeyed."""
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in ("disable", "disabled", "off", "false", "0"):
        raise GLUnavailableError(f"MUJOCO_GL={asked} forbids drawing. Unset it, or set it to egl or osmesa.")
    names = {"glx": "glfw", "wgl": "glfw"}
    if asked and asked not in ("enable", "enabled", "on", "true", "1"):
        return [names.get(asked, asked)]
    system = platform.system()
    if system == "Darwin":
        return ["cgl", "glfw"]
    if system == "Windows":
        return ["glfw"]
    # EGL first even with a display: it draws on the GPU and opens no window.
    on_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return ["egl", "osmesa", *(["glfw"] if on_display else [])]


def make_context(width: int, height: int) -> Any:
    """An offscreen OpenGL context, made current in this thread (``make_current()``, ``free()``).

    MuJoCo decides on a backend when it is first imported, which an engine may long have done; the backend's
    module is therefore taken directly.

    Raises:
        GLUnavailableError: Names every backend tried, why it failed, and what to install.
    """
    global _working
    reasons = []
    for backend in [_working] if _working else candidates():
        had_opengl = "OpenGL" in sys.modules
        had_platform = os.environ.get("PYOPENGL_PLATFORM")
        context = None
        try:
            context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
            context.make_current()
        except Exception as error:  # every backend fails in its own way, AttributeErrors included
            reasons.append(f"  {backend}: {_reason(backend, error)}")
            _forget(backend, had_opengl, had_platform)
        else:
            _working = backend
            return context
    raise GLUnavailableError(
        "Drawing needs an offscreen OpenGL context and none could be made:\n"
        + "\n".join(reasons)
        + "\n"
        + INSTALL
    )


def _reason(backend: str, error: Exception) -> str:
    library = {"egl": "libEGL", "osmesa": "libOSMesa"}.get(backend)
    if library and isinstance(error, AttributeError):  # PyOpenGL holds None in place of a missing library
        return f"the library {library} was not found"
    try:
        text = str(error).strip().splitlines()
    except Exception:  # PyOpenGL's errors cannot always be printed
        text = []
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _forget(backend: str, had_opengl: bool, had_platform: str | None) -> None:
    """Undo what a failed backend left: PyOpenGL binds itself to the first platform it is loaded for."""
    if had_platform is None:
        os.environ.pop("PYOPENGL_PLATFORM", None)
    if had_opengl:
        return
    for name in list(sys.modules):
        if name.partition(".")[0] == "OpenGL" or name.startswith(f"mujoco.{backend}"):
            del sys.modules[name]
