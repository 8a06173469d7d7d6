"""Kernels of umbrella sampling."""

from triskele.core.extend import kernel

from ..engine.flags import STEP

__all__ = ["keep_values", "move_center"]


@kernel(nogil=True)
def keep_values(chunk, flags, shift, every, values, buffer):
    """Keep the values [m] of states whose number is a multiple of `every` in the ring `buffer` [slots, m]."""
    state = flags[STEP] + shift
    if state % every == 0:
        slot = (state // every) % buffer.shape[0]
        for c in range(values.size):
            buffer[slot, c] = values[c]


@kernel(nogil=True)
def move_center(chunk, flags, span, offset, target, center):
    """Bring the center [m] of a bias from `target` + `offset` to `target`, evenly from the first to the second step of
    `span`.
    """
    left = (span[1] - flags[STEP] - 1) / max(span[1] - span[0], 1)
    for c in range(center.size):
        center[c] = target[c] + min(max(left, 0.0), 1.0) * offset[c]
