"""Memory of large results: kept when they are deleted, and lent to later ones of the same size."""

import ctypes
import sys

import numpy as np
import pytest

from triskele import core
from triskele.core.compile import result_memory, wrapper

pytestmark = pytest.mark.skipif(not wrapper._layout_is_known(), reason="the caller through ctypes allocates by NumPy")

N = result_memory.LEAST // 4  # float32 of a block that is kept
doubled = core.jit(lambda x: 2 * x)
owner = np._core.multiarray.get_handler_name


def test_the_memory_of_a_deleted_result_serves_the_next():
    x = np.arange(N, dtype=np.float32)
    y = doubled(x)
    place = y.ctypes.data
    del y
    assert doubled(x).ctypes.data == place


def test_results_that_are_alive_keep_their_memory():
    x = np.arange(N, dtype=np.float32)
    results = [doubled(x + k) for k in range(4)]
    assert len({y.ctypes.data for y in results}) == 4
    view = results.pop(1)[5:]  # views hold it too
    doubled(x + 9)
    np.testing.assert_array_equal(view, 2 * (x + 1)[5:])
    for k, y in zip((0, 2, 3), results, strict=True):
        np.testing.assert_array_equal(y, 2 * (x + k))


def test_results_are_arrays_like_others():
    y = doubled(np.ones(N, np.float32))
    assert y.flags.owndata and y.flags.writeable and y.ctypes.data % 64 == 0
    y.resize(2 * N, refcheck=False)
    y[N:] = 3
    assert y[:N].sum() == 2 * N
    assert y[N:].sum() == 3 * N


def test_only_results_use_it():
    y = doubled(np.ones(N, np.float32))
    assert owner(y) == "triskele"
    assert owner(y + 1) == owner() == "default_allocator"
    assert owner(doubled(np.ones(8, np.float32))) == "default_allocator"


def test_the_allocator_of_the_caller_returns_after_a_failure():
    huge = core.jit(lambda x: np.broadcast_to(x, (1 << 44,)) * 2)
    with pytest.raises(MemoryError):
        huge(np.ones(1, np.float32))
    assert owner() == owner(np.ones(N)) == "default_allocator"


class Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler, up to `free`."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        *((name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")),
    ]


def is_mapped(address):
    with open("/proc/self/maps") as maps:
        bounds = [[int(x, 16) for x in line.split()[0].split("-")] for line in maps]
    return any(low <= address < high for low, high in bounds)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_oldest_blocks_are_freed_beyond_the_limit():
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    functions = Handler.from_address(pointer(result_memory.handler(), b"mem_handler"))
    take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(functions.malloc)
    give = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(functions.free)
    half = result_memory.MOST // 2
    blocks = [take(None, half) for _ in range(3)]  # never touched: they cost no memory
    for block in blocks:
        give(None, block, half)
    assert [is_mapped(block) for block in blocks] == [False, True, True]
    assert take(None, half) == blocks[2]  # the last is the one most likely in the caches
    assert take(None, half) == blocks[1]
    for block in blocks[1:]:
        give(None, block, 2 * result_memory.MOST)  # a size that is never kept
    assert not any(map(is_mapped, blocks))
