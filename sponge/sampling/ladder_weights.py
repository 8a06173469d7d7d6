r"""Estimators of the weights n_k of a ladder of temperatures, which make all temperatures equally probable.

A run with weights n_k draws the enhanced energy E with density Omega(E) sum_k n_k exp(-beta_k E). The share of
temperature k is P_k = <n_k exp(-beta_k E) / sum_j n_j exp(-beta_j E)>, and P_k = 1/N for all k when n_k is proportional
to 1/Z_k. The estimators differ in how they learn that:

- `Iteration`: ratios n_{k+1} / n_k, averaged over blocks with their overlaps as weights;
- `MBAR`: ln Z_k from the energies of all blocks at once;
- `Approximation`: a small step after each energy, with a gain that falls like 1/t;
- `Reweighted`: Z_k from all energies so far, each with the weight exp(bias) that it was drawn with, as in OPES.

All work with ln n_k, whose mean is kept at 0. A constant added to E only turns ln n_k by beta_k times that constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from triskele.core.extend import Task, device, kernel

from ..analysis.wham import log_sum
from .reweighting import EnergyHistogram, solve

__all__ = [
    "ESTIMATORS",
    "MBAR",
    "Approximation",
    "Iteration",
    "LadderWeights",
    "Online",
    "Reweighted",
    "from_mean_energies",
    "from_one_temperature",
]


def from_mean_energies(betas: Any, energies: Any) -> np.ndarray:  # (N,) mol/kJ, (N,) kJ/mol
    r"""Return ln n_k from the mean energy of each temperature, by the trapezoidal rule.

    .. math:: \ln n_{k+1} - \ln n_k = (\beta_{k+1} - \beta_k) (\langle E\rangle_k + \langle E\rangle_{k+1}) / 2,

    because d ln Z / d beta = -<E> (Park and Pande, Phys. Rev. E 76, 016703 (2007)).
    """
    betas, energies = np.asarray(betas, np.float64), np.asarray(energies, np.float64)
    if betas.shape != energies.shape or betas.ndim != 1 or not np.isfinite(energies).all():
        raise ValueError(
            f"from_mean_energies: energies must be finite, one for each of the {betas.size} temperatures, "
            f"got {energies}"
        )
    log_n = np.concatenate([[0.0], np.cumsum(np.diff(betas) * (energies[1:] + energies[:-1]) / 2)])
    return log_n - log_n.mean()


def from_one_temperature(betas: np.ndarray, energies: np.ndarray, beta: float) -> np.ndarray:
    """ln n_k from energies [m] drawn at one temperature, as if the heat capacity were the same at all others."""
    mean, variance = float(energies.mean()), float(energies.var())
    capacity = beta**2 * variance  # dE/d(1/beta)
    # <E>(beta) = mean + capacity (1/beta_k - 1/beta), integrated over beta
    log_n = (mean - capacity / beta) * (betas - beta) + capacity * np.log(betas / beta)
    return log_n - log_n.mean()


class LadderWeights:
    """Estimator of ln n_k from energies."""

    online = False  # whether it learns inside the step loop: see `Online`
    _saved: ClassVar[tuple[str, ...]] = ("log_n",)  # names of the arrays that are its state

    def __init__(self, betas: Any, beta: float):  # mol/kJ: of the ladder, (N,), and of the simulation
        self.betas, self.beta = np.array(betas, np.float64), float(beta)
        self.log_n = np.zeros(len(self.betas))  # the estimate

    def add(self, energies: np.ndarray, log_n: np.ndarray | None) -> None:
        """Take in a block of energies [m], drawn with `log_n` [N], or from plain dynamics if that is None."""
        raise NotImplementedError

    def update(self) -> None:
        """Bring `log_n` up to date with the blocks that were added."""

    def state(self) -> dict[str, np.ndarray]:
        """Return everything learned so far, as copies."""
        return {name: getattr(self, name).copy() for name in self._saved}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to such a state."""
        for name in self._saved:
            getattr(self, name)[:] = state[name]

    def _set(self, log_n):
        self.log_n[:] = log_n - log_n.mean()


