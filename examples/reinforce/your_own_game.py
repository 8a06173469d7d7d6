"""A game of your own in a screen of Python: checked, searched, and played in a match.

Chomp: players in turn bite a square out of a bar of chocolate, and with it all that lies above and to the right of it.
Who has to eat the lower left square, which is poisoned, loses. The first player can win, but no general rule is known.

    python examples/reinforce/your_own_game.py [--output your_own_game.png]
"""

import argparse

import numpy as np

from triskele import reinforce as rl

ROWS, COLUMNS = 3, 5


class Chomp(rl.Game):
    num_players, num_actions, max_length = 2, ROWS * COLUMNS, ROWS * COLUMNS
    observation_shape = (1, ROWS, COLUMNS)
    state = [("heights", np.int8, COLUMNS), ("player", np.int8)]  # of the columns of what is left

    @staticmethod
    def initial(state):
        state.heights[:] = ROWS
        state.player = 0

    @staticmethod
    def player(state):
        return state.player

    @staticmethod
    def legal_actions(state, mask):
        for a in range(ROWS * COLUMNS):
            mask[a] = a // COLUMNS < state.heights[a % COLUMNS]

    @staticmethod
    def step(state, action):
        for c in range(action % COLUMNS, COLUMNS):
            state.heights[c] = min(state.heights[c], action // COLUMNS)
        state.player = 1 - state.player

    @staticmethod
    def terminal(state):
        return state.heights[0] == 0

    @staticmethod
    def returns(state, out):
        out[state.player], out[1 - state.player] = 1.0, -1.0  # the other has just eaten the poison

    @staticmethod
    def observe(state, player, out):
        for r in range(ROWS):
            for c in range(COLUMNS):
                out[0, r, c] = r < state.heights[c]

    def draw(self, state):
        heights = state.data[0]["heights"]
        rows = ["".join("#" if r < h else "." for h in heights) for r in reversed(range(ROWS))]
        return "\n".join(rows).removesuffix(rows[-1]) + rows[-1].replace("#", "P", 1)


def main(output):
    game = Chomp()
    rl.check_game(game)  # plays at random, and looks for what games usually get wrong

    # a search that proves: everything is compiled into one kernel
    state = game.initial_state()
    solver = rl.MCTS(game, simulations=200_000, solver=True, seed=0)
    result = solver(state)
    print(
        f"\n{state}\n\nbest first bite: row {result.action // COLUMNS + 1}, column {result.action % COLUMNS + 1}; "
        f"value {result.root_value:+.2f}{' (proven)' if result.proven else ''} after {result.simulations:,} "
        f"simulations"
    )

    # players of all kinds in a match
    def greedy(state):
        return state.legal_actions[-1] if len(state.legal_actions) > 1 else 0

    for players in (
        [rl.MCTS(game, simulations=100), rl.Random()],
        [rl.MCTS(game, simulations=1000), greedy],
        [rl.MCTS(game, simulations=1000), rl.MCTS(game, simulations=30)],
    ):
        print(f"\n{rl.play_match(game, players, games=200, progress=False)}")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
    values = np.where(result.visits > 0, result.values, np.nan).reshape(ROWS, COLUMNS)
    image = axes.imshow(values, origin="lower", cmap="PuOr", vmin=-1, vmax=1)
    for (r, c), visits in np.ndenumerate(result.visits.reshape(ROWS, COLUMNS)):
        dark = abs(values[r, c]) > 0.7
        axes.text(
            c,
            r,
            "poison" if r == c == 0 else f"{values[r, c]:+.2f}\n{visits:,}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "black",
        )
    axes.set(xticks=[], yticks=[], title="first bite: value for who begins, and simulations")
    figure.colorbar(image, shrink=0.7, label="value: -1 loses, +1 wins")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="your_own_game.png", help="where the picture goes")
    main(parser.parse_args().output)
