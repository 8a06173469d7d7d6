"""Every domain of random streams, in one place: two that coincide would draw the same numbers.

A stream has a key and a domain. Numbers are functions of the key and of a counter of four words, whose last word is the
domain (`Counter`). Keys are made from a user's seed and from numbers that are folded into it (`Fold`); what folds
several has a range. A seed that a user gives to two functions gives the same key in both.
"""

from __future__ import annotations

import enum

from ..kernels import philox

__all__ = ["Counter", "Fold"]


@enum.unique
class Counter(enum.IntEnum):
    """Last words of counters of Philox4x32-10.

    Examples
    --------
    >>> from triskele.core import random
    >>> len({c.value for c in random.Counter}) == len(random.Counter)
    True
    """

    BITS = 0  # core.random: bits, and what is made of them
    FOLD = philox.FOLD  # keys of `fold_in`
    SPLIT = philox.SPLIT  # keys of `split`
    GAMMA = 3  # core.random: gamma, beta and Dirichlet distributions
    POISSON = 4
    TRAJECTORIES = 5  # quantum: draws of each trajectory
    BUFFERS = 6  # reinforce: samples of buffers
    GAMES = 7  # reinforce: streams of games, environments and searches
    STABILIZER = 8  # quantum: measurements of stabilizer states
    NOISE = 64  # sponge: thermostats, and all above, + the number of the inner step


@enum.unique
class Fold(enum.IntEnum):
    """Numbers that are folded into the key of a user's seed.

    Below 2**20 stand numbers of things: replicas and barostats' steps in sponge; groups of observables, evaluations and
    instructions in quantum; iterations in reinforce. A caller uses one of these with one key.

    Examples
    --------
    >>> from triskele.core import random
    >>> key = random.fold_in(random.key(0), random.Fold(list(random.Fold)[0]))
    """

    CLASSIFIER = 1  # quantum: first weights
    VELOCITIES = 32  # sponge
    BUSSI = 33
    EXTENDED = 34  # fictitious particles, + the number of the sampling method
    MONTE_CARLO_BAROSTAT = 40
    CELL_RESCALING = 41
    DATA_ORDER = 0x44415430  # core.data: shuffles
    DATA_MAPS = 0x44415440  # core.data: + the number of the map in its pipeline
    BRANCHES = 1 << 20  # quantum: + the number of a branch that ends
    EXCHANGES = 0x45584348  # sponge: of replicas
    READINGS = 1 << 40  # quantum: errors in reading, + the number of the measurement
