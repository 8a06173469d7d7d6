"""Games: a description, and a few rules that are compiled.

Rules work in place on *states*, records of fixed size (NumPy structured dtypes); the API around them, `State`, is
Python's. A search, an environment or a match compiles the rules into its own loops: they never come back to Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from triskele.core import random
from triskele.core.extend import check

from .board import board_html
from .errors import GameError, IllegalActionError
from .rules import rule_kernels
from .rules.discounted import account_fields, discounted
from .rules.fingerprint import fingerprint, plain
from .rules.first_use import checks
from .rules.rule_function import rule_function
from .rules.shipped import rule_options
from .rules.state_dtype import given, record_dtype
from .rules.wiring import wire

__all__ = ["CHANCE", "Game", "Rules", "State", "look"]

CHANCE = -1  # who is to move where chance decides


class Rules(NamedTuple):
    """The functions of a game. `state` is one record, changed in place; all other arrays are written whole.

    Attributes
    ----------
    initial : function (state)
        Write the first position into `state`, which is filled with zeros.
    player : function (state) -> int
        The player to move, 0 ... num_players - 1, or CHANCE. Not called in terminal positions.
    legal_actions : function (state, mask)
        Write mask[num_actions] (bool). Not called in terminal positions and at chance nodes.
    step : function (state, action)
        Play a legal action, or let a chance outcome happen.
    terminal : function (state) -> bool
    returns : function (state, out)
        Write out[num_players] (float64): the return of each player when the game is over.
    observe : function (state, player, out)
        Write out[observation_shape] (float32): the position as `player` sees it, for networks.
    chance : function (state, probabilities), optional
        Write probabilities[num_outcomes] (float64), at chance.
    random_action : function (state, stream) -> int, optional
        A legal action drawn uniformly with `random.below(stream, n)`, if that is faster than drawing from the mask.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> rules = rl.games.TicTacToe().rules()
    >>> callable(rules.step), rules._fields[:2]
    (True, ('initial', 'player'))
    """

    initial: Callable
    player: Callable
    legal_actions: Callable
    step: Callable
    terminal: Callable
    returns: Callable
    observe: Callable
    chance: Callable | None = None
    random_action: Callable | None = None


class Game:
    """Base of games. A subclass gives the attributes, and the functions of `Rules` as static methods.

    A game with parameters (a board of any size) overrides `rules` instead, and returns functions that close over them.
    When a game is first used, a few moves are played as `check_game` plays them; from then on its attributes cannot be
    changed.

    Attributes
    ----------
    num_players, num_actions : int
    num_outcomes : int
        Number of outcomes of a chance event; 0 without chance.
    state : numpy.dtype, or list of fields
        Fields of a position.
    observation_shape : tuple of int
    max_length : int
        Largest number of moves of a game, including chance events.
    reward : function (state, out), optional
        Write out[num_players] (float64): what the step to this position has earned. Returns are then the sums of all
        rewards and of what `returns` writes, which counts with the last reward.
    discount : float
        A reward counts `discount` times as much as one that is a decision earlier. In searches, returns and values
        are those from the root on, and those of evaluators from their position on. 1 by default.

    Examples
    --------
    Players take one or two matches in turn; whoever takes the last one wins:

    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> class Matches(rl.Game):
    ...     num_players, num_actions, max_length, observation_shape = 2, 2, 7, (1,)
    ...     state = [("left", np.int64), ("player", np.int64)]
    ...     @staticmethod
    ...     def initial(state):
    ...         state.left = 7
    ...     @staticmethod
    ...     def player(state):
    ...         return state.player
    ...     @staticmethod
    ...     def legal_actions(state, mask):
    ...         mask[0], mask[1] = True, state.left > 1
    ...     @staticmethod
    ...     def step(state, action):
    ...         state.left -= action + 1
    ...         state.player = 1 - state.player
    ...     @staticmethod
    ...     def terminal(state):
    ...         return state.left == 0
    ...     @staticmethod
    ...     def returns(state, out):
    ...         out[1 - state.player], out[state.player] = 1.0, -1.0
    ...     @staticmethod
    ...     def observe(state, player, out):
    ...         out[0] = state.left
    >>> state = Matches().initial_state().play(0, 1, 0)
    >>> state.player, state.legal_actions, state.terminal
    (1, [0, 1], False)
    """

    num_players: int
    num_actions: int
    num_outcomes: int = 0
    state: Any
    observation_shape: tuple[int, ...]
    max_length: int
    reward: Callable | None = None
    discount: float = 1.0

    @property
    def name(self) -> str:
        """Name of the game, for messages."""
        return type(self).__name__

    def __setattr__(self, name: str, value: Any) -> None:
        if "_functions" in vars(self):
            raise GameError(f"{self.name}: {name} cannot be changed once the rules are compiled (make another game)")
        super().__setattr__(name, value)

    def rules(self) -> Rules:
        """The rules as Python functions (or Numba functions), which `compiled` makes into parts of kernels."""
        missing = [n for n in Rules._fields[:7] if not callable(getattr(self, n, None))]
        if missing:
            raise GameError(
                f"{self.name}: a game needs the function{'s' if len(missing) > 1 else ''} "
                f"{', '.join(missing)} (static methods)"
            )
        return Rules._make(getattr(self, n, None) for n in Rules._fields)

    def draw(self, state: State) -> str:
        """The position as text for a terminal."""
        return str(state.data[0])

    def action_name(self, state: State, action: int) -> str:
        """An action as players write it."""
        return str(action)

    def parse_action(self, state: State, text: str) -> int:
        """Return the action whose `action_name` is `text`."""
        for action in state.legal_actions:
            if self.action_name(state, action) == text:
                return action
        raise IllegalActionError(
            f"{self.name}: {text!r} is not legal after {state.moves} (legal: "
            f"{', '.join(self.action_name(state, a) for a in state.legal_actions)})"
        )

    @functools.cached_property
    def dtype(self) -> np.dtype:
        """NumPy dtype of a state record."""
        dtype = record_dtype(self.name, self.state, GameError)
        if self.reward is not None:
            fields = account_fields(self.num_players)
            for name, *_ in fields:
                if name in (dtype.names or ()):
                    raise GameError(f"{self.name}: a state with rewards has a field {name!r} already (rename yours)")
            dtype = np.dtype([*((n, dtype[n]) for n in dtype.names or ()), *fields], align=True)
        return _without_gaps(dtype)

    @functools.cached_property
    def compiled(self) -> Rules:
        """The rules for use inside kernels (and only there)."""
        return self._compiled()

    def _compiled(self, **options):
        """Rules for compiled callers, after the check at the first use."""
        checks().check_game_once(self)
        return Rules._make(None if f is None else rule_function(f, _nrt=True, **options) for f in self._functions)

    @functools.cached_property
    def key(self) -> str:
        """Hash of the rules and the description: what is compiled for one key serves every game that has it."""
        numbers = (
            self.num_players,
            self.num_actions,
            self.num_outcomes,
            tuple(self.observation_shape),
            self.max_length,
        )
        return fingerprint(
            numbers, self.dtype, [f for f in self._functions if f is not None], [f is not None for f in self._functions]
        )

    @functools.cached_property
    def _functions(self):
        if self.reward is None:
            return self.rules()
        check.number(self.discount, f"{self.name}: discount", 0, 1, error=GameError)
        return discounted(self.rules(), plain(self.reward), self.num_players, float(self.discount))

    @functools.cached_property
    def kernels(self) -> Any:
        """Module of kernels on arrays of states: `initial`, `look`, `play`, `observe`, `returns`.

        Unlike in searches, the indices in users' rules are checked here.
        """
        options = rule_options(self)
        rules = self._compiled(**options)
        rules = rules._replace(chance=rules.chance or rule_kernels.no_chance)
        templates = [getattr(rule_kernels, name) for name in rule_kernels.__all__[:-1]]
        title = f"Rules of {self.name} on arrays of states. {self.key}{' checked' * bool(options)}"
        return wire("game", title, templates, {"rules": rules}, nogil=True)

    def new_states(self, count: int) -> np.ndarray:
        """(count,) first positions, as records for kernels."""
        states = np.zeros(count, self.dtype)
        self.kernels.initial(states)
        return states

    def initial_state(self) -> State:
        """The first position."""
        return self.at(self.new_states(1))

    def at(self, data: np.ndarray, moves: tuple[int, ...] = ()) -> State:
        """The position of a (1,) record."""
        return State(self, data, moves)

    __getstate__ = given

    def __repr__(self) -> str:
        return f"{self.name}()"


class State:
    """An immutable position: playing returns a new one.

    Attributes
    ----------
    game : Game
    data : (1,) array of records
    moves : tuple of int
        Actions played, chance outcomes included.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> state = rl.games.TicTacToe().initial_state().play(4, 0)
    >>> state.moves, state.player
    ((4, 0), 0)
    """

    __slots__ = ("_looked", "data", "game", "moves")

    def __init__(self, game: Game, data: np.ndarray, moves: tuple[int, ...]):
        self.game, self.data, self.moves = game, data, moves
        self._looked: tuple[int, bool, np.ndarray, np.ndarray] | None = None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def _look(self):
        if self._looked is None:
            players, over, masks, probabilities = look(self.game, self.data)
            self._looked = int(players[0]), bool(over[0]), masks[0], probabilities[0]
        return self._looked

    @property
    def player(self) -> int:
        """The player to move, or CHANCE."""
        return self._look()[0]

    @property
    def terminal(self) -> bool:
        """Return True if the game is over."""
        return self._look()[1]

    @property
    def legal_mask(self) -> np.ndarray:
        """(num_actions,) bool; all False at chance and when the game is over."""
        return self._look()[2].copy()

    @property
    def legal_actions(self) -> list[int]:
        """Legal actions; at chance nodes, the possible outcomes."""
        return np.flatnonzero(self._look()[2] if self.player != CHANCE else self._look()[3] > 0).tolist()

    @property
    def chance(self) -> np.ndarray:
        """(num_outcomes,) probabilities; all 0 unless chance is to move."""
        return self._look()[3].copy()

    @property
    def returns(self) -> np.ndarray:
        """(num_players,) float64; raises GameError before the end of the game."""
        if not self.terminal:
            raise GameError(
                f"{self.game.name}: returns are known when the game is over, which it is not after {self.moves}"
            )
        return self._returns()

    def _returns(self):
        out = np.zeros((1, self.game.num_players))
        self.game.kernels.returns(self.data, out)
        return out[0]

    def observation(self, player: int | None = None) -> np.ndarray:
        """Return the network input: float32 array of `observation_shape`, as the player to move (or `player`) sees it.

        Raises
        ------
        GameError
            If the player does not exist. At chance nodes `player` must be given.
        """
        seen = self.player if player is None else player
        if isinstance(seen, bool) or not isinstance(seen, (int, np.integer)) or not 0 <= seen < self.game.num_players:
            raise GameError(
                f"{self.game.name}: observation needs a player from 0 to {self.game.num_players - 1}, got "
                f"{seen!r}{' (chance)' * (player is None)}"
            )
        return self._observation(int(seen))

    def _observation(self, player):
        out = np.zeros((1, *self.game.observation_shape), np.float32)
        self.game.kernels.observe(self.data, np.array([player]), out)
        return out[0]

    def play(self, *actions: int) -> Self:
        """Return the position after a sequence of actions.

        Raises
        ------
        IllegalActionError
            If one of them is not legal.
        """
        state = self
        for action in actions:
            if state.terminal:
                raise IllegalActionError(
                    f"{self.game.name}: the game is over after {state.moves}, got action {action!r}"
                )
            legal = state.legal_actions
            if isinstance(action, bool) or not isinstance(action, (int, np.integer)) or action not in legal:
                raise IllegalActionError(
                    f"{self.game.name}: action {action!r} is not legal after {state.moves} (legal: {legal})"
                )
            state = state.child(int(action))
        return state

    def play_chance(self, seed: int) -> Self:
        """Return the position after outcomes of chance, drawn by their probabilities, until a player is to move or the
        game is over.

        Parameters
        ----------
        seed : int
            The same seed gives the same outcomes in the same position.

        Examples
        --------
        >>> from triskele import reinforce as rl
        >>> state = rl.games.Pig().initial_state().play(0)  # rolls
        >>> state.player == rl.CHANCE, state.play_chance(seed=1).player
        (True, 0)
        """
        state = self
        while not state.terminal and state.player == CHANCE:
            u = float(random.uniform(random.fold_in(random.key(seed), len(state.moves))))
            likely = np.cumsum(state.chance)
            state = state.child(int(np.searchsorted(likely, u * likely[-1], side="right")))
        return state

    def action_name(self, action: int) -> str:
        """An action as players write it."""
        return self.game.action_name(self, action)

    def child(self, action: int) -> Self:
        """The position after an action that is known to be legal."""
        data = self.data.copy()
        self.game.kernels.play(data, np.array([action]))
        return type(self)(self.game, data, (*self.moves, action))

    def __str__(self) -> str:
        return self.game.draw(self)

    def _repr_html_(self) -> str:
        after = f"{self.game.name} after {len(self.moves)} move{'s' * (len(self.moves) != 1)}"
        if self.terminal:
            next_ = f"over, returns {', '.join(f'{r:g}' for r in self.returns)}"
        else:
            next_ = "chance to move" if self.player == CHANCE else f"player {self.player} to move"
        return board_html(f"{after}: {next_}", str(self))

    def __repr__(self) -> str:
        return f"<{self.game.name} after {list(self.moves)}>"

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, State) and self.game.key == other.game.key and self.data.tobytes() == other.data.tobytes()
        )

    def __hash__(self) -> int:
        return hash(self.data.tobytes())


def look(game: Any, records: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Evaluate (N,) records: player to move (or CHANCE), end of the game, legal masks (N, actions), probabilities of
    outcomes (N, outcomes).
    """
    n = len(records)
    found = (
        np.zeros(n, np.int64),
        np.zeros(n, bool),
        np.zeros((n, game.num_actions), bool),
        np.zeros((n, game.num_outcomes)),
    )
    game.kernels.look(records, *found)
    return found


