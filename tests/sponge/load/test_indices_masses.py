"""Indices that do not fit into 32 bits, masses that are no masses, and atoms whose element nothing tells."""

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import cv
from triskele.sponge.constraints.choose import water_atoms
from triskele.sponge.load.terms import guess_elements
from triskele.sponge.potentials.pairs.mixing import LJTable
from triskele.sponge.topology import as_indices
from triskele.sponge.virtual_sites import TwoParticleAverage

WRAPS = 2**32 + 1  # 1, in 32 bits
PARTICLES = sponge.Topology.of_particles(4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sponge.harmonic_bond([[0, WRAPS]], k=1.0, r0=1.0),
        lambda: sponge.System(PARTICLES, [12.0] * 4, exclusions=[[0, WRAPS]]),
        lambda: sponge.Constraints([[0, WRAPS]], [0.1]),
        lambda: sponge.Topology.of_particles(4, bonds=[[0, WRAPS]]),
        lambda: sponge.PositionRestraint([WRAPS], k=1.0, reference=np.zeros((1, 3))),
        lambda: sponge.CMAP(np.zeros((1, 24, 24)), [[0, 1, 2, WRAPS]], [[0, 1, 2, 3]], [0]),
        lambda: TwoParticleAverage([WRAPS], [[0, 1]], (0.5, 0.5)),
        lambda: LJTable([0, WRAPS], np.ones((2, 2)), np.ones((2, 2))),
        lambda: cv.distance(0, WRAPS),
    ],
    ids="bond exclusion constraint topology restraint cmap site table cv".split(),
)
def test_indices_do_not_wrap(make):
    with pytest.raises(ValueError, match=str(WRAPS)):
        make()


@pytest.mark.parametrize("bad", [[2**31], [-(2**40)], [1.5], [np.nan], ["a"], np.array([2**63 + 1], np.uint64)])
def test_what_is_not_an_index(bad):
    with pytest.raises(ValueError, match="indices must be integers"):
        as_indices(bad, "x")


@pytest.mark.parametrize("mass", [-12.0, np.nan, np.inf])
def test_masses_must_be_masses(mass):
    with pytest.raises(ValueError, match=r"masses must be finite and >= 0, got .* for atom 1 \(X 2 X\)"):
        sponge.System(PARTICLES, [12.0, mass, 12.0, 12.0])


def test_elements_by_mass_and_name():
    """Repartitioned masses: hydrogens of 3 dalton, sulfur of 29, a methyl carbon of 2.9; and beads that are no
    atoms.
    """
    names = ["HB", "SG", "CH3", "CB", "CA", "CL", "Q1", "B1", "PEO", "H1", "FE", "X", "HG"]
    masses = [3.024, 29.05, 2.938, 8.99, 40.08, 35.4, 72.0, 72.0, 44.05, 4.032, 55.5, 3.0, 1.008]
    assert guess_elements(masses, names).tolist() == [1, 16, 6, 6, 20, 17, 0, 0, 0, 1, 26, 0, 1]
    assert guess_elements([3.024, 29.05, 12.011]).tolist() == [1, 0, 6]


def test_elements_of_atoms_that_handed_mass_on():
    """With hydrogens of 3.024 dalton N-H looks like carbon and O-H like nitrogen; ions do not hand on any."""
    names = ["N", "H", "OG", "HG", "C", "SOD", "POT", "CA", "HA"]
    masses = [14.01 - 2.016, 3.024, 16.0 - 2.016, 3.024, 12.01, 22.99, 39.1, 12.01 - 2.016, 3.024]
    assert guess_elements(masses, names).tolist() == [7, 1, 8, 1, 6, 11, 19, 6, 1]
    heavier = np.array(masses) + [-1.008, 1.008, -1.008, 1.008, 0, 0, 0, -1.008, 1.008]
    assert guess_elements(heavier, names).tolist() == [7, 1, 8, 1, 6, 11, 19, 6, 1]


def test_water_is_decided_by_mass_and_bonds():
    """A heavy particle of no element makes a residue another thing than water; so does a bond out of it."""
    water = sponge.Topology(list("OHHX"), [8, 1, 1, 0], [0] * 4, ["WAT"], ["1"], [0], ["A"], [[0, 1], [0, 2], [0, 3]])
    assert water_atoms(water, [16.0, 1.0, 1.0, 0.0]).all()
    assert not water_atoms(water, [16.0, 1.0, 1.0, 72.0]).any()
    bound = sponge.Topology(list("OHHC"), [8, 1, 1, 6], [0, 0, 0, 1], ["X", "Y"], ["1", "2"], [0, 0], ["A"], [[0, 3]])
    assert not water_atoms(bound, [16.0, 1.0, 1.0, 12.0]).any()


def test_hydrogen_takes_mass_from_an_atom_without_element():
    topology = sponge.Topology(["B", "H"], [0, 1], [0, 0], ["X"], ["1"], [0], ["A"], [[0, 1]])
    system = sponge.System(topology, [72.0, 1.008])
    system.repartition_hydrogen_mass(3.0)
    assert system.masses == pytest.approx([70.008, 3.0])


def test_implicit_solvent_has_no_box():
    system = sponge.System(PARTICLES, [12.0] * 4, box=3.0, positions=np.eye(4)[:, :3])
    with pytest.raises(ValueError, match="implicit solvent without cut-off has no box"):
        system.add(sponge.GB([0.1] * 4, [0.15] * 4, [0.8] * 4))
