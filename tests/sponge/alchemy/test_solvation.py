"""Molecules put into water, and their free energy of hydration."""

import warnings

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import alchemy
from triskele.sponge.build import immerse


def dipole(charge=0.3, total=0.0):
    """A molecule of two atoms with charges."""
    system = sponge.System(
        sponge.Topology.of_particles(2, bonds=[[0, 1]]),
        [12.0, 14.0],
        positions=[[0, 0, 0], [0.12, 0, 0]],
        exclusions=[[0, 1]],
    )
    system.add(sponge.Nonbonded([charge + total, -charge], [0.3, 0.32], [0.4, 0.6], method="none"))
    system.add(sponge.harmonic_bond([[0, 1]], k=1e5, r0=0.12))
    return system


def solvation(**options):
    states = alchemy.Schedule(electrostatics=[0, 0, 0, 1], sterics=[0, 0.3, 1, 1])
    return alchemy.Solvation(dipole(), lambdas=states, padding=0.65, cutoff=0.6, timestep=0.001, **options)


def test_water_around_a_molecule_keeps_it_as_it_is():
    alone = dipole()
    full = immerse(alone, "spce", padding=0.8, cutoff=0.8, dispersion_correction=False)
    waters = (full.n - 2) // 3
    assert full.n == 2 + 3 * waters and full.nonbonded.params["charges"][2:].sum() == pytest.approx(0)
    assert full.energy_terms()["bond"] == pytest.approx(alone.energy_terms()["bond"])
    assert full.topology.names[2] == "O" and len(full.topology.bonds) == 1 + 2 * waters
    assert len(full.constraints.pairs) == 3 * waters and len(full.exclusions) == 1 + 3 * waters
    gaps = np.linalg.norm(full.positions[2::3, None] - full.positions[None, :2], axis=2)
    assert gaps.min() > 0.26
    bonds = full.topology.bonds[1:]
    np.testing.assert_allclose(np.linalg.norm(np.subtract(*full.positions[bonds.T]), axis=1), 0.1, atol=1e-6)
    whole = 3 * round(full.box[0, 0] ** 3 * 33.3)
    assert 0.85 * whole < full.n < whole
    far = alchemy.decouple(full, [0, 1], annihilate=())
    alchemy.set_lambdas(far, electrostatics=0.0, sterics=0.0)
    water = full.copy()
    water["nonbonded"].params["charges"][:2] = water["nonbonded"].params["epsilons"][:2] = 0
    assert far.energy() == pytest.approx(water.energy(), abs=1e-4)


def test_geometric_means_stay_the_rule_in_water():
    """As in OPLS: u = 4 sqrt(e e') ((s/r)^12 - (s/r)^6) with s = sqrt(s s'), of the solute and the oxygens."""
    alone = dipole(charge=0.0)
    alone.remove("nonbonded")
    alone.add(sponge.Nonbonded([0.0, 0.0], [0.3, 0.36], [0.4, 0.6], method="none", mixing="geometric"))
    full = immerse(alone, padding=0.8, method="cutoff", cutoff=0.7, dispersion_correction=False)
    p, x = full.nonbonded.params, full.positions
    expected = 0.0
    for i in range(2):
        for k in range(2, full.n, 3):
            r = np.linalg.norm(sponge.box.displacement(x[i] - x[k], full.box))
            if r < 0.7:
                six = (np.sqrt(p["sigmas"][i] * p["sigmas"][k]) / r) ** 6
                expected += 4 * np.sqrt(p["epsilons"][i] * p["epsilons"][k]) * (six * six - six)
    water = full.copy()
    water.nonbonded.params["epsilons"][:2] = 0.0
    assert full.energy() - water.energy() == pytest.approx(expected, rel=1e-9)


def test_a_molecule_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="model must be one of tip3p"):
        immerse(dipole(), "tip4pew")
    with pytest.raises(TypeError, match=r"immerse: an option must be .*, got 'cutof' \(did you mean 'cutoff'\?"):
        immerse(dipole(), cutof=0.6)
    framed = dipole()
    framed.add(sponge.PositionRestraint([0], k=1.0, reference=[[0, 0, 0]]))
    with pytest.raises(ValueError, match="'position_restraint' has no terms between given atoms"):
        immerse(framed)
    with pytest.raises(ValueError, match="charges of the molecule must sum to an integer, got 0.25000 e"):
        alchemy.Solvation(dipole(total=0.25))
    with pytest.raises(ValueError, match=r"must be neutral, got \+1 e"):
        alchemy.Solvation(dipole(total=1.0))
    with pytest.raises(ValueError, match="there must be a run first"):
        solvation().estimate()
    with pytest.raises(ValueError, match="100 steps of each state, recorded every 20, give 5 samples.* at least 10"):
        solvation().run(100, record=20)
    for wrong in ({"record": 0}, {"record": 2.5}, {"every": -1}):
        with pytest.raises(ValueError, match=rf"Solvation.run: {next(iter(wrong))} must be an integer >= 1, got"):
            solvation().run(100, **wrong)


