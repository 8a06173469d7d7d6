"""The namespace core.numpy, the methods of Tensor, and the list of what NumPy has and we do not trace."""

import copy
import math

import numpy as np
import pytest

from tests.twins.traced import assert_as_numpy, assert_same
from triskele.core import numpy as cnp
from triskele.core.compile.jit import jit
from triskele.core.errors import TracerError
from triskele.core.tensor import FUNCTIONS, Tensor
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.vmap import vmap

# Dates, files, Python objects, bits packed in bytes, and set operations whose shapes depend on values
UNTRACED = {
    "apply_over_axes", "busday_count", "busday_offset", "datetime_as_string", "einsum_path", "histogram2d",
    "histogram_bin_edges", "histogramdd", "intersect1d", "is_busday", "ix_", "packbits", "polydiv", "roots", "save",
    "savetxt", "savez", "savez_compressed", "setdiff1d", "setxor1d", "union1d", "unpackbits",
}  # fmt: skip


def test_every_numpy_function_is_traced_or_listed():
    dispatched = {name for name, f in vars(np).items() if type(f) is type(np.sum)}
    assert {name for name in dispatched if getattr(np, name) not in FUNCTIONS} == UNTRACED


def test_functions_that_are_not_traced_say_so():
    with pytest.raises(TypeError, match=r"numpy\.roots: no traced form"):
        vjp(np.roots, np.ones(3))


# -- core.numpy --------------------------------------------------------------------------------------------------------


def test_namespace_is_the_array_api():
    """Names of the Python array API standard 2024.12, main namespace and extensions."""
    names = """abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and bitwise_invert
    bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_to can_cast ceil clip complex128 complex64 concat conj
    copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1 eye finfo flip float32
    float64 floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag inf int16 int32 int64 int8 isdtype isfinite isinf isnan
    less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean
    meshgrid min minimum moveaxis multiply nan negative newaxis nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod real
    reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take
    take_along_axis tan tanh tensordot tile tril triu trunc uint16 uint32 uint64 uint8 unique_all unique_counts unique_inverse unique_values unstack var
    vecdot where zeros zeros_like linalg fft __array_namespace_info__ __array_api_version__""".split()  # noqa: E501
    assert not [name for name in names if not hasattr(cnp, name)]


def test_outside_of_transforms_it_is_numpy():
    for value in (
        cnp.zeros(3),
        cnp.asarray([1, 2]),
        cnp.full((2, 2), 1.5),
        cnp.sum([1.0, 2.0]),
        cnp.sin(np.ones(2)),
        cnp.stack([[1], [2]]),
    ):
        assert isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, Tensor)
    assert cnp.asarray(x := np.ones(2)) is x
    assert cnp.array(x) is not x


@pytest.mark.parametrize(
    "f",
    [
        lambda x: cnp.asarray([x[0], [1.0, 2.0, 3.0]][:1] + [[x[1], 2.0, x[0] * x[1]]][:0]),
        lambda x: cnp.array([[x[0], 1.0], (x[1], x[2] ** 2)]),
        lambda x: cnp.sum([x[0], 2 * x[1]]),
        lambda x: cnp.full((2, 3), x[1]),
        lambda x: cnp.full(2, x[None, :1]),
        lambda x: np.sum(np.take(np.outer(x[:0], x[:0]), [0, -1], axis=1)) + x,
        lambda x: cnp.mean([[x[0], x[1]], [1.0, 2.0]], axis=0),
        lambda x: cnp.stack([x, x]),
        lambda x: cnp.array(x, ndmin=2),
        lambda x: cnp.asarray(x, dtype=np.float32),
        lambda x: cnp.take(np.arange(9.0), np.argsort(x)),
        lambda x: cnp.maximum(0.5, [x[0], x[1]]),
        lambda x: cnp.concat([x, x]),
        lambda x: cnp.linalg.norm(cnp.asarray([x[0], x[1]])),
        lambda x: cnp.zeros_like(x),
    ],
)
def test_lists_of_traced_values(f):
    x = np.array([0.3, -1.2, 2.0])
    expected = f(x)
    for how, found in {
        "tape": vjp(f, x)[0],
        "dual": jvp(f, (x,), (x,))[0],
        "jit": jit(f)(x),
        "vmap": vmap(f)(x[None])[0],
    }.items():
        assert_same(found, expected, 1e-15, how)


def test_sorting_downwards_is_stable():
    x = np.array([2.0, 1.0, 3.0, 1.0, 3.0])
    assert (
        cnp.argsort(x, descending=True).tolist()
        == jit(lambda x: cnp.argsort(x, descending=True))(x).tolist()
        == [2, 4, 0, 1, 3]
    )
    assert vjp(lambda x: cnp.sort(x, descending=True), x)[0].tolist() == [3, 3, 2, 1, 1]


def test_derivative_through_a_list():
    assert grad(lambda x: cnp.sum(cnp.asarray([x, x * x])))(3.0) == 7
    assert grad(lambda x: cnp.sum(cnp.full((2, 3), x)))(1.0) == 6


