"""Gymnasium's environment of many copies in NumPy."""

from tests.benchmarks.reinforce.tools import stepping

modules = ("gymnasium",)


def prepare(bench, threads):
    import gymnasium

    env = gymnasium.make_vec(bench.name, num_envs=bench.batch, vectorization_mode="vector_entry_point")
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(16)]
    env.reset(seed=0)
    return stepping(env, actions, bench.steps)
