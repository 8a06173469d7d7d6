"""One small piece of each kind of long work, behind one signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["WORKS", "Work"]


@dataclass(frozen=True)
class Work:
    """A long function: ``run(seed=, report=, progress=[, checkpoint=])`` returns ``(numbers, reason)``.

    `numbers` is a tree of arrays that two runs can be compared by, and `reason` what the result says of an early end.
    """

    name: str
    run: Callable[..., Any]
    stop: int = 2  # step at which a reporter may end it
    checkpoint: bool = False
    seeded: bool = True


def _lbfgs(seed=0, **options):
    from triskele.core import optim

    begin = np.random.default_rng(seed).uniform(-1, 1, 4)
    found = optim.LBFGS().minimize(lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), begin,
                                   **options)
    return [found.params, found.value], found.message


def _ppo(seed=0, **options):
    from triskele import reinforce as rl

    agent = rl.PPO("CartPole-v1", num_envs=2, num_steps=16, hidden=(8,), seed=seed).train(160, **options)
    return agent.model, agent.stopped


def _evaluate(seed=0, **options):
    from triskele import reinforce as rl

    agent = rl.PPO("CartPole-v1", num_envs=2, num_steps=16, hidden=(8,))
    return agent.evaluate(6, seed=seed, deterministic=False, **options).returns, None


def _match(seed=0, **options):
    from triskele import reinforce as rl

    return rl.play_match(rl.games.TicTacToe(), [rl.Random(), rl.Random()], 20, seed=seed, **options).returns, None


WORKS = [
    Work("core.optim.LBFGS.minimize", _lbfgs),
    Work("reinforce.PPO.train", _ppo, 64, checkpoint=True),
    Work("reinforce.Agent.evaluate", _evaluate),
    Work("reinforce.play_match", _match, 1),
]
