# SPDX-License-Identifier: Apache-2.0
"""The contact sensor: names, history, timers, resets, the same on every engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import warp as wp

from forcelab.physics import checks
from forcelab.physics.array import Array
from forcelab.physics.engine import ContactQuery
from forcelab.physics.paths import ENV_REGEX_NS

from ..sensor_base import NamedBodies, SensorBase, SensorWorld
from . import contact_kernels as kernels
from .contact_sensor_cfg import ContactSensorCfg
from .contact_sensor_data import ContactSensorData


class ContactSensor(NamedBodies, SensorBase):
    """Contact forces, history and timers of S bodies in every environment.

    A sample is taken inside every physics step that is due. See :class:`ContactSensorCfg` for the
    settings and :class:`ContactSensorData` for the readings.
    """

    cfg: ContactSensorCfg
    data: ContactSensorData

    def __init__(self, cfg: ContactSensorCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        engine = world.engine
        at = f"scene.{name}"
        by_shape = cfg.sensor_shape_prim_expr or cfg.filter_shape_prim_expr
        if by_shape and not engine.capabilities.shape_contacts:
            raise NotImplementedError(
                f"{at}: sensing or filtering by shape is not available on the {engine.name!r} engine; "
                "use prim_path and filter_prim_paths_expr."
            )
        if cfg.track_contact_points and not engine.capabilities.contact_points:
            raise NotImplementedError(
                f"{at}.track_contact_points: the {engine.name!r} engine does not report contact points."
            )
        if cfg.max_contact_data_count_per_prim is not None and engine.name == "newton":
            warnings.warn(
                f"{at}.max_contact_data_count_per_prim is ignored by the 'newton' engine.",
                UserWarning,
                stacklevel=2,
            )
        if cfg.track_pose and not engine.capabilities.pose_tracking and engine.name != "newton":
            raise NotImplementedError(
                f"{at}.track_pose: the {engine.name!r} engine does not track sensor poses."
            )
        bodies = world.bodies
        self._paths = bodies.sensing(cfg.prim_path, f"{at}.prim_path")
        filters = tuple(
            tuple(bodies.partners(path, f"{at}.filter_prim_paths_expr[{i}]"))
            for i, path in enumerate(cfg.filter_prim_paths_expr)
        ) + tuple(
            tuple(bodies.partner_shapes(path, f"{at}.filter_shape_prim_expr[{i}]"))
            for i, path in enumerate(cfg.filter_shape_prim_expr)
        )
        if filters and len(self._paths) > 1:
            found = ", ".join(f"{ENV_REGEX_NS}/{p}" for p in self._paths)
            raise ValueError(
                f"{at}: with filters, prim_path must name one body, but {cfg.prim_path!r} matches "
                f"{len(self._paths)}: {found}. Declare one sensor per body."
            )
        leaves = [p.rsplit("/", 1)[-1] for p in self._paths]
        #: Names of the S sensing bodies; their paths where two robots use one name. With
        #: ``sensor_shape_prim_expr`` the paths of the S sensing shapes.
        self.body_names: list[str] = leaves if len(set(leaves)) == len(leaves) else list(self._paths)
        if cfg.sensor_shape_prim_expr:
            shapes = [
                shape
                for i, path in enumerate(cfg.sensor_shape_prim_expr)
                for shape in bodies.sensing_shapes(path, self._paths, f"{at}.sensor_shape_prim_expr[{i}]")
            ]
            self._paths = [s for s in bodies.shapes if s in shapes]
            self.body_names = list(self._paths)
        self._reader = engine.add_contact_reader(
            ContactQuery(tuple(self._paths), filters, points=cfg.track_contact_points)
        )
        self.num_filters = len(filters)

    def build(self) -> None:
        cfg, dev = self.cfg, self.device
        E, S, F, H = self.num_envs, self.num_bodies, self.num_filters, max(1, cfg.history_length)
        depth = H if cfg.track_friction_forces else 0
        reader = self._reader

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, 3, device=dev)

        net = [zeros(E, H, S), zeros(E, depth, S), zeros(E, H, S)]
        matrices = [zeros(E, H, S, F), zeros(E, depth, S, F), zeros(E, H, S, F)]
        self._state = torch.zeros(E, S, kernels.STATE_COLUMNS, dtype=torch.int32, device=dev)
        times = torch.zeros(4, E, S, device=dev)
        points = torch.full((E, S, F if cfg.track_contact_points else 0, 3), torch.nan, device=dev)
        data = self.data = ContactSensorData(self._engine.name)
        data.net_normal_forces_w_history = Array.wrap(net[0])
        data.net_forces_w_history = Array.wrap(net[2])
        data.net_normal_forces_w = Array.wrap(net[0][:, 0])
        data.net_forces_w = Array.wrap(net[2][:, 0])
        if depth:
            data.net_friction_forces_w_history = Array.wrap(net[1])
            data.net_friction_forces_w = Array.wrap(net[1][:, 0])
        if F:
            data.normal_force_matrix_w_history = Array.wrap(matrices[0])
            data.force_matrix_w_history = Array.wrap(matrices[2])
            data.normal_force_matrix_w = Array.wrap(matrices[0][:, 0])
            data.force_matrix_w = Array.wrap(matrices[2][:, 0])
            if depth:
                data.friction_force_matrix_w_history = Array.wrap(matrices[1])
                data.friction_force_matrix_w = Array.wrap(matrices[1][:, 0])
        if cfg.track_contact_points:
            data.contact_pos_w = Array.wrap(points)
        if cfg.track_air_time:
            data.current_air_time = Array.wrap(times[0])
            data.current_contact_time = Array.wrap(times[1])
            data.last_air_time = Array.wrap(times[2])
            data.last_contact_time = Array.wrap(times[3])

        columns = [(reader.normal, reader.friction, net)]
        if F:
            assert reader.normal_matrix is not None and reader.friction_matrix is not None
            columns += [
                (
                    reader.normal_matrix[:, :, c],
                    reader.friction_matrix[:, :, c],
                    [m[..., c, :] for m in matrices],
                )
                for c in range(F)
            ]
        self._series: list[Any] = []
        for s in range(S):
            if cfg.track_air_time:
                self._add_series(
                    kernels.TIMERS,
                    normal=reader.normal[:, s],
                    threshold=float(cfg.force_threshold),
                    debounce=int(cfg.contact_debounce),
                    state=self._state[:, s],
                    times=times[:, :, s],
                )
            for normal, friction, (normal_h, friction_h, total_h) in columns:
                # The parts, the history, and which parts are in it.
                for history, has_normal, has_friction in (
                    (normal_h, 1, 0),
                    (friction_h, 0, 1),
                    (total_h, 1, 1),
                ):
                    if history.shape[1]:
                        self._add_series(
                            kernels.FORCES,
                            normal=normal[:, s],
                            friction=friction[:, s],
                            has_normal=has_normal,
                            has_friction=has_friction,
                            history=history[:, :, s],
                        )
            if cfg.track_contact_points:
                assert reader.points is not None
                for c in range(F):
                    self._add_series(kernels.POINTS, points=reader.points[:, s, c], position=points[:, s, c])
        clocks = torch.zeros(len(self._series), E, dtype=torch.int32, device=dev)
        for series, clock in zip(self._series, clocks):
            series.clock = wp.from_torch(clock)

        def vec(t: torch.Tensor) -> wp.array:
            return wp.from_torch(t, dtype=wp.vec3)

        self._buffers = [
            wp.from_torch(clocks),
            wp.from_torch(self._state),
            wp.from_torch(times),
            *(vec(t) for t in net),
            *(vec(t) for t in matrices),
            vec(points),
        ]
        self._sample = self.sampler([self])

    def _add_series(self, kind: int, **values: Any) -> None:
        series = kernels.Series()
        series.kind = kind
        series.period = self.cfg.update_period
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                dtypes = {"state": wp.int32, "times": wp.float32, "points": wp.vec4}
                value = wp.from_torch(value, dtype=dtypes.get(key, wp.vec3))
            setattr(series, key, value)
        self._series.append(series)

    @classmethod
    def sampler(cls, sensors: Sequence[SensorBase]) -> Callable[[], None]:
        """One launch for all of them."""
        group = [sensor for sensor in sensors if isinstance(sensor, ContactSensor)]
        first = group[0]
        series = [series for sensor in group for series in sensor._series]
        table = wp.array(series, dtype=kernels.Series, device=first._wp_device)
        inputs = [table, wp.float64(first._engine.dt)]

        def launch() -> None:
            wp.launch(
                kernels.sample, dim=(len(series), first.num_envs), inputs=inputs, device=first._wp_device
            )

        return launch

    def launch_sample(self) -> None:
        self._sample()

    def launch_reset(self, mask: wp.array) -> None:
        wp.launch(
            kernels.clear,
            dim=(self.num_envs, self.num_bodies),
            inputs=[mask],
            outputs=self._buffers,
            device=self._wp_device,
        )

    # ------------------------------------------------------------------ transitions
    def _samples(self, dt: float) -> int:
        if not self.cfg.track_air_time:
            raise RuntimeError(
                f"Sensor {self.name!r}: first-contact flags need track_air_time=True in its configuration."
            )
        interval = max(self.cfg.update_period, self._engine.dt)
        count = round(checks.number(dt, f"Sensor {self.name!r}: dt", unit="s") / interval)
        if count < 1 or abs(dt / interval - count) > 1e-3 * max(1, count):
            raise ValueError(
                f"Sensor {self.name!r}: dt is {dt!r} s; it must be a multiple of the sample interval {interval:g} s."
            )
        return count

    def _changed_to(self, mode: int, dt: float) -> torch.Tensor:
        count = self._samples(dt)
        s = self._state
        return (
            (s[..., kernels.MODE] == mode)
            & (s[..., kernels.CHANGED] == 1)
            & (s[..., kernels.MODE_SAMPLES] <= count)
        )

    def compute_first_contact(self, dt: float) -> torch.Tensor:
        """(E, S) bool, a new tensor: did the body come into contact within the last ``dt`` seconds?

        Raises:
            RuntimeError: Air time is not tracked.
            ValueError: ``dt`` is no multiple of the sample interval.
        """
        return self._changed_to(1, dt)

    def compute_first_air(self, dt: float) -> torch.Tensor:
        """(E, S) bool, a new tensor: did the body leave contact within the last ``dt`` seconds?

        Raises:
            RuntimeError: Air time is not tracked.
            ValueError: ``dt`` is no multiple of the sample interval.
        """
        return self._changed_to(2, dt)
