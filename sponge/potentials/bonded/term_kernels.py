"""Loops over bonded terms, eight at a time in float64 vectors, with the formula as an argument.

Terms are sorted by their first atom and cut into chunks; a chunk adds its forces to a buffer of its own that covers the
atoms it touches, and the buffers are added in a fixed order. Forces therefore do not depend on the number of threads.

Every kernel takes ``(chunk, positions, box, flags, layout, atoms, params, buffer, rows)``:
positions [n, 3]; box [3, 3], zeros when not periodic; flags of the engine; layout [chunks, 5] (first block, number of
terms, first atom, number of atoms, where they begin in the buffer); atoms [blocks, atoms of a term, 8] and params
[blocks, parameters, 8] flat; buffer [atoms of all chunks, 4] flat; rows [chunks, 10], the energy and the virial.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, kernel, simd, template

from ...engine.flags import ENERGY

LANES = 8  # of a block: one full vector of float64 on processors with AVX-512, two on others
_XYZ = np.uint64(7)  # the lanes of a vector of four that hold a position


# ------------------------------------------------------------------------------------------------- positions and forces
@device
def _position(positions, atoms, at):
    a = np.int64(simd.load_scalar(atoms, at))
    return simd.load_masked(positions, 3 * a, simd.from_bits(_XYZ, 4), simd.splat(0.0, 4))


@device
def load8(positions, atoms, at):
    """x, y and z of the eight atoms from `atoms[at]` on."""
    a = simd.concat(_position(positions, atoms, at), _position(positions, atoms, at + 4))
    b = simd.concat(_position(positions, atoms, at + 1), _position(positions, atoms, at + 5))
    c = simd.concat(_position(positions, atoms, at + 2), _position(positions, atoms, at + 6))
    d = simd.concat(_position(positions, atoms, at + 3), _position(positions, atoms, at + 7))
    ab = simd.shuffle2(a, b, (0, 8, 2, 10, 4, 12, 6, 14))  # x0 x1 z0 z1 x4 x5 z4 z5
    cd = simd.shuffle2(c, d, (0, 8, 2, 10, 4, 12, 6, 14))
    x = simd.shuffle2(ab, cd, (0, 1, 8, 9, 4, 5, 12, 13))
    z = simd.shuffle2(ab, cd, (2, 3, 10, 11, 6, 7, 14, 15))
    ab = simd.shuffle2(a, b, (1, 9, 3, 11, 5, 13, 7, 15))
    cd = simd.shuffle2(c, d, (1, 9, 3, 11, 5, 13, 7, 15))
    return x, simd.shuffle2(ab, cd, (0, 1, 8, 9, 4, 5, 12, 13)), z


@device
def _add(buffer, shift, atoms, at, v):
    i = 4 * np.int64(simd.load_scalar(atoms, at)) + shift
    simd.store(buffer, i, simd.load(buffer, i, 4) + v)


@device
def add8(buffer, shift, atoms, at, x, y, z):
    """Add a vector to each of the eight atoms from `atoms[at]` on, one after the other: they may be equal."""
    nothing = simd.splat(0.0, 8)
    xy, z0 = simd.shuffle2(x, y, (0, 8, 2, 10, 4, 12, 6, 14)), simd.shuffle2(z, nothing, (0, 8, 2, 8, 4, 8, 6, 8))
    even, next_even = (
        simd.shuffle2(xy, z0, (0, 1, 8, 9, 4, 5, 12, 13)),
        simd.shuffle2(xy, z0, (2, 3, 10, 11, 6, 7, 14, 15)),
    )
    xy, z0 = simd.shuffle2(x, y, (1, 9, 3, 11, 5, 13, 7, 15)), simd.shuffle2(z, nothing, (1, 8, 3, 8, 5, 8, 7, 8))
    odd, next_odd = (
        simd.shuffle2(xy, z0, (0, 1, 8, 9, 4, 5, 12, 13)),
        simd.shuffle2(xy, z0, (2, 3, 10, 11, 6, 7, 14, 15)),
    )
    _add(buffer, shift, atoms, at, simd.low(even))
    _add(buffer, shift, atoms, at + 1, simd.low(odd))
    _add(buffer, shift, atoms, at + 2, simd.low(next_even))
    _add(buffer, shift, atoms, at + 3, simd.low(next_odd))
    _add(buffer, shift, atoms, at + 4, simd.high(even))
    _add(buffer, shift, atoms, at + 5, simd.high(odd))
    _add(buffer, shift, atoms, at + 6, simd.high(next_even))
    _add(buffer, shift, atoms, at + 7, simd.high(next_odd))


@device
def open_box(box):
    """Edges and inverse edges, read once: a loop that writes forces could not tell that the box stays as it is."""
    ax, by, cz = box[0, 0], box[1, 1], box[2, 2]
    return ax, box[1, 0], by, box[2, 0], box[2, 1], cz, 1.0 / ax, 1.0 / by, 1.0 / cz


@device
def image8(x, y, z, cell):
    """Nearest images of eight differences; unchanged in a box of zeros."""
    ax, bx, by, cx, cy, cz, inv_a, inv_b, inv_c = cell
    if ax != 0.0:
        n = simd.rint(z * inv_c)
        x, y, z = x - n * cx, y - n * cy, z - n * cz
        n = simd.rint(y * inv_b)
        x, y = x - n * bx, y - n * by
        x = x - simd.rint(x * inv_a) * ax
    return x, y, z


@device
def open_chunk(chunk, layout, buffer):
    """First block, numbers of terms and blocks, and what to add to ``4 * atom`` for a place in the buffer, which is set
    to zero.
    """
    start, n = 4 * layout[chunk, 4], layout[chunk, 3]
    for i in range(n):
        simd.store(buffer, start + 4 * i, simd.splat(0.0, 4))
    return layout[chunk, 0], layout[chunk, 1], (layout[chunk, 1] + 7) // 8, start - 4 * layout[chunk, 2]


@device
def nothing8():
    """Eight zeros, and the energy and the virial to begin with."""
    zero = simd.splat(0.0, 8)
    return zero, zero, (zero, zero, zero, zero, zero, zero)


@device
def is_term(block, blocks, terms):
    """Return a mask of lanes that hold a term. Lane k has terms k * blocks ... (k + 1) * blocks - 1, one in each block.

    So terms that follow each other, which mostly share atoms, are added to the same forces in different blocks: within
    one, each addition would wait for the one before to come back from memory.
    """
    return simd.iota(8) * np.int32(blocks) + np.int32(block) < np.int32(terms)


@device
def add_virial(virial, fx, fy, fz, x, y, z):
    """The six sums of a symmetric virial, with the products of eight forces and positions added."""
    xx, xy, xz, yy, yz, zz = virial
    return (
        simd.fma(fx, x, xx),
        simd.fma(fx, y, xy),
        simd.fma(fx, z, xz),
        simd.fma(fy, y, yy),
        simd.fma(fy, z, yz),
        simd.fma(fz, z, zz),
    )


@device
def close_chunk(chunk, flags, rows, u, virial):
    """Write the sums over lanes of the energy and of the symmetric virial, if they are wanted."""
    if flags[ENERGY]:
        xx, xy, xz, yy, yz, zz = virial
        rows[chunk, 0] = simd.sum(u)
        rows[chunk, 1] = simd.sum(xx)
        rows[chunk, 2] = rows[chunk, 4] = simd.sum(xy)
        rows[chunk, 3] = rows[chunk, 7] = simd.sum(xz)
        rows[chunk, 5] = simd.sum(yy)
        rows[chunk, 6] = rows[chunk, 8] = simd.sum(yz)
        rows[chunk, 9] = simd.sum(zz)


# ------------------------------------------------------------------------------------------------------------- geometry
@device
def inverse_root(x):
    """1/sqrt(x), and 0 where x is 0: a force along a direction that does not exist is none."""
    return simd.select(x == 0.0, x, simd.rsqrt_fast(x, 2))


# asin(x) = x + sum over n >= 1 of (2n)!/(4^n n!^2 (2n + 1)) x^(2n + 1): up to n = 11 it is exact to 1e-17 for x <
# sin(pi/16).
_ASIN = tuple(math.comb(2 * n, n) / (4**n * (2 * n + 1)) for n in range(1, 12))
_OCTANT, _NEAR, _FAR = math.tan(math.pi / 8), math.pi / 16, 3 * math.pi / 16
_COS_NEAR, _SIN_NEAR, _COS_FAR, _SIN_FAR = math.cos(_NEAR), math.sin(_NEAR), math.cos(_FAR), math.sin(_FAR)


@device
def angle8(cosine, sine):
    """The angle in [0, pi] with this cosine and (positive) sine, whose squares must add up to 1; good to 4e-16.

    Brought into [0, pi/4] by symmetry, and within pi/16 of pi/16 or 3 pi/16 by a rotation: no division, unlike atan2.
    """
    a = simd.abs(cosine)
    swap = a < sine
    p, q = simd.select(swap, a, sine), simd.select(swap, sine, a)
    far = q * _OCTANT < p
    x = p * simd.select(far, simd.splat(_COS_FAR, 8), _COS_NEAR) - q * simd.select(
        far, simd.splat(_SIN_FAR, 8), _SIN_NEAR
    )
    z = x * x
    z2 = z * z
    even = simd.fma(simd.fma(simd.fma(simd.fma(z2, _ASIN[9], _ASIN[7]), z2, _ASIN[5]), z2, _ASIN[3]), z2, _ASIN[1])
    odd = simd.fma(
        simd.fma(simd.fma(simd.fma(simd.fma(z2, _ASIN[10], _ASIN[8]), z2, _ASIN[6]), z2, _ASIN[4]), z2, _ASIN[2]),
        z2,
        _ASIN[0],
    )
    y = simd.fma(x * z, simd.fma(z, even, odd), x) + simd.select(far, simd.splat(_FAR, 8), _NEAR)
    y = simd.select(swap, 0.5 * math.pi - y, y)
    return simd.select(cosine < 0.0, math.pi - y, y)


@device
def cross(ax, ay, az, bx, by, bz):
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@device
def dot(ax, ay, az, bx, by, bz):
    return simd.fma(ax, bx, simd.fma(ay, by, az * bz))


# ---------------------------------------------------------------------------------------------------------------- loops
@template
def bond_loop(value, n_params, chunk, positions, box, flags, layout, atoms, params, buffer, rows):
    """`value(r, inv_r, r2, params, at, n_params)` -> u, u'/r of eight pairs, whose parameters begin at `params[at]`."""
    first, terms, blocks, shift = open_chunk(chunk, layout, buffer)
    cell = open_box(box)
    zero, energy, virial = nothing8()
    for block in range(blocks):
        at = (first + block) * 16
        ax, ay, az = load8(positions, atoms, at)
        bx, by, bz = load8(positions, atoms, at + 8)
        x, y, z = image8(ax - bx, ay - by, az - bz, cell)
        r2 = dot(x, y, z, x, y, z)
        inv_r = inverse_root(r2)
        u, f = value(r2 * inv_r, inv_r, r2, params, (first + block) * 8 * n_params, n_params)
        inside = is_term(block, blocks, terms)
        energy += simd.select(inside, u, zero)
        f = simd.select(inside, -f, zero)
        fx, fy, fz = f * x, f * y, f * z
        add8(buffer, shift, atoms, at, fx, fy, fz)
        add8(buffer, shift, atoms, at + 8, -fx, -fy, -fz)
        virial = add_virial(virial, fx, fy, fz, x, y, z)
    close_chunk(chunk, flags, rows, energy, virial)


