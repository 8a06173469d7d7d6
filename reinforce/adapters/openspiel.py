"""Games of OpenSpiel."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..errors import GameError
from ..game import CHANCE
from .python_game import PythonGame

__all__ = ["OpenSpielGame", "from_openspiel"]


def from_openspiel(game: Any, **parameters: Any) -> OpenSpielGame:
    """A game of OpenSpiel, played and searched like those of this package.

    Games of simultaneous moves are played one player after the other. Searches look at the whole position: what a game
    hides from a player is not hidden from them.

    Parameters
    ----------
    game : str or pyspiel.Game
        A name such as "connect_four" or "go(board_size=9)", or a game that is loaded.
    **parameters
        Parameters of the game, if it is given by name.

    Raises
    ------
    GameError
        If the game does not exist, or it draws its chance events without giving their probabilities, or has mean-field
        dynamics.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> nim = rl.from_openspiel("nim", pile_sizes="1;2")
    >>> nim.initial_state().play(0)
    <nim(pile_sizes=1;2) after [0]>
    """
    pyspiel = optional.need("pyspiel", "from_openspiel", "rl")
    if isinstance(game, str):
        try:
            game = pyspiel.load_game(game, parameters) if parameters else pyspiel.load_game(game)
        except pyspiel.SpielError as error:
            raise GameError(
                f"from_openspiel: OpenSpiel cannot load {game!r} with parameters {parameters}: {error}"
            ) from error
    elif parameters or not isinstance(game, pyspiel.Game):
        raise GameError(
            f"from_openspiel: game must be a name (with parameters) or a pyspiel.Game (without), got "
            f"{game!r} and {parameters}"
        )
    kind = game.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    elif kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
        raise GameError(
            f"from_openspiel: {game} has dynamics {kind.dynamics}, and only sequential and simultaneous "
            f"games can be searched"
        )
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise GameError(
            f"from_openspiel: {game} draws its chance events without telling their probabilities (load it "
            f"with explicit chance, where it has that)"
        )
    return OpenSpielGame(game)


class OpenSpielGame(PythonGame):
    """See `from_openspiel`. Positions are `pyspiel.State`s, and `game` is a `pyspiel.Game`."""

    def __init__(self, game: Any):
        self.game, self.name = game, str(game).removesuffix("()")
        kind = game.get_type()
        self.num_players, self.num_actions, self.num_outcomes = (
            game.num_players(),
            game.num_distinct_actions(),
            game.max_chance_outcomes(),
        )
        # chance may decide more often than `max_chance_nodes_in_history` says
        self.max_length = 2**31 - 1 if self.num_outcomes else game.max_game_length()
        self._tensor, self.observation_shape = "", (0,)
        for provided, name in (
            (kind.provides_observation_tensor, "observation_tensor"),
            (kind.provides_information_state_tensor, "information_state_tensor"),
        ):
            if provided and not self._tensor:
                with contextlib.suppress(RuntimeError):  # some games promise a tensor and have none
                    self.observation_shape, self._tensor = tuple(getattr(game, f"{name}_shape")()), name

    def start(self, seed: int) -> Any:
        """The first position, which is always the same."""
        return self.game.new_initial_state()

    def copy(self, position: Any) -> Any:
        """An independent copy."""
        return position.clone()

    def step(self, position: Any, action: int) -> None:
        """Play an action, or let a chance outcome happen."""
        position.apply_action(action)

    def player(self, position: Any) -> int:
        """The player to move, or CHANCE."""
        return CHANCE if position.is_chance_node() else position.current_player()

    def legal_actions(self, position: Any) -> list[int]:
        """Return the legal actions."""
        return position.legal_actions()

    def chance(self, position: Any) -> list[tuple[int, float]]:
        """Outcomes with their probabilities."""
        return position.chance_outcomes()

    def terminal(self, position: Any) -> bool:
        """Return True if the game is over."""
        return position.is_terminal()

    def returns(self, position: Any) -> list[float]:
        """Return the score of each player."""
        return position.returns()

    def observe(self, position: Any, player: int) -> np.ndarray:
        """OpenSpiel's observation tensor, or else its information state tensor."""
        if not self._tensor:
            raise GameError(
                f"{self.name}: OpenSpiel has no observation tensor for this game, which a network would need"
            )
        return np.reshape(np.array(getattr(position, self._tensor)(player), np.float32), self.observation_shape)

    def action_name(self, position: Any, action: int) -> str:
        """As OpenSpiel writes it."""
        return position.action_to_string(position.current_player(), action)
