"""The collective variables there are."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..box import displacement
from ..geometry import cross, torsions
from .variable import CollectiveVariable, as_atoms

__all__ = ["angle", "coordination", "distance", "function", "radius_of_gyration", "rmsd", "torsion"]

# Sines below this are rounding errors of atoms on a line: positions have 16 digits.
ON_A_LINE = 1e-10


# Unlike the terms of a force field, which take derivatives that do not exist as 0, variables leave them NaN: a bias
# would otherwise end without a word.


def _distance(x, box):
    d = displacement(x[1] - x[0], box)
    return np.sqrt(np.sum(d * d))


def distance(i: int, j: int, *, name: str | None = None) -> CollectiveVariable:
    """Distance of two atoms in nm, between nearest images.

    Parameters
    ----------
    i, j : int
    name : str, optional

    Examples
    --------
    >>> from triskele.sponge.cv import distance
    >>> distance(0, 7)
    <distance(0, 7)>
    """
    atoms = as_atoms("cv.distance", [i, j], exactly=2)
    return CollectiveVariable(name or f"distance({i}, {j})", atoms, _distance, undefined="at distance 0")


def _angle(x, box):
    a, b = displacement(x[0] - x[1], box), displacement(x[2] - x[1], box)
    c = cross(a, b)
    square = np.sum(c * c)
    flat = square <= ON_A_LINE**2 * np.sum(a * a) * np.sum(b * b)
    return np.arctan2(np.sqrt(square * np.where(flat, 0.0, 1.0)), np.sum(a * b))


def angle(i: int, j: int, k: int, *, name: str | None = None) -> CollectiveVariable:
    """Angle in radians at the second of three atoms, in [0, pi].

    Parameters
    ----------
    i, j, k : int
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import cv
    >>> x = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> float(np.degrees(cv.angle(0, 1, 2)(x)))
    90.0
    """
    atoms = as_atoms("cv.angle", [i, j, k], exactly=3)
    return CollectiveVariable(
        name or f"angle({i}, {j}, {k})", atoms, _angle, undefined="where the three atoms lie on a line"
    )


_CHAIN = np.arange(4)[None]


def _torsion(x, box):
    a, b, c = (displacement(x[k + 1] - x[k], box) for k in range(3))
    m, n = cross(a, b), cross(b, c)
    middle = ON_A_LINE**2 * np.sum(b * b)
    bent = (np.sum(m * m) > middle * np.sum(a * a)) & (np.sum(n * n) > middle * np.sum(c * c))
    return np.where(bent, torsions(x, box, _CHAIN)[0], np.nan)


def torsion(i: int, j: int, k: int, l: int, *, name: str | None = None) -> CollectiveVariable:
    """Torsion angle in radians of a chain of four atoms, in (-pi, pi], positive clockwise (IUPAC); periodic.

    It is NaN where three atoms in sequence lie on a line.

    Parameters
    ----------
    i, j, k, l : int
    name : str, optional

    Examples
    --------
    >>> from triskele.sponge.cv import torsion
    >>> psi = torsion(6, 8, 14, 16, name="psi")
    >>> psi.period
    (-3.141592653589793, 3.141592653589793)
    """
    atoms = as_atoms("cv.torsion", [i, j, k, l], exactly=4)
    return CollectiveVariable(
        name or f"torsion({i}, {j}, {k}, {l})",
        atoms,
        _torsion,
        (-math.pi, math.pi),
        undefined="where three atoms in sequence lie on a line",
    )


def superposition_matrix(m: Any) -> Any:
    """Return the 4 x 4 matrices for `m` (..., 3, 3), the sums of w_i r_i d_i^T.

    Their largest eigenvalue is the largest sum w_i r_i . R d_i that a rotation R reaches.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = ([m[..., a, b] for b in range(3)] for a in range(3))
    return np.stack(
        [
            np.stack(row, axis=-1)
            for row in (
                (xx + yy + zz, yz - zy, zx - xz, xy - yx),
                (yz - zy, xx - yy - zz, xy + yx, zx + xz),
                (zx - xz, xy + yx, yy - xx - zz, yz + zy),
                (xy - yx, zx + xz, yz + zy, zz - xx - yy),
            )
        ],
        axis=-1,
    )


def _rmsd(x, box, reference, weights):
    d = x - weights @ x
    value = np.linalg.eigvalsh(superposition_matrix((weights[:, None] * reference).T @ d))
    size = weights @ np.sum(d * d + reference * reference, axis=1)
    square = size - 2 * value[3]
    # differences of large numbers: what is left at the reference is rounding
    apart = square > 1e-14 * size
    result = np.where(apart, np.sqrt(np.where(apart, square, 1.0)), 0.0)
    return np.where(value[3] - value[2] > ON_A_LINE * size, result, np.nan)


