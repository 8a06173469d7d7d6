"""Loop nests that run block of rows by block of rows, so that what one writes the next still finds in cache.

Nests over the same leading axes (the rows) run so when each reads, of what the others compute, its own row only:
softmax and layer normalization, or a product with a matrix followed by one with its transpose, then go through memory
once. Sums over the rows are formed per block and added in order.
"""

from __future__ import annotations

import math
from typing import Any

from ..graph.graph import Var
from .formulas import index_key
from .fuse import Fusion, Group, depends

__all__ = ["RowBlocks", "find_row_blocks"]

SHARED = 1 << 18  # bytes that nests must find in cache for blocks to be worth it
BLOCK = 1 << 18  # bytes of a block: half of a second-level cache
FEWEST = 16  # rows in all
PARTIALS = 1 << 22  # bytes of partial results
AHEAD = 12  # steps that are looked through for the next nest


class RowBlocks:
    """Groups that run in `chunks` blocks of `step` rows; the rows are the first `lead` axes, `rows` in all."""

    __slots__ = ("groups", "lead", "rows", "step", "chunks")

    def __init__(self, groups: list[Group], lead: int, rows: int, step: int):
        self.groups, self.lead, self.rows, self.step, self.chunks = groups, lead, rows, step, -(-rows // step)


def find_row_blocks(fusion: Fusion) -> list:
    """The steps of `fusion`, with `RowBlocks` in place of the groups they are made of."""
    steps, out = list(fusion.steps), []
    while steps:
        first = steps.pop(0)
        if not isinstance(first, Group) or not first.key:
            out.append(first)
            continue
        members, lead = [first], 0
        left: list[Any] = []
        for step in steps[:AHEAD]:
            found = _joined(fusion, members, step) if not depends(step, left) else 0
            if found:
                members.append(step)
                lead = found
            else:
                left.append(step)
        blocks = _sized(fusion, members, lead) if lead else None
        if blocks is None:
            out.append(first)
        else:
            out.append(blocks)
            steps = left + steps[AHEAD:]
    return out


def _joined(fusion, members, step) -> int:
    """Number of leading axes under which `step` can run with `members`; 0 if it cannot or need not."""
    if not isinstance(step, Group) or not step.key:
        return 0
    own = {r.var for m in members for r in m.roots}
    before = {fusion.base(v) for m in members for v in m.reads} | own
    if not {fusion.base(r) for r in step.reads} & before:
        return 0
    groups = [*members, step]
    most = min(len(g.key) for g in groups)
    for lead in range(most, 0, -1):
        rows = groups[0].key[:lead]
        if math.prod(rows) >= FEWEST and all(
            g.key[:lead] == rows and _by_rows(fusion, g, groups, lead) for g in groups
        ):
            return lead
    return 0


def _by_rows(fusion, group, groups, lead) -> bool:
    """Return True if a block of rows of `group` needs only the same block of the groups' results."""
    made = {r.var: r for g in groups for r in g.roots}
    for r in group.roots:
        inside = [a in r.axes for a in range(lead)] if r.axes is not None else [False]
        if any(inside) and not all(inside):
            return False
    if lead > 1 and not fusion.merges(group, lead):
        return False
    loops = fusion._loops(group.roots[0].space)
    rows = index_key(loops[:lead])
    for v, keys in group.reads.items():
        root = made.get(fusion.base(v))
        if root is None:
            continue
        if root.axes is not None and 0 in root.axes:
            return False
        if v.spec.shape[:lead] != group.key[:lead] or any(k[:lead] != rows for k in keys):
            return False
    return True


def _sized(fusion, groups, lead) -> RowBlocks | None:
    seen: set[Var] = set()
    shared = 0
    for g in groups:
        own = {fusion.base(v) for v in g.reads} | {r.var for r in g.roots}
        shared += sum(v.spec.nbytes for v in own & seen)
        seen |= own
    if shared < SHARED:
        return None
    rows = math.prod(groups[0].key[:lead])
    per_row = sum(v.spec.nbytes for v in seen) / rows
    step = max(1, int(BLOCK / max(per_row, 1)))
    partial = sum(r.var.spec.nbytes for g in groups for r in g.roots if r.axes is not None and 0 in r.axes)
    step = max(step, -(-rows * partial // PARTIALS))
    if per_row > 2 * BLOCK or 2 * step > rows:
        return None
    return RowBlocks(groups, lead, rows, step)
