"""What a compiled function keeps from the time it was traced is said; what has no value then is an error that says
so.
"""

import copy
import pickle
import random
import time

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import BakedValueWarning, TracerError

TABLE = np.arange(5.0)
GENERATOR = np.random.default_rng(0)


@core.jit
def doubled(x):
    return 2 * x


class Model:
    @core.jit
    def step(self, x):
        return x


@pytest.mark.parametrize(("f", "source"), [
    (lambda x: x + np.random.normal(), "np.random"), (lambda x: x + GENERATOR.normal(), "GENERATOR"),  # noqa: NPY002
    (lambda x: x + random.random(), "random"), (lambda x: x + time.time(),
                                                "clock"), (lambda x: x + time.perf_counter(), "clock"),
])
def test_random_numbers_and_clocks_are_reported(f, source):
    with pytest.warns(BakedValueWarning, match=source) as found:
        core.jit(f)(1.0)
    assert found[0].filename == __file__


def test_numbers_drawn_outside_are_not(rng):
    x, y = rng.normal(size=3), np.random.normal()  # noqa: NPY002
    assert np.array_equal(core.jit(lambda x, y: x + y)(x, y), x + y)  # a BakedValueWarning would be an error


def test_arrays_of_the_closure_that_change_are_reported():
    own, unused = np.ones(3), np.ones(4)
    f = core.jit(lambda x: x * own + len(unused) + TABLE[:3])
    f(1.0)
    unused[0] = 5
    f(1.0)
    own[1] = 7
    time.sleep(0.1)
    with pytest.warns(BakedValueWarning, match=r"array float64\(3,\)") as found:
        f(1.0)
    assert found[0].filename == __file__
    time.sleep(0.1)
    f(1.0)  # once


def by_recursion(n):
    return 1 if n <= 1 else n * by_recursion(n - 1)


def with_statements(n):
    if n <= 1:
        return 1
    return n * with_statements(n - 1)


def checked(x):
    if x < 0:
        raise ValueError("x must not be negative")
    return np.sqrt(x)


@pytest.mark.parametrize(("f", "args", "message"), [
    (by_recursion, (5,), "recursion"), (with_statements, (5,),
                                        "recursion"), (checked, (4.0,), "raise: .* traced condition"),
    (lambda n: np.arange(n), (3,), r"np.arange\(n\)"), (lambda n: np.zeros(n), (3,), "shape: .* known when"),
    (lambda x: (f"{x}", x)[1], (1.0,), "format"), (lambda x: float(f"{x:.3f}"), (1.0,), "format"),
])
def test_what_has_no_value_yet(f, args, message):
    with pytest.raises(TracerError, match=message):
        core.jit(f)(*args)


def test_raise_with_a_known_condition():
    def f(x, positive):
        if positive:
            raise ValueError("a known condition")
        return x

    assert core.jit(f, static_argnames="positive")(2.0, False) == 2
    with pytest.raises(ValueError, match="a known condition"):
        core.jit(f, static_argnames="positive")(2.0, True)


def test_jitted_functions_are_pickled_by_reference_and_copied_as_they_are():
    for f in (doubled, Model.step):
        assert pickle.loads(pickle.dumps(f)) is f
        assert copy.deepcopy({"f": f})["f"] is f and copy.copy(f) is f
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(core.jit(lambda x: x))
