"""Gumbel MuZero: a model is learned, and searched for what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele import core
from triskele.core import nn, optim, random
from triskele.core.extend import Reports, check

from ..buffers.trajectory import Segments, TrajectoryBuffer
from ..errors import EnvError
from ..game import Game
from ..mcts.policies.gumbel import Gumbel
from ..mcts.policies.muzero_puct import MuZeroPUCT
from ..policy import Categorical, Policy
from ..spaces import Discrete
from ..training.agent import Agent
from ..training.evaluation import Evaluation
from .muzero_network import MuZeroNetwork, PolicyNetwork, Support
from .muzero_play import MuZeroActor, Planner

__all__ = ["GumbelMuZero"]


class GumbelMuZero(Agent):
    """Search over a learned model of the environment, trained to predict the results of the search, for discrete
    actions.

    Three networks make up the model: observations to embeddings, embeddings and actions to next embeddings and rewards,
    and embeddings to policies and values. In every step one search for all environments chooses actions; the policy
    learns what the search made of it, the value learns rewards and its own value some steps later. Actions may be
    masked by ``info["action_mask"]``.

    With the defaults most seeds balance CartPole's pole (mean return of the policy alone 450 to 500) after 64,000
    steps, which take one core 20 s; some are slower.

    Parameters
    ----------
    env : str, Environment, subclass of Environment, or function
        As `make` takes it.
    seed : int
        Seed of environments, weights, searches and minibatches.
    num_envs, num_steps : int
        Number of environments searched together, and of steps of each between updates.
    simulations : int
        Number of simulations of each search.
    search : Gumbel or MuZeroPUCT
        Selection policy. Defaults to Gumbel().
    unroll_steps : int
        For how many actions the model is unrolled in training.
    td_steps : int
        Rewards in the target of a value, before the network's present value stands for the rest.
    discount : float
    learning_rate : float
        Initial learning rate of Adam.
    anneal : bool
        If True, the learning rate falls linearly to a tenth during the training.
    batch_size, updates : int
        Segments in a minibatch, and minibatches between collections.
    buffer_size : int
        Steps that are kept.
    learning_starts : int
        Steps before the first update.
    value_weight : float
        Weight of the loss of values; those of policies and rewards weigh 1.
    max_grad_norm : float
    support : Support
        How networks give values and rewards: Support(low, high, bins), of squashed values; bins=1 for plain numbers.
    embedding : int
        Width of an embedding.
    hidden : sequence of int
        Widths of the layers between, of each network.
    activation : function
    representation, dynamics, prediction : callable tree, optional
        Networks of your own; `MuZeroNetwork` says from what to what.

    Raises
    ------
    ValueError
        For a hyper-parameter out of range.
    EnvError
        If the environment cannot be made, or has no Discrete actions, or a network gives something of another shape.

    References
    ----------
    Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with a learned model", Nature 588 (2020)
    604, arXiv:1911.08265; Danihelka, Guez, Schrittwieser, Silver, "Policy improvement by planning with Gumbel", ICLR
    2022.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> agent = rl.GumbelMuZero("CartPole-v1", seed=0, simulations=8).train(512, progress=False)
    >>> agent.evaluate(episodes=10).returns.shape
    (10,)
    """

    kept = ("network", "moments", "iteration", "updates", "_buffer.state", "_player.position")

    def __init__(
        self,
        env: Any,
        *,
        seed: int = 0,
        num_envs: int = 16,
        num_steps: int = 8,
        simulations: int = 16,
        search: Gumbel | MuZeroPUCT | None = None,
        unroll_steps: int = 5,
        td_steps: int = 10,
        discount: float = 0.97,
        learning_rate: float = 2e-3,
        anneal: bool = True,
        batch_size: int = 256,
        updates: int = 8,
        buffer_size: int = 8000,
        learning_starts: int = 1000,
        value_weight: float = 1.0,
        max_grad_norm: float = 5.0,
        support: Support | None = None,
        embedding: int = 64,
        hidden: Sequence[int] = (64,),
        activation: Callable = nn.relu,
        representation: Any = None,
        dynamics: Any = None,
        prediction: Any = None,
    ):
        given = {k: v for k, v in locals().items() if k not in ("self", "env", "__class__")}
        if isinstance(env, Game):
            raise EnvError(f"GumbelMuZero: env must be an environment, got the game {env!r} (AlphaZero learns games)")
        super().__init__(
            env,
            {
                **given,
                "search": Gumbel() if search is None else search,
                "support": Support() if support is None else support,
            },
        )
        s = self.settings
        self._check(s)
        space: Any = self.env.action_space
        actions, self.first_action = int(space.n), int(space.start)
        self.network = MuZeroNetwork.init(random.key(seed), self.env.observation_space, actions, s)
        self.moments = optim.Adam().init(self.network)
        self.iteration = self.updates = 0
        self._player = MuZeroActor(self.env, s, self.network)
        kinds = {"policies": ((actions,), np.float32)}
        self._buffer = TrajectoryBuffer(
            s.buffer_size,
            self.env.observation_space,
            Discrete(actions),  # as the networks number them
            num_envs=s.num_envs,
            extras=kinds,
            seed=seed,
        )
        self._update = core.jit(self._updated)

    def _check(self, s):
        self.check_settings(
            integers=[
                "num_steps",
                "simulations",
                "unroll_steps",
                "td_steps",
                "batch_size",
                "updates",
                "buffer_size",
                "embedding",
            ],
            positive=["learning_rate", "max_grad_norm"],
            not_negative=["value_weight", "learning_starts"],
            fractions=["discount"],
        )
        check.kind(
            s.search, (Gumbel, MuZeroPUCT), "GumbelMuZero: search", "Gumbel(...) or MuZeroPUCT(...)", error=ValueError
        )
        check.kind(s.support, Support, "GumbelMuZero: support", "Support(low, high, bins)", error=ValueError)
        self.check_layers()
        if s.buffer_size < max(s.num_envs * (length(s) + s.num_steps), s.batch_size):
            raise ValueError(
                f"GumbelMuZero: buffer_size must hold num_envs * (num_steps + unroll_steps + td_steps) = "
                f"{s.num_envs * (length(s) + s.num_steps)} steps, "
                f"and batch_size = {s.batch_size}, got {s.buffer_size}"
            )
        if not hasattr(self.env.action_space, "n"):
            raise EnvError(
                f"GumbelMuZero: actions must be Discrete, got {self.env.action_space} (PPO and SAC take others)"
            )

    # -- one iteration -------------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, Any]:
        """Collect, then learn; see `Agent`."""
        s, p = self.settings, self._player
        p.collect(self.network, self.iteration)
        self._buffer.extend(p.observations, p.actions, p.rewards, p.terminated, p.truncated, policies=p.policies)
        self.episodes.add(p.rewards, p.terminated, p.truncated)
        self.iteration += 1
        self.steps += p.rewards.size
        ready = (
            self.steps >= s.learning_starts
            and len(self._buffer) >= s.batch_size
            and self._buffer.steps - self._buffer.first >= length(s)
        )
        numbers = self._learn() if ready else dict.fromkeys(("policy_loss", "value_loss", "reward_loss"))
        return {**numbers, "updates": self.updates}

    def _learn(self):
        s = self.settings
        rate = s.learning_rate * (
            1 - 0.9 * (self.steps - self.start) / max(self.target - self.start, 1) if s.anneal else 1
        )
        drawn = [self._buffer.sample(s.batch_size, length(s)) for _ in range(s.updates)]
        segments = core.tree.map(lambda *xs: np.stack(xs), *drawn)
        network, moments, numbers = self._update(self.network, self.moments, segments, np.float32(rate))
        self.check_finite("the loss", *numbers.values())
        self.network, self.moments = network, moments
        self.updates += s.updates
        return {k: float(v) for k, v in numbers.items()}

    def _updated(self, network, moments, segments, rate):
        """(network, state of Adam, means of the loss's parts) after an update with each of the segments' batches."""
        s, optimizer = self.settings, optim.Adam(rate)

        def step(carry, drawn):
            network, moments = carry
            batch = targets(drawn, values_of(network, drawn.observations), s.unroll_steps, s.td_steps, s.discount)
            (_, numbers), grads = core.value_and_grad(unrolled_loss, has_aux=True)(network, batch, s.value_weight)
            return optimizer.step(network, optim.clip_by_global_norm(grads, s.max_grad_norm), moments), numbers

        (network, moments), numbers = core.scan(step, (network, moments), segments)
        return network, moments, core.tree.map(np.mean, numbers)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy of the networks alone, without search; see `Agent`."""
        n = self.network
        return Policy(
            Categorical(PolicyNetwork(n.representation, n.prediction, n.num_actions), self.first_action),
            self.env.observation_space.shape,
            None,
            n.num_actions,
        )

    def planner(self, simulations: int | None = None, *, deterministic: bool = True, seed: int = 0) -> Planner:
        """Return a policy that searches with the current model for each action.

        Parameters
        ----------
        simulations : int, optional
            Defaults to the number used in training.
        deterministic : bool
            If True, take the best action, without the noise of the search.
        seed : int
        """
        return Planner(self, self.settings.simulations if simulations is None else simulations, deterministic, seed)

    def evaluate(
        self,
        episodes: int = 100,
        *,
        seed: int = 0,
        deterministic: bool = True,
        simulations: int = 0,
        report: Reports = None,
        progress: bool | None = None,
    ) -> Evaluation:
        """Play whole episodes in fresh environments, by the policy alone or, with `simulations`, by a search for each
        action; see `Agent`.
        """
        check.integer(episodes, "GumbelMuZero.evaluate: episodes", 1)
        check.integer(seed, "GumbelMuZero.evaluate: seed", 0)
        if simulations == 0:
            return super().evaluate(episodes, seed=seed, deterministic=deterministic, report=report, progress=progress)
        planner = self.planner(simulations, deterministic=deterministic, seed=seed + 1)
        return self.play(planner, int(episodes), self.settings.num_envs, seed, None, report, progress)


def length(settings: Any) -> int:
    """Steps of a segment: the unrolled ones, and those in the target of the last value."""
    return settings.unroll_steps + settings.td_steps


def values_of(network: MuZeroNetwork, observations: Any) -> Any:
    """Return the network's values (T, B) of observations (T, B, ...), newer than those stored by searches."""
    rows = np.reshape(observations, (-1, *np.shape(observations)[2:])).astype(np.float32)
    values = network.support.mean(network.predict(network.represent(rows))[1])
    return core.stop_gradient(np.reshape(values, np.shape(observations)[:2]))


def targets(segments: Segments, values: Any, unroll_steps: int, td_steps: int, discount: float) -> dict[str, Any]:
    """Return the targets of the unrolled networks (Schrittwieser et al., Nature 588 (2020), eq. 1 and appendices G and
    H), with weights that are 0 for what does not count.

    Values are z_t = sum_{k<n} gamma^k r_{t+k} + gamma^n v_{t+n}, where v are `values` (unroll_steps + td_steps + 1, B)
    of the observations by recent parameters. `segments` have unroll_steps + td_steps steps, and the improved policies
    of searches as the extra ``policies``. After a terminated step the model is to stay where rewards and values are 0,
    whatever is done (absorbing states); after a truncated one nothing is known.
    """
    rewards, terminated, truncated = segments.rewards, segments.terminated, segments.truncated
    places = unroll_steps + 1
    found = values[td_steps:]
    for k in reversed(range(td_steps)):  # of fewer and fewer steps, from the last on
        here, after = slice(k, k + places), slice(k + 1, k + 1 + places)
        found = np.where(truncated[here], values[after], found)
        found = rewards[here] + np.where(terminated[here], 0, discount * found).astype(rewards.dtype)
    ends, cuts = [np.zeros_like(terminated[0])], [np.zeros_like(terminated[0])]
    for k in range(unroll_steps):
        cuts.append(cuts[-1] | (truncated[k] & ~terminated[k] & ~ends[-1]))
        ends.append(ends[-1] | (terminated[k] & ~cuts[-1]))
    over, unknown = np.stack(ends), np.stack(cuts)

    def weights(counts):
        return counts.astype(rewards.dtype)

    return {
        "observations": segments.observations[0],  # (B, ...)
        "actions": segments.actions[:unroll_steps],  # (unroll, B), and so are the rewards
        "policies": segments.extras["policies"][:places],  # (unroll + 1, B, A)
        "rewards": np.where(over[:-1], 0, rewards[:unroll_steps]).astype(rewards.dtype),
        "values": np.where(over, 0, found).astype(rewards.dtype),  # (unroll + 1, B)
        "reward_weights": weights(~unknown[:-1]),
        "value_weights": weights(~unknown),
        "policy_weights": weights(~unknown & ~over),
    }


def unrolled_loss(
    network: MuZeroNetwork, batch: dict[str, Any], value_weight: float, gradient_scale: float = 0.5
) -> tuple[Any, dict[str, Any]]:
    """Return the loss of a minibatch from `targets`, and its parts (Schrittwieser et al., Nature 588 (2020), appendix
    G; Danihelka et al., ICLR 2022, eq. 12, for the cross entropy to the improved policy).

    `gradient_scale` scales what goes back through each step of the model. Each step counts one part in `unroll_steps`,
    so that all of them weigh as much as the first place.
    """
    unroll, rows = np.shape(batch["actions"])
    embedding = network.represent(batch["observations"].astype(batch["rewards"].dtype))
    embeddings, rewards = [embedding], []
    for k in range(unroll):
        embedding, reward = network.step(
            gradient_scale * embedding + (1 - gradient_scale) * core.stop_gradient(embedding), batch["actions"][k]
        )
        embeddings.append(embedding)
        rewards.append(reward)
    logits, values = network.predict(np.concatenate(embeddings))
    shares = np.array([1] + [1 / unroll] * unroll, batch["rewards"].dtype)[:, None]

    def total(losses, weights, shares):
        return np.sum(np.reshape(losses, np.shape(weights)) * weights * shares) / rows

    wanted = np.reshape(batch["policies"], (-1, network.num_actions))
    policy = total(-np.sum(wanted * nn.log_softmax(logits), axis=-1), batch["policy_weights"], shares)
    value = total(network.support.loss(values, np.reshape(batch["values"], -1)), batch["value_weights"], shares)
    reward = total(
        network.support.loss(np.concatenate(rewards), np.reshape(batch["rewards"], -1)),
        batch["reward_weights"],
        shares[1:],
    )
    return policy + value_weight * value + reward, {"policy_loss": policy, "value_loss": value, "reward_loss": reward}
