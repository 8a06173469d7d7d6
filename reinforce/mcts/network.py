"""Evaluators that take positions in batches: networks, as one compiled program from observations and masks, and Python
functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import Jitted, check

from ..errors import EvaluatorError
from ..game import Game
from ..policy import Categorical, Policy
from ..rules.program import Batch

__all__ = ["BatchFunction", "Network", "PolicyPriors", "masked_softmax"]


def masked_softmax(logits: Any, mask: Any) -> Any:
    """Probabilities in proportion to exp(logits) where `mask`, else 0; NaN where a legal logit is NaN or all are
    -inf.
    """
    top = np.max(np.where(mask, logits, -np.inf), axis=-1, keepdims=True)
    weights = np.where(mask, np.exp(np.where(mask, logits - top, 0.0)), 0.0)
    return weights / np.sum(weights, axis=-1, keepdims=True)


class Network:
    """A policy and value network for searches.

    Parameters
    ----------
    net : callable
        ``net(params, observations) -> (logits, values)`` in NumPy, as `core.jit` takes it, or without `params` a
        `core.nn` layer, or any tree of arrays, called as ``net(observations)``. Observations are (batch,
        *observation_shape) float32, logits (batch, num_actions); values are (batch,) or (batch, 1) for the player to
        move (the opponent gets the negative), or (batch, num_players) for each player.
    params : tree of arrays, optional

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core, reinforce as rl
    >>> net = core.nn.MLP.init(core.random.key(0), [18, 32, 10])
    >>> def apply(net, observations):
    ...     out = net(observations.reshape(-1, 18))
    ...     return out[:, :9], np.tanh(out[:, 9])
    >>> evaluator = rl.Network(apply, net)
    """

    gives_priors = True

    def __init__(self, net: Callable, params: Any = None):
        check.kind(
            net, Callable, "Network: net", "a function (params, observations) -> (logits, values)", error=EvaluatorError
        )
        self._apply = net if params is not None else _call
        self.params = net if params is None else params
        self._jitted: dict[tuple[int, int], Jitted] = {}

    def __getstate__(self):
        return {**vars(self), "_jitted": {}}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {sum(np.size(x) for x in core.tree.leaves(self.params)):,} numbers>"

    def with_params(self, params: Any) -> Network:
        """Return the network with other parameters of the same shapes, without recompilation."""
        other = Network.__new__(Network)
        other._apply, other.params, other._jitted = self._apply, params, self._jitted
        return other

    def batch(self, game: Game, rows: int) -> Batch:
        """Return the program for that many positions, of observations and masks; priors and values (rows, 1 or
        num_players), float32.
        """
        where, players, actions = f"Network for {game.name}", game.num_players, game.num_actions
        key = (players, actions)
        if key not in self._jitted:
            apply = self._apply

            def evaluate(params, observations, masks):
                return _checked(where, apply(params, observations), masks, players, actions)

            self._jitted[key] = core.jit(evaluate)
        return Batch(self._jitted[key], self.params, rows, (game.observation_shape, np.float32), ((actions,), np.bool_))


def _call(net, observations):
    return net(observations)


class PolicyPriors(Network):
    """A trained policy of discrete actions, as `PPO` and `AlphaZero` learn it, as a network for searches.

    The policy's probabilities are the priors. Values are those of its network, if it has a method
    ``with_values(observations) -> (logits, values)`` as that of `AlphaZero` has; otherwise a position that is not over
    counts as 0.
    """

    def __init__(self, policy: Policy):
        check.kind(
            policy.head,
            Categorical,
            "MCTS: the head of a policy as evaluator",
            error=EvaluatorError,
            hint="probabilities of discrete actions",
        )
        super().__init__(_of_policy, (policy.head.network, policy.normalizer))
        self._policy = policy

    def batch(self, game: Game, rows: int) -> Batch:
        """See `Network`."""
        ours, theirs = (
            (tuple(self._policy.observation_shape), self._policy.num_actions),
            (tuple(game.observation_shape), game.num_actions),
        )
        if ours != theirs:
            raise EvaluatorError(
                f"MCTS: the policy is for observations {ours[0]} and {ours[1]} actions, got "
                f"{game.name} with observations {theirs[0]} and {theirs[1]} actions"
            )
        return super().batch(game, rows)


def _of_policy(params, observations):
    network, normalizer = params
    x = observations if normalizer is None else normalizer(observations)
    return network.with_values(x) if hasattr(network, "with_values") else (network(x), None)


def _checked(where, out, masks, players, actions):
    batch = masks.shape[0]
    if not isinstance(out, tuple) or len(out) != 2:
        raise EvaluatorError(f"{where}: net must return (logits, values), got {type(out).__name__}")
    logits, values = out
    check.shape(logits, (batch, actions), f"{where}: logits", error=EvaluatorError)
    if values is None:
        values = np.zeros((batch, players), np.float32)
    check.shape(
        values,
        [(batch,), (batch, 1), (batch, players)] if players <= 2 else (batch, players),
        f"{where}: values",
        error=EvaluatorError,
        hint=f"{players} players",
    )
    if np.shape(values) == (batch,):
        values = values[:, None]
    return masked_softmax(logits, masks).astype(np.float32), values.astype(np.float32)


class BatchFunction:
    """An evaluator in Python, called once for each batch of positions.

    Parameters
    ----------
    function : callable
        ``function(observations) -> (logits, values)`` on NumPy arrays, with shapes as in `Network`. Logits of illegal
        actions are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> game = rl.games.TicTacToe()
    >>> uniform = rl.BatchFunction(lambda x: (np.zeros((len(x), 9)), np.zeros(len(x))))
    >>> search = rl.MCTS(game, simulations=50, policy=rl.PUCT(), evaluator=uniform, seed=0)
    >>> int(search(game.initial_state()).visits.sum())
    50
    """

    gives_priors = True

    def __init__(self, function: Callable):
        self.function = check.kind(function, Callable, "MCTS: evaluator", error=EvaluatorError)

    def evaluate(
        self, where: str, game: Game, observations: np.ndarray, masks: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Priors (batch, num_actions) and values (batch, 1 or num_players), float32; errors begin with `where`."""
        try:
            out = self.function(observations)
        except Exception as error:
            raise EvaluatorError(f"{where}: raised {type(error).__name__}: {error}") from error
        if isinstance(out, (tuple, list)) and len(out) == 2:
            try:
                # tensors of PyTorch that carry gradients
                out = tuple(np.asarray(x.detach() if hasattr(x, "detach") else x, np.float32) for x in out)
            except (TypeError, ValueError) as error:
                raise EvaluatorError(f"{where}: logits and values must be arrays of numbers ({error})") from error
        with np.errstate(all="ignore"):
            return _checked(where, out, masks, game.num_players, game.num_actions)

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", "evaluator")
