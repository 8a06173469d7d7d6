"""Particle mesh Ewald against Ewald sums and another program; compiled against pure; derivatives, threads, faults."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sponge.pme.test_ewald import (
    TRICLINIC,
    assert_close,
    engine_of,
    evaluate,
    ions,
    pure_parts,
    reciprocal_reference,
)
from tests.sponge.reference import load_reference
from tests.twins import ewald as twin
from triskele import core
from triskele.sponge.engine.program import Phase, Program
from triskele.sponge.pme import PME, dispersion_reciprocal_energy, ewald_energy, grid_size, reciprocal_energy
from triskele.sponge.pme.mesh import spline_polynomials
from triskele.sponge.pme.parameters import grid_size as grid_of_tolerance

BOX = 2 * TRICLINIC


def relative_rms(found, expected):
    return np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2))


# ---------------------------------------------------------------------------------------------------------------- truth
@pytest.mark.parametrize("order", [4, 5, 6])
def test_approaches_the_ewald_sum_as_the_mesh_gets_finer(order):
    charges, positions = ions(8)
    exact = ewald_energy(charges, positions, TRICLINIC, 4.0, (14, 14, 14))
    errors = [abs(reciprocal_energy(charges, positions, TRICLINIC, 4.0, (n,) * 3, order) - exact) for n in (16, 32, 64)]
    assert errors[2] < 2e-4 * abs(exact)
    slope = np.log2(errors[0] / errors[2]) / 2
    assert slope > order - 1  # of the error in the mesh spacing


@pytest.mark.parametrize("name", ["nacl_pme_5e-4", "nacl_pme_1e-6", "ala2_explicit_pme", "water_tip3p", "dhfr_pme"])
def test_another_program(name):
    """OpenMM's Reference platform with the same mesh, splines and splitting; its forces are stored in float32."""
    charges, positions, box, settings, energy, forces = reciprocal_reference(name)
    alpha, grid = settings["alpha_per_nm"], tuple(settings["grid"])
    found, found_forces, _ = evaluate(PME(engine_of(positions, box), charges, alpha, grid, settings["spline_order"]))
    np.testing.assert_allclose(found, energy, rtol=1e-12)
    if forces is not None:
        assert_close(found_forces, forces, 1e-6)
    if name != "nacl_pme_1e-6":
        np.testing.assert_allclose(reciprocal_energy(charges, positions, box, alpha, grid), energy, rtol=1e-12)


def test_another_program_with_dispersion():
    charges, positions, box, settings, energy, _ = reciprocal_reference("ala2_explicit_ljpme")
    reference = load_reference("ala2_explicit_ljpme")
    coefficients = c6_roots(reference)
    alpha, tolerance = settings["alpha_per_nm"], settings["ewald_tolerance"]
    engine = engine_of(positions, box)
    coulomb = evaluate(PME(engine, charges, alpha, grid_of_tolerance(box, alpha, tolerance)))
    dispersion = evaluate(
        PME(engine, coefficients, alpha, grid_of_tolerance(box, alpha, tolerance, True), dispersion=True)
    )
    np.testing.assert_allclose(coulomb[0], energy, rtol=1e-12)
    np.testing.assert_allclose(coulomb[0] + dispersion[0], reference.energies["PME_reciprocal"], rtol=1e-12)
    if "PME_reciprocal" in reference.forces:
        assert_close(coulomb[1] + dispersion[1], reference.forces["PME_reciprocal"], 1e-6)


def c6_roots(reference):
    """2 sigma^3 sqrt(epsilon) of each atom."""
    import gzip
    from xml.etree import ElementTree

    tree = ElementTree.fromstring(gzip.decompress(reference.xml.read_bytes()))
    particles = next(f for f in tree.iter("Force") if f.get("type") == "NonbondedForce").find("Particles")
    return np.array([2 * float(p.get("sig")) ** 3 * float(p.get("eps")) ** 0.5 for p in particles])


