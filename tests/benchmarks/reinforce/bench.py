"""Benchmark cases of reinforcement learning, in words that no tool owns."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bench:
    """One row of the table.

    Parameters
    ----------
    kind : str
        "rollouts": UCT (c = 1.4) from the first position, leaves valued by one random game. "tree": PUCT where each
        position has 7 moves and all are worth the same, so that only the tree costs time. "network": PUCT with a
        perceptron of two hidden layers of 128 for priors and values. "steps": steps of environments with random
        actions. "ppo", "sac", "dqn": training until the mean return of `window` episodes is at least `target`.
    name : str
        Of a game or an environment.
    peers : tuple of str
        Tools that can do it.
    unit : str
        "simulations/s", "us/simulation", "steps/s", or "s" for a training.
    batch : int
        Trees, or environments.
    simulations : int
        Of each tree in a call.
    leaves : int
        Of one tree that wait for their values at once, in our search.
    steps : int
        Of each environment in a call, or of a training at most.
    target, window : float, int
    settings : dict
        Hyper-parameters, under our names.
    threads : tuple of int
        Counts for which it tells something.
    slow : tuple of str
        Tools that are run when that is asked for only.
    """

    kind: str
    name: str
    peers: tuple[str, ...] = ()
    unit: str = "s"
    batch: int = 1
    simulations: int = 0
    leaves: int = 1
    steps: int = 0
    target: float = 0.0
    window: int = 100
    settings: dict = field(default_factory=dict)
    threads: tuple[int, ...] = (1,)
    slow: tuple[str, ...] = ()

    @property
    def trains(self):
        return self.kind in ("ppo", "sac", "dqn")

    @property
    def count(self):
        """Units in a call."""
        return self.batch * (self.simulations or self.steps)

    def expected(self):
        """What every tool must give, where that is known beforehand: the simulations that were run."""
        return float(self.batch * self.simulations) if self.simulations else None


def _rollouts(name, simulations):
    return Bench("rollouts", name, ("openspiel",), "simulations/s", simulations=simulations, threads=(1, 2))


def _network(batch, simulations, leaves=1):
    return Bench("network", "connect_four", ("mctx",), "simulations/s", batch, simulations, leaves)


def _steps(name, peers, batch=1024, steps=200, threads=(1,)):
    return Bench("steps", name, peers, "steps/s", batch, steps=steps, threads=threads)


_QUICK_SAC = {
    "hidden": (64, 64),
    "learning_starts": 2000,
    "actor_rate": 2e-3,
    "critic_rate": 4e-3,
    "tau": 0.04,
    "discount": 0.97,
}
_ZOO_SAC = {"learning_starts": 100, "actor_rate": 1e-3, "critic_rate": 1e-3, "actor_every": 1}
_ALL = ("gymnax", "envpool")

CASES = {
    "uct_tic_tac_toe": _rollouts("tic_tac_toe", 20_000),
    "uct_connect_four": _rollouts("connect_four", 10_000),
    "uct_othello": _rollouts("othello", 1_000),
    "uct_go_9x9": _rollouts("go(board_size=9)", 1_000),
    "tree_1x32": Bench("tree", "", ("mctx",), "us/simulation", 1, 32),
    "tree_128x32": Bench("tree", "", ("mctx",), "us/simulation", 128, 32),
    "tree_128x200": Bench("tree", "", ("mctx",), "us/simulation", 128, 200),
    "tree_1x800": Bench("tree", "", ("mctx",), "us/simulation", 1, 800),
    "tree_1x100000": Bench("tree", "", (), "us/simulation", 1, 100_000),
    "network_1x32": _network(1, 32),
    "network_16x32": _network(16, 32),
    "network_128x32": _network(128, 32),
    "network_1024x32": _network(1024, 32),
    "network_1x800": _network(1, 800),
    "network_1x800_leaves_8": _network(1, 800, 8),
    "cart_pole_1024": _steps("CartPole-v1", ("gymnasium", *_ALL)),
    "pendulum_1024": _steps("Pendulum-v1", _ALL),
    "acrobot_1024": _steps("Acrobot-v1", _ALL),
    "mountain_car_1024": _steps("MountainCar-v0", _ALL),
    "breakout_1024": _steps("MinAtar/Breakout-v1", ("gymnax",)),
    "cart_pole_65536": _steps("CartPole-v1", (), 65536, 40, (1, 2)),
    "pendulum_65536": _steps("Pendulum-v1", (), 65536, 40, (1, 2)),
    "breakout_8192": _steps("MinAtar/Breakout-v1", (), 8192, 40, (1, 2)),
    "ppo_cart_pole": Bench("ppo", "CartPole-v1", ("sb3",), steps=500_000, target=475, slow=("sb3",)),
    "dqn_cart_pole": Bench("dqn", "CartPole-v1", steps=500_000, target=200, window=20),
    "sac_pendulum": Bench(
        "sac", "Pendulum-v1", ("sb3",), steps=30_000, target=-200, window=10, settings=_ZOO_SAC, slow=("sb3",)
    ),
    "sac_pendulum_small": Bench("sac", "Pendulum-v1", (), steps=30_000, target=-200, window=10, settings=_QUICK_SAC),
}
