"""The energy function: its derivatives against differences, kernels' derivatives against those of the pure energies."""

import numpy as np
import pytest

from tests.sponge.reference import load_reference
from triskele import core, sponge
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.potentials.nonbonded.nonbonded import Nonbonded


def load(name):
    reference = load_reference(name)
    return load_openmm(reference.xml, positions=reference.positions, box=reference.box)


def pure(system):
    """The sum of the potentials' pure energies, to compare with."""
    return lambda params, x, box=None: sum(p.energy(params[p.name], x, box) for p in system.potentials)


def ions(method="reaction_field", n=32, seed=0, **options):
    """Ions in a small triclinic box, none of whose distances is near the cut-off, where energies jump."""
    box = np.array([[2.0, 0, 0], [0.3, 2.0, 0], [-0.4, 0.5, 1.9]])
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)[:: 64 // n]
    while True:
        x = (grid + rng.uniform(-0.15, 0.15, grid.shape)) / 4 @ box
        d = sponge.box.displacement(x[:, None] - x[None], box)
        if np.all(np.abs(np.linalg.norm(d, axis=-1) - 0.9) > 2e-5):
            break
    charges = rng.permutation(np.repeat([0.7, -0.7], n // 2))
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), box, x, exclusions=[[0, 1], [4, 6]])
    sigmas, epsilons = rng.uniform(0.2, 0.3, n), rng.uniform(0, 0.8, n)
    if options.get("mixing") == "table":
        a, b = np.array([[3e-6, 2e-6], [2e-6, 1e-6]]), np.array([[2e-3, 1e-3], [1e-3, 3e-3]])
        sigmas, epsilons, options["mixing"] = None, None, sponge.LJTable(np.arange(n) % 2, a, b)
    system.add(Nonbonded(charges, sigmas, epsilons, method, cutoff=0.9, **options))
    system.add(sponge.harmonic_bond([[0, 1], [4, 6]], k=900.0, r0=0.4))
    return system


def slope(f, x, v, h):
    """The derivative of f along v, by differences of fourth order."""
    return (8 * (f(x + h * v) - f(x - h * v)) - (f(x + 2 * h * v) - f(x - 2 * h * v))) / (12 * h)


# ------------------------------------------------------------------------------------------------- first derivatives
@pytest.mark.parametrize("name", ["ala2_vacuum", "ala2_obc2", "bpti_ff14sb_vacuum"])
def test_value_and_forces_are_the_systems(name):
    system = load(name)
    energy = system.energy_function()
    value, by_position = core.value_and_grad(energy, 1)(system.params(), system.positions)
    assert value == energy(system.params(), system.positions) == pytest.approx(system.energy(), rel=1e-13)
    assert by_position == pytest.approx(-system.forces(), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: load("ala2_obc2"),
        lambda: load("ala2_gbn"),
        ions,
        lambda: ions("pme"),
        lambda: ions("cutoff", switch=0.7),
    ],
)
def test_all_first_derivatives_are_those_of_the_pure_energies(make):
    """By positions, box and every parameter of every potential, in one pass of the kernels."""
    system = make()
    args = (system.params(), system.positions) + (() if system.box is None else (system.box,))
    argnums = tuple(range(len(args)))
    value, found = core.value_and_grad(system.energy_function(), argnums)(*args)
    expected_value, expected = core.value_and_grad(pure(system), argnums)(*args)
    assert value == pytest.approx(float(expected_value), rel=1e-9)
    for name, by_potential in expected[0].items():
        for key, values in by_potential.items():
            assert found[0][name][key] == pytest.approx(
                values, rel=1e-8, abs=1e-8 * (np.abs(values).max(initial=0) + 1e-3)
            ), (name, key)
    for a, b in zip(found[1:], expected[1:]):
        assert a == pytest.approx(b, rel=1e-8, abs=1e-9 * np.abs(b).max())


def test_pressure_from_the_derivative_by_the_box():
    """-dE/dV at constant fractional coordinates is a third of the virial over the volume."""
    system = ions("pme")
    energy, box = system.energy_function(), system.box
    s = system.positions @ np.linalg.inv(box)
    scaled = lambda factor: energy(system.params(), s @ (factor * box), factor * box)
    found = -core.grad(scaled)(np.array(1.0)) / (3 * np.linalg.det(box))
    assert found == pytest.approx(np.trace(system.virial()) / (3 * np.linalg.det(box)), rel=1e-9)
    assert found == pytest.approx(
        -slope(lambda f: float(scaled(f)), 1.0, 1.0, 1e-6) / (3 * np.linalg.det(box)), rel=1e-5
    )


def test_virtual_sites_hand_their_forces_on():
    system = load("water_tip4pew")
    x = system.positions
    by_position = core.grad(system.energy_function(), 1)(system.params(), x)
    assert by_position == pytest.approx(-system.forces(), rel=1e-9, abs=1e-7)


