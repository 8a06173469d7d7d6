"""Replay, slowly: every transition of every episode written out, and weights added up one by one."""

import numpy as np


class Episodes:
    """Environments followed one by one, each with a list of the steps of its running episode."""

    def __init__(self, num_envs):
        self.open = [[] for _ in range(num_envs)]
        self.over = [False] * num_envs
        self.transitions = {}  # (step, environment): transition

    def add(self, step, observations, actions, rewards, terminated, truncated, following):
        for e in range(len(self.open)):
            if self.over[e]:  # it restarts
                self.over[e] = False
                self.open[e] = []
                continue
            self.open[e].append((observations[e], actions[e], rewards[e], bool(terminated[e]), following[e]))
            self.transitions[step, e] = (self.open[e], len(self.open[e]) - 1)
            self.over[e] = bool(terminated[e] or truncated[e])

    def n_step(self, step, e, n, discount):
        """(observation, action, sum of rewards, observation reached, discount)."""
        episode, start = self.transitions[step, e]
        steps = episode[start : start + n]
        total = sum(discount**k * s[2] for k, s in enumerate(steps))
        return steps[0][0], steps[0][1], total, steps[-1][4], 0.0 if steps[-1][3] else discount ** len(steps)


class Weights:
    """Leaves with weights."""

    def __init__(self, size):
        self.weights = np.zeros(size)

    def find(self, u):
        for leaf, weight in enumerate(self.weights):
            if weight > 0 and u < weight:
                return leaf
            u -= weight
        return int(np.flatnonzero(self.weights)[-1])
