"""`InducedDipoles`: electrostatics of charges and of point dipoles that they induce in each other's fields."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import erfc

from triskele import core
from triskele.core.extend import check

from ... import box as boxes
from ... import pme
from ...engine.engine import Engine
from ...errors import BoxError
from ...neighbors.pairs import find_pairs
from ...pme import parameters as ewald_parameters
from ...pme.energy import smooth_coulomb
from ...pme.mesh import grid_size
from ...potential import Potential
from ...system import System
from ...topology import Topology
from ...units import COULOMB
from ..at_values import Part, at_values

if TYPE_CHECKING:
    from ...engine.plan import Plan

__all__ = ["InducedDipoles"]

METHODS = ("pme", "none")
CLOSEST = 1e-4  # nm: polarizable atoms that are closer are refused
ORDER = 5  # of the splines of the mesh


class InducedDipoles(Potential):
    r"""Electrostatics of fixed charges and of the point dipoles that they induce on polarizable atoms.

    .. math:: E = \sum_{i<j} \frac{k_e q_i q_j}{r_{ij}} + \min_\mu \Big(\sum_i \frac{k_e \mu_i^2}{2 \alpha_i}
              - \sum_i \mu_i \cdot E_i - \tfrac12 \sum_{i \ne j} \mu_i T_{ij} \mu_j\Big),
              \quad \mu_i = \frac{\alpha_i}{k_e} \Big(E_i + \sum_j T_{ij} \mu_j\Big)

    where E_i is the field of the charges and T_ij that of a unit dipole: the energy of induction is -1/2 of the sum of
    mu_i E_i [1]_. Fields between polarizable atoms are damped at short distances as in AMOEBA [2]_: with
    u^3 = r^3 / (alpha_i alpha_j)^(1/2), those of charges by 1 - exp(-a u^3), and those of dipoles accordingly. The
    energy of two charges is not damped, and neither is the field of a charge at an atom without polarizability.

    The system's exclusions leave out the Coulomb energy of two charges and their fields on each other's dipoles.
    Dipoles act on each other in all pairs. Terms of `pair14` add to the energy of the charges alone.

    Dipoles are found by conjugate gradients in double precision at every step, starting from those that the charges
    alone induce and a small random part, which is always the same and shows where no dipoles minimize the energy: the
    result depends on positions and box only. Forces are exact: the energy does not change to
    first order with the dipoles. Lennard-Jones energies are those of a `Nonbonded` whose charges are all 0. For second
    derivatives, the energy of NumPy code solves dense equations, which suits small systems.

    Parameters
    ----------
    charges : (n,) array, e
    polarizabilities : (n,) array, nm^3
        Polarizability volumes; 0 for atoms without a dipole.
    thole : float or (n,) array, optional
        The factor a of the damping, 0.39 in AMOEBA. Of two values for atoms, a pair has the smaller one. None leaves
        dipoles undamped.
    method : {"pme", "none"}
        "pme" sums over all images in a periodic box (particle mesh Ewald with a conducting surface). "none" computes
        all pairs of a system without a box.
    cutoff : float, nm
        Cut-off radius of the direct sum of "pme".
    tolerance : float
        Relative error of the Ewald sum of the charges, which determines its splitting parameter and the mesh.
    convergence : float, e nm
        Largest difference, on any atom, of a dipole from its polarizability times the field.

    Attributes
    ----------
    params : dict
        "charges", "polarizabilities", and "thole" if there is damping. The derivative by a polarizability of 0 exists.
        Where both atoms of a pair have the same "thole", derivatives by it are those of changing both at once, in
        halves.

    Raises
    ------
    ValueError
        If sizes do not fit, a polarizability is negative, another potential has charges of its own, or a sampling
        method splits the energy.
    BoxError
        If the method does not fit the box.
    RuntimeError
        If no dipoles minimize the energy (the polarization catastrophe), or they do not converge: step, atom and
        residual are named; if two polarizable atoms are at the same place; or, in a run, if a cluster is wider than
        1e5 nm.

    References
    ----------
    .. [1] Applequist, Carl, Fung, "An atom dipole interaction model for molecular polarizability", J. Am. Chem. Soc. 94
       (1972) 2952. doi:10.1021/ja00764a010
    .. [2] Ren, Ponder, "Polarizable atomic multipole water model for molecular mechanics simulation", J. Phys. Chem. B
       107 (2003) 5933. doi:10.1021/jp027815+; after Thole, Chem. Phys. 59 (1981) 341

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [23.0, 40.0], positions=[[0, 0, 0], [0, 0, 0.5]])
    >>> induced = system.add(sponge.InducedDipoles([1.0, 0.0], [0.0, 0.00164], method="none"))
    >>> round(float(induced.dipoles(system.positions)[1, 2]), 5)  # 0.00164 / 0.5^2
    0.00656
    >>> round(system.energy(), 4)  # -k_e alpha q^2 / (2 r^4)
    -1.8228
    """

    conserves_momentum = True

    def __init__(
        self,
        charges: Any,
        polarizabilities: Any,
        thole: Any = 0.39,
        *,
        method: str = "pme",
        cutoff: float = 0.9,
        tolerance: float = 1e-5,
        convergence: float = 1e-8,
    ):
        where, self.name = "induced dipoles", "induced_dipoles"
        q, alpha = (np.array(v, np.float64) for v in (charges, polarizabilities))
        if q.ndim != 1 or alpha.shape != q.shape or not len(q):
            raise ValueError(
                f"{where}: charges and polarizabilities must be given for each atom, got shapes {q.shape} "
                f"and {alpha.shape}"
            )
        self.params = {"charges": q, "polarizabilities": alpha}
        if thole is not None:
            self.params["thole"] = np.array(thole, np.float64)
            if self.params["thole"].shape not in ((), q.shape):
                raise ValueError(
                    f"{where}: thole must be a number, or one for each of {len(q)} atoms, got shape "
                    f"{self.params['thole'].shape}"
                )
        if method not in METHODS:
            raise ValueError(
                f"{where}: method must be one of {', '.join(METHODS)}, got {method!r} (fields of dipoles "
                "are not cut off)"
            )
        self.method = method
        self.cutoff = check.positive(cutoff, f"{where}: cutoff", "nm")
        self.tolerance = check.positive(tolerance, f"{where}: tolerance")
        if self.tolerance >= 0.5:
            raise ValueError(f"{where}: tolerance must lie between 0 and 0.5, got {tolerance}")
        self.convergence = check.positive(convergence, f"{where}: convergence", "e nm")
        self.exclusions = np.empty((0, 2), np.int32)
        self.grid: tuple[int, int, int] | None = None
        self.invariant = method == "none"

    @property
    def alpha(self) -> float:
        """Splitting parameter of the Ewald sum, in 1/nm; 0 without one."""
        return float(ewald_parameters.splitting(self.cutoff, self.tolerance)) if self.method == "pme" else 0.0

    @property
    def pair_scope(self) -> Literal["listed", "all"]:  # type: ignore[override]
        """Return "listed" with a cut-off of the direct sum, "all" without one."""
        return "listed" if self.method == "pme" else "all"

    def check(self, system: System) -> None:
        """Take over the system's exclusions; raise if sizes, parameters and box do not fit."""
        where = f"induced dipoles {self.name!r}"
        if len(self.params["charges"]) != system.n:
            raise ValueError(
                f"{where}: there must be parameters for each of {system.n} atoms, got {len(self.params['charges'])}"
            )
        for name, least in (("charges", -np.inf), ("polarizabilities", 0.0), ("thole", np.nextafter(0.0, 1.0))):
            values = np.atleast_1d(self.params.get(name, 1.0))
            good = np.isfinite(values) & (values >= least)
            if not np.all(good):
                k = int(np.argmin(good))
                wanted = {"charges": "finite", "polarizabilities": "finite and >= 0", "thole": "finite and > 0"}[name]
                of = f" for {system.topology.describe(k)}" if len(values) == system.n else ""
                raise ValueError(f"{where}: {name} must be {wanted}, got {values[k]}{of}")
        for p in system.potentials:
            if p.moving_charges:
                raise ValueError(
                    f"{where}: charges must be fixed, got those of {type(p).__name__} {p.name!r}, which "
                    "would induce no dipoles"
                )
            if p is not self and np.any(p.params.get("charges", 0.0)):
                raise ValueError(
                    f"{where}: {p.name!r} must have no charges of its own (set them to 0, and let the "
                    "charges of this potential take their place)"
                )
        self.check_box(system.box)
        self.exclusions = system.exclusions

    def mesh(self, box: np.ndarray | None) -> tuple[int, int, int] | None:
        """The mesh in a box: the attribute `grid` if it is set, or one that follows from the tolerance."""
        if box is None:
            return None
        return self.grid or grid_size(ewald_parameters.grid_size(box, self.alpha, self.tolerance))

    def check_box(self, box: np.ndarray | None) -> None:
        """Raise BoxError if the method cannot be used with such a box."""
        where = f"induced dipoles {self.name!r}"
        if (box is not None) != (self.method == "pme"):
            raise BoxError(
                f"{where}: method {self.method!r} must be used "
                + (
                    "with a periodic box, got none (use 'none')"
                    if box is None
                    else "without a periodic box, got one (use 'pme')"
                )
            )
        if box is not None:
            boxes.check_cutoff(where, self.cutoff, box)

    def dipoles(self, positions: Any, box: Any = None) -> np.ndarray:
        """The induced dipoles at a configuration in e nm, float64 [n, 3], converged as in a run.

        Parameters
        ----------
        positions : (n, 3) array, nm
        box : (3, 3) array, optional

        Raises
        ------
        RuntimeError
            If no dipoles minimize the energy, or they do not converge.
        """
        n = len(self.params["charges"])
        system = System(Topology.of_particles(n), np.ones(n), box=box, positions=positions, exclusions=self.exclusions)
        system.add(copy.copy(self))
        engine = Engine(system, "double")
        engine.compute(energy=False)
        return engine.plans[self.name].dipoles.copy()  # type: ignore[attr-defined]

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        leaves = [*(params[key] for key in self.params), positions, *([] if box is None else [box])]
        return at_values(self._parts, *leaves)

    def _form(self, box):
        return self.alpha, self.mesh(box), "thole" in self.params

    def _parts(self, *leaves):
        form, data = self._terms(*leaves)
        self._check_stable(form, data, leaves)
        return [Part(_lowest(form), data)]

    def _terms(self, *leaves):
        """The functional form, and the pairs at values of parameters, positions and box."""
        count = len(self.params)
        positions, box = leaves[count], leaves[count + 1] if len(leaves) > count + 1 else None
        self.check_box(box)
        pairs = find_pairs(positions, box, None if box is None else self.cutoff, np.zeros((0, 2), np.int64))
        i, j = np.ascontiguousarray(pairs.T)
        first, second = np.sort(self.exclusions, axis=1).astype(np.int64).reshape(-1, 2).T
        seen = ~np.isin(i * len(positions) + j, first * len(positions) + second)
        both = (leaves[1][i] > 0) & (leaves[1][j] > 0)
        d = boxes.displacement(positions[i] - positions[j], box)
        r2 = np.sum(d * d, axis=1)
        near = np.flatnonzero(both & (r2 < CLOSEST**2))
        if len(near):
            raise RuntimeError(
                f"induced dipoles {self.name!r}: polarizable atoms must not be at the same place, got "
                f"atoms {i[near[0]]} and {j[near[0]]}"
            )
        acts = seen | (r2 > 0)  # excluded charges at one place do not
        i, j, seen, both = i[acts], j[acts], seen[acts], both[acts]
        return self._form(box), (i, j, seen.astype(np.float64), both, first, second)

    def _check_stable(self, form, data, leaves):
        """Raise RuntimeError if the energy has no minimum in the dipoles."""
        own = np.flatnonzero(leaves[1] > 0)
        if not len(own):
            return
        matrix = np.asarray(_equations(form, data, leaves)[2])[np.ix_(own, range(3), own, range(3))]
        if not np.all(np.isfinite(matrix)):
            return
        scale = np.repeat(np.sqrt(leaves[1][own] / COULOMB), 3)
        values, vectors = np.linalg.eigh(np.eye(3 * len(own)) - scale[:, None] * matrix.reshape(len(scale), -1) * scale)
        if values[0] <= 0:
            k = own[np.argmax(np.sum(vectors[:, 0].reshape(-1, 3) ** 2, axis=1))]
            raise RuntimeError(
                f"induced dipoles {self.name!r}: no dipoles minimize the energy, which falls without "
                f"limit with that of atom {k} (polarization catastrophe: atoms are too close for their "
                "polarizabilities)"
            )

    def plan(self, engine: Engine) -> Plan:
        """Conjugate gradients over the pairs and the mesh, then forces at the dipoles found."""
        from .induced_dipoles_plan import InducedDipolesPlan

        if engine.split is not None:
            raise ValueError(f"induced dipoles {self.name!r}: their energy cannot be split by a sampling method")
        return InducedDipolesPlan(self, engine)

    def param_gradients(self, engine: Engine) -> dict[str, np.ndarray]:
        """Derivatives of the energy by all parameters at what `engine` has last computed."""
        mu = engine.plans[self.name].dipoles  # type: ignore[attr-defined]
        leaves = [*self.params.values(), engine.positions.copy(), *([engine.box.copy()] if engine.periodic else [])]
        _, data = self._terms(*leaves)
        form, count = self._form(engine.first_box if engine.periodic else None), len(self.params)

        def energy(mu, *params):
            return _interaction(form, data, [*params, *leaves[count:]], mu)

        field, *slopes = core.grad(energy, tuple(range(count + 1)))(mu, *leaves[:count])
        # at the minimum, dipoles are polarizabilities times fields, for a polarizability of 0 too
        slopes[1] = slopes[1] - np.sum(np.asarray(field) ** 2, axis=1) / (2 * COULOMB)
        return {name: np.asarray(slope) for name, slope in zip(self.params, slopes, strict=True)}

    def __repr__(self):
        polarizable = int(np.sum(self.params["polarizabilities"] > 0))
        return f"<InducedDipoles {self.name!r}: {len(self.params['charges'])} atoms, {polarizable} polarizable>"


