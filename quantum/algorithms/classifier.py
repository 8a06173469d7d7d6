"""Classification by a trained circuit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core import nn, optim, random
from triskele.core.extend import check, progress_bar
from triskele.core.random import Fold

from ..circuit import Circuit
from ..errors import CircuitError, ParameterError
from ..expectation.expectation import Expectation
from ..operators.pauli import PauliSum
from .start import check_data, random_angles

__all__ = ["Classifier"]


@dataclass(frozen=True)
class Classifier:
    """A circuit with encoder and ansatz, whose expectation values go through a linear layer and a softmax.

    Parameters
    ----------
    circuit : Circuit
        Circuit with data and trainable parameters: ``encoder + ansatz``, repeated for data re-uploading.
    classes : int
        Labels are 0 to classes - 1.
    observables : sequence of PauliSum, optional
        Observables to measure. Defaults to Z of every qubit.
    weights : dict, optional
        `"theta"` (P,), `"weight"` (observables, classes) and `"bias"` (classes,), which `fit` sets.
    history : (epochs,) float64 array
        Mean cross entropy of each epoch of `fit`.

    Raises
    ------
    CircuitError, ParameterError, OperatorError
        If the circuit has no data or no trainable parameters, or an argument is invalid.

    References
    ----------
    .. [1] Perez-Salinas, Cervera-Lierta, Gil-Fuster, Latorre, "Data re-uploading for a universal quantum classifier",
       Quantum 4, 226 (2020). doi:10.22331/q-2020-02-06-226

    Examples
    --------
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(1).ry("x", 0).as_encoder() + quantum.Circuit(1).ry("a", 0)
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> trained = quantum.Classifier(circuit).fit(x, x[:, 0] > 0.2, epochs=30, progress=False)
    >>> trained.accuracy(x, x[:, 0] > 0.2) > 0.9
    True
    """

    circuit: Circuit
    classes: int = 2
    observables: Sequence[PauliSum] | None = None
    weights: dict[str, np.ndarray] | None = None
    history: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    _energy: Expectation = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.circuit, Circuit):
            raise CircuitError(f"Classifier: a Circuit is needed, got {type(self.circuit).__name__}")
        for what, names, hint in (("data", self.circuit.data, "make the encoder with as_encoder()"),
                                  ("trainable", self.circuit.parameters, "add an ansatz")):
            if not names:
                raise ParameterError(f"Classifier: the circuit has no {what} parameters ({hint})")
        check.integer(self.classes, "Classifier: classes", 2, error=ParameterError)
        observables = self.observables
        if observables is None:
            observables = tuple(PauliSum(f"Z{q}") for q in range(self.circuit.num_qubits))
        object.__setattr__(self, "observables", observables)
        object.__setattr__(self, "circuit", self.circuit.copy())
        object.__setattr__(self, "_energy", Expectation(self.circuit, list(observables)))

    def fit(self, x: Any, y: Any, *, epochs: int = 50, batch: int = 32, optimizer: Any = None, seed: int = 0,
            progress: bool = True,
            callback: Callable[[int, Classifier], Any] | None = None) -> Classifier:
        """Train on labelled data by minimising the cross entropy.

        Parameters
        ----------
        x : (N, D) array
            One column for each data parameter of the circuit.
        y : (N,) array of labels
        epochs : int
            Number of passes over the data.
        batch : int
            Number of samples in a step.
        optimizer : optional
            An optimiser of `core.optim`. Defaults to ``Adam(0.05)``.
        seed : int
            Seed of the initial angles and of the order of the data.
        progress : bool
            Show a progress bar.
        callback : callable, optional
            Called after each epoch as ``callback(epoch, classifier)``; training ends when it returns True.

        Returns
        -------
        Classifier
            A trained copy; the object itself is unchanged. Fitting a trained classifier continues from its weights.

        Raises
        ------
        ParameterError
            If the data and labels do not match the circuit or each other.
        """
        x, y = check_data("Classifier.fit", x, self.circuit.data), np.asarray(y)
        if y.shape != (len(x),) or not np.all(np.isin(y, np.arange(self.classes))):
            raise ParameterError(f"Classifier.fit: labels must be {len(x)} integers from 0 to {self.classes - 1}, got "
                                 f"shape {y.shape} with values {np.unique(y)[:5]}")
        if not len(x):
            raise ParameterError("Classifier.fit: there are no data")
        if epochs < 1 or batch < 1:
            raise ParameterError(f"Classifier.fit: epochs and batch must be at least 1, got {epochs} and {batch}")
        rule = optim.Adam(0.05) if optimizer is None else optimizer
        if not hasattr(rule, "init") or not hasattr(rule, "step"):
            raise ParameterError(
                f"Classifier.fit: optimizer must be one of core.optim with init and step, got {optimizer!r}"
            )
        weights = self.weights or self._fresh(seed)
        state = rule.init(weights)
        both = core.value_and_grad(self._loss)
        y, history, keys = y.astype(np.int64), list(self.history), random.split(random.key(seed), epochs)
        trained = self
        with progress_bar("training", "epoch", epochs, show=progress) as bar:
            for epoch in range(epochs):
                order, total = random.permutation(keys[epoch], len(x)), 0.0
                for at in range(0, len(x), batch):
                    chosen = order[at : at + batch]
                    loss, slopes = both(weights, x[chosen], y[chosen])
                    weights, state = rule.step(weights, slopes, state)
                    total += float(loss) * len(chosen)
                history.append(total / len(x))
                trained = dataclasses.replace(self, weights=weights, history=np.array(history))
                bar.set_postfix_str(f"cross entropy {history[-1]:.4f}", refresh=False)
                bar.update()
                if callback is not None and callback(epoch, trained) is True:
                    break
        return trained

    def probabilities(self, x: Any) -> np.ndarray:
        """Probabilities of the classes, (N, classes), for data of shape (N, D)."""
        if self.weights is None:
            raise ParameterError("Classifier: not trained yet (use the classifier that fit() returns)")
        return np.asarray(nn.softmax(self._logits(self.weights, check_data("Classifier", x, self.circuit.data))))

    def predict(self, x: Any) -> np.ndarray:
        """The most probable label of each of N data, (N,)."""
        return np.argmax(self.probabilities(x), axis=1)

    def accuracy(self, x: Any, y: Any) -> float:
        """Fraction of data whose label is predicted."""
        return float(np.mean(self.predict(x) == np.asarray(y)))

    def _logits(self, weights: dict[str, Any], x: np.ndarray) -> Any:
        return self._energy(weights["theta"], x) @ weights["weight"] + weights["bias"]

    def _loss(self, weights: dict[str, Any], x: np.ndarray, y: np.ndarray) -> Any:
        return nn.cross_entropy(self._logits(weights, x), y)

    def _fresh(self, seed: int) -> dict[str, np.ndarray]:
        m, key = self._energy.size, random.fold_in(random.key(seed), Fold.CLASSIFIER)
        weight = random.normal(key, (m, self.classes), dtype=np.float64) / np.sqrt(m)
        return {"theta": random_angles(len(self.circuit.parameters), seed), "weight": weight,
                "bias": np.zeros(self.classes)}

