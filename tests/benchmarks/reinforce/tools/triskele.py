"""Ours."""

import numpy as np

from tests.benchmarks.reinforce.tools import stepping
from triskele import core
from triskele import reinforce as rl

modules = ("triskele.reinforce",)
GAMES = {
    "tic_tac_toe": rl.games.TicTacToe,
    "connect_four": rl.games.ConnectFour,
    "othello": rl.games.Othello,
    "go(board_size=9)": lambda: rl.games.Go(9),
}


class Seven(rl.Game):
    """Seven moves in every position, for 512 plies."""

    num_players, num_actions, max_length, observation_shape = 2, 7, 512, (1,)
    state = [("ply", np.int64)]

    @staticmethod
    def initial(state):
        state.ply = 0

    @staticmethod
    def player(state):
        return state.ply & 1

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True

    @staticmethod
    def step(state, action):
        state.ply += 1

    @staticmethod
    def terminal(state):
        return state.ply == 512

    @staticmethod
    def returns(state, out):
        out[:] = 0.0

    @staticmethod
    def observe(state, player, out):
        out[0] = state.ply


def constant(state, values, priors):
    values[:] = 0.0
    priors[:] = 1.0


def prepare(bench, threads):
    core.set_threads(threads)
    return {"rollouts": search, "tree": search, "network": search, "steps": steps}.get(bench.kind, training)(
        bench, threads
    )


def search(bench, threads):
    options = {"simulations": bench.simulations, "seed": 0}
    if bench.kind == "rollouts":
        game = GAMES[bench.name]()
        options |= {"policy": rl.UCT(c=1.4), "evaluator": rl.RandomRollout(), "threads": threads}
    elif bench.kind == "tree":
        game = Seven()
        options |= {"policy": rl.PUCT(), "evaluator": constant}
    else:
        game = GAMES[bench.name]()
        net = core.nn.MLP.init(
            core.random.key(0), [int(np.prod(game.observation_shape)), 128, 128, game.num_actions + 1]
        )

        def apply(net, x):
            out = net(x.reshape(x.shape[0], -1))
            return out[:, :-1], np.tanh(out[:, -1])

        options |= {"policy": rl.PUCT(), "evaluator": rl.Network(apply, net), "parallel_leaves": bench.leaves}
    run, state = rl.MCTS(game, **options), game.initial_state()
    states = state if bench.batch == 1 else [state] * bench.batch
    return lambda: run(states), lambda result: [np.array(float(np.sum(result.simulations)))]


def steps(bench, threads):
    env = rl.make(bench.name, bench.batch, seed=0)
    actions = [env.action_space.sample(seed, bench.batch) for seed in range(16)]
    env.reset()
    return stepping(env, actions, bench.steps)


def training(bench, threads):
    seeds = iter(range(1, 1000))

    def run():
        agent = learner(bench, next(seeds))
        agent.train(
            bench.steps, report=lambda numbers: recent(agent.episodes, bench.window) >= bench.target, progress=False
        )
        return recent(agent.episodes, bench.window)

    return run, lambda mean: [np.array(mean)]


def learner(bench, seed):
    return {"ppo": rl.PPO, "sac": rl.SAC, "dqn": rl.DQN}[bench.kind](bench.name, seed=seed, **bench.settings)


def curve(bench, seed, steps):
    """(steps, mean return of the last episodes) while an agent trains."""
    agent, found = learner(bench, seed), []
    agent.train(
        steps, report=lambda numbers: found.append((agent.steps, recent(agent.episodes, bench.window))), progress=False
    )
    return found


def recent(episodes, window):
    """Mean return of the last so many episodes of a training; minus infinity before there are as many."""
    n = episodes.finished
    return episodes.returns[np.arange(n - window, n) % len(episodes.returns)].mean() if n >= window else -np.inf


def node_bytes():
    """(bytes of a node, bytes of an action) of a search tree, positions left out."""
    from triskele.reinforce.mcts.tree import new_tree

    tree = new_tree(1, 1000, 3000)._asdict()
    del tree["packed"]  # the same memory as `stats`
    return tuple(sum(a.itemsize for a in tree.values() if a.shape[1] == n) for n in (1000, 3000))
