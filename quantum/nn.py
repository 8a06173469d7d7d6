"""Circuits as layers of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import check, short_repr
from triskele.core.nn import static

from .circuit import Circuit
from .errors import ParameterError
from .expectation.expectation import Expectation
from .operators.pauli import PauliSum

__all__ = ["Layer"]


@short_repr
@dataclass(frozen=True)
class Layer:
    """Expectation values after a circuit whose data parameters are the inputs: a layer like those of `core.nn`, in
    float64.

    Attributes
    ----------
    theta : (P,) float64 array
        The circuit's trainable parameters.
    energy : Expectation
        An expectation value of a list of operators, one for each output.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.nn import Layer
    >>> from triskele import core, quantum
    >>> encoder = quantum.Circuit(2).ry("x0", 0).ry("x1", 1).as_encoder()
    >>> circuit = encoder + quantum.Circuit(2).cx(0, 1).ry("a", 0).ry("b", 1)
    >>> layer = Layer.init(core.random.key(0), circuit, [quantum.PauliSum("Z0"), quantum.PauliSum("Z1")])
    >>> layer(np.zeros((5, 2))).shape
    (5, 2)
    """

    theta: Any
    energy: Expectation = static()

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the elements of `theta`, which `core.load` compares."""
        return tuple(self.energy.circuit.parameters)

    @classmethod
    def init(
        cls, key: Any, circuit: Circuit, hamiltonians: Sequence[PauliSum] | PauliSum, *, scale: float = np.pi
    ) -> Layer:
        """A layer with angles uniform between -scale and scale.

        Parameters
        ----------
        key : key of core.random
        circuit : Circuit
            Its data parameters (see `Circuit.as_encoder`) are the inputs.
        hamiltonians : list of PauliSum, or one
            One output for each.
        scale : float

        Raises
        ------
        ParameterError
            If the circuit takes no data.
        """
        if not circuit.data:
            raise ParameterError(
                "Layer: the circuit must have data parameters, its inputs (make a part of it with as_encoder())"
            )
        several = [hamiltonians] if isinstance(hamiltonians, (PauliSum, str)) else list(hamiltonians)
        theta = scale * (2 * random.uniform(key, (len(circuit.parameters),), dtype=np.float64) - 1)
        return cls(theta, Expectation(circuit, several))

    def __call__(self, x: Any) -> Any:
        """(..., m) outputs for (..., D) inputs."""
        shape = np.shape(check.shape(x, (..., len(self.energy.data)), "Layer: inputs", error=ParameterError))
        flat = x if len(shape) <= 2 else np.reshape(x, (-1, shape[-1]))
        out = self.energy(self.theta, flat)
        return out if len(shape) <= 2 else np.reshape(out, (*shape[:-1], self.energy.size))
