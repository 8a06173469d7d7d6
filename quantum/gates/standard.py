"""The standard gates: constants in a table, parameterised ones as products of factors.

Conventions of OpenQASM 3 and Qiskit: R_P(t) = exp(-i t P/2), P(t) = diag(1, exp(i t)), U(t, f, l) = P(f) RY(t) P(l). Controlled
gates are these with controls; `CONTROLLED` has the names they go by.
"""

import numpy as np

from triskele.quantum.gates.base import Factor, Gate, Pair, Phase, Rotation, register

__all__ = ["CONTROLLED"]

_R = np.sqrt(0.5)


def _swap_like(*middle: complex) -> np.ndarray:
    """[[1], [0, a, b, 0], [0, b, a, 0], [1]]: acts on |01> and |10> alone."""
    a, b = middle
    return np.array([[1, 0, 0, 0], [0, a, b, 0], [0, b, a, 0], [0, 0, 0, 1]], complex)


_CONSTANTS = {  # name: (matrix, inverse, label)
    "id": ([[1, 0], [0, 1]], "id", "I"),
    "x": ([[0, 1], [1, 0]], "x", "X"),
    "y": ([[0, -1j], [1j, 0]], "y", "Y"),
    "z": ([[1, 0], [0, -1]], "z", "Z"),
    "h": ([[_R, _R], [_R, -_R]], "h", "H"),
    "s": ([[1, 0], [0, 1j]], "sdg", "S"),
    "sdg": ([[1, 0], [0, -1j]], "s", "S†"),
    "t": ([[1, 0], [0, _R + _R * 1j]], "tdg", "T"),
    "tdg": ([[1, 0], [0, _R - _R * 1j]], "t", "T†"),
    "sx": ([[0.5 + 0.5j, 0.5 - 0.5j], [0.5 - 0.5j, 0.5 + 0.5j]], "sxdg", "√X"),
    "sxdg": ([[0.5 - 0.5j, 0.5 + 0.5j], [0.5 + 0.5j, 0.5 - 0.5j]], "sx", "√X†"),
    "swap": (_swap_like(0, 1), "swap", "SWAP"),
    "iswap": (_swap_like(0, 1j), "iswapdg", "iSWAP"),
    "iswapdg": (_swap_like(0, -1j), "iswap", "iSWAP†"),
    # Qiskit's ECR: (IX - XY)/sqrt 2 with its first qubit the right-hand factor
    "ecr": (_R * np.array([[0, 1, 0, 1j], [1, 0, -1j, 0], [0, 1j, 0, 1], [-1j, 0, 1, 0]]), "ecr", "ECR"),
}  # fmt: skip
for _name, (_matrix, _inverse, _label) in _CONSTANTS.items():
    _m = np.array(_matrix, complex)
    _m.flags.writeable = False
    register(Gate(_name, len(_m).bit_length() - 1, constant=_m, adjoint=_inverse, label=_label), *(("i",) if _name == "id" else ()))

for _axes in ("x", "y", "z", "xx", "yy", "zz", "zx", "xy", "xz", "yz"):
    _n = len(_axes)
    register(Gate(f"r{_axes}", _n, 1, factors=(Factor(Rotation(_axes.upper()), tuple(range(_n))),), label=f"R{_axes.upper()}"))

_01_10 = dict(qubits=2, a=0b01, b=0b10)
register(Gate("p", 1, 1, factors=(Factor(Phase(1), (0,)),), label="P"), "u1", "phase")
register(Gate("global_phase", 0, 1, factors=(Factor(Phase(0), ()),), label="phase"), "gphase")
register(Gate("u", 1, 3, label="U", adjoint=lambda t, f, l: (-t, -l, -f), factors=(
    Factor(Phase(1), (0,), (0, 0, 1)), Factor(Rotation("Y"), (0,), (1, 0, 0)), Factor(Phase(1), (0,), (0, 1, 0)))), "u3")  # fmt: skip
register(Gate("u2", 1, 2, label="U2", adjoint=lambda f, l: (-l - np.pi, -f + np.pi), factors=(
    Factor(Phase(1), (0,), (0, 1)), Factor(Rotation("Y"), (0,), (0, 0), np.pi / 2), Factor(Phase(1), (0,), (1, 0)))))  # fmt: skip
register(Gate("r", 1, 2, label="R", adjoint=lambda t, f: (-t, f), factors=(  # rotation about cos(f) X + sin(f) Y
    Factor(Rotation("Z"), (0,), (0, -1)), Factor(Rotation("X"), (0,), (1, 0)), Factor(Rotation("Z"), (0,), (0, 1)))), "prx")  # fmt: skip
register(Gate("fsim", 2, 2, label="fSim", factors=(  # [[c, -i s], [-i s, c]] on |01>, |10>, exp(-i f) on |11>
    Factor(Pair(**_01_10, imaginary=True), (0, 1), (2, 0)), Factor(Phase(2), (0, 1), (0, -1)))))  # fmt: skip
register(Gate("givens", 2, 1, label="Givens", factors=(Factor(Pair(**_01_10), (0, 1), (2,)),)))  # [[c, -s], [s, c]] on |01>, |10>
register(Gate("xx_plus_yy", 2, 2, label="XX+YY", adjoint=lambda t, b: (-t, b), factors=(  # Qiskit's XXPlusYYGate
    Factor(Rotation("Z"), (0,), (0, -1)), Factor(Pair(**_01_10, imaginary=True), (0, 1), (1, 0)), Factor(Rotation("Z"), (0,), (0, 1)))))  # fmt: skip

# names of controlled gates: (number of controls, gate)
CONTROLLED = {
    "cx": (1, "x"), "cnot": (1, "x"), "cy": (1, "y"), "cz": (1, "z"), "ch": (1, "h"), "cs": (1, "s"), "csdg": (1, "sdg"), "csx": (1, "sx"),
    "crx": (1, "rx"), "cry": (1, "ry"), "crz": (1, "rz"), "cp": (1, "p"), "cphase": (1, "p"), "cu1": (1, "p"), "cu3": (1, "u"),
    "cswap": (1, "swap"), "ccx": (2, "x"), "toffoli": (2, "x"), "ccz": (2, "z"), "fredkin": (1, "swap"),
}  # fmt: skip
