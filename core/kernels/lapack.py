"""LAPACK by address: NumPy's own, whose results and threads are those of `numpy.linalg`, or else SciPy's.

Fortran's calling convention, every argument a pointer. NumPy's takes integers of 64 bits, SciPy's of 32: a pointer to a
small 64-bit integer, zero before it is written, serves both on little-endian machines; only arrays differ (`INTEGER`).
"""

import ctypes
import sys
from functools import cache

from . import blas

__all__ = ["PREFIX", "address", "integer_bytes"]

PREFIX = "tsk.lapack."


@cache
def _library():
    """NumPy's OpenBLAS, if it is there with integers of 64 bits."""
    if sys.byteorder == "little":
        for library in blas._loaded_openblas("numpy"):
            if hasattr(library, "scipy_dgetrf_64_"):
                return library
    return None


def integer_bytes() -> int:
    """Size of the elements of integer arrays such as pivots."""
    return 4 if _library() is None else 8


def address(name: str) -> int:
    """Return the address of ``tsk.lapack.ROUTINE``, a function of LAPACK or BLAS; raise KeyError if there is none."""
    routine = name.removeprefix(PREFIX)
    library = _library()
    if library is not None:
        symbol = f"scipy_{routine}_64_"
        if not hasattr(library, symbol):
            raise KeyError(f"lapack.address: must be a function of LAPACK, got {routine}")
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
    family = "blas" if routine[1:] in ("trsm", "gemm") else "lapack"
    return blas.address(f"{family}.{routine}")
