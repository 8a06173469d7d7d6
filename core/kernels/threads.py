"""One pool of threads for everything that is compiled, in machine code and asleep when idle.

``void tsk_parallel_for(ptr fn, ptr ctx, i64 n)`` runs ``fn(ctx, chunk)`` for chunk = 0 ... n - 1. The caller takes
part; chunks are handed out by an atomic counter, so that who runs which is open, but what a chunk is depends on the
caller alone: results do not depend on the number of threads. A call that finds the pool at work (from inside a chunk,
or from another Python thread) runs serially. Workers start at the first parallel call, again after a fork, and sleep on
a condition variable between calls. Before they sleep they look out for the next call for a bounded time, fewer each
time that none comes: a pool that spins on takes the processor from those that compute.
"""

import ctypes
import os
import re
import signal
import sys
import threading
from functools import cache

import llvmlite.binding

from . import native

__all__ = ["address", "body", "for_numba", "get_threads", "parallel_for", "set_threads"]

_MOST_THREADS = 1024
# Turns of waiting awake. With a core to spare two chunks of 10.7 (36) us took 11.9 (37) us; on a busy machine nothing
# is gained and little lost (21.9, 72.6), and without looking out 21.8 (72) was seen, but never on an idle machine.
_SPIN = 1500
_lock = threading.RLock()
_threads: int | None = None


def get_threads() -> int:
    """Number of threads that a parallel loop may use, the caller among them.

    Defaults to the number of processors that this process may run on.

    Examples
    --------
    >>> from triskele import core
    >>> core.get_threads() >= 1
    True
    """
    if _threads is not None:
        return _threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(n: int) -> None:
    """Use `n` threads from the next parallel loop on; 1 is serial. Results do not change.

    Raises
    ------
    TypeError, ValueError
        If `n` is not an integer from 1 to 1024.

    Examples
    --------
    >>> from triskele import core
    >>> before = core.get_threads()
    >>> core.set_threads(2)
    >>> core.get_threads()
    2
    >>> core.set_threads(before)
    """
    global _threads
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_threads: n must be an integer, got {n!r}")
    if not 1 <= n <= _MOST_THREADS:
        raise ValueError(f"set_threads: n must be 1 to {_MOST_THREADS}, got {n}")
    with _lock:
        _threads = n
        if _pool.cache_info().currsize:
            _wanted().value = n


def address() -> int:
    """Address of ``tsk_parallel_for``; the first call compiles it."""
    with _lock:
        return _pool().address("tsk_parallel_for")


def parallel_for(fn: int, ctx: int, n: int) -> None:
    """Run the C function at `fn`, ``void fn(void *ctx, int64_t chunk)``, for `n` chunks, releasing Python's lock."""
    _prototype()(address())(fn, ctx, n)


@cache
def for_numba():
    """Return `parallel_for` for njit code: a function of (fn, ctx, n), all of them int64.

    Call it once at module level, in a module that has kernels. The symbol is resolved by name when a kernel is loaded,
    so that kernels which use it can be cached on disk.
    """
    from numba.core import types, typing

    llvmlite.binding.add_symbol("tsk_parallel_for", address())
    return types.ExternalFunction(
        "tsk_parallel_for", typing.signature(types.void, types.int64, types.int64, types.int64)
    )


@cache
def body(kernel, dtype: str = "int64") -> int:
    """Return the address of a kernel (context, chunk) for `parallel_for`; the first call compiles or loads it.

    `dtype` is that of the numbers behind `context`, for kernels of several types.
    """
    from numba.core import types

    signature = (types.CPointer(getattr(types, dtype)), types.int64)
    kernel.compile(signature)
    compiled = kernel.overloads[signature]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)


def _prototype():
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@cache
def _pool() -> native.LoadedObject:
    if sys.platform == "win32":
        return native.load(_SERIAL, {}, opt=1)
    serial = _SERIAL.replace("@tsk_parallel_for", "@serial").replace("define void", "define internal void")
    values = {
        "SIG_BLOCK": str(int(signal.SIG_BLOCK)),
        "SIG_SETMASK": str(int(signal.SIG_SETMASK)),
        "SPIN": str(_SPIN),
        "PAUSE": "call void @llvm.x86.sse2.pause()" if native.host_target().triple.startswith("x86") else "",
    }
    text = serial + re.sub("|".join(values), lambda match: values[match[0]], _POOL)
    if values["PAUSE"]:
        text += "declare void @llvm.x86.sse2.pause()\n"
    loaded = native.load(text, {}, opt=1)
    ctypes.c_int64.from_address(loaded.address("tsk_wanted")).value = get_threads()
    return loaded


