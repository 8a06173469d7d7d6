"""`python -m tests.benchmarks.reinforce.curves [--case dqn_cart_pole sac_pendulum] [--seeds 3]`: returns while agents
learn.

For each case the mean return of the last episodes at tenths of the training, as the mean over seeds and its standard
deviation: ours beside Stable-Baselines3 with the same hyper-parameters.
"""

import argparse

import numpy as np

from tests.benchmarks.reinforce.bench import CASES
from tests.benchmarks.reinforce.tools import sb3, triskele

STEPS = {"ppo_cart_pole": 500_000, "dqn_cart_pole": 100_000, "sac_pendulum": 8_000}


def points(curve, steps):
    """Of (steps, return) pairs: the return at tenths of the training, NaN where there was none yet."""
    at, returns = np.array(curve, float).T
    places = np.searchsorted(at, np.arange(1, 11) * steps / 10, side="right") - 1
    return np.where(places >= 0, returns[np.maximum(places, 0)], np.nan)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.reinforce.curves", description=__doc__)
    parser.add_argument("--case", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tools", default="triskele,sb3", help="separated by commas")
    options = parser.parse_args(arguments)
    for name in options.case:
        steps = STEPS[name]
        print(f"| {name}, steps | " + " | ".join(str(k * steps // 10) for k in range(1, 11)) + " |")
        print("|" + " --- |" * 11)
        for tool in options.tools.split(","):
            found = [
                points({"triskele": triskele, "sb3": sb3}[tool].curve(CASES[name], seed, steps), steps)
                for seed in range(1, options.seeds + 1)
            ]
            mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
            print(f"| {tool} | " + " | ".join(f"{m:.0f} ± {s:.0f}" for m, s in zip(mean, spread)) + " |", flush=True)
        print()


if __name__ == "__main__":
    main()
