"""gymnax: all steps of all copies in one program of JAX."""

import numpy as np

modules = ("jax", "gymnax")
NAMES = {"MinAtar/Breakout-v1": "Breakout-MinAtar"}


def prepare(bench, threads):
    import gymnax
    import jax

    env, params = gymnax.make(NAMES.get(bench.name, bench.name))
    space = env.action_space(params)
    keys = jax.random.split(jax.random.PRNGKey(0), 16 * bench.batch)
    actions = jax.vmap(space.sample)(keys)
    actions = actions.reshape(16, bench.batch, *actions.shape[1:])
    observation, first = jax.vmap(env.reset, in_axes=(0, None))(
        jax.random.split(jax.random.PRNGKey(1), bench.batch), params
    )

    @jax.jit
    def run(observation, state, key):
        def step(carry, t):  # observations are carried on, or else XLA leaves them out
            _, state, key = carry
            key, now = jax.random.split(key)
            observation, state, reward, *_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
                jax.random.split(now, bench.batch), state, actions[t % 16], params
            )
            return (observation, state, key), reward.mean()

        return jax.lax.scan(step, (observation, state, key), jax.numpy.arange(bench.steps))

    key = jax.random.PRNGKey(2)
    return lambda: jax.block_until_ready(run(observation, first, key)), lambda out: [np.array(float(out[1].mean()))]
