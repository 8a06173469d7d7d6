"""Files of hills: against direct sums and PLUMED's numbers; runs with a past; old runs; restarts; bad files."""

from pathlib import Path

import numpy as np
import pytest

from tests.sponge.sampling.test_metadynamics import PHI, RT, X, langevin, particle, torsion_chain
from triskele import sponge
from triskele.sponge import cv, units
from triskele.sponge.errors import CheckpointError, FileFormatError, ReporterError
from triskele.sponge.sampling.hills_file import read_hills

DIHEDRAL = ["#! SET min_phi -pi", "#! SET max_phi pi"]
END = np.exp(-6.25)  # where PLUMED's hills do


def write(path, names, rows, constants=(), kernel="gaussian"):
    """A file as PLUMED writes it; rows are time, centers, widths, height and bias factor."""
    head = [
        f"#! FIELDS time {' '.join(names)} {' '.join('sigma_' + n for n in names)} height biasf",
        "#! SET multivariate false",
        f"#! SET kerneltype {kernel}",
        *constants,
    ]
    numbers = ("".join(f"{x:23.16g}" for x in row) for row in rows)
    Path(path).write_text("\n".join([*head, *numbers]) + "\n")
    return path


def direct(s, hills, period=None, end=0.0):
    """The sum of hills [m, 2 d + 1] at points [k, d]; the first variable is periodic, with all images."""
    d = s.shape[1]
    images = np.arange(-4, 5) * (0.0 if period is None else period)
    total = np.zeros(len(s))
    for shift in images if period is not None else [0.0]:
        off = s[:, None] - hills[:, :d] + np.eye(d)[0] * shift
        g = np.exp(-0.5 * np.sum((off / hills[:, d : 2 * d]) ** 2, axis=-1))
        total += np.where(g > end, (g - end) / (1 - end), 0.0) @ hills[:, -1]
    return total


def some_hills(rng, m, widths):
    return np.column_stack([rng.uniform(-3, 3, m), rng.uniform(0.3, 1.7, m), widths, rng.uniform(0.2, 1.5, m)])


DISTANCE = cv.distance(0, 3, name="d")
GRID = [200, (0.0, 2.0, 200)]


# -------------------------------------------------------------------------------------------------- hills on the grid
@pytest.mark.parametrize(("kernel", "end"), [("gaussian", 0.0), ("stretched-gaussian", END)])
def test_hills_of_a_file_are_their_direct_sum(tmp_path, kernel, end):
    """Each with widths of its own; heights of well-tempered runs are those of the bias times gamma / (gamma - 1)."""
    rng = np.random.default_rng(0)
    widths = np.column_stack([rng.uniform(0.15, 0.4, 60), rng.uniform(0.1, 0.3, 60)])
    widths[10:30] = widths[10]
    hills = some_hills(rng, 60, widths)
    rows = np.column_stack([np.arange(60), hills, np.full(60, 8.0)])
    rows[:, -2] *= 8 / 7
    swapped = rows[:, [0, 2, 1, 4, 3, 5, 6]]  # the file may have the variables in another order
    path = write(tmp_path / "HILLS", ["d", "phi"], swapped, DIHEDRAL, kernel)
    bias = sponge.Metadynamics([PHI, DISTANCE], [0.3, 0.2], height=9.0, every=7, grid=GRID, hills=path)
    s = np.column_stack([rng.uniform(-np.pi, np.pi, 3000), rng.uniform(0, 2, 3000)])
    expected = direct(s, hills, 2 * np.pi, end)
    assert expected.max() > 5
    np.testing.assert_allclose(bias.bias(*s.T), expected, atol=2e-3 if end else 2e-4)
    nodes = np.column_stack([rng.choice(axis, 3000) for axis in bias.axes])
    np.testing.assert_allclose(bias.bias(*nodes.T), direct(nodes, hills, 2 * np.pi, end), atol=1e-6)


def test_wide_hills_count_with_all_images(tmp_path):
    hills = np.array([[3.0, 3.0, 1.0], [-0.5, 0.2, 2.0]])
    path = write(tmp_path / "HILLS", ["phi"], [[k, *hill, -1] for k, hill in enumerate(hills)], DIHEDRAL)
    bias = sponge.Metadynamics(PHI, 0.3, height=1.0, every=10, grid=200, hills=[path])
    s = np.linspace(-3.1, 3.1, 200)
    np.testing.assert_allclose(bias.bias(s), direct(s[:, None], hills, 2 * np.pi), atol=1e-4)


