"""`GB`: generalized Born implicit solvent with a surface-area term."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import check

from ...box import check_cutoff, displacement
from ...engine.plan import Plan
from ...potential import Potential
from ...protocols import SystemLike
from ...units import COULOMB
from .tables import MODELS, NECK_CUTOFF, Model, neck_tables

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...system import System

__all__ = ["GB", "debye_kappa"]

# 5.4 cal/mol/Angstrom^2 times 4 pi, the ACE approximation to the surface of M. Schaefer and M. Karplus,
# J. Phys. Chem. 100, 1578 (1996), with the constants of OpenMM and Tinker.
SURFACE_TENSION = 28.3919551  # kJ/mol/nm^2
PROBE = 0.14  # nm, radius of water


class GB(Potential):
    r"""Generalized Born solvent: polarization energy of the charges in a continuum, and a term for the cavity's
    surface.

    .. math:: E = -k_e \sum_{i \le j} w_{ij} \left(\frac{1}{\epsilon_{in}}
              - \frac{e^{-\kappa f_{ij}}}{\epsilon_{out}}\right) \frac{q_i q_j}{f_{ij}}
              + \gamma_s \sum_i (R_i + 0.14)^2 (R_i/B_i)^6, \qquad
              f_{ij}^2 = r_{ij}^2 + B_i B_j e^{-r_{ij}^2 / 4 B_i B_j}

    with w = 1/2 for i = j and 1 otherwise, and Born radii B from pairwise integrals (W. C. Still et al., J. Am. Chem.
    Soc. 112, 6127 (1990)). Excluded pairs are computed like others. Without a cut-off all pairs are, and there is no
    periodicity. With one, pairs at longer distances count neither in the energy nor in the radii, and 1/f of a pair is
    replaced by 1/f - 1/cutoff, as in OpenMM's ``GBSAOBCForce`` and AMBER force fields.

    Parameters
    ----------
    charges : (n,) array, e
        Partial charges.
    radii : (n,) array
        Intrinsic radii in nm.
    scales : (n,) array
        Screening factors of the radii.
    model : {"hct", "obc1", "obc2", "gbn", "gbn2"}
        AMBER's igb 1, 2, 5, 7, 8; sources in `gb_tables`.
    solvent_dielectric, solute_dielectric : float
    kappa : float
        Inverse Debye length in 1/nm for salt, see `debye_kappa`.
    surface_tension : float, kJ/mol/nm^2
        0 leaves the surface term out.
    alpha, beta, gamma : (n,) array or float, optional
        Rescaling of the Born radii (all models but HCT). Defaults to those of the model.
    cutoff : float, nm, optional
        Cut-off radius, for nearest images in a periodic box. Defaults to none.

    Attributes
    ----------
    params : dict
        "charges", "radii", "scales", and but for HCT "alpha", "beta", "gamma".

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import GB
    >>> ion = GB([1.0], [0.2], [0.8], model="hct", surface_tension=0.0)  # Born's formula
    >>> round(float(ion.energy(ion.params, np.zeros((1, 3)), None)), 3)
    -359.072
    """

    conserves_momentum = True
    together = slice(None)

    def __init__(
        self,
        charges: Any,
        radii: Any,
        scales: Any,
        model: str = "obc2",
        solvent_dielectric: float = 78.5,
        solute_dielectric: float = 1.0,
        kappa: float = 0.0,
        surface_tension: float = SURFACE_TENSION,
        alpha: Any = None,
        beta: Any = None,
        gamma: Any = None,
        cutoff: float | None = None,
    ):
        check.choice(model, MODELS, "GB: model")
        for name, value in (("solvent_dielectric", solvent_dielectric), ("solute_dielectric", solute_dielectric)):
            if not value > 0:
                raise ValueError(f"GB: {name} must be positive, got {value}")
        check.number(kappa, "GB: kappa", 0, unit="1/nm")
        check.number(surface_tension, "GB: surface_tension", 0, unit="kJ/mol/nm^2")
        self.name, self.model = "gb", model
        self.cutoff = None if cutoff is None else check.positive(cutoff, "GB: cutoff", "nm")
        self.solvent_dielectric, self.solute_dielectric = float(solvent_dielectric), float(solute_dielectric)
        self.kappa, self.surface_tension = float(kappa), float(surface_tension)
        n = np.size(charges)
        self.params = {
            "charges": _vector("charges", charges, n),
            "radii": _vector("radii", radii, n),
            "scales": _vector("scales", scales, n),
        }
        given = {"alpha": alpha, "beta": beta, "gamma": gamma}
        if self.constants.rescaling is not None:
            for (name, values), default in zip(given.items(), self.constants.rescaling):
                self.params[name] = _vector(name, np.broadcast_to(default if values is None else values, n), n)
        elif any(values is not None for values in given.values()):
            raise ValueError("GB: model 'hct' does not rescale its radii and takes no alpha, beta, gamma")
        r = self.params["radii"]
        lowest = self.constants.offset
        if np.any(~(r > lowest)):
            raise ValueError(
                f"GB: radii must be above the offset {lowest} nm, got {r[~(r > lowest)][0]} for atom "
                f"{int(np.argmin(r > lowest))}"
            )
        if self.constants.neck and np.any((r < 0.1) | (r > 0.2)):
            bad = int(np.argmax((r < 0.1) | (r > 0.2)))
            raise ValueError(
                f"GB: with model {model!r} radii must lie between 0.1 and 0.2 nm, got {r[bad]} for atom {bad}"
            )

    @property
    def constants(self) -> Model:
        """Constants of the model."""
        return MODELS[self.model]

    def check(self, system: SystemLike) -> None:
        """Raise if the system has another number of atoms, or a box that does not go with the cut-off."""
        if system.box is not None:
            if self.cutoff is None:
                raise ValueError(
                    "GB: an implicit solvent without cut-off has no box, got a periodic system (set "
                    "cutoff, or system.box = None and method='none')"
                )
            check_cutoff("GB", self.cutoff, system.box)
        n = len(self.params["charges"])
        if n != system.n:
            raise ValueError(f"GB: there must be parameters for each of {system.n} atoms, got {n}")

    # -- energy --------------------------------------------------------------------------------------------------------

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        """Energy in kJ/mol."""
        n = len(self.params["charges"])
        d = displacement(positions[:, None, :] - positions[None, :, :], box)
        other = ~np.eye(n, dtype=bool)
        r2 = np.where(other, np.sum(d * d, axis=-1), 1.0)
        r = np.sqrt(r2)
        counted = other if self.cutoff is None else other & (r < self.cutoff)
        born = self.born_radii(params, r, counted)
        q = params["charges"]
        product = born[:, None] * born[None, :]
        r2 = np.where(other, r2, 0.0)  # the diagonal is an atom with itself: f = B
        f = np.sqrt(r2 + product * np.exp(-r2 / (4 * product)))
        screened = 1 / self.solute_dielectric - np.exp(-self.kappa * f) / self.solvent_dielectric
        inverse = 1 / f
        if self.cutoff is not None:
            inverse = np.where(counted, inverse - 1 / self.cutoff, np.where(other, 0.0, inverse))
        polar = -0.5 * COULOMB * np.sum(q[:, None] * q[None, :] * screened * inverse)
        radii = params["radii"]
        return polar + self.surface_tension * np.sum((radii + PROBE) ** 2 * (radii / born) ** 6)

    def born_radii(self, params: dict[str, Any], r: Any, counted: np.ndarray) -> Any:
        """Effective Born radii (nm) from pairs at distances `r` (n, n), of which `counted` are within the cut-off."""
        radii = params["radii"]
        rho = radii - self.constants.offset
        s = params["scales"] * rho
        integral = descreening(r, rho[:, None], s[None, :])
        if self.constants.neck:
            integral = integral + self.constants.neck * neck_integral(r, radii)
        return rescaled(self.constants, params, np.sum(np.where(counted, integral, 0.0), axis=1))

    def plan(self, engine: Engine) -> Plan:
        """Kernels in stages: integrals and Born radii, pair energies, chain rule per atom, forces through the radii."""
        from .plan import plan

        return plan(self, engine)

    def param_gradients(self, engine: Engine) -> dict[str, np.ndarray]:
        """Derivatives of the energy by all parameters at what `engine` has last computed, from kernels."""
        from .derivatives import gradients

        return gradients(self, engine)

    def hessian_product(self, params: dict[str, Any], positions: np.ndarray, box: Any, v: np.ndarray) -> np.ndarray:
        """The Hessian of `energy` by positions times `v` (n, 3), from kernels."""
        still = {name: np.zeros_like(values) for name, values in params.items()}
        return self.parameter_product(params, positions, box, still, v)[1]

    def parameter_product(
        self, params: dict[str, Any], positions: np.ndarray, box: Any, moves: dict[str, Any], v: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The Hessian of `energy` by parameters and positions times `moves` and `v`, from kernels."""
        from .derivatives import parameter_product

        return parameter_product(self, params, positions, box, moves, v)