@template
def angle_loop(value, n_params, chunk, positions, box, flags, layout, atoms, params, buffer, rows):
    """`value(theta, cos_theta, sin_theta, params, at, n_params)` -> u, u' of eight angles between atoms 0, 1, 2.

    Atom 1 is in the middle.

    The gradient of theta by atom 0 is a unit vector in the plane, perpendicular to a, over the length of a. It is
    formed from cross products, which keep their digits near 0 and pi; where all three atoms lie on a line it is taken
    as 0.
    """
    first, terms, blocks, shift = open_chunk(chunk, layout, buffer)
    cell = open_box(box)
    zero, energy, virial = nothing8()
    for block in range(blocks):
        at = (first + block) * 24
        jx, jy, jz = load8(positions, atoms, at + 8)
        ax, ay, az = load8(positions, atoms, at)
        ax, ay, az = image8(ax - jx, ay - jy, az - jz, cell)
        bx, by, bz = load8(positions, atoms, at + 16)
        bx, by, bz = image8(bx - jx, by - jy, bz - jz, cell)
        a2, b2 = dot(ax, ay, az, ax, ay, az), dot(bx, by, bz, bx, by, bz)
        cx, cy, cz = cross(ax, ay, az, bx, by, bz)
        c2, ab = dot(cx, cy, cz, cx, cy, cz), dot(ax, ay, az, bx, by, bz)
        inv_c = inverse_root(c2)
        c = c2 * inv_c
        inv_ab = inverse_root(a2 * b2)
        cosine, sine = ab * inv_ab, c * inv_ab
        u, du = value(angle8(cosine, sine), cosine, sine, params, (first + block) * 8 * n_params, n_params)
        inside = is_term(block, blocks, terms)
        energy += simd.select(inside, u, zero)
        f = simd.select(inside, du, zero) * inv_c
        # -du dtheta/da, with dtheta/da = a x c / (a^2 |c|); likewise -b x c for the other arm
        fa, fb = f * inv_ab * inv_ab * b2, f * inv_ab * inv_ab * a2
        px, py, pz = cross(ax, ay, az, cx, cy, cz)
        px, py, pz = -fa * px, -fa * py, -fa * pz
        qx, qy, qz = cross(bx, by, bz, cx, cy, cz)
        qx, qy, qz = fb * qx, fb * qy, fb * qz
        add8(buffer, shift, atoms, at, px, py, pz)
        add8(buffer, shift, atoms, at + 8, -px - qx, -py - qy, -pz - qz)
        add8(buffer, shift, atoms, at + 16, qx, qy, qz)
        virial = add_virial(add_virial(virial, qx, qy, qz, bx, by, bz), px, py, pz, ax, ay, az)
    close_chunk(chunk, flags, rows, energy, virial)


