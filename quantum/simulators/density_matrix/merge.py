"""Fewer and cheaper maps: what acts on one qubit becomes one product, constant maps become part of their neighbors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...gates.instruction import Instruction
from ...parameters import Linear
from .transfer import Element, Wide

__all__ = ["Map", "merge"]


class Map(NamedTuple):
    """A map of a merged circuit: the product of tables (one row or five each) with their angles, the first acting
    first.

    Those on several qubits have one table.
    """

    qubits: tuple[int, ...]
    tables: tuple[np.ndarray, ...]
    angles: tuple[Linear | None, ...]
    source: Instruction | None = None


def merge(elements: Iterable[Element | Wide]) -> list[Map | Wide]:
    """The maps that have the effect of `elements`, in an order that does the same."""
    waiting: dict[int, list[tuple[np.ndarray, Any]]] = {}  # maps on one qubit that may still meet another
    done: list[Map | Wide] = []
    last: dict[int, int] = {}  # qubit: number of the last map in `done` that acts on it

    def put(item: Map | Wide) -> None:
        last.update((q, len(done)) for q in item.qubits)
        done.append(item)

    def flush(qubits: Iterable[int]) -> None:
        for q in qubits:
            if chain := waiting.pop(q, None):
                tables, angles = zip(*chain, strict=True)
                if not (len(chain) == 1 and angles[0] is None and np.array_equal(tables[0][0], np.eye(4))):
                    put(Map((q,), tables, angles))

    for e in elements:
        if isinstance(e, Element) and len(e.qubits) == 1 and e.source is None:
            _chain(waiting.setdefault(e.qubits[0], []), e.table, e.angle)
            continue
        if isinstance(e, Wide) or e.source is not None:
            flush(e.qubits)
            put(e if isinstance(e, Wide) else Map(e.qubits, (e.table,), (None,), e.source))
            continue
        table = e.table
        for k, q in enumerate(e.qubits):  # scalings by noise between two gates cost nothing inside the second
            chain = waiting.get(q, ())
            if len(chain) == 1 and chain[0][1] is None and _is_diagonal(chain[0][0][0]):
                table = table * _spread(np.diag(chain[0][0][0]), k, len(e.qubits))
                del waiting[q]
        flush(e.qubits)
        before = {last.get(q, -1) for q in e.qubits}
        if len(before) == 1 and (at := before.pop()) >= 0 and (joined := _joined(done[at], e.qubits, table, e.angle)):
            done[at] = joined
        else:
            put(Map(e.qubits, (table,), (e.angle,)))
    flush(list(waiting))
    return done


def _chain(chain: list[tuple[np.ndarray, Any]], table: np.ndarray, angle: Any) -> None:
    if chain and (angle is None or chain[-1][1] is None):
        old, old_angle = chain[-1]
        # one of them has a single row: it broadcasts
        chain[-1] = (table @ old, angle if old_angle is None else old_angle)
    else:
        chain.append((table, angle))


def _joined(old: Map | Wide, qubits: tuple[int, ...], table: np.ndarray, angle: Linear | None) -> Map | None:
    """The product of a map and one that follows on the same qubits, if it costs no more than both."""
    if (
        isinstance(old, Wide)
        or old.source is not None
        or set(old.qubits) != set(qubits)
        or (angle is not None and old.angles[0] is not None)
    ):
        return None
    k = len(qubits)
    order = [k - 1 - qubits.index(q) for q in reversed(old.qubits)]  # axes of digits, the most significant first
    axes = [0, *(1 + a for a in order), *(1 + k + a for a in order)]
    table = table.reshape((-1,) + (4,) * (2 * k)).transpose(axes).reshape(table.shape)
    product = table @ old.tables[0]
    if np.count_nonzero(product.any(0)) > np.count_nonzero(table.any(0)) + np.count_nonzero(old.tables[0].any(0)):
        return None
    return Map(old.qubits, (product,), (angle if old.angles[0] is None else old.angles[0],))


def _is_diagonal(matrix: np.ndarray) -> bool:
    return not (matrix - np.diag(np.diag(matrix))).any()


def _spread(scale: np.ndarray, k: int, number: int) -> np.ndarray:
    """(4**number,) factors of strings whose digit k is scaled by `scale`."""
    return np.tile(np.repeat(scale, 4**k), 4 ** (number - 1 - k))
