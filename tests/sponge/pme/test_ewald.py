"""The Ewald sum against lattice sums written out, Madelung constants and another program; compiled against pure."""

import gzip
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sponge.reference import load_reference
from tests.twins import ewald as twin
from triskele import core
from triskele.sponge.engine.flags import ENERGY, N_FLAGS
from triskele.sponge.pme import Ewald, ewald_energy
from triskele.sponge.pme.parameters import wave_vectors

TRICLINIC = np.array([[1.1, 0, 0], [0.4, 1.0, 0], [-0.3, 0.35, 1.2]])


def ions(n, box=TRICLINIC, seed=0, neutral=True):
    rng = np.random.default_rng(seed)
    charges = rng.normal(size=n)
    return charges - neutral * charges.mean(), rng.uniform(-1, 1, (n, 3)) @ box


def engine_of(positions, box, precision="double", atom_chunks=1):
    """The parts of an engine that the sum needs."""
    n = len(positions)
    engine = SimpleNamespace(
        n=n,
        positions=np.array(positions),
        forces=np.zeros((n, 3)),
        box=np.array(box),
        precision=precision,
        flags=np.zeros(N_FLAGS, np.int64),
        atom_chunks=atom_chunks,
        atom_starts=np.linspace(0, n, atom_chunks + 1).astype(np.int64),
    )
    engine.flags[ENERGY] = 1
    return engine


def evaluate(part):
    """Energy, forces, virial."""
    part.engine.forces[:] = 0
    for task in [*part.before, *[t for stage in part.stages for t in stage], *part.reduce]:
        task.run()
    total = part.rows.sum(axis=0)
    return total[0], part.engine.forces.copy(), total[1:].reshape(3, 3)


def pure_parts(f, charges, positions, box, *settings):
    """Energy, derivatives by charges, forces and virial -dE/d(strain) of a pure energy."""

    def strained(q, x, strain):
        return f(q, x + x @ strain, box + box @ strain, *settings)

    energy, (potential, gradient, by_strain) = core.value_and_grad(strained, (0, 1, 2))(
        charges, positions, np.zeros((3, 3))
    )
    return energy, potential, -gradient, -by_strain


def assert_close(found, expected, tolerance, least=1.0):
    """Equal to `tolerance` of the largest element, or of `least` where all are small differences of larger numbers."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(np.abs(expected).max(), least))


def test_the_sum_written_out():
    for neutral in (True, False):
        charges, positions = ions(5, neutral=neutral)
        expected = twin.reciprocal(charges, positions, TRICLINIC, 3.0, (4, 5, 3))
        np.testing.assert_allclose(ewald_energy(charges, positions, TRICLINIC, 3.0, (4, 5, 3)), expected, rtol=1e-13)


@pytest.mark.parametrize("neutral", [True, False])
def test_energy_does_not_depend_on_the_splitting(neutral):
    charges, positions = ions(4, neutral=neutral)
    total = [
        ewald_energy(charges, positions, TRICLINIC, alpha, (count,) * 3)
        + twin.direct(charges, positions, TRICLINIC, alpha, 3)
        for alpha, count in ((3.0, 9), (4.0, 12), (5.5, 16))
    ]
    np.testing.assert_allclose(total, total[0], rtol=1e-9)


# Madelung constants by nearest distance: Y. Sakamoto, J. Chem. Phys. 28, 164 (1958)
@pytest.mark.parametrize(
    ("name", "constant", "cell", "distance"),
    [
        (
            "rock salt",
            1.74756459463318,
            [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)],
            0.5,
        ),
        ("caesium chloride", 1.76267477307099, [(0, 0, 0), (1, 1, 1)], np.sqrt(0.75)),
    ],
)
def test_madelung_constants(name, constant, cell, distance):
    charges = np.repeat([1.0, -1.0], len(cell) // 2)
    positions, box = 0.25 * np.array(cell), 0.5 * np.eye(3)
    energy = ewald_energy(charges, positions, box, 6.0, (12,) * 3) + twin.direct(charges, positions, box, 6.0, 3)
    np.testing.assert_allclose(-energy / (len(cell) / 2) * distance * 0.5 / twin.COULOMB, constant, rtol=1e-11)


@pytest.mark.parametrize("name", ["nacl_ewald_1e-8", "ala2_explicit_ewald"])
def test_another_program(name):
    """Energy and forces of OpenMM's Reference platform."""
    charges, positions, box, settings, energy, forces = reciprocal_reference(name)
    counts = wave_vectors(box, settings["alpha_per_nm"], settings["ewald_tolerance"])
    part = Ewald(engine_of(positions, box, atom_chunks=4), charges, settings["alpha_per_nm"], counts)
    found, found_forces, _ = evaluate(part)
    np.testing.assert_allclose(found, energy, rtol=1e-13)
    if forces is not None:
        assert_close(found_forces, forces, 1e-6)  # as stored, in float32
    np.testing.assert_allclose(
        ewald_energy(charges, positions, box, settings["alpha_per_nm"], counts), energy, rtol=1e-13
    )


