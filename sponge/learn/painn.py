"""PaiNN: an equivariant network that passes messages of scalars and vectors between neighbors.

K. T. Schütt, O. T. Unke and M. Gastegger, ICML 2021, https://arxiv.org/abs/2102.03150.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import short_repr
from triskele.core.nn import Linear, silu, static

from .network import Network, known_elements, positive
from .radial import envelope, waves

__all__ = ["Interaction", "PaiNN"]

_SOFT = 1e-2  # of a squared length, so that forces stay smooth where a vector passes through 0


@short_repr
@dataclass(frozen=True)
class Interaction:
    """One message and one update of all atoms (figure 2 of the paper)."""

    context: tuple[Linear, Linear]  # scalars of the sender, by way of `silu`, to [parts * features]
    # radial functions to [parts * features]; the parts are scalars, directions and, after the first layer, vectors
    filters: Linear
    mix: tuple[Linear, Linear]  # matrices U and V of the vectors
    # scalars and lengths of V v to [3 * features]: what is added to scalars, what multiplies <U v, V v>, and U v
    update: tuple[Linear, Linear]


@short_repr
@dataclass(frozen=True)
class PaiNN(Network):
    """An equivariant message-passing network for energies, called through `NeuralPotential` or `energies`.

    Attributes
    ----------
    embedding : (elements, features) array
    interactions : tuple of Interaction
    readout : tuple of Linear
        Scalars to the energy of an atom.
    elements, cutoff, reference, scale
        As in `Network`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> net = learn.PaiNN.init(core.random.key(0), ["H", "O"], features=16, layers=2)
    >>> vectors = np.array([[[0.1, 0.0, 0.0]], [[-0.1, 0.0, 0.0]]], np.float32)
    >>> net.energies(np.array([0, 1]), np.array([[1], [0]]), vectors).shape
    (2,)
    """

    embedding: Any
    interactions: tuple[Interaction, ...]
    readout: tuple[Linear, Linear]
    elements: tuple[int, ...] = static()
    cutoff: float = static()
    reference: tuple[float, ...] = static()
    scale: float = static(default=1.0)
    seen: tuple[tuple[float, float, float], ...] = static(default=())

    @classmethod
    def init(
        cls,
        key: Any,
        elements: Any,
        cutoff: float = 0.5,
        features: int = 64,
        layers: int = 3,
        radial: int = 20,
        dtype: Any = np.float32,
    ) -> PaiNN:
        """Fresh weights.

        Parameters
        ----------
        key : random key
        elements : sequence of str or int
            Symbols or atomic numbers.
        cutoff : float, nm
            Cut-off radius.
        features : int
            Width; 128 in the paper.
        layers : int
            Interactions; 3 in the paper.
        radial : int
            Radial functions; 20 in the paper.
        dtype : dtype

        Raises
        ------
        ValueError
            If a size is not positive, or an element is not known.
        """
        positive("PaiNN", cutoff=cutoff, features=features, layers=layers, radial=radial)
        numbers = known_elements(elements, "PaiNN")
        features, layers, radial = int(features), int(layers), int(radial)
        keys = iter(core.random.split(key, 3 + 7 * layers))

        def linear(n_in, n_out, bias=True):
            return Linear.init(next(keys), n_in, n_out, bias=bias, dtype=dtype)

        interactions = []
        for layer in range(layers):
            wide = (3 if layer else 2) * features
            interactions.append(
                Interaction(
                    (linear(features, features), linear(features, wide)),
                    linear(radial, wide),
                    (linear(features, features, False), linear(features, features, False)),
                    (linear(2 * features, features), linear(features, 3 * features)),
                )
            )
        embedding = core.random.normal(next(keys), (len(numbers), features), dtype=dtype)
        half = max(features // 2, 1)
        return cls(
            embedding,
            tuple(interactions),
            (linear(features, half), linear(half, 1)),
            numbers,
            float(cutoff),
            (0.0,) * len(numbers),
            1.0,
        )

    def options(self):
        return {
            "features": self.embedding.shape[1],
            "layers": len(self.interactions),
            "radial": self.interactions[0].filters.weight.shape[0],
        }

    def outputs(self, species, neighbors, vectors):
        r = np.sqrt(np.sum(vectors * vectors, axis=-1))
        directions = vectors / r[..., None]
        ends = envelope(r, self.cutoff)[..., None]
        radial = waves(r, self.cutoff, self.interactions[0].filters.weight.shape[0])
        radial = np.concatenate([radial * ends, ends], axis=-1)  # the last column takes the bias to the cut-off, too
        s, v, n = self.embedding[species], None, self.embedding.shape[1]
        for layer in self.interactions:
            x = layer.context[1](silu(layer.context[0](s)))
            filters = radial @ np.concatenate([layer.filters.weight, layer.filters.bias[None]], axis=0)
            ds, dv = _message(x, filters, v, directions, neighbors)
            s, v = s + ds, dv if v is None else v + dv
            u, w = layer.mix[0](v), layer.mix[1](v)
            lengths = np.sqrt(np.sum(w * w, axis=1) + _SOFT)
            a = layer.update[1](silu(layer.update[0](np.concatenate([s, lengths], axis=-1))))
            s = s + a[:, :n] + a[:, n : 2 * n] * np.sum(u * w, axis=1)
            v = v + a[:, None, 2 * n :] * u
        return self.readout[1](silu(self.readout[0](s)))[:, 0]


@core.custom_vjp
def _message(
    x,  # (n, parts * f), what atoms send
    filters,  # (n, k, parts * f), the same for both directions of a pair
    v,  # (n, 3, f), or None for zeros
    directions,  # (n, k, 3), opposite for the two directions of a pair
    neighbors,  # (n, k) int
):
    """Return the contributions of neighbors to scalars (n, f) and vectors (n, 3, f) (eq. 7 and 8)."""
    f = x.shape[1] // (2 if v is None else 3)
    sent = x[neighbors] * filters
    scalars = np.sum(sent[..., :f], axis=1)
    vectors = np.sum(sent[:, :, None, f : 2 * f] * directions[..., None], axis=1)
    if v is not None:
        vectors = vectors + np.sum(sent[:, :, None, 2 * f :] * v[neighbors], axis=1)
    return scalars, vectors


def _forward(x, filters, v, directions, neighbors):
    return _message(x, filters, v, directions, neighbors), (x, filters, v, directions, neighbors)


def _backward(residuals, cotangents):
    """Sums over those who received from an atom are sums over its neighbors, too: nothing is scattered."""
    x, filters, v, directions, neighbors = residuals
    by_s, by_v = cotangents
    f = by_s.shape[1]
    sent, theirs = x[neighbors], by_v[neighbors]
    along = np.sum(by_v[:, None] * directions[..., None], axis=2)
    by_x = [
        np.sum(by_s[neighbors] * filters[..., :f], axis=1),
        -np.sum(np.sum(theirs * directions[..., None], axis=2) * filters[..., f : 2 * f], axis=1),
    ]
    by_filters = [by_s[:, None] * sent[..., :f], along * sent[..., f : 2 * f]]
    by_directions = np.sum(by_v[:, None] * (sent[..., f : 2 * f] * filters[..., f : 2 * f])[:, :, None], axis=-1)
    by_vectors = None
    if v is not None:
        inner = np.sum(theirs * filters[:, :, None, 2 * f :], axis=1)
        by_vectors = x[:, None, 2 * f :] * inner
        by_x.append(np.sum(v * inner, axis=1))
        by_filters.append(np.sum(v[neighbors] * by_v[:, None], axis=2) * sent[..., 2 * f :])
    return np.concatenate(by_x, axis=-1), np.concatenate(by_filters, axis=-1), by_vectors, by_directions, None


_message.defvjp(_forward, _backward)
