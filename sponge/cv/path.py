"""Path collective variables: progress along a path of structures or values, and distance from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from .functions import ON_A_LINE, centered, superposition_matrix, superposition_weights
from .path_kernels import StructurePath
from .variable import CollectiveVariable, as_atoms, as_variables

__all__ = ["path", "variable_path"]

# The recommended lambda is this over the mean square distance of neighbors [1]: each has a tenth of the other's weight.
_LAMBDA = 2.3


def _square_deviations(x, references, weights):
    """Mean square deviations of positions (k, 3) from references (N, k, 3) after the best superpositions."""
    d = x - weights @ x
    value = np.linalg.eigvalsh(superposition_matrix(np.swapaxes(weights[:, None] * references, 1, 2) @ d))
    size = np.sum(weights[:, None] * d * d) + np.sum(weights[:, None] * references * references, axis=(1, 2))
    return np.where(value[:, 3] - value[:, 2] > ON_A_LINE * size, size - 2 * value[:, 3], np.nan)


def _square_distances(values, cvs, nodes, weights):
    """Square distances of values of variables from nodes (N, d)."""
    apart = [v.difference(s, nodes[:, c]) for c, (v, s) in enumerate(zip(cvs, values, strict=True))]
    return sum(w * a * a for w, a in zip(weights, apart, strict=True))


def _progress(squares, lambda_):
    weights = np.exp(-lambda_ * (squares - core.stop_gradient(np.min(squares))))
    return np.sum(np.arange(1.0, len(squares) + 1) * weights) / np.sum(weights)


def _away(squares, lambda_):
    nearest = core.stop_gradient(np.min(squares))
    return nearest - np.log(np.sum(np.exp(-lambda_ * (squares - nearest)))) / lambda_


def _of_structures(x, _box, f, references, weights, lambda_):
    return f(_square_deviations(x, references, weights), lambda_)


def _of_variables(x, box, f, cvs, places, nodes, weights, lambda_):
    values = [v.local(x[place], box) for v, place in zip(cvs, places, strict=True)]
    return f(_square_distances(values, cvs, nodes, weights), lambda_)


def path(
    atoms: Any, references: Any, *, lambda_: float | None = None, weights: Any = None, name: str = "path"
) -> tuple[CollectiveVariable, CollectiveVariable]:
    r"""Progress s along a path of N structures, and the distance z from it in nm^2 [1]_.

    .. math:: s = \frac{\sum_i i \, e^{-\lambda R_i}}{\sum_i e^{-\lambda R_i}}, \quad
              z = -\frac{1}{\lambda} \ln \sum_i e^{-\lambda R_i}, \quad i = 1, \dots, N

    with the mean square deviation R_i from structure i after the best superposition. As in PLUMED, s goes from 1 to N.
    Images are not taken: the atoms have to belong to whole molecules.

    Parameters
    ----------
    atoms : (k,) int
        At least three.
    references : (N, k, 3) or (N, n, 3) array, nm
        Positions of these atoms, or of all atoms of the system, in at least two structures, in order. Neighbors should
        be about equally far apart.
    lambda_ : float, 1/nm^2, optional
        Defaults to 2.3 over the mean square deviation of neighbors [1]_.
    weights : (k,) array, optional
        Weights of the atoms, such as masses. Equal by default.
    name : str
        The variables are named ``name.s`` and ``name.z``.

    Returns
    -------
    s, z : CollectiveVariable

    Raises
    ------
    ValueError
        If there are fewer than two structures, their shape does not fit, or neighbors are the same.

    References
    ----------
    .. [1] Branduardi, Gervasio, Parrinello, "From A to B in free energy space", J. Chem. Phys. 126 (2007) 054103,
       equations 8 and 9. doi:10.1063/1.2432340

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import cv
    >>> structures = np.random.default_rng(0).normal(size=(5, 6, 3))
    >>> s, z = cv.path(range(6), structures)
    >>> round(float(s(structures[2])))
    3
    """
    where = "cv.path"
    atoms = as_atoms(where, atoms, least=3)
    w = superposition_weights(where, len(atoms), weights)
    if np.ndim(references) != 3 or len(references) < 2:
        raise ValueError(
            f"{where}: references must be at least two structures (N, {len(atoms)}, 3), got shape "
            f"{np.shape(references)}"
        )
    structures = np.stack([centered(f"{where}: structure {i + 1}", atoms, r, w) for i, r in enumerate(references)])
    apart = [_square_deviations(b, a[None], w)[0] for a, b in zip(structures, structures[1:])]
    options = {"references": structures, "weights": w, "lambda_": _lambda(where, lambda_, apart, "nm^-2")}
    native = StructurePath(atoms, structures, w, options["lambda_"], ON_A_LINE)
    return _pair(name, atoms, _of_structures, options, "where a best superposition is not unique", native)


def variable_path(
    cvs: Any, nodes: Any, *, lambda_: float | None = None, weights: Any = None, name: str = "path"
) -> tuple[CollectiveVariable, CollectiveVariable]:
    r"""Progress s along a path of N points in the space of other variables, and the distance z from it.

    As `path`, with square distances :math:`R_i = \sum_c w_c (x_c - x_{ic})^2`, of periodic variables the shortest way
    around.

    Parameters
    ----------
    cvs : CollectiveVariable or sequence of d CollectiveVariable
    nodes : (N, d) array
        Values of the variables at the points, in order.
    lambda_ : float, optional
        Defaults to 2.3 over the mean square distance of neighbors.
    weights : (d,) array, optional
        The w above, which bring variables of different units together. Defaults to 1.
    name : str
        The variables are named ``name.s`` and ``name.z``.

    Returns
    -------
    s, z : CollectiveVariable

    Raises
    ------
    ValueError
        If there are fewer than two nodes, their shape does not fit, or neighbors are the same.

    References
    ----------
    Branduardi, Gervasio, Parrinello, J. Chem. Phys. 126 (2007) 054103, equations 8 and 9. doi:10.1063/1.2432340

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import cv
    >>> phi, psi = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
    >>> cv.variable_path([phi, psi], np.radians([[-80, 80], [-60, 20], [-20, -40], [60, -60]]))
    (<path.s>, <path.z>)
    """
    where = "cv.variable_path"
    found, nodes = as_variables(where, cvs), np.array(nodes, np.float64)
    d = len(found)
    if nodes.ndim != 2 or len(nodes) < 2 or nodes.shape[1] != d:
        raise ValueError(f"{where}: nodes must be at least two points (N, {d}), got shape {nodes.shape}")
    check.finite(nodes, f"{where}: nodes")
    for c, variable in enumerate(found):
        variable.check_values(where, "node", nodes[:, c])
    w = np.ones(d) if weights is None else np.array(weights, np.float64)
    if w.shape != (d,) or not np.all((w > 0) & np.isfinite(w)):
        raise ValueError(f"{where}: weights must be {d} positive numbers, got {weights!r:.80}")
    atoms, place = np.unique(np.concatenate([v.atoms for v in found]), return_inverse=True)
    places = np.split(place, np.cumsum([len(v.atoms) for v in found])[:-1])
    apart = _square_distances(nodes[1:].T, found, nodes[:-1], w)
    options = {
        "cvs": tuple(found),
        "places": tuple(places),
        "nodes": nodes,
        "weights": w,
        "lambda_": _lambda(where, lambda_, apart, ""),
    }
    undefined = "; ".join(f"{v.name}: {v.undefined}" for v in found if v.undefined)
    return _pair(name, atoms, _of_variables, options, undefined)


def _lambda(where, given, apart, unit):
    """The lambda given, or from square distances of neighbors."""
    if given is not None:
        return check.positive(given, f"{where}: lambda_", unit)
    if not np.all(np.asarray(apart) > 1e-9 * np.mean(apart)):
        raise ValueError(
            f"{where}: neighbors must be different, got {int(np.argmin(apart)) + 1} and "
            f"{int(np.argmin(apart)) + 2} alike"
        )
    return float(_LAMBDA / np.mean(apart))


def _pair(name, atoms, function, options, undefined, native=None):
    return tuple(
        CollectiveVariable(
            f"{name}.{what}",
            atoms,
            function,
            None,
            {**options, "f": f},
            undefined,
            None if native is None else (native, what),
        )
        for what, f in (("s", _progress), ("z", _away))
    )
