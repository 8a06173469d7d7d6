"""`ChargeEquilibration`: charges that minimize the electrostatic energy at every configuration."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from triskele import core
from triskele.core.extend import check

from ... import box as boxes
from ... import pme
from ...errors import BoxError
from ...neighbors.pairs import find_pairs
from ...pme import parameters as ewald_parameters
from ...pme.energy import smooth_coulomb
from ...pme.mesh import grid_size
from ...potential import Potential
from ...topology import Topology, as_indices, as_vectors
from ...units import COULOMB
from ..at_values import Part, at_values
from ..bonded.terms import of_each

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...engine.plan import Plan
    from ...system import System

__all__ = ["ChargeEquilibration"]

_ORDER = 5  # of the splines of the mesh
_WIDEST = 9.0  # widths that a cut-off must hold: with two charges of this width, erfc(4.5) = 2e-10 is left out


class ChargeEquilibration(Potential):
    r"""Electrostatics of charges that minimize the energy at every configuration.

    .. math:: E = \min_q \sum_i \Big(\chi_i q_i + \tfrac12 \eta_i q_i^2 + \tfrac{k_e}{2 \sqrt\pi \sigma_i} q_i^2\Big)
              + \sum_{i<j} k_e q_i q_j \frac{\operatorname{erf}(r_{ij} / \sqrt{2 (\sigma_i^2 + \sigma_j^2)})}{r_{ij}}

    with a fixed sum of charges in each group of atoms [1]_, between charges with Gaussian densities [2]_: near charges
    are screened, so that the energy has one minimum for hardnesses that are not negative. All pairs count, in periodic
    boxes with all their images (particle mesh Ewald) and, for a net charge, with a uniform background that makes the
    box neutral. Forces are exact: the energy does not change to first order with the charges.

    Charges are found at every step by conjugate gradients, preconditioned with inverses of the couplings of near atoms.
    Directions are computed in single precision; the derivatives that `convergence` is about, energies and forces in
    double precision. A step starts from an extrapolation of the charges of up to five steps before it, a run, a
    checkpoint and `Engine.compute` from equal charges. Lennard-Jones energies are those of a `Nonbonded` whose charges
    are all 0. For second derivatives, the energy of NumPy code solves dense equations, which suits small systems.

    Parameters
    ----------
    electronegativities : (n,) array, kJ/mol/e
    hardnesses : (n,) array, kJ/mol/e^2
        Not negative. Together with k_e / (sqrt(pi) sigma), the energy of a Gaussian charge with itself, these are the
        idempotentials J of [1]_.
    widths : float or (n,) array, nm
        Standard deviations of the charge densities.
    groups : (n,) int, optional
        Group of each atom, counted from 0. Defaults to one group. An atom that is a group by itself has a fixed charge.
    totals : float or (groups,) array, e
        Sum of the charges of each group.
    cutoff : float, nm
        Cut-off radius of the direct sum in periodic boxes.
    tolerance : float
        Relative error of the Ewald sum, which determines its splitting parameter and the mesh.
    convergence : float, kJ/mol/e
        Largest difference, in a group, of the derivatives of the energy by its charges from their common value.

    Attributes
    ----------
    params : dict
        "electronegativities" and "hardnesses".

    Raises
    ------
    ValueError
        If sizes do not fit, a hardness is negative, widths are too large for the cut-off, or a potential of the system
        has charges of its own.
    RuntimeError
        In a run, if the charges do not converge: step, atom and residual are named; or if a cluster is wider than 1e5
        nm.

    References
    ----------
    .. [1] Rappe, Goddard, "Charge equilibration for molecular dynamics simulations", J. Phys. Chem. 95 (1991) 3358,
       equations 5 to 11. doi:10.1021/j100161a070
    .. [2] Ko, Finkler, Goedecker, Behler, "A fourth-generation high-dimensional neural network potential with accurate
       electrostatics including non-local charge transfer", Nat. Commun. 12 (2021) 398, equations 3 to 6.
       doi:10.1038/s41467-020-20427-2

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [23.0, 35.5], positions=[[0, 0, 0], [0, 0, 0.236]])
    >>> charges = system.add(sponge.ChargeEquilibration([274.0, 816.0], [884.0, 939.0], widths=0.06))
    >>> charges.charges(system.positions).round(2)
    array([ 0.17, -0.17])
    """

    conserves_momentum = True
    moving_charges = True

    def __init__(
        self,
        electronegativities: Any,
        hardnesses: Any,
        widths: Any,
        *,
        groups: Any = None,
        totals: Any = 0.0,
        cutoff: float = 0.9,
        tolerance: float = 1e-5,
        convergence: float = 1e-5,
    ):
        where, self.name = "charge equilibration", "charge_equilibration"
        chi, eta = (np.array(v, np.float64) for v in (electronegativities, hardnesses))
        if chi.ndim != 1 or eta.shape != chi.shape or not len(chi):
            raise ValueError(
                f"{where}: electronegativities and hardnesses must be given for each atom, got shapes "
                f"{chi.shape} and {eta.shape}"
            )
        self.widths = of_each(f"{where}: widths", widths, len(chi), "atoms")
        self.groups = (
            np.zeros(len(chi), np.int64) if groups is None else as_indices(groups, f"{where}: groups").astype(np.int64)
        )
        if self.groups.shape != chi.shape or set(self.groups.tolist()) != set(range(self.groups.max() + 1)):
            raise ValueError(
                f"{where}: groups must number the groups of all {len(chi)} atoms from 0 on, got "
                f"{self.groups.tolist()[:10]}"
            )
        self.totals = of_each(f"{where}: totals", totals, self.groups.max() + 1, "groups")
        for name, values in (("electronegativities", chi), ("hardnesses", eta), ("totals", self.totals)):
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{where}: {name} must be finite, got {values[np.argmin(np.isfinite(values))]}")
        self.cutoff = check.positive(cutoff, f"{where}: cutoff", "nm")
        self.tolerance = check.positive(tolerance, f"{where}: tolerance")
        if self.tolerance >= 0.5:
            raise ValueError(f"{where}: tolerance must lie between 0 and 0.5, got {tolerance}")
        self.convergence = check.positive(convergence, f"{where}: convergence", "kJ/mol/e")
        if not (np.all(self.widths > 0) and _WIDEST * self.widths.max() <= self.cutoff):
            raise ValueError(
                f"{where}: widths must be positive and at most a ninth of the cut-off of {self.cutoff} "
                f"nm, got {self.widths.min()} to {self.widths.max()} nm"
            )
        self.params = {"electronegativities": chi, "hardnesses": eta}
        self.grid: tuple[int, int, int] | None = None
        self.invariant = True

    @property
    def alpha(self) -> float:
        """Splitting parameter of the Ewald sum in periodic boxes, in 1/nm."""
        return float(ewald_parameters.splitting(self.cutoff, self.tolerance))

    @property
    def pair_scope(self) -> Literal["listed", "all"]:  # type: ignore[override]
        """Return "listed" in periodic boxes, with a cut-off of the direct sum; "all" in clusters."""
        return "all" if self.invariant else "listed"

    def check(self, system: System) -> None:
        where, chi = f"charge equilibration {self.name!r}", self.params["electronegativities"]
        if len(chi) != system.n:
            raise ValueError(f"{where}: there must be parameters for each of {system.n} atoms, got {len(chi)}")
        for name, least in (("electronegativities", -np.inf), ("hardnesses", 0.0)):
            good = np.isfinite(self.params[name]) & (self.params[name] >= least)
            if not np.all(good):
                k = int(np.argmin(good))
                raise ValueError(
                    f"{where}: {name} must be {'finite and >= 0' if name == 'hardnesses' else 'finite'}, "
                    f"got {self.params[name][k]} for {system.topology.describe(k)}"
                )
        for p in system.potentials:
            if p is not self and (
                p.moving_charges or any(np.any(p.params.get(key, 0.0)) for key in ("charges", "charge_product"))
            ):
                raise ValueError(
                    f"{where}: {p.name!r} must have no charges of its own (set them to 0, and let the "
                    "charges of this potential take their place)"
                )
        self.invariant = system.box is None
        if system.box is not None:
            self.check_box(system.box)

    def check_box(self, box: np.ndarray | None) -> None:
        """Raise BoxError if a periodic system gets no box, or a box smaller than twice the cut-off."""
        where = f"charge equilibration {self.name!r}"
        if box is not None:
            boxes.check_cutoff(where, self.cutoff, box)
        elif not self.invariant:
            raise BoxError(f"{where}: the box must be given, as that of the system, got none")

    def charges(self, positions: Any, box: Any = None) -> np.ndarray:
        """The charges at a configuration in e, float64 [n], by dense equations.

        Parameters
        ----------
        positions : (n, 3) array, nm
        box : float, (3,) or (3, 3) array, nm, optional
            Must be given if the system is periodic.

        Raises
        ------
        ValueError
            If `positions` has a wrong shape or a value that is not finite.
        BoxError
            If the box is missing, superfluous, or too small for the cut-off.
        """
        topology = Topology.of_particles(len(self.groups))
        leaves = [*self.params.values(), as_vectors(positions, topology, f"{self.name}: positions")]
        box = boxes.given_box(box, not self.invariant, f"charge equilibration {self.name!r}")
        leaves += [] if box is None else [box]
        (part,) = self._parts(*leaves)
        linear, matrix = _equations(self._form(box), part.data, leaves)
        return np.asarray(_solved(linear, matrix, part.data))

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        leaves = [*(params[key] for key in self.params), positions, *([] if box is None else [box])]
        return at_values(self._parts, *leaves)

    def mesh(self, box: np.ndarray) -> tuple[int, int, int]:
        """The mesh in a box: the attribute `grid` if it is set, or one that follows from the tolerance."""
        return self.grid or grid_size(ewald_parameters.grid_size(box, self.alpha, self.tolerance))

    def _form(self, box):
        return (0.0, None) if box is None else (self.alpha, self.mesh(box))

    def _parts(self, *leaves):
        positions, box = leaves[2], leaves[3] if len(leaves) > 3 else None
        self.check_box(box)
        pairs = find_pairs(positions, box, self.cutoff if box is not None else None, np.zeros((0, 2), np.int64))
        i, j = np.ascontiguousarray(pairs.T)
        gamma = 1 / np.sqrt(2 * (self.widths[i] ** 2 + self.widths[j] ** 2))
        own = COULOMB / (np.sqrt(np.pi) * self.widths)
        member = (self.groups == np.arange(len(self.totals))[:, None]).astype(np.float64)
        squares = self.widths**2
        return [Part(_minimum(self._form(box)), (i, j, gamma, own, squares, member, self.totals))]

    def background(self, volume: float) -> np.ndarray:
        """Return the shift of each electronegativity by the uniform background that neutralizes the box.

        Point charges need no such shift. Gaussian charges do: with it, their energy is the sum over all wave vectors
        except 0.
        """
        return _background(self.widths**2, self.totals, volume)

    def plan(self, engine: Engine) -> Plan:
        """Conjugate gradients over pairs and mesh, and forces at the charges found."""
        from .equilibration_plan import EquilibrationPlan

        if engine.split is not None:
            raise ValueError(f"charge equilibration {self.name!r}: its energy cannot be split by a sampling method")
        return EquilibrationPlan(self, engine)

    def param_gradients(self, engine: Engine) -> dict[str, np.ndarray]:
        """Derivatives of the energy by all parameters at what `engine` has last computed."""
        q = engine.plans[self.name].charges  # type: ignore[attr-defined]
        return {"electronegativities": q.copy(), "hardnesses": 0.5 * q * q}

    def __repr__(self):
        return f"<ChargeEquilibration {self.name!r}: {len(self.groups)} atoms, {len(self.totals)} groups>"


@cache
def _minimum(form):
    """The lowest energy as a function of parameters, positions and box."""

    def energy(data, *leaves):
        linear, matrix = _equations(form, data, leaves)
        q = _solved(linear, matrix, data)
        return np.sum(q * (linear + 0.5 * (matrix @ q)))

    return energy


def _equations(form, data, leaves):
    """Derivatives of the energy by the charges at charges 0, and the matrix of its second derivatives."""
    (i, j, gamma, own, squares, _, totals), (alpha, grid) = data, form
    chi, eta, positions = leaves[:3]
    box = leaves[3] if grid else None
    d = boxes.displacement(positions[i] - positions[j], box)
    r2 = np.sum(d * d, axis=-1)
    pair = COULOMB * (smooth_coulomb(gamma, r2)[0] - smooth_coulomb(alpha, r2)[0])

    def energy(q):
        e = np.sum(pair * q[i] * q[j]) + 0.5 * np.sum((eta + own) * q * q)
        return e + pme.reciprocal_energy(q, positions, box, alpha, grid, _ORDER) if grid else e

    linear = chi + _background(squares, totals, boxes.volume(box)) if grid else chi
    return linear, core.hessian(energy)(np.zeros(len(own)))


def _background(squares, totals, volume):
    return 2 * np.pi * COULOMB * np.sum(totals) * squares / volume


def _solved(linear, matrix, data):
    """Charges at which the derivatives by the charges of a group are all the same, with the groups' totals."""
    member, totals = data[5:]
    border = np.concatenate(
        [
            np.concatenate([matrix, member.T], axis=1),
            np.concatenate([member, np.zeros((len(member), len(member)))], axis=1),
        ]
    )
    return np.linalg.solve(border, np.concatenate([-linear, totals]))[: len(linear)]


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    rng, n = np.random.default_rng(8), 12
    box = np.array([[1.1, 0, 0], [0.2, 1.1, 0], [-0.1, 0.2, 1.2]])
    cases = []
    for edges in (None, box):
        potential = ChargeEquilibration(
            rng.normal(scale=300, size=n),
            rng.uniform(600, 900, n),
            rng.uniform(0.04, 0.055, n),
            groups=np.arange(n) // 6,
            totals=[0.5, -0.25],
            cutoff=0.52,
            tolerance=1e-3,
            convergence=1e-9,
        )
        cases.append(([potential], {"n": n, "box": edges}))
    return cases
