"""Learn a model of a cart with a pole, and balance the pole by searching it (Gumbel MuZero).

Nothing is known of the world but what it answers: three small networks learn what actions lead to, what they pay and
what the search will find. It prints the return of the policy alone and with a search for each action, and draws the
learning curve and what the networks think of a pole at different angles and velocities.

    python examples/reinforce/gumbel_muzero.py [--steps 60000] [--output gumbel_muzero.png]
"""

import argparse
import time

import numpy as np

from triskele import reinforce as rl


def looked_at(network):
    """Values of poles at rest in the middle, by angle and angular velocity, and which way the policy pushes (-1 ...

    1).
    """
    angles, speeds = np.meshgrid(np.linspace(-0.21, 0.21, 41), np.linspace(-2, 2, 41))
    zero = np.zeros_like(angles)
    logits, values = network.predict(
        network.represent(np.stack([zero, zero, angles, speeds], axis=-1).reshape(-1, 4).astype(np.float32))
    )
    push = np.tanh((logits[:, 1] - logits[:, 0]) / 2)
    return angles, speeds, network.support.mean(values).reshape(angles.shape), push.reshape(angles.shape)


def main(steps, output):
    agent = rl.GumbelMuZero("CartPole-v1", seed=0)
    curve = []

    def watch(numbers):
        if not curve or numbers["step"] >= curve[-1][0] + steps // 12:
            curve.append((numbers["step"], agent.evaluate(20).mean))

    started = time.perf_counter()
    agent.train(steps, report=watch)
    alone = agent.evaluate(50)
    print(f"{agent.steps} steps in {time.perf_counter() - started:.0f} s, compilation included")
    print(f"policy alone: {alone}")
    print(f"with a search for each action: {agent.evaluate(16, simulations=16)}")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    x, y = np.array([*curve, (agent.steps, alone.mean)]).T
    left.plot(x / 1000, y, ".-", color="tab:blue")
    left.axhline(500, color="gray", lw=0.8, ls="--")
    left.set(
        xlabel="thousands of steps, of 16 environments together",
        ylabel="mean return of the policy alone",
        title="CartPole-v1",
        ylim=(0, 520),
    )
    angles, speeds, values, push = looked_at(agent.network)
    shown = right.contourf(angles, speeds, values, 20, cmap="viridis")
    right.contour(angles, speeds, push, [0.0], colors="white")
    right.set(xlabel="angle of the pole", ylabel="angular velocity", title="value, and where the policy turns round")
    figure.colorbar(shown, ax=right, label="value (discounted return)")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--output", default="gumbel_muzero.png", help="where the picture goes")
    arguments = parser.parse_args()
    main(arguments.steps, arguments.output)
