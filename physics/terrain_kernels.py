# SPDX-License-Identifier: Apache-2.0
"""Contacts of shapes with height fields, written into the solver's list of contacts.

The solver's own search takes a field apart into prisms, one per triangle: it finds contacts at the seams between
them, and deep ones that do not exist. Here a surface is a surface. Round shapes touch it where the distance to it has
a minimum: on a face, a convex edge or a peak. Others touch it with their corners, and boxes also with its peaks.
"""

# No `from __future__ import annotations`: Warp reads the annotations of kernels.
import warp as wp

wp.set_module_options({"enable_backward": False})

vec5 = wp.types.vector(length=5, dtype=float)
# Signed distance, position and normal of up to eight contacts.
distances = wp.types.vector(length=8, dtype=float)
vectors = wp.types.matrix(shape=(8, 3), dtype=float)

# Types of shapes, as the solver numbers them.
SPHERE = wp.constant(2)
CAPSULE = wp.constant(3)
CYLINDER = wp.constant(5)
BOX = wp.constant(6)
MESH = wp.constant(7)

NONE = wp.constant(1.0e10)
# What is deeper below the surface than this is under the ground, not in it [m].
THICKNESS = wp.constant(1.0)
# Directions closer to a right angle than this (cosine) are at one.
TOUCH = wp.constant(1.0e-5)
# Contacts of a round shape at most.
ROUND = wp.constant(4)


@wp.struct
class Field:
    """A height field: one row per y, its middle at ``pose``."""

    heights: wp.array2d(dtype=float)
    pose: wp.transform
    half: wp.vec2
    cell: wp.vec2
    low: float
    high: float


@wp.func
def corner(f: Field, r: int, c: int) -> wp.vec3:
    return wp.vec3(float(c) * f.cell[0] - f.half[0], float(r) * f.cell[1] - f.half[1], f.heights[r, c])


@wp.func
def exists(f: Field, r: int, c: int) -> bool:
    return r >= 0 and c >= 0 and r < f.heights.shape[0] and c < f.heights.shape[1]


@wp.func
def below(f: Field, p: wp.vec3, reach: float):
    """Height over the plane of the triangle that ``p`` is above or in, and its normal; NONE where there is none."""
    up = wp.vec3(0.0, 0.0, 1.0)
    x = (p[0] + f.half[0]) / f.cell[0]
    y = (p[1] + f.half[1]) / f.cell[1]
    rows = f.heights.shape[0]
    columns = f.heights.shape[1]
    if x < 0.0 or y < 0.0 or x > float(columns - 1) or y > float(rows - 1) or p[2] > f.high + reach:
        return NONE, up
    c = wp.min(int(x), columns - 2)
    r = wp.min(int(y), rows - 2)
    a = corner(f, r, c)
    b = corner(f, r + 1, c + 1)
    third = corner(f, r, c + 1)
    if y - float(r) > x - float(c):
        third = corner(f, r + 1, c)
    n = wp.normalize(wp.cross(b - a, third - a))
    if n[2] < 0.0:
        n = -n
    h = wp.dot(p - a, n)
    if h < -THICKNESS:
        return NONE, up
    return h, n


@wp.func
def worst_of(dist: distances, count: int) -> int:
    worst = int(0)
    for i in range(1, count):
        if dist[i] > dist[worst]:
            worst = i
    return worst


@wp.func
def is_peak(f: Field, r: int, c: int, v: wp.vec3, d: wp.vec3, least: float) -> bool:
    """Whether corner (r, c) at ``v`` is the point of the surface around it nearest to ``v + d``.

    Level ground has no peaks: somewhere the surface must fall off by ``least`` (cosine), seen along ``d``.
    """
    falls = bool(False)
    six = int(6)
    for k in range(six):
        # The neighbours that an edge leads to: along x, along y, across, both ways.
        dr = wp.where(k % 3 == 0, 0, 1)
        dc = wp.where(k % 3 == 1, 0, 1)
        if k > 2:
            dr = -dr
            dc = -dc
        if exists(f, r + dr, c + dc):
            e = corner(f, r + dr, c + dc) - v
            turn = wp.dot(d, e) / (wp.length(d) * wp.length(e))
            if turn > TOUCH:
                return False
            if turn < -least:
                falls = True
    return falls


@wp.func
def leaving(f: Field, r: int, c: int, v: wp.vec3, e: wp.vec3, d: wp.vec3) -> float:
    """How the triangle between the edge ``e`` at ``v`` and corner (r, c) turns away from ``d``: negative if it does."""
    if not exists(f, r, c):
        return -1.0
    side = corner(f, r, c) - v
    side = side - e * (wp.dot(side, e) / wp.dot(e, e))
    return wp.dot(d, side) / (wp.length(d) * wp.length(side))


