"""AMBER's files against OpenMM's own reader, term by term."""

import gzip
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sponge.differential import prmtop, psf
from tests.sponge.reference import DATA, openmm_energies, pure_energies, unpacked
from triskele import sponge
from triskele.sponge.errors import FileFormatError
from triskele.sponge.load.amber import load_amber
from triskele.sponge.load.amber_files import Prmtop, columns
from triskele.sponge.pme.parameters import grid_size
from triskele.sponge.potentials.gb.tables import standard_parameters
from triskele.sponge.units import degree, kcal_per_mol
from triskele.sponge.virtual_sites import place_all

VACUUM = [DATA / "ala2_vacuum" / f"alanine-dipeptide.{suffix}" for suffix in ("prmtop", "crd")]
WATER = [DATA / "ala2_explicit_pme" / f"alanine-dipeptide.{suffix}.gz" for suffix in ("prmtop", "crd")]
BPTI = [DATA / "amber" / f"bpti19.{suffix}.gz" for suffix in ("prmtop", "rst7")]
CHAMBER = [DATA / "amber" / f"chamber.{suffix}.gz" for suffix in ("prmtop", "rst7")]


def assert_same_energies(system, omm_system, extra=None, rel=1e-9):
    """All terms of ours and of an OpenMM system agree; `extra` maps further names."""
    ours, theirs = pure_energies(system), openmm_energies(omm_system, system.positions, system.box)
    theirs.pop("CMMotionRemover", None)
    if "LennardJones" in theirs or "CustomNonbondedForce" in theirs:
        theirs["NonbondedForce"] += theirs.pop("LennardJones", 0.0) + theirs.pop("CustomNonbondedForce", 0.0)
    names = {
        "HarmonicBondForce": ["bond"],
        "HarmonicAngleForce": ["angle"],
        "PeriodicTorsionForce": ["torsion"],
        "CMAPTorsionForce": ["cmap"],
        "NonbondedForce": ["nonbonded", "pair14"],
        "UreyBradleyForce": ["urey_bradley"],
        "ImproperTorsionForce": ["improper"],
        "GBSAOBCForce": ["gb"],
        "CustomGBForce": ["gb"],
    } | (extra or {})
    seen = set()
    for name, value in theirs.items():
        assert sum(ours.get(n, 0.0) for n in names[name]) == pytest.approx(value, rel=rel, abs=1e-9), name
        seen.update(names[name])
    assert set(ours) <= seen
    assert system.masses == pytest.approx([omm_system.getParticleMass(i)._value for i in range(system.n)], rel=1e-12)
    fixed = {tuple(sorted(p)): d for p, d in zip(system.constraints.pairs.tolist(), system.constraints.distances)}
    expected = [omm_system.getConstraintParameters(i) for i in range(omm_system.getNumConstraints())]
    assert fixed == pytest.approx({tuple(sorted((i, j))): d._value for i, j, d in expected}, rel=1e-12)


def unzipped(paths, tmp_path):
    return [str(unpacked(p.relative_to(DATA), tmp_path)) if p.suffix == ".gz" else str(p) for p in paths]


