"""EnvPool, in C++."""

import numpy as np

from tests.benchmarks.reinforce.tools import stepping

modules = ("envpool",)


def prepare(bench, threads):
    import envpool

    env = envpool.make(bench.name, env_type="gymnasium", num_envs=bench.batch, num_threads=threads)
    env.action_space.seed(0)
    space = env.action_space
    actions = [np.array([space.sample() for _ in range(bench.batch)]) for _ in range(16)]
    env.reset()
    return stepping(env, actions, bench.steps)
