"""Pig, a dice game of pressing one's luck."""

from __future__ import annotations

from ..errors import GameError
from ..game import CHANCE, Game, Rules, State

__all__ = ["Pig"]


class Pig(Game):
    """In a turn a player rolls a die as often as wished and keeps the sum by stopping, but a 1 ends the turn with
    nothing.

    Who first has `goal` points gets 1, the other -1. Action 0 rolls, 1 stops; who would win by stopping has to. Outcome
    k is a roll of k + 1. A game that is undecided after 1000 moves (rolls count twice: decision and outcome) gives both
    0. Observation: own points, the other's, those of this turn, divided by `goal`; 1 if it is one's own turn.

    Parameters
    ----------
    goal : int
    sides : int
        Number of sides of the die, at least 2.

    Raises
    ------
    GameError
        If one of them is out of range.

    References
    ----------
    Neller, Presser, "Optimal play of the dice game Pig", The UMAP Journal 25 (2004) 25-47.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> print(rl.games.Pig().initial_state().play(0, 3, 0, 5))
    x: 0, o: 0, x has 10 this turn
    """

    num_players, num_actions, max_length, observation_shape = 2, 2, 1000, (4,)
    state = [("points", "i8", 2), ("turn", "i8"), ("player", "i8"), ("rolling", "i8"), ("moves", "i8")]

    def __init__(self, goal: int = 100, sides: int = 6):
        if not (isinstance(goal, int) and isinstance(sides, int) and goal >= 1 and sides >= 2):
            raise GameError(f"Pig: goal must be an integer >= 1 and sides of at least 2, got {goal!r} and {sides!r}")
        self.goal, self.sides = goal, sides
        self.num_outcomes = sides

    def rules(self) -> Rules:
        """Counters."""
        goal, sides, longest = self.goal, self.sides, self.max_length

        def initial(state):
            state.points[:] = 0
            state.turn, state.player, state.rolling, state.moves = 0, 0, 0, 0

        def player(state):
            return CHANCE if state.rolling else state.player

        def legal_actions(state, mask):
            mask[0], mask[1] = state.points[state.player] + state.turn < goal, True

        def chance(state, probabilities):
            probabilities[:] = 1 / sides

        def step(state, action):
            state.moves += 1
            if state.rolling:
                state.rolling = 0
                if action > 0:
                    state.turn += action + 1
                    return
                state.turn = 0
            elif action == 0:
                state.rolling = 1
                return
            state.points[state.player] += state.turn
            state.turn = 0
            state.player = 1 - state.player

        def terminal(state):
            return max(state.points[0], state.points[1]) >= goal or state.moves >= longest

        def returns(state, out):
            out[0] = 1.0 * (state.points[0] >= goal) - 1.0 * (state.points[1] >= goal)
            out[1] = -out[0]

        def observe(state, player, out):
            out[0], out[1], out[2] = state.points[player] / goal, state.points[1 - player] / goal, state.turn / goal
            out[3] = player == state.player

        return Rules(initial, player, legal_actions, step, terminal, returns, observe, chance)

    def draw(self, state: State) -> str:
        """The points."""
        s = state.data[0]
        turn = (
            ""
            if state.terminal
            else f", {'xo'[s['player']]} has {s['turn']} this turn" + (" and rolls" if s["rolling"] else "")
        )
        return f"x: {s['points'][0]}, o: {s['points'][1]}{turn}"

    def action_name(self, state: State, action: int) -> str:
        """roll or stop; at chance what is rolled."""
        return str(action + 1) if state.player == CHANCE else ("roll", "stop")[action]

    def __repr__(self) -> str:
        return f"Pig(goal={self.goal}, sides={self.sides})"
