"""Generalized Born: derivatives by parameters and Hessian-vector products, from kernels, against those of the pure form
and finite differences.
"""

import numpy as np
import pytest

from tests.sponge.differentiate.test_derivatives import slope
from tests.sponge.potentials.test_gb import MODELS, cluster, solvent
from triskele import core, sponge
from triskele.sponge.engine.engine import Engine

LEAN = np.array([[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]])


def system_of(gb, x, box=None):
    system = sponge.System(sponge.Topology.of_particles(len(x)), np.ones(len(x)), box=box, positions=x)
    system.add(gb)
    return system


def chignolin(**options):
    """Ten residues with their hydrogens, and a `GB` from the rules of its model."""
    structure = sponge.build.add_hydrogens(sponge.read_pdb(*sponge.example_files("chignolin")))
    return sponge.create_system(structure, "amber14/protein.ff14SB", **options)


def moves_of(gb, x, seed=0):
    """A vector over parameters and positions."""
    rng = np.random.default_rng(seed)
    return {key: np.abs(values) * rng.normal(size=values.shape) for key, values in gb.params.items()}, rng.normal(
        size=x.shape
    )


def check_against_the_pure_form(gb, x, box=None, rel=1e-11):
    """Gradients by parameters and box, and products of the Hessian with a vector over parameters and positions."""

    def near(found, expected, what):
        assert np.asarray(found) == pytest.approx(np.asarray(expected), abs=rel * np.abs(expected).max() + 1e-13), what

    compiled = system_of(gb, x, box).energy_function()
    found = core.grad(compiled)({"gb": gb.params}, x)["gb"]
    expected = core.grad(lambda params: gb.energy(params, x, box))(gb.params)
    for key in gb.params:
        near(found[key], expected[key], key)
    if box is not None:
        near(
            core.grad(lambda box: compiled({}, x, box))(box),
            core.grad(lambda box: gb.energy(gb.params, x, box))(box),
            "box",
        )
    moves, v = moves_of(gb, x)
    by_param, by_position = core.hvp(lambda p, x: compiled({"gb": p}, x), (gb.params, x), (moves, v))
    wanted, wanted_by_position = core.hvp(lambda p, x: gb.energy(p, x, box), (gb.params, x), (moves, v))
    for key in gb.params:
        near(by_param[key], wanted[key], f"product by {key}")
    near(by_position, wanted_by_position, "product by positions")


# ---------------------------------------------------------------------------------------------------- the pure form
@pytest.mark.parametrize("cutoff, box, kappa", [(None, None, 0.7), (0.6, None, 0.0), (0.6, LEAN, 0.7)])
@pytest.mark.parametrize("model", MODELS)
def test_derivatives_are_those_of_the_pure_form(model, cutoff, box, kappa):
    spacing = 0.16 if box is None else 0.4  # fills the box
    check_against_the_pure_form(solvent(29, model, 1, kappa=kappa, cutoff=cutoff), cluster(29, 1, spacing), box)


@pytest.mark.parametrize(
    "cutoff, box, options",
    [(None, None, {"implicit_solvent": "gbn2"}), (1.0, np.diag([2.0, 2.0, 2.0]), {"implicit_solvent": "obc2"})],
)
def test_derivatives_of_a_peptide(cutoff, box, options):
    """Radii from rules stand at knots of the tables of necks, or next to them by a rounding error; the box is about as
    small as the peptide.
    """
    system = chignolin(**options)
    gb = system["gb"]
    assert len(np.unique(gb.params["radii"])) < 10
    gb.cutoff = cutoff
    check_against_the_pure_form(gb, system.positions, box)


def test_necks_of_radii_at_knots_and_beyond_the_tables():
    gb = solvent(12, "gbn2", 4)
    gb.params["radii"] = np.array([0.1, 0.105, 0.12, 0.13, 0.15, 0.17, 0.2, 0.1234, 0.15, 0.094, 0.098, 0.203])
    check_against_the_pure_form(gb, cluster(12, 4))


def test_an_atom_inside_another():
    gb = sponge.GB([0.5, -0.3, 0.1], [0.11, 0.19, 0.15], [0.8, 1.0, 0.1], "obc2")
    check_against_the_pure_form(gb, np.array([[0.0, 0, 0], [0.04, 0, 0], [0.0, 0.02, 0.01]]))


