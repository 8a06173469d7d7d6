"""Results without dimensions are arrays where NumPy's are, which later assignments share, and scalars elsewhere."""

import warnings

import numpy as np
import pytest

from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import make_graph
from triskele.core.tensor import FUNCTIONS, Tensor

VECTOR, MATRIX, NUMBER = np.array([0.25, 0.5, 0.75]), np.array([[2.0, 1.0], [1.0, 3.0]]), np.float64(0.5)
ARGUMENTS = [
    (NUMBER,),
    (NUMBER, NUMBER),
    (NUMBER,) * 3,
    (VECTOR,),
    (VECTOR, VECTOR),
    (VECTOR, NUMBER),
    (NUMBER, VECTOR),
    (NUMBER, VECTOR, VECTOR),
    (MATRIX,),
    (MATRIX, MATRIX),
    (MATRIX, NUMBER),
    (VECTOR[:1],),
    (MATRIX[:1, :1],),
]
METHODS = [n for n in dir(VECTOR) if not n.startswith("_")]


def is_array(x):
    return x._link is not None if isinstance(x, Tensor) else isinstance(x, np.ndarray)


def compare(f, args):
    """(what NumPy returns, what a traced call returns) as (is an array, ...), or None where there is no such call."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = f(*args)
        except Exception:  # noqa: BLE001  no arguments for this function
            return None
        if not isinstance(wanted, (np.ndarray, np.generic)) or np.ndim(wanted):
            return None
        found = []

        def g(*tensors):
            found.append(f(*tensors))
            return found

        try:
            make_graph(g, [spec_of(a) for a in args])
        except Exception:  # noqa: BLE001  refused
            return None
    return isinstance(wanted, np.ndarray), is_array(found[0])


def test_functions():
    calls = {
        f"{f.__name__} of {args}": compare(f, args) for f in FUNCTIONS for args in ARGUMENTS if hasattr(f, "__name__")
    }
    calls = {name: pair for name, pair in calls.items() if pair is not None}
    assert len(calls) > 200 and any(wanted for wanted, _ in calls.values())
    assert not {name: pair for name, pair in calls.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("x", [NUMBER, VECTOR, MATRIX], ids=["number", "vector", "matrix"])
def test_methods(x):
    calls = {m: compare(lambda y, m=m: getattr(y, m)(), (x,)) for m in METHODS}
    assert not {m: pair for m, pair in calls.items() if pair is not None and pair[0] != pair[1]}