def test_dispersion_is_the_lattice_sum():
    coefficients, positions = np.array([0.7, 1.3, 0.4]), np.array([[0.1, 0.2, 0.3], [0.6, 0.5, 0.9], [0.9, 0.1, 0.4]])
    alpha = 5.0
    found = dispersion_reciprocal_energy(
        coefficients, positions, TRICLINIC, alpha, (60, 60, 60), 6
    ) + twin.dispersion_direct(coefficients, positions, TRICLINIC, alpha)
    # the rest of a sum over |images| <= N goes as N^-3: extrapolate
    sums = np.array([twin.dispersion(coefficients, positions, TRICLINIC, n) for n in (4, 8)])
    weight = 1 / ((8.5 / 4.5) ** 3 - 1)
    np.testing.assert_allclose(found, sums[1] + weight * (sums[1] - sums[0]), rtol=2e-6)


def test_splines():
    """Weights add up to 1, slopes to 0; they are those of the recursion."""
    from triskele.sponge.pme.energy import _spline_weights

    f = np.linspace(0, 1, 7)
    for order in (4, 5, 6):
        values, slopes = (
            np.array([np.polynomial.polynomial.polyval(f, row) for row in t]) for t in spline_polynomials(order)
        )
        np.testing.assert_allclose(values.sum(0), 1, rtol=1e-14)
        np.testing.assert_allclose(slopes.sum(0), 0, atol=1e-14)
        np.testing.assert_allclose(values, np.array(_spline_weights(f, order)), atol=1e-15)


# --------------------------------------------------------------------------------------------------------------
# compiled
lengths = st.sampled_from([6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 23, 25, 28, 30, 32, 33, 36, 40])


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 60),
    grid=st.tuples(lengths, lengths, lengths),
    order=st.sampled_from([4, 5, 6]),
    dispersion=st.booleans(),
    seed=st.integers(0, 99),
)
def test_compiled_equals_pure(n, grid, order, dispersion, seed):
    charges, positions = ions(n, BOX, seed, neutral=False)
    f = dispersion_reciprocal_energy if dispersion else reciprocal_energy
    expected = pure_parts(f, charges, positions, BOX, 3.0, grid, order)
    for precision, tolerance in (("double", 1e-12), ("mixed", 2e-5)):
        part = PME(engine_of(positions, BOX, precision), charges, 3.0, grid, order, dispersion=dispersion)
        energy, forces, virial = evaluate(part)
        for found, value in zip((energy, part.charge_gradient(), forces, virial), expected):
            assert_close(found, value, tolerance, least=100.0)


@pytest.mark.parametrize("order", [5, 6])
def test_many_chunks_equal_pure(order):
    """Enough atoms for several chunks of spreading, sorted, with atoms that leave their chunk's planes afterwards."""
    charges, positions = ions(9000, BOX)
    grid = (40, 36, 35)
    expected = pure_parts(reciprocal_energy, charges, positions, BOX, 3.0, grid, order)
    builds = np.zeros(1, np.int64)
    part = PME(engine_of(positions, BOX, atom_chunks=5), charges, 3.0, grid, order, builds=builds)
    assert part.stages[0][0].chunks > 2
    for _ in range(2):
        energy, forces, virial = evaluate(part)
        for found, value in zip((energy, part.charge_gradient(), forces, virial), expected):
            assert_close(found, value, 1e-12)
        moved = positions + np.random.default_rng(1).normal(scale=0.05, size=positions.shape) @ BOX
        part.engine.positions[:] = moved  # and no rebuild
        expected = pure_parts(reciprocal_energy, charges, moved, BOX, 3.0, grid, order)


