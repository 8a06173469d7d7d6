"""Energies and forces of whole systems against another program's (tests/data/sponge) and against published values of
NIST.

A failure lists every term that differs, by how much, relative to the larger of the term itself and 1 kJ/mol.
"""

import json

import numpy as np
import pytest

from tests.sponge.reference import DATA, NAMES, load_reference, unpacked
from triskele import sponge
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.pme.parameters import grid_size
from triskele.sponge.potentials.nonbonded.nonbonded import Nonbonded

# Where the same formula is summed, the sums agree to rounding. Particle meshes have the same splines, grid and alpha in
# both.
ENERGY = 1e-9
FORCE = 1e-8
LARGE = ("dhfr_pme",)

# OpenMM's forces, and the potentials that they are here
TERMS = {
    "HarmonicBondForce": ["bond"],
    "HarmonicAngleForce": ["angle"],
    "PeriodicTorsionForce": ["torsion"],
    "CMAPTorsionForce": ["cmap"],
    "NonbondedForce": ["nonbonded", "pair14"],
    "Nonbonded_direct+PME_reciprocal": ["nonbonded", "pair14"],
    "GBSAOBCForce": ["gb"],
    "CustomGBForce": ["gb"],
    "CustomExternalForce": ["position_restraint"],
}


def load(name):
    """A reference and its system, with the very mesh of the reference: ours has only sizes that are quick to
    transform.
    """
    reference = load_reference(name)
    system = load_openmm(reference.xml, positions=reference.positions, box=reference.box)
    settings = reference.settings
    if "grid" in settings:
        system.nonbonded.update(grid=settings["grid"])
    elif settings.get("method") == "LJPME":
        alpha, tolerance = settings["alpha_per_nm"], settings["ewald_tolerance"]
        system.nonbonded.update(
            grid=grid_size(system.box, alpha, tolerance), lj_grid=grid_size(system.box, alpha, tolerance, True)
        )
    return reference, system


def relative_rms(a, b):
    """Root mean square of a - b over that of b; of numbers that are all zero, the difference itself."""
    scale = np.sqrt(np.mean(b**2))
    return np.sqrt(np.mean((a - b) ** 2)) / (scale if scale > 1e-6 else 1.0)


def differences(found, expected):
    """Terms that differ: {name: (found, expected, relative difference)}."""
    expected = dict(expected)
    if "Nonbonded_direct" in expected:
        expected["Nonbonded_direct+PME_reciprocal"] = expected.pop("Nonbonded_direct") + expected.pop("PME_reciprocal")
    compared = {
        name: (sum(found.get(t, 0.0) for t in ours), expected[name]) for name, ours in TERMS.items() if name in expected
    }
    compared["total"] = (sum(found.values()), expected["total"])
    return {name: (a, b, abs(a - b) / max(abs(b), 1.0)) for name, (a, b) in compared.items()}


def massive(system):
    """Atoms whose forces can be compared: OpenMM leaves on virtual sites what it has handed on to their parents."""
    return system.masses > 0


@pytest.mark.parametrize("name", [n for n in NAMES if n not in LARGE])
def test_energies_of_every_term_and_forces(name):
    reference, system = load(name)
    report = differences(system.energy_terms(), reference.energies)
    wrong = {term: values for term, values in report.items() if values[2] > ENERGY}
    assert not wrong, f"{name}: " + "; ".join(f"{t} {a!r}, reference {b!r} ({d:.1e})" for t, (a, b, d) in wrong.items())
    assert relative_rms(system.forces()[massive(system)], reference.forces["total"][massive(system)]) < FORCE


@pytest.mark.parametrize("name", [n for n in NAMES if "alpha_per_nm" in load_reference(n).settings])
def test_ewald_parameters_follow_from_the_tolerance_by_the_same_rules(name):
    reference, system = load(name)
    system.nonbonded.update(grid=None)
    form = system.nonbonded.form(system.box)
    assert form.alpha == pytest.approx(reference.settings["alpha_per_nm"], rel=1e-12)
    if "grid" in reference.settings:
        assert list(grid_size(system.box, form.alpha, system.nonbonded.tolerance)) == reference.settings["grid"]
        assert all(
            0 <= ours - theirs <= 0.06 * theirs + 1 for ours, theirs in zip(form.grid, reference.settings["grid"])
        )


