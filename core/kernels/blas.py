"""BLAS and LAPACK by address, and row-major matrix products for compiled programs.

Programs call ``tsk.gemm.{f32,f64,c64,c128}`` (see `definitions`). BLAS and LAPACK proper are SciPy's, by the names
``blas.dgemm`` and ``lapack.dgetrf``: Fortran's calling convention, every argument a pointer, integers of 32 bits.
"""

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Iterator
from functools import cache

import numpy as np

from . import blocks, conv, native, threads
from .attention import forward
from .gemm import bfloat16, tiles

__all__ = [
    "BFLOAT16",
    "PREFIXES",
    "address",
    "bfloat16_definition",
    "convolution_definitions",
    "convolution_tile",
    "definitions",
    "packed",
    "set_blas_threads",
    "signature",
]

PREFIXES = ("blas.", "lapack.", "tsk.gemm.", "tsk.pack.", "tsk.conv.", "tsk.attention.", "tsk.bfloat16.")
BFLOAT16 = "tsk.bfloat16.product"  # on processors with AVX512-BF16; see `bfloat16.product`
_TYPES = {"f32": ("float", "s", 1), "f64": ("double", "d", 1), "c64": ("float", "c", 2), "c128": ("double", "z", 2)}
_OWN = {"f32": 4, "f64": 8}  # products of our own, and the bytes of an element
_LEAST_WORK, _LEAST_WORK_TRANSPOSED = 1 << 18, 1 << 12  # multiply-adds from which ours are faster
# Blocks of large products that BLAS does: OpenBLAS shares out what has more multiply-adds than 2^18, complex 2^15.
_BLOCK, _BLOCK_COMPLEX = (16, 16, 1024), (32, 32, 32)
_MOST_WORK_COMPLEX = 1 << 15
_ARGUMENTS = "i64 %m, i64 %n, i64 %k, ptr %a, i64 %lda, i1 %ta, ptr %b, i64 %ldb, i1 %tb, ptr %c, i64 %ldc, i1 %add"
_PARAMETERS = "i64, i64, i64, ptr, i64, i1, ptr, i64, i1, ptr, i64, i1"
_CONVOLUTION = {
    "product": "i64, i64, i64, i64, ptr, ptr, ptr, ptr, i64, ptr, ptr, i1",
    "pack": "i64, i64, ptr, ptr, i64, ptr",
    "pad": "ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64",
    "sum": "ptr, ptr, i64, i64",
}


def definitions() -> str:
    """Declarations of the matrix products, to be put into a program's text.

    ::

        void @tsk.gemm.f64(i64 m, i64 n, i64 k, ptr A, i64 lda, i1 transA, ptr B, i64 ldb, i1 transB,
                           ptr C, i64 ldc, i1 accumulate)

    C[m, n] (+)= op(A)[m, k] op(B)[k, n]: row-major, `ld*` is the distance of two rows in elements, `trans*` says that
    the matrix is stored transposed. C may not overlap A or B. Without `accumulate` C is only written, so it may be
    uninitialized; k = 0 then gives zeros. Large products use the thread pool unless they run inside a parallel loop;
    results do not depend on the number of threads.
    """
    lines = [f"declare void @tsk.gemm.{name}({_PARAMETERS})" for name in _TYPES]
    return "\n".join(lines + [f"declare void @tsk.pack.{name}(i64, i64, ptr, i64, i1, ptr)" for name in _OWN])


def bfloat16_definition() -> str:
    """Declaration of `BFLOAT16`, for programs that call it: other processors cannot compile it."""
    return f"declare void @{BFLOAT16}({_PARAMETERS}, ptr)"


def packed(name: str, n: int, k: int) -> tuple[int, int] | None:
    """Return the packed layout of op(B)[k, n] for many products, or None if it gains nothing: (columns, elements).

    ``tsk.pack.f64(i64 n, i64 k, ptr B, i64 ldb, i1 transB, ptr out)`` writes it; ``tsk.gemm.f64`` takes it in place of
    B with -columns for ldb.
    """
    return tiles.packed_size(n, k, _tile(_OWN[name])) if name in _OWN and n >= 16 else None