with np.load(Path(__file__).parents[2] / "data" / "sponge" / "plumed" / "plumed.npz") as recorded:
    ANGLES, PLUMED = recorded["values"][:, :2], {name: recorded[name][:, 0] for name in ("metad", "tempered")}


@pytest.mark.parametrize(("name", "gamma"), [("metad", -1.0), ("tempered", 8.0)])
def test_old_runs_have_the_bias_that_plumed_printed(tmp_path, name, gamma):
    """PLUMED's hills from its biases: every fourth state has one, which counts from the next state on."""
    temperature = 300.0 * 0.0083144621 / units.GAS_CONSTANT  # PLUMED's gas constant has fewer digits
    at = np.arange(4, len(ANGLES), 4)
    heights = np.full(len(at), 1.2)
    if gamma > 1:
        heights *= np.exp(-PLUMED[name][at] / (units.GAS_CONSTANT * temperature * (gamma - 1))) * gamma / (gamma - 1)
    times, ends = 0.002 * np.arange(len(ANGLES)), [f"#! SET {e}_{n}" for n in ("phi", "psi") for e in ("min", "max")]
    constants = [f"{text} {'-' * ('min' in text)}pi" for text in ends]
    rows = np.column_stack(
        [times[at], ANGLES[at], np.full((len(at), 2), [0.35, 0.3]), heights, np.full(len(at), gamma)]
    )
    hills = write(tmp_path / "HILLS", ["phi", "psi"], rows, constants, "stretched-gaussian")
    states = ["#! FIELDS time psi phi b.bias", *constants]
    states += [f" {t:.6f} {psi:.12f} {phi:.12f} 0.0" for t, (phi, psi) in zip(times, ANGLES)]
    (tmp_path / "COLVAR").write_text("\n".join(states) + "\n")
    old = sponge.Metadynamics.from_files(hills, tmp_path / "COLVAR", temperature, grid=[720, 720])
    np.testing.assert_allclose(old._records()[:, 3], PLUMED[name], atol=1e-4)
    assert PLUMED[name].max() > 3 and old.steps.tolist() == list(range(len(ANGLES)))


# ---------------------------------------------------------------------------------------------------- runs with a past
def chain(bias, seed=1):
    return langevin(torsion_chain(), [bias], seed=seed, timestep=0.002)


def tempered(every=50, height=1.0, sigma=0.3, bias_factor=5.0, **options):
    return sponge.Metadynamics(PHI, sigma, height=height, every=every, bias_factor=bias_factor, **options)


@pytest.fixture
def before(tmp_path, monkeypatch):
    """A finished run in an empty folder, with its files, whose last hill comes between two reports."""
    monkeypatch.chdir(tmp_path)
    bias = tempered(record=10)
    chain(bias).run(2520, report=[sponge.Hills("HILLS", bias), sponge.Variables({"phi": PHI}, 10, "states.csv")])
    return bias


@pytest.mark.parametrize("bias_factor", [None, 5.0])
def test_a_run_that_starts_from_the_hills_of_another_has_its_bias(tmp_path, monkeypatch, bias_factor):
    monkeypatch.chdir(tmp_path)
    bias = tempered(bias_factor=bias_factor)
    sim = chain(bias)
    sim.run(2520, report=sponge.Hills("HILLS", bias))
    hills = bias.heights > 0
    file = read_hills("HILLS")
    assert np.array_equal(file.hills[:, 0], bias.values[hills, 0]) and hills.sum() == 50
    np.testing.assert_allclose(file.hills[:, -1], bias.heights[hills], rtol=1e-15)
    np.testing.assert_allclose(file.table.times(), bias.steps[hills] * 0.002, rtol=1e-15)
    more = tempered(every=20, height=0.3, sigma=0.2, bias_factor=9.0, grid=105, hills="HILLS")  # nodes as before
    np.testing.assert_allclose(more._grid, bias._grid, rtol=1e-12, atol=1e-12)
    chain(more, 2).run(41)
    present = float(bias.bias(more.values[0, 0]))
    expected = 0.3 * np.exp(-present / (RT * 8.0))
    assert more._records()[0, -3] == pytest.approx(present, rel=1e-9) and present > 0.5
    assert more.heights[0] == pytest.approx(expected, rel=1e-9)
    assert more._records()[0, -2] == pytest.approx(tempered_constant(bias, 9.0), rel=1e-3)


