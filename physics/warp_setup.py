# SPDX-License-Identifier: Apache-2.0
"""Start Warp quietly, and show progress while it compiles kernels for the first time."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import warp as wp

_NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"


def start_warp() -> None:
    """Initialise Warp without its banner, and without a warning where there is simply no GPU.

    ``FORCELAB_DEBUG=1`` shows everything Warp has to say.
    """
    # Nothing here differentiates, and adjoint code doubles the time of compilation.
    wp.config.enable_backward = False
    if os.environ.get("FORCELAB_DEBUG"):
        wp.init()
        return
    wp.config.log_level = wp.LOG_ERROR
    # The warning is written by native code, past Python's sys.stderr.
    sys.stderr.flush()
    with tempfile.TemporaryFile() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            wp.init()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        caught.seek(0)
        for line in caught.readlines():
            if _NO_DRIVER not in line:
                os.write(2, line)


@contextlib.contextmanager
def compilation_progress() -> Iterator[None]:
    """Say on stderr that kernels are being compiled, once it takes longer than two seconds."""
    start_warp()
    cache = Path(wp.config.kernel_cache_dir or "")
    terminal = sys.stderr.isatty()
    done = threading.Event()
    started = time.monotonic()

    def modules() -> int:
        try:
            return sum(1 for _ in cache.iterdir())
        except OSError:
            return 0

    before = modules()

    def report() -> None:
        shown = 0
        while not done.wait(2.0 if not shown else 1.0 if terminal else 15.0):
            built = modules() - before
            if built <= 0 and not shown:
                continue  # a warm cache, or a large model being built: not compiling
            shown += 1
            sys.stderr.write(
                f"{chr(13) if terminal else ''}forcelab: compiling physics kernels (first run only, then cached): "
                f"{built} modules, {time.monotonic() - started:.0f} s {'' if terminal else chr(10)}"
            )
            sys.stderr.flush()
        if shown and terminal:
            sys.stderr.write("\n")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
