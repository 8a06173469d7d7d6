"""Train AlphaZero on connect four by games against itself, and let it play against plain Monte-Carlo tree search.

A network learns nothing but the rules, from games of its own search against itself. Now and then two things are
measured: how often its search of 200 simulations keeps the outcome in 255 positions of which the exact solution is
known, each with moves that give something away; and its score against a search of 1,000 simulations with random
rollouts. Afterwards it plays a longer match, and one of the games is shown. The work is a number of games, so that a
slow or busy machine takes longer and finds the same. Expected: the network with a fifth of the simulations wins about
two games of three.

    python examples/reinforce/alphazero_connect_four.py [--games 8000] [--output alphazero_connect_four.png]
"""

import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

from triskele import reinforce as rl

SIMULATIONS, PLAIN = 200, 1000  # of the searches that play each other
MOVES = 4096  # in all games together between two looks at the number of games
EXAMINATIONS = 6


def mirrored(observations, policies):
    """The position seen from behind: columns from right to left."""
    return observations[..., ::-1], policies[..., ::-1]


def solved_positions(game):
    """Positions, and what comes of each move under best play: 1, 0 or -1 for who moves (-9: no such move)."""
    lines = [
        line.split()
        for line in (Path(__file__).parent / "data" / "connect_four.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    return [game.initial_state().play(*(int(c) - 1 for c in line[0])) for line in lines], np.array(
        [line[1:] for line in lines], int
    )


def examine(agent, plain, states, outcomes):
    """Games played, share of outcomes kept, score and its standard error against plain search, and the two losses."""
    actions = agent.search(SIMULATIONS)(states).action
    kept = np.mean(outcomes[np.arange(len(actions)), actions] == outcomes.max(axis=1))
    match = agent.evaluate(40, plain, simulations=SIMULATIONS)
    losses = (np.nan if loss is None else loss for loss in agent.losses.values())
    return agent.episodes.finished, kept, match.score[0], match.error[0], *losses


def main(output, games):
    game = rl.games.ConnectFour()
    agent = rl.AlphaZero(
        game,
        policy=rl.PUCT(c=2.5, dirichlet=(1.0, 0.25)),
        value_mix=0.7,
        temperature_moves=12,
        learning_rate=5e-3,
        symmetries=[mirrored],
        seed=0,
    )
    plain = rl.MCTS(game, PLAIN)
    states, outcomes = solved_positions(game)
    curve = [examine(agent, plain, states, outcomes)]
    with tqdm(total=games, unit=" game", desc="training") as bar:
        while agent.episodes.finished < games:
            agent.train(MOVES, progress=False)
            done = agent.episodes.finished
            if done >= len(curve) * games / EXAMINATIONS:
                curve.append(examine(agent, plain, states, outcomes))
                bar.set_postfix_str(
                    f"keeps {100 * curve[-1][1]:.0f} % of outcomes, {100 * curve[-1][2]:.0f} % against plain search",
                    refresh=False,
                )
            bar.update(min(done, games) - bar.n)
    print(
        f"{agent.steps:,} moves of {agent.episodes.finished:,} games, {agent.updates:,} updates of "
        f"{agent.settings.batch_size} positions\n"
    )

    players = {f"AlphaZero, {SIMULATIONS} simulations": agent.search(SIMULATIONS), f"plain search, {PLAIN:,}": plain}
    match = rl.play_match(game, players, games=100, progress=False)
    print(match)

    show(agent, match)
    picture(output, agent, np.array(curve))
    print(f"picture: {output}, numbers: {Path(output).with_suffix('.csv')}")


def show(agent, match):
    """The shortest game that was won by the network, in some boards."""
    won = np.flatnonzero(match.returns[:, 0] > 0)
    k = min(won if len(won) else range(len(match.moves)), key=lambda k: len(match.moves[k]))
    moves = match.moves[k]
    print(f"\nAlphaZero is {'xo'[match.first[k]]}; moves {' '.join('abcdefg'[m] for m in moves)}\n")
    states = [agent.game.initial_state().play(*moves[:n]) for n in np.linspace(0, len(moves), 5).astype(int)[1:]]
    values = [
        state.returns[0] if state.terminal else agent.search(SIMULATIONS)(state).root_value * (1 - 2 * state.player)
        for state in states
    ]
    boards = [
        [f"move {len(s.moves)}", *str(s).splitlines(), f"value for x {v:+.2f}"]
        for s, v in zip(states, values, strict=True)
    ]
    print("\n".join("  ".join(f"{part:<20}" for part in line).rstrip() for line in zip(*boards, strict=True)), "\n")


def picture(output, agent, curve):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    np.savetxt(
        Path(output).with_suffix(".csv"),
        curve,
        "%.4g",
        ",",
        header="games,outcomes kept,score against plain search,standard error,policy loss,value loss",
        comments="",
    )
    games, kept, score, error, policy_loss, value_loss = curve.T
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(games, 100 * kept, "o-", label="outcomes kept in solved positions")
    left.errorbar(
        games,
        100 * score,
        100 * error,
        fmt="s-",
        capsize=3,
        label=f"score against plain search of {PLAIN:,} simulations",
    )
    left.axhline(50, color="0.7", lw=1, zorder=0)
    left.set(xlabel="games of training", ylabel="%", ylim=(0, 102), title=f"the network with {SIMULATIONS} simulations")
    left.legend(loc="lower right", fontsize="small")
    right.plot(games, policy_loss, "o-", label="cross entropy of policies")
    right.plot(games, value_loss, "s-", label="mean square of values")
    right.set(
        xlabel="games of training",
        ylabel="loss",
        ylim=(0, None),
        title=f"{agent.episodes.finished:,} games, {agent.updates:,} updates",
    )
    right.legend()
    figure.savefig(output, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="alphazero_connect_four.png", help="where the picture goes")
    parser.add_argument("--games", type=int, default=8000, help="of training, against itself")
    given = parser.parse_args()
    main(given.output, given.games)
