"""Train PPO to balance a pole, with CleanRL's hyper-parameters; save the policy, and load it without the training code.

python examples/reinforce/train_ppo.py [--output train_ppo.png]
"""

import argparse
import time
from pathlib import Path

from triskele import reinforce as rl


def main(output):
    curve = []
    agent = rl.PPO("CartPole-v1", seed=0)
    began = time.perf_counter()
    agent.train(500_000, report=[curve.append, rl.CSV(Path(output).with_suffix(".csv"))])
    print(
        f"{agent.steps:,} steps in {time.perf_counter() - began:.1f} s, compilation included; mean return of the "
        f"last 100 episodes {curve[-1]['return']:.1f}"
    )

    path = Path(output).with_suffix(".safetensors")
    agent.policy.save(path)
    policy = rl.Policy.load(path)
    env = rl.make("CartPole-v1", num_envs=100, seed=7)
    observation, _ = env.reset()
    alive, lengths = [True] * 100, [0] * 100
    for _ in range(500):
        observation, _, terminated, truncated, _ = env.step(policy(observation))
        lengths = [n + a for n, a in zip(lengths, alive, strict=True)]
        alive = [a and not (t or u) for a, t, u in zip(alive, terminated, truncated, strict=True)]
    print(f"the policy in {path} balances the pole for {sum(lengths) / 100:.1f} of 500 steps")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.plot([n["step"] for n in curve], [n["return"] for n in curve])
    axes.axhline(475, color="k", lw=0.8, ls=":")
    axes.text(0, 478, "solved", va="bottom")
    axes.set(
        xlabel="steps in all environments",
        ylabel="mean return of the last 100 episodes",
        title="CartPole-v1",
        ylim=(0, 510),
    )
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="train_ppo.png", help="where the picture goes")
    main(parser.parse_args().output)