def _wanted() -> ctypes.c_int64:
    if sys.platform == "win32":
        return ctypes.c_int64()
    return ctypes.c_int64.from_address(_pool().address("tsk_wanted"))


_SERIAL = """
define void @tsk_parallel_for(ptr %fn, ptr %ctx, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  call void %fn(ptr %ctx, i64 %i)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""

# Everything of a job but the chunk counter is read and written under @mutex. A worker joins a job while it is open and
# leaves when no chunk is left; the caller closes it and waits for those that joined, so that a worker which wakes late
# finds a closed job and sleeps on. @busy belongs to whoever runs a parallel loop.
_POOL = """
@tsk_wanted = global i64 1
@mutex = internal global [128 x i8] zeroinitializer, align 64
@work = internal global [128 x i8] zeroinitializer, align 64
@done = internal global [128 x i8] zeroinitializer, align 64
@chunk = internal global i64 0, align 64
@n_joined = internal global i64 0, align 64
@job = internal global i64 0
@open = internal global i64 0
@job_fn = internal global ptr null
@job_ctx = internal global ptr null
@job_n = internal global i64 0
@n_started = internal global i64 0
@busy = internal global i64 0, align 64
@owner = internal global i32 0, align 64

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @getpid()

define internal void @take_chunks(ptr %fn, ptr %ctx, i64 %n) {
entry:
  br label %head
head:
  %i = atomicrmw add ptr @chunk, i64 1 monotonic
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %none
body:
  call void %fn(ptr %ctx, i64 %i)
  br label %head
none:
  ret void
}

define internal ptr @worker(ptr %arg) {
entry:
  %index = ptrtoint ptr %arg to i64
  %l0 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:
  %seen = phi i64 [0, %entry], [%seen, %sleep], [%job, %spun]
  %patience = phi i64 [SPIN, %entry], [%more.patience, %sleep], [%new.patience, %spun]
  %job = load i64, ptr @job
  %open = load i64, ptr @open
  %is.open = icmp ne i64 %open, 0
  %is.new = icmp ne i64 %job, %seen
  %wanted = load atomic i64, ptr @tsk_wanted monotonic, align 8
  %workers = sub i64 %wanted, 1
  %is.wanted = icmp slt i64 %index, %workers
  %a = and i1 %is.open, %is.new
  %b = and i1 %a, %is.wanted
  br i1 %b, label %join, label %sleep
sleep:
  %w = call i32 @pthread_cond_wait(ptr @work, ptr @mutex)
  %twice = mul i64 %patience, 2
  %grown = add i64 %twice, 16
  %in.bounds = icmp slt i64 %grown, SPIN
  %more.patience = select i1 %in.bounds, i64 %grown, i64 SPIN
  br label %look
join:
  %j = load i64, ptr @n_joined
  %j1 = add i64 %j, 1
  store atomic i64 %j1, ptr @n_joined monotonic, align 8
  %fn = load ptr, ptr @job_fn
  %ctx = load ptr, ptr @job_ctx
  %n = load i64, ptr @job_n
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  call void @take_chunks(ptr %fn, ptr %ctx, i64 %n)
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %k = load i64, ptr @n_joined
  %k1 = sub i64 %k, 1
  store atomic i64 %k1, ptr @n_joined release, align 8
  %last = icmp eq i64 %k1, 0
  br i1 %last, label %tell, label %leave
tell:
  %s = call i32 @pthread_cond_signal(ptr @done)
  br label %leave
leave:
  %u.spin = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %spin
spin:
  %turn = phi i64 [0, %leave], [%turn1, %again]
  %job.now = load atomic i64, ptr @job acquire, align 8
  %found = icmp ne i64 %job.now, %job
  %tired = icmp sge i64 %turn, %patience
  %stop = or i1 %found, %tired
  br i1 %stop, label %spun, label %again
again:
  PAUSE
  %turn1 = add i64 %turn, 1
  br label %spin
spun:
  %less = sdiv i64 %patience, 4
  %new.patience = select i1 %found, i64 SPIN, i64 %less
  %l.spin = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
}

