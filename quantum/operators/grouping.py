"""Groups of terms that can be measured together."""

from __future__ import annotations

import numpy as np

from . import bits
from .terms import Terms

__all__ = ["groups"]


def groups(operator: Terms, qubit_wise: bool) -> list[np.ndarray]:
    """Terms' numbers, group by group; see `PauliSum.groups`."""
    x, z = operator.x, operator.z
    order = np.argsort(-abs(operator.coefficients), kind="stable")
    return _qubit_wise(x, z, order) if qubit_wise else _general(x, z, order)


def _qubit_wise(x: np.ndarray, z: np.ndarray, order: np.ndarray) -> list[np.ndarray]:
    members: list[list[int]] = []
    union_x, union_z = np.zeros_like(x), np.zeros_like(z)  # what a group has on each qubit: at most one letter
    for k in order:
        gx, gz = union_x[: len(members)], union_z[: len(members)]
        conflict = (((gx ^ x[k]) | (gz ^ z[k])) & (gx | gz) & (x[k] | z[k])).any(1)
        g = len(members) if conflict.all() else int(np.argmin(conflict))
        if g == len(members):
            members.append([])
        members[g].append(k)
        union_x[g] |= x[k]
        union_z[g] |= z[k]
    return [np.array(m) for m in members]


def _general(x: np.ndarray, z: np.ndarray, order: np.ndarray) -> list[np.ndarray]:
    x, z = x[order], z[order]
    group = np.zeros(len(order), np.int64)
    number = 0
    for k in range(len(order)):
        conflict = np.zeros(number + 1, bool)
        conflict[group[:k][bits.anticommute(x[:k], z[:k], x[k], z[k])]] = True
        group[k] = np.argmin(conflict)  # the last one is empty, so that there always is one
        number = max(number, group[k] + 1)
    return [order[group == g] for g in range(number)]