def rmsd(atoms: Any, reference: Any, *, weights: Any = None, name: str | None = None) -> CollectiveVariable:
    r"""Root mean square deviation from a reference in nm, after the best superposition.

    .. math:: \min_{R, t} \sqrt{\sum_i w_i |R x_i + t - r_i|^2 / \sum_i w_i}

    by quaternions [1]_. At the reference itself, where the gradient does not exist, it is taken as 0. Images are not
    taken: the atoms have to belong to whole molecules.

    Parameters
    ----------
    atoms : (k,) int
        At least three.
    reference : (k, 3) or (n, 3) array
        Positions in nm of these atoms, or of all atoms of the system.
    weights : (k,) array, optional
        Weights of the atoms, such as masses. Equal by default.
    name : str, optional

    References
    ----------
    .. [1] Horn, "Closed-form solution of absolute orientation using unit quaternions", J. Opt. Soc. Am. A 4 (1987) 629.
       doi:10.1364/JOSAA.4.000629

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import cv
    >>> x = np.random.default_rng(0).normal(size=(5, 3))
    >>> round(float(cv.rmsd(range(5), x)(x + 0.3)), 6)
    0.0
    """
    where = "cv.rmsd"
    atoms = as_atoms(where, atoms, least=3)
    w = superposition_weights(where, len(atoms), weights)
    return CollectiveVariable(
        name or f"rmsd({len(atoms)} atoms)",
        atoms,
        _rmsd,
        None,
        {"reference": centered(where, atoms, reference, w), "weights": w},
        "where the best superposition is not unique, as for atoms on a line",
    )


def superposition_weights(where: str, k: int, weights: Any) -> np.ndarray:
    """Weights of k atoms, of sum 1; equal if None."""
    w = np.ones(k) if weights is None else np.array(weights, np.float64)
    if w.shape != (k,) or not np.all(w >= 0) or not 0 < w.sum() < np.inf:
        raise ValueError(f"{where}: weights must be {k} numbers >= 0 that are not all 0, got {weights!r:.80}")
    return w / w.sum()


def centered(where: str, atoms: np.ndarray, reference: Any, weights: np.ndarray) -> np.ndarray:
    """Positions of the atoms (k, 3) in a reference, about their weighted center; from those of all atoms, or theirs."""
    k = len(atoms)
    reference = np.array(reference, np.float64)
    if reference.ndim != 2 or reference.shape[1] != 3 or (len(reference) != k and len(reference) <= atoms.max()):
        raise ValueError(f"{where}: reference must have shape {(k, 3)}, or hold all atoms, got shape {reference.shape}")
    if len(reference) != k:
        reference = reference[atoms]
    check.finite(reference, f"{where}: reference")
    reference -= weights @ reference
    spread = np.linalg.svd(np.sqrt(weights)[:, None] * reference, compute_uv=False)
    if spread[1] <= ON_A_LINE * spread[0]:
        raise ValueError(f"{where}: the reference atoms must not lie on a line")
    return reference