def test_many_partners_and_chunks():
    """More partners than the rows of pairs are made for at first."""
    check_against_the_pure_form(solvent(300, "obc2", 3, cutoff=0.6), cluster(300, 3, 0.14))


# ------------------------------------------------------------------------------------------------- other truths
def test_hessian_is_symmetric_and_the_slope_of_gradients():
    gb, x = solvent(40, "gbn2", 2, kappa=0.7, cutoff=0.7), cluster(40, 2)
    energy = system_of(gb, x).energy_function()
    (moves, v), (others, w) = moves_of(gb, x, 1), moves_of(gb, x, 2)
    found, by_position = gb.parameter_product(gb.params, x, None, moves, v)
    turned, by_position_turned = gb.parameter_product(gb.params, x, None, others, w)
    one = sum(np.sum(found[key] * others[key]) for key in found) + np.sum(by_position * w)
    other = sum(np.sum(turned[key] * moves[key]) for key in found) + np.sum(by_position_turned * v)
    assert one == pytest.approx(other, rel=1e-11)

    def gradient(h):
        params = {key: values + h * moves[key] for key, values in gb.params.items()}
        by_param, by_position = core.grad(energy, (0, 1))({"gb": params}, x + h * v)
        return np.concatenate([*by_param["gb"].values(), by_position.reshape(-1)])

    expected = slope(gradient, 0.0, 1.0, 1e-6)
    product = np.concatenate([*found.values(), by_position.reshape(-1)])
    assert product == pytest.approx(expected, rel=1e-6, abs=1e-6 * np.abs(expected).max())


def test_a_loss_of_forces_by_radii():
    """The step of a fit to forces: its slope against differences of the system's own forces."""
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), implicit_solvent="gbn2")
    x, gb = system.positions, system["gb"]
    energy, target = system.energy_function(), np.random.default_rng(0).normal(scale=100, size=x.shape)
    radii = np.clip(gb.params["radii"] + 0.001, 0.1, 0.199)

    def loss(radii):
        forces = -core.grad(lambda x: energy({"gb": {"radii": radii}}, x))(x)
        return np.sum((forces - target) ** 2)

    def by_system(radii):
        gb.params["radii"] = radii
        return np.sum((system.forces() - target) ** 2)

    found, along = core.grad(loss)(radii), np.random.default_rng(1).normal(size=radii.shape)
    assert loss(radii) == pytest.approx(by_system(radii), rel=1e-12)
    assert np.sum(found * along) == pytest.approx(slope(by_system, radii, along, 1e-6), rel=1e-7)


# ------------------------------------------------------------------------------------------------------ robustness
@pytest.mark.parametrize("cutoff", [None, 0.6])
def test_derivatives_are_the_same_for_any_number_of_threads(cutoff):
    gb, x = solvent(300, "gbn2", 3, cutoff=cutoff), cluster(300, 3)
    engine = Engine(system_of(gb, x), "double")
    before, found = core.get_threads(), []
    try:
        for threads in (1, 3):
            core.set_threads(threads)
            engine.compute()
            by_param, by_position = gb.parameter_product(gb.params, x, None, *moves_of(gb, x))
            found.append(
                np.concatenate([*gb.param_gradients(engine).values(), *by_param.values(), by_position.reshape(-1)])
            )
    finally:
        core.set_threads(before)
    assert np.array_equal(*found)


@pytest.mark.parametrize("cutoff", [None, 0.6])
def test_nan_stays_visible(cutoff):
    gb, x = solvent(20, "gbn2", cutoff=cutoff), cluster(20)
    x[7, 1] = np.nan
    by_param, by_position = gb.parameter_product(gb.params, x, None, *moves_of(gb, x))
    assert all(np.isnan(values).any() for values in by_param.values())
    assert np.isnan(by_position).any()


def test_a_box_that_does_not_go_with_the_cutoff():
    gb, x = solvent(5, "obc2", cutoff=0.6), cluster(5)
    with pytest.raises(ValueError, match="must be at most half the smallest box edge"):
        gb.hessian_product(gb.params, x, np.eye(3), np.ones_like(x))
