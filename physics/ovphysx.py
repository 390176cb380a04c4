# SPDX-License-Identifier: Apache-2.0
"""The OvPhysX engine: real PhysX through the ``ovphysx`` wheel, on the CPU.

The only file that imports ``ovphysx``. Its tensor and contact bindings write straight into the
torch buffers that the rest of forcelab reads.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import warnings
import weakref
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .description import ArticulationDesc, RigidBodyDesc, SceneDesc, ShapeDesc, VisualShape
from .engine import (
    Capabilities,
    ContactQuery,
    ContactReader,
    Engine,
    JointWrenchReader,
    TreeState,
)
from .errors import near
from .mjcf import MjcfModel
from .ovphysx_cfg import OvPhysxCfg
from .quaternions import quat_apply, quat_mul
from .usd_export import ArticulationExport, BodyExport, SceneExport, compose, export_scene, pose
from .warp_setup import start_warp

INSTALL = 'pip install "forcelab[ovphysx]"'
#: Colour of shapes that name none.
GREY = (0.62, 0.66, 0.72, 1.0)

_runtime: Any = None
_live: weakref.WeakSet[_Session] = weakref.WeakSet()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The binding calls of ovphysx 0.7 announce their deprecation on every use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _load_runtime() -> Any:
    """Import ovphysx and set what holds for the whole process: schemas, CPU only, quiet logs."""
    global _runtime
    if _runtime is not None:
        return _runtime
    try:
        import ovphysx
        import ovstage
        import pxr.UsdPhysics  # noqa: F401

        schemas = metadata.distribution("physx-usd-schemas")
    except ImportError as error:  # PackageNotFoundError is one, too
        missing = getattr(error, "name", None) or str(error)
        raise ImportError(
            f"The OvPhysX engine needs packages that are not installed (missing: {missing}). Run: {INSTALL}"
        ) from error
    # The rooms above launch Warp kernels on this engine's buffers.
    start_warp()
    ovphysx.set_global_config(ovphysx.GlobalConfigKey.DEFAULT_LOG_OUTPUT, False)
    ovphysx.enable_python_logging()
    roots = [
        Path(str(schemas.locate_file(f"physx_usd_schemas/{name}/resources")))
        for name in ("PhysxSchema", "OmniUsdPhysicsDeformableSchema")
    ]
    for root in roots:
        if not (root / "generatedSchema.usda").is_file():
            raise ImportError(
                f"The package physx-usd-schemas is incomplete ({root} is missing). Run: {INSTALL}"
            )
    ovstage.population.register_usd_schemas([str(root) for root in roots])
    with _quiet():
        if not ovphysx.PhysX.get_cpu_mode():
            ovphysx.PhysX.set_cpu_mode(True)
    _runtime = ovphysx
    return ovphysx


class _Session:
    """One PhysX instance and the stage it is attached to.

    The stage may go only after the detach, or the process crashes; this object alone owns both
    and closes them in that order, whoever drops them first.
    """

    _exit_hook = False

    def __init__(self, usda: str, num_threads: int):
        ovphysx = _load_runtime()
        import ovstage

        self.pid = os.getpid()
        self.bindings: list[Any] = []
        self.attached = False
        self.stage: Any = None
        # These settings are the process's; PhysX refuses them while another scene is open, which
        # then has made them already.
        config = None
        if not len(_live):
            config = ovphysx.PhysXConfig(
                num_threads=num_threads,
                carbonite_overrides={
                    "/physics/physxDispatcher": True,
                    "/ovphysx/clone/useEnvIds": False,
                },
            )
        with _quiet():
            self.px: Any = ovphysx.PhysX(config=config)
        _live.add(self)
        if not _Session._exit_hook:
            # Registered after ovphysx's own hook, hence run before it.
            atexit.register(_close_live_sessions)
            _Session._exit_hook = True
        try:
            self.stage = ovstage.Stage("forcelab")
            ovstage.population.open_usd_from_string(
                self.stage, usda, ordinal=1, domains=ovstage.PopulationDomain.ALL
            )
            self.stage.advance_write_floor(ordinal=1).wait()
            with warnings.catch_warnings():
                # We author none of the Newton attributes whose schema it asks for.
                warnings.simplefilter("ignore")
                self.px.wait_task(self.px.attach_ovstage(self.stage, read_ordinal=1))
            self.attached = True
            self.px.warmup()
        except BaseException:
            self.close()
            raise

    def tensor(self, paths: list[str], kind: str) -> Any:
        """Tensor binding with one row per path, in that order."""
        import ovphysx

        with _quiet():
            binding = self.px.create_tensor_binding(
                prim_paths=paths, tensor_type=getattr(ovphysx.TensorType, kind)
            )
        self.bindings.append(binding)
        found = list(binding.prim_paths)
        if found != paths:
            raise RuntimeError(f"PhysX bound {kind} to {found[:4]} … instead of {paths[:4]} ….")
        return binding

    def contacts(self, sensors: list[str], filters: list[str], per_sensor: int) -> Any:
        """Contact binding with one row per sensor path, in that order."""
        with _quiet():
            if per_sensor:
                binding = self.px.create_contact_binding(sensors, filters, per_sensor)
            else:
                binding = self.px.create_contact_binding(sensors)
        self.bindings.append(binding)
        found = list(binding.sensor_paths)
        if found != sensors:
            raise RuntimeError(f"PhysX bound contacts to {found[:4]} … instead of {sensors[:4]} ….")
        return binding

    def close(self) -> None:
        """Idempotent. A forked child leaves its parent's instance alone."""
        _live.discard(self)
        if self.px is None or self.pid != os.getpid():
            return
        px, stage, self.px, self.stage = self.px, self.stage, None, None
        with _quiet(), contextlib.suppress(RuntimeError):
            for binding in self.bindings:
                binding.destroy()
        self.bindings.clear()
        try:
            if self.attached:
                with contextlib.suppress(RuntimeError):
                    px.wait_task(px.detach_ovstage())
        finally:
            px.destroy()
        if stage is not None:
            stage.destroy()


