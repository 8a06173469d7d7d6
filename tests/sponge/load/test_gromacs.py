"""GROMACS topologies: random ones against stored numbers of GROMACS, real ones against ParmEd, and every refusal."""

import gzip
import json

import numpy as np
import pytest

from tests.sponge.differential import gmx
from tests.sponge.differential.gromacs import STORED, case, read
from tests.sponge.reference import DATA, openmm_energies, pure_energies, unpacked
from triskele import sponge
from triskele.sponge.errors import FileFormatError, MissingParameterError
from triskele.sponge.geometry import angles, torsions
from triskele.sponge.load.gromacs_text import read_lines

FILES = DATA / "parmed"
RANDOM = json.loads(gzip.decompress(STORED.read_bytes()))


@pytest.mark.parametrize("k", range(len(RANDOM)))
def test_random_topologies(k, tmp_path):
    """Energies by group of terms and forces, which gmx 2022.5 in double precision computed."""
    stored = RANDOM[k]
    (tmp_path / "x.top").write_text(stored["text"])
    system, positions = read(tmp_path / "x.top", np.array(stored["positions"]))
    forces = None if stored["forces"] is None else np.array(stored["forces"])
    assert gmx.differences(system, positions, stored["energies"], forces) == []


@pytest.mark.slow
@pytest.mark.skipif(gmx.GMX is None, reason="needs gmx_d")
@pytest.mark.parametrize("seed", range(100, 160))
def test_random_topologies_with_gromacs(seed, tmp_path):
    assert case(seed, tmp_path) == []


@pytest.mark.skipif(gmx.GMX is None, reason="needs gmx_d")
@pytest.mark.parametrize("field", ["gromos54a7", "oplsaa", "amber99sb-ildn", "charmm27"])
def test_force_fields_of_gromacs(field, tmp_path):
    """A peptide as pdb2gmx describes it: #include, macros, types with wildcards, combination rules 1 to 3."""
    (tmp_path / "in.gro").write_bytes(gzip.decompress((FILES / "peptide_amber.gro.gz").read_bytes()))
    gmx.run(tmp_path, *f"pdb2gmx -f in.gro -ff {field} -water none -ignh -o out.gro -p topol.top".split())
    positions = sponge.load(tmp_path / "topol.top", tmp_path / "out.gro", method="cutoff", cutoff=0.5).positions
    positions = (positions - positions.mean(0) + 10).round(9)
    system, positions = read(tmp_path / "topol.top", positions)
    assert gmx.compare_with_gromacs(system, tmp_path, tmp_path / "topol.top", positions) == []


@pytest.mark.parametrize(
    "top, gro", [("charmm27.top", "peptide_charmm27.gro"), ("amber99sb-ildn.top", "peptide_amber.gro")]
)
@pytest.mark.filterwarnings("ignore")
def test_peptides_as_parmed_reads_them(top, gro, tmp_path):
    parmed = pytest.importorskip("parmed")
    system = sponge.load(FILES / f"{top}.gz", FILES / f"{gro}.gz", method="cutoff")
    system.nonbonded.update(method="none")
    ours = pure_energies(system)
    expected = openmm_energies(
        parmed.load_file(str(unpacked(f"parmed/{top}.gz", tmp_path))).createSystem(rigidWater=False), system.positions
    )
    assert sum(ours.values()) == pytest.approx(sum(expected.values()), rel=1e-9)
    assert ours["nonbonded"] + ours["pair14"] == pytest.approx(expected["NonbondedForce"], rel=1e-9)
    assert sponge.box.volume(system.box) == pytest.approx(28.281, abs=1e-3)


