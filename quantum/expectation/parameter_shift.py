"""Parameter shift: derivatives from values at shifted angles, which can come from hardware, from shots, or from any
simulator.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from triskele.core.random import fold_in, key

from ..errors import ParameterError, SimulatorError
from ..gates.base import Gate
from ..gates.primitives import Pair, Phase, Rotation
from ..parameters import Linear
from ..shots.sampling import check_seed
from .engine import Engine

__all__ = ["Sampled", "Slots", "frequencies", "shift_rule"]


def shift_rule(frequencies: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients c and shifts s, (2 R,) each, with f'(t) = sum_k c_k f(t + s_k) for every f with these R
    distinct positive frequencies and a constant part (Wierichs et al., Quantum 6, 677 (2022), arXiv:2107.12390).

    >>> coefficients, shifts = shift_rule([1.0])
    >>> coefficients.round(6).tolist(), (shifts / np.pi).round(6).tolist()
    ([0.5, -0.5], [0.5, -0.5])
    """
    w = np.sort(np.asarray(frequencies, float))
    if not len(w) or not w[0] > 0 or not (np.diff(w) > 0).all():
        raise ParameterError(f"shift_rule: frequencies must be different positive numbers, got {frequencies}")
    count = np.arange(1, len(w) + 1)
    if np.allclose(w, w[0] * count, rtol=1e-9, atol=0):  # equidistant: a closed form
        x = (2 * count - 1) * np.pi / (2 * len(w) * w[0])
        c = -w[0] * (-1.0) ** count / (4 * len(w) * np.sin(w[0] * x / 2) ** 2)
    else:  # f(x) - f(-x) = 2 sum_l b_l sin(w_l x), and f'(0) = sum_l w_l b_l
        x = count * np.pi / (w[0] + w[-1])
        c = np.linalg.solve(2 * np.sin(np.outer(w, x)), w)
    return np.concatenate([c, -c]), np.concatenate([x, -x])


def frequencies(gate: Gate, parameter: int, controlled: bool = False) -> np.ndarray:
    """Return the frequencies of expectation values in parameter number `parameter` of a gate of factors: the positive
    differences of the eigenvalues of its generators.

    >>> from triskele.quantum import gates
    >>> frequencies(gates.find("rx"), 0).tolist(), frequencies(gates.find("rx"), 0, controlled=True).tolist()
    ([1.0], [0.5, 1.0])
    """
    sums = {0.0}
    for factor in gate.factors or ():
        if scale := abs(factor.coefficients[parameter]):
            spectrum = _spectrum(factor.primitive) | ({0.0} if controlled else set())
            differences = {scale * (a - b) for a, b in itertools.product(spectrum, repeat=2)}
            sums = {round(a + b, 12) for a, b in itertools.product(sums, differences)}
    return np.array(sorted(s for s in sums if s > 0))


def _spectrum(primitive: Any) -> set[float]:
    """Eigenvalues of a generator."""
    if isinstance(primitive, Rotation):
        return {0.5, -0.5}
    if isinstance(primitive, Phase):
        return {0.0, -1.0} if primitive.qubits else {-1.0}
    if isinstance(primitive, Pair):
        whole = 2 << primitive.free.bit_count() == 1 << primitive.qubits
        return {0.5, -0.5} if whole else {0.5, -0.5, 0.0}
    return {round(float(e), 12) for e in np.linalg.eigvalsh(primitive.generator)}


