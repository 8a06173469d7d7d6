"""Recurrent layers: the time loop is `scan`, so neither value nor gradient is unrolled.

Sequences are time-major: [T, ..., n_in]. The products with the inputs are done for all steps at once, before the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import special

from .. import check, random
from ..precision import in_dtype_of
from ..transforms.control.operators import scan
from .init import glorot_uniform, orthogonal
from .layer import layer

__all__ = ["GRU", "LSTM"]


def _weights(key, n_in, n_hidden, gates, dtype):
    k_in, k_hidden = random.split(key, 2)
    recurrent = [orthogonal(k, (n_hidden, n_hidden), dtype) for k in random.split(k_hidden, gates)]
    return glorot_uniform(k_in, (n_in, gates * n_hidden), dtype), np.concatenate(recurrent, axis=1)


def _zeros(xs, n_hidden):
    return np.zeros((*np.shape(xs)[1:-1], n_hidden), np.result_type(xs))


@layer
@dataclass(frozen=True)
class LSTM:
    """Long short-term memory (Hochreiter & Schmidhuber 1997, with forget gates after Gers et al. 2000).

    Attributes
    ----------
    w_input : (n_in, 4 n_hidden) array
    w_hidden : (n_hidden, 4 n_hidden) array
    bias : (4 n_hidden,) array
        Gates in the order input, forget, candidate, output.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import LSTM
    >>> ys, (h, c) = LSTM.init(random.key(0), 3, 8)(np.zeros((5, 2, 3), np.float32))
    >>> ys.shape, h.shape
    ((5, 2, 8), (2, 8))
    """

    w_input: Any
    w_hidden: Any
    bias: Any

    @classmethod
    def init(cls, key: Any, n_in: int, n_hidden: int, *, dtype: DTypeLike = np.float32) -> LSTM:
        """The forget gate's bias starts at 1 (Jozefowicz et al. 2015, section 2.2), the others at 0."""
        w_input, w_hidden = _weights(key, n_in, n_hidden, 4, dtype)
        bias = np.zeros(4 * n_hidden, dtype)
        bias[n_hidden : 2 * n_hidden] = 1
        return cls(w_input, w_hidden, bias)

    def __call__(self, xs: Any, state: tuple[Any, Any] | None = None) -> tuple[NDArray[Any], tuple[Any, Any]]:
        """Run over the sequence.

        Parameters
        ----------
        xs : (T, ..., n_in) array
        state : (h, c), each [..., n_hidden], optional
            Zero when absent.

        Returns
        -------
        ys : (T, ..., n_hidden) array
        state : (h, c)
        """
        check.shape(xs, (..., np.shape(self.w_input)[0]), "LSTM: the input")
        xs = in_dtype_of(xs, self.w_input)
        n = np.shape(self.w_hidden)[0]
        h, c = state if state is not None else (_zeros(xs, n), _zeros(xs, n))

        def step(carry, x):
            h, c = carry
            z = x + h @ self.w_hidden
            i, f, o = special.expit(z[..., :n]), special.expit(z[..., n : 2 * n]), special.expit(z[..., 3 * n :])
            c = f * c + i * np.tanh(z[..., 2 * n : 3 * n])
            h = o * np.tanh(c)
            return (h, c), h

        state, ys = scan(step, (h, c), xs @ self.w_input + self.bias)
        return ys, state


@layer
@dataclass(frozen=True)
class GRU:
    """Gated recurrent unit (Cho et al. 2014, eqs. 5-8, with the reset gate applied after the product).

    Attributes
    ----------
    w_input : (n_in, 3 n_hidden) array
    w_hidden : (n_hidden, 3 n_hidden) array
    bias, bias_candidate : (3 n_hidden,) array, (n_hidden,) array
        Gates in the order reset, update, candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> cell = nn.GRU.init(random.key(0), 3, 5)
    >>> outputs, last = cell(np.ones((7, 2, 3), np.float32))
    >>> outputs.shape, last.shape
    ((7, 2, 5), (2, 5))
    """

    w_input: Any
    w_hidden: Any
    bias: Any
    bias_candidate: Any

    @classmethod
    def init(cls, key: Any, n_in: int, n_hidden: int, *, dtype: DTypeLike = np.float32) -> GRU:
        """Fresh weights, zero biases."""
        w_input, w_hidden = _weights(key, n_in, n_hidden, 3, dtype)
        return cls(w_input, w_hidden, np.zeros(3 * n_hidden, dtype), np.zeros(n_hidden, dtype))

    def __call__(self, xs: Any, state: Any = None) -> tuple[NDArray[Any], Any]:
        """Run over the sequence ``[T, ..., n_in]``; returns ``(ys, h)``, ys ``[T, ..., n_hidden]``."""
        check.shape(xs, (..., np.shape(self.w_input)[0]), "GRU: the input")
        xs = in_dtype_of(xs, self.w_input)
        n = np.shape(self.w_hidden)[0]

        def step(h, x):
            z = h @ self.w_hidden
            r = special.expit(x[..., :n] + z[..., :n])
            u = special.expit(x[..., n : 2 * n] + z[..., n : 2 * n])
            candidate = np.tanh(x[..., 2 * n :] + r * (z[..., 2 * n :] + self.bias_candidate))
            h = (1 - u) * candidate + u * h
            return h, h

        state, ys = scan(step, _zeros(xs, n) if state is None else state, xs @ self.w_input + self.bias)
        return ys, state
