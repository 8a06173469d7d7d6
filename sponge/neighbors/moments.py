"""`Moment`: where the atoms were when a list was built or pruned, from which it can be made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task, kernel

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["Moment"]


@kernel(nogil=True)
def note(chunk, starts, positions, box, noted, noted_box):
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            noted[i, a] = positions[i, a]
    if chunk == 0:
        for a in range(3):
            for b in range(3):
                noted_box[a, b] = box[a, b]


class Moment:
    """Positions (n, 3) and box (3, 3) of a moment, set by `task`."""

    def __init__(self, engine: Engine):
        self.positions, self.box = np.zeros((engine.n, 3)), np.zeros((3, 3))
        self.task = Task(
            note, engine.atom_starts, engine.positions, engine.box, self.positions, self.box, chunks=engine.atom_chunks
        )