@device
def arms8(positions, cell, atoms, at):
    """The three bonds of eight chains of four atoms."""
    ax, ay, az = load8(positions, atoms, at)
    bx, by, bz = load8(positions, atoms, at + 8)
    cx, cy, cz = load8(positions, atoms, at + 16)
    dx, dy, dz = load8(positions, atoms, at + 24)
    return (
        *image8(bx - ax, by - ay, bz - az, cell),
        *image8(cx - bx, cy - by, cz - bz, cell),
        *image8(dx - cx, dy - cy, dz - cz, cell),
    )


@device
def torsion8(arms):
    """cos(phi) and sin(phi) of three successive bonds (IUPAC's sign), and the frame that `torsion_forces8` needs."""
    ax, ay, az, bx, by, bz, cx, cy, cz = arms
    mx, my, mz = cross(ax, ay, az, bx, by, bz)
    nx, ny, nz = cross(bx, by, bz, cx, cy, cz)
    m2, n2, b2 = dot(mx, my, mz, mx, my, mz), dot(nx, ny, nz, nx, ny, nz), dot(bx, by, bz, bx, by, bz)
    inv_mn, inv_b = simd.rsqrt_fast(m2 * n2, 2), simd.rsqrt_fast(b2, 2)
    cos_phi = dot(mx, my, mz, nx, ny, nz) * inv_mn
    sin_phi = dot(ax, ay, az, nx, ny, nz) * (b2 * inv_b) * inv_mn
    return cos_phi, sin_phi, (mx, my, mz, nx, ny, nz, inv_mn * inv_mn * n2, inv_mn * inv_mn * m2, b2, inv_b)


