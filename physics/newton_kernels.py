# SPDX-License-Identifier: Apache-2.0
"""Warp kernels of the Newton engine: contacts, joint wrenches, published state."""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

wp.set_module_options({"enable_backward": False})

vec5 = wp.types.vector(length=5, dtype=wp.float32)
vec10 = wp.types.vector(length=10, dtype=wp.float32)


@wp.kernel
def contact_forces(
    # the solver's contact rows
    count: wp.array(dtype=int),
    position: wp.array(dtype=wp.vec3),
    frame: wp.array(dtype=wp.mat33),
    mu: wp.array(dtype=vec5),
    dim: wp.array(dtype=int),
    row: wp.array2d(dtype=int),
    world: wp.array(dtype=int),
    geom: wp.array(dtype=wp.vec2i),
    row_force: wp.array2d(dtype=float),
    row_capacity: int,
    elliptic: int,
    # poses of the bodies when contacts were found
    body_pose: wp.array2d(dtype=wp.transform),
    # who listens to a geom (compressed rows): as sensing body, and as partner
    sense_start: wp.array(dtype=int),
    sense_query: wp.array(dtype=int),
    sense_row: wp.array(dtype=int),
    sense_body: wp.array(dtype=int),
    partner_start: wp.array(dtype=int),
    partner_query: wp.array(dtype=int),
    partner_column: wp.array(dtype=int),
    # layout of each query in the flat outputs
    query_rows: wp.array(dtype=int),
    query_columns: wp.array(dtype=int),
    query_net: wp.array(dtype=int),
    query_matrix: wp.array(dtype=int),
    query_points: wp.array(dtype=int),
    query_origin: wp.array(dtype=wp.vec3),
    query_radius: wp.array(dtype=float),
    # the solver's bodies, for joint wrenches
    geom_body: wp.array(dtype=int),
    body_root: wp.array(dtype=int),
    reference: wp.array2d(dtype=wp.vec3),
    # out
    normal: wp.array(dtype=wp.vec3),
    friction: wp.array(dtype=wp.vec3),
    normal_matrix: wp.array(dtype=wp.vec3),
    friction_matrix: wp.array(dtype=wp.vec3),
    points: wp.array(dtype=wp.vec4),
    load: wp.array2d(dtype=wp.spatial_vector),
):
    """Sum contact forces per sensing body and partner column, straight from the constraint rows.

    Where ``load`` is given, what a contact does to its two bodies is taken off the loads of :func:`body_loads`.
    """
    i = wp.tid()
    if i >= count[0]:
        return
    first = row[i, 0]
    if first < 0:
        return
    g = geom[i]
    if g[0] < 0 or g[1] < 0:
        return
    n0 = sense_start[g[0] + 1] - sense_start[g[0]]
    n1 = sense_start[g[1] + 1] - sense_start[g[1]]
    if n0 + n1 == 0 and not load:
        return
    w = world[i]
    d = dim[i]
    fn = float(0.0)
    f1 = float(0.0)
    f2 = float(0.0)
    if d == 1 or elliptic == 1:
        if first < row_capacity:
            fn = row_force[w, first]
        if d > 1:
            r1 = row[i, 1]
            r2 = row[i, 2]
            if r1 >= 0 and r1 < row_capacity:
                f1 = row_force[w, r1]
            if r2 >= 0 and r2 < row_capacity:
                f2 = row_force[w, r2]
    else:
        # Pyramid edges come in pairs (normal ± mu·tangent).
        for k in range(2 * (d - 1)):
            r = row[i, k]
            if r >= 0 and r < row_capacity:
                fn += row_force[w, r]
        ra = row[i, 0]
        rb = row[i, 1]
        if rb >= 0 and rb < row_capacity:
            f1 = (row_force[w, ra] - row_force[w, rb]) * mu[i][0]
        rc = row[i, 2]
        rd = row[i, 3]
        if rd >= 0 and rd < row_capacity:
            f2 = (row_force[w, rc] - row_force[w, rd]) * mu[i][1]
    p = position[i]
    fr = frame[i]
    # Rows of the contact frame: the normal from geom 0 to geom 1, then the two tangents.
    vn = fn * wp.vec3(fr[0, 0], fr[0, 1], fr[0, 2])
    vt = f1 * wp.vec3(fr[1, 0], fr[1, 1], fr[1, 2]) + f2 * wp.vec3(fr[2, 0], fr[2, 1], fr[2, 2])
    for side in range(2):
        me = g[side]
        other = g[1 - side]
        # The force along the frame acts on geom 1.
        sign = 2.0 * float(side) - 1.0
        if load:
            b = geom_body[me]
            if b > 0:
                force = sign * (vn + vt)
                arm = p - reference[w, body_root[b]]
                wp.atomic_sub(load, w, b, wp.spatial_vector(wp.cross(arm, force), force))
        for s in range(sense_start[me], sense_start[me + 1]):
            q = sense_query[s]
            cell = w * query_rows[q] + sense_row[s]
            near = int(1)
            if query_radius[q] > 0.0:
                origin = wp.transform_point(body_pose[w, sense_body[s]], query_origin[q])
                if wp.length(p - origin) >= query_radius[q]:
                    near = int(0)
            if near == 1:
                wp.atomic_add(normal, query_net[q] + cell, sign * vn)
                wp.atomic_add(friction, query_net[q] + cell, sign * vt)
                for k in range(partner_start[other], partner_start[other + 1]):
                    if partner_query[k] == q:
                        column = cell * query_columns[q] + partner_column[k]
                        wp.atomic_add(normal_matrix, query_matrix[q] + column, sign * vn)
                        wp.atomic_add(friction_matrix, query_matrix[q] + column, sign * vt)
                        # Rows without force do not touch.
                        if query_points[q] >= 0 and fn > 0.0:
                            wp.atomic_add(points, query_points[q] + column, wp.vec4(p[0], p[1], p[2], 1.0))


