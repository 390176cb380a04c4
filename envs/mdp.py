# SPDX-License-Identifier: Apache-2.0
"""Another name of :mod:`forcelab.mdp`, for code that is ported."""

import sys

import forcelab.mdp

sys.modules[__name__] = forcelab.mdp
