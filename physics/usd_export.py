# SPDX-License-Identifier: Apache-2.0
"""Writes a neutral scene description as USD text, for engines that load USD.

All environments are authored: environment 0 in full, the others as references to it, each in its
own collision group, so that environments never touch one another even when they share a place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .description import ArticulationDesc, RigidBodyDesc, SceneDesc, ShapeDesc
from .mjcf import MjcfJoint, MjcfModel

INF = float("inf")
Vector = Sequence[float] | np.ndarray


# ---- small rigid-body algebra (numpy, quaternions xyzw) ----


def quat_multiply(a: Vector, b: Vector) -> np.ndarray:
    """Quaternion product ``a b`` (xyzw)."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return np.array(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ]
    )


def quat_matrix(q: Vector) -> np.ndarray:
    """Rotation matrix of a quaternion (xyzw), which is normalised first."""
    x, y, z, w = np.asarray(q, dtype=float) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def matrix_quat(m: np.ndarray) -> np.ndarray:
    """Quaternion (xyzw, w >= 0) of a rotation matrix."""
    # The eigenvector form is free of the branches of the usual one.
    k = (
        np.array(
            [
                [m[0, 0] - m[1, 1] - m[2, 2], 0, 0, 0],
                [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], 0, 0],
                [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], 0],
                [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m[0, 0] + m[1, 1] + m[2, 2]],
            ]
        )
        / 3.0
    )
    q = np.linalg.eigh(k)[1][:, -1]
    return -q if q[3] < 0 else q


def rotation_from_x(axis: Vector) -> np.ndarray:
    """Quaternion of the shortest rotation that takes +x onto ``axis``."""
    a = np.asarray(axis, dtype=float)
    a = a / np.linalg.norm(a)
    if a[0] < -1 + 1e-9:
        return np.array([0.0, 0.0, 1.0, 0.0])
    q = np.array([0.0, -a[2], a[1], 1.0 + a[0]])
    return q / np.linalg.norm(q)


Pose = tuple[np.ndarray, np.ndarray]


def pose(pos: Vector, quat: Vector) -> Pose:
    return np.asarray(pos, dtype=float), np.asarray(quat, dtype=float) / np.linalg.norm(quat)


def compose(a: Pose, b: Pose) -> Pose:
    """Pose ``a`` followed by ``b`` (b given in a's frame)."""
    return a[0] + quat_matrix(a[1]) @ b[0], quat_multiply(a[1], b[1])


def inverse(a: Pose) -> Pose:
    conj = a[1] * np.array([-1.0, -1.0, -1.0, 1.0])
    return -(quat_matrix(conj) @ a[0]), conj


# ---- mass properties ----


@dataclass
class MassProperties:
    """Mass [kg], centre of mass in the body frame [m], inertia about it in the body frame [kg m²]."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray


def _mesh_integrals(vertices: np.ndarray, faces: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume, centroid and second-moment matrix about the centroid of a closed mesh."""
    tri = np.asarray(vertices, dtype=float)[np.asarray(faces).reshape(-1, 3)]
    det = np.einsum("ni,ni->n", tri[:, 0], np.cross(tri[:, 1], tri[:, 2]))
    volume = det.sum() / 6.0
    if abs(volume) < 1e-15:
        raise ValueError("A mesh shape encloses no volume, so its mass is undefined; close the mesh.")
    total = tri.sum(axis=1)
    centroid = np.einsum("n,ni->i", det, total) / 24.0 / volume
    moment = np.einsum("n,ni,nj->ij", det, total, total) + np.einsum("n,nki,nkj->ij", det, tri, tri)
    moment = moment / 120.0 - volume * np.outer(centroid, centroid)
    return abs(volume), centroid, moment * np.sign(volume)


