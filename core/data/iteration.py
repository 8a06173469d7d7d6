"""Iteration over one epoch of a source, with a position that can be saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import DataError

if TYPE_CHECKING:
    from .pipeline import Source

__all__ = ["Iteration", "walk"]

_CHUNK = 16  # samples of a job where nothing asks for batches


class Iteration:
    """Iterator over one epoch of a source; `Source.iterate` makes it.

    Parameters
    ----------
    source : Source
    epoch : int
    state : dict, optional
        Where to resume.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> iterator = data.arrays(np.arange(3)).iterate()
    >>> int(next(iterator)), iterator.state()["position"]
    (0, {'jobs': None, 'taken': 1})
    """

    def __init__(self, source: Source, epoch: int, state: Any = None):
        self._epoch = epoch
        if state is not None and (not isinstance(state, dict) or set(state) != {"epoch", "position"}):
            raise ValueError(f"iterate: state must come from state() of an iterator, got {state!r}")
        if state is not None and int(state["epoch"]) != epoch:
            raise ValueError(f"iterate: state must belong to epoch {epoch}, got epoch {int(state['epoch'])}")
        self._position = None if state is None else state["position"]
        self._walk = walk(source, epoch, self._position)

    def __repr__(self) -> str:
        return f"<Iteration: epoch {self._epoch}>"

    def __iter__(self) -> Iteration:
        return self

    def __next__(self) -> Any:
        value, _, _, self._position = next(self._walk)
        return value

    def state(self) -> dict[str, Any]:
        """The position after the last element: a small tree of numbers that `core.save` can write."""
        return {"epoch": self._epoch, "position": self._position}

    def close(self) -> None:
        """End the workers of the iteration."""
        self._walk.close()


def walk(source: Source, epoch: int, state: Any, size: int | None = None) -> Iterator[tuple[Any, int, int, Any]]:
    """Elements of a source from a state on: value, id, epoch, and the state after the element.

    The state is that of the jobs, and the number of elements already taken from the next job.
    """
    before, skip = (None, 0) if state is None else (state["jobs"], int(state["taken"]))
    size = size or (1 if source.batched else _CHUNK)
    jobs = source.feed(epoch, before, size)
    try:
        for job, n, after in jobs:
            if skip >= n:
                before, skip = after, skip - n
                continue
            block = source.run(job)
            for k, value in enumerate(block.samples()):
                if k >= skip:
                    now = {"jobs": before, "taken": k + 1} if k + 1 < n else {"jobs": after, "taken": 0}
                    yield value, int(block.ids[k]), int(block.epochs[k]), now
            before, skip = after, 0
    finally:
        jobs.close()  # type: ignore[attr-defined]
    if skip:
        raise DataError(f"iterate: state must be a position of this pipeline, got {skip} elements beyond its end")
