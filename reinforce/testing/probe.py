"""A game's rules called one at a time, with bounds checked and guard bytes around everything that they are given.

`check_game` is made of this. What a rule must not do ends in a GameError that names the rule and the moves so far.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, NoReturn

import numpy as np

from triskele.core.extend import load_module

from ..errors import GameError
from ..game import CHANCE, Game, Rules
from ..rules.fingerprint import fingerprint, plain
from ..rules.rule_function import rule_function
from ..rules.uncompilable import essence

__all__ = ["Probe"]

_ARGUMENTS = {
    "initial": "state",
    "player": "state",
    "legal_actions": "state, mask",
    "step": "state, action",
    "terminal": "state",
    "returns": "state, out",
    "observe": "state, player, out",
    "chance": "state, probabilities",
    "random_action": "state, stream",
}
_ANSWERS = ("terminal", "player", "random_action")  # rules that return something; the others write
_WRITTEN = ("player", "action", "mask", "out", "probabilities", "seen")  # what else a rule may be given
_NUMBER = {name: k for k, name in enumerate(_ARGUMENTS)}
_GUARD, _PATTERN = 64, 0xA5  # elements on either side of an array, and what their bytes are


class Probe:
    """A position of a game, to which `moves` led, and the game's rules under guard."""

    def __init__(self, game: Game):
        self.game = game
        self.moves: list[Any] = []
        self._fields = [n for n in game.dtype.names or () if not n.startswith("gap_")]
        self.rules = Rules._make(
            None if f is None else self._function(name, f) for name, f in game.rules()._asdict().items()
        )
        self._states = np.zeros(3, game.dtype)  # the middle one is the position
        self._given = {n: f for n, f in self.rules._asdict().items() if f is not None}
        self._ask = self._load({n: f for n, f in self._given.items() if n in _ANSWERS}).ask
        self._write = self._load({n: f for n, f in self._given.items() if n not in _ANSWERS}).write
        self._unused = {
            "player": 0,
            "action": 0,
            "mask": np.zeros(1, bool),
            "out": np.zeros(1),
            "probabilities": np.zeros(1),
            "stream": np.zeros(1, np.uint64),
            "drawn": np.zeros(1, np.int64),
            "seen": np.zeros((1,) * len(game.observation_shape), np.float32),
        }

    def fail(self, rule: str, what: str, cause: BaseException | None = None) -> NoReturn:
        """Raise the error."""
        raise GameError(f"{self.game.name}: {rule} {what}, after {tuple(self.moves)}") from cause

    @property
    def record(self) -> np.ndarray:
        """(1,) the position, a copy."""
        return self._states[1:2].copy()

    def start(self) -> None:
        """Go to the first position."""
        self.moves = []
        self._states[1] = np.zeros((), self.game.dtype)
        self._call("initial", changes=True)

    def step(self, action: int) -> None:
        """Play, or let an outcome happen."""
        self._call("step", action=action, changes=True, doing=f" of {action}")
        self.moves.append(action)

    def terminal(self) -> bool:
        """Return True if the game is over."""
        return bool(self._number("terminal", self._call("terminal"), "True or False"))

    def player(self) -> int:
        """The player to move."""
        player = int(self._number("player", self._call("player"), "an integer"))
        if player == CHANCE and self.rules.chance is None:
            self.fail("player", "is CHANCE in a game without the rule chance")
        if player != CHANCE and not 0 <= player < self.game.num_players:
            self.fail("player", f"must be 0 to {self.game.num_players - 1}, or CHANCE, got {player}")
        return player

    def legal_actions(self) -> np.ndarray:
        """Actions that the mask allows."""
        legal = np.flatnonzero(self._written("legal_actions", "mask", (self.game.num_actions,), bool))
        if not len(legal):
            self.fail("legal_actions", "allows nothing, though the game is not over")
        return legal

    def chance(self) -> np.ndarray:
        """(num_outcomes,) probabilities."""
        p = self._finite("chance", self._written("chance", "probabilities", (self.game.num_outcomes,), np.float64))
        if (p < 0).any() or abs(p.sum() - 1.0) > 1e-9:
            self.fail("chance", f"must give probabilities that sum to 1, got {p.tolist()} with the sum {p.sum():.12g}")
        return p

    def returns(self) -> np.ndarray:
        """(num_players,) what everybody has got."""
        return self._finite("returns", self._written("returns", "out", (self.game.num_players,), np.float64))

    def observe(self, player: int) -> np.ndarray:
        """Return the observation of a player."""
        return self._finite(
            "observe", self._written("observe", "seen", tuple(self.game.observation_shape), np.float32, player=player)
        )

    def random_actions(self, count: int, seed: int) -> np.ndarray:
        """(count,) draws of `random_action`."""
        drawn = np.zeros(count, np.int64)
        self._number(
            "random_action", self._call("random_action", stream=np.array([seed], np.uint64), drawn=drawn), "an integer"
        )
        return drawn

    def _function(self, name, function):
        try:
            function = plain(function)
        except GameError as error:
            hint = " (put @staticmethod before it)" if inspect.ismethod(function) else ""
            raise GameError(
                f"{self.game.name}: {name} must be a Python function or a Numba function, got a "
                f"{type(function).__name__}{hint}"
            ) from error
        expected, got = _ARGUMENTS[name], inspect.signature(function).parameters
        if len(got) != expected.count(",") + 1:
            raise GameError(f"{self.game.name}: {name} must have the arguments ({expected}), got ({', '.join(got)})")
        return function

    def _load(self, rules):
        source = _source(self.game, rules)
        return load_module(source, "check", {f"rule_{n}": rule_function(f, boundscheck=True) for n, f in rules.items()})

    def _call(self, rule, *, changes=False, doing="", **given):
        import numba.core.errors

        args = self._unused | given
        around = self._states.view(np.uint8).reshape(3, -1)
        around[0] = around[2] = _PATTERN
        before = around.copy()
        try:
            if rule in _ANSWERS:
                result = self._ask(_NUMBER[rule], self._states, args["stream"], args["drawn"])[_ANSWERS.index(rule)]
            else:
                result = self._write(_NUMBER[rule], self._states, *(args[n] for n in _WRITTEN))
        except (numba.core.errors.NumbaError, KeyError) as error:
            self._find_uncompilable(error)
        except Exception as error:  # noqa: BLE001  whatever a rule raises
            self.fail(rule + doing, f"raised {type(error).__name__}: {error}", error)
        if (around[::2] != _PATTERN).any():
            self.fail(rule + doing, "writes outside of the state")
        if not changes and (around[1] != before[1]).any():
            self.fail(rule, "changes the state, which only initial and step may do")
        return result

    def _find_uncompilable(self, error):
        """Kernels hold several rules, because that compiles faster; which one is wrong is seen by compiling each
        alone.
        """
        import numba

        for name, function in self._given.items():
            kernels, unused = self._load({name: function}), self._unused
            try:
                if name in _ANSWERS:
                    kernels.ask.compile(tuple(map(numba.typeof, (0, self._states, unused["stream"], unused["drawn"]))))
                else:
                    kernels.write.compile(tuple(map(numba.typeof, (0, self._states, *(unused[n] for n in _WRITTEN)))))
            except (numba.core.errors.NumbaError, KeyError) as own:
                raise GameError(f"{self.game.name}: {name} cannot be compiled: {essence(own, self._fields)}") from own
        raise GameError(
            f"{self.game.name}: the rules cannot be compiled together: {essence(error, self._fields)}"
        ) from error

    def _written(self, rule, name, shape, dtype, **given):
        """Check that a rule writes all of its output, nothing else, and independently of the previous content."""
        found = []
        for fill in (0, 1):
            size = math.prod(shape)
            buffer = np.zeros(size + 2 * _GUARD, dtype)
            raw = buffer.view(np.uint8)
            raw[:] = _PATTERN
            inside = buffer[_GUARD : _GUARD + size]
            inside[:] = fill
            self._call(rule, **given, **{name: inside.reshape(shape)})
            margin = _GUARD * buffer.itemsize
            if (raw[:margin] != _PATTERN).any() or (raw[-margin:] != _PATTERN).any():
                self.fail(rule, f"writes outside of {_ARGUMENTS[rule].split(', ')[-1]}, which has the shape {shape}")
            found.append(inside.reshape(shape))
        open_ = np.argwhere(~((found[0] == found[1]) | (found[0] != found[0])))
        if len(open_):
            where = ", ".join(map(str, open_[0]))
            self.fail(
                rule,
                f"must write every element of {_ARGUMENTS[rule].split(', ')[-1]}, whatever was there "
                f"before, but does not write [{where}]",
            )
        return found[0]

    def _finite(self, rule, values):
        if not np.isfinite(values).all():
            where = np.argwhere(~np.isfinite(values))[0]
            self.fail(rule, f"must give finite numbers, got {values[tuple(where)]} at [{', '.join(map(str, where))}]")
        return values

    def _number(self, rule, value, what):
        if not isinstance(value, (bool, int)):
            self.fail(rule, f"must return {what}, got {value!r} of type {type(value).__name__}")
        return value