WATER = """[ defaults ]
1 2 no 1.0 1.0
[ atomtypes ]
OW 8 16.0 0.0 A 0.315365 0.648520
HW 1 1.008 0.0 A 0.0 0.0
MW 0 0.0 0.0 D 0.0 0.0
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW 1 0.0 16.0
2 HW 1 SOL HW1 1 0.52 1.008
3 HW 1 SOL HW2 1 0.52 1.008
4 MW 1 SOL MW 1 -1.04 0.0
#ifdef FLEXIBLE
[ bonds ]
1 2 1 0.09572 502416.0
1 3 1 0.09572 502416.0
[ angles ]
2 1 3 1 104.52 628.02
#else
[ settles ]
1 1 0.09572 0.15139
#endif
[ virtual_sites3 ]
4 1 2 3 1 0.128012065 0.128012065
[ exclusions ]
1 2 3 4
2 1 3 4
3 1 2 4
4 1 2 3
[ system ]
water
[ molecules ]
SOL 2
"""


def test_water(tmp_path):
    """Constraints from [ settles ], a site from [ virtual_sites3 ], nothing between the atoms of a molecule."""
    (tmp_path / "water.top").write_text(WATER)
    system = sponge.load(tmp_path / "water.top")
    assert len(system.constraints) == 6 and sorted(set(system.constraints.distances.round(6))) == [0.09572, 0.15139]
    assert system.virtual_sites[0].parents.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert system.virtual_sites[0].weights[0] == pytest.approx([0.743976, 0.128012, 0.128012], abs=1e-6)
    assert len(system.exclusions) == 12 and {p.name for p in system.potentials} == {"nonbonded"}
    assert system.topology.elements.tolist() == [8, 1, 1, 0] * 2
    assert system.topology.residue_names.tolist() == ["SOL", "SOL"]
    flexible = sponge.load(tmp_path / "water.top", rigid_water=False)
    assert not len(flexible.constraints) and len(flexible["bond"].atoms) == 4 and len(flexible["angle"].atoms) == 2


def test_settles_exclude_nothing(tmp_path):
    """As in GROMACS 2022.5, whose gmx_d adds the pairs inside of water that [ exclusions ] does not list."""
    head, _, tail = WATER.partition("[ exclusions ]")
    (tmp_path / "water.top").write_text(head + tail[tail.index("[ system ]") :])
    system = sponge.load(tmp_path / "water.top")
    assert not len(system.exclusions) and len(system.topology.bonds) == 4
    assert sponge.load(tmp_path / "water.top", rigid_water=False).exclusions.tolist() == [
        [0, 1], [0, 2], [1, 2], [4, 5], [4, 6], [5, 6],
    ]  # fmt: skip


def test_sites_are_put_in_place_wherever_the_file_has_them(tmp_path):
    (tmp_path / "water.top").write_text(WATER)
    atoms = [
        (name, x)
        for at in (0.2, 0.7)
        for name, x in (
            ("OW", (at, 0.3, 0.4)),
            ("HW1", (at + 0.0957, 0.3, 0.4)),
            ("HW2", (at - 0.024, 0.3927, 0.4)),
            ("MW", (0.0, 0.0, 0.0)),
        )
    ]
    rows = [
        f"{1 + k // 4:5d}SOL  {name:>5s}{k + 1:5d}" + "".join(f"{c:8.3f}" for c in x)
        for k, (name, x) in enumerate(atoms)
    ]
    (tmp_path / "water.gro").write_text("\n".join(["water", "8", *rows, "3.0 3.0 3.0"]) + "\n")
    system = sponge.load(tmp_path / "water.top", tmp_path / "water.gro", cutoff=0.9)
    x = system.positions.reshape(2, 4, 3)
    np.testing.assert_allclose(x[:, 3], 0.74397587 * x[:, 0] + 0.128012065 * (x[:, 1] + x[:, 2]), atol=1e-9)