class TestAmber:
    @pytest.mark.parametrize("constraints", [None, "h-bonds", "all-bonds", "h-angles"])
    @pytest.mark.parametrize("rigid_water", [True, False])
    def test_constraints(self, constraints, rigid_water, tmp_path):
        app = pytest.importorskip("openmm.app")
        top = app.AmberPrmtopFile(unzipped(WATER, tmp_path)[0])
        kinds = {None: None, "h-bonds": app.HBonds, "all-bonds": app.AllBonds, "h-angles": app.HAngles}
        system = sponge.load(*WATER, constraints=constraints, rigid_water=rigid_water, method="none")
        if (
            constraints == "h-angles"
        ):  # OpenMM's reader of these angles adds none to water, whose sides are listed as bonds
            assert len(system.constraints) > len(sponge.load(*WATER, constraints="all-bonds").constraints)
        elif constraints is not None or rigid_water:
            assert_same_energies(system, top.createSystem(constraints=kinds[constraints], rigidWater=rigid_water))
        else:
            assert len(system.constraints) == 0

    def test_periodic(self, tmp_path):
        app, mm_unit = pytest.importorskip("openmm.app"), pytest.importorskip("openmm.unit")
        top = app.AmberPrmtopFile(unzipped(WATER, tmp_path)[0])
        settings = {"nonbondedMethod": app.PME, "nonbondedCutoff": 0.8 * mm_unit.nanometer, "ewaldErrorTolerance": 1e-4}
        system = sponge.load(*WATER, cutoff=0.8, tolerance=1e-4, switch=0.7, constraints="h-bonds", hydrogen_mass=3.0)
        form = system.nonbonded.form(system.box)  # our own mesh has only sizes that are quick to transform
        system.nonbonded.update(grid=grid_size(system.box, form.alpha, 1e-4))
        assert_same_energies(
            system,
            top.createSystem(
                **settings,
                switchDistance=0.7 * mm_unit.nanometer,
                constraints=app.HBonds,
                hydrogenMass=3.0 * mm_unit.dalton,
            ),
        )

    @pytest.mark.parametrize("model", ["hct", "obc1", "obc2", "gbn", "gbn2"])
    def test_implicit_solvent(self, model):
        """OpenMM's custom forces have another Coulomb constant, 138.935485 in place of 138.935458."""
        app = pytest.importorskip("openmm.app")
        names = {"hct": app.HCT, "obc1": app.OBC1, "obc2": app.OBC2, "gbn": app.GBn, "gbn2": app.GBn2}
        system = sponge.load(*VACUUM, implicit_solvent=model, kappa=0.7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about radii of a set that the model was not made with
            omm = app.AmberPrmtopFile(str(VACUUM[0])).createSystem(
                implicitSolvent=names[model], implicitSolventKappa=0.7
            )
        assert_same_energies(system, omm, rel=4e-7)

    @pytest.mark.parametrize("model", ["obc2", "gbn2"])
    def test_implicit_solvent_with_a_cutoff(self, model):
        app = pytest.importorskip("openmm.app")
        system = sponge.load(*VACUUM, implicit_solvent=model, method="reaction_field", cutoff=0.6)
        assert system["gb"].cutoff == 0.6
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            omm = app.AmberPrmtopFile(str(VACUUM[0])).createSystem(
                implicitSolvent={"obc2": app.OBC2, "gbn2": app.GBn2}[model],
                nonbondedMethod=app.CutoffNonPeriodic,
                nonbondedCutoff=0.6,
            )
        assert_same_energies(system, omm, rel=4e-7)

    def test_salt_is_a_debye_length(self):
        dilute, salty = (sponge.load(*VACUUM, implicit_solvent="obc2", salt=c)["gb"].kappa for c in (0.1, 0.4))
        assert salty == pytest.approx(2 * dilute)
        with pytest.raises(TypeError, match="salt belong to an implicit solvent"):
            sponge.load(*VACUUM, salt=0.1)

    def test_cross_terms(self, tmp_path):
        app = pytest.importorskip("openmm.app")
        system = sponge.load(*BPTI)
        assert len(system["cmap"].types) == 56
        assert_same_energies(system, app.AmberPrmtopFile(unzipped(BPTI, tmp_path)[0]).createSystem())

    def test_a_changed_pair_of_types_makes_a_table(self, tmp_path):
        app = pytest.importorskip("openmm.app")
        system = sponge.load(DATA / "amber" / "nbfix.prmtop.gz", VACUUM[1])
        assert system.nonbonded.mixing == "table"
        assert_same_energies(
            system, app.AmberPrmtopFile(str(unpacked("amber/nbfix.prmtop.gz", tmp_path))).createSystem()
        )

    def test_chamber(self, tmp_path):
        """Urey-Bradley terms, harmonic impropers, cross terms and 1-4 coefficients of CHARMM."""
        app = pytest.importorskip("openmm.app")
        system = sponge.load(*CHAMBER, method="none")
        assert {"urey_bradley", "improper", "cmap"} <= {p.name for p in system.potentials}
        assert_same_energies(
            system, app.AmberPrmtopFile(unzipped(CHAMBER, tmp_path)[0]).createSystem(nonbondedMethod=app.NoCutoff)
        )

    def test_names(self):
        t = sponge.load(*WATER).topology
        assert t.describe(0) == "atom 0 (ACE 1 HH31)" and t.describe(22) == "atom 22 (WAT 4 O)"
        assert [t.elements[i] for i in (0, 1, 5, 6, 22, 23)] == [1, 6, 8, 7, 8, 1]
        assert np.bincount(t.molecules).tolist() == [22, *[3] * 749]
        assert len(t.bonds) == 21 + 2 * 749  # no bonds between hydrogens

    def test_reads_the_same_gzipped_and_with_windows_line_ends(self, tmp_path):
        windows = tmp_path / "windows.parm7"
        windows.write_bytes(VACUUM[0].read_bytes().replace(b"\n", b"\r\n"))
        packed = tmp_path / "packed.prmtop.gz"
        packed.write_bytes(gzip.compress(VACUUM[0].read_bytes()))
        expected = pure_energies(sponge.load(*VACUUM))
        for path in (windows, packed):
            assert pure_energies(sponge.load(path, VACUUM[1])) == expected

    def test_lines_without_blanks_at_the_end(self, tmp_path):
        """As editors leave them."""
        path = tmp_path / "stripped.prmtop"
        path.write_text("\n".join(line.rstrip() for line in VACUUM[0].read_text().split("\n")))
        assert pure_energies(sponge.load(path, VACUUM[1])) == pure_energies(sponge.load(*VACUUM))

    def test_a_topology_alone_has_no_positions(self):
        system = sponge.load(VACUUM[0])
        assert system.positions is None and system.n == 22


def write_prmtop(path, pointers, sections):
    """A prmtop from integers, floats and names; what is not given is empty."""
    names = (
        "NATOM NTYPES NBONH MBONA NTHETH MTHETA NPHIH MPHIA NHPARM NPARM NNB NRES NBONA NTHETA NPHIA NUMBND NUMANG "
        "NPTRA NATYP "
        "NPHB IFPERT NBPER NGPER NDPER MBPER MGPER MDPER IFBOX NMXRS IFCAP NUMEXTRA"
    ).split()
    every = {
        "CHARGE": [],
        "BOND_FORCE_CONSTANT": [],
        "BOND_EQUIL_VALUE": [],
        "ANGLE_FORCE_CONSTANT": [],
        "ANGLE_EQUIL_VALUE": [],
        "DIHEDRAL_FORCE_CONSTANT": [],
        "DIHEDRAL_PERIODICITY": [],
        "DIHEDRAL_PHASE": [],
        "HBOND_ACOEF": [],
        "HBOND_BCOEF": [],
        "BONDS_INC_HYDROGEN": [],
        "BONDS_WITHOUT_HYDROGEN": [],
        "ANGLES_INC_HYDROGEN": [],
        "ANGLES_WITHOUT_HYDROGEN": [],
        "DIHEDRALS_INC_HYDROGEN": [],
        "DIHEDRALS_WITHOUT_HYDROGEN": [],
    } | sections
    integers = {
        k
        for k in every
        if "INC_" in k
        or "WITHOUT" in k
        or k
        in (
            "ATOM_TYPE_INDEX",
            "NUMBER_EXCLUDED_ATOMS",
            "RESIDUE_POINTER",
            "NONBONDED_PARM_INDEX",
            "EXCLUDED_ATOMS_LIST",
            "ATOMIC_NUMBER",
        )
    }
    text = "%VERSION  VERSION_STAMP = V0001.000\n%FLAG POINTERS\n%FORMAT(10I8)\n" + _rows(
        [pointers.get(n, 0) for n in names], 10, "{:8d}"
    )
    for name, values in every.items():
        kind = (
            ("(10I8)", 10, "{:8d}")
            if name in integers
            else ("(20a4)", 20, "{:4s}")
            if values and isinstance(values[0], str)
            else ("(5E16.8)", 5, "{:16.8E}")
        )
        text += f"%FLAG {name}\n%FORMAT{kind[0]}\n" + _rows(values, *kind[1:])
    path.write_text(text)
    return path


def _rows(values, per_line, form):
    lines = ["".join(form.format(v) for v in values[k : k + per_line]) for k in range(0, len(values), per_line)]
    return "\n".join(lines or [""]) + "\n"


def water_prmtop(path, points):
    """Two waters with extra points, as AMBER writes TIP4P and TIP5P: bonds O-H, H-H, O-EP."""
    m, n = 3 + points, 2 * (3 + points)
    with_h, without = [], []
    for w in (0, m):
        with_h += [3 * w, 3 * (w + 1), 1, 3 * w, 3 * (w + 2), 1, 3 * (w + 1), 3 * (w + 2), 2]
        for p in range(points):
            without += [3 * w, 3 * (w + 3 + p), 3]
    names = ["O", "H1", "H2", *(["EPW"] if points == 1 else ["EP1", "EP2"])]
    excluded = [[j + 1 for j in range(k + 1, m)] or [0] for k in range(m)]
    flat = [j + (w if j else 0) for w in (0, m) for row in excluded for j in row]
    charges = [0.0, 9.0, 9.0, -18.0] if points == 1 else [0.0, 4.0, 4.0, -4.0, -4.0]
    return write_prmtop(
        path,
        {
            "NATOM": n,
            "NTYPES": 2,
            "NBONH": 6,
            "MBONA": 2 * points,
            "NBONA": 2 * points,
            "NRES": 2,
            "NNB": len(flat),
            "NUMBND": 3,
            "IFBOX": 1,
            "NMXRS": m,
            "NUMEXTRA": 2 * points,
        },
        {
            "ATOM_NAME": names * 2,
            "CHARGE": charges * 2,
            "ATOMIC_NUMBER": [8, 1, 1, *[0] * points] * 2,
            "MASS": [16.0, 1.008, 1.008, *[0.0] * points] * 2,
            "ATOM_TYPE_INDEX": [1, 2, 2, *[2] * points] * 2,
            "NUMBER_EXCLUDED_ATOMS": [len(row) for row in excluded] * 2,
            "NONBONDED_PARM_INDEX": [1, 2, 2, 3],
            "RESIDUE_LABEL": ["WAT"] * 2,
            "RESIDUE_POINTER": [1, m + 1],
            "BOND_FORCE_CONSTANT": [553.0] * 3,
            "BOND_EQUIL_VALUE": [0.9572, 1.5136, 0.125 if points == 1 else 0.7],
            "LENNARD_JONES_ACOEF": [6.5e5, 0.0, 0.0],
            "LENNARD_JONES_BCOEF": [6.5e2, 0.0, 0.0],
            "BONDS_INC_HYDROGEN": with_h,
            "BONDS_WITHOUT_HYDROGEN": without,
            "EXCLUDED_ATOMS_LIST": flat,
            "BOX_DIMENSIONS": [90.0, 25.0, 25.0, 25.0],
            "RADIUS_SET": ["none"],
            "RADII": [1.5] * n,
            "SCREEN": [0.8] * n,
            "AMBER_ATOM_TYPE": ["OW", "HW", "HW", *["EP"] * points] * 2,
        },
    )


@pytest.mark.parametrize("points", [1, 2])
def test_water_with_extra_points(points, tmp_path):
    """Weights of virtual sites and what is excluded, against OpenMM's reading of the same file."""
    app, mm = pytest.importorskip("openmm.app"), pytest.importorskip("openmm")
    path = water_prmtop(tmp_path / "water.prmtop", points)
    theta = 104.52 * degree
    molecule = np.array(
        [[0, 0, 0], [0.09572, 0, 0], [0.09572 * np.cos(theta), 0.09572 * np.sin(theta), 0], *[[0, 0, 0]] * points]
    )
    positions = np.concatenate([molecule, molecule[:, [1, 2, 0]] + [0.1, 0.1, 0.3]])
    system = load_amber(path, positions, method="none")
    assert len(system.constraints) == 6 and len(system.virtual_sites) == points and "bond" not in system
    system.positions = place_all(system.virtual_sites, positions)
    omm = app.AmberPrmtopFile(str(path)).createSystem()
    context = mm.Context(omm, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    context.computeVirtualSites()
    placed = context.getState(getPositions=True).getPositions(asNumpy=True)._value
    assert system.positions == pytest.approx(
        placed, abs=1e-6 if points == 1 else 3e-6
    )  # of five sites OpenMM prints the angle short
    energies = openmm_energies(omm, placed)
    assert sum(pure_energies(system).values()) == pytest.approx(energies["NonbondedForce"], rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-9_999_999, 99_999_999), min_size=1, max_size=40), st.booleans())
