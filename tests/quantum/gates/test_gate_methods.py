"""The signatures that type checkers see of the methods which registered gates and channels become."""

import doctest
import inspect
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from triskele import quantum
from triskele.quantum import gate_methods, gates
from triskele.quantum.gates import base, standard
from triskele.quantum.gates.formula import angles, formula
from triskele.quantum.noise.channels import CHANNELS

STUB = Path(gate_methods.__file__).with_suffix(".pyi")
HEADER = """\
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from .parameters import Linear

Angle = float | str | Mapping[str, float] | Linear

class GateMethods:
    def __getattr__(self, name: str) -> Callable[..., Self]: ...
"""


def numbered(name, kind, count):
    return [f"{name}{k + 1 if count > 1 else ''}: {kind}" for k in range(count)]


def stub():
    """The text of the stub: all gates in the order of their definition, those with controls, and the channels."""
    lines = []
    for name in [*base._REGISTRY, *standard.CONTROLLED, *(f"mc{g}" for g in ("x", "y", "z", "p", "rx", "ry", "rz"))]:
        controls, gate = standard.resolve(name)
        arguments = numbered("angle", "Angle", gate.num_params)
        arguments += ["controls: Sequence[int]"] if controls is None else numbered("control", "int", controls)
        arguments += numbered("qubit", "int", gate.num_qubits)
        lines.append(f"    def {name}(self, {', '.join(arguments)}, /) -> Self: ...")
    for name, maker in CHANNELS.items():
        parameters = list(inspect.signature(maker.function).parameters.values())
        first = ", ".join(f"{p.name}: {p.annotation}" for p in parameters[: maker.arguments])
        options = "".join(
            f", {p.name}: {p.annotation} = ..." for p in parameters[maker.arguments :] if p.name != "num_qubits"
        )
        lines.append(f"    def {name}(self, {first}, /, *qubits: int{options}) -> Self: ...")
    wrapped = [line.replace("(self, ", "(\n        self, ").replace(") -> Self", "\n    ) -> Self") for line in lines]
    lines = [line if len(line) <= 120 else other for line, other in zip(lines, wrapped)]
    return HEADER + "\n".join(lines) + "\n\ndef hint(gate: Any, qubit: Any) -> str: ...\n"


def test_every_gate_and_channel_has_a_signature():
    # in a process of its own: other tests register gates
    command = [sys.executable, "-c", "from tests.quantum.gates.test_gate_methods import stub; print(stub(), end='')"]
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, env=environment, timeout=120)
    assert STUB.read_text() == done.stdout, f"to write the stub again: {shlex.join(['python', *command[1:]])} > {STUB}"


def evaluate(text, names, values):
    """The matrix that a formula gives at some angles."""
    pauli = {"X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1])}
    known = {n: getattr(np, n) for n in ("cos", "sin", "sqrt", "exp")} | {"expm": scipy.linalg.expm} | pauli
    return np.array(eval(text, known, dict(zip(names, values, strict=True))))


@pytest.mark.parametrize("name", [name for name in gates.names() if formula(gates.find(name))])
def test_documented_matrices_are_those_of_the_gates(name):
    gate = gates.find(name)
    values = np.random.default_rng(3).uniform(-4, 4, gate.num_params)
    found = evaluate(formula(gate), angles(gate), values)
    np.testing.assert_allclose(found, gate.matrix(*values), atol=1e-12)
    assert formula(gate).splitlines()[0] in getattr(quantum.Circuit, name).__doc__


@pytest.mark.parametrize("primitive", [gates.Rotation("X"), gates.Rotation("Z"), gates.Phase(1)])
@pytest.mark.parametrize("coefficient", [0.5, -1.0, 3.0])
def test_matrices_of_a_users_gates_are_documented(primitive, coefficient):
    gate = gates.Gate("own", 1, 1, factors=(gates.Factor(primitive, (0,), (coefficient,)),))
    np.testing.assert_allclose(evaluate(formula(gate), ["angle"], [0.7]), gate.matrix(0.7), atol=1e-12)


def test_gates_of_up_to_three_qubits_have_a_documented_matrix():
    assert not [name for name in gates.names() if gates.find(name).num_qubits <= 3 and not formula(gates.find(name))]


@pytest.mark.parametrize(
    "name, signature",
    [
        ("h", "(self, qubit, /)"),
        ("rx", "(self, angle, qubit, /)"),
        ("u", "(self, angle1, angle2, angle3, qubit, /)"),
        ("crz", "(self, angle, control, qubit, /)"),
        ("ccx", "(self, control1, control2, qubit, /)"),
        ("mcp", "(self, angle, controls, qubit, /)"),
        ("depolarizing", "(self, p, /, *qubits)"),
    ],
)
def test_methods_of_the_class_show_their_parameters(name, signature):
    method = getattr(quantum.Circuit, name)
    assert str(inspect.signature(method)) == signature and name in dir(quantum.Circuit)
    assert getattr(quantum.Circuit(1), name).__func__ is method


def test_the_class_refuses_unknown_gates():
    with pytest.raises(AttributeError, match="unknown gate 'frobnicate'"):
        quantum.Circuit.frobnicate  # noqa: B018


@pytest.mark.parametrize("name", ["h", "rx", "cu3", "ccx", "mcp", "cswap", "rc3x", "double_excitation"])
def test_examples_of_methods_run(name):
    names = {}
    for example in doctest.DocTestParser().get_examples(inspect.getdoc(getattr(quantum.Circuit, name))):
        exec(example.source, names)
    assert len(names["circuit"]) == 1
