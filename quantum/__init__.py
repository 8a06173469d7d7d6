"""Quantum circuits on triskele.core."""

if __name__ != "triskele.quantum":
    raise ImportError(f"import this package as triskele.quantum, not as {__name__!r}")

import importlib
from typing import Any

from triskele.quantum.circuit import Circuit as Circuit
from triskele.quantum.parameters import Parameter as Parameter

# public name: module that has it, imported when the name is first used
_LAZY = {
    "AdaptVQE": "triskele.quantum.algorithms.adapt",
    "basis_state": "triskele.quantum.library",
    "check_gate": "triskele.quantum.testing",
    "check_simulator": "triskele.quantum.conformance",
    "Classifier": "triskele.quantum.algorithms.classifier",
    "Expectation": "triskele.quantum.gradients.expectation",
    "fermionic_pool": "triskele.quantum.ansatz.uccsd",
    "FermionOperator": "triskele.quantum.operators.fermion",
    "FidelityKernel": "triskele.quantum.algorithms.kernel",
    "decompose": "triskele.quantum.compile.decompose",
    "equal": "triskele.quantum.compile.equal",
    "gate": "triskele.quantum.gates.function",
    "ghz": "triskele.quantum.library",
    "graph_state": "triskele.quantum.library",
    "hardware_efficient": "triskele.quantum.ansatz.hardware_efficient",
    "hartree_fock": "triskele.quantum.ansatz.excitations",
    "heisenberg": "triskele.quantum.operators.models",
    "inner_product": "triskele.quantum.gradients.inner_product",
    "maxcut": "triskele.quantum.algorithms.maxcut",
    "minimize": "triskele.quantum.optimizers.minimize",
    "Molecule": "triskele.quantum.chemistry",
    "molecules": "triskele.quantum.chemistry",
    "natural_gradient": "triskele.quantum.gradients.qfi",
    "NoiseModel": "triskele.quantum.noise.model",
    "PauliSum": "triskele.quantum.operators.pauli",
    "Plan": "triskele.quantum.compile.plan",
    "plan": "triskele.quantum.compile.plan",
    "prepare_state": "triskele.quantum.library",
    "QAOA": "triskele.quantum.algorithms.qaoa",
    "qaoa_ansatz": "triskele.quantum.algorithms.qaoa",
    "qfi": "triskele.quantum.gradients.qfi",
    "qft": "triskele.quantum.library",
    "qubit_pool": "triskele.quantum.ansatz.uccsd",
    "RecursiveQAOA": "triskele.quantum.algorithms.recursive_qaoa",
    "run": "triskele.quantum.simulators.run",
    "tfim": "triskele.quantum.operators.models",
    "trotter": "triskele.quantum.operators.trotter",
    "uccsd": "triskele.quantum.ansatz.uccsd",
    "uniformly_controlled_rotation": "triskele.quantum.library",
    "VQD": "triskele.quantum.algorithms.vqd",
    "VQE": "triskele.quantum.algorithms.vqe",
    "w_state": "triskele.quantum.library",
}

__all__ = sorted(["Circuit", "Parameter", *_LAZY])


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
