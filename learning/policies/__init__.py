# SPDX-License-Identifier: Apache-2.0
"""Policies shipped with forcelab: ``<task>.pt``, loaded with ``checkpoint=pretrained``."""
