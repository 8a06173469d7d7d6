"""The standard gates: constants in a table, parameterised ones as products of factors.

Conventions of OpenQASM 3 and Qiskit: R_P(t) = exp(-i t P/2), P(t) = diag(1, exp(i t)), U(t, f, l) = P(f) RY(t) P(l).
Controlled gates are these with controls; `CONTROLLED` has the names they go by.
"""

import re

import numpy as np

from ..errors import GateError
from .base import Gate, find, register
from .primitives import Factor, Pair, Phase, Rotation

__all__ = ["CONTROLLED", "resolve"]

_R = np.sqrt(0.5)


def _swap_like(*middle: complex) -> np.ndarray:
    """[[1], [0, a, b, 0], [0, b, a, 0], [1]]: acts on |01> and |10> alone."""
    a, b = middle
    return np.array([[1, 0, 0, 0], [0, a, b, 0], [0, b, a, 0], [0, 0, 0, 1]], complex)


def _monomial(*entries: tuple[complex, int]) -> np.ndarray:
    """The matrix that takes basis state j to `entries[j]` = (factor, state)."""
    m = np.zeros((len(entries), len(entries)), complex)
    for j, (value, k) in enumerate(entries):
        m[k, j] = value
    return m


_RC3X: list[tuple[complex, int]] = [(1, j) for j in range(16)]
_RC3X[3], _RC3X[11], _RC3X[7], _RC3X[15] = (1j, 3), (-1j, 11), (-1, 15), (1, 7)
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
    "dcx": (_monomial((1, 0), (1, 2), (1, 3), (1, 1)), "dcxdg", "DCX"),  # cx(0, 1) cx(1, 0)
    "dcxdg": (_monomial((1, 0), (1, 3), (1, 1), (1, 2)), "dcx", "DCX†"),
    # Toffoli gates up to phases, of OpenQASM 2's qelib1 (D. Maslov, Phys. Rev. A 93, 022311 (2016), figures 3 and 4);
    # the target is last
    "rccx": (_monomial((1, 0), (1, 1), (1, 2), (1j, 7), (1, 4), (-1, 5), (1, 6), (-1j, 3)), "rccx", "RCCX"),
    "rc3x": (_monomial(*_RC3X), "rc3xdg", "RC3X"),
    "rc3xdg": (_monomial(*_RC3X).conj().T, "rc3x", "RC3X†"),
    # Qiskit's ECR: (IX - XY)/sqrt 2 with its first qubit the right-hand factor
    "ecr": (_R * np.array([[0, 1, 0, 1j], [1, 0, -1j, 0], [0, 1j, 0, 1], [-1j, 0, 1, 0]]), "ecr", "ECR"),
}
_ALIASES = {"id": ("i",), "rc3x": ("rcccx",)}
for _name, (_matrix, _inverse, _label) in _CONSTANTS.items():
    _m = np.array(_matrix, complex)
    _m.flags.writeable = False
    register(
        Gate(_name, len(_m).bit_length() - 1, constant=_m, adjoint=_inverse, label=_label), *_ALIASES.get(_name, ())
    )

for _axes in ("x", "y", "z", "xx", "yy", "zz", "zx", "xy", "xz", "yz"):
    _n = len(_axes)
    register(
        Gate(
            f"r{_axes}", _n, 1, factors=(Factor(Rotation(_axes.upper()), tuple(range(_n))),), label=f"R{_axes.upper()}"
        )
    )

_TURN, _IMAGINARY_TURN = Pair(2, 0b01, 0b10), Pair(2, 0b01, 0b10, imaginary=True)
register(Gate("p", 1, 1, factors=(Factor(Phase(1), (0,)),), label="P"), "u1", "phase")
register(Gate("global_phase", 0, 1, factors=(Factor(Phase(0), ()),), label="phase"), "gphase")
register(
    Gate(
        "u",
        1,
        3,
        label="U",
        adjoint=lambda t, f, l: (-t, -l, -f),
        factors=(
            Factor(Phase(1), (0,), (0, 0, 1)),
            Factor(Rotation("Y"), (0,), (1, 0, 0)),
            Factor(Phase(1), (0,), (0, 1, 0)),
        ),
    ),
    "u3",
)
register(
    Gate(
        "u2",
        1,
        2,
        label="U2",
        adjoint=lambda f, l: (-l - np.pi, -f + np.pi),
        factors=(
            Factor(Phase(1), (0,), (0, 1)),
            Factor(Rotation("Y"), (0,), (0, 0), np.pi / 2),
            Factor(Phase(1), (0,), (1, 0)),
        ),
    )
)
register(
    Gate(
        "r",
        1,
        2,
        label="R",
        adjoint=lambda t, f: (-t, f),
        factors=(  # rotation about cos(f) X + sin(f) Y
            Factor(Rotation("Z"), (0,), (0, -1)),
            Factor(Rotation("X"), (0,), (1, 0)),
            Factor(Rotation("Z"), (0,), (0, 1)),
        ),
    ),
    "prx",
)
register(
    Gate(
        "fsim",
        2,
        2,
        label="fSim",
        factors=(  # [[c, -i s], [-i s, c]] on |01>, |10>, exp(-i f) on |11>
            Factor(_IMAGINARY_TURN, (0, 1), (2, 0)),
            Factor(Phase(2), (0, 1), (0, -1)),
        ),
    )
)
# [[c, -s], [s, c]] on |01>, |10>
register(Gate("givens", 2, 1, label="Givens", factors=(Factor(_TURN, (0, 1), (2,)),)))
register(
    Gate(
        "xx_plus_yy",
        2,
        2,
        label="XX+YY",
        adjoint=lambda t, b: (-t, b),
        factors=(  # Qiskit's XXPlusYYGate
            Factor(Rotation("Z"), (0,), (0, 1)),
            Factor(_IMAGINARY_TURN, (0, 1), (1, 0)),
            Factor(Rotation("Z"), (0,), (0, -1)),
        ),
    )
)

