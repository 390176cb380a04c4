# SPDX-License-Identifier: Apache-2.0
"""Draws neutral shapes with MuJoCo's renderer; nothing is simulated here."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from .camera_cfg import CameraCfg
from .drawables import Drawable, Points
from .gl import make_context
from .shapes import check_shape

MAX_MARKS = 10_000
_FLOOR_LIGHT = (0.80, 0.83, 0.87)
_FLOOR_DARK = (0.71, 0.75, 0.80)
_SKY_TOP = (0.42, 0.58, 0.78)
_HORIZON = (0.90, 0.93, 0.96)
_TILE = 0.5  # m
_TERRAIN = 4.0  # m
# Direction of the light, times how far it stands back, in camera distances.
_SUN = 2.0 * np.array([0.35, 0.30, -1.0])
_alive: weakref.WeakSet[Stage] = weakref.WeakSet()


def _xyzw_to_wxyz(quat: Any) -> np.ndarray:
    return np.roll(np.asarray(quat, dtype=np.float64), 1, axis=-1)


def _is_terrain(shape: Any) -> bool:
    """Whether a mesh is ground to walk on: static and large."""
    if shape.body is not None or shape.kind != "mesh":
        return False
    return bool(np.ptp(np.asarray(shape.vertices, dtype=np.float64)[:, :2], axis=0).max() > _TERRAIN)


class Stage:
    """A picture of ``num_envs`` copies of the moving shapes, and one of the static ones.

    Every body that has shapes becomes a body without joints whose pose is written before each picture.

    Args:
        shapes: See :class:`~forcelab.viewers.VisualShape`.
        body_paths: Names of the bodies, in the order of the poses given to :meth:`draw`.
        num_envs: How many environments are drawn.
        width: Of the picture, in pixels.
        height: Of the picture, in pixels.
        camera: Gives field of view and distance; the latter sets the scale of shadows and fog.
    """

    def __init__(
        self,
        shapes: Sequence[Any],
        body_paths: list[str],
        num_envs: int,
        width: int,
        height: int,
        camera: CameraCfg,
    ) -> None:
        self._gl: Any = None
        self._render: Any = None
        self.width, self.height = width, height
        for i, shape in enumerate(shapes):
            check_shape(shape, i, body_paths)
        shapes = [s for s in shapes if s.rgba[3] > 0.0]
        carrying = {s.body for s in shapes}
        self.drawn = [i for i, path in enumerate(body_paths) if path in carrying]
        """Numbers of the bodies that have shapes."""

        self._model = self._build(shapes, body_paths, num_envs, camera)
        self._data = mujoco.MjData(self._model)
        self._ground = {self._model.material("floor").id, self._model.material("terrain").id}
        self._sun = int(self._model.body("sun").mocapid[0])
        self._mocap = np.array(
            [[int(self._model.body(f"{e}:{i}").mocapid[0]) for i in self.drawn] for e in range(num_envs)],
            dtype=int,
        ).reshape(num_envs, len(self.drawn))
        self._scene = mujoco.MjvScene(self._model, maxgeom=self._model.ngeom + MAX_MARKS + 10)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_HAZE] = True
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        self._camera.distance = camera.distance
        self._camera.azimuth = camera.azimuth
        self._camera.elevation = camera.elevation
        self._rect = mujoco.MjrRect(0, 0, 2 * width, 2 * height)

        self._gl = make_context(2 * width, 2 * height)
        if not _alive:
            # After the context: its module registers the display's end, and ours must come first.
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        _alive.add(self)
        try:
            self._render = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        except Exception:
            self.close()
            raise
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._render)

    def _build(self, shapes: Sequence[Any], body_paths: list[str], num_envs: int, camera: CameraCfg) -> Any:
        spec = mujoco.MjSpec()
        spec.stat.extent = camera.distance
        spec.stat.center = camera.lookat
        visual = spec.visual
        visual.global_.offwidth = 2 * self.width
        visual.global_.offheight = 2 * self.height
        visual.global_.fovy = camera.fovy
        visual.quality.shadowsize = 4096
        visual.quality.offsamples = 0  # draw() averages four samples a pixel, which smooths shadows too
        # In units of the camera's distance.
        visual.map.znear, visual.map.zfar = 0.01, 40.0
        visual.map.shadowclip = 1.2
        visual.map.haze = 0.35
        visual.headlight.ambient = (0.36, 0.37, 0.40)
        visual.headlight.diffuse = (0.28, 0.28, 0.28)
        visual.headlight.specular = (0.05, 0.05, 0.05)
        visual.rgba.haze = (*_HORIZON, 1.0)

        spec.add_texture(
            name="sky",
            type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=_SKY_TOP,
            rgb2=_HORIZON,
            width=256,
            height=1536,
        )
        spec.add_texture(
            name="tiles",
            type=mujoco.mjtTexture.mjTEXTURE_2D,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
            mark=mujoco.mjtMark.mjMARK_EDGE,
            rgb1=_FLOOR_LIGHT,
            rgb2=_FLOOR_DARK,
            markrgb=(0.63, 0.67, 0.72),
            width=512,
            height=512,
        )
        textures = [""] * mujoco.mjtTextureRole.mjNTEXROLE
        textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "tiles"
        repeat = (1.0 / _TILE, 1.0 / _TILE)
        floor = {"textures": textures, "rgba": (1, 1, 1, 1), "specular": 0.1, "shininess": 0.1}
        spec.add_material(name="floor", texrepeat=repeat, texuniform=True, **floor)
        spec.add_material(name="terrain", **floor)
        spec.add_material(name="body", rgba=(0.5, 0.5, 0.5, 1.0), specular=0.35, shininess=0.4)

        sun = spec.worldbody.add_body(name="sun", mocap=True)
        sun.add_light(
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            pos=(0.0, 0.0, 0.0),
            dir=_SUN,
            diffuse=(0.62, 0.60, 0.56),
            specular=(0.25, 0.25, 0.25),
            ambient=(0.0, 0.0, 0.0),
            castshadow=True,
        )
        for k, shape in enumerate(shapes):
            if shape.kind == "mesh":
                self._add_mesh(spec, f"mesh{k}", shape)
        for k, shape in enumerate(shapes):
            if shape.body is None:
                self._add_geom(spec.worldbody, k, shape)
        for e in range(num_envs):
            for i in self.drawn:
                body = spec.worldbody.add_body(name=f"{e}:{i}", mocap=True)
                for k, shape in enumerate(shapes):
                    if shape.body == body_paths[i]:
                        self._add_geom(body, k, shape)
        return spec.compile()

    @staticmethod
    def _add_mesh(spec: Any, name: str, shape: Any) -> None:
        vertices = np.asarray(shape.vertices, dtype=np.float64).reshape(-1, 3)
        faces = np.asarray(shape.faces, dtype=np.int64).reshape(-1, 3)
        mesh = spec.add_mesh(name=name)
        mesh.uservert = vertices.ravel()
        mesh.userface = faces.ravel()
        # Accepts open and flat surfaces, whose volume is no use.
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        if _is_terrain(shape):  # carries the floor's tiles, laid out from above
            mesh.usertexcoord = (vertices[:, :2] / (2.0 * _TILE)).ravel()
            mesh.userfacetexcoord = faces.ravel()

    @staticmethod
    def _add_geom(body: Any, k: int, shape: Any) -> None:
        kinds = mujoco.mjtGeom
        geom = body.add_geom(contype=0, conaffinity=0)
        geom.type = getattr(kinds, f"mjGEOM_{shape.kind.upper()}")
        geom.pos = np.asarray(shape.pos, dtype=np.float64)
        geom.quat = _xyzw_to_wxyz(shape.quat)
        if shape.kind == "plane":
            geom.size = (0.0, 0.0, 1.0)  # without end
            geom.material = "floor"
        elif shape.kind == "mesh":
            geom.meshname = f"mesh{k}"
            geom.material = "terrain" if _is_terrain(shape) else "body"
        else:
            geom.size = (*shape.size, 0.0, 0.0)[:3]
            geom.material = "body"
        if geom.material == "body":
            geom.rgba = np.asarray(shape.rgba, dtype=np.float64)

    def draw(
        self,
        poses: np.ndarray,
        lookat: np.ndarray,
        marks: Sequence[Drawable] = (),
        arrow_width: float = 0.015,
        opacity: float = 1.0,
    ) -> np.ndarray:
        """One picture, (height, width, 3) uint8.

        Args:
            poses: (num_envs, B, 7) position in m and quaternion (x, y, z, w), world frame.
            lookat: (3,) point in the middle of the picture, world frame, in m.
            marks: Arrows and points.
            arrow_width: Radius of the shafts of arrows of width 1, in m.
            opacity: Of moving bodies.
        """
        if self._render is None:
            raise RuntimeError("This recorder is closed; make a new one to draw more.")
        data, scene = self._data, self._scene
        data.mocap_pos[self._mocap] = poses[:, self.drawn, :3]
        data.mocap_quat[self._mocap] = _xyzw_to_wxyz(poses[:, self.drawn, 3:7])
        # The shadow map is centred on the light, so the light goes where the camera looks.
        data.mocap_pos[self._sun] = lookat - _SUN * self._camera.distance
        self._camera.lookat = lookat
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_camlight(self._model, data)
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL.value, scene
        )
        for geom in scene.geoms[: scene.ngeom]:
            if opacity < 1.0 and self._moves(geom):
                geom.rgba[3] *= opacity
                geom.transparent = 1
            if geom.matid in self._ground:
                # Decoration casts no shadow: large surfaces would otherwise shade themselves in specks.
                geom.category = mujoco.mjtCatBit.mjCAT_DECOR
        self._add_marks(marks, arrow_width)

        self._gl.make_current()
        pixels = np.empty((2 * self.height, 2 * self.width, 3), dtype=np.uint8)
        mujoco.mjr_render(self._rect, scene, self._render)
        mujoco.mjr_readPixels(pixels, None, self._rect, self._render)
        pixels = pixels[::-1]  # OpenGL's first row is the lowest
        total = pixels[0::2].astype(np.uint16) + pixels[1::2]
        total = total[:, 0::2] + total[:, 1::2]
        return ((total + 2) >> 2).astype(np.uint8)

    def _moves(self, geom: Any) -> bool:
        """Whether a geom of the picture belongs to a moving body."""
        if geom.objtype != mujoco.mjtObj.mjOBJ_GEOM:
            return False
        return bool(self._model.body_mocapid[self._model.geom_bodyid[geom.objid]] >= 0)

    def _add_marks(self, marks: Sequence[Drawable], arrow_width: float) -> None:
        """Arrows and points into the picture; they throw no shadow."""
        kinds = mujoco.mjtGeom
        count = sum(len(m.pos) if isinstance(m, Points) else m.heads * len(m.origin) for m in marks)
        if count > MAX_MARKS:
            raise ValueError(f"At most {MAX_MARKS} arrows and points fit in a picture, found {count}.")
        for mark in marks:
            if isinstance(mark, Points):
                for pos in mark.pos:
                    self._add_mark(kinds.mjGEOM_SPHERE, mark.rgba, (mark.radius, 0.0, 0.0), pos)
                continue
            radius = arrow_width * mark.width
            for tail, vector in zip(mark.origin, mark.vector):
                for head in range(mark.heads):
                    # The second head sits behind the first: a shorter arrow over the same shaft.
                    length = np.linalg.norm(vector)
                    if length <= 1e-6:  # a point has no direction
                        continue
                    tip = tail + vector * max(0.5, 1.0 - 4.0 * head * radius / length)
                    geom = self._add_mark(kinds.mjGEOM_ARROW, mark.rgba)
                    mujoco.mjv_connector(geom, kinds.mjGEOM_ARROW, radius, tail, tip)
                    geom.size[2] *= 2.0  # MuJoCo draws an arrow half as long as its size says

    def _add_mark(self, kind: Any, rgba: Any, size: Any = (0.0, 0.0, 0.0), pos: Any = (0.0, 0.0, 0.0)) -> Any:
        scene = self._scene
        geom = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(
            geom,
            kind,
            np.asarray(size, dtype=np.float64),
            np.asarray(pos, dtype=np.float64),
            np.eye(3).ravel(),
            np.asarray(rgba, dtype=np.float32),
        )
        geom.category = mujoco.mjtCatBit.mjCAT_DECOR
        geom.emission = 0.4
        scene.ngeom += 1
        return geom

    def close(self) -> None:
        """Free the OpenGL context; safe to repeat."""
        render, self._render = self._render, None
        gl, self._gl = self._gl, None
        if gl is not None:
            gl.make_current()
            if render is not None:
                render.free()
            gl.free()
        _alive.discard(self)


def _close_all() -> None:
    for stage in list(_alive):
        stage.close()