; The first call of a process, and the first after a fork (whose child has one thread and locks in any state).
define internal i1 @prepare() {
entry:
  %pid = call i32 @getpid()
  %owner = load atomic i32, ptr @owner acquire, align 4
  %ours = icmp eq i32 %pid, %owner
  br i1 %ours, label %ready, label %claim
claim:
  %taken = icmp eq i32 %owner, -1
  br i1 %taken, label %later, label %try
try:
  %swap = cmpxchg ptr @owner, i32 %owner, i32 -1 acq_rel monotonic
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %reset, label %later
reset:
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %c1 = call i32 @pthread_cond_init(ptr @work, ptr null)
  %c2 = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i64 0, ptr @n_started
  store i64 0, ptr @n_joined
  store i64 0, ptr @open
  store atomic i64 0, ptr @busy release, align 8
  store atomic i32 %pid, ptr @owner release, align 4
  br label %ready
ready:
  ret i1 true
later:
  ret i1 false
}

; Workers block all signals: those are Python's main thread's.
define internal void @start(i64 %workers) {
entry:
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %id = alloca i64
  %have = load i64, ptr @n_started
  %enough = icmp sge i64 %have, %workers
  br i1 %enough, label %done, label %mask
mask:
  %f = call i32 @sigfillset(ptr %all)
  %b = call i32 @pthread_sigmask(i32 SIG_BLOCK, ptr %all, ptr %old)
  br label %head
head:
  %i = phi i64 [%have, %mask], [%next, %made]
  %more = icmp slt i64 %i, %workers
  br i1 %more, label %make, label %unmask
make:
  %arg = inttoptr i64 %i to ptr
  %status = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr %arg)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %unmask, label %made
made:
  %thread = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %thread)
  %next = add i64 %i, 1
  store i64 %next, ptr @n_started
  br label %head
unmask:
  %r = call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %old, ptr null)
  br label %done
done:
  ret void
}

define void @tsk_parallel_for(ptr %fn, ptr %ctx, i64 %n) {
entry:
  %wanted = load atomic i64, ptr @tsk_wanted monotonic, align 8
  %workers = sub i64 %wanted, 1
  %some = icmp sgt i64 %workers, 0
  %several = icmp sgt i64 %n, 1
  %parallel = and i1 %some, %several
  br i1 %parallel, label %prepare, label %serial
prepare:
  %ready = call i1 @prepare()
  br i1 %ready, label %claim, label %serial
claim:
  %swap = cmpxchg ptr @busy, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %run, label %serial
run:
  call void @start(i64 %workers)
  %l1 = call i32 @pthread_mutex_lock(ptr @mutex)
  store ptr %fn, ptr @job_fn
  store ptr %ctx, ptr @job_ctx
  store i64 %n, ptr @job_n
  store atomic i64 0, ptr @chunk monotonic, align 8
  %job = load i64, ptr @job
  %job1 = add i64 %job, 1
  store atomic i64 %job1, ptr @job release, align 8
  store i64 1, ptr @open
  %u1 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %w = call i32 @pthread_cond_broadcast(ptr @work)
  call void @take_chunks(ptr %fn, ptr %ctx, i64 %n)
  %l2 = call i32 @pthread_mutex_lock(ptr @mutex)
  store i64 0, ptr @open
  %u.spin = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %spin
spin:
  %turn = phi i64 [0, %run], [%turn1, %again]
  %still = load atomic i64, ptr @n_joined acquire, align 8
  %alone = icmp eq i64 %still, 0
  %tired = icmp sge i64 %turn, SPIN
  %stop = or i1 %alone, %tired
  br i1 %stop, label %spun, label %again
again:
  PAUSE
  %turn1 = add i64 %turn, 1
  br label %spin
spun:
  %l.spin = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %wait.head
wait.head:
  %joined = load i64, ptr @n_joined
  %all.left = icmp eq i64 %joined, 0
  br i1 %all.left, label %finish, label %wait
wait:
  %c = call i32 @pthread_cond_wait(ptr @done, ptr @mutex)
  br label %wait.head
finish:
  %u2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  store atomic i64 0, ptr @busy release, align 8
  ret void
serial:
  call void @serial(ptr %fn, ptr %ctx, i64 %n)
  ret void
}
"""
