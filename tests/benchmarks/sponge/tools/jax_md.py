"""JAX-MD on Lennard-Jones melts: neighbor list, float32, velocity Verlet."""

import time


def prepare(bench, threads, folder):
    import jax
    import jax.numpy as jnp
    from jax_md import energy, simulate, space

    from tests.benchmarks.sponge.systems import SIGMA, melt_positions

    positions, edge = melt_positions(bench.melt)
    positions, edge = jnp.asarray(positions / SIGMA, jnp.float32), edge / SIGMA
    displacement, shift = space.periodic(edge)
    neighbor, potential = energy.lennard_jones_neighbor_list(
        displacement, edge, sigma=1.0, epsilon=1.0, r_onset=2.49, r_cutoff=2.5, dr_threshold=0.3
    )
    init, apply = simulate.nve(potential, shift, 0.005)
    found = neighbor.allocate(positions)
    state = init(jax.random.PRNGKey(0), positions, kT=1.44, neighbor=found)

    @jax.jit
    def block(state, found):
        def step(_, carry):
            state, found = carry
            found = found.update(state.position)
            return apply(state, neighbor=found), found

        return jax.lax.fori_loop(0, 5, step, (state, found))

    def run(steps):
        nonlocal state, found
        start = time.perf_counter()
        for _ in range(max(1, steps // 5)):
            state, found = jax.block_until_ready(block(state, found))
        if found.did_buffer_overflow:
            found = neighbor.allocate(state.position)
        return (time.perf_counter() - start) * steps / (5 * max(1, steps // 5))

    return run