@cache
def _lowest(form):
    """The energy at the dipoles that minimize it, as a function of parameters, positions and box."""

    def energy(data, *leaves):
        fixed, field, matrix = _equations(form, data, leaves)
        return fixed - 0.5 * np.sum(_solved(field, matrix, leaves[1]) * field)

    return energy


def _equations(form, data, leaves):
    """The energy of the charges, their fields [n, 3], and those of dipoles [n, 3, n, 3] (kJ/mol, e and nm)."""
    (alpha, grid, damped), q = form, leaves[0]
    n, rows = len(q), 0.0
    for i, j, block in _blocks(form, data, leaves):
        values = COULOMB * np.concatenate([block, np.swapaxes(block, 1, 2)])
        rows = rows + core.index_add(np.zeros((n * n, 4, 4)), np.concatenate([i * n + j, j * n + i]), values)
    matrix = np.swapaxes(np.reshape(rows, (n, n, 4, 4)), 1, 2)
    if grid:
        positions, box = leaves[2 + damped :]
        whole = pme.multipole_matrix(positions, box, alpha, grid, ORDER)
        matrix = matrix + np.reshape(whole, (n, 4, n, 4))
    field = -np.sum(matrix[:, 1:, :, 0] * q, axis=-1)
    return 0.5 * np.sum(q * (matrix[:, 0, :, 0] @ q)), field, -matrix[:, 1:, :, 1:]