def convolution_definitions(name: str) -> list[str]:
    """Declarations of the parts of convolutions of type `name`, "f32" or "f64" (see `conv.product`)."""
    return [f"declare void @tsk.conv.{part}.{name}({parameters})" for part, parameters in _CONVOLUTION.items()]


def convolution_tile(name: str) -> tuple[int, int]:
    """Rows of a tile, and elements of a vector, of products of type `name`."""
    tile = _tile(_OWN[name])
    return tile.rows, tile.lanes


def address(name: str) -> int:
    """Return the address of ``blas.*``, ``lapack.*`` or ``tsk.*`` (gemm, pack, conv, attention), or raise KeyError."""
    family, _, routine = name.partition(".")
    if routine.startswith("conv.") and routine.rpartition(".")[2] in _OWN:
        return _convolutions(routine.rpartition(".")[2]).address(name)
    if name == BFLOAT16:
        return _bfloat16().address(name)
    if routine.startswith("attention."):
        return _attention(*routine.split(".")[2:]).address(name)
    if family == "tsk":
        kind = routine.removeprefix("pack." if routine.removeprefix("pack.") in _OWN else "gemm.")
        if kind not in _TYPES:
            raise KeyError(f"blas.address: must be tsk.gemm.{{{', '.join(_TYPES)}}}, got {name}")
        return _library(kind).address(name)
    return _get_pointer(_capsule(family, routine), signature(name).encode())


def signature(name: str) -> str:
    """Return the C signature of a BLAS or LAPACK function, as SciPy states it."""
    family, _, routine = name.partition(".")
    return _get_name(_capsule(family, routine)).decode()


_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _capsule(family: str, routine: str):
    import scipy.linalg.cython_blas
    import scipy.linalg.cython_lapack

    modules = {"blas": scipy.linalg.cython_blas, "lapack": scipy.linalg.cython_lapack}
    try:
        return modules[family].__pyx_capi__[routine]
    except KeyError:
        raise KeyError(f"blas.address: must be a function of SciPy's BLAS or LAPACK, got {family}.{routine}") from None


@contextlib.contextmanager
def set_blas_threads(n: int) -> Iterator[None]:
    """Let the OpenBLAS libraries of NumPy and SciPy that are loaded use `n` threads, inside a `with` block.

    Other BLAS libraries are left alone.
    """
    libraries = _openblas_threads()
    before = [get() for get, _ in libraries]
    try:
        for _, put in libraries:
            put(n)
        yield
    finally:
        for (_, put), old in zip(libraries, before, strict=True):
            put(old)


def _openblas_threads():
    found = []
    for package in ("numpy", "scipy"):
        for library in _loaded_openblas(package):
            for suffix in ("64_", ""):
                if hasattr(library, f"scipy_openblas_set_num_threads{suffix}"):
                    get = getattr(library, f"scipy_openblas_get_num_threads{suffix}")
                    put = getattr(library, f"scipy_openblas_set_num_threads{suffix}")
                    found.append((get, put))
                    break
    return found


def _loaded_openblas(package: str) -> list[ctypes.CDLL]:
    """The OpenBLAS that came in the wheel of `package`, if this process has loaded it."""
    site = os.path.dirname(os.path.dirname(np.__file__))
    folders = (f"{package}.libs", os.path.join(package, ".dylibs"))
    libraries = []
    for path in (p for folder in folders for p in glob.glob(os.path.join(site, folder, "libscipy_openblas*"))):
        with contextlib.suppress(OSError):
            libraries.append(ctypes.CDLL(path, mode=getattr(os, "RTLD_NOLOAD", 0)))
    return libraries


