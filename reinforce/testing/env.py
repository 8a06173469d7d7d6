"""`check_env`: the checks that every environment must pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import template

from .. import random
from ..environment import EnvRules, LaneEnvironment
from ..errors import EnvError
from ..rules.rule_function import rule_function
from ..rules.wiring import wire
from ..spaces import Discrete
from ..vector.env import VectorEnv, integer, make
from ..vector.stepping import AT_WORK

__all__ = ["check_env", "check_rules"]

_COPIES = 11  # not a multiple of the eight that are stepped together


def check_env(env: Any, *, steps: int = 500, seed: int = 0, **options: Any) -> None:
    """Take random steps, and check that the environment keeps its contract (`Environment`, `VectorEnv`).

    Observations must lie in their space and be written whole, rewards be finite, invalid actions be refused; the
    same seed must give the same steps, whatever was done before and however many copies there are; a state that is set
    must be continued, and episodes must restart as `VectorEnv` says. Where there is an action mask, the steps are
    allowed ones. Rules on records run with bounds checked. An environment of Gymnasium is checked by what can be seen
    of it.

    Parameters
    ----------
    env : str, Environment, subclass of Environment, or function
        As `make` takes it.
    steps : int
        Number of steps of 11 copies.
    seed : int
    **options
        Options of the environment.

    Raises
    ------
    EnvError
        If a check fails. The message names the step.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> rl.check_env("CartPole-v1", steps=50)
    """
    integer("check_env: steps", steps, 1)
    made = make(env, _COPIES, seed, **options)
    if isinstance(made, VectorEnv) and not isinstance(made.environment, LaneEnvironment):
        check_rules(made, steps, seed)
    try:
        _check_refusals(made)
        first = _run(made, steps, seed)
        _same(
            made.name,
            first,
            _run(made, steps, seed),
            "the same seed must give the same steps, whatever was done before",
        )
        if isinstance(made, VectorEnv):
            few = make(env, 3, **options)
            _same(
                few.name,
                [[x[:3] for x in row] for row in first],
                _run(few, steps, seed),
                "a copy must not depend on how many there are",
            )
            _check_state(made, steps, seed)
    finally:
        made.close()


def _actions(env, steps, seed):
    drawn = env.action_space.sample(seed, steps * _COPIES).reshape(steps, _COPIES, *env.action_space.shape)
    return np.ascontiguousarray(drawn[:, : env.num_envs])


def _allowed(actions, mask):
    """The actions, or, where there is a mask (N, n), as many allowed ones."""
    if mask is None:
        return actions
    order = np.argsort(~mask, axis=1, kind="stable")  # allowed ones first
    return np.take_along_axis(order, (actions % mask.sum(axis=1))[:, None], axis=1)[:, 0]


def _steps(env, actions, info):
    """Return the results of consecutive steps, with masks (if any) at the end of each row."""
    rows = []
    for row in actions:
        *row, info = env.step(_allowed(row, info.get("action_mask")))
        rows.append([*row, *(info[k] for k in ("action_mask",) if k in info)])
    return rows, info


def _run(env, steps, seed):
    """Everything that some steps give; it is checked by the way."""
    observation, info = env.reset(seed=seed)
    rows = [[observation]]
    over = np.zeros(env.num_envs, bool)
    for step, actions in enumerate(_actions(env, steps, seed)):
        _check_observation(env, rows[-1][0], step)
        (row,), info = _steps(env, actions[None], info)
        _, reward, terminated, truncated = row[:4]
        for what, x, dtype in (
            ("reward", reward, np.float64),
            ("terminated", terminated, np.bool_),
            ("truncated", truncated, np.bool_),
        ):
            if x.shape != (env.num_envs,) or x.dtype != dtype:
                _fail(
                    env,
                    f"{what} must be {np.dtype(dtype)} of shape ({env.num_envs},), got {x.dtype} of shape {x.shape}",
                    step + 1,
                )
        if not np.isfinite(reward).all():
            _fail(env, f"rewards must be finite, got {reward[~np.isfinite(reward)][0]}", step + 1)
        if reward[over].any() or terminated[over].any() or truncated[over].any():
            _fail(env, "a step that begins an episode must have reward 0 and not end it", step + 1)
        over = terminated | truncated
        rows.append(row)
    _check_observation(env, rows[-1][0], steps)
    return rows


def _check_observation(env, x, step):
    space = env.observation_space
    if x.shape != (env.num_envs, *space.shape) or x.dtype != np.float32:
        _fail(
            env,
            f"observations must be float32 of shape {(env.num_envs, *space.shape)}, got {x.dtype} of shape {x.shape}",
            step,
        )
    outside = ~((space.low <= x) & (x <= space.high))
    if outside.any():
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        _fail(env, f"observations must lie in {space}, got {x[at]} at {list(at[1:])} of environment {at[0]}", step)


def _check_refusals(env):
    space, n = env.action_space, env.num_envs
    env.reset()
    good = space.sample(0, n)
    bad = [("too few of them", good[1:])]
    if isinstance(space, Discrete):
        bad += [
            ("floats", good + 0.5),
            ("numbers out of range", np.full(n, space.n)),
            ("negative ones", np.full(n, -1)),
        ]
    else:
        bad += [("NaN", np.full(good.shape, np.nan))]
    for what, actions in bad:
        try:
            env.step(actions)
        except EnvError:
            continue
        raise EnvError(f"{env.name}: actions must be checked, but {what} were taken")


def _check_state(env, steps, seed):
    actions = _actions(env, steps, seed + 1)
    _, info = env.reset(seed=seed)
    begun = env.state
    _, info = _steps(env, actions[: steps // 2], info)
    held, (rest, _) = env.state, _steps(env, actions[steps // 2 :], info)
    env.state = held
    _same(
        env.name,
        rest,
        _steps(env, actions[steps // 2 :], info)[0],
        "steps from a state that was set must be those that followed it",
    )
    env.reset(seed=seed)
    for k, v in env.state.items():
        if not np.array_equal(v, begun[k]):
            raise EnvError(
                f"{env.name}: reset must not depend on the episodes before, but {k!r} of the state does (it "
                f"must set every field)"
            )


def _same(name, rows, others, must):
    for step, (row, other) in enumerate(zip(rows, others, strict=True)):
        for what, x, y in zip(
            ("observation", "reward", "terminated", "truncated", "action_mask"), row, other, strict=False
        ):
            if not np.array_equal(x, y):
                raise EnvError(f"{name}: {must}, but {what} differs (after {step} steps)")


def _fail(env, what, step):
    raise EnvError(f"{env.name}: {what} (after {step} steps)")


def check_rules(env: VectorEnv, steps: int, seed: int, *, may_raise: bool = False) -> None:
    """Take steps of one copy with the bounds of arrays checked, guards around what rules may write, and observations
    written twice; raise EnvError if a check fails.

    With `may_raise`, the check ends where a rule raises something else than IndexError, or no action is allowed.
    """
    rules = EnvRules._make(None if f is None else rule_function(f, boundscheck=True) for f in env.environment.rules())
    module = wire(
        "env_check",
        f"Rules of {env.name} with bounds checked. {env.key}",
        [reset_once, step_once, mask_once] if env.has_masks else [reset_once, step_once],
        {"rules": rules},
        [random],
        boundscheck=True,
    )
    data, streams, at_work = env.environment.new_data(3), np.full((1, 1), seed, np.uint64), np.zeros(1, np.int64)
    twice = [np.full((3, *env.observation_space.shape), fill, np.float32) for fill in (-7777.25, 5555.5)]
    masks = [np.full((3, getattr(env.action_space, "n", 0)), fill) for fill in (False, True)]
    guards = [("the state", data.view(np.uint8).reshape(3, -1)[::2])] + [("`out`", a[::2]) for a in (*twice, *masks)]
    guards[0][1][:] = 0xA5
    before = [a.copy() for _, a in guards]
    actions, over = _actions(env, steps, seed)[:, :1], True
    allowed = None
    for step in range(steps):
        try:
            if over:
                module.reset_once(data[1:2], streams, *(a[1:2] for a in twice), at_work)
                over = False
            else:
                over = bool(
                    module.step_once(
                        data[1:2], _allowed(actions[step], allowed), streams, *(a[1:2] for a in twice), at_work
                    )
                )
            if env.has_masks and not over:
                masks[0][1], masks[1][1] = False, True
                module.mask_once(data[1:2], *(a[1:2] for a in masks), at_work)
                allowed = masks[0][1:2]
        except IndexError as error:
            raise EnvError(
                f"{env.name}: {AT_WORK[int(at_work[0])]} must stay within its arrays, but raised {error} "
                f"(after {step} steps)"
            ) from error
        except Exception as error:  # whatever a rule raises
            if may_raise:
                return
            raise EnvError(
                f"{env.name}: {AT_WORK[int(at_work[0])]} raised {type(error).__name__}: {error} (after {step} steps)"
            ) from error
        for (what, now), then in zip(guards, before, strict=True):
            if not np.array_equal(now, then):
                _fail(env, f"a rule writes outside of {what}", step)
        if not np.array_equal(twice[0][1], twice[1][1], equal_nan=True):
            _fail(env, "observe must write the whole of `out`", step)
        if env.has_masks and not over and not np.array_equal(masks[0][1], masks[1][1]):
            _fail(env, "action_mask must write the whole of `out`", step)
        if allowed is not None and not over and not allowed.any():
            if may_raise:
                return
            _fail(env, "action_mask must allow at least one action", step)


@template
def reset_once(rules, data, streams, out, other, at_work):
    """Begin an episode, and write what is observed twice."""
    at_work[0] = 2
    rules.reset(data[0], streams[0])
    at_work[0] = 4
    rules.observe(data[0], out[0])
    rules.observe(data[0], other[0])


@template
def step_once(rules, data, actions, streams, out, other, at_work):
    """Take a step, and write what is observed twice; returns whether the episode is over."""
    at_work[0] = 3
    reward, over = rules.step(data[0], actions[0], streams[0])
    at_work[0] = 4
    rules.observe(data[0], out[0])
    rules.observe(data[0], other[0])
    return over


@template
def mask_once(rules, data, out, other, at_work):
    """Write what is allowed twice."""
    at_work[0] = 5
    rules.action_mask(data[0], out[0])
    rules.action_mask(data[0], other[0])
