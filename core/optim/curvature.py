"""Blocks of the Fisher matrix of a loss, found in the loss's graph, and their estimates.

The Fisher matrix of a loss L = sum_r c_r l_r of marked likelihoods (`likelihood`) is F = sum_r c_r J_r^T H_r J_r, with
the Jacobian J_r of the network's r-th output and the Hessian H_r of its negative log-likelihood. For these
distributions it equals the generalized Gauss-Newton matrix (Martens 2020, section 9.2). A weight that multiplies rows
x whose results have cotangents g gets the block A ⊗ G with A = mean x x^T and G = sum g g^T (Martens & Grosse 2015,
section 3; convolutions: Grosse & Martens 2016, section 3; several uses: Martens, Ba & Johnson 2018, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import random, tree
from ..graph.graph import Graph, Spec, Var, spec_of
from ..graph.trace import dead_code, evaluate, make_graph, traceable
from ..ops.index import index_add
from ..transforms.forward import jvp
from ..transforms.grad import value_and_grad
from ..transforms.tape import TapeTensor, TapeTrace, backward
from ..transforms.vmap import vmap
from .output_hessians import hessian, roots, sample
from .uses import Layout, Use, find_uses, run, zero_specs

__all__ = ["Block", "Curvature", "Estimate", "curvature_blocks"]


@dataclass(frozen=True)
class Block:
    """Approximation of the Fisher matrix for one parameter, or for a weight with its bias.

    Parameters
    ----------
    kind : {"kronecker", "diagonal", "gradient", "constant"}
        Kronecker product of a factor of inputs and one of outputs, in the order of the parameter as a matrix; exact
        diagonal, for scales and shifts; diagonal estimated by squared gradients of sampled targets, for parameters that
        are used in any other way; no block, for arrays on which the loss does not depend.
    parameters : tuple of str
        Paths in the tree of parameters.
    uses : tuple of str
        Operations in the graph: "product", "convolution", "gather", "scale", "shift".
    sizes : tuple of int
        Dimensions of the factors.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, optim
    >>> loss = lambda w, x: nn.mean_squared_error(x @ w, np.ones((4, 2)))
    >>> optim.curvature_blocks(loss, np.zeros((3, 2)), np.ones((4, 3)))[0].sizes
    (3, 2)
    """

    kind: str
    parameters: tuple[str, ...]
    uses: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


class _Place(NamedTuple):
    """Where a block lies: its leaves, the numbers of its uses, and the view of its weight as a matrix."""

    leaves: tuple[int, ...]
    uses: tuple[int, ...] = ()
    layout: Layout | None = None
    turned: tuple[bool, ...] = ()  # for each use: inputs and outputs change places


class Estimate(NamedTuple):
    """Loss, gradient and factors of the blocks at one point, and the weights of the likelihoods in the loss."""

    loss: Any
    grads: list[Any]
    factors: list[tuple[Any, ...]]
    weights: list[Any]


class _Mark(NamedTuple):
    distribution: str
    outputs: Var
    losses: Var


def curvature_blocks(loss: Callable[..., Any], params: Any, batch: Any) -> list[Block]:
    """Find the blocks by which `KFAC` and `THOR` approximate the Fisher matrix of a loss.

    Parameters
    ----------
    loss : callable
        ``loss(params, batch)``, a scalar that contains a marked likelihood; see `likelihood`.
    params : tree of arrays
    batch : tree of arrays

    Returns
    -------
    list of Block
        In the order of the leaves of `params`; a bias that is added to the product with a weight is in its block.

    Raises
    ------
    ValueError
        If the loss is not a scalar, or has no marked likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, optim, random
    >>> net = nn.MLP.init(random.key(0), [3, 8, 2])
    >>> loss = lambda net, batch: nn.cross_entropy(net(batch[0]), batch[1])
    >>> for block in optim.curvature_blocks(loss, net, (np.ones((5, 3), np.float32), np.zeros(5, int))):
    ...     print(block.kind, block.parameters, block.sizes)
    kronecker ('layers[0].weight', 'layers[0].bias') (4, 8)
    kronecker ('layers[1].weight', 'layers[1].bias') (9, 2)
    """
    return Curvature("curvature_blocks", loss, params, batch).blocks


class Curvature:
    """The graph of a loss with the blocks of its Fisher matrix, for the shapes and dtypes of `params` and `batch`."""

    def __init__(self, where: str, loss: Callable[..., Any], params: Any, batch: Any):
        self.where = where
        leaves, self.structure = tree.flatten(params)
        batch_leaves, batch_structure = tree.flatten(batch)
        self.specs = [spec_of(x) for x in leaves]
        self.names = [path or "params" for path, _ in tree.paths(params)]
        n = len(leaves)

        def outputs(*xs):
            return [traceable(loss)(tree.unflatten(self.structure, xs[:n]), tree.unflatten(batch_structure, xs[n:]))]

        specs = self.specs + [spec_of(x) for x in batch_leaves]
        self.graph, self.captured = make_graph(outputs, specs, getattr(loss, "__name__", "loss"))
        out = self.graph.outputs[0].spec
        if out.shape or out.dtype.kind != "f":
            raise ValueError(f"{where}: the loss must be a real scalar, got {out}")
        self.marks = _marks(where, self.graph)
        floats = [k for k, s in enumerate(self.specs) if s.dtype.kind == "f"]
        if any(s.dtype.kind == "c" for s in self.specs):
            raise TypeError(f"{where}: parameters must be real, got complex ones (optimize real and imaginary part)")
        self.uses, others = find_uses(self.graph, floats)
        self.ordered = self.uses.ordered(self.graph)
        self.blocks: list[Block] = []
        self.places: list[_Place] = []
        merged = {u.bias for u in self.ordered if u.bias is not None}
        for leaf in range(n):
            if leaf not in merged:
                for block, place in self._blocks(leaf, leaf in floats, leaf in others):
                    self.blocks.append(block)
                    self.places.append(place)
        if all(b.kind == "constant" for b in self.blocks):
            raise ValueError(f"{where}: the loss must depend on the parameters, got one that uses none of them")

    def _blocks(self, leaf, differentiable, other):
        """The block of a leaf and of its bias, or blocks of both, with their places."""
        mine = tuple(i for i, u in enumerate(self.ordered) if u.leaf == leaf)
        uses = [self.ordered[i] for i in mine]
        kinds = {u.kind for u in uses}
        spec, words = self.specs[leaf], tuple(sorted(kinds))
        leaves = (leaf,) if not uses or uses[0].bias is None else (leaf, uses[0].bias)
        names = tuple(self.names[k] for k in leaves)
        if not differentiable or not (uses or other):
            return [(Block("constant", names), _Place(leaves))]
        if not other and kinds == {"shift"} and len(spec.shape) == 1:
            layout = Layout((), (1, spec.size))
            place = _Place(leaves, mine, layout, (False,) * len(mine))
            return [(Block("kronecker", names, words, layout.shape), place)]
        if not other and kinds <= {"scale", "shift"}:
            return [(Block("diagonal", names, words, (spec.size,)), _Place(leaves, mine))]
        if not other and kinds <= {"product", "convolution", "gather"}:
            turned = _turned(spec, [u.layout for u in uses])
            if turned is not None and not (any(turned) and len(leaves) == 2):
                layout = uses[0].layout
                sizes = (layout.shape[0] + len(leaves) - 1, layout.shape[1])
                return [(Block("kronecker", names, words, sizes), _Place(leaves, mine, layout, turned))]
        return [(Block("gradient", (self.names[k],), words, (self.specs[k].size,)), _Place((k,))) for k in leaves]

    # -- estimates -----------------------------------------------------------------------------------------------------

    def zeros(self) -> list[tuple[Any, ...]]:
        """Factors of zeros, in the shapes of those of `estimate`."""
        return [
            tuple(np.zeros(shape, self.specs[p.leaves[0]].dtype) for shape in self._shapes(b, p))
            for b, p in zip(self.blocks, self.places, strict=True)
        ]

    def _shapes(self, block, place):
        if block.kind == "kronecker":
            n, m = block.sizes
            return ((n,) if self._is_gather(place) else (n, n)), (m, m)
        return () if block.kind == "constant" else (self.specs[place.leaves[0]].shape,)

    def check(self, got: Sequence[tuple[tuple[int, ...], ...]]) -> None:
        """Raise ValueError unless shapes of the factors in a state are those of this loss's blocks."""
        want = [tuple(self._shapes(b, p)) for b, p in zip(self.blocks, self.places, strict=True)]
        if list(got) != want:
            k = next((k for k, (g, w) in enumerate(zip(got, want, strict=False)) if g != w), min(len(got), len(want)))
            which = f" for {', '.join(self.blocks[k].parameters)}" if k < len(want) else ""
            raise ValueError(
                f"{self.where}: the state must belong to these parameters and this loss, got factors of "
                f"shapes {got[k] if k < len(got) else None}{which}, which has "
                f"{want[k] if k < len(want) else None}"
            )

    def _is_gather(self, place):
        return all(self.ordered[i].kind == "gather" for i in place.uses) and not any(place.turned)

    def inputs(self, params: Any, batch: Any) -> tuple[list[Any], list[Any]]:
        """Leaves of the parameters, and the graph's other inputs."""
        leaves, structure = tree.flatten(params)
        if structure != self.structure:
            raise ValueError(f"{self.where}: params must have the structure {self.structure}, got {structure}")
        return leaves, [*tree.leaves(batch), *self.captured]

    def estimate(self, params: Any, batch: Any, key: Any, exact: bool = False) -> Estimate:
        """Return the loss, its gradient and the factors of all blocks; `key` draws the sampled targets, or the signs.

        With `exact`, pull back a square root of each output's Hessian, column by column, rather than one sample of it.
        """
        leaves, rest = self.inputs(params, batch)
        trace = TapeTrace()
        with trace:
            inputs = [trace.input(x) if s.dtype.kind == "f" else x for x, s in zip(leaves, self.specs, strict=True)]
            zeros = [trace.input(np.zeros(s.shape, s.dtype)) for s in zero_specs(self.graph, self.uses)]
            shifts = {m.losses: trace.input(np.zeros(m.losses.spec.shape, m.losses.spec.dtype)) for m in self.marks}
            (value,), operands, outputs = run(
                self.graph, self.uses, inputs, iter(zeros), rest, [m.outputs for m in self.marks], shifts
            )

        def on_tape(x):
            return type(x) is TapeTensor and x.level == trace.level

        def plain(x):
            return x.value if on_tape(x) else x

        floats = [k for k, s in enumerate(self.specs) if s.dtype.kind == "f"]
        nodes = [inputs[k].node for k in floats]
        if not on_tape(value):
            raise ValueError(f"{self.where}: the loss must depend on the parameters")
        found = backward(
            trace.nodes,
            [(value.node, value.slot, np.ones((), spec_of(plain(value)).dtype)[()])],
            nodes + [shifts[m.losses].node for m in self.marks],
        )
        grads: list[Any] = [np.zeros(s.shape, s.dtype) for s in self.specs]
        for k, g in zip(floats, found, strict=False):
            grads[k] = grads[k] if g is None else g
        weights = [
            np.zeros(m.losses.spec.shape, m.losses.spec.dtype) if w is None else w
            for m, w in zip(self.marks, found[len(floats) :], strict=True)
        ]
        operands = [plain(x) for x in operands]
        sources = [inputs[p.leaves[0]] for b, p in zip(self.blocks, self.places, strict=True) if b.kind == "gradient"]
        ends = [*zeros, *sources]

        def statistics(cts):
            starts = [(o.node, o.slot, ct) for o, ct in zip(outputs, cts, strict=True) if ct is not None and on_tape(o)]
            pulled = [
                np.zeros(np.shape(x), np.result_type(x)) if g is None else g
                for g, x in zip(backward(trace.nodes, starts, [x.node for x in ends]), ends, strict=True)
            ]
            rights = [_right(u, x, ct) for u, x, ct in zip(self.ordered, operands, pulled, strict=False)]
            return rights, [g * g for g in pulled[len(zeros) :]]

        rights, squares = self._summed(statistics, [plain(o) for o in outputs], weights, key, exact)
        factors = self._factors(operands, rights, squares)
        return Estimate(plain(value), grads, factors, weights)

    def _summed(self, statistics, outputs, weights, key, exact):
        """Statistics of sampled cotangents of the outputs, or sums over those of the roots of their Hessians."""
        keys = random.split(key, len(self.marks))
        if not exact:
            return statistics(
                [
                    sample(m.distribution, z, w, keys[i])
                    for i, (m, z, w) in enumerate(zip(self.marks, outputs, weights, strict=True))
                ]
            )
        total = None
        for i, (m, z, w) in enumerate(zip(self.marks, outputs, weights, strict=True)):

            def one(ct, i=i):
                return statistics([ct if j == i else None for j in range(len(self.marks))])

            part = tree.map(lambda x: np.sum(x, axis=0), vmap(one)(roots(m.distribution, z, w, keys[i])))
            total = part if total is None else tree.map(lambda a, b: a + b, total, part)
        return total

    def _factors(self, operands, rights, squares):
        squares = iter(squares)
        found: list[tuple[Any, ...]] = []
        for block, place in zip(self.blocks, self.places, strict=True):
            dtype = self.specs[place.leaves[0]].dtype
            if block.kind == "kronecker":
                pairs = [(*_left(self.ordered[i], operands[i], dtype), rights[i]) for i in place.uses]
                found.append(_pooled(pairs, place.turned))
            elif block.kind == "diagonal":
                found.append((sum(rights[i] for i in place.uses),))
            else:
                found.append((next(squares),) if block.kind == "gradient" else ())
        return [
            tuple(np.astype(x, self.specs[p.leaves[0]].dtype) for x in f)
            for f, p in zip(found, self.places, strict=True)
        ]

    # -- use of the estimates ------------------------------------------------------------------------------------------

    def products(self, params: Any, batch: Any, weights: Sequence[Any], vectors: Sequence[Any]) -> list[list[Any]]:
        """The matrix of v_i^T F v_j with the exact Fisher matrix, for lists of leaves `vectors`."""
        leaves, rest = self.inputs(params, batch)
        floats = [k for k, s in enumerate(self.specs) if s.dtype.kind == "f"]
        graph = dead_code(Graph(self.graph.inputs, self.graph.equations, [m.outputs for m in self.marks]))

        def outputs(*xs):
            full = list(leaves)
            for k, x in zip(floats, xs, strict=True):
                full[k] = x
            return evaluate(graph, *full, *rest)

        point = tuple(leaves[k] for k in floats)
        pushed = [jvp(outputs, point, tuple(v[k] for k in floats)) for v in vectors]
        n = len(vectors)
        table = [[0.0] * n for _ in range(n)]
        for m, mark in enumerate(self.marks):
            z = pushed[0][0][m]
            for i in range(n):
                pushed_back = hessian(mark.distribution, z, weights[m], pushed[i][1][m])
                for j in range(i, n):
                    table[i][j] = table[j][i] = table[i][j] + np.sum(pushed_back * pushed[j][1][m])
        return table

    def gradient(self, params: Any, batch: Any) -> tuple[Any, list[Any]]:
        """Return the loss and its gradient leaf by leaf; leaves that are not floating-point have gradient zero."""
        leaves, rest = self.inputs(params, batch)
        floats = [k for k, s in enumerate(self.specs) if s.dtype.kind == "f"]

        def loss(xs):
            full = list(leaves)
            for k, x in zip(floats, xs, strict=True):
                full[k] = x
            return evaluate(self.graph, *full, *rest)[0]

        value, found = value_and_grad(loss)([leaves[k] for k in floats])
        grads: list[Any] = [np.zeros(s.shape, s.dtype) for s in self.specs]
        for k, g in zip(floats, found, strict=True):
            grads[k] = g
        return value, grads

    def loss(self, params: Any, batch: Any) -> Any:
        """The loss at another point."""
        leaves, rest = self.inputs(params, batch)
        return evaluate(self.graph, *leaves, *rest)[0]

    def as_matrix(self, place: _Place, leaves: Sequence[Any]) -> Any:
        """A block's leaves as one matrix: the weight, and the bias as its last row."""
        assert place.layout is not None
        weight = place.layout.to_matrix(leaves[place.leaves[0]])
        return np.concatenate([weight, leaves[place.leaves[1]][None]]) if len(place.leaves) == 2 else weight

    def put_matrix(self, place: _Place, matrix: Any, leaves: list[Any]) -> None:
        """Write a matrix of `as_matrix` into the leaves."""
        assert place.layout is not None
        weight = place.leaves[0]
        if len(place.leaves) == 2:
            leaves[place.leaves[1]] = matrix[-1]
            matrix = matrix[:-1]
        leaves[weight] = place.layout.from_matrix(matrix, self.specs[weight].shape)