@cache
def _library(name: str) -> native.LoadedObject:
    """The matrix products of one type, compiled once (and kept in the disk cache)."""
    scalar, letter, _ = _TYPES[name]
    parts = [_by_blas(name)]
    if name in _OWN:
        tile = _tile(_OWN[name])
        parts += [_INTRINSICS, tiles.product(name, scalar, tile), blocks.product(name, scalar, _BLOCK), _choice(name)]
    else:
        parts += [_INTRINSICS, blocks.product(name, f"{{{scalar}, {scalar}}}", _BLOCK_COMPLEX), _only_blas(name)]
    imports = {f"blas_{letter}gemm": _gemm_address(letter), "tsk_parallel_for": threads.address()}
    return native.load("\n".join(parts), imports, opt=2, passes=False)


@cache
def _bfloat16() -> native.LoadedObject:
    return native.load(bfloat16.product(), {"tsk_parallel_for": threads.address()}, passes=False)


@cache
def _convolutions(name: str) -> native.LoadedObject:
    return native.load(conv.product(name, _TYPES[name][0], _tile(_OWN[name])), {}, passes=False)


@cache
def _attention(name: str, depth: str, width: str) -> native.LoadedObject:
    text = forward.attention(name, _TYPES[name][0], _tile(_OWN[name]), int(depth), int(width))
    return native.load(text, {"tsk_parallel_for": threads.address()}, passes=False)


_INTRINSICS = """
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare double @llvm.sqrt.f64(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @tsk_parallel_for(ptr, ptr, i64)
"""


