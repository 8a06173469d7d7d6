"""Writing into a slice of a traced array writes into the array, as with NumPy's views."""

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import TracerError


def chained(a):
    a[0][1] = 5.0 * a[1, 1]
    return a


def named_row(a):
    row = a[1]
    row += 1.0
    row[2] = a[0, 0] ** 2
    return a


def slice_of_slice(a):
    inner = a[:, 1:][1:]
    inner *= 3.0
    return a


def rows(a):
    for row in a:
        row[0] = row[1] * 2.0
        break
    return a


def augmented(a):
    a[0] += a[1]
    a[1:, ::2] *= 2.0
    return a


@pytest.mark.parametrize("f", [chained, named_row, slice_of_slice, rows, augmented], ids=lambda f: f.__name__)
def test_as_numpy(f, rng):
    x, weight = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    expected = f(x.copy())

    def g(x):
        return f(x * 1.0)

    if f is not rows:
        np.testing.assert_allclose(core.jit(g)(x), expected)
    np.testing.assert_allclose(core.vmap(g)(x[None])[0], expected)
    np.testing.assert_allclose(core.jvp(g, (x,), (weight,))[0], expected)
    core.check_grads(lambda x: np.sum(weight * g(x)), (x,), order=1)


def test_a_slice_of_an_array_written_to_meanwhile_is_up_to_date():
    def f(x):
        a = x * 1.0
        row = a[0]
        a[0] = 7.0 * x[1]
        row[1] += 1.0
        return np.sum(a * row)

    x = np.arange(6.0).reshape(2, 3)
    assert core.jit(f)(x) == f(x)
    core.check_grads(f, (x,), order=2)


def test_a_copy_is_independent():
    def f(x):
        a = x * 1.0
        row = a[0].copy()
        row += 1.0
        return np.sum(a)

    assert core.jit(f)(np.ones((2, 3))) == 6.0


def test_rows_of_a_compiled_loop_are_refused():
    with pytest.raises(TracerError, match=r"the loop variable is a row of a traced array.*assign a\[i, ...\]"):
        core.jit(lambda x: rows_all(x * 1.0))(np.ones((2, 3)))


def rows_all(a):
    for row in a:
        row[0] = row[1] * 2.0
    return a
