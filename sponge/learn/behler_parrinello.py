"""Behler-Parrinello networks: symmetry functions of an atom's neighborhood, and a small network for each element.

J. Behler and M. Parrinello, Phys. Rev. Lett. 98, 146401 (2007), https://doi.org/10.1103/PhysRevLett.98.146401;
J. Behler, J. Chem. Phys. 134, 074106 (2011), https://doi.org/10.1063/1.3553717 (its G2 and, for angles, G5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import short_repr
from triskele.core.nn import Linear, static

from .network import Network, known_elements, positive
from .radial import envelope

__all__ = ["BehlerParrinello"]

_FIRST = 0.08  # nm: where the first radial function sits
_ZETAS = 1.0, 4.0, 16.0  # sharpness of angular functions


@short_repr
@dataclass(frozen=True)
class BehlerParrinello(Network):
    """Energies of atoms from radial and angular symmetry functions, with one network for each element.

    Radial functions are sums of Gaussians of the distance for each element of the neighbor; angular ones are sums over
    pairs of neighbors, for each pair of elements. All are divided by fixed sizes, so that they are about one.

    Attributes
    ----------
    layers : tuple of Linear
        Weights [elements, n_in, n_out], biases [elements, n_out].
    elements, cutoff, reference, scale, seen
        As in `Network`.
    radial, angular : int
        Radial functions for each element; radial factors of angular functions for each pair of elements.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> net = learn.BehlerParrinello.init(core.random.key(0), ["H", "O"])
    >>> vectors = np.array([[[0.1, 0.0, 0.0]], [[-0.1, 0.0, 0.0]]], np.float32)
    >>> net.energies(np.array([0, 1]), np.array([[1], [0]]), vectors).shape
    (2,)
    """

    layers: tuple[Linear, ...]
    elements: tuple[int, ...] = static()
    cutoff: float = static()
    reference: tuple[float, ...] = static()
    scale: float = static(default=1.0)
    radial: int = static(default=16)
    angular: int = static(default=4)
    seen: tuple[tuple[float, float, float], ...] = static(default=())
    local = True

    @classmethod
    def init(
        cls,
        key: Any,
        elements: Any,
        cutoff: float = 0.5,
        features: int = 32,
        layers: int = 2,
        radial: int = 16,
        angular: int = 4,
        dtype: Any = np.float32,
    ) -> BehlerParrinello:
        """Fresh weights.

        Parameters
        ----------
        key : random key
        elements : sequence of str or int
            Symbols or atomic numbers.
        cutoff : float, nm
            Cut-off radius.
        features : int
            Width of hidden layers.
        layers : int
            Hidden layers.
        radial : int
            Radial functions for each element.
        angular : int
            Radial factors of the angular functions; 0 for none.
        dtype : dtype

        Raises
        ------
        ValueError
            If a size is not positive, or an element is not known.
        """
        positive("BehlerParrinello", cutoff=cutoff, features=features, layers=layers, radial=radial)
        numbers = known_elements(elements, "BehlerParrinello")
        m, radial, angular = len(numbers), int(radial), int(angular)
        inputs = m * radial + m * m * angular * 2 * len(_ZETAS)
        sizes = [inputs, *[int(features)] * int(layers), 1]
        keys = core.random.split(key, len(sizes) - 1)

        def stack(key, n_in, n_out):
            weight = core.random.normal(key, (m, n_in, n_out), dtype=dtype) * float(n_in) ** -0.5
            return Linear(weight, np.zeros((m, n_out), dtype))

        stacked = tuple(stack(k, a, b) for k, a, b in zip(keys, sizes, sizes[1:], strict=False))
        return cls(stacked, numbers, float(cutoff), (0.0,) * m, 1.0, radial, angular)

    def options(self):
        return {
            "features": np.shape(self.layers[0].weight)[2],
            "layers": len(self.layers) - 1,
            "radial": self.radial,
            "angular": self.angular,
        }

    @property
    def grid(self) -> tuple[float, float, float]:
        """Center of the first radial function, distance of the centers, and width of the Gaussians, in nm."""
        reach = self.cutoff - _FIRST
        return _FIRST, reach / max(self.radial - 1, 1), reach / self.radial

    def _functions(self, species, neighbors, vectors):
        """Radial and angular functions."""
        m, dtype = len(self.elements), np.result_type(vectors)
        r = np.sqrt(np.sum(vectors * vectors, axis=-1))
        ends = envelope(r, self.cutoff)
        kinds = np.equal(species[:, None], np.arange(m)).astype(dtype)[neighbors]  # [n, k, m]
        centers = np.linspace(_FIRST, self.cutoff, self.radial).astype(dtype)
        width = self.grid[2]
        near = np.exp(-(((r[..., None] - centers) * (1 / width)) ** 2) * 0.5) * ends[..., None]
        found = [np.reshape(np.sum(near[..., None] * kinds[:, :, None], axis=1), (r.shape[0], -1))]
        if self.angular:
            found.append(self._angular(r, vectors, ends, kinds, dtype))
        return found

    def _angular(self, r, vectors, ends, kinds, dtype):
        """G5: 2^(1 - zeta) (1 +- cos)^zeta exp(-eta (r1^2 + r2^2)) f1 f2, over pairs of neighbors."""
        n, m = r.shape[0], len(self.elements)
        unit = vectors / r[..., None]
        cosine = unit @ np.swapaxes(unit, 1, 2)  # [n, k, k]
        # of an atom with itself as the second neighbor the cosine is 1: a constant, taken out below
        different = (1 - np.eye(r.shape[1])).astype(dtype)
        widths = np.linspace(0.12, self.cutoff, self.angular)  # nm: how far the radial factors reach
        factors = [np.exp(-(r * r) * float(0.5 / w**2)) * ends for w in widths]
        powers = []
        for sign in (1, -1):
            base = np.maximum(0.5 * (1 + sign * cosine), 0)
            for zeta in _ZETAS:
                powers.append(2 * base ** int(zeta) * different)
        out = []
        for factor in factors:
            weighted = factor[..., None] * kinds  # [n, k, m]
            for power in powers:
                pairs = np.swapaxes(weighted, 1, 2) @ (power @ weighted)  # [n, m, m]
                out.append(np.reshape(pairs, (n, m * m)))
        return np.concatenate(out, axis=-1) * 0.25

    def outputs(self, species, neighbors, vectors):
        first, *rest = self.layers
        m, n_in, width = np.shape(first.weight)
        # one product for all elements, whose networks then run side by side; each atom takes that of its own
        weight, h, start = np.reshape(np.swapaxes(first.weight, 0, 1), (n_in, m * width)), 0.0, 0
        for part in self._functions(species, neighbors, vectors):
            h = h + part @ weight[start : start + part.shape[1]]
            start += part.shape[1]
        h = np.swapaxes(np.reshape(h, (-1, m, width)), 0, 1) + first.bias[:, None]
        for layer in rest:
            h = np.tanh(h) @ layer.weight + layer.bias[:, None]
        own = np.equal(np.arange(m)[:, None], species).astype(np.result_type(vectors))
        return np.sum(own * h[..., 0], axis=0)

    def radial_outputs(self, counts: np.ndarray, functions: Any) -> Any:
        """Energies [n] as of `outputs`, of atoms sorted by element, from radial functions.

        Parameters
        ----------
        counts : (elements,) int
            Atoms of each element.
        functions : array [n, elements * places]
            Radial functions for the elements of the neighbors, each filled up to the same number of places.
        """
        first, *rest = self.layers
        m, _, width = np.shape(first.weight)
        weight = np.swapaxes(np.reshape(first.weight, (m, self.radial, m, width)), 1, 2)
        spare = functions.shape[1] // m - self.radial
        weight = np.reshape(np.pad(weight, ((0, 0), (0, 0), (0, spare), (0, 0))), (m, -1, width))
        found, start = [], 0
        for k, count in enumerate(counts):
            h = functions[start : start + count] @ weight[k] + first.bias[k]
            for layer in rest:
                h = np.tanh(h) @ layer.weight[k] + layer.bias[k]
            found.append(h[:, 0])
            start += count
        return np.concatenate(found)