class Iteration(LadderWeights):
    r"""Iteration of the ratios m_k = n_{k+1} / n_k over blocks (Gao, J. Chem. Phys. 128, 064105 (2008); Yang and Gao,
    J. Chem. Phys. 131, 214109 (2009)).

    A block drawn with m_k that has seen P_k yields the ratio m_k P_k / P_{k+1}, with the weight
    w_k = sum_t sqrt(P_k(t) P_{k+1}(t)): how much of both temperatures it has seen. With the sum W_k of the weights of
    all earlier blocks,

    .. math:: m_k \leftarrow (W_k m_k + w_k m_k P_k / P_{k+1}) / (W_k + w_k), \quad W_k \leftarrow W_k + w_k .
    """

    _saved = ("log_n", "log_w")

    def __init__(self, betas: Any, beta: float):
        super().__init__(betas, beta)
        self.log_w = np.full(len(self.betas) - 1, -np.inf)

    def add(self, energies: np.ndarray, log_n: np.ndarray | None) -> None:
        """Take in a block; see `LadderWeights.add`."""
        if log_n is None:
            if not np.isfinite(self.log_w).any():
                self._set(from_one_temperature(self.betas, energies, self.beta))
            return
        terms = log_n - energies[:, None] * self.betas
        terms -= log_sum(terms, 1)[:, None]  # ln P_k(t): every sample alike, the first one too
        share = log_sum(terms, 0)
        weight = log_sum(0.5 * (terms[:, 1:] + terms[:, :-1]), 0)
        ratio = np.diff(log_n) - np.diff(share)
        total = np.logaddexp(self.log_w, weight)
        mean = np.logaddexp(self.log_w + np.diff(self.log_n), weight + ratio) - total
        self.log_w = total
        self._set(np.concatenate([[0.0], np.cumsum(mean)]))


class _Generation:
    """Energies of some blocks in a row, and the n_k they were drawn with."""

    def __init__(self, betas: np.ndarray):
        self.histogram = EnergyHistogram(betas)
        self.samples = np.zeros(0)
        self.rows = np.zeros((0, len(betas)))

    def add(self, energies, row):
        self.histogram.add(energies)
        if len(self.rows) and np.array_equal(self.rows[-1], row):
            self.samples = np.append(self.samples[:-1], self.samples[-1] + len(energies))
        else:
            self.samples, self.rows = np.append(self.samples, float(len(energies))), np.vstack([self.rows, row])

    @property
    def size(self) -> float:
        return float(self.samples.sum())


