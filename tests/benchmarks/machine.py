"""What the machine can do at most: flops of a large matrix product, bandwidth of a triad by working set.

`python -m tests.benchmarks.machine` prints one JSON object; threads and processors are set by the caller.
"""

import json
import os
import threading
import time

import numpy as np

WORKING_SETS = [2**k for k in range(13, 29)]  # bytes of the three arrays together: 8 KiB to 256 MiB


def best(run, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_flops(dtype, n=1024):
    """Flops per second of an n x n matrix product; BLAS uses the threads it was given."""
    a = np.ones((n, n), dtype)
    out = np.empty_like(a)
    np.matmul(a, a, out=out)
    return 2 * n**3 / best(lambda: np.matmul(a, a, out=out), 15)


def bandwidths(threads):
    """Bytes per second of a[i] = b[i] + s * c[i] (two reads, one write) for each working set."""
    import numba

    @numba.njit("void(float64[::1], float64[::1], float64[::1], int64)", nogil=True, fastmath={"contract"})
    def triad(a, b, c, repeats):
        for k in range(repeats):
            s = 1.0 + k
            for i in range(a.size):
                a[i] = b[i] + s * c[i]

    found = {}
    for size in WORKING_SETS:
        n = max(64, size // (3 * 8 * threads))
        arrays = [[np.zeros(n) for _ in range(3)] for _ in range(threads)]
        repeats = max(1, 2**25 // size)

        def run(arrays=arrays, repeats=repeats):
            team = [threading.Thread(target=triad, args=(*mine, repeats)) for mine in arrays]
            for thread in team:
                thread.start()
            for thread in team:
                thread.join()

        run()
        found[size] = 3 * 8 * n * threads * repeats / best(run, 5)
    return found


def limit(case, peaks):
    """Seconds that a case needs at least at these peaks, or None where the case does not say what it computes."""
    if not (case.flops or case.bytes):
        return None
    sizes = np.log(WORKING_SETS)
    speeds = [peaks["bandwidth"][str(size)] for size in WORKING_SETS]
    bandwidth = np.interp(np.log(max(case.bytes, 1.0)), sizes, speeds)
    return max(case.flops / peaks[case.dtype], case.bytes / bandwidth)


if __name__ == "__main__":
    threads = int(os.environ["OMP_NUM_THREADS"])
    peaks = {dtype: peak_flops(dtype) for dtype in ("float32", "float64")}
    print(json.dumps(peaks | {"bandwidth": bandwidths(threads)}))
