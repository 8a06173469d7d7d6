"""Arrays of other libraries as arguments of transforms; PyTorch and JAX have tests of their own."""

import numpy as np
import pandas
import pytest

from triskele import core
from triskele.core.foreign import as_plain


class Foreign:
    """An array of another library, on a device given by its DLPack number."""

    def __init__(self, values, device=1, grad=False):
        self.values, self.device, self.requires_grad = np.asarray(values), device, grad

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __dlpack_device__(self):
        return (self.device, 0)


def test_transforms_take_arrays_of_other_libraries():
    x = pandas.Series([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(core.jit(lambda v: 2 * v)(x), [2, 4, 6])
    np.testing.assert_array_equal(core.grad(lambda v: np.sum(v**2))(x), [2, 4, 6])
    np.testing.assert_array_equal(core.vmap(np.square)(x), [1, 4, 9])
    np.testing.assert_array_equal(core.jvp(np.square, (x,), (x,))[1], [2, 8, 18])
    np.testing.assert_array_equal(core.vjp(np.square, x)[1](x)[0], [2, 8, 18])
    np.testing.assert_array_equal(np.diag(core.jacrev(np.square)(x)), [2, 4, 6])
    np.testing.assert_array_equal(core.grad(lambda w, v: w @ v)(np.ones(3), x), x)  # no derivative by this one


def test_results_have_memory_of_their_own():
    x = Foreign([1.0, 2.0])
    for result in (core.jit(lambda v: v)(x), core.vjp(lambda v: v, x)[0]):
        result[0] = 5.0
    assert x.values[0] == 1.0


def test_big_endian_and_read_only_memory():
    values = np.arange(6, dtype=">f8")[::2]
    values.flags.writeable = False
    np.testing.assert_array_equal(core.jit(lambda v: v + 1)(Foreign(values)), [1, 3, 5])


@pytest.mark.parametrize("transform", [core.jit, core.grad, core.vmap])
@pytest.mark.parametrize(
    "array, message",
    [
        (Foreign([1.0], device=2), "CPU's memory, got a"),
        (Foreign([1.0], grad=True), "core.to_torch"),
        (Foreign(["a"]), "float32 or float64"),
        (pandas.Series(["a", None]), "float32 or float64"),
    ],
)
def test_refusals_say_what_to_do(transform, array, message):
    with pytest.raises(TypeError, match=message):
        transform(np.sum)(array)
    with pytest.raises(TypeError, match=message):  # inside, next to traced values
        core.grad(lambda v: np.sum(v * 1.0 @ array))(np.ones(1))


def test_own_values_pass_unchanged():
    for x in (1, 2.0, np.float32(1), np.ones(2), None, "text"):
        assert as_plain(x, "f") is x
