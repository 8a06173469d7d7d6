"""What a newcomer types wrongly, and what is said."""

import numpy as np
import pytest

from triskele import quantum

Circuit, Parameter = quantum.Circuit, quantum.Parameter
SAID = [
    (lambda: Circuit(3).h([0, 1, 2]), "qubits must be integers from 0 to 2, got .*one call for each qubit"),
    (lambda: Circuit(3).h(range(3)), "one call for each qubit"),
    (lambda: Circuit(3).rx(0, np.pi / 2), "got 1.57.*parameters come before qubits"),
    (lambda: Circuit(3).h("0"), "got '0'"),
    (lambda: Circuit(3).CX(0, 1), r"unknown gate 'CX' \(did you mean 'cx'\?\)"),
    (lambda: Circuit(3).hh(0), "unknown gate 'hh'"),
    (lambda: Circuit(3).cx(1, 1), "qubits must differ"),
    (lambda: Circuit(1).rx(Parameter("a") * Parameter("b"), 0), r"linear in its parameters, got \(a\)\*\(b\)"),
    (lambda: Circuit(1).rx("a*b", 0), "cannot read 'a\\*b' at '\\*b'"),
    (lambda: Circuit(2).when(0).__enter__(), "classical bits must be there .measure into them first., got .0."),
    (lambda: quantum.run(Circuit(1).rx("a", 0)), "theta must have a value for a, got none"),
    (lambda: quantum.run(Circuit(1).rx("a", 0), {"b": 1}), "theta has no 'b'"),
    (lambda: quantum.run(Circuit(1)).sample(), "number of shots must be given"),
    (lambda: quantum.run(Circuit(1)).expectation("Z"), "Z must be followed by its qubit, as in Z0"),
    (lambda: quantum.run(Circuit(1), simulator="statevectr"), "must be one of .*statevector"),
    (lambda: quantum.run(Circuit(70)), "stabilizer simulator has no such limit"),
    (lambda: Circuit(2).measure(0).inverse(), "measure on qubits .0. cannot be undone"),
    (lambda: Circuit(1).depolarizing(1.7, 0), "p must be a number from 0 to 1.33"),
    (lambda: Circuit(1).draw("latex"), "'text', 'svg' or 'mpl', got 'latex'"),
]


@pytest.mark.parametrize("typed, said", SAID, ids=[said[:30] for _, said in SAID])
def test_errors_say_what_to_do(typed, said):
    with pytest.raises((ValueError, AttributeError), match=said):
        typed()