# ------------------------------------------------------------------------------------------------ second derivatives
@pytest.mark.parametrize("make", [lambda: load("ala2_obc2"), ions, lambda: ions("pme")])
def test_hessian_vector_product(make):
    system = make()
    energy, params, x = system.energy_function(), system.params(), system.positions
    v = np.random.default_rng(1).normal(size=x.shape)
    gradient = core.grad(lambda x: energy(params, x))
    _, found = core.jvp(gradient, (x,), (v,))
    expected = slope(gradient, x, v, 1e-6)
    assert found == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())


FORMS = pytest.mark.parametrize("method, options", [
    ("none", {}), ("cutoff", {"switch": 0.7}), ("reaction_field", {"mixing": "geometric"}), ("ewald", {}),
    ("pme", {"mixing": "table"}), ("pme", {"mixing": "table", "switch": 0.7, "order": 6}),
    ("ljpme", {}), ("ljpme", {"mixing": "geometric", "order": 4}),
    ("cutoff", {"switch": 0.7, "modifier": "force-switch"}),
    ("reaction_field", {"mixing": "geometric", "excluded_field": True}),
    ("cutoff", {"mixing": "table", "modifier": "potential-shift"}),
])  # fmt: skip


@FORMS
def test_compiled_hessian_vector_product_is_that_of_the_pure_energy(method, options):
    """For every method and mixing rule."""
    system = ions(method, **options)
    energy, x = system.energy_function(), system.positions
    v = np.random.default_rng(1).normal(size=x.shape)
    found = core.hvp(lambda x: energy({}, x), (x,), (v,))
    twin, params = pure(system), system.params()
    expected = core.hvp(lambda x: twin(params, x, system.box), (x,), (v,))
    assert found == pytest.approx(expected, abs=1e-11 * np.abs(expected).max())


@FORMS
def test_compiled_derivatives_by_parameters_are_those_of_the_pure_energy(method, options):
    """The gradient, and its derivative along a move of parameters and positions; some parameters are 0."""
    system = ions(method, **options)
    potential, x = system.nonbonded, system.positions
    potential.params["charges"][3] = 0.0
    if "epsilons" in potential.params:
        potential.params["epsilons"][5] = 0.0
    energy, params = system.energy_function(["nonbonded"]), system.params()["nonbonded"]
    rng = np.random.default_rng(1)
    moves = {key: (np.abs(values) + 1e-9) * rng.normal(size=values.shape) for key, values in params.items()}
    v = rng.normal(size=x.shape)

    def compiled(params, x):
        return energy({"nonbonded": params}, x)

    def twin(params, x):
        return potential.energy(params, x, system.box)

    found = core.grad(compiled)(params, x), *core.hvp(compiled, (params, x), (moves, v))
    expected = core.grad(twin)(params, x), *core.hvp(twin, (params, x), (moves, v))
    for key in params:
        for one, other in zip(found[:2], expected[:2], strict=True):
            assert one[key] == pytest.approx(other[key], abs=1e-11 * np.abs(other[key]).max()), key
    assert found[2] == pytest.approx(expected[2], abs=1e-11 * np.abs(expected[2]).max())


def test_hessian_vector_product_in_other_transformations():
    """Reverse over reverse, compiled, in batches, and a third derivative."""
    system = ions("pme")
    energy, x = system.energy_function(), system.positions
    v, w = np.random.default_rng(1).normal(size=(2, *x.shape))

    def product(x, v):
        return core.hvp(lambda x: energy({}, x), (x,), (v,))

    found = product(x, v)
    scale = np.abs(found).max()
    reverse = core.grad(lambda x: np.sum(core.grad(lambda y: energy({}, y))(x) * v))(x)
    assert reverse == pytest.approx(found, abs=1e-12 * scale)
    assert core.jit(product)(x, v) == pytest.approx(found, abs=1e-12 * scale)
    both = core.vmap(product, (None, 0))(x, np.stack([v, w]))
    assert both[0] == pytest.approx(found, abs=1e-12 * scale)
    assert np.sum(both[1] * v) == pytest.approx(np.sum(found * w), rel=1e-10)  # symmetric
    third = core.grad(lambda x: np.sum(product(x, v) * w))(x)
    assert np.sum(third * v) == pytest.approx(slope(lambda x: np.sum(product(x, v) * w), x, v, 1e-6), rel=1e-5)


def test_parameters_in_other_transformations():
    """The derivative of a function of forces by charges: compiled, in batches, and once more along a vector."""
    system = ions("reaction_field")
    energy, x = system.energy_function(), system.positions
    charges = system.nonbonded.params["charges"]
    v = np.random.default_rng(1).normal(size=charges.shape)

    def slopes(charges):
        def loss(charges):
            forces = core.grad(lambda x: energy({"nonbonded": {"charges": charges}}, x))(x)
            return np.sum(forces * forces)

        return core.grad(loss)(charges)

    found = slopes(charges)
    assert core.jit(slopes)(charges) == pytest.approx(found, rel=1e-10)
    assert core.vmap(slopes)(np.stack([charges, 2 * charges]))[0] == pytest.approx(found, rel=1e-10)
    _, along = core.jvp(slopes, (charges,), (v,))
    assert along == pytest.approx(slope(slopes, charges, v, 1e-4), rel=1e-7, abs=1e-7 * np.abs(along).max())


