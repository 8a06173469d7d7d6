"""`to_openmm`: each potential as the force of OpenMM with the same formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..integrators.center_of_mass import removes_com_motion
from ..potentials.bonded.cmap import CMAP
from ..potentials.bonded.harmonic_angle import harmonic_angle
from ..potentials.bonded.harmonic_bond import harmonic_bond
from ..potentials.bonded.harmonic_improper import harmonic_improper
from ..potentials.bonded.pair14 import pair14
from ..potentials.bonded.periodic_torsion import periodic_torsion
from ..potentials.bonded.ryckaert_bellemans import ryckaert_bellemans
from ..potentials.bonded.urey_bradley import urey_bradley
from ..potentials.expressions.expression import ExpressionExternal, ExpressionTerm
from ..potentials.gb.gb import GB, PROBE
from ..potentials.gb.tables import NECK_CUTOFF, neck_tables
from ..potentials.nonbonded.nonbonded import Nonbonded
from ..potentials.polarizable.drude import DrudeAnisotropy, drude_spring, thole_screening
from ..potentials.polarizable.induced_dipoles import InducedDipoles
from ..potentials.restraints import (
    PositionRestraint,
    angle_restraint,
    distance_restraint,
    torsion_restraint,
)
from ..system import System
from ..units import COULOMB
from ..virtual_sites import sites as virtual_sites

__all__ = ["to_openmm"]

_DEBYE = 48.0321  # of 1 e nm
_UNDAMPED = 1e9  # a factor of the damping that leaves nothing of it
_WRAPPED = "d - 6.283185307179586*floor(d/6.283185307179586 + 0.5)"

# Terms that OpenMM has a force of its own for: class of the force, method to add a term, order of the parameters
_FORCES = {
    harmonic_bond: ("HarmonicBondForce", "addBond", ("r0", "k")),
    urey_bradley: ("HarmonicBondForce", "addBond", ("r0", "k")),
    harmonic_angle: ("HarmonicAngleForce", "addAngle", ("theta0", "k")),
    ryckaert_bellemans: ("RBTorsionForce", "addTorsion", ("c0", "c1", "c2", "c3", "c4", "c5")),
}
# and terms that it takes an expression for
_EXPRESSIONS = {
    pair14: ("Bond", f"{COULOMB!r}*charge_product/r + 4*epsilon*((sigma/r)^12 - (sigma/r)^6)"),
    thole_screening: ("Bond", f"{COULOMB!r}*charge_product/r*(1 - (1 + 0.5*damping*r)*exp(-damping*r))"),
    distance_restraint: ("Bond", "0.5*k*(max(r - upper, 0) + max(lower - r, 0))^2"),
    angle_restraint: ("Angle", "0.5*k*(max(theta - upper, 0) + max(lower - theta, 0))^2"),
    periodic_torsion: ("Torsion", "k*(1 + cos(periodicity*theta - phase))"),
    harmonic_improper: ("Torsion", f"0.5*k*w^2; w = {_WRAPPED}; d = theta - phi0"),
    torsion_restraint: ("Torsion", f"0.5*k*max(abs(w) - width, 0)^2; w = {_WRAPPED}; d = theta - phi0"),
}


def to_openmm(system: System) -> Any:
    """An OpenMM ``System`` with the same terms.

    Each potential becomes a force of its name; 1-4 pairs are exceptions of the NonbondedForce. Particle meshes get the
    grid and the splitting parameter that we use, so that energies agree to rounding; `InducedDipoles` become an
    AmoebaMultipoleForce, whose mesh is weighted in another way, so that energies agree within the mesh's error.

    Parameters
    ----------
    system : System

    Returns
    -------
    openmm.System

    Raises
    ------
    ImportError
        If OpenMM is not installed.
    ValueError
        If a potential has no counterpart in OpenMM; the message names it.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0])
    >>> _ = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> to_openmm(system).getForce(0).getNumBonds()  # doctest: +SKIP
    1
    """
    mm = optional.need("openmm", "to_openmm", "md")
    system.check()
    omm = mm.System()
    for mass in system.masses:
        omm.addParticle(mass)
    for kind in system.virtual_sites:
        _add_sites(mm, omm, kind)
    for (i, j), distance in zip(system.constraints.pairs.tolist(), system.constraints.distances):
        omm.addConstraint(i, j, distance)
    if system.box is not None:
        omm.setDefaultPeriodicBoxVectors(*(mm.Vec3(*row) for row in system.box))
    exceptions = _exceptions(system)
    for potential in system.potentials:
        for force in _forces(mm, system, potential, exceptions):
            force.setName(potential.name)
            if system.box is not None and hasattr(force, "setUsesPeriodicBoundaryConditions"):
                force.setUsesPeriodicBoundaryConditions(potential.images)
            omm.addForce(force)
    if removes_com_motion(system):
        omm.addForce(mm.CMMotionRemover())
    return omm


def _exceptions(system: System) -> Any:
    """The 1-4 potential, if its pairs can be exceptions: excluded, and none of them twice."""
    found = [p for p in system.potentials if type(p) is pair14]
    if len(found) != 1 or not any(isinstance(p, Nonbonded) for p in system.potentials):
        return None
    pairs = [tuple(p) for p in np.sort(found[0].atoms, axis=1).tolist()]
    excluded = {tuple(p) for p in system.exclusions.tolist()}
    alike = found[0].images == next(p.images for p in system.potentials if isinstance(p, Nonbonded))
    return found[0] if alike and len(set(pairs)) == len(pairs) and excluded.issuperset(pairs) else None


def _forces(mm: Any, system: System, potential: Any, exceptions: Any) -> list[Any]:
    kind = type(potential)
    if potential is exceptions:
        return []
    if (
        kind is periodic_torsion
        and np.all(potential.params["periodicity"] >= 1)
        and np.all(potential.params["periodicity"] % 1 == 0)
    ):
        force = mm.PeriodicTorsionForce()
        rows = zip(potential.atoms.tolist(), *(potential.params[k] for k in ("periodicity", "phase", "k")))
        for atoms, n, phase, k in rows:
            force.addTorsion(*atoms, int(n), phase, k)
        return [force]
    if kind in _FORCES:
        name, add, parameters = _FORCES[kind]
        force = getattr(mm, name)()
        for atoms, *values in zip(potential.atoms.tolist(), *(potential.params[p] for p in parameters)):
            getattr(force, add)(*atoms, *values)
        return [force]
    if kind is drude_spring:
        force = mm.DrudeForce()
        for (drude, atom), q, alpha in zip(potential.atoms.tolist(), *potential.params.values()):
            force.addParticle(drude, atom, -1, -1, -1, q, alpha, 0.0, 0.0)
        return [force]
    if kind in _EXPRESSIONS:
        name, expression = _EXPRESSIONS[kind]
        return [_custom(mm, name, name, expression, potential)]
    if isinstance(potential, ExpressionTerm):
        name = potential.of.capitalize()
        return [_custom(mm, name, name, potential.expression, potential)]
    if isinstance(potential, ExpressionExternal):
        return [_custom(mm, "External", "Particle", potential.expression, potential)]
    if isinstance(potential, DrudeAnisotropy):
        return _anisotropy(mm, potential)
    for known, make in (
        (CMAP, _cmap),
        (GB, _gb),
        (PositionRestraint, _position_restraint),
        (InducedDipoles, _induced_dipoles),
    ):
        if isinstance(potential, known):
            return [make(mm, system, potential)]
    if isinstance(potential, Nonbonded):
        return _nonbonded(mm, system, potential, exceptions)
    raise ValueError(
        f"to_openmm: {kind.__name__} {potential.name!r} has no counterpart in OpenMM (remove it, or write it as a "
        f"force there)"
    )


def _custom(mm: Any, kind: str, entry: str, expression: str, potential: Any) -> Any:
    """A custom force on bonds, angles, torsions or particles, with the parameters of the potential."""
    force = getattr(mm, f"Custom{kind}Force")(expression)
    for name in potential.params:
        getattr(force, f"addPer{entry}Parameter")(name)
    m = len(potential.atoms)
    columns = [np.broadcast_to(values, m) for values in potential.params.values()]
    for atoms, *values in zip(potential.atoms.reshape(m, -1).tolist(), *columns):
        getattr(force, f"add{entry}")(*atoms, values)
    return force


def _anisotropy(mm: Any, potential: DrudeAnisotropy) -> list[Any]:
    """Springs along directions, from distances, which have nearest images; of three points where two are the same."""
    drude, atom, one, other = potential.atoms.T
    forces = []
    for same, columns, expression in (
        (atom == one, (drude, one, other), "distance(p1,p3)^2 - distance(p1,p2)^2 - distance(p2,p3)^2"),
        (
            atom != one,
            (drude, one, other, atom),
            "distance(p1,p3)^2 + distance(p2,p4)^2 - distance(p1,p2)^2 - distance(p3,p4)^2",
        ),
    ):
        force = mm.CustomCompoundBondForce(len(columns), f"0.125*k*(({expression})/distance(p2,p3))^2")
        force.addPerBondParameter("k")
        for *atoms, k in zip(*(column[same].tolist() for column in columns), potential.params["k"][same].tolist()):
            force.addBond(atoms, [k])
        forces += [force] if force.getNumBonds() else []
    return forces


def _cmap(mm: Any, system: System, potential: CMAP) -> Any:
    force = mm.CMAPTorsionForce()
    for grid in potential.params["maps"]:
        force.addMap(len(grid), grid.T.ravel().tolist())  # there the first angle runs fastest
    for kind, phi, psi in zip(np.asarray(potential.types).tolist(), potential.phi.tolist(), potential.psi.tolist()):
        force.addTorsion(kind, *phi, *psi)
    return force


def _position_restraint(mm: Any, system: System, potential: PositionRestraint) -> Any:
    if potential.params["k"].ndim == 2:
        return _restraint_by_axis(mm, system, potential)
    distance = (
        "periodicdistance(x, y, z, x0, y0, z0)" if system.box is not None else "sqrt((x-x0)^2 + (y-y0)^2 + (z-z0)^2)"
    )
    # the plain spring needs no root, whose derivative does not exist at the reference
    square = (
        f"select(width, max({distance} - width, 0)^2, {distance}^2)"
        if np.any(potential.params["width"])
        else f"{distance}^2"
    )
    force = mm.CustomExternalForce(f"0.5*k*{square}")
    for name in ("k", "width", "x0", "y0", "z0"):
        force.addPerParticleParameter(name)
    p = potential.params
    references = potential.reference_in(system.box, p["reference"])
    for i, k, width, reference in zip(potential.atoms.tolist(), p["k"], p["width"], references):
        force.addParticle(i, [k, width, *reference])
    return force


def _restraint_by_axis(mm: Any, system: System, potential: PositionRestraint) -> Any:
    box = system.box
    if box is not None and np.any(box != np.diag(np.diag(box))):
        raise ValueError(
            f"to_openmm: {potential.name!r} has a force constant for each axis, which needs a rectangular box in OpenMM"
        )
    plain = [f"k{a}*({a}-{a}0)^2" for a in "xyz"]
    nearest = [
        "kx*periodicdistance(x, 0, 0, x0, 0, 0)^2",
        "ky*periodicdistance(0, y, 0, 0, y0, 0)^2",
        "kz*periodicdistance(0, 0, z, 0, 0, z0)^2",
    ]
    force = mm.CustomExternalForce(f"0.5*({' + '.join(plain if box is None else nearest)})")
    for name in ("kx", "ky", "kz", "x0", "y0", "z0"):
        force.addPerParticleParameter(name)
    references = potential.reference_in(box, potential.params["reference"])
    for i, row in zip(potential.atoms.tolist(), np.concatenate([potential.params["k"], references], axis=1)):
        force.addParticle(i, row)
    return force


def _induced_dipoles(mm: Any, system: System, potential: InducedDipoles) -> Any:
    """Charges without fixed dipoles and quadrupoles; what is bonded gives no field, to direct and mutual dipoles."""
    force, p = mm.AmoebaMultipoleForce(), potential.params
    excluded: list[list[int]] = [[] for _ in range(system.n)]
    for i, j in system.exclusions.tolist():
        excluded[i].append(j)
        excluded[j].append(i)
    thole = np.broadcast_to(p.get("thole", _UNDAMPED), system.n)
    for k, (q, alpha, a) in enumerate(zip(p["charges"].tolist(), p["polarizabilities"].tolist(), thole.tolist())):
        force.addMultipole(q, [0.0] * 3, [0.0] * 9, force.NoAxisType, -1, -1, -1, a, alpha ** (1 / 6), alpha)
        for kind in (force.Covalent12, force.PolarizationCovalent11):
            force.setCovalentMap(k, kind, excluded[k])
    force.setPolarizationType(force.Mutual)
    force.setMutualInducedMaxIterations(500)
    force.setMutualInducedTargetEpsilon(potential.convergence * _DEBYE)
    if (grid := potential.mesh(system.box)) is not None:
        force.setNonbondedMethod(force.PME)
        force.setCutoffDistance(potential.cutoff)
        force.setPMEParameters(potential.alpha, *grid)
    return force


def _nonbonded(mm: Any, system: System, potential: Nonbonded, exceptions: Any) -> list[Any]:
    p, method, periodic = potential.params, potential.method, system.box is not None
    form = potential.form(system.box)
    charged = bool(np.any(p["charges"]))
    if method == "cutoff" and charged:
        raise ValueError(
            "to_openmm: OpenMM has no truncated Coulomb interaction without reaction field (use "
            "method='reaction_field')"
        )
    if method in ("pme", "ljpme") and potential.order != 5:
        raise ValueError(f"to_openmm: OpenMM's splines are of order 5, got order={potential.order}")
    if method == "ewald" and (potential.alpha is not None or potential.wave_vectors is not None):
        raise ValueError("to_openmm: OpenMM's Ewald sum takes only a tolerance, got alpha or wave_vectors")
    if form.excluded_field:
        raise ValueError("to_openmm: OpenMM's reaction field has no excluded_field")
    if form.modifier != "potential-switch":
        raise ValueError(f"to_openmm: OpenMM's NonbondedForce has no modifier {form.modifier!r}")
    force = mm.NonbondedForce()
    cut = force.CutoffPeriodic if periodic else force.CutoffNonPeriodic
    force.setNonbondedMethod(
        {
            "none": force.NoCutoff,
            "cutoff": cut,
            "reaction_field": cut,
            "ewald": force.Ewald,
            "pme": force.PME,
            "ljpme": force.LJPME,
        }[method]
    )
    force.setCutoffDistance(potential.cutoff)
    force.setReactionFieldDielectric(potential.dielectric)
    force.setEwaldErrorTolerance(potential.tolerance)
    force.setUseDispersionCorrection(form.dispersion)
    if potential.switch is not None and method != "none":
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(potential.switch)
    if form.grid is not None:
        force.setPMEParameters(form.alpha, *form.grid)
    if form.lj_grid is not None:
        force.setLJPMEParameters(form.lj_alpha, *form.lj_grid)
    own = potential.mixing == "lorentz_berthelot"
    rows = zip(p["charges"], p["sigmas"], p["epsilons"]) if own else ((q, 1.0, 0.0) for q in p["charges"])
    for row in rows:
        force.addParticle(*row)
    pairs = {}
    if exceptions is not None:
        values = (exceptions.params[k] for k in ("charge_product", "sigma", "epsilon"))
        pairs = {tuple(sorted(a)): v for a, *v in zip(exceptions.atoms.tolist(), *values)}
    for i, j in system.exclusions.tolist():
        force.addException(i, j, *pairs.get((i, j), (0.0, 1.0, 0.0)))
    if periodic and method != "none":
        force.setExceptionsUsePeriodicBoundaryConditions(potential.images)
    return [force] if own else [force, _mixed(mm, system, potential, form)]


def _mixed(mm: Any, system: System, potential: Nonbonded, form: Any) -> Any:
    """Lennard-Jones with mixing rules that OpenMM's own force does not have."""
    if potential.method == "ljpme":
        raise ValueError(
            f"to_openmm: OpenMM's LJ-PME mixes by Lorentz and Berthelot in direct space, got {potential.mixing!r}"
        )
    p = potential.params
    if potential.mixing == "table":
        force = mm.CustomNonbondedForce("a(type1, type2)/r^12 - b(type1, type2)/r^6")
        for name in "ab":
            force.addTabulatedFunction(name, mm.Discrete2DFunction(*p[name].shape, p[name].ravel().tolist()))
        force.addPerParticleParameter("type")
        rows = [[t] for t in np.asarray(potential.types).tolist()]
    else:
        force = mm.CustomNonbondedForce("4*sqrt(epsilon1*epsilon2)*(x*x - x); x = (sigma1*sigma2)^3/r^6")
        for name in ("sigma", "epsilon"):
            force.addPerParticleParameter(name)
        rows = np.stack([p["sigmas"], p["epsilons"]], axis=1).tolist()
    for row in rows:
        force.addParticle(row)
    for i, j in system.exclusions.tolist():
        force.addExclusion(i, j)
    cut = force.CutoffPeriodic if system.box is not None else force.CutoffNonPeriodic
    force.setNonbondedMethod(force.NoCutoff if potential.method == "none" else cut)
    force.setCutoffDistance(potential.cutoff)
    force.setUseLongRangeCorrection(form.dispersion)
    if form.switch is not None:
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(form.switch)
    return force


