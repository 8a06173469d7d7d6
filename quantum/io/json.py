"""Circuits as JSON: everything that is in them, numbers exact.

Version 1 is an object with `format` "triskele.quantum.circuit", `version`, `num_qubits`, `num_clbits`, `data` (names of
data parameters) and `instructions`, each an object with `gate` and, where they are not empty, `qubits`, `params`,
`controls`, `clbits`, `condition` ({"clbits", "value"}). A parameter is a number, or {"terms": {name: coefficient},
"constant": number}. A gate is a registered name, or {"name", "label", "matrix"} with rows of [re, im]; "diagonal" is
followed by its number of qubits through `qubits`. A channel is {"channel": name, "arguments"} with its Kraus operators
as "kraus", or "pauli", the probabilities of Pauli strings; an error in reading is {"readout": [p01, p10]}. `names`
lists the parameters where their order is not that of first appearance. Version 2 has one more entry, `readout`: for
each qubit that a noise model reads with errors [qubit, p01, p10].
"""

from __future__ import annotations

import json
from typing import Any

from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import ChannelError, CircuitError, GateError, ParameterError
from ..gates.base import Gate, find
from ..gates.families import diagonal, unitary
from ..gates.instruction import BARRIER, LOOP, MEASURE, REPEAT, RESET, Condition, Instruction
from ..noise.channel import Channel
from ..noise.readout import ReadoutError
from ..parameters import Linear

__all__ = ["from_json", "to_json"]

_FORMAT, _VERSION = "triskele.quantum.circuit", 2
_OPERATIONS = {o.name: o for o in (BARRIER, LOOP, MEASURE, REPEAT, RESET)}


def to_json(circuit: Circuit) -> str:
    """Return the circuit as JSON text; `from_json` restores an equal one.

    Raises
    ------
    CircuitError
        If it has gates that are functions.

    Examples
    --------
    >>> from triskele.quantum.io import from_json, to_json
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(2).h(0).crx({"a": 0.1}, 0, 1)
    >>> from_json(to_json(circuit)) == circuit
    True
    """
    record = {
        "format": _FORMAT,
        "version": _VERSION if circuit.readout else 1,
        "num_qubits": circuit.num_qubits,
        "num_clbits": circuit.num_clbits,
        "data": list(circuit.data),
        "instructions": [_written(i) for i in circuit],
    }
    if circuit.names != tuple(dict.fromkeys(n for i in circuit for n in i.names)):
        record["names"] = list(circuit.names)
    if circuit.readout:
        record["readout"] = [[q, *_errors(e)] for q, e in circuit.readout.items()]
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def _written(i: Instruction) -> dict[str, Any]:
    record: dict[str, Any] = {"gate": _gate(i.gate)}
    for key, value in (
        ("qubits", list(i.qubits)),
        ("params", [_param(p) for p in i.params]),
        ("controls", list(i.controls)),
        ("clbits", list(i.clbits)),
    ):
        if value:
            record[key] = [int(v) if key != "params" else v for v in value]
    if i.condition is not None:
        record["condition"] = {"clbits": list(i.condition.clbits), "value": i.condition.value}
    return record


def _param(p: float | Linear) -> Any:
    return {"terms": dict(p.terms), "constant": p.constant} if type(p) is Linear else p


def _gate(gate: Any) -> Any:
    if gate in _OPERATIONS.values():
        return gate.name
    if isinstance(gate, Channel):
        arguments = [float(a) for a in gate.arguments if isinstance(a, (int, float))]
        if gate.is_pauli and (probabilities := gate.pauli_probabilities) is not None:
            return {"channel": gate.name, "arguments": arguments, "pauli": probabilities.tolist()}
        return {"channel": gate.name, "arguments": arguments, "kraus": [_rows(k) for k in gate.kraus]}
    if isinstance(gate, ReadoutError):
        return {"readout": _errors(gate)}
    check.kind(gate, Gate, "to_json: an instruction", error=CircuitError)
    if gate.name == "diagonal" or _registered(gate):
        return gate.name
    if gate.constant is None:
        raise CircuitError(
            f"to_json: {gate.name} is a function or a product of your own and cannot be written (bind "
            f"it, and use its matrix)"
        )
    return {"name": gate.name, "label": gate.label, "matrix": _rows(gate.constant)}


