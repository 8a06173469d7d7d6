"""The stored reference circuits: gate lists and the states other programs found."""

import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np

from triskele import quantum
from triskele.quantum.gates.families import unitary

FOLDER = Path(__file__).parents[1] / "data" / "quantum" / "circuits"


@cache
def stored():
    with gzip.open(FOLDER / "circuits.json.gz") as file:
        return {c["name"]: c for c in json.load(file)}


def names():
    return sorted(stored())


@cache
def state(name):
    with np.load(FOLDER / "states.npz") as file:
        return file[name]


def circuit(name):
    circuit = quantum.Circuit(stored()[name]["n_qubits"])
    for gate, qubits, params in stored()[name]["gates"]:
        if gate == "unitary":
            rows = np.array(params)
            circuit.append(unitary(rows[..., 0] + 1j * rows[..., 1]), qubits)
        else:
            circuit.append(gate, qubits, params)
    return circuit
