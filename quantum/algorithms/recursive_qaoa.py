"""Recursive QAOA: bits are fixed by the strongest correlation, one after the other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from triskele.core.extend import Reports, check

from ..errors import ParameterError
from ..expectation.expectation import Expectation
from ..operators.pauli import PauliSum
from ..optimizers.journal import Journal
from ..optimizers.minimize import Steps, find
from .qaoa import QAOA, check_cost, cost_values

__all__ = ["RecursiveQAOA", "RecursiveQAOAResult"]

Terms = dict[frozenset[int], float]  # qubits of a product of Z: its coefficient


@dataclass(frozen=True)
class RecursiveQAOAResult:
    """Result of a `RecursiveQAOA`.

    Attributes
    ----------
    bits : (n,) uint8 array
    cost : float
        Cost of `bits`.
    eliminated : tuple of (tuple of int, float)
        Products of Z that were fixed to their sign, and their mean values, in order.
    evaluations : int
        Mean costs computed, with or without gradients.
    """

    bits: np.ndarray
    cost: float
    eliminated: tuple[tuple[tuple[int, ...], float], ...]
    evaluations: int

    def __repr__(self) -> str:
        return (
            f"<RecursiveQAOAResult: cost {self.cost:.6g} for {''.join(map(str, self.bits))}, {self.evaluations} "
            f"evaluations>"
        )


class RecursiveQAOA:
    """Recursive QAOA: fix the product of Z with the largest mean value to its sign, eliminate a bit, and repeat [1]_.

    The last `cutoff` bits are found by trying all assignments. The method reaches the optimum on many graphs where QAOA
    of the same depth, being local, cannot.

    Parameters
    ----------
    cost : PauliSum
        Sum of products of Z to minimize, see `QAOA`.
    layers : int
    cutoff : int
        Number of bits that are solved exactly, at most 20.
    optimizer : str or object
        See `quantum.minimize`.

    Raises
    ------
    OperatorError, CircuitError, ParameterError, OptimizerError
        If the cost is not diagonal and real, or another argument is invalid.

    References
    ----------
    .. [1] Bravyi, Kliesch, Koenig, Tang, "Obstacles to variational quantum optimization from symmetry protection",
       Phys. Rev. Lett. 125, 260505 (2020). doi:10.1103/PhysRevLett.125.260505

    Examples
    --------
    >>> from triskele import quantum
    >>> ring = quantum.maxcut([(k, (k + 1) % 10) for k in range(10)])
    >>> quantum.RecursiveQAOA(ring, cutoff=4).run().cost
    -10.0
    """

    def __init__(self, cost: PauliSum, layers: int = 1, *, cutoff: int = 8, optimizer: Any = "bfgs"):
        check_cost("RecursiveQAOA", cost)
        check.integer(cutoff, "RecursiveQAOA: cutoff", 1, 20, error=ParameterError)
        self.optimizer = find(optimizer)
        QAOA(cost, layers, optimizer=self.optimizer)  # are the numbers all right? it says so now
        self.cost, self.layers, self.cutoff = cost, layers, cutoff

    def __repr__(self) -> str:
        return f"<RecursiveQAOA: {self.cost.num_qubits} qubits, {self.layers} layers, cutoff {self.cutoff}>"

    def run(
        self, *, report: Reports = None, progress: bool | None = None, checkpoint: str | os.PathLike | None = None
    ) -> RecursiveQAOAResult:
        """Eliminate bits and solve for the rest.

        Parameters
        ----------
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step`` and ``bits`` and ``correlation``; see `core.report`. A
            reporter that raises StopIteration ends the eliminations; the remaining bits are solved exactly, or are 0 if
            there are more than 20.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the values so far, written about once a second and at the end. If it exists, the run resumes from
            it bit for bit.

        Returns
        -------
        RecursiveQAOAResult

        Raises
        ------
        CheckpointError
            If the checkpoint belongs to another run; the message names what differs.
        """
        n = self.cost.num_qubits
        terms: Terms = {frozenset(_qubits(string)): c.real for string, c in self.cost if string}
        fixed: list[tuple[int, frozenset[int], float]] = []  # this bit, as the product of those bits' Z, times a sign
        eliminated, evaluations = [], 0
        journal = Journal(
            "RecursiveQAOA.run",
            checkpoint,
            {
                "cost": [[string, c.real] for string, c in self.cost],
                "layers": self.layers,
                "cutoff": self.cutoff,
                "optimizer": repr(self.optimizer),
            },
        )
        with Steps("RecursiveQAOA.run", report, progress, journal, unit="bit", total=max(n - self.cutoff, 0)) as steps:
            while len(left := sorted(frozenset().union(*terms))) > self.cutoff:
                place = {q: k for k, q in enumerate(left)}
                products = list(terms)
                reduced = PauliSum([(_string(place[q] for q in s), terms[s]) for s in products])
                strings = [PauliSum(_string(place[q] for q in s)) for s in products]
                done, *correlations = journal(
                    np.array(list(terms.values())), partial(self._correlations, reduced, strings)
                )
                means = np.array(correlations)
                evaluations += int(done)
                # ties, which symmetric graphs have, must not be broken by rounding: the first of those equal to 1e-6
                best = int(np.argmax(np.abs(means) >= np.max(np.abs(means)) - 1e-6))
                product, sign = products[best], 1.0 if means[best] >= 0 else -1.0
                eliminated.append((tuple(sorted(product)), float(means[best])))
                bit = max(product)
                fixed.append((bit, product - {bit}, sign))
                terms = _substitute(terms, bit, product, sign)
                steps({"bits": len(left), "correlation": float(means[best])}, f"correlation {means[best]:.3f}")
                if steps.stopped:
                    left = sorted(frozenset().union(*terms))
                    break
        spins = np.ones(n)
        if 0 < len(left) <= 20:
            place = {q: k for k, q in enumerate(left)}
            every = (np.arange(1 << len(left))[:, None] >> np.arange(len(left))) & 1
            rest = PauliSum([(_string(place[q] for q in s), c) for s, c in terms.items()])
            spins[left] = 1.0 - 2.0 * every[np.argmin(cost_values(rest, every))]
        for bit, others, sign in reversed(fixed):
            spins[bit] = sign * np.prod([spins[q] for q in others])
        bits = (spins < 0).astype(np.uint8)
        return RecursiveQAOAResult(bits, float(cost_values(self.cost, bits[None])[0]), tuple(eliminated), evaluations)

    def _correlations(self, cost: PauliSum, products: list[PauliSum]) -> np.ndarray:
        """Number of evaluations, and the mean values of products of Z in the state that QAOA finds."""
        found = QAOA(cost, self.layers, optimizer=self.optimizer).run(progress=False)
        return np.concatenate([[found.evaluations + 1], Expectation(found.ansatz, products)(found.theta)])


def _substitute(terms: Terms, bit: int, product: frozenset[int], sign: float) -> Terms:
    """The cost with Z_bit = sign times the rest of `product`; what becomes constant or cancels is dropped."""
    new: Terms = {}
    for s, c in terms.items():
        if bit in s:
            s, c = s ^ product, c * sign
        new[s] = new.get(s, 0.0) + c
    largest = max(abs(c) for c in terms.values())
    return {s: c for s, c in new.items() if s and abs(c) > 1e-12 * largest}


def _qubits(string: str) -> list[int]:
    return [int(letter[1:]) for letter in string.split()]


def _string(qubits: Any) -> str:
    return " ".join(f"Z{q}" for q in sorted(qubits))
