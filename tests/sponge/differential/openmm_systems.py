"""Random OpenMM Systems: forces of all classes that we read, with all their options, and features that we refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.sponge.differential.compare import Refused
from triskele import sponge
from triskele.sponge.errors import FileFormatError

__all__ = ["case", "exact_differences"]

_MASSES = (1.008, 12.011, 14.007, 15.999, 3.0, 32.06, 200.0, 0.0)
# Expressions by kind; parameters a (large and positive), b (a place), and the global g
_BONDS = (
    "0.5*a*(r-b)^2",
    "a*(b-r)^2+g*0",
    "0.5*a*max(0, r-b)^2",
    "step(r-b)*0.5*a*(r-b)^2",
    "a*(1-exp(-8*(r-b)))^2",
    "select(step(r-b), a*(r-b), 0.5*a*(r-b)^2)",
    "138.935456*b/r + 4*a*1e-3*((g/r)^12-(g/r)^6)",
    "a*1e-6/r^12",
    "a*min(abs(r-b), d)^2; d = 0.1*g",
    "a*atan2(r, b)",
    "a*erf(r/b)*exp(-r)",
    "a*(floor(4*r)+delta(r-b))*0.01 + a*cosh(r-b)",
    "a*r^1.5+sqrt(a*r)-a*log(r+b)",
    "-a^0.5*r^-1",
    "a*(cube(r)-square(r-b)*recip(1+r))",
    "a*tanh(g*(r-b))+3",
)
_ANGLES = (
    "0.5*a*(theta-b)^2",
    "a*max(0, theta-2.95)^2",
    "a*(cos(theta)-cos(b))^2",
    "a*(theta-b)^2*(1+g*(theta-b))",
    "select(step(theta-2), a, a*theta/2)",
    "a*(2*theta-2*b)^2",
)
_TORSIONS = (
    "a*min(d, 2*pi-d)^2; d=abs(theta-b); pi=3.1415926535",
    "0.5*a*min(2*pi-d, d)^2; d=abs(b-theta); pi=3.14159265358979",
    "a*(1+cos(3*theta-b))",
    "a*(theta-b)^2",
    "a*max(0, abs(theta-3.1)-0.01)^2*step(theta-3.11)",
    "0.5*a*w^2; w=d-6.283185307179586*floor(d/6.283185307179586+0.5); d=theta-b",
    "a*sin(theta)*cos(2*theta)+g",
)
_FIELDS = (
    "0.5*a*((x-b)^2+(y-c)^2+(z-g)^2)",
    "a*((x-b)^2+(y-b)^2)",
    "a*max(0, sqrt(x*x+y*y+z*z)-b)^2",
    "a*max(0, z-b)^2",
    "a*periodicdistance(x, y, z, b, c, g)^2",
    "a*sin(6*x)*cos(y+b)",
    "a*periodicdistance(x, y, z, b, c, g)",
    "a*(x-b)^2",
)
_PAIRS = (
    "4*e*((s/r)^12-(s/r)^6); s=0.5*(s1+s2); e=sqrt(e1*e2)",
    "A(k1, k2)/r^12-B(k1, k2)/r^6",
    "A(k1, k2)*r^-12",
    "sqrt(e1*e2)*exp(-9*r)",
    "138.935456*c1*c2/r",
    "step(0.6-r)*(A(k1, k2)/r^12-B(k1, k2)/r^6)",
    "e1*e2*g*max(0, 0.5-r)^2",
    "4*e*((s/r)^9-(s/r)^6)*T(k1)*T(k2); s=sqrt(s1*s2); e=e1+e2",
    "h1*h2*exp(-r/g)",
)


def case(seed: int, folder: Path) -> list[str]:
    """A random System as XML, read back and compared with the System itself."""
    import openmm as mm

    rng = np.random.default_rng([7, seed])
    theirs, positions, expected = _system(rng)
    path = folder / "system.xml"
    path.write_text(mm.XmlSerializer.serialize(theirs))
    try:
        ours = sponge.load(path)
    except FileFormatError as error:
        if expected and any(word in str(error) for word in [*expected, "excluded pairs"]):
            raise Refused(str(error)) from None
        raise
    if expected:
        return [f"a System with {', '.join(expected)} must be refused, got {ours}"]
    return exact_differences(ours, theirs, positions)


def exact_differences(
    ours: Any, theirs: Any, positions: np.ndarray, rtol: float = 2e-7, atol: float = 1e-5
) -> list[str]:
    """Sentences that say where the systems differ, with OpenMM's flags of periodicity as they are in the file."""
    import openmm as mm

    masses = np.array([theirs.getParticleMass(i)._value for i in range(theirs.getNumParticles())])
    found = [] if np.array_equal(ours.masses, masses) else ["masses differ"]
    if len(ours.constraints) != theirs.getNumConstraints():
        found.append(f"{len(ours.constraints)} constraints here, {theirs.getNumConstraints()} in OpenMM")
    theirs = mm.XmlSerializer.clone(theirs)
    for k in range(theirs.getNumForces() - 1, -1, -1):
        if isinstance(theirs.getForce(k), (mm.MonteCarloBarostat, mm.AndersenThermostat)):
            theirs.removeForce(k)
    for k, force in enumerate(theirs.getForces()):
        force.setForceGroup(k)
    context = mm.Context(theirs, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    context.computeVirtualSites()
    _same_meshes(ours, theirs, context)
    state = context.getState(getEnergy=True, getForces=True, getPositions=True)
    energy, forces = state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value
    placed = state.getPositions(asNumpy=True)._value.copy()
    by_force = [
        (f.getName(), context.getState(getEnergy=True, groups=1 << k).getPotentialEnergy()._value)
        for k, f in enumerate(theirs.getForces())
    ]
    terms = ours.energy_terms(placed)
    size = max(abs(e) for _, e in [*by_force, ("", 1.0)])
    if not abs(sum(terms.values()) - energy) <= atol + rtol * size:
        found.append(f"energy {sum(terms.values()):.9g} here {terms}, {energy:.9g} in OpenMM {by_force}")
    sites = sponge.virtual_sites.place_all(ours.virtual_sites, placed)
    if np.abs(sites - placed).max() > 1e-9:
        found.append("virtual sites differ")
    heavy = masses > 0
    if heavy.any():
        scale = np.abs(forces[heavy]).max()
        off = np.abs(ours.forces(placed) - forces)[heavy].max()
        if not off <= 1e-4 + 1e-6 * scale:
            found.append(f"forces differ by {off:.3g} kJ/mol/nm of {scale:.3g} {terms} {by_force}")
    return found


def _same_meshes(ours: Any, theirs: Any, context: Any) -> None:
    """Give our sums the splitting and mesh that OpenMM chooses, which the file does not fix."""
    import openmm as mm

    for force in theirs.getForces():
        if isinstance(force, mm.NonbondedForce) and force.getNonbondedMethod() in (force.PME, force.LJPME):
            alpha, *grid = force.getPMEParametersInContext(context)
            ours.nonbonded.update(alpha=float(getattr(alpha, "_value", alpha)), grid=tuple(grid))
            if force.getNonbondedMethod() == force.LJPME:
                alpha, *grid = force.getLJPMEParametersInContext(context)
                ours.nonbonded.update(lj_alpha=float(getattr(alpha, "_value", alpha)), lj_grid=tuple(grid))


# -- random systems ----------------------------------------------------------------------------------------------------


def _system(rng: np.random.Generator) -> tuple[Any, np.ndarray, list[str]]:
    """A System, positions, and words of which one must be in the error if the System is to be refused."""
    import openmm as mm

    n = int(rng.integers(13, 65))
    side = int(np.ceil(n ** (1 / 3)))
    lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)[:n]
    kind = rng.choice(["none", "cuboid", "triclinic"])
    box = np.diag(rng.uniform(1.6, 1.9, 3))
    if kind == "triclinic":
        # in small leaning boxes the Reference platform's neighbor list misses pairs, which ones a shift decides
        box *= 1.45
        box[1, 0], box[2, 0], box[2, 1] = rng.uniform(-0.4, 0.4, 3) * box[[0, 0, 1], [0, 0, 1]]
    positions = (lattice / max(side, 2)) @ box + rng.normal(scale=0.02, size=(n, 3))
    system = mm.System()
    masses = rng.choice(_MASSES, n, p=[0.3, 0.2, 0.1, 0.15, 0.05, 0.1, 0.05, 0.05])
    for mass in masses:
        system.addParticle(float(mass))
    if kind != "none":
        system.setDefaultPeriodicBoxVectors(*(mm.Vec3(*map(float, row)) for row in box))
        away = rng.random(n) < 0.1  # in other images than their neighbors
        positions[away] += rng.integers(-2, 3, (int(away.sum()), 3)) @ box
    refused = _sites(rng, system, n)
    _constraints(rng, system, masses)
    exclusions = _pairs(rng, n, int(rng.integers(0, 12)))
    method = 0 if kind == "none" else int(rng.choice([2, 4, 5, 3] if kind == "cuboid" else [2, 4, 5]))
    if kind == "none" and rng.random() < 0.5:
        method = 1
    for make in rng.permutation([_bonded, _custom_terms, _fields, _run_parts]):
        refused += make(rng, system, n, kind != "none") or []
    cutoff = float(rng.uniform(0.55, 0.75))
    some = rng.random()
    if some < 0.8:
        system.addForce(
            _nonbonded(rng, n, method, cutoff, exclusions, eps=0.0 if some < 0.3 else 1.0, leaning=kind == "triclinic")
        )
    if some < 0.5:
        for _ in range(int(rng.integers(1, 3))):
            force, reasons = _custom_pairs(rng, n, min(method, 2), cutoff, exclusions)
            refused += reasons
            system.addForce(force)
    if kind == "none" and rng.random() < 0.3:
        system.addForce(_implicit(rng, n))
    refused += _rarer(rng, system, n, kind != "none")
    return system, positions, refused


