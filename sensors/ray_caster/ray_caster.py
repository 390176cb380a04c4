# SPDX-License-Identifier: Apache-2.0
"""The ray caster, the same on every engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import warp as wp

from forcelab.physics.description import StaticDesc
from forcelab.physics.errors import near
from forcelab.physics.paths import ENV_REGEX_NS

from ..pose_sensor import PoseSensor, one_body
from ..sensor_base import SensorWorld
from . import ray_caster_kernels as kernels
from .ray_caster_cfg import ALIGNMENTS, RayCasterCfg
from .ray_caster_data import RayCasterData


def _rotate(quat: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(…, 3) vectors rotated by a quaternion (x, y, z, w)."""
    t = 2.0 * np.cross(quat[:3], vectors)
    return vectors + quat[3] * t + np.cross(quat[:3], t)


def _static_paths(world: SensorWorld, patterns: Sequence[str], what: str) -> list[str]:
    """Static geometry that the expressions name, each once.

    Raises:
        ValueError: An expression matches no static geometry.
    """
    found: list[str] = []
    for i, pattern in enumerate(patterns):
        where = f"{what}[{i}]"
        if pattern.startswith("/World/envs") or ENV_REGEX_NS in pattern:
            raise ValueError(
                f"{where} is {pattern!r}; rays see static geometry only.{near(pattern, world.bodies.statics)}"
            )
        found += [p for p in world.bodies.partners(pattern, where) if p not in found]
    return found


class RayCaster(PoseSensor):
    """R rays that move with one body of every environment, against planes and terrain.

    Robots and objects are not seen.

    Raises:
        ValueError: ``prim_path`` names no body or several, or a mesh path no static geometry.
    """

    cfg: RayCasterCfg
    data: RayCasterData

    def __init__(self, cfg: RayCasterCfg, name: str, world: SensorWorld):
        super().__init__(cfg, name, world)
        self._body = one_body(world, cfg.prim_path, f"scene.{name}.prim_path")
        self._seen = _static_paths(world, cfg.mesh_prim_paths, f"scene.{name}.mesh_prim_paths")
        starts, directions = cfg.pattern_cfg.rays(f"scene.{name}.pattern_cfg")
        offset = np.array(cfg.offset.pose(f"scene.{name}.offset"))
        self._starts = offset[:3] + _rotate(offset[3:], starts)
        self._directions = _rotate(offset[3:], directions)
        self.data = RayCasterData()

    @property
    def num_rays(self) -> int:
        """R."""
        return len(self._starts)

    def _geometry(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Planes (n, 4), and one mesh: vertices (V, 3) and faces (F, 3), in the world."""
        planes: list[np.ndarray] = []
        vertices: list[np.ndarray] = []
        faces: list[np.ndarray] = []
        count = 0
        statics: list[StaticDesc] = [s for s in self._engine.desc.statics if s.path in self._seen]
        for static in statics:
            pos, quat = np.array(static.pos, dtype=float), np.array(static.quat, dtype=float)
            for shape in static.shapes:
                inner, shift = np.array(shape.quat, dtype=float), np.array(shape.pos, dtype=float)
                if shape.kind == "plane":
                    normal = _rotate(quat, _rotate(inner, np.array([0.0, 0.0, 1.0])))
                    planes.append(np.append(normal, normal @ (pos + _rotate(quat, shift))))
                elif shape.vertices is not None and shape.faces is not None:
                    local = shift + _rotate(inner, np.asarray(shape.vertices, dtype=float))
                    vertices.append(pos + _rotate(quat, local))
                    faces.append(np.asarray(shape.faces, dtype=np.int32).reshape(-1, 3) + count)
                    count += len(local)
                else:
                    raise ValueError(
                        f"scene.{self.name}: rays meet planes and triangles; {static.path!r} is a {shape.kind}."
                    )
        return (
            np.array(planes, dtype=np.float32).reshape(-1, 4),
            np.concatenate(vertices) if vertices else np.zeros((0, 3)),
            np.concatenate(faces) if faces else np.zeros((0, 3), dtype=np.int32),
        )

    def allocate(self) -> dict[str, torch.Tensor]:
        E, R, dev, wp_dev = self.num_envs, self.num_rays, self.device, self._wp_device
        planes, vertices, faces = self._geometry()
        # Lives as long as the sensor: kernels know the mesh by its number.
        self._mesh: wp.Mesh | None = None
        if len(faces):
            self._mesh = wp.Mesh(
                points=wp.array(vertices.astype(np.float32), dtype=wp.vec3, device=wp_dev),
                indices=wp.array(faces.reshape(-1).astype(np.int32), dtype=int, device=wp_dev),
            )
        out = {
            "pos_w": torch.zeros(E, 3, device=dev),
            "quat_w": torch.zeros(E, 4, device=dev),
            "ray_hits_w": torch.zeros(E, R, 3, device=dev),
        }
        self._inputs = [
            self._pose,
            self._body,
            ALIGNMENTS.index(self.cfg.ray_alignment),
            wp.array(self._starts.astype(np.float32), dtype=wp.vec3, device=wp_dev),
            wp.array(self._directions.astype(np.float32), dtype=wp.vec3, device=wp_dev),
            wp.array(planes, dtype=wp.vec4, device=wp_dev),
            wp.uint64(self._mesh.id if self._mesh is not None else 0),
            float(self.cfg.max_distance),
            self._dt,
            self._period,
        ]
        self._out = [
            wp.from_torch(torch.zeros(E, R, dtype=torch.int32, device=dev)),
            wp.from_torch(out["pos_w"], dtype=wp.vec3),
            wp.from_torch(out["quat_w"], dtype=wp.quat),
            wp.from_torch(out["ray_hits_w"], dtype=wp.vec3),
        ]
        return out

    def launch_read(self, stepped: int, mask: wp.array) -> None:
        wp.launch(
            kernels.sample,
            dim=(self.num_envs, self.num_rays),
            inputs=[stepped, mask, *self._inputs],
            outputs=self._out,
            device=self._wp_device,
        )

    def describe(self) -> str:
        return f"{super().describe()}, {self.num_rays} rays against {', '.join(self._seen)}"
