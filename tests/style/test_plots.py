"""Every result that is a curve or a table has `plot(ax=None, **options)`: labeled axes, and nothing is shown."""

import ast
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest

from triskele import core, quantum, sponge
from triskele import reinforce as rl
from triskele.quantum.algorithms.adapt import AdaptResult
from triskele.quantum.algorithms.qaoa import QAOAResult
from triskele.quantum.algorithms.vqd import VQDResult
from triskele.quantum.algorithms.vqe import VQEResult
from triskele.sponge import alchemy, analysis
from triskele.sponge.fitting.fit import Fit, Round
from triskele.sponge.sampling.free_energy_estimate import FreeEnergyEstimate

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")
ROOT, FOLDERS = Path(__file__).parents[2], ("core", "sponge", "quantum", "reinforce")

X = np.random.default_rng(0).normal(0.0, 0.01, (40, 12, 3)).cumsum(0)
PHI, PSI = np.random.default_rng(1).vonmises(0, 3, (2, 2000))


def peptide():
    return sponge.load(*sponge.example_files("alanine-dipeptide"), method="none")


def surface(dimensions):
    axes = [np.linspace(-3, 3, 12)] * dimensions
    value = np.add.reduce(np.meshgrid(*(a**2 for a in axes), indexing="ij"))
    return FreeEnergyEstimate(axes, value, np.where(value > 8, np.inf, 0.1 + value / 10), value)


def works():
    """Energies of samples of two springs in both of them."""
    return [np.stack([x**2, (x - 1) ** 2], axis=1) for x in (PHI, 1 + PSI)]


def steps(cls, **values):
    """A result of a variational algorithm whose other numbers do not matter."""
    given = {"history": np.array([-0.5, -1.0, -1.1]), "slopes": np.ones(3), **values}
    return cls(**{name: given.get(name) for name in inspect.signature(cls).parameters})


def classifier():
    made = quantum.Classifier(quantum.Circuit(1).ry("x", 0).as_encoder() + quantum.Circuit(1).ry("a", 0), epochs=2)
    return made.fit(np.linspace(-1, 1, 8)[:, None], [0, 1] * 4)


def search():
    game = rl.games.TicTacToe()
    return rl.MCTS(game, simulations=20)(game.initial_state())


RESULTS = {
    "train.History": lambda: core.train.History([{"epoch": k, "step": 5 * k, "loss": 1 / k} for k in (1, 2, 3)]),
    "train.Comparison": lambda: core.train.Comparison(
        *[[{"epoch": k, "numbers": {"record": {"loss": 1 / k}}} for k in (1, 2, 3)]] * 2, ("a", "b")
    ),
    "OperationTimes": lambda: core.profile(lambda x: np.sin(x).sum(), np.ones(100), seconds=0.001),
    "RadialDistribution": lambda: analysis.rdf(X, 3.0),
    "MeanSquareDisplacement": lambda: analysis.msd(X, 1.0),
    "Diffusion": lambda: analysis.diffusion_coefficient(X, 1.0),
    "RmsDeviation": lambda: analysis.rmsd(X, X[0]),
    "Fluctuations": lambda: analysis.rmsf(X),
    "Ramachandran": lambda: analysis.ramachandran(np.tile(peptide().positions, (5, 1, 1)), peptide().topology),
    "Density": lambda: analysis.density(np.ones(10), np.broadcast_to(np.eye(3), (20, 3, 3))),
    "EnergyDrift": lambda: analysis.energy_drift(np.arange(50), X[:, :2].ravel()[:50], 30, 300),
    "Blocking": lambda: analysis.block_average(PHI),
    "FreeEnergy": lambda: analysis.free_energy(PHI, PSI, temperature=300, bins=20),
    "Profile": lambda: analysis.profile(PHI, temperature=300, bins=20),
    "Populations": lambda: analysis.populations(PHI, PSI, {"left": analysis.Rectangle((-np.pi, 0))}),
    "Wham": lambda: analysis.wham([PHI - 1, PHI + 1], [-1, 1], 5.0, temperature=300, bootstrap=5),
    "Mbar": lambda: analysis.mbar(np.stack([PHI**2, (PHI - 1) ** 2]), [1000, 1000]),
    "FreeEnergyDifference": lambda: alchemy.free_energy_difference(works(), 300),
    "Convergence": lambda: alchemy.convergence(works(), 300, fractions=3),
    "FreeEnergyEstimate": lambda: surface(1),
    "Fit": lambda: Fit(None, {}, {}, {}, [Round({}, 1 / k, np.nan) for k in range(1, 9)]),
    "VQEResult": lambda: steps(VQEResult),
    "QAOAResult": lambda: steps(QAOAResult),
    "AdaptResult": lambda: steps(AdaptResult),
    "VQDResult": lambda: steps(VQDResult, histories=(np.array([1.0, 0.5]), np.array([2.0, 1.0, 0.7]))),
    "Classifier": classifier,
    "Evaluation": lambda: rl.Evaluation(np.array([1.0, 3.0, 2.0, 5.0]), np.array([10, 20, 15, 30])),
    "MatchResult": lambda: rl.play_match(rl.games.TicTacToe(), {"a": rl.Random(), "b": rl.Random()}, 20),
    "SearchResult": search,
}


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def with_plot():
    """All classes with such a method, by name."""
    found = {}
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if "    def plot(" in (text := path.read_text()):
            module = importlib.import_module(".".join(("triskele", *path.relative_to(ROOT).with_suffix("").parts)))
            place = "train." if "train" in path.parts else ""
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef) and any(getattr(n, "name", "") == "plot" for n in node.body):
                    found[place + node.name] = getattr(module, node.name)
    return found


