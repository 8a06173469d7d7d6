"""Classification by a trained circuit."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele.core import nn, optim, random, tree
from triskele.core.data import arrays
from triskele.core.extend import Reports, check, optional
from triskele.core.random import Fold
from triskele.core.train import History, Model, StateFile

from ..circuit import Circuit
from ..errors import CircuitError, ParameterError
from ..expectation.expectation import Expectation
from ..nn import Layer
from ..operators.pauli import PauliSum
from ..optimizers.journal import describe
from .estimator import Estimator
from .start import random_angles

__all__ = ["Classifier"]

class Classifier(Estimator):
    """A circuit with encoder and ansatz, whose expectation values go through a linear layer and a softmax.

    It is an estimator as scikit-learn defines them: it can be cloned, put into a pipeline, cross-validated and tuned by
    a grid search. scikit-learn itself is not needed.

    Parameters
    ----------
    circuit : Circuit or callable
        Circuit with data and trainable parameters: ``encoder + ansatz``, repeated for data re-uploading. A function
        ``circuit(features) -> Circuit`` makes one for data with that many columns.
    epochs : int
        Number of passes over the data.
    batch : int
        Number of samples in a step.
    optimizer : optional
        An optimizer of `core.optim`. Defaults to ``Adam(0.05)``.
    observables : sequence of PauliSum, optional
        Observables to measure. Defaults to Z of every qubit.
    seed : int
        Seed of the initial angles and of the order of the data.
    warm_start : bool
        If True, `fit` continues from the weights of the last one.

    Attributes
    ----------
    classes_ : (classes,) array
        Labels in sorted order.
    net_ : core.nn.Sequential
        The circuit as a `quantum.nn.Layer`, and a linear layer from the observables to the classes.
    history_ : core.train.History
        Mean cross entropy of each epoch of the last `fit`, as ``loss``.
    n_features_in_ : int
        Number of columns of the data.

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
    >>> import numpy as np
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(1).ry("x", 0).as_encoder() + quantum.Circuit(1).ry("a", 0)
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> y = np.where(x[:, 0] > 0.2, "right", "left")
    >>> quantum.Classifier(circuit, epochs=30).fit(x, y).score(x, y) > 0.9
    True
    """

    classes_: np.ndarray
    net_: nn.Sequential
    history_: History
    n_features_in_: int

    def __init__(self, circuit: Circuit | Callable[[int], Circuit], *, epochs: int = 50, batch: int = 32,
                 optimizer: Any = None, observables: Sequence[PauliSum] | None = None, seed: int = 0,
                 warm_start: bool = False):
        self.circuit, self.epochs, self.batch, self.optimizer = circuit, epochs, batch, optimizer
        self.observables, self.seed, self.warm_start = observables, seed, warm_start
        if isinstance(circuit, Circuit):
            _check_circuit(circuit)
        elif not callable(circuit):
            raise CircuitError(f"Classifier: a Circuit is needed, or a function that makes one, got "
                               f"{type(circuit).__name__}")

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the mean cross entropy of each epoch of the training."""
        self._check_fitted("history_")
        ax = self.history_.plot(ax, **line)
        ax.set_ylabel("cross entropy")
        return ax

    def fit(self, x: Any, y: Any, *, callbacks: Sequence[Any] = (), report: Reports = None,
            progress: bool | None = None, checkpoint: str | os.PathLike | None = None) -> Classifier:
        """Train on labeled data by minimizing the cross entropy.

        Parameters
        ----------
        x : (N, D) array
            One column for each data parameter of the circuit.
        y : (N,) array of labels
            Integers, booleans or texts.
        callbacks : sequence of core.train.Callback
            Callbacks of the training loop.
        report : function or list of functions, optional
            Called after each epoch with a dictionary of ``epoch``, ``step`` (of the optimizer) and ``loss`` (the mean
            cross entropy); see `core.report`. A reporter that raises StopIteration ends the training.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the training's state, written after each epoch, and when Ctrl-C or SIGTERM ends the training. If it
            exists, the training resumes from it bit for bit.

        Returns
        -------
        Classifier
            The object itself.

        Raises
        ------
        ParameterError
            If the data and labels do not match the circuit or each other, or an option is invalid.
        CheckpointError
            If the checkpoint belongs to another training; the message names what differs.
        """
        x = self._checked_data("fit", x, None)
        labels = _labels(y, len(x))
        for name in ("epochs", "batch"):
            check.integer(getattr(self, name), f"Classifier: {name}", 1, error=ParameterError)
        rule = optim.Adam(0.05) if self.optimizer is None else self.optimizer
        if not hasattr(rule, "init") or not hasattr(rule, "step"):
            raise ParameterError(
                f"Classifier: optimizer must be one of core.optim with init and step, got {self.optimizer!r}"
            )
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ParameterError("Classifier.fit: labels must be of at least two classes, got one class, "
                                 f"{classes[0]!r}")
        energy = self._expectation(x.shape[1])
        resumed = self.warm_start and hasattr(self, "net_")
        if resumed and not np.array_equal(self.classes_, classes):
            raise ParameterError(f"Classifier.fit: with warm_start, labels must be those of the last fit, "
                                 f"{self.classes_}, got {classes}")
        model = Model(self.net_ if resumed else _fresh(energy, len(classes), self.seed), nn.cross_entropy, rule)
        identity = {**describe(energy), "epochs": self.epochs, "batch": self.batch, "optimizer": repr(rule),
                    "data": [float(np.sum(x)), len(x), *map(str, classes.tolist())],
                    "weights": float(sum(np.sum(w) for w in tree.leaves(model.net)))}
        file = [] if checkpoint is None else [StateFile(checkpoint, identity)]
        source = arrays(x, numbers).shuffle(self.seed).batch(self.batch)
        try:
            self.history_ = model.fit(source, self.epochs, callbacks=[*callbacks, *file], seed=self.seed,
                                      report=report, progress=progress)
        finally:
            self.net_, self.classes_, self.n_features_in_ = model.net, classes, x.shape[1]
        return self

    def predict_proba(self, x: Any) -> np.ndarray:
        """Probabilities of the classes, (N, classes) in the order of `classes_`, for data of shape (N, D)."""
        self._check_fitted("net_")
        x = self._checked_data("predict", x, self.n_features_in_)
        return np.asarray(nn.softmax(self.net_(x)))

    def predict(self, x: Any) -> np.ndarray:
        """The most probable label of each of N data, (N,)."""
        likely = np.argmax(self.predict_proba(x), axis=1)
        return self.classes_[likely]

    def score(self, x: Any, y: Any) -> float:
        """Fraction of data whose label is predicted."""
        found = self.predict(x)
        return float(np.mean(found == _labels(y, len(found), "score")))

    def __sklearn_tags__(self) -> Any:
        utils = optional.need("sklearn.utils", "Classifier in scikit-learn", "ml")
        return utils.Tags(estimator_type="classifier", target_tags=utils.TargetTags(required=True),
                          classifier_tags=utils.ClassifierTags(), input_tags=utils.InputTags())

    def _expectation(self, features: int) -> Expectation:
        circuit = self.circuit if isinstance(self.circuit, Circuit) else self.circuit(features)
        _check_circuit(circuit)
        if len(circuit.data) != features:
            raise ParameterError(f"Classifier.fit: data must have shape (N, {len(circuit.data)}) with a column for "
                                 f"each data parameter of the circuit, got {features} columns")
        observables = self.observables
        if observables is None:
            observables = [PauliSum(f"Z{q}") for q in range(circuit.num_qubits)]
        return Expectation(circuit.copy(), list(observables))


