"""A seeded sample of the differential tests of OpenMM Systems and force fields, and what they found."""

from __future__ import annotations

import numpy as np
import pytest

from triskele import core, sponge
from triskele.sponge.errors import FileFormatError, MissingParameterError
from triskele.sponge.load.openmm_xml import load_openmm

mm = pytest.importorskip("openmm")

from tests.sponge.differential import forcefields, openmm_systems, random_forcefields  # noqa: E402
from tests.sponge.differential.compare import Refused, differences  # noqa: E402

SOURCES = {"systems": openmm_systems.case, "forcefields": forcefields.case, "random": random_forcefields.case}
SAMPLE = (
    [("systems", k) for k in range(4)] + [("forcefields", k) for k in range(4)] + [("random", k) for k in range(20)]
)


def check(source, seed, folder):
    core.set_threads(1)
    try:
        found = SOURCES[source](seed, folder)
    except Refused:
        return
    assert not found


@pytest.mark.filterwarnings("ignore:.*is a part of the run")
@pytest.mark.filterwarnings("ignore:.*look like angstrom")  # of random molecules
@pytest.mark.parametrize(("source", "seed"), SAMPLE)
def test_a_sample(source, seed, tmp_path):
    check(source, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is a part of the run")
@pytest.mark.filterwarnings("ignore:.*look like angstrom")  # of random molecules
@pytest.mark.parametrize("source", SOURCES)
def test_many(source, tmp_path):
    for seed in range(100, 100 + {"systems": 400, "forcefields": 300, "random": 1300}[source]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(source, seed, folder)


# -- Systems -----------------------------------------------------------------------------------------------------------


def particles(n=9, box=None):
    system = mm.System()
    for _ in range(n):
        system.addParticle(12.0)
    if box is not None:
        system.setDefaultPeriodicBoxVectors(*(mm.Vec3(*row) for row in (np.eye(3) * box).tolist()))
    return system


def bonded(expression, parameters, pairs=((0, 8),), system=None):
    force = mm.CustomBondForce(expression)
    for name in parameters:
        force.addPerBondParameter(name)
    for i, j in pairs:
        force.addBond(i, j, list(parameters.values()))
    system = particles() if system is None else system
    system.addForce(force)
    return system


def read(system, folder):
    (folder / "x.xml").write_text(mm.XmlSerializer.serialize(system))
    return load_openmm(folder / "x.xml")


POSITIONS = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), axis=-1).reshape(-1, 3)[:9] * 0.4 + 0.03 * np.sin(
    np.arange(27)
).reshape(9, 3)


@pytest.mark.parametrize(
    "expression",
    [
        "0.5*k*max(0, r-0.5)^2",
        "select(step(r-0.5), k*(r-0.4), 0.5*k*(r-0.4)^2)",
        "k*(r-0.1)^2 + 1e-7*k*r^3",
    ],
)
def test_piecewise_expressions_are_what_they_are_everywhere(expression, tmp_path):
    """Forms that agree with a spring, or with zero, at short distances."""
    theirs = bonded(expression, {"k": 500.0}, [(0, 8), (0, 1), (3, 7)])
    ours = read(theirs, tmp_path)
    assert [p.name for p in ours.potentials] == ["bond_expression"]
    assert openmm_systems.exact_differences(ours, theirs, POSITIONS) == []


def test_a_wrapped_spring_with_an_angle_beyond_pi_is_no_improper(tmp_path):
    theirs = particles()
    force = mm.CustomTorsionForce("k*min(d, 2*pi-d)^2; d=abs(theta-b); pi=3.1415926535")
    force.addPerTorsionParameter("k")
    force.addPerTorsionParameter("b")
    force.addTorsion(0, 1, 4, 8, [10.0, 5.0])
    theirs.addForce(force)
    ours = read(theirs, tmp_path)
    assert ours.potentials[0].name == "torsion_expression"
    assert openmm_systems.exact_differences(ours, theirs, POSITIONS) == []


