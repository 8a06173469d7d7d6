"""Random numbers from keys: the same key gives the same numbers, eagerly, under `jit`, under `vmap` and in Numba code.

A key is an array of two uint32 words, so it can be traced, batched, split inside a loop and saved. Use every key once:
split it, and give one part to each function that draws.

The generator is Philox4x32-10 [1]_; streams differ in their key and in the last word of the counter.

References
----------
.. [1] Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11 (2011).
   doi:10.1145/2063384.2063405

Examples
--------
>>> from triskele.core import random
>>> first, second = random.split(random.key(0))
>>> random.uniform(first, (2, 3)).shape
(2, 3)
>>> bool(np.all(random.normal(second, (4,)) == random.normal(second, (4,))))
True
"""

from ..imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
