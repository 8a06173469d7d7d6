"""Ctrl-C at any moment: it acts within seconds, and what was interrupted still works."""

import os
import subprocess
import time

import numpy as np

from tests.faults.fault import Fault
from tests.faults.killed import springs
from triskele import core
from triskele import reinforce as rl

__all__ = ["FAULTS"]

PATIENCE = 5.0  # seconds: on a machine with other work, where one would do


def interrupt(call, delay):
    """Call a function and interrupt it; what went wrong, or None."""
    # a thread of ours would wait for the interpreter
    sender = subprocess.Popen(["sh", "-c", f"sleep {delay}; kill -INT {os.getpid()}"])
    start = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        late = time.monotonic() - start - delay
        return f"stopped {late:.1f} s after Ctrl-C" if late > PATIENCE else None
    finally:
        sender.wait()
    return "Ctrl-C was lost"


def compiled_loop(rng, folder):
    step = core.jit(lambda x, n: core.fori_loop(0, n, lambda i, y: np.sin(y) + 1.0, x))
    right = step(0.3, 1000)
    return interrupt(lambda: step(0.3, 10**9), rng.uniform(0, 0.3)) or (
        None if step(0.3, 1000) == right else "another result afterwards"
    )


def simulation(rng, folder):
    sim = springs()
    sim.run(10)
    wrong = interrupt(lambda: sim.run(10**9), rng.uniform(0, 0.3))
    if wrong:
        return wrong
    sim.run(10)
    whole = springs()
    whole.run(sim.step)
    return None if np.array_equal(whole.positions, sim.positions) else f"another run after step {sim.step}"


def search(rng, folder):
    game = rl.games.ConnectFour()
    large, small = (
        rl.MCTS(game, simulations=n, policy=rl.UCT(c=1.4), evaluator=rl.RandomRollout(), seed=0) for n in (10**8, 100)
    )
    small(game.initial_state())  # compiles
    wrong = interrupt(lambda: large(game.initial_state()), rng.uniform(0, 0.3))
    if wrong:
        return wrong
    return None if small(game.initial_state()).visits.sum() >= 99 else "a search afterwards is short"


FAULTS = [
    Fault("Ctrl-C in a compiled loop", "it stops within a second, and the function still works", compiled_loop, 50),
    Fault("Ctrl-C during a simulation", "it stops within a second, and the run resumes bit for bit", simulation, 50),
    Fault("Ctrl-C during a search", "it stops within a second, and the next search works", search, 50),
]