@wp.kernel
def body_loads(
    parent: wp.array(dtype=int),
    root: wp.array(dtype=int),
    dof_count: wp.array(dtype=int),
    dof_start: wp.array(dtype=int),
    bias_acc: wp.array2d(dtype=wp.spatial_vector),
    dof_axis: wp.array2d(dtype=wp.spatial_vector),
    dof_acc: wp.array2d(dtype=float),
    inertia: wp.array2d(dtype=vec10),
    velocity: wp.array2d(dtype=wp.spatial_vector),
    applied: wp.array2d(dtype=wp.spatial_vector),
    com: wp.array2d(dtype=wp.vec3),
    reference: wp.array2d(dtype=wp.vec3),
    load: wp.array2d(dtype=wp.spatial_vector),
):
    """What moves each of the solver's bodies: inertial force less applied force, contacts not yet.

    (torque, force) in world axes, the torque about the centre of mass of the body's whole tree, which the solver
    calls subtree centre and all its spatial vectors refer to. ``bias_acc`` are accelerations at zero joint
    acceleration, gravity included.
    """
    w, b = wp.tid()
    if b == 0:
        return
    acc = bias_acc[w, b]
    k = int(b)
    while k > 0:
        for d in range(dof_start[k], dof_start[k] + dof_count[k]):
            acc += dof_axis[w, d] * dof_acc[w, d]
        k = parent[k]
    # About the reference: moments of inertia xx yy zz xy xz yz, first moment of mass, mass.
    m = inertia[w, b]
    rotational = wp.mat33(m[0], m[3], m[4], m[3], m[1], m[5], m[4], m[5], m[2])
    moment = wp.vec3(m[6], m[7], m[8])
    omega = wp.spatial_top(velocity[w, b])
    v = wp.spatial_bottom(velocity[w, b])
    alpha = wp.spatial_top(acc)
    a = wp.spatial_bottom(acc)
    angular_momentum = rotational * omega + wp.cross(moment, v)
    momentum = m[9] * v - wp.cross(moment, omega)
    force = m[9] * a - wp.cross(moment, alpha) + wp.cross(omega, momentum)
    torque = (
        rotational * alpha + wp.cross(moment, a) + wp.cross(omega, angular_momentum) + wp.cross(v, momentum)
    )
    # Applied forces come as (force, torque) at the centre of mass.
    outer = wp.spatial_top(applied[w, b])
    arm = com[w, b] - reference[w, root[b]]
    torque -= wp.spatial_bottom(applied[w, b]) + wp.cross(arm, outer)
    load[w, b] = wp.spatial_vector(torque, force - outer)