# -- methods of Tensor
# ------------------------------------------------------------------------------------------------------------

METHODS = {
    "all": lambda x: (x > -9).all(axis=0),
    "any": lambda x: (x > 1).any(),
    "argmax": lambda x: x.argmax(axis=1),
    "argmin": lambda x: x.argmin(),
    "argsort": lambda x: x.argsort(axis=0),
    "astype": lambda x: x.astype("float32"),
    "clip": lambda x: x.clip(-1, 1),
    "compress": lambda x: x.compress([True, False, True], axis=1),
    "conj": lambda x: x.conj(),
    "copy": lambda x: x.copy(),
    "cumprod": lambda x: x.cumprod(),
    "cumsum": lambda x: x.cumsum(1),
    "diagonal": lambda x: x.diagonal(),
    "dot": lambda x: x.dot(x.T),
    "flatten": lambda x: x.flatten("F"),
    "imag": lambda x: x.imag,
    "max": lambda x: x.max(0),
    "mean": lambda x: x.mean(0),
    "min": lambda x: x.min(),
    "prod": lambda x: x.prod(axis=1),
    "ravel": lambda x: x.ravel(),
    "real": lambda x: x.real,
    "repeat": lambda x: x.repeat(2, 0),
    "reshape": lambda x: x.reshape(2, 6),
    "round": lambda x: x.round(1),
    "squeeze": lambda x: x[None].squeeze(),
    "std": lambda x: x.std(),
    "sum": lambda x: x.sum((0, 1), keepdims=True),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "take": lambda x: x.take([1, 0], axis=0),
    "trace": lambda x: x.trace(1),
    "transpose": lambda x: x.transpose(),
    "var": lambda x: x.var(1, ddof=1),
    "flat": lambda x: list(x.flat)[1] + x.flat[2:4],
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "attributes": lambda x: x * (x.ndim + x.size + len(x) + x.shape[1] + x.itemsize + x.nbytes),
    "iteration": lambda x: [r[0] + r for r in x],
    "matmul": lambda x: x @ x.T,
    "divmod": lambda x: divmod(x, 0.7),
    "abs": lambda x: abs(x),
    "invert": lambda x: ~(x > 0),
    "rpow": lambda x: 2.0**x,
    "unpacking": lambda x: (lambda a, b, c, d: a * b + c - d)(*x),
    "ceil": lambda x: (math.floor(x[0, 0]), math.ceil(x[0, 0]), round(x[0, 0]), math.trunc(x[0, 0])),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name, rng):
    x = rng.permutation(np.linspace(-1.23, 1.42, 12)).reshape(4, 3)
    if name == "ceil":  # for ndarrays Python gives ints, which have no derivative to lose
        assert_same(vjp(METHODS[name], x)[0], tuple(float(v) for v in METHODS[name](x)), 0, "tape")
    else:
        assert_as_numpy(METHODS[name], x, grads=name not in ("round", "divmod", "astype"))


def test_values_of_integers_can_be_taken_out_floats_cannot():
    def f(x):
        k = (x > 0).sum()
        assert k.item() == 2 and int(k) == 2 and [k, 1][0] == k and k.tolist() == 2
        return x[int(np.argmax(x))]

    assert grad(f)(np.array([1.0, -2.0, 3.0])).tolist() == [0, 0, 1]
    for take in (lambda x: x[0].item(), lambda x: x.tolist()):
        with pytest.raises(TracerError):
            grad(take)(np.ones(2))
    with pytest.raises(TracerError, match="no value yet"):
        jit(lambda x: x.item())(3)


def test_copies_are_independent():
    def f(x):
        y, z = x.copy(), copy.copy(x)
        y[0], z[1] = 10.0, 20.0
        return x, y, z

    for found in (vjp(f, np.ones(2))[0], jit(f)(np.ones(2))):
        assert_same(found, (np.ones(2), np.array([10.0, 1.0]), np.array([1.0, 20.0])), 0, "copy")


@pytest.mark.parametrize("f", [lambda x: x.view(np.int64), lambda x: x.tobytes(), lambda x: x.resize(3)])
def test_what_needs_memory_is_refused(f):
    with pytest.raises(TracerError):
        vjp(f, np.ones(2))


def test_like_makes_arrays_to_assign_into():
    def f(x):
        y = np.zeros(4, like=x)
        y[1:3] = x
        z = np.empty_like(x, shape=(2, 2))
        z[:] = np.eye(2, like=x) * 3
        return y, z, np.full(2, 1.5, like=x), np.array([x[0], 2.0], like=x), np.arange(3, like=x) * x[0]

    x = np.array([5.0, 6.0])
    expected = (np.array([0, 5.0, 6, 0]), 3 * np.eye(2), np.full(2, 1.5), np.array([5.0, 2]), np.arange(3) * 5.0)
    for how, found in {
        "tape": vjp(f, x)[0],
        "jit": jit(f)(x),
        "dual": jvp(f, (x,), (x,))[0],
        "vmap": [v[0] for v in vmap(f)(x[None])],
    }.items():
        assert_same(found, list(expected) if how == "vmap" else expected, 0, how)
