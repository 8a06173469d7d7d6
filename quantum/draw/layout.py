"""Layout of circuit drawings, shared by text and matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..circuit import Circuit
from ..gates.base import Gate
from ..gates.instruction import BARRIER, MEASURE, RESET, Instruction
from ..parameters import Linear
from .labels import angle_text, gate_label, params_text

__all__ = ["Item", "Layout", "layout"]


class Item(NamedTuple):
    """One instruction in one column."""

    column: int
    kind: str  # "box", "target" (X of a controlled X), "cross" (swap), "dot" (a target like a control), "barrier"
    style: str  # color of a box: "gate", "rotation", "measure", "reset" or "channel"
    qubits: tuple[int, ...]
    controls: tuple[int, ...]
    label: str  # first line of a box
    params: str  # second line of a box
    link: str  # text at the classical wire; empty if the item does not touch it

    @property
    def span(self) -> tuple[int, int]:
        """First and last qubit that it touches or crosses, without the way to the classical wire."""
        wires = (*self.qubits, *self.controls)
        return min(wires), max(wires)

    @property
    def box(self) -> tuple[int, int]:
        """First and last qubit of its box."""
        return min(self.qubits), max(self.qubits)


class Layout(NamedTuple):
    """Items in order, and what is around them."""

    num_qubits: int
    num_clbits: int
    num_columns: int
    items: list[Item]
    phase: str  # the global phase, which is on no wire; empty if there is none

    def columns(self) -> Iterator[list[Item]]:
        """Items column by column."""
        found: list[list[Item]] = [[] for _ in range(self.num_columns)]
        for item in self.items:
            found[item.column].append(item)
        return iter(found)


def layout(circuit: Circuit) -> Layout:
    """Put every instruction into the first column in which the wires that it touches or crosses are free."""
    n = circuit.num_qubits
    free = [0] * (n + 1)  # first free column by wire; the last is the classical one
    items: list[Item] = []
    phases: list[Linear | float] = []
    for i in circuit:
        wires = (*i.qubits, *i.controls)
        if not wires:
            if i.clbits:
                _mark_reading(items, i.clbits[0])
            elif i.params:
                phases.append(i.params[0])
            continue
        link = _link(i)
        first, last = min(wires), n if link else max(wires)
        column = max(free[first : last + 1])
        items.append(_item(column, i, link))
        free[first : last + 1] = [column + 1] * (last + 1 - first)
    return Layout(n, circuit.num_clbits, max(free), items, angle_text(sum(phases)) if phases else "")


def _mark_reading(items: list[Item], clbit: int) -> None:
    """A readout error has no place of its own: it is said at the last measurement into its classical bit."""
    for k in reversed(range(len(items))):
        if items[k].style == "measure" and items[k].link.split()[0] == str(clbit):
            items[k] = items[k]._replace(link=items[k].link + " noisy")
            return


def _link(i: Instruction) -> str:
    text = str(i.clbits[0]) if i.gate is MEASURE else ""
    if i.condition is not None:
        bits, value = i.condition
        condition = f"c{bits[0]}={value}" if len(bits) == 1 else f"c[{','.join(map(str, bits))}]={value}"
        text = f"{text} if {condition}" if text else condition
    return text


def _item(column: int, i: Instruction, link: str) -> Item:
    label, params, controls, gate = gate_label(i.gate), params_text(i.params), i.controls, i.gate
    kind, style, qubits = "box", "gate", i.qubits
    if gate is BARRIER:
        kind = "barrier"
    elif gate is MEASURE or gate is RESET:
        style = gate.name
    elif not isinstance(gate, Gate):
        style = "channel"
        params = params_text(a for a in getattr(gate, "arguments", ()) if isinstance(a, (int, float)))
    elif params:
        style = "rotation"
    if isinstance(gate, Gate) and gate.constant is not None:
        if gate.name == "x" and controls:
            kind = "target"
        elif gate.name == "z" and controls:
            kind = "dot"
        elif gate.name == "swap":
            kind = "cross"
    if not qubits:  # a controlled global phase is a phase on its controls
        qubits, controls, label = controls[:1], controls[1:], "P"
    return Item(column, kind, style, tuple(qubits), tuple(controls), label, params, link)