register(
    Gate(
        "xx_minus_yy",
        2,
        2,
        label="XX-YY",
        adjoint=lambda t, b: (-t, b),
        factors=(  # Qiskit's XXMinusYYGate
            Factor(Rotation("Z"), (0,), (0, -1)),
            Factor(Pair(2, 0b00, 0b11, imaginary=True), (0, 1), (1, 0)),
            Factor(Rotation("Z"), (0,), (0, 1)),
        ),
    )
)
register(
    Gate(
        "swapalpha",
        2,
        1,
        label="SWAP^",
        factors=(  # SWAP to the power t / pi: exp(i t (1 - SWAP)/2)
            Factor(_IMAGINARY_TURN, (0, 1)),
            Factor(Rotation("ZZ"), (0, 1), (0.5,)),
            Factor(Phase(0), (), (0.25,)),
        ),
    )
)
# exp(i g) U(t, f, l), controlled by qubit 0
register(
    Gate(
        "cu",
        2,
        4,
        label="CU",
        adjoint=lambda t, f, l, g: (-t, -l, -f, -g),
        factors=(
            Factor(Phase(1), (0,), (0, 0, 0, 1)),
            Factor(Phase(2), (0, 1), (0, 0, 1, 0)),
            Factor(Pair(2, 0b01, 0b11), (0, 1), (1, 0, 0, 0)),
            Factor(Phase(2), (0, 1), (0, 1, 0, 0)),
        ),
    )
)

# names of controlled gates: (number of controls, gate); `c` before any gate's name, and `c3`, `c4`, ... do the same
CONTROLLED = {
    "cx": (1, "x"), "cnot": (1, "x"), "cy": (1, "y"), "cz": (1, "z"), "ch": (1, "h"), "cs": (1, "s"),
    "csdg": (1, "sdg"), "csx": (1, "sx"), "crx": (1, "rx"), "cry": (1, "ry"), "crz": (1, "rz"), "cp": (1, "p"),
    "cphase": (1, "p"), "cu1": (1, "p"), "cu3": (1, "u"), "cswap": (1, "swap"), "ccx": (2, "x"), "toffoli": (2, "x"),
    "ccz": (2, "z"), "fredkin": (1, "swap"), "c3sqrtx": (3, "sx"),
}  # fmt: skip


def resolve(name: str) -> tuple[int | None, Gate]:
    """Return the number of controls of a gate's name, and the gate without them.

    `cx`, `ccx`, `c3x`, `crx` ... are gates with controls; `mcx`, `mcp`, `mcrx` ... have any number of them, returned as
    None.

    >>> resolve("ccx"), resolve("c3sx"), resolve("mcp"), resolve("rzz")
    ((2, Gate('x')), (3, Gate('sx')), (None, Gate('p')), (0, Gate('rzz')))
    """
    if name in CONTROLLED:
        number, inner = CONTROLLED[name]
        return number, find(inner)
    if isinstance(name, str) and name.startswith("c" * 65):
        raise GateError(f"unknown gate {name[:20] + '...'!r} (more than 64 controls are written as in mcx)")
    try:
        return 0, find(name)
    except GateError as error:
        if isinstance(name, str) and name != name.lower() and _is_known(name.lower()):
            raise GateError(f"unknown gate {name!r} (did you mean {name.lower()!r}?)") from None
        match = re.fullmatch(r"(m?)c(\d*)(.+)", name) if isinstance(name, str) else None
        if match is None:
            raise
        many, digits, inner = match.groups()
        try:
            more, gate = (None, find(inner)) if many and not digits else resolve(inner)
        except GateError:
            raise error from None
        if more is None and not many or many and digits:
            raise
        return None if more is None else int(digits or 1) + more, gate


def _is_known(name: str) -> bool:
    try:
        resolve(name)
    except GateError:
        return False
    return True