def _solved(field, matrix, polarizabilities):
    """Dipoles that are polarizabilities times fields."""
    scale = np.reshape(polarizabilities[:, None] * np.full(3, 1 / COULOMB), (-1,))
    n = 3 * len(field)
    product = scale[:, None] * np.reshape(matrix, (n, n))
    return np.reshape(np.linalg.solve(np.eye(n) - product, scale * np.reshape(field, (-1,))), (-1, 3))


def _interaction(form: Any, data: Any, leaves: Any, mu: Any) -> Any:
    """The energy of charges and dipoles `mu` (e nm) with each other, kJ/mol: all but that of polarization."""
    (alpha, grid, damped), q = form, leaves[0]
    sources, energy = np.concatenate([q[:, None], mu], axis=1), 0.0
    for i, j, block in _blocks(form, data, leaves):
        energy = energy + COULOMB * np.sum(sources[i][:, :, None] * block * sources[j][:, None, :])
    if grid:
        positions, box = leaves[2 + damped :]
        energy = energy + pme.dipole_reciprocal_energy(q, mu, positions, box, alpha, grid, ORDER)
    return energy


def _blocks(form, data, leaves):
    """Pairs of atoms, and what charge and dipole of one (rows) and of the other (columns) do to each other [m, 4, 4].

    The second of two parts takes excluded pairs of charges, and their fields, out of the reciprocal sum.
    """
    (alpha, grid, damped), (i, j, seen, both, first, second) = form, data
    polarizability, positions, box = leaves[1], leaves[2 + damped], leaves[3 + damped] if grid else None
    d = boxes.displacement(positions[j] - positions[i], box)
    r2 = np.sum(d * d, axis=-1)
    r = np.sqrt(r2)
    gauss = 2 * alpha / np.sqrt(np.pi) * np.exp(-(alpha**2) * r2)
    b0 = erfc(alpha * r) / r
    b1 = (b0 + gauss) / r2
    b2 = (3 * b1 + 2 * alpha**2 * gauss) / r2
    if damped:
        thole = leaves[2]
        factor = np.minimum(thole[i], thole[j]) if np.ndim(thole) else thole
        w = factor * r * r2 / np.sqrt(np.where(both, polarizability[i] * polarizability[j], 1.0))
        rest = np.where(both, np.exp(-w), 0.0) / (r * r2)
        b1, b2 = b1 - rest, b2 - 3 * (1 + w) * rest / r2
    tensor = b1[:, None, None] * np.eye(3) - (b2[:, None] * d)[:, :, None] * d[:, None, :]
    found = [(i, j, _block(seen * b0, (seen * b1)[:, None] * d, tensor))]
    if grid and len(first):
        d = boxes.displacement(positions[second] - positions[first], box)
        s0, s1 = smooth_coulomb(alpha, np.sum(d * d, axis=-1))
        found.append((first, second, _block(-s0, -s1[:, None] * d, np.zeros((len(first), 3, 3)))))
    return found


def _block(charges, mixed, dipoles):
    top = np.concatenate([charges[:, None, None], -mixed[:, None, :]], axis=2)
    return np.concatenate([top, np.concatenate([mixed[:, :, None], dipoles], axis=2)], axis=1)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    rng, n = np.random.default_rng(8), 8
    box = np.array([[1.1, 0, 0], [0.2, 1.1, 0], [-0.1, 0.2, 1.2]])
    cases = []
    for edges, thole in ((None, 0.39), (None, rng.uniform(0.3, 0.5, n)), (box, 0.39)):
        potential = InducedDipoles(
            rng.normal(scale=0.4, size=n),
            rng.uniform(3e-4, 1.2e-3, n),
            thole,
            cutoff=0.52,
            tolerance=1e-3,
            method="none" if edges is None else "pme",
            convergence=1e-13,
        )
        cases.append(([potential], {"n": n, "box": edges, "exclusions": [[0, 1], [1, 2], [0, 2], [5, 6]]}))
    return cases
