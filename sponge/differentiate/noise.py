"""The normal numbers of the thermostats as a kernel of its own."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import kernel

from ..integrators.kernels import NOISE, _masks, _store
from ..integrators.noise import normals

__all__ = ["fill_noise"]


@kernel
def fill_noise(step, key, like, out):  # key uint32 [2]; like, out [n, 3]
    n = out.shape[0]
    for i in range(0, n, 16):
        lower, upper = normals(i, key[0], key[1], np.uint64(step), NOISE)
        _store(out, i, _masks(min(n - i, 8)), lower)
        if i + 8 < n:
            _store(out, i + 8, _masks(min(n - i - 8, 8)), upper)