def test_water_without_settles_is_flexible(tmp_path):
    """As in GROMACS: only what the file fixes is rigid, unless told otherwise."""
    bonded = WATER.replace("#ifdef FLEXIBLE\n", "").partition("#else")
    (tmp_path / "water.top").write_text(bonded[0] + bonded[2].partition("#endif\n")[2])
    system = sponge.load(tmp_path / "water.top")
    assert not len(system.constraints) and len(system["bond"].atoms) == 4 and len(system["angle"].atoms) == 2
    assert len(sponge.load(tmp_path / "water.top", constraints="h-bonds").constraints) == 4
    rigid = sponge.load(tmp_path / "water.top", rigid_water=True)
    assert len(rigid.constraints) == 6 and "bond" not in rigid


BEADS = """[ defaults ]
1 1 no 1.0 1.0
[ atomtypes ]
P1 {number} 72.0 0.000 A 0.21558 0.23238e-02
[ moleculetype ]
MOL 1
[ atoms ]
1 P1 1 MOL B1 1 0.0 72.0
2 P1 1 MOL B2 2 0.0 72.0
3 P1 1 MOL B3 3 0.0 72.0
[ bonds ]
1 2 1 0.47 1250
2 3 1 0.47 1250
[ angles ]
1 2 3 2 140.0 25.0
[ system ]
beads
[ molecules ]
MOL 1
"""


@pytest.mark.parametrize("number", ["", "0", "-1", "6"])
def test_beads_of_martini(number, tmp_path):
    """Beads have no element, C6 and C12 instead of sigma and epsilon, and exclude bound neighbors alone."""
    (tmp_path / "x.top").write_text(BEADS.format(number=number))
    positions = np.array([[0, 0, 0], [0.5, 0, 0], [0.6, 0.45, 0]])
    system = sponge.load(tmp_path / "x.top")
    terms = system.energy_terms(positions)
    r = np.hypot(0.1, 0.45)
    assert terms["bond"] == pytest.approx(625 * (0.03**2 + (r - 0.47) ** 2))
    distance = np.hypot(0.6, 0.45)
    assert terms["nonbonded"] == pytest.approx(0.23238e-02 / distance**12 - 0.21558 / distance**6)
    cosine = -0.1 / r
    assert terms["g96_angle"] == pytest.approx(12.5 * (cosine - np.cos(np.radians(140))) ** 2)
    assert system.exclusions.tolist() == [[0, 1], [1, 2]] and len(system.topology.bonds) == 2


