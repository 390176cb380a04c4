# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def gl() -> None:
    """Skips where no offscreen OpenGL context can be made; the reason says what to install."""
    from forcelab.viewers.gl import GLUnavailableError, make_context

    try:
        make_context(16, 16).free()
    except GLUnavailableError as error:
        pytest.skip(str(error))
