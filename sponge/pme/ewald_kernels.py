"""Plain Ewald sums, with the wave vectors of one (nx, ny) and nz = 0, 1, 2, ... in the lanes of vectors.

A vector and its mirror image in nz share their products: with c = exp(2 pi i (nx s_x + ny s_y)) and z = exp(2 pi i nz
s_z), exp for +nz is c z, for -nz c z*. Everything is float64.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, fft, kernel, simd

from ..engine.flags import ENERGY

__all__ = ["field", "structure", "waves"]


@kernel(**fft.OUTER)
def waves(chunk, starts, positions, inverse, x_waves, y_waves, z_waves):
    """exp(2 pi i n s): x_waves, y_waves [2, n, atoms] (re, im); z_waves [atoms, 2, lanes]."""
    for i in range(starts[chunk], starts[chunk + 1]):
        for axis in range(3):
            s = (
                positions[i, 0] * inverse[0, axis]
                + positions[i, 1] * inverse[1, axis]
                + positions[i, 2] * inverse[2, axis]
            )
            angle = 2.0 * math.pi * (s - np.rint(s))
            c, d = math.cos(angle), math.sin(angle)
            re, im = 1.0, 0.0
            if axis == 2:
                for k in range(z_waves.shape[2]):
                    z_waves[i, 0, k], z_waves[i, 1, k] = re, im
                    re, im = re * c - im * d, re * d + im * c
            else:
                table = x_waves if axis == 0 else y_waves
                for k in range(table.shape[1]):
                    table[0, k, i], table[1, k, i] = re, im
                    re, im = re * c - im * d, re * d + im * c


@device
def _plane_wave(pairs, pair, x_waves, y_waves, i):
    """exp(2 pi i (nx s_x + ny s_y)) of atom i."""
    nx, ny = pairs[pair, 0], pairs[pair, 1]
    a, b = x_waves[0, nx, i], x_waves[1, nx, i]
    c, d = y_waves[0, abs(ny), i], y_waves[1, abs(ny), i]
    if ny < 0:
        d = -d
    return a * c - b * d, a * d + b * c


@kernel(**fft.OUTER)
def structure(chunk, chunks, charges, pairs, inverse, x_waves, y_waves, z_waves, influence, slope, sums, rows, flags):
    """Structure factors of the chunk's pairs (nx, ny), times the influence function; energy and virial into
    rows[chunk].

    pairs int64 [pairs, 2]; influence and slope (its part of the virial) [pairs, 2, lanes], for +nz and -nz, 0 where a
    vector does not count; sums [pairs, 4, lanes] receives what `field` needs.
    """
    n, lanes = charges.shape[0], z_waves.shape[2]
    z = simd.address(z_waves, 0)
    rows[chunk, :] = 0.0
    for pair in range(chunk * pairs.shape[0] // chunks, (chunk + 1) * pairs.shape[0] // chunks):
        for block in range(0, lanes, 16):
            zero = simd.splat(0.0, 16)
            p, q, r, s = zero, zero, zero, zero
            for i in range(n):
                re, im = _plane_wave(pairs, pair, x_waves, y_waves, i)
                re, im = re * charges[i], im * charges[i]
                z_re, z_im = simd.load(z, 2 * i * lanes + block, 16), simd.load(z, (2 * i + 1) * lanes + block, 16)
                p, q = simd.fma(z_re, re, p), simd.fma(z_im, im, q)
                r, s = simd.fma(z_im, re, r), simd.fma(z_re, im, s)
            up, down = (
                simd.load(influence, 2 * pair * lanes + block, 16),
                simd.load(influence, (2 * pair + 1) * lanes + block, 16),
            )
            up_re, up_im, down_re, down_im = p - q, r + s, p + q, s - r
            if flags[ENERGY]:
                power, mirror = up_re * up_re + up_im * up_im, down_re * down_re + down_im * down_im
                _energy(
                    rows,
                    chunk,
                    pairs[pair, 0],
                    pairs[pair, 1],
                    block,
                    inverse,
                    power * up,
                    power * simd.load(slope, 2 * pair * lanes + block, 16),
                    1.0,
                )
                _energy(
                    rows,
                    chunk,
                    pairs[pair, 0],
                    pairs[pair, 1],
                    block,
                    inverse,
                    mirror * down,
                    mirror * simd.load(slope, (2 * pair + 1) * lanes + block, 16),
                    -1.0,
                )
            up_re, up_im, down_re, down_im = up_re * up, up_im * up, down_re * down, down_im * down
            at = 4 * pair * lanes + block
            simd.store(sums, at, -up_im - down_im)
            simd.store(sums, at + lanes, up_im - down_im)
            simd.store(sums, at + 2 * lanes, up_re - down_re)
            simd.store(sums, at + 3 * lanes, up_re + down_re)


@device
def _energy(rows, chunk, nx, ny, block, inverse, energy, virial, sign):
    nz = sign * (simd.convert(simd.iota(16), np.float64) + np.float64(block))
    mx = inverse[0, 0] * nx + inverse[0, 1] * ny + inverse[0, 2] * nz
    my = inverse[1, 0] * nx + inverse[1, 1] * ny + inverse[1, 2] * nz
    mz = inverse[2, 0] * nx + inverse[2, 1] * ny + inverse[2, 2] * nz
    e, xy, xz, yz = simd.sum(energy), simd.sum(virial * mx * my), simd.sum(virial * mx * mz), simd.sum(virial * my * mz)
    rows[chunk, 0] += e
    rows[chunk, 1] += e + simd.sum(virial * mx * mx)
    rows[chunk, 5] += e + simd.sum(virial * my * my)
    rows[chunk, 9] += e + simd.sum(virial * mz * mz)
    for a, b, v in ((2, 4, xy), (3, 7, xz), (6, 8, yz)):
        rows[chunk, a] += v
        rows[chunk, b] += v


@kernel(**fft.OUTER)
def field(chunk, starts, charges, pairs, inverse, x_waves, y_waves, z_waves, sums, forces, potentials):
    """Add the forces on the chunk's atoms to `forces`; potentials [n]."""
    lanes = z_waves.shape[2]
    u = simd.address(sums, 0)
    for i in range(starts[chunk], starts[chunk + 1]):
        gx, gy, gz, potential = 0.0, 0.0, 0.0, 0.0
        for block in range(0, lanes, 16):
            z_re, z_im = (
                simd.load(z_waves, 2 * i * lanes + block, 16),
                simd.load(z_waves, (2 * i + 1) * lanes + block, 16),
            )
            zero = simd.splat(0.0, 16)
            along_x, along_y, along_z, value = zero, zero, zero, zero
            for pair in range(pairs.shape[0]):
                re, im = _plane_wave(pairs, pair, x_waves, y_waves, i)
                at = 4 * pair * lanes + block
                a, b = simd.load(u, at, 16), simd.load(u, at + lanes, 16)
                c, d = simd.load(u, at + 2 * lanes, 16), simd.load(u, at + 3 * lanes, 16)
                turned = z_re * (re * a + im * d) + z_im * (im * b + re * c)
                along_x = simd.fma(turned, np.float64(pairs[pair, 0]), along_x)
                along_y = simd.fma(turned, np.float64(pairs[pair, 1]), along_y)
                along_z = along_z + z_re * (im * c - re * b) + z_im * (re * d - im * a)
                value = value + z_re * (re * d - im * a) + z_im * (re * b - im * c)
            nz = simd.convert(simd.iota(16), np.float64) + np.float64(block)
            gx, gy, gz = gx + simd.sum(along_x), gy + simd.sum(along_y), gz + simd.sum(along_z * nz)
            potential += simd.sum(value)
        potentials[i] = 2.0 * potential
        factor = 4.0 * math.pi * charges[i]
        for a in range(3):
            forces[i, a] += factor * (inverse[a, 0] * gx + inverse[a, 1] * gy + inverse[a, 2] * gz)
