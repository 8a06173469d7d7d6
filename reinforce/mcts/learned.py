"""MuZero's search: trees over a learned model, many of them in step, the model evaluated once a simulation for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core.compile.generated import load_module
from triskele.core.kernels.njit import inner
from triskele.reinforce.errors import EvaluatorError, SearchError
from triskele.reinforce.fingerprint import fingerprint, plain
from triskele.reinforce.mcts import gumbel, muzero
from triskele.reinforce.mcts.gumbel import Gumbel
from triskele.reinforce.mcts.muzero import MuZeroPUCT
from triskele.reinforce.mcts.network import masked_softmax
from triskele.reinforce.mcts.paths import moves_to
from triskele.reinforce.mcts.tree import ERROR_NODE, STATUS, Tree, new_tree
from triskele.reinforce.program import Batch

__all__ = ["LearnedModel", "LearnedSearchResult", "MuZero"]


@dataclass(frozen=True)
class LearnedModel:
    """What MuZero searches in place of a game.

    The three functions are NumPy functions of batches, which `core.jit` compiles:

    - ``representation(params, observations) -> embeddings``
    - ``dynamics(params, embeddings, actions) -> (embeddings, rewards)``, or ``(embeddings, rewards, discounts)``
    - ``prediction(params, embeddings) -> (logits, values)``

    or they are all three Numba functions of one sample, which write their arrays; `params` is anything that Numba takes:

    - ``representation(params, observation, embedding)``
    - ``dynamics(params, embedding, action, next_embedding) -> (reward, discount)``
    - ``prediction(params, embedding, logits) -> value``

    Attributes
    ----------
    representation, dynamics, prediction : function
    params : tree of arrays
    num_actions : int
    embedding : (shape, dtype), optional
        Of one sample; needed with Numba functions.
    discount : float
        Where `dynamics` gives none. -1 in games of two players who take turns.
    """

    representation: Callable
    dynamics: Callable
    prediction: Callable
    params: Any
    num_actions: int
    embedding: tuple[tuple[int, ...], Any] | None = None
    discount: float = 0.997

    def __post_init__(self):
        if not isinstance(self.num_actions, (int, np.integer)) or self.num_actions < 1:
            raise SearchError(f"LearnedModel: num_actions must be a positive integer, got {self.num_actions!r}")
        kinds = [hasattr(f, "py_func") for f in self.functions]
        if any(not callable(f) for f in self.functions) or len(set(kinds)) != 1:
            raise SearchError("LearnedModel: representation, dynamics and prediction must be all NumPy functions, or all Numba functions")
        if kinds[0] and self.embedding is None:
            raise SearchError("LearnedModel: with Numba functions the embedding must be given, as (shape, dtype)")

    @property
    def functions(self) -> tuple[Callable, Callable, Callable]:
        """All three."""
        return self.representation, self.dynamics, self.prediction


@dataclass(frozen=True)
class LearnedSearchResult:
    """What a search of B trees found.

    Attributes
    ----------
    action : (B,) int64
    policy : (B, num_actions) float64
        What the policy of a network should become: with `Gumbel` the improved policy, else the shares of visits.
    visits : (B, num_actions) int64
    values : (B, num_actions) float64
        Mean return of each action at the root; 0 without visits.
    priors : (B, num_actions) float32
    root_value : (B,) float64
        Mean return of the root, its own evaluation included.
    tree : Tree
    """

    action: np.ndarray
    policy: np.ndarray
    visits: np.ndarray
    values: np.ndarray
    priors: np.ndarray
    root_value: np.ndarray
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

    def __init__(self, model: LearnedModel, simulations: int = 50, policy: Gumbel | MuZeroPUCT | None = None, seed: int = 0):
        policy = Gumbel() if policy is None else policy
        if not isinstance(model, LearnedModel):
            raise SearchError(f"MuZero: model must be a LearnedModel, got {type(model).__name__}")
        if not isinstance(simulations, (int, np.integer)) or isinstance(simulations, bool) or simulations < 1:
            raise SearchError(f"MuZero: simulations must be a positive integer, got {simulations!r}")
        if not isinstance(policy, (Gumbel, MuZeroPUCT)):
            raise SearchError(f"MuZero: policy must be Gumbel(...) or MuZeroPUCT(...), got {policy!r}")
        self.model, self.simulations, self.policy, self.seed = model, int(simulations), policy, seed
        self._formulas = gumbel if isinstance(policy, Gumbel) else muzero
        self.schedule, self.formula = self._formulas.parameters(policy, self.simulations, model.num_actions)
        self._made: dict[Any, _Model] = {}
        if not hasattr(model.dynamics, "py_func"):
            self._functions = _jitted(model)

    def __call__(self, observations: np.ndarray, legal: np.ndarray | None = None, params: Any = None, seed: int | None = None) -> LearnedSearchResult:
        """Search from each of B observations.

        Parameters
        ----------
        observations : (B, ...) array
        legal : (B, num_actions) bool, optional
            What can be played at the roots.
        params : tree of arrays, optional
            In place of the model's.
        seed : int, optional
            In place of the search's.

        Raises
        ------
        EvaluatorError
            Where the model gives what is no number.
        """
        observations = np.asarray(observations)
        if observations.ndim == 0 or observations.dtype.kind not in "biuf" or not len(observations):
            raise SearchError(f"MuZero: observations must be a (batch, ...) array of numbers, got shape {observations.shape} of {observations.dtype}")
        trees, actions = len(observations), self.model.num_actions
        legal = np.ones((trees, actions), bool) if legal is None else np.asarray(legal)
        if legal.shape != (trees, actions) or legal.dtype != bool:
            raise SearchError(f"MuZero: legal must be a bool array of shape {(trees, actions)}, got {legal.dtype} {legal.shape}")
        if not legal.any(1).all():
            raise SearchError(f"MuZero: each root needs a legal action, got none at observation {int(np.argmin(legal.any(1)))}")
        params = self.model.params if params is None else params
        nodes = self.simulations + 1
        tree = new_tree(trees, nodes, nodes * actions)
        noise = np.zeros((trees, actions))
        key = observations.shape, observations.dtype
        if key not in self._made:
            self._made[key] = _Model(self, observations, params)
        made = self._made[key]
        failed = made.run(tree, noise, observations, legal, params, self.seed if seed is None else seed)
        if failed:
            made.failed()
        for t in np.flatnonzero(tree.counts[:, STATUS]):
            node = int(tree.counts[t, ERROR_NODE])
            raise EvaluatorError(f"MuZero: the model must give finite numbers, got NaN or infinity at node {node} (after {moves_to(tree, t, node)}) from observation {t}")
        out = [np.zeros(trees, np.int64), np.zeros((trees, actions)), np.zeros((trees, actions), np.int64), np.zeros((trees, actions)), np.zeros((trees, actions), np.float32), np.zeros(trees)]
        made.kernels.results(tree, noise, self.formula, *out)
        return LearnedSearchResult(*out, tree=tree)


def _jitted(model):
    """Root and step as functions of batches: (params, observations, legal) and (params, embeddings, actions)."""
    actions, discount = model.num_actions, model.discount

    def predict(params, embeddings, batch):
        logits, values = model.prediction(params, embeddings)
        _has_shape("prediction: logits", logits, (batch, actions))
        if np.shape(values) == (batch, 1):
            values = values[:, 0]
        _has_shape("prediction: values", values, (batch,))
        return logits, values

    def root(params, observations, legal):
        embeddings = model.representation(params, observations)
        logits, values = predict(params, embeddings, legal.shape[0])
        return embeddings, masked_softmax(logits, legal).astype(np.float32), values.astype(np.float32)

    def step(params, embeddings, chosen):
        batch = chosen.shape[0]
        out = model.dynamics(params, embeddings, chosen)
        if not isinstance(out, tuple) or len(out) not in (2, 3):
            raise EvaluatorError(f"LearnedModel: dynamics must return (embeddings, rewards) or (embeddings, rewards, discounts), got {type(out).__name__}")
        following, rewards = out[0], out[1]
        discounts = out[2] if len(out) == 3 else np.full(batch, discount, np.float32)
        _has_shape("dynamics: embeddings", following, np.shape(embeddings))
        _has_shape("dynamics: rewards", rewards, (batch,))
        _has_shape("dynamics: discounts", discounts, (batch,))
        logits, values = predict(params, following, batch)
        priors = masked_softmax(logits, np.ones((batch, actions), np.bool_))
        return following.astype(embeddings.dtype), rewards.astype(np.float32), discounts.astype(np.float32), priors.astype(np.float32), values.astype(np.float32)

    return core.jit(root), core.jit(step)


def _has_shape(what, x, shape):
    if np.shape(x) != shape:
        raise EvaluatorError(f"LearnedModel: {what} must have shape {shape}, got {np.shape(x)}")


class _Model:
    """A model's programs or functions, its arrays for one shape of observations, and the kernel that uses them."""

    def __init__(self, search, observations, params):
        model, rows = search.model, len(observations)
        formulas = search._formulas
        names = {n: getattr(formulas, n) for n in ("prepare_root", "choose_root", "choose", "conclude")}
        self.search = search
        if hasattr(model.dynamics, "py_func"):
            shape, dtype = model.embedding
            self.root = self.step = None
            f32 = np.float32
            arrays = [np.zeros((rows, *shape), dtype), np.zeros((rows, model.num_actions), f32), np.zeros(rows, f32)]
            self.arrays = [*arrays, np.zeros((rows, *shape), dtype), np.zeros(rows, np.int64), np.zeros((rows, *shape), dtype), np.zeros(rows, f32), np.zeros(rows, f32), *(a.copy() for a in arrays[1:])]
            names |= {n: inner(plain(f)) for n, f in zip(("representation", "dynamics", "prediction"), model.functions, strict=True)}
            key, code = fingerprint(*model.functions), _FUNCTIONS
        else:
            root, step = search._functions
            self.root = Batch(root, params, rows, (observations.shape[1:], observations.dtype), ((model.num_actions,), np.bool_))
            embedding = self.root.outputs[0]
            self.step = Batch(step, params, rows, (embedding.shape[1:], embedding.dtype), ((), np.int64))
            self.arrays = [*self.root.outputs, *self.step.inputs, *self.step.outputs]
            key, code = "", _PROGRAMS
        self.kernels = load_module(_SEARCH.format(formulas=formulas.__name__, key=key, **code), "learned", names)

    def run(self, tree, noise, observations, legal, params, seed):
        search, rows = self.search, len(observations)
        if self.root is None:
            roots = steps = params
        else:
            for batch in (self.root, self.step):
                if params is not batch.params:
                    batch.set_params(params)
            self.root.inputs[0][:rows], self.root.inputs[1][:rows] = observations, legal
            roots, steps = self.root.calls, self.step.calls
        views = [a.reshape(len(a), -1) if k in (0, 3, 5) else a for k, a in enumerate(self.arrays)]
        embeddings = np.empty((rows, search.simulations + 1, views[0].shape[1]), views[0].dtype)
        observations = np.ascontiguousarray(observations)
        if self.root is None:
            views = self.arrays
            embeddings = np.empty((rows, search.simulations + 1, *self.arrays[0].shape[1:]), self.arrays[0].dtype)
        discounts = np.empty((rows, search.simulations + 1), np.float32)
        return self.kernels.search(tree, embeddings, discounts, noise, search.schedule, search.formula, search.simulations, seed, observations, legal, roots, steps, *views)

    def failed(self):
        self.step.failed()


