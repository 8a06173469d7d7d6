"""Metadynamics: hills and their interpolation against direct sums, known free energies, constants of motion, restarts,
walkers.
"""

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import cv, units
from triskele.sponge.geometry import angles, distances, torsions
from triskele.sponge.testing import example_system

X, Y, Z = (cv.function(lambda x, k=k: x[0, k], [0], name="xyz"[k]) for k in range(3))
RT = units.GAS_CONSTANT * 300.0


def particle(energy=None, start=(0.0, 0.0, 0.0), **params):
    """One particle of 10 dalton in a potential."""
    system = sponge.System(sponge.Topology.of_particles(1), [10.0], positions=[start], remove_com_motion=False)
    if energy is not None:
        system.add(sponge.FunctionPotential(energy, params or None))
    return system


def langevin(system, sampling, seed=1, friction=5.0, timestep=0.005):
    return sponge.Simulation(
        system,
        sponge.LangevinMiddle(temperature=300, friction=friction, timestep=timestep),
        seed=seed,
        sampling=sampling,
    )


def two_wells(phi):
    return 9.0 * (1 + np.cos(2 * phi - 0.4)) + 3.0 * (1 + np.cos(phi))


BONDS, ANGLES, CHAIN = np.array([[0, 1], [1, 2], [2, 3]]), np.array([[0, 1, 2], [1, 2, 3]]), np.array([[0, 1, 2, 3]])


def chain_energy(x):
    stiff = 1e4 * np.sum((distances(x, None, BONDS) - 0.15) ** 2) + 200.0 * np.sum(
        (angles(x, None, ANGLES) - 1.95) ** 2
    )
    return stiff + np.sum(two_wells(torsions(x, None, CHAIN)))


def torsion_chain():
    """Four atoms with a torsion of two unequal wells, the rest nearly stiff."""
    x = [[0.1, 0.1, 0], [0, 0, 0], [0.15, 0, 0], [0.2, -0.1, 0.05]]
    system = sponge.System(sponge.Topology.of_particles(4), [12.0] * 4, positions=x)
    system.add(sponge.FunctionPotential(chain_energy))
    return system


PHI = cv.torsion(0, 1, 2, 3, name="phi")


def well(x):
    return 12.0 * (x**2 - 1.0) ** 2 + 3.0 * x


def double_well(x):
    return well(x[0, 0]) + 50.0 * (x[0, 1] ** 2 + x[0, 2] ** 2)


# ------------------------------------------------------------------------------------------------------------------ the
# grid
@pytest.mark.parametrize("d", [1, 2, 3])
def test_hills_on_the_grid_are_the_direct_sum_of_gaussians(d):
    """At the nodes to rounding and cut-off; between them to the error of cubic interpolation."""
    cvs = [PHI, X, Y][:d]
    bias = sponge.Metadynamics(
        cvs, [0.3, 0.2, 0.25][:d], height=1.0, every=10, grid=[None, (-1.0, 1.5), (-2.0, 1.0)][:d]
    )
    rng = np.random.default_rng(d)
    centers = np.column_stack([rng.uniform(-4, 4, 30), rng.uniform(-1, 1.5, 30), rng.uniform(-2, 1, 30)])[:, :d]
    heights = rng.uniform(0.2, 1.5, 30)
    bias.receive([{"hills": np.column_stack([centers, heights])}])

    def direct(*s):
        total = 0.0
        for image in (-2, -1, 0, 1, 2):  # of the torsion
            square = ((s[0][..., None] - centers[:, 0] + 2 * np.pi * image) / 0.3) ** 2
            for k in range(1, d):
                square = square + ((s[k][..., None] - centers[:, k]) / bias.sigma[k]) ** 2
            total = total + np.sum(heights * np.exp(-0.5 * square), axis=-1)
        return total

    nodes = [rng.choice(axis, 2000) for axis in bias.axes]
    np.testing.assert_allclose(bias.bias(*nodes), direct(*nodes), atol=1e-6)
    between = [rng.uniform(-3, 3, 500), rng.uniform(-1, 1.5, 500), rng.uniform(-2, 1, 500)][:d]
    np.testing.assert_allclose(bias.bias(*between), direct(*between), atol=2e-4 if d < 3 else 2e-3)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_forces_are_the_slopes_of_the_interpolated_bias(d):
    x0 = np.array([0.13, -0.4, 0.77])
    bias = sponge.Metadynamics([X, Y, Z][:d], 0.3, height=1.0, every=10, grid=[(-2.0, 2.0)] * d)
    rng = np.random.default_rng(d)
    bias.receive([{"hills": np.column_stack([rng.uniform(-1, 1, (40, d)), np.ones(40)])}])
    engine = sponge.Engine(particle(), sampling=[bias])
    engine.compute([x0])
    assert engine.energies()["metadynamics"] == pytest.approx(float(bias.bias(*x0[:d])), rel=1e-12)
    h = 1e-6
    for k in range(d):
        step = h * np.eye(3)[k]
        slope = (bias.bias(*(x0 + step)[:d]) - bias.bias(*(x0 - step)[:d])) / (2 * h)
        assert engine.forces[0, k] == pytest.approx(-slope, abs=1e-7)