@wp.func
def round_contacts(f: Field, a: wp.vec3, b: wp.vec3, radius: float, margin: float):
    """All places where the distance of the surface to the segment from ``a`` to ``b`` has a minimum."""
    dist = distances()
    pos = vectors()
    normal = vectors()
    for i in range(8):
        dist[i] = NONE
    reach = radius + margin
    axis = b - a
    long = wp.dot(axis, axis)
    # Faces, which only the ends of a segment can be nearest to.
    ends = int(1)
    if long > 0.0:
        ends = int(2)
    columns = f.heights.shape[1]
    rows = f.heights.shape[0]
    c0 = wp.max(int(wp.floor((wp.min(a[0], b[0]) - reach + f.half[0]) / f.cell[0])), 0)
    c1 = wp.min(int(wp.floor((wp.max(a[0], b[0]) + reach + f.half[0]) / f.cell[0])) + 1, columns - 1)
    r0 = wp.max(int(wp.floor((wp.min(a[1], b[1]) - reach + f.half[1]) / f.cell[1])), 0)
    r1 = wp.min(int(wp.floor((wp.max(a[1], b[1]) + reach + f.half[1]) / f.cell[1])) + 1, rows - 1)
    for r in range(r0, r1 + 1):
        for c in range(c0, c1 + 1):
            v = corner(f, r, c)
            # The corner itself.
            s = float(0.0)
            if long > 0.0:
                s = wp.clamp(wp.dot(v - a, axis) / long, 0.0, 1.0)
            d = a + s * axis - v
            gap = wp.length(d) - radius
            if gap < margin and d[2] > 0.0:  # noqa: SIM102 (both sides of an `and` would be computed)
                if is_peak(f, r, c, v, d, TOUCH):
                    k = worst_of(dist, ROUND)
                    if gap < dist[k]:
                        n = wp.normalize(d)
                        dist[k] = gap
                        pos[k] = v + n * (0.5 * gap)
                        normal[k] = n
            # The edges that begin here: along x, along y, across.
            three = int(3)
            for k in range(three):
                dr = wp.where(k == 0, 0, 1)
                dc = wp.where(k == 1, 0, 1)
                if exists(f, r + dr, c + dc):
                    e = corner(f, r + dr, c + dc) - v
                    square = wp.dot(e, e)
                    along = wp.dot(axis, e)
                    w = a - v
                    s = float(0.0)
                    det = long * square - along * along
                    if det > 1.0e-6 * long * square:
                        s = wp.clamp((along * wp.dot(w, e) - square * wp.dot(w, axis)) / det, 0.0, 1.0)
                    t = wp.dot(w + s * axis, e) / square
                    if long > 0.0 and (t < 0.0 or t > 1.0):
                        s = wp.clamp(wp.dot(v + wp.clamp(t, 0.0, 1.0) * e - a, axis) / long, 0.0, 1.0)
                        t = wp.dot(w + s * axis, e) / square
                    if t > 0.0 and t < 1.0:
                        p = v + t * e
                        d = a + s * axis - p
                        gap = wp.length(d) - radius
                        if gap < margin and d[2] > 0.0:
                            # The corners across the edge, of the triangles on both of its sides.
                            one = wp.vec2i(1, 1)
                            two = wp.vec2i(-1, 0)
                            if k == 1:
                                two = wp.vec2i(0, -1)
                            if k == 2:
                                one = wp.vec2i(0, 1)
                                two = wp.vec2i(1, 0)
                            turn1 = leaving(f, r + one[0], c + one[1], v, e, d)
                            turn2 = leaving(f, r + two[0], c + two[1], v, e, d)
                            # In level ground an edge is no edge; its faces are touched.
                            if wp.max(turn1, turn2) <= TOUCH and wp.min(turn1, turn2) < -TOUCH:
                                m = worst_of(dist, ROUND)
                                if gap < dist[m]:
                                    n = wp.normalize(d)
                                    dist[m] = gap
                                    pos[m] = p + n * (0.5 * gap)
                                    normal[m] = n
            # The two triangles of the cell that begins here.
            if r < rows - 1 and c < columns - 1:
                across = corner(f, r + 1, c + 1) - v
                two_faces = int(2)
                for k in range(two_faces):
                    side = corner(f, r, c + 1) - v
                    turn = float(1.0)
                    if k == 1:
                        side = corner(f, r + 1, c) - v
                        turn = float(-1.0)
                    n = wp.normalize(wp.cross(side, across)) * turn
                    for end in range(ends):
                        q = a
                        if end == 1:
                            q = b
                        h = wp.dot(q - v, n)
                        if h - radius < margin and h > -THICKNESS:
                            # Above the surface the foot counts; below it what lies straight above.
                            foot = q - h * n - v
                            if h < 0.0:
                                foot = q - v
                            # Shares of both sides, in the ground plane.
                            area = (side[0] * across[1] - side[1] * across[0]) * turn
                            u = (foot[0] * across[1] - foot[1] * across[0]) * turn
                            w2 = (side[0] * foot[1] - side[1] * foot[0]) * turn
                            # A border belongs to one of its triangles.
                            if (u > 0.0 or (u == 0.0 and k == 0)) and w2 >= 0.0 and u + w2 < area:
                                m = worst_of(dist, ROUND)
                                gap = h - radius
                                if gap < dist[m]:
                                    dist[m] = gap
                                    pos[m] = q - n * (radius + 0.5 * gap)
                                    normal[m] = n
    return dist, pos, normal


