"""OpenSpiel's search in C++ with its random rollouts, on one thread."""

import numpy as np

modules = ("pyspiel",)


def prepare(bench, threads):
    import pyspiel

    game = pyspiel.load_game(bench.name)
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(game, evaluator, 1.4, bench.simulations, 1000, False, 0, False)
    state = game.new_initial_state()
    return lambda: bot.mcts_search(state), lambda root: [np.array(float(root.explore_count))]
