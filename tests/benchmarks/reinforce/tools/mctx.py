"""mctx; its positions are those of pgx, and a perceptron in JAX values them."""

import numpy as np

modules = ("jax", "mctx", "pgx")


def prepare(bench, threads):
    import jax
    import jax.numpy as jnp
    import mctx

    if bench.kind == "tree":
        logits, zero = jnp.zeros((bench.batch, 7)), jnp.zeros(bench.batch)
        root = mctx.RootFnOutput(prior_logits=logits, value=zero, embedding=zero)
        invalid, params = None, ()

        def recurrent(params, key, action, embedding):
            return mctx.RecurrentFnOutput(reward=zero, discount=zero - 1, prior_logits=logits, value=zero), embedding

    else:
        params, root, invalid, recurrent = network(bench)

    def scaled(tree, node):
        return mctx.qtransform_by_min_max(tree, node, min_value=-1, max_value=1)

    @jax.jit
    def run(params, key):
        return mctx.muzero_policy(
            params,
            key,
            root,
            recurrent,
            bench.simulations,
            invalid_actions=invalid,
            dirichlet_fraction=0.0,
            temperature=0.0,
            qtransform=scaled,
        ).action_weights

    key = jax.random.PRNGKey(0)
    return lambda: jax.block_until_ready(run(params, key)), lambda weights: [
        np.array(float(np.sum(weights)) * bench.simulations)
    ]


def network(bench):
    import jax
    import jax.numpy as jnp
    import mctx
    import pgx

    env = pgx.make(bench.name)
    states = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), bench.batch))
    sizes = [int(np.prod(states.observation.shape[1:])), 128, 128, states.legal_action_mask.shape[1] + 1]
    keys = jax.random.split(jax.random.PRNGKey(1), 3)
    params = [(jax.random.normal(k, (a, b)) / np.sqrt(a), jnp.zeros(b)) for k, a, b in zip(keys, sizes[:-1], sizes[1:])]

    def evaluate(params, states):
        x = states.observation.reshape(bench.batch, -1).astype(jnp.float32)
        for k, (w, b) in enumerate(params):
            x = x @ w + b
            x = jax.nn.relu(x) if k < 2 else x
        return jnp.where(states.legal_action_mask, x[:, :-1], jnp.finfo(jnp.float32).min), jnp.tanh(x[:, -1])

    def recurrent(params, key, action, states):
        player = states.current_player
        states = jax.vmap(env.step)(states, action)
        logits, value = evaluate(params, states)
        reward = states.rewards[jnp.arange(bench.batch), player]
        over = states.terminated
        return mctx.RecurrentFnOutput(
            reward=reward, discount=jnp.where(over, 0.0, -1.0), prior_logits=logits, value=jnp.where(over, 0.0, value)
        ), states

    logits, value = jax.jit(evaluate)(params, states)
    return (
        params,
        mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states),
        ~states.legal_action_mask,
        recurrent,
    )