@pytest.mark.parametrize(
    "name", ["ala2_explicit_pme", "ala2_explicit_rf", "ala2_vacuum", "bpti_ff14sb_vacuum", "lj_4000_cut_dispcorr"]
)
@pytest.mark.parametrize("part", ["LJ", "Coulomb"])
def test_lennard_jones_and_coulomb_apart(name, part):
    """With charges or well depths zero, what is left is the other part of the reference."""
    reference, system = load(name)
    off = {"LJ": ("charges", "charge_product"), "Coulomb": ("epsilons", "epsilon")}[part]
    for term in ("nonbonded", "pair14"):
        for parameter in set(off) & set(system[term].params if term in system else ()):
            system[term].params[parameter][:] = 0
    if part == "Coulomb":
        system.nonbonded.update(dispersion_correction=False)
    found = system.energy_terms()
    e = reference.energies
    expected = (
        e["LJ_incl_dispersion_correction"]
        if part == "LJ"
        else e.get("Coulomb", e.get("Coulomb_direct", 0.0) + e.get("Coulomb_reciprocal_openmm_group", 0.0))
    )
    assert found["nonbonded"] + found.get("pair14", 0.0) == pytest.approx(expected, rel=ENERGY, abs=1e-9)


def test_the_pure_energy_is_the_same_function():
    """`energy_function`, which derivatives come from, and the compiled kernels."""
    reference, system = load("ala2_obc2_salt")
    energy = system.energy_function()
    assert energy(system.params(), reference.positions, None) == pytest.approx(reference.energies["total"], rel=ENERGY)


@pytest.mark.parametrize("name, options", [("vacuum", {}), ("obc2", {"implicit_solvent": "obc2"})])
def test_map_of_alanine_dipeptide(name, options):
    """Energies over phi and psi, from AMBER's files; the positions of the map are kept in single precision."""
    files = [DATA / "ala2_vacuum" / f"alanine-dipeptide.{suffix}" for suffix in ("prmtop", "crd")]
    system = sponge.load(*files, **options)
    with np.load(DATA / "ala2_phi_psi_map" / "map.npz") as file:
        positions, expected = file[f"{name}_pos"][::4, ::4], file[name][::4, ::4]
    found = [[system.energy(x.astype(np.float64)) for x in row] for row in positions]
    assert np.array(found) == pytest.approx(expected, abs=1e-4)


@pytest.fixture(scope="module")
def dhfr():
    """23,558 atoms of protein and water, PME."""
    return load("dhfr_pme")


def test_dhfr(dhfr):
    reference, system = dhfr
    report = differences(system.energy_terms(), reference.energies)
    assert all(d < ENERGY for _, _, d in report.values()), report
    assert relative_rms(system.forces(), reference.forces["total"]) < FORCE


@pytest.mark.parametrize("tolerance, error", [(5e-4, 8e-4), (1e-5, 2e-5)])
def test_forces_of_dhfr_in_mixed_precision(dhfr, tolerance, error):
    """Against converged forces (Ewald tolerance 1e-6): what the settings cost, and what single precision adds."""
    reference, system = dhfr
    with np.load(DATA / "dhfr_pme" / "forces_tight.npz") as file:
        exact = file["force_total_tol1e6"].astype(np.float64)
    system.nonbonded.update(tolerance=tolerance, grid=None)
    try:
        assert relative_rms(system.forces(precision="mixed"), exact) < error
    finally:
        system.nonbonded.update(tolerance=5e-4, grid=reference.settings["grid"])


@pytest.mark.parametrize("name", ["ala2_explicit_pme", "water_tip4pew", "bpti_ff14sb_obc2", "lj_4000_switch"])
def test_mixed_precision(name):
    """Single precision alone, against the same settings in double."""
    reference, system = load(name)
    keep = massive(system)
    assert relative_rms(system.forces(precision="mixed")[keep], reference.forces["total"][keep]) < 2e-5
    assert system.energy(precision="mixed") == pytest.approx(reference.energies["total"], rel=5e-6)


# -- NIST --------------------------------------------------------------------------------------------------------------

NIST = json.loads((DATA / "nist" / "nist.json").read_text())


def digits(value):
    """Half a unit of the last of five digits, to which NIST prints."""
    return 0.51 * 10.0 ** (np.floor(np.log10(abs(value))) - 4)


