"""Damaged files for every reader: each gives a result, or an error of the class that the documentation names.

Longer runs: ``python -m tests.fuzz --count 100000``.
"""

import sys

import numpy as np
import pytest

from tests.fuzz.mutate import KINDS, mutate
from tests.fuzz.run import watch
from tests.fuzz.targets import TARGETS

pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and time are Linux's")


def told(found):
    return "\n".join(f"{f.target}, case {f.case}: {f.what}" for f in found)


def test_a_sample_of_damaged_files_ends_as_documented():
    cases, found = watch(list(TARGETS), 0, 2)
    assert not found, told(found)
    assert cases == 2 * len(TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_end_as_documented(name):
    cases, found = watch([name], 0, 300)
    assert not found, told(found)
    assert cases == 300


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_every_kind_of_damage_does_damage(kind):
    data = b'10 words = "and numbers" 3.5e-3\n2 lines\nend 7\n'
    made = {kind(data, [b"another", data], np.random.default_rng(k)) for k in range(40)}
    assert len(made - {data}) > 5


def test_damage_is_the_same_in_every_run():
    data = [b"some text 1 2 3", b"other"]
    assert mutate(data[0], data, np.random.default_rng(3)) == mutate(data[0], data, np.random.default_rng(3))
