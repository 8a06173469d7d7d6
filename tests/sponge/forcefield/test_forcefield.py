"""Force fields in ffxml: energies of whole proteins, the terms of every template, definitions, and the errors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.sponge.differential.compare import differences
from tests.sponge.forcefield.test_templates import chain_of
from tests.sponge.reference import DATA, load_reference
from triskele import sponge
from triskele.sponge.errors import FileFormatError
from triskele.sponge.forcefield import ForceField, create_system
from triskele.sponge.forcefield.tables import TermTable
from triskele.sponge.load.pdb import read_pdb, write_pdb
from triskele.sponge.topology import Topology

BPTI = DATA / "bpti_ff14sb_vacuum" / "bpti.pdb"
DHFR = DATA / "dhfr_pme" / "5dfr_solv-cube_equil.pdb.gz"
PROTEINS = ("amber14/protein.ff14SB", "amber19/protein.ff19SB")
TERMS = {
    "bond": "HarmonicBondForce",
    "angle": "HarmonicAngleForce",
    "torsion": "PeriodicTorsionForce",
    "cmap": "CMAPTorsionForce",
}


@pytest.fixture(scope="module")
def bpti():
    return read_pdb(BPTI)


def energies(system, positions):
    return {p.name: float(p.energy(p.params, positions, system.box)) for p in system.potentials}


# -- energies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "forcefield"), [("bpti_ff14sb_vacuum", PROTEINS[0]), ("bpti_ff19sb_vacuum", PROTEINS[1])]
)
def test_every_term_of_a_protein(bpti, name, forcefield):
    reference = load_reference(name)
    system = create_system(bpti.topology, bpti.positions, None, forcefield)
    found = energies(system, reference.positions)
    for term, other in TERMS.items():
        if other in reference.energies:
            assert found[term] == pytest.approx(reference.energies[other], rel=1e-9), term
    assert found["nonbonded"] + found["pair14"] == pytest.approx(reference.energies["NonbondedForce"], rel=1e-9)
    assert system.n == 892 and not len(system.constraints)


@pytest.mark.parametrize(
    ("forcefield", "expected"),
    [
        # OpenMM 8.6.1, Reference platform, positions of the PDB file
        (PROTEINS[0], {"bond": 1722.2037322856388, "angle": 4893.82483805666, "torsion": 8723.551371849706}),
        (
            PROTEINS[1],
            {
                "bond": 1722.2037322856388,
                "angle": 4893.82483805666,
                "torsion": 3844.7603700253762,
                "cmap": 689.5380298875616,
            },
        ),
    ],
)
def test_bonded_terms_of_a_solvated_protein(forcefield, expected):
    s = read_pdb(DHFR)
    system = create_system(s.topology, s.positions, s.box, [forcefield, "amber14/tip3p"])
    for name, energy in expected.items():
        p = system[name]
        assert float(p.energy(p.params, s.positions, s.box)) == pytest.approx(energy, rel=1e-9), name
    assert system.nonbonded.method == "pme" and len(system.constraints) == 3 * 7023


def test_solvated_protein_is_that_of_the_reference():
    """Every parameter, with force-field files that come with OpenMM."""
    app = pytest.importorskip("openmm.app")
    from triskele.sponge.load.openmm_xml import load_openmm

    reference, s = load_reference("dhfr_pme"), read_pdb(DHFR)
    files = [Path(app.__file__).parent / "data" / f for f in ("amber99sb.xml", "tip3p.xml")]
    mine = create_system(s.topology, reference.positions, reference.box, files, constraints="h-bonds")
    other = load_openmm(reference.xml)
    for name in ("charges", "sigmas", "epsilons"):
        np.testing.assert_allclose(mine.nonbonded.params[name], other.nonbonded.params[name], rtol=1e-12)
    for name in ("bond", "angle", "torsion", "pair14"):
        a, b = (float(x[name].energy(x[name].params, reference.positions, reference.box)) for x in (mine, other))
        assert a == pytest.approx(b, rel=1e-12) and len(mine[name].atoms) == len(other[name].atoms)
    assert {tuple(e) for e in mine.exclusions.tolist()} == {tuple(sorted(e)) for e in other.exclusions.tolist()}
    assert _by_pair(mine.constraints) == pytest.approx(_by_pair(other.constraints), rel=1e-12)


@pytest.mark.parametrize(
    ("folder", "forcefield"),
    [("water_tip3p", "tip3p"), ("water_spce", "spce"), ("water_tip4pew", "tip4pew"), ("water_opc", "opc")],
)
def test_water_is_that_of_the_references(folder, forcefield):
    """Charges, masses, constraints and sites, read from the XML of the reference."""
    from triskele.sponge.load.openmm_xml import load_openmm

    other = load_openmm(load_reference(folder).xml)
    atoms = other.n // 500
    names = ["O", "H1", "H2", "M"][:atoms]
    topology = Topology(
        names * 500,
        [8, 1, 1, 0][:atoms] * 500,
        np.repeat(np.arange(500), atoms),
        ["HOH"] * 500,
        np.arange(500).astype(str),
        np.zeros(500, int),
        ["A"],
        (np.array([[0, 1], [0, 2]]) + atoms * np.arange(500)[:, None, None]).reshape(-1, 2),
    )
    system = create_system(topology, None, other.box, f"amber14/{forcefield}")
    np.testing.assert_array_equal(system.masses, other.masses)
    for name in ("charges", "sigmas", "epsilons"):
        np.testing.assert_allclose(system.nonbonded.params[name], other.nonbonded.params[name], rtol=1e-12)
    assert _by_pair(system.constraints) == pytest.approx(_by_pair(other.constraints), rel=1e-9)
    assert {tuple(e) for e in system.exclusions.tolist()} == {tuple(e) for e in other.exclusions.tolist()}
    if atoms == 4:
        np.testing.assert_allclose(system.virtual_sites[0].weights[0], other.virtual_sites[0].weights[0], rtol=1e-9)


def _by_pair(constraints):
    return {tuple(sorted(p)): d for p, d in zip(constraints.pairs.tolist(), constraints.distances)}


def test_implicit_solvent(bpti):
    reference = load_reference("bpti_ff14sb_obc2")
    system = create_system(bpti.topology, bpti.positions, None, PROTEINS[0], implicit_solvent="obc2")
    gb = system["gb"]
    assert float(gb.energy(gb.params, reference.positions, None)) == pytest.approx(
        reference.energies["CustomGBForce"], rel=1e-6
    )


# -- the same systems as OpenMM's ForceField
# -------------------------------------------------------------------------------


def chains(name):
    """Molecules that hold every template of a force field with no, one or two ends."""
    field = ForceField(name)
    if "lipid" in name:  # without serines: OpenMM may take their equivalent oxygens for each other in the improper
        return [(field, chain_of(field, [lipid])) for lipid in field.templates if not lipid.endswith("PS")]
    if "protein" not in name:
        middle = [n for n, t in field.templates.items() if t.external.sum() == 2]
        ends = [[n for n in field.templates if n.endswith(end)] for end in "53"]
        return [(field, chain_of(field, [five, *middle, three], "P", "O3'")) for five, three in zip(*ends)]
    middle = [n for n, t in field.templates.items() if len(n) == 3 and n not in ("ACE", "NME", "NHE")]
    out = [["ACE", *middle, "CYX", "NME"], ["ACE", "ALA", "NHE"]]
    heads = [n for n in field.templates if len(n) == 4 and n[0] == "N"]
    tails = [n for n in field.templates if len(n) == 4 and n[0] == "C"]
    for k in range(max(len(heads), len(tails))):
        names = [heads[k % len(heads)], "GLY", tails[k % len(tails)]]
        out.append(names if sum("CYX" in n for n in names) % 2 == 0 else [*names[:2], "CYX", names[2]])
    return [(field, chain_of(field, names)) for names in out]


def openmm_topology(t):
    from openmm import app

    top = app.Topology()
    chain = top.addChain("A")
    residues = [top.addResidue(str(n), chain) for n in t.residue_names]
    atoms = [
        top.addAtom(str(n), app.Element.getByAtomicNumber(int(e)) if e else None, residues[r])
        for n, e, r in zip(t.names, t.elements, t.residue_index)
    ]
    for i, j in t.bonds.tolist():
        top.addBond(atoms[i], atoms[j])
    return top


def terms_of(system):
    """Atoms and parameters of OpenMM's forces, in the order of one of our term lists."""
    import openmm

    found = {}
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce):
            found["bond"] = [
                (i, j, k._value, r._value) for i, j, r, k in map(force.getBondParameters, range(force.getNumBonds()))
            ]
        elif isinstance(force, openmm.HarmonicAngleForce):
            found["angle"] = [
                (i, j, k, c._value, t._value)
                for i, j, k, t, c in map(force.getAngleParameters, range(force.getNumAngles()))
            ]
        elif isinstance(force, openmm.PeriodicTorsionForce):
            found["torsion"] = [
                (i, j, k, l, c._value, n, p._value)
                for i, j, k, l, n, p, c in map(force.getTorsionParameters, range(force.getNumTorsions()))
            ]
        elif isinstance(force, openmm.NonbondedForce):
            found["atoms"] = [
                tuple(v._value for v in force.getParticleParameters(i)) for i in range(force.getNumParticles())
            ]
            pairs = [force.getExceptionParameters(i) for i in range(force.getNumExceptions())]
            found["exclusions"] = [tuple(sorted(p[:2])) for p in pairs]
            found["pair14"] = [
                (*sorted(p[:2]), *(v._value for v in p[2:])) for p in pairs if p[2]._value or p[4]._value
            ]
        elif isinstance(force, openmm.CMAPTorsionForce):
            found["cmap"] = sorted(tuple(force.getTorsionParameters(i)[1:]) for i in range(force.getNumTorsions()))
    return found