@sponge.pair_potential
def force_shifted(r, end):
    """Lennard-Jones in reduced units, shifted so that energy and force vanish at `end`."""
    x, y = r**-6.0, end**-6.0
    slope = -24 * (2 * y * y - y) / end
    return 4 * (x * x - x) - 4 * (y * y - y) - (r - end) * slope


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_nist_force_shifted_lennard_jones(number, tmp_path):
    """The page's third form, as a potential of one's own."""
    box, positions, _ = nist_configuration(f"lj_sample_config_periodic{number}", tmp_path)
    published = NIST["lj"][f"config{number}_LFS3"]
    system = sponge.System(sponge.Topology.of_particles(len(positions)), np.ones(len(positions)), box, positions)
    system.add(force_shifted(end=3.0, cutoff=3.0))
    assert system.energy() == pytest.approx(published["published_U"], abs=digits(published["published_U"]))
    assert system.energy() == pytest.approx(published["U"], rel=1e-10)
    assert -np.trace(system.virial()) == pytest.approx(published["sum_r_dUdr"], rel=1e-9)


def nist_configuration(name, folder):
    lines = unpacked(f"nist/{name}.txt.gz", folder).read_text().split("\n")
    rows = [line.split() for line in lines[2:] if line.split()]
    return (
        np.array(lines[0].split(), float),
        np.array([r[1:4] for r in rows], float),
        [r[4] for r in rows if len(r) > 4],
    )


@pytest.mark.parametrize("cutoff", [3, 4])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_nist_lennard_jones(number, cutoff, tmp_path):
    """Energy with long-range correction and virial in reduced units, to the digits of the page."""
    box, positions, _ = nist_configuration(f"lj_sample_config_periodic{number}", tmp_path)
    published = NIST["lj"][f"config{number}_LRC{cutoff}"]
    n = len(positions)
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), box, positions)
    lj = system.add(
        Nonbonded(np.zeros(n), np.ones(n), np.ones(n), method="cutoff", cutoff=cutoff, dispersion_correction=False)
    )
    assert system.energy() == pytest.approx(published["published_U"], abs=digits(published["published_U"]))
    assert system.energy() == pytest.approx(published["U"], rel=1e-10)
    # NIST prints W = -sum r dU/dr with the other sign
    assert -np.trace(system.virial()) == pytest.approx(published["sum_r_dUdr"], rel=1e-10)
    pairs = system.energy()
    lj.update(dispersion_correction=True)
    assert system.energy() - pairs == pytest.approx(
        published["published_ULRC"], abs=digits(published["published_ULRC"])
    )


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_nist_water(number, tmp_path):
    """SPC/E water by Ewald summation, in K. NIST takes wave vectors in a sphere, we in a box: one part in 10^5."""
    box, positions, elements = nist_configuration(f"spce_sample_config_periodic{number}", tmp_path)
    published = NIST["spce"][f"config{number}"]
    n, oxygen = len(positions), np.array(elements) == "O"
    kelvin = sponge.units.GAS_CONSTANT
    molecule = 3 * (np.arange(n) // 3)[:, None]
    exclusions = np.concatenate([molecule[::3] + [a, b] for a, b in ((0, 1), (0, 2), (1, 2))])
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), box / 10, positions / 10, exclusions=exclusions)
    # epsilon/k 78.19743111 K, sigma 3.16555789 A: the page's own constants
    system.add(
        Nonbonded(
            np.where(oxygen, -0.8476, 0.4238),
            np.full(n, 0.316555789),
            np.where(oxygen, 78.19743111 * kelvin, 0.0),
            method="ewald",
            cutoff=1.0,
            alpha=5.6 / (0.1 * box.min()),
            wave_vectors=(6, 6, 6),
        )
    )
    ours = published["own_double"]
    assert system.energy() / kelvin == pytest.approx(ours["Etotal"], rel=2e-5)
    assert system.energy() / kelvin == pytest.approx(published["published"]["Etotal"], rel=4e-5)
    system.nonbonded.params["charges"][:] = 0
    # the mean over pairs of types counts an atom with itself: half a pair more of n_O (n_O - 1)/2, and of N (N - 1)/2
    m = n // 3
    expected = ours["Edisp"] + ours["ELRC"] * (1 + 1 / m) / (1 + 1 / n)
    assert system.energy() / kelvin == pytest.approx(expected, rel=1e-8)