def _close_live_sessions() -> None:
    for session in list(_live):
        session.close()


class _Tree:
    """Bindings and buffers of one articulation or rigid body, in PhysX's order.

    ``links`` and ``dofs`` give, per canonical body or joint, PhysX's index.
    """

    def __init__(
        self, session: _Session, paths: list[str], art: ArticulationExport | None, bodies: list[BodyExport]
    ):
        self.art = art
        self.paths = paths
        kind = "RIGID_BODY" if art is None else "ARTICULATION"
        self._session = session

        def bind(name: str) -> tuple[Any, torch.Tensor]:
            binding = session.tensor(paths, name)
            return binding, torch.zeros(tuple(binding.shape), dtype=torch.float32)

        self.bind = bind
        if art is None:
            self.pose, self.pose_buf = bind("RIGID_BODY_POSE")
            self.vel, self.vel_buf = bind("RIGID_BODY_VELOCITY")
            self.wrench, self.wrench_buf = bind("RIGID_BODY_WRENCH")
            self.mass, self.mass_buf = bind("RIGID_BODY_MASS")
            self.inertia, self.inertia_buf = bind("RIGID_BODY_INERTIA")
            self.root_pose, self.root_pose_buf = self.pose, torch.zeros_like(self.pose_buf)
            self.root_vel, self.root_vel_buf = self.vel, torch.zeros_like(self.vel_buf)
            self.links = [0]
            self.dofs: list[int] = []
        else:
            self.pose, self.pose_buf = bind("ARTICULATION_LINK_POSE")
            self.vel, self.vel_buf = bind("ARTICULATION_LINK_VELOCITY")
            self.wrench, self.wrench_buf = bind("ARTICULATION_LINK_WRENCH")
            self.mass, self.mass_buf = bind("ARTICULATION_BODY_MASS")
            self.inertia, self.inertia_buf = bind("ARTICULATION_BODY_INERTIA")
            self.root_pose, self.root_pose_buf = bind("ARTICULATION_ROOT_POSE")
            self.root_vel, self.root_vel_buf = bind("ARTICULATION_ROOT_VELOCITY")
            names = [n.rsplit("/", 1)[-1] for n in self.pose.body_names]
            self.links = [names.index(b.prim.rsplit("/", 1)[-1]) for b in art.bodies]
            dofs = [n.rsplit("/", 1)[-1] for n in self.pose.dof_names]
            self.dofs = [dofs.index(p.rsplit("/", 1)[-1]) for p in art.joint_prims]
            if len(dofs) != len(self.dofs):
                raise RuntimeError(
                    f"PhysX built the joints {dofs} for {art.desc.path!r}; expected {art.joint_prims}."
                )
        self.link_ids = torch.tensor(self.links)
        self.dof_ids = torch.tensor(self.dofs, dtype=torch.long)
        #: Canonical joint of each PhysX degree of freedom.
        self.dof_canonical = torch.argsort(self.dof_ids)
        if self.dofs:
            self.q, self.q_buf = bind("ARTICULATION_DOF_POSITION")
            self.qd, self.qd_buf = bind("ARTICULATION_DOF_VELOCITY")
            self.q_target, self.q_target_buf = bind("ARTICULATION_DOF_POSITION_TARGET")
            self.qd_target, self.qd_target_buf = bind("ARTICULATION_DOF_VELOCITY_TARGET")
            self.effort, self.effort_buf = bind("ARTICULATION_DOF_ACTUATION_FORCE")
            self.stiffness, self.stiffness_buf = bind("ARTICULATION_DOF_STIFFNESS")
            self.damping, self.damping_buf = bind("ARTICULATION_DOF_DAMPING")
        self.mass.read(self.mass_buf)
        self.inertia.read(self.inertia_buf)
        self.default_mass = self.mass_buf.clone()
        self.default_inertia = self.inertia_buf.clone()
        # Shapes follow one another link by link, in PhysX's link order.
        self.material, self.material_buf = bind(f"{kind}_SHAPE_FRICTION_AND_RESTITUTION")
        self.material.read(self.material_buf)
        authored = [(b, s.friction) for b in np.argsort(self.links) for s in bodies[b].shapes_in_contact]
        self.shape_body = torch.tensor([b for b, _ in authored], dtype=torch.long)
        expected = torch.tensor([f for _, f in authored], dtype=torch.float32)
        found = self.material_buf[0, : len(authored), 0]
        if found.shape != expected.shape or not torch.allclose(found, expected, atol=1e-5):
            raise RuntimeError(f"PhysX orders the shapes of {paths[0]!r} in an unexpected way.")