_PROGRAMS = {"evaluate_roots": "if run_all(roots) != 0:\n        return 1", "evaluate_leaves": "if run_all(steps) != 0:\n            return 1"}
_FUNCTIONS = {
    "evaluate_roots": """for b in range(trees):
        representation(roots, observations[b], root_embedding[b])
        root_value[b] = prediction(roots, root_embedding[b], edges.sigma)
        softmax(edges.sigma, legal[b], root_prior[b])""",
    "evaluate_leaves": """for b in range(trees):
            reward[b], discount[b] = dynamics(steps, embedding[b], action[b], next_embedding[b])
            value[b] = prediction(steps, next_embedding[b], edges.sigma)
            softmax(edges.sigma, everything, prior[b])""",
}
_SEARCH = '''"""MuZero's search by the formulas of {formulas}. {key}"""
import math

import numpy as np

from triskele.core.kernels.njit import inner, kernel
from triskele.reinforce import random
from triskele.reinforce.mcts import gumbel, muzero
from triskele.reinforce.mcts.edges import add_value, expand, gather, new_edges
from triskele.reinforce.mcts.tree import ERROR_NODE, FREE, RAN, STATUS, add_node, reset, row
from triskele.reinforce.program import run_all


@inner
def softmax(logits, legal, out):
    top, total = -math.inf, 0.0
    for a in range(len(out)):
        if legal[a]:
            top = max(top, logits[a])
    for a in range(len(out)):
        out[a] = math.exp(logits[a] - top) if legal[a] else 0.0
        total += out[a]
    for a in range(len(out)):
        out[a] /= total


@kernel(nogil=True)
def search(tree, embeddings, discounts, noise, schedule, formula, simulations, seed, observations, legal, roots, steps,
           root_embedding, root_prior, root_value, embedding, action, next_embedding, reward, discount, prior, value):
    trees, actions = legal.shape
    edges, leaves = new_edges(actions), np.empty(trees, np.int64)
    everything = np.ones(actions, np.bool_)
    {evaluate_roots}
    for b in range(trees):
        one = row(tree, b)
        reset(one)
        random.start(one.streams, seed, b, 0)
        add_node(one, FREE, FREE, 0, 0)
        embeddings[b, 0] = root_embedding[b]
        one.values[0] = root_value[b]
        add_value(one, 0, root_value[b])
        if not math.isfinite(root_value[b]) or not expand(one, 0, legal[b], root_prior[b]):
            one.counts[STATUS] = 1
            return 0
        prepare_root(one, noise[b], formula, edges)
    for t in range(simulations):
        for b in range(trees):
            one = row(tree, b)
            node, edge = 0, one.links[0].first_edge + choose_root(one, noise[b], schedule, formula, edges)
            while one.children[edge] >= 0:
                node = one.children[edge]
                edge = one.links[node].first_edge + choose(one, node, formula, edges)
            leaves[b] = add_node(one, node, edge, 0, 0)
            embedding[b] = embeddings[b, node]
            action[b] = one.actions[edge]
        {evaluate_leaves}
        for b in range(trees):
            one, node, total = row(tree, b), leaves[b], np.float64(value[b])
            embeddings[b, node] = next_embedding[b]
            one.values[node], one.rewards[node], discounts[b, node] = value[b], reward[b], discount[b]
            if not math.isfinite(total + reward[b] + discount[b]) or not expand(one, node, everything, prior[b]):
                one.counts[STATUS], one.counts[ERROR_NODE] = 1, node
                return 0
            while node > 0:
                total = one.rewards[node] + discounts[b, node] * total
                add_value(one, node, total)
                node = one.parents[node].parent
            add_value(one, 0, total)
            one.counts[RAN] += 1
    return 0


@kernel(nogil=True)
def results(tree, noise, formula, action, policy, visits, values, priors, root_value):
    edges = new_edges(policy.shape[1])
    for b in range(len(action)):
        one = row(tree, b)
        count, first = gather(one, 0, edges), one.links[0].first_edge
        for k in range(count):
            a = one.actions[first + k]
            visits[b, a], values[b, a], priors[b, a] = edges.visits[k], edges.q[k], edges.prior[k]
        root_value[b] = one.totals[0] / one.stats[0].visits
        action[b] = conclude(one, noise[b], formula, edges, policy[b])
'''