def test_triclinic_lennard_jones_of_nist(tmp_path):
    """Edges of 10 sigma, angles of 85, 75 and 80 degrees; values that NIST's program FEASST is tested with."""
    lines = unpacked("nist/lj_triclinic_sample_config_periodic3.xyz.gz", tmp_path).read_text().split("\n")
    _, lx, ly, lz, xy, xz, yz = map(float, lines[1].split())
    positions = np.array([line.split()[1:] for line in lines[2:] if line.split()], float)
    n = len(positions)
    box = [[lx, 0, 0], [xy, ly, 0], [xz, yz, lz]]
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), box, positions)
    system.add(Nonbonded(np.zeros(n), np.ones(n), np.ones(n), method="cutoff", cutoff=3, dispersion_correction=False))
    pairs = system.energy()
    assert pairs == pytest.approx(-505.78567945268367, rel=1e-11)
    system.nonbonded.update(dispersion_correction=True)
    assert system.energy() - pairs == pytest.approx(-29.37186430697248, rel=1e-10)


def triclinic_boxes():
    """Reduced boxes from nearly rectangular to a truncated octahedron."""
    yield sponge.box.from_lengths_angles([2.6, 2.7, 2.8], np.radians([85.0, 75.0, 80.0]))
    yield sponge.box.from_lengths_angles([2.8, 2.8, 2.8], np.radians([109.4712190] * 3))
    yield sponge.box.from_lengths_angles([2.8, 2.8, 2.8], np.radians([60.0, 60.0, 90.0]))


@pytest.mark.parametrize("box", list(triclinic_boxes()), ids=["slight", "octahedron", "dodecahedron"])
def test_triclinic_pairs(box, rng):
    """The sum over pairs within the cut-off in skewed boxes, against a sum over all images."""
    n = 60
    fractions = (np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)[:n] + rng.uniform(0.2, 0.8, (n, 3))) / 4
    positions = fractions @ box + rng.integers(-2, 3, (n, 3)) @ box
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), box, positions)
    cutoff = 0.99 * sponge.box.largest_cutoff(box)
    system.add(
        Nonbonded(np.zeros(n), np.full(n, 0.3), np.ones(n), method="cutoff", cutoff=cutoff, dispersion_correction=False)
    )
    shifts = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), -1).reshape(-1, 3) @ box
    d = (fractions @ box)[:, None] - (fractions @ box)[None]
    r = np.linalg.norm(d[None] + shifts[:, None, None], axis=-1)
    inside = (r > 1e-9) & (r < cutoff)
    x = (0.3 / np.where(inside, r, 1)) ** 6
    assert system.energy() == pytest.approx(0.5 * np.sum(np.where(inside, 4 * (x * x - x), 0)), rel=1e-11)


def test_triclinic_lattices_have_the_energy_of_the_cube():
    """Rock salt in skewed cells of the same lattice: PME and Ewald find Madelung's constant in each."""
    nearest, k = 0.282, 4
    cell = 2 * nearest * k
    grid = np.stack(np.meshgrid(*[np.arange(2 * k)] * 3, indexing="ij"), -1).reshape(-1, 3)
    charges = np.where(grid.sum(1) % 2 == 0, 1.0, -1.0)
    exact = -1.747564594633182 * sponge.units.COULOMB / nearest * len(grid) / 2
    for skew in (
        [0, 0, 0],
        [2, 0, 0],
        [2, -2, 4],
    ):  # multiples of the nearest distance that keep the charges alternating
        box = cell * np.eye(3) + nearest * np.array([[0, 0, 0], [skew[0], 0, 0], [skew[1], skew[2], 0]])
        system = sponge.System(sponge.Topology.of_particles(len(grid)), np.ones(len(grid)), box, nearest * grid)
        system.add(
            Nonbonded(charges, np.ones(len(grid)), np.zeros(len(grid)), method="ewald", cutoff=0.9, tolerance=1e-7)
        )
        assert system.energy() == pytest.approx(exact, rel=1e-6)
        system.nonbonded.update(method="pme", grid=(48, 48, 48))
        assert system.energy() == pytest.approx(exact, rel=3e-6)
