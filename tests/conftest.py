"""Seeds and the one table of tolerances. Tests import nothing from other tests' files, only from tests.twins."""

import os
import signal

import numpy as np
import pytest
from hypothesis import settings

# Largest relative error of a few chained operations, per result dtype; a derivative of order n costs a digit each.
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}

# How long an example takes depends on the machine, and on what is compiled by then.
settings.register_profile("triskele", deadline=None)
settings.load_profile("triskele")

# A shell starts its background jobs with Ctrl-C ignored; tests of interrupted runs, and processes they start, need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory):
    """Give the run a cache folder of its own, unless TRISKELE_CACHE_DIR names one that later runs are to reuse."""
    if "TRISKELE_CACHE_DIR" in os.environ:
        yield
        return
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # all workers share one, as a user's processes do
        folder = folder.parent
    patch = pytest.MonkeyPatch()
    patch.setenv("TRISKELE_CACHE_DIR", str(folder / "kernels"))
    yield
    patch.undo()


@pytest.fixture
def rng():
    """The same random numbers in every run of a test."""
    return np.random.default_rng(20240229)


@pytest.fixture
def tolerance():
    """A function from dtype and derivative order to the relative tolerance of a comparison."""
    return lambda dtype, order=0: TOLERANCE[np.dtype(dtype).name] * 10.0**order
