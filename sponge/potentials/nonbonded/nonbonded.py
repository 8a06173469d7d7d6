"""`Nonbonded`: Lennard-Jones and Coulomb between all pairs of atoms that are not excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import erfc

from triskele.core.extend import check

from ... import box as boxes
from ...engine.plan import Plan
from ...errors import BoxError
from ...pme import parameters as ewald_parameters
from ...pme.mesh import grid_size
from ...potential import Potential
from ...protocols import SystemLike
from ...quantities import number_in
from ...units import COULOMB
from ..at_values import at_values
from ..pairs.mixing import RULES, LJTable
from . import energy as nonbonded_energy

if TYPE_CHECKING:
    from ...engine.engine import Engine

__all__ = ["METHODS", "MODIFIERS", "OPTIONS", "Nonbonded"]

METHODS = ("pme", "ewald", "ljpme", "reaction_field", "cutoff", "none")
MODIFIERS = ("potential-switch", "force-switch", "potential-shift")
_PERIODIC_ONLY = ("pme", "ewald", "ljpme")
OPTIONS = (
    "method",
    "cutoff",
    "switch",
    "modifier",
    "tolerance",
    "dispersion_correction",
    "dielectric",
    "excluded_field",
    "alpha",
    "grid",
    "order",
    "lj_alpha",
    "lj_grid",
    "wave_vectors",
)


class Nonbonded(Potential):
    r"""Lennard-Jones and Coulomb interactions of all pairs but the system's exclusions.

    .. math:: E = \sum_{i<j} 4\epsilon_{ij}\left[(\sigma_{ij}/r)^{12} - (\sigma_{ij}/r)^6\right] + k_e q_i q_j / r

    Parameters
    ----------
    charges : (n,) array, e
        Partial charges.
    sigmas, epsilons : (n,) array, nm and kJ/mol, optional
        Left out when `mixing` is a table.
    method : {"pme", "ewald", "ljpme", "reaction_field", "cutoff", "none"}
        Treatment of interactions beyond the cut-off. "pme", "ewald": Coulomb is summed over all images, by a
        particle mesh or directly. "ljpme": dispersion too. "reaction_field": a dielectric continuum begins at the
        cut-off (Tironi et al. 1995). "cutoff": Coulomb is truncated. "none": every pair is computed, without
        periodicity.
    cutoff : float, nm
        Cut-off radius.
    switch : float, optional
        Distance (nm) from which Lennard-Jones is brought to zero at the cut-off.
    modifier : {"potential-switch", "force-switch", "potential-shift"}
        "potential-switch": by the factor 1 - 10 x^3 + 15 x^4 - 6 x^5, x = (r - switch) / (cutoff - switch).
        "force-switch": a polynomial of third degree is added to the forces, as by GROMACS's vdw-modifier of that name,
        which CHARMM force fields take there. "potential-shift": the energy at the cut-off is subtracted, and there is
        no `switch`. The correction of the dispersion covers what the last two subtract within the cut-off.
    tolerance : float
        Relative error of Ewald sums; determines `alpha` and the grid unless these are given.
    dispersion_correction : bool
        Add the mean dispersion energy beyond the cut-off (periodic systems; Allen and Tildesley 1987, section 2.8).
    mixing : "lorentz_berthelot", "geometric" or LJTable
    dielectric : float
        Dielectric constant of the continuum, for "reaction_field"; `numpy.inf` is a conductor.
    excluded_field : bool
        With "reaction_field", add the field's part of the energy for excluded pairs within the cut-off, and half of it
        for each atom with itself, as GROMACS does and OpenMM does not.
    alpha, grid, order : float, (int, int, int), int
        Splitting parameter (1/nm), particle mesh and order of its splines; alpha and grid follow from the tolerance.
    lj_alpha, lj_grid : float, (int, int, int)
        The same for the dispersion of "ljpme".
    wave_vectors : (int, int, int)
        "ewald" sums over wave vectors with abs(n) < wave_vectors.

    Attributes
    ----------
    params : dict
        "charges", "sigmas", "epsilons"; with a table "charges", "a", "b". An atom with epsilon 0 has no derivative by
        it.
    exclusions : (m, 2) int32
        Excluded pairs of the system, as stored by `check`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import Nonbonded
    >>> argon = Nonbonded([0.0, 0.0], [0.34, 0.34], [0.996, 0.996], method="none")
    >>> round(float(argon.energy(argon.params, np.array([[0.0, 0, 0], [0.34 * 2 ** (1 / 6), 0, 0]]), None)), 6)
    -0.996
    """

    conserves_momentum = True

    def __init__(
        self,
        charges: Any,
        sigmas: Any = None,
        epsilons: Any = None,
        method: str = "pme",
        cutoff: float = 0.9,
        switch: float | None = None,
        tolerance: float = 5e-4,
        dispersion_correction: bool = True,
        mixing: str | LJTable = "lorentz_berthelot",
        dielectric: float = 78.3,
        alpha: float | None = None,
        grid: Any = None,
        order: int = ewald_parameters.ORDER,
        lj_alpha: float | None = None,
        lj_grid: Any = None,
        wave_vectors: Any = None,
        modifier: str = "potential-switch",
        excluded_field: bool = False,
    ):
        self.name = "nonbonded"
        self.types = None
        self.params = {"charges": _vector("charges", charges, None)}
        n = len(self.params["charges"])
        if isinstance(mixing, LJTable):
            if sigmas is not None or epsilons is not None:
                raise ValueError("nonbonded: with a table as mixing, sigmas and epsilons must be left out")
            if len(mixing.types) != n:
                raise ValueError(
                    f"nonbonded: the table must have a type for each of {n} atoms, got {len(mixing.types)}"
                )
            self.mixing, self.types = "table", mixing.types
            self.params.update(a=mixing.a.copy(), b=mixing.b.copy())
        else:
            if mixing not in RULES:
                raise ValueError(f"nonbonded: mixing must be one of {', '.join(RULES)} or an LJTable, got {mixing!r}")
            self.mixing = mixing
            self.params.update(sigmas=_vector("sigmas", sigmas, n), epsilons=_vector("epsilons", epsilons, n))
        self.exclusions = np.empty((0, 2), np.int32)
        self.update(
            method=method,
            cutoff=cutoff,
            switch=switch,
            modifier=modifier,
            tolerance=tolerance,
            dispersion_correction=dispersion_correction,
            dielectric=dielectric,
            excluded_field=excluded_field,
            alpha=alpha,
            grid=grid,
            order=order,
            lj_alpha=lj_alpha,
            lj_grid=lj_grid,
            wave_vectors=wave_vectors,
        )

    @property
    def invariant(self) -> bool:
        """True if translating all atoms leaves the energy exactly unchanged, which a mesh does not."""
        return self.method not in ("pme", "ljpme")

    # -- options -------------------------------------------------------------------------------------------------------

    def update(self, **options: Any) -> Nonbonded:
        """Change options: any argument of the constructor from `method` on, except `mixing`.

        Raises
        ------
        TypeError, ValueError
            If an option is not known, or values do not fit each other.
        """
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"nonbonded: no option {name!r}{check.near(name, OPTIONS, listing=True)}")
        if not hasattr(self, "method"):
            new = options
        else:
            new = {name: getattr(self, name) for name in OPTIONS} | options
        for name in ("cutoff", "switch"):
            new[name] = number_in("nm", new[name], f"nonbonded: {name}")
        method, cutoff, switch = new["method"], new["cutoff"], new["switch"]
        if method not in METHODS:
            raise ValueError(f"nonbonded: method must be one of {', '.join(METHODS)}, got {method!r}")
        check.positive(cutoff, "nonbonded: cutoff", "nm")
        if switch is not None and not 0 < switch < cutoff:
            raise ValueError(f"nonbonded: switch must lie between 0 and the cut-off {cutoff} nm, got {switch}")
        if switch is not None and method == "ljpme":
            raise ValueError("nonbonded: 'ljpme' sums dispersion over all distances and takes no switch")
        modifier = check.choice(new["modifier"], MODIFIERS, "nonbonded: modifier")
        if method == "ljpme" and modifier != "potential-switch":
            raise ValueError(f"nonbonded: 'ljpme' takes no modifier, got {modifier!r}")
        if modifier != "potential-switch" and (switch is None) != (modifier == "potential-shift"):
            raise ValueError(
                f"nonbonded: modifier 'force-switch' needs a switch and 'potential-shift' takes none, got {modifier!r} "
                f"and switch {switch}"
            )
        if not 0 < new["tolerance"] < 0.5:
            raise ValueError(f"nonbonded: tolerance must lie between 0 and 0.5, got {new['tolerance']}")
        if not new["dielectric"] > 0:
            raise ValueError(f"nonbonded: dielectric must be positive, got {new['dielectric']}")
        if new["excluded_field"] and method != "reaction_field":
            raise ValueError(f"nonbonded: excluded_field goes with method 'reaction_field', got {method!r}")
        check.choice(new["order"], ewald_parameters.ORDERS, "nonbonded: order")
        if method == "ljpme" and self.mixing == "table":
            raise ValueError("nonbonded: 'ljpme' needs sigmas and epsilons of atoms, not a table")
        for name in ("alpha", "lj_alpha"):
            if new[name] is not None:
                check.positive(new[name], f"nonbonded: {name}", "1/nm")
        for name in ("grid", "lj_grid", "wave_vectors"):
            if new[name] is not None:
                new[name] = tuple(int(k) for k in new[name])
                if len(new[name]) != 3 or min(new[name]) < (1 if name == "wave_vectors" else new["order"]):
                    raise ValueError(
                        f"nonbonded: {name} must be three numbers, for a grid at least the order of the "
                        f"splines, got {new[name]}"
                    )
        for name in ("cutoff", "switch", "tolerance", "dielectric", "alpha", "lj_alpha"):
            new[name] = None if new[name] is None else float(new[name])
        for name, value in new.items():
            setattr(self, name, value)
        return self

    @property
    def n(self) -> int:
        """Number of atoms."""
        return len(self.params["charges"])

    def check(self, system: SystemLike) -> None:
        """Take over the system's exclusions; raise if sizes, box and cut-off do not fit."""
        if self.n != system.n:
            raise ValueError(f"nonbonded: there must be parameters for each of {system.n} atoms, got {self.n}")
        for name, values in self.params.items():
            if not np.all(np.isfinite(values)):
                bad = int(np.argmin(np.isfinite(values).reshape(len(values), -1).all(1)))
                of = system.topology.describe(bad) if len(values) == system.n else f"type {bad}"
                raise ValueError(f"nonbonded: {name} must be finite, got {values[bad]} for {of}")
        if "epsilons" in self.params and np.any(self.params["epsilons"] < 0):
            bad = int(np.argmin(self.params["epsilons"]))
            raise ValueError(
                f"nonbonded: epsilons must be >= 0, got {self.params['epsilons'][bad]} for "
                f"{system.topology.describe(bad)}"
            )
        self.update()  # options that were set as attributes are checked like others
        self.check_box(system.box)
        self.exclusions = system.exclusions

    def check_box(self, box: np.ndarray | None) -> None:
        """Raise BoxError if the method cannot be used with such a box."""
        if box is None:
            if self.method in _PERIODIC_ONLY:
                raise BoxError(
                    f"nonbonded: method {self.method!r} needs a periodic box, got none (use 'none', "
                    f"'cutoff' or 'reaction_field')"
                )
        elif self.method != "none":
            boxes.check_cutoff("nonbonded", self.cutoff, box)

    def form(self, box: np.ndarray | None) -> nonbonded_energy.Form:
        """The functional form in numbers, for a box: what of the options is derived from others is filled in."""
        form: dict[str, Any] = {
            "method": self.method,
            "mixing": self.mixing,
            "order": self.order,
            "images": self.images,
            "cutoff": None if self.method == "none" else self.cutoff,
            "switch": None if self.method == "none" else self.switch,
            "modifier": "potential-switch" if self.method == "none" else self.modifier,
            "dispersion": bool(self.dispersion_correction) and box is not None and self.method not in ("none", "ljpme"),
        }
        if self.method == "reaction_field":
            k_rf, c_rf = 0.5, 1.5  # of a conductor
            if self.dielectric != np.inf:
                k_rf = (self.dielectric - 1) / (2 * self.dielectric + 1)
                c_rf = 3 * self.dielectric / (2 * self.dielectric + 1)
            form |= {"k_rf": k_rf / self.cutoff**3, "c_rf": c_rf / self.cutoff, "excluded_field": self.excluded_field}
        if self.method in _PERIODIC_ONLY:
            alpha = form["alpha"] = self.alpha or ewald_parameters.splitting(self.cutoff, self.tolerance)
            if self.method == "ewald":
                form["wave_vectors"] = self.wave_vectors or ewald_parameters.wave_vectors(box, alpha, self.tolerance)
            else:
                form["grid"] = self.grid or grid_size(ewald_parameters.grid_size(box, alpha, self.tolerance))
            if self.method == "ljpme":
                form["lj_alpha"] = self.lj_alpha or ewald_parameters.splitting(self.cutoff, self.tolerance)
                form["lj_grid"] = self.lj_grid or grid_size(
                    ewald_parameters.grid_size(box, form["lj_alpha"], self.tolerance, dispersion=True)
                )
        return nonbonded_energy.Form(**form)

    def fix_mesh(self, box: np.ndarray) -> None:
        """Make options of the grids and numbers of wave vectors that follow for `box`, so that another box changes none
        of them.
        """
        form = self.form(box)
        self.grid, self.lj_grid, self.wave_vectors = form.grid, form.lj_grid, form.wave_vectors

    # -- energy --------------------------------------------------------------------------------------------------------

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        """Energy in kJ/mol, by float64 sums over the pairs within the cut-off; every order of derivative exists.

        The pairs are found from the values of the positions, for which a derivative stops being a graph and is worked
        out when values are there; what the box decides about grids is taken from its values too.
        """
        names = tuple(self.params)
        periodic = box is not None
        leaves = [params[k] for k in names] + [positions] + ([box] if periodic else [])
        return at_values(_Terms(self, names, periodic), *leaves)

    @property
    def pair_scope(self) -> Literal["listed", "all"]:  # type: ignore[override]
        """Return "all" without a cut-off, "listed" with a neighbor list."""
        return "all" if self.method == "none" else "listed"

    def at_cutoff(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
        """The energies that a neighbor list misses when its buffer is too thin.

        Returns
        -------
        charges, sigmas, epsilons : (n,) float64
        slope, curvature : float
            First and second derivative, at the cut-off, of the Coulomb energy of two unit charges.
        """
        params, r = self.params, self.cutoff
        if self.mixing == "table":  # each type as if it met only itself
            a, b = np.diag(params["a"])[self.types], np.diag(params["b"])[self.types]
            well = (a > 0) & (b > 0)
            sigmas = np.where(well, np.divide(a, b, out=np.ones_like(a), where=well) ** (1 / 6), 0.0)
            epsilons = np.divide(b * b, 4 * a, out=np.zeros_like(a), where=well)
        else:
            sigmas, epsilons = params["sigmas"], params["epsilons"]
        if self.method in _PERIODIC_ONLY:
            a = self.alpha or ewald_parameters.splitting(r, self.tolerance)
            gauss = 2 * a / np.sqrt(np.pi) * np.exp(-((a * r) ** 2))
            slope = erfc(a * r) / r**2 + gauss / r
            curvature = 2 * erfc(a * r) / r**3 + gauss * (2 / r**2 + 2 * a * a)
        elif self.method == "reaction_field":
            slope, curvature = 3 / r**2 / (2 * self.dielectric + 1), 3 / r**3
        else:
            slope, curvature = 1 / r**2, 2 / r**3
        return params["charges"], sigmas, epsilons, -COULOMB * slope, COULOMB * curvature

    def plan(self, engine: Engine) -> Plan:
        """Pair kernels over the neighbor list, the correction of excluded pairs, the reciprocal sum, the tail."""
        from .plan import plan

        return plan(self, engine)

    def param_gradients(self, engine: Engine) -> dict[str, np.ndarray]:
        """Derivatives of the energy by all parameters at what `engine` has last computed, from kernels."""
        from .gradients import gradients

        return gradients(self, engine)

    def hessian_product(self, params: dict[str, Any], positions: np.ndarray, box: Any, v: np.ndarray) -> np.ndarray:
        """The Hessian of `energy` by positions times `v` (n, 3), from kernels."""
        from .product import hessian_product

        return hessian_product(self, params, positions, box, v)

    def parameter_product(
        self, params: dict[str, Any], positions: np.ndarray, box: Any, moves: dict[str, Any], v: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The Hessian of `energy` by parameters and positions times `moves` and `v`, from kernels."""
        from .product import parameter_product

        return parameter_product(self, params, positions, box, moves, v)


class _Terms:
    """The energy of a Nonbonded at given values, as a list of functions that add up to it."""

    def __init__(self, potential, names, periodic):
        self.potential, self.names, self.periodic = potential, names, periodic
        self._last: tuple[Any, Any, Any] = (None, None, None)  # derivatives ask again, at the same values

    def __call__(self, *leaves):
        positions, box = (leaves[-2], leaves[-1]) if self.periodic else (leaves[-1], None)
        if not (np.array_equal(self._last[0], positions) and np.array_equal(self._last[1], box)):
            self.potential.check_box(box)
            parts = nonbonded_energy.terms(
                self.potential.form(box),
                self.names,
                self.periodic,
                self.potential.types,
                self.potential.exclusions,
                positions,
                box,
            )
            self._last = positions.copy(), None if box is None else box.copy(), parts
        return self._last[2]


def _vector(name, values, n):
    if values is None:
        raise ValueError(f"nonbonded: {name} must be given (or a table as mixing)")
    values = np.array(values, np.float64)
    if values.ndim != 1 or n is not None and len(values) != n:
        raise ValueError(f"nonbonded: {name} must have shape [{'n' if n is None else n}], got {values.shape}")
    return values


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    rng = np.random.default_rng(4)
    n, leaning = 64, np.array([[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]])
    charges, sigmas, epsilons = rng.normal(size=n), rng.uniform(0.2, 0.3, n), rng.uniform(0.1, 1, n)
    lattice = np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3) / 4
    cases = []
    for method, box in (("none", None), ("reaction_field", leaning), ("pme", leaning)):
        potential = Nonbonded(
            charges - charges.mean(), sigmas, epsilons, method=method, cutoff=0.7, switch=0.6, tolerance=1e-6
        )
        cases.append(
            (
                [potential],
                {
                    "n": n,
                    "box": box,
                    "exclusions": [[0, 1], [1, 2], [0, 2], [5, 7]],
                    "positions": lattice @ leaning + rng.normal(scale=0.02, size=(n, 3)),
                },
            )
        )
    return cases
