"""MuZero's search: many trees over a learned model, which is evaluated once per simulation for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check, short_repr

from ..errors import EvaluatorError, SearchError
from .engines.learned import FunctionEngine, ProgramEngine
from .network import masked_softmax
from .paths import moves_to
from .policies import gumbel, muzero_puct
from .policies.gumbel import Gumbel
from .policies.muzero_puct import MuZeroPUCT
from .tree import ERROR_NODE, STATUS, Tree, check_limits, new_tree

__all__ = ["LearnedModel", "LearnedSearchResult", "MuZero"]


@short_repr
@dataclass(frozen=True)
class LearnedModel:
    """A learned model, which MuZero searches instead of a game.

    The three functions are NumPy functions of batches, which `core.jit` compiles:

    - ``representation(params, observations) -> embeddings``
    - ``dynamics(params, embeddings, actions) -> (embeddings, rewards)``, or ``(embeddings, rewards, discounts)``
    - ``prediction(params, embeddings) -> (logits, values)``

    Alternatively, all three are Numba functions of one sample that write their results into arrays. `params` can then
    be anything that Numba accepts:

    - ``representation(params, observation, embedding)``
    - ``dynamics(params, embedding, action, next_embedding) -> (reward, discount)``
    - ``prediction(params, embedding, logits) -> value``

    Attributes
    ----------
    representation, dynamics, prediction : function
    params : tree of arrays
    num_actions : int
    embedding : (shape, dtype), optional
        Shape of the embedding of one sample; needed with Numba functions.
    discount : float
        Default discount if `dynamics` returns none. Use -1 for games of two players who take turns.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> model = rl.LearnedModel(
    ...     representation=lambda params, observations: observations,
    ...     dynamics=lambda params, states, actions: (states + actions[:, None], 1.0 * actions),
    ...     prediction=lambda params, states: (np.zeros((len(states), 2)), np.sum(states, 1)),
    ...     params={}, num_actions=2)
    >>> model.num_actions, model.discount
    (2, 0.997)
    """

    representation: Callable
    dynamics: Callable
    prediction: Callable
    params: Any
    num_actions: int
    embedding: tuple[tuple[int, ...], Any] | None = None
    discount: float = 0.997

    def __post_init__(self):
        check.integer(self.num_actions, "LearnedModel: num_actions", 1, error=SearchError)
        kinds = [hasattr(f, "py_func") for f in self.functions]
        if any(not callable(f) for f in self.functions) or len(set(kinds)) != 1:
            raise SearchError(
                "LearnedModel: representation, dynamics and prediction must be all NumPy functions, or "
                "all Numba functions"
            )
        if kinds[0] and self.embedding is None:
            raise SearchError("LearnedModel: with Numba functions the embedding must be given, as (shape, dtype)")

    @property
    def functions(self) -> tuple[Callable, Callable, Callable]:
        """All three."""
        return self.representation, self.dynamics, self.prediction


@short_repr
@dataclass(frozen=True)
class LearnedSearchResult:
    """Result of a search of B trees."""

    action: np.ndarray  # (B,) int64
    # (B, num_actions) float64, training target of the policy network: the improved policy with `Gumbel`, else the
    # shares of visits
    policy: np.ndarray
    visits: np.ndarray  # (B, num_actions) int64
    values: np.ndarray  # (B, num_actions) float64, mean return of each action at the root; 0 without visits
    priors: np.ndarray  # (B, num_actions) float32
    root_value: np.ndarray  # (B,) float64, mean return of the root, its own evaluation included
    tree: Tree


class MuZero:
    """Search with a learned model.

    Parameters
    ----------
    model : LearnedModel
    simulations : int
    policy : Gumbel or MuZeroPUCT
    seed : int

    References
    ----------
    Schrittwieser et al., Nature 588 (2020); with `Gumbel`, Danihelka et al., ICLR 2022.

    Examples
    --------
    A line of five places, where the last pays one:

    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> def dynamics(params, places, actions):
    ...     places = np.clip(places + 2 * actions - 1, 0, 4)
    ...     return places, np.where(places == 4, 1.0, 0.0)
    >>> def prediction(params, places):
    ...     return np.zeros((len(places), 2)), np.zeros(len(places))
    >>> model = rl.LearnedModel(lambda params, places: places, dynamics, prediction, (), num_actions=2, discount=0.9)
    >>> search = rl.MuZero(model, simulations=50, policy=rl.Gumbel(gumbel_scale=0.0))
    >>> search(np.array([1, 2, 3])).action
    array([1, 1, 1])
    """

    def __init__(
        self, model: LearnedModel, simulations: int = 50, policy: Gumbel | MuZeroPUCT | None = None, seed: int = 0
    ):
        policy = Gumbel() if policy is None else policy
        check.kind(model, LearnedModel, "MuZero: model", error=SearchError)
        check.integer(simulations, "MuZero: simulations", 1, error=SearchError)
        check.kind(policy, (Gumbel, MuZeroPUCT), "MuZero: policy", "Gumbel(...) or MuZeroPUCT(...)", error=SearchError)
        self.model, self.simulations, self.policy, self.seed = model, int(simulations), policy, seed
        check_limits("MuZero", "the model", 1, model.num_actions)
        self.formulas = gumbel if isinstance(policy, Gumbel) else muzero_puct
        self.schedule, self.formula = self.formulas.parameters(policy, self.simulations, model.num_actions)
        self._made: dict[Any, FunctionEngine | ProgramEngine] = {}
        self.programs = None if hasattr(model.dynamics, "py_func") else _jitted(model)

    def __reduce__(self):
        return MuZero, (self.model, self.simulations, self.policy, self.seed)

    def __repr__(self) -> str:
        return f"<MuZero: {self.model.num_actions} actions, {self.simulations} simulations, {self.policy!r}>"

    def __call__(
        self, observations: np.ndarray, legal: np.ndarray | None = None, params: Any = None, seed: int | None = None
    ) -> LearnedSearchResult:
        """Search from each of B observations.

        Parameters
        ----------
        observations : (B, ...) array
        legal : (B, num_actions) bool, optional
            Legal actions at the roots.
        params : tree of arrays, optional
            In place of the model's.
        seed : int, optional
            In place of the search's.

        Raises
        ------
        EvaluatorError
            If the model returns a non-finite value.
        """
        observations = np.asarray(observations)
        if observations.ndim == 0 or observations.dtype.kind not in "biuf" or not len(observations):
            raise SearchError(
                f"MuZero: observations must be a (batch, ...) array of numbers, got shape "
                f"{observations.shape} of {observations.dtype}"
            )
        trees, actions = len(observations), self.model.num_actions
        legal = np.ones((trees, actions), bool) if legal is None else np.asarray(legal)
        if legal.shape != (trees, actions) or legal.dtype != bool:
            raise SearchError(
                f"MuZero: legal must be a bool array of shape {(trees, actions)}, got {legal.dtype} {legal.shape}"
            )
        if not legal.any(1).all():
            raise SearchError(
                f"MuZero: each root needs a legal action, got none at observation {int(np.argmin(legal.any(1)))}"
            )
        params = self.model.params if params is None else params
        nodes = self.simulations + 1
        tree = new_tree(trees, nodes, nodes * actions)
        noise = np.zeros((trees, actions))
        key = observations.shape, observations.dtype
        if key not in self._made:
            self._made[key] = (ProgramEngine if self.programs else FunctionEngine)(self, observations, params)
        made = self._made[key]
        made.run(self, tree, noise, observations, legal, params, self.seed if seed is None else seed)
        for t in np.flatnonzero(tree.counts[:, STATUS]):
            node = int(tree.counts[t, ERROR_NODE])
            raise EvaluatorError(
                f"MuZero: the model must give finite numbers, got NaN or infinity at node {node} "
                f"(after {moves_to(tree, int(t), node)}) from observation {t}"
            )
        out = LearnedSearchResult(
            np.zeros(trees, np.int64),
            np.zeros((trees, actions)),
            np.zeros((trees, actions), np.int64),
            np.zeros((trees, actions)),
            np.zeros((trees, actions), np.float32),
            np.zeros(trees),
            tree,
        )
        made.kernels.results(
            tree, noise, self.formula, out.action, out.policy, out.visits, out.values, out.priors, out.root_value
        )
        return out


def _jitted(model):
    """Root and step as functions of batches: (params, observations, legal) and (params, embeddings, actions)."""
    actions, discount = model.num_actions, model.discount

    def predict(params, embeddings, batch):
        logits, values = model.prediction(params, embeddings)
        check.shape(logits, (batch, actions), "LearnedModel: prediction: logits", error=EvaluatorError)
        if np.shape(values) == (batch, 1):
            values = values[:, 0]
        check.shape(values, (batch,), "LearnedModel: prediction: values", error=EvaluatorError)
        return logits, values

    def root(params, observations, legal):
        embeddings = model.representation(params, observations)
        logits, values = predict(params, embeddings, legal.shape[0])
        return embeddings, masked_softmax(logits, legal).astype(np.float32), values.astype(np.float32)

    def step(params, embeddings, chosen):
        batch = chosen.shape[0]
        out = model.dynamics(params, embeddings, chosen)
        if not isinstance(out, tuple) or len(out) not in (2, 3):
            raise EvaluatorError(
                f"LearnedModel: dynamics must return (embeddings, rewards) or (embeddings, rewards, "
                f"discounts), got {type(out).__name__}"
            )
        following, rewards = out[0], out[1]
        discounts = out[2] if len(out) == 3 else np.full(batch, discount, np.float32)
        check.shape(following, np.shape(embeddings), "LearnedModel: dynamics: embeddings", error=EvaluatorError)
        check.shape(rewards, (batch,), "LearnedModel: dynamics: rewards", error=EvaluatorError)
        check.shape(discounts, (batch,), "LearnedModel: dynamics: discounts", error=EvaluatorError)
        logits, values = predict(params, following, batch)
        priors = masked_softmax(logits, np.ones((batch, actions), np.bool_))
        return (
            following.astype(embeddings.dtype),
            rewards.astype(np.float32),
            discounts.astype(np.float32),
            priors.astype(np.float32),
            values.astype(np.float32),
        )

    return core.jit(root), core.jit(step)