def _marks(where: str, graph: Graph) -> list[_Mark]:
    """The marked likelihoods of a graph."""
    found = [
        _Mark(e.params["distribution"], e.inputs[1], e.outputs[0])
        for e in graph.equations
        if e.primitive.name == "likelihood" and isinstance(e.inputs[1], Var)
    ]
    if not found:
        hint = "use nn.cross_entropy or nn.mean_squared_error, or mark the losses with optim.likelihood"
        if _marked_inside(graph):
            hint = "a mark inside of a loop, a branch or a checkpoint is not seen: compute the losses outside of it"
        raise ValueError(f"{where}: the loss must contain a marked likelihood, got none ({hint})")
    return found


def _marked_inside(graph: Graph) -> bool:
    inner = [
        g
        for e in graph.equations
        for v in e.params.values()
        for g in (v if isinstance(v, tuple) else (v,))
        if isinstance(g, Graph)
    ]
    return any(any(e.primitive.name == "likelihood" for e in g.equations) or _marked_inside(g) for g in inner)


def _turned(spec: Spec, layouts: Sequence[Any]) -> tuple[bool, ...] | None:
    """For each layout, True if it is the transposed of the first; None if one is neither."""
    if all(layout == layouts[0] for layout in layouts):
        return (False,) * len(layouts)
    numbers = np.arange(spec.size).reshape(spec.shape)
    tables = [layout.to_matrix(numbers) for layout in layouts]
    same = [np.array_equal(t, tables[0]) for t in tables]
    flipped = [np.array_equal(t, tables[0].T) for t in tables]
    return tuple(not s for s in same) if all(a or b for a, b in zip(same, flipped, strict=True)) else None