def _check_circuit(circuit: Any) -> None:
    """Raise an error unless `circuit` takes data and can be trained."""
    if not isinstance(circuit, Circuit):
        raise CircuitError(f"Classifier: a Circuit is needed, got {type(circuit).__name__}")
    for what, names, hint in (("data", circuit.data, "make the encoder with as_encoder()"),
                              ("trainable", circuit.parameters, "add an ansatz")):
        if not names:
            raise ParameterError(f"Classifier: the circuit has no {what} parameters ({hint})")


def _labels(y: Any, number: int, where: str = "fit") -> np.ndarray:
    """Labels as an array of `number` integers, booleans or texts."""
    if y is None:
        raise ParameterError(f"Classifier.{where}: requires y to be passed, but the target y is None")
    y = np.asarray(y)
    if y.shape != (number,):
        raise ParameterError(f"Classifier.{where}: labels must be an array of {number}, one for each sample, got shape "
                             f"{y.shape}")
    if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ParameterError(f"Classifier.{where}: labels must be finite, got {y[~np.isfinite(y)][0]} (NaN or "
                             "infinity)")
    if y.dtype.kind not in "fbiuUSO" or (y.dtype.kind == "f" and np.any(y != np.round(y))):
        raise ParameterError(f"Classifier.{where}: Unknown label type: labels must be integers, booleans or texts, got "
                             f"{y.dtype} with values such as {y[0]!r}")
    return y


def _fresh(energy: Expectation, classes: int, seed: int) -> nn.Sequential:
    """The network with its initial weights."""
    m, key = energy.size, random.fold_in(random.key(seed), Fold.CLASSIFIER)
    weight = random.normal(key, (m, classes), dtype=np.float64) / np.sqrt(m)
    return nn.Sequential((Layer(random_angles(len(energy.parameters), seed), energy),
                          nn.Linear(weight, np.zeros(classes))))
