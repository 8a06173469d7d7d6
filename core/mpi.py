"""The MPI world of this process. Needs mpi4py, but only under mpiexec."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

from .imports.optional import need

__all__ = ["location", "world"]

# Set by mpiexec and srun for the processes that they start: PMI of MPICH and Intel MPI, Open MPI, Slurm.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def world(who: str) -> Any:
    """Return ``COMM_WORLD``, or None if there is only one process; `who`, the caller, begins messages.

    Raise ImportError if mpiexec started several processes but mpi4py is missing (each process would do all the work),
    and RuntimeError if mpiexec belongs to another MPI than mpi4py.
    """
    started = max(int(os.environ.get(name) or 1) for name in _SIZES)
    if started <= 1 and "mpi4py.MPI" not in sys.modules:
        return None
    COMM_WORLD = need("mpi4py.MPI", f"{who}, under mpiexec", "mpi").COMM_WORLD
    if started > 1 == COMM_WORLD.Get_size():
        raise RuntimeError(
            f"{who}: {started} processes were started, but mpi4py sees one (it belongs to another MPI "
            f"than mpiexec, and comes with its own)"
        )
    return COMM_WORLD if COMM_WORLD.Get_size() > 1 else None


def location() -> tuple[str, tuple[int, ...]]:
    """Return a key shared by processes on the same processors: the machine's name and the allowed processors."""
    return socket.gethostname(), tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