def _coordination(x, box, first, second, apart, r0, n, m):
    d = displacement(x[first][:, None] - x[second][None], box)
    square = np.sum(d * d, axis=-1) / r0**2
    # (1 - y^n) / (1 - y^m) = (1 - z^p) / (1 - z^q) with z = y^g, as a ratio of sums: nothing happens at y = 1
    g = math.gcd(n, m)
    z = square ** (g // 2) if g % 2 == 0 else np.sqrt(square) ** g
    upper, lower = _geometric(z, n // g), _geometric(z, m // g)
    return np.sum(np.where(apart, upper / lower, 0.0))


def _geometric(z, terms):
    """1 + z + ... + z^(terms - 1)."""
    total = 1.0 + 0.0 * z
    for _ in range(terms - 1):
        total = 1.0 + z * total
    return total


def coordination(
    first: Any, second: Any, r0: float, *, n: int = 6, m: int = 12, name: str | None = None
) -> CollectiveVariable:
    r"""Number of neighbors, counted by a rational switching function over all pairs of two sets of atoms.

    .. math:: \sum_{i \in A} \sum_{j \in B, j \neq i} \frac{1 - (r_{ij}/r_0)^n}{1 - (r_{ij}/r_0)^m}

    of distances between nearest images [1]_. A term is 1 at r = 0 and n/m at r = r0.

    Parameters
    ----------
    first, second : int array
        The sets A and B, which may overlap: a pair that stands in both orders counts twice.
    r0 : float, nm
        Equilibrium length.
    n, m : int
        Exponents, 0 < n < m; an even common divisor saves the square roots.
    name : str, optional

    References
    ----------
    .. [1] Iannuzzi, Laio, Parrinello, Phys. Rev. Lett. 90 (2003) 238302, equation 1. doi:10.1103/PhysRevLett.90.238302

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.cv import coordination
    >>> x = np.array([[0.0, 0, 0], [0.3, 0, 0], [9.0, 0, 0]])
    >>> round(float(coordination([0], [1, 2], r0=0.3)(x)), 6)
    0.5
    """
    where = "cv.coordination"
    a, b = as_atoms(where, first), as_atoms(where, second)
    check.positive(r0, f"{where}: r0", "nm")
    if not (isinstance(n, int) and isinstance(m, int) and 0 < n < m):
        raise ValueError(f"{where}: exponents must be whole numbers with 0 < n < m, got n = {n!r}, m = {m!r}")
    if len(a) == len(b) == 1 and a[0] == b[0]:
        raise ValueError(f"{where}: the two sets must hold different atoms, got atom {a[0]} in both")
    atoms, place = np.unique(np.r_[a, b], return_inverse=True)
    options = {
        "first": place[: len(a)],
        "second": place[len(a) :],
        "apart": a[:, None] != b,
        "r0": float(r0),
        "n": n,
        "m": m,
    }
    return CollectiveVariable(
        name or f"coordination({len(a)} and {len(b)} atoms)",
        atoms,
        _coordination,
        None,
        options,
        "where two atoms are at the same place",
    )


def _gyration(x, box, weights):
    d = x - weights @ x
    return np.sqrt(weights @ np.sum(d * d, axis=1))


def radius_of_gyration(atoms: Any, masses: Any = None, *, name: str | None = None) -> CollectiveVariable:
    r"""Radius of gyration in nm, :math:`\sqrt{\sum_i m_i |x_i - x_c|^2 / \sum_i m_i}` about the center of mass.

    Images are not taken: the atoms have to belong to whole molecules.

    Parameters
    ----------
    atoms : (k,) int
        At least two.
    masses : (k,) or (n,) array, dalton, optional
        Masses of these atoms or of all atoms of the system. Equal by default.
    name : str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import cv
    >>> round(float(cv.radius_of_gyration([0, 1])(np.array([[0.0, 0, 0], [0.2, 0, 0]]))), 6)
    0.1
    """
    where = "cv.radius_of_gyration"
    atoms = as_atoms(where, atoms, least=2)
    m = np.ones(len(atoms)) if masses is None else np.array(masses, np.float64)
    if m.ndim == 1 and len(m) != len(atoms) and len(m) > atoms.max():
        m = m[atoms]
    if m.shape != (len(atoms),) or not np.all(m >= 0) or not 0 < m.sum() < np.inf:
        raise ValueError(f"{where}: masses must be {len(atoms)} numbers >= 0 that are not all 0, got {masses!r:.80}")
    return CollectiveVariable(
        name or f"radius of gyration({len(atoms)} atoms)",
        atoms,
        _gyration,
        None,
        {"weights": m / m.sum()},
        "where all atoms are at the same place",
    )


def function(
    f: Callable, atoms: Any, *, period: tuple[float, float] | None = None, name: str | None = None
) -> CollectiveVariable:
    """Any function of the positions of some atoms, such as a formula of other variables or a network.

    Parameters
    ----------
    f : callable
        ``f(x)`` -> scalar, of the positions [k, 3] of `atoms` in their order, in nm: NumPy code that the core can
        trace. If it has an argument `box`, it receives the box [3, 3], or None.
    atoms : (k,) int
    period : (float, float), optional
        The ends of its range, if they are one point.
    name : str, optional
        Defaults to the function's.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.cv import function
    >>> def difference(x):
    ...     return np.sqrt(np.sum((x[1] - x[0]) ** 2)) - np.sqrt(np.sum((x[2] - x[1]) ** 2))
    >>> function(difference, [3, 9, 4])
    <difference>
    """
    where = "cv.function"
    check.kind(f, Callable, where, "a function of positions")
    if period is not None:
        if np.shape(period) != (2,) or not -np.inf < float(period[0]) < float(period[1]) < np.inf:
            raise ValueError(f"{where}: period must be (lowest, highest), got {period!r}")
        period = float(period[0]), float(period[1])
    try:
        takes_box = "box" in inspect.signature(f).parameters
    except (TypeError, ValueError):  # a builtin without signature
        takes_box = False
    called = _with_box if takes_box else _without_box
    return CollectiveVariable(
        name or getattr(f, "__name__", "function").strip("<>"), as_atoms(where, atoms), called, period, {"f": f}
    )


def _with_box(x, box, f):
    return f(x, box=box)


def _without_box(x, box, f):
    return f(x)
