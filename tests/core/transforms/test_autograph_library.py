"""Library functions that cannot take traced values: redirected in converted functions, errors that name a substitute
elsewhere.
"""

import math

import numpy as np
import pytest
import scipy
import scipy.linalg
import scipy.special
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from triskele.core.compile.jit import jit
from triskele.core.errors import TracerError
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.vmap import vmap

A = np.array([[2.0, 0.3], [0.4, 1.0]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: logsumexp(x, axis=0),
        lambda x: scipy.special.logsumexp(x, 1, b=np.array([1.0, 2.0]), keepdims=True),
        lambda x: scipy.special.softmax(x, axis=-1) + scipy.special.log_softmax(x, axis=-1),
        lambda x: scipy.linalg.expm(x),
        lambda x: scipy.linalg.solve_triangular(x, x[0], 0, True, check_finite=False),
        lambda x: scipy.linalg.pinv(x, rtol=0.3),
        lambda x: scipy.linalg.pinv(x, atol=1.2, rtol=0.0),
        lambda x: scipy.linalg.expm_frechet(x, x.T)[1],
        lambda x: scipy.linalg.block_diag(x, x),
        lambda x: scipy.special.zeta(x + 1),
        lambda x: scipy.fft.rfft(x, axis=0, workers=1).real,
        lambda x: np.array([x[0, 0], [1.0, x[1, 1]][1]]) + np.full(2, x[0, 1]),
        lambda x: np.asarray([[1.0, 2.0], x[0]], dtype=np.float32),
    ],
    ids=lambda f: None,
)
def test_calls_are_redirected_under_jit(f):
    assert_allclose(jit(f)(A), f(A), rtol=1e-6 if f(A).dtype == np.float32 else 1e-12)


def test_derivatives_and_functions_held_in_variables():
    def f(x, reduce):
        return reduce(x) ** 2

    expected = 2 * logsumexp(A) * scipy.special.softmax(A)
    assert_allclose(jit(grad(f), static_argnames="reduce")(A, reduce=logsumexp), expected, rtol=1e-12)


def test_plain_arguments_stay_with_the_library():
    assert jit(lambda x: x * logsumexp(A, return_sign=True)[0])(2.0) == 2 * logsumexp(A)


def test_options_that_are_not_traced_are_refused():
    with pytest.raises(TypeError, match="pivoting= is not supported for traced values"):
        jit(lambda x: scipy.linalg.qr(x, pivoting=True))(A)


@pytest.mark.parametrize(
    "name",
    [
        "special.logsumexp",
        "special.softmax",
        "special.zeta",
        "linalg.expm",
        "linalg.cholesky",
        "linalg.svd",
        "fft.rfft",
    ],
)
def test_without_source_the_error_names_what_to_use(name):
    f = eval(f"lambda x: np.sum(scipy.{name}(x).real)", {"np": np, "scipy": scipy})
    with pytest.raises(TypeError, match=f"use triskele.core.scipy.{name}"):
        grad(f)(A)


def test_other_functions_of_scipy():
    with pytest.raises(TracerError, match=r"(?s)scipy.linalg.schur: SciPy's function cannot take .*custom_op"):
        grad(lambda x: np.sum(scipy.linalg.schur(x)[0]))(A)


def test_functions_of_math():
    from math import hypot

    def f(x):
        return (
            math.sin(x)
            + math.log(x, 2)
            + math.log(x)
            + math.sqrt(2) * math.atan2(x, 3)
            + hypot(x, 2.0)
            + math.pow(x, 3)
        )

    assert_allclose(jit(f)(1.5), f(1.5), rtol=1e-14)
    assert_allclose(jit(grad(f))(1.5), (f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6, rtol=1e-8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: A.dot(x),
        lambda x: A.T.dot(x),
        lambda x: A.clip(0, x[0]),
        lambda x: A.clip(min=x[1]),
        lambda x: x * A[0].searchsorted(x, side="right"),
        lambda x: x + A.take(np.argsort(x), axis=0).sum(0),
        lambda x: x * A.clip(0, 1).take([0, 1]).dot([1.0, 2.0]),
    ],
)
def test_methods_of_plain_arrays_take_traced_arguments(f):
    x = np.array([0.7, 0.4])
    expected = f(x)
    for found in (jit(f)(x), vjp(f, x)[0], jvp(f, (x,), (x,))[0], vmap(f)(x[None])[0]):
        assert_allclose(found, expected, rtol=1e-14)
    assert_allclose(jit(grad(lambda x: np.sum(A.dot(x))))(x), A.sum(0))
