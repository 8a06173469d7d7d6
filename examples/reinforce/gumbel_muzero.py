"""Learn a model of a cart with a pole, and balance the pole by searching it (Gumbel MuZero).

Nothing is known of the world but what it answers: three small networks learn what actions lead to, what they pay and what the search
will find. It prints the return of the policy alone and with a search for each action, and draws the learning curve and what the
model foresees of a cart that is pushed to one side until the pole falls.

    python examples/reinforce/gumbel_muzero.py [--steps 25000] [--output gumbel_muzero.png]
"""

import argparse
import time

import numpy as np

from triskele import reinforce as rl

PUSHES = 20


def foreseen(network, observation, actions):
    """Rewards that the model expects of these actions, one after the other."""
    embedding, rewards = network.represent(observation), []
    for action in actions:
        embedding, reward = network.step(embedding, np.array([action]))
        rewards.append(float(network.support.mean(reward)[0]))
    return rewards


def main(steps, output):
    agent = rl.GumbelMuZero("CartPole-v1", seed=0)
    curve = []

    def watch(numbers):
        if not curve or numbers["steps"] >= curve[-1][0] + steps // 12:
            curve.append((numbers["steps"], agent.evaluate(20).mean))

    started = time.perf_counter()
    agent.train(steps, report=watch)
    alone = agent.evaluate(50)
    print(f"{agent.steps} steps in {time.perf_counter() - started:.0f} s, compilation included")
    print(f"policy alone: {alone}")
    print(f"with a search for each action: {agent.evaluate(16, simulations=16)}")

    env = rl.make("CartPole-v1", seed=5)
    first, _ = env.reset()
    paid = []
    for _ in range(PUSHES):
        _, reward, terminated, _, _ = env.step([1])
        paid.append(reward[0])
        if terminated[0]:
            break
    paid += [0.0] * (PUSHES - len(paid))

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    x, y = np.array([*curve, (agent.steps, alone.mean)]).T
    left.plot(x, y, ".-", color="tab:blue")
    left.axhline(500, color="gray", lw=0.8, ls="--")
    left.set(xlabel="steps of 16 environments together", ylabel="mean return of the policy alone", title="CartPole-v1", ylim=(0, 520))
    right.step(range(1, PUSHES + 1), paid, where="mid", color="black", label="world")
    right.plot(range(1, PUSHES + 1), foreseen(agent.network, first, [1] * PUSHES), ".-", color="tab:orange", label="model")
    right.set(xlabel="pushes to the right", ylabel="reward", title="what the model foresees of a fall", xticks=range(0, PUSHES + 1, 5))
    right.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=25_000)
    parser.add_argument("--output", default="gumbel_muzero.png", help="where the picture goes")
    arguments = parser.parse_args()
    main(arguments.steps, arguments.output)