def test_error_of_mixed_precision():
    """Far below that of the mesh at usual tolerances (some 1e-4 of the reciprocal forces)."""
    charges, positions, box, settings, energy, _ = reciprocal_reference("dhfr_pme")
    results = [
        evaluate(PME(engine_of(positions, box, precision), charges, settings["alpha_per_nm"], (56, 56, 56)))
        for precision in ("double", "mixed")
    ]
    assert relative_rms(results[1][1], results[0][1]) < 5e-6
    assert abs(results[1][0] - energy) < 5e-3  # kJ/mol, of a reciprocal sum of 1.8e3
    assert_close(results[1][2], results[0][2], 1e-6)


def test_fine_meshes_hold_no_subnormal_numbers():
    """Processors take some hundred cycles for each: fine meshes took ten times as long with them."""
    charges, positions = ions(8)
    part = PME(engine_of(positions, BOX, "mixed"), charges, 3.0, (60, 54, 48))
    evaluate(part)
    for values in (part._green, part._virial, *part.scratch):
        assert not np.any((values != 0) & (np.abs(values) < np.finfo(np.float32).tiny))


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_forces_do_not_depend_on_threads(precision):
    charges, positions = ions(9000, BOX)
    found = []
    before = core.get_threads()
    try:
        for threads in (1, 2, 5):
            core.set_threads(threads)
            part = PME(
                engine_of(positions, BOX, precision, atom_chunks=7),
                charges,
                3.0,
                (42, 40, 36),
                builds=np.zeros(1, np.int64),
            )
            phases = [Phase(part.before, "sequence"), *[Phase(stage) for stage in part.stages], Phase(part.reduce)]
            Program(phases, part.engine.flags).run(1)
            found.append((part.engine.forces, part.rows.copy(), part.charge_gradient()))
    finally:
        core.set_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other))


def test_wrapping_atoms_changes_nothing():
    charges, positions = ions(30, BOX)
    shifts = np.random.default_rng(0).integers(-3, 4, (30, 3)) @ BOX
    found = [evaluate(PME(engine_of(x, BOX), charges, 3.0, (16, 18, 20))) for x in (positions, positions + shifts)]
    for a, b in zip(*found):
        assert_close(a, b, 1e-11)


def test_atoms_on_mesh_points_and_faces():
    """Coordinates that round to the end of the box, or lie on points."""
    corners = np.array([[0, 0, 0], [1, 1, 1], [0.5, 0.25, 0.75], [-1e-18, -1e-17, 1 - 1e-17], [1 / 3, 2 / 3, 0.1]])
    charges, positions = np.array([1.0, -2, 0.5, 0.7, -0.3]), corners @ BOX
    expected = pure_parts(reciprocal_energy, charges, positions, BOX, 3.0, (12, 9, 10))
    energy, forces, _ = evaluate(PME(engine_of(positions, BOX), charges, 3.0, (12, 9, 10)))
    assert_close(energy, expected[0], 1e-12)
    assert_close(forces, expected[2], 1e-11)


# -----------------------------------------------------------------------------------------------------------
# derivatives
@pytest.mark.parametrize("dispersion", [False, True])
def test_forces_virial_and_potentials_by_finite_differences(dispersion):
    charges, positions = ions(12, BOX, neutral=False)
    grid, eps, rng = (20, 21, 18), 1e-5, np.random.default_rng(0)

    def energy(q, x, strain):
        box = BOX @ (np.eye(3) + strain)
        return evaluate(PME(engine_of(x @ (np.eye(3) + strain), box), q, 3.0, grid, dispersion=dispersion))[0]

    part = PME(engine_of(positions, BOX), charges, 3.0, grid, dispersion=dispersion)
    _, forces, virial = evaluate(part)
    # the box stays triangular
    dq, dx, strain = rng.normal(size=12), rng.normal(size=(12, 3)), np.tril(rng.normal(size=(3, 3)))
    zero = np.zeros((3, 3))
    for direction, expected in (
        ((dq, 0 * dx, zero), part.charge_gradient() @ dq),
        ((0 * dq, dx, zero), -np.sum(forces * dx)),
        ((0 * dq, 0 * dx, strain), -np.sum(virial * strain)),
    ):
        ends = [energy(charges + s * direction[0], positions + s * direction[1], s * direction[2]) for s in (eps, -eps)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * eps), expected, rtol=2e-7)
    np.testing.assert_allclose(virial, virial.T, atol=1e-9)


