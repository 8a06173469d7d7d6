"""Source of what steps many copies of an environment: one for rules on records, one for rules on eight lanes.

Both define `step_range(state, actions, obs, reward, terminated, truncated, begin, end)`, and `step_bytes`, the same on
flags that are bytes. What is common follows: `step` over all copies, and `chunk`, which reads from a context where
everything is (`run.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from triskele.core.extend import load_module

from ..environment import Environment, LaneEnvironment
from ..rules.rule_function import rule_function
from ..rules.shipped import rule_options

__all__ = ["AT_WORK", "CONTEXT", "LANES", "MARKS", "step_kernels"]

LANES = 8
MARKS = 16  # where in a context each chunk says that it came to its end
CONTEXT = MARKS + 1024  # words passed to a chunk; also the greatest number of threads
# what `done` of a copy holds while this rule runs, and keeps where it raises
AT_WORK = {2: "reset", 3: "step", 4: "observe", 5: "action_mask"}

_HEAD = '''"""Steps of {name}. {key}"""
import numpy as np
from numba import carray

from triskele.core.extend import simd
from triskele.core.extend import device, kernel
from triskele.reinforce import random  # of the rules: an edit there recompiles this
from triskele.reinforce.vector.env import EnvArrays
'''

_RECORDS = """

@device
def step_bytes(state, actions, obs, reward, terminated, truncated, begin, end):
    for i in range(begin, end):
        done = False
        if state.done[i]:
            state.done[i] = 2
            rule_reset(state.data[i], state.streams[i])
            state.steps[i] = 0
            reward[i], terminated[i], truncated[i] = 0.0, 0, 0
        else:
            state.done[i] = 3
            r, over = rule_step(state.data[i], actions[i], state.streams[i])
            state.steps[i] += 1
            late = state.steps[i] >= state.limit[0]
            reward[i], terminated[i], truncated[i] = r, over, late
            done = over or late
        state.done[i] = 4
        rule_observe(state.data[i], obs[i])
        state.done[i] = done


step_range = step_bytes
"""

# Copies i ... i + 7. Those that are over are moved on like the others, and what that gives is then replaced. Outputs
# are pointers: to arrays for eight, where fewer than eight copies are left.
_LANES = """

@device
def eight(state, i, actions, obs, reward, terminated, truncated, reward_dtype):
    stride, data = state.data.shape[1], simd.address(state.data, i)
    over = simd.load(state.done, i, 8) != np.uint8(0)
    count = simd.load(state.steps, i, 8) + 1
    s, r, ended = rule_step({load}, {action})
    ended = ended & ~over
    late = (count >= state.limit[0]) & ~over
    one, zero = simd.splat(np.uint8(1), 8), simd.splat(np.uint8(0), 8)
    simd.store(terminated, 0, simd.select(ended, one, zero))
    simd.store(truncated, 0, simd.select(late, one, zero))
    simd.store(state.done, i, simd.select(ended | late, one, zero))
    simd.store(reward, 0, simd.convert(simd.select(over, 0.0, r), reward_dtype))
    simd.store(state.steps, i, simd.select(over, 0, count))
    {fields} = s
    {store}
    if simd.any(over):
        which = simd.bits(over)
        for lane in range(8):
            if (which >> np.uint64(lane)) & np.uint64(1):
                {first} = rule_reset(state.streams[i + lane])
                {put_first}
        s = {load}
    {values} = rule_observe(s)
    {float32}
    simd.store(obs, 0, simd.shuffle({joined}, {rows}))


@device
def step_bytes(state, actions, obs, reward, terminated, truncated, begin, end):
    few, last = end % 8, end - end % 8
    a, o, r = np.empty(8 * {action_width}, actions.dtype), np.empty(8 * {width}, np.float32), np.empty(8, reward.dtype)
    t, u = np.empty(8, np.uint8), np.empty(8, np.uint8)
    for j in range(8):
        for k in range({action_width}):
            a[{action_width} * j + k] = actions[{action_at}] if j < few else 0
    for i in range(begin, end, 8):
        actions_at, obs_at, reward_at = simd.address(actions, {action_width} * i), simd.address(obs, {width} * i), simd.address(reward, i)
        terminated_at, truncated_at = simd.address(terminated, i), simd.address(truncated, i)
        if i + 8 > end:
            actions_at, obs_at, reward_at = simd.address(a, 0), simd.address(o, 0), simd.address(r, 0)
            terminated_at, truncated_at = simd.address(t, 0), simd.address(u, 0)
        eight(state, i, actions_at, obs_at, reward_at, terminated_at, truncated_at, reward.dtype)
    for j in range(few):
        reward[last + j], terminated[last + j], truncated[last + j] = r[j], t[j], u[j]
        for k in range({width}):
            obs[last + j, k] = o[{width} * j + k]


