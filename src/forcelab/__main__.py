# SPDX-License-Identifier: Apache-2.0
"""``python -m forcelab`` is the command ``forcelab``."""

from forcelab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