def tempered_constant(bias, gamma):
    """Tiwary and Parrinello's c(t) by quadrature."""
    v, beta = bias.bias(np.linspace(-np.pi, np.pi, 5000, endpoint=False)), 1 / RT
    upper, lower = beta * gamma / (gamma - 1), beta / (gamma - 1)
    return (np.log(np.mean(np.exp(upper * v))) - np.log(np.mean(np.exp(lower * v)))) / beta


def test_hills_are_written_once_in_several_runs(before, tmp_path):
    """Those at the end of a run are written again by the next, in the same place."""
    bias = tempered(record=10)
    sim, report = chain(bias), sponge.Hills("in-parts", bias)
    for part in (13, 488, 999, 1020):
        sim.run(part, report=report)
    assert (tmp_path / "in-parts").read_bytes() == (tmp_path / "HILLS").read_bytes()


def test_a_killed_run_with_a_past_resumes_with_the_same_bits(before, tmp_path):
    def make(path):
        bias = tempered(every=3, height=0.4, sigma=0.25, hills="HILLS")  # more rows than a table has
        return bias, chain(bias, 5), sponge.Hills(path, bias)

    whole, sim, report = make("whole")
    sim.run(5000, report=report)
    _, killed, report = make("killed")
    killed.run(3500, report=[report, sponge.Checkpoint("run.chk", every=3500)])
    killed.run(400, report=report)
    again, resumed, report = make("killed")
    resumed.load("run.chk")
    resumed.run(1500, report=report)
    assert np.array_equal(sim.positions, resumed.positions) and np.array_equal(whole._grid, again._grid)
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()
    assert len(read_hills("whole").hills) == 1666
    without = tempered(every=3, height=0.4, sigma=0.25)
    with pytest.raises(CheckpointError, match=r"hills \(only in the checkpoint\)"):
        chain(without, 5).load("run.chk")


def test_walkers_begin_with_the_past_once(before):
    def make(k):
        return chain(tempered(hills="HILLS"), k)

    walkers = sponge.MultipleWalkers(make, 2, every=500)
    walkers.run(1000, replica_report=lambda k: sponge.Hills(f"HILLS.{k}", walkers[k].sampling[0]))
    first, second = (walkers[k].sampling[0] for k in range(2))
    assert np.array_equal(first._grid, second._grid)
    # the last hills of each are not yet shared, nor written, as states at the end are recorded by the next step
    together = tempered(hills=["HILLS", "HILLS.0", "HILLS.1"])
    assert len(together.hills) == 50 + 2 * 19
    np.testing.assert_allclose(first.bias(together.axes[0]), together.bias(together.axes[0]), atol=1e-12)
    with pytest.raises(ValueError, match="those of walker 1 differ from those of walker 0: .*hills"):
        sponge.MultipleWalkers(lambda k: chain(tempered(**({"hills": "HILLS"} if k else {})), k), 2, every=500)