def test_virial_of_a_bias_against_strain():
    """Of a variable between periodic images and of one that is not, in a triclinic box."""
    box = np.array([[0.9, 0, 0], [0.2, 0.8, 0], [-0.1, 0.3, 0.9]])
    bias = sponge.Metadynamics(
        [cv.distance(0, 11), cv.radius_of_gyration(range(5))], 0.1, height=9.0, every=10, grid=[(0.0, 1.0), (0.0, 1.0)]
    )
    system = example_system(box=box)
    engine = sponge.Engine(system, sampling=[bias])
    x = np.array(system.positions)
    s = [float(v(x, box)) for v in bias.cvs]
    bias.receive([{"hills": np.array([[s[0] - 0.05, s[1] + 0.08, 9.0]])}])
    engine.compute(x)
    virial, h = engine.virial(), 1e-6
    for a, b in np.ndindex(3, 3):
        strain = np.zeros((3, 3))
        strain[a, b] = h
        up, down = (
            float(bias.bias(*(v(x @ (np.eye(3) + e), box @ (np.eye(3) + e)) for v in bias.cvs)))
            for e in (strain, -strain)
        )
        assert virial[b, a] == pytest.approx(-(up - down) / (2 * h), abs=1e-6)


def test_energy_is_conserved_on_a_frozen_bias():
    """Which the slope of the interpolation has to be exact for; the nodes are as far apart as is allowed."""
    bias = sponge.Metadynamics(PHI, sigma=0.2, height=4.0, every=10, grid=63)
    bias.receive([{"hills": np.column_stack([np.linspace(-3, 3, 25), np.random.default_rng(1).uniform(1, 9, 25)])}])
    spread = []
    for timestep in (0.001, 0.0005):
        sim = sponge.Simulation(torsion_chain(), sponge.VelocityVerlet(timestep=timestep), sampling=[bias.freeze()])
        sim.thermalize(300, seed=3)
        total = []
        for _ in range(100):
            sim.run(round(0.02 / timestep))
            total.append(sim.energies()["total"])
        spread.append(np.std(total))
        assert abs(np.mean(total[-50:]) - np.mean(total[:50])) < 0.5 * spread[-1]
    assert spread[1] < 0.35 * spread[0]  # of second order: nothing but the time step's error


# --------------------------------------------------------------------------------------------------------------- the
# method
def test_heights_and_records():
    """Hills every 20 steps of a height that the bias of the moment damps; the table holds more rows than it is long."""
    gamma = 4.0
    bias = sponge.Metadynamics(X, 0.1, height=1.0, every=20, record=10, bias_factor=gamma, grid=(-5, 5, 500))
    record = sponge.Variables({"x": X}, every=10)
    sim = langevin(particle(lambda x: 40.0 * np.sum(x * x)), [bias])
    sim.run(25_000, report=record)
    # forces of step s belong to state s: state 25,000 comes with the next step
    assert bias.steps.tolist() == list(range(10, 25_000, 10))
    np.testing.assert_allclose(bias.values[:, 0], record["x"][:-1], rtol=1e-12)
    hills = bias.heights > 0
    assert np.array_equal(hills, bias.steps % 20 == 0)

    twin = sponge.Metadynamics(X, 0.1, height=1.0, every=20, bias_factor=gamma, grid=(-5, 5, 500))
    for center, height in list(zip(bias.values[hills, 0], bias.heights[hills]))[:50]:
        assert height == pytest.approx(np.exp(-float(twin.bias(center)) / (RT * (gamma - 1))), rel=1e-9)
        twin.receive([{"hills": np.array([[center, height]])}])