@pytest.mark.parametrize("f", [reciprocal_energy, dispersion_reciprocal_energy])
def test_pure_energies_to_second_order(f):
    charges, positions = ions(5, BOX, neutral=False)
    core.check_grads(lambda q, x, box: f(q, x, box, 3.0, (10, 12, 9), 5), (charges, positions, BOX), order=2, eps=1e-4)
    compiled = core.jit(lambda q, x, box: f(q, x, box, 3.0, (10, 12, 9)))
    np.testing.assert_allclose(
        compiled(charges, positions, BOX), f(charges, positions, BOX, 3.0, (10, 12, 9)), rtol=1e-13
    )


def test_pure_energy_over_replicas():
    charges, positions = ions(6, BOX)
    replicas = positions + np.random.default_rng(0).normal(scale=0.1, size=(3, 6, 3))
    found = core.vmap(lambda x: reciprocal_energy(charges, x, BOX, 3.0, (10, 10, 10)))(replicas)
    np.testing.assert_allclose(
        found, [reciprocal_energy(charges, x, BOX, 3.0, (10, 10, 10)) for x in replicas], rtol=1e-13
    )


# -------------------------------------------------------------------------------------------------------- changes,
# faults
def test_new_box_and_charges():
    charges, positions = ions(40, BOX)
    part = PME(engine_of(positions, BOX), charges, 3.0, (20, 20, 20))
    evaluate(part)
    part.engine.box[:], part.engine.positions[:] = 1.05 * BOX, 1.05 * positions
    part.update_charges(-0.5 * charges)
    np.testing.assert_allclose(
        evaluate(part)[0],
        reciprocal_energy(-0.5 * charges, 1.05 * positions, 1.05 * BOX, 3.0, (20, 20, 20)),
        rtol=1e-13,
    )


@pytest.mark.parametrize("n", [40, 9000])
def test_a_lost_atom_shows(n):
    """One coordinate that is not a number reaches the energy, and no memory but its own is touched."""
    charges, positions = ions(n, BOX)
    positions[17, 1] = np.nan
    energy, forces, _ = evaluate(PME(engine_of(positions, BOX, "mixed"), charges, 3.0, (40, 36, 35)))
    assert np.isnan(energy) and np.isnan(forces[17]).all()
    positions[17, 1] = 1e300
    assert np.isfinite(evaluate(PME(engine_of(positions, BOX, "mixed"), charges, 3.0, (40, 36, 35)))[0])


@settings(max_examples=8, deadline=None)
@given(grid=st.tuples(lengths, lengths, lengths), order=st.sampled_from([5, 6]))
def test_nothing_depends_on_what_scratch_memory_holds(grid, order):
    charges, positions = ions(25, BOX)
    found = []
    for rubbish in (0.0, 1.0, np.nan, np.inf):
        part = PME(engine_of(positions, BOX, "mixed"), charges, 3.0, grid, order)
        for array in part.scratch:
            array[:] = rubbish
        part.scratch[-1][:, -1] = 0  # the locks of the slots
        found.append(evaluate(part))
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other))


def test_bad_arguments():
    charges, positions = ions(4, BOX)
    engine = engine_of(positions, BOX)
    with pytest.raises(ValueError, match="pme: order must be 4, 5 or 6, got 3"):
        PME(engine, charges, 3.0, (12, 12, 12), 3)
    with pytest.raises(ValueError, match="pme: grid must have at least 5 points"):
        PME(engine, charges, 3.0, (12, 4, 12))
    with pytest.raises(ValueError, match=r"pme: charges must have shape \(4,\)"):
        PME(engine, charges[:2], 3.0, (12, 12, 12))


def test_sizes_of_meshes():
    assert grid_size((56, 29, 11)) == (56, 30, 12)
