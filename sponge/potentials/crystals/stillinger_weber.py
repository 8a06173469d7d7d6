"""`StillingerWeber`: pair energies, and a penalty for angles that differ from the tetrahedral one."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import kernel, simd

from ...engine.flags import ENERGY
from ...units import angstrom, eV
from .environment import DX, GX, KIND, OWN, RADIUS, EnvironmentPotential, examples, finish_atom, start_atom

__all__ = ["StillingerWeber"]

(_EPSILON, _SIGMA, _A, _LAMBDA, _GAMMA, _COSINE, _PAIR_A, _PAIR_B, _P, _Q, _TOLERANCE, _REACH) = range(12)
_TRIPLE, _SLOPE = OWN, OWN + 1  # columns: factor of three-body energies, its derivative by r


@kernel(nogil=True)
def _energies(chunk, chunks, n, flags, cutoff, xs, kinds, first, counts, rows, table, bonds, scratch, sums):
    spans, partners, gradients = bonds
    want, out, own, limit = flags[ENERGY] != 0, sums[chunk], scratch[chunk], cutoff * cutoff
    out[:] = 0.0
    end = chunk * n // chunks * rows.shape[1]
    width, energy = own.shape[1], simd.splat(0.0, 8)
    numbers, elements = table.shape[3], table.shape[0]
    flat = table.reshape(-1)
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        start, kind = end, np.int64(kinds[i])
        m = start_atom(i, limit, xs, kinds, first, counts[i], rows[i], start, partners, own)
        end = start + m
        spans[i, 0], spans[i, 1] = start, end
        for k in range(0, m, 8):
            r = simd.load(own, RADIUS * width + k, 8)
            at = simd.convert(simd.load(own, KIND * width + k, 8), np.int32)
            at = (at * np.int32(elements + 1) + np.int32(kind * elements * elements)) * np.int32(numbers)
            sigma, a = simd.gather(flat, at + np.int32(_SIGMA)), simd.gather(flat, at + np.int32(_A))
            inside = r < simd.gather(flat, at + np.int32(_REACH))
            inverse = 1.0 / r
            past = simd.select(inside, sigma / (r - a * sigma), -1.0)  # 1/(r/sigma - a)
            fade, ratio = simd.exp(past), simd.log(sigma * inverse)
            p, q = simd.gather(flat, at + np.int32(_P)), simd.gather(flat, at + np.int32(_Q))
            scale = 0.5 * simd.gather(flat, at + np.int32(_EPSILON)) * simd.gather(flat, at + np.int32(_PAIR_A))
            repulsion = simd.gather(flat, at + np.int32(_PAIR_B)) * simd.exp(p * ratio)
            attraction = simd.exp(q * ratio)
            scale = simd.select(inside, scale * fade, 0.0)
            fall = past * past / sigma  # -d(past)/dr
            pair = scale * (repulsion - attraction)
            by_r = (scale * (q * attraction - p * repulsion) * inverse - pair * fall) * inverse
            energy = energy + pair
            gamma = simd.gather(flat, at + np.int32(_GAMMA))
            triple = simd.select(inside, simd.exp(gamma * past), 0.0)
            simd.store(own, _TRIPLE * width + k, triple)
            simd.store(own, _SLOPE * width + k, -(triple * gamma * fall))
            for c in range(3):
                simd.store(own, (GX + c) * width + k, by_r * simd.load(own, (DX + c) * width + k, 8))
        for j in range(m):
            if own[_TRIPLE, j] == 0.0:
                continue
            x, y, z, other = own[DX, j], own[DX + 1, j], own[DX + 2, j], np.int64(own[KIND, j])
            one, by_one, inverse = own[_TRIPLE, j], own[_SLOPE, j], 1 / own[RADIUS, j]
            at = (kind * elements + other) * elements * numbers
            rest, strength = simd.splat(flat[at + _COSINE], 8), simd.splat(flat[at + _EPSILON] * flat[at + _LAMBDA], 8)
            other_rest, other_strength = rest, strength
            gx, gy, gz = simd.splat(0.0, 8), simd.splat(0.0, 8), simd.splat(0.0, 8)
            along = simd.splat(0.0, 8)
            for k in range(j + 1, m, 8):
                real = simd.iota(8) < np.int32(m - k)
                u, v = simd.load(own, DX * width + k, 8), simd.load(own, (DX + 1) * width + k, 8)
                w = simd.load(own, (DX + 2) * width + k, 8)
                second = 1.0 / simd.select(real, simd.load(own, RADIUS * width + k, 8), cutoff)
                two = simd.select(real, simd.load(own, _TRIPLE * width + k, 8), 0.0)
                by_two = simd.select(real, simd.load(own, _SLOPE * width + k, 8), 0.0)
                if elements > 1:
                    third = simd.select(real, simd.load(own, KIND * width + k, 8), 0.0)
                    third = simd.convert(third, np.int32)
                    same = third * np.int32(numbers) + np.int32(at)
                    turned = (third * np.int32(elements) + np.int32(kind * elements * elements + other)) * np.int32(
                        numbers
                    )  # the same triple
                    rest, other_rest = (
                        simd.gather(flat, same + np.int32(_COSINE)),
                        simd.gather(flat, turned + np.int32(_COSINE)),
                    )
                    strength = simd.gather(flat, same + np.int32(_EPSILON)) * simd.gather(
                        flat, same + np.int32(_LAMBDA)
                    )
                    other_strength = simd.gather(flat, turned + np.int32(_EPSILON)) * simd.gather(
                        flat, turned + np.int32(_LAMBDA)
                    )
                cosine = (x * u + y * v + z * w) * (inverse * second)
                slope, other_slope = strength * (cosine - rest), other_strength * (cosine - other_rest)
                both = 0.5 * (slope * (cosine - rest) + other_slope * (cosine - other_rest))
                bend = (slope + other_slope) * (one * two)
                energy = energy + both * (one * two)
                turn = bend * cosine
                along = along + both * (by_one * two) - turn * inverse
                outward = (both * (one * by_two) - turn * second) * second
                bend = bend * (inverse * second)
                gx, gy, gz = gx + bend * u, gy + bend * v, gz + bend * w
                to = GX * width + k
                simd.store(own, to, simd.load(own, to, 8) + outward * u + bend * x)
                to += width
                simd.store(own, to, simd.load(own, to, 8) + outward * v + bend * y)
                to += width
                simd.store(own, to, simd.load(own, to, 8) + outward * w + bend * z)
            out_along = simd.sum(along) * inverse
            own[GX, j] += simd.sum(gx) + out_along * x
            own[GX + 1, j] += simd.sum(gy) + out_along * y
            own[GX + 2, j] += simd.sum(gz) + out_along * z
        finish_atom(want, m, start, own, gradients, out)
    out[0] += simd.sum(energy)


class StillingerWeber(EnvironmentPotential):
    r"""Pair energies, and three-body energies of angles.

    .. math:: E = \sum_{i<j} A \epsilon \big[B (\sigma/r)^p - (\sigma/r)^q\big] e^{\sigma / (r - a \sigma)}
              + \sum_i \sum_{j<k} \lambda \epsilon (\cos \theta_{jik} - \cos \theta_0)^2
              e^{\gamma \sigma / (r_{ij} - a \sigma)} e^{\gamma \sigma / (r_{ik} - a \sigma)}

    (F. H. Stillinger and T. A. Weber, Phys. Rev. B 31, 5262 (1985), eq. 2.3 to 2.6.) Exponentials end at a sigma. As in
    LAMMPS, epsilon, lambda and the angle of a triple belong to its three elements, all else to pairs. If they depend on
    the order of j and k, the energy is the mean of both orders; in LAMMPS it depends on the order of its neighbors.
    Read a file with `StillingerWeber.read`; the constructor takes the parameters by name.

    Parameters
    ----------
    elements : sequence of str
        Symbols of the elements that the parameters are for.
    types : (n,) int
        Number of each atom's element.
    **params : float or (e, e, e) array
        By the elements of an atom and of two neighbors: "epsilon" (kJ/mol), "sigma" (nm), "a", "lambda", "gamma",
        "cosine", "A", "B", "p", "q", and "tolerance": with one above 0, pairs end before a sigma, where the exponential
        has come down to it.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import StillingerWeber
    >>> silicon = StillingerWeber(["Si"], [0, 0], epsilon=209.2, sigma=0.20951, a=1.8, gamma=1.2, cosine=-1 / 3, p=4,
    ...                           q=0, tolerance=0, **{"lambda": 21, "A": 7.049556277, "B": 0.6022245584})
    >>> bond = 2 ** (1 / 6) * 0.20951
    >>> round(float(silicon.energy(silicon.params, np.array([[0, 0, 0], [0, 0, bond]]), None)), 4)
    -209.2
    """

    name = "stillinger-weber"
    columns = ("epsilon", "sigma", "a", "lambda", "gamma", "cosine", "A", "B", "p", "q", "tolerance")
    units = {"epsilon": eV, "sigma": angstrom}
    fixed = ("tolerance",)
    kernel = _energies

    def reach(self, params: dict[str, Any]) -> np.ndarray:
        sigma, tolerance = params["sigma"], np.clip(params["tolerance"], 0, 0.01)
        earlier = np.minimum(params["gamma"], 1.0) / np.log(np.where(tolerance > 0, tolerance, 0.01))
        return sigma * (params["a"] + np.where(tolerance > 0, earlier, 0.0))

    def pure(self, params, near, r, cosines):
        (a, b), inside = near.ab.T, near.inside
        sigma = params["sigma"][a, b, b]
        past = sigma / np.where(inside, r - params["a"][a, b, b] * sigma, -sigma)
        powers = params["B"][a, b, b] * (sigma / r) ** params["p"][a, b, b] - (sigma / r) ** params["q"][a, b, b]
        pair = params["A"][a, b, b] * params["epsilon"][a, b, b] * powers * np.exp(past)
        triple = np.where(inside, np.exp(params["gamma"][a, b, b] * past), 0.0)
        at = near.a, near.b, near.c
        angle = params["lambda"][at] * params["epsilon"][at] * (cosines - params["cosine"][at]) ** 2
        return 0.5 * (np.sum(np.where(inside, pair, 0.0)) + np.sum(angle * triple[near.first] * triple[near.second]))


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    return examples(
        4,
        lambda e, scale: StillingerWeber(
            ["Cd", "Te"][:e],
            np.arange(14) % e,
            epsilon=20 * scale(),
            sigma=0.2 * scale(),
            a=1.8 * scale(),
            gamma=1.2 * scale(),
            cosine=-scale() / 3,
            p=4,
            q=0.5 * scale(),
            tolerance=0,
            **{"lambda": 2 * scale(), "A": 7 * scale(), "B": 0.6 * scale()},
        ),
    )