def test_records_of_velocity_verlet_belong_to_the_present_state():
    bias = sponge.Metadynamics(X, 0.1, height=0.1, every=20, temperature=300.0, grid=(-5, 5))
    record = sponge.Variables({"x": X}, every=20)
    sim = sponge.Simulation(
        particle(lambda x: 40.0 * np.sum(x * x)), sponge.VelocityVerlet(timestep=0.005), sampling=[bias]
    )
    sim.velocities = [[0.4, 0.1, 0.3]]
    sim.run(200, report=record)
    assert bias.steps.tolist() == record.steps.tolist() == list(range(20, 201, 20))
    np.testing.assert_allclose(bias.values[:, 0], record["x"], rtol=1e-12)


def test_constant_of_the_bias():
    """Tiwary and Parrinello's c(t) from the integrals, by quadrature over the direct sum of hills."""
    for gamma in (None, 5.0):
        bias = sponge.Metadynamics(PHI, 0.3, height=2.0, every=10, bias_factor=gamma, temperature=300.0, record=5)
        sim = langevin(torsion_chain(), [bias], timestep=0.002)
        sim.run(2001)
        s = np.linspace(-np.pi, np.pi, 20_000, endpoint=False)
        beta = 1 / RT
        lower = 0.0 if gamma is None else beta / (gamma - 1)
        v = bias.bias(s)
        expected = (np.log(np.mean(np.exp((beta + lower) * v))) - np.log(np.mean(np.exp(lower * v)))) / beta
        sim.run(5)  # the next record has the constant that holds now
        assert bias._records()[-1, -2] == pytest.approx(expected, rel=1e-4)


def test_weights_are_those_of_the_records():
    bias = sponge.Metadynamics(PHI, 0.3, height=2.0, every=10, bias_factor=5, record=5)
    with pytest.raises(ValueError, match="nothing was recorded yet"):
        bias.weights()
    sim = langevin(torsion_chain(), [bias], timestep=0.002)
    sim.run(500)
    all_of_them = bias.weights()
    np.testing.assert_allclose(bias.weights(bias.steps[3::7]), all_of_them[3::7] / all_of_them[3::7].sum(), rtol=1e-12)
    with pytest.raises(ValueError, match=r"among those recorded \(multiples of 5, from 5 to 495\), got 12"):
        bias.weights([10, 12])
    with pytest.raises(ValueError, match="steps must be whole numbers"):
        bias.weights(10)
    present = bias.weights([100, 500])  # the last state, which the next step records
    sim.run(1)
    assert bias.steps[-1] == 500
    np.testing.assert_allclose(present, bias.weights([100, 500]), rtol=1e-12)


def torsion_free_energy(phi):
    """Of `torsion_chain`: bonds and angles depend on no torsion, and the Jacobian does not either."""
    f = two_wells(phi)
    return f - f.min()


@pytest.mark.parametrize("bias_factor", [None, 6.0])
def test_periodic_torsion(bias_factor):
    """Barriers of 18 kJ/mol = 7 RT; the free energy comes out from the bias and by weights."""
    bias = sponge.Metadynamics(
        PHI, 0.25, height=0.5 if bias_factor is None else 1.5, every=100, bias_factor=bias_factor, record=20
    )
    sim = langevin(torsion_chain(), [bias], timestep=0.003)
    sim.run(400_000)
    found = bias.free_energy()
    exact = torsion_free_energy(found.axes[0])
    assert np.std((found.from_bias - exact)[exact < 15]) < (1.2 if bias_factor is None else 0.6)
    assert np.std((found.value - exact)[exact < 10]) < 0.5
    assert np.all(found.error[exact < 10] < 1.0) and found.value.min() == 0
    assert np.exp(bias.log_weights())[5000:].mean() == pytest.approx(1.0, abs=0.25)
    assert bias.weights().sum() == pytest.approx(1.0) and bias.weights(bias.steps[7:9]).sum() == pytest.approx(1.0)


def _chi_squares(found, exact, top):
    """Of all nodes up to an energy, with the constant of the most probable ones."""
    some = np.isfinite(found.error) & (exact < exact.min() + top)
    off = np.where(some, found.value, exact) - exact
    p = np.where(some, np.exp(-(exact - exact.min()) / RT), 0.0)
    return ((off - np.sum(np.where(some, p * off, 0.0)) / p.sum())[some] / found.error[some]) ** 2


