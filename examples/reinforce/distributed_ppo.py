"""PPO on CartPole with two actors, wherever they run: the same numbers in one process, on threads and on MPI ranks.

    python examples/reinforce/distributed_ppo.py [--output distributed_ppo.png] [--steps 100000]

trains twice, with both actors in turn and with each on a thread of its own; and

    mpiexec -n 3 python examples/reinforce/distributed_ppo.py

on three ranks, one for the learner and two for the actors: synchronously, and with actors that do not wait. All but the
last end with the same weights, bit for bit. The last is another experiment in every run: its actors play with
parameters that are some updates old.
"""

import argparse
import hashlib

import numpy as np

from triskele import core
from triskele import reinforce as rl


def main(output, steps):
    ranks = rl.MPI()
    if ranks.size > 1:
        ways = {"actors on ranks that wait for each other": ranks, "ranks that do not wait": rl.MPI(synchronous=False)}
    else:
        ways = {"two actors in one process": rl.OneProcess(actors=2), "on threads": rl.Threads(actors=2)}
    curves = {}
    for name, distribution in ways.items():
        agent = rl.PPO("CartPole-v1", seed=1, num_envs=16, num_steps=64, learning_rate=1e-3)
        curve = []
        agent.train(steps, report=curve.append, progress=False, distribution=distribution)
        if ranks.root:
            weights = hashlib.sha256(
                b"".join(np.ascontiguousarray(w) for w in core.tree.leaves(agent.model))
            ).hexdigest()[:12]
            late = (
                f", parameters {np.mean([x['staleness'] for x in curve]):.1f} updates old"
                if "staleness" in curve[0]
                else ""
            )
            print(f"{name}: {agent.evaluate(episodes=50)}, weights {weights}{late}")
            curves[name] = curve
    if not ranks.root:
        return

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for (name, curve), style in zip(curves.items(), ("-", "--"), strict=True):
        points = [(x["step"], x["return"]) for x in curve if x["return"] is not None]
        axes.plot(*zip(*points, strict=True), style, linewidth=2, label=name)
    axes.set(
        xlabel="steps",
        ylabel="mean return of the last 100 episodes",
        title="PPO on CartPole",
        xlim=(0, None),
        ylim=(0, 510),
    )
    axes.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="distributed_ppo.png", help="where the picture goes")
    parser.add_argument("--steps", type=int, default=100_000, help="of all environments together")
    main(**vars(parser.parse_args()))
