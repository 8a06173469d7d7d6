"""Errors of circuits, operators and simulators."""

from triskele.core.extend import TriskeleError

__all__ = [
    "ChannelError",
    "CircuitError",
    "GateError",
    "OperatorError",
    "OptimizerError",
    "ParameterError",
    "QASMError",
    "SimulatorError",
    "StateError",
]


class CircuitError(TriskeleError, ValueError):
    """Invalid instruction or circuit: qubits out of range or repeated, unknown gate, wrong composition."""


class GateError(TriskeleError, ValueError):
    """Invalid gate: not unitary, wrong shape, wrong number of parameters."""


class ParameterError(TriskeleError, ValueError):
    """Parameters that are missing, unknown, not finite, or of the wrong number."""


class OperatorError(TriskeleError, ValueError):
    """An operator that cannot be read, or is not Hermitian where an energy is requested."""


class OptimizerError(TriskeleError, ValueError):
    """Unknown optimizer, or one that does not suit the circuit."""


class ChannelError(TriskeleError, ValueError):
    """A noise channel that is not trace preserving, or has a probability outside 0 to 1."""


class SimulatorError(TriskeleError, ValueError):
    """A request that the simulator does not support, or that exceeds the memory."""


class StateError(TriskeleError, ValueError):
    """An array is not a quantum state: wrong shape, not normalized, not finite."""


class QASMError(TriskeleError, ValueError):
    """OpenQASM text that cannot be read. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int):
        super().__init__(f"line {line}, column {column}: {message}")
        self.line, self.column = line, column