def _pairs(rng, n, m):
    pairs = np.unique(np.sort(rng.integers(0, n, (m, 2)), axis=1), axis=0)
    return pairs[pairs[:, 0] != pairs[:, 1]]


def _terms(rng, n, k, most=8):
    m = n if k == 2 else n - 4  # a torsion over a site on the line between its parents is not defined
    return [rng.choice(m, k, replace=False).tolist() for _ in range(int(rng.integers(0, most)))]


def _sites(rng, system, n):
    import openmm as mm

    if rng.random() < 0.7:
        return []
    w = rng.dirichlet(np.ones(3)).tolist()
    makers = [
        lambda p: mm.TwoParticleAverageSite(p[0], p[1], w[0], 1 - w[0]),
        lambda p: mm.ThreeParticleAverageSite(*p[:3], *w),
        lambda p: mm.OutOfPlaneSite(*p[:3], 0.3, 0.2, 3.0),
        lambda p: mm.LocalCoordinatesSite(p[:3], w, [-1, 0.5, 0.5], [0, -1, 1], mm.Vec3(*rng.normal(size=3) * 0.05)),
    ]
    for site in range(n - int(rng.integers(1, 4)), n):
        parents = rng.choice(n - 4, 4, replace=False).tolist()
        system.setParticleMass(site, 0.0)
        system.setVirtualSite(site, makers[rng.integers(4)](parents))
    return []