@wp.func
def tangents(n: wp.vec3) -> wp.mat33:
    """Rows: the normal and two directions across it."""
    y = wp.vec3(0.0, 1.0, 0.0)
    if wp.abs(n[1]) > 0.5:
        y = wp.vec3(0.0, 0.0, 1.0)
    t = wp.normalize(y - n * wp.dot(n, y))
    s = wp.cross(n, t)
    return wp.mat33(n[0], n[1], n[2], t[0], t[1], t[2], s[0], s[1], s[2])


@wp.kernel
def terrain_contacts(
    field: Field,
    # Pairs with this terrain.
    terrain_geom: int,
    pair: wp.array(dtype=int),
    geom: wp.array(dtype=int),
    # The solver's model and state.
    geom_type: wp.array(dtype=int),
    geom_dataid: wp.array2d(dtype=int),
    geom_size: wp.array2d(dtype=wp.vec3),
    geom_rbound: wp.array2d(dtype=float),
    mesh_vertadr: wp.array(dtype=int),
    mesh_vertnum: wp.array(dtype=int),
    mesh_vert: wp.array(dtype=wp.vec3),
    pair_dim: wp.array(dtype=int),
    pair_solref: wp.array2d(dtype=wp.vec2),
    pair_solreffriction: wp.array2d(dtype=wp.vec2),
    pair_solimp: wp.array2d(dtype=vec5),
    pair_margin: wp.array2d(dtype=float),
    pair_friction: wp.array2d(dtype=vec5),
    geom_xpos: wp.array2d(dtype=wp.vec3),
    geom_xmat: wp.array2d(dtype=wp.mat33),
    capacity: int,
    # The solver's contacts.
    count: wp.array(dtype=int),
    contact_dist: wp.array(dtype=float),
    contact_pos: wp.array(dtype=wp.vec3),
    contact_frame: wp.array(dtype=wp.mat33),
    contact_includemargin: wp.array(dtype=float),
    contact_friction: wp.array(dtype=vec5),
    contact_solref: wp.array(dtype=wp.vec2),
    contact_solreffriction: wp.array(dtype=wp.vec2),
    contact_solimp: wp.array(dtype=vec5),
    contact_dim: wp.array(dtype=int),
    contact_geom: wp.array(dtype=wp.vec2i),
    contact_efc_address: wp.array2d(dtype=int),
    contact_worldid: wp.array(dtype=int),
    contact_type: wp.array(dtype=int),
    contact_number: wp.array(dtype=int),
    contact_adhesion: wp.array(dtype=float),
):
    """One thread per world and pair."""
    w, i = wp.tid()
    g = geom[i]
    k = pair[i]
    kind = geom_type[g]
    size = geom_size[w % geom_size.shape[0], g]
    bound = geom_rbound[w % geom_rbound.shape[0], g]
    margin = pair_margin[w % pair_margin.shape[0], k]
    rot = wp.transform_get_rotation(field.pose)
    center = wp.quat_rotate_inv(rot, geom_xpos[w, g] - wp.transform_get_translation(field.pose))
    reach = bound + margin
    if center[2] > field.high + reach or center[2] < field.low - THICKNESS - reach:
        return
    if wp.abs(center[0]) > field.half[0] + reach or wp.abs(center[1]) > field.half[1] + reach:
        return
    # The shape's axes in the terrain's frame.
    turn = wp.transpose(wp.quat_to_matrix(rot)) * geom_xmat[w, g]

    dist = distances()
    pos = vectors()
    normal = vectors()
    for n in range(8):
        dist[n] = NONE
    if kind == SPHERE:
        dist, pos, normal = round_contacts(field, center, center, size[0], margin)
    elif kind == CAPSULE:
        half = turn * wp.vec3(0.0, 0.0, size[1])
        dist, pos, normal = round_contacts(field, center - half, center + half, size[0], margin)
    elif kind == MESH:
        # The deepest corner in each octant.
        mesh = geom_dataid[w % geom_dataid.shape[0], g]
        for n in range(mesh_vertnum[mesh]):
            v = mesh_vert[mesh_vertadr[mesh] + n]
            p = center + turn * v
            h, up = below(field, p, margin)
            o = wp.where(v[0] > 0.0, 1, 0) + wp.where(v[1] > 0.0, 2, 0) + wp.where(v[2] > 0.0, 4, 0)
            if h < margin and h < dist[o]:
                dist[o] = h
                pos[o] = p - up * (0.5 * h)
                normal[o] = up
    elif kind == CYLINDER or kind == BOX:  # noqa: SIM109
        # Where a rim comes nearest to the ground, and the three points a quarter turn on.
        h, up = below(field, center, NONE)
        first = turn * wp.vec3(1.0, 0.0, 0.0)
        second = turn * wp.vec3(0.0, 1.0, 0.0)
        axis = turn * wp.vec3(0.0, 0.0, 1.0)
        down = axis * wp.dot(up, axis) - up
        if wp.length(down) > 1.0e-3:
            first = wp.normalize(down)
            second = wp.cross(axis, first)
        eight = int(8)
        for n in range(eight):
            p = wp.vec3(0.0, 0.0, 0.0)
            if kind == BOX:
                v = wp.vec3(
                    wp.where(n % 2 == 0, -size[0], size[0]),
                    wp.where((n / 2) % 2 == 0, -size[1], size[1]),
                    wp.where(n / 4 == 0, -size[2], size[2]),
                )
                p = center + turn * v
            else:
                q = n % 4
                out = first
                if q == 1 or q == 3:
                    out = second
                if q > 1:
                    out = -out
                p = center + out * size[0] + axis * wp.where(n / 4 == 0, -size[1], size[1])
            h, up = below(field, p, margin)
            if h < margin:
                dist[n] = h
                pos[n] = p - up * (0.5 * h)
                normal[n] = up
        if kind == BOX:
            # Peaks that stick into a face; each takes the place of a corner that touches nothing, or less deeply.
            c0 = wp.max(int(wp.floor((center[0] - bound + field.half[0]) / field.cell[0])), 0)
            c1 = wp.min(
                int(wp.floor((center[0] + bound + field.half[0]) / field.cell[0])) + 1,
                field.heights.shape[1] - 1,
            )
            r0 = wp.max(int(wp.floor((center[1] - bound + field.half[1]) / field.cell[1])), 0)
            r1 = wp.min(
                int(wp.floor((center[1] + bound + field.half[1]) / field.cell[1])) + 1,
                field.heights.shape[0] - 1,
            )
            for r in range(r0, r1 + 1):
                for c in range(c0, c1 + 1):
                    v = corner(field, r, c)
                    l = wp.transpose(turn) * (v - center)
                    deep = wp.vec3(size[0] - wp.abs(l[0]), size[1] - wp.abs(l[1]), size[2] - wp.abs(l[2]))
                    if deep[0] > 0.0 and deep[1] > 0.0 and deep[2] > 0.0:
                        j = int(0)
                        if deep[1] < deep[j]:
                            j = int(1)
                        if deep[2] < deep[j]:
                            j = int(2)
                        face = wp.vec3(0.0, 0.0, 0.0)
                        face[j] = wp.where(l[j] > 0.0, -1.0, 1.0)
                        up = turn * face
                        if up[2] > 0.1 and is_peak(field, r, c, v, up, 0.02):
                            m = worst_of(dist, 8)
                            if -deep[j] < dist[m]:
                                dist[m] = -deep[j]
                                pos[m] = v + up * (0.5 * deep[j])
                                normal[m] = up

    most = int(8)
    for n in range(most):
        if dist[n] < margin:
            at = wp.atomic_add(count, 0, 1)
            if at < capacity:
                contact_dist[at] = dist[n]
                contact_pos[at] = wp.transform_point(field.pose, pos[n])
                contact_frame[at] = tangents(wp.quat_rotate(rot, normal[n]))
                contact_includemargin[at] = margin
                contact_friction[at] = pair_friction[w % pair_friction.shape[0], k]
                contact_solref[at] = pair_solref[w % pair_solref.shape[0], k]
                contact_solreffriction[at] = pair_solreffriction[w % pair_solreffriction.shape[0], k]
                contact_solimp[at] = pair_solimp[w % pair_solimp.shape[0], k]
                contact_dim[at] = pair_dim[k]
                contact_geom[at] = wp.vec2i(terrain_geom, g)
                contact_worldid[at] = w
                contact_type[at] = 1
                contact_number[at] = n
                contact_adhesion[at] = 0.0
                for j in range(contact_efc_address.shape[1]):
                    contact_efc_address[at, j] = -1
