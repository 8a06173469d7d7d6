"""Derivatives of expectation values: operators of the core, and their rules.

Three operators, each a derivative of the one before: `expect` gives the values E, `pull` the gradients of S = sum_i
ct_i E_i, `second` the tangents of both. All take theta (B, P), data (B, D), coefficients (B, T) and initial state (B,
N), where a first axis of 1 serves the whole batch and a last axis of 0 says that it is not given. The Hessian of S is
symmetric, so `second` is at once the forward derivative of `pull` and its reverse one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check, custom_op, spec

from ..errors import OperatorError, ParameterError, StateError
from ..operators.pauli import PauliSum
from ..parameters import LARGEST
from .engine import Engine, examples

__all__ = ["BatchedEngine", "expect", "pull", "second"]

# Complex cotangents follow the core: g with dS = Re(sum g dz) for the initial state z.


def _batch(*inputs: Any) -> int:
    sizes = [i.shape[0] for i in inputs]
    return max(sizes) if all(sizes) else 0  # a batch may be empty


def _zeros(specs):
    return [np.zeros(s.shape, s.dtype) for s in specs]


def _expect_out(theta, data, coefficients, initial, *, energy):
    return spec((_batch(theta, data, coefficients, initial), energy.size))


def _pull_out(theta, data, coefficients, initial, ct, *, energy):
    batch = _batch(theta, data, coefficients, initial, ct)
    return [spec((batch, i.shape[1]), i.dtype) for i in (theta, data, coefficients, initial)]


def _second_out(theta, data, coefficients, initial, ct, *tangents, energy):
    batch = _batch(theta, data, coefficients, initial, ct, *tangents)
    return [spec((batch, energy.size))] + [
        spec((batch, i.shape[1]), i.dtype) for i in (theta, data, coefficients, initial)
    ]


def _to(shape, g):
    """A cotangent summed over the batch where the input had none."""
    return np.sum(g, axis=0, keepdims=True) if shape[0] == 1 and g.shape[0] != 1 else g


def _flat(size, is_batched, inputs):
    """Inputs of which some have one more axis in front, as inputs of a longer batch; and how to undo that for
    outputs.
    """
    inner = max(i.shape[1] if b else i.shape[0] for i, b in zip(inputs, is_batched, strict=True))
    flat = []
    for i, b in zip(inputs, is_batched, strict=True):
        if not b:
            i = i[None]
        if not b and i.shape[1] == 1:
            flat.append(i[0])
        else:
            flat.append(np.reshape(np.broadcast_to(i, (size, inner, i.shape[2])), (size * inner, i.shape[2])))
    return flat, lambda out: np.reshape(out, (size, inner, out.shape[1]))


@custom_op(out=_expect_out, mode="python", name="quantum.expect")
def expect(theta, data, coefficients, initial, *, energy):
    """(B, m) values."""
    if not _batch(theta, data, coefficients, initial):
        return np.zeros((0, energy.size))
    return energy.values(theta, data, coefficients, initial)


@custom_op(out=_pull_out, mode="python", name="quantum.pull")
def pull(theta, data, coefficients, initial, ct, *, energy):
    """Gradients of sum_i ct_i E_i, each (B, size of the input)."""
    if not _batch(theta, data, coefficients, initial, ct):
        return _zeros(_pull_out(theta, data, coefficients, initial, ct, energy=energy))
    return energy.pull(theta, data, coefficients, initial, ct)


@custom_op(out=_second_out, mode="python", name="quantum.second")
def second(theta, data, coefficients, initial, ct, *tangents, energy):
    """Along tangents of the four inputs: tangents of E (B, m) and of the four gradients."""
    if not _batch(theta, data, coefficients, initial, ct, *tangents):
        return _zeros(_second_out(theta, data, coefficients, initial, ct, *tangents, energy=energy))
    return energy.second(theta, data, coefficients, initial, ct, *tangents)


@expect.vjp
def _(ct, out, *inputs, energy):
    return [_to(i.shape, g) for i, g in zip(inputs, pull(*inputs, ct, energy=energy), strict=True)]


@expect.jvp
def _(tangents, out, *inputs, energy):
    found = []
    for ct in np.eye(energy.size):
        slopes = pull(*inputs, ct[None], energy=energy)
        found.append(sum(np.sum(np.real(g * t), axis=1) for g, t in zip(slopes, tangents, strict=True)))
    return np.stack(found, axis=1)


@pull.vjp
def _(cts, out, theta, data, coefficients, initial, ct, *, energy):
    inputs = (theta, data, coefficients, initial, ct)
    slope, *found = second(*inputs, *cts, energy=energy)
    return [_to(i.shape, g) for i, g in zip(inputs, [*found, slope], strict=True)]


@pull.jvp
def _(tangents, out, theta, data, coefficients, initial, ct, *, energy):
    *along, dct = tangents
    found = second(theta, data, coefficients, initial, ct, *along, energy=energy)[1:]
    return [a + b for a, b in zip(found, pull(theta, data, coefficients, initial, dct, energy=energy), strict=True)]


def _batched(op):
    @op.batch
    def _(size, is_batched, *inputs, energy):
        inputs, back = _flat(size, is_batched, inputs)
        out = op(*inputs, energy=energy)
        return [back(o) for o in out] if isinstance(out, list) else back(out)


for _op in (expect, pull, second):
    _batched(_op)


class BatchedEngine:
    """An engine for batches in any of its inputs, with checks, which `expect`, `pull` and `second` call. `names` are
    those of parameters, then of data.
    """

    def __init__(self, engine: Engine, hamiltonians: Sequence[PauliSum], names: tuple[str, ...]):
        self.engine, self.hamiltonians, self.names, self.size = engine, hamiltonians, names, len(hamiltonians)
        self._ends = np.cumsum([len(h) for h in hamiltonians])

    def rows(self, theta: np.ndarray, data: np.ndarray, *others: np.ndarray) -> np.ndarray:
        """(B, V) values, checked; the batch is that of all inputs together."""
        sizes = {len(i) for i in (theta, data, *others)} - {1}
        if len(sizes) > 1:
            raise ParameterError(
                f"Expectation: theta and data must have one batch size, got {len(theta)} and {len(data)}"
            )
        batch = sizes.pop() if sizes else 1
        values = np.empty((batch, theta.shape[1] + data.shape[1]))
        values[:, : theta.shape[1]], values[:, theta.shape[1] :] = theta, data
        return self.finite(values)

    def finite(self, values: np.ndarray) -> np.ndarray:
        """The values, none of which may be infinite, NaN or larger than `LARGEST`."""
        if not (allowed := np.abs(values) <= LARGEST).all():
            bad = tuple(np.argwhere(~allowed)[0])
            raise ParameterError(
                f"Expectation: values must be finite, got {values[bad]} for {self.names[bad[-1]]} "
                f"(the largest is {LARGEST:g})"
            )
        return values

    def _at(self, coefficients: np.ndarray) -> Engine:
        """The engine for coefficients (1, T)."""
        if not coefficients.shape[1]:
            return self.engine
        check.finite(coefficients, "Expectation: coefficients", error=OperatorError)
        return self.engine.observing(self._sums(coefficients))

    def _sums(self, coefficients: np.ndarray) -> list[PauliSum]:
        parts = np.split(coefficients[0], self._ends[:-1])
        return [h.with_coefficients(c) for h, c in zip(self.hamiltonians, parts, strict=True)]

    def values(self, theta, data, coefficients, initial):
        """`expect`, as arrays."""
        values, start = self.rows(theta, data, coefficients, initial), _given(initial)
        if len(coefficients) == 1:
            return self._at(coefficients).values(values, start)
        return np.concatenate([self._at(c).values(v, s) for v, c, s in examples(values, coefficients, start)])

    def pull(self, theta, data, coefficients, initial, ct):
        """`pull`, as arrays."""
        values, start = self.rows(theta, data, coefficients, initial, ct), _given(initial)
        ct = np.ascontiguousarray(np.broadcast_to(ct, (len(values), self.size)))
        if len(coefficients) == 1:
            _, g, states = self._at(coefficients).pull(values, ct, start)
        else:
            found = [self._at(c).pull(v, w, s) for v, c, w, s in examples(values, coefficients, ct, start)]
            g, states = (np.concatenate([f[i] for f in found]) for i in (1, 2))
        slopes = np.zeros((len(values), coefficients.shape[1]))
        if coefficients.shape[1]:
            for k, (v, w, s) in enumerate(examples(values, ct, start)):
                slopes[k] = np.concatenate([c * t for c, t in zip(w[0], self.engine.terms(v[0], s), strict=True)])
        split = theta.shape[1]
        return [
            np.ascontiguousarray(g[:, :split]),
            np.ascontiguousarray(g[:, split:]),
            slopes,
            states.reshape(len(values), initial.shape[1]),
        ]

    def second(self, theta, data, coefficients, initial, ct, d_theta, d_data, d_coefficients, d_initial):
        """`second`, as arrays."""
        values = self.rows(theta, data, coefficients, initial, ct, d_theta, d_data, d_coefficients, d_initial)
        start, batch, split = _given(initial), len(values), theta.shape[1]
        d_values = np.concatenate([np.broadcast_to(d, (batch, d.shape[1])) for d in (d_theta, d_data)], axis=1)
        slopes, g = np.zeros((batch, self.size)), np.zeros(values.shape)
        terms, states = np.zeros((batch, coefficients.shape[1])), np.zeros((batch, initial.shape[1]), complex)
        inputs = examples(values, d_values, coefficients, d_coefficients, start, d_initial, ct)
        for k, (v, d_v, c, d_c, s, d_s, w) in enumerate(inputs):
            changes = self._sums(d_c) if c.shape[1] else None
            slopes[k], g[k], terms[k], states[k] = self._at(c).second(v[0], d_v[0], s, d_s, changes, w[0])
        return [slopes, np.ascontiguousarray(g[:, :split]), np.ascontiguousarray(g[:, split:]), terms, states]


def _given(initial: np.ndarray) -> np.ndarray:
    """Initial states as the engine takes them: of size 0 if there are none."""
    check.finite(initial, "Expectation: the initial state", error=StateError)
    return np.ascontiguousarray(initial if initial.shape[1] else initial[:0], np.complex128)
