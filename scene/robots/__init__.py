# SPDX-License-Identifier: Apache-2.0
"""Robot files (MJCF), written for this project."""
