"""Excitations of fermions, exp(t (T - T^dagger)), as one gate each.

After Jordan-Wigner an excitation rotates pairs of basis states that differ in the excited modes, with a sign that is
the parity of the modes between them (J. M. Arrazola et al., Universal quantum circuits for quantum chemistry, Quantum
6, 742 (2022); doi:10.22331/q-2022-06-20-742). So it is a single `Pair`, whatever lies between. `single_excitation` and
`double_excitation` have no such modes (they are the qubit excitations); `single_excitation_3` has three, listed after
the excited ones.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import GateError
from ..parameters import Linear
from ..parameters import angle as exact
from .base import Gate, family, register
from .primitives import Factor, Pair

__all__ = ["excitation_gate", "excitation_on"]

_NAMES = {1: "single_excitation", 2: "double_excitation"}


@functools.lru_cache(1024)
def excitation_gate(order: int, between: int = 0) -> Gate:
    """exp(t (T - T^dagger)) with T = |0..0 1..1><1..1 0..0| from the first `order` qubits to the next.

    The sign of t is the parity of the last `between` qubits. Order is 1 or 2.
    """
    moved = (1 << order) - 1
    free = ((1 << between) - 1) << 2 * order
    qubits = 2 * order + between
    pair = Pair(qubits, moved, moved << order, free=free, parity=free)
    name = _NAMES[order] + (f"_{between}" if between else "")
    return Gate(
        name, qubits, 1, factors=(Factor(pair, tuple(range(qubits)), (2.0,)),), label="E" if order == 1 else "E²"
    )


for _order in _NAMES:
    register(excitation_gate(_order))


def _modes(modes: Any) -> tuple[int, ...]:
    return (modes,) if np.ndim(modes) == 0 else tuple(modes)


@family
def _of_name(name: str) -> Gate | None:
    match = re.fullmatch(r"(single|double)_excitation_([1-9]\d{0,3})", name)
    return excitation_gate(1 if match[1] == "single" else 2, int(match[2])) if match else None


def excitation_on(
    angle: Any, source: Sequence[int] | int, target: Sequence[int] | int
) -> tuple[Gate, tuple[int, ...], tuple[float | Linear, ...]]:
    """Return gate, qubits and parameters of exp(angle (T - T^dagger)) after Jordan-Wigner, which empties the one or two
    modes s of `source` and fills as many others t of `target`: T = a_t0^dagger a_s0, or a_t0^dagger a_t1^dagger a_s1
    a_s0.
    """
    s, t = _modes(source), _modes(target)
    if (
        len(s) not in _NAMES
        or len(t) != len(s)
        or len({*s, *t}) != 2 * len(s)
        or any(not isinstance(q, (int, np.integer)) or q < 0 for q in s + t)
    ):
        raise GateError(f"excitation: one or two modes, and as many others, are needed, got {list(s)} and {list(t)}")
    between: set[int] = set()  # modes that an odd number of the moves s -> t pass
    sign = 1
    for k, (a, b) in enumerate(zip(s, t, strict=True)):
        passed = set(range(min(a, b) + 1, max(a, b)))
        # T = (t0^ s0)(t1^ s1): the second move is made first, when s0 is full and t0 empty; then the first, when t1 is
        # full and s1 empty
        others = {t[1]} if len(s) == 2 and k == 0 else {s[0]} if k else set()
        sign *= (-1) ** len(passed & others)
        between ^= passed
    rest = tuple(sorted(between - {*s, *t}))
    value = exact(angle, "excitation")
    return excitation_gate(len(s), len(rest)), (*s, *t, *rest), (value if sign > 0 else -value,)
