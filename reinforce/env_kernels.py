"""Source of the kernels that step many environments: one for rules on records, one for rules on eight lanes.

Both define `step_range(state, actions, obs, reward, terminated, truncated, begin, end)`. What is common follows: `step` over all
environments, and what `VectorEnv` calls from Python.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CONTEXT", "LANES", "source"]

LANES = 8
CONTEXT = 16  # words: what a chunk of environments is told

_HEAD = '''"""Steps of {name}. {key}"""
import numpy as np
from numba import carray

from triskele.core.kernels import simd, threads
from triskele.core.kernels.njit import inner, kernel
from triskele.reinforce import random
from triskele.reinforce.env import EnvArrays

parallel_for = threads.for_numba()
'''

_RECORDS = '''

@kernel(nogil=True)
def step_range(state, actions, obs, reward, terminated, truncated, begin, end):
    for i in range(begin, end):
        if state.done[i]:
            rule_reset(state.data[i], state.streams[i])
            state.steps[i], state.done[i] = 0, 0
            reward[i], terminated[i], truncated[i] = 0.0, False, False
        else:
            r, over = rule_step(state.data[i], actions[i], state.streams[i])
            state.steps[i] += 1
            late = state.steps[i] >= state.limit[0]
            reward[i], terminated[i], truncated[i] = r, over, late
            state.done[i] = over or late
        rule_observe(state.data[i], obs[i])


@kernel(nogil=True)
def reset(state, obs):
    for i in range(len(obs)):
        rule_reset(state.data[i], state.streams[i])
        state.steps[i], state.done[i] = 0, 0
        rule_observe(state.data[i], obs[i])
'''

# Environments i ... i + 7 of the state, whose outputs go to o ... o + 7. Those that are over are moved on like the others, and
# what that gives is then replaced.
_LANES = '''

@inner
def observations(s, obs, o):
    w = rule_observe(s)
    {float32}
    simd.store(obs, {width} * o, simd.shuffle({joined}, {rows}))


@inner
def eight(data, steps, done, streams, limit, actions, obs, reward, terminated, truncated, i, o):
    stride = data.shape[1]
    over = simd.load(done, i, 8) != np.uint8(0)
    count = simd.load(steps, i, 8) + 1
    s, r, ended = rule_step({load}, {action})
    ended = ended & ~over
    late = (count >= limit[0]) & ~over
    one, zero = simd.splat(np.uint8(1), 8), simd.splat(np.uint8(0), 8)
    simd.store(terminated, o, simd.select(ended, one, zero))
    simd.store(truncated, o, simd.select(late, one, zero))
    simd.store(done, i, simd.select(ended | late, one, zero))
    simd.store(reward, o, simd.convert(simd.select(over, 0.0, r), reward.dtype))
    simd.store(steps, i, simd.select(over, 0, count))
    {store}
    if simd.any(over):
        which = simd.bits(over)
        for lane in range(8):
            if (which >> np.uint64(lane)) & np.uint64(1):
                restart(data, streams, i + lane)
        observations({load}, obs, o)
    else:
        observations(s, obs, o)


@inner
def restart(data, streams, i):
    {first} = rule_reset(streams[i])
    {put_first}


@kernel(nogil=True)
def step_range(state, actions, obs, reward, terminated, truncated, begin, end):
    data, steps, done, streams, limit = state.data, state.steps, state.done, state.streams, state.limit
    whole = end - (end - begin) % 8
    for i in range(begin, whole, 8):
        eight(data, steps, done, streams, limit, actions, obs, reward, terminated.view(np.uint8), truncated.view(np.uint8), i, i)
    if whole < end:
        a, o, r = np.zeros({action_shape}, actions.dtype), np.empty((8, {width}), np.float32), np.empty(8, reward.dtype)
        t, u = np.empty(8, np.uint8), np.empty(8, np.uint8)
        a[: end - whole] = actions[whole:end]
        eight(data, steps, done, streams, limit, a, o, r, t, u, whole, 0)
        for i in range(whole, end):
            obs[i], reward[i], terminated[i], truncated[i] = o[i - whole], r[i - whole], t[i - whole] != 0, u[i - whole] != 0


@kernel(nogil=True)
def reset(state, obs):
    data, o = state.data, np.empty((8, {width}), np.float32)
    state.steps[:], state.done[:] = 0, 0
    for i in range(data.shape[1]):
        restart(data, state.streams, i)
    for i in range(0, len(obs), 8):
        stride = data.shape[1]
        observations({load}, o, 0)
        for j in range(i, min(i + 8, len(obs))):
            obs[j] = o[j - i]
'''

_TAIL = '''

@kernel(nogil=True)
def step(state, actions, obs, reward, terminated, truncated):
    step_range(state, actions, obs, reward, terminated, truncated, 0, len(obs))


@kernel(nogil=True)
def seed(streams, number, stream):
    for i in range(len(streams)):
        random.start(streams[i], number, i, stream)


@kernel(nogil=True)
def chunk(context, index):
    w = carray(context[0], (16,), np.int64)
    n, size, stride = w[1], w[2], w[3]
    state = EnvArrays({data}, carray(context[5], (stride,), np.int64), carray(context[6], (stride,), np.uint8),
                      carray(context[7], (stride, 1), np.uint64), carray(context[8], (1,), np.int64))
    actions, obs, reward = carray(context[9], {actions}, {action_dtype}), carray(context[10], {obs}, np.float32), carray(context[11], (n,), np.float64)
    terminated, truncated = carray(context[12], (n,), np.bool_), carray(context[13], (n,), np.bool_)
    step_range(state, actions, obs, reward, terminated, truncated, index * size, min(n, (index + 1) * size))


@kernel(nogil=True)
def run(context, actions, obs, reward, terminated, truncated, chunks, function):
    if not allowed(actions):
        return False
    context[9], context[10], context[11] = actions.ctypes.data, obs.ctypes.data, reward.ctypes.data
    context[12], context[13] = terminated.ctypes.data, truncated.ctypes.data
    parallel_for(function, context.ctypes.data, chunks)
    return True


@inner
def allowed(actions):
    {allowed}
'''

_DISCRETE = """bad = False
    for i in range(len(actions)):
        bad |= (actions[i] < 0) | (actions[i] >= {n})
    return not bad"""
_CONTINUOUS = """bad = False
    for a in actions.flat:
        bad |= not np.isfinite(a)
    return not bad"""


def _tuple(items: Sequence[object]) -> str:
    return "(" + "".join(f"{x}, " for x in items) + ")"


def _lanes(fields: int, width: int, action_width: int) -> dict[str, str]:
    """What depends on the numbers of fields, of observations and of actions (0: discrete)."""
    padded = 1 << (width - 1).bit_length()
    vectors = [f"v{min(k, width - 1)}" for k in range(padded)]
    while len(vectors) > 1:
        vectors = [f"simd.concat({a}, {b})" for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
    block = f"simd.load(actions, {action_width} * o, {8 * action_width})"
    columns = [f"simd.convert(simd.shuffle({block}, {_tuple([action_width * lane + k for lane in range(8)])}), np.float64)" for k in range(action_width)]
    action = _tuple(columns) if action_width else "simd.load(actions, o, 8)"
    return {
        "float32": "; ".join(f"v{k} = simd.convert(w[{k}], np.float32)" for k in range(width)),
        "joined": vectors[0],
        "rows": _tuple([8 * (k % width) + k // width for k in range(8 * width)]),
        "load": _tuple([f"simd.load(data, {k} * stride + i, 8)" for k in range(fields)]),
        "store": "; ".join(f"simd.store(data, {k} * stride + i, s[{k}])" for k in range(fields)),
        "first": _tuple([f"x{k}" for k in range(fields)]),
        "put_first": "; ".join(f"data[{k}, i] = x{k}" for k in range(fields)),
        "action": action,
        "action_shape": "8" if action_width == 0 else f"(8, {action_width})",
        "width": str(width),
    }


def source(name: str, key: str, fields: int, observation_shape: tuple[int, ...], num_actions: int, action_shape: tuple[int, ...]) -> str:
    """Source of the module of an environment.

    Parameters
    ----------
    name, key : str
    fields : int
        How many, of lanes; 0 for records.
    observation_shape : tuple of int
    num_actions : int
        0 for continuous actions.
    action_shape : tuple of int
    """
    body = _LANES.format(**_lanes(fields, observation_shape[0], 0 if num_actions else action_shape[0])) if fields else _RECORDS
    allowed = _DISCRETE.format(n=num_actions) if num_actions else _CONTINUOUS
    values = {
        "data": f"carray(context[4], ({fields}, stride), np.float64)" if fields else "carray(context[4], (stride,), rule_dtype)",
        "actions": _tuple(["n", *action_shape]), "action_dtype": "np.int64" if num_actions else "np.float32",
        "obs": _tuple(["n", *observation_shape]), "allowed": allowed,
    }  # fmt: skip
    return _HEAD.format(name=name, key=key) + body + _TAIL.format(**values)
