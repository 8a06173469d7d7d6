"""Small runs of searches, environments and agents, whose kernels ``triskele warmup`` compiles ahead of time."""

from __future__ import annotations

import numpy as np

import triskele.reinforce as rl

__all__ = ["WORK"]


def _search(game: rl.Game) -> None:
    for policy in (rl.UCT(), rl.PUCT()):
        rl.MCTS(game, simulations=10, policy=policy, evaluator=rl.RandomRollout(), seed=0)(game.initial_state())


def tic_tac_toe() -> None:
    """Searches of a small game, with its solver."""
    game = rl.games.TicTacToe()
    _search(game)
    rl.MCTS(game, simulations=10, solver=True, seed=0)(game.initial_state())


def connect_four() -> None:
    """Searches with random games."""
    _search(rl.games.ConnectFour())


def othello() -> None:
    """Searches of Othello."""
    _search(rl.games.Othello())


def go() -> None:
    """Searches of Go."""
    _search(rl.games.Go())


def ppo() -> None:
    """Policy optimization on CartPole, and its evaluation."""
    agent = rl.PPO("CartPole-v1", seed=0)
    agent.train(1024, progress=False)
    agent.evaluate(episodes=2)


def alphazero() -> None:
    """A network that learns tic-tac-toe and connect four from its own games."""
    for game, games in ((rl.games.TicTacToe(), 64), (rl.games.ConnectFour(), 256)):
        agent = rl.AlphaZero(game, num_games=games, simulations=4, updates=1, seed=0)
        agent.train(500, progress=False)
        agent.evaluate(2, rl.Random())
        agent.search(4)(game.initial_state())


def environments() -> None:
    """A step of the classic control environments."""
    for name in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"):
        env = rl.make(name, num_envs=2, seed=0)
        env.reset()
        env.step(np.zeros((2, *env.action_space.shape), env.action_space.dtype))


def dqn() -> None:
    """Value learning on CartPole."""
    rl.DQN("CartPole-v1", seed=0, learning_starts=64).train(256, progress=False)


def sac() -> None:
    """Actor and critics on Pendulum."""
    rl.SAC("Pendulum-v1", seed=0, learning_starts=64).train(256, progress=False)


WORK = (alphazero, ppo, connect_four, go, othello, tic_tac_toe, sac, dqn, environments)