class OvPhysxEngine(Engine):
    """PhysX on the CPU. See :class:`~forcelab.physics.engine.Engine`."""

    name = "ovphysx"
    capabilities = Capabilities()
    limits_sum_of_efforts = True
    cfg: OvPhysxCfg

    def __init__(self, cfg: OvPhysxCfg, desc: SceneDesc, device: str):
        super().__init__(cfg, desc, device)
        if self.device.type != "cpu":
            raise ValueError(
                f"The OvPhysX engine runs on the CPU only, but device is {str(device)!r}. "
                "Use device='cpu', or physics=newton (NewtonCfg) for CUDA."
            )
        self.step_count = torch.zeros(1, dtype=torch.int32)
        _load_runtime()
        models = self._models = {a.path: load_model(a) for a in desc.articulations}
        self._export: SceneExport = export_scene(
            desc,
            models,
            gravity=cfg.gravity,
            dt=self.dt,
            position_iterations=cfg.position_iterations,
            velocity_iterations=cfg.velocity_iterations,
        )
        self._session = _Session(self._export.usda, cfg.num_threads)
        self._finalizer = weakref.finalize(self, _Session.close, self._session)
        self._finalizer.atexit = False  # the exit hook of the sessions comes in the right order
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    # ---- building ----
    def _build(self) -> None:
        envs = self._export.env_paths
        self._trees: dict[str, _Tree] = {}
        #: Prim relative to the environment, by canonical body path.
        self._body_prims: dict[str, str] = {}
        com: list[np.ndarray] = []
        for art in self._export.articulations:
            tree = _Tree(self._session, [f"{env}/{art.root}" for env in envs], art, art.bodies)
            start = len(self.body_paths)
            for i, body in enumerate(art.bodies):
                self._add_body(f"{art.desc.path}/{body.name}", body, com)
                self.body_tree_paths.append(f"{art.desc.path}/{art.model.tree_path(i)}")
            self._add_tree(art.desc.path, tree, start, [b.name for b in art.bodies], com[start:], art.bodies)
        for desc, body in self._export.rigid_bodies:
            tree = _Tree(self._session, [f"{env}/{body.prim}" for env in envs], None, [body])
            start = len(self.body_paths)
            self._add_body(desc.path, body, com)
            self.body_tree_paths.append(desc.path)
            name = desc.path.rsplit("/", 1)[-1]
            self._add_tree(desc.path, tree, start, [name], com[start:], [body], fixed=desc.fixed)
        self._started = False
        self.stale = True
        count = len(self.body_paths)
        self.body_pose = torch.zeros(self.num_envs, count, 7)
        self.body_pose[..., 6] = 1.0
        self.body_vel = torch.zeros(self.num_envs, count, 6)
        self._com = torch.tensor(np.array(com), dtype=torch.float32).reshape(count, 3)
        self._com_w = torch.zeros(self.num_envs, count, 3)
        self._contacts: list[tuple[ContactReader, Any, list[torch.Tensor], torch.Tensor | None]] = []
        self._wrenches: list[
            tuple[JointWrenchReader, Any, torch.Tensor, torch.Tensor, torch.Tensor | None, slice]
        ] = []

    def _add_body(self, path: str, body: BodyExport, com: list[np.ndarray]) -> None:
        self.body_paths.append(path)
        self._body_prims[path] = body.prim
        com.append(body.mass.com)

    def _add_tree(
        self,
        path: str,
        tree: _Tree,
        start: int,
        names: list[str],
        com: list[np.ndarray],
        bodies: list[BodyExport],
        fixed: bool = False,
    ) -> None:
        art, e = tree.art, self.num_envs
        joints = art.joints if art else []
        n, b = len(joints), len(names)
        drives = [art.desc.drives.get(j.name) if art else None for j in joints]

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(e, *shape)

        def row(values: list[float]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.float32).reshape(len(values))

        default = row(art.default_joint_pos if art else [])
        effort = [
            d.effort_limit if d and d.effort_limit is not None else j.effort_limit
            for d, j in zip(drives, joints)
        ]
        state = TreeState(
            path=path,
            body_names=names,
            joint_names=[j.name for j in joints],
            body_slice=slice(start, start + b),
            fixed_base=art.fixed_base if art else fixed,
            joint_pos=default.repeat(e, 1),
            joint_vel=zeros(n),
            joint_acc=zeros(n),
            joint_pos_target=default.repeat(e, 1),
            joint_vel_target=zeros(n),
            joint_effort=zeros(n),
            external_force=zeros(b, 3),
            external_torque=zeros(b, 3),
            stiffness=row([d.stiffness if d and d.driven else 0.0 for d in drives]).repeat(e, 1),
            damping=row([d.damping if d and d.driven else 0.0 for d in drives]).repeat(e, 1),
            body_mass=row([x.mass.mass for x in bodies]).repeat(e, 1),
            body_friction=row(
                [x.shapes_in_contact[0].friction if x.shapes_in_contact else 0.0 for x in bodies]
            ).repeat(e, 1),
            joint_pos_limits=torch.tensor([j.limits for j in joints], dtype=torch.float32).reshape(n, 2),
            effort_limits=row([float("inf") if v is None else float(v) for v in effort]),
            velocity_limits=row([float(j.velocity_limit) for j in joints]),
            default_joint_pos=default,
            body_com=torch.tensor(np.array(com), dtype=torch.float32).reshape(b, 3),
        )
        self.trees[path] = state
        self._trees[path] = tree

    def _tree(self, path: str) -> tuple[TreeState, _Tree]:
        if path not in self.trees:
            raise KeyError(f"No articulation or body {path!r} in this engine.{near(path, self.trees)}")
        return self.trees[path], self._trees[path]

    def add_contact_reader(self, query: ContactQuery) -> ContactReader:
        self._check_building()
        envs, e, s = self._export.env_paths, self.num_envs, len(query.bodies)
        for body in query.bodies:
            if body not in self._body_prims:
                raise KeyError(f"No body {body!r} in this engine.{near(body, self.body_paths)}")
        sensors = [f"{env}/{self._body_prims[b]}" for env in envs for b in query.bodies]
        # One native column per partner object, each once (PhysX fills only one of two equal ones);
        # the columns of one expression are summed afterwards.
        partners: dict[tuple[str, bool], int] = {}
        pairs: list[tuple[int, int]] = []
        for f, paths in enumerate(query.filters):
            for path in paths:
                if path in self._export.statics:
                    found = [(prim, True) for prim in self._export.statics[path]]
                elif path in self._body_prims:
                    found = [(self._body_prims[path], False)]
                else:
                    known = [*self.body_paths, *self._export.statics]
                    raise KeyError(f"No contact partner {path!r} in this engine.{near(path, known)}")
                pairs += [(f, partners.setdefault(partner, len(partners))) for partner in found]
        k = len(partners)
        filters = [
            prim if absolute else f"{env}/{prim}"
            for env in envs
            for _ in query.bodies
            for prim, absolute in partners
        ]
        binding = self._session.contacts(sensors, filters, k)
        buffers = [torch.zeros(e * s, 3), torch.zeros(e * s, 3)]
        reader = ContactReader(query, buffers[0].view(e, s, 3), buffers[1].view(e, s, 3))
        mixing = None
        if query.filters:
            f = len(query.filters)
            if k:
                buffers += [torch.zeros(e * s, k, 3), torch.zeros(e * s, k, 3)]
            if pairs == [(i, i) for i in range(f)]:
                reader.normal_matrix = buffers[2].view(e, s, k, 3)
                reader.friction_matrix = buffers[3].view(e, s, k, 3)
            else:
                reader.normal_matrix = torch.zeros(e, s, f, 3)
                reader.friction_matrix = torch.zeros(e, s, f, 3)
                if k:
                    mixing = torch.zeros(f, k)
                    for column, partner in pairs:
                        mixing[column, partner] = 1.0
        self._contacts.append((reader, binding, buffers, mixing))
        return reader

    def add_joint_wrench_reader(self, path: str) -> JointWrenchReader:
        self._check_building()
        state, tree = self._tree(path)
        if tree.art is None:
            raise RuntimeError(f"{path!r} is a single rigid body without joints, so it has no joint wrench.")
        binding, buffer = tree.bind("ARTICULATION_LINK_INCOMING_JOINT_FORCE")
        b = len(state.body_names)
        frames = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).repeat(b, 1)
        for joint in self._models[path].joints:
            if joint.type != "free":
                frames[joint.child] = torch.tensor([*joint.child_pose[0], *joint.child_pose[1]])
        reader = JointWrenchReader(
            list(state.body_names),
            torch.zeros(self.num_envs, b, 3),
            torch.zeros(self.num_envs, b, 3),
            frames,
            torch.zeros(self.num_envs, b, 4),
        )
        # PhysX reports in the authored joint frame, which differs from the child joint frame of the
        # description only where the joint axis is no coordinate axis.
        turn = None
        if any(r is not None for r in tree.art.wrench_rotation):
            turn = torch.tensor(
                np.array([np.eye(3) if r is None else r for r in tree.art.wrench_rotation]),
                dtype=torch.float32,
            )
        self._wrenches.append((reader, binding, buffer, tree.link_ids, turn, state.body_slice))
        return reader

    def _check_building(self) -> None:
        if self._started:
            raise RuntimeError("Readers are added before the engine starts.")

    def start(self) -> None:
        self._started = True
        self._write_defaults()
        self.update_kinematics()

    def _write_defaults(self) -> None:
        """Write every state: the warm-up's tiny step leaves huge velocities where shapes overlap."""
        origins = torch.as_tensor(np.asarray(self.desc.env_origins), dtype=torch.float32)
        entities: list[ArticulationDesc | RigidBodyDesc] = [*self.desc.articulations, *self.desc.rigid_bodies]
        for desc in entities:
            state, _ = self._tree(desc.path)
            where = torch.cat([torch.tensor(desc.pos), torch.tensor(desc.quat)]).to(torch.float32)
            root = where.repeat(self.num_envs, 1)
            root[:, :3] += origins
            if state.joint_names:
                zero = torch.zeros_like(state.joint_vel)
                self.write_joint_state(desc.path, state.default_joint_pos.repeat(self.num_envs, 1), zero)
            self.write_root_pose(desc.path, root)
            if not state.fixed_base:
                self.write_root_velocity(desc.path, torch.zeros(self.num_envs, 6))
            if state.joint_names:
                self.notify_gains(desc.path)

    def visual_shapes(self) -> list[VisualShape]:
        out = []
        for art in self._export.articulations:
            for body in art.bodies:
                out += [_visual(f"{art.desc.path}/{body.name}", s) for s in body.shapes]
        for rigid, _ in self._export.rigid_bodies:
            out += [_visual(rigid.path, s) for s in rigid.shapes]
        for static in self.desc.statics:
            for shape in static.shapes:
                pos, quat = compose(pose(static.pos, static.quat), pose(shape.pos, shape.quat))
                out.append(_visual(None, shape, pos, quat))
        return out

    def close(self) -> None:
        self._finalizer()

    # ---- stepping ----
    def step(self) -> None:
        if self._session.px is None:
            raise RuntimeError("This scene is closed.")
        for path, tree in self._trees.items():
            state = self.trees[path]
            if tree.dofs:
                order = tree.dof_canonical
                torch.index_select(state.joint_pos_target, 1, order, out=tree.q_target_buf)
                torch.index_select(state.joint_vel_target, 1, order, out=tree.qd_target_buf)
                torch.index_select(state.joint_effort, 1, order, out=tree.effort_buf)
                tree.q_target.write(tree.q_target_buf)
                tree.qd_target.write(tree.qd_target_buf)
                # Persists until rewritten.
                tree.effort.write(tree.effort_buf)
            # PhysX forgets wrenches after a step. All buffers are on the host: this waits for nothing.
            if state.external_force.count_nonzero() + state.external_torque.count_nonzero():
                com = self._com_world(state)
                tree.wrench_buf.zero_()
                if tree.art is None:
                    tree.wrench_buf[:, 0:3] = state.external_force[:, 0]
                    tree.wrench_buf[:, 3:6] = state.external_torque[:, 0]
                    tree.wrench_buf[:, 6:9] = com[:, 0]
                else:
                    rows = torch.cat([state.external_force, state.external_torque, com], dim=-1)
                    tree.wrench_buf.index_copy_(1, tree.link_ids, rows)
                tree.wrench.write(tree.wrench_buf)
            state.joint_acc.copy_(state.joint_vel)
        self._session.px.step_sync(self.dt)
        self.step_count += 1
        self._read_state()
        for state in self.trees.values():
            torch.sub(state.joint_vel, state.joint_acc, out=state.joint_acc)
            state.joint_acc.div_(self.dt)
        self._read_contacts()
        self._read_wrenches()

    def _com_world(self, state: TreeState) -> torch.Tensor:
        p = self.body_pose[:, state.body_slice]
        return p[..., :3] + quat_apply(p[..., 3:7], state.body_com.expand(self.num_envs, -1, -1))

    def _read_state(self) -> None:
        self.stale = False
        for path, tree in self._trees.items():
            state = self.trees[path]
            tree.pose.read(tree.pose_buf)
            tree.vel.read(tree.vel_buf)
            if tree.art is None:
                self.body_pose[:, state.body_slice] = tree.pose_buf[:, None]
                self.body_vel[:, state.body_slice] = tree.vel_buf[:, None]
            else:
                self.body_pose[:, state.body_slice] = tree.pose_buf.index_select(1, tree.link_ids)
                self.body_vel[:, state.body_slice] = tree.vel_buf.index_select(1, tree.link_ids)
            if tree.dofs:
                tree.q.read(tree.q_buf)
                tree.qd.read(tree.qd_buf)
                torch.index_select(tree.q_buf, 1, tree.dof_ids, out=state.joint_pos)
                torch.index_select(tree.qd_buf, 1, tree.dof_ids, out=state.joint_vel)
        # PhysX gives the velocity of the centre of mass; ours is that of the frame's origin.
        arm = quat_apply(self.body_pose[..., 3:7], self._com.expand(self.num_envs, -1, -1))
        self.body_vel[..., :3] -= torch.linalg.cross(self.body_vel[..., 3:6], arm)

    def _read_contacts(self) -> None:
        for reader, binding, buffers, mixing in self._contacts:
            binding.read_net_normal_forces(buffers[0])
            binding.read_net_friction_forces(buffers[1])
            if len(buffers) == 4:
                binding.read_normal_force_matrix(buffers[2])
                binding.read_friction_force_matrix(buffers[3])
                if mixing is not None:
                    assert reader.normal_matrix is not None and reader.friction_matrix is not None
                    torch.matmul(
                        mixing, buffers[2].view(*reader.normal.shape[:2], -1, 3), out=reader.normal_matrix
                    )
                    torch.matmul(
                        mixing, buffers[3].view(*reader.normal.shape[:2], -1, 3), out=reader.friction_matrix
                    )

    def _read_wrenches(self) -> None:
        for reader, binding, buffer, links, turn, bodies in self._wrenches:
            binding.read(buffer)
            wrench = buffer.index_select(1, links)
            if turn is None:
                reader.force.copy_(wrench[..., :3])
                reader.torque.copy_(wrench[..., 3:])
            else:
                reader.force.copy_((turn @ wrench[..., :3, None]).squeeze(-1))
                reader.torque.copy_((turn @ wrench[..., 3:, None]).squeeze(-1))
            reader.quat.copy_(quat_mul(self.body_pose[:, bodies, 3:], reader.joint_frame[:, 3:]))

    def update_kinematics(self) -> None:
        if self.stale:
            self._read_state()

    # ---- masked writes ----
    def reset(self, env_mask: torch.Tensor | None = None) -> None:
        # PhysX keeps no warm start across a teleport, and every command is rewritten before a step.
        keep = torch.zeros(self.num_envs, dtype=torch.bool) if env_mask is None else ~env_mask
        for state in self.trees.values():
            state.joint_effort.mul_(keep[:, None])
            state.external_force.mul_(keep[:, None, None])
            state.external_torque.mul_(keep[:, None, None])

    def _write(self, binding: Any, buffer: torch.Tensor, env_mask: torch.Tensor | None) -> None:
        self.stale = True
        if env_mask is None:
            binding.write(buffer)
        else:
            binding.write(buffer, mask=env_mask.to(torch.uint8).contiguous())

    def write_root_pose(self, path: str, pose: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        _state, tree = self._tree(path)
        tree.root_pose_buf.copy_(pose)
        self._write(tree.root_pose, tree.root_pose_buf, env_mask)

    def write_root_velocity(self, path: str, vel: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        state, tree = self._tree(path)
        if state.fixed_base:
            raise ValueError(f"{path} is fixed to the world; it has no root velocity to write.")
        tree.root_pose.read(tree.root_pose_buf)
        arm = quat_apply(tree.root_pose_buf[:, 3:7], state.body_com[0].expand(self.num_envs, -1))
        tree.root_vel_buf.copy_(vel)
        tree.root_vel_buf[:, :3] += torch.linalg.cross(tree.root_vel_buf[:, 3:6], arm)
        self._write(tree.root_vel, tree.root_vel_buf, env_mask)

    def write_joint_state(
        self, path: str, pos: torch.Tensor, vel: torch.Tensor, env_mask: torch.Tensor | None = None
    ) -> None:
        state, tree = self._tree(path)
        if not tree.dofs:
            return
        tree.q_buf.copy_(pos[:, tree.dof_canonical])
        tree.qd_buf.copy_(vel[:, tree.dof_canonical])
        self._write(tree.q, tree.q_buf, env_mask)
        self._write(tree.qd, tree.qd_buf, env_mask)
        if env_mask is None:
            state.joint_pos.copy_(pos)
            state.joint_vel.copy_(vel)
            state.joint_acc.zero_()
        else:
            state.joint_acc.masked_fill_(env_mask[:, None], 0.0)
            state.joint_pos.copy_(torch.where(env_mask[:, None], pos, state.joint_pos))
            state.joint_vel.copy_(torch.where(env_mask[:, None], vel, state.joint_vel))

    def notify_gains(self, path: str) -> None:
        state, tree = self._tree(path)
        if not tree.dofs:
            return
        torch.index_select(state.stiffness, 1, tree.dof_canonical, out=tree.stiffness_buf)
        torch.index_select(state.damping, 1, tree.dof_canonical, out=tree.damping_buf)
        tree.stiffness.write(tree.stiffness_buf)
        tree.damping.write(tree.damping_buf)

    def write_body_mass(self, path: str, mass: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        state, tree = self._tree(path)
        if env_mask is not None:
            mass = torch.where(env_mask[:, None], mass, state.body_mass)
        state.body_mass.copy_(mass)
        tree.mass_buf.copy_(tree.default_mass)
        if tree.art is None:
            tree.mass_buf.copy_(state.body_mass.view(tree.mass_buf.shape))
        else:
            tree.mass_buf.index_copy_(1, tree.link_ids, state.body_mass)
        scale = tree.mass_buf / tree.default_mass
        tree.inertia_buf.copy_(tree.default_inertia * scale[..., None].view(*tree.inertia_buf.shape[:-1], 1))
        tree.mass.write(tree.mass_buf)
        tree.inertia.write(tree.inertia_buf)

    def write_friction(self, path: str, friction: torch.Tensor, env_mask: torch.Tensor | None = None) -> None:
        state, tree = self._tree(path)
        if env_mask is not None:
            friction = torch.where(env_mask[:, None], friction, state.body_friction)
        state.body_friction.copy_(friction)
        of_shape = state.body_friction.index_select(1, tree.shape_body)
        count = of_shape.shape[1]
        tree.material_buf[:, :count, 0] = of_shape  # static
        tree.material_buf[:, :count, 1] = of_shape  # dynamic
        tree.material.write(tree.material_buf)


def load_model(desc: ArticulationDesc) -> MjcfModel:
    """The robot file of an articulation as a neutral tree."""
    from .newton import load_mjcf

    return load_mjcf(desc)


def _visual(
    body: str | None, shape: ShapeDesc, pos: np.ndarray | None = None, quat: np.ndarray | None = None
) -> VisualShape:
    size = tuple(float(v) for v in shape.size)
    if shape.kind == "box":
        size = tuple(v / 2 for v in size)
    elif shape.kind in ("capsule", "cylinder"):
        size = (size[0], size[1] / 2)
    p = shape.pos if pos is None else tuple(float(v) for v in pos)
    q = shape.quat if quat is None else tuple(float(v) for v in quat)
    kind = shape.kind
    if kind == "heightfield":
        kind, size = "mesh", ()
    return VisualShape(body, kind, size, p, q, shape.rgba or GREY, shape.vertices, shape.faces)  # type: ignore[arg-type]