@wp.kernel
def summed_joint_wrenches(
    body: wp.array(dtype=int),
    # bodies that each joint carries (compressed rows)
    carried_start: wp.array(dtype=int),
    carried: wp.array(dtype=int),
    root: wp.array(dtype=int),
    load: wp.array2d(dtype=wp.spatial_vector),
    reference: wp.array2d(dtype=wp.vec3),
    position: wp.array2d(dtype=wp.vec3),
    orientation: wp.array2d(dtype=wp.quat),
    joint_frame: wp.array2d(dtype=wp.transform),
    force: wp.array2d(dtype=wp.vec3),
    torque: wp.array2d(dtype=wp.vec3),
    axes: wp.array2d(dtype=wp.quat),
):
    """Sum the loads of all bodies that a joint carries, and express them in the child joint frame."""
    w, k = wp.tid()
    b = body[k]
    total = wp.spatial_vector()
    for i in range(carried_start[k], carried_start[k + 1]):
        total += load[w, carried[i]]
    f = wp.spatial_bottom(total)
    # The solver keeps the real part of a quaternion first.
    r = orientation[w, b]
    q = wp.quat(r[1], r[2], r[3], r[0])
    child = joint_frame[w, k]
    anchor = position[w, b] + wp.quat_rotate(q, wp.transform_get_translation(child))
    t = wp.spatial_top(total) + wp.cross(reference[w, root[b]] - anchor, f)
    q = q * wp.transform_get_rotation(child)
    force[w, k] = wp.quat_rotate_inv(q, f)
    torque[w, k] = wp.quat_rotate_inv(q, t)
    axes[w, k] = q


@wp.kernel
def joint_wrenches(
    bodies_per_world: int,
    body: wp.array(dtype=int),
    joint_frame: wp.array2d(dtype=wp.transform),
    body_pose: wp.array(dtype=wp.transform),
    body_com: wp.array(dtype=wp.vec3),
    parent_force: wp.array(dtype=wp.spatial_vector),
    force: wp.array2d(dtype=wp.vec3),
    torque: wp.array2d(dtype=wp.vec3),
    axes: wp.array2d(dtype=wp.quat),
):
    """Turn (force, torque about the child's centre of mass, world frame) into the child joint frame."""
    w, k = wp.tid()
    b = w * bodies_per_world + body[k]
    pose = body_pose[b]
    child = joint_frame[w, k]
    f = wp.spatial_top(parent_force[b])
    t = wp.spatial_bottom(parent_force[b])
    com = wp.transform_point(pose, body_com[b])
    anchor = wp.transform_point(pose, wp.transform_get_translation(child))
    t = t + wp.cross(com - anchor, f)
    q = wp.transform_get_rotation(pose) * wp.transform_get_rotation(child)
    force[w, k] = wp.quat_rotate_inv(q, f)
    torque[w, k] = wp.quat_rotate_inv(q, t)
    axes[w, k] = q


@wp.func
def at_origin(twist: wp.spatial_vector, pose: wp.transform, com: wp.vec3):
    """A twist with its linear velocity moved from the centre of mass to the body's origin."""
    omega = wp.spatial_bottom(twist)
    arm = wp.quat_rotate(wp.transform_get_rotation(pose), com)
    return wp.spatial_vector(wp.spatial_top(twist) - wp.cross(omega, arm), omega)


@wp.kernel
def publish_bodies(
    body_pose: wp.array(dtype=wp.transform),
    body_twist: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    out: wp.array(dtype=wp.spatial_vector),
):
    """Linear velocities of the bodies' origins."""
    b = wp.tid()
    out[b] = at_origin(body_twist[b], body_pose[b], body_com[b])


@wp.kernel
def write_root_pose(
    mask: wp.array(dtype=wp.bool),
    pose: wp.array2d(dtype=float),
    coords_per_world: int,
    coord: int,
    joint_q: wp.array(dtype=float),
    dirty: wp.array(dtype=wp.bool),
):
    """Coordinates of a free root, for masked environments."""
    w = wp.tid()
    if not mask[w]:
        return
    for i in range(7):
        joint_q[w * coords_per_world + coord + i] = pose[w, i]
    dirty[w] = True