def _tile(size: int) -> tiles.Tile:
    """Registers of the inner loop: 24 accumulators of 32 registers, or 12 of 16."""
    if native.has_feature("avx512f"):
        return tiles.Tile(64 // size, 8, 3)
    if native.has_feature("avx"):
        return tiles.Tile(32 // size, 4, 3)
    return tiles.Tile(16 // size, 4, 3 if native.has_feature("neon") else 2)


def _only_blas(name: str) -> str:
    return f"""
define void @tsk.gemm.{name}({_ARGUMENTS}) {{
  %mn = mul i64 %m, %n
  %work = mul i64 %mn, %k
  %large = icmp sgt i64 %work, {_MOST_WORK_COMPLEX}
  br i1 %large, label %blocks, label %whole
blocks:
  call void @blocks.{name}({_ARGUMENTS})
  ret void
whole:
  call void @blas.{name}({_ARGUMENTS})
  ret void
}}
"""


def _choice(name: str) -> str:
    """BLAS where it is at its best (small, thin, or nothing to multiply), ours elsewhere.

    Measured on AVX-512 with OpenBLAS 0.3.31, GFLOP/s of one thread, float32: 32 x 32 x 32 BLAS 140, ours 130; with B
    transposed 57 and 126; 784 x 128 x 32 111 and 138. BLAS gets large products in blocks too small for its own threads.
    """
    return f"""
define void @tsk.gemm.{name}({_ARGUMENTS}) {{
  %mn = mul i64 %m, %n
  %work = mul i64 %mn, %k
  %many = icmp sge i64 %m, 16
  %repaid = and i1 %tb, %many
  %least = select i1 %repaid, i64 {_LEAST_WORK_TRANSPOSED}, i64 {_LEAST_WORK}
  %large = icmp sgt i64 %work, %least
  %large.any = icmp sgt i64 %work, {_LEAST_WORK}
  %tall = icmp sge i64 %m, 4
  %wide.least = select i1 %large.any, i64 4, i64 16
  %wide = icmp sge i64 %n, %wide.least
  %some = and i1 %tall, %wide
  %fits = and i1 %some, %large
  %packed = icmp slt i64 %ldb, 0
  %long = call i64 @llvm.smax.i64(i64 %m, i64 %n)
  %long.any = icmp sge i64 %long, 16
  %shared = and i1 %large.any, %long.any
  %fits.any = or i1 %fits, %shared
  %own = or i1 %fits.any, %packed
  br i1 %own, label %ours, label %small
ours:
  %rs = select i1 %ta, i64 1, i64 %lda
  %cs = select i1 %ta, i64 %lda, i64 1
  call void @parallel.{name}(i64 %m, i64 %n, i64 %k, ptr %a, i64 %rs, i64 %cs, ptr %b, i64 %ldb, i1 %tb, ptr %c, i64 %ldc, i1 %add)
  ret void
small:
  br i1 %large.any, label %deep, label %theirs
deep:  ; few elements of C
  call void @blocks.{name}({_ARGUMENTS})
  ret void
theirs:
  call void @blas.{name}({_ARGUMENTS})
  ret void
}}
"""  # noqa: E501


def _gemm_address(letter: str) -> int:
    """Fortran's ?gemm: NumPy's OpenBLAS, which is loaded anyway, or else SciPy's (0.1 s to import).

    NumPy's takes integers of 64 bits, SciPy's of 32: a pointer to a small 64-bit integer serves both (little-endian).
    """
    if sys.byteorder == "little":
        for library in _loaded_openblas("numpy"):
            if hasattr(library, name := f"scipy_{letter}gemm_64_"):
                return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    return address(f"blas.{letter}gemm")


def _by_blas(name: str) -> str:
    """IR of a product that is handed to ?gemm: row-major C = A B is column-major C' = B' A'."""
    scalar, letter, parts = _TYPES[name]
    one, zero = (", ".join([f"{scalar} {first}"] + [f"{scalar} 0.0"] * (parts - 1)) for first in ("1.0", "0.0"))
    return f"""
@{letter}.one = internal constant [{parts} x {scalar}] [{one}]
@{letter}.zero = internal constant [{parts} x {scalar}] [{zero}]
@{letter}.plain = internal constant i8 {ord("N")}
@{letter}.transposed = internal constant i8 {ord("T")}
declare void @blas_{letter}gemm(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
define internal void @blas.{name}({_ARGUMENTS}) {{
  %sizes = alloca [6 x i64], align 16
  %pn = getelementptr i64, ptr %sizes, i64 1
  %pk = getelementptr i64, ptr %sizes, i64 2
  %pa = getelementptr i64, ptr %sizes, i64 3
  %pb = getelementptr i64, ptr %sizes, i64 4
  %pc = getelementptr i64, ptr %sizes, i64 5
  %wa = select i1 %ta, i64 %m, i64 %k
  %wb = select i1 %tb, i64 %k, i64 %n
  %wa1 = call i64 @llvm.smax.i64(i64 %wa, i64 1)
  %wb1 = call i64 @llvm.smax.i64(i64 %wb, i64 1)
  %wc1 = call i64 @llvm.smax.i64(i64 %n, i64 1)
  %lda1 = call i64 @llvm.smax.i64(i64 %lda, i64 %wa1)
  %ldb1 = call i64 @llvm.smax.i64(i64 %ldb, i64 %wb1)
  %ldc1 = call i64 @llvm.smax.i64(i64 %ldc, i64 %wc1)
  store i64 %m, ptr %sizes
  store i64 %n, ptr %pn
  store i64 %k, ptr %pk
  store i64 %lda1, ptr %pa
  store i64 %ldb1, ptr %pb
  store i64 %ldc1, ptr %pc
  %opa = select i1 %ta, ptr @{letter}.transposed, ptr @{letter}.plain
  %opb = select i1 %tb, ptr @{letter}.transposed, ptr @{letter}.plain
  %beta = select i1 %add, ptr @{letter}.one, ptr @{letter}.zero
  call void @blas_{letter}gemm(ptr %opb, ptr %opa, ptr %pn, ptr %sizes, ptr %pk, ptr @{letter}.one, ptr %b, ptr %pb, ptr %a, ptr %pa, ptr %beta, ptr %c, ptr %pc)
  ret void
}}
"""  # noqa: E501
