"""Boresch restraints: another program's energies, corrections against sampling, the choice of atoms, mistakes."""

import math
import warnings

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import alchemy, units
from triskele.sponge.alchemy.boresch import _coordinates
from triskele.sponge.testing import check_potential, example_system

BOXES = [None, [[1.2, 0, 0], [0.2, 1.1, 0], [-0.1, 0.3, 1.2]]]
STIFF = {"distance": 0.6, "angles": [1.2, 1.9], "torsions": [3.0, -3.0, 0.4]}


@pytest.mark.parametrize("box", BOXES)
def test_energy_and_forces_are_those_of_openmm(box):
    mm = pytest.importorskip("openmm")
    springs = {"k_distance": 900.0, "k_angles": [40.0, 70.0], "k_torsions": [10.0, 20.0, 30.0]}
    restraint = alchemy.Boresch([2, 0, 5], [9, 7, 11], **STIFF, **springs)
    system = example_system(restraint, box=box)
    check_potential(restraint, system)
    wrapped = "(abs({0})-2*pi*step(abs({0})-pi))^2"
    force = mm.CustomCompoundBondForce(
        6,
        (
            "k1/2*(distance(p1,p4)-0.6)^2 + k2/2*(angle(p2,p1,p4)-1.2)^2 + k3/2*(angle(p1,p4,p5)-1.9)^2"
            f" + k4/2*{wrapped.format('a')} + k5/2*{wrapped.format('b')} + k6/2*{wrapped.format('c')};"
            "a=dihedral(p3,p2,p1,p4)-3.0; b=dihedral(p2,p1,p4,p5)+3.0; c=dihedral(p1,p4,p5,p6)-0.4;"
            "pi=3.14159265358979324"
        ),
    )
    for k, value in enumerate([900.0, 40.0, 70.0, 10.0, 20.0, 30.0]):
        force.addGlobalParameter(f"k{k + 1}", value)
    force.addBond([2, 0, 5, 9, 7, 11])
    force.setUsesPeriodicBoundaryConditions(box is not None)
    theirs = mm.System()
    for _ in range(system.n):
        theirs.addParticle(12.0)
    if box is not None:
        theirs.setDefaultPeriodicBoxVectors(*(mm.Vec3(*row) for row in box))
    theirs.addForce(force)
    context = mm.Context(theirs, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(system.positions)
    state = context.getState(getEnergy=True, getForces=True)
    assert system.energy() == pytest.approx(state.getPotentialEnergy()._value, rel=1e-10)
    forces = state.getForces(asNumpy=True)._value
    np.testing.assert_allclose(system.forces(), forces, atol=1e-10 * np.abs(forces).max())


def test_correction_is_the_volume_that_a_free_ligand_finds():
    """Random places and orientations of a rigid ligand around a receptor, soft springs."""
    rng, thermal = np.random.default_rng(5), units.GAS_CONSTANT * 300
    restraint = alchemy.Boresch(
        [0, 1, 2],
        [3, 4, 5],
        distance=0.35,
        angles=[0.9, 2.0],
        torsions=[2.9, 1.0, -2.0],
        k_distance=150.0,
        k_angles=[4.0, 7.0],
        k_torsions=[3.0, 2.0, 1.0],
    )
    m, radius = 400_000, 1.2
    receptor = np.array([[0, 0, 0], [0.15, 0, 0], [0.2, 0.14, 0]])
    ligand = np.array([[0, 0, 0], [0.1, 0.1, 0], [0.1, 0.2, 0.1]])
    q = rng.normal(size=(m, 4))
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    turns = np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                      [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                      [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])  # fmt: skip
    places = rng.normal(size=(m, 3))
    places *= radius * np.cbrt(rng.random((m, 1))) / np.linalg.norm(places, axis=1, keepdims=True)
    frames = np.concatenate(
        [np.broadcast_to(receptor, (m, 3, 3)), np.einsum("abm,ib->mia", turns, ligand) + places[:, None]], axis=1
    )
    values = _coordinates(np.arange(6)[None], frames, None)[:, 0]
    d = values - restraint.params["center"]
    d[:, 3:] -= 2 * math.pi * np.rint(d[:, 3:] / (2 * math.pi))
    weights = np.exp(-0.5 * (d * d) @ restraint.params["k"] / thermal)
    system = example_system(restraint, positions=np.concatenate([frames[0], np.zeros((6, 3))]))
    assert system.energy() == pytest.approx(-thermal * math.log(weights[0]), rel=1e-9)
    error = thermal * weights.std() / weights.mean() / math.sqrt(m)
    volume = 4 / 3 * math.pi * radius**3
    found = thermal * math.log(weights.mean() * volume * 0.602214076)
    assert error < 0.03
    assert restraint.standard_state_correction(300) == pytest.approx(found, abs=4 * error)
    with pytest.warns(UserWarning, match="analytic formula is off"):
        restraint.standard_state_correction(300, analytic=True)


def test_analytic_correction_is_the_limit_of_stiff_springs():
    gaps = []
    for factor in (1, 10, 100):
        restraint = alchemy.Boresch(
            [0, 1, 2],
            [3, 4, 5],
            **STIFF,
            k_distance=8368.0 * factor,
            k_angles=83.68 * factor,
            k_torsions=83.68 * factor,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gaps.append(
                restraint.standard_state_correction(300) - restraint.standard_state_correction(300, analytic=True)
            )
    assert abs(gaps[0]) < 0.1 and np.abs(gaps[1:]) == pytest.approx(np.abs(gaps[:2]) / 10, rel=0.2)


def test_springs_scale_with_their_lambda():
    restraint = alchemy.Boresch([30, 31, 35], [0, 1, 2], **STIFF)
    system = example_system(restraint, n=40)
    system.add(sponge.Nonbonded(np.zeros(40), np.full(40, 0.1), np.full(40, 0.1), method="none"))
    own = restraint.energy(restraint.params, system.positions, None)
    soft = alchemy.decouple(system, range(3), annihilate=(), restraints=["boresch"])
    schedule = alchemy.Schedule(sterics=[1, 1, 0], restraints=[0, 0.4, 1])
    energies, slopes = alchemy.energies(soft, schedule), alchemy.derivatives(soft, schedule)
    assert energies[1] - energies[0] == pytest.approx(0.4 * own, rel=1e-10)
    np.testing.assert_allclose(slopes["restraints"], own, rtol=1e-10)


def complex_of_chains(rng, noise, frames=30):
    """A ligand of five atoms in a bend of a receptor of twelve, all zigzags; atoms move by `noise` each."""
    n = 17
    t = np.arange(12)
    receptor = np.stack([0.6 * np.cos(t / 4), 0.6 * np.sin(t / 4), 0.05 * (-1.0) ** t], axis=1)
    ligand = np.stack([0.13 * np.arange(5) - 0.26, 0.1 * (-1.0) ** np.arange(5) + 0.1, np.full(5, 0.1)], axis=1)
    bonds = [(i, i + 1) for i in range(11)] + [(i, i + 1) for i in range(12, 16)]
    structure = np.concatenate([receptor, ligand])
    system = sponge.System(sponge.Topology.of_particles(n, "C", 6, bonds), np.full(n, 12.0), positions=structure)
    return system, structure + rng.normal(size=(frames, n, 3)) * noise[:, None]


def test_choice_keeps_away_from_loose_atoms():
    noise = np.full(17, 0.01)
    noise[[0, 1, 2, 3, 9, 10, 11, 15, 16]] = 0.08
    system, frames = complex_of_chains(np.random.default_rng(1), noise)
    found = alchemy.Boresch.choose(system, range(12, 17), positions=frames, k_angles=120.0)
    assert set(found.atoms.tolist()) <= {4, 5, 6, 7, 8, 12, 13, 14}
    assert len(found.atoms) == 6 and (found.atoms[:3] < 12).all() and (found.atoms[3:] >= 12).all()
    values = np.array([[variable(x) for variable in found.cvs] for x in frames])
    np.testing.assert_allclose(found.params["center"][:3], values[:, :3].mean(axis=0), rtol=1e-12)
    box = np.diag([2.0, 2.1, 2.2])
    images = np.random.default_rng(2).integers(-1, 2, size=(*frames.shape[:2], 1)) * box[1]
    system.box = box
    again = alchemy.Boresch.choose(system, range(12, 17), positions=frames + images, k_angles=120.0)
    assert again.atoms.tolist() == found.atoms.tolist()
    np.testing.assert_allclose(again.params["center"], found.params["center"], atol=1e-9)


def test_choice_from_one_structure():
    system, _ = complex_of_chains(np.random.default_rng(1), np.zeros(17))
    found = alchemy.Boresch.choose(system, range(12, 17), range(4, 12), k_torsions=10.0, name="hold")
    assert found.name == "hold" and np.all(found.atoms[:3] >= 4)
    assert np.all(np.sin(found.params["center"][1:3]) > 0.7)
    system.add(found)
    assert system.energy() == pytest.approx(0, abs=1e-20)


def line():
    return sponge.System(
        sponge.Topology.of_particles(6, "C", 6, [(0, 1), (1, 2), (3, 4), (4, 5)]),
        np.full(6, 12.0),
        positions=np.outer(np.arange(6), [0.1, 0.1, 0]),
    )


@pytest.mark.parametrize(
    "mistake, message",
    [
        (lambda: alchemy.Boresch([0, 1, 2], [2, 3, 4], **STIFF), "three different atoms"),
        (lambda: alchemy.Boresch([0, 1], [2, 3, 4], **STIFF), "three different atoms"),
        (lambda: alchemy.Boresch(["CA", "C", "N"], [2, 3, 4], **STIFF), "receptor: indices must be integers"),
        (lambda: alchemy.Boresch.choose(line(), [0, 1, 2], k_angles=[1, 2, 3]), "k_angles must be a number or one for"),
        (lambda: alchemy.Boresch([0, 1, 2], [3, 4, 5], **STIFF | {"distance": 0.0}), "distance"),
        (lambda: alchemy.Boresch([0, 1, 2], [3, 4, 5], **STIFF | {"angles": [70.0, 90.0]}), "in radians"),
        (lambda: alchemy.Boresch([0, 1, 2], [3, 4, 5], **STIFF | {"torsions": [70.0, 90.0, 0.0]}), "in radians"),
        (lambda: alchemy.Boresch([0, 1, 2], [3, 4, 5], **STIFF | {"angles": [1.0]}), "angles must be 2 numbers"),
        (lambda: alchemy.Boresch([0, 1, 2], [3, 4, 5], **STIFF, k_angles=-1.0), "force constants must be positive"),
        (lambda: alchemy.Boresch([0, 1, 2], [3, 4, 5], **STIFF).standard_state_correction(-1), "temperature"),
        (lambda: alchemy.Boresch.choose(line(), [0, 1, 2]), "the receptor must have three heavy atoms.* not on a line"),
        (lambda: alchemy.Boresch.choose(line(), [0, 1, 2], [2, 3]), "no atoms in common"),
        (
            lambda: alchemy.Boresch.choose(line(), [0, 1, 2], positions=np.zeros((2, 5, 3))),
            "positions must be those of 6",
        ),
        (
            lambda: alchemy.Boresch.choose(
                complex_of_chains(np.random.default_rng(1), np.zeros(17))[0], range(12, 17), k_angles=1.0
            ),
            "no atoms keep their angles",
        ),
    ],
)
def test_mistakes(mistake, message):
    with pytest.raises(ValueError, match=message):
        mistake()
