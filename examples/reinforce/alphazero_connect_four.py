"""Train AlphaZero on connect four for two minutes, and let it play against plain Monte-Carlo tree search.

A network learns nothing but the rules, from games of its own search against itself. Meanwhile it is asked two things:
how often its search of 200 simulations keeps the outcome in 255 positions of which the exact solution is known, each
with moves that give something away; and how it does in matches against a search of 1,000 simulations with random
rollouts. Afterwards it plays a longer match, and one of the games is shown.

    python examples/reinforce/alphazero_connect_four.py [--minutes 2] [--output alphazero_connect_four.png]
"""

import argparse
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from triskele import reinforce as rl

SIMULATIONS, PLAIN = 200, 1000  # of the searches that play each other


def mirrored(observations, policies):
    """The position seen from behind: columns from right to left."""
    return observations[..., ::-1], policies[..., ::-1]


def solved_positions(game):
    """Positions, and what comes of each move under best play: 1, 0 or -1 for who moves (-9: no such move)."""
    lines = [line.split() for line in (Path(__file__).parent / "data" / "connect_four.txt").read_text().splitlines()
             if not line.startswith("#")]
    return [game.initial_state().play(*(int(c) - 1 for c in line[0]))
            for line in lines], np.array([line[1:] for line in lines], int)


class Lesson:
    """Called after each iteration of the training: keeps the time, and examines the agent now and then."""

    def __init__(self, agent, minutes, examinations=6):
        self.agent, self.seconds, self.gap = agent, 60 * minutes, 60 * minutes / examinations
        self.states, self.outcomes = solved_positions(agent.game)
        self.plain = rl.MCTS(agent.game, PLAIN)
        self.curve, self.began = [], time.perf_counter()
        self.bar = tqdm(total=round(self.seconds),
                        bar_format="training {percentage:3.0f} % |{bar}| {n_fmt} of {total_fmt} s{postfix}")

    def __call__(self, numbers):
        now = time.perf_counter() - self.began
        done = now >= self.seconds
        if done or now >= len(self.curve) * self.gap:
            self.examine(now)
            self.began = time.perf_counter() - now  # examinations do not count
        self.bar.update(min(int(now), self.bar.total) - self.bar.n)
        return done

    def examine(self, now):
        actions = self.agent.search(SIMULATIONS)(self.states).action
        kept = np.mean(self.outcomes[np.arange(len(actions)), actions] == self.outcomes.max(axis=1))
        score = self.agent.evaluate(20, self.plain, simulations=SIMULATIONS).score[0]
        self.curve.append((now / 60, kept, score, *(np.nan if x is None else x for x in self.agent.losses.values())))
        games = self.agent.episodes.finished
        self.bar.set_postfix_str(f" {games:,} games, keeps {100 * kept:.0f} % of outcomes, {100 * score:.0f} % against "
                                 f"plain search", refresh=False)


def main(output, minutes):
    game = rl.games.ConnectFour()
    agent = rl.AlphaZero(game, policy=rl.PUCT(c=2.5, dirichlet=(1.0, 0.25)), value_mix=0.7, temperature_moves=42,
                         symmetries=[mirrored], seed=0)
    lesson = Lesson(agent, minutes)
    agent.train(10**9, progress=False, report=lesson)
    lesson.bar.close()
    print(f"{agent.steps:,} moves of {agent.episodes.finished:,} games, {agent.updates:,} updates of "
          f"{agent.settings.batch_size} positions\n")

    players = {f"AlphaZero, {SIMULATIONS} simulations": agent.search(SIMULATIONS),
               f"plain search, {PLAIN:,}": lesson.plain}
    match = rl.play_match(game, players, games=100)
    print(match)

    show(agent, match)
    picture(output, agent, lesson)
    print(f"picture: {output}, numbers: {Path(output).with_suffix('.csv')}")


def show(agent, match):
    """The shortest game that was won by the network, in some boards."""
    won = np.flatnonzero(match.returns[:, 0] > 0)
    k = min(won if len(won) else range(len(match.moves)), key=lambda k: len(match.moves[k]))
    moves = match.moves[k]
    print(f"\nAlphaZero is {'xo'[match.first[k]]}; moves {' '.join('abcdefg'[m] for m in moves)}\n")
    states = [agent.game.initial_state().play(*moves[:n]) for n in np.linspace(0, len(moves), 5).astype(int)[1:]]
    values = [state.returns[0] if state.terminal else agent.search(SIMULATIONS)(state).root_value
              * (1 - 2 * state.player) for state in states]
    boards = [[f"move {len(s.moves)}", *str(s).splitlines(), f"value for x {v:+.2f}"] for s,
              v in zip(states, values, strict=True)]
    print("\n".join("  ".join(f"{part:<20}" for part in line).rstrip() for line in zip(*boards, strict=True)), "\n")


def picture(output, agent, lesson):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    np.savetxt(Path(output).with_suffix(".csv"), lesson.curve, "%.4g", ",",
               header="minutes,outcomes kept,score against plain search,policy loss,value loss", comments="")
    minutes, kept, score, policy_loss, value_loss = np.array(lesson.curve).T
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(minutes, 100 * kept, "o-", label="outcomes kept in solved positions")
    left.plot(minutes, 100 * score, "s-", label=f"score against plain search of {PLAIN:,} simulations")
    left.set(xlabel="minutes of training", ylabel="%", ylim=(0, 102),
             title=f"the network with {SIMULATIONS} simulations")
    left.legend(loc="lower right", fontsize="small")
    right.plot(minutes, policy_loss, "o-", label="cross entropy of policies")
    right.plot(minutes, value_loss, "s-", label="mean square of values")
    right.set(xlabel="minutes of training", ylabel="loss", ylim=(0, None),
              title=f"{agent.episodes.finished:,} games, {agent.updates:,} updates")
    right.legend()
    figure.savefig(output, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="alphazero_connect_four.png", help="where the picture goes")
    parser.add_argument("--minutes", type=float, default=2.0, help="of training")
    given = parser.parse_args()
    main(given.output, given.minutes)