def _unit_density(shape: ShapeDesc) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume, centroid, inertia about it, in the shape frame, for 1 kg/m³."""
    zero = np.zeros(3)
    if shape.kind == "box":
        x, y, z = shape.size
        v = x * y * z
        return v, zero, v / 12.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    if shape.kind == "sphere":
        (r,) = shape.size
        v = 4.0 / 3.0 * math.pi * r**3
        return v, zero, 0.4 * v * r * r * np.eye(3)
    if shape.kind == "cylinder":
        r, h = shape.size
        v = math.pi * r * r * h
        side = v * (3 * r * r + h * h) / 12.0
        return v, zero, np.diag([side, side, 0.5 * v * r * r])
    if shape.kind == "capsule":
        r, h = shape.size
        vc, vs = math.pi * r * r * h, 4.0 / 3.0 * math.pi * r**3
        axial = 0.5 * vc * r * r + 0.4 * vs * r * r
        side = vc * (3 * r * r + h * h) / 12.0 + vs * (0.4 * r * r + 0.375 * r * h + 0.25 * h * h)
        return vc + vs, zero, np.diag([side, side, axial])
    if shape.kind == "mesh":
        assert shape.vertices is not None and shape.faces is not None
        v, c, s = _mesh_integrals(shape.vertices, shape.faces)
        return v, c, np.trace(s) * np.eye(3) - s
    raise ValueError(f"A {shape.kind!r} shape has no volume; only immovable bodies may carry one.")


def mass_properties(shapes: Sequence[ShapeDesc]) -> MassProperties:
    """Mass properties of a rigid body made of solid shapes."""
    parts = []
    for shape in shapes:
        volume, centroid, inertia = _unit_density(shape)
        mass = shape.mass if shape.mass is not None else shape.density * volume
        rot = quat_matrix(shape.quat)
        parts.append((mass, np.asarray(shape.pos) + rot @ centroid, rot @ inertia @ rot.T * (mass / volume)))
    total = sum(m for m, _, _ in parts)
    if not total > 0:
        raise ValueError("The shapes of a movable body have no mass; give a positive mass or density.")
    com = sum((m * c for m, c, _ in parts), np.zeros(3)) / total
    inertia = np.zeros((3, 3))
    for m, c, i in parts:
        d = c - com
        inertia += i + m * (d @ d * np.eye(3) - np.outer(d, d))
    return MassProperties(float(total), com, inertia)


# ---- what the exporter tells the engine ----


@dataclass
class BodyExport:
    """One body: its prim path relative to the environment and its mass properties."""

    name: str
    prim: str
    mass: MassProperties
    shapes: tuple[ShapeDesc, ...]
    collides: tuple[bool, ...] | None = None

    @property
    def shapes_in_contact(self) -> list[ShapeDesc]:
        return [s for k, s in enumerate(self.shapes) if self.collides is None or self.collides[k]]


@dataclass
class ArticulationExport:
    """One articulation.

    Attributes:
        root: prim (relative to the environment) that carries the articulation root.
        bodies: in canonical order; an anchor link, if any, is not among them.
        joint_prims: relative prims of the degrees of freedom, in canonical order.
        wrench_rotation: per body the rotation from the authored joint frame into the child joint
            frame of the robot description, or None where they are equal.
    """

    desc: ArticulationDesc
    model: MjcfModel
    fixed_base: bool
    root: str
    bodies: list[BodyExport] = field(default_factory=list)
    joints: list[MjcfJoint] = field(default_factory=list)
    joint_prims: list[str] = field(default_factory=list)
    default_joint_pos: list[float] = field(default_factory=list)
    wrench_rotation: list[np.ndarray | None] = field(default_factory=list)


@dataclass
class SceneExport:
    """USD text and the names under which the engine finds everything again."""

    usda: str
    env_paths: list[str]
    articulations: list[ArticulationExport]
    rigid_bodies: list[tuple[RigidBodyDesc, BodyExport]]
    #: Absolute prims of each static's colliders, by canonical path.
    statics: dict[str, list[str]]


class _Writer:
    """Thin layer over usd-core: PhysX schemas have no Python classes there."""

    def __init__(self, gravity: Vector, dt: float, position_iterations: int, velocity_iterations: int):
        from pxr import Gf, Sdf, Tf, Usd, UsdGeom, UsdPhysics, UsdShade, Vt

        self.Gf, self.Sdf, self.Tf, self.Usd, self.Vt = Gf, Sdf, Tf, Usd, Vt
        self.Geom, self.Physics, self.Shade = UsdGeom, UsdPhysics, UsdShade
        self.iterations = (position_iterations, velocity_iterations)
        self.stage = Usd.Stage.CreateInMemory()
        UsdGeom.SetStageUpAxis(self.stage, UsdGeom.Tokens.z)
        UsdGeom.SetStageMetersPerUnit(self.stage, 1.0)
        UsdPhysics.SetStageKilogramsPerUnit(self.stage, 1.0)
        self.stage.SetDefaultPrim(UsdGeom.Xform.Define(self.stage, "/World").GetPrim())
        scene = UsdPhysics.Scene.Define(self.stage, "/World/physics_scene")
        g = np.asarray(gravity, dtype=float)
        norm = float(np.linalg.norm(g))
        scene.CreateGravityMagnitudeAttr(norm)
        scene.CreateGravityDirectionAttr(Gf.Vec3f(*(g / norm if norm > 0 else (0.0, 0.0, -1.0))))
        self.api(
            scene.GetPrim(),
            "PhysxSceneAPI",
            {
                "physxScene:timeStepsPerSecond": ("UInt", max(1, round(1.0 / dt))),
                "physxScene:invertCollisionGroupFilter": ("Bool", True),
                # Sleeping bodies would report no contact force.
                "physxScene:disableSleeping": ("Bool", True),
                "physxScene:enableGPUDynamics": ("Bool", False),
                # On the CPU this token selects the automatic box pruning, the fastest with many bodies.
                "physxScene:broadphaseType": ("Token", "GPU"),
                "physxScene:enableSceneQuerySupport": ("Bool", False),
            },
        )
        self._materials: dict[float, str] = {}
        UsdGeom.Scope.Define(self.stage, "/World/materials")

    def api(self, prim: Any, name: str, attributes: dict[str, tuple[str, Any]]) -> None:
        """Apply a PhysX schema by name and author its attributes as (Sdf type, value)."""
        prim.AddAppliedSchema(name)
        for key, (kind, value) in attributes.items():
            prim.CreateAttribute(key, getattr(self.Sdf.ValueTypeNames, kind)).Set(value)

    def ident(self, text: str) -> str:
        return self.Tf.MakeValidIdentifier(text)

    def quat(self, q: Vector) -> Any:
        return self.Gf.Quatf(float(q[3]), float(q[0]), float(q[1]), float(q[2]))

    def vec(self, v: Vector) -> Any:
        return self.Gf.Vec3f(*(float(x) for x in v))

    def place(self, geom: Any, pos: Vector, quat: Vector, scale: Vector | None = None) -> None:
        geom.AddTranslateOp().Set(self.Gf.Vec3d(*(float(x) for x in pos)))
        geom.AddOrientOp().Set(self.quat(quat))
        if scale is not None:
            geom.AddScaleOp().Set(self.vec(scale))

    def material(self, friction: float) -> str:
        """Path of the material with this sliding friction; pairs use the mean of both coefficients."""
        key = float(friction)
        if key not in self._materials:
            path = f"/World/materials/m{len(self._materials):03d}"
            prim = self.Shade.Material.Define(self.stage, path).GetPrim()
            mat = self.Physics.MaterialAPI.Apply(prim)
            mat.CreateStaticFrictionAttr(key)
            mat.CreateDynamicFrictionAttr(key)
            mat.CreateRestitutionAttr(0.0)
            self.api(prim, "PhysxMaterialAPI", {"physxMaterial:frictionCombineMode": ("Token", "average")})
            self._materials[key] = path
        return self._materials[key]

    def shape(self, path: str, shape: ShapeDesc, movable: bool) -> None:
        """One collider prim."""
        g, stage = self.Geom, self.stage
        scale = None
        if shape.kind == "box":
            geom = g.Cube.Define(stage, path)
            geom.CreateSizeAttr(1.0)
            scale = shape.size
        elif shape.kind == "sphere":
            geom = g.Sphere.Define(stage, path)
            geom.CreateRadiusAttr(float(shape.size[0]))
        elif shape.kind in ("capsule", "cylinder"):
            geom = (g.Capsule if shape.kind == "capsule" else g.Cylinder).Define(stage, path)
            geom.CreateRadiusAttr(float(shape.size[0]))
            geom.CreateHeightAttr(float(shape.size[1]))
            geom.CreateAxisAttr("Z")
        elif shape.kind == "plane":
            if movable:
                raise ValueError(f"A plane cannot move ({path}); planes belong to static geometry.")
            geom = g.Plane.Define(stage, path)
            geom.CreateAxisAttr("Z")
        elif shape.kind in ("mesh", "heightfield"):
            if shape.vertices is None or shape.faces is None:
                raise ValueError(f"A {shape.kind} shape ({path}) needs vertices and faces.")
            faces = np.ascontiguousarray(shape.faces, dtype=np.int32).reshape(-1, 3)
            points = np.ascontiguousarray(shape.vertices, dtype=np.float32)
            geom = g.Mesh.Define(stage, path)
            geom.CreatePointsAttr(self.Vt.Vec3fArray.FromNumpy(points))
            geom.CreateFaceVertexCountsAttr(
                self.Vt.IntArray.FromNumpy(np.full(len(faces), 3, dtype=np.int32))
            )
            geom.CreateFaceVertexIndicesAttr(self.Vt.IntArray.FromNumpy(faces.reshape(-1)))
            geom.CreateSubdivisionSchemeAttr("none")
            # PhysX moves only convex meshes; static ones keep their triangles.
            self.Physics.MeshCollisionAPI.Apply(geom.GetPrim()).CreateApproximationAttr(
                "convexHull" if movable else "none"
            )
        else:
            raise ValueError(f"Unknown shape kind {shape.kind!r} at {path}.")
        self.place(geom, shape.pos, shape.quat, scale)
        prim = geom.GetPrim()
        self.Physics.CollisionAPI.Apply(prim)
        binding = self.Shade.MaterialBindingAPI.Apply(prim)
        binding.Bind(
            self.Shade.Material(stage.GetPrimAtPath(self.material(shape.friction))),
            self.Shade.Tokens.weakerThanDescendants,
            "physics",
        )

    def body(
        self, path: str, where: Pose, mass: MassProperties, kinematic: bool = False, link: bool = False
    ) -> Any:
        """One rigid body prim with explicit mass properties and contact reports of any force."""
        geom = self.Geom.Xform.Define(self.stage, path)
        self.place(geom, *where)
        prim = geom.GetPrim()
        rigid = self.Physics.RigidBodyAPI.Apply(prim)
        if kinematic:
            rigid.CreateKinematicEnabledAttr(True)
        api = self.Physics.MassAPI.Apply(prim)
        moments, axes = np.linalg.eigh(mass.inertia)
        if np.linalg.det(axes) < 0:
            axes[:, 2] *= -1.0
        api.CreateMassAttr(float(mass.mass))
        api.CreateCenterOfMassAttr(self.vec(mass.com))
        api.CreateDiagonalInertiaAttr(self.vec(np.maximum(moments, 1e-12)))
        api.CreatePrincipalAxesAttr(self.quat(matrix_quat(axes)))
        attributes: dict[str, tuple[str, Any]] = {
            "physxRigidBody:linearDamping": ("Float", 0.0),
            "physxRigidBody:angularDamping": ("Float", 0.0),
            "physxRigidBody:sleepThreshold": ("Float", 0.0),
            "physxRigidBody:stabilizationThreshold": ("Float", 0.0),
        }
        if not link:
            attributes["physxRigidBody:solverPositionIterationCount"] = ("Int", self.iterations[0])
            attributes["physxRigidBody:solverVelocityIterationCount"] = ("Int", self.iterations[1])
        self.api(prim, "PhysxRigidBodyAPI", attributes)
        self.api(prim, "PhysxContactReportAPI", {"physxContactReport:threshold": ("Float", 0.0)})
        return prim

    # ---- articulations ----
    def articulation(
        self, base: str, relative: str, desc: ArticulationDesc, model: MjcfModel
    ) -> ArticulationExport:
        """Author one robot below ``base/relative``."""
        self.Geom.Xform.Define(self.stage, f"{base}/{relative}")
        incoming = {j.child: j for j in model.joints}
        root_pose = pose(desc.pos, desc.quat)
        root_joint = incoming.get(0)
        floating = root_joint is not None and root_joint.type == "free"
        anchored = root_joint is not None and root_joint.type in ("hinge", "slide")
        prims = [f"{relative}/l{i:03d}_{self.ident(b.name)}" for i, b in enumerate(model.bodies)]
        out = ArticulationExport(desc, model, not floating, prims[0])
        anchor = f"{relative}/anchor"
        if anchored:
            # A joint between the world and the first body needs an immovable link above it.
            small = MassProperties(1.0, np.zeros(3), 0.01 * np.eye(3))
            self.body(f"{base}/{anchor}", root_pose, small, link=True)
            out.root = anchor
        poses: list[Pose] = []
        for i, body in enumerate(model.bodies):
            joint = incoming.get(i)
            if i == 0 and not anchored:
                where = root_pose
            else:
                if joint is None:
                    raise ValueError(f"{desc.mjcf}: body {body.name!r} has no joint to its parent.")
                if i == 0:
                    # The anchor stands where the body is at coordinate zero.
                    joint.parent_pose = joint.child_pose
                parent = root_pose if i == 0 else poses[body.parent]
                q = float(desc.joint_pos.get(joint.name, joint.default_pos))
                moved = compose(_motion(joint, q), inverse(pose(*joint.child_pose)))
                where = compose(parent, compose(pose(*joint.parent_pose), moved))
            poses.append(where)
            mass = MassProperties(
                float(body.mass), np.asarray(body.com, dtype=float), np.asarray(body.inertia, dtype=float)
            )
            self.body(f"{base}/{prims[i]}", where, mass, link=True)
            for k, shape in enumerate(body.shapes):
                if body.collides is None or body.collides[k]:
                    self.shape(f"{base}/{prims[i]}/s{k:02d}", shape, movable=True)
            out.bodies.append(BodyExport(body.name, prims[i], mass, tuple(body.shapes), body.collides))
            out.wrench_rotation.append(None)
        if not floating:
            # The root mark on the joint itself makes the base immovable; on the body, PhysX would
            # build a floating base and an ordinary joint.
            fixed = self.Physics.FixedJoint.Define(self.stage, f"{base}/{relative}/world_joint")
            fixed.CreateBody1Rel().SetTargets([f"{base}/{out.root}"])
            out.root = f"{relative}/world_joint"
        if desc.self_collisions:
            self._filter_neighbours([f"{base}/{p}" for p in prims], model)
        root = self.stage.GetPrimAtPath(f"{base}/{out.root}")
        self.Physics.ArticulationRootAPI.Apply(root)
        self.api(
            root,
            "PhysxArticulationAPI",
            {
                "physxArticulation:enabledSelfCollisions": ("Bool", bool(desc.self_collisions)),
                "physxArticulation:solverPositionIterationCount": ("Int", self.iterations[0]),
                "physxArticulation:solverVelocityIterationCount": ("Int", self.iterations[1]),
                "physxArticulation:sleepThreshold": ("Float", 0.0),
                "physxArticulation:stabilizationThreshold": ("Float", 0.0),
            },
        )
        for k, joint in enumerate(model.joints):
            if joint.child == 0 and not anchored:
                continue
            parent_prim = anchor if joint.parent < 0 else prims[joint.parent]
            rotation = self.joint(
                base,
                f"{relative}/j{k:03d}_{self.ident(joint.name)}",
                joint,
                parent_prim,
                prims[joint.child],
                desc,
            )
            out.wrench_rotation[joint.child] = rotation
            if joint.type in ("hinge", "slide"):
                out.joints.append(joint)
                out.joint_prims.append(f"{relative}/j{k:03d}_{self.ident(joint.name)}")
                out.default_joint_pos.append(float(desc.joint_pos.get(joint.name, joint.default_pos)))
        return out

    def _filter_neighbours(self, prims: list[str], model: MjcfModel) -> None:
        """Bodies welded together count as one: it does not collide within itself nor with its parent."""
        top: list[int] = []
        above: dict[int, int] = {}
        for i, body in enumerate(model.bodies):
            joint = next(j for j in model.joints if j.child == i)
            welded = joint.type == "fixed" and body.parent >= 0
            top.append(top[body.parent] if welded else i)
            if not welded and body.parent >= 0:
                above[i] = top[body.parent]
        for i in range(len(prims)):
            close = [
                k
                for k in range(i)
                if top[k] == top[i] or above.get(top[i]) == top[k] or above.get(top[k]) == top[i]
            ]
            if close:
                api = self.Physics.FilteredPairsAPI.Apply(self.stage.GetPrimAtPath(prims[i]))
                api.CreateFilteredPairsRel().SetTargets([prims[k] for k in close])

    def joint(
        self, base: str, relative: str, joint: MjcfJoint, parent: str, child: str, desc: ArticulationDesc
    ) -> np.ndarray | None:
        """One joint, body 0 the parent; returns the rotation from its frame to the child joint frame."""
        path = f"{base}/{relative}"
        turn = np.array([0.0, 0.0, 0.0, 1.0])
        token = "X"
        if joint.type in ("hinge", "slide"):
            if joint.stiffness:
                raise NotImplementedError(
                    f"{desc.mjcf}: joint {joint.name!r} has a passive spring (stiffness {joint.stiffness}); the "
                    "OvPhysX engine has none. Use NewtonCfg, or a drive with this stiffness."
                )
            axis = np.asarray(joint.axis, dtype=float) / np.linalg.norm(joint.axis)
            aligned = [i for i in range(3) if axis[i] > 1 - 1e-9]
            if aligned:
                token = "XYZ"[aligned[0]]
            else:
                turn = rotation_from_x(axis)
            usd = (
                self.Physics.RevoluteJoint if joint.type == "hinge" else self.Physics.PrismaticJoint
            ).Define(self.stage, path)
            usd.CreateAxisAttr(token)
            low, high = joint.limits
            unit = 180.0 / math.pi if joint.type == "hinge" else 1.0
            if math.isfinite(low) and abs(low) < 1e6:
                usd.CreateLowerLimitAttr(low * unit)
            if math.isfinite(high) and abs(high) < 1e6:
                usd.CreateUpperLimitAttr(high * unit)
            self._axis(usd.GetPrim(), joint, desc, unit)
        elif joint.type == "fixed":
            usd = self.Physics.FixedJoint.Define(self.stage, path)
        else:
            raise NotImplementedError(
                f"{desc.mjcf}: joint {joint.name!r} has type {joint.type!r}; the OvPhysX engine takes hinge, "
                "slide and fixed joints. Use NewtonCfg, or model it as single-axis joints."
            )
        usd.CreateBody0Rel().SetTargets([f"{base}/{parent}"])
        usd.CreateBody1Rel().SetTargets([f"{base}/{child}"])
        (p0, q0), (p1, q1) = pose(*joint.parent_pose), pose(*joint.child_pose)
        usd.CreateLocalPos0Attr(self.vec(p0))
        usd.CreateLocalRot0Attr(self.quat(quat_multiply(q0, turn)))
        usd.CreateLocalPos1Attr(self.vec(p1))
        usd.CreateLocalRot1Attr(self.quat(quat_multiply(q1, turn)))
        return quat_matrix(turn) if turn[3] != 1.0 else None

    def _axis(self, prim: Any, joint: MjcfJoint, desc: ArticulationDesc, unit: float) -> None:
        """Drive (on every joint: without one, gains written later have no effect) and axis properties."""
        name = "angular" if joint.type == "hinge" else "linear"
        drive = desc.drives.get(joint.name)
        usd = self.Physics.DriveAPI.Apply(prim, name)
        usd.CreateTypeAttr("force")
        usd.CreateStiffnessAttr((drive.stiffness if drive and drive.driven else 0.0) / unit)
        usd.CreateDampingAttr((drive.damping if drive and drive.driven else 0.0) / unit)
        limit = drive.effort_limit if drive and drive.effort_limit is not None else joint.effort_limit
        usd.CreateMaxForceAttr(limit if limit is not None and math.isfinite(limit) else INF)
        armature = drive.armature if drive and drive.armature is not None else joint.armature
        friction = drive.friction if drive and drive.friction is not None else joint.friction
        prefix = f"physxJointAxis:{name}"
        self.api(
            prim,
            f"PhysxJointAxisAPI:{name}",
            {
                f"{prefix}:armature": ("Float", float(armature)),
                f"{prefix}:staticFrictionEffort": ("Float", float(friction)),
                f"{prefix}:dynamicFrictionEffort": ("Float", float(friction)),
                f"{prefix}:viscousFrictionCoefficient": ("Float", float(joint.damping) / unit),
            },
        )
        q = float(desc.joint_pos.get(joint.name, joint.default_pos))
        self.api(
            prim,
            f"PhysicsJointStateAPI:{name}",
            {
                f"state:{name}:physics:position": ("Float", q * unit),
                f"state:{name}:physics:velocity": ("Float", 0.0),
            },
        )


def _motion(joint: MjcfJoint, q: float) -> Pose:
    """Displacement of a joint at coordinate ``q``, in the joint frame."""
    axis = np.asarray(joint.axis, dtype=float)
    if joint.type == "slide":
        return pose(axis / np.linalg.norm(axis) * q, (0, 0, 0, 1))
    if joint.type == "hinge":
        return pose((0, 0, 0), (*(axis / np.linalg.norm(axis) * math.sin(q / 2)), math.cos(q / 2)))
    return pose((0, 0, 0), (0, 0, 0, 1))


def export_scene(
    desc: SceneDesc,
    models: dict[str, MjcfModel],
    *,
    gravity: Vector,
    dt: float,
    position_iterations: int,
    velocity_iterations: int,
) -> SceneExport:
    """Author ``desc`` as USD.

    Args:
        desc: The scene.
        models: Robot models by articulation path.
        gravity: [m/s²].
        dt: Physics time step [s].
        position_iterations, velocity_iterations: Solver iterations of every body.
    """
    w = _Writer(gravity, dt, position_iterations, velocity_iterations)
    stage, physics, geom = w.stage, w.Physics, w.Geom
    geom.Scope.Define(stage, "/World/envs")
    # Equal widths keep the lexical order of the engine numeric.
    width = len(str(desc.num_envs - 1))
    env_paths = [f"/World/envs/env_{i:0{width}d}" for i in range(desc.num_envs)]
    base = env_paths[0]

    def define_env(i: int) -> Any:
        env = geom.Xform.Define(stage, env_paths[i])
        return env

    env0 = define_env(0)
    env0.AddTranslateOp().Set(w.Gf.Vec3d(*(float(x) for x in desc.env_origins[0])))
    articulations = [
        w.articulation(base, f"a{k:02d}_{w.ident(a.path)}", a, models[a.path])
        for k, a in enumerate(desc.articulations)
    ]
    bodies = []
    for k, b in enumerate(desc.rigid_bodies):
        prim = f"b{k:02d}_{w.ident(b.path)}"
        mass = (
            MassProperties(1.0, np.zeros(3), np.eye(3))
            if b.fixed and not _has_mass(b.shapes)
            else mass_properties(b.shapes)
        )
        w.body(f"{base}/{prim}", pose(b.pos, b.quat), mass, kinematic=b.fixed)
        for s, shape in enumerate(b.shapes):
            w.shape(f"{base}/{prim}/s{s:02d}", shape, movable=True)
        bodies.append((b, BodyExport(b.path, prim, mass, b.shapes)))

    statics: dict[str, list[str]] = {}
    geom.Scope.Define(stage, "/World/statics")
    for k, static in enumerate(desc.statics):
        top = geom.Xform.Define(stage, f"/World/statics/g{k:02d}_{w.ident(static.path)}")
        w.place(top, static.pos, static.quat)
        paths = [f"{top.GetPath()}/s{s:02d}" for s in range(len(static.shapes))]
        for path, shape in zip(paths, static.shapes):
            w.shape(path, shape, movable=False)
        statics[static.path] = paths

    for i in range(1, desc.num_envs):
        env = define_env(i)
        env.GetPrim().GetReferences().AddInternalReference(base)
        env.GetPrim().GetAttribute("xformOp:translate").Set(
            w.Gf.Vec3d(*(float(x) for x in desc.env_origins[i]))
        )

    # With inverted filters a group collides with the groups it lists: itself and the static world.
    geom.Scope.Define(stage, "/World/groups")
    shared = physics.CollisionGroup.Define(stage, "/World/groups/shared")
    shared.GetCollidersCollectionAPI().CreateIncludesRel().SetTargets(["/World/statics"])
    for i, path in enumerate(env_paths):
        group = physics.CollisionGroup.Define(stage, f"/World/groups/env_{i:0{width}d}")
        group.GetCollidersCollectionAPI().CreateIncludesRel().SetTargets([path])
        group.CreateFilteredGroupsRel().SetTargets([group.GetPath(), shared.GetPath()])
    return SceneExport(stage.GetRootLayer().ExportToString(), env_paths, articulations, bodies, statics)


def _has_mass(shapes: Sequence[ShapeDesc]) -> bool:
    return all(s.kind != "plane" for s in shapes)