def one_way(rows, atoms):
    """Terms sorted, each in the direction in which its first atom is below its last."""
    rows = [(*(r[:atoms] if r[0] < r[atoms - 1] else r[:atoms][::-1]), *(round(v, 9) for v in r[atoms:])) for r in rows]
    return sorted(rows)


@pytest.mark.parametrize(
    "name",
    [*PROTEINS, "amber14/DNA.OL15", "amber14/DNA.bsc1", "amber19/DNA.OL21", "amber14/RNA.OL3", "amber14/lipid17"],
)
def test_every_template_gives_the_terms_of_openmm(name):
    app = pytest.importorskip("openmm.app")
    other = app.ForceField(f"{name}.xml")
    seen = set()
    for field, topology in chains(name):
        system, theirs = (
            create_system(topology, forcefield=field),
            terms_of(other.createSystem(openmm_topology(topology))),
        )
        seen |= set(topology.residue_names.tolist())
        for term, atoms, columns in (
            ("bond", 2, "k r0"),
            ("angle", 3, "k theta0"),
            ("torsion", 4, "k periodicity phase"),
            ("pair14", 2, "charge_product sigma epsilon"),
        ):
            p = system[term]
            mine = [(*a, *v) for a, v in zip(p.atoms.tolist(), zip(*(p.params[c].tolist() for c in columns.split())))]
            assert one_way(mine, atoms) == one_way(theirs[term], atoms), (term, topology.residue_names)
        params = system.nonbonded.params
        np.testing.assert_allclose(
            np.column_stack([params["charges"], params["sigmas"], params["epsilons"]]), theirs["atoms"], rtol=1e-12
        )
        assert sorted(map(tuple, system.exclusions.tolist())) == sorted(theirs["exclusions"])
        if theirs.get("cmap"):
            cmap = system["cmap"]
            assert sorted(map(tuple, np.concatenate([cmap.phi, cmap.psi], 1).tolist())) == theirs["cmap"]
    assert len(seen) >= len(ForceField(name).templates) - 8  # lone nucleosides and lipids with serine are left


