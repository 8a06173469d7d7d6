"""Time of a step of `fit` above the bare compiled step: a network 8-16-2, batches of 32."""

import time

import numpy as np

GOALS = {"streamed, above bare us": "10"}


def triskele(seed, _options):
    """Steps of the same network: called bare, streamed by `fit`, and epochs of data in memory."""
    from triskele.core import data, nn, optim, random, train

    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(32 * 500, 8)).astype(np.float32), rng.integers(0, 2, 32 * 500)

    def model():
        net = nn.MLP.init(random.key(seed), [8, 16, 2], dtype=np.float32)
        return train.Model(net, nn.cross_entropy, optim.Adam(1e-3))

    batches = [(x[k : k + 32], y[k : k + 32]) for k in range(0, len(x), 32)]

    def best(run, steps):
        run()
        times = []
        for _ in range(7):
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
        return 1e6 * min(times) / steps

    step = train.step(lambda net, batch: nn.cross_entropy(net(batch[0]), batch[1]), optim.Adam(1e-3))
    net = nn.MLP.init(random.key(seed), [8, 16, 2], dtype=np.float32)
    states = [step.init(net)]

    def bare():
        state = states[0]
        for batch in batches:
            state = step(state, batch)[0]

    streamed, held = model(), model()
    source = data.arrays(x, y).shuffle(seed=0).batch(32)
    once = best(bare, 500)
    return {
        "bare step us": once,
        "streamed, above bare us": best(lambda: streamed.fit(batches, 4, progress=False), 2000) - once,
        # no call from Python in each step, so that the bare one is no limit
        "epochs in memory, step us": best(lambda: held.fit(source, 20, progress=False), 10_000),
    }
