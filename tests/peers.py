"""Programs of the extra `peer`, which `make test` does without: what needs one of them runs at night."""

PEERS = ("MDAnalysis", "cirq", "openfermion", "pennylane", "pettingzoo", "pyscf", "pyspiel", "qiskit")


def missing(error):
    """The program whose absence a ModuleNotFoundError reports, if it is one of them, or None."""
    return next((name for name in PEERS if isinstance(error, ModuleNotFoundError) and error.name
                 and error.name.partition(".")[0] == name), None)
