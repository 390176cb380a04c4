# SPDX-License-Identifier: Apache-2.0
"""Configuration of a scene: its entities are its attributes."""

from __future__ import annotations

from .collection_cfg import CollectionCfg


class InteractiveSceneCfg(CollectionCfg):
    """Entities as class attributes, annotated or not, each under its own name.

    Attributes:
        num_envs: number of environments.
        env_spacing: distance between the origins of neighbouring environments [m]. Environments
            never touch one another, whatever the spacing.
    """

    num_envs: int = 1
    env_spacing: float = 2.5

    def entities(self) -> dict[str, object]:
        """The entities by name, without the plain settings."""
        return {k: v for k, v in self.items() if k not in ("num_envs", "env_spacing")}