def add_solvent(system: System, **parameters: Any) -> None:
    """Add a `GB` with the cut-off of the system's `Nonbonded`, if it has one, and with its charges, unless given."""
    pairs = system.nonbonded
    cutoff = None if pairs.method == "none" else pairs.cutoff
    system.add(GB(**{"charges": pairs.params["charges"], "cutoff": cutoff} | parameters))


def pair_options(method: str, options: dict[str, Any], where: str) -> dict[str, Any]:
    """Return options of `Nonbonded` next to a `GB`: a reaction field is that of vacuum, in which the charges are.

    Raise ValueError for methods other than "none" and "reaction_field".
    """
    if method not in ("none", "reaction_field"):
        raise ValueError(
            f"{where}: implicit_solvent goes with method='none' or 'reaction_field', got {method!r} (it has no box)"
        )
    return {"dielectric": 1.0} | options if method == "reaction_field" else options


def rescaled(model: Model, params: dict[str, Any], integrals: Any) -> Any:
    """Effective Born radii (nm) from the sums of integrals over all other atoms [n]."""
    rho = params["radii"] - model.offset
    psi = rho * integrals
    if model.rescaling is None:
        return rho / (1 - psi)
    alpha, beta, gamma = params["alpha"], params["beta"], params["gamma"]
    return 1 / (1 / rho - np.tanh(psi * (alpha - psi * (beta - psi * gamma))) / params["radii"])