def test_a_molecule_in_a_box_is_refused():
    boxed = immerse(dipole(), padding=0.65, cutoff=0.6)
    with pytest.raises(ValueError, match=r"Solvation: a molecule must have no box, got \d+ atoms in a box"):
        alchemy.Solvation(boxed)
    with pytest.raises(ValueError, match="Relative: a molecule must have no box"):
        alchemy.Relative(dipole(), boxed, mapping={0: 0})


GROMACS = """[ defaults ]
1 2 yes 1 1
[ atomtypes ]
A 6 12.0 0 A 0.3 0.4
[ moleculetype ]
D 3
[ atoms ]
1 A 1 D C1 1 0.3 12.0
2 A 1 D C2 1 -0.3 12.0
[ bonds ]
1 2 1 0.12 1e5
[ system ]
dipole
[ molecules ]
D 1
"""


def test_files_of_one_molecule_may_have_a_box(tmp_path):
    """As those of GROMACS always have one; here, the molecule lies across its face."""
    (tmp_path / "d.top").write_text(GROMACS)
    (tmp_path / "d.gro").write_text(
        "\n    2\n    1D       C1    1   0.050   1.000   1.000\n"
        "    1D       C2    2   1.930   1.000   1.000\n   2.0 2.0 2.0\n"
    )
    full = alchemy.Solvation(tmp_path / "d.top", tmp_path / "d.gro", padding=0.65, cutoff=0.6).system
    assert full.positions[0] - full.positions[1] == pytest.approx([0.12, 0, 0]) and full.n < 500


def test_schedules_go_from_the_decoupled_molecule_to_the_full_one():
    up, small = [0, 0.5, 1], {"padding": 0.65, "cutoff": 0.6}
    for lambdas, message in [
        ({"electrostatics": up[::-1], "sterics": up[::-1]}, "take sterics from 0 .*, got 1 to 0"),
        ({"electrostatics": up}, "take sterics from 0 .*, got none, which counts as 1 in all"),
        ({"sterics": up}, "take electrostatics from 0"),
        ({"electrostatics": [0, 0, 0.5], "sterics": up}, "take electrostatics .*, got 0 to 0.5"),
        ({"mixing": up}, "Solvation: lambdas: no potential of the system scales with"),
    ]:
        with pytest.raises(ValueError, match=message):
            alchemy.Solvation(dipole(), lambdas=alchemy.Schedule(**lambdas), **small)
    assert len(alchemy.Solvation(dipole(0.0), lambdas=alchemy.Schedule(sterics=up), **small).schedule) == 3


def test_states_appear_one_after_the_other():
    for n in (4, 11, 16, 40):
        schedule = alchemy.Solvation(dipole(), lambdas=n).schedule
        assert len(schedule) == n and schedule[0] == {"electrostatics": 0, "sterics": 0}
        assert schedule[n - 1] == {"electrostatics": 1, "sterics": 1}
        charges, sterics = schedule.lambdas.T
        assert np.all((charges == 0) | (sterics == 1)) and np.all(np.diff(charges + sterics) > 0)


@pytest.mark.slow
def test_runs_resume_bit_for_bit(tmp_path):
    def run(path=None, **options):
        return solvation(seed=3).run(time=0.08, equilibration=0.02, every=10, record=2, checkpoint=path, **options)

    def stop(record):
        if record["step"] >= 60:
            raise StopIteration("enough")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few samples hardly overlap
        at_once = run(tmp_path / "a.chk")
        assert np.all(run(tmp_path / "b.chk", report=stop).counts == 20)
        resumed = run(tmp_path / "b.chk")
        apart = run(exchange=False)
    assert resumed.value == at_once.value and resumed.error == at_once.error
    assert np.all(resumed.counts == 40) and np.array_equal(resumed.overlap, at_once.overlap)
    assert set(at_once.methods) == {"mbar", "bar", "spline", "trapezoid"}
    assert np.isfinite(apart.value) and apart.value != at_once.value
