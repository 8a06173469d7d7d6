"""`ChargeNetwork`: partial charges of atoms from their neighborhoods, with a total that is conserved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import check, short_repr
from triskele.core.nn import static

from .network import Network
from .painn import PaiNN

if TYPE_CHECKING:
    from .dataset import Batch

__all__ = ["ChargeNetwork"]


@short_repr
@dataclass(frozen=True)
class ChargeNetwork:
    r"""Partial charges that depend on the neighborhood, :math:`q_i = c_i + (Q - \sum_j c_j)/n`.

    A network gives the :math:`c_i`; what is missing to the total :math:`Q` is shared equally by the n atoms
    (O. T. Unke and M. Meuwly, J. Chem. Theory Comput. 15, 3678 (2019), https://doi.org/10.1021/acs.jctc.9b00181,
    equation 14).

    Attributes
    ----------
    network : Network
        Its output is in e: `scale` and `reference` are charges, too.
    total : float, e
        Sum of the charges.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge import learn
    >>> net = learn.ChargeNetwork.init(core.random.key(0), ["H", "O"], total=-1.0, features=8, layers=1)
    >>> vectors = np.array([[[0.1, 0.0, 0.0]], [[-0.1, 0.0, 0.0]]], np.float32)
    >>> charges = net.charges(np.array([0, 1]), np.array([[1], [0]]), vectors)
    >>> bool(np.isclose(np.sum(charges), -1.0))
    True
    """

    network: Network
    total: float = static(default=0.0)

    @classmethod
    def init(
        cls, key: Any, elements: Any, total: float = 0.0, *, architecture: type = PaiNN, **options: Any
    ) -> ChargeNetwork:
        """Fresh weights.

        Parameters
        ----------
        key : random key
        elements : sequence of str or int
            Symbols or atomic numbers.
        total : float, e
            Sum of the charges.
        architecture : type
            `PaiNN` or `BehlerParrinello`.
        **options
            Arguments of ``architecture.init``, such as `cutoff` and `features`.

        Raises
        ------
        ValueError
            If the total is not finite, or an option or element is not known to the architecture.
        """
        if not (isinstance(architecture, type) and issubclass(architecture, Network)):
            raise TypeError(f"ChargeNetwork: architecture must be PaiNN or BehlerParrinello, got {architecture!r}")
        check.finite(total, "ChargeNetwork: total")
        return cls(architecture.init(key, elements, **options), float(total))  # type: ignore[attr-defined]

    @property
    def cutoff(self) -> float:
        """Cut-off radius in nm."""
        return self.network.cutoff

    @property
    def dtype(self) -> np.dtype:
        """Floating-point type of the weights."""
        return self.network.dtype

    def __call__(self, batch: Batch) -> tuple[Any, Any]:
        """Return the charges of atoms, (atoms,) in e, and the dipole moments of frames, (frames, 3) in e nm.

        Both are float64; dipole moments are about the origin of the batch's positions.
        """
        frames = len(batch.frame)
        vectors = batch.positions[batch.neighbors] - batch.positions[:, None] + batch.offsets
        real = np.reshape(batch.real, (frames, -1)).astype(np.float64)
        own = np.reshape(self.network.energies(batch.species, batch.neighbors, vectors), (frames, -1)) * real
        missing = self.total - np.sum(own, axis=1)
        charges = own + real * (missing / np.maximum(np.sum(real, axis=1), 1.0))[:, None]
        positions = np.reshape(batch.positions, (frames, -1, 3)).astype(np.float64)
        return np.reshape(charges, (-1,)), np.sum(charges[..., None] * positions, axis=1)

    def charges(self, species: Any, neighbors: Any, vectors: Any) -> Any:
        """Charge of each atom in e, float64 [n]; the arguments are those of `Network.energies`."""
        return self.conserved(self.network.energies(species, neighbors, vectors))

    def conserved(self, own: Any) -> Any:
        """Charges with the right total from the :math:`c_i`."""
        return own + (self.total - np.sum(own)) / own.shape[0]
