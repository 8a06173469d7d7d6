"""Python's branches and the rest of the language on traced values: the recorded function gives what Python gives."""

import functools
import math
import traceback

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.twins.recorded import check, record
from triskele.core.errors import TracerError
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.autograph.convert import convert
from triskele.core.transforms.control.operators import scan, while_loop
from triskele.core.transforms.grad import grad
from triskele.core.transforms.jacobian import hessian
from triskele.core.transforms.vmap import vmap

# -- branches ----------------------------------------------------------------------------------------------------------


def test_early_returns():
    def f(x):
        if x > 10:
            return x * 2
        if x > 5:
            y = x + 1
            if x > 7:
                return y
            y = y * 3
        elif x > 3:
            y = x
        else:
            y = -x
        return y

    check(f, (11.0,), (8.0,), (6.0,), (4.0,), (2.0,))


def test_boolean_operators_and_chains():
    def f(x, y):
        a = 1 if x > 0 and y > 0 else 2
        b = 3 if x > 0 or not y > 1 else 4
        c = 5 if 0 < x < 1 < y else 6
        return a + 10 * b + 100 * c

    check(f, (1.0, 1.0), (-1.0, 1.0), (-1.0, 2.0), (0.5, 3.0), (2.0, -1.0))


def test_the_second_operand_is_guarded_by_the_first():
    def f(x, i):
        while i < 3 and x[i] > 0:
            i = i + 1
        return i

    check(f, (np.array([1.0, 1.0, 1.0]), 0), (np.array([1.0, -1.0, 1.0]), 0))


def test_values_of_and_or():
    def f(x, y):
        return (x and y) + 10 * (x or y)

    check(f, (0.0, 2.0), (3.0, 2.0), (3.0, 0.0))


def test_static_values_in_branches():
    def f(x):
        mode = "up"
        scale = None
        if x > 0:
            y, mode = x, "up"
        else:
            y, mode = -x, "up"
        return y if mode == "up" and scale is None else 0 * y

    check(f, (2.0,), (-2.0,))


def test_attributes_and_methods():
    class Counter:
        __step = 2

        def __init__(self):
            self.n = 0.0

        def __call__(self, x):
            if x > 0:
                self.n = self.n + x * self.__step
            return self.total(offset=1)

        def total(self, offset=0):
            return self.n + offset if self.n > 1 else offset - self.n

    def f(x):
        return Counter()(x)

    check(f, (2.0,), (0.1,), (-2.0,))


def test_functions_called_are_converted():
    limit = 3.0

    def clip(v, low=0.0, *, high=limit):
        def lower(v):
            if v < low:
                v = low
            return v

        shrink = lambda v: v if v < high else high
        return shrink(lower(v))

    def f(x):
        return functools.partial(clip, high=2.0)(x) + clip(x) + max(x, 1.0) * min(x, 2.0) + abs(int(x)) + float(bool(x))

    check(f, (-1.5,), (1.0,), (2.5,), (9.0,), (0.0,))


def test_functions_given_to_transforms_are_converted():
    def g(x):
        if x > 1:
            return x**3
        return x

    def f(x):
        return (
            grad(g)(x)
            + hessian(g)(x)
            + vmap(g)(np.stack([x, 2 * x])).sum()
            + scan(lambda c, _: (g(c), None), x, length=2)[0]
        )

    def twin(x):
        first = 3 * x**2 if x > 1 else 1.0
        second = 6 * x if x > 1 else 0.0
        return first + second + g(x) + g(2 * x) + g(g(x))

    graph = record(f, 0.5)
    for x in (0.3, 0.7, 1.5):
        assert_allclose(evaluate(graph, x)[0], twin(x))


def test_derivatives_through_converted_control_flow():
    def f(x, n):
        s = 0.0
        for i in range(n):
            if s > 2:
                s = s * np.cos(x)
            else:
                s = s + x * i
        return s

    graph, _ = make_graph(lambda x, n: [grad(f)(x, n), grad(grad(f))(x, n)], [spec_of(0.5), spec_of(1)])
    for x, n in ((0.7, 5), (2.0, 6), (0.3, 0)):
        first, second = evaluate(graph, x, n)
        assert_allclose(first, grad(f)(x, n), rtol=1e-12)
        assert_allclose(second, grad(grad(f))(x, n), rtol=1e-12, atol=1e-14)


def test_control_flow_inside_loop_bodies():
    def f(x):
        def body(c):
            if c[0] > 1:
                return c[0] / 2, c[1] + 1
            return c[0] * 3, c[1] + 1

        return while_loop(lambda c: c[1] < 5, body, (x, 0))[0]

    check(f, (0.7,), (5.0,))
    assert_allclose(grad(f)(0.7), 9 / 8)  # 0.7, 2.1, 1.05, 0.525, 1.575, 0.7875


def test_with_and_try_around_control_flow():
    def f(x):
        with np.errstate(all="ignore"):
            try:
                if x > 0:
                    y = x
                else:
                    y = -2 * x
            finally:
                z = 1.0
        return y + z

    check(f, (1.0,), (-1.0,))