def _gb(mm: Any, system: System, potential: GB) -> Any:
    """The formulas of `GB`; the neck's tables are interpolated for the radii that occur."""
    p, c = potential.params, potential.constants
    force = mm.CustomGBForce()
    names = [
        "charge",
        "radius",
        "scale",
        *(["alpha", "beta", "gamma"] if c.rescaling is not None else []),
        *(["kind"] if c.neck else []),
    ]
    for name in names:
        force.addPerParticleParameter(name)
    radii, kind = np.unique(p["radii"], return_inverse=True)
    neck = ""
    if c.neck:
        at = np.clip((radii - 0.1) / 0.005, 0, 20)
        hats = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(21)))
        for name, table in zip(("d0", "m0"), neck_tables()):
            force.addTabulatedFunction(
                name, mm.Discrete2DFunction(len(radii), len(radii), (hats @ table @ hats.T).T.ravel().tolist())
            )
        neck = f" + {c.neck!r}*step(radius1 + radius2 + {NECK_CUTOFF!r} - r)*m0(kind1, kind2)/(1 + x2 + 0.3*x2^3)"
    force.addComputedValue(
        "I",
        (
            "select(step(r + s - rho), 0.5*(1/L - 1/U + 0.25*(r - s^2/r)*(1/U^2 - 1/L^2) + 0.5*log(L/U)/r) + "
            f"select(step(s - r - rho), 1/rho - 1/L, 0), 0){neck}; "
            f"{'x2 = ((r - d0(kind1, kind2))/0.1)^2; ' if c.neck else ''}L = max(rho, D); U = r + s; D = abs(r - s); s "
            f"= scale2*(radius2 - {c.offset!r}); rho = radius1 - {c.offset!r}"
        ),
        force.ParticlePairNoExclusions,
    )
    born = "rho/(1 - psi)" if c.rescaling is None else "1/(1/rho - tanh(psi*(alpha - psi*(beta - psi*gamma)))/radius)"
    force.addComputedValue("B", f"{born}; psi = rho*I; rho = radius - {c.offset!r}", force.SingleParticle)
    inside, outside = 1 / potential.solute_dielectric, 1 / potential.solvent_dielectric
    screened = lambda f: f"({inside!r} - {outside!r}*exp(-{potential.kappa!r}*{f}))"
    force.addEnergyTerm(
        f"-0.5*{COULOMB!r}*{screened('B')}*charge^2/B + {potential.surface_tension!r}*(radius + "
        f"{PROBE!r})^2*(radius/B)^6",
        force.SingleParticle,
    )
    inverse = "1/f"
    if potential.cutoff is not None:
        inverse = f"(1/f - {1 / potential.cutoff!r})"
        force.setNonbondedMethod(force.CutoffNonPeriodic if system.box is None else force.CutoffPeriodic)
        force.setCutoffDistance(potential.cutoff)
    force.addEnergyTerm(
        f"-{COULOMB!r}*{screened('f')}*charge1*charge2*{inverse}; f = sqrt(r^2 + B1*B2*exp(-r^2/(4*B1*B2)))",
        force.ParticlePairNoExclusions,
    )
    columns = [
        p["charges"],
        p["radii"],
        p["scales"],
        *(p[k] for k in names[3:] if k != "kind"),
        *([kind] if c.neck else []),
    ]
    for row in np.stack(columns, axis=1).tolist():
        force.addParticle(row)
    return force


