# SPDX-License-Identifier: Apache-2.0
"""Point-like contact sensors: batched in the scene, and one at a time by path."""
