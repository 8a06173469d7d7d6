"""Memory of large results, which is kept when they are deleted and lent to the results of later calls.

The operating system clears every page that it hands out, at its first touch: a training step that returns 50 MB of
parameters and moments spent a third of its time there. Results are arrays with an allocator of their own (NEP 49),
which keeps freed blocks for requests of the same size, up to `MOST` bytes of them. It runs under Python's global lock.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

from ..kernels import native

__all__ = ["LEAST", "handler"]

LEAST = 1 << 18  # bytes of a block that is kept: smaller ones stay in the C library's heap, touched
MOST = 1 << 28  # bytes of all blocks kept
BLOCKS = 256  # their greatest number: the one kept longest makes room
HUGE = 1 << 22  # bytes from which pages of 2 MiB are asked for, as NumPy does

_ADVICE = "  %advised = call i32 @madvise(ptr %fresh, i64 %size, i32 14)"  # MADV_HUGEPAGE of Linux

_TEXT = """
@kept = internal global [BLOCKS x { ptr, i64 }] zeroinitializer
@count = internal global i64 0
@total = internal global i64 0
declare i32 @posix_memalign(ptr, i64, i64)
declare ptr @malloc(i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

; Take block i out of the list.
define internal ptr @take(i64 %i) {
  %n = load i64, ptr @count
  %less = sub i64 %n, 1
  store i64 %less, ptr @count
  %place = getelementptr { ptr, i64 }, ptr @kept, i64 %i
  %block = load ptr, ptr %place
  %size.p = getelementptr { ptr, i64 }, ptr %place, i64 0, i32 1
  %size = load i64, ptr %size.p
  %before = load i64, ptr @total
  %after = sub i64 %before, %size
  store i64 %after, ptr @total
  %next = getelementptr { ptr, i64 }, ptr %place, i64 1
  %behind = sub i64 %less, %i
  %bytes = mul i64 %behind, 16
  call void @llvm.memmove.p0.p0.i64(ptr %place, ptr %next, i64 %bytes, i1 false)
  ret ptr %block
}

define ptr @tsk_malloc(ptr %context, i64 %size) {
entry:
  %small = icmp ult i64 %size, LEAST
  br i1 %small, label %plain, label %look
plain:
  %heap = call ptr @malloc(i64 %size)
  ret ptr %heap
look:
  %n = load i64, ptr @count
  br label %head
head:
  %k = phi i64 [%n, %look], [%i, %body]
  %some = icmp sgt i64 %k, 0
  br i1 %some, label %body, label %none
body:
  %i = sub i64 %k, 1
  %size.p = getelementptr { ptr, i64 }, ptr @kept, i64 %i, i32 1
  %has = load i64, ptr %size.p
  %same = icmp eq i64 %has, %size
  br i1 %same, label %found, label %head
found:
  %block = call ptr @take(i64 %i)
  ret ptr %block
none:
  %slot = alloca ptr
  %huge = icmp uge i64 %size, HUGE
  %alignment = select i1 %huge, i64 2097152, i64 64
  %status = call i32 @posix_memalign(ptr %slot, i64 %alignment, i64 %size)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail, label %made
fail:
  ret ptr null
made:
  %fresh = load ptr, ptr %slot
  br i1 %huge, label %advise, label %done
advise:
ADVICE
  br label %done
done:
  ret ptr %fresh
}

define ptr @tsk_calloc(ptr %context, i64 %count, i64 %size) {
  %heap = call ptr @calloc(i64 %count, i64 %size)
  ret ptr %heap
}

define ptr @tsk_realloc(ptr %context, ptr %block, i64 %size) {
  %new = call ptr @realloc(ptr %block, i64 %size)
  ret ptr %new
}

define void @tsk_free(ptr %context, ptr %block, i64 %size) {
entry:
  %small = icmp ult i64 %size, LEAST
  %large = icmp ugt i64 %size, MOST
  %plain = or i1 %small, %large
  br i1 %plain, label %drop, label %head
drop:
  call void @free(ptr %block)
  ret void
head:
  %n = load i64, ptr @count
  %total = load i64, ptr @total
  %after = add i64 %total, %size
  %full = icmp ugt i64 %after, MOST
  %many = icmp sge i64 %n, BLOCKS
  %crowded = or i1 %full, %many
  br i1 %crowded, label %evict, label %keep
evict:
  %oldest = call ptr @take(i64 0)
  call void @free(ptr %oldest)
  br label %head
keep:
  %place = getelementptr { ptr, i64 }, ptr @kept, i64 %n
  store ptr %block, ptr %place
  %size.p = getelementptr { ptr, i64 }, ptr %place, i64 0, i32 1
  store i64 %size, ptr %size.p
  %more = add i64 %n, 1
  store i64 %more, ptr @count
  store i64 %after, ptr @total
  ret void
}
"""


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of NumPy's C API."""

    _fields_ = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", ctypes.c_void_p),
                ("malloc", ctypes.c_void_p), ("calloc", ctypes.c_void_p), ("realloc", ctypes.c_void_p),
                ("free", ctypes.c_void_p)]  # fmt: skip


@cache
def handler() -> int:
    """Address of the capsule that NumPy's PyDataMem_SetHandler takes."""
    text = _TEXT.replace("ADVICE", _ADVICE if sys.platform == "linux" else "")
    for name, value in (("LEAST", LEAST), ("MOST", MOST), ("BLOCKS", BLOCKS), ("HUGE", HUGE)):
        text = text.replace(name, str(value))
    loaded = native.load(text, {}, opt=1)
    made = _Handler(b"triskele", 1, None, *map(loaded.address, ("tsk_malloc", "tsk_calloc", "tsk_realloc", "tsk_free")))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    title = ctypes.create_string_buffer(b"mem_handler")
    capsule = new(ctypes.addressof(made), ctypes.cast(title, ctypes.c_char_p), None)
    for kept in (capsule, made, title):  # arrays may outlive this module
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return id(capsule)
