"""Replicas shared out over MPI ranks: who owns which, and the few things that ranks tell each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core import get_threads
from triskele.core.extend import mpi

__all__ = ["Ranks"]


class Ranks:
    """The ranks of an MPI run, or this process alone. Replicas are handed out in blocks.

    By default `comm` is ``COMM_WORLD`` if mpiexec has started more than one process. Raise if mpi4py is then missing or
    belongs to another MPI: each process would do the work of all.
    """

    def __init__(self, n: int, comm: Any = None):  # number of replicas
        self._comm = mpi.world("replicas") if comm is None else comm
        self.rank, self.size = 0, 1
        if self._comm is not None:
            self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        if self.size > n:
            raise ValueError(
                f"replicas: there must be at least as many replicas as MPI ranks, got {n} replicas on {self.size} ranks"
            )
        self._first = [n * r // self.size for r in range(self.size + 1)]
        self.own = range(self._first[self.rank], self._first[self.rank + 1])  # the replicas of this rank
        here = mpi.location()  # other ranks on the same machine share its processors
        self.threads = max(1, get_threads() // self.gather(here).count(here))

    def owner(self, k: int) -> int:
        """The rank of replica `k`."""
        return int(np.searchsorted(self._first, k, side="right")) - 1

    def gather(self, item: Any) -> list[Any]:
        """Gather the objects of all ranks, in rank order, on every rank."""
        return [item] if self.size == 1 else self._comm.allgather(item)

    def swap(
        self,
        pairs: list[tuple[int, int]],  # the same on all ranks; no replica is in two
        arrays: dict[int, np.ndarray],
    ) -> dict[int, np.ndarray]:  # by replica; float64, all of one shape
        """Return the partner's array for each of this rank's replicas in `pairs`."""
        result, requests = {}, []
        for pair in pairs:
            for k, other in (pair, pair[::-1]):
                if k in arrays and other in arrays:
                    result[k] = arrays[other]
                elif k in arrays:
                    result[k] = np.empty_like(arrays[k])
                    rank, tag = self.owner(other), pair[0]
                    requests += [self._comm.Isend(arrays[k], rank, tag), self._comm.Irecv(result[k], rank, tag)]
        for request in requests:
            request.Wait()
        return result
