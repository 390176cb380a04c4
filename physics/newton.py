# SPDX-License-Identifier: Apache-2.0
"""The Newton engine: MuJoCo Warp through Newton's solver, on the CPU or CUDA.

The only file that imports ``newton``. Its API is young: every call to it is here.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp

from .warp_setup import compilation_progress, start_warp

# Before newton is imported, whose modules take over Warp's settings.
start_warp()

import newton
from newton.solvers import SolverMuJoCo

from . import newton_kernels as kernels
from .description import ENV_NAMESPACE, ArticulationDesc, RigidBodyDesc, SceneDesc, ShapeDesc, VisualShape
from .engine import (
    RAW_CONTACT,
    Capabilities,
    ContactQuery,
    ContactReader,
    Engine,
    JointWrenchReader,
    TreeState,
)
from .errors import near
from .launch import launch
from .mjcf import MjcfBody, MjcfJoint, MjcfModel
from .newton_cfg import NewtonCfg
from .quaternions import quat_apply, quat_mul
from .terrain import TerrainContacts

# Threads that replay or record CPU graphs at one time crash each other, and a launch of one would end up in the
# recording of another.
_REPLAY_LOCK = threading.RLock()

_KINDS = {
    newton.GeoType.PLANE: "plane",
    newton.GeoType.SPHERE: "sphere",
    newton.GeoType.CAPSULE: "capsule",
    newton.GeoType.CYLINDER: "cylinder",
    newton.GeoType.BOX: "box",
    newton.GeoType.MESH: "mesh",
    newton.GeoType.CONVEX_MESH: "mesh",
}
# At most this many contact points come from one pair of these shapes.
_POINTS = {
    frozenset(("plane", "sphere")): 1,
    frozenset(("plane", "capsule")): 2,
    frozenset(("plane", "cylinder")): 4,
    frozenset(("plane", "box")): 4,
    frozenset(("plane", "mesh")): 4,
    frozenset(("sphere",)): 1,
    frozenset(("sphere", "capsule")): 1,
    frozenset(("sphere", "cylinder")): 1,
    frozenset(("sphere", "box")): 1,
    frozenset(("capsule",)): 2,
    frozenset(("capsule", "box")): 2,
    frozenset(("heightfield", "sphere")): 4,
    frozenset(("heightfield", "capsule")): 4,
    frozenset(("heightfield", "cylinder")): 8,
    frozenset(("heightfield", "box")): 8,
    frozenset(("heightfield", "mesh")): 8,
}
_DEFAULT_COLOR = (0.62, 0.66, 0.72, 1.0)
# Warp's view of torch's streams. Kept, because a view that goes away makes Warp forget the stream.
_STREAMS: dict[tuple[int | None, int], wp.Stream] = {}


def _warp_stream(device: torch.device, anew: bool = False) -> wp.Stream:
    """Torch's current stream for Warp."""
    stream = torch.cuda.current_stream(device)
    key = (device.index, stream.cuda_stream)
    if anew:
        _STREAMS.pop(key, None)
    found = _STREAMS.get(key)
    if found is None:
        found = _STREAMS[key] = wp.stream_from_torch(stream)
    return found


def _color(rgba: tuple[float, ...] | None) -> tuple[float, float, float] | None:
    return None if rgba is None else (rgba[0], rgba[1], rgba[2])


def _add_shape(builder: newton.ModelBuilder, body: int, shape: ShapeDesc, label: str) -> int:
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, mu=shape.friction)
    xform = wp.transform(shape.pos, shape.quat)
    color = _color(shape.rgba)
    kind, size = shape.kind, shape.size
    if kind == "box":
        volume = size[0] * size[1] * size[2]
    elif kind == "sphere":
        volume = 4.0 / 3.0 * np.pi * size[0] ** 3
    elif kind == "cylinder":
        volume = np.pi * size[0] ** 2 * size[1]
    elif kind == "capsule":
        volume = np.pi * size[0] ** 2 * size[1] + 4.0 / 3.0 * np.pi * size[0] ** 3
    elif kind == "mesh":
        corners = np.asarray(shape.vertices, dtype=np.float64)[np.asarray(shape.faces).reshape(-1, 3)]
        volume = float(
            np.abs(np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6)
        )
    else:
        volume = 0.0
    if body >= 0 and volume > 0:
        cfg.density = shape.mass / volume if shape.mass is not None else shape.density
    if kind == "box":
        return builder.add_shape_box(
            body,
            xform=xform,
            hx=size[0] / 2,
            hy=size[1] / 2,
            hz=size[2] / 2,
            cfg=cfg,
            color=color,
            label=label,
        )
    if kind == "sphere":
        return builder.add_shape_sphere(body, xform=xform, radius=size[0], cfg=cfg, color=color, label=label)
    if kind == "cylinder":
        return builder.add_shape_cylinder(
            body, xform=xform, radius=size[0], half_height=size[1] / 2, cfg=cfg, color=color, label=label
        )
    if kind == "capsule":
        return builder.add_shape_capsule(
            body, xform=xform, radius=size[0], half_height=size[1] / 2, cfg=cfg, color=color, label=label
        )
    if kind == "mesh":
        mesh = newton.Mesh(
            np.asarray(shape.vertices, dtype=np.float32), np.asarray(shape.faces, dtype=np.int32).reshape(-1)
        )
        return builder.add_shape_convex_hull(body, xform=xform, mesh=mesh, cfg=cfg, color=color, label=label)
    if kind == "plane":
        return builder.add_shape_plane(
            None, xform=xform, width=0.0, length=0.0, body=body, cfg=cfg, label=label
        )
    if kind == "heightfield":
        heights = np.asarray(shape.heights, dtype=np.float32)
        rows, columns = heights.shape
        return builder.add_shape_heightfield(
            xform=xform,
            heightfield=newton.Heightfield(heights, rows, columns, hx=size[0] / 2, hy=size[1] / 2),
            cfg=cfg,
            color=color,
            label=label,
        )
    raise ValueError(
        f"Unknown shape kind {kind!r}.{near(kind, ('box', 'sphere', 'cylinder', 'capsule', 'mesh', 'plane'))}"
    )


def _new_builder(gravity: tuple[float, float, float]) -> newton.ModelBuilder:
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z, gravity=tuple(gravity))
    SolverMuJoCo.register_custom_attributes(builder)
    # With the default of 0.1 m every shape near the ground makes contact rows.
    builder.rigid_gap = 0.0
    return builder


def _collide_by_pairs_only(builder: newton.ModelBuilder) -> None:
    """Switch ordinary collision off: explicit pairs alone carry the softness of friction."""
    builder.shape_collision_group = [0] * builder.shape_count
    for key in ("mujoco:contype", "mujoco:conaffinity"):
        # A file's own masks would win over the groups where every shape has some.
        attribute = builder.custom_attributes.get(key)
        if attribute is not None and attribute.values:
            keys = attribute.values if isinstance(attribute.values, dict) else range(len(attribute.values))
            for k in list(keys):
                attribute.values[k] = 0


class _Tree:
    """Where one articulation or body lies in the per-world arrays."""

    def __init__(self, path: str):
        self.path = path
        self.bodies: list[int] = []
        self.body_names: list[str] = []
        self.joint_names: list[str] = []
        self.joints: list[int] = []
        self.root_joint = -1
        self.coord = 0
        self.dof = 0
        self.root_coords = 0
        self.root_dofs = 0
        self.tree_names: list[str] = []


@dataclass
class _WrenchJoints:
    """What the kernels need to know of the joints of one reader."""

    body: wp.array
    solver_body: wp.array
    carried_start: wp.array
    carried: wp.array
    frames: wp.array
    force: wp.array
    torque: wp.array
    quat: wp.array


