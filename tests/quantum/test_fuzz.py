"""A sample of the random circuits of `fuzz_circuits`; `slow` runs more of them."""

import pytest

from tests.quantum.fuzz_circuits import CHECKS, PEERS, pennylane

ALL = [*CHECKS, *(pytest.param(check, marks=pytest.mark.peer) for check in PEERS)]


@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize("check", ALL, ids=lambda c: c.__name__)
def test_some_random_circuits(check):
    for seed in range(2 if check is pennylane else 8):
        check(seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize("check", ALL, ids=lambda c: c.__name__)
def test_many_random_circuits(check):
    for seed in range(1000, 1400):
        check(seed)