class MBAR(LadderWeights):
    """ln n_k = -ln Z_k from the energies of all blocks together, each with the n_k it was drawn with.

    Blocks from before the system has found its most important states contradict later ones. They are forgotten in
    generations: when the new one has a third of all energies seen so far, the one before is dropped. The estimate rests
    on at least the last third of the energies and at most the last 5/9, and is renewed after 10 % more of them.
    The cost does not grow with the length of the run, because energies are kept in an `EnergyHistogram`.
    """

    def __init__(self, betas: Any, beta: float):
        super().__init__(betas, beta)
        self._all = np.concatenate([[self.beta], self.betas])  # plain dynamics counts as one more temperature
        self._old, self._new = _Generation(self._all), _Generation(self._all)
        self._log_z: np.ndarray | None = None
        self._seen = self._solved = 0.0  # energies in all, and at the last solution

    def add(self, energies: np.ndarray, log_n: np.ndarray | None) -> None:
        """Take in a block; see `LadderWeights.add`."""
        row = np.full(len(self._all), -np.inf)
        if log_n is None:
            row[0] = 0.0
            if not self._seen:
                self._set(from_one_temperature(self.betas, energies, self.beta))
        else:
            row[1:] = log_n
        if self._new.size >= self._seen / 3:
            self._old, self._new = self._new, _Generation(self._all)
        self._new.add(energies, row)
        self._seen += len(energies)

    def update(self) -> None:
        """Solve for ln Z_k, unless there is little more to learn from than last time."""
        rows = np.vstack([self._old.rows, self._new.rows])
        if np.isneginf(rows[:, 1:]).all() or self._seen < 1.1 * self._solved:
            return  # one temperature alone: the guess of `add` is better
        energy, count = (
            np.concatenate([getattr(g.histogram, what) for g in (self._old, self._new)]) for what in ("energy", "count")
        )
        samples = np.concatenate([self._old.samples, self._new.samples])
        self._log_z = solve(energy, count, samples, rows, self._all, self._log_z, 1e-4, 200)[0]
        self._solved = self._seen
        self._set(-self._log_z[1:])

    def state(self) -> dict[str, np.ndarray]:
        """Return everything learned so far."""
        parts = {
            f"{name}/{what}": np.asarray(values)
            for name, g in (("old", self._old), ("new", self._new))
            for what, values in (("samples", g.samples), ("rows", g.rows), *vars(g.histogram).items())
        }
        return {
            **super().state(),
            **parts,
            "seen": np.array([self._seen, self._solved]),
            "log_z": np.zeros(0) if self._log_z is None else self._log_z,
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to such a state."""
        super().restore(state)
        for name, g in (("old", self._old), ("new", self._new)):
            g.samples, g.rows = state[f"{name}/samples"], state[f"{name}/rows"]
            for what in vars(g.histogram):
                values = state[f"{name}/{what}"]
                setattr(g.histogram, what, values if values.ndim else float(values))
        self._seen, self._solved = (float(x) for x in state["seen"])
        self._log_z = state["log_z"] if len(state["log_z"]) else None


class Online(LadderWeights):
    """Estimator that learns from each energy inside the step loop."""

    online = True

    def task(self, on: np.ndarray, energy: np.ndarray) -> Task:
        """A task that learns from ``energy[0]`` while ``on[0]`` is not 0."""
        raise NotImplementedError

    def learn(self, energy: float) -> None:
        """Take in one energy, drawn with the present `log_n`."""
        task = self.task(np.ones(1, np.int64), np.array([energy], np.float64))
        task.kernel(0, *task.args)

    def merge(self, common: dict[str, np.ndarray], states: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """The state after what several walkers have learned since they were all in the state `common`."""
        raise NotImplementedError


# Words of `Approximation.numbers`.
_SEEN, _GAIN, _SINCE, _FALLS = 0, 1, 2, 3


@kernel(nogil=True)
def approximate(chunk, on, energy, betas, log_n, numbers, sums, shares):
    """One step from one energy: ln n_k -= gain (N P_k - 1). `sums` and `shares` [N] are room of its own."""
    if on[0] == 0:
        return
    n = len(betas)
    top = -math.inf
    for k in range(n):
        shares[k] = log_n[k] - betas[k] * energy[0]
        top = max(top, shares[k])
    total = 0.0
    for k in range(n):
        shares[k] = math.exp(shares[k] - top)
        total += shares[k]
    numbers[_SEEN] += 1.0
    numbers[_SINCE] += 1.0
    farthest = 0.0
    for k in range(n):
        share = n * shares[k] / total
        log_n[k] -= numbers[_GAIN] * (share - 1.0)
        sums[k] += share
        farthest = max(farthest, abs(sums[k] / numbers[_SINCE] - 1.0))
    if numbers[_FALLS] == 0.0:
        if farthest < 0.5 and numbers[_SINCE] >= 10.0 * n:  # energies in a row are correlated
            numbers[_GAIN] *= 0.5
            numbers[_SINCE] = 0.0
            for k in range(n):
                sums[k] = 0.0
            if numbers[_GAIN] * numbers[_SEEN] <= 1.0:
                numbers[_FALLS] = 1.0
    else:
        numbers[_GAIN] = 1.0 / numbers[_SEEN]


class Approximation(Online):
    """Stochastic approximation: after every energy, ln n_k falls by gain (N P_k - 1).

    The gain is constant at first, 1/N, and is halved whenever the mean shares P_k since the last change, over at least
    10 N energies, are flat to 50 %. When it has come down to 1/t, t being the number of energies, it follows that: the
    law of best convergence (Belardinelli and Pereyra, J. Chem. Phys. 127, 184105 (2007); Tan, J. Comput. Graph. Stat.
    26, 54 (2017)).
    """

    _saved = ("log_n", "numbers", "sums")

    def __init__(self, betas: Any, beta: float):
        super().__init__(betas, beta)
        n = len(self.betas)
        self.numbers = np.array([0.0, 1.0 / n, 0.0, 0.0])
        self.sums, self._shares = np.zeros(n), np.zeros(n)

    def task(self, on: np.ndarray, energy: np.ndarray) -> Task:
        """See `Online.task`."""
        return Task(approximate, on, energy, self.betas, self.log_n, self.numbers, self.sums, self._shares)

    def add(self, energies: np.ndarray, log_n: np.ndarray | None) -> None:
        """Take in a block from plain dynamics as a start; other energies have been used when they were drawn."""
        if log_n is None and self.numbers[_SEEN] == 0:
            self._set(from_one_temperature(self.betas, energies, self.beta))

    def merge(self, common: dict[str, np.ndarray], states: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """The sum of all steps, with the smallest gain."""
        merged = {k: common[k] + sum(s[k] - common[k] for s in states) for k in ("log_n", "numbers", "sums")}
        numbers = np.array([s["numbers"] for s in states])
        seen, since = merged["numbers"][[_SEEN, _SINCE]]
        gain, falls = numbers[:, _GAIN].min(), numbers[:, _FALLS].max()
        if (numbers[:, _GAIN] != common["numbers"][_GAIN]).any():  # some have begun a new mean of shares
            since, merged["sums"] = 0.0, np.zeros_like(common["sums"])
        merged["numbers"] = np.array([seen, 1.0 / seen if falls else gain, since, falls])
        return merged


# Energies that n_k which were given, rather than learned, count as: what PLUMED's OPES_EXPANDED observes at first.
_GIVEN = math.log(100.0)


@device
def _add_logs(a, b):
    """ln(e^a + e^b)."""
    top = max(a, b)
    return top if top == -math.inf else top + math.log1p(math.exp(-abs(a - b)))


@kernel(nogil=True)
def reweigh(_chunk, on, energy, betas, beta, at_beta, log_n, log_sums, terms):
    """Add one energy to the sums of weights e^(bias/RT), alone (0) and times e^(-(beta_k - beta) E), and set ln n_k."""
    if on[0] == 0:
        return
    n, top, origin, total, mean = len(betas), -math.inf, 0.0, 0.0, 0.0
    for k in range(n):
        terms[k] = -(betas[k] - beta) * energy[0]
        top = max(top, log_n[k] + terms[k])
        origin += at_beta[k] * log_n[k]
    for k in range(n):
        total += math.exp(log_n[k] + terms[k] - top)
    bias = origin + math.log(n) - top - math.log(total)
    if log_sums[0] == -math.inf:
        log_sums[0] = _GIVEN
        for k in range(n):
            log_sums[1 + k] = _GIVEN + origin - log_n[k]
    log_sums[0] = _add_logs(log_sums[0], bias)
    for k in range(n):
        log_sums[1 + k] = _add_logs(log_sums[1 + k], bias + terms[k])
        log_n[k] = log_sums[0] - log_sums[1 + k]
        mean += log_n[k] / n
    for k in range(n):
        log_n[k] -= mean


class Reweighted(Online):
    r"""On-the-fly probability enhanced sampling of expanded ensembles, here of temperatures (Invernizzi, Piaggi,
    Parrinello, "Unified approach to enhanced sampling", Phys. Rev. X 10 (2020) 041034. doi:10.1103/PhysRevX.10.041034).

    After every energy, :math:`\ln n_k = -\ln \langle e^{-(\beta_k - \beta) E} \rangle` from all energies so far,
    with weights :math:`e^{V/RT}` of the bias that each was drawn with,

    .. math:: V = -RT \ln \frac{1}{N} \sum_k n_k e^{-(\beta_k - \beta) E} .

    That is the bias of SITS: the two differ only in how they learn n_k. Here :math:`n = 1` at the temperature of the
    simulation, so that biases of all times have a common zero; n is interpolated where the ladder does not hold it. n_k
    that were given count as 100 energies.
    """

    _saved = ("log_n", "log_sums")

    def __init__(self, betas: Any, beta: float):
        super().__init__(betas, beta)
        n, order = len(self.betas), np.argsort(self.betas)
        self.log_sums, self._terms = np.full(1 + n, -np.inf), np.zeros(n)
        # ln n at the temperature of the simulation is the product of these with ln n_k
        self._at_beta = np.array([np.interp(beta, self.betas[order], row[order]) for row in np.eye(n)])

    def task(self, on: np.ndarray, energy: np.ndarray) -> Task:
        """See `Online.task`."""
        return Task(reweigh, on, energy, self.betas, self.beta, self._at_beta, self.log_n, self.log_sums, self._terms)

    def add(self, energies: np.ndarray, log_n: np.ndarray | None) -> None:
        """Take in a block from plain dynamics; other energies have been used when they were drawn."""
        if log_n is None:
            found = log_sum(-(np.append(self.beta, self.betas) - self.beta) * energies[:, None], 0)
            self.log_sums[:] = np.logaddexp(self.log_sums, found)
            self._set(self.log_sums[0] - self.log_sums[1:])

    def merge(self, common: dict[str, np.ndarray], states: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """The sums over the energies of all walkers."""
        sums = np.array([s["log_sums"] for s in states])
        top = sums.max(0)
        merged = top + np.log(np.exp(sums - top).sum(0) - (len(states) - 1) * np.exp(common["log_sums"] - top))
        log_n = merged[0] - merged[1:]
        return {"log_n": log_n - log_n.mean(), "log_sums": merged}


ESTIMATORS = {"iteration": Iteration, "mbar": MBAR, "approximation": Approximation, "opes": Reweighted}
