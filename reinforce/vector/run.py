"""Kernels that every `VectorEnv` calls."""

import numpy as np

from triskele.core.extend import device, kernel, threads

from .. import random
from .stepping import MARKS

_parallel_for = threads.for_numba()


@kernel
def seed(streams, number):
    for i in range(len(streams)):
        random.start(streams[i], number, i, 0)


@device
def _are_allowed(actions, num_actions):
    bad = False
    if num_actions:
        for a in actions.flat:
            bad |= (a < 0) | (a >= num_actions)
    else:
        for a in actions.flat:
            bad |= not np.isfinite(a)
    return not bad


@kernel(nogil=True)
def run(context, num_actions, actions, obs, reward, terminated, truncated, masks, chunks, function):
    """Step all copies by `function`, a chunk of them a call; `num_actions` is 0 for continuous ones, and `masks` empty
    where there are none.

    False: an action is none, and nothing was stepped; or a rule raised (Numba prints what) and a chunk did not come to
    its end.
    """
    if not _are_allowed(actions, num_actions):
        return False
    context[9], context[10], context[11] = actions.ctypes.data, obs.ctypes.data, reward.ctypes.data
    context[12], context[13], context[14] = terminated.ctypes.data, truncated.ctypes.data, masks.ctypes.data
    for k in range(chunks):
        context[MARKS + k] = 0
    _parallel_for(function, context.ctypes.data, chunks)
    ended = 0
    for k in range(chunks):
        ended += context[MARKS + k]
    return ended == chunks