# -- factors of one use ------------------------------------------------------------------------------------------------


def _left(use: Use, x: Any, dtype: np.dtype) -> tuple[Any, int]:
    """Mean of the outer products of the inputs (of one-hot inputs, its diagonal), and the number of rows."""
    assert use.layout is not None or use.kind == "shift"
    if use.kind == "shift":
        return np.ones((1, 1), dtype), 1
    n = use.layout.shape[0]  # type: ignore[union-attr]
    if use.kind == "gather":
        rows = math.prod(np.shape(x))
        return index_add(np.zeros(n, dtype), x, np.ones((), dtype)) * np.asarray(1 / rows, dtype), rows
    if use.kind == "product":
        contract = tuple(d + use.lead for d in use.equation.params["contract"][1 - use.operand])
        x = np.transpose(x, [*[d for d in range(np.ndim(x)) if d not in contract], *contract])
    elif use.equation.primitive.name == "conv":
        x = _patches(x, use)
    x = np.astype(np.reshape(x, (-1, n)), dtype)
    if use.bias is not None:
        x = np.concatenate([x, np.ones((np.shape(x)[0], 1), dtype)], axis=1)
    return x.T @ x * np.asarray(1 / np.shape(x)[0], dtype), np.shape(x)[0]


def _right(use: Use, x: Any, ct: Any) -> Any:
    """Sum of the outer products of the outputs' cotangents; for scales and shifts with axes, the sum of squares."""
    spec = use.equation.inputs[use.operand].spec
    if use.kind == "scale" or use.kind == "shift" and spec.ndim > 1:
        g = ct * x if use.kind == "scale" else ct
        return np.sum(g * g, axis=tuple(range(np.ndim(g) - spec.ndim)))
    n = use.layout.shape[1] if use.layout is not None else spec.size
    if use.kind == "product" and use.operand == 0:
        free = spec.ndim - len(use.equation.params["contract"][0])
        ct = np.moveaxis(ct, list(range(use.lead, use.lead + free)), list(range(-free, 0)))
    if use.kind == "convolution" and use.equation.primitive.name == "conv_input":
        ct = _patches(ct, use)
    rows = np.reshape(ct, (-1, n))
    return rows.T @ rows