def test_all_results_with_a_plot_are_tried():
    assert sorted(with_plot()) == sorted(RESULTS)


def test_signatures_follow_the_convention():
    for name, thing in with_plot().items():
        first, *middle, last = list(inspect.signature(thing.plot).parameters.values())[1:]
        assert (first.name, first.default, first.kind) == ("ax", None, first.POSITIONAL_OR_KEYWORD), name
        assert last.kind == last.VAR_KEYWORD and all(p.kind == p.KEYWORD_ONLY for p in middle), name


@pytest.mark.parametrize("name", RESULTS)
def test_plot_draws_what_it_says(name, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("plot must not show figures"))
    before, open_figures = plt.rcParams.copy(), len(plt.get_fignums())
    result = RESULTS[name]()
    ax = result.plot()
    assert dict(plt.rcParams) == dict(before)
    assert ax.get_xlabel() and ax.get_ylabel()
    assert ax.lines or ax.collections or ax.patches
    np.testing.assert_allclose(ax.figure.get_size_inches(), core.plots.size())
    ax.figure.canvas.draw()
    mine = plt.subplots()[1]
    assert result.plot(mine, alpha=0.5) is mine
    assert len(plt.get_fignums()) == open_figures + 2


def test_errors_are_drawn_as_bands():
    found = RESULTS["Profile"]()
    (band,) = found.plot(color="black").collections
    corners = np.concatenate([path.vertices for path in band.get_paths()])
    finite = np.isfinite(found.error)
    assert corners[:, 1].max() == pytest.approx((found.value + found.error)[finite].max())
    assert corners[:, 1].min() == pytest.approx((found.value - found.error)[finite].min())


def test_free_energies_of_one_and_two_variables():
    line = surface(1).plot(degrees=True).lines[0]
    assert np.isnan(line.get_ydata()).any()
    np.testing.assert_allclose(line.get_xdata()[[0, -1]], np.degrees([-3, 3]))
    mesh = surface(2).plot(highest=5.0).collections[0]
    assert mesh.get_array().max() == 5.0
    assert surface(2).plot_error().figure.axes[1].get_ylabel() == "standard error [kJ/mol]"
    assert surface(1).plot_error().get_ylabel() == "standard error [kJ/mol]"
    with pytest.raises(ValueError, match="one or two variables can be drawn, got 3"):
        surface(3).plot()


def test_references_and_several_curves():
    ax = RESULTS["VQEResult"]().plot(reference=-1.13)
    assert ax.lines[0].get_ydata().tolist() == [-0.5, -1.0, -1.1]
    assert ax.lines[1].get_ydata()[0] == -1.13
    ax = RESULTS["VQDResult"]().plot()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["state 0", "state 1"]
    with pytest.raises(ValueError, match=r"one number a step, got the shape \(0,\) of 'energy'"):
        steps(VQEResult, history=np.zeros(0)).plot()


def test_an_evaluation_of_one_episode_has_no_error():
    ax = rl.Evaluation(np.array([3.0]), np.array([10])).plot()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["mean 3"]
    assert "± 0.85" in RESULTS["Evaluation"]().plot().get_legend().get_texts()[0].get_text()


def test_scores_have_error_bars_and_batches_are_refused():
    result = RESULTS["MatchResult"]()
    ax = result.plot()
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], 100 * result.score)
    lower, upper = np.array([path.vertices[:, 1] for path in ax.collections[0].get_paths()]).T
    np.testing.assert_allclose((upper - lower) / 2, 100 * result.error)
    game = rl.games.TicTacToe()
    batch = rl.MCTS(game, simulations=20)([game.initial_state()] * 2)
    with pytest.raises(rl.SearchError, match="the result of one position can be drawn, got a batch of 2"):
        batch.plot()