def test_columns_of_integers(values, strip):
    """Fields of eight characters, whether they touch or not, also when editors have stripped the lines."""
    text = _rows(values, 10, "{:8d}")
    if strip:
        text = text.rstrip("\n")
    assert columns(text.encode(), 8, 10, int, "x").tolist() == values


def test_constants_of_the_reader():
    """One bond and one charge, by hand."""
    system = sponge.load(*VACUUM)
    bond = system["bond"]
    assert bond.params["r0"].max() == pytest.approx(0.1526, abs=1e-6)
    assert bond.params["k"].max() == pytest.approx(2 * 570 * kcal_per_mol * 100)
    assert system.nonbonded.params["charges"].sum() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("number", [-1, 0])
@pytest.mark.parametrize("mass", [12.01, 72.0], ids=["carbon", "bead"])
def test_bonds_of_atoms_without_an_element_stay(number, mass, tmp_path):
    """LEaP writes -1 where it does not know an element; massless sites are known by their mass."""
    numbers = [1, 6, 1, 1, 6, 8, 7, 1, number, 1, 6, 1, 1, 1, 6, 8, 7, 1, 6, 1, 1, 1]
    path = with_section(tmp_path / "x.prmtop", "MASS", put(8, mass))
    path.write_text(path.read_text().rstrip() + "\n" + prmtop.section("ATOMIC_NUMBER", numbers))
    system, whole = sponge.load(path, VACUUM[1]), sponge.load(*VACUUM)
    assert len(system["bond"].atoms) == len(whole["bond"].atoms) and len(system.topology.bonds) == 21
    assert system.energy_terms() == pytest.approx(whole.energy_terms())
    constrained = sponge.load(path, VACUUM[1], constraints="all-bonds")
    assert len(constrained.constraints) == 21


