"""Streams of random numbers: every domain stands in the registry once, and domains that coincided no longer do."""

import re
from pathlib import Path

import numpy as np
import pytest

from triskele import quantum
from triskele.core import random
from triskele.core.random.streams import Counter, Fold
from triskele.quantum import noise

ROOT = Path(__file__).parents[2]
SOURCES = [
    p
    for package in ("core", "sponge", "quantum", "reinforce", "command")
    for p in sorted((ROOT / package).rglob("*.py"))
]


def test_domains_do_not_overlap():
    words = sorted(Counter)
    assert words[:9] == list(range(9)) and words[9:] == [Counter.NOISE]  # above it: numbers of inner steps
    starts = sorted(Fold)
    ranges = {Fold.BRANCHES: 2**28, Fold.READINGS: 2**20}  # numbers that are added
    for one, next_ in zip(starts, starts[1:], strict=False):
        assert one + ranges.get(one, 0) < next_


def test_no_domain_stands_anywhere_else():
    """Numbers that are written out where a key is folded or a counter is made."""
    literal = re.compile(r"fold_in\([^#\n]*,\s*(0x)?\d+\s*[+)]|^(_STREAMS?|_KIND|_DOMAIN)\s*=\s*(0x)?\d", re.MULTILINE)
    for path in SOURCES:
        code = "\n".join(line for line in path.read_text().splitlines() if ">>>" not in line)
        found = literal.search(code)
        assert not found or path.name == "streams.py", (
            f"{path.relative_to(ROOT)}: {found.group()!r} belongs into core/random/streams.py"
        )


@pytest.mark.parametrize("tag", list(Fold))
def test_folding_a_domain_is_folding_its_number(tag):
    np.testing.assert_array_equal(random.fold_in(random.key(3), tag), random.fold_in(random.key(3), int(tag)))


def test_errors_in_reading_do_not_depend_on_earlier_measurements():
    """They drew from the stream of the instruction whose place was one more than the measurement's number."""
    circuit = quantum.Circuit(11, 2).h(0).measure(0, 0).x(0).measure(1, 1)
    model = noise.NoiseModel().readout(noise.ReadoutError(0.5, 0.5), 1)
    counts = quantum.run(circuit.with_noise(model), simulator="trajectories", shots=4000, seed=7).counts()
    both = np.array([[counts.get(f"{b}{a}", 0) for b in (0, 1)] for a in (0, 1)])
    assert both.sum() == 4000
    assert abs(both[0, 0] * both[1, 1] - both[0, 1] * both[1, 0]) / 4000**2 < 0.04  # 0.25 where one decides the other
