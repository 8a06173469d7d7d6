"""Custom forces between all particles in force-field XML, against the System that OpenMM makes of the same file."""

from __future__ import annotations

import re

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.errors import FileFormatError, MissingParameterError

mm = pytest.importorskip("openmm")
app = pytest.importorskip("openmm.app")

MOLECULES = 5
NAMES, BONDS = ["C1", "C2", "O1", "H1", "H2", "M1"], [(0, 1), (1, 2), (2, 3), (0, 4)]
FIELD = """<ForceField><AtomTypes>
<Type name="c1" class="C" element="C" mass="12.011"/><Type name="c2" class="C" element="C" mass="12.011"/>
<Type name="o" class="O" element="O" mass="15.999"/><Type name="h" class="H" element="H" mass="1.008"/>
<Type name="m" class="M" mass="0"/></AtomTypes>
<Residues><Residue name="ONE"><Atom name="C1" type="c1" q="0.1"/><Atom name="C2" type="c2" q="0.2"/>
<Atom name="O1" type="o" q="-0.5"/><Atom name="H1" type="h" q="0.3"/><Atom name="H2" type="h" q="0.1"/>
<Atom name="M1" type="m" q="-0.2"/>
<VirtualSite type="average2" siteName="M1" atomName1="C1" atomName2="C2" weight1="0.4" weight2="0.6"/>
{bonds}</Residue></Residues>
<NonbondedForce coulomb14scale="0.5" lj14scale="0.5"><UseAttributeFromResidue name="charge"/>
{nonbonded}</NonbondedForce>
{section}</ForceField>"""
ATOMS = """<UseAttributeFromResidue name="q"/><Atom class="C" s="0.3"/><Atom type="c2" s="0.25"/>
<Atom class="O" s="0.28"/><Atom class="H" s="0.1"/><Atom type="m" s="0.05"/>"""
TYPED = re.sub('(s="0.[1-3])', r'filterType="1" \1', ATOMS).replace('s="0.05"', 'filterType="0" s="0.05"')
PER = '<PerParticleParameter name="q"/><PerParticleParameter name="s"/><GlobalParameter name="g" defaultValue="1.7"/>'
WAVE = " ".join(f"{x:.8f}" for x in np.sin(np.arange(9.0)))
SECTIONS = {
    **{
        f"pairs {k}": f"""<CustomNonbondedForce energy="g*h1*h2*exp(-r/(s1+s2))*(1+t(s1)*t(s2))" bondCutoff="{k}">{PER}
<ComputedValue name="h" expression="q+s"/>{ATOMS}
<Function name="t" type="Continuous1D" min="0" max="0.5">{WAVE}</Function>
</CustomNonbondedForce>"""
        for k in (0, 2, 3)
    },
    "Lennard-Jones": f"""<CustomNonbondedForce energy="g*((s/r)^12-(s/r)^6); s=s1+s2" bondCutoff="3">{PER}{ATOMS}
</CustomNonbondedForce>""",
    "Born": f"""<CustomGBForce>{PER}<ComputedValue name="I" type="ParticlePair">s1*exp(-r/s2)+T(s1,s2)</ComputedValue>
<ComputedValue name="B" type="SingleParticle">s/(1+I)</ComputedValue>
<EnergyTerm type="SingleParticle">g*B*q^2</EnergyTerm>
<EnergyTerm type="ParticlePairNoExclusions">q1*q2/(r+B1+B2)</EnergyTerm>{ATOMS}
<Function name="T" type="Continuous2D" xsize="3" ysize="3" xmin="0" xmax="0.4" ymin="0" ymax="0.5">{WAVE}</Function>
</CustomGBForce>""",
    **{
        f"hydrogen bonds {d} {a}": f"""<CustomHbondForce energy="{energy}" bondCutoff="2" particlesPerDonor="{d}"
particlesPerAcceptor="{a}"><GlobalParameter name="g" defaultValue="1.7"/><PerDonorParameter name="k"/>
<PerAcceptorParameter name="b"/>{donors}{acceptors}
<Function name="t" type="Discrete1D">1 2 3 4</Function></CustomHbondForce>"""
        for d, a, energy, donors, acceptors in (
            (
                1,
                1,
                "g*k*b*exp(-distance(d1,a1))*t(2)",
                '<Donor class1="H" k="2"/><Donor type1="c1" k="3"/>',
                '<Acceptor class1="O" b="1.5"/>',
            ),
            (
                2,
                3,
                "k*b*(1+cos(angle(d2,d1,a1)))+g*dihedral(d1,a1,a2,a3)",
                '<Donor class1="H" class2="O" k="2"/><Donor class1="C" class2="H" k="3"/>',
                '<Acceptor type1="o" class2="C" class3="C" b="1.5"/>',
            ),
            (
                3,
                2,
                "k*b*(1+cos(angle(d3,d1,a2)))*distance(d2,a1)",
                '<Donor class1="H" class2="O" type3="c2" k="2"/>',
                '<Acceptor class1="O" type2="c2" b="1.5"/>',
            ),
        )
    },
    **{
        f"many {mode}": f"""<CustomManyParticleForce energy="g*s1*s2*s3*(1+3*cos(angle(p1,p2,p3)))/distance(p1,p3)"
particlesPerSet="3" permutationMode="{mode}" bondCutoff="2">{PER}<TypeFilter index="0" types="1,2"/>
{TYPED}</CustomManyParticleForce>"""
        for mode in ("SinglePermutation", "UniqueCentralParticle")
    },
}
RNG = np.random.default_rng(3)