# ------------------------------------------------------------------------------------------------------------ old runs
def test_records_of_an_old_run_are_those_of_the_run(before):
    old = sponge.Metadynamics.from_files("HILLS", "states.csv", 300)
    assert old.steps.tolist() == list(range(10, 2521, 10)) and before.steps[-1] == 2510
    known = np.isin(old.steps, before.steps)
    np.testing.assert_allclose(old._records()[known, :-1], before._records()[:, :-1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(old.weights(before.steps), before.weights(), rtol=1e-9)
    np.testing.assert_allclose(old._grid, before._grid, atol=1e-12)
    found, expected = old.free_energy(blocks=2), before.free_energy(blocks=2)
    np.testing.assert_allclose(found.from_bias, expected.from_bias, atol=1e-9)


def test_an_old_run_may_have_a_past(before):
    more = tempered(every=20, sigma=0.2, height=0.3, bias_factor=9.0, hills="HILLS", record=10)
    states = sponge.Variables({"phi": PHI}, 10, "more.csv")
    chain(more, 2).run(500, report=[sponge.Hills("more", more), states])
    old = sponge.Metadynamics.from_files("more", "more.csv", 300, past="HILLS")
    np.testing.assert_allclose(old.log_weights(more.steps), more.log_weights(), rtol=1e-9, atol=1e-9)
    assert abs(sponge.Metadynamics.from_files("more", "more.csv", 300)._records()[0, 2]) < 0.1 < old._records()[0, 2]


def test_old_runs_of_walkers_are_merged_by_time(tmp_path):
    rows = np.column_stack([np.arange(1.0, 9), np.linspace(0, 1, 8), np.full((8, 3), [0.1, 1.0, 10.0])])
    parts = [write(tmp_path / f"HILLS.{k}", ["d"], rows[k::2]) for k in range(2)]
    write(tmp_path / "HILLS", ["d"], rows)
    (tmp_path / "COLVAR").write_text("#! FIELDS time d\n" + "".join(f"{t} 0.5\n" for t in range(10)))
    merged, whole = (
        sponge.Metadynamics.from_files(given, tmp_path / "COLVAR", 300) for given in (parts, tmp_path / "HILLS")
    )
    np.testing.assert_allclose(merged._records(), whole._records(), atol=1e-12)
    expected = [direct(np.array([[0.5]]), rows[:k, [1, 2, 3]])[0] * 0.9 for k in (0, 0, *range(1, 9))]
    np.testing.assert_allclose(whole._records()[:, 2], expected, atol=2e-4)
    system = particle()
    with pytest.raises(TypeError, match="recorded values alone"):
        langevin(system, [whole]).run(1)


# ----------------------------------------------------------------------------------------------------------- bad input
GOOD = """#! FIELDS time phi sigma_phi height biasf
#! SET multivariate false
#! SET kerneltype gaussian
#! SET min_phi -pi
#! SET max_phi pi
1.0 0.5 0.3 1.1 -1
2.0 0.7 0.3 1.2 -1
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2.0 0.7", "2.0 nan", "line 7: must hold finite numbers"),
        ("2.0 0.7", "2.0 0.7 0.7", "line 7: must hold 5 numbers"),
        ("2.0 0.7", "two 0.7", "line 7: must hold 5 numbers"),
        (" 1.2 -1\n", " 1.", "line 7: must hold 5 numbers, got '2.0 0.7 0.3 1.'"),
        ("2.0 0.7", "2.0 40.0", "line 7: phi must be on the grid from -3.14.* got 40"),
        ("phi sigma_phi", "psi sigma_psi", "ends of periods of psi alone"),
        ("multivariate false", "multivariate true", "a width for each variable, got multivariate true"),
        ("kerneltype gaussian", "kerneltype triangular", "got multivariate false, kerneltype triangular"),
        ("sigma_phi height", "height sigma_phi", "fields must be time, variables, sigma_ of each, height and biasf"),
        ("max_phi pi", "max_phi 2", r"the period of phi must be \(-3.14.* got \(-3.14159"),
        ("max_phi pi", "max_phi here", "ends of periods must be numbers or pi"),
        ("#! SET max_phi pi\n", "", "ends of periods of phi alone"),
        ("#! SET max_phi pi\n", "#! SET lower_int 1\n", "ends of periods of phi alone"),
    ],
)
def test_damaged_files(tmp_path, old, new, message):
    (tmp_path / "HILLS").write_text(GOOD.replace(old, new))
    with pytest.raises(FileFormatError, match=message) as caught:
        sponge.Metadynamics(PHI, 0.3, height=1.0, every=10, hills=tmp_path / "HILLS")
    assert old in GOOD and str(tmp_path / "HILLS") in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([3.0, 1.7, 0.1, 1.0, 5.0], r"line 6: d must be on the grid from 0 to 1 \(widen `grid`.*\), got 1.7"),
        ([3.0, 0.7, 0.01, 1.0, 5.0], "line 6: sigma_d must be from two intervals of the grid, 0.1"),
        ([3.0, 0.7, 5.0, 1.0, 5.0], "line 6: sigma_d must be .* to half of its range, 0.5"),
        ([3.0, 0.7, 0.0, 1.0, 5.0], r"line 6: widths must be positive, got \[0.0\]"),
        ([3.0, 0.7, 0.1, -1.0, 5.0], "line 6: heights must not be negative, got -1"),
    ],
)
def test_hills_that_do_not_fit_the_grid(tmp_path, row, message):
    path = write(tmp_path / "HILLS", ["d"], [[1.0, 0.5, 0.2, 1.0, 5.0], [2.0, 0.5, 0.2, 1.0, 5.0], row])
    with pytest.raises(FileFormatError, match=message):
        sponge.Metadynamics(DISTANCE, 0.1, height=1.0, every=10, grid=(0.0, 1.0, 20), hills=path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("HILLS", "", "got 0 rows of no fields"),
        ("HILLS", "#! FIELDS time d sigma_d height biasf\n", "got 0 rows of time, d"),
        ("HILLS", "#! FIELDS time d sigma_d height biasf\n1 2 .1 1 5\n#! FIELDS time d\n", "line 3: fields must stay"),
        (
            "HILLS",
            "#! FIELDS time d sigma_d height biasf\n1 2 .1 1 5\n2 2 .1 1 6\n",
            "line 3: biasf must stay 5, got 6",
        ),
        ("HILLS", "#! FIELDS time d sigma_d height biasf\n2 2 .1 1 5\n1 2 .1 1 5\n", "line 3: times must not decrease"),
        ("COLVAR", "#! FIELDS time e\n1 2\n", "must have the fields d, got time, e"),
        ("COLVAR", "#! FIELDS time d\n2 2\n1 2\n", "line 3: times must not decrease"),
        ("COLVAR", "#! FIELDS time d\n2 9\n", r"line 2: d must be on the grid from 0 to 5 \(widen `grid`.*\), got 9"),
    ],
)
def test_old_runs_whose_files_do_not_belong_together(tmp_path, name, text, message):
    write(tmp_path / "HILLS", ["d"], [[1.0, 0.5, 0.2, 1.0, 5.0]])
    (tmp_path / "COLVAR").write_text("#! FIELDS time d\n2 2\n")
    (tmp_path / name).write_text(text)
    with pytest.raises(FileFormatError, match=message):
        sponge.Metadynamics.from_files(tmp_path / "HILLS", tmp_path / "COLVAR", 300, grid=(0, 5))


def test_ends_of_periods_may_be_multiples_of_pi(tmp_path):
    angle = cv.function(lambda x: x[0, 0], [0], period=(0.0, 2 * np.pi), name="angle")
    for low, high in (("0", "2pi"), ("0.0", "2*pi"), ("0", "6.283185307179586")):
        constants = [f"#! SET min_angle {low}", f"#! SET max_angle {high}"]
        path = write(tmp_path / "HILLS", ["angle"], [[1.0, 6.2, 0.3, 2.0, -1.0]], constants)
        bias = sponge.Metadynamics(angle, 0.3, height=1.0, every=10, hills=path)
        assert float(bias.bias(0.0)) == pytest.approx(2.0 * np.exp(-0.5 * ((2 * np.pi - 6.2) / 0.3) ** 2), rel=1e-4)


def test_variables_have_the_names_of_the_file(before):
    with pytest.raises(FileFormatError, match=r"must be of the variables torsion\(0,_1,_2,_3\), got phi .*name='phi'"):
        sponge.Metadynamics(cv.torsion(0, 1, 2, 3), 0.3, height=1.0, every=10, hills="HILLS")
    with pytest.raises(FileFormatError, match="the period of phi must be None, got"):
        plain = cv.distance(0, 1, name="phi")
        sponge.Metadynamics(plain, 0.3, height=1.0, every=10, grid=(0.0, 4.0), hills="HILLS")


def test_the_file_belongs_to_the_run(before, tmp_path):
    bias = tempered(hills="HILLS")
    sim = chain(bias)
    with pytest.raises(ReporterError, match="holds hills that the bias began with"):
        sim.run(10, report=sponge.Hills(tmp_path / "HILLS", bias))
    with pytest.raises(ReporterError, match="bias must be one of the simulation's"):
        sim.run(10, report=sponge.Hills("new", tempered()))
    with pytest.raises(TypeError, match="Hills: bias must be a Metadynamics"):
        sponge.Hills("new", X)
    sim.run(120, report=sponge.Hills("new", bias))
    with open("new", "r+b") as file:
        sim.files["new"] = file.seek(0, 2) + file.write(b"0.2 0.1 0.3 1.0 5.0\n" * 3)
    with pytest.raises(ReporterError, match="must hold at most the 2 hills of the run, got 5"):
        sim.run(10, report=sponge.Hills("new", bias))
