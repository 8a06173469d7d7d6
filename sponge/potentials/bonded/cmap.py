"""CMAP: an energy of two torsion angles, interpolated in a table."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from triskele.core.extend import check, device, kernel, simd

from ...geometry import torsions
from ...potential import Potential
from ...topology import as_indices, check_indices
from .term_kernels import angle8, arms8, close_chunk, is_term, nothing8, open_box, open_chunk, torsion8, torsion_forces8
from .terms import plan_terms

__all__ = ["CMAP"]


def spline_derivative(n: int) -> np.ndarray:
    """The matrix [n, n] that takes values of a periodic cubic spline at n knots, a distance 1 apart, to its derivatives
    there.

    Continuity of the second derivative asks d[i-1] + 4 d[i] + d[i+1] = 3 (f[i+1] - f[i-1]).
    """
    eye = np.eye(n)
    up, down = np.roll(eye, 1, axis=1), np.roll(eye, -1, axis=1)
    return np.linalg.solve(4 * eye + up + down, 3 * (up - down))


# Powers of u in [0, 1] that are 1 in f(0), f(1), f'(0), f'(1), one after the other, and 0 in the other three.
_HERMITE = np.array([[1.0, 0, -3, 2], [0, 0, 3, -2], [0, 1, -2, 1], [0, 0, -1, 1]])


def cell_data(maps: Any) -> Any:
    """Values and derivatives at the four corners of every cell, [maps, n, n, 4, 4]; rows and columns as in
    `_HERMITE`.
    """
    d = spline_derivative(maps.shape[-1])
    along, across = np.matmul(d, maps), np.matmul(maps, d.T)
    corners = np.stack([np.stack([maps, across], -1), np.stack([along, np.matmul(along, d.T)], -1)], -2)
    after = np.concatenate([corners[:, 1:], corners[:, :1]], axis=1)
    ends = np.stack([corners, after], axis=-2)  # [..., derivative by phi, end in phi, derivative by psi]
    after = np.concatenate([ends[:, :, 1:], ends[:, :, :1]], axis=2)
    ends = np.stack([ends, after], axis=-1)  # [..., derivative by phi, end in phi, derivative by psi, end in psi]
    return np.reshape(ends, (*maps.shape, 4, 4))


@device
def _cell(cosine, sine, scale, n):
    """The cell of an angle and the place in it."""
    x = angle8(cosine, simd.abs(sine)) * scale
    x = simd.select(sine < 0.0, n - x, x)
    low = simd.minimum(simd.floor(x), n - 1.0)
    return low, x - low


@kernel(nogil=True)
def cmap_terms(chunk, positions, box, flags, layout, atoms, params, buffer, rows, coefficients):
    """Terms with the coefficients [cells, 4, 4] of u^a v^b; params of a term: number of the map, cells along an
    angle.
    """
    first, terms, blocks, shift = open_chunk(chunk, layout, buffer)
    cell = open_box(box)
    zero, energy, virial = nothing8()
    for block in range(blocks):
        at = (first + block) * 64
        table, n = simd.load(params, (first + block) * 16, 8), simd.load(params, (first + block) * 16 + 8, 8)
        scale = n * (0.5 / np.pi)
        arms1, arms2 = arms8(positions, cell, atoms, at), arms8(positions, cell, atoms, at + 32)
        cos1, sin1, frame1 = torsion8(arms1)
        cos2, sin2, frame2 = torsion8(arms2)
        i, x = _cell(cos1, sin1, scale, n)
        j, y = _cell(cos2, sin2, scale, n)
        place = 16 * simd.convert((table * n + i) * n + j, np.int32)
        u = dux = duy = zero
        for a in range(3, -1, -1):  # Horner's scheme in x, and within in y
            c0, c1 = (
                simd.gather(coefficients, place + np.int32(4 * a)),
                simd.gather(coefficients, place + np.int32(4 * a + 1)),
            )
            c2, c3 = (
                simd.gather(coefficients, place + np.int32(4 * a + 2)),
                simd.gather(coefficients, place + np.int32(4 * a + 3)),
            )
            dux = simd.fma(dux, x, u)
            u = simd.fma(u, x, simd.fma(simd.fma(simd.fma(c3, y, c2), y, c1), y, c0))
            duy = simd.fma(duy, x, simd.fma(simd.fma(3.0 * c3, y, 2.0 * c2), y, c1))
        inside = is_term(block, blocks, terms)
        energy += simd.select(inside, u, zero)
        dux, duy = simd.select(inside, dux, zero) * scale, simd.select(inside, duy, zero) * scale
        virial = torsion_forces8(buffer, shift, atoms, at, dux, arms1, frame1, virial)
        virial = torsion_forces8(buffer, shift, atoms, at + 32, duy, arms2, frame2, virial)
    close_chunk(chunk, flags, rows, energy, virial)


class CMAP(Potential):
    """Energy correction maps: a table of energies over two torsion angles, interpolated by a bicubic spline.

    Parameters
    ----------
    maps : (t, n, n) array
        Energies in kJ/mol; ``maps[t, i, j]`` belongs to phi = 2 pi i/n and psi = 2 pi j/n.
    phi, psi : (m, 4) int
        The atoms of the two torsion angles of each term.
    types : (m,) int
        The map of each term.
    name : str

    References
    ----------
    A. D. MacKerell, M. Feig and C. L. Brooks III, J. Comput. Chem. 25, 1400 (2004).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import CMAP
    >>> CMAP(np.zeros((1, 24, 24)), phi=[[0, 1, 2, 3]], psi=[[1, 2, 3, 4]], types=[0])
    <CMAP 'cmap': maps (1, 24, 24)>
    """

    conserves_momentum = True
    enhanced = True

    def __init__(self, maps: Any, phi: Any, psi: Any, types: Any, name: str = "cmap"):
        self.name = name
        maps = np.array(maps, np.float64)
        if maps.ndim != 3 or maps.shape[1] != maps.shape[2] or maps.shape[1] < 3:
            raise ValueError(f"CMAP: maps must have shape [maps, n, n] with n of at least 3, got {maps.shape}")
        self.params = {"maps": maps}
        self.phi, self.psi = (as_indices(a, "CMAP: atoms").reshape(-1, 4) for a in (phi, psi))
        self.types = as_indices(types, "CMAP: types").reshape(-1)
        if not len(self.phi) == len(self.psi) == len(self.types):
            raise ValueError(
                f"CMAP: phi, psi and types must be equally many, got {len(self.phi)}, {len(self.psi)}, "
                f"{len(self.types)}"
            )
        check_indices(self.types, len(maps), "CMAP: types")

    @property
    def atoms(self) -> np.ndarray:
        """Atoms of both angles of each term [m, 8]."""
        return np.concatenate([self.phi, self.psi], axis=1)

    def subset(self, which: np.ndarray) -> CMAP:
        """The same with the terms of a mask or of indices `which` only."""
        part = copy.copy(self)
        part._reshaped()
        part.phi, part.psi, part.types = (np.ascontiguousarray(a[which]) for a in (self.phi, self.psi, self.types))
        return part

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        maps = params["maps"]
        n = maps.shape[-1]
        bases, cells = [], []
        for atoms in (self.phi, self.psi):
            x = torsions(positions, box if self.images else None, atoms) * (n / (2 * np.pi))
            low = np.floor(x)
            u = x - low
            bases.append(np.matmul(np.stack([u**0, u, u * u, u * u * u], -1), _HERMITE.T))
            cells.append(np.remainder(low, n).astype(np.int64))
        return np.sum(np.einsum("ma,mab,mb->m", bases[0], cell_data(maps)[self.types, cells[0], cells[1]], bases[1]))

    def check(self, system):
        check_indices(self.atoms, system.n, f"CMAP {self.name!r}: atoms")
        check.finite(self.params["maps"], f"CMAP {self.name!r}: the energies of the maps")

    def plan(self, engine):
        maps = self.params["maps"]
        coefficients = np.ascontiguousarray(
            np.einsum("ra,tijrs,sb->tijab", _HERMITE, cell_data(maps), _HERMITE)
        ).reshape(-1)
        params = np.stack([self.types, np.full(len(self.types), maps.shape[-1])], axis=1).astype(np.float64)
        return plan_terms(engine, cmap_terms, self.atoms, params, 512, coefficients, images=self.images)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    maps = np.random.default_rng(3).normal(size=(2, 12, 12))
    phi = np.arange(4) + np.arange(7)[:, None]
    return [([CMAP(maps, phi, phi + 1, np.arange(7) % 2)], {"box": box}) for box in (None, [0.7, 0.8, 0.9])]