RESTRAINED = """[ defaults ]
1 2 no 1.0 1.0
[ atomtypes ]
C 6 12.0 0.0 A 0.1 0.4
[ bondtypes ]
C C 6 0.2 300.0
[ moleculetype ]
ONE 3
[ atoms ]
1 C 1 MOL C1 1 0.0 12.0
2 C 1 MOL C2 2 0.0 12.0
3 C 1 MOL C3 3 0.0 12.0
4 C 1 MOL C4 4 0.0 12.0
5 C 1 MOL C5 5 0.0 12.0
6 C 1 MOL C6 6 0.0 12.0
#ifdef POSRES
[ position_restraints ]
1 1 0 0 FC_LIPID
2 1 100 200 FC_LIPID
#endif
#ifdef DIHRES
[ dihedral_restraints ]
1 2 3 4 1 120.0 2.5 DIHRES_FC
2 3 4 5 1 -170 40 200
#endif
[ distance_restraints ]
1 3 1 0 1 0.1 0.15 0.2 1.0
1 4 1 1 1 0.6 0.7 0.8 0.5
1 5 1 2 1 0.1 0.3 0.6 1.0
2 6 1 2 1 0.1 0.3 0.6 1.0
2 5 1 3 2 0.8 0.9 0.95 2.0
1 6 1 3 2 0.8 0.9 0.95 2.0
3 6 1 3 2 0.8 0.9 0.95 2.0
[ angle_restraints ]
1 2 5 6 1 40 20 1
1 2 1 4 1 70 10 3
[ angle_restraints_z ]
1 4 1 30 25 1
2 6 1 100 15 2
[ moleculetype ]
TWO 3
[ atoms ]
1 C 1 TWO C1 1 0.0 12.0
2 C 1 TWO C2 2 0.0 12.0
3 C 1 TWO C3 3 0.0 12.0
[ system ]
restraints
[ molecules ]
ONE 1
TWO 2
[ intermolecular_interactions ]
[ bonds ]
1 7 6 0.3 1000
2 8 10 0.1 0.2 0.4 1000
3 8 6
[ angles ]
1 2 7 1 100 50
[ dihedrals ]
1 2 7 12 2 30 20
[ dihedral_restraints ]
1 2 8 9 1 10 5 50
[ angle_restraints ]
1 2 7 8 1 10 5 1
[ pairs_nb ]
1 12 1 0.5 -0.5 0.3 0.5
"""
BENT = np.array([[0.14 * i, 0.08 * (i % 2), 0.05 * (i // 2 % 2)] for i in range(6)])
BENT = 9 + np.concatenate([BENT, BENT[::-1] + [0.01, 0.3, 0.2]])
BENT = (BENT + 0.02 * np.sin(np.arange(36.0) ** 2).reshape(12, 3)).round(9)  # no two vectors are parallel
RESTRAINED_ENERGIES = {
    "bond": 145.917302389,
    "restraint_bond": 48.7265307618,
    "angle": 32.9009489921,
    "improper": 7.08064470101,
    "distance_restraint": 211.294102937,
    "angle_restraint": 30.7742531853,
    "z_angle_restraint": 9.31365097261,
    "torsion_restraint": 178.012042361,
}
DEFINES = {"POSRES": "", "FC_LIPID": 500, "DIHRES": "", "DIHRES_FC": 300.0}


def test_restraints(tmp_path):
    """Energies that gmx 2022.5 in double precision gives for restraints and terms between molecules."""
    (tmp_path / "x.top").write_text(RESTRAINED)
    system = sponge.load(tmp_path / "x.top", gmx.write_gro(tmp_path / "x.gro", BENT), defines=DEFINES, method="none")
    terms = system.energy_terms()
    found = {
        name: sum(e for term, e in terms.items() if term.partition(" ")[0] == name) for name in RESTRAINED_ENERGIES
    }
    assert found == pytest.approx(RESTRAINED_ENERGIES, rel=1e-10)
    moved = system.positions + [0.01, -0.02, 0.03]
    assert system.energy_terms(moved)["position_restraint"] == pytest.approx(500 * 0.03**2 + 50 * 1e-4 + 100 * 4e-4)
    assert len(system.exclusions) == 0 and len(system.topology.bonds) == 0
    fixed = sponge.load(tmp_path / "x.top", tmp_path / "x.gro", defines=DEFINES, constraints="all-bonds")
    assert len(fixed.constraints) == 0  # function type 6 is no chemical bond


@pytest.mark.peer
@pytest.mark.skipif(gmx.GMX is None, reason="needs gmx_d")
def test_restraints_with_gromacs(tmp_path):
    defines = "".join(f"#define {name} {value}\n" for name, value in DEFINES.items())
    (tmp_path / "x.top").write_text(defines + RESTRAINED)
    system, positions = read(tmp_path / "x.top", BENT)
    assert gmx.compare_with_gromacs(system, tmp_path, tmp_path / "x.top", positions) == []


TABULATED = """[ defaults ]
1 2 no 1.0 1.0
[ atomtypes ]
C 6 12.0 0.0 A 0.1 0.4
[ moleculetype ]
TAB 3
[ atoms ]
1 C 1 TAB C1 1 0.0 12.0
2 C 1 TAB C2 2 0.0 12.0
3 C 1 TAB C3 3 0.0 12.0
4 C 1 TAB C4 4 0.0 12.0
5 C 1 TAB C5 5 0.0 12.0
6 C 1 TAB C6 6 0.0 12.0
[ bonds ]
1 2 8 0 1.5
2 3 8 1 2.0
3 4 8 0 1.0
4 5 8 0 1.0
1 6 9 1 0.5
[ angles ]
1 2 3 8 0 2.0
2 3 4 8 0 1.0
[ dihedrals ]
1 2 3 4 8 0 3.0
2 3 4 5 8 0 1.0
[ system ]
tables
[ molecules ]
TAB 1
"""


def tables(folder):
    """Files of harmonic bonds, an anharmonic bond, an angle, and a torsion, with f and -f'."""
    r, theta, phi = np.linspace(0, 1, 501), np.linspace(0, 180, 181), np.linspace(-180, 180, 361)
    a, t = np.radians(theta), np.radians(phi)
    for name, x, f, slope in (
        ("b0", r, 500 * (r - 0.15) ** 2, 1000 * (r - 0.15)),
        ("b1", r, 20 * np.cos(9 * r), -180 * np.sin(9 * r)),
        ("a0", theta, 50 * (a - 2) ** 2, np.radians(100 * (a - 2))),
        ("d0", phi, 5 * np.cos(3 * t - 1), np.radians(-15 * np.sin(3 * t - 1))),
    ):
        np.savetxt(folder / f"table_{name}.xvg", np.stack([x, f, -slope], axis=1), header="a remark", fmt="%.15g")


def test_tabulated_terms(tmp_path):
    """Energies are those of the functions that the tables have, within the cubic polynomials between their points."""
    (tmp_path / "x.top").write_text(TABULATED)
    tables(tmp_path)
    positions = BENT[:6]
    system = sponge.load(tmp_path / "x.top")
    terms = system.energy_terms(positions)
    r = np.linalg.norm(positions[[1, 2, 3, 4, 0]] - positions[[0, 1, 2, 3, 5]], axis=1)
    bonds = 500 * np.dot([1.5, 1, 1], (r[[0, 2, 3]] - 0.15) ** 2)
    others = 20 * np.dot([2.0, 0.5], np.cos(9 * r[[1, 4]]))
    assert terms["tabulated_bond"] == pytest.approx(bonds, rel=1e-10)
    assert terms["tabulated_bond 2"] == pytest.approx(others, rel=1e-9)
    angle, torsion = system["tabulated_angle"], system["tabulated_torsion"]
    theta = angles(positions, None, angle.atoms)
    assert terms["tabulated_angle"] == pytest.approx(50 * np.dot([2, 1], (theta - 2) ** 2), rel=1e-9)
    phi = torsions(positions, None, torsion.atoms)
    assert terms["tabulated_torsion"] == pytest.approx(5 * np.dot([3, 1], np.cos(3 * phi - 1)), rel=1e-6)
    assert [0, 5] not in system.exclusions.tolist()


@pytest.mark.parametrize(
    "file, text, message",
    [
        ("b0", None, "tabulated_bond 0 must have a table in the file .*table_b0.xvg, found none"),
        ("b1", "0 1\n1 2\n", "table_b1.xvg: must have three columns"),
        ("b1", "0 1 x\n1 2 3\n", "table_b1.xvg: must hold numbers"),
        ("a0", "0 1 1\n90 1 1\n", "table_a0.xvg: .* from 0 to 180 degrees in equal steps"),
        ("d0", "-180 1 1\n-90 1 1\n180 1 1\n", "table_d0.xvg: .* from -180 to 180 degrees in equal steps"),
    ],
)
def test_tables_that_do_not_fit(file, text, message, tmp_path):
    (tmp_path / "x.top").write_text(TABULATED)
    tables(tmp_path)
    path = tmp_path / f"table_{file}.xvg"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        sponge.load(tmp_path / "x.top")


@pytest.mark.peer
@pytest.mark.skipif(gmx.GMX is None, reason="needs gmx_d")
def test_tabulated_terms_with_gromacs(tmp_path):
    (tmp_path / "x.top").write_text(TABULATED)
    tables(tmp_path)
    system, positions = read(tmp_path / "x.top", BENT[:6])
    files = [f"table_{name}.xvg" for name in ("b0", "b1", "a0", "d0")]
    energies, forces = gmx.evaluate(tmp_path, tmp_path / "x.top", positions, 20.0, None, "-tableb", *files)
    assert gmx.differences(system, positions, energies, forces) == []


ARGON = """[ defaults ]
1 2 no 1.0 1.0
[ atomtypes ]
A 18 40.0 0.0 A 0.34 1.0
B 18 40.0 0.0 A 0.30 0.6
[ moleculetype ]
AR 1
[ atoms ]
1 A 1 AR A 1 0.4 40.0
2 B 1 AR B 2 -0.4 40.0
[ bonds ]
1 2 1 0.3 1000
[ system ]
argon
[ molecules ]
AR 32
"""


@pytest.mark.peer
@pytest.mark.skipif(gmx.GMX is None, reason="needs gmx_d")
@pytest.mark.parametrize(
    "settings, options",
    [
        ({"vdw-modifier": "force-switch", "rvdw-switch": 0.7}, {"modifier": "force-switch", "switch": 0.7}),
        ({"vdw-modifier": "potential-shift"}, {"modifier": "potential-shift"}),
        ({"vdw-modifier": "potential-switch", "rvdw-switch": 0.7}, {"switch": 0.7}),
        (
            {"coulombtype": "reaction-field", "epsilon-rf": 0},
            {"method": "reaction_field", "dielectric": np.inf, "excluded_field": True},
        ),
        (
            {"coulombtype": "reaction-field", "epsilon-rf": 15},
            {"method": "reaction_field", "dielectric": 15, "excluded_field": True},
        ),
    ],
)
@pytest.mark.parametrize("dispersion", [False, True])
def test_modifiers_with_gromacs(settings, options, dispersion, tmp_path):
    """Energies and forces within a cut-off, and the dispersion beyond it, which GROMACS sums over r^-6 alone."""
    rng = np.random.default_rng(3)
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    positions = (0.55 * grid + rng.normal(scale=0.03, size=(64, 3)) + 0.2).round(9)
    (tmp_path / "x.top").write_text(ARGON)
    run = {"rcoulomb": 0.9, "rvdw": 0.9, "rlist": 0.9, "DispCorr": "AllEner" if dispersion else "no"}
    energies, forces = gmx.evaluate(tmp_path, tmp_path / "x.top", positions, 2.2, run | settings)
    options = {"method": "cutoff", "cutoff": 0.9, "dispersion_correction": dispersion, **options}
    system = sponge.load(tmp_path / "x.top", tmp_path / "gmx.gro", **options)
    terms = system.energy_terms(positions)
    expected = sum(energies.get(name, 0.0) for name in ("LJ (SR)", "Disper. corr.", "Coulomb (SR)"))
    assert terms["nonbonded"] == pytest.approx(expected, rel=1e-3 if dispersion else 1e-8)
    assert np.abs(system.forces(positions) - forces).max() < 1e-6 * np.abs(forces).max()


def lines(path, **defines):
    return [(line.section, *line.words) for line in read_lines(path, None, defines) if line.words]


def test_preprocessor(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.itp").write_text('#define C 1.5 ; a remark\n#include "b.itp"\n')
    (tmp_path / "sub" / "b.itp").write_text("1 2 C\n#undef C\n1 2 C\n")
    (tmp_path / "x.top").write_text(
        '* GROMACS takes no notice of this\n[ bonds ] ; of water\n#include "sub/a.itp"\n#ifdef A\n#ifdef '
        "B\nno\n#else\na not b\n"
        '#endif\n#else\nno\n#endif\n1 \\\n 2 PAIR\n#ifndef A\nno\n#include "missing.itp"\n#endif\n'
    )
    expected = [("bonds", "1", "2", "1.5"), ("bonds", "1", "2", "C"), ("bonds", "a", "not", "b"),
                ("bonds", "1", "2", "3", "4")]  # fmt: skip
    assert lines(tmp_path / "x.top", A="", PAIR="3 FOUR", FOUR="4") == expected


@pytest.mark.parametrize(
    "text, message",
    [
        ('#include "no.itp"', "no.itp must be a file in one of"),
        ("#include no.itp", "must name a file in quotes"),
        ("#ifdef A", "every #ifdef must have an #endif"),
        ("#endif", "must follow an #ifdef"),
        ("#if A", "directives must be"),
        ("#error wrong water", "wrong water"),
        ('#include "x.top"', "in a circle"),
        ("#define A B\n#define B A\n[ x ]\nA", "in a circle"),
        ("[ bonds", "must look like"),
        ("1 2 \\", "must be continued"),
    ],
)
def test_preprocessor_refuses(text, message, tmp_path):
    (tmp_path / "x.top").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        lines(tmp_path / "x.top")


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("[ angles ]", "[ orientation_restraints ]\n1 2 1 1 1\n[ angles ]", r"the section must be one of .*'orient"),
        ("[ angles ]", "[ distance_restraints ]\n1 2 1 0.1\n[ angles ]", "a label, type 1 or 2, three bounds"),
        ("[ angles ]", "[ distance_restraints ]\n1 2 1 0 1 0.3 0.2 0.4 1\n[ angles ]", "low <= up1 <= up2"),
        (
            "[ angles ]",
            "[ distance_restraints ]\n1 2 1 0 1 0 0 1 1\n1 3 1 0 1 0 0 2 1\n[ angles ]",
            "distances of label 0 must have the same bounds",
        ),
        (
            "[ angles ]\n1 2 3 2 140.0 25.0\n[ system ]\nbeads\n[ molecules ]\n",
            "[ distance_restraints ]\n1 2 1 0 1 0 0 1 1\n[ system ]\nbeads\n[ molecules ]\nMOL 1\n",
            "of a molecule that occurs once, got 2 of MOL",
        ),
        ("[ angles ]", "[ angle_restraints ]\n1 2 2 2 1 0 1 1\n[ angles ]", "must differ"),
        ("[ angles ]", "[ angle_restraints_z ]\n1 2 1 0 1 1.5\n[ angles ]", "multiplicity of a torsion or a restraint"),
        ("[ angles ]", "[ angle_restraints_z ]\n1 2 1 0 1\n[ angles ]", "has 3 parameters, got 2"),
        ("[ angles ]", "[ dihedral_restraints ]\n1 2 3 4 1 0 0 1\n[ angles ]", "must name atoms 1 to 3"),
        ("[ angles ]", "[ dihedral_restraints ]\n1 2 3 1 1 0 0 1\n[ angles ]", "must differ"),
        ("MOL 1\n", "MOL 1\n[ intermolecular_interactions ]\n[ bonds ]\n1 3 1 1 1\n", "must not be chemical"),
        ("MOL 1\n", "MOL 1\n[ intermolecular_interactions ]\n[ settles ]\n1 1 1 1\n", "the section must be one of"),
        ("MOL 1\n", "MOL 1\n[ intermolecular_interactions ]\n[ pairs ]\n1 4 1\n", "must name atoms 1 to 3"),
        ("MOL 1\n", "MOL 1\n[ intermolecular_interactions ]\n1 3\n", r"section \[ intermolecular_interactions \]"),
        ("1 2 1 0.47 1250", "1 2 8 0.5 1250", "number of a table must be an integer >= 0, got 0.5"),
        ("1 2 3 2 140.0", "1 2 3 3 140.0", r"function type 3 \(cross bond-bond\) of \[ angles \]"),
        ("1 2 1 0.47 1250", "1 2 1 0.47 1250 0.5 1250", "perturbed terms are not supported"),
        ("1 2 1 0.47 1250", "1 2 1", r"none for types P1-P1 with function type 1"),
        ("1 2 1 0.47 1250", "1 4 1 0.47 1250", "must name atoms 1 to 3"),
        ("1 2 1 0.47 1250", "1 1 1 0.47 1250", "must differ"),
        ("1 2 1 0.47 1250", "1 2 1 nan 1250", "finite numbers"),
        ("1 2 1 0.47 1250", "1 2 1 x 1250", "must hold numbers"),
        ("B1 1 0.0 72.0", "B1 1 0.0 -72.0", "masses must be finite and >= 0, got -72.0 for atom B1"),
        ("B1 1 0.0 72.0", "B1 1 0.0 inf", "finite numbers"),
        ("B1 1 0.0 72.0", "B1 1 0.0 72.0 P1 0.1 72.0", "perturbed atoms are not supported"),
        ("1 P1 1 MOL", "1 P9 1 MOL", "atom type P9 must be in"),
        ("1 1 no 1.0 1.0", "2 1 no 1.0 1.0", "Buckingham"),
        ("1 1 no 1.0 1.0", "1 1 no 1.0 1.0 9", "power of the repulsion must be 12"),
        ("[ defaults ]\n1 1 no 1.0 1.0", "", r"\[ defaults \] must come first"),
        ("MOL 1\n", "MOL 1\nSOL 3\n", "must name one of MOL"),
        ("[ angles ]", "[ pairs ]\n1 3 1\n[ angles ]", r"none for types P1-P1 in \[ pairtypes \]"),
        ("[ angles ]", "[ virtual_sites2 ]\n3 1 2 2 0.1\n[ angles ]", r"function type 2 \(2fd, at a fixed distance\)"),
        ("[ angles ]", "[ virtual_sites2 ]\n3 1 2 1 0.5\n[ angles ]", "virtual sites must have no mass, got 72.0"),
        ("[ angles ]", "[ virtual_sites3 ]\n3 1 2 4 1 0.1 0.1\n[ angles ]", "must name atoms 1 to 3"),
        ("[ angles ]", "[ position_restraints ]\n1 1 1 2 -3\n[ angles ]", "three constants >= 0, got 1 2 -3"),
        ("[ angles ]", "[ position_restraints ]\n1 1 FC FC FC\n[ angles ]", "got 'FC FC FC' .* passed as defines"),
        ("[ angles ]", "[ position_restraints ]\n1 1 5 5 5\n[ angles ]", "need coordinates"),
        ("[ angles ]", "[ position_restraints ]\n1 2 1 0.1 5\n[ angles ]", "flat-bottomed"),
        ("[ angles ]", "[ constraints ]\n1 2 1 0.1\n1 2 1 0.2\n[ angles ]", "must have one length"),
        ("A 0.21558", "S 0.21558", "shells are not supported"),
        ("[ molecules ]", "[ molecules ]\n[ bonds ]\n1 3 1 1 1\n[ molecules ]", r"must follow a \[ moleculetype \]"),
        ("[ molecules ]\nMOL 1", "", "must name molecules with atoms"),
    ],
)
def test_refusals(old, new, message, tmp_path):
    text = BEADS.format(number="0")
    assert text.count(old) >= 1
    head, _, tail = text.rpartition(old) if old.startswith("MOL") else text.partition(old)
    (tmp_path / "x.top").write_text(head + new + tail)
    with pytest.raises((FileFormatError, MissingParameterError), match=message):
        sponge.load(tmp_path / "x.top")


def test_gro_is_cut_off(tmp_path):
    text = gzip.decompress((FILES / "peptide_amber.gro.gz").read_bytes()).decode()
    path = tmp_path / "x.gro"
    for cut in (40, 80, 1000, len(text) - 80, len(text) - 3):
        path.write_text(text[:cut])
        with pytest.raises(FileFormatError):
            sponge.load(FILES / "amber99sb-ildn.top.gz", path)