def _constraints(rng, system, masses):
    for i, j in _pairs(rng, len(masses) - 4, int(rng.integers(0, 4))):
        if min(system.getParticleMass(int(k))._value for k in (i, j)) > 0:
            system.addConstraint(int(i), int(j), float(rng.uniform(0.1, 0.2)))


def _bonded(rng, system, n, periodic):
    import openmm as mm

    number = lambda lo, hi: float(rng.uniform(lo, hi))
    makers = [
        (mm.HarmonicBondForce, 2, lambda f, a: f.addBond(*a, number(0.1, 0.5), number(0, 1000))),
        (mm.HarmonicAngleForce, 3, lambda f, a: f.addAngle(*a, number(1, 3), number(0, 200))),
        (
            mm.PeriodicTorsionForce,
            4,
            lambda f, a: f.addTorsion(*a, int(rng.integers(1, 7)), number(-3.2, 3.2), number(-9, 9)),
        ),
        (mm.RBTorsionForce, 4, lambda f, a: f.addTorsion(*a, *rng.normal(size=6).tolist())),
    ]
    for cls, k, add in makers:
        for _ in range(int(rng.integers(0, 3))):
            force = cls()
            for atoms in _terms(rng, n, k):
                add(force, atoms)
            force.setUsesPeriodicBoundaryConditions(bool(periodic and rng.random() < 0.5))
            force.setForceGroup(int(rng.integers(0, 4)))
            system.addForce(force)
    if rng.random() < 0.3:
        force = mm.CMAPTorsionForce()
        for size in rng.integers(4, 9, 2):
            force.addMap(int(size), rng.normal(size=size * size).tolist())
        for atoms in _terms(rng, n, 8):
            force.addTorsion(int(rng.integers(2)), *atoms)
        force.setUsesPeriodicBoundaryConditions(bool(periodic and rng.random() < 0.5))
        system.addForce(force)