@device
def torsion_forces8(buffer, shift, atoms, at, du, arms, frame, virial):
    """Add the forces of energies with derivatives `du` by phi, and return the virial with theirs added.

    A. Blondel and M. Karplus, J. Comput. Chem. 17, 1132 (1996): no division by sin(phi).
    """
    ax, ay, az, bx, by, bz, cx, cy, cz = arms
    mx, my, mz, nx, ny, nz, inv_m2, inv_n2, b2, inv_b = frame
    xx, xy, xz, yy, yz, zz = virial
    b = b2 * inv_b
    outer = du * b
    p, q = outer * inv_m2, -outer * inv_n2
    px, py, pz = p * mx, p * my, p * mz  # force on atom 0
    qx, qy, qz = q * nx, q * ny, q * nz  # on atom 3
    inner = du * inv_b
    s = inner * inv_m2 * dot(ax, ay, az, bx, by, bz)
    t = inner * inv_n2 * dot(cx, cy, cz, bx, by, bz)
    sx, sy, sz = s * mx + t * nx, s * my + t * ny, s * mz + t * nz
    add8(buffer, shift, atoms, at, px, py, pz)
    add8(buffer, shift, atoms, at + 8, -px - sx, -py - sy, -pz - sz)
    add8(buffer, shift, atoms, at + 16, sx - qx, sy - qy, sz - qz)
    add8(buffer, shift, atoms, at + 24, qx, qy, qz)
    # positions relative to atom 1: -a, 0, b, b + c; forces on atoms 2 and 3 add up to s
    return (
        xx + (sx * bx + qx * cx - px * ax),
        xy + (sx * by + qx * cy - px * ay),
        xz + (sx * bz + qx * cz - px * az),
        yy + (sy * by + qy * cy - py * ay),
        yz + (sy * bz + qy * cz - py * az),
        zz + (sz * bz + qz * cz - pz * az),
    )


