"""Better estimates from noisy results: extrapolation to zero noise, and corrections of errors in reading qubits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import CircuitError, SimulatorError
from ..gates.instruction import BARRIER
from ..gates.inverse import inverse
from .sampling import Samples

__all__ = ["Readout", "exponential", "fold", "linear", "richardson", "zero_noise"]


# -- extrapolation to zero noise
# -----------------------------------------------------------------------------------------


def fold(circuit: Any, scale: float) -> Any:
    """Return an equivalent circuit with `scale` times as many gates, and so as much noise: G becomes G (G^dagger G)^k.

    Each fold adds two gates, so that a circuit of n gates reaches the scale to within 1/n.

    Parameters
    ----------
    circuit : Circuit
        A circuit of gates; measurements that end it stay at the end.
    scale : float
        At least 1. Gates of each kind are folded (scale - 1)/2 times on average, to within one fold a kind, those
        folded once more being spread over the circuit.

    Raises
    ------
    CircuitError
        If `scale` is below 1, or the circuit has mid-circuit measurements, resets, channels or conditions.

    References
    ----------
    Giurgica-Tiron, Hindy, LaRose, Mari, Zeng, "Digital zero noise extrapolation for quantum error mitigation", IEEE QCE
    (2020), arXiv:2005.10921, section II: unitary folding of gates.

    Examples
    --------
    >>> from triskele.quantum.shots.mitigation import fold
    >>> from triskele import quantum
    >>> [len(fold(quantum.Circuit(2).h(0).cx(0, 1), scale)) for scale in (1, 2, 3, 5)]
    [2, 4, 6, 10]
    """
    from ..compile.readings import split

    if not scale >= 1:
        raise CircuitError(f"fold: the scale must be at least 1, got {scale!r}")
    body, _ = split(circuit)
    kinds: dict[Any, list[int]] = {}  # places of gates
    for place, i in enumerate(body):
        if i.gate is BARRIER:
            continue
        if not i.is_unitary:
            raise CircuitError(
                f"fold: only gates without a condition can be undone, got {i.gate.name} on qubits "
                f"{list(i.qubits)} (add noise after folding)"
            )
        kinds.setdefault((i.gate, len(i.controls)), []).append(place)
    # kinds on many qubits, whose noise is mostly the largest, come first: rounding affects them least
    widest = sorted(kinds, key=lambda kind: -kind[0].num_qubits - kind[1])
    order = [place for kind in widest for place in kinds[kind]]
    n, folds = len(order), round((scale - 1) / 2 * len(order))
    # evenly over the gates in this order: the number of folds before each gate is its share, rounded
    times = {
        place: ((2 * folds * (k + 1) + n) // (2 * n) - (2 * folds * k + n) // (2 * n)) for k, place in enumerate(order)
    }
    new: list[Any] = []
    for place, i in enumerate(body):
        new += [i, *[inverse(i), i] * times.get(place, 0)]
    kept = {id(i) for i in body}
    return circuit._with([*new, *(i for i in circuit if id(i) not in kept)])._ordered(circuit.names)


def richardson(scales: Sequence[float], values: Sequence[float]) -> float:
    """The value at 0 of the polynomial through all points.

    References
    ----------
    Temme, Bravyi, Gambetta, Phys. Rev. Lett. 119 (2017) 180509, doi:10.1103/PhysRevLett.119.180509.

    Examples
    --------
    >>> from triskele.quantum.shots.mitigation import richardson
    >>> richardson([1, 2, 3], [0.9, 0.7, 0.4])
    1.0
    """
    x, y = _points(scales, values, 1)
    weights = [np.prod([b / (b - a) for j, b in enumerate(x) if j != i]) for i, a in enumerate(x)]
    return round(float(np.dot(weights, y)), 15)


def linear(scales: Sequence[float], values: Sequence[float]) -> float:
    """The value at 0 of the straight line that fits best.

    Examples
    --------
    >>> from triskele.quantum.shots.mitigation import linear
    >>> round(linear([1, 2, 3], [0.9, 0.8, 0.7]), 12)
    1.0
    """
    x, y = _points(scales, values, 2)
    slope = np.dot(x - x.mean(), y - y.mean()) / np.dot(x - x.mean(), x - x.mean())
    return float(y.mean() - slope * x.mean())


def exponential(scales: Sequence[float], values: Sequence[float], asymptote: float | None = 0.0) -> float:
    """The value at 0 of the function a + b exp(-c scale) that fits best; of a line where none does.

    Parameters
    ----------
    scales, values : sequence of float
    asymptote : float, optional
        a, the value with all noise: 0 for traceless operators. Fitted, from three points or more, when None.

    Examples
    --------
    >>> import math
    >>> from triskele.quantum.shots.mitigation import exponential
    >>> round(exponential([1, 2, 3], [2 * math.exp(-0.1 * s) for s in (1, 2, 3)]), 12)
    2.0
    """
    from scipy.optimize import least_squares

    x, y = _points(scales, values, 2 if asymptote is not None else 3)
    guess = asymptote if asymptote is not None else 0.0
    sign = np.sign((y - guess).mean()) or 1.0
    distance = sign * (y - guess)
    if (distance <= 0).any():
        return linear(scales, values)
    slope, start = np.polyfit(x, np.log(distance), 1)
    first = [sign * np.exp(start), -slope, guess]
    free = 2 if asymptote is not None else 3
    found = least_squares(
        lambda p: (p[2] if free == 3 else guess) + p[0] * np.exp(-p[1] * x) - y,
        first[:free],
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    return float(found.x[0] + (found.x[2] if free == 3 else guess))


def zero_noise(
    circuit: Any,
    evaluate: Callable[[Any], Any],
    scales: Sequence[float] = (1, 3, 5),
    extrapolate: Callable[[Sequence[float], Sequence[float]], float] = richardson,
) -> float:
    """Extrapolate `evaluate` to zero noise, from its values at stronger noise.

    A circuit of few gates reaches a scale only roughly (see `fold`): values are extrapolated with the scales reached,
    each of which is evaluated once.

    Between odd scales only some of the gates are folded, and their share of the noise is not known, so that errors of
    the extrapolation can be larger than those of the values. Take odd scales for circuits of few gates, or where
    gates of one kind are much noisier than others.

    Parameters
    ----------
    circuit : Circuit
        Circuit without noise.
    evaluate : callable
        Function from a circuit to a noisy value (a number, or an `Estimate`).
    scales : sequence of float
        Factors by which the number of gates grows; odd ones fold all gates equally.
    extrapolate : callable
        `richardson`, `linear`, `exponential`, or another function of (scales, values).

    Raises
    ------
    CircuitError
        If the circuit cannot be folded, a scale is below 1, or all scales reach the same number of gates.

    Examples
    --------
    >>> from triskele import quantum
    >>> from triskele.quantum import mitigation, noise
    >>> model = noise.NoiseModel().add(noise.depolarizing(0.02))
    >>> circuit = quantum.Circuit(2).h(0).cx(0, 1).rz(0.3, 1)
    >>> def noisy(c):
    ...     return quantum.run(c.with_noise(model), simulator="density_matrix").expectation("Z0 Z1")
    >>> round(noisy(circuit), 3), round(mitigation.zero_noise(circuit, noisy), 3)
    (0.941, 0.99)
    """
    gates = _gates(circuit)
    folded = {_gates(c): c for scale in scales for c in [fold(circuit, scale)]}
    if len(folded) < min(len(scales), 2):
        raise CircuitError(
            f"zero_noise: scales must reach different numbers of gates, got {list(scales)} for {gates} "
            f"gates (take larger ones)"
        )
    return extrapolate([number / gates for number in folded], [float(evaluate(c)) for c in folded.values()])


def _gates(circuit: Any) -> int:
    return sum(i.is_unitary for i in circuit)


def _points(scales: Sequence[float], values: Sequence[float], least: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(scales, float), np.asarray(values, float)
    if (
        x.ndim != 1
        or x.shape != y.shape
        or len(x) < least
        or len(set(x.tolist())) != len(x)
        or not np.isfinite(y).all()
    ):
        raise SimulatorError(
            f"extrapolation: at least {least} different scales with a finite value each are needed, "
            f"got scales {scales}, values {values}"
        )
    return x, y


# -- errors in reading
# ---------------------------------------------------------------------------------------------------


class Readout:
    """Correction of errors in reading qubits, each with its assignment matrix.

    Parameters
    ----------
    matrices : sequence of (2, 2) arrays
        For every bit, entry [read, measured] is a probability; columns sum to 1.

    Raises
    ------
    SimulatorError
        If these are not assignment matrices, or one has determinant 0.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.shots.mitigation import Readout
    >>> readout = Readout([[[0.9, 0.2], [0.1, 0.8]]])
    >>> readout.inverse(np.array([0.55, 0.45])).round(12).tolist()
    [0.5, 0.5]
    """

    def __init__(self, matrices: Sequence[Any] | np.ndarray):
        self.matrices = check.shape(
            np.array(matrices, float), ("bits", 2, 2), "Readout: matrices", error=SimulatorError
        )
        if (self.matrices < -1e-12).any() or np.abs(self.matrices.sum(1) - 1).max() > 1e-9:
            raise SimulatorError("Readout: columns of assignment matrices must be probabilities that sum to 1")
        if np.abs(np.linalg.det(self.matrices)).min() < 1e-6:
            raise SimulatorError("Readout: an assignment matrix has determinant 0: its readings carry no information")

    def __repr__(self) -> str:
        return f"<Readout: {len(self.matrices)} bits>"

    @classmethod
    def calibrated(cls, run: Callable[[Any], Any], num_qubits: int) -> Readout:
        """Assignment matrices measured on states where all qubits are 0, and where all are 1.

        Parameters
        ----------
        run : callable
            Function from a circuit to its result, whose `sample()` gives the classical bits; it adds the noise itself.
        num_qubits : int
        """
        from ..circuit import Circuit

        columns = []
        for ones in (0, 1):
            circuit = Circuit(num_qubits)
            for q in range(num_qubits * ones):
                circuit.x(q)
            p = run(circuit.measure_all()).sample().array[:, :num_qubits].mean(0)
            columns.append(np.stack([1 - p, p], 1))
        return cls(np.stack(columns, 2))

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the probabilities (2**n,) of the readings for these true probabilities; bit k of an index is bit k."""
        return _each(self.matrices, self._checked(probabilities))

    def inverse(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the probabilities (2**n,) measured, from the frequencies read, by the inverse: unbiased, but numbers
        below 0 may come.
        """
        return _each(np.linalg.inv(self.matrices), self._checked(probabilities))

    def least_squares(self, probabilities: np.ndarray) -> np.ndarray:
        """The probabilities (2**n,), none below 0, whose readings are nearest to the frequencies read.

        References
        ----------
        Beck, Teboulle, SIAM J. Imaging Sci. 2 (2009) 183, doi:10.1137/080716542 (accelerated projected gradient);
        projection on probabilities as in Duchi, Shalev-Shwartz, Singer, Chandra, ICML (2008), figure 1.
        """
        read = self._checked(probabilities)
        adjoint = self.matrices.transpose(0, 2, 1)
        step = 1.0 / np.prod(np.linalg.norm(self.matrices, 2, axis=(1, 2))) ** 2
        p = _project(_each(np.linalg.inv(self.matrices), read))
        ahead, momentum = p, 1.0
        for _ in range(10_000):
            new = _project(ahead - step * _each(adjoint, _each(self.matrices, ahead) - read))
            change = new - p
            if np.abs(change).max() < 1e-13:
                break
            if np.dot(ahead - new, change) > 0:  # it went too far: start again from here
                momentum = 1.0
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            p, ahead, momentum = new, new + (momentum - 1) / following * change, following
        return new

    def expectation(self, samples: Samples, qubits: Sequence[int]) -> float:
        """Mean of a product of Z of these bits, corrected by the inverse: of any number of bits, as only these
        matter.
        """
        inverses = np.linalg.inv(self.matrices[list(qubits)])
        values = np.array([1.0, -1.0]) @ inverses  # (k, 2): what a reading of 0 and of 1 counts
        bits = samples.array[:, list(qubits)]
        return float(np.prod(values[np.arange(len(qubits)), bits], axis=1).mean())

    def _checked(self, probabilities: np.ndarray) -> np.ndarray:
        return check.shape(
            np.asarray(probabilities, float),
            (1 << len(self.matrices),),
            "Readout: probabilities",
            error=SimulatorError,
            hint=f"of {len(self.matrices)} bits",
        )


def _each(matrices: np.ndarray, p: np.ndarray) -> np.ndarray:
    for k, matrix in enumerate(matrices):
        p = np.einsum("ab,hbl->hal", matrix, p.reshape(-1, 2, 1 << k)).reshape(-1)
    return p


def _project(p: np.ndarray) -> np.ndarray:
    """The nearest probabilities: all less by one number, and none below 0."""
    ordered = np.sort(p)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, p.size + 1)
    return np.maximum(p - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)