def _custom_terms(rng, system, n, periodic):
    import openmm as mm

    for name, k, expressions, place in (
        ("Bond", 2, _BONDS, 0.4),
        ("Angle", 3, _ANGLES, 1.9),
        ("Torsion", 4, _TORSIONS, 0.0),
    ):
        for _ in range(int(rng.integers(0, 3))):
            force = getattr(mm, f"Custom{name}Force")(str(rng.choice(expressions)))
            for parameter in "ab":
                getattr(force, f"addPer{name}Parameter")(parameter)
            force.addGlobalParameter("g", 0.3)
            if rng.random() < 0.3:
                force.addEnergyParameterDerivative("g")
            for atoms in _terms(rng, n, k):
                b = place + rng.uniform(-0.2, 0.3) if place else rng.uniform(-3.5, 3.5)
                getattr(force, f"add{name}")(*atoms, [float(rng.uniform(1, 300)), float(b)])
            force.setUsesPeriodicBoundaryConditions(bool(periodic and rng.random() < 0.5))
            system.addForce(force)


def _fields(rng, system, n, periodic):
    import openmm as mm

    for _ in range(int(rng.integers(0, 3))):
        expression = str(rng.choice(_FIELDS))
        if "periodic" in expression and not periodic:
            continue
        force = mm.CustomExternalForce(expression)
        for parameter in "abc":
            force.addPerParticleParameter(parameter)
        force.addGlobalParameter("g", 0.3)
        for atom in rng.permutation(n)[: int(rng.integers(0, n))]:
            force.addParticle(int(atom), [float(rng.uniform(1, 300)), *rng.uniform(0, 1.5, 2).tolist()])
        system.addForce(force)


def _run_parts(rng, system, n, periodic):
    import openmm as mm

    if rng.random() < 0.3:
        system.addForce(mm.CMMotionRemover(int(rng.integers(1, 10))))
    if rng.random() < 0.1:
        system.addForce(mm.AndersenThermostat(300.0, 1.0))
    if periodic and rng.random() < 0.1:
        system.addForce(mm.MonteCarloBarostat(1.0, 300.0))


def _nonbonded(rng, n, method, cutoff, exclusions, eps, leaning):
    import openmm as mm

    force = mm.NonbondedForce()
    force.setNonbondedMethod(method)
    force.setCutoffDistance(cutoff)
    charges = rng.normal(size=n) * 0.3 * (rng.random() < 0.8)
    for q in charges - charges.mean() * (rng.random() < 0.7):
        force.addParticle(
            float(q), float(rng.uniform(0.15, 0.3)), eps * float(rng.uniform(0, 1) * (rng.random() < 0.9))
        )
    for i, j in exclusions.tolist():
        acts = rng.random() < 0.5
        force.addException(
            i, j, float(acts * rng.normal() * 0.1), float(rng.uniform(0.1, 0.3)), float(acts * rng.uniform(0, 1))
        )
    if method != 5 and rng.random() < 0.4:
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(float(cutoff * rng.uniform(0.7, 0.95)))
    force.setUseDispersionCorrection(bool(rng.random() < 0.5))
    force.setReactionFieldDielectric(float(rng.choice([1.0, 4.0, 78.3])))
    force.setEwaldErrorTolerance(float(rng.choice([5e-4, 1e-5, 1e-2])))
    force.setExceptionsUsePeriodicBoundaryConditions(bool(rng.random() < 0.5))
    # in a leaning box, the last wave of an even grid, n/2 or -n/2, is a matter of convention
    for able, name in ((method in (4, 5), "PME"), (method == 5, "LJPME")):
        if able and (leaning or rng.random() < 0.3):
            grid = rng.integers(20, 37, 3) | int(leaning)
            getattr(force, f"set{name}Parameters")(float(rng.uniform(3, 4.5)), *grid.tolist())
    if rng.random() < 0.2:
        force.addGlobalParameter("charging", float(rng.choice([0.0, 0.5])))
        force.addParticleParameterOffset("charging", int(rng.integers(n)), 0.3, 0.01, 0.1 * eps)
        if len(exclusions):
            force.addExceptionParameterOffset("charging", int(rng.integers(len(exclusions))), 0.1, 0.01, 0.1)
    force.setForceGroup(int(rng.integers(0, 4)))
    return force


