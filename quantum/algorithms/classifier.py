"""Classification by a trained circuit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele.core import nn, optim, random
from triskele.core.extend import check
from triskele.core.random import Fold
from triskele.core.train import Estimator

from ..circuit import Circuit
from ..errors import CircuitError, ParameterError
from ..expectation.expectation import Expectation
from ..nn import Layer
from ..operators.pauli import PauliSum
from ..optimizers.journal import describe
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

    loss, kind, error = None, "classifier", ParameterError

    def __init__(
        self,
        circuit: Circuit | Callable[[int], Circuit],
        *,
        epochs: int = 50,
        batch: int = 32,
        optimizer: Any = None,
        observables: Sequence[PauliSum] | None = None,
        seed: int = 0,
        warm_start: bool = False,
    ):
        self.circuit, self.epochs, self.batch, self.optimizer = circuit, epochs, batch, optimizer
        self.observables, self.seed, self.warm_start = observables, seed, warm_start
        if isinstance(circuit, Circuit):
            _check_circuit(circuit)
        else:
            check.kind(
                circuit, Callable, "Classifier: circuit", "a Circuit or a function that makes one", error=CircuitError
            )

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the mean cross entropy of each epoch of the training."""
        self._check_fitted()
        ax = self.history_.plot(ax, **line)
        ax.set_ylabel("cross entropy")
        return ax

    def _network(self, features: int, outputs: int) -> nn.Sequential:
        circuit = self.circuit if isinstance(self.circuit, Circuit) else self.circuit(features)
        _check_circuit(circuit)
        if len(circuit.data) != features:
            raise ParameterError(
                f"Classifier.fit: data must have shape (N, {len(circuit.data)}) with a column for "
                f"each data parameter of the circuit, got {features} columns"
            )
        observables = self.observables
        if observables is None:
            observables = [PauliSum(f"Z{q}") for q in range(circuit.num_qubits)]
        energy = Expectation(circuit.copy(), list(observables))
        m, key = energy.size, random.fold_in(random.key(self.seed), Fold.CLASSIFIER)
        weight = random.normal(key, (m, outputs), dtype=np.float64) / np.sqrt(m)
        return nn.Sequential(
            (Layer(random_angles(len(energy.parameters), self.seed), energy), nn.Linear(weight, np.zeros(outputs)))
        )

    def _rule(self) -> Any:
        return optim.Adam(0.05) if self.optimizer is None else self.optimizer

    def _identity(self, net: nn.Sequential) -> dict[str, Any]:
        return describe(net.layers[0].energy)


def _check_circuit(circuit: Any) -> None:
    """Raise an error unless `circuit` takes data and can be trained."""
    check.kind(circuit, Circuit, "Classifier: circuit", error=CircuitError)
    for what, names, hint in (
        ("data", circuit.data, "make the encoder with as_encoder()"),
        ("trainable", circuit.parameters, "add an ansatz"),
    ):
        if not names:
            raise ParameterError(f"Classifier: the circuit has no {what} parameters ({hint})")
