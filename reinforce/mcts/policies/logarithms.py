"""Logarithms from tables with linear interpolation: computed, they take longer than all else that a choice needs."""

import numpy as np

from triskele.core.extend import device, simd

__all__ = ["fast_log", "root_log"]


def _places(octaves, steps):
    """Return numbers from 1 on, equally many in each octave."""
    k = np.arange(octaves * steps + 2)
    return 2.0 ** (k // steps) * (1 + k % steps / steps)


_STEPS, _LOG_STEPS, _LOG_OCTAVES = 128, 256, 7
_FEW = 2048
_ROOT_LOG = np.sqrt(np.log(np.maximum(np.arange(_FEW), 1))).astype(np.float32)
_ROOT_LOG_OF_MANY = np.sqrt(np.log(_FEW * _places(20, _STEPS))).astype(np.float32)
_LOG = np.log(_places(_LOG_OCTAVES, _LOG_STEPS)).astype(np.float32)


@device
def root_log(n):
    """sqrt(log(n)), for n >= 1, with an error of at most 2e-6."""
    return _ROOT_LOG[n] if n < _FEW else _between(_ROOT_LOG_OF_MANY, np.float32(n) * np.float32(1 / _FEW), _STEPS)


@device
def fast_log(x):
    """log(x), for x >= 1, with an error of at most 2e-6."""
    return _between(_LOG, x, _LOG_STEPS) if x < np.float32(2**_LOG_OCTAVES) else np.float32(simd.log(np.float64(x)))


@device
def _between(table, x, steps):
    """Look up x in a table of `_places`."""
    place = np.float32(np.float32(x).view(np.int32) - 0x3F800000) * np.float32(steps / 2**23)
    k = np.int64(place)
    return np.float32(table[k] + (place - np.float32(k)) * (table[k + 1] - table[k]))
