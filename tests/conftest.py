"""Seeds and the one table of tolerances. Tests import nothing from other tests' files, only from tests.twins."""

import ctypes
import os
import signal

import numpy as np
import pytest
from hypothesis import is_hypothesis_test, settings

# Largest relative error of a few chained operations, per result dtype; a derivative of order n costs a digit each.
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}

LIBC = ctypes.CDLL(None) if os.name == "posix" else None

# Deadlines are off: how long an example takes depends on the machine, and on what is compiled by then.
# Continuous integration draws the same examples in every run; a desk and the night draw new ones.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
NIGHT = 10  # times as many examples as a test asks for
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("night", deadline=None, database=None, print_blob=True)
settings.load_profile(PROFILE)

# Kernels stay in the user's cache: their keys hash all that they depend on. Other tests use the other processors.
os.environ["TRISKELE_COMPILE_JOBS"] = "1"

# A shell starts its background jobs with Ctrl-C ignored; tests of interrupted runs, and processes they start, need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Multiply the number of examples of every property test at night."""
    if PROFILE != "night":
        return
    tests = {
        getattr(item.obj, "__func__", item.obj) for item in items if is_hypothesis_test(getattr(item, "obj", None))
    }
    for test in tests:  # Hypothesis has no public way to replace the settings of a decorated test
        asked = test._hypothesis_internal_use_settings or settings.default
        test._hypothesis_internal_use_settings = settings(asked, max_examples=NIGHT * asked.max_examples)


@pytest.fixture(scope="module", autouse=True)
def _freed_memory():
    """Give memory of freed arrays back to the system: large systems leave hundreds of MB in glibc's heap."""
    yield
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)


@pytest.fixture
def rng():
    """The same random numbers in every run of a test."""
    return np.random.default_rng(20240229)


@pytest.fixture
def tolerance():
    """A function from dtype and derivative order to the relative tolerance of a comparison."""
    return lambda dtype, order=0: TOLERANCE[np.dtype(dtype).name] * 10.0**order
