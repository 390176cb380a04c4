# SPDX-License-Identifier: Apache-2.0
"""Readings of the contact sensor."""

from __future__ import annotations

from forcelab.physics.array import Array


class ContactSensorData:
    """Forces ON the sensing bodies, world frame [N].

    E environments, S sensing bodies, F filter columns, H history length (at least 1). Every
    property shows the sensor's own memory; reading changes nothing. Histories: newest at index 0.
    """

    def __init__(self, engine_name: str) -> None:
        self._engine_name = engine_name
        self._poses: dict[str, Array] = {}
        self.net_normal_forces_w_history: Array
        """(E, H, S, 3) sum of normal contact forces."""
        self.net_forces_w_history: Array
        """(E, H, S, 3) normal + friction, whether or not friction is tracked."""
        self.net_friction_forces_w_history: Array | None = None
        """(E, H, S, 3), or None when friction is not tracked."""
        self.normal_force_matrix_w_history: Array | None = None
        """(E, H, S, F, 3) per filter column, or None without filters."""
        self.force_matrix_w_history: Array | None = None
        """(E, H, S, F, 3) normal + friction per filter column, or None without filters."""
        self.friction_force_matrix_w_history: Array | None = None
        """(E, H, S, F, 3), or None without filters or when friction is not tracked."""
        self.net_normal_forces_w: Array
        """(E, S, 3)."""
        self.net_forces_w: Array
        """(E, S, 3)."""
        self.net_friction_forces_w: Array | None = None
        """(E, S, 3), or None when friction is not tracked."""
        self.normal_force_matrix_w: Array | None = None
        """(E, S, F, 3), or None without filters."""
        self.force_matrix_w: Array | None = None
        """(E, S, F, 3), or None without filters."""
        self.friction_force_matrix_w: Array | None = None
        """(E, S, F, 3), or None without filters or when friction is not tracked."""
        self.contact_pos_w: Array | None = None
        """(E, S, F, 3) mean contact point [m], or None when not tracked."""
        self.current_air_time: Array | None = None
        """(E, S) time since the last contact [s], 0 in contact; None when air time is not tracked."""
        self.current_contact_time: Array | None = None
        """(E, S) duration of the present contact [s], 0 in the air; None when not tracked."""
        self.last_air_time: Array | None = None
        """(E, S) duration of the last completed flight [s]; None when not tracked."""
        self.last_contact_time: Array | None = None
        """(E, S) duration of the last completed contact [s]; None when not tracked."""

    @property
    def friction_forces_w(self) -> Array | None:
        """Alias of :attr:`net_friction_forces_w`."""
        return self.net_friction_forces_w

    @property
    def friction_forces_w_history(self) -> Array | None:
        """Alias of :attr:`net_friction_forces_w_history`."""
        return self.net_friction_forces_w_history

    def _pose(self, name: str) -> Array | None:
        if self._engine_name == "newton":
            raise NotImplementedError(
                f"{name}: the 'newton' engine does not track sensor poses; read the body's pose from its "
                "articulation or rigid object (data.body_pose_w)."
            )
        return self._poses.get(name)

    @property
    def pos_w(self) -> Array | None:
        """(E, S, 3) [m], or None when the pose is not tracked; NotImplementedError on Newton."""
        return self._pose("pos_w")

    @property
    def quat_w(self) -> Array | None:
        """(E, S, 4) (x, y, z, w), or None when the pose is not tracked; NotImplementedError on Newton."""
        return self._pose("quat_w")

    @property
    def pose_w(self) -> Array | None:
        """(E, S, 7), or None when the pose is not tracked; NotImplementedError on Newton."""
        return self._pose("pose_w")
