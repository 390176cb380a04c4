# SPDX-License-Identifier: Apache-2.0
"""Measurements: step times, contact read-out, solver settings."""