@pytest.mark.slow
def test_errors_of_a_double_well_are_of_the_right_size():
    """The wells are as narrow as hills: kernels of a quarter of sigma were off by ten standard errors."""
    squares, differences = [], []
    for seed in range(8):
        bias = sponge.Metadynamics(X, 0.15, height=1.0, every=100, bias_factor=5, grid=(-2.5, 2.5), record=20)
        langevin(particle(double_well, start=(-1.0, 0, 0)), [bias], seed=seed, timestep=0.01).run(200_000)
        found = bias.free_energy()
        exact = well(found.axes[0])
        squares.append(_chi_squares(found, exact, 30.0).mean())
        i, j = (int(np.argmin(np.abs(found.axes[0] - x))) for x in (-1.0, 0.95))
        differences.append(
            (found.value[j] - found.value[i] - exact[j] + exact[i]) / np.hypot(found.error[i], found.error[j])
        )
    assert 0.4 < np.mean(squares) < 2.2, squares
    assert 0.2 < np.mean(np.square(differences)) < 2.5


@pytest.mark.slow
def test_errors_in_two_dimensions_are_of_the_right_size():
    def energy(x):
        return well(x[0, 0]) + 5.0 * x[0, 1] ** 2 + 50.0 * x[0, 2] ** 2

    squares = []
    for seed in range(3):
        bias = sponge.Metadynamics(
            [X, Y], [0.2, 0.6], height=1.0, every=100, bias_factor=5, grid=[(-2.5, 2.5), (-7.0, 7.0)], record=10
        )
        langevin(particle(energy, start=(-1.0, 0, 0)), [bias], seed=seed, timestep=0.01).run(300_000)
        found = bias.free_energy()
        squares.append(_chi_squares(found, well(found.axes[0])[:, None] + 5.0 * found.axes[1] ** 2, 8.0).mean())
    assert 0.4 < np.mean(squares) < 2.2, squares


def test_well_tempered_bias_is_a_part_of_the_free_energy():
    """V = -(1 - 1/gamma) F in the long run: a double well along x, at once in a harmonic y."""
    gamma = 5.0

    bias = sponge.Metadynamics(X, 0.15, height=1.0, every=100, bias_factor=gamma, grid=(-2.5, 2.5))
    langevin(particle(double_well, start=(-1.0, 0, 0)), [bias], timestep=0.01).run(600_000)
    x = np.linspace(-1.5, 1.4, 60)
    exact = well(x)
    low = exact < exact.min() + 12
    v = bias.bias(x)[low] + (1 - 1 / gamma) * exact[low]
    assert np.std(v) < 0.45


# --------------------------------------------------------------------------------------------------- restarts and
# walkers
def test_a_resumed_run_has_the_same_bits(tmp_path):
    def make():
        bias = sponge.Metadynamics(
            [PHI, cv.distance(0, 3)], [0.3, 0.05], height=1.0, every=3, bias_factor=5, grid=[None, (0.0, 1.0)]
        )
        return bias, langevin(torsion_chain(), [bias], timestep=0.002)

    whole, sim = make()
    sim.run(3500)  # more rows than a table has
    sim.save(tmp_path / "run.chk")
    sim.run(500)
    again, resumed = make()
    resumed.load(tmp_path / "run.chk")
    resumed.run(500)
    assert np.array_equal(sim.positions, resumed.positions)
    assert np.array_equal(whole._grid, again._grid)
    assert np.array_equal(whole._records(), again._records()) and len(whole.steps) > 1024
    other = sponge.Metadynamics(PHI, 0.3, height=1.0, every=3)
    with pytest.raises(sponge.errors.CheckpointError, match="sampling"):
        langevin(torsion_chain(), [other], timestep=0.002).load(tmp_path / "run.chk")


def test_states_do_not_change_later():
    bias = sponge.Metadynamics(PHI, 0.3, height=1.0, every=2, bias_factor=5)
    sim = langevin(torsion_chain(), [bias], timestep=0.002)
    sim.run(3000)
    state = bias.state()
    kept = {name: values.copy() for name, values in state.items()}
    sim.run(3000)
    assert all(np.array_equal(state[name], kept[name]) for name in kept)
    bias.restore(state)
    assert np.array_equal(bias._records()[:, 0], np.arange(2, 3000, 2)) and np.array_equal(bias._grid, kept["grid"])


