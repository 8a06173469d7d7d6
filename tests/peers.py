"""Programs of the extra `peer`, which `make test` does without: what needs one of them runs at night."""

PEERS = ("MDAnalysis", "cirq", "openfermion", "pennylane", "pettingzoo", "pyscf", "pyspiel", "qiskit")


def missing(error):
    """Return True if an exception reports that one of them is not installed."""
    return isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in PEERS
