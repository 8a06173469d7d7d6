"""Times of repeated calls."""

import time


def samples(run, seconds, least=3):
    """Seconds a call, at least `least` times; short calls are timed in groups of a quarter of a millisecond."""
    clock = time.perf_counter
    start = clock()
    run()
    first = clock() - start
    if first > seconds and least == 1:
        return [first]
    if first < 2.5e-4:  # the first call after a pause may look after things that others do not
        start = clock()
        run()
        first = min(first, clock() - start)
    group, times, end = max(1, int(2.5e-4 / max(first, 1e-9))), [], clock() + seconds
    while clock() < end or len(times) < least:
        start = clock()
        for _ in range(group):
            run()
        times.append((clock() - start) / group)
    return times
