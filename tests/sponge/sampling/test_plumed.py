"""PLUMED in the step loop: forces and virial, agreement with our own methods, numbers of states, restarts, errors."""

import importlib.util
import sys

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import cv
from triskele.sponge.errors import CheckpointError
from triskele.sponge.sampling.plumed_input import action_of, logical_lines, with_memory
from triskele.sponge.testing import example_system


def installed():
    if importlib.util.find_spec("plumed") is None:
        return False
    import plumed

    try:
        plumed.Plumed().finalize()
    except RuntimeError:
        return False
    return True


needs_plumed = pytest.mark.skipif(not installed(), reason="needs PLUMED: the package plumed, and PLUMED_KERNEL")
BOX = [[3.0, 0, 0], [0.4, 2.8, 0], [-0.3, 0.5, 2.9]]
TORSION = ["phi: TORSION ATOMS=1,2,3,4"]


def simulation(method, integrator=None, box=None, **options):
    system = example_system(sponge.harmonic_bond([[i, i + 1] for i in range(11)], k=3e4, r0=0.15), box=box)
    return sponge.Simulation(
        system, integrator or sponge.LangevinMiddle(300, 5.0, 0.001), seed=1, sampling=[method], **options
    )


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@needs_plumed
@pytest.mark.parametrize("box", [None, BOX], ids=["no box", "triclinic"])
def test_forces_and_virial_are_derivatives(box):
    """Of the bias that PLUMED reports; masses and charges are the system's."""
    bias = sponge.Plumed(
        [
            *TORSION,
            "com: COM ATOMS=5-8",
            "d: DISTANCE ATOMS=com,12",
            "g: GYRATION ATOMS=1-6",
            "RESTRAINT ARG=phi,d,g AT=1.0,0.2,0.1 KAPPA=50,900,400",
            "PRINT ARG=phi FILE=out",
        ]
    )
    sim = simulation(bias, box=box)
    engine, x = sim._engine, sim.positions.copy()

    def energy(x, b=None):
        engine.compute(x, b)
        return engine.energies()["plumed"]

    without = sponge.Engine(sim.system)
    engine.compute(x)
    without.compute(x)
    forces, virial = engine.forces - without.forces, engine.plans["plumed"].totals()[1:].reshape(3, 3)
    h = 1e-5
    for atom, axis in ((0, 0), (2, 1), (5, 2), (11, 0), (7, 1)):
        shifts = [x + sign * h * np.eye(3)[axis] * (np.arange(12) == atom)[:, None] for sign in (1, -1)]
        assert forces[atom, axis] == pytest.approx(-(energy(shifts[0]) - energy(shifts[1])) / (2 * h), abs=2e-4)
    for a, b in ((0, 0), (1, 1), (2, 1), (1, 2), (0, 2)):
        strain = h * np.outer(np.eye(3)[a], np.eye(3)[b])
        boxes = [None if box is None else np.array(box) @ (np.eye(3) + sign * strain).T for sign in (1, -1)]
        if box is not None and np.abs(np.triu(boxes[0], 1)).max() > 0:
            continue  # not a box in the reduced form
        ends = [energy(x @ (np.eye(3) + sign * strain).T, new) for sign, new in zip((1, -1), boxes, strict=True)]
        assert virial[a, b] == pytest.approx(-(ends[0] - ends[1]) / (2 * h), abs=2e-3)


@needs_plumed
def test_charges_that_change_are_not_taken_for_those_of_nonbonded():
    system = sponge.System(sponge.Topology.of_particles(2), [20.0, 20.0], positions=[[0, 0, 0], [0.3, 0, 0]])
    system.add(sponge.Nonbonded([0, 0], [0.2, 0.2], [0.1, 0.1], method="none"))
    system.add(sponge.ChargeEquilibration([100.0, 400.0], [500.0, 500.0], 0.05))
    bias = sponge.Plumed(["d: DIPOLE GROUP=1,2", "PRINT ARG=d FILE=out"])
    with pytest.raises(sponge.PlumedError, match="calculating d"):
        sponge.Simulation(system, sponge.VelocityVerlet(1e-4), seed=1, sampling=[bias]).run(1)


