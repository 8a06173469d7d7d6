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
from triskele.core.compile import baked
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


@pytest.mark.parametrize(
    ("f", "source"),
    [
        (lambda x: x + np.random.normal(), "np.random"),  # noqa: NPY002
        (lambda x: x + GENERATOR.normal(), "GENERATOR"),
        (lambda x: x + random.random(), "random"),
        (lambda x: x + time.time(), "clock"),
        (lambda x: x + time.perf_counter(), "clock"),
    ],
)
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


FACTOR = 2.0


def scaled(x):
    return FACTOR * x


class Spring:
    stiffness = 1.0

    def __init__(self):
        self.length, self.calls = 2.0, 0

    def force(self, x):
        return self.stiffness * (x - self.length)

    def twice(self, x):
        return 2 * self.force(x)


def changes():
    """Compiled functions, and changes that they do not see, with what the warning says."""
    spring, numbers, table = Spring(), [1.0, 2.0], {"a": 1.0}
    number = 1.0

    def set_number():
        nonlocal number
        number = 4.0

    yield core.jit(lambda x: x * number), set_number, "variable 'number'"
    yield core.jit(lambda x: x * numbers[0]), lambda: numbers.__setitem__(0, 3.0), "variable 'numbers'"
    yield core.jit(lambda x: x * table["a"]), lambda: table.update(a=3.0), "variable 'table'"
    yield core.jit(scaled), lambda: globals().update(FACTOR=3.0), "global 'FACTOR'"
    yield core.jit(lambda x: 1 + scaled(x)), lambda: globals().update(FACTOR=4.0), "global 'FACTOR'"
    yield core.jit(core.grad(scaled)), lambda: globals().update(FACTOR=5.0), "global 'FACTOR'"
    yield core.jit(lambda x: scaled(x)), lambda: globals().update(scaled=lambda x: x), "global 'scaled'"
    yield core.jit(spring.force), lambda: setattr(spring, "length", 3.0), "attribute 'length' of Spring"
    yield core.jit(spring.twice), lambda: setattr(spring, "stiffness", 3.0), "attribute 'stiffness' of Spring"
    yield core.jit(lambda x: spring.force(x)), lambda: setattr(spring, "length", 4.0), "attribute 'length' of Spring"
    static = core.jit(Spring.force, static_argnames="self")
    yield lambda x: static(spring, x), lambda: setattr(spring, "length", 5.0), "attribute 'length' of Spring"


@pytest.fixture(params=["processor", "python"])
def always_looking(monkeypatch, request):
    """Calls look each time, and not a hundredth of the time, by either clock."""
    if request.param == "python":
        monkeypatch.setattr("triskele.core.compile.jit.miss_after", lambda caller, seconds: False)
    monkeypatch.setattr(baked, "_SHARE", 0)
    monkeypatch.setattr(baked, "_LEAST", 0)


def test_what_a_function_reads_from_outside_is_watched(monkeypatch, always_looking):
    for name in ("FACTOR", "scaled"):
        monkeypatch.setitem(globals(), name, globals()[name])
    for f, change, message in changes():
        f(1.0), f(1.0), f(1.0)  # a BakedValueWarning would be an error
        change()
        with pytest.warns(BakedValueWarning, match=message) as found:
            f(1.0)
        assert len(found) == 1 and found[0].filename == __file__
        f(1.0)  # once


def test_what_is_not_read_or_stays_equal_is_not_reported(always_looking):
    spring, number, log = Spring(), 1.0, []

    def f(x):
        log.append(x.shape)
        x[()] = x + 0
        return spring.force(x) * number + np.sin(x)

    g = core.jit(f)
    for k in range(3):
        g(1.0)
        spring.calls, spring.length, number = k, 2.0, float("1.0")
        log.append(1.0)
    assert g(np.ones(2)).shape == (2,)


def test_zeros_of_either_sign_are_different_static_arguments():
    f = core.jit(lambda x, s: np.copysign(x, s[0] if isinstance(s, tuple) else np.real(s)), static_argnames="s")
    for wrap in (float, np.float64, complex, lambda s: (s, 1)):
        for _ in range(2):
            assert [f(1.0, wrap(s)) for s in (0.0, -0.0)] == [f(1.0, s=wrap(s)) for s in (0.0, -0.0)] == [1, -1]


def by_recursion(n):
    return 1 if n <= 1 else n * by_recursion(n - 1)


def with_statements(n):
    if n <= 1:
        return 1
    return n * with_statements(n - 1)


@pytest.mark.parametrize(
    ("f", "args", "message"),
    [
        (by_recursion, (5,), "recursion"),
        (with_statements, (5,), "recursion"),
        (lambda n: np.arange(n), (3,), r"np.arange\(n\)"),
        (lambda n: np.zeros(n), (3,), "shape: .* known when"),
        (lambda x: (f"{x}", x)[1], (1.0,), "format"),
        (lambda x: float(f"{x:.3f}"), (1.0,), "format"),
    ],
)
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
