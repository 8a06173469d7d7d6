"""Soft cores: Lennard-Jones and Coulomb energies that stay finite at zero distance while lambda is below 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import jvp
from triskele.core.extend import check, elementwise

from ..potentials.pairs.formulas import twelve_six

__all__ = [
    "COLUMNS",
    "CONSTANT",
    "COURSES",
    "FALLING",
    "HARD_FALLING",
    "HARD_RISING",
    "RISING",
    "Beutler",
    "Gapsys",
    "SoftCore",
    "coefficients",
]

# Columns of `coefficients`: factor and softening of Lennard-Jones, and their derivatives by lambda; the same of
# Coulomb; lambda of electrostatics.
SCALE, SOFT, D_SCALE, D_SOFT, Q_SCALE, Q_SOFT, DQ_SCALE, DQ_SOFT, Q_LAMBDA = range(9)
COLUMNS = 9
# How Lennard-Jones interactions change with lambdas: softly up or down, in proportion down or up, or not.
RISING, FALLING, HARD_FALLING, HARD_RISING, CONSTANT = range(5)
COURSES = 5
_FLEX = 26 / 7  # (r/sigma)^6 where the force of a Lennard-Jones pair is at its most attractive
_well = elementwise(lambda r, size2: twelve_six((size2 / (r * r)) ** 3, 1.0, 1.0))
_slope, _curvature = _well.partial("r"), _well.partial("r", "r")


def _outward(r2, size2, soft):
    """The nearest distance at which the plain energy counts, and the way there: 0, or negative below the radius."""
    radius2 = soft * soft * size2
    near = np.sqrt(np.where(r2 < radius2, radius2, r2))
    return near, np.where(r2 > 0, np.sqrt(np.where(r2 > 0, r2, 1.0)), 0.0) - near


@elementwise
def _gapsys(r2, size2, soft):
    near, h = _outward(r2, size2, soft)
    return _well(near, size2) + h * (_slope(near, size2) + 0.5 * h * _curvature(near, size2))


@_gapsys.derivative("r2")
def _(r2, size2, soft):
    near, h = _outward(r2, size2, soft)
    # toward r = 0 the force has no direction; there it is left out
    safe = np.where(r2 > 0, r2, 1.0)
    return np.where(r2 > 0, 0.5 * (_slope(near, size2) + h * _curvature(near, size2)) / np.sqrt(safe), 0.0)


class _SoftCore:
    """Base of soft cores, which define an energy and how a lambda scales and softens it; a softening of 0 does not."""

    def scale(self, lam: Any) -> Any:
        """Factor of the Lennard-Jones energy of pairs."""
        return lam

    def softening(self, lam: Any) -> Any:
        """Softening of the Lennard-Jones energy, an argument of `softened`."""
        raise NotImplementedError

    def softened(self, r2: Any, size2: Any, soft: Any) -> Any:
        """Energy over 4 epsilon and the scale of pairs at squared distances `r2` with the square of sigma `size2`."""
        raise NotImplementedError

    def lennard_jones(self, r2: Any, sigma: Any, epsilon: Any, lam: Any) -> Any:
        """Energy of pairs at squared distances `r2` (nm^2): NumPy code that the core can differentiate."""
        return self.scale(lam) * 4 * epsilon * self.softened(r2, sigma**2, self.softening(lam))

    @property
    def softens_charges(self) -> bool:
        """Return True if Coulomb is other than scaled by lambda."""
        return False

    def coulomb_scale(self, lam: Any) -> Any:
        """Factor of the Coulomb energy of pairs."""
        return lam

    def coulomb_softening(self, lam: Any) -> Any:
        """Softening of distances of charges, an argument of `softened_distance`."""
        return 0.0 * lam

    def softened_distance(self, r2: Any, _sigma: Any, _soft: Any) -> Any:
        """Distance of charges (nm)."""
        return np.sqrt(r2)

    def distance(self, r2: Any, sigma: Any, lam: Any) -> Any:
        """Softened distance of charges (nm)."""
        return self.softened_distance(r2, sigma, self.coulomb_softening(lam))

    def columns(self, lam):
        """Factor and softening of Lennard-Jones, and their derivatives."""
        return _with_slopes(self.scale, self.softening, lam)


@dataclass(frozen=True)
class Beutler(_SoftCore):
    r"""The soft core of Beutler et al. [1]_ with the exponents of Pham and Shirts [2]_.

    .. math:: U = \lambda^a 4\epsilon (x^2 - x), \quad
        x = \left[\alpha (1-\lambda)^b + (r/\sigma)^c\right]^{-6/c}

    and, where Coulomb is a sum over pairs, :math:`\lambda^d q_i q_j / r_q` with
    :math:`r_q = \sigma [\beta (1-\lambda)^e + (r/\sigma)^f]^{1/f}`.

    Parameters
    ----------
    alpha, a, b, c : float
        Lennard-Jones; a and b must be at least 1, c at least 2.
    beta, d, e, f : float
        Coulomb. With Ewald sums charges are scaled linearly, and these must keep their defaults.

    References
    ----------
    .. [1] Beutler, Mark, van Schaik, Gerber, van Gunsteren, "Avoiding singularities and numerical instabilities in
       free energy calculations based on molecular simulations", Chem. Phys. Lett. 222 (1994) 529.
       doi:10.1016/0009-2614(94)00397-1
    .. [2] Pham, Shirts, "Identifying low variance pathways for free energy calculations of molecular transformations
       in solution phase", J. Chem. Phys. 135 (2011) 034114, equation 13. doi:10.1063/1.3607597

    Examples
    --------
    >>> from triskele.sponge import alchemy
    >>> core = alchemy.Beutler()
    >>> round(float(core.lennard_jones(0.0, 0.3, 1.0, 0.5)), 6)  # 4 * 0.5 * (16 - 4)
    24.0
    """

    alpha: float = 0.5
    a: float = 1.0
    b: float = 1.0
    c: float = 6.0
    beta: float = 0.0
    d: float = 1.0
    e: float = 1.0
    f: float = 2.0

    def __post_init__(self):
        for name, least in (("alpha", 0), ("a", 1), ("b", 1), ("c", 2), ("beta", 0), ("d", 1), ("e", 1), ("f", 2)):
            value = float(getattr(self, name))
            if not (np.isfinite(value) and value >= least):
                raise ValueError(f"Beutler: {name} must be at least {least}, got {value:g}")

    @property
    def softens_charges(self) -> bool:
        """Return True if Coulomb is other than scaled by lambda."""
        return (self.beta, self.d) != (0.0, 1.0)

    def scale(self, lam: Any) -> Any:
        return _power(lam, self.a)

    def softening(self, lam: Any) -> Any:
        return self.alpha * _power(1 - lam, self.b)

    def softened(self, r2: Any, size2: Any, soft: Any) -> Any:
        half = 0.5 * self.c
        x = size2**3 * (soft * size2**half + r2**half) ** (-3 / half)
        return twelve_six(x, 1.0, 1.0)

    def coulomb_scale(self, lam: Any) -> Any:
        return _power(lam, self.d)

    def coulomb_softening(self, lam: Any) -> Any:
        return self.beta * _power(1 - lam, self.e)

    def softened_distance(self, r2: Any, sigma: Any, soft: Any) -> Any:
        if self.beta == 0:
            return np.sqrt(r2)
        return sigma * (soft + (r2 / sigma**2) ** (self.f / 2)) ** (1 / self.f)


@dataclass(frozen=True)
class Gapsys(_SoftCore):
    r"""The soft core of Gapsys et al. [1]_: below a radius the force is a straight line, and the energy a parabola.

    .. math:: U = \lambda \left[u(r_s) + u'(r_s) (r - r_s) + \tfrac12 u''(r_s) (r - r_s)^2\right]
        \quad\text{for } r < r_s = \alpha \sigma \left[\tfrac{26}{7} (1-\lambda)\right]^{1/6}

    with the Lennard-Jones energy u; beyond, U is lambda u. Charges are scaled linearly.

    Parameters
    ----------
    alpha : float

    References
    ----------
    .. [1] Gapsys, Seeliger, de Groot, "New soft-core potential function for molecular dynamics based alchemical free
       energy calculations", J. Chem. Theory Comput. 8 (2012) 2373, equations 8 to 13. doi:10.1021/ct300220p

    Examples
    --------
    >>> from triskele.sponge import alchemy
    >>> core = alchemy.Gapsys()
    >>> float(core.lennard_jones(0.36, 0.3, 1.0, 0.5)) == 0.5 * 4 * (0.5**12 - 0.5**6)  # far out
    True
    """

    alpha: float = 0.85

    def __post_init__(self):
        check.positive(self.alpha, "Gapsys: alpha")

    def softening(self, lam: Any) -> Any:
        """The radius over sigma."""
        some = lam < 1.0  # at 1 the radius is 0, and its derivative infinite
        return np.where(some, self.alpha * (_FLEX * np.where(some, 1 - lam, 1.0)) ** (1 / 6), 0.0)

    def softened(self, r2: Any, size2: Any, soft: Any) -> Any:
        return _gapsys(r2, size2, soft)


SoftCore = Beutler | Gapsys


def coefficients(
    core: SoftCore,
    electrostatics: Any,
    rising: Any,  # lambdas (k,)
    falling: Any = 0.0,  # the soft core at 1 - falling
    mixing: Any = 1.0,
) -> np.ndarray:  # factor mixing or 1 - mixing of hard interactions
    """Return the numbers (k, courses, 9) that the kernels read in k states, in columns `SCALE` to `Q_LAMBDA`.

    >>> coefficients(Beutler(), [1.0], [0.5])[0, RISING, :2].tolist()
    [0.5, 0.25]
    """
    q, s, f, m = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(x, np.float64)) for x in (electrostatics, rising, falling, mixing))
    )
    zero = np.zeros_like(q)
    charged = _with_slopes(core.coulomb_scale, core.coulomb_softening, q)
    scale, soft, d_scale, d_soft = core.columns(1 - f)
    courses = [core.columns(s), (scale, soft, -d_scale, -d_soft), (1 - m, zero, zero - 1, zero),
               (m, zero, zero + 1, zero), (zero + 1, zero, zero, zero)]  # fmt: skip
    return np.ascontiguousarray(np.stack([np.stack([*own, *charged, q], axis=1) for own in courses], axis=1))


def _power(x, n):
    return x if n == 1 else x**n


def _with_slopes(scale, softening, lam):
    """A factor and a softening, and the derivatives of both by lambda."""
    values, slopes = jvp(lambda lam: (scale(lam), softening(lam)), (lam,), (np.ones_like(lam),))
    return *values, *slopes