@needs_plumed
@pytest.mark.parametrize("integrator", [sponge.LangevinMiddle(300, 5.0, 0.001), sponge.VelocityVerlet(0.001)])
def test_a_restraint_moves_atoms_as_an_umbrella_does(integrator):
    bias = sponge.Plumed(
        [
            *TORSION,
            "d: DISTANCE ATOMS=1,10",
            "RESTRAINT ARG=phi,d AT=1.0,0.4 KAPPA=50,900",
            "t: TIME",
            "PRINT ARG=t,phi FILE=out FMT=%.15g",
        ]
    )
    sim, own = (
        simulation(bias, integrator, BOX),
        example_system(sponge.harmonic_bond([[i, i + 1] for i in range(11)], k=3e4, r0=0.15), box=BOX),
    )
    own.add(sponge.umbrella([cv.torsion(0, 1, 2, 3), cv.distance(0, 9)], [1.0, 0.4], [50.0, 900.0]))
    other = sponge.Simulation(own, integrator, seed=1)
    angles = sponge.Variables({"phi": cv.torsion(0, 1, 2, 3)}, every=1)
    sim.run(40, report=sponge.CSV("energies.csv", every=7))  # whose energies change nothing
    other.run(40, report=angles)
    np.testing.assert_allclose(sim.positions, other.positions, atol=1e-9)
    ours, theirs = sim.energies(), other.energies()
    assert ours["plumed"] == pytest.approx(theirs["umbrella"], rel=1e-9)
    assert ours["pressure"] == pytest.approx(theirs["pressure"], rel=1e-9)
    bias.flush()
    printed = np.loadtxt("out")
    last = 40 if integrator.forces_at == "new" else 39
    np.testing.assert_allclose(printed[:, 1], 0.001 * np.arange(last + 1), atol=1e-12)  # each state once
    np.testing.assert_allclose(printed[1:, 2], angles["phi"][:last], atol=1e-8)


@needs_plumed
def test_learned_biases_are_ours():
    """OPES in both programs makes the same run; metadynamics differs by the stretched Gaussians of PLUMED."""
    angle = cv.torsion(0, 1, 2, 3)
    runs = {
        "opes": (sponge.OPES(angle, 30.0, 5, sigma=0.2), "OPES_METAD ARG=phi BARRIER=30 PACE=5 SIGMA=0.2 FILE=kernels"),
        "hills": (
            sponge.Metadynamics(angle, 0.3, 2.0, 10, 6.0, grid=[400]),
            "METAD ARG=phi SIGMA=0.3 HEIGHT=2 PACE=10 BIASFACTOR=6 FILE=hills",
        ),
    }
    for name, (own, line) in runs.items():
        sims = [simulation(method) for method in (own, sponge.Plumed([*TORSION, line]))]
        for sim in sims:
            sim.run(60)
        ours, theirs = (sim.energies()[method] for sim, method in zip(sims, (own.name, "plumed"), strict=True))
        tight = name == "opes"
        np.testing.assert_allclose(sims[0].positions, sims[1].positions, atol=1e-6 if tight else 2e-3)
        assert theirs == pytest.approx(ours, abs=1e-4 if tight else 0.1)
        assert abs(ours) > 1.0


@needs_plumed
def test_a_run_without_memory_resumes_bit_for_bit():
    text = [*TORSION, "LOWER_WALLS ARG=phi AT=1.0 KAPPA=50", "PRINT ARG=phi FILE=out STRIDE=5"]
    whole, first, second = (simulation(sponge.Plumed(text)) for _ in range(3))
    whole.run(100)
    first.run(43)
    first.save("run.chk")
    second.load("run.chk")
    second.run(57)
    np.testing.assert_array_equal(second.positions, whole.positions)