def test_walkers_share_one_bias():
    def walker(seed):
        bias = sponge.Metadynamics(PHI, 0.3, height=1.0, every=50, bias_factor=5)
        return bias, langevin(torsion_chain(), [bias], seed=seed, timestep=0.002)

    pairs = [walker(1), walker(2)]
    for _ in range(4):
        for _, sim in pairs:
            sim.run(500)
        news = [bias.news() for bias, _ in pairs]
        for bias, _ in pairs:
            bias.receive(news)
        assert np.array_equal(pairs[0][0]._grid, pairs[1][0]._grid)
    hills = [np.column_stack([bias.values, bias.heights]) for bias, _ in pairs]
    twin = sponge.Metadynamics(PHI, 0.3, height=1.0, every=50, bias_factor=5)
    twin.receive([{"hills": np.concatenate(hills)}])
    s = np.linspace(-3, 3, 50)
    np.testing.assert_allclose(pairs[0][0].bias(s), twin.bias(s), rtol=1e-12)
    assert pairs[0][0].news()["hills"].shape == (0, 2)
    # a walker goes on alone from a state in which others' hills are on its grid
    state = pairs[0][0].state()
    pairs[0][1].run(200)
    assert len(pairs[0][0].news()["hills"]) == 4
    pairs[0][0].restore(state)
    assert len(pairs[0][0].news()["hills"]) == 0


def test_walkers_are_damped_by_each_others_hills_from_the_exchange_on():
    bias = sponge.Metadynamics(PHI, 0.3, height=1.0, every=50, bias_factor=3)
    sim = langevin(torsion_chain(), [bias], timestep=0.002)
    bias.receive([{"hills": np.column_stack([np.linspace(-3, 3, 40), np.full(40, 2.0)])}])
    sim.run(101)
    assert np.all(bias.heights < 0.2)


def test_walkers_on_threads_are_those_of_one_process():
    def make(k):
        bias = sponge.Metadynamics(PHI, 0.3, height=1.0, every=50, bias_factor=5)
        return langevin(torsion_chain(), [bias], seed=k, timestep=0.002)

    walkers = sponge.MultipleWalkers(make, 2, every=500)
    walkers.run(1000)
    sims = [make(0), make(1)]
    for _ in range(2):
        for sim in sims:
            sim.run(500)
        news = [sim.sampling[0].news() for sim in sims]
        for sim in sims:
            sim.sampling[0].receive(news)
            sim._touched()
    for k, sim in enumerate(sims):
        assert np.array_equal(walkers[k].positions, sim.positions)
        assert np.array_equal(walkers[k].sampling[0]._grid, sim.sampling[0]._grid)


# ------------------------------------------------------------------------------------------------------- with other
# methods
def test_metadynamics_of_an_integrated_tempering_run():
    """Forces and energies of the two biases add up, and tempering does not see the hills."""

    def make(*names):
        bias = sponge.Metadynamics(PHI, 0.3, height=1.0, every=50, bias_factor=5)
        bias.receive([{"hills": np.column_stack([np.linspace(-3, 3, 20), np.linspace(0, 3, 20)])}])
        sits = sponge.SITS(temperatures=units.ladder(280, 800, 20))
        sim = langevin(torsion_chain(), [{"bias": bias, "sits": sits}[name] for name in names])
        sits.log_n = np.linspace(0, 3, 20)
        sits.produce()
        sim._engine.compute()
        return sim, sim._engine.forces.copy(), sim._engine.energies()

    (_, plain, _), (_, hills, by_hills), (_, tempered, by_tempering), (both, sum_, by_both) = (
        make(),
        make("bias"),
        make("sits"),
        make("bias", "sits"),
    )
    assert np.abs(hills - plain).max() > 1 and np.abs(tempered - plain).max() > 1
    np.testing.assert_allclose(sum_ - plain, (hills - plain) + (tempered - plain), atol=1e-10)
    assert by_both["metadynamics"] == by_hills["metadynamics"] and by_both["sits"] == by_tempering["sits"]
    both.run(200)
    bias, sits = both.sampling
    assert bias.steps.tolist() == [50, 100, 150] and np.isfinite(bias.weights()).all() and sits.steps[-1] >= 190


