"""Random small games, with chance and draws, against plain expectimax: what the solver proves is the value of the
game.
"""

from functools import cache

import numpy as np
import pytest

from triskele import reinforce as rl
from triskele.reinforce.game import Rules

_DEPTH, _WIDTH = 4, 3


def random_game(players):
    """A game on a table of numbers that its state holds, so that one compiled game serves all tables.

    A node of the complete tree is what has been played, in base 3; who moves there, and the returns of leaves, are
    drawn.
    """
    nodes = sum(_WIDTH**d for d in range(_DEPTH + 1))

    class Table(rl.Game):
        num_players, num_actions, num_outcomes, max_length, observation_shape = players, _WIDTH, _WIDTH, _DEPTH, (1,)
        state = [("node", "i8"), ("depth", "i8"), ("mover", "i1", nodes), ("value", "f8", nodes),
                 ("chance", "f8", (nodes, _WIDTH))]  # fmt: skip

        def rules(self):
            def initial(state):
                state.depth = 0

            def player(state):
                return np.int64(state.mover[state.node])

            def legal_actions(state, mask):
                mask[:] = True

            def step(state, action):
                state.node = _WIDTH * state.node + 1 + action
                state.depth += 1

            def terminal(state):
                return state.depth == _DEPTH or state.mover[state.node] == 9

            def returns(state, out):
                out[0] = state.value[state.node]
                if players == 2:
                    out[1] = -out[0]

            def observe(state, player, out):
                out[0] = state.node

            def chance(state, probabilities):
                for k in range(_WIDTH):
                    probabilities[k] = state.chance[state.node, k]

            return Rules(initial, player, legal_actions, step, terminal, returns, observe, chance)

    return Table()


def draw(game, rng, players):
    data = game.new_states(1)
    n = data["mover"].shape[1]
    data["mover"] = rng.choice([0, players - 1, -1, 9], n, p=[0.4, 0.35, 0.15, 0.1])
    data["mover"][0, 0] = rng.integers(players)
    largest = 1 if players == 2 else 7  # returns of one player may be any
    data["value"] = rng.choice([-1.0, 0.0, 1.0, 0.3, -0.7], n, p=[0.35, 0.1, 0.35, 0.1, 0.1]) * largest
    p = rng.dirichlet(np.ones(_WIDTH), n)
    p[rng.random(n) < 0.3] = (0.0, 0.5, 0.5)
    p[rng.random(n) < 0.3] = 1 / 3
    data["chance"] = p
    return game.at(data)


def expectimax(data):
    """Value of each node for player 0."""
    mover, value, chance = data["mover"][0], data["value"][0], data["chance"][0]

    @cache
    def of(node, depth):
        if depth == _DEPTH or mover[node] == 9:
            return value[node]
        children = [of(_WIDTH * node + 1 + k, depth + 1) for k in range(_WIDTH)]
        if mover[node] == -1:
            return float(np.dot(chance[node], children))
        return max(children) if mover[node] == 0 else min(children)

    return of


@pytest.mark.parametrize(("players", "games"), [(1, 60), (2, 120), pytest.param(2, 3000, marks=pytest.mark.slow)])
def test_proofs_are_the_values_of_random_games(players, games):
    game, rng, proven = random_game(players), np.random.default_rng(players), 0
    search = rl.MCTS(game, simulations=3000, solver=True, seed=1)
    for _ in range(games):
        state = draw(game, rng, players)
        exact = expectimax(state.data)
        result, sign = search(state), 1 - 2 * state.player
        if result.proven:
            proven += 1
            assert result.root_value == pytest.approx(sign * exact(0, 0), abs=1e-12)
            assert sign * exact(1 + result.action, 1) == pytest.approx(result.root_value, abs=1e-12)
        for node in result.tree.root.walk():
            if node.proven and node.visits and node.moves:
                place = 0
                for move in node.moves:
                    place = _WIDTH * place + 1 + move
                up = node.parent
                while up.player < 0:
                    up = up.parent
                assert node.value == pytest.approx((1 - 2 * up.player) * exact(place, len(node.moves)), abs=1e-12)
    assert proven > 0.9 * games