def _source(game, rules):
    """Two kernels: one asks a rule for what it returns, the other lets a rule write. Rules are selected by number."""
    key = fingerprint(game.dtype, [*rules], [*rules.values()])
    lines = [f'"""Rules of {game.name} for check_game. {key}"""', "from triskele.core.extend import kernel"]
    lines += ["", "", "@kernel(boundscheck=True)", "def ask(rule, states, stream, drawn):"]
    if "terminal" in rules:
        lines += [f"    if rule == {_NUMBER['terminal']}:", "        return rule_terminal(states[1]), 0, 0"]
    if "player" in rules:
        lines += [f"    if rule == {_NUMBER['player']}:", "        return False, rule_player(states[1]), 0"]
    if "random_action" in rules:
        lines += [
            "    for k in range(len(drawn)):",
            "        action = rule_random_action(states[1], stream)",
            "        drawn[k] = action",
            "    return False, 0, action",
        ]
    else:
        lines += ["    return False, 0, 0"]
    lines += ["", "", "@kernel(boundscheck=True)", f"def write(rule, states, {', '.join(_WRITTEN)}):", "    pass"]
    for name in rules:
        if name not in _ANSWERS:
            others = _ARGUMENTS[name].removeprefix("state").replace("out", "seen" if name == "observe" else "out")
            lines += [f"    if rule == {_NUMBER[name]}:", f"        rule_{name}(states[1]{others})"]
    return "\n".join(lines) + "\n"