@pytest.mark.parametrize("periodic", [False, True])
def test_each_force_takes_images_or_not(periodic, tmp_path):
    theirs = bonded("k*(r-0.1)^4", {"k": 500.0}, system=particles(box=1.0))
    theirs.getForce(0).setUsesPeriodicBoundaryConditions(periodic)
    other = mm.HarmonicAngleForce()
    other.addAngle(0, 4, 8, 2.0, 30.0)
    other.setUsesPeriodicBoundaryConditions(not periodic)
    theirs.addForce(other)
    ours = read(theirs, tmp_path)
    assert [p.images for p in ours.potentials] == [periodic, not periodic]
    assert openmm_systems.exact_differences(ours, theirs, POSITIONS) == []
    back = ours.to_openmm()
    assert [f.usesPeriodicBoundaryConditions() for f in back.getForces() if "Remover" not in f.getName()] == [
        periodic,
        not periodic,
    ]
    pure = sum(float(p.energy(p.params, POSITIONS, ours.box)) for p in ours.potentials)
    assert pure == pytest.approx(ours.energy(POSITIONS), rel=1e-12)


def test_molecules_broken_at_the_box_are_reported(tmp_path):
    system = particles(box=2.0)
    bond, charges = mm.HarmonicBondForce(), mm.NonbondedForce()
    bond.addBond(0, 1, 0.1, 5.0)
    charges.setNonbondedMethod(mm.NonbondedForce.CutoffPeriodic)
    charges.setCutoffDistance(0.5)
    for _ in range(9):
        charges.addParticle(0.0, 0.3, 0.5)
    system.addForce(bond)
    system.addForce(charges)
    (tmp_path / "x.xml").write_text(mm.XmlSerializer.serialize(system))
    broken = POSITIONS + np.eye(9, 3) * [1.9, 0, 0]
    with pytest.warns(UserWarning, match="bonded atoms 0 and 1 are 1.[0-9]+ nm apart"):
        load_openmm(tmp_path / "x.xml", positions=broken)
    load_openmm(tmp_path / "x.xml", positions=POSITIONS)


def test_expressions_are_copied_and_written(tmp_path):
    theirs = bonded("k*max(0, r-b)^2; b=0.2", {"k": 500.0})
    field = mm.CustomExternalForce("a*max(0, z-0.3)^2")
    field.addPerParticleParameter("a")
    field.addParticle(8, [30.0])
    theirs.addForce(field)
    pair = mm.CustomNonbondedForce("sqrt(e1*e2)*exp(-r)")
    pair.addPerParticleParameter("e")
    for k in range(9):
        pair.addParticle([1.0 + k % 2])
    theirs.addForce(pair)
    ours = read(theirs, tmp_path)
    assert ours.copy().energy(POSITIONS) == ours.energy(POSITIONS)
    ours.remove("pair_expression")
    theirs.removeForce(2)
    assert differences(ours, ours.to_openmm(), POSITIONS) == []
    assert openmm_systems.exact_differences(ours, theirs, POSITIONS) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace('usesPeriodic="0"', 'usesPeriodic="0" cubic="3"'), "attribute cubic='3' is not supported"),
        (lambda t: t.replace("<Bonds>", "<Links/><Bonds>"), "a section must be one of Bonds, .*, got 'Links'"),
        (lambda t: t.replace('method="0"', 'method="9"'), "method must be an integer from 0 to 5, got 9"),
        (
            lambda t: t.replace("<Exception ", '<Exception eps="0" p1="1" p2="0" q="0" sig="1"/><Exception ', 1),
            "given once",
        ),
        (lambda t: t.replace('eps=".5"', 'eps="-.5"', 1), "sigma and epsilon must be >= 0"),
        (lambda t: t.replace('sig=".3"', 'sig="nan"', 1), "must be >= 0 and all parameters finite"),
    ],
)
def test_damaged_or_unknown_entries_are_named(change, message, tmp_path):
    system = bonded("k*r", {"k": 500.0})
    force = mm.NonbondedForce()
    for _ in range(9):
        force.addParticle(0.1, 0.3, 0.5)
    force.addException(0, 1, 0.0, 1.0, 0.0)
    system.addForce(force)
    text = mm.XmlSerializer.serialize(system)
    assert change(text) != text
    (tmp_path / "x.xml").write_text(change(text))
    with pytest.raises(FileFormatError, match=message):
        load_openmm(tmp_path / "x.xml")


