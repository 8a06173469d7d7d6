"""Layers of rotations and entangling gates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from triskele.core.extend import check

from .. import gates
from ..circuit import Circuit
from ..errors import CircuitError
from ..gates.standard import CONTROLLED

__all__ = ["hardware_efficient"]

_PATTERNS = {
    "linear": lambda n: [(q, q + 1) for q in range(n - 1)],
    "ring": lambda n: [(q, (q + 1) % n) for q in range(n if n > 2 else n - 1)],
    "full": lambda n: list(combinations(range(n), 2)),
}


def hardware_efficient(
    num_qubits: int,
    layers: int,
    rotations: Sequence[str] = ("ry", "rz"),
    entangler: str = "cx",
    *,
    entanglement: str = "linear",
    last: bool = True,
    prefix: str = "",
) -> Circuit:
    """Layers of single-qubit rotations, each followed by entangling gates, and a last layer of rotations [1]_.

    Parameters are named by gate, layer and qubit (`ry_0_3`), those of an entangler that has an angle by gate, layer and
    number of the pair (`rzz_0_2`).

    Parameters
    ----------
    num_qubits, layers : int
    rotations : sequence of str
        Names of gates on one qubit, applied in this order; gates without an angle are allowed.
    entangler : str
        Name of a gate on two qubits: "cx", "cz", "rzz", "crx" ...
    entanglement : str
        "linear" (neighbors), "ring" (the last with the first too) or "full" (all pairs).
    last : bool
        Add rotations after the last entangling layer.
    prefix : str
        Start of all parameter names. Blocks of one circuit share their angles unless their prefixes differ.

    Raises
    ------
    CircuitError, GateError
        If a number is out of range, a gate or the pattern is unknown, or a gate has the wrong number of qubits or more
        than one angle.

    References
    ----------
    .. [1] A. Kandala et al., Hardware-efficient variational quantum eigensolver for small molecules and quantum
       magnets, Nature 549, 242 (2017). doi:10.1038/nature23879

    Examples
    --------
    >>> from triskele.quantum import hardware_efficient
    >>> circuit = hardware_efficient(3, 2)
    >>> circuit.counts()
    {'ry': 9, 'rz': 9, 'cx': 4}
    >>> circuit.parameters[:4]
    ('ry_0_0', 'ry_0_1', 'ry_0_2', 'rz_0_0')
    """
    for name, value, least in (("num_qubits", num_qubits, 1), ("layers", layers, 0)):
        check.integer(value, f"hardware_efficient: {name}", least, error=CircuitError)
    check.choice(entanglement, _PATTERNS, "hardware_efficient: entanglement", error=CircuitError)
    rotations = (rotations,) if isinstance(rotations, str) else tuple(rotations)
    angles = {name: _angles(name, 1) for name in rotations}
    of_pair = _angles(entangler, 2)
    circuit = Circuit(num_qubits)
    for layer in range(layers + bool(last)):
        for name in rotations:
            for q in range(num_qubits):
                circuit.append(name, q, [f"{prefix}{name}_{layer}_{q}"] * angles[name])
        if layer < layers:
            for k, pair in enumerate(_PATTERNS[entanglement](num_qubits)):
                circuit.append(entangler, pair, [f"{prefix}{entangler}_{layer}_{k}"] * of_pair)
    return circuit


def _angles(name: str, qubits: int) -> int:
    """Return the number of angles (0 or 1) of a gate on that many qubits."""
    controls, inner = CONTROLLED.get(name, (0, name))
    gate = gates.find(inner)
    if gate.num_qubits is None or controls + gate.num_qubits != qubits or gate.num_params > 1:
        raise CircuitError(f"hardware_efficient: {name} must act on {qubits} qubits and have at most one angle")
    return gate.num_params
