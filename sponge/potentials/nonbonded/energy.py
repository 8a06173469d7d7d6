"""The energy of `Nonbonded` as pure NumPy code over explicit pairs: the definition that kernels are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import erf, erfc

from ... import box as boxes
from ... import pme
from ...neighbors.pairs import find_pairs
from ...units import COULOMB
from ..at_values import Part
from ..pairs.formulas import fade, force_switch, removed, screened, screening_series, switch, twelve_six
from ..pairs.mixing import root

__all__ = [
    "Form",
    "coulomb",
    "excluded",
    "jump_at_cutoff",
    "lennard_jones",
    "long_range_dispersion",
    "reciprocal",
    "terms",
]

_BLOCK = 1 << 15  # pairs that are worked on at once


@dataclass(frozen=True)
class Form:
    """The functional form: options of `Nonbonded` with everything derived from them filled in."""

    method: str
    mixing: str
    cutoff: float | None  # None: all pairs, without images
    order: int  # of the splines of PME
    switch: float | None = None
    modifier: str = "potential-switch"
    dispersion: bool = False
    k_rf: float = 0.0
    c_rf: float = 0.0
    alpha: float = 0.0
    lj_alpha: float = 0.0
    grid: tuple[int, int, int] | None = None
    lj_grid: tuple[int, int, int] | None = None
    wave_vectors: tuple[int, int, int] | None = None
    images: bool = True  # of excluded pairs
    excluded_field: bool = False

    @property
    def corrects(self) -> bool:
        """Return True if excluded pairs contribute."""
        return bool(self.alpha) or self.excluded_field


def terms(
    form: Form,
    names: tuple[str, ...],
    periodic: bool,
    types: np.ndarray | None,
    exclusions: np.ndarray,
    positions: np.ndarray,
    box: np.ndarray | None,
) -> list[Part]:
    """The parts of the energy at values; their functions take the parameters `names`, positions and, if `periodic`, the
    box.
    """
    images = None if form.cutoff is None else box
    pairs = find_pairs(positions, images, form.cutoff, exclusions)
    parts = []
    many = len(pairs) > 2 * _BLOCK
    function = _pair_function(form, names, periodic)
    for start in range(0, len(pairs), _BLOCK):
        block, real = pairs[start : start + _BLOCK], None
        if many and len(block) < _BLOCK:  # the last is filled up, so that all have one shape
            real = np.arange(_BLOCK) < len(block)
            block = np.concatenate([block, np.broadcast_to(pairs[0], (_BLOCK - len(block), 2))])
        elif many:
            real = np.ones(_BLOCK, bool)
        i, j = np.ascontiguousarray(block.T)
        parts.append(Part(function, (i, j, None if types is None else (types[i], types[j]), real), many))
    parts.append(Part(_rest_function(form, names, periodic), (exclusions.astype(np.int64), types)))
    if form.alpha:
        parts.append(Part(_reciprocal_function(form, names, periodic), None, compile=many))
    return parts


def _split(names, periodic, leaves):
    params = dict(zip(names, leaves[: len(names)], strict=True))
    return params, leaves[len(names)], leaves[len(names) + 1] if periodic else None


@cache
def _pair_function(form, names, periodic):
    def energy(data, *leaves):
        i, j, types, real = data
        params, positions, box = _split(names, periodic, leaves)
        d = boxes.displacement(positions[i] - positions[j], None if form.cutoff is None else box)
        r2 = np.sum(d * d, axis=-1)
        if real is not None:
            r2 = np.where(real, r2, 1.0)
        e = pair_energies(form, params, i, j, types, r2)
        return np.sum(e if real is None else np.where(real, e, 0.0))

    return energy


def pair_energies(form: Form, params: dict[str, Any], i: Any, j: Any, types: Any, r2: Any) -> Any:
    """Energies of pairs (i, j) at squared distances `r2` within the cut-off, without any reciprocal part."""
    if form.mixing == "table":
        own = [params[key][pair] for pair in (types, types[::-1]) for key in ("a", "b")]
    else:
        s, e = params["sigmas"], root(params["epsilons"])
        own = [s[i], e[i], s[j], e[j]]
    q = params["charges"]
    return coulomb(form, form, r2, q[i], q[j]) + lennard_jones(form, form, r2, *own)


def coulomb(form: Form, at: Any, r2: Any, charge: Any, other: Any) -> Any:  # at: where the numbers of `form` are
    """Energies of pairs of charges."""
    r, qq = np.sqrt(r2), COULOMB * charge * other
    if form.alpha:
        return qq * erfc(at.alpha * r) / r
    return qq * (1 / r + at.k_rf * r2 - at.c_rf) if form.method == "reaction_field" else qq / r


def lennard_jones(form: Form, at: Any, r2: Any, *own: Any) -> Any:
    """Energies of pairs from the sigma and root of epsilon of the first atom, then of the second, or with a table from
    a and b of the pair of types, then of the pair in the other order.
    """

    def energy(r2):
        """Without the switch."""
        inverse6 = r2**-3
        if form.mixing == "table":  # the two halves of the table share a derivative
            return twelve_six(inverse6, 0.5 * (own[0] + own[2]), 0.5 * (own[1] + own[3]))
        s, e, other_s, other_e = own
        x = inverse6 * ((0.5 * (s + other_s)) ** 6 if form.mixing == "lorentz_berthelot" else (s * other_s) ** 3)
        u = twelve_six(x, 4 * e * other_e, 4 * e * other_e)
        if form.lj_alpha:
            # Dispersion, mixed geometrically, is summed over all images by the mesh: its long-ranged part is taken out
            # here.
            u = u + 4 * e * other_e * (s * other_s) ** 3 * inverse6 * screened(at.lj_alpha**2 * r2)
        return u

    if form.modifier != "potential-switch":
        r, start = np.sqrt(r2), None if form.switch is None else at.switch
        power6, power12 = (r2 ** (-n // 2) - removed(r, n, start, at.cutoff) for n in (6, 12))
        if form.mixing == "table":
            return 0.5 * (own[0] + own[2]) * power12 - 0.5 * (own[1] + own[3]) * power6
        s, e, other_s, other_e = own
        size6 = (0.5 * (s + other_s)) ** 6 if form.mixing == "lorentz_berthelot" else (s * other_s) ** 3
        return 4 * e * other_e * size6 * (size6 * power12 - power6)
    u = energy(r2)
    if form.lj_alpha:  # the energy at the cut-off is taken off too (Wennberg et al. 2015, equations 9 to 12)
        u = u - energy(at.cutoff**2)
    return u if form.switch is None or form.cutoff is None else u * switch(np.sqrt(r2), at.switch, at.cutoff)


@cache
def _rest_function(form, names, periodic):
    """Excluded pairs and the tail."""

    def energy(data, *leaves):
        exclusions, types = data
        params, positions, box = _split(names, periodic, leaves)
        e = 0.0 * np.sum(positions[:1])
        if form.corrects:
            e = e + excluded(form, params, positions, box, exclusions)
        if form.dispersion:
            e = e + long_range_dispersion(form, params, types) / boxes.volume(box)
        return e

    return energy


@cache
def _reciprocal_function(form, names, periodic):
    def energy(data, *leaves):
        return reciprocal(form, *_split(names, periodic, leaves))

    return energy


def excluded(form: Form, params: dict[str, Any], positions: Any, box: Any, exclusions: np.ndarray) -> Any:
    """The reciprocal sum holds excluded pairs too: they are taken out again. The reaction field of GROMACS has those
    within the cut-off, and each atom with itself.
    """
    i, j = exclusions.T
    d = boxes.displacement(positions[i] - positions[j], box if form.images else None)
    r2 = np.sum(d * d, axis=-1)
    q = params["charges"]
    if form.excluded_field:
        assert form.cutoff is not None
        field = np.where(r2 < form.cutoff**2, form.k_rf * r2 - form.c_rf, 0.0)
        return COULOMB * (np.sum(q[i] * q[j] * field) - 0.5 * form.c_rf * np.sum(q * q))
    e = -COULOMB * form.alpha * np.sum(q[i] * q[j] * _erf_over(form.alpha**2 * r2))
    if form.lj_alpha:
        c = 2 * root(params["epsilons"]) * params["sigmas"] ** 3
        e = e + form.lj_alpha**6 * np.sum(c[i] * c[j] * _screened_over(form.lj_alpha**2 * r2))
    return e


def _erf_over(x2):
    """erf(x)/x as a function of x^2, smooth at zero."""
    small = x2 < 1e-2
    y, z = np.where(small, x2, 0.0), np.where(small, 1.0, x2)
    series = (
        2
        / np.sqrt(np.pi)
        * (1 + y * (-1 / 3 + y * (1 / 10 + y * (-1 / 42 + y * (1 / 216 + y * (-1 / 1320 + y / 9360))))))
    )
    root_z = np.sqrt(z)
    return np.where(small, series, erf(root_z) / root_z)


def _screened_over(x):
    """`screened`(x) / x^3, smooth at zero."""
    small = x < 0.05
    y, z = np.where(small, x, 0.0), np.where(small, 1.0, x)
    return np.where(small, screening_series(y) / 6, screened(z) / z**3)


def reciprocal(form: Form, params: dict[str, Any], positions: Any, box: Any) -> Any:
    """The sums over wave vectors, with self energies and neutralizing background."""
    q = params["charges"]
    if form.method == "ewald":
        return pme.ewald_energy(q, positions, box, form.alpha, form.wave_vectors)
    e = pme.reciprocal_energy(q, positions, box, form.alpha, form.grid, form.order)
    if form.lj_alpha:
        c = 2 * root(params["epsilons"]) * params["sigmas"] ** 3
        e = e + pme.dispersion_reciprocal_energy(c, positions, box, form.lj_alpha, form.lj_grid, form.order)
    return e


def long_range_dispersion(form: Form, params: dict[str, Any], types: Any) -> Any:
    """Mean Lennard-Jones energy beyond the cut-off (and of what the switch takes away) times the volume."""
    rc = form.cutoff
    assert rc is not None
    w12, w6 = 1 / (9 * rc**9), 1 / (3 * rc**3)
    if form.modifier != "potential-switch":
        w12, w6 = w12 + _removed_within(12, form.switch, rc), w6 + _removed_within(6, form.switch, rc)
    elif form.switch is not None:
        more12, more6 = _lost_by_switch(form.switch, rc)
        w12, w6 = w12 + more12, w6 + more6
    sum12, sum6 = _mean_sums(form, params, types)
    return 16 * np.pi * (sum12 * w12 - sum6 * w6)


def jump_at_cutoff(form: Form, params: dict[str, Any], types: Any) -> Any:
    """Return the contribution of the Lennard-Jones step at the cut-off to the pressure, times the volume squared.

    2 pi/3 N^2 r_c^3 u(r_c), with a mean energy u: with it, and the derivative of the tail's energy, the pressure has
    the whole tail of the virial (Allen and Tildesley, Computer Simulation of Liquids, 2nd ed., 2017, sections 2.8 and
    2.14).
    """
    if form.switch is not None or form.modifier != "potential-switch":
        return 0.0
    assert form.cutoff is not None
    sum12, sum6 = _mean_sums(form, params, types)
    return 16 * np.pi / 3 * form.cutoff**3 * twelve_six(form.cutoff**-6, sum12, sum6)


def _mean_sums(form, params, types):
    """Half of n^2 times the means of e s^12 and e s^6.

    All n (n + 1) / 2 pairs count alike, an atom with itself among them, as in OpenMM.
    """
    if form.mixing == "table":
        t, n = len(params["a"]), len(types)
        count = np.bincount(types, minlength=t).astype(np.float64)
        a, b = 0.5 * (params["a"] + params["a"].T), 0.5 * (params["b"] + params["b"].T)
        sum12 = 0.5 * (count @ a @ count + count @ np.diagonal(a)) / 4
        sum6 = 0.5 * (count @ b @ count + count @ np.diagonal(b)) / 4
    else:
        s, e = params["sigmas"], root(params["epsilons"])
        n = len(s)
        sum12, sum6 = _mean_power(s, e, 12, form.mixing), _mean_power(s, e, 6, form.mixing)
    return n / (n + 1) * sum12, n / (n + 1) * sum6


def _mean_power(s, e, power, mixing):
    """Sum over i <= j of sqrt(e_i e_j) sigma_ij^power, through moments of the atoms' own parameters."""
    own = np.sum(e * e * s**power)
    if mixing == "geometric":
        return 0.5 * (np.sum(e * s ** (power // 2)) ** 2 + own)
    moment = [np.sum(e * s**k) for k in range(power + 1)]
    binomial = 1.0
    total = 0.0
    for k in range(power + 1):
        total = total + binomial * moment[k] * moment[power - k]
        binomial = binomial * (power - k) / (k + 1)
    return 0.5 * (total / 2**power + own)


@cache
def _removed_within(n, start, cutoff):
    """Integral of `removed` r^2 from 0 to the cut-off."""
    if start is None:
        return cutoff ** (3 - n) / 3
    a, b, c = force_switch(n, start, cutoff)
    polynomial = np.polynomial.Polynomial
    inner = polynomial([0, 0, 0, a / 3, b / 4]) * polynomial([start, 1]) ** 2
    return float(c * cutoff**3 / 3 + inner.integ()(cutoff - start))


@cache
def _lost_by_switch(switch, cutoff):
    """Integrals of (1 - S(r)) r^2 r^-12 and r^-6 from switch to cut-off: what the switch takes from each power."""
    polynomial = np.polynomial.Polynomial
    width = cutoff - switch
    x = polynomial([-switch / width, 1 / width])
    lost = (1 - fade(x)).coef  # of r^0 ... r^5
    found = []
    for p in (12, 6):
        total = 0.0
        for k, c in enumerate(lost):
            m = k + 3 - p
            total += c * (np.log(cutoff / switch) if m == 0 else (cutoff**m - switch**m) / m)
        found.append(float(total))
    return found[0], found[1]
