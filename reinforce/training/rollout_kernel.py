"""The loop over time of a collection: one kernel for all environments and all networks, which it calls by address."""

import math

from triskele.core.extend import kernel

from ..rules.program import run_all
from ..vector.run import run

__all__ = ["DONE", "ENV_FAILED", "POLICY_FAILED", "run_policy"]

DONE, POLICY_FAILED, ENV_FAILED = range(3)  # how a collection ended


@kernel(nogil=True)
def run_policy(
    calls,
    x,
    draws,
    allowed,
    action,
    played,
    log_prob,
    value,
    context,
    num_actions,
    chunks,
    function,
    noises,
    observations,
    masks,
    actions,
    log_probs,
    values,
    rewards,
    terminated,
    truncated,
):
    """Fill the arrays of a `Rollout` and return DONE, POLICY_FAILED or ENV_FAILED.

    Where nothing is masked, masks have 0 columns.

    It also ends early at an action that is none, as NaN is: ENV_FAILED, and the log probabilities from there on are
    NaN.
    """
    # Loops, not slices: those take Numba four times as long to compile.
    n, width, size = observations.shape[1], observations.shape[2], noises.shape[2]
    for t in range(len(rewards)):
        for i in range(n):
            log_probs[t, i] = math.nan
    for t in range(len(noises)):
        for i in range(n):
            for k in range(width):
                x[i, k] = observations[t, i, k]
            for k in range(size):
                draws[i, k] = noises[t, i, k]
            for k in range(masks.shape[2]):
                allowed[i, k] = masks[t, i, k]
        if run_all(calls) != 0:
            return POLICY_FAILED
        for i in range(n):
            values[t, i] = value[i]
        if t == len(rewards):
            break
        if not run(
            context,
            num_actions,
            played,
            observations[t + 1],
            rewards[t],
            terminated[t],
            truncated[t],
            masks[t + 1],
            chunks,
            function,
        ):
            return ENV_FAILED
        for i in range(n):
            log_probs[t, i] = log_prob[i]
            for k in range(actions.shape[2]):
                actions[t, i, k] = action[i, k]
    return DONE
