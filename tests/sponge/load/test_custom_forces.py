"""OpenMM's custom forces read from System XML, against OpenMM's Reference platform in double precision."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest

from triskele import core, sponge
from triskele.sponge.errors import FileFormatError
from triskele.sponge.load.openmm_xml import load_openmm

mm = pytest.importorskip("openmm")

N = 12
RNG = np.random.default_rng(5)
POSITIONS = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3)[:N] * 0.4 + RNG.uniform(
    -0.08, 0.08, (N, 3)
)
WAVE = np.sin(np.arange(120.0))


def compound(force_class="CustomCompoundBondForce", points=("p1", "p2", "p3", "p4")):
    names = dict(zip("abcd", points))
    force = getattr(mm, force_class)(
        4,
        "k*(distance({a},{d})-r0)^2 + g*cos(dihedral({a},{b},{c},{d})) + angle({a},{b},{d})*w + pointangle(x1,y1,z1,"
        "x2,y2,z2,x3,y3,z3) + y2*z4; w = k/100".format(**names),
    )
    force.addPerBondParameter("k")
    force.addGlobalParameter("g", 1.7)
    force.addPerBondParameter("r0")
    return force


def bonds():
    force = compound()
    for atoms in ([0, 1, 2, 5], [3, 9, 6, 8], [11, 2, 4, 7]):
        force.addBond(atoms, RNG.uniform(0.1, 100, 2).tolist())
    return force


def distances():
    """A parameter called r, which is not the distance of the points."""
    force = mm.CustomCompoundBondForce(2, "k*(distance(p1,p2)-r)^2")
    for name in "kr":
        force.addPerBondParameter(name)
    force.addBond([0, 7], [50.0, 0.1])
    return force


def springs():
    """A global parameter r0."""
    force = mm.CustomBondForce("k*(r-r0)^4")
    force.addPerBondParameter("k")
    force.addGlobalParameter("r0", 0.3)
    for i in range(4):
        force.addBond(i, i + 4, [10.0 + i])
    return force


def far_groups():
    """Groups whose numbers are also those of two atoms, which are ten times as far apart as r0."""
    force = mm.CustomCentroidBondForce(2, "50*(distance(g1,g2)-r0)^2")
    force.addPerBondParameter("r0")
    for group in ([0, 1], [9, 10, 11], [4, 5]):
        force.addGroup(group)
    force.addBond([0, 2], [0.08])
    return force


def centroids():
    force = compound("CustomCentroidBondForce", ("g1", "g2", "g3", "g4"))
    for group, weights in (([0, 1, 2], None), ([3, 4], [1.0, 3.0]), ([5], None), ([7, 9, 11, 10], [1.0, 2, 3, 4])):
        force.addGroup(group, *([] if weights is None else [weights]))
    force.addBond([0, 1, 2, 3], [50.0, 0.1])
    force.addBond([3, 1, 0, 2], [20.0, 0.3])
    return force


def hydrogen_bonds(method=0, acceptor="b"):
    force = mm.CustomHbondForce("k*b*(distance(d1,a1)-0.3)^2*(1+cos(angle(d2,d1,a1))) + g*sin(dihedral(d2,d1,a1,a2))")
    force.addPerDonorParameter("k")
    force.addPerAcceptorParameter(acceptor)
    force.addGlobalParameter("g", 1.7)
    for d in ([0, 1, -1], [4, 5, 6]):
        force.addDonor(*d, [RNG.uniform(1, 5)])
    for a in ([2, 3, -1], [8, 7, -1], [10, 11, 9]):
        force.addAcceptor(*a, [RNG.uniform(1, 5)])
    force.addExclusion(1, 2)
    force.setNonbondedMethod(method)
    force.setCutoffDistance(0.55)
    return force


def many_particles(mode, filters, method=0, k=3):
    force = mm.CustomManyParticleForce(
        k,
        "c*q1*q2*q3*(1+3*cos(t1)*cos(angle(p2,p3,p1)))/(r12+r13)^2 + x1*y2; t1=angle(p1,p2,p3); "
        "r12=distance(p1,p2); r13=distance(p1,p3)",
    )
    force.addPerParticleParameter("q")
    force.addGlobalParameter("c", 1.5)
    for i in range(N):
        force.addParticle([RNG.uniform(0.5, 2)], i % 3)
    for place, types in filters.items():
        force.setTypeFilter(place, types)
    force.addExclusion(0, 5)
    force.setPermutationMode(mode)
    force.setNonbondedMethod(method)
    force.setCutoffDistance(0.6)
    return force


def variables():
    force = mm.CustomCVForce("k*(a-40)^2 + b*sqrt(a+1)*g(0.4)")
    force.addGlobalParameter("k", 0.01)
    force.addTabulatedFunction("g", mm.Continuous1DFunction([0, 1, 3, 2], 0, 1))
    harmonic = mm.HarmonicBondForce()
    for i in range(5):
        harmonic.addBond(i, i + 3, 0.2, 100.0 + i)
    force.addCollectiveVariable("a", harmonic)
    pairs = mm.CustomNonbondedForce("1/r")
    for _ in range(N):
        pairs.addParticle([])
    pairs.addExclusion(2, 3)
    force.addCollectiveVariable("b", pairs)
    return force


def volume():
    force = mm.CustomVolumeForce("p*v + 3*(ax-by)^2 + cz")
    force.addGlobalParameter("p", 0.7)
    return force


def pairs(expression, method=0, groups=(), exclusions=((0, 1), (4, 7)), tables=(), switch=None, tail=False):
    force = mm.CustomNonbondedForce(expression)
    force.addPerParticleParameter("s")
    force.addPerParticleParameter("k")
    force.addGlobalParameter("g", 1.7)
    force.addComputedValue("h", "s*g+k")
    for i in range(N):
        force.addParticle([0.2 + 0.02 * i, i % 3])
    for name, table in tables:
        force.addTabulatedFunction(name, table)
    for i, j in exclusions:
        force.addExclusion(i, j)
    for one, two in groups:
        force.addInteractionGroup(one, two)
    force.setNonbondedMethod(method)
    force.setCutoffDistance(0.59)
    if switch:
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(switch)
    force.setUseLongRangeCorrection(tail)
    return force


def tabulated(kind):
    """An expression that calls a table of the kind with values around and outside its range."""
    table, call = {
        "c1": (mm.Continuous1DFunction(WAVE[:9], 0.2, 0.9), "t(r)"),
        "c1p": (mm.Continuous1DFunction([*WAVE[:8], WAVE[0]], 0.2, 0.5, True), "t(r)"),
        "c2": (mm.Continuous2DFunction(5, 6, WAVE[:30], 0.2, 0.9, -1, 1), "t(r,s1-s2)+t(r,s2-s1)"),
        "c2p": (
            mm.Continuous2DFunction(3, 4, [1, 2, 1, 3, 5, 3, 4, 0, 4, 1, 2, 1], 0, 0.3, 0, 0.2, True),
            "t(r,s1)+t(r,s2)",
        ),
        "c3": (mm.Continuous3DFunction(4, 3, 5, WAVE[:60], 0.2, 0.9, 0, 1, 0, 1), "t(r,s1,s2)+t(r,s2,s1)"),
        "c3p": (
            mm.Continuous3DFunction(3, 3, 3, np.tile([1, 2, 1, 3, 5, 3, 1, 2, 1], 3), 0, 0.3, 0, 0.2, 0, 1, True),
            "t(r,s1,s2)+t(r,s2,s1)",
        ),
        "d1": (mm.Discrete1DFunction(WAVE[:3]), "t(k1)*t(k2)/r"),
        "d1 halves": (mm.Discrete1DFunction(WAVE[:4]), "t(k1+0.5)*t(k2+0.5)/r"),
        "d2": (mm.Discrete2DFunction(3, 3, [1, 2, 3, 2, 5, 6, 3, 6, 9]), "t(k1,k2)/r"),
        "d3": (mm.Discrete3DFunction(3, 3, 2, WAVE[:18]), "(t(k1,k2,0)+t(k2,k1,1) + t(k2,k1,0)+t(k1,k2,1))/r"),
    }[kind]
    return pairs(call, tables=[("t", table)])


def born(method, first="ParticlePair", second="ParticlePairNoExclusions"):
    force = mm.CustomGBForce()
    for name in ("q", "s"):
        force.addPerParticleParameter(name)
    force.addGlobalParameter("g", 1.7)
    force.addTabulatedFunction("t", mm.Continuous1DFunction(WAVE[:9], 0, 4))
    force.addComputedValue("I", "s1*exp(-r/s2)+t(r)", getattr(force, first))
    force.addComputedValue("B", "s/(1+I^2)*g + x*0.1", force.SingleParticle)
    force.addEnergyTerm("B*q^2 + I*t(s) + y^2", force.SingleParticle)
    force.addEnergyTerm("q1*q2*B1*B2/(r+B1+B2)", getattr(force, second))
    for i in range(N):
        force.addParticle([(-1) ** i, 0.3 + 0.01 * i])
    force.addExclusion(0, 1)
    force.addExclusion(3, 8)
    force.setNonbondedMethod(method)
    force.setCutoffDistance(0.58)
    return force


LJ = "4*sqrt(k1+1)*sqrt(k2+1)*((s/r)^12-(s/r)^6)*(1+0.1*exp(-r*g)); s=0.5*(s1+s2)"
CASES = {
    "compound": bonds,
    "compound of r": distances,
    "springs": springs,
    "centroid": centroids,
    "far groups": far_groups,
    "volume": volume,
    "variables": variables,
    **{f"hbond {m}": lambda m=m: hydrogen_bonds(m) for m in (0, 1, 2)},
    **{
        f"many {mode} {k}": lambda mode=mode, f=f: many_particles(mode, f)
        for mode in (0, 1)
        for k, f in enumerate(({}, {0: [1]}, {0: [0, 1], 2: [2]}))
    },
    **{
        f"many cut {mode} {m}": lambda mode=mode, m=m: many_particles(mode, {1: [0, 2]}, m)
        for mode in (0, 1)
        for m in (1, 2)
    },
    **{
        f"table {k}": lambda k=k: tabulated(k)
        for k in ("c1", "c1p", "c2", "c2p", "c3", "c3p", "d1", "d1 halves", "d2", "d3")
    },
    **{f"pairs {m}": lambda m=m: pairs(LJ, m, switch=0.4 if m else None) for m in (0, 1, 2)},
    **{f"gb {m}": lambda m=m: born(m) for m in (0, 1, 2)},
    "gb values": lambda: born(0, "ParticlePairNoExclusions", "ParticlePair"),
    "computed": lambda: pairs("h1*h2/r"),
    **{
        f"groups {m}": lambda m=m: pairs("s1*k2/r + g", m, [([0, 1, 2, 3], [2, 3, 4, 5]), ([0, 9], [1, 2])])
        for m in (0, 1, 2)
    },
    "tail of groups": lambda: pairs("s1*s2/r^6", 2, [([0, 1, 2], [2, 3, 4])], tail=True),
    "tail": lambda: pairs(LJ.replace("exp(-r*g)", "g/r"), 2, switch=0.5, tail=True),
}
PERIODIC = {
    "volume",
    "gb 2",
    "hbond 2",
    "many cut 0 2",
    "many cut 1 2",
    "pairs 2",
    "groups 2",
    "tail",
    "tail of groups",
}


def reference(*forces, box=None):
    system = mm.System()
    for i in range(N):
        system.addParticle(10.0 + i)
    if box is not None:
        system.setDefaultPeriodicBoxVectors(*(mm.Vec3(*row) for row in np.asarray(box, float).tolist()))
    for force in forces:
        system.addForce(force)
    return system


BOX = [[1.3, 0, 0], [0.2, 1.25, 0], [-0.1, 0.3, 1.3]]


def evaluate(system):
    context = mm.Context(system, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(POSITIONS)
    state = context.getState(getEnergy=True, getForces=True)
    return state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value


def read(system, folder):
    (folder / "x.xml").write_text(mm.XmlSerializer.serialize(system))
    return load_openmm(folder / "x.xml", positions=POSITIONS)


def assert_same(ours, theirs, rtol=1e-10):
    energy, forces = evaluate(theirs)
    assert ours.energy() == pytest.approx(energy, rel=rtol, abs=1e-10)
    np.testing.assert_allclose(ours.forces(), forces, rtol=0, atol=rtol * np.abs(forces).max())


@pytest.mark.parametrize("case", CASES)
def test_forces_are_those_of_openmm(case, tmp_path):
    theirs = reference(CASES[case](), box=BOX if case in PERIODIC else None)
    ours = read(theirs, tmp_path)
    assert (ours.box is not None) == (case in PERIODIC)
    # OpenMM integrates the tail in single precision to 1e-5
    assert_same(ours, theirs, 2e-6 if "tail" in case else 1e-10)


@pytest.mark.parametrize("force", [bonds, centroids])
def test_images_of_compound_bonds(force, tmp_path):
    theirs = reference(force(), box=BOX)
    theirs.getForce(0).setUsesPeriodicBoundaryConditions(True)
    assert_same(read(theirs, tmp_path), theirs)


@pytest.mark.slow
def test_a_system_of_many_forces(tmp_path):
    """Every kind at once; forces between pairs with different exclusions."""
    theirs = reference(
        bonds(),
        centroids(),
        hydrogen_bonds(),
        many_particles(1, {0: [1]}),
        variables(),
        pairs(LJ),
        pairs("g*k1*k2*(r-1)", exclusions=[(2, 3)]),
        tabulated("c1"),
    )
    ours = read(theirs, tmp_path)
    assert_same(ours, theirs)
    again = pickle.loads(pickle.dumps(copy.deepcopy(ours)))
    assert again.energy() == ours.energy()
    energy = ours.energy_function()
    params, x = ours.params(), POSITIONS
    many = core.vmap(energy, (None, 0, None))(params, np.stack([x, 1.01 * x]), None)
    np.testing.assert_allclose(many, [ours.energy(x), ours.energy(1.01 * x)], rtol=1e-12)
    slopes = core.grad(energy)(params, x, None)
    for name, key in (
        ("compound_expression", "g"),
        ("pair_expression", "s"),
        ("hbond_expression", "b"),
        ("many_particle_expression", "c"),
        ("cv_expression", "a/k"),
        ("centroid_expression", "r0"),
    ):
        step = 1e-4 * np.cos(np.arange(params[name][key].size)).reshape(params[name][key].shape)
        up, down = ({**params, name: params[name] | {key: params[name][key] + s * step}} for s in (1, -1))
        slope = (energy(up, x, None) - energy(down, x, None)) / 2
        assert np.sum(slopes[name][key] * step) == pytest.approx(slope, rel=1e-5, abs=1e-9)
    sim = sponge.Simulation(ours, sponge.VelocityVerlet(timestep=1e-5), precision="double")
    sim.run(20)
    kinetic = 0.5 * np.sum(ours.masses[:, None] * sim.velocities**2)
    assert kinetic + ours.energy(sim.positions) == pytest.approx(ours.energy(), rel=1e-8)


def with_global(force_class, expression, name):
    force = getattr(mm, force_class)(expression)
    force.addGlobalParameter(name, 0.3)
    return force


def twice(force):
    force.addCollectiveVariable("a", mm.HarmonicBondForce())
    return force


@pytest.mark.parametrize(
    ("force", "match"),
    [
        (lambda: pairs("1/r", 2, switch=0.5, tail=True), "must converge"),
        (lambda: mm.RMSDForce(POSITIONS, [0, 1, 2]), "RMSDForce"),
        *[
            (
                lambda name=name: pairs(f"{name}(k1)*{name}(k2)/r", tables=[(name, mm.Discrete1DFunction(WAVE[:3]))]),
                f"table must have a name of its own, got '{name}'",
            )
            for name in ("square", "negative", "number", "input")
        ],
        (lambda: with_global("CustomAngleForce", "cos(theta)", "theta"), "different names, got 'theta' twice"),
        (lambda: with_global("CustomVolumeForce", "v*ax", "ax"), "different names, got 'ax' twice"),
        (lambda: twice(variables()), "different names, got 'a' twice"),
        (lambda: hydrogen_bonds(acceptor="k"), "different names, got 'k' of both"),
    ],
)
def test_what_is_refused_by_name(force, match, tmp_path):
    with pytest.raises(FileFormatError, match=match):
        read(reference(force(), box=BOX), tmp_path)


def groups():
    return pairs("s1*k2/r + g", 2, [([0, 1, 2, 3], [2, 3, 4, 5])])


@pytest.mark.parametrize(
    ("force", "old", "new", "match"),
    [
        (groups, 'method="2"', 'method="3"', "method must be 0 .NoCutoff.*got 3"),
        (groups, 'Correction="0"', 'Correction="2"', "useLongRangeCorrection must be '0' or '1', got '2'"),
        (groups, 'useSwitchingFunction="0"', 'useSwitchingFunction="1"', "switch must lie between 0 .* got -1"),
        (groups, 'p1="4" p2="7"', 'p1="4" p2="-1"', "excluded particles must be 0 to 11, got -1 to 4"),
        (groups, 'index="5"', 'index="12"', "particles of interaction groups must be 0 to 11"),
        (centroids, 'p="5"', 'p="12"', "particles of groups must be 0 to 11"),
        (centroids, 'energy="[^"]*"', "", "must have what OpenMM writes for it, got KeyError 'energy'"),
        (
            lambda: many_particles(1, {0: [1]}),
            '<Filter index="0"',
            '<Filter index="3"',
            "particles 0 to 2 of a set, got 3",
        ),
        (lambda: many_particles(1, {}), 'permutationMode="1"', "", "permutationMode must be '0' or '1', got ''"),
    ],
)
def test_files_that_openmm_does_not_write(force, old, new, match, tmp_path):
    text, changes = re.subn(old, new, mm.XmlSerializer.serialize(reference(force(), box=BOX)))
    assert changes
    (tmp_path / "x.xml").write_text(text)
    with pytest.raises(FileFormatError, match=match):
        load_openmm(tmp_path / "x.xml", positions=POSITIONS)


def test_a_force_without_its_entries_is_refused(tmp_path):
    (tmp_path / "x.xml").write_text(
        '<System type="System" version="1"><Particles><Particle mass="1"/></Particles>'
        '<Forces><Force type="HarmonicBondForce" version="2"/></Forces></System>'
    )
    with pytest.raises(FileFormatError, match="HarmonicBondForce: must have a section Bonds, got none"):
        load_openmm(tmp_path / "x.xml")


def test_a_particle_twice_in_a_group_acts_once(tmp_path):
    theirs = reference(groups(), box=BOX)
    text = mm.XmlSerializer.serialize(theirs)
    (tmp_path / "x.xml").write_text(text.replace('<Particle index="5"/>', '<Particle index="5"/>' * 2))
    assert_same(load_openmm(tmp_path / "x.xml", positions=POSITIONS), theirs)


def test_global_parameters_are_written(tmp_path):
    force = mm.CustomBondForce("g*k*r^4")
    force.addGlobalParameter("g", 2.5)
    force.addPerBondParameter("k")
    for i in range(3):
        force.addBond(i, i + 4, [10.0 + i])
    ours = read(reference(force), tmp_path)
    assert ours.params()["bond_expression"]["g"].shape == ()
    assert_same(ours, ours.to_openmm())
