"""`EDIP`: the environment-dependent interatomic potential, whose terms follow the coordination of each atom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import kernel, template

from ...engine.flags import ENERGY
from ...units import angstrom, eV
from .environment import DX, GX, KIND, OWN, RADIUS, EnvironmentPotential, examples, finish_atom, start_atom

__all__ = ["EDIP"]

(_A, _B, _REACH, _NEAR, _ALPHA, _BETA, _ETA, _GAMMA, _LAMBDA, _MU, _RHO, _SIGMA, _Q, _U1, _U2, _U3, _U4) = range(17)
# columns: derivative of the coordination by r; factor of three-body energies, its derivative by r
_FALL, _TRIPLE, _SLOPE = OWN, OWN + 1, OWN + 2


@template
def _shape(p, z):
    """Coefficients of the three-body energy at a coordination: tau, its derivative, and Q."""
    fade = math.exp(-p[_U4] * z)
    return (
        p[_U1] + p[_U2] * fade * (p[_U3] - fade),
        p[_U2] * p[_U4] * fade * (2 * fade - p[_U3]),
        p[_Q] * math.exp(-p[_MU] * z),
    )


@template
def _bend(p, cosine, tau, by_tau, width):
    """Three-body energy without its factors, its derivatives by the cosine and by the coordination."""
    off = cosine + tau
    u = width * off * off
    well = math.exp(-u)
    slope = p[_LAMBDA] * (well + p[_ETA])
    by_cosine = 2 * slope * width * off
    return p[_LAMBDA] * (1 - well + p[_ETA] * u), by_cosine, by_cosine * by_tau - slope * p[_MU] * u


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
        z = 0.0
        for j in range(m):
            other, r = np.int64(own[KIND, j]), own[RADIUS, j]
            p = table[kind, other, other]
            own[_FALL, j] = 0.0
            if r <= p[_NEAR]:
                z += 1.0
            elif r < p[_REACH]:
                x = (p[_REACH] - p[_NEAR]) / (r - p[_NEAR])
                cube = x * x * x
                inverse = 1 / (1 - cube)
                part = math.exp(p[_ALPHA] * inverse)
                z += part
                own[_FALL, j] = -3 * part * p[_ALPHA] * inverse * inverse * cube / (r - p[_NEAR])
        total, by_z, last, order = 0.0, 0.0, -1, 0.0
        for j in range(m):
            other, r = np.int64(own[KIND, j]), own[RADIUS, j]
            p = table[kind, other, other]
            own[_TRIPLE, j], own[_SLOPE, j] = 0.0, 0.0
            if r >= p[_REACH]:
                continue
            past, inverse = 1 / (r - p[_REACH]), 1 / r
            fade = math.exp(p[_SIGMA] * past)
            power = math.exp(p[_RHO] * math.log(p[_B] * inverse))
            if other != last:
                last, order = other, math.exp(-p[_BETA] * z * z)
            pair = p[_A] * fade * (power - order)
            total += pair
            by_z += 2 * p[_A] * p[_BETA] * z * order * fade
            along = -(pair * p[_SIGMA] * past * past + p[_A] * fade * p[_RHO] * power * inverse) * inverse
            for c in range(3):
                own[GX + c, j] += along * own[DX + c, j]
            own[_TRIPLE, j] = math.exp(p[_GAMMA] * past)
            own[_SLOPE, j] = -own[_TRIPLE, j] * p[_GAMMA] * past * past
        known, tau, by_tau, breadth = -1, 0.0, 0.0, 0.0
        for j in range(m):
            if own[_TRIPLE, j] == 0.0:
                continue
            x, y, w, other = own[DX, j], own[DX + 1, j], own[DX + 2, j], np.int64(own[KIND, j])
            one, inverse = own[_TRIPLE, j], 1 / own[RADIUS, j]
            for k in range(j + 1, m):
                two, second, third = own[_TRIPLE, k], 1 / own[RADIUS, k], np.int64(own[KIND, k])
                if two == 0.0:
                    continue
                cosine = (x * own[DX, k] + y * own[DX + 1, k] + w * own[DX + 2, k]) * inverse * second
                if other * elements + third != known:
                    known = other * elements + third
                    tau, by_tau, breadth = _shape(table[kind, other, third], z)
                value, by_cosine, by_count = _bend(table[kind, other, third], cosine, tau, by_tau, breadth)
                if other != third:  # the same triple
                    p = table[kind, third, other]
                    turned, by_turned, other_breadth = _shape(p, z)
                    value_2, by_cosine_2, by_count_2 = _bend(p, cosine, turned, by_turned, other_breadth)
                    value, by_cosine = 0.5 * (value + value_2), 0.5 * (by_cosine + by_cosine_2)
                    by_count = 0.5 * (by_count + by_count_2)
                total += one * two * value
                by_z += one * two * by_count
                bend = one * two * by_cosine * inverse * second
                along = value * own[_SLOPE, j] * two * inverse - bend * cosine * inverse / second
                outward = value * own[_SLOPE, k] * one * second - bend * cosine * second / inverse
                for c in range(3):
                    own[GX + c, j] += along * own[DX + c, j] + bend * own[DX + c, k]
                    own[GX + c, k] += outward * own[DX + c, k] + bend * own[DX + c, j]
        for j in range(m):
            along = by_z * own[_FALL, j] / own[RADIUS, j]
            for c in range(3):
                own[GX + c, j] += along * own[DX + c, j]
        out[0] += total
        finish_atom(want, m, start, own, gradients, out)


class EDIP(EnvironmentPotential):
    r"""Pair and three-body energies that depend on the coordination Z of the atom in the middle.

    .. math:: E = \sum_{i \ne j} A \big[(B/r)^\rho - e^{-\beta Z_i^2}\big] e^{\sigma/(r - a)}
              + \sum_i \sum_{j<k} e^{\gamma/(r_{ij} - a) + \gamma/(r_{ik} - a)} h(\cos \theta_{jik}, Z_i)

    .. math:: h(l, Z) = \lambda \big[1 - e^{-Q (l + \tau)^2} + \eta Q (l + \tau)^2\big], \quad Q = Q_0 e^{-\mu Z}, \quad
              \tau = u_1 + u_2 (u_3 e^{-u_4 Z} - e^{-2 u_4 Z})

    with Z the sum of f(r), 1 up to c and exp(alpha / (1 - x^-3)), x = (r - c) / (a - c), from there to a (J. F. Justo
    et al., Phys. Rev. B 58, 2539 (1998), eq. 1 to 10). The energy h takes the parameters of three elements, all else
    those of pairs. If the former depend on the order of j and k, h is the mean of both orders; in LAMMPS it depends on
    the order of its neighbors. Read a file with `EDIP.read`; the constructor takes the parameters by name.

    Parameters
    ----------
    elements : sequence of str
        Symbols of the elements that the parameters are for.
    types : (n,) int
        Number of each atom's element.
    **params : float or (e, e, e) array
        By the elements of an atom and of two neighbors: "A" (kJ/mol), "B", "a", "c" (nm), "alpha", "beta", "eta",
        "gamma" (nm), "lambda" (kJ/mol), "mu", "rho", "sigma" (nm), "Q0", "u1", "u2", "u3" and "u4".

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import EDIP
    >>> silicon = EDIP(["Si"], [0, 0], A=770.15, B=0.15075, a=0.31214, c=0.25609, alpha=3.1084, beta=0.0070975,
    ...                eta=0.25232, gamma=0.11248, mu=0.69663, rho=1.20852, sigma=0.05774, Q0=312.134, u1=-0.165799,
    ...                u2=32.557, u3=0.286198, u4=0.66, **{"lambda": 140.22})
    >>> round(float(silicon.energy(silicon.params, np.array([[0, 0, 0], [0, 0, 0.23]]), None)), 1)
    -299.5
    """

    name = "edip"
    columns = ("A", "B", "a", "c", "alpha", "beta", "eta", "gamma", "lambda", "mu", "rho", "sigma", "Q0", "u1", "u2",
               "u3", "u4")  # fmt: skip
    units = {"A": eV, "lambda": eV, **dict.fromkeys(("B", "a", "c", "gamma", "sigma"), angstrom)}
    kernel = _energies

    def __init__(self, elements: Any, types: Any, **params: Any):
        super().__init__(elements, types, **params)
        if not np.all((self.params["c"] > 0) & (self.params["c"] < self.params["a"])):
            raise ValueError(
                f"EDIP: c must lie between 0 and a, got {self.params['c'].ravel()[0]} and "
                f"{self.params['a'].ravel()[0]} nm"
            )

    def reach(self, params: dict[str, Any]) -> np.ndarray:
        return params["a"]

    def pure(self, params, near, r, cosines):
        pair, at = (near.ab[:, 0], near.ab[:, 1], near.ab[:, 1]), (near.a, near.b, near.c)
        p = {name: values[pair] for name, values in params.items()}
        between = near.inside & (near.lengths > p["c"])
        x = np.where(between, (r - p["c"]) / (p["a"] - p["c"]), 0.5)
        parts = np.where(between, np.exp(p["alpha"] / (1 - x**-3)), np.where(near.inside, 1.0, 0.0))
        z = core.index_add(np.zeros(len(self.types)), near.i, parts)
        past = 1 / np.where(near.inside, r - p["a"], -1.0)
        pairs = p["A"] * ((p["B"] / r) ** p["rho"] - np.exp(-p["beta"] * z[near.i] ** 2)) * np.exp(p["sigma"] * past)
        triple = np.where(near.inside, np.exp(p["gamma"] * past), 0.0)
        p, z = {name: values[at] for name, values in params.items()}, z[near.i[near.first]]
        fade = np.exp(-p["u4"] * z)
        off = cosines + p["u1"] + p["u2"] * fade * (p["u3"] - fade)
        u = p["Q0"] * np.exp(-p["mu"] * z) * off**2
        bends = p["lambda"] * (1 - np.exp(-u) + p["eta"] * u) * triple[near.first] * triple[near.second]
        return np.sum(np.where(near.inside, pairs, 0.0)) + 0.5 * np.sum(bends)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    return examples(
        6,
        lambda e, scale: EDIP(
            ["Si", "C"][:e],
            np.arange(14) % e,
            A=80 * scale(),
            B=0.15 * scale(),
            a=0.35 * scale(),
            c=0.2 * scale(),
            alpha=3 * scale(),
            beta=0.007 * scale(),
            eta=0.25 * scale(),
            gamma=0.11 * scale(),
            mu=0.4 * scale(),
            rho=1.2 * scale(),
            sigma=0.06 * scale(),
            Q0=3 * scale(),
            u1=-0.17 * scale(),
            u2=3 * scale(),
            u3=0.3 * scale(),
            u4=0.6 * scale(),
            **{"lambda": 20 * scale()},
        ),
    )