def reciprocal_reference(name):
    """charges, positions, box, settings, reciprocal energy and forces of a system in tests/data/sponge."""
    reference = load_reference(name)
    tree = ElementTree.fromstring(gzip.decompress(reference.xml.read_bytes()))
    particles = next(f for f in tree.iter("Force") if f.get("type") == "NonbondedForce").find("Particles")
    charges = np.array([float(p.get("q")) for p in particles])
    energies = reference.energies
    energy = energies.get("Coulomb_reciprocal_openmm_group", energies["PME_reciprocal"])
    return (
        charges,
        reference.positions,
        reference.box,
        reference.settings,
        energy,
        reference.forces.get("PME_reciprocal"),
    )


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 40), counts=st.tuples(*[st.integers(1, 20)] * 3), chunks=st.integers(1, 3), seed=st.integers(0, 99)
)
def test_compiled_equals_pure(n, counts, chunks, seed):
    charges, positions = ions(n, seed=seed, neutral=False)
    part = Ewald(engine_of(positions, TRICLINIC, atom_chunks=chunks), charges, 4.0, counts)
    energy, forces, virial = evaluate(part)
    expected = pure_parts(ewald_energy, charges, positions, TRICLINIC, 4.0, counts)
    assert_close(energy, expected[0], 1e-12)
    assert_close(part.charge_gradient(), expected[1], 1e-12)
    assert_close(forces, expected[2], 1e-12)
    assert_close(virial, expected[3], 1e-12)


def test_new_box_and_charges():
    charges, positions = ions(9)
    part = Ewald(engine_of(positions, TRICLINIC), charges, 4.0, (7, 7, 7))
    part.engine.box[:] = 1.1 * TRICLINIC
    part.engine.positions[:] = 1.1 * positions
    part.update_charges(2 * charges)
    np.testing.assert_allclose(
        evaluate(part)[0], ewald_energy(2 * charges, 1.1 * positions, 1.1 * TRICLINIC, 4.0, (7, 7, 7)), rtol=1e-13
    )


def test_derivatives_to_second_order():
    charges, positions = ions(4, neutral=False)
    core.check_grads(
        lambda q, x, box: ewald_energy(q, x, box, 3.0, (4, 4, 5)), (charges, positions, TRICLINIC), order=2, eps=1e-4
    )


def test_bad_arguments():
    charges, positions = ions(4)
    with pytest.raises(ValueError, match="ewald: counts must be at least 1"):
        Ewald(engine_of(positions, TRICLINIC), charges, 3.0, (0, 4, 4))
    with pytest.raises(ValueError, match=r"ewald: charges must have shape \(4,\), got \(3,\)"):
        Ewald(engine_of(positions, TRICLINIC), charges[:3], 3.0, (4, 4, 4))
