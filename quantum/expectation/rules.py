"""Expectation values as operators of the core.

Three operators, each a derivative of the one before: `expect` gives the values E, `pull` the gradients of S = sum_i
ct_i E_i, `second` the tangents of both. All take theta (B, P), data (B, D), coefficients (B, T) and initial state (B,
N), where a first axis of 1 serves the whole batch and a last axis of 0 says that it is not given. The Hessian of S is
symmetric, so `second` is at once the forward derivative of `pull` and its reverse one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import custom_op, spec

__all__ = ["expect", "pull", "second"]

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
    return [spec((batch, energy.size))] + [spec((batch, i.shape[1]),
                                                i.dtype) for i in (theta, data, coefficients, initial)]


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
    return energy._values(theta, data, coefficients, initial)


@custom_op(out=_pull_out, mode="python", name="quantum.pull")
def pull(theta, data, coefficients, initial, ct, *, energy):
    """Gradients of sum_i ct_i E_i, each (B, size of the input)."""
    if not _batch(theta, data, coefficients, initial, ct):
        return _zeros(_pull_out(theta, data, coefficients, initial, ct, energy=energy))
    return energy._pull(theta, data, coefficients, initial, ct)


@custom_op(out=_second_out, mode="python", name="quantum.second")
def second(theta, data, coefficients, initial, ct, *tangents, energy):
    """Along tangents of the four inputs: tangents of E (B, m) and of the four gradients."""
    if not _batch(theta, data, coefficients, initial, ct, *tangents):
        return _zeros(_second_out(theta, data, coefficients, initial, ct, *tangents, energy=energy))
    return energy._second(theta, data, coefficients, initial, ct, *tangents)


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