class Slots:
    """A circuit with a parameter of its own in each place of a gate that depends on values, and the shift rule of each.

    ``slots = matrix @ values + constants``, with `matrix` (S, V) and `constants` (S,).
    """

    def __init__(self, circuit: Any):
        self.names = circuit.parameters + circuit.data  # of the original circuit
        self.rules: list[tuple[np.ndarray, np.ndarray]] = []  # coefficients, shifts; empty where a slot has no effect
        self.unruly: str | None = None  # name of a gate without a rule
        self._expressions: list[Linear] = []
        self.circuit = circuit._with([self._slotted(i) for i in circuit])  # with parameters slot1, slot2, ...
        self.circuit._data = frozenset()
        index = {n: i for i, n in enumerate(self.names)}
        self.matrix, self.constants = (
            np.zeros((len(self._expressions), len(index))),
            np.array([p.constant for p in self._expressions]),
        )
        for row, p in zip(self.matrix, self._expressions, strict=True):
            for name, c in p.terms:
                row[index[name]] += c

    def _slotted(self, instruction: Any) -> Any:
        params = list(instruction.params)
        for k, p in enumerate(params):
            if type(p) is Linear:
                gate, found = instruction.gate, np.zeros(0)
                if isinstance(gate, Gate) and gate.factors is not None:
                    found = frequencies(gate, k, bool(instruction.controls))
                else:
                    self.unruly = gate.name
                self.rules.append(shift_rule(found) if len(found) else (found, found))
                self._expressions.append(p)
                params[k] = Linear(((f"slot{len(self._expressions)}", 1.0),))
        return instruction._replace(params=tuple(params))

    def shifted(self, at: np.ndarray, k: int) -> np.ndarray:
        """The points (2 R, S) of the rule of slot k around `at` (S,)."""
        points = np.repeat(at[None], len(self.rules[k][1]), axis=0)
        points[:, k] += self.rules[k][1]
        return points


class Sampled(Engine):
    """Values from a simulator, exact or from shots, with gradients by parameter shift.

    Each parameter of each gate is shifted on its own; the chain rule continues to theta and data. Every value uses a
    new part of the random stream of `seed`: the same sequence of calls returns the same values.
    """

    def __init__(self, circuit: Any, hamiltonians: Any, simulator: str, dtype: Any, shots: int | None, seed: int):
        self.hamiltonians, self.simulator, self.dtype, self.shots = hamiltonians, simulator, dtype, shots
        self.seed = seed
        self._key = None if shots is None else key(check_seed(seed, "Expectation"))
        self.position = 0
        self._slots = Slots(circuit)

    def _at(self, slots: np.ndarray, initial: np.ndarray | None) -> list[float]:
        """The values at one point."""
        from ..simulators.run import run

        seed = 0
        if self._key is not None:
            words = fold_in(self._key, self.position)
            seed, self.position = int(words[0]) | int(words[1]) << 32, self.position + 1
        result = run(
            self._slots.circuit,
            slots,
            simulator=self.simulator,
            dtype=self.dtype,
            initial=initial,
            shots=self.shots,
            seed=seed,
        )
        found = [result.expectation(h, shots=self.shots) for h in self.hamiltonians]
        return [float(getattr(e, "value", e)) for e in found]

    def values(self, values: np.ndarray, initial: np.ndarray) -> np.ndarray:
        slots = values @ self._slots.matrix.T + self._slots.constants
        return np.array([self._at(s, _state(initial, k)) for k, s in enumerate(slots)])

    def jacobian(self, values: np.ndarray, initial: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._slots.unruly is not None:
            raise SimulatorError(
                f"Expectation: parameter shift needs a generator, which {self._slots.unruly} does not "
                f"have (use gradient='adjoint')"
            )
        slots = values @ self._slots.matrix.T + self._slots.constants
        slopes = np.zeros((len(values), len(self.hamiltonians), slots.shape[1]))
        for b, at in enumerate(slots):
            for k, (coefficients, _) in enumerate(self._slots.rules):
                for c, point in zip(coefficients, self._slots.shifted(at, k), strict=True):
                    slopes[b, :, k] += c * np.array(self._at(point, _state(initial, b)))
        return self.values(values, initial), slopes @ self._slots.matrix

    def pull(
        self, values: np.ndarray, ct: np.ndarray, initial: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if initial.size:
            raise SimulatorError("Expectation: derivatives with respect to the initial state need gradient='adjoint'")
        found, gradients = self.jacobian(values, initial)
        return found, np.einsum("bm,bmv->bv", ct, gradients), initial


def _state(initial: np.ndarray, k: int) -> np.ndarray | None:
    return None if not initial.size else initial[k if len(initial) > 1 else 0]
