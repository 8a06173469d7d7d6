"""Stable-Baselines3, with the hyper-parameters of the agents here where a case has none of its own."""

import numpy as np

modules = ("stable_baselines3", "gymnasium")


def prepare(bench, threads):
    import torch

    torch.set_num_threads(threads)
    seeds = iter(range(1, 1000))
    return lambda: trained(bench, next(seeds), bench.steps, bench.target)[-1][1], lambda mean: [np.array(mean)]


def curve(bench, seed, steps):
    """(steps, mean return of the last episodes) while an agent trains."""
    return trained(bench, seed, steps, np.inf)


def trained(bench, seed, steps, target):
    """The same, until that return is at least `target`."""
    from stable_baselines3.common.callbacks import BaseCallback

    found = []

    class Follow(BaseCallback):
        def _on_step(self):
            returns = [e["r"] for e in self.model.ep_info_buffer][-bench.window :]
            found.append((self.num_timesteps, np.mean(returns) if len(returns) == bench.window else -np.inf))
            return bool(found[-1][1] < target)

    {"ppo": ppo, "sac": sac, "dqn": dqn}[bench.kind](bench, seed).learn(steps, callback=Follow())
    return found


def ppo(bench, seed):
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    network = {"net_arch": [64, 64], "activation_fn": torch.nn.Tanh, "optimizer_kwargs": {"eps": 1e-5}}
    return PPO(
        "MlpPolicy",
        make_vec_env(bench.name, 4, seed),
        n_steps=128,
        batch_size=128,
        n_epochs=4,
        learning_rate=lambda left: 2.5e-4 * left,
        clip_range_vf=0.2,
        ent_coef=0.01,
        policy_kwargs=network,
        seed=seed,
        device="cpu",
    )


def sac(bench, seed):
    from stable_baselines3 import SAC

    return SAC(
        "MlpPolicy",
        bench.name,
        learning_rate=bench.settings["actor_rate"],
        learning_starts=bench.settings["learning_starts"],
        seed=seed,
        device="cpu",
    )


def dqn(bench, seed):
    from stable_baselines3 import DQN

    return DQN(
        "MlpPolicy",
        bench.name,
        learning_rate=2.5e-4,
        buffer_size=10_000,
        learning_starts=10_000,
        batch_size=128,
        train_freq=10,
        target_update_interval=500,
        exploration_fraction=0.5,
        exploration_final_eps=0.05,
        policy_kwargs={"net_arch": [120, 84]},
        max_grad_norm=1e9,
        seed=seed,
        device="cpu",
    )
