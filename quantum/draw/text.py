"""Circuits drawn with characters."""

from __future__ import annotations

import shutil

from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import CircuitError
from .layout import Item, Layout, layout

__all__ = ["draw_text"]


def draw_text(circuit: Circuit, width: int | None = None) -> str:
    """Draw a circuit as lines of text, qubit 0 at the top.

    Parameters
    ----------
    circuit : Circuit
    width : int, optional
        Characters in a line. Defaults to the width of the terminal. Longer circuits continue below; gates are never
        cut.

    Returns
    -------
    str

    Raises
    ------
    CircuitError
        If the width is not a positive integer.

    Examples
    --------
    >>> from triskele.quantum.draw import draw_text
    >>> from triskele import quantum
    >>> print(draw_text(quantum.Circuit(2).h(0).cx(0, 1).rz("a", 1), width=60))
         ┌───┐
    q0: ─┤ H ├─●───────────
         └───┘ │ ┌───────┐
    q1: ───────⊕─┤ RZ(a) ├─
                 └───────┘
    """
    if width is not None:
        check.integer(width, "draw: width", 1, error=CircuitError)
    plan = layout(circuit)
    width = shutil.get_terminal_size().columns if width is None else width
    n = plan.num_qubits
    names = [f"q{q}: " for q in range(n)] + ([f"c: {plan.num_clbits}/"] if plan.num_clbits else [])
    margin = max(map(len, names), default=0)
    height = 2 * n + 1 + 2 * bool(plan.num_clbits)
    head = [" " * margin] * height
    for k, name in enumerate(names):
        head[2 * k + 1] = name.rjust(margin)
    head = [row + _fill(k, n) for k, row in enumerate(head)]
    blocks: list[list[str]] = []
    for items in plan.columns():
        column = _column(items, plan)
        if not blocks or len(blocks[-1][0]) + len(column[0]) + 1 > width and len(blocks[-1][0]) > margin + 1:
            blocks.append(list(head))
        blocks[-1] = [row + cells for row, cells in zip(blocks[-1], column, strict=True)]
    blocks = blocks or [head]
    lines = [f"global phase: {plan.phase}"] if plan.phase else []
    for block in blocks:
        mark = "" if block is blocks[-1] else "»"  # it continues below
        rows = [(row + mark if 1 <= k < 2 * len(names) and k % 2 else row).rstrip() for k, row in enumerate(block)]
        if block is not blocks[0]:
            lines = [*lines, ""] if lines[-1] else lines
            rows = rows[not rows[0] :]
        lines += rows
    return "\n".join(lines[not lines[0] :]).rstrip("\n") if lines else ""


def _fill(row: int, n: int) -> str:
    """The character of an empty place: a wire, or nothing."""
    return " " if row % 2 == 0 else "─" if row < 2 * n else "═"


class _Canvas:
    """The cells of one column: rows 2q + 1 are wires, the others between them."""

    def __init__(self, plan: Layout, width: int):
        self.n, self.width = plan.num_qubits, width
        height = 2 * self.n + 1 + 2 * bool(plan.num_clbits)
        self.cells = [[_fill(r, self.n)] * width for r in range(height)]

    def put(self, row: int, text: str) -> None:
        """Text in the middle of a row."""
        start = (self.width - len(text)) // 2
        self.cells[row][start : start + len(text)] = text

    def center(self, row: int, mark: str) -> None:
        self.cells[row][(self.width - 1) // 2] = mark

    def line(self, first: int, last: int, double: bool = False) -> None:
        """A vertical line over rows first to last."""
        for row in range(first, last + 1):
            self.center(row, ("╫" if double else "┼") if row % 2 else ("║" if double else "│"))


def _column(items: list[Item], plan: Layout) -> list[str]:
    boxes = [_lines(i) for i in items]
    width = max([len(text) for lines in boxes for text in lines] + [len(i.link) for i in items])
    canvas = _Canvas(plan, width)
    inner = max([len(text) for i, lines in zip(items, boxes) if i.kind == "box" for text in lines], default=0)
    for item in items:
        _draw(canvas, item, inner)
    return ["".join(cells) + _fill(r, plan.num_qubits) for r, cells in enumerate(canvas.cells)]


def _lines(item: Item) -> list[str]:
    if item.kind != "box":
        return [{"barrier": "░"}.get(item.kind, "●")]
    name = f"{item.label}({item.params})" if item.params else item.label
    first, last = item.box
    return [f"┤ {name} ├"] if first == last else [f"┤{len(item.qubits) - 1} {name} ├"]


def _draw(canvas: _Canvas, item: Item, inner: int) -> None:
    first, last = item.span
    if item.kind == "barrier":
        for q in item.qubits:
            canvas.center(2 * q + 1, "░")
            if q + 1 in item.qubits:
                canvas.center(2 * q + 2, "░")
        return
    canvas.line(2 * first + 2, 2 * last)
    if item.link:
        canvas.line(2 * last + 2, 2 * canvas.n, double=True)
        canvas.center(2 * canvas.n + 1, "╩")
        canvas.put(2 * canvas.n + 2, item.link)
    if item.kind == "box":
        _box(canvas, item, inner)
    else:
        mark = {"target": "⊕", "cross": "×", "dot": "●"}[item.kind]
        for q in item.qubits:
            canvas.center(2 * q + 1, mark)
    for q in item.controls:
        if not (item.kind == "box" and item.box[0] < q < item.box[1]):
            canvas.center(2 * q + 1, "●")


def _box(canvas: _Canvas, item: Item, inner: int) -> None:
    first, last = item.box
    top, bottom = 2 * first, 2 * last + 2
    tall, name = first != last, f"{item.label}({item.params})" if item.params else item.label
    for row in range(top + 1, bottom):
        canvas.put(row, "│" + " " * (inner - 2) + "│")
    middle = (top + bottom) // 2
    if tall:
        canvas.put(middle, "│  " + name.center(inner - 5) + " │")
        for q in range(first, last + 1):
            inside = canvas.cells[2 * q + 1]
            start = (canvas.width - inner) // 2
            wire = q in item.qubits or q in item.controls
            inside[start], inside[start + inner - 1] = ("┤", "├") if wire else ("┼", "┼")
            if wire:
                mark = "●" if q in item.controls else str(item.qubits.index(q))
                inside[start + 1 : start + 1 + len(mark)] = mark
            elif 2 * q + 1 != middle:
                inside[start + 1 : start + inner - 1] = "┄" * (inner - 2)
    else:
        canvas.put(middle, "┤" + name.center(inner - 2) + "├")
    for row, corners, ends, above in ((top, "┌┐", "└┘", True), (bottom, "└┘", "┌┐", False)):
        start = (canvas.width - inner) // 2
        shared = canvas.cells[row][start] == ends[0]
        edge = "├┤" if shared else corners
        joined = any(q < first for q in item.controls) if above else any(q > last for q in item.controls)
        canvas.put(row, edge[0] + "─" * (inner - 2) + edge[1])
        if joined:
            canvas.center(row, "┴" if above else "┬")
        elif item.link and not above:
            canvas.center(row, "╥")
