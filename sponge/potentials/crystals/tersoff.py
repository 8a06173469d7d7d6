"""`Tersoff`: bonds whose order depends on their environment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import kernel, template

from ...engine.flags import ENERGY
from ...units import angstrom, eV
from .environment import DX, GX, KIND, OWN, RADIUS, EnvironmentPotential, examples, finish_atom, start_atom

__all__ = ["Tersoff"]

(_M, _GAMMA, _LAMBDA3, _C, _D, _COSINE, _N, _BETA, _LAMBDA2, _B, _R, _WIDTH, _LAMBDA1, _A, _REACH) = range(15)
# columns, of the term of another neighbor in the sum zeta: derivatives by both distances and by the cosine, the cosine
_BY_OTHER, _BY_COSINE, _ANGLE = OWN, OWN + 1, OWN + 2
_MOST = 69.0776  # exponents end here, as in LAMMPS: exp(69.0776) = 1e30


@template
def _fade(r, middle, width):
    """The cut-off function and its derivative."""
    if r <= middle - width:
        return 1.0, 0.0
    if r >= middle + width:
        return 0.0, 0.0
    x = 0.5 * math.pi * (r - middle) / width
    return 0.5 - 0.5 * math.sin(x), -0.25 * math.pi / width * math.cos(x)


@kernel(nogil=True)
def _energies(chunk, chunks, n, flags, cutoff, xs, kinds, first, counts, rows, table, bonds, scratch, sums):
    spans, partners, gradients = bonds
    want, out, own, limit = flags[ENERGY] != 0, sums[chunk], scratch[chunk], cutoff * cutoff
    out[:] = 0.0
    end, elements = chunk * n // chunks * rows.shape[1], table.shape[0]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        start, kind = end, np.int64(kinds[i])
        m = start_atom(i, limit, xs, kinds, first, counts[i], rows[i], start, partners, own)
        end = start + m
        spans[i, 0], spans[i, 1] = start, end
        total = 0.0
        for j in range(m):
            other, r = np.int64(own[KIND, j]), own[RADIUS, j]
            p = table[kind, other, other]
            if r >= p[_REACH]:
                continue
            x, y, z, inverse = own[DX, j], own[DX + 1, j], own[DX + 2, j], 1 / r
            zeta, by_r = 0.0, 0.0
            for k in range(m):
                s = own[RADIUS, k]
                q = table[kind, other, np.int64(own[KIND, k]) if elements > 1 else 0]
                if k == j or s >= q[_REACH]:
                    own[_BY_OTHER, k], own[_BY_COSINE, k] = 0.0, 0.0
                    own[_ANGLE, k] = 0.0
                    continue
                cosine = (x * own[DX, k] + y * own[DX + 1, k] + z * own[DX + 2, k]) * inverse / s
                off, c2, d2 = q[_COSINE] - cosine, q[_C] * q[_C], q[_D] * q[_D]
                below = 1 / (d2 + off * off)
                angle = q[_GAMMA] * (1 + c2 / d2 - c2 * below)
                by_angle = -2 * q[_GAMMA] * c2 * off * below * below
                fade, fall = _fade(s, q[_R], q[_WIDTH])
                spread, slope = 1.0, 0.0  # exp((lambda3 (r - s))^m), and the exponent's derivative by r
                if q[_LAMBDA3] != 0.0:
                    power = q[_LAMBDA3] * (r - s)
                    slope = q[_LAMBDA3]
                    if q[_M] == 3.0:
                        slope *= 3 * power * power
                        power *= power * power
                    if abs(power) > _MOST:
                        slope = 0.0
                    spread = math.exp(min(max(power, -_MOST), _MOST))
                term = angle * spread
                zeta += fade * term
                by_r += fade * term * slope
                own[_BY_OTHER, k] = fall * term - fade * term * slope
                own[_BY_COSINE, k] = fade * by_angle * spread
                own[_ANGLE, k] = cosine
            fade, fall = _fade(r, p[_R], p[_WIDTH])
            order, by_zeta = 1.0, 0.0
            if zeta > 0.0:
                t = math.exp(p[_N] * math.log(p[_BETA] * zeta)) if p[_BETA] > 0.0 else 0.0
                order = math.exp(-0.5 / p[_N] * math.log1p(t))
                by_zeta = -0.5 * order / (1 + t) * t / zeta
            repulsion, attraction = p[_A] * math.exp(-p[_LAMBDA1] * r), p[_B] * math.exp(-p[_LAMBDA2] * r)
            total += fade * (repulsion - order * attraction)
            through = -0.5 * fade * attraction * by_zeta
            along = through * by_r + 0.5 * (
                fall * (repulsion - order * attraction)
                + fade * (order * p[_LAMBDA2] * attraction - p[_LAMBDA1] * repulsion)
            )
            gx, gy, gz = 0.0, 0.0, 0.0
            if through != 0.0:
                for k in range(m):
                    second, bend = 1 / own[RADIUS, k], through * own[_BY_COSINE, k]
                    outward = (through * own[_BY_OTHER, k] - bend * own[_ANGLE, k] * second) * second
                    across = bend * inverse * second
                    along -= bend * own[_ANGLE, k] * inverse
                    gx, gy, gz = gx + across * own[DX, k], gy + across * own[DX + 1, k], gz + across * own[DX + 2, k]
                    own[GX, k] += outward * own[DX, k] + across * x
                    own[GX + 1, k] += outward * own[DX + 1, k] + across * y
                    own[GX + 2, k] += outward * own[DX + 2, k] + across * z
            along *= inverse
            own[GX, j] += gx + along * x
            own[GX + 1, j] += gy + along * y
            own[GX + 2, j] += gz + along * z
        out[0] += 0.5 * total
        finish_atom(want, m, start, own, gradients, out)


class Tersoff(EnvironmentPotential):
    r"""Pair energies with a bond order that falls with the number of neighbors and depends on angles.

    .. math:: E = \tfrac12 \sum_{i \ne j} f_C(r_{ij})
              \big[A e^{-\lambda_1 r_{ij}} - b_{ij} B e^{-\lambda_2 r_{ij}}\big], \quad
              b_{ij} = (1 + \beta^n \zeta_{ij}^n)^{-1/2n}

    .. math:: \zeta_{ij} = \sum_{k \ne i, j} f_C(r_{ik}) \gamma \Big(1 + \frac{c^2}{d^2}
              - \frac{c^2}{d^2 + (\cos \theta_{jik} - h)^2}\Big) e^{[\lambda_3 (r_{ij} - r_{ik})]^m}

    with the cut-off function 1/2 - sin(pi (r - R) / 2 D) / 2 between R - D and R + D (J. Tersoff, Phys. Rev. B 37, 6991
    (1988), eq. 1 and 2; for compounds Phys. Rev. B 39, 5566 (1989)). As in LAMMPS, zeta takes the parameters of all
    three elements, all else those of pairs. Read a file with `Tersoff.read`; the constructor takes parameters by name.

    Parameters
    ----------
    elements : sequence of str
        Symbols of the elements that the parameters are for.
    types : (n,) int
        Number of each atom's element.
    **params : float or (e, e, e) array
        By the elements of an atom and of two neighbors: "m" (1 or 3), "gamma", "lambda3" (1/nm), "c", "d", "cosine"
        (h), "n", "beta", "lambda2" (1/nm), "B" (kJ/mol), "R", "D" (nm), "lambda1" (1/nm) and "A" (kJ/mol).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import Tersoff
    >>> silicon = Tersoff(["Si"], [0, 0], m=3, gamma=1, lambda3=0, c=100390, d=16.217, cosine=-0.59825, n=0.78734,
    ...                   beta=1.1e-6, lambda2=17.3222, B=45461.5, R=0.285, D=0.015, lambda1=24.799, A=176642.1)
    >>> round(float(silicon.energy(silicon.params, np.array([[0, 0, 0], [0, 0, 0.23]]), None)), 2)
    -257.18
    """

    name = "tersoff"
    columns = ("m", "gamma", "lambda3", "c", "d", "cosine", "n", "beta", "lambda2", "B", "R", "D", "lambda1", "A")
    units = {
        "lambda1": 1 / angstrom,
        "lambda2": 1 / angstrom,
        "lambda3": 1 / angstrom,
        "A": eV,
        "B": eV,
        "R": angstrom,
        "D": angstrom,
    }
    fixed = ("m",)
    kernel = _energies

    def __init__(self, elements: Any, types: Any, **params: Any):
        super().__init__(elements, types, **params)
        if np.any((self.constants["m"] != 1) & (self.constants["m"] != 3)):
            raise ValueError(f"Tersoff: m must be 1 or 3, got {np.unique(self.constants['m']).tolist()}")
        for name, least in (("n", np.diagonal(self.params["n"], axis1=1, axis2=2)), ("d", self.params["d"])):
            if not np.all(least > 0):
                raise ValueError(f"Tersoff: {name} must be positive, got {np.min(least)}")
        if np.any(self.params["D"] < 0) or np.any(self.params["beta"] < 0):
            raise ValueError("Tersoff: D and beta must not be negative")

    def reach(self, params: dict[str, Any]) -> np.ndarray:
        return params["R"] + params["D"]

    def pure(self, params, near, r, cosines):
        pair, at = (near.ab[:, 0], near.ab[:, 1], near.ab[:, 1]), (near.a, near.b, near.c)

        def fade(r, lengths, at):
            middle, width = params["R"][at], params["D"][at]
            x = 0.5 * np.pi * (r - middle) / np.where(width > 0, width, 1.0)
            between = np.where(lengths < middle + width, 0.5 - 0.5 * np.sin(x), 0.0)
            return np.where(lengths <= middle - width, 1.0, between)

        c2, d2 = params["c"][at] ** 2, params["d"][at] ** 2
        angle = params["gamma"][at] * (1 + c2 / d2 - c2 / (d2 + (params["cosine"][at] - cosines) ** 2))
        power = params["lambda3"][at] * (r[near.first] - r[near.second])
        power = np.clip(np.where(params["m"][at] == 3, power**3, power), -_MOST, _MOST)
        terms = fade(r[near.second], near.lengths[near.second], at) * angle * np.exp(power)
        zeta = core.index_add(np.zeros(len(near.i)), near.first, terms)
        n, there = params["n"][pair], near.inside & (params["beta"][pair] * zeta > 0)
        order = (1 + (params["beta"][pair] * np.where(there, zeta, 1.0)) ** n) ** (-0.5 / n)
        order = np.where(there, order, 1.0)
        energies = params["A"][pair] * np.exp(-params["lambda1"][pair] * r) - order * params["B"][pair] * np.exp(
            -params["lambda2"][pair] * r
        )
        return 0.5 * np.sum(fade(r, near.lengths, pair) * energies)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    return examples(
        5,
        lambda e, scale: Tersoff(
            ["Si", "C"][:e],
            np.arange(14) % e,
            m=3 if e == 1 else 1,
            gamma=0.3 * scale(),
            lambda3=8 * scale(),
            c=2 * scale(),
            d=1.5 * scale(),
            cosine=-0.5 * scale(),
            n=0.8 * scale(),
            beta=0.3 * scale(),
            lambda2=15 * scale(),
            B=3000 * scale(),
            R=0.3 * scale(),
            D=0.05 * scale(),
            lambda1=25 * scale(),
            A=9000 * scale(),
        ),
    )