def test_hessian_of_a_few_atoms_is_symmetric_and_has_the_zero_modes():
    system = ions("cutoff", n=8, switch=0.7)
    energy = system.energy_function()
    hessian = core.hessian(lambda x: energy(system.params(), x))(system.positions).reshape(24, 24)
    scale = np.abs(hessian).max()
    assert hessian == pytest.approx(hessian.T, abs=1e-10 * scale)
    assert hessian.reshape(24, 8, 3).sum(1) == pytest.approx(np.zeros((24, 3)), abs=1e-10 * scale)


def test_forces_can_be_fitted():
    """The derivative of a function of forces by parameters: second order in parameters and positions."""
    system = ions("pme")
    energy, x = system.energy_function(), system.positions
    target = np.random.default_rng(3).normal(size=x.shape)

    def loss(charges):
        forces = -core.grad(energy, 1)({"nonbonded": {"charges": charges}}, x)
        return np.sum((forces - target) ** 2)

    charges = system.nonbonded.params["charges"]
    v = np.random.default_rng(4).normal(size=charges.shape)
    found = core.grad(loss)(charges) @ v
    assert found == pytest.approx(slope(loss, charges, v, 1e-5), rel=1e-7)


# --------------------------------------------------------------------------------------------------- transformations
def test_vmap_over_replicas_and_over_parameter_sets():
    system = load("ala2_obc2")
    energy, params, x = system.energy_function(), system.params(), system.positions
    replicas = x + np.random.default_rng(0).normal(0, 0.002, (3, *x.shape))
    assert core.vmap(lambda x: energy(params, x))(replicas) == pytest.approx(
        [energy(params, y) for y in replicas], rel=1e-14
    )
    found = core.vmap(core.grad(lambda x: energy(params, x)))(replicas)
    assert found == pytest.approx(
        np.stack([core.grad(lambda x: energy(params, x))(y) for y in replicas]), rel=1e-12, abs=1e-9
    )
    scales = np.array([0.9, 1.0, 1.1])
    charges = params["nonbonded"]["charges"]
    by_set = core.vmap(lambda s: energy({"nonbonded": {"charges": s * charges}}, x))(scales)
    assert by_set == pytest.approx([energy({"nonbonded": {"charges": s * charges}}, x) for s in scales], rel=1e-14)
    assert len(set(by_set)) == 3


def test_jit():
    system = load("ala2_vacuum")
    energy, params, x = system.energy_function(), system.params(), system.positions
    gradient = core.grad(energy, (0, 1))
    by_params, by_position = core.jit(gradient)(params, x)
    expected_params, expected_position = gradient(params, x)
    assert by_position == pytest.approx(expected_position, rel=1e-12, abs=1e-9)
    assert by_params["nonbonded"]["charges"] == pytest.approx(expected_params["nonbonded"]["charges"], rel=1e-12)


def test_some_potentials_alone():
    system = load("ala2_vacuum")
    terms = system.energy_terms()
    energy = system.energy_function(["angle", "torsion"])
    assert energy({}, system.positions) == pytest.approx(terms["angle"] + terms["torsion"], rel=1e-13)


def test_it_keeps_the_system_as_it_was():
    """Changing the system later changes neither the function nor, by calling the function, the system."""
    system = load("ala2_vacuum")
    energy = system.energy_function()
    before, charges = energy({}, system.positions), system.nonbonded.params["charges"].copy()
    core.grad(energy)({"nonbonded": {"charges": 2 * charges}}, system.positions)
    assert np.array_equal(system.nonbonded.params["charges"], charges)
    system.nonbonded.params["charges"][:] = 0
    assert energy({}, system.positions) == before


# ------------------------------------------------------------------------------------------------------------ errors
def test_errors_name_what_is_wrong():
    system = ions()
    energy, x = system.energy_function(), system.positions
    with pytest.raises(KeyError, match="no potential 'bonds'; there are nonbonded, bond"):
        energy({"bonds": {}}, x)
    with pytest.raises(KeyError, match=r"no parameter 'bond/length' \(.*known: "):
        energy({"bond": {"length": 1.0}}, x)
    with pytest.raises(ValueError, match=r"'bond/r0' must have shape \(2,\), got \(3,\)"):
        energy({"bond": {"r0": np.ones(3)}}, x)
    with pytest.raises(ValueError, match=r"positions must have shape \(32, 3\), got \(31, 3\)"):
        energy({}, x[1:])
    with pytest.raises(ValueError, match="half the smallest box edge"):
        energy({}, x, np.eye(3))
    with pytest.raises(KeyError, match="no potential 'angle'"):
        system.energy_function(["angle"])
    vacuum = load("ala2_vacuum")
    with pytest.raises(ValueError, match="not periodic, but a box was given"):
        vacuum.energy_function()({}, vacuum.positions, np.eye(3))