@template
def torsion_loop(value, n_params, chunk, positions, box, flags, layout, atoms, params, buffer, rows):
    """`value(phi, cos_phi, sin_phi, params, at, n_params)` -> u, u' of eight torsions."""
    first, terms, blocks, shift = open_chunk(chunk, layout, buffer)
    cell = open_box(box)
    zero, energy, virial = nothing8()
    for block in range(blocks):
        at = (first + block) * 32
        arms = arms8(positions, cell, atoms, at)
        cos_phi, sin_phi, frame = torsion8(arms)
        phi = simd.copysign(angle8(cos_phi, simd.abs(sin_phi)), sin_phi)
        u, du = value(phi, cos_phi, sin_phi, params, (first + block) * 8 * n_params, n_params)
        inside = is_term(block, blocks, terms)
        energy += simd.select(inside, u, zero)
        virial = torsion_forces8(buffer, shift, atoms, at, simd.select(inside, du, zero), arms, frame, virial)
    close_chunk(chunk, flags, rows, energy, virial)


# ---------------------------------------------------------------------------------------------------- sum of the chunks
@kernel(nogil=True)
def add_buffers(chunk, starts, layout, buffer, forces):
    """Add to the forces of a range of atoms what the chunks of terms have left in their buffers, in the order of
    chunks.
    """
    for c in range(layout.shape[0]):
        low, n, start = layout[c, 2], layout[c, 3], layout[c, 4]
        for i in range(max(low, starts[chunk]), min(low + n, starts[chunk + 1])):
            for a in range(3):
                forces[i, a] += buffer[4 * (start + i - low) + a]