def field(section):
    bonds = "".join(f'<Bond from="{i}" to="{j}"/>' for i, j in BONDS)
    charges = [0.1, 0.2, -0.5, 0.3, 0.1, -0.2]
    kinds = "".join(f'<Atom type="{t}" sigma="0.3" epsilon="0"/>' for t in ("c1", "c2", "o", "h", "m"))
    text = FIELD.format(bonds=bonds, nonbonded=kinds, section=section)
    for name, q in zip(NAMES, charges):
        text = text.replace(f'<Atom name="{name}"', f'<Atom name="{name}" charge="{q}"')
    return text


def both(section, folder, box):
    """Our system, OpenMM's, and positions."""
    (folder / "f.xml").write_text(field(section))
    n = len(NAMES)
    bonds = np.array([np.array(b) + n * m for m in range(MOLECULES) for b in BONDS])
    topology = sponge.Topology(
        NAMES * MOLECULES,
        [6, 6, 8, 1, 1, 0] * MOLECULES,
        np.repeat(np.arange(MOLECULES), n),
        ["ONE"] * MOLECULES,
        [str(m) for m in range(MOLECULES)],
        [0] * MOLECULES,
        ["A"],
        bonds,
    )
    theirs = app.Topology()
    chain = theirs.addChain()
    for _ in range(MOLECULES):
        residue = theirs.addResidue("ONE", chain)
        atoms = [
            theirs.addAtom(name, None if name == "M1" else app.element.Element.getBySymbol(name[0]), residue)
            for name in NAMES
        ]
        for i, j in BONDS:
            theirs.addBond(atoms[i], atoms[j])
    molecule = np.array([[0, 0, 0], [0.15, 0, 0], [0.2, 0.13, 0], [0.29, 0.12, 0.03], [-0.05, 0.09, 0], [0.09, 0, 0]])
    places = np.stack(np.meshgrid(*[np.arange(2.0)] * 3), axis=-1).reshape(-1, 3)[:MOLECULES] * 0.55
    x = (molecule + places[:, None]).reshape(-1, 3) + RNG.uniform(-0.02, 0.02, (n * MOLECULES, 3))
    options = {}
    if box is not None:
        theirs.setPeriodicBoxVectors(np.diag(box).tolist())
        options = {"nonbondedMethod": app.CutoffPeriodic, "nonbondedCutoff": 0.55}
    ours = sponge.create_system(
        topology, x, box, folder / "f.xml", **({"method": "reaction_field", "cutoff": 0.55} if box is not None else {})
    )
    made = app.ForceField(str(folder / "f.xml")).createSystem(theirs, **options)
    return ours, made, ours.positions


def assert_same(ours, theirs, x, rtol=1e-10):
    context = mm.Context(theirs, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(x)
    context.computeVirtualSites()
    state = context.getState(getEnergy=True, getForces=True)
    energy, forces = state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value
    assert ours.energy() == pytest.approx(energy, rel=rtol)
    real = ours.masses > 0  # OpenMM leaves at virtual sites what it has given to their atoms
    np.testing.assert_allclose(ours.forces()[real], forces[real], rtol=0, atol=rtol * np.abs(forces).max())


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_are_those_of_openmm(name, tmp_path):
    ours, theirs, x = both(SECTIONS[name], tmp_path, None)
    assert len(ours.potentials) == 3  # Nonbonded, 1-4 pairs, and the section's
    assert_same(ours, theirs, x)


@pytest.mark.parametrize("name", ["pairs 3", "Lennard-Jones", "Born", "hydrogen bonds 1 1", "many SinglePermutation"])
def test_sections_in_a_box(name, tmp_path):
    ours, theirs, x = both(SECTIONS[name], tmp_path, [1.2, 1.3, 1.25])
    assert_same(ours, theirs, x)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (SECTIONS["pairs 3"].replace('bondCutoff="3"', ""), "<CustomNonbondedForce> must give bondCutoff"),
        (SECTIONS["pairs 3"].replace("exp(", "expo("), "function 'expo' is not supported"),
        (
            SECTIONS["many SinglePermutation"].replace("SinglePermutation", "Every"),
            "must be 'SinglePermutation' or 'UniqueCentralParticle', got 'Every'",
        ),
        (
            SECTIONS["hydrogen bonds 1 1"].replace('particlesPerDonor="1"', 'particlesPerDonor="4"'),
            "particlesPerDonor .* must be 1, 2 or 3, got 4",
        ),
        (SECTIONS["pairs 3"].replace('class="O" s="0.28"', 'class="O"'), "must give s of each type"),
        (SECTIONS["pairs 3"].replace('<Atom class="O" s="0.28"/>', ""), "got none for type 'o'"),
        (SECTIONS["pairs 3"].replace("<ComputedValue", "<Script/><ComputedValue"), "got 'Script'"),
    ],
)
def test_errors_name_the_section(section, message, tmp_path):
    with pytest.raises((FileFormatError, MissingParameterError), match=message):
        both(section, tmp_path, None)
