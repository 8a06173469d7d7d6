"""Analyses against cases whose answer is known, and against MDTraj."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.sponge import analysis, units
from triskele.sponge.box import as_box, from_lengths_angles
from triskele.sponge.topology import Topology

TRICLINIC = from_lengths_angles([3.0, 3.2, 3.4], np.radians([70.0, 80.0, 65.0]))


# -- radial distribution function
# ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("box", [as_box([3.0, 4.0, 5.0]), TRICLINIC], ids=["rectangular", "triclinic"])
def test_rdf_of_an_ideal_gas_is_one(rng, box):
    frames, n = 40, 400
    x = rng.uniform(size=(frames, n, 3)) @ box
    result = analysis.rdf(x, box, bins=30)
    pairs = frames * n * (n - 1) / 2
    edges = np.linspace(0, result.r[-1] + result.r[0], 31)
    expected = pairs * 4 / 3 * np.pi * np.diff(edges**3) / np.linalg.det(box)
    assert np.all(np.abs(result.g - 1) < 5 / np.sqrt(expected))  # five standard deviations of a Poisson count
    assert result.coordination[-1] == pytest.approx(
        (n - 1) * 4 / 3 * np.pi * edges[-1] ** 3 / np.linalg.det(box), rel=0.02
    )


def test_rdf_does_not_care_about_wrapping(rng):
    x = rng.uniform(size=(3, 60, 3)) @ TRICLINIC
    moved = x + rng.integers(-3, 4, (3, 60, 3)) @ TRICLINIC
    assert np.allclose(analysis.rdf(x, TRICLINIC).g, analysis.rdf(moved, TRICLINIC).g)


def test_rdf_of_a_simple_cubic_lattice_has_its_shells():
    side, k = 0.3, 8
    x = side * np.stack(np.meshgrid(*[np.arange(k)] * 3), -1).reshape(1, -1, 3)
    result = analysis.rdf(x, side * k, r_max=0.65, bins=651)  # no shell on the edge of a bin
    shells = result.r[result.g > 0]
    assert shells == pytest.approx(side * np.sqrt([1, 2, 3, 4]), abs=1e-3)
    assert np.diff(result.coordination, prepend=0)[result.g > 0] == pytest.approx([6, 12, 8, 6])


def test_rdf_counts_unlike_pairs_and_leaves_out_molecules():
    # two diatomics: the bond at 0.1 is not counted, the distances between the molecules are
    x = np.array([[0, 0, 0], [0.1, 0, 0], [1.0, 0, 0], [1.1, 0, 0]])
    result = analysis.rdf(x, 5.0, [0, 2], [1, 3], molecules=[0, 0, 1, 1], r_max=1.5, bins=150)
    assert result.r[result.g > 0] == pytest.approx([0.9, 1.1], abs=0.0051)
    assert result.coordination[-1] == 1


def test_rdf_equals_mdtraj(rng):
    mdtraj = pytest.importorskip("mdtraj")
    n, frames = 50, 4
    x = (rng.uniform(size=(frames, n, 3)) @ TRICLINIC).astype(np.float32)
    top = mdtraj.Topology()
    chain = top.add_chain()
    for _ in range(n):
        top.add_atom("AR", mdtraj.element.argon, top.add_residue("AR", chain))
    trajectory = mdtraj.Trajectory(x, top)
    trajectory.unitcell_vectors = np.broadcast_to(TRICLINIC, (frames, 3, 3)).astype(np.float32)
    r, g = mdtraj.compute_rdf(trajectory, top.select_pairs("all", "all"), r_range=(0, 1.2), n_bins=40)
    ours = analysis.rdf(x, TRICLINIC, r_max=1.2, bins=40)
    assert ours.r == pytest.approx(r, abs=1e-7)
    assert np.count_nonzero(~np.isclose(ours.g, g, rtol=1e-4, atol=1e-4)) <= 2  # a float32 distance may change bins


@pytest.mark.parametrize(
    "change, message",
    [
        ({"boxes": None}, "box is needed"),
        ({"r_max": 1.6}, "at most half the smallest edge, 1.5 nm, got 1.6"),
        ({"first": [7]}, "atoms must be 0 to 4, got 7"),
        ({"molecules": [0] * 5}, "no pairs are left"),
        ({"bins": 0}, "bins must be"),
        ({"first": [True]}, "mask of atoms must have shape"),
        ({"positions": np.zeros((5, 2))}, r"must have shape \[frames, n, 3\]"),
        ({"positions": np.full((5, 3), np.nan)}, "finite"),
        ({"boxes": np.zeros((3, 3))}, "positive"),
    ],
)
def test_rdf_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        analysis.rdf(**{"positions": np.zeros((5, 3)), "boxes": 3.0, **change})


# -- diffusion ---------------------------------------------------------------------------------------------------------


def test_msd_by_fourier_transform_equals_its_definition(rng):
    x = np.cumsum(rng.normal(size=(60, 7, 3)), axis=0) + 100.0
    result = analysis.msd(x, 0.5, max_lag=40)
    direct = [np.mean(np.sum((x[k:] - x[: 60 - k]) ** 2, -1)) for k in range(41)]
    assert result.value == pytest.approx(direct, rel=1e-10, abs=1e-10)
    assert result.time[[0, -1]] == pytest.approx([0.0, 20.0])


def test_a_random_walk_has_its_diffusion_coefficient(rng):
    true, interval = 0.003, 2.0  # nm^2/ps, ps
    x = np.cumsum(rng.normal(0, np.sqrt(2 * true * interval), (1000, 60, 3)), axis=0)
    result = analysis.diffusion_coefficient(x, interval)
    assert result.error < 0.1 * true
    assert abs(result.value - true) < 4 * result.error
    assert result.cm2_per_s[0] == pytest.approx(result.value * 0.01)


def test_the_error_of_a_diffusion_coefficient_is_its_spread(rng):
    results = [analysis.diffusion_coefficient(np.cumsum(rng.normal(size=(300, 10, 3)), axis=0), 1.0) for _ in range(60)]
    spread = np.std([r.value for r in results])
    assert np.mean([r.error for r in results]) == pytest.approx(spread, rel=0.4)


@pytest.mark.parametrize("box", [as_box(2.0), TRICLINIC], ids=["cubic", "triclinic"])
def test_unwrap_undoes_wrapping(rng, box):
    x = np.cumsum(rng.normal(0, 0.1, (200, 5, 3)), axis=0) + 1.0
    s = x @ np.linalg.inv(box)
    wrapped = (s - np.floor(s)) @ box
    found = analysis.unwrap(wrapped, box)
    assert found - found[0] == pytest.approx(x - x[0], abs=1e-12)
    assert analysis.msd(wrapped, 1.0, boxes=box).value == pytest.approx(analysis.msd(x, 1.0).value, rel=1e-9)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: analysis.msd(x[:1], 1.0), "at least 2 frames"),
        (lambda x: analysis.msd(x, 0.0), "interval must be a positive number .ps., got 0.0"),
        (lambda x: analysis.msd(x, 1.0, max_lag=20), "max_lag must be 1 to 19"),
        (lambda x: analysis.diffusion_coefficient(x, 1.0, blocks=6), "at least 2 blocks of 4 frames"),
        (lambda x: analysis.diffusion_coefficient(x, 1.0, fit=(1, 9)), "end within a block of 4 ps"),
    ],
)
def test_diffusion_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.zeros((20, 3, 3)))


# -- superposition -----------------------------------------------------------------------------------------------------


def rotation(rng):
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q *= np.sign(np.diag(r))
    return q * np.sign(np.linalg.det(q))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), flat=st.integers(0, 3))
def test_a_rotated_structure_deviates_by_nothing(seed, n, flat):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    x[:, :flat] = 0  # planes, lines and points too
    turned = x @ rotation(rng) + rng.normal(size=3)
    assert analysis.rmsd(turned, x).value[0] < 1e-13
    assert analysis.superpose(turned, x)[0] == pytest.approx(x, abs=1e-13)


def test_a_mirror_image_is_not_a_rotation(rng):
    x = rng.normal(size=(10, 3))
    assert analysis.rmsd(x * [-1, 1, 1], x).value[0] > 0.1


def test_a_superposition_is_the_best(rng):
    x, y = rng.normal(size=(2, 10, 3))
    best = analysis.rmsd(x, y).value[0]
    for _ in range(200):
        turned = (x - x.mean(0)) @ rotation(rng) + y.mean(0)
        assert analysis.rmsd(turned, y, fit=False).value[0] > best


def test_rmsd_equals_mdtraj(rng):
    mdtraj = pytest.importorskip("mdtraj")
    x = rng.normal(size=(20, 15, 3)).astype(np.float32)
    top = mdtraj.Topology()
    residue = top.add_residue("X", top.add_chain())
    for _ in range(15):
        top.add_atom("C", mdtraj.element.carbon, residue)
    assert analysis.rmsd(x, x[3], range(10)).value == pytest.approx(
        mdtraj.rmsd(mdtraj.Trajectory(x, top), mdtraj.Trajectory(x, top), 3, atom_indices=np.arange(10)), abs=1e-3
    )


def test_rmsf_sees_vibrations_not_tumbling(rng):
    mean = rng.normal(size=(200, 3))
    width = np.r_[np.full(100, 0.01), np.full(100, 0.03)]
    still = mean + rng.normal(size=(400, 200, 3)) * width[:, None]
    tumbling = np.stack([frame @ rotation(rng) + rng.normal(size=3) for frame in still])
    result = analysis.rmsf(tumbling)
    assert result.value == pytest.approx(np.sqrt(3) * width, rel=0.2)
    assert analysis.rmsf(still, fit=False).value == pytest.approx(result.value, rel=0.1)


# -- torsions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", np.radians([-179, -90, -30, 0, 45, 120, 180]))
def test_dihedrals_have_the_sign_of_the_convention(angle):
    # looking along the middle bond from the second atom to the third, clockwise is positive
    x = np.array([[1, 0, 0], [0, 0, 0], [0, 0, 1], [np.cos(angle), np.sin(angle), 1]])
    assert np.exp(1j * analysis.dihedrals(x, [[0, 1, 2, 3]])[0, 0]) == pytest.approx(np.exp(1j * angle), abs=1e-12)


def test_dihedrals_across_a_boundary_and_mdtraj(rng):
    mdtraj = pytest.importorskip("mdtraj")
    x = rng.uniform(0, 0.3, (6, 9, 3))
    atoms = [[0, 1, 2, 3], [5, 3, 8, 1]]
    moved = x + rng.integers(-1, 2, x.shape) @ TRICLINIC
    angles = analysis.dihedrals(x, atoms)
    assert analysis.dihedrals(moved, atoms, boxes=TRICLINIC) == pytest.approx(angles, abs=1e-9)
    top = mdtraj.Topology()
    residue = top.add_residue("X", top.add_chain())
    for _ in range(9):
        top.add_atom("C", mdtraj.element.carbon, residue)
    assert mdtraj.compute_dihedrals(mdtraj.Trajectory(x, top), atoms, periodic=False) == pytest.approx(angles, abs=1e-3)


def dipeptide():
    names = ["C", "O", "N", "H", "CA", "CB", "C", "O", "N", "H"]  # ACE-ALA-NME, without the methyls
    return Topology(
        np.array(names),
        [6, 8, 7, 1, 6, 6, 6, 8, 7, 1],
        [0, 0, 1, 1, 1, 1, 1, 1, 2, 2],
        ["ACE", "ALA", "NME"],
        ["1", "2", "3"],
        [0, 0, 0],
        ["A"],
        [[0, 1], [0, 2], [2, 3], [2, 4], [4, 5], [4, 6], [6, 7], [6, 8], [8, 9]],
    )


def test_phi_and_psi_follow_the_peptide_bonds(rng):
    phi, psi, residues = analysis.phi_psi_atoms(dipeptide())
    assert phi.tolist() == [[0, 2, 4, 6]] and psi.tolist() == [[2, 4, 6, 8]] and residues.tolist() == [1]
    result = analysis.ramachandran(rng.normal(size=(5, 10, 3)), dipeptide())
    assert result.phi.shape == (5, 1) and result.labels == ["ALA 2"]
    with pytest.raises(ValueError, match="does the topology have bonds"):
        analysis.ramachandran(np.zeros((4, 3)), Topology.of_particles(4))
    with pytest.raises(ValueError, match="of the 10 atoms"):
        analysis.ramachandran(np.zeros((4, 3)), dipeptide())


# -- series ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.97])
def test_statistical_inefficiency_of_an_autoregressive_process(rng, rho):
    noise, x = rng.normal(size=200_000), np.zeros(200_000)
    for t in range(1, len(x)):
        x[t] = rho * x[t - 1] + noise[t]
    true = (1 + rho) / (1 - rho)
    assert analysis.statistical_inefficiency(x) == pytest.approx(true, rel=0.12)
    mean = analysis.mean(x)
    assert abs(mean.value) < 4 * mean.error
    blocking = analysis.block_average(x)
    plateau = blocking.error[blocking.size > 16 * true][0]
    assert plateau == pytest.approx(mean.error, rel=0.15)
    assert blocking.error[0] == pytest.approx(x.std() / np.sqrt(len(x)), rel=1e-3)


def test_means_of_constants_and_short_series():
    assert analysis.statistical_inefficiency(np.full(50, 3.3)) == 1
    assert analysis.mean([2.0]).value == 2.0
    with pytest.raises(ValueError, match="at least 4 samples"):
        analysis.block_average([1, 2, 3])
    with pytest.raises(ValueError, match="finite, got nan at 1"):
        analysis.mean([1.0, np.nan])


def test_density_of_water():
    result = analysis.density([15.99943, 1.007947, 1.007947] * 1000, np.broadcast_to(np.eye(3) * 3.1, (5, 3, 3)))
    assert result.value == pytest.approx(18.015324e3 / 6.02214076e23 / (3.1e-7) ** 3, rel=1e-8)
    assert result.mean.error == 0


def test_energy_drift_of_a_line_with_noise(rng):
    t = np.linspace(0, 500, 400)
    true = 2e-3  # kJ/mol/ps
    result = analysis.energy_drift(t, -1e5 + true * t + rng.normal(0, 0.05, 400), 3000, 300.0)
    unit = 1000 / 3000 / (units.GAS_CONSTANT * 300)
    assert abs(result.value - true * unit) < 4 * result.error
    assert result.error < 0.05 * result.value
    with pytest.raises(ValueError, match="at least 3 samples"):
        analysis.energy_drift([0, 1], [0, 1], 3, 300)


def test_free_energy_of_a_known_density_and_of_weights(rng):
    # p ~ exp(cos phi): the free energy is -kT cos phi
    phi = rng.vonmises(0, 1.0, 2_000_000)
    psi = rng.uniform(-np.pi, np.pi, phi.size)
    kt = units.GAS_CONSTANT * 300
    result = analysis.free_energy(phi, psi, temperature=300, bins=12)
    expected = -kt * np.cos(result.phi)[:, None] + 0 * result.psi
    assert result.value - result.value.mean() == pytest.approx(expected - expected.mean(), abs=0.08 * kt)
    flat = rng.uniform(-np.pi, np.pi, (2, 2_000_000)) + 2 * np.pi  # any period will do
    weighted = analysis.free_energy(*flat, np.exp(np.cos(flat[0])), temperature=300, bins=12)
    assert weighted.value == pytest.approx(result.value, abs=0.08 * kt)


def test_free_energy_where_nothing_was_seen_is_infinite():
    result = analysis.free_energy([0.1], [0.1], temperature=300, bins=4)
    assert result.value[2, 2] == 0 and np.isinf(result.value).sum() == 15
    with pytest.raises(ValueError, match="psi must have shape .*, got .*the shape of phi"):
        analysis.free_energy([0.1], [0.1, 0.2], temperature=300)
    with pytest.raises(ValueError, match="not all 0"):
        analysis.free_energy([0.1], [0.1], [0.0], temperature=300)


def test_every_result_draws_itself(rng):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot

    x = np.cumsum(rng.normal(0, 0.1, (50, 10, 3)), axis=0)
    results = [
        analysis.rdf(x, 3.0),
        analysis.msd(x, 1.0),
        analysis.diffusion_coefficient(x, 1.0),
        analysis.rmsd(x, x[0]),
        analysis.rmsf(x),
        analysis.ramachandran(x, dipeptide()),
        analysis.density(np.ones(10), np.broadcast_to(np.eye(3), (20, 3, 3))),
        analysis.energy_drift(np.arange(50), rng.normal(size=50), 30, 300),
        analysis.block_average(x[:, 0, 0]),
        analysis.free_energy(x[:, 0, 0], x[:, 0, 1], temperature=300),
    ]
    for result in results:
        ax = result.plot()
        assert ax.get_xlabel() and ax.get_ylabel()
        own = pyplot.subplots()[1]
        assert result.plot(own) is own
        ax.figure.canvas.draw()
        pyplot.close("all")
