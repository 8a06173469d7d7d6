"""Work done ahead: threads (and processes) that run the jobs of a pipeline, whose results come out in order.

`Source.prefetch` in `pipeline` asks for them.
"""

from __future__ import annotations

import pickle
import queue
import signal
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from ..errors import DataError

__all__ = ["ahead_of"]

_node: Any = None  # in a process of workers: what runs the jobs


def ahead_of(node: Any, jobs: Iterator[Any], ahead: int, workers: int, processes: bool) -> Iterator[Any]:
    """Yield ``(node.run(job), n, state)`` for each ``(job, n, state)`` in order, computed up to `ahead` jobs early."""
    work = _Work(node, jobs, ahead, workers, processes)
    end = weakref.finalize(work, _stop, work.shared)
    try:
        yield from work
    finally:
        end()


class _Shared:
    """State shared by the worker threads. It does not refer to the iterator, so dropping the iterator ends them."""

    def __init__(self, node, jobs, ahead, pool):
        self.node, self.jobs, self.pool = node, jobs, pool
        self.lock, self.room = threading.Lock(), threading.Semaphore(ahead)
        self.done: queue.SimpleQueue[tuple[int, tuple[str, Any]]] = queue.SimpleQueue()
        self.closed, self.number = False, 0
        self.threads: list[threading.Thread] = []


class _Work:
    def __init__(self, node, jobs, ahead, workers, processes):
        self.shared = _Shared(node, jobs, ahead, _processes(node, workers) if processes else None)
        for k in range(workers):
            thread = threading.Thread(target=_worker, args=(self.shared,), name=f"triskele-data-{k}", daemon=True)
            self.shared.threads.append(thread)
            thread.start()

    def __iter__(self):
        shared, early, expected = self.shared, {}, 0
        while True:
            while expected not in early:
                number, result = shared.done.get()
                early[number] = result
            kind, value = early.pop(expected)
            expected += 1
            if kind == "end":
                return
            if kind == "error":
                raise value
            shared.room.release()
            yield value


def _worker(shared):
    while True:
        shared.room.acquire()
        with shared.lock:  # jobs are taken in order
            if shared.closed:
                return
            number = shared.number
            shared.number += 1
            try:
                job, n, state = next(shared.jobs)
            except BaseException as error:  # noqa: BLE001  it is raised in the thread of the user
                shared.closed = True
                shared.done.put((number, ("end", None) if isinstance(error, StopIteration) else ("error", error)))
                shared.room.release()
                return
        try:
            found = shared.node.run(job) if shared.pool is None else _run_there(shared.pool, job)
            shared.done.put((number, ("block", (found, n, state))))
        except BaseException as error:  # noqa: BLE001
            shared.done.put((number, ("error", error)))
            return


def _run_there(pool, job):
    from concurrent.futures.process import BrokenProcessPool

    try:
        return pool.submit(_run, job).result()
    except BrokenProcessPool as error:
        raise DataError(
            "prefetch: a process of workers ended by itself (a function of the pipeline ended it, or memory ran out)"
        ) from error


def _stop(shared):
    shared.closed = True
    for _ in shared.threads:
        shared.room.release()
    if shared.pool is not None:
        shared.pool.shutdown(wait=True, cancel_futures=True)
    for thread in shared.threads:
        if thread is not threading.current_thread():
            thread.join()
    close = getattr(shared.jobs, "close", None)
    if close is not None:
        close()


def _processes(node, workers):
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    try:
        description = pickle.dumps(node)
    except Exception as error:
        raise TypeError(
            f"prefetch: processes need functions that can be pickled, got {error} (define functions at the "
            "top of a module)"
        ) from error
    return ProcessPoolExecutor(workers, get_context("spawn"), _begin, (description,))


def _begin(description):
    global _node
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the user's process ends this one
    _node = pickle.loads(description)


def _run(job):
    return _node.run(job)
