# SPDX-License-Identifier: Apache-2.0
"""Poses of bodies relative to another body."""