def _without_gaps(dtype):
    """The record with its gaps made fields: NumPy copies only fields, and positions are compared, and hashed, as
    bytes.
    """
    fields, end = [], 0
    for name in sorted(dtype.names, key=lambda n: dtype.fields[n][1]):
        kind, offset = dtype.fields[name][:2]
        fields += [(f"gap_{end}", "u1", offset - end)] * (offset > end) + [(name, kind)]
        end = offset + kind.itemsize
    fields += [(f"gap_{end}", "u1", dtype.itemsize - end)] * (dtype.itemsize > end)
    return np.dtype(fields, align=True)


def as_records(game: Game, states: State | Sequence[State] | np.ndarray, where: str) -> tuple[np.ndarray, bool]:
    """(N,) records of one position or several, and whether it was one. A copy."""
    single = isinstance(states, State)
    if isinstance(states, np.ndarray):
        if states.dtype != game.dtype:
            raise GameError(
                f"{where}: states must be records of {game.name} (dtype {game.dtype}), got dtype {states.dtype}"
            )
        return np.atleast_1d(states).copy(), states.ndim == 0
    given: Any = [states] if single else states
    for s in given:
        if not isinstance(s, State) or s.game.key != game.key:
            raise GameError(f"{where}: states must be positions of {game.name}, got {s!r:.80}")
    return np.concatenate([s.data for s in given]), single