def _average(mm: Any, parents: list[int], weights: list[float]) -> Any:
    """The origin of a frame of OpenMM, which must have three parents at least; they must not stand on a line."""
    if len(parents) < 3:
        parents, weights = [*parents, parents[0]][:2], [*weights, 0.0][:2]
        return mm.TwoParticleAverageSite(*parents, *weights)
    rest = [0.0] * (len(parents) - 3)
    return mm.LocalCoordinatesSite(parents, weights, [-1.0, 1.0, 0.0, *rest], [-1.0, 0.0, 1.0, *rest], mm.Vec3(0, 0, 0))


def _add_sites(mm: Any, omm: Any, kind: virtual_sites.VirtualSite) -> None:
    parents = kind.parents.tolist()
    for m, site in enumerate(kind.sites.tolist()):
        if isinstance(kind, virtual_sites.TwoParticleAverage):
            made = mm.TwoParticleAverageSite(*parents[m], *kind.weights[m])
        elif isinstance(kind, virtual_sites.ThreeParticleAverage):
            made = mm.ThreeParticleAverageSite(*parents[m], *kind.weights[m])
        elif isinstance(kind, virtual_sites.WeightedAverage):
            made = _average(mm, parents[m], kind.weights[m].tolist())
        elif isinstance(kind, virtual_sites.OutOfPlane):
            made = mm.OutOfPlaneSite(*parents[m], kind.weight12[m], kind.weight13[m], kind.weight_cross[m])
        elif isinstance(kind, virtual_sites.LocalCoordinates):
            weights = (w[m].tolist() for w in (kind.origin_weights, kind.x_weights, kind.y_weights))
            made = mm.LocalCoordinatesSite(parents[m], *weights, mm.Vec3(*kind.local[m]))
        else:
            raise ValueError(f"to_openmm: virtual sites of kind {type(kind).__name__} have no counterpart in OpenMM")
        omm.setVirtualSite(site, made)