def test_a_second_nonbonded_force_and_a_cut_off_of_another_kind_are_refused(tmp_path):
    system = particles(box=2.0)
    for method in (mm.NonbondedForce.CutoffNonPeriodic, mm.NonbondedForce.NoCutoff):
        force = mm.NonbondedForce()
        force.setNonbondedMethod(method)
        force.setCutoffDistance(0.5)
        for _ in range(9):
            force.addParticle(0.1, 0.3, 0.5)
        system.addForce(force)
    with pytest.raises(FileFormatError, match="one NonbondedForce, got a second"):
        read(system, tmp_path)
    system.removeForce(1)
    bond = mm.HarmonicBondForce()
    bond.addBond(0, 1, 0.1, 5.0)
    bond.setUsesPeriodicBoundaryConditions(True)
    system.addForce(bond)
    with pytest.raises(FileFormatError, match="CutoffNonPeriodic"):
        read(system, tmp_path)


def test_barostats_are_named_with_their_settings(tmp_path):
    system = particles()
    system.addForce(mm.MonteCarloBarostat(1.5, 310.0, 40))
    with pytest.warns(UserWarning, match="MonteCarloBarostat .* frequency 40, pressure 1.5, .* temperature 310"):
        read(system, tmp_path)


@pytest.mark.parametrize(
    "expression",
    ["-" * 500 + "r", "(" * 500 + "r" + ")" * 500, "9^9^9^9*r", "+".join(f"{k}*r^{k}" for k in range(4000))],
)
def test_expressions_without_bounds_are_documented_errors(expression, tmp_path):
    text = mm.XmlSerializer.serialize(bonded("k*r", {"k": 5.0})).replace("k*r", expression)
    (tmp_path / "x.xml").write_text(text)
    with pytest.raises(FileFormatError, match="CustomBondForce"):
        load_openmm(tmp_path / "x.xml")


# -- force fields ------------------------------------------------------------------------------------------------------

FIELD = """<ForceField><AtomTypes><Type name="a" class="A" element="C" mass="12.011"/></AtomTypes>
<Residues><Residue name="ONE"><Atom name="C1" type="a"/></Residue></Residues>{}</ForceField>"""
PAIR = '<NonbondedForce coulomb14scale="1" lj14scale="1">{}</NonbondedForce>'


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (PAIR.format('<Atom type="a" charge="0" sigma="1" epsilon="0" epsilon14="1"/>'), "attribute epsilon14"),
        (
            PAIR.format('<UseAttributeFromResidue name="charge"/><Atom type="a" charge="0" sigma="1" epsilon="0"/>'),
            "attribute charge",
        ),
        (
            '<HarmonicBondForce><Bond class1="A" class2="A" length="1" k="1" cubic="2"/></HarmonicBondForce>',
            "attribute cubic",
        ),
        ("<HarmonicAngleForce><Bend/></HarmonicAngleForce>", "must be 'Angle', got 'Bend'"),
        (
            '<PeriodicTorsionForce><Proper class1="" class2="" class3="" class4="" periodicity1="1" phase1="0" k1="1" '
            'periodicity3="3" '
            'phase3="0" k3="1"/></PeriodicTorsionForce>',
            "without a gap, got periodicity3",
        ),
    ],
)
def test_attributes_that_are_not_read_are_named(section, message, tmp_path):
    (tmp_path / "f.xml").write_text(FIELD.format(section))
    with pytest.raises(FileFormatError, match=message):
        sponge.forcefield.ForceField(tmp_path / "f.xml")


def test_the_last_nonbonded_entry_of_a_type_or_its_class_is_taken(tmp_path):
    entries = (
        '<Atom type="a" charge="0" sigma="0.1" epsilon="1"/><Atom class="A" charge="0.5" sigma="0.2" epsilon="2"/>'
    )
    (tmp_path / "f.xml").write_text(FIELD.format(PAIR.format(entries)))
    topology = sponge.Topology(["C1"], [6], [0], ["ONE"], ["1"], [0], ["A"], np.empty((0, 2), int))
    system = sponge.forcefield.create_system(topology, forcefield=tmp_path / "f.xml")
    assert [float(system.nonbonded.params[k][0]) for k in ("charges", "sigmas", "epsilons")] == [0.5, 0.2, 2.0]
    more = '<LennardJonesForce lj14scale="1"><Atom type="a" sigma="1" epsilon="1"/></LennardJonesForce>'
    (tmp_path / "f.xml").write_text(FIELD.format(PAIR.format(entries) + more))
    with pytest.raises(MissingParameterError, match="no Lennard-Jones interaction next to a LennardJonesForce"):
        sponge.forcefield.create_system(topology, forcefield=tmp_path / "f.xml")