def _patches(x: Any, use: Use) -> Any:
    """Return the patches of the larger side that the kernel of a convolution multiplies, (..., window x channels)."""
    e, p = use.equation, use.equation.params
    window = e.inputs[1].spec.shape[:-2]
    outs = (e.outputs if e.primitive.name == "conv" else e.inputs)[0].spec.shape[1:-1]
    x = np.reshape(x, (-1, *np.shape(x)[use.lead + 1 :]))
    x = np.pad(x, [(0, 0), *p["padding"], (0, 0)])
    parts = []
    for offset in np.ndindex(*window):
        starts = [o * d for o, d in zip(offset, p["dilation"], strict=True)]
        cut = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, outs, p["stride"], strict=True))
        parts.append(x[(slice(None), *cut)])
    return np.concatenate(parts, axis=-1)


def _pooled(pairs: Sequence[tuple[Any, int, Any]], turned: Sequence[bool]) -> tuple[Any, Any]:
    """One pair of factors for several uses.

    Uses of one direction are pooled: mean over all rows of inputs, sum over all rows of cotangents. If inputs and
    outputs of some uses change places, each factor is the sum of those of the uses, weighted by the mean eigenvalue of
    the other factor, so that the trace of the product is the sum of the traces.
    """
    if len(pairs) == 1:
        return pairs[0][0], pairs[0][2]
    if not any(turned):
        rows = sum(n for _, n, _ in pairs)
        dtype = np.result_type(pairs[0][0])
        lefts = [a for a, _, _ in pairs]
        if any(np.ndim(a) == 2 for a in lefts):
            lefts = [np.diag(a) if np.ndim(a) == 1 else a for a in lefts]
        return (
            sum(a * np.asarray(n / rows, dtype) for a, (_, n, _) in zip(lefts, pairs, strict=True)),
            sum(g for _, _, g in pairs),
        )
    full = [(np.diag(a) if np.ndim(a) == 1 else a, g) for a, _, g in pairs]
    full = [(g, a) if t else (a, g) for (a, g), t in zip(full, turned, strict=True)]
    means = [(np.trace(a) / np.shape(a)[0], np.trace(g) / np.shape(g)[0]) for a, g in full]
    total = sum(a * g for a, g in means)
    total = np.where(total > 0, total, np.ones_like(total))
    return (
        sum(a * m[1] for (a, _), m in zip(full, means, strict=True)) / total,
        sum(g * m[0] for (_, g), m in zip(full, means, strict=True)),
    )