class NewtonEngine(Engine):
    """See :class:`forcelab.physics.engine.Engine`."""

    name = "newton"
    cfg: NewtonCfg
    #: Sum joint wrenches here where that is possible, instead of asking the solver.
    sums_wrenches = True

    def __init__(self, cfg: NewtonCfg, desc: SceneDesc, device: str):
        super().__init__(cfg, desc, device)
        self.capabilities = Capabilities(
            contact_points=True, shape_contacts=True, raw_contacts=True, captured=cfg.capture
        )
        try:
            self._wp_device = wp.get_device("cpu" if self.device.type == "cpu" else str(self.device))
        except Exception as error:
            raise ValueError(
                f"device {device!r} cannot be used: {error}. Known: {[str(d) for d in wp.get_devices()]}."
            ) from None
        with compilation_progress(), wp.ScopedDevice(self._wp_device), _REPLAY_LOCK:
            self._build()
        self._queries: list[tuple[ContactQuery, ContactReader]] = []
        self._wrench_readers: list[tuple[list[int], JointWrenchReader]] = []
        self._wrench_joints: list[_WrenchJoints] = []
        #: (E, bodies of the solver) loads that are summed to joint wrenches, unless the solver does that.
        self._loads: wp.array | None = None
        self._graphs: list[object] = []
        self._started = False

    # ------------------------------------------------------------------ building
    def _build(self) -> None:
        desc, E = self.desc, self.num_envs
        template = _new_builder(self.cfg.gravity)
        self._trees: dict[str, _Tree] = {}
        for articulation in desc.articulations:
            self._trees[articulation.path] = self._add_articulation(template, articulation)
        for body in desc.rigid_bodies:
            self._trees[body.path] = self._add_rigid_body(template, body)

        builder = _new_builder(self.cfg.gravity)
        self._static_shapes: list[tuple[str, int]] = []
        for static in desc.statics:
            for i, shape in enumerate(static.shapes):
                placed = _compose(static.pos, static.quat, shape)
                label = f"{static.path}/{shape.name or i}"
                self._static_shapes.append((static.path, _add_shape(builder, -1, placed, label)))
                self.static_shape_paths.append(label)
        self._n_static = builder.shape_count
        self._n_shapes = template.shape_count
        self._shape_names = _shape_names(template)
        # Shapes by number: the statics first, then those of one environment.
        self._shape_body = [-1] * self._n_static + list(template.shape_body)
        flags = list(builder.shape_flags) + list(template.shape_flags)
        self._collides = [bool(f & newton.ShapeFlags.COLLIDE_SHAPES) for f in flags]
        self._kind = [
            "heightfield" if t == newton.GeoType.HFIELD else _KINDS.get(newton.GeoType(t), "mesh")
            for t in list(builder.shape_type) + list(template.shape_type)
        ]
        mu = list(builder.shape_material_mu) + list(template.shape_material_mu)
        self._shape_friction_np = np.array(mu, dtype=np.float32)
        self._pairs = self._collision_pairs(template)
        self._template = template
        for part in (builder, template):
            _collide_by_pairs_only(part)
        self._add_pairs(template, mu)
        builder.replicate(
            template,
            E,
            xforms=[wp.transform(origin, wp.quat_identity()) for origin in desc.env_origins.tolist()],
        )
        self._number_pairs(builder)
        self.model = builder.finalize(device=self._wp_device, skip_validation_inertia=True)
        joint_rows = 2 * len([1 for t in self._trees.values() for _ in t.joint_names])
        loop_rows = 6 * (template.joint_count - len(_tree_joints(template)))
        worst = sum(self._points(a, b) for a, b in self._pairs)
        # The pool is shared by all environments: few of them may all be in their worst pose at
        # once, many will not. (Measured: a quadruped that falls touches with about a third.)
        share = 1.0 if E <= 64 else 0.6
        self.contact_capacity = self.cfg.contact_capacity or max(8, int(np.ceil(worst * share)))
        rows_per_contact = 3 if self.cfg.cone == "elliptic" else 4
        # All objects at rest on the ground, on four corners each.
        lying = 4 * len([1 for body in desc.rigid_bodies if not body.fixed])
        self.constraint_capacity = self.cfg.constraint_capacity or (
            rows_per_contact * max(8, min(worst, max(64, lying))) + joint_rows // 2 + loop_rows + 8
        )
        self._state = self.model.state()
        self._control = self.model.control()
        self._bind()

    def _create_solver(self) -> None:
        """The solver, once it is known what is read."""
        exact = self.desc.accelerations or bool(self._wrench_readers)
        self.integrator = self.cfg.integrator
        if self.integrator == "auto":
            self.integrator = "discrete" if exact else "implicitfast"
        elif exact and self.integrator != "discrete":
            warnings.warn(
                f"physics.integrator is {self.integrator!r}, but the scene reads joint wrenches or accelerations, "
                "which only 'discrete' reports exactly while things move. Use 'discrete' or 'auto'.",
                UserWarning,
                stacklevel=2,
            )
        with warnings.catch_warnings():
            # Capacities that the first pose needs are raised with a warning of the engine's own.
            warnings.simplefilter("ignore")
            try:
                self.solver = SolverMuJoCo(
                    self.model,
                    njmax=self.constraint_capacity,
                    nconmax=self.contact_capacity,
                    iterations=self.cfg.iterations,
                    ls_iterations=self.cfg.ls_iterations,
                    tolerance=self.cfg.tolerance,
                    solver="newton",
                    integrator=self.integrator,
                    cone=self.cfg.cone,
                    impratio=self.cfg.impratio,
                    use_mujoco_contacts=True,
                )
            except Exception as error:
                raise ValueError(f"The engine's solver cannot take this scene: {error}") from error
        # Overflow is read from its bits; printing from the device costs time.
        self.solver.mjw_model.opt.warn_overflow = 0
        self._contact_pool = int(self.solver.mjw_data.naconmax)
        # The solver raises a capacity that the first pose exceeds.
        self.constraint_capacity = int(self.solver.mjw_data.njmax)
        self._order_pairs()
        self._take_over_terrain()

    def _take_over_terrain(self) -> None:
        """Contacts with height fields are found by :class:`TerrainContacts`, not by the solver."""
        shape_of = self.solver.mjc_geom_to_newton_shape.numpy()[0].tolist()
        geom_of = {shape: geom for geom, shape in enumerate(shape_of)}
        shapes = [_compose(d.pos, d.quat, shape) for d in self.desc.statics for shape in d.shapes]
        terrains = [
            (
                geom_of[s],
                shape,
                [(k, geom_of[b]) for k, (a, b) in enumerate(self._pairs) if a == s],
            )
            for s, shape in enumerate(shapes)
            if shape.kind == "heightfield"
        ]
        if terrains:
            self._terrain = TerrainContacts(
                self.solver.mjw_model, self.solver.mjw_data, terrains, self._wp_device
            )

    def _order_pairs(self) -> None:
        """Take over the solver's order of pairs: it sorts them, and Newton fills in coefficients in the old order."""
        shape_of = self.solver.mjc_geom_to_newton_shape.numpy()[0]
        model = self.solver.mj_model
        pairs = [
            (min(a, b), max(a, b))
            for a, b in zip(shape_of[model.pair_geom1].tolist(), shape_of[model.pair_geom2].tolist())
        ]
        if sorted(pairs) != sorted(self._pairs):
            raise RuntimeError("The solver did not take over the pairs of shapes that may touch.")
        self._pairs = pairs
        numbers = np.array(pairs, dtype=np.int32).reshape(-1, 2)
        self._pair_a = wp.array(numbers[:, 0].copy(), dtype=int, device=self._wp_device)
        self._pair_b = wp.array(numbers[:, 1].copy(), dtype=int, device=self._wp_device)
        self._mix_friction()

    def _mix_friction(self) -> None:
        if not self._pairs:
            return
        with self.stream(), _REPLAY_LOCK:
            wp.launch(
                kernels.pair_friction,
                dim=(self.num_envs, len(self._pairs)),
                inputs=[self._pair_a, self._pair_b, self._shape_friction_wp],
                outputs=[self.solver.mjw_model.pair_friction],
                device=self._wp_device,
            )

    @staticmethod
    def _add_articulation(builder: newton.ModelBuilder, desc: ArticulationDesc) -> _Tree:
        tree = _Tree(desc.path)
        body0, joint0 = builder.body_count, builder.joint_count
        shape0 = builder.shape_count
        dof0, coord0 = builder.joint_dof_count, builder.joint_coord_count
        try:
            builder.add_mjcf(
                desc.mjcf,
                xform=wp.transform(desc.pos, desc.quat),
                override_root_xform=True,
                floating=None if desc.fixed_base is None else not desc.fixed_base,
                enable_self_collisions=desc.self_collisions,
                parse_sites=False,
                parse_mujoco_options=False,
                ignore_names=(),
            )
        except Exception as error:
            hint = f"; pip install {error.name}" if isinstance(error, ModuleNotFoundError) else ""
            raise ValueError(f"{desc.path}: {desc.mjcf!r} cannot be read: {error}{hint}.") from error
        # The importer moves geometry of the file's world along with the root; it belongs where the file says.
        back = wp.transform_inverse(wp.transform(desc.pos, desc.quat))
        for s in range(shape0, builder.shape_count):
            if builder.shape_body[s] < 0:
                builder.shape_transform[s] = back * wp.transform(*builder.shape_transform[s])
        if desc.friction is not None:
            for s in range(shape0, builder.shape_count):
                builder.shape_material_mu[s] = desc.friction
        tree.bodies = list(range(body0, builder.body_count))
        tree.body_names = [label.rsplit("/", 1)[-1] for label in builder.body_label[body0:]]
        if not tree.bodies:
            raise ValueError(f"{desc.path}: {desc.mjcf!r} holds no body.")
        _refuse_doubles(desc.path, "body", tree.body_names)
        _refuse_massless(builder, desc, body0, joint0)
        tree.tree_names = [label.split("/worldbody/", 1)[-1] for label in builder.body_label[body0:]]
        tree.coord, tree.dof = coord0, dof0
        for j in _tree_joints(builder, joint0):
            kind = builder.joint_type[j]
            parent = builder.joint_parent[j]
            label = builder.joint_label[j].rsplit("/", 1)[-1]
            if parent == -1 and tree.root_joint < 0:
                tree.root_joint = j
                if kind == newton.JointType.FREE:
                    tree.root_coords, tree.root_dofs = 7, 6
                    continue
                if kind == newton.JointType.FIXED:
                    continue
            if kind == newton.JointType.FIXED:
                continue
            if kind not in (newton.JointType.REVOLUTE, newton.JointType.PRISMATIC):
                raise ValueError(
                    f"{desc.path}: joint {label!r} is of type {newton.JointType(kind).name}; "
                    "hinge and slide joints (one per body) and a free root are supported."
                )
            tree.joints.append(j)
            tree.joint_names.append(label)
        _refuse_doubles(desc.path, "joint", tree.joint_names)
        if tree.root_joint < 0:
            tree.root_joint = joint0
        for name in (*desc.drives, *desc.joint_pos):
            if name not in tree.joint_names:
                raise ValueError(
                    f"{desc.path}: no joint {name!r} in {desc.mjcf!r}.{near(name, tree.joint_names)}"
                )
        for j, name in zip(tree.joints, tree.joint_names):
            dof, coord = builder.joint_qd_start[j], builder.joint_q_start[j]
            drive = desc.drives.get(name)
            builder.joint_target_mode[dof] = int(newton.JointTargetMode.NONE)
            builder.joint_target_ke[dof] = builder.joint_target_kd[dof] = 0.0
            if drive is not None:
                if drive.driven:
                    builder.joint_target_mode[dof] = int(newton.JointTargetMode.POSITION_VELOCITY)
                    builder.joint_target_ke[dof] = drive.stiffness
                    builder.joint_target_kd[dof] = drive.damping
                if drive.effort_limit is not None:
                    builder.joint_effort_limit[dof] = drive.effort_limit
                if drive.armature is not None:
                    builder.joint_armature[dof] = drive.armature
                if drive.friction is not None:
                    builder.joint_friction[dof] = drive.friction
            if name in desc.joint_pos:
                builder.joint_q[coord] = desc.joint_pos[name]
        return tree

    def _add_rigid_body(self, builder: newton.ModelBuilder, desc: RigidBodyDesc) -> _Tree:
        tree = _Tree(desc.path)
        tree.coord, tree.dof = builder.joint_coord_count, builder.joint_dof_count
        xform = wp.transform(desc.pos, desc.quat)
        if desc.fixed:
            body = builder.add_link(xform=xform, label=desc.path)
            joint = builder.add_joint_fixed(
                parent=-1, child=body, parent_xform=xform, label=f"{desc.path}_joint"
            )
            builder.add_articulation([joint], label=f"{desc.path}_articulation")
        else:
            body = builder.add_body(xform=xform, label=desc.path)
            joint = builder.joint_count - 1
            tree.root_coords, tree.root_dofs = 7, 6
        for i, shape in enumerate(desc.shapes):
            _add_shape(builder, body, shape, f"{desc.path}/{shape.name or i}")
        _refuse_doubles(desc.path, "shape", [shape.name or str(i) for i, shape in enumerate(desc.shapes)])
        if not desc.fixed and builder.body_mass[body] <= 0:
            raise ValueError(f"{desc.path}: its mass is 0; give a shape a mass or a density.")
        tree.bodies, tree.body_names, tree.root_joint = [body], [desc.path.rsplit("/", 1)[-1]], joint
        return tree

    def _collision_pairs(self, template: newton.ModelBuilder) -> list[tuple[int, int]]:
        """All pairs of shapes that may touch, by shape number."""
        movable, welded_to = self._weld_groups(template)
        tree_of = {b: t for t in self._trees.values() for b in t.bodies}
        self_colliding = {a.path for a in self.desc.articulations if a.self_collisions}
        parent = {template.joint_child[j]: template.joint_parent[j] for j in _tree_joints(template)}
        filtered = {tuple(sorted(p)) for p in template.shape_collision_filter_pairs}
        pairs = []
        shapes = [s for s in range(len(self._shape_body)) if self._collides[s]]
        for i, a in enumerate(shapes):
            for b in shapes[i + 1 :]:
                body_a, body_b = self._shape_body[a], self._shape_body[b]
                if not (movable.get(body_a, False) or movable.get(body_b, False)):
                    continue
                if body_a >= 0 and body_b >= 0:
                    if welded_to[body_a] == welded_to[body_b]:
                        continue
                    if tree_of[body_a] is tree_of[body_b]:
                        if tree_of[body_a].path not in self_colliding:
                            continue
                        ga, gb = welded_to[body_a], welded_to[body_b]
                        if welded_to.get(parent[ga], -2) == gb or welded_to.get(parent[gb], -2) == ga:
                            continue
                        if (a - self._n_static, b - self._n_static) in filtered:
                            continue
                pairs.append((a, b))
        return pairs

    def _weld_groups(self, template: newton.ModelBuilder) -> tuple[dict[int, bool], dict[int, int]]:
        """Per body: can it move at all, and the top body of the group it is welded into."""
        movable: dict[int, bool] = {-1: False}
        top: dict[int, int] = {}
        for j in _tree_joints(template):
            child, par = template.joint_child[j], template.joint_parent[j]
            fixed = template.joint_type[j] == newton.JointType.FIXED
            movable[child] = movable[par] if fixed else True
            top[child] = top[par] if fixed and par >= 0 else child
        return movable, top

    def _points(self, a: int, b: int) -> int:
        return _POINTS.get(frozenset((self._kind[a], self._kind[b])), 8)

    def _add_pairs(self, template: newton.ModelBuilder, mu: list[float]) -> None:
        """Rows for the pairs of one environment, their shapes left open: a template knows no static ones."""
        cfg = self.cfg
        solref = wp.vec2(cfg.contact_time_constant, cfg.contact_damping_ratio)
        solref_friction = wp.vec2(cfg.friction_time_constant, cfg.friction_damping_ratio)
        # Midpoint and power of the sigmoid between the two: the solver's own.
        impedance = [*cfg.contact_impedance, 0.5, 2.0]
        rows = [
            {
                "mujoco:pair_world": -1,
                "mujoco:pair_geom1": -1,
                "mujoco:pair_geom2": -1,
                "mujoco:pair_condim": 3,
                "mujoco:pair_solref": solref,
                "mujoco:pair_solreffriction": solref_friction,
                "mujoco:pair_solimp": impedance,
                "mujoco:pair_friction": [0.5 * (mu[a] + mu[b])] * 2 + [0.005, 0.0001, 0.0001],
            }
            for a, b in self._pairs
        ]
        columns = {k: c for k, c in template.custom_attributes.items() if c.frequency == "mujoco:pair"}
        # Pairs that a robot file brings are covered by these, which take over their places; spare ones stay empty.
        taken = max((len(c.values or ()) for c in columns.values()), default=0)
        for key, column in columns.items():
            column.values = [row[key] for row in rows[:taken]] if rows and key in rows[0] else []
            if column.values:
                column.values += [None] * (taken - len(rows))
        for row in rows[taken:]:
            template.add_custom_values(**row)

    def _number_pairs(self, builder: newton.ModelBuilder) -> None:
        """Fill in the shapes of the pairs of all environments."""
        pairs = np.array(self._pairs, dtype=np.int64).reshape(-1, 2)
        for k, key in enumerate(("mujoco:pair_geom1", "mujoco:pair_geom2")):
            rows = len(builder.custom_attributes[key].values or ()) // self.num_envs
            numbers = np.full((self.num_envs, rows), -1, dtype=np.int64)
            shift = np.arange(self.num_envs, dtype=np.int64).reshape(-1, 1) * self._n_shapes
            numbers[:, : len(pairs)] = pairs[:, k] + np.where(pairs[:, k] < self._n_static, 0, shift)
            builder.custom_attributes[key].values = numbers.reshape(-1).tolist()

    def _bind(self) -> None:
        """Tensors over the engine's memory, and the buffers of what it does not keep itself."""
        E, m, dev = self.num_envs, self.model, self.device
        nb, nq, nd = m.body_count // E, m.joint_coord_count // E, m.joint_dof_count // E
        nj = m.joint_count // E
        self._nb, self._nq, self._nd, self._nj = nb, nq, nd, nj
        self._joint_q = wp.to_torch(self._state.joint_q).view(E, nq)
        self._joint_qd = wp.to_torch(self._state.joint_qd).view(E, nd)
        self.body_pose = wp.to_torch(self._state.body_q).view(E, nb, 7)
        self._body_vel_wp = wp.zeros(E * nb, dtype=wp.spatial_vector, device=self._wp_device)  # type: ignore[call-overload]
        self.body_vel = wp.to_torch(self._body_vel_wp).view(E, nb, 6)
        self._qd_before = wp.zeros(E * nd, dtype=float, device=self._wp_device)
        self._qdd = wp.zeros(E * nd, dtype=float, device=self._wp_device)
        qdd = wp.to_torch(self._qdd).view(E, nd)
        body_f = wp.to_torch(self._state.body_f).view(E, nb, 6)
        target_q = wp.to_torch(self._control.joint_target_q).view(E, nq)
        target_qd = wp.to_torch(self._control.joint_target_qd).view(E, nd)
        joint_f = wp.to_torch(self._control.joint_f).view(E, nd)
        ke = wp.to_torch(m.joint_target_ke).view(E, nd)
        kd = wp.to_torch(m.joint_target_kd).view(E, nd)
        self._mass = wp.to_torch(m.body_mass).view(E, nb)
        self._inv_mass = wp.to_torch(m.body_inv_mass).view(E, nb)
        self._inertia = wp.to_torch(m.body_inertia).view(E, nb, 3, 3)
        self._inv_inertia = wp.to_torch(m.body_inv_inertia).view(E, nb, 3, 3)
        self._mass0, self._inertia0 = self._mass.clone(), self._inertia.clone()
        self._inv_inertia0 = self._inv_inertia.clone()
        com = wp.to_torch(m.body_com).view(E, nb, 3)
        self._joint_X_p = wp.to_torch(m.joint_X_p).view(E, nj, 7)
        self._joint_X_c = wp.to_torch(m.joint_X_c).view(E, nj, 7)
        n_shapes = len(self._shape_body)
        self._shape_friction = torch.as_tensor(self._shape_friction_np, device=dev).repeat(E, 1).contiguous()
        self._shape_friction_wp = wp.from_torch(self._shape_friction)
        lower, upper = m.joint_limit_lower.numpy(), m.joint_limit_upper.numpy()
        effort, velocity = m.joint_effort_limit.numpy(), m.joint_velocity_limit.numpy()
        q_start, qd_start = m.joint_q_start.numpy(), m.joint_qd_start.numpy()
        q0 = m.joint_q.numpy()
        for path, t in self._trees.items():
            bodies = slice(t.bodies[0], t.bodies[-1] + 1)
            coords = [int(q_start[j]) for j in t.joints]
            dofs = [int(qd_start[j]) for j in t.joints]
            if coords != list(range(t.coord + t.root_coords, t.coord + t.root_coords + len(coords))):
                raise ValueError(f"{path}: its joints do not follow one another in the engine's order.")
            qs = slice(t.coord + t.root_coords, t.coord + t.root_coords + len(coords))
            ds = slice(t.dof + t.root_dofs, t.dof + t.root_dofs + len(dofs))
            shapes = [
                [s for s in range(self._n_static, n_shapes) if self._shape_body[s] == b] for b in t.bodies
            ]
            friction = torch.zeros(E, len(t.bodies), device=dev)
            for k, ids in enumerate(shapes):
                friction[:, k] = float(self._shape_friction_np[ids[0]]) if ids else 0.0
            # For scattering a body's coefficient to its shapes: shape number and body column.
            pairs_sb = [(s, k) for k, ids in enumerate(shapes) for s in ids]
            t.friction_shapes = torch.tensor([p[0] for p in pairs_sb], dtype=torch.long, device=dev)  # type: ignore[attr-defined]
            t.friction_bodies = torch.tensor([p[1] for p in pairs_sb], dtype=torch.long, device=dev)  # type: ignore[attr-defined]

            def row(a: np.ndarray, dofs: list[int] = dofs) -> torch.Tensor:
                return torch.tensor(a[dofs].astype(np.float32), device=dev)

            self.trees[path] = TreeState(
                path=path,
                body_names=t.body_names,
                joint_names=t.joint_names,
                body_slice=bodies,
                fixed_base=t.root_coords == 0,
                joint_pos=self._joint_q[:, qs],
                joint_vel=self._joint_qd[:, ds],
                joint_acc=qdd[:, ds],
                joint_pos_target=target_q[:, qs],
                joint_vel_target=target_qd[:, ds],
                joint_effort=joint_f[:, ds],
                external_force=body_f[:, bodies, :3],
                external_torque=body_f[:, bodies, 3:],
                stiffness=ke[:, ds],
                damping=kd[:, ds],
                body_mass=self._mass[:, bodies],
                body_friction=friction,
                joint_pos_limits=torch.stack((row(lower), row(upper)), dim=-1).view(-1, 2),
                effort_limits=row(effort),
                velocity_limits=row(velocity),
                default_joint_pos=torch.tensor(q0[coords].astype(np.float32), device=dev),
                body_com=com[0, bodies],
            )
            is_articulation = any(a.path == path for a in self.desc.articulations)
            self.body_paths += [f"{path}/{n}" for n in t.body_names] if is_articulation else [path]
            self.body_tree_paths += [f"{path}/{p}" for p in t.tree_names] if is_articulation else [path]
        self._all = torch.ones(E, dtype=torch.bool, device=dev)
        self._world_mask = torch.zeros(E + 1, dtype=torch.bool, device=dev)
        self._world_mask_wp = wp.from_torch(self._world_mask)
        self._dirty_mask = torch.zeros(E, dtype=torch.bool, device=dev)
        self._dirty_mask_wp = wp.from_torch(self._dirty_mask)
        self._tree_mask = wp.zeros(m.articulation_count, dtype=wp.bool, device=self._wp_device)
        self._trees_per_world = m.articulation_count // E
        self.stale = False
        self._overflow_seen = wp.zeros(E, dtype=int, device=self._wp_device)
        self._overflow_most = wp.zeros(3, dtype=int, device=self._wp_device)
        #: On the CPU a live view.
        self._overflow_view = self._overflow_most.numpy() if self.device.type == "cpu" else None
        self._stepped = torch.zeros(E, dtype=torch.bool, device=dev)
        self._stepped_wp = wp.from_torch(self._stepped)
        self.step_count = torch.zeros(1, dtype=torch.int32, device=dev)
        self._steps_wp = wp.from_torch(self.step_count)
        self.shape_paths = [
            self._shape_path(s)
            for s in range(self._n_static, n_shapes)
            if self._collides[s] and self._shape_body[s] >= 0
        ]

    def _shape_path(self, s: int) -> str:
        """``<body path>/<shape name>`` of a shape by number."""
        if s < self._n_static:
            return self.static_shape_paths[s]
        body, name = self._shape_body[s], self._shape_names[s - self._n_static]
        # A robot file may hold immovable geometry, which belongs to no body.
        return f"{self.body_paths[body]}/{name}" if body >= 0 else f"/World/{name}"

    # ------------------------------------------------------------------ readers
    def add_contact_reader(self, query: ContactQuery) -> ContactReader:
        if self._started:
            raise RuntimeError("Contact readers are added before the engine starts.")
        E, S, F = self.num_envs, len(query.bodies), len(query.filters)
        empty = torch.zeros(E, S, 3, device=self.device)
        matrix = torch.zeros(E, S, F, 3, device=self.device) if F else None
        points = torch.zeros(E, S, F, 4, device=self.device) if F and query.points else None
        # The tensors are exchanged for slices of the shared buffers when the engine starts.
        reader = ContactReader(query, empty, empty, matrix, matrix, points)
        self._queries.append((query, reader))
        return reader

    def add_joint_wrench_reader(self, path: str) -> JointWrenchReader:
        if self._started:
            raise RuntimeError("Joint wrench readers are added before the engine starts.")
        t = self._trees[path]
        kinds, child = self._template.joint_type, self._template.joint_child
        joints = [
            j
            for j in _tree_joints(self._template)
            if child[j] in t.bodies
            and kinds[j] != newton.JointType.FREE
            and not (kinds[j] == newton.JointType.FIXED and self._template.joint_parent[j] < 0)
        ]
        if not joints:
            raise RuntimeError(
                f"{path}: no joint to report. The engine reports the child body of every joint except free "
                "joints and welds to the world, and this one has no other joint."
            )
        joints.sort(key=lambda j: child[j])
        names = [t.body_names[child[j] - t.bodies[0]] for j in joints]
        shape = (self.num_envs, len(joints), 3)
        reader = JointWrenchReader(
            names,
            torch.zeros(shape, device=self.device),
            torch.zeros(shape, device=self.device),
            self._joint_X_c[0, joints].clone(),
            torch.zeros((*shape[:2], 4), device=self.device),
        )
        self._wrench_readers.append((joints, reader))
        return reader

    def _setup_contacts(self) -> None:
        """Maps from the solver's geoms to the rows and columns of every query."""
        E, dev = self.num_envs, self._wp_device
        geom_to_shape = self.solver.mjc_geom_to_newton_shape.numpy()[0]
        n_geom = len(geom_to_shape)
        number = {}  # shape number → geom
        for g, s in enumerate(geom_to_shape):
            if s >= 0:
                number[int(s)] = g  # world 0: statics first, then its own shapes
        by_path: dict[str, list[int]] = {}
        for path, s in self._static_shapes:
            by_path.setdefault(path, []).append(s)
            by_path[self._shape_path(s)] = [s]
        for s in range(self._n_static, len(self._shape_body)):
            if self._shape_body[s] >= 0:
                by_path.setdefault(self.body_paths[self._shape_body[s]], []).append(s)
                by_path[self._shape_path(s)] = [s]
        sense: list[list[tuple[int, int, int]]] = [[] for _ in range(n_geom)]
        partner: list[list[tuple[int, int]]] = [[] for _ in range(n_geom)]
        # Offsets of every query in the buffers of net forces, matrices and points.
        nets, matrices, points = [], [], []
        net = matrix = point = 0
        for q, (query, _) in enumerate(self._queries):
            nets.append(net)
            matrices.append(matrix)
            points.append(point if query.points else -1)
            cells = E * len(query.bodies)
            net += cells
            matrix += cells * len(query.filters)
            point += cells * len(query.filters) * query.points
            for r, path in enumerate(query.bodies):
                for s in by_path.get(path, []):
                    if s in number:
                        sense[number[s]].append((q, r, self._shape_body[s]))
            for c, paths in enumerate(query.filters):
                for path in paths:
                    for s in by_path.get(path, []):
                        if s in number:
                            partner[number[s]].append((q, c))

        def ints(values: Any) -> wp.array:
            return wp.array(np.array(values, dtype=np.int32), dtype=int, device=dev)

        def csr(lists: list[list[Any]], width: int) -> list[wp.array]:
            start = np.cumsum([0] + [len(x) for x in lists])
            flat = np.array([e for x in lists for e in x], dtype=np.int32).reshape(-1, width)
            return [ints(start), *(ints(flat[:, k]) for k in range(width))]

        self._sense, self._partner = csr(sense, 3), csr(partner, 2)
        queries = [query for query, _ in self._queries]
        self._layout = [
            ints([len(q.bodies) for q in queries]),
            ints([len(q.filters) for q in queries]),
            ints(nets),
            ints(matrices),
            ints(points),
            wp.array(
                np.array([q.origin for q in queries], dtype=np.float32).reshape(-1, 3),
                dtype=wp.vec3,
                device=dev,
            ),
            wp.array(np.array([q.radius for q in queries], dtype=np.float32), dtype=float, device=dev),
        ]
        # All outputs are parts of one buffer, cleared by one launch.
        sizes = [4 * max(point, 1), *[3 * max(net, 1)] * 2, *[3 * max(matrix, 1)] * 2]
        everything = torch.zeros(sum(sizes), device=self.device)
        self._contact_out = wp.from_torch(everything)
        point_out, *forces = torch.split(everything, sizes)
        self._contact_parts = [
            *(wp.from_torch(part.view(-1, 3), dtype=wp.vec3) for part in forces),
            wp.from_torch(point_out.view(-1, 4), dtype=wp.vec4),
        ]
        normal, friction, normal_m, friction_m = (part.view(-1, 3) for part in forces)
        for q, (query, reader) in enumerate(self._queries):
            S, F = len(query.bodies), len(query.filters)
            at = slice(nets[q], nets[q] + E * S)
            reader.normal, reader.friction = normal[at].view(E, S, 3), friction[at].view(E, S, 3)
            if F:
                at = slice(matrices[q], matrices[q] + E * S * F)
                reader.normal_matrix = normal_m[at].view(E, S, F, 3)
                reader.friction_matrix = friction_m[at].view(E, S, F, 3)
                if query.points:
                    at = slice(points[q], points[q] + E * S * F)
                    reader.points = point_out.view(-1, 4)[at].view(E, S, F, 4)

    def raw_contacts(self, path: str, env: int) -> np.ndarray:
        body = self.body_paths.index(path)
        found = np.zeros(0, dtype=RAW_CONTACT)
        if not self._started or not bool(self._stepped[env]):
            return found
        data = self.solver.mjw_data
        contact = data.contact
        count = min(int(data.nacon.numpy()[0]), self._contact_pool)
        shape_of = self.solver.mjc_geom_to_newton_shape.numpy()[0]
        geom = contact.geom.numpy()[:count]
        row = contact.efc_address.numpy()[:count]
        body_of = np.array([self._shape_body[s] if s >= 0 else -2 for s in shape_of])
        mine = (contact.worldid.numpy()[:count] == env) & (row[:, 0] >= 0) & (geom >= 0).all(-1)
        mine[mine] = (body_of[geom[mine]] == body).any(-1)
        index = np.flatnonzero(mine)
        force = data.efc.force.numpy()[env]
        dim, position, frame = contact.dim.numpy(), contact.pos.numpy(), contact.frame.numpy()
        names = [self._shape_path(s).rsplit("/", 1)[0] if s >= 0 else "" for s in shape_of]
        scope = ENV_NAMESPACE.format(env)
        time = float(self.step_count[0]) * self.dt
        rows = []
        for i in index:
            edges = 1 if dim[i] == 1 or self.cfg.cone == "elliptic" else 2 * (dim[i] - 1)
            address = row[i, :edges]
            normal_force = float(force[address[(address >= 0) & (address < len(force))]].sum())
            if normal_force <= 0.0:
                continue
            g = geom[i]
            side = int(body_of[g[1]] == body)
            # The contact normal points from geom 0 to geom 1.
            normal = np.asarray(frame[i, 0], dtype=float) * (1.0 if side else -1.0)
            pair = [n if n.startswith("/") else f"{scope}/{n}" for n in (names[g[side]], names[g[1 - side]])]
            rows.append((time, self.dt, *pair, position[i], normal, normal * normal_force * self.dt))
        return np.array(rows, dtype=RAW_CONTACT) if rows else found

    def describe(self) -> str:
        why = ""
        if self.cfg.integrator == "auto":
            why = (
                ", since joint wrenches or accelerations are read"
                if self.integrator == "discrete"
                else ", the fastest, since no joint wrench and no acceleration is read"
            )
        return (
            f"newton {newton.__version__} (MuJoCo solver), dt {self.dt:g} s, integrator {self.integrator}{why}; "
            f"room for {self.contact_capacity} contacts and {self.constraint_capacity} constraint rows per environment"
        )

    def _setup_wrenches(self) -> None:
        """What the kernels need; and whether the wrenches can be summed here, which takes few launches.

        Forces of equality constraints, tendons and soft bodies are known to the solver alone: then it computes the
        wrenches in its own way, in many small launches.
        """
        dev, model = self._wp_device, self.solver.mj_model
        numbers = self.solver.mjc_body_to_newton.numpy()[0].tolist()
        here = {body: b for b, body in enumerate(numbers) if body >= 0}
        children = [self._template.joint_child[j] for joints, _ in self._wrench_readers for j in joints]
        summed = (
            self.sums_wrenches
            and not model.eq_active0.any()
            and model.ntendon == 0
            and model.nflex == 0
            and all(c in here for c in children)
        )
        if summed:
            self._loads = wp.zeros((self.num_envs, model.nbody), dtype=wp.spatial_vector, device=dev)  # type: ignore[call-overload]
        else:
            self._observables = self.solver.observables({"body_parent_f"})
            self._needs_pose_before = True
        carried: list[list[int]] = [[b] for b in range(model.nbody)]
        for b in range(model.nbody - 1, 0, -1):
            carried[model.body_parentid[b]] += carried[b]
        frames = wp.to_torch(self.model.joint_X_c).view(self.num_envs, self._nj, 7)

        def ints(values: Any) -> wp.array:
            return wp.array(np.array(values, dtype=np.int32), dtype=int, device=dev)

        for joints, reader in self._wrench_readers:
            child = [self._template.joint_child[j] for j in joints]
            below = [carried[here[c]] if summed else [] for c in child]
            self._wrench_joints.append(
                _WrenchJoints(
                    body=ints(child),
                    solver_body=ints([here.get(c, -1) for c in child]),
                    carried_start=ints(np.cumsum([0] + [len(x) for x in below])),
                    carried=ints([b for x in below for b in x]),
                    frames=wp.from_torch(frames[:, joints].contiguous(), dtype=wp.transform),
                    force=wp.from_torch(reader.force, dtype=wp.vec3),
                    torque=wp.from_torch(reader.torque, dtype=wp.vec3),
                    quat=wp.from_torch(reader.quat, dtype=wp.quat),
                )
            )

    def start(self) -> None:
        if self._started:
            return
        self._started = True
        with compilation_progress(), wp.ScopedDevice(self._wp_device), _REPLAY_LOCK:
            self._create_solver()
            self._pose_before = wp.zeros_like(self._state.body_q)
            self._needs_pose_before = any(q.radius > 0 for q, _ in self._queries)
            self._observables = None
            self._setup_contacts()
            if self._wrench_readers:
                self._setup_wrenches()
            self._tree_mask.fill_(True)
            self._forward()
            self._launch_step: Callable[[], None] | None = None
            self._launch_kinematics = self.compile(self._kinematics)
            self._restore_defaults()

    def _restore_defaults(self) -> None:
        """The pose of the build, with nothing left of warm-up steps."""
        with self.stream():
            wp.copy(self._state.joint_q, self.model.joint_q)
            wp.copy(self._state.joint_qd, self.model.joint_qd)
            for a in (self._state.body_f, self._control.joint_f, self._qdd, self._qd_before):
                a.zero_()
            wp.copy(self._control.joint_target_q, self.model.joint_q)
            self._control.joint_target_qd.zero_()
            self._contact_out.zero_()
            for _, reader in self._wrench_readers:
                reader.force.zero_()
                reader.torque.zero_()
            self._tree_mask.fill_(True)
            self._forward()
            self._overflow_seen.zero_()
            self._overflow_most.zero_()
            self._steps_wp.zero_()
        self.reset()

    # ------------------------------------------------------------------ stepping
    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Launch Warp work on torch's current stream, so that both see one order."""
        if self.device.type == "cpu":
            with _REPLAY_LOCK:
                yield
            return
        with wp.ScopedStream(_warp_stream(self.device), sync_enter=False, sync_exit=False):
            yield

    @contextlib.contextmanager
    def join_capture(self) -> Iterator[None]:
        # Made anew: somebody else's short-lived wrapper of this stream may have taken it off Warp's register.
        stream = _warp_stream(self.device, anew=True)
        with wp.ScopedStream(stream, sync_enter=False, sync_exit=False):
            wp.capture_begin(stream=stream, external=True)
            try:
                yield
            finally:
                wp.capture_end(stream=stream)

    def compile(self, function: Callable[[], None]) -> Callable[[], None]:
        if not self.cfg.capture:

            def launch() -> None:
                with self.stream(), _REPLAY_LOCK:
                    function()

            return launch
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        with compilation_progress(), wp.ScopedDevice(self._wp_device), _REPLAY_LOCK:
            kept = [(a, wp.clone(a)) for a in self._moving_arrays()]
            function()  # loads kernel modules and allocates what is allocated once
            function()
            wp.synchronize_device(self._wp_device)
            with wp.ScopedCapture(device=self._wp_device) as capture:
                function()
            for array, before in kept:
                wp.copy(array, before)
            wp.synchronize_device(self._wp_device)
        graph = capture.graph
        self._graphs.append(graph)
        if self.device.type == "cpu":

            def replay() -> None:
                with _REPLAY_LOCK:
                    wp.capture_launch(graph)

        else:

            def replay() -> None:
                if torch.cuda.is_current_stream_capturing():
                    # A graph that is being recorded takes in the work itself.
                    with self.stream():
                        function()
                else:
                    wp.capture_launch(graph, stream=_warp_stream(self.device))

        return replay

    def _moving_arrays(self) -> list[wp.array]:
        """What a step changes and the next one depends on."""
        s, data = self._state, self.solver.mjw_data
        return [
            s.joint_q,
            s.joint_qd,
            s.body_q,
            s.body_qd,
            data.qacc_warmstart,
            self._qdd,
            self._body_vel_wp,
            self._overflow_seen,
            self._overflow_most,
            self._stepped_wp,
            self._steps_wp,
        ]

    def launch_step(self) -> None:
        """The Warp work of one step, for functions given to :meth:`compile`."""
        self._step()

    def _step(self) -> None:
        state, solver = self._state, self.solver
        wp.copy(self._qd_before, state.joint_qd)
        if self._needs_pose_before:
            # What the solver reports belongs to the pose at the start of the step.
            wp.copy(self._pose_before, state.body_q)
        solver.step(state, state, self._control, None, self.dt, observables=self._observables)
        data = solver.mjw_data
        lanes = max(self._nb, self._nd)
        wp.launch(
            kernels.end_of_step,
            dim=(self.num_envs, lanes),
            inputs=[
                self.num_envs,
                lanes,
                data.overflow,
                data.nacon,
                data.nefc,
                self._nb,
                state.body_q,
                state.body_qd,
                self.model.body_com,
                self._nd,
                state.joint_qd,
                self._qd_before,
                1.0 / self.dt,
            ],
            outputs=[
                self._overflow_seen,
                self._overflow_most,
                self._stepped_wp,
                self._steps_wp,
                self._body_vel_wp,
                self._qdd,
                self._contact_out,
            ],
            device=self._wp_device,
        )
        if self._loads is not None:
            self._launch_loads(self._loads)
        if self._queries or self._loads is not None:
            contact = data.contact
            wp.launch(
                kernels.contact_forces,
                dim=data.naconmax,
                inputs=[
                    data.nacon,
                    contact.pos,
                    contact.frame,
                    contact.friction,
                    contact.dim,
                    contact.efc_address,
                    contact.worldid,
                    contact.geom,
                    data.efc.force,
                    data.njmax,
                    int(self.cfg.cone == "elliptic"),
                    self._pose_before.reshape((self.num_envs, self._nb)),
                    *self._sense,
                    *self._partner,
                    *self._layout,
                    solver.mjw_model.geom_bodyid,
                    solver.mjw_model.body_rootid,
                    data.subtree_com,
                ],
                outputs=[*self._contact_parts, self._loads],
                device=self._wp_device,
            )
        for joints in self._wrench_joints:
            self._launch_wrenches(joints)

    def _launch_loads(self, loads: wp.array) -> None:
        model, data = self.solver.mjw_model, self.solver.mjw_data
        wp.launch(
            kernels.body_loads,
            dim=loads.shape,
            inputs=[
                model.body_parentid,
                model.body_rootid,
                model.body_dofnum,
                model.body_dofadr,
                data.cacc,
                data.cdof,
                data.qacc,
                data.cinert,
                data.cvel,
                data.xfrc_applied,
                data.xipos,
                data.subtree_com,
            ],
            outputs=[loads],
            device=self._wp_device,
        )

    def _launch_wrenches(self, joints: _WrenchJoints) -> None:
        if self._loads is None:
            wp.launch(
                kernels.joint_wrenches,
                dim=joints.force.shape,
                inputs=[
                    self._nb,
                    joints.body,
                    joints.frames,
                    self._pose_before,
                    self.model.body_com,
                    self._observables.body_parent_f,
                ],
                outputs=[joints.force, joints.torque, joints.quat],
                device=self._wp_device,
            )
            return
        data = self.solver.mjw_data
        wp.launch(
            kernels.summed_joint_wrenches,
            dim=joints.force.shape,
            inputs=[
                joints.solver_body,
                joints.carried_start,
                joints.carried,
                self.solver.mjw_model.body_rootid,
                self._loads,
                data.subtree_com,
                data.xpos,
                data.xquat,
                joints.frames,
            ],
            outputs=[joints.force, joints.torque, joints.quat],
            device=self._wp_device,
        )

    def _publish(self) -> None:
        wp.launch(
            kernels.publish_bodies,
            dim=self._body_vel_wp.shape[0],
            inputs=[self._state.body_q, self._state.body_qd, self.model.body_com],
            outputs=[self._body_vel_wp],
            device=self._wp_device,
        )

    def _forward(self) -> None:
        newton.eval_fk(
            self.model, self._state.joint_q, self._state.joint_qd, self._state, mask=self._tree_mask
        )
        self._publish()

    def _kinematics(self) -> None:
        wp.launch(
            kernels.expand_mask,
            dim=self._tree_mask.shape[0],
            inputs=[self._dirty_mask_wp, self._trees_per_world],
            outputs=[self._tree_mask],
            device=self._wp_device,
        )
        self._forward()
        self._dirty_mask_wp.zero_()

    def step(self) -> None:
        if self._launch_step is None:
            self._launch_step = self.compile(self._step)
        self._launch_step()
        self.mark_stepped()

    def mark_stepped(self) -> None:
        """After a compiled function that contained :meth:`launch_step`: kinematics are current."""
        if self.stale:
            self.stale = False
            self._dirty_mask.zero_()

    def update_kinematics(self) -> None:
        if self.stale:
            self.stale = False
            self._launch_kinematics()

    # ------------------------------------------------------------------ writes
    def _mask(self, env_mask: torch.Tensor | None) -> torch.Tensor:
        return self._all if env_mask is None else env_mask

    def _touch(self, mask: torch.Tensor) -> None:
        self._dirty_mask |= mask
        self.stale = True

    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        mask = self._mask(env_mask)
        self._world_mask[:-1] = mask
        self._stepped.masked_fill_(mask, False)
        with self.stream(), _REPLAY_LOCK:
            self.solver.reset(self._state, self._world_mask_wp, 0)

    def write_root_pose(self, path: str, pose: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        t, mask = self._trees[path], self._mask(env_mask)
        if t.root_coords:
            inputs = [mask, pose, self._nq, t.coord, self._state.joint_q, self._dirty_mask]
            self._write(kernels.write_root_pose, inputs)
            return
        # The frame on the world's side of the joint that puts the body there at joint position zero.
        view = self._joint_X_p[:, t.root_joint]
        child = self._joint_X_c[:, t.root_joint]
        pose = torch.cat(
            (pose[:, :3] + quat_apply(pose[:, 3:], child[:, :3]), quat_mul(pose[:, 3:], child[:, 3:])),
            dim=-1,
        )
        view.copy_(torch.where(mask.unsqueeze(-1), pose, view))
        with self.stream(), _REPLAY_LOCK:
            self.solver.notify_model_changed(newton.ModelFlags.JOINT_PROPERTIES)
        self._touch(mask)

    def _write(self, kernel: Any, inputs: Sequence[Any]) -> None:
        """Write coordinates of the masked environments, whose bodies are then out of date."""
        launch(self, kernel, self.num_envs, inputs)
        self.stale = True

    def write_root_velocity(self, path: str, vel: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        t, mask = self._trees[path], self._mask(env_mask)
        if not t.root_coords:
            raise ValueError(f"{path} is fixed to the world; it has no root velocity to write.")
        vel = torch.as_tensor(vel, dtype=torch.float32, device=self.device).expand(self.num_envs, 6)
        self._write(
            kernels.write_root_velocity,
            [
                mask,
                vel,
                self._nq,
                self._nd,
                t.coord,
                t.dof,
                self.model.body_com,
                self._nb,
                t.bodies[0],
                self._state.joint_q,
                self._state.joint_qd,
                self._dirty_mask,
            ],
        )

    def write_joint_state(
        self, path: str, pos: torch.Tensor, vel: torch.Tensor, env_mask: torch.Tensor | None = None
    ) -> None:
        state, mask = self.trees[path], self._mask(env_mask)
        inputs = [mask, pos, vel, state.joint_pos, state.joint_vel, state.joint_acc]
        self._write(kernels.write_joint_state, [*inputs, self._dirty_mask])

    def notify_gains(self, path: str) -> None:
        with self.stream(), _REPLAY_LOCK:
            self.solver.notify_model_changed(newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES)

    def write_body_mass(self, path: str, mass: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        s = self.trees[path].body_slice
        m = self._mask(env_mask).unsqueeze(-1)
        new = torch.where(m, mass, self._mass[:, s])
        self._mass[:, s] = new
        # Bodies without mass, such as frames welded to others, stay without.
        self._inv_mass[:, s] = torch.where(new > 0, 1.0 / new, 0.0)
        scale = torch.where(self._mass0[:, s] > 0, new / self._mass0[:, s], 1.0).view(self.num_envs, -1, 1, 1)
        self._inertia[:, s] = self._inertia0[:, s] * scale
        self._inv_inertia[:, s] = self._inv_inertia0[:, s] / scale
        with self.stream(), _REPLAY_LOCK:
            self.solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)

    def write_friction(self, path: str, friction: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        t, state = self._trees[path], self.trees[path]
        m = self._mask(env_mask).unsqueeze(-1)
        state.body_friction.copy_(torch.where(m, friction, state.body_friction))
        self._shape_friction[:, t.friction_shapes] = state.body_friction[:, t.friction_bodies]  # type: ignore[attr-defined]
        self._mix_friction()

    def solver_memory(self) -> dict[str, torch.Tensor]:
        return {"warm_start": wp.to_torch(self.solver.mjw_data.qacc_warmstart)}

    # ------------------------------------------------------------------ health
    def overflowed(self) -> bool:
        most = self._overflow_view
        return most is not None and (
            most[0] > self._contact_pool or most[1] > self.constraint_capacity or most[2] != 0
        )

    def overflow(self) -> str | None:
        seen = self._overflow_seen.numpy() & int(kernels.LOST_CONTACTS)
        hit = np.flatnonzero(seen)
        contacts, rows = (int(v) for v in self._overflow_most.numpy()[:2])
        pool = self._contact_pool
        if hit.size == 0 and contacts <= pool:
            return None
        bits = int(np.bitwise_or.reduce(seen)) if hit.size else 0
        self._overflow_seen.zero_()
        self._overflow_most.zero_()
        listed = ", ".join(str(int(h)) for h in hit[:8]) + (" …" if hit.size > 8 else "")
        where = f"in {hit.size} of {self.num_envs} environments" + (f" ({listed})" if hit.size else "")
        need = [
            f"The scene ran out of contact or constraint capacity {where}; contacts were lost there, and forces are "
            "wrong until it is raised."
        ]
        if contacts > pool:
            per_env = -(-contacts // self.num_envs)
            need.append(
                f"physics.contact_capacity: {self.contact_capacity} per environment, needed {per_env}."
            )
        if rows > self.constraint_capacity:
            need.append(f"physics.constraint_capacity: {self.constraint_capacity}, needed {rows}.")
        if len(need) == 1:
            need.append(
                f"Raise physics.contact_capacity (now {self.contact_capacity}) or physics.constraint_capacity "
                f"(now {self.constraint_capacity}); engine flags {bits:#x}."
            )
        return " ".join(need)

    def visual_shapes(self) -> list[VisualShape]:
        shapes = []
        builder = self._template
        static = [
            (None, s, shape, _compose(d.pos, d.quat, shape))
            for d in self.desc.statics
            for s, shape in enumerate(d.shapes)
        ]
        for _, _, raw, placed in static:
            mesh = raw.kind in ("mesh", "heightfield")
            size = tuple(v / 2 for v in raw.size) if raw.kind == "box" else raw.size
            if raw.kind in ("capsule", "cylinder"):
                size = (raw.size[0], raw.size[1] / 2)
            shapes.append(
                VisualShape(
                    None,
                    "mesh" if mesh else raw.kind,
                    () if mesh else size,
                    placed.pos,
                    placed.quat,
                    raw.rgba or _DEFAULT_COLOR,
                    raw.vertices,
                    raw.faces,
                )
            )
        for s in range(builder.shape_count):
            if builder.shape_flags[s] & newton.ShapeFlags.SITE:
                continue
            kind = _KINDS.get(newton.GeoType(builder.shape_type[s]))
            if kind is None:
                continue
            scale = tuple(float(v) for v in builder.shape_scale[s])
            size = {"box": scale, "sphere": scale[:1], "mesh": scale}.get(kind, scale[:2])
            xform = wp.transform(*builder.shape_transform[s])
            color = builder.shape_color[s]
            rgba = (
                (float(color[0]), float(color[1]), float(color[2]), 1.0)
                if color is not None
                else _DEFAULT_COLOR
            )
            source = builder.shape_source[s] if kind == "mesh" else None
            shapes.append(
                VisualShape(
                    self.body_paths[builder.shape_body[s]] if builder.shape_body[s] >= 0 else None,
                    kind,
                    size,
                    tuple(float(v) for v in xform.p),  # type: ignore[arg-type]
                    tuple(float(v) for v in xform.q),  # type: ignore[arg-type]
                    rgba,
                    None if source is None else np.asarray(source.vertices) * np.asarray(scale),
                    None if source is None else np.asarray(source.indices).reshape(-1, 3),
                    self._shape_path(self._n_static + s) if builder.shape_body[s] >= 0 else None,
                )
            )
        return shapes

    def close(self) -> None:
        self._graphs.clear()
        self._launch_step = self._launch_kinematics = _closed
        self.solver = _ClosedSolver()  # type: ignore[assignment]


def _closed() -> None:
    raise RuntimeError("This scene is closed.")


class _ClosedSolver:
    """In place of the solver once the engine is closed."""

    def __getattr__(self, name: str) -> object:
        _closed()
        raise AttributeError(name)


def _compose(pos: tuple[float, ...], quat: tuple[float, ...], shape: ShapeDesc) -> ShapeDesc:
    """A shape of a posed static in world coordinates."""
    from dataclasses import replace

    world = wp.transform(pos, quat) * wp.transform(shape.pos, shape.quat)
    return replace(shape, pos=tuple(world.p), quat=tuple(world.q))


def _tree_joints(builder: newton.ModelBuilder, first: int = 0) -> list[int]:
    """Joints of the trees from number ``first`` on; those that close loops belong to no tree."""
    return [j for j in range(first, builder.joint_count) if builder.joint_articulation[j] >= 0]


def _refuse_massless(builder: newton.ModelBuilder, desc: ArticulationDesc, body0: int, joint0: int) -> None:
    """Raise if something that a joint moves weighs nothing, welded bodies included."""
    mass = {b: float(builder.body_mass[b]) for b in range(body0, builder.body_count)}
    moved = {}
    for j in reversed(_tree_joints(builder, joint0)):
        child, parent = builder.joint_child[j], builder.joint_parent[j]
        if builder.joint_type[j] == newton.JointType.FIXED:
            if parent in mass:
                mass[parent] += mass[child]
        else:
            moved[child] = builder.joint_label[j].rsplit("/", 1)[-1]
    for child, joint in moved.items():
        if not mass[child] > 0:
            name = builder.body_label[child].rsplit("/", 1)[-1]
            raise ValueError(
                f"{desc.path}: body {name!r} in {desc.mjcf!r} moves (joint {joint!r}) but has no mass; give it a geom "
                "with a mass, or an <inertial>."
            )


def _shape_names(builder: newton.ModelBuilder) -> list[str]:
    """Names of all shapes. Unnamed ones that can touch have their number among those of their body.

    Shapes for show are not counted: the reader of files puts them first, wherever they stand.
    """
    names = [label.rsplit("/", 1)[-1] for label in builder.shape_label]
    taken = set(zip(builder.shape_body, names))
    counts = dict[int, int]()
    for s, body in enumerate(builder.shape_body):
        if not builder.shape_flags[s] & newton.ShapeFlags.COLLIDE_SHAPES:
            continue
        number = counts[body] = counts.get(body, -1) + 1
        owner = builder.body_label[body].rsplit("/", 1)[-1] if body >= 0 else "world"
        if re.fullmatch(rf"{re.escape(owner)}_geom_\d+", names[s]):
            # A file may also call a shape by a number.
            while (body, str(number)) in taken:
                number += 1
            names[s] = str(number)
            taken.add((body, names[s]))
    return names


def _refuse_doubles(path: str, what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{path}: two {what} names are {name!r}; give every {what} its own name.")
        seen.add(name)


def load_mjcf(desc: ArticulationDesc) -> MjcfModel:
    """Read a robot file into a neutral tree, for engines that have no MJCF importer of their own."""
    builder = _new_builder((0.0, 0.0, 0.0))
    tree = NewtonEngine._add_articulation(builder, desc)
    kinds = {
        newton.JointType.FREE: "free",
        newton.JointType.FIXED: "fixed",
        newton.JointType.REVOLUTE: "hinge",
        newton.JointType.PRISMATIC: "slide",
    }

    def frame(xform: wp.transform) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return tuple(float(v) for v in xform.p), tuple(float(v) for v in xform.q)

    world = [s for s, body in enumerate(builder.shape_body) if body < 0]
    if any(builder.shape_flags[s] & newton.ShapeFlags.COLLIDE_SHAPES for s in world):
        names = ", ".join(builder.shape_label[s].rsplit("/", 1)[-1] for s in world)
        raise ValueError(
            f"{desc.path}: {desc.mjcf!r} holds geometry of the world itself ({names}), which only the 'newton' engine "
            "takes over; make it a PlaneCfg or a fixed RigidObjectCfg of the scene."
        )
    if len(_tree_joints(builder)) < builder.joint_count:
        raise ValueError(
            f"{desc.path}: {desc.mjcf!r} closes a loop (<equality>), which only the 'newton' engine supports."
        )
    joints = []
    for j in range(builder.joint_count):
        kind = kinds[newton.JointType(builder.joint_type[j])]
        joint = MjcfJoint(
            name=builder.joint_label[j].rsplit("/", 1)[-1],
            type=kind,
            parent=builder.joint_parent[j],
            child=builder.joint_child[j],
            parent_pose=frame(builder.joint_X_p[j]),
            child_pose=frame(builder.joint_X_c[j]),
        )
        if kind in ("hinge", "slide"):
            dof = builder.joint_qd_start[j]
            joint.axis = tuple(float(v) for v in builder.joint_axis[dof])  # type: ignore[assignment]
            joint.limits = (float(builder.joint_limit_lower[dof]), float(builder.joint_limit_upper[dof]))
            joint.armature = float(builder.joint_armature[dof])
            joint.friction = float(builder.joint_friction[dof])
            joint.damping = float(builder.joint_damping[dof])
            joint.stiffness = float(builder.joint_stiffness[dof])
            joint.effort_limit = float(builder.joint_effort_limit[dof])
            joint.velocity_limit = float(builder.joint_velocity_limit[dof])
            joint.default_pos = float(builder.joint_q[builder.joint_q_start[j]])
        joints.append(joint)
    parent = {joint.child: joint.parent for joint in joints}
    bodies = []
    for b, name in enumerate(tree.body_names):
        shapes, collides = [], []
        for s in range(builder.shape_count):
            kind_of = newton.GeoType(builder.shape_type[s])
            if (
                builder.shape_body[s] != b
                or kind_of not in _KINDS
                or builder.shape_flags[s] & newton.ShapeFlags.SITE
            ):
                continue
            shape_kind, scale = _KINDS[kind_of], [float(v) for v in builder.shape_scale[s]]
            size = {
                "box": (2 * scale[0], 2 * scale[1], 2 * scale[2]),
                "sphere": (scale[0],),
                "capsule": (scale[0], 2 * scale[1]),
                "cylinder": (scale[0], 2 * scale[1]),
            }.get(shape_kind, ())
            pos, quat = frame(builder.shape_transform[s])
            color = builder.shape_color[s]
            source = builder.shape_source[s] if shape_kind == "mesh" else None
            shapes.append(
                ShapeDesc(
                    shape_kind,
                    size,
                    pos,  # type: ignore[arg-type]
                    quat,  # type: ignore[arg-type]
                    friction=float(builder.shape_material_mu[s]),
                    rgba=None if color is None else (float(color[0]), float(color[1]), float(color[2]), 1.0),
                    name=builder.shape_label[s].rsplit("/", 1)[-1],
                    vertices=None if source is None else np.asarray(source.vertices) * np.asarray(scale),
                    faces=None if source is None else np.asarray(source.indices).reshape(-1, 3),
                )
            )
            collides.append(bool(builder.shape_flags[s] & newton.ShapeFlags.COLLIDE_SHAPES))
        bodies.append(
            MjcfBody(
                name=name,
                parent=parent[b],
                mass=float(builder.body_mass[b]),
                com=np.array([float(v) for v in builder.body_com[b]]),
                inertia=np.array(builder.body_inertia[b], dtype=float).reshape(3, 3),
                shapes=tuple(shapes),
                collides=tuple(collides),
            )
        )
    return MjcfModel(bodies, joints)
