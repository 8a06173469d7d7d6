"""One module a tool, as `tests.benchmarks.process` wants it.

What a case gives is one number, by which tools are compared.
"""

import numpy as np


def stepping(env, actions, steps):
    """(run, read) of an environment with Gymnasium's methods, stepped with these actions by turns; what it gives is a
    mean reward.
    """

    def run():
        for t in range(steps):
            env.step(actions[t % len(actions)])

    return run, lambda _: [np.mean([env.step(actions[t % len(actions)])[1].mean() for t in range(100)])]
