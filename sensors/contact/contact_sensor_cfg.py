# SPDX-License-Identifier: Apache-2.0
"""Configuration of the contact sensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forcelab.physics import checks

from ..sensor_base_cfg import SensorBaseCfg

if TYPE_CHECKING:
    from ..sensor_base import SensorWorld
    from .contact_sensor import ContactSensor


# Histories are copied at every sample and kept for every environment.
_LONGEST_HISTORY = 10_000


@dataclass
class ContactSensorCfg(SensorBaseCfg):
    """Contact forces ON the bodies that ``prim_path`` names.

    Attributes:
        prim_path: full-match expression over body paths, ``{ENV_REGEX_NS}/Robot/.*_FOOT``.
        history_length: earlier samples kept, newest at index 0; with 0 histories have length 1.
        track_pose: pose of the sensing bodies (engines that can).
        track_contact_points: mean contact point per filter column; needs filters.
        track_friction_forces: friction forces, aggregate and (with filters) per column.
        track_air_time: timers and first-contact flags.
        force_threshold: a body is in contact when its net normal force is strictly greater [N].
        max_contact_data_count_per_prim: capacity for contact points on the PhysX family; other
            engines ignore it with a warning.
        filter_prim_paths_expr: partners, one column per expression; what one expression matches is
            summed. Static geometry such as ``/World/ground`` is a legal partner.
        sensor_shape_prim_expr, filter_shape_prim_expr: sensing and filtering by single shapes.
        contact_debounce: samples a new mode must last before timers and flags take it.
    """

    history_length: int = 0
    track_pose: bool = False
    track_contact_points: bool = False
    track_friction_forces: bool = False
    track_air_time: bool = False
    force_threshold: float = 0.0
    max_contact_data_count_per_prim: int | None = None
    filter_prim_paths_expr: Sequence[str] = ()
    sensor_shape_prim_expr: Sequence[str] = ()
    filter_shape_prim_expr: Sequence[str] = ()
    contact_debounce: int = 0

    def check(self, name: str) -> None:
        super().check(name)
        checks.number(self.force_threshold, f"scene.{name}.force_threshold", at_least=0.0, unit="N")
        checks.whole(self.history_length, f"scene.{name}.history_length", at_most=_LONGEST_HISTORY)
        checks.whole(self.contact_debounce, f"scene.{name}.contact_debounce", at_most=_LONGEST_HISTORY)
        if self.max_contact_data_count_per_prim is not None:
            checks.whole(
                self.max_contact_data_count_per_prim, f"scene.{name}.max_contact_data_count_per_prim"
            )
        for key in ("track_pose", "track_contact_points", "track_friction_forces", "track_air_time"):
            checks.flag(getattr(self, key), f"scene.{name}.{key}")
        for key in ("filter_prim_paths_expr", "sensor_shape_prim_expr", "filter_shape_prim_expr"):
            v = getattr(self, key)
            if not isinstance(v, (list, tuple)) or not all(isinstance(p, str) for p in v):
                raise ValueError(f"scene.{name}.{key} is {v!r}; it must be a list of path expressions.")
        if self.filter_shape_prim_expr and self.filter_prim_paths_expr:
            raise ValueError(
                f"scene.{name}: filter_shape_prim_expr and filter_prim_paths_expr exclude each other; use one."
            )
        if self.track_contact_points and not (self.filter_prim_paths_expr or self.filter_shape_prim_expr):
            raise ValueError(
                f"scene.{name}.track_contact_points needs filter_prim_paths_expr or filter_shape_prim_expr: points "
                "are reported per column."
            )

    def create(self, name: str, world: SensorWorld) -> ContactSensor:
        from .contact_sensor import ContactSensor

        return ContactSensor(self, name, world)