def descreening(r: Any, rho: Any, s: Any) -> Any:
    """Integral of r^-4 / (4 pi) over a sphere of radius `s` at distance `r`, outside of one of radius `rho` at the
    origin.

    Hawkins, Cramer and Truhlar 1996, equations 9 to 13; an atom within the other sphere as in Onufriev et al. 2004.
    """
    upper = r + s
    inner = np.abs(r - s)
    lower = np.maximum(rho, inner)
    integral = 0.5 * (
        1 / lower - 1 / upper + 0.25 * (r - s * s / r) * (upper**-2 - lower**-2) + 0.5 * np.log(lower / upper) / r
    )
    integral = integral + np.where(s - r > rho, 1 / rho - 1 / lower, 0.0)
    return np.where(upper > rho, integral, 0.0)


def neck_integral(r: Any, radii: Any) -> Any:
    """Integral over the space between two atoms that is too narrow for water [n, n] (Mongan et al.

    2007, equation 9).
    """
    d0, m0 = neck_pair_tables(radii)
    x2 = ((r - d0) / 0.1) ** 2
    return np.where(r < radii[:, None] + radii[None, :] + NECK_CUTOFF, m0 / (1 + x2 + 0.3 * x2**3), 0.0)


def neck_pair_tables(radii: Any) -> tuple[Any, Any]:
    """Positions and heights of the necks between spheres of all `radii` [n, n]: the tables, linear in both radii."""
    weights = neck_weights(radii)
    d0, m0 = neck_tables()
    return weights @ d0 @ np.transpose(weights), weights @ m0 @ np.transpose(weights)


def neck_weights(radii: Any) -> Any:
    """Weights [n, 21] of the tables' rows in linear interpolations at `radii`."""
    return np.maximum(0.0, 1.0 - np.abs(((radii - 0.1) / 0.005)[:, None] - np.arange(21.0)))


def debye_kappa(
    concentration: float,  # mol/l
    temperature: float = 300.0,  # K
    dielectric: float = 78.5,
) -> float:  # of the solvent
    """Return the inverse Debye length (1/nm) of a monovalent salt for `GB`, scaled by 0.73.

    The factor makes up for ions kept out of the solute (J. Srinivasan, M. W. Trevathan, P. Beroza, D. A. Case, Theor.
    Chem. Acc. 101, 426 (1999)).
    """
    from ...units import GAS_CONSTANT

    per_volume = concentration * 0.602214076  # ions of each sign in nm^3
    return 0.73 * float(np.sqrt(8 * np.pi * COULOMB * per_volume / (dielectric * GAS_CONSTANT * temperature)))


def _vector(name, values, n):
    return check.finite(check.shape(np.array(values, np.float64), (n,), f"GB: {name}"), f"GB: {name}")


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    rng = np.random.default_rng(2)
    charges, radii, scales = rng.normal(size=12) / 2, rng.uniform(0.11, 0.18, 12), rng.uniform(0.7, 0.9, 12)
    lean = [[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]]
    cases = [([GB(charges, radii, scales, model=model, kappa=0.7)], {"seed": 2}) for model in MODELS]
    return [
        *cases,
        *(
            ([GB(charges, radii, scales, model="gbn2", kappa=kappa, cutoff=0.6)], {"seed": 2, "box": box})
            for kappa, box in ((0.0, None), (0.7, lean))
        ),
    ]