@pytest.mark.parametrize(
    ("constraints", "theirs"),
    [(None, "None"), ("h-bonds", "HBonds"), ("all-bonds", "AllBonds"), ("h-angles", "HAngles")],
)
@pytest.mark.parametrize(("rigid_water", "hydrogen_mass"), [(True, None), (True, 3.0), (False, None)])
def test_constraints_and_masses_of_openmm(constraints, theirs, rigid_water, hydrogen_mass):
    app = pytest.importorskip("openmm.app")
    protein = chain_of(ForceField(PROTEINS[0]), ["ACE", "SER", "HIP", "NME"])
    n = protein.n
    t = Topology(
        [*protein.names, "O", "H1", "H2"],
        [*protein.elements, 8, 1, 1],
        [*protein.residue_index, 4, 4, 4],
        [*protein.residue_names, "HOH"],
        [*protein.residue_ids, "5"],
        np.zeros(5, int),
        ["A"],
        [*protein.bonds.tolist(), [n, n + 1], [n, n + 2]],
    )
    sources = [PROTEINS[0], "amber14/tip3p"]
    other = app.ForceField(*(f"{s}.xml" for s in sources)).createSystem(
        openmm_topology(t), constraints=getattr(app, theirs, None), rigidWater=rigid_water, hydrogenMass=hydrogen_mass
    )
    mine = create_system(
        t, forcefield=sources, constraints=constraints, rigid_water=rigid_water, hydrogen_mass=hydrogen_mass
    )
    fixed = [other.getConstraintParameters(i) for i in range(other.getNumConstraints())]
    assert _by_pair(mine.constraints) == pytest.approx(
        {tuple(sorted((i, j))): d._value for i, j, d in fixed}, rel=1e-12
    )
    np.testing.assert_allclose(mine.masses, [other.getParticleMass(i)._value for i in range(t.n)], rtol=1e-12)
    terms = terms_of(other)
    assert {k: len(mine[k].atoms) if k in mine else 0 for k in ("bond", "angle")} == {
        k: len(terms[k]) for k in ("bond", "angle")
    }