# ---------------------------------------------------------------------------------------------------------------- bad
# input
def test_leaving_the_grid_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bias = sponge.Metadynamics(X, 0.1, height=1.0, every=20, grid=(-0.2, 0.2))
    with pytest.raises(
        cv.VariableError,
        match=r"Metadynamics 'metadynamics': x must stay on the grid from -0.2 to 0.2, got .* at step "
        r"\d+ \(widen `grid`, or add a wall with BiasPotential\)",
    ):
        langevin(particle(), [bias]).run(10_000)


def test_undefined_gradient_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = sponge.System(sponge.Topology.of_particles(4), np.ones(4), positions=np.outer(np.arange(4), [0.1, 0.2, 0.3]))
    message = (
        "phi must have a gradient, got value nan .* at step 0: it does not exist where three atoms in sequence lie on "
        "a line"
    )
    with pytest.raises(cv.VariableError, match=f"Metadynamics 'metadynamics': {message}"):
        langevin(line, [sponge.Metadynamics(PHI, 0.3, height=1.0, every=10)]).run(10)
    for variable, where in (
        (cv.distance(0, 1), "at distance 0"),
        (cv.rmsd(range(4), np.eye(4, 3)), "not unique"),
        (cv.angle(0, 1, 2), "lie on a line"),
        (PHI, "lie on a line"),
    ):
        places = [0, 0, 1, 2] if "distance" in variable.name else range(4)
        system = sponge.System(sponge.Topology.of_particles(4), np.ones(4), positions=np.outer(places, [0.1, 0.2, 0.3]))
        system.add(sponge.umbrella(variable, center=0.3, k=10.0))
        with pytest.raises(cv.VariableError, match=f"bias 'umbrella': .* must have a gradient, .*{where}"):
            langevin(system, []).run(10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 0.0}, "sigma must be a positive number"),
        ({"sigma": 20.0}, "sigma must be at most half of the range of phi.*radians"),
        ({"sigma": [0.1, 0.2]}, "one for each of 1 variables"),
        ({"height": -1.0}, "height must be a positive number"),
        ({"every": 0}, "every must be an integer"),
        ({"record": 7}, "record must divide the 10 steps"),
        ({"bias_factor": 1.0}, "bias_factor must be > 1"),
        ({"grid": 12}, "at most half of sigma .*at least 42 intervals"),
        ({"grid": (0.0, 3.0)}, "must be its period"),
        ({"cvs": X}, "grid must say from where to where x goes"),
        ({"cvs": [X, Y, Z, PHI]}, "at most 3"),
        ({"cvs": []}, "at least one"),
        ({"cvs": 3}, "must be made by sponge.cv"),
        ({"cvs": [X, Y, Z], "sigma": 0.01, "grid": [(0, 9)] * 3}, "at most 10000000 nodes"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sponge.Metadynamics(**{"cvs": PHI, "sigma": 0.3, "height": 1.0, "every": 10, **options})


def test_a_bias_belongs_to_one_simulation():
    bias = sponge.Metadynamics(PHI, 0.3, height=1.0, every=10)
    langevin(torsion_chain(), [bias])
    with pytest.raises(ValueError, match="belongs to one simulation, and has one already"):
        langevin(torsion_chain(), [bias])
    langevin(torsion_chain(), [bias.freeze()])


def test_options_that_do_not_fit_the_simulation():
    assert len(sponge.Metadynamics(PHI, 0.3, height=1.0, every=10, grid=np.int64(90)).axes[0]) == 90
    with pytest.raises(TypeError, match="grid must be a sequence with an entry for each variable, got float 3.0"):
        sponge.Metadynamics(PHI, 0.3, height=1.0, every=10, grid=3.0)
    with pytest.raises(ValueError, match="temperature must be given, as VelocityVerlet has none"):
        sponge.Simulation(
            torsion_chain(),
            sponge.VelocityVerlet(timestep=0.001),
            sampling=[sponge.Metadynamics(PHI, 0.3, height=1.0, every=10, bias_factor=3)],
        )
    with pytest.raises(ValueError, match="atoms of .* must be below 4"):
        langevin(torsion_chain(), [sponge.Metadynamics(cv.torsion(1, 2, 3, 4), 0.3, height=1.0, every=10)])
    with pytest.raises(ValueError, match="forces once a step, which RESPA does not"):
        sponge.Simulation(
            torsion_chain(),
            sponge.RESPA(timestep=0.002, inner=2, fast=["chain_energy"]),
            sampling=[sponge.Metadynamics(PHI, 0.3, height=1.0, every=10)],
        )
