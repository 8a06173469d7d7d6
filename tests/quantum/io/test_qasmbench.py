"""QASMBench: all programs are read, and give the stored distributions."""

import gzip
import json
import pathlib

import numpy as np
import pytest
import scipy.stats

from triskele import quantum
from triskele.quantum.gates.instruction import BARRIER, MEASURE

DATA = pathlib.Path(__file__).parents[2] / "data" / "quantum" / "qasmbench"
PROGRAMS = json.loads(gzip.open(DATA / "programs.json.gz").read())
RECORDS = json.loads(gzip.open(DATA / "distributions.json.gz").read())["circuits"]
EXACT = sorted(n for n, r in RECORDS.items() if r["kind"].startswith("exact"))
SAMPLED = sorted(n for n, r in RECORDS.items() if r["kind"].startswith("sampled"))
SHOTS = 20_000


def test_all_programs_are_here():
    assert len(PROGRAMS) == 48 and set(EXACT) | set(SAMPLED) == set(PROGRAMS)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_have_their_size(name):
    circuit = quantum.Circuit.from_qasm(PROGRAMS[name])
    assert circuit.num_qubits == RECORDS[name]["n_qubits"] and circuit.num_clbits == RECORDS[name]["n_clbits"]
    ops = RECORDS[name]["ops"]
    assert circuit.counts().get("measure", 0) == ops.get("measure", 0) or "if_else" in ops


@pytest.mark.parametrize("name", EXACT)
def test_exact_probabilities(name):
    """The stored digits are 12 (the largest program's 1024 likeliest outcomes)."""
    record = RECORDS[name]
    circuit = quantum.Circuit.from_qasm(PROGRAMS[name])
    gates = quantum.Circuit(circuit.num_qubits)
    source = {}  # classical bit: qubit
    for i in circuit:
        if i.gate is MEASURE:
            source[i.clbits[0]] = i.qubits[0]
        elif i.gate is not BARRIER:
            gates.append(i.gate, i.qubits, i.params, controls=i.controls)
    assert sorted(source) == sorted(record["measured_clbits"])
    mine = quantum.run(gates).probabilities([source[c] for c in record["measured_clbits"]])
    stored = np.zeros(len(mine))
    for key, p in record["probabilities"].items():
        stored[int(key)] = p
    wanted = stored > 0 if record["kind"] == "exact_top1024" else np.ones(len(mine), bool)
    np.testing.assert_allclose(mine[wanted], stored[wanted], atol=2e-10)


@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_distributions(name):
    """Two-sample chi-square test with fixed seeds; false alarm in one of 10^5 for each program."""
    circuit = quantum.Circuit.from_qasm(PROGRAMS[name])
    counts = quantum.run(circuit, shots=SHOTS, seed=1).counts()
    mine = {int(k, 2) if isinstance(k, str) else int(k): v for k, v in counts.items()}
    stored = {int(k): round(v * SHOTS) for k, v in RECORDS[name]["probabilities"].items()}
    keys = sorted(mine.keys() | stored.keys())
    table = np.array([[mine.get(k, 0) for k in keys], [stored.get(k, 0) for k in keys]])
    rare = table.sum(0) < 20
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], 1)
    table = table[:, table.sum(0) > 0]
    assert table.shape[1] == 1 or scipy.stats.chi2_contingency(table).pvalue > 1e-5
