"""Gradients through a trajectory by integrating it backwards, bit for bit, together with its adjoint."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from triskele import core
from triskele.core import tree
from triskele.core.extend import make_graph

from ..errors import BrokenSimulationError
from .steps import Path, Scheme, noise

__all__ = ["Contraction", "reversible"]

_QUANTUM = 2.0**-46  # nm, nm/ps: float64 holds whole multiples up to 128 exactly
_LARGEST = 2.0**53  # quanta
_WORD = 62  # bits of a word that are used


class Contraction:
    """v -> floor(c v + 1/2) for whole numbers v and 1/2 < c < 1, which can be undone.

    The map is not one to one: some results come from two neighboring numbers. Which of them it was is pushed as a bit
    onto the number's stack, so that a stack grows by 2 (1 - c) bits a step on average.
    """

    def __init__(
        self,
        c: float,
        steps: int,  # in all: stacks of a word are put aside when they could be full
        shape: tuple[int, ...],
    ):  # of the numbers
        if not 0.5 < c < 1:
            raise ValueError(
                f"trajectory: friction * timestep must be below ln 2 = 0.69 for method 'reversible', got "
                f"{-np.log(c):.3g}"
            )
        self.c = c
        # steps until a word is half full on average, five standard deviations from overflow
        self.span = max(_WORD, int(_WORD / (4 * (1 - c))))
        self.words = -(-steps // self.span)
        self.shape = (self.words, *shape)

    def _map(self, v):
        # not rint: products of large v have few bits behind the point, and halves that go to even numbers would come in
        # pairs
        return np.floor(self.c * v + 0.5)

    def _lowest(self, y):
        """The smallest number that is mapped to y, and whether the next one is, too."""
        base = np.rint(y / self.c)
        below, at = self._map(base - 1) == y, self._map(base) == y
        low = np.where(below, base - 1, np.where(at, base, base + 1))
        return low, self._map(low + 1) == y

    def forward(self, v: np.ndarray, stack: np.ndarray, used: np.ndarray, step: int) -> np.ndarray:
        """Map v, as float64 whole numbers; push onto the word of `stack` [words, ...] for this step."""
        if step % self.span == 0:
            used[...] = 0
        y = self._map(v)
        low, two = self._lowest(y)
        word = stack[step // self.span]
        np.copyto(word, 2 * word + (v - low).astype(np.int64), where=two)
        used += two
        if used.max(initial=0) > _WORD:  # the stack of a coordinate holds fewer bits
            raise OverflowError(
                "trajectory: too many roundings of one velocity to be remembered (use method 'checkpoint')"
            )
        return y

    def backward(self, y: np.ndarray, stack: np.ndarray, step: int) -> np.ndarray:
        """Undo `forward`, in the opposite order of steps."""
        low, two = self._lowest(y)
        word = stack[step // self.span]
        v = low + np.where(two, word & 1, 0)
        np.copyto(word, word >> 1, where=two)
        return v


def reversible(energy: Any, scheme: Scheme, observe: Any) -> Any:
    """``run(params, positions, velocities, box, key)`` with a derivative that integrates backwards; see
    `trajectory`.
    """

    def run(params, positions, velocities, box, key):
        leaves, structure = tree.flatten((params, box))
        leaves = [x if isinstance(x, core.Tensor) else np.asarray(x, np.float64) for x in leaves]
        call = _Call.of(energy, scheme, observe, structure)
        x, v, *observed = _run(call, positions + 0.0, velocities + 0.0, key, *leaves)
        return Path(x, v, call.observed(observed, positions, leaves))

    return run


class _Call:
    """A trajectory of given structure: a fixed option of the operators."""

    def __init__(self, energy, scheme, observe, structure):
        self.scheme, self.structure = scheme, structure

        def of_leaves(f):
            def g(x, leaves):
                params, box = tree.unflatten(structure, leaves)
                return f(params, x, box)

            return g

        self.energy = of_leaves(energy)
        self.observe: Any = None if observe is None else of_leaves(observe)
        self.force = core.jit(lambda x, leaves: -core.grad(self.energy)(x, leaves))
        self.kicked = core.jit(self._kicked)
        self.see = None if self.observe is None else core.jit(lambda x, leaves: tree.leaves(self.observe(x, leaves)))
        self.seen: Any = None if observe is None else core.jit(self._seen)
        self.contraction: Any = (
            None if scheme.verlet else Contraction(scheme.decay, scheme.steps, (len(scheme.kick), 3))
        )

    @classmethod
    def of(cls, energy, scheme, observe, structure):
        """The one for this structure; compiled functions live as long as their scheme."""
        made = scheme.calls
        if structure not in made:
            made[structure] = cls(energy, scheme, observe, structure)
        return made[structure]

    def _kicked(self, x, leaves, w):
        """The derivatives of w .

        dE/dx by positions and leaves: what a kick by -w dE/dx contributes to the adjoint, negated.
        """

        def slope(x, leaves):
            return core.jvp(lambda y: self.energy(y, leaves), (x,), (w,))[1]

        return core.grad(slope, (0, 1))(x, leaves)

    def _seen(self, x, leaves, cotangents):
        return core.vjp(lambda x, leaves: tree.leaves(self.observe(x, leaves)), x, leaves)[1](cotangents)

    def specs(self, positions, leaves):
        """Shapes and dtypes of the leaves that `observe` returns, and their structure."""
        if self.observe is None:
            return [], None
        found = []

        def record(x, *leaves):
            flat, structure = tree.flatten(self.observe(x, list(leaves)))
            found.append(structure)
            return [np.asarray(y, np.float64) if not isinstance(y, core.Tensor) else y for y in flat]

        graph, _ = make_graph(record, [core.spec(np.shape(x)) for x in (positions, *leaves)])
        return list(graph.out_specs), found[0]

    def observed(self, values, positions, leaves):
        return None if self.observe is None else tree.unflatten(self.specs(positions, leaves)[1], values)

    # -- at values -----------------------------------------------------------------------------------------------------

    def advance(self, positions, velocities, key, leaves):
        s, shape = self.scheme, positions.shape
        x, v = np.rint(positions / _QUANTUM), np.rint(velocities / _QUANTUM)
        kick = s.kick / _QUANTUM
        stack, used = (
            np.zeros(self.contraction.shape if self.contraction else (0, *shape), np.int64),
            np.zeros(shape, np.int64),
        )
        records = None
        force = self.force(x * _QUANTUM, leaves)
        if s.verlet:
            v = v - np.rint(0.5 * kick * force)
        for k in range(s.steps):
            v = v + np.rint(kick * force)
            x = x + np.rint(s.half * v)
            if not s.verlet:
                v = self.contraction.forward(v, stack, used, k) + self._noise(k, key, x)
            x = x + np.rint(s.half * v)
            if not max(np.abs(x).max(), np.abs(v).max()) < _LARGEST:
                raise BrokenSimulationError(
                    "trajectory: positions and velocities must stay finite and below "
                    f"{_LARGEST * _QUANTUM:g} nm and nm/ps, but do not after step {k + 1} (a "
                    "shorter time step, or starting positions that are less strained)"
                )
            if self.see and (k + 1) % s.every == 0:
                seen = self.see(x * _QUANTUM, leaves)
                if records is None:
                    records = [np.empty((s.records, *np.shape(y))) for y in seen]
                for record, y in zip(records, seen, strict=True):
                    record[k // s.every] = y
            if k + 1 < s.steps or s.verlet:
                force = self.force(x * _QUANTUM, leaves)
        stand = v
        if s.verlet:
            v = v + np.rint(0.5 * kick * force)
        return x * _QUANTUM, v * _QUANTUM, *(records or []), x, stand, stack

    def _noise(self, k, key, like):
        return np.rint(self.scheme.noise / _QUANTUM * noise(np.int64(k), key, like))

    def retrace(self, x, v, stack, start, key, leaves, cotangents):
        """Cotangents of positions, velocities and leaves from those of what `advance` returns."""
        s, kick = self.scheme, self.scheme.kick / _QUANTUM
        of_x, of_v, *of_records = cotangents
        of_x, of_v, stack = of_x + 0.0, of_v + 0.0, stack.copy()
        of_leaves = [np.zeros_like(y) for y in leaves]

        def pull(w):
            by_x, by_leaves = self.kicked(x * _QUANTUM, leaves, w)
            for total, part in zip(of_leaves, by_leaves, strict=True):
                total -= part
            return by_x

        if s.verlet:
            of_x = of_x - pull(0.5 * s.kick * of_v)
        for k in range(s.steps - 1, -1, -1):
            if self.see and (k + 1) % s.every == 0:
                by_x, by_leaves = self.seen(x * _QUANTUM, leaves, [ct[k // s.every] for ct in of_records])
                of_x = of_x + by_x
                for total, part in zip(of_leaves, by_leaves, strict=True):
                    total += part
            x = x - np.rint(s.half * v)
            of_v = of_v + s.half * of_x
            if not s.verlet:
                v = self.contraction.backward(v - self._noise(k, key, x), stack, k)
                of_v = s.decay * of_v
            x = x - np.rint(s.half * v)
            of_v = of_v + s.half * of_x
            v = v - np.rint(kick * self.force(x * _QUANTUM, leaves))
            of_x = of_x - pull(s.kick * of_v)
        if s.verlet:
            v = v + np.rint(0.5 * kick * self.force(x * _QUANTUM, leaves))
            of_x = of_x - pull(-0.5 * s.kick * of_v)
        if not (np.array_equal(x, np.rint(start[0] / _QUANTUM)) and np.array_equal(v, np.rint(start[1] / _QUANTUM))):
            raise RuntimeError(
                "trajectory: going backwards must lead to where it began, but does not (is the energy a "
                "deterministic function?)"
            )
        return of_x, of_v, *of_leaves


@core.custom_op(
    out=lambda x, v, key, *leaves, call: (
        x,
        v,
        *[core.spec((call.scheme.records, *s.shape)) for s in call.specs(x, leaves)[0]],
        x,
        v,
        core.spec(call.contraction.shape if call.contraction else (0, *x.shape), np.int64),
    ),
    mode="python",
    batch="sequential",
)
def _advance(x, v, key, *leaves, call):
    return call.advance(x, v, key, list(leaves))


@core.custom_op(
    out=lambda x, v, stack, x0, v0, key, *rest, call, leaves: (x0, v0, *rest[:leaves]),
    mode="python",
    batch="sequential",
)
def _retrace(x, v, stack, x0, v0, key, *rest, call, leaves):
    return call.retrace(x, v, stack, (x0, v0), key, list(rest[:leaves]), rest[leaves:])


@partial(core.custom_vjp, nondiff_argnums=(0,))
def _run(call, x, v, key, *leaves):
    return _advance(x, v, key, *leaves, call=call)[:-3]


def _forward(call, x, v, key, *leaves):
    *outs, end_x, end_v, stack = _advance(x, v, key, *leaves, call=call)
    return tuple(outs), (end_x, end_v, stack, x, v, key, leaves)


def _backward(call, kept, cotangents):
    *kept, leaves = kept
    of_x, of_v, *of_leaves = _retrace(*kept, *leaves, *cotangents, call=call, leaves=len(leaves))
    return of_x, of_v, None, *of_leaves


_run.defvjp(_forward, _backward)
