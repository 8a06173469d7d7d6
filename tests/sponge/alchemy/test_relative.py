"""Free energies of turning molecules into others: exact cases, differences of absolute ones, cycles, and complexes."""

import dataclasses

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import alchemy
from triskele.sponge.alchemy.relative import of_equal_lengths
from triskele.sponge.build import immerse

SMALL = {"padding": 0.65, "cutoff": 0.6, "timestep": 0.001}


def molecule(charge=0.3, sigma=0.3, spring=1e5, atoms=2, length=0.12):
    """A straight chain of atoms on springs, with opposite charges on the first two."""
    bonds = [[k, k + 1] for k in range(atoms - 1)]
    system = sponge.System(
        sponge.Topology.of_particles(atoms, "C", 6, bonds=bonds),
        np.full(atoms, 12.0),
        positions=[[0.12 * k, 0.02 * (k % 2), 0] for k in range(atoms)],
        exclusions=[[i, j] for i in range(atoms) for j in range(i)],
        remove_com_motion=False,
    )
    charges = np.array([charge, -charge, *[0.0] * (atoms - 2)])
    system.add(sponge.Nonbonded(charges, np.full(atoms, sigma), np.full(atoms, 0.5), method="none"))
    system.add(sponge.harmonic_bond(bonds, k=[spring, *[1e5] * (atoms - 2)], r0=[length, *[0.12] * (atoms - 2)]))
    return system


def test_the_same_molecule_costs_nothing():
    same = alchemy.Relative(molecule(), molecule(), mapping={0: 0, 1: 1}, lambdas=4, **SMALL)
    assert list(same.systems) == ["vacuum", "tip3p"] and same.schedule.names == ("electrostatics", "mixing")
    result = same.run(time=0.4, equilibration=0.02, every=10, record=10)
    assert result.value == 0.0 and result.error == 0.0 and str(result).startswith("0 ± 0 kJ/mol")
    assert set(result.convergence) == {"vacuum", "tip3p"} and not result.convergence["tip3p"].forward.any()
    np.testing.assert_allclose(result.overlap["tip3p"], 0.25)


@pytest.mark.slow
def test_an_unshared_atom_cancels_between_environments(tmp_path):
    pair = alchemy.Relative(molecule(), molecule(atoms=3), mapping={0: 0, 1: 1}, lambdas=6, seed=2, **SMALL)
    assert pair.schedule.names == ("electrostatics", "insertion", "mixing")
    options = {"time": 0.04, "equilibration": 0.02, "every": 10, "record": 2}
    first = pair.run(**options, checkpoint=tmp_path / "a.chk")
    assert (tmp_path / "a-vacuum.chk").exists() and (tmp_path / "a-tip3p.chk").exists()
    again = alchemy.Relative(molecule(), molecule(atoms=3), mapping={0: 0, 1: 1}, lambdas=6, seed=2, **SMALL)
    resumed = again.run(**options, checkpoint=tmp_path / "a.chk")
    assert (first.value, first.error) == (resumed.value, resumed.error) and np.isfinite(first.value)
    # in vacuum nothing acts on the new atom but its bonds, which are there in all states
    assert first.legs["vacuum"].value == pytest.approx(0, abs=1e-9)


def test_a_complex_is_a_system_with_the_old_molecule():
    host = molecule(0.1, sigma=0.35, atoms=3)
    both = immerse(_side_by_side(host, molecule()), padding=0.7, cutoff=0.6)
    pair = alchemy.Relative(molecule(), molecule(0.2), ("tip3p", both), mapping={0: 0, 1: 1}, lambdas=4, **SMALL)
    changed = pair.systems["complex"].potentials[0]
    assert list(pair.systems) == ["tip3p", "complex"] and changed.atoms.tolist() == [3, 4]
    assert changed.params["new_charges"][:5] == pytest.approx([0.1, -0.1, 0, 0.2, -0.2])
    for environments, message in [
        (("tip3p", immerse(host, padding=0.7, cutoff=0.6)), "old molecule once.* found 0"),
        (("tip3p",), "must be two, got 1"),
        (("tip3p", "tip3p"), "must differ"),
        (("vacuum", "oil"), "model must be one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            alchemy.Relative(molecule(), molecule(0.2), environments, mapping={0: 0, 1: 1}, **SMALL)


def _side_by_side(host, guest):
    """Two molecules as one system."""
    n = host.n
    system = sponge.System(
        sponge.Topology.of_particles(n + guest.n, "C", 6, bonds=[[0, 1], [1, 2], [3, 4]]),
        np.full(n + guest.n, 12.0),
        positions=np.concatenate([host.positions, guest.positions + 0.4]),
        exclusions=np.concatenate([host.exclusions, guest.exclusions + n]),
    )
    system.add(
        sponge.Nonbonded(
            *(
                np.concatenate([p.nonbonded.params[key] for p in (host, guest)])
                for key in ("charges", "sigmas", "epsilons")
            ),
            method="none",
        )
    )
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [3, 4]], k=1e5, r0=0.12))
    return system


