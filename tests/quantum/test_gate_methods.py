"""The signatures that type checkers see of the methods which registered gates and channels become."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

from triskele.quantum import gate_methods
from triskele.quantum.gates import base, standard
from triskele.quantum.noise.channels import CHANNELS

STUB = Path(gate_methods.__file__).with_suffix(".pyi")
HEADER = '''\
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from .parameters import Linear

Angle = float | str | Mapping[str, float] | Linear

class GateMethods:
    def __getattr__(self, name: str) -> Callable[..., Self]: ...
'''


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
        options = "".join(f", {p.name}: {p.annotation} = ..." for p in parameters[maker.arguments :]
                          if p.name != "num_qubits")
        lines.append(f"    def {name}(self, {first}, /, *qubits: int{options}) -> Self: ...")
    lines = [line if len(line) <= 120 else line.replace("(self, ", "(\n        self, ") for line in lines]
    return HEADER + "\n".join(lines) + "\n\ndef hint(gate: Any, qubit: Any) -> str: ...\n"


def test_every_gate_and_channel_has_a_signature():
    # in a process of its own: other tests register gates
    command = [sys.executable, "-c", "from tests.quantum.test_gate_methods import stub; print(stub(), end='')"]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, env=environment, timeout=120)
    assert STUB.read_text() == done.stdout