# -- rules of definitions
# --------------------------------------------------------------------------------------------------


def test_specific_definitions_go_before_wildcards_and_early_before_late():
    from triskele.sponge.forcefield.ffxml import AtomType

    a, b = AtomType("a", "A", 1.0, 6), AtomType("b", "B", 1.0, 6)
    table = TermTable(2)
    table.add((None, ("class", "B")), "wild")
    table.add((("class", "B"), ("type", "a")), "first")
    table.add((("class", "A"), ("class", "B")), "second")
    assert table.values[table.find((a, b))] == "first"
    assert table.values[table.find((b, b))] == "wild"
    assert table.find((a, a)) is None


@pytest.mark.parametrize("ordering", ["default", "charmm", "amber", "smirnoff"])
@pytest.mark.parametrize(
    "improper",
    [
        'class1="B" class2="" class3="" class4="F"',
        'class1="B" class2="F" class3="A" class4="C"',
        'class1="B" class2="" class3="A" class4=""',
    ],
)
def test_torsions_of_both_kinds_and_nbfix_match_openmm(tmp_path, ordering, improper):
    """A made-up chain with Ryckaert-Bellemans and periodic torsions, impropers of each ordering, and pair
    exceptions.
    """
    pytest.importorskip("openmm")
    import openmm
    from openmm import app

    path = tmp_path / "chain.xml"
    text = (DATA / "pdb" / "chain.xml").read_text()
    path.write_text(text.replace("ORDER", ordering).replace("IMPROPER", improper))
    topology = Topology(
        list("ABCDEF"),
        [6, 6, 7, 8, 6, 9],
        [0] * 6,
        ["MOL"],
        ["1"],
        [0],
        ["A"],
        [[0, 1], [1, 2], [2, 3], [3, 4], [1, 5]],
    )
    positions = np.array([[0, 0, 0], [0.15, 0, 0], [0.2, 0.14, 0], [0.34, 0.16, 0.05], [0.4, 0.2, 0.19],
                          [0.2, -0.08, 0.11]])  # fmt: skip
    other = app.ForceField(str(path)).createSystem(openmm_topology(topology), removeCMMotion=False)
    context = openmm.Context(other, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    system = create_system(topology, positions, None, path)
    assert {"torsion", "pair14"} < set(energies(system, positions))
    assert sum(energies(system, positions).values()) == pytest.approx(
        context.getState(getEnergy=True).getPotentialEnergy()._value, rel=1e-9
    )


SITES = {
    "average2": 'weight1="0.3" weight2="0.7"',
    "average3": 'weight1="0.2" weight2="0.3" weight3="0.5"',
    "outOfPlane": 'weight12="-0.3" weight13="-0.4" weightCross="-6.4"',
    "localCoords": 'wo1="0.2" wo2="0.3" wo3="0.5" wx1="-1" wx2="0.5" wx3="0.5" wy1="0" wy2="-1" wy3="1" p1="0.01" '
    'p2="0.02" p3="-0.03"',
}


def test_constraints_of_templates_match_openmm(tmp_path):
    """They replace bonds, and constraints of other lengths."""
    app = pytest.importorskip("openmm.app")
    path = tmp_path / "fixed.xml"
    path.write_text("""<ForceField><AtomTypes><Type name="a" class="a" element="C" mass="12"/><Type name="h" class="h" element="H" mass="1"/></AtomTypes>
 <Residues><Residue name="MOL"><Atom name="A" type="a"/><Atom name="B" type="a"/><Atom name="H" type="h"/><Bond from="0" to="1"/>
  <Bond from="1" to="2"/><Constraint atomName1="B" atomName2="A" distance="0.16"/><Constraint atomName1="A" atomName2="H" distance="0.2"/></Residue></Residues>
 <HarmonicBondForce><Bond class1="a" class2="" length="0.1" k="1000"/></HarmonicBondForce>
</ForceField>""")  # noqa: E501
    topology = Topology(list("ABH"), [6, 6, 1], [0] * 3, ["MOL"], ["1"], [0], ["A"], [[0, 1], [1, 2]])
    for constraints, theirs in ((None, None), ("all-bonds", app.AllBonds)):
        other = app.ForceField(str(path)).createSystem(openmm_topology(topology), constraints=theirs)
        fixed = [other.getConstraintParameters(i) for i in range(other.getNumConstraints())]
        system = create_system(topology, forcefield=path, constraints=constraints)
        assert _by_pair(system.constraints) == pytest.approx({tuple(sorted((i, j))): d._value for i, j, d in fixed})
        assert (len(system["bond"].atoms) if "bond" in system else 0) == len(terms_of(other)["bond"])


@pytest.mark.parametrize("kind", SITES)
def test_virtual_sites_of_every_kind_match_openmm(tmp_path, kind):
    """Positions of the site, and whom it does not interact with."""
    openmm = pytest.importorskip("openmm")
    from openmm import app

    path = tmp_path / "site.xml"
    parents = "".join(f' atomName{k}="{n}"' for k, n in enumerate("ABC"[: 2 if kind == "average2" else 3], 1))
    path.write_text(f"""<ForceField><AtomTypes><Type name="a" class="a" element="C" mass="12"/><Type name="m" class="m" mass="0"/></AtomTypes>
 <Residues><Residue name="MOL">{"".join(f'<Atom name="{n}" type="{t}" charge="0.1"/>' for n, t in zip("ABCDEM", "aaaaam"))}
  <VirtualSite type="{kind}" siteName="M"{parents} {SITES[kind]}/>
  {"".join(f'<Bond atomName1="{i}" atomName2="{j}"/>' for i, j in ("AB", "BC", "CD", "DE"))}</Residue></Residues>
 <NonbondedForce coulomb14scale="0.5" lj14scale="0.5"><UseAttributeFromResidue name="charge"/><Atom class="" sigma="0.3" epsilon="0.1"/></NonbondedForce>
</ForceField>""")  # noqa: E501
    topology = Topology(
        list("ABCDEM"), [6, 6, 6, 6, 6, 0], [0] * 6, ["MOL"], ["1"], [0], ["A"], [[0, 1], [1, 2], [2, 3], [3, 4]]
    )
    positions = np.random.default_rng(1).uniform(0, 0.5, (6, 3))
    other = app.ForceField(str(path)).createSystem(openmm_topology(topology))
    context = openmm.Context(other, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    context.computeVirtualSites()
    system = create_system(topology, positions, None, path)
    np.testing.assert_allclose(
        system.positions, context.getState(getPositions=True).getPositions(asNumpy=True)._value, atol=1e-12
    )
    theirs = terms_of(other)
    assert sorted(map(tuple, system.exclusions.tolist())) == sorted(theirs["exclusions"])
    assert sorted(map(tuple, system["pair14"].atoms.tolist())) == sorted(p[:2] for p in theirs["pair14"])


# -- loading -----------------------------------------------------------------------------------------------------------


def test_load_passes_options_with_a_structure(tmp_path):
    system = sponge.load(
        BPTI, forcefield=PROTEINS[0], constraints="h-bonds", hydrogen_mass=4.0, method="cutoff", cutoff=1.1
    )
    assert len(system.constraints) == np.sum(system.topology.elements == 1)
    assert system.masses[system.topology.elements == 1].tolist() == [4.0] * len(system.constraints)
    assert (system.nonbonded.method, system.nonbonded.cutoff) == ("cutoff", 1.1)
    assert system.masses.sum() == pytest.approx(sponge.load(BPTI, forcefield=PROTEINS[0]).masses.sum())


def test_bonds_of_ones_own_residues_come_from_their_templates(tmp_path):
    """A ligand and a modified amino acid (hydroxyproline) in a PDB file without CONECT records."""
    t = chain_of(ForceField(PROTEINS[0]), ["ACE", "HYP", "NME"])
    write_pdb(tmp_path / "hyp.pdb", t, np.random.default_rng(0).uniform(0, 0.2, (t.n, 3)))
    text = (tmp_path / "hyp.pdb").read_text()
    (tmp_path / "hyp.pdb").write_text("".join(line for line in text.splitlines(True) if not line.startswith("CONECT")))
    system = sponge.load(tmp_path / "hyp.pdb", forcefield=PROTEINS[0])
    assert {tuple(b) for b in system.topology.bonds.tolist()} == {tuple(sorted(b)) for b in t.bonds.tolist()}


def test_bonds_given_twice_act_once(bpti):
    t = bpti.topology
    twice = replace(t, bonds=np.concatenate([t.bonds, t.bonds[:, ::-1]]))
    assert len(create_system(twice, forcefield=PROTEINS[0])["bond"].atoms) == len(t.bonds)
    with pytest.raises(ValueError, match=r"got one of atom 3 \(ARG 1 O\) with itself"):
        create_system(replace(t, bonds=np.concatenate([t.bonds, [[3, 3]]])), forcefield=PROTEINS[0])


def test_implicit_solvent_has_no_box(bpti):
    system = create_system(
        bpti.topology, bpti.positions, [5.0, 5.0, 5.0], PROTEINS[0], implicit_solvent="gbn2", kappa=1.0
    )
    assert system.box is None and system.nonbonded.method == "none" and system["gb"].kappa == 1.0
    cut = create_system(
        bpti.topology, bpti.positions, None, PROTEINS[0], implicit_solvent="gbn2", cutoff=1.2, method="reaction_field"
    )
    assert (cut.nonbonded.cutoff, cut.nonbonded.dielectric, cut["gb"].cutoff) == (1.2, 1.0, 1.2)
    with pytest.raises(ValueError, match="pme"):
        create_system(
            bpti.topology, bpti.positions, [5.0, 5.0, 5.0], PROTEINS[0], implicit_solvent="gbn2", method="pme"
        ).energy()


@pytest.mark.parametrize(
    "files",
    [["amber99sb.xml", "implicit/hct.xml"], ["amber99sb.xml", "implicit/gbn2.xml"], ["amber96.xml", "amber96_obc.xml"]],
)
def test_implicit_solvents_of_files(bpti, files, tmp_path):
    app = pytest.importorskip("openmm.app")
    data = Path(app.__file__).parent / "data"
    topology = app.PDBFile(str(BPTI)).topology
    theirs = app.ForceField(*files).createSystem(topology, nonbondedMethod=app.NoCutoff)
    field = ForceField(*[data / f for f in files])
    ours = create_system(bpti, field)
    assert ours.box is None and "gb" in [p.name for p in ours.potentials]
    assert differences(ours, theirs, bpti.positions, rtol=1e-8) == []
    model = field.implicit_solvent or "obc2"
    with pytest.raises(ValueError, match=f"one implicit solvent, got the force field's '{model}' and .*'obc1'"):
        create_system(bpti, field, implicit_solvent="obc1")
    script = (data / "implicit/obc1.xml").read_text()
    (tmp_path / "changed.xml").write_text(script.replace("p[1]]", "2*p[1]]"))
    with pytest.raises(FileFormatError, match="element <Script> cannot be read: its Python code is not run"):
        ForceField(data / files[0], tmp_path / "changed.xml")
    if "obc" not in files[1]:
        with pytest.raises(FileFormatError, match="must be one implicit solvent"):
            ForceField(*[data / f for f in files], data / "implicit/obc1.xml")


def test_unknown_option(bpti):
    with pytest.raises(TypeError, match="cutof"):
        create_system(bpti.topology, bpti.positions, None, PROTEINS[0], cutof=1.0)