def rigid(length):
    """A carbon and a hydrogen at a fixed distance."""
    system = molecule()
    system.remove("bond")
    system.topology = dataclasses.replace(system.topology, elements=np.array([6, 1]))
    system.constraints = sponge.Constraints([[0, 1]], [length])
    return system


def test_constraints_of_shared_atoms_keep_their_length():
    new, shared = rigid(0.1205), {0: 0, 1: 1}
    pair = alchemy.Relative(rigid(0.12), new, mapping=shared, lambdas=4, **SMALL)
    assert all(0.12 in system.constraints.distances for system in pair.systems.values())
    assert new.constraints.distances[0] == 0.1205


def test_hydrogens_on_longer_bonds_are_not_shared():
    """As O-H becomes S-H: with the old length, the free energy of hydration was 3 kJ/mol off."""
    assert of_equal_lengths(rigid(0.0974), rigid(0.134), {0: 0, 1: 1}) == {0: 0}
    with pytest.raises(ValueError, match=r"held at 0.0974 nm in the old molecule and 0.1340 nm in the new one"):
        alchemy.Relative(rigid(0.0974), rigid(0.134), mapping={0: 0, 1: 1}, **SMALL)


def test_atoms_constrained_in_one_molecule_alone_are_not_shared():
    """A hydrogen that becomes a fluorine: the constraint would keep C-F at the length of C-H."""
    fluorine = molecule(length=0.14)
    fluorine.topology = dataclasses.replace(fluorine.topology, elements=np.array([6, 9]))
    shared = {0: 0, 1: 1}
    for old, new, where in ((rigid(0.109), fluorine, "old"), (fluorine, rigid(0.109), "new")):
        assert of_equal_lengths(old, new, shared) == {0: 0}
        with pytest.raises(ValueError, match=rf"atom 0 .* and atom 1 .* constrained in the {where} molecule alone"):
            alchemy.Relative(old, new, mapping=shared, **SMALL)


def test_schedules_that_do_not_go_from_one_molecule_to_the_other_are_refused():
    rise, fall = [0, 0.5, 1], [1, 0.5, 0]
    for lambdas, message in [
        ({"electrostatics": fall, "mixing": fall, "insertion": fall}, "take mixing from 0 .* to 1 .*, got 1 to 0"),
        ({"electrostatics": rise, "mixing": rise}, "take insertion from 0 .*, got none, which counts as 1"),
        ({"mixing": rise, "insertion": rise}, "take electrostatics"),
        ({"electrostatics": rise, "sterics": rise}, "no potential of the system scales with the lambda 'sterics'"),
    ]:
        with pytest.raises(ValueError, match=message):
            alchemy.Relative(
                molecule(),
                molecule(0.2, atoms=3),
                ("vacuum", "tip3p"),
                mapping={0: 0, 1: 1},
                lambdas=alchemy.Schedule(**lambdas),
                **SMALL,
            )
    same = alchemy.Relative(
        molecule(), molecule(sigma=0.32), mapping={0: 0, 1: 1}, lambdas=alchemy.Schedule(mixing=rise), **SMALL
    )
    assert same.schedule.names == ("mixing",)


@pytest.mark.slow
def test_relative_is_the_difference_of_absolute_and_cycles_close():
    kinds = {"a": molecule(0.6, 0.3), "b": molecule(0.2, 0.35), "c": molecule(0.3, 0.32, atoms=3)}
    options = {"time": 12.0, "equilibration": 3.0, "every": 100, "record": 50}
    absolute = {name: alchemy.Solvation(kind, lambdas=7, **SMALL).run(**options) for name, kind in kinds.items()}
    edges = {}
    for x, y in (("a", "b"), ("b", "c"), ("c", "a")):
        edges[x, y] = alchemy.Relative(kinds[x], kinds[y], mapping={0: 0, 1: 1}, lambdas=5, **SMALL).run(**options)
        difference = absolute[y].value - absolute[x].value
        error = np.sqrt(absolute[x].error ** 2 + absolute[y].error ** 2 + edges[x, y].error ** 2)
        assert abs(edges[x, y].value - difference) < 3 * error < 12.0
    ((_, gap, error),) = alchemy.cycle_closure(edges).cycles
    assert abs(gap) < 3 * error
