# SPDX-License-Identifier: Apache-2.0
"""The inertial measurement unit."""