@needs_plumed
def test_a_memory_is_not_resumed_by_mistake():
    text = [*TORSION, "METAD ARG=phi SIGMA=0.3 HEIGHT=2 PACE=10 FILE=hills"]
    first = simulation(sponge.Plumed(text))
    first.run(20)
    first.save("old.chk")
    first.run(25)
    first.save("run.chk")
    with pytest.raises(CheckpointError, match="restart=True to load a checkpoint, as what METAD has learned"):
        simulation(sponge.Plumed(text)).load("run.chk")
    bias = first.energies()["plumed"]
    second = simulation(sponge.Plumed(text, restart=True))
    del first
    second.load("run.chk")
    assert second.energies()["plumed"] == pytest.approx(bias, rel=1e-9)
    second.run(10)
    second.load("old.chk")
    with pytest.raises(sponge.PlumedError, match="cannot go back with the simulation, as METAD remembers"):
        second.run(40)


@needs_plumed
def test_what_plumed_refuses_is_shown():
    with pytest.raises(ValueError, match=r"got 'RESTRAINT ARG=psi AT=0 KAPPA=1': .*psi"):
        simulation(sponge.Plumed([*TORSION, "RESTRAINT ARG=psi AT=0 KAPPA=1"])).run(1)
    with pytest.raises(ValueError, match="got 'NO_SUCH ARG=phi'"):
        simulation(sponge.Plumed([*TORSION, "NO_SUCH ARG=phi"])).run(1)
    with pytest.raises(ImportError, match="needs PLUMED's library, got /nowhere/libplumedKernel.so"):
        simulation(sponge.Plumed(TORSION, kernel="/nowhere/libplumedKernel.so"))
    with pytest.raises(ValueError, match="belongs to one simulation"):
        simulation(sponge.Plumed(TORSION)).sampling[0].check(None, sponge.VelocityVerlet(0.001))
    stop = sponge.Plumed([*TORSION, "COMMITTOR ARG=phi STRIDE=1 BASIN_LL1=-4 BASIN_UL1=4 FILE=c"])
    with pytest.raises(sponge.PlumedError, match="such as COMMITTOR, ends the run at state"):
        simulation(stop).run(5)
    moving = sponge.Plumed([*TORSION, "MOVINGRESTRAINT ARG=phi STEP0=0 AT0=0 KAPPA0=1 STEP1=99 AT1=1"])
    with pytest.raises(sponge.PlumedError, match="MOVINGRESTRAINT learns whenever it is evaluated"):
        simulation(moving, box=BOX, barostat=sponge.MonteCarloBarostat(1.0, every=2)).run(5)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "plumed", None)
    with pytest.raises(ImportError, match=r'Plumed: needs plumed \(pip install "triskele\[plumed\]"'):
        simulation(sponge.Plumed(TORSION))
    with pytest.raises(ValueError, match="must compute all forces once a step, which RESPA does not"):
        simulation(sponge.Plumed(TORSION), sponge.RESPA(0.002, 2, ["bond"]))


def test_input_is_read_as_plumed_reads_it(tmp_path):
    text = """# a comment
phi: TORSION ATOMS=1,2,3,4   # and another

METAD ...
  ARG=phi # one
  SIGMA=0.3
... METAD
ENDPLUMED
nonsense"""
    (tmp_path / "plumed.dat").write_text(text)
    expected = ["phi: TORSION ATOMS=1,2,3,4", "METAD ARG=phi SIGMA=0.3"]
    for given in (tmp_path / "plumed.dat", text.splitlines(), [text]):
        assert list(logical_lines("", given)) == expected
    assert [action_of(line) for line in expected] == ["TORSION", "METAD"]
    assert [with_memory(line) for line in [*expected, "COORDINATION GROUPA=1 NLIST NL_CUTOFF=1"]] == [False, True, True]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a: TIME\nPRINT ARG=a", "must be a path or a sequence of lines, got a text of several"),
        (3, "must be a path or a sequence of lines, got int"),
        (["# nothing"], "must have at least one action"),
        (["METAD ...", "ARG=phi"], r"a continued line must end with '...', got 'METAD ARG=phi'"),
        (["METAD ...", "ARG=phi", "... OPES"], "a continued line must end with '... METAD', got '... OPES'"),
        (
            ["e: ENERGY"],
            "must not use ENERGY, as the energy of the system is not known before the bias, got 'e: ENERGY'",
        ),
    ],
)
def test_bad_input(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sponge.Plumed(given)
