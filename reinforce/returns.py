"""Returns and advantages of trajectories.

Arrays are time-major, [T, ...]; all functions compile, nest and differentiate.

An episode ends in one of two ways. After a *terminated* step nothing follows: its return is its reward. After a
*truncated* one something would have followed: the sum stops there, and the value of the observation reached stands for
it. That value is ``next_values[t]``; where environments restart in the step after an end (Gymnasium's NEXT_STEP), it
stands in the next row, and with V of all T + 1 observations ``next_values = values[1:]`` is right throughout. What is
returned for the rows of restarts, which are not transitions, is meaningless and must be masked.

`discount` and `lam` are numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from triskele import core
from triskele.core.extend import check, short_repr

__all__ = ["VTrace", "discounted", "gae", "lambda_returns", "n_step", "v_trace"]


def _checked(where: str, rewards: Any, discount: float, lam: float = 1.0, **others: Any) -> list[Any]:
    """Return the arrays, which must have one shape; None becomes all False."""
    shape = np.shape(rewards)
    if not shape or shape[0] == 0:
        raise ValueError(f"{where}: rewards must be an array of at least one step, [T, ...], got shape {shape}")
    for name, x in others.items():
        if x is not None and np.shape(x) != shape:
            raise ValueError(f"{where}: {name} must have the shape of rewards, {shape}, got {np.shape(x)}")
    for name, number in {"discount": discount, "lam": lam}.items():
        if isinstance(number, (int, float)) and not 0 <= number <= 1:
            raise ValueError(f"{where}: {name} must be between 0 and 1, got {number}")
    arrays = [rewards, *[np.zeros(shape, bool) if x is None else x for x in others.values()]]
    return [x if hasattr(x, "dtype") else np.asarray(x) for x in arrays]


def _backwards(step: Any, last: Any, *xs: Any) -> Any:
    """``out[t] = step(out[t + 1], x[t], ...)``, from `last` on."""

    def body(after, row):
        now = step(after, *row)
        return now, now

    return core.scan(body, last, xs, reverse=True)[1]


@core.jit
def _lambda_returns(rewards, next_values, terminated, truncated, discount, lam):
    def step(after, r, v, end, cut):
        mixed = np.where(cut, v, (1 - lam) * v + lam * after)
        return r + np.where(end, 0.0, discount * mixed).astype(r.dtype)

    return _backwards(step, next_values[-1], rewards, next_values, terminated, truncated)


def lambda_returns(
    rewards: Any, next_values: Any, terminated: Any, truncated: Any = None, *, discount: float = 0.99, lam: float = 0.95
) -> Any:
    r"""Exponentially weighted means of the 1, 2, ... step returns.

    .. math:: G_t = r_t + \gamma \left[(1 - \lambda) V(s_{t+1}) + \lambda G_{t+1}\right]

    Parameters
    ----------
    rewards : (T, ...) array
    next_values : (T, ...) array
        V of the observation that each step has led to.
    terminated, truncated : (T, ...) bool
        None for `truncated`: never.
    discount, lam : float

    Returns
    -------
    array, [T, ...]

    Raises
    ------
    ValueError
        If shapes differ, or a number is not in [0, 1].

    References
    ----------
    Sutton and Barto, *Reinforcement Learning*, 2nd ed., MIT Press 2018, eq. 12.20 (in its recursive form).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.returns import lambda_returns
    >>> lambda_returns(np.array([1.0, 1.0]), np.array([0.0, 4.0]), np.array([False, False]), discount=0.5, lam=1.0)
    array([2.5, 3. ])
    """
    rewards, next_values, terminated, truncated = _checked(
        "lambda_returns", rewards, discount, lam, next_values=next_values, terminated=terminated, truncated=truncated
    )
    return _lambda_returns(rewards, next_values, terminated, truncated, discount, lam)


def discounted(
    rewards: Any, terminated: Any, truncated: Any = None, *, next_values: Any = None, discount: float = 0.99
) -> Any:
    r"""Sums of discounted rewards, :math:`G_t = r_t + \gamma G_{t+1}`.

    Parameters
    ----------
    rewards : (T, ...) array
    terminated, truncated : (T, ...) bool
        None for `truncated`: never.
    next_values : (T, ...) array, optional
        V of the observation that each step has led to; only those of the last and of truncated steps count. None: zero.
    discount : float

    Returns
    -------
    array, [T, ...]

    Raises
    ------
    ValueError
        If shapes differ, or `discount` is not in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.returns import discounted
    >>> discounted(np.array([1.0, 1.0, 1.0]), np.array([False, True, False]), discount=0.5)
    array([1.5, 1. , 1. ])
    """
    if next_values is None:
        next_values = np.zeros(np.shape(rewards), np.result_type(rewards))
    rewards, next_values, terminated, truncated = _checked(
        "discounted", rewards, discount, next_values=next_values, terminated=terminated, truncated=truncated
    )
    return _lambda_returns(rewards, next_values, terminated, truncated, discount, 1.0)


@core.jit
def _gae(rewards, values, next_values, terminated, truncated, discount, lam):
    errors = rewards + np.where(terminated, 0.0, discount * next_values).astype(rewards.dtype) - values

    def step(after, error, ended):
        return error + np.where(ended, 0.0, discount * lam * after).astype(error.dtype)

    return _backwards(step, np.zeros_like(errors[0]), errors, terminated | truncated)


def gae(
    rewards: Any,
    values: Any,
    next_values: Any,
    terminated: Any,
    truncated: Any = None,
    *,
    discount: float = 0.99,
    lam: float = 0.95,
) -> Any:
    r"""Generalized advantage estimates.

    .. math:: A_t = \sum_l (\gamma\lambda)^l \delta_{t+l}, \qquad \delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)

    Parameters
    ----------
    rewards : (T, ...) array
    values, next_values : (T, ...) array
        V of the observation before and after each step.
    terminated, truncated : (T, ...) bool
        None for `truncated`: never.
    discount, lam : float

    Returns
    -------
    array, [T, ...]
        Add `values` for the targets of the value function.

    Raises
    ------
    ValueError
        If shapes differ, or a number is not in [0, 1].

    References
    ----------
    Schulman, Moritz, Levine, Jordan, Abbeel, "High-dimensional continuous control using generalized advantage
    estimation", ICLR 2016, eq. 16. arXiv:1506.02438

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.returns import gae
    >>> gae(np.array([1.0, 1.0]), np.zeros(2), np.zeros(2), np.array([False, True]), discount=1.0, lam=0.5)
    array([1.5, 1. ])
    """
    rewards, values, next_values, terminated, truncated = _checked(
        "gae",
        rewards,
        discount,
        lam,
        values=values,
        next_values=next_values,
        terminated=terminated,
        truncated=truncated,
    )
    return _gae(rewards, values, next_values, terminated, truncated, discount, lam)


def _n_step_returns(rewards, next_values, terminated, truncated, discount, n):
    def behind(x, fill):  # x of one step later
        return np.concatenate([x[1:], fill])

    result = discount * next_values
    for k in range(n):  # after k turns: returns of k steps
        if k:
            after = np.where(truncated, next_values, behind(result, next_values[-1:]))
            result = discount * after
        result = rewards + np.where(terminated, 0.0, result).astype(rewards.dtype)
    return result


_n_step = core.jit(_n_step_returns, static_argnames="n")


def n_step(
    rewards: Any, next_values: Any, terminated: Any, truncated: Any = None, *, n: int, discount: float = 0.99
) -> Any:
    r"""Sums of `n` discounted rewards and the value of the observation then reached.

    .. math:: G_t = \sum_{k=0}^{n-1} \gamma^k r_{t+k} + \gamma^n V(s_{t+n})

    Fewer than `n` where the episode or the array ends.

    Parameters
    ----------
    rewards : (T, ...) array
    next_values : (T, ...) array
        V of the observation that each step has led to.
    terminated, truncated : (T, ...) bool
        None for `truncated`: never.
    n : int
        At least 1.
    discount : float

    Returns
    -------
    array, [T, ...]

    Raises
    ------
    ValueError
        If shapes differ, `n` is not a positive integer, or `discount` is not in [0, 1].

    References
    ----------
    Sutton and Barto, *Reinforcement Learning*, 2nd ed., MIT Press 2018, eq. 7.1.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.returns import n_step
    >>> n_step(np.array([1.0, 1.0, 1.0]), np.array([8.0, 8.0, 8.0]), np.zeros(3, bool), n=2, discount=0.5)
    array([3.5, 3.5, 5. ])
    """
    rewards, next_values, terminated, truncated = _checked(
        "n_step", rewards, discount, next_values=next_values, terminated=terminated, truncated=truncated
    )
    check.integer(n, "n_step: n", 1)
    return _n_step(rewards, next_values, terminated, truncated, discount, n=n)


@short_repr
class VTrace(NamedTuple):
    """Result of `v_trace`; each array has shape (T, ...).

    Attributes
    ----------
    targets : array
        v_t, for the value function.
    advantages : array
        For the policy gradient.
    q_values : array
        Estimates of Q(s_t, a_t).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce import returns
    >>> zeros, ones = np.zeros((3, 1)), np.ones((3, 1))
    >>> found = returns.v_trace(ones, zeros, zeros, ones, np.array([[False], [False], [True]]), discount=1.0)
    >>> found.targets.ravel()
    array([3., 2., 1.])
    """

    targets: Any
    advantages: Any
    q_values: Any


@core.jit
def _v_trace(rewards, values, next_values, ratios, terminated, truncated, discount, lam, clip_targets, clip_advantages):
    zero = np.zeros_like(rewards)
    errors = np.minimum(ratios, clip_targets) * (rewards + np.where(terminated, zero, discount * next_values) - values)
    traces = lam * np.minimum(ratios, 1.0)

    def step(after, error, trace, ended):
        return error + np.where(ended, 0.0, discount * trace * after).astype(error.dtype)

    targets = values + _backwards(step, zero[0], errors.astype(rewards.dtype), traces, terminated | truncated)
    # what follows a step: mixed between target and value as the trace is; only the value after the last step, or a
    # truncation
    mixed = np.concatenate([lam * targets[1:] + (1 - lam) * values[1:], next_values[-1:]])
    q_values = rewards + np.where(terminated, zero, discount * np.where(truncated, next_values, mixed))
    advantages = np.minimum(ratios, clip_advantages) * (q_values - values)
    return VTrace(targets, advantages.astype(rewards.dtype), q_values.astype(rewards.dtype))


def v_trace(
    rewards: Any,
    values: Any,
    next_values: Any,
    ratios: Any,
    terminated: Any,
    truncated: Any = None,
    *,
    discount: float = 0.99,
    lam: float = 1.0,
    clip_targets: float = 1.0,
    clip_advantages: float = 1.0,
) -> VTrace:
    r"""Returns of one policy from steps that another has taken.

    .. math:: v_t = V(s_t) + \sum_{k \ge t} \gamma^{k-t} \Big(\prod_{i=t}^{k-1} c_i\Big) \rho_k \delta_k, \quad
              \rho = \min(\bar\rho, \pi/\mu), \quad c = \lambda \min(1, \pi/\mu)

    Parameters
    ----------
    rewards : (T, ...) array
    values, next_values : (T, ...) array
        V of the observation before and after each step.
    ratios : (T, ...) array
        Probability of each action by the policy in question over that by the policy that acted.
    terminated, truncated : (T, ...) bool
        None for `truncated`: never.
    discount, lam : float
    clip_targets, clip_advantages : float
        Largest ratio that counts in the targets, and in the advantages.

    Returns
    -------
    VTrace
        Targets, advantages and values of actions.

    Raises
    ------
    ValueError
        If shapes differ, or a number is not in [0, 1].

    References
    ----------
    Espeholt et al., "IMPALA", ICML 2018, eq. 1 and section 4.2, with lambda as in remark 2. arXiv:1802.01561

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.returns import v_trace
    >>> out = v_trace(np.array([1.0, 1.0]), np.zeros(2), np.zeros(2), np.ones(2), np.array([False, True]), discount=0.5)
    >>> out.targets
    array([1.5, 1. ])
    """
    rewards, values, next_values, ratios, terminated, truncated = _checked(
        "v_trace",
        rewards,
        discount,
        lam,
        values=values,
        next_values=next_values,
        ratios=ratios,
        terminated=terminated,
        truncated=truncated,
    )
    return _v_trace(
        rewards, values, next_values, ratios, terminated, truncated, discount, lam, clip_targets, clip_advantages
    )
