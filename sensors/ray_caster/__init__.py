# SPDX-License-Identifier: Apache-2.0
"""Rays against static geometry: height scanners."""
