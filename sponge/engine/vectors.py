"""Small algebra that kernels of several folders share."""

from __future__ import annotations

from triskele.core.extend import simd, template

__all__ = ["add_row"]


@template
def add_row(out, energy, xx, yy, zz, xy, xz, yz):
    """Add sums over the lanes of an energy and of a symmetric virial to a row of `Plan.rows`."""
    out[0] += simd.sum(energy)
    out[1] += simd.sum(xx)
    out[5] += simd.sum(yy)
    out[9] += simd.sum(zz)
    for a, b, v in ((2, 4, simd.sum(xy)), (3, 7, simd.sum(xz)), (6, 8, simd.sum(yz))):
        out[a] += v
        out[b] += v