def test_mass_that_is_none(tmp_path):
    path = with_section(tmp_path / "x.prmtop", "MASS", put(1, -12.01))
    with pytest.raises(FileFormatError, match=r"masses must be finite and >= 0, got -12.01 for atom 2 \(CH3\)"):
        sponge.load(path, VACUUM[1])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore:Non-optimal GB parameters")
def test_random_files(seed, tmp_path):
    """Against OpenMM: unknown elements, repartitioned masses, changed pairs of types, solvents, constraints."""
    pytest.importorskip("openmm")
    assert prmtop.case(seed, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("source", [prmtop, psf])
@pytest.mark.filterwarnings("ignore:Non-optimal GB parameters")
def test_many_random_files(source, tmp_path):
    pytest.importorskip("openmm")
    pytest.importorskip("parmed")
    assert {seed: found for seed in range(1000, 1500) if (found := source.case(seed, tmp_path))} == {}


def with_section(path, name, change):
    """A file whose section has other values: what `change` makes of them."""
    values = Prmtop(VACUUM[0]).get(name)
    head, rest = re.split(rf"%FLAG {name} *\n", VACUUM[0].read_text())
    path.write_text(head + prmtop.section(name, change(values.copy())) + "%FLAG" + rest.split("%FLAG", 1)[1])
    return path


@pytest.mark.parametrize("files, method", [(VACUUM, "none"), (WATER, "cutoff")])
def test_attraction_of_ions(files, method, tmp_path):
    """12-6-4 models, whose r^-4 is a force of its own in ParmEd."""
    parmed = pytest.importorskip("parmed")
    app = pytest.importorskip("openmm.app")
    top = parmed.load_file(str(unpacked(files[0].relative_to(DATA), tmp_path) if files is WATER else files[0]))
    count = len(top.parm_data["LENNARD_JONES_ACOEF"])
    values = np.random.default_rng(1).uniform(0, 50, count).round(4).tolist()
    top.add_flag("LENNARD_JONES_CCOEF", "5E16.8", data=values)
    top.save(str(tmp_path / "ions.prmtop"), overwrite=True)
    options = {} if method == "none" else {"cutoff": 0.8, "dispersion_correction": False}
    system = sponge.load(tmp_path / "ions.prmtop", files[1], method=method, rigid_water=False, **options)
    cut = app.NoCutoff if method == "none" else app.CutoffPeriodic
    omm = parmed.load_file(str(tmp_path / "ions.prmtop")).createSystem(nonbondedMethod=cut, nonbondedCutoff=0.8)
    (force,) = (f for f in omm.getForces() if f.getName() == "CustomNonbondedForce")
    force.setUseLongRangeCorrection(False)
    attraction = openmm_energies(omm, system.positions, system.box)["CustomNonbondedForce"]
    assert system.energy_terms()["ion_dipole"] == pytest.approx(attraction, rel=1e-7)


def put(index, value):
    def change(values):
        values = np.append(values, np.zeros(max(0, index + 1 - len(values)), values.dtype))
        values[index] = value
        return values

    return change


@pytest.mark.parametrize(
    "name, values, message",
    [
        ("LES_NTYP", [2], "locally enhanced sampling"),
        ("LENNARD_JONES_CCOEF", [1.0], r"NONBONDED_PARM_INDEX must name coefficients 1 to 1, got \d+"),
        ("LENNARD_JONES_DCOEF", [1.0], "12-6-4"),
        ("POLARIZABILITY", [1.0], "polarizable"),
        ("IPOL", [1], "IPOL must be 0, got 1"),
        ("AMOEBA_FORCEFIELD", [1], "AMOEBA"),
        ("QUARTIC_BOND", [1.0], "section QUARTIC_BOND is not known"),
        ("MASS", [1.0], "section MASS must occur once"),
    ],
)
def test_sections_that_change_physics_are_refused(name, values, message, tmp_path):
    path = tmp_path / "x.prmtop"
    path.write_text(VACUUM[0].read_text().rstrip() + "\n" + prmtop.section(name, values))
    with pytest.raises(FileFormatError, match=message):
        sponge.load(path, VACUUM[1])


@pytest.mark.parametrize(
    "pointer, message", [(9, "locally enhanced"), (20, "perturbed"), (29, "water cap"), (31, "copies")]
)
def test_pointers_that_change_physics_are_refused(pointer, message, tmp_path):
    path = with_section(tmp_path / "x.prmtop", "POINTERS", put(pointer, 2))
    with pytest.raises(FileFormatError, match=message):
        sponge.load(path, VACUUM[1])


@pytest.mark.parametrize("value", [2.5, -2.0])
def test_periodicity_must_be_an_integer(value, tmp_path):
    path = with_section(tmp_path / "x.prmtop", "DIHEDRAL_PERIODICITY", put(0, value))
    with pytest.raises(FileFormatError, match=f"DIHEDRAL_PERIODICITY must hold integers >= 0, got {value} as entry 1"):
        sponge.load(path, VACUUM[1])


def test_integers_in_a_format_of_numbers(tmp_path):
    path = with_section(tmp_path / "x.prmtop", "ATOM_TYPE_INDEX", lambda values: values.astype(float))
    with pytest.raises(FileFormatError, match="section ATOM_TYPE_INDEX must hold integers"):
        sponge.load(path, VACUUM[1])


def test_implicit_solvent_leaves_the_box_out():
    """A file with a box gives either periodic electrostatics or an implicit solvent, not both."""
    system = sponge.load(*WATER, implicit_solvent="obc2")
    assert system.box is None and system.nonbonded.method == "none" and "gb" in system
    with pytest.raises(ValueError, match="implicit_solvent goes with method='none' or 'reaction_field', got 'pme'"):
        sponge.load(*WATER, implicit_solvent="obc2", method="pme")


@pytest.mark.parametrize(
    "names", [("DG5", "DG"), ("DC3", "DC"), ("RA5", "A"), ("U3", "U"), ("DTN", "DT"), ("THY", "DT")]
)
def test_nucleotides_at_the_ends_of_chains(names):
    """GBn2 has constants of its own for nucleic acids, which ends of chains must get too."""
    ends, inner = (
        standard_parameters(sponge.Topology(list("PNH"), [15, 7, 1], [0] * 3, [name], ["1"], [0], ["A"]), "gbn2")
        for name in names
    )
    protein = standard_parameters(sponge.Topology(list("PNH"), [15, 7, 1], [0] * 3, ["ALA"], ["1"], [0], ["A"]), "gbn2")
    for key in ("scales", "alpha", "beta", "gamma"):
        assert np.array_equal(ends[key], inner[key]) and not np.allclose(ends[key], protein[key])


def test_pairs_with_repulsion_alone(tmp_path):
    """1-4 pairs whose attraction is zero keep their repulsion."""
    path = with_section(tmp_path / "x.prmtop", "LENNARD_JONES_BCOEF", np.zeros_like)
    system, whole = sponge.load(path, VACUUM[1]), sponge.load(*VACUUM)
    pairs, p = whole["pair14"].atoms, whole["pair14"].params
    r = np.linalg.norm(whole.positions[pairs[:, 0]] - whole.positions[pairs[:, 1]], axis=1)
    expected = np.sum(4 * p["epsilon"] * (p["sigma"] / r) ** 12)
    assert system.energy_terms()["lennard_jones_pair"] == pytest.approx(expected, rel=1e-6)
