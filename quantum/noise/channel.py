"""Noise channels: Kraus operators, and all other forms derived from them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import ChannelError

__all__ = ["Channel", "pauli_strings"]

_TOLERANCE = 1e-10
# I X Z Y: digit = x + 2 z
_LETTERS = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[1, 0], [0, -1]], [[0, -1j], [1j, 0]]])
_MOST_QUBITS = 5  # whose matrices are still of a reasonable size: 4**5 Pauli strings of 32 x 32


@functools.cache
def pauli_strings(num_qubits: int) -> np.ndarray:
    """All Pauli strings (4**q, 2**q, 2**q).

    Digit k (base 4) of an index is the letter on qubit k: 0 I, 1 X, 2 Z, 3 Y.
    """
    strings = np.ones((1, 1, 1), complex)
    for _ in range(num_qubits):
        strings = np.einsum("aij,bkl->abikjl", _LETTERS, strings).reshape(4 * len(strings), 2 * strings.shape[1], -1)
    strings.flags.writeable = False
    return strings


class Channel:
    """A completely positive, trace preserving map rho -> sum_k K_k rho K_k^dagger on some qubits.

    Bit j of an index of a Kraus operator is the channel's qubit j.

    Parameters
    ----------
    name : str
        Name in drawings and messages.
    kraus : sequence of (2**q, 2**q) arrays
        The Kraus operators.

    Raises
    ------
    ChannelError
        If the operators are not square, of one size 2**q and finite, or sum K^dagger K is not 1 to 1e-10.

    References
    ----------
    M. A. Nielsen, I. L. Chuang, Quantum Computation and Quantum Information, section 8.2.3,
    doi:10.1017/CBO9780511976667.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.noise import Channel
    >>> decay = Channel("decay", [[[1, 0], [0, 0.8]], [[0, 0.6], [0, 0]]])
    >>> decay.num_qubits, decay(np.diag([0.0, 1.0])).real.round(2).tolist()
    (1, [[0.36, 0.0], [0.0, 0.64]])
    """

    arguments: tuple[Any, ...] = ()  # numbers that it was made from, for drawings
    num_params = 0  # an instruction's: those of a channel are numbers, fixed when it is made

    def __init__(self, name: str, kraus: Sequence[Any] | np.ndarray):
        try:
            operators = np.array([np.asarray(k, complex) for k in kraus])
        except (TypeError, ValueError):
            raise ChannelError(f"{name}: Kraus operators must be matrices of one size, got {kraus!r}") from None
        if operators.ndim != 3 or not len(operators) or operators.shape[1] != operators.shape[2]:
            raise ChannelError(
                f"{name}: Kraus operators must be square matrices of one size, got an array of shape {operators.shape}"
            )
        size = operators.shape[1]
        if size < 2 or size & (size - 1):
            raise ChannelError(f"{name}: Kraus operators must be of size 2**q, got {size}")
        check.finite(operators, f"{name}: Kraus operators", error=ChannelError)
        deviation = np.abs(np.einsum("kji,kjl->il", operators.conj(), operators) - np.eye(size)).max()
        if deviation > _TOLERANCE:
            raise ChannelError(
                f"{name}: a channel must preserve the trace, but sum K^dagger K differs from 1 by {deviation:.3g}"
            )
        self.name, self.num_qubits, self.label = name, size.bit_length() - 1, name
        self._kraus: Any = _frozen(operators[np.abs(operators).max((1, 2)) > 0])
        self._pauli: Any = None

    @classmethod
    def pauli(cls, name: str, probabilities: Any) -> Channel:
        """The channel that applies Pauli string s with `probabilities[s]`, numbered as in `pauli_strings`; of any size.

        Raises
        ------
        ChannelError
            If there are not 4**q probabilities, one is not in 0 to 1, or their sum is not 1 to 1e-10.
        """
        p = np.array(probabilities, float)
        if p.ndim != 1 or p.size < 4 or p.size & (p.size - 1) or p.size.bit_length() % 2 == 0:
            raise ChannelError(f"{name}: 4**q probabilities are needed, got an array of shape {p.shape}")
        if not (p >= -_TOLERANCE).all() or not (p <= 1 + _TOLERANCE).all():
            raise ChannelError(f"{name}: probabilities must be in 0 to 1, got {p[~((p >= 0) & (p <= 1))][0]:.12g}")
        if abs(p.sum() - 1) > _TOLERANCE:
            raise ChannelError(f"{name}: probabilities must sum to 1, got {p.sum():.12g}")
        self = object.__new__(cls)
        self.name, self.num_qubits, self.label = name, (p.size.bit_length() - 1) // 2, name
        self._kraus, self._pauli = None, _frozen(p.clip(0.0, 1.0))
        return self

    @property
    def is_pauli(self) -> bool:
        """True if the channel was made from probabilities of Pauli strings."""
        return self._pauli is not None

    @property
    def kraus(self) -> np.ndarray:
        """The Kraus operators (m, 2**q, 2**q)."""
        if self._kraus is None:
            if self.num_qubits > _MOST_QUBITS:
                raise ChannelError(
                    f"{self.name}: matrices of a channel on {self.num_qubits} qubits are too large (at "
                    f"most {_MOST_QUBITS})"
                )
            used = np.flatnonzero(self._pauli)
            self._kraus = _frozen(np.sqrt(self._pauli[used])[:, None, None] * pauli_strings(self.num_qubits)[used])
        return self._kraus

    @functools.cached_property
    def mixture(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(m,) probabilities and (m, 2**q, 2**q) unitaries if every Kraus operator is proportional to a unitary, else
        None.
        """
        k = self.kraus
        squares = np.einsum("kji,kjl->kil", k.conj(), k)
        p = squares[:, 0, 0].real
        if np.abs(squares - p[:, None, None] * np.eye(k.shape[1])).max() > 1e-14:
            return None
        return _frozen(p / p.sum()), _frozen(k / np.sqrt(p)[:, None, None])

    @functools.cached_property
    def pauli_probabilities(self) -> np.ndarray | None:
        """(4**q,) probabilities of Pauli strings (see `pauli_strings`) if it is a Pauli channel, else None."""
        if self._pauli is not None or self.num_qubits > _MOST_QUBITS:
            return self._pauli
        overlap = np.einsum("sji,kji->ks", pauli_strings(self.num_qubits).conj(), self.kraus) / self.kraus.shape[1]
        chi = overlap.T @ overlap.conj()  # the channel is sum chi_st P_s rho P_t
        return _frozen(np.diag(chi).real.copy()) if np.abs(chi - np.diag(np.diag(chi))).max() < 1e-14 else None

    def superoperator(self) -> np.ndarray:
        """(4**q, 4**q) matrix on column-stacked density matrices: rho[i, j] has index i + 2**q j."""
        size = 1 << self.num_qubits
        return np.einsum("kia,kjb->jiba", self.kraus, self.kraus.conj()).reshape(size * size, -1)

    def choi(self) -> np.ndarray:
        """(4**q, 4**q) Choi matrix sum_ij |i><j| x E(|i><j|), the output being the fast index."""
        vectors = self.kraus.transpose(0, 2, 1).reshape(len(self.kraus), -1)
        return vectors.T @ vectors.conj()

    def transfer_matrix(self) -> np.ndarray:
        """(4**q, 4**q) real Pauli transfer matrix Tr(P_s E(P_t)) / 2**q, numbered as in `pauli_strings`."""
        return transfer_matrix(self.kraus)

    def then(self, other: Channel, name: str | None = None) -> Channel:
        """The channel that is this one followed by `other`, on the same qubits."""
        if other.num_qubits != self.num_qubits:
            raise ChannelError(
                f"then: both channels must act on the same number of qubits, got {self.num_qubits} and "
                f"{other.num_qubits}"
            )
        products = np.einsum("aij,bjk->abik", other.kraus, self.kraus).reshape(-1, *self.kraus.shape[1:])
        return Channel(name or f"{self.name}+{other.name}", _fewest(products))

    def tensor(self, other: Channel, name: str | None = None) -> Channel:
        """The channel that is this one on the first qubits and `other` on those after them."""
        size = self.kraus.shape[1] * other.kraus.shape[1]
        return Channel(
            name or f"{self.name}*{other.name}",
            np.einsum("aij,bkl->abkilj", self.kraus, other.kraus).reshape(-1, size, size),
        )

    def __call__(self, rho: np.ndarray) -> np.ndarray:
        """Return the density matrix (2**q, 2**q) after the channel."""
        return np.einsum("kij,jl,kml->im", self.kraus, rho, self.kraus.conj())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Channel):
            return NotImplemented
        if (self.name, self.num_qubits, self.is_pauli) != (other.name, other.num_qubits, other.is_pauli):
            return False
        return np.array_equal(self._made_of, other._made_of)

    def __hash__(self) -> int:
        return hash((self.name, self._made_of.tobytes()))

    @property
    def _made_of(self) -> np.ndarray:
        return self.kraus if self._pauli is None else self._pauli

    def __repr__(self) -> str:
        return f"Channel({self.name!r}, {self.num_qubits} qubit{'s' * (self.num_qubits > 1)})"


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def transfer_matrix(kraus: np.ndarray) -> np.ndarray:
    """Real Pauli transfer matrix (4**q, 4**q) of the map rho -> sum K rho K^dagger, which need not preserve the
    trace.
    """
    strings = pauli_strings(kraus.shape[-1].bit_length() - 1)
    images = np.einsum("kij,tjl,kml->tim", kraus, strings, kraus.conj(), optimize=True)
    return np.einsum("sij,tji->st", strings, images, optimize=True).real / kraus.shape[-1]


def kraus_of_choi(choi: np.ndarray) -> np.ndarray:
    """Kraus operators, as few as there can be, of a Choi matrix as `Channel.choi` gives it."""
    size = round(len(choi) ** 0.5)
    values, vectors = np.linalg.eigh(choi)
    kept = values > 1e-15 * values[-1]
    return (np.sqrt(values[kept]) * vectors[:, kept]).T.reshape(-1, size, size).transpose(0, 2, 1)


def _fewest(kraus: np.ndarray) -> np.ndarray:
    """The same map with at most 4**q operators."""
    if len(kraus) <= kraus.shape[1] ** 2:
        return kraus
    vectors = kraus.transpose(0, 2, 1).reshape(len(kraus), -1)
    return kraus_of_choi(vectors.T @ vectors.conj())