def test_comprehensions_and_unpacking():
    def f(x):
        a, (b, *c) = x, (1.0, 2.0, 3.0)
        if x > 0:
            a, c = b + x, [v * x for v in c]
        else:
            c = [v if x > -1 else -v for v in c]
        return a + sum(c)

    check(f, (1.0,), (-0.5,), (-2.0,))


# -- what is left alone
# ------------------------------------------------------------------------------------------------------


def test_functions_with_nothing_to_convert_are_returned():
    def plain(x):
        return np.sin(x) + math.pi

    def numbers(x):
        yield x if x > 0 else -x

    assert convert(plain) is plain
    assert convert(np.sin) is np.sin
    assert convert(numbers) is numbers
    scope = {}
    exec("def f(x):\n    if x > 0:\n        return x\n    return -x", scope)
    assert convert(scope["f"]) is scope["f"]
    with pytest.raises(TracerError, match="where the source is available"):
        record(scope["f"], 1.0)


def test_converted_functions_behave_as_before():
    def f(x, /, y=2, *rest, z: int = 3, **more):
        """Doc."""
        if x > 0:
            x: int = x + y
        return x, y, rest, z, more

    g = convert(f)
    assert g is not f
    assert convert(f).__code__ is g.__code__
    assert g.__doc__ == "Doc." and g.__name__ == "f" and g.__defaults__ == (2,)
    for args, kwargs in (((1,), {}), ((-1, 5, 6), {"z": 7, "w": 8})):
        assert g(*args, **kwargs) == f(*args, **kwargs)


def test_unbound_names_are_errors_as_before():
    def f(x):
        if x > 0:
            y = 1
        return y

    with pytest.raises(NameError):
        convert(f)(-1)


def test_tracebacks_and_equations_name_the_users_line():
    def f(x):
        while np.sum(x) < 9:
            x = x + np.ones(3) * undefined_name  # noqa: F821
        return x

    line = f.__code__.co_firstlineno + 2
    with pytest.raises(NameError) as caught:
        record(f, np.ones(3))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert (frames[-1].filename, frames[-1].lineno, frames[-1].name) == (__file__, line, "f")

    def g(x):
        while np.sum(x) < 9:
            x = x * 2
        return x

    (loop,) = [e for e in record(g, np.ones(3)).equations if e.primitive.name == "while"]
    (double,) = [e for e in loop.params["body"].equations if e.primitive.name == "multiply"]
    assert (double.source.file, double.source.line, double.source.function) == (
        __file__,
        g.__code__.co_firstlineno + 2,
        "g",
    )


# -- the language ------------------------------------------------------------------------------------------------------

COUNT = 0


class Base:
    def scale(self, x):
        return 3 * x


class Derived(Base):
    def scale(self, x):
        if x > 1:
            return super().scale(x)
        return super().scale(-x) if x > 0 else x


def factorial(n, x):
    return x if n <= 1 else n * factorial(n - 1, x)


def twice(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return 2 * f(*args, **kwargs)

    return inner


@twice
def decorated(x, *, low):
    while x > low:
        x = x / 2
    return x


def test_super_recursion_and_decorators():
    check(lambda x: Derived().scale(x), (2.0,), (0.5,), (-1.0,))
    check(lambda x: factorial(4, x), (2.0,))
    check(lambda x: decorated(*[x], **{"low": 1.0}), (9.0,), (0.5,))


def test_scopes():
    def f(x):
        global COUNT
        COUNT = 0
        steps = 0

        def advance(v):
            nonlocal steps
            steps += 1
            return v + 1 if v < 3 else v * 2

        while x < 10:
            x = advance(x)
        y, z = (lambda a: a if a > 11 else -a)(x), (lambda a: a)(x)
        COUNT += 1
        return y + z

    graph = record(f, 0.5)
    for x in (0.5, 9.5, 20.0):
        assert_allclose(evaluate(graph, x)[0], f(x))


def test_statements_of_all_kinds():
    def f(x, mode="b"):
        data = {"k": x, "list": [1.0, 2.0]}
        match mode:
            case "a":
                data["k"] = 0 * x
            case _:
                if x > 0:
                    data["k"] = data["k"] + 1
        while (half := data["k"] / 2) > 1:
            data["k"] = half
        for i, (a, *b) in enumerate(zip(data["list"], (3, 4), strict=True)):
            if x > a:
                data["list"][i] = x * b[0]
                continue
            data["list"][i] -= 1
        try:
            total = sum(data["list"]) if f"{mode}" == "b" else 0.0
        except ValueError:
            return x
        else:
            total += 1
        del a
        return total * data["k"] + half

    check(f, (9.0,), (1.5,), (0.5,), (-1.0,))


def test_return_inside_a_concrete_with_and_loop():
    def f(x):
        for k in range(3):
            with np.errstate():
                if k == 1:
                    return x * k
        return x

    assert convert(f)(2.0) == f(2.0) == 2.0
    assert evaluate(record(f, 2.0), 2.0)[0] == 2.0


def test_comparisons_of_other_things():
    def f(x, names=("a", "b")):
        ok = "a" in names and None is None and not (names == ("b",))
        return x if ok and 1 < len(names) <= 2 else -x

    check(f, (2.0,), (-2.0,))