def _custom_pairs(rng, n, method, cutoff, exclusions):
    """A CustomNonbondedForce, and why it must be refused."""
    import openmm as mm

    refused = []
    force = mm.CustomNonbondedForce(expression := str(rng.choice(_PAIRS)))
    for name in "sekc":
        force.addPerParticleParameter(name)
    force.addGlobalParameter("g", 0.3)
    force.addComputedValue("h", "2*e+s*g")
    sigma, epsilon = rng.uniform(0.15, 0.3, (3, 3)), rng.uniform(0.1, 1, (3, 3))
    sigma, epsilon = 0.5 * (sigma + sigma.T), 0.5 * (epsilon + epsilon.T)
    force.addTabulatedFunction("A", mm.Discrete2DFunction(3, 3, (4 * epsilon * sigma**12).T.ravel().tolist()))
    force.addTabulatedFunction("B", mm.Discrete2DFunction(3, 3, (4 * epsilon * sigma**6).T.ravel().tolist()))
    force.addTabulatedFunction("T", mm.Discrete1DFunction(rng.uniform(0.5, 1, 3).tolist()))
    few = rng.uniform(size=(4, 3)) * [0.15, 1.0, 0.5] + [0.15, 0.0, -0.2]
    for row in rng.integers(0, 4, n):
        s, e, c = few[row].tolist()
        force.addParticle([s, e, int(rng.integers(3)), c])
    force.setNonbondedMethod(0 if rng.random() < 0.2 else method)
    force.setCutoffDistance(cutoff if rng.random() < 0.6 else 0.9 * cutoff)
    if rng.random() < 0.4:
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(0.8 * cutoff)
    pairs, groups = exclusions.tolist(), rng.random() < 0.05
    lennard_jones = expression in (_PAIRS[0], _PAIRS[1], _PAIRS[2])
    if groups:
        force.addInteractionGroup([0, 1], [2, 3, 4])
    if rng.random() < 0.05 and pairs:
        pairs = pairs[1:]
        if lennard_jones and not groups:
            refused.append("excluded pairs")
    for i, j in pairs:
        force.addExclusion(i, j)
    if rng.random() < 0.3 and lennard_jones:
        force.setUseLongRangeCorrection(True)
    return force, refused


def _implicit(rng, n):
    import openmm as mm
    from openmm.app.internal import customgbforces as gb

    charges, radii, scales = rng.normal(size=n) * 0.3, rng.choice([0.12, 0.13, 0.15, 0.17], n), rng.uniform(0.7, 0.9, n)
    if rng.random() < 0.3:
        force = mm.GBSAOBCForce()
        for row in zip(charges, radii, scales):
            force.addParticle(*map(float, row))
        force.setSurfaceAreaEnergy(float(rng.uniform(0, 3)))
        force.setSoluteDielectric(float(rng.choice([1.0, 2.0])))
        force.setSolventDielectric(float(rng.choice([78.5, 20.0])))
        return force
    cls = getattr(
        gb, str(rng.choice(["GBSAHCTForce", "GBSAOBC1Force", "GBSAOBC2Force", "GBSAGBnForce", "GBSAGBn2Force"]))
    )
    force = cls(
        solventDielectric=float(rng.choice([78.5, 20.0])),
        soluteDielectric=float(rng.choice([1.0, 2.0])),
        SA=[None, "ACE"][rng.integers(2)],
        kappa=float(rng.choice([0.0, 1.1])),
    )
    for q, radius, scale in zip(charges, radii, scales):
        more = [0.7, 0.5, 0.3] if cls is gb.GBSAGBn2Force else []
        force.addParticle([float(q), float(radius), float(scale), *more])
    force.finalize()
    return force


def _rarer(rng, system, n, periodic):
    """Now and then a rarer force; for one that we do not support, what the error must name."""
    import openmm as mm

    if rng.random() > 0.08:
        return []
    bond = mm.CustomCompoundBondForce(2, "distance(p1, p2)")
    bond.addBond([0, 1], [])
    centroid = mm.CustomCentroidBondForce(2, "distance(g1, g2)")
    centroid.addGroup([0, 1])
    centroid.addGroup([2])
    centroid.addBond([0, 1], [])
    table = mm.CustomNonbondedForce("f(r)")
    table.addTabulatedFunction("f", mm.Continuous1DFunction([1.0, 2.0, 3.0], 0, 5))
    for _ in range(n):
        table.addParticle([])
    volume = mm.CustomVolumeForce("v") if periodic else bond
    rmsd = mm.RMSDForce([mm.Vec3(0, 0, 0)] * n, [0, 1, 2])
    choices = [bond, centroid, rmsd, table, mm.CustomCVForce("1"), volume]
    force = choices[rng.integers(len(choices))]
    system.addForce(force)
    return ["RMSDForce"] if force is rmsd else []