def _errors(error: ReadoutError) -> list[float]:
    return [float(error.matrix[0, 1]), float(error.matrix[1, 0])]


def _rows(matrix: Any) -> list[Any]:
    return [[[z.real, z.imag] for z in row] for row in matrix.tolist()]


def _complex(rows: Any) -> list[Any]:
    return [[complex(*z) for z in row] for row in rows]


def _made(record: dict[str, Any]) -> Any:
    """A gate by its matrix, a channel or an error in reading."""
    if "readout" in record:
        return ReadoutError(*record["readout"])
    if "channel" not in record:
        return unitary(_complex(record["matrix"]), record["name"], record["label"])
    name = str(record["channel"])
    channel = (
        Channel.pauli(name, record["pauli"])
        if "pauli" in record
        else Channel(name, [_complex(k) for k in record["kraus"]])
    )
    channel.arguments = tuple(record["arguments"])
    return channel


def _registered(gate: Gate) -> bool:
    try:
        return find(gate.name) == gate
    except GateError:
        return False


def from_json(text: str) -> Circuit:
    """The circuit of a JSON text.

    Raises
    ------
    CircuitError, GateError, ParameterError
        If the text is not a circuit in this format, or is of a newer version.

    Examples
    --------
    >>> from triskele import quantum
    >>> from triskele.quantum import io
    >>> io.from_json(io.to_json(quantum.Circuit(2).h(0).cx(0, 1))) == quantum.Circuit(2).h(0).cx(0, 1)
    True
    """
    try:
        record = json.loads(text)
        if record["format"] != _FORMAT or record["version"] not in range(1, _VERSION + 1):
            raise CircuitError(
                f"from_json: {_FORMAT} of version 1 to {_VERSION} is needed, got {record['format']} of "
                f"version {record['version']}"
            )
        circuit = Circuit(record["num_qubits"], record["num_clbits"])
        for i in record["instructions"]:
            _read(circuit, i)
        circuit._data = frozenset(str(n) for n in record["data"])
        circuit._ordered(str(n) for n in record.get("names", []))
        circuit.readout = {int(q): ReadoutError(*errors) for q, *errors in record.get("readout", [])}
    except (ChannelError, CircuitError, GateError, ParameterError):
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, MemoryError, RecursionError) as error:
        raise CircuitError(
            f"from_json: the text must be the JSON of a circuit ({type(error).__name__}: {error})"
        ) from error
    return circuit


def _read(circuit: Circuit, i: dict[str, Any]) -> None:
    qubits, clbits = i.get("qubits", []), tuple(i.get("clbits", []))
    params = [
        Linear(tuple((str(n), float(c)) for n, c in p["terms"].items()), float(p["constant"]))
        if isinstance(p, dict)
        else p
        for p in i.get("params", [])
    ]
    name = i["gate"]
    gate: Any = _OPERATIONS.get(name) if isinstance(name, str) else None
    if gate is None and isinstance(name, str):
        gate = diagonal(len(qubits)) if name == "diagonal" else find(name)
    elif gate is None:
        gate = _made(name)
    condition = i.get("condition")
    if condition is not None:
        condition = Condition(tuple(condition["clbits"]), int(condition["value"]))
    bits = clbits + (condition.clbits if condition else ())
    if any(not isinstance(c, int) or not 0 <= c < circuit.num_clbits for c in bits) or (
        gate in (LOOP, MEASURE, REPEAT) or isinstance(gate, ReadoutError)
    ) != bool(clbits):
        raise CircuitError(f"from_json: classical bits must be from 0 to {circuit.num_clbits - 1}, got {list(bits)}")
    circuit.append(gate, qubits, params, controls=i.get("controls", []), clbits=clbits, condition=condition)
