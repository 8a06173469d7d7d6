"""`python -m tests.faults.soak [--minutes 5]`: does memory stay flat while things are made, used and dropped?

Each workload runs in a process of its own. Resident memory is read after a third of the time, by when everything that
is made once exists, and at the end.
"""

import argparse
import gc
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = 4.0  # MiB from the first third of the time to the end


def jit(k):
    from triskele import core

    f = core.jit(core.value_and_grad(lambda x: np.sum(np.tanh(x * float(k % 7)) ** 2)))
    f(np.ones(100 + k % 5))


def circuits(k):
    from triskele import quantum

    circuit = quantum.Circuit(4)
    for j in range(5 + k % 20):
        circuit.ry(f"a{j}", j % 4).cx(j % 4, (j + 1) % 4)
    energy = quantum.Expectation(circuit, quantum.PauliSum(f"{1 + k % 9} Z0 Z1 + X2"))
    energy.value_and_grad(np.full(len(circuit.parameters), 0.1))
    quantum.run(circuit, np.zeros(len(circuit.parameters))).sample(100, seed=k)


def simulations(k):
    from tests.faults.killed import springs

    springs().run(200 + k % 10)


def searches(k):
    from triskele import reinforce as rl

    game = rl.games.ConnectFour()
    search = rl.MCTS(game, simulations=200 + k % 50, policy=rl.UCT(c=1.4), evaluator=rl.RandomRollout(), seed=k)
    state = game.initial_state()
    for _ in range(3):
        action = search(state).action
        state = state.play(action)
        search.advance(action)


WORKLOADS = {f.__name__: f for f in (jit, circuits, simulations, searches)}


def resident():
    """Resident memory of this process in MiB."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("soak: /proc/self/status has no line VmRSS")


def soak(name, seconds):
    """Rounds of a workload, and resident memory (MiB) after a third of the time and at the end."""
    start, rounds, first = time.monotonic(), 0, None
    while (passed := time.monotonic() - start) < seconds or first is None:
        if first is None and passed > seconds / 3 and rounds > 50:
            first = resident()
        WORKLOADS[name](rounds)
        rounds += 1
    return rounds, first, resident()


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--only", choices=WORKLOADS, help="run one workload in this process")
    options = parser.parse_args()
    if options.only:
        rounds, first, last = soak(options.only, 60 * options.minutes)
        print(
            f"{options.only:12} {rounds:8,} rounds  {first:8.1f} MiB  {last:8.1f} MiB  {last - first:+.1f} MiB",
            flush=True,
        )
        return last - first > ALLOWED
    command = [sys.executable, "-m", "tests.faults.soak", "--minutes", str(options.minutes), "--only"]
    return max(subprocess.run([*command, name], cwd=ROOT).returncode for name in WORKLOADS)


if __name__ == "__main__":
    sys.exit(main())
