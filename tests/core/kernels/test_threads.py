"""The thread pool: every chunk once, whoever calls, however often, and after a fork."""

import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from triskele.core.kernels import native, threads

# fill: row[chunk] += chunk; nest: starts a parallel loop of fill inside each chunk; count: atomic counter at ctx
KERNELS = """
declare void @tsk_parallel_for(ptr, ptr, i64)
define void @fill(ptr %row, i64 %chunk) {
  %p = getelementptr i64, ptr %row, i64 %chunk
  %x = load i64, ptr %p
  %y = add i64 %x, %chunk
  store i64 %y, ptr %p
  ret void
}
define void @nest(ptr %rows, i64 %chunk) {
  %offset = mul i64 %chunk, 100
  %row = getelementptr i64, ptr %rows, i64 %offset
  call void @tsk_parallel_for(ptr @fill, ptr %row, i64 100)
  ret void
}
define void @count(ptr %total, i64 %chunk) {
  %old = atomicrmw add ptr %total, i64 1 seq_cst
  ret void
}
"""


@pytest.fixture(scope="module")
def kernels():
    return native.load(KERNELS, {"tsk_parallel_for": threads.address()})


@pytest.fixture(autouse=True)
def restore():
    before = threads.get_threads()
    yield
    threads.set_threads(before)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_each_chunk_runs_once(kernels, n_threads, n):
    threads.set_threads(n_threads)
    row = np.zeros(max(n, 1), np.int64)
    for _ in range(50):
        threads.parallel_for(kernels.address("fill"), row.ctypes.data, n)
    np.testing.assert_array_equal(row[:n], 50 * np.arange(n))


def test_nested_loop_runs_inside_its_chunk(kernels):
    threads.set_threads(3)
    rows = np.zeros((20, 100), np.int64)
    threads.parallel_for(kernels.address("nest"), rows.ctypes.data, 20)
    np.testing.assert_array_equal(rows, np.tile(np.arange(100), (20, 1)))


def test_called_from_several_python_threads(kernels):
    threads.set_threads(2)
    totals = np.zeros(4, np.int64)

    def work(i):
        for _ in range(200):
            threads.parallel_for(kernels.address("count"), totals[i:].ctypes.data, 30)

    callers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    np.testing.assert_array_equal(totals, 200 * 30)


def test_number_of_threads_may_change_between_calls(kernels):
    total = np.zeros(1, np.int64)
    for n in (1, 4, 2, 6, 1, 3):
        threads.set_threads(n)
        assert threads.get_threads() == n
        threads.parallel_for(kernels.address("count"), total.ctypes.data, 100)
    assert total[0] == 600


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_pool_works_in_the_child_of_a_fork():
    """In a process of its own: one that has no other threads than the pool's."""
    program = f"""
import ctypes, os, warnings
from triskele.core.kernels import native, threads
warnings.simplefilter("ignore", DeprecationWarning)  # about forking while threads run: the case at hand
threads.set_threads(2)
kernels = native.load({KERNELS!r}, {{"tsk_parallel_for": threads.address()}})
total = ctypes.c_int64()
def count():
    threads.parallel_for(kernels.address("count"), ctypes.addressof(total), 1000)
for _ in range(20): count()
child = os.fork()
for _ in range(20): count()
if child == 0:
    os._exit(0 if total.value == 40000 else 3)
assert total.value == 40000
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)


def test_numba_kernel_uses_the_pool(kernels):
    import numba

    parallel_for = threads.for_numba()

    @numba.njit(nogil=True)
    def run(function, row, n):
        parallel_for(function, row.ctypes.data, n)
        return row.sum()

    threads.set_threads(2)
    assert run(kernels.address("fill"), np.zeros(10, np.int64), 10) == 45


@pytest.mark.parametrize(
    ("bad", "error"), [(0, ValueError), (-1, ValueError), (1025, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_number_of_threads(bad, error):
    with pytest.raises(error, match="set_threads: n must be"):
        threads.set_threads(bad)


def test_python_progresses_while_a_loop_runs(kernels):
    """ctypes releases the lock of Python: another thread's callback can run inside a chunk."""
    reached = threading.Event()
    waiter = threading.Thread(target=reached.set)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def chunk(_, index):
        if index == 0:
            waiter.start()
            assert reached.wait(10)

    threads.parallel_for(ctypes.cast(chunk, ctypes.c_void_p).value, 0, 2)
    waiter.join()
    assert reached.is_set()