@device
def step_range(state, actions, obs, reward, terminated, truncated, begin, end):
    step_bytes(state, actions, obs, reward, terminated.view(np.uint8), truncated.view(np.uint8), begin, end)
"""  # noqa: E501

_TAIL = """

@device
def step(state, actions, obs, reward, terminated, truncated):
    step_range(state, actions, obs, reward, terminated, truncated, 0, len(obs))


@kernel(nogil=True, no_cpython_wrapper=True)
def chunk(context, index):
    w = carray(context[0], ({context},), np.int64)
    n, size, stride = w[1], w[2], w[3]
    state = EnvArrays({data}, carray(context[5], (stride,), np.int64), carray(context[6], (stride,), np.uint8),
                      carray(context[7], (stride, 1), np.uint64), carray(context[8], (1,), np.int64))
    actions, obs, reward = carray(context[9], {actions}, {action_dtype}), carray(context[10], {obs}, np.float32), carray(context[11], (n,), np.float64)
    terminated, truncated = carray(context[12], (n,), np.uint8), carray(context[13], (n,), np.uint8)
    begin, end = index * size, min(n, (index + 1) * size)
    step_bytes(state, actions, obs, reward, terminated, truncated, begin, end)
{masks}    w[{marks} + index] = 1
"""  # noqa: E501

# Copies that are over take any action, since their next step ignores it.
_MASKS = """    masks = carray(context[14], (n, {count}), np.bool_)
    for i in range(begin, end):
        if state.done[i]:
            masks[i, :] = True
        else:
            state.done[i] = 5
            rule_action_mask(state.data[i], masks[i])
            state.done[i] = 0
"""


def _tuple(items: Sequence[object]) -> str:
    return "(" + "".join(f"{x}, " for x in items) + ")"


def _lanes(fields: int, width: int, action_width: int) -> dict[str, str]:
    """Return the source that depends on the numbers of fields, observations and actions (0: discrete)."""
    padded = 1 << (width - 1).bit_length()
    vectors = [f"v{min(k, width - 1)}" for k in range(padded)]
    while len(vectors) > 1:
        vectors = [f"simd.concat({a}, {b})" for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
    block = f"simd.load(actions, 0, {8 * action_width})"
    columns = [
        f"simd.convert(simd.shuffle({block}, {_tuple([action_width * lane + k for lane in range(8)])}), np.float64)"
        for k in range(action_width)
    ]
    action = _tuple(columns) if action_width else "simd.load(actions, 0, 8)"
    return {
        "float32": "; ".join(f"v{k} = simd.convert(w{k}, np.float32)" for k in range(width)),
        "joined": vectors[0],
        "rows": _tuple([8 * (k % width) + k // width for k in range(8 * width)]),
        "load": _tuple([f"simd.load(data, {k} * stride, 8)" for k in range(fields)]),
        "store": "; ".join(f"simd.store(data, {k} * stride, f{k})" for k in range(fields)),
        "fields": _tuple([f"f{k}" for k in range(fields)]),
        "values": _tuple([f"w{k}" for k in range(width)]),
        "first": _tuple([f"x{k}" for k in range(fields)]),
        "put_first": "; ".join(f"state.data[{k}, i + lane] = x{k}" for k in range(fields)),
        "action": action,
        "action_at": "last + j, k" if action_width else "last + j",
        "action_width": str(max(1, action_width)),
        "width": str(width),
    }


def step_kernels(environment: Environment) -> ModuleType:
    """Module with `step`, `step_range` and `chunk` for copies of an environment."""
    rules, space, shape = environment.rules(), environment.action_space, environment.observation_space.shape
    num_actions, fields = getattr(space, "n", 0), 0
    if isinstance(environment, LaneEnvironment):
        fields = len(environment.state)
    body = _LANES.format(**_lanes(fields, shape[0], 0 if num_actions else space.shape[0])) if fields else _RECORDS
    data = f"({fields}, stride), np.float64" if fields else "(stride,), rule_dtype"
    head = _HEAD.format(name=environment.name, key=environment.key)
    tail = _TAIL.format(
        data=f"carray(context[4], {data})",
        actions=_tuple(["n", *space.shape]),
        action_dtype="np.int64" if num_actions else "np.float32",
        obs=_tuple(["n", *shape]),
        context=CONTEXT,
        marks=MARKS,
        masks=_MASKS.format(count=num_actions) if environment.has_masks else "",
    )
    options = {} if fields else rule_options(environment)
    names = {f"rule_{n}": rule_function(f, **options) for n, f in rules._asdict().items() if f is not None}
    return load_module(head + body + tail, "env", {**names, "rule_dtype": environment.state_key})
