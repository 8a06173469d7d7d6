"""Plain arrays changed in place between use and backward pass: the derivative is right, or an error says what
happened.
"""

import numpy as np
import pytest

from triskele import core


def test_a_small_buffer_may_be_used_again():
    def f(x):
        buffer, total = np.zeros(3), 0.0
        for k in range(4):
            buffer[:] = k
            total = total + np.sum(buffer * x)
        return total

    np.testing.assert_array_equal(core.grad(f)(np.ones(3)), [6.0, 6.0, 6.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.__setitem__(7, 5.0),
        lambda a: a.__setitem__(slice(None), a[::-1].copy()),
        lambda a: a.__imul__(-1),
    ],
    ids=["one element", "reversed", "negated"],
)
def test_a_large_buffer_that_was_changed_is_an_error(change, dtype):
    buffer = np.random.default_rng(0).normal(size=10_000).astype(dtype)

    def f(x):
        y = np.real(np.sum(buffer * x))
        change(buffer)
        return y

    with pytest.raises(ValueError, match=r"multiply: an array of shape \(10000,\) must stay as it is.*work on a copy"):
        core.grad(f)(2.0)


def test_results_and_arguments_of_vjp_belong_to_the_caller():
    x = np.array([0.0, 1.0])
    out, pullback = core.vjp(np.exp, x)
    expected = np.exp(x)
    out += 1
    x += 1
    np.testing.assert_allclose(pullback(np.ones(2))[0], expected)
