"""Charges that change in periodic boxes: exact cases of the terms for the size, and what is refused unasked."""

import warnings

import numpy as np
import pytest
from scipy import integrate

from triskele import sponge
from triskele.sponge import alchemy, units

CHARGING = alchemy.Schedule(electrostatics=[0, 1])
SKEWED = np.array([[2.0, 0, 0], [0.7, 1.8, 0], [-0.6, 0.5, 2.2]])


def system(charges, positions, box, waters=0):
    """An ion, followed by waters of three atoms."""
    n = len(charges)
    owner = np.concatenate([[0], 1 + np.arange(3 * waters) // 3])
    bonds = [[1 + 3 * w, 1 + 3 * w + k] for w in range(waters) for k in (1, 2)]
    topology = sponge.Topology(
        names=np.array(["NA", *["O", "H1", "H2"] * waters]),
        elements=np.array([11, *[8, 1, 1] * waters]),
        residue_index=owner,
        residue_names=np.array(["NA", *["HOH"] * waters]),
        residue_ids=np.array([str(k) for k in range(waters + 1)]),
        chain_index=np.zeros(waters + 1, int),
        chain_ids=np.array(["A"]),
        bonds=np.array(bonds, int).reshape(-1, 2),
    )
    found = sponge.System(
        topology,
        np.full(n, 12.0),
        box,
        positions,
        exclusions=[[1 + 3 * w + i, 1 + 3 * w + j] for w in range(waters) for i, j in ((0, 1), (0, 2), (1, 2))],
    )
    found.add(
        sponge.Nonbonded(
            charges, np.full(n, 0.2), np.zeros(n), cutoff=0.75, tolerance=1e-6, method="none" if box is None else "pme"
        )
    )
    return found


def charging(of):
    """Energy of charging the ion."""
    first, last = alchemy.energies(alchemy.decouple(of, [0], charged=True), CHARGING)
    return last - first


@pytest.mark.parametrize("box", [1.6, 2.4, SKEWED])
def test_an_ion_in_vacuum_costs_nothing_in_boxes_of_any_size_and_shape(box):
    ion = system([-2.0], [[0.3, 0.2, 0.1]], box)
    found = alchemy.finite_size(ion, 0.0, -2.0, permittivity=1.0)
    assert charging(ion) + found.value == pytest.approx(0.0, abs=1e-3) and charging(ion) < -100
    assert set(found.terms) == {"net_charge", "undersolvation"} and found.terms["undersolvation"] == 0
    if np.ndim(box) == 0:  # the constant as published
        assert found.value == pytest.approx(0.5 * 2.837297 * 4 * units.COULOMB / box, rel=1e-6)


def test_the_cavity_is_the_integral_of_the_potential_that_the_solvent_leaves_out():
    ion, k, radius, permittivity = system([1.0], [[0, 0, 0]], 3.0), units.COULOMB, 0.2, 80.0
    left_out = k * (1 - 1 / permittivity)  # times 1 / r - 1 / R
    inside, _ = integrate.quad(lambda r: left_out * (1 / r - 1 / radius) * 4 * np.pi * r**2, 0, radius)
    found = alchemy.finite_size(ion, 1.0, 2.0, permittivity=permittivity, radius=radius)
    assert found.terms["cavity"] == pytest.approx((4 - 1) * inside / 27, rel=1e-9)
    assert found.terms["cavity_higher_order"] == pytest.approx(-found.terms["cavity"] * 4 * np.pi / 15 * radius**3 / 27)
    assert found.terms["net_charge"] == pytest.approx(-80 / 79 * found.terms["undersolvation"])
    assert found.value == pytest.approx(sum(found.terms.values()))


def test_the_zero_of_the_potential_is_that_between_molecules():
    """Linear waters along all three axes, averaged: far away they have no potential, but the box sets a mean of 0."""
    edge, arm, found = 1.6, 0.05, []
    for axis in np.eye(3):
        water = np.stack([0 * axis, arm * axis, -arm * axis])
        of = system([1.0, -0.8, 0.4, 0.4], np.concatenate([[np.full(3, edge / 2)], water]), edge, waters=1)
        found.append((charging(of), alchemy.finite_size(of, 0.0, 1.0, permittivity=1.0).terms))
    energy, terms = np.mean([e for e, _ in found]), found[0][1]
    assert energy + terms["net_charge"] == pytest.approx(-terms["discrete_solvent"], rel=5e-3)
    assert terms["discrete_solvent"] == pytest.approx(-units.COULOMB * 2 * np.pi / 3 * 0.8 * arm**2 / edge**3)


def test_the_quadrupole_is_that_of_the_water_model():
    full = sponge.build.immerse(system([0.0], [[0, 0, 0]], None), "tip3p", padding=0.9)
    n, volume = (full.n - 1) // 3, full.box[0, 0] ** 3
    terms = alchemy.finite_size(full, 0.0, 1.0, permittivity=97.0).terms
    # 0.00764 e nm^2: Rocklin et al. (2013)
    assert terms["discrete_solvent"] == pytest.approx(-units.COULOMB * 4 * np.pi / 6 * 0.00764 * n / volume, rel=1e-3)


def test_split_waters_and_other_names_change_nothing():
    water = np.array([[0, 0, 0], [0.05, 0, 0], [-0.05, 0, 0]])
    options = {"permittivity": 97.0, "box": 1.7}
    whole = system([1.0, -0.8, 0.4, 0.4], np.concatenate([[np.full(3, 0.8)], water + 0.4]), 1.6, waters=1)
    expected = alchemy.finite_size(whole, 0.0, 1.0, **options)
    assert expected.terms["discrete_solvent"] == pytest.approx(-units.COULOMB * 2 * np.pi / 3 * 0.002 / 1.7**3)
    split = system([1.0, -0.8, 0.4, 0.4], np.concatenate([[np.full(3, 0.8)], water % 1.6]), 1.6, waters=1)
    assert alchemy.finite_size(split, 0.0, 1.0, **options).value == pytest.approx(expected.value, rel=1e-12)
    split.nonbonded.name = "pairs"
    for of in (split, alchemy.decouple(split, [0], charged=True)):
        assert alchemy.finite_size(of, 0.0, 1.0, **options).value == pytest.approx(expected.value, rel=1e-12)
    split.remove("pairs")
    with pytest.raises(ValueError, match="must have one Nonbonded, with the charges of its waters, got 0"):
        alchemy.finite_size(split, 0.0, 1.0, **options)


def test_solvation_of_an_ion_reports_the_terms():
    ion = system([1.0], [[0, 0, 0]], None)
    ion.nonbonded.params["epsilons"][:] = 0.2
    states = alchemy.Schedule(electrostatics=[0, 0, 0.5, 1], sterics=[0, 1, 1, 1])
    options = {"lambdas": states, "padding": 0.8, "cutoff": 0.7, "timestep": 0.001}
    with pytest.raises(ValueError, match=r"must be neutral, got \+1 e \(with ion_radius"):
        alchemy.Solvation(ion, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few samples hardly overlap
        result = alchemy.Solvation(ion, **options, ion_radius=0.17).run(time=0.1, equilibration=0.05, record=5)
    assert set(result.finite_size.terms) == {
        "net_charge",
        "undersolvation",
        "cavity",
        "cavity_higher_order",
        "discrete_solvent",
    }
    assert result.corrected == pytest.approx(result.value + result.finite_size.value)
    assert str(result).endswith(f"{result.corrected:.1f} kJ/mol with finite-size terms")


def test_charges_do_not_change_unasked():
    ion, other = system([1.0], [[0, 0, 0]], 2.0), system([2.0], [[0, 0, 0]], 2.0)
    for make, message in [
        (lambda: alchemy.decouple(ion, [0]), r"decouple: the net charge of the box changes by \+1 e"),
        (lambda: alchemy.hybrid(other, ion, {0: 0}), r"hybrid: the net charge of the box changes by -1 e"),
        (lambda: alchemy.finite_size(system([1.0], [[0, 0, 0]], None), 0, 1, permittivity=80), "must have a box"),
        (lambda: alchemy.finite_size(ion, 0, 1, permittivity=0.5), "permittivity"),
        (lambda: alchemy.finite_size(ion, 0, np.nan, permittivity=80), r"after must be a finite number \(e\)"),
        (lambda: alchemy.finite_size(ion, 0, 1, permittivity=80, box=[2.0, 2.0]), "finite_size: box: .* shape"),
        (lambda: alchemy.finite_size(ion, 0, 1, permittivity=80, radius=-0.1), "radius"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    assert alchemy.hybrid(other, ion, {0: 0}, charged=True).n == 1
    for make, message in [
        (lambda: alchemy.decouple(system([0.9], [[0, 0, 0]], 2.0), [0]), r"decouple: .* integer, got \+0.9000 e"),
        (lambda: alchemy.hybrid(ion, system([1.3], [[0, 0, 0]], 2.0), {0: 0}), r"hybrid: .* integer, got \+0.3000 e"),
    ]:
        with pytest.warns(UserWarning, match=message) as found:
            make()
        assert found[0].filename == __file__


def test_molecules_of_different_charge_have_terms_in_boxes():
    one, two = (system([q], [[0, 0, 0]], None) for q in (1.0, 2.0))
    for molecule in (one, two):
        molecule.nonbonded.params["epsilons"][:] = 0.2
    options = {"mapping": {0: 0}, "lambdas": 4, "padding": 0.8, "cutoff": 0.7, "timestep": 0.001}
    with pytest.raises(ValueError, match="net charge of the box"):
        alchemy.Relative(one, two, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = alchemy.Relative(one, two, **options, charged=True).run(time=0.1, equilibration=0.05, record=5)
    assert result.legs["vacuum"].finite_size is None and "cavity" not in result.legs["tip3p"].finite_size.terms
    assert result.corrected == pytest.approx(result.value + result.legs["tip3p"].finite_size.value)
    assert result.legs["vacuum"].value == pytest.approx(0, abs=1e-9)
