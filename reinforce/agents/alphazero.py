"""AlphaZero: a network that learns from games of its own search."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from triskele import core
from triskele.core import nn, optim, random
from triskele.core.extend import Reports, check

from ..distribution.actors import Port
from ..errors import GameError
from ..game import Game
from ..matches.match import MatchResult, play_match
from ..mcts.network import Network
from ..mcts.policies.gumbel import Gumbel
from ..mcts.policies.puct import PUCT
from ..mcts.search import MCTS
from ..policy import Categorical, Policy
from ..training.agent import Agent
from ..training.episodes import Episodes
from .networks import Logits, PolicyValue
from .self_play import PositionBuffer, SelfPlay, position_bytes

__all__ = ["AlphaZero", "alphazero_loss"]

_FORBIDDEN = -1e8  # logit of an illegal action: exp of it is 0, and its product with 0 stays 0


class AlphaZero(Agent):
    """Policy iteration by search, for games of two players whose returns sum to 0, with or without chance.

    Many games are played side by side, both sides by the same search with the network; the network learns what the
    searches found and how the games ended. ``agent.train(100_000)`` plays 100,000 moves. ``agent.search(200)`` plays
    what was learned, ``agent.policy`` the network without a search.

    Parameters
    ----------
    game : Game
    net : callable tree, optional
        Custom network from observations [N, ...] to logits [N, actions] and values [N] in [-1, 1] for who
        moves. By default a residual one for boards (observations of three axes), else linear layers; see `PolicyValue`.
    seed : int
        Seed of games, weights and minibatches.
    num_games, moves : int
        Games side by side, and moves of each in an iteration.
    simulations : int
        Number of simulations of the search for a move.
    policy : Gumbel or PUCT, optional
        Selection policy of the search. Defaults to PUCT with noise at the root.
    temperature_moves : int
        Length of the opening of a game, in which moves are drawn from the policy that a search found; afterwards the
        best is played.
    value_mix : float
        Weight of the search's mean value in the target of a value; the rest is the outcome of the game.
    buffer_size : int
        Number of most recent positions to learn from.
    learning_starts : int
        Number of positions in the buffer before the first update.
    batch_size, updates : int
        Positions per update, and updates per iteration.
    learning_rate, weight_decay : float
        Learning rate and weight decay of AdamW.
    max_grad_norm, value_weight : float
        Norm at which gradients are clipped, and weight of the value loss.
    symmetries : sequence of functions
        Each takes (observations [N, ...], policies [N, actions]) to those of equivalent positions by moving entries,
        such as mirroring; positions are learned from under a random one of them, or as they are.

    Raises
    ------
    ValueError
        For a hyper-parameter out of range.
    GameError
        If the game does not have two players, its rules are not compiled, or a network or symmetry does not fit it.

    References
    ----------
    Silver et al., *A general reinforcement learning algorithm that masters chess, shogi, and Go through self-play*,
    Science 362 (2018) 1140. Danihelka et al., *Policy improvement by planning with Gumbel*, ICLR 2022.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> game = rl.games.TicTacToe()
    >>> agent = rl.AlphaZero(game, num_games=16, simulations=8, seed=0).train(512, progress=False)
    >>> agent.search(50)(game.initial_state().play(0, 3, 1, 4)).action  # x wins
    2
    """

    kept = ("weights", "moments", "iteration", "updates", "losses", "_buffer.state", "_games")

    def __init__(
        self,
        game: Game,
        net: Any = None,
        *,
        seed: int = 0,
        num_games: int = 256,
        moves: int = 8,
        simulations: int = 64,
        policy: Any = None,
        temperature_moves: int = 30,
        value_mix: float = 0.9,
        buffer_size: int = 100_000,
        learning_starts: int = 2000,
        batch_size: int = 256,
        updates: int = 64,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-4,
        max_grad_norm: float = 1.0,
        value_weight: float = 1.0,
        symmetries: Sequence[Callable] = (),
    ):
        given = {k: v for k, v in locals().items() if k not in ("self", "game", "__class__")}
        if callable(symmetries) or not all(callable(f) for f in symmetries):
            raise ValueError(f"AlphaZero: symmetries must be a sequence of functions, got {symmetries!r:.80}")
        super().__init__(
            game,
            {
                **given,
                "policy": PUCT(dirichlet=(0.5, 0.25)) if policy is None else policy,
                "symmetries": tuple(symmetries),
            },
        )
        s = self.settings
        self.check_settings(
            integers=["num_games", "moves", "simulations", "buffer_size", "learning_starts", "batch_size", "updates"],
            positive=["learning_rate", "max_grad_norm"],
            not_negative=["temperature_moves", "weight_decay", "value_weight"],
            fractions=["value_mix"],
        )
        check.integer(seed, "AlphaZero: seed", 0, 2**63 - 1)
        if s.learning_starts > s.buffer_size:
            raise ValueError(
                f"AlphaZero: buffer_size must hold learning_starts = {s.learning_starts} positions, got {s.buffer_size}"
            )
        check.kind(s.policy, (Gumbel, PUCT), "AlphaZero: policy", "Gumbel(...) or PUCT(...)", error=ValueError)
        have, kept = _memory(), s.buffer_size + s.num_games * game.max_length
        if kept * position_bytes(game) > have:
            raise ValueError(
                f"AlphaZero: buffer_size and num_games must fit into memory, got {s.buffer_size} "
                f"positions and {s.num_games} games of up to {game.max_length} moves, "
                f"{kept * position_bytes(game) / 2**30:.1f} of {have / 2**30:.1f} GiB"
            )
        leaves, self._structure = core.tree.flatten(_network(random.key(seed), game, net))
        self.weights = tuple(leaves)  # flat: a tree would be taken apart and built again in every search
        self.moments = optim.Adam().init(self.weights)
        self.iteration = self.updates = 0
        self.losses: dict[str, float | None] = {"policy_loss": None, "value_loss": None}
        self._evaluator = Network(self._apply, self.weights)
        self._buffer = PositionBuffer(game, s.buffer_size, s.symmetries)
        self._games: dict[str, Any] | None = None  # as actors left them
        self.ports = {
            "positions": Port(np.uint8, "positions", game.dtype.itemsize),
            "policies": Port(np.float32, "positions", game.num_actions),
            "values": Port(np.float32, "positions"),
            "lengths": Port(np.int64, "games"),
            "outcomes": Port(np.float64, "games"),
        }
        self._update = core.jit(self._updated)

    def _enter(self, game):
        check.kind(game, Game, "AlphaZero: game", "a Game with compiled rules", error=GameError)
        if game.num_players != 2:
            raise GameError(
                f"AlphaZero: games have two players whose returns sum to 0, {game.name} has {game.num_players}"
            )
        self.game, self.episodes = game, Episodes.start(0)

    # -- fragments -----------------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The parameters of the network, for actors."""
        return self.weights

    def actor(self, k: int, actors: int) -> SelfPlay:
        """Return actor `k` of those that share the games."""
        s = self.settings
        if s.num_games % actors:
            raise ValueError(
                f"AlphaZero: num_games must be a multiple of the number of actors, got {s.num_games} and {actors}"
            )
        return SelfPlay(
            self.game,
            self._evaluator.with_params(self.weights),
            s.policy,
            num_games=s.num_games // actors,
            moves=s.moves,
            simulations=s.simulations,
            temperature_moves=s.temperature_moves,
            value_mix=s.value_mix,
            seed=s.seed,
            number=k,
            stopped=lambda: bool(self.interrupted),
        )

    def learn_from(self, experiences: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
        """Store the experience of actors and update the network; return losses and the size of the buffer."""
        s = self.settings
        for e in experiences:
            self._buffer.extend(e["positions"], e["policies"], e["values"])
            self.episodes.finish(e["outcomes"], e["lengths"])
        self.iteration += 1
        self.steps += s.num_games * s.moves
        if len(self._buffer) >= s.learning_starts:
            weights, moments, losses = self._update(self.weights, self.moments, self._batches())
            self.check_finite("the loss", *losses.values())
            self.weights, self.moments, self.losses = weights, moments, {k: float(v) for k, v in losses.items()}
            self.updates += s.updates
        return {**self.losses, "updates": self.updates, "positions": len(self._buffer)}

    def deal(self, actors: int) -> list[dict[str, Any] | None]:
        """The running games, divided among the actors."""
        if self._games is None:
            return [None] * actors
        parts = {name: np.split(a, actors) for name, a in self._games.items() if name != "collections"}
        return [
            {"collections": self._games["collections"], **{name: p[k] for name, p in parts.items()}}
            for k in range(actors)
        ]

    def gather(self, states: Sequence[dict[str, Any]]) -> None:
        """Keep the running games of all actors."""
        self._games = {
            name: np.concatenate([s[name] for s in states]) if np.ndim(a) else max(s[name] for s in states)
            for name, a in states[0].items()
        }

    def _batches(self):
        """Minibatches of this iteration's updates, [updates, batch_size, ...]."""
        s = self.settings
        rng = np.random.Generator(np.random.Philox(key=s.seed, counter=[0, 0, 2**63, self.iteration]))
        batch = self._buffer.sample(rng, s.updates * s.batch_size)
        return {name: a.reshape(s.updates, s.batch_size, *a.shape[1:]) for name, a in batch.items()}

    def _updated(self, weights, moments, batches):
        """All updates of an iteration: (weights, state of AdamW, means of the losses)."""
        s = self.settings
        optimizer = optim.AdamW(s.learning_rate, weight_decay=s.weight_decay)

        def step(carry, batch):
            weights, moments = carry
            (_, losses), grads = core.value_and_grad(
                lambda w: alphazero_loss(core.tree.unflatten(self._structure, w), batch, s.value_weight), has_aux=True
            )(weights)
            return optimizer.step(weights, optim.clip_by_global_norm(grads, s.max_grad_norm), moments), losses

        (weights, moments), losses = core.scan(step, (weights, moments), batches)
        return weights, moments, core.tree.map(np.mean, losses)

    def _apply(self, weights, x):
        return core.tree.unflatten(self._structure, weights)(x)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    @property
    def net(self) -> Any:
        """The current network."""
        return core.tree.unflatten(self._structure, self.weights)

    @property
    def policy(self) -> Policy:
        """The network's policy without a search; see `Agent`."""
        return Policy(Categorical(Logits(self.net)), tuple(self.game.observation_shape), None, self.game.num_actions)

    def search(self, simulations: int = 200, **options: Any) -> MCTS:
        """Return a search with the current network, which can play in `play_match`.

        Parameters
        ----------
        simulations : int
        **options
            Options of `MCTS`. The policy defaults to PUCT without noise.
        """
        return MCTS(
            self.game,
            simulations,
            **{"policy": PUCT(), "evaluator": self._evaluator.with_params(self.weights), **options},
        )

    def evaluate(  # type: ignore[override]
        self,
        games: int = 100,
        opponent: Any = None,
        *,
        simulations: int = 200,
        seed: int = 0,
        report: Reports = None,
        progress: bool | None = None,
    ) -> MatchResult:
        """Play a match of the search with the network against another player, without affecting the training.

        Parameters
        ----------
        games : int
        opponent : optional
            As `play_match` takes players; by default a search of 1,000 simulations with random rollouts.
        simulations : int
            Number of simulations of each search with the network.
        seed : int
            Seed of the match, which differs from that of a training of the same seed.
        report, progress
            See `play_match`.
        """
        opponent = MCTS(self.game, 1000) if opponent is None else opponent
        return play_match(
            self.game,
            {"AlphaZero": self.search(simulations), "opponent": opponent},
            games,
            seed=seed + 1,
            report=report,
            progress=progress,
        )

    @classmethod
    def load(cls, path: str | os.PathLike, game: Game, known: Sequence[Any] = ()) -> Self:  # type: ignore[override]
        """Load an agent that `save` has written; ``train()`` resumes it bit for bit. See `Agent.load`."""
        return super().load(path, game, known)

    @property
    def _spaces(self):
        return (
            f"observations {tuple(self.game.observation_shape)} and {self.game.num_actions} actions, positions "
            f"{self.game.dtype}"
        )

    def _environment(self):
        return None

    def __repr__(self) -> str:
        return f"<{self.name} on {self.game!r} after {self.steps} moves>"


def alphazero_loss(net: Any, batch: dict[str, Any], value_weight: float = 1.0) -> tuple[Any, dict[str, Any]]:
    """Return the loss of a minibatch, the cross entropy of the policies plus `value_weight` times the mean square error
    of the values, and its parts.

    `batch` holds arrays (M, ...): observations ``x``, legal actions ``mask``, and the targets ``policy`` and ``value``.
    """
    logits, values = net(batch["x"])
    log_p = nn.log_softmax(np.where(batch["mask"], logits, np.asarray(_FORBIDDEN, np.result_type(logits))))
    policy_loss = -np.mean(np.sum(batch["policy"] * log_p, axis=-1))
    value_loss = np.mean((values - batch["value"]) ** 2)
    return policy_loss + value_weight * value_loss, {"policy_loss": policy_loss, "value_loss": value_loss}


def _network(key, game, net):
    """A fresh network, or the user's, which must fit the game."""
    shape, actions = tuple(game.observation_shape), game.num_actions
    if net is None:
        return (
            PolicyValue.residual(key, shape, actions)
            if len(shape) == 3
            else PolicyValue.perceptron(key, shape, actions)
        )
    check.kind(net, Callable, "AlphaZero: net", "a network (observations) -> (logits, values)", error=GameError)
    if isinstance(net, type) or not all(isinstance(x, np.ndarray) for x in core.tree.leaves(net)):
        raise GameError(
            f"AlphaZero: net must be a tree of arrays that can be called, such as rl.PolicyValue or a "
            f"dataclass of core.nn's layers, got {net!r:.80}"
        )
    try:
        out = net(np.zeros((2, *shape), np.float32))
    except Exception as error:  # whatever a network raises
        raise GameError(
            f"AlphaZero: net must take observations {shape} of {game.name}, but raised {type(error).__name__}: {error}"
        ) from error
    got = tuple(np.shape(x) for x in out) if isinstance(out, tuple) else type(out).__name__
    if got != ((2, actions), (2,)):
        raise GameError(
            f"AlphaZero: net must give logits {(2, actions)} and values (2,) for two observations {shape} "
            f"of {game.name}, got {got}"
        )
    return net


def _memory():
    """Return the physical memory of the machine in bytes, or infinity if it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return np.inf
