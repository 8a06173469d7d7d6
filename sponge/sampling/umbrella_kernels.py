"""Kernel of umbrella sampling."""

from triskele.core.kernels.njit import kernel
from triskele.sponge.engine.task import STEP

__all__ = ["keep_values"]


@kernel(nogil=True)
def keep_values(chunk, flags, shift, every, values, buffer):
    """Keep the values [m] of states whose number is a multiple of `every` in the ring `buffer` [slots, m]."""
    state = flags[STEP] + shift
    if state % every == 0:
        slot = (state // every) % buffer.shape[0]
        for c in range(values.size):
            buffer[slot, c] = values[c]
