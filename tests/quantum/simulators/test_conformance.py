"""Every simulator passes the conformance kit, and the kit finds what is wrong."""

import numpy as np
import pytest

from triskele import quantum
from triskele.quantum.errors import SimulatorError
from triskele.quantum.simulators import registry as base
from triskele.quantum.simulators.result import StatevectorResult


@pytest.mark.parametrize("name", ["statevector", "density_matrix", "trajectories", "stabilizer"])
def test_every_simulator_passes(name):
    quantum.check_simulator(name)
    quantum.check_simulator(name, seed=3)


def broken(kind):
    def simulate(circuit, theta=None, data=None, *, dtype=complex, initial=None, shots=None, seed=None):
        if kind == "forgets the last gate" and len(circuit) > 3:
            circuit = circuit._with(circuit.instructions[:-1])
        if kind == "takes no gate":
            raise SimulatorError("no")
        result = quantum.run(
            circuit,
            theta,
            data,
            initial=None if kind == "takes any initial state" else initial,
            shots=shots,
            seed=None if kind == "ignores the seed" else seed,
        )
        return (
            StatevectorResult(np.roll(result.statevector(), 1), shots, seed) if kind == "turns bits around" else result
        )

    return simulate


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("forgets the last gate", "off by"),
        ("turns bits around", "off by"),
        ("takes no gate", "supports no gate"),
        ("ignores the seed", "the same seed gave other samples"),
        ("takes any initial state", "initial state of another size must raise an error"),
    ],
)
def test_wrong_simulators_are_found(kind, message, monkeypatch):
    monkeypatch.setitem(base._registry, "broken", broken(kind))
    with pytest.raises(SimulatorError, match=message):
        quantum.check_simulator("broken")