@wp.kernel
def write_root_velocity(
    mask: wp.array(dtype=wp.bool),
    velocity: wp.array2d(dtype=float),
    coords_per_world: int,
    dofs_per_world: int,
    coord: int,
    dof: int,
    body_com: wp.array(dtype=wp.vec3),
    bodies_per_world: int,
    root: int,
    joint_q: wp.array(dtype=float),
    joint_qd: wp.array(dtype=float),
    dirty: wp.array(dtype=wp.bool),
):
    """Velocity of the origin → velocity of the centre of mass, for masked environments."""
    w = wp.tid()
    if not mask[w]:
        return
    c = w * coords_per_world + coord + 3
    q = wp.quat(joint_q[c], joint_q[c + 1], joint_q[c + 2], joint_q[c + 3])
    arm = wp.quat_rotate(q, body_com[w * bodies_per_world + root])
    omega = wp.vec3(velocity[w, 3], velocity[w, 4], velocity[w, 5])
    v = wp.vec3(velocity[w, 0], velocity[w, 1], velocity[w, 2]) + wp.cross(omega, arm)
    d = w * dofs_per_world + dof
    for i in range(3):
        joint_qd[d + i] = v[i]
        joint_qd[d + 3 + i] = omega[i]
    dirty[w] = True


@wp.kernel
def write_joint_state(
    mask: wp.array(dtype=wp.bool),
    pos: wp.array2d(dtype=float),
    vel: wp.array2d(dtype=float),
    joint_pos: wp.array2d(dtype=float),
    joint_vel: wp.array2d(dtype=float),
    joint_acc: wp.array2d(dtype=float),
    dirty: wp.array(dtype=wp.bool),
):
    """Positions and velocities of a tree's joints, for masked environments; their accelerations become 0."""
    w = wp.tid()
    if not mask[w]:
        return
    for j in range(joint_pos.shape[1]):
        joint_pos[w, j] = pos[w, j]
        joint_vel[w, j] = vel[w, j]
        joint_acc[w, j] = 0.0
    dirty[w] = True


@wp.kernel
def expand_mask(mask: wp.array(dtype=wp.bool), trees_per_world: int, out: wp.array(dtype=wp.bool)):
    i = wp.tid()
    out[i] = mask[i / trees_per_world]


@wp.kernel
def pair_friction(
    shape_a: wp.array(dtype=int),
    shape_b: wp.array(dtype=int),
    friction: wp.array2d(dtype=float),
    out: wp.array2d(dtype=vec5),
):
    """A pair slides with the mean of its two shapes' coefficients, as in PhysX."""
    w, p = wp.tid()
    mu = 0.5 * (friction[w, shape_a[p]] + friction[w, shape_b[p]])
    v = out[w, p]
    v[0] = mu
    v[1] = mu
    out[w, p] = v


# Bits of the solver's overflow flags: no room for constraint rows (1, 2), candidates (4), contacts (8) or convex
# pairs (16, 32). Higher bits are limits of iterations.
LOST_CONTACTS = wp.constant(63)


@wp.kernel
def end_of_step(
    worlds: int,
    lanes: int,
    # health
    bits: wp.array(dtype=int),
    count: wp.array(dtype=int),
    rows: wp.array(dtype=int),
    # state
    bodies_per_world: int,
    body_pose: wp.array(dtype=wp.transform),
    body_twist: wp.array(dtype=wp.spatial_vector),
    body_com: wp.array(dtype=wp.vec3),
    dofs_per_world: int,
    vel: wp.array(dtype=float),
    previous: wp.array(dtype=float),
    inv_dt: float,
    # out
    seen: wp.array(dtype=int),
    most: wp.array(dtype=int),
    stepped: wp.array(dtype=wp.bool),
    steps: wp.array(dtype=int),
    body_vel: wp.array(dtype=wp.spatial_vector),
    acc: wp.array(dtype=float),
    cleared: wp.array(dtype=float),
):
    """All that follows every step: body velocities, joint accelerations, the health of the solver, clean sums.

    Sticky overflow bits per world; most[0] contacts and most[1] constraint rows ever needed, most[2] all bits of lost
    contacts. Counts the step.
    """
    w, i = wp.tid()
    if i < bodies_per_world:
        b = w * bodies_per_world + i
        body_vel[b] = at_origin(body_twist[b], body_pose[b], body_com[b])
    if i < dofs_per_world:
        d = w * dofs_per_world + i
        acc[d] = (vel[d] - previous[d]) * inv_dt
    for c in range(w * lanes + i, cleared.shape[0], worlds * lanes):
        cleared[c] = 0.0
    if i > 0:
        return
    if bits[w] != 0:
        seen[w] = seen[w] | bits[w]
        if (bits[w] & LOST_CONTACTS) != 0:
            wp.atomic_or(most, 2, bits[w] & LOST_CONTACTS)
    stepped[w] = True
    if rows[w] > most[1]:
        wp.atomic_max(most, 1, rows[w])
    if w == 0:
        wp.atomic_max(most, 0, count[0])
        steps[0] = steps[0] + 1
