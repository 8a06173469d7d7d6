"""The namesakes of SciPy's functions: same values on plain arrays, derivatives on traced ones."""

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.optimize
import scipy.special

from tests.twins.derivatives import check_derivatives
from triskele import core
from triskele.core.errors import TracerError


@pytest.mark.parametrize("name", ["linalg", "special", "fft"])
def test_every_name_is_one_of_scipys(name):
    module = getattr(core.scipy, name)
    for f in module.__all__:
        assert hasattr(getattr(scipy, name), f), f
        assert getattr(module, f).__doc__


def matrices(rng):
    a = rng.normal(size=(4, 4)) + 3 * np.eye(4)
    z = a + 1j * rng.normal(size=(4, 4))
    return a, a @ a.T, z, z @ z.conj().T


def test_linear_algebra_has_scipys_defaults(rng):
    a, p, z, h = matrices(rng)
    sl, cl = scipy.linalg, core.scipy.linalg
    for m in (p, h):
        for lower in (False, True):
            np.testing.assert_allclose(cl.cholesky(m, lower), sl.cholesky(m, lower), atol=1e-12)
            np.testing.assert_allclose(
                cl.eigvalsh(np.tril(m) if lower else np.triu(m), lower=lower), sl.eigvalsh(m), rtol=1e-10
            )
    for mode in ("full", "economic", "r"):
        for x, y in zip(cl.qr(z[:, :2], mode=mode), sl.qr(z[:, :2], mode=mode), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-12)
    np.testing.assert_allclose(cl.svd(a)[1], sl.svd(a)[1])
    np.testing.assert_allclose(cl.svd(a[:, :2])[0].shape, (4, 4))


@pytest.mark.parametrize("lower", [False, True])
def test_generalized_eigenvalues(rng, lower):
    a, p, _, h = matrices(rng)
    b = p / 10 + np.eye(4)
    part = np.tril if lower else np.triu
    w, v = core.scipy.linalg.eigh(part(h), part(b), lower=lower)
    np.testing.assert_allclose(w, scipy.linalg.eigh(h, b)[0], rtol=1e-10)
    np.testing.assert_allclose(h @ v, b @ v * w, atol=1e-9)
    np.testing.assert_allclose(v.conj().T @ b @ v, np.eye(4), atol=1e-10)
    check_derivatives(lambda x: core.scipy.linalg.eigvalsh(a + x + x.T, b), p / 10)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("form", ["gen", "sym", "her", "pos", "lower triangular", "upper triangular"])
def test_solve_with_structure(rng, form, transposed):
    a, p, z, h = matrices(rng)
    whole = {
        "gen": a,
        "sym": a + a.T,
        "her": h,
        "pos": p,
        "lower triangular": np.tril(a),
        "upper triangular": np.triu(a),
    }[form]
    b = rng.normal(size=4)
    for lower in (False, True):
        given = (np.tril if lower else np.triu)(whole) if form in ("sym", "her", "pos") else whole
        want = np.linalg.solve(whole.T if transposed else whole, b)
        np.testing.assert_allclose(
            core.scipy.linalg.solve(given, b, lower, assume_a=form, transposed=transposed), want, rtol=1e-9
        )


def test_unknown_names_and_forms():
    with pytest.raises(AttributeError, match="stats"):
        core.scipy.stats  # noqa: B018
    with pytest.raises(ValueError, match="assume_a"):
        core.scipy.linalg.solve(np.eye(2), np.ones(2), assume_a="banded")
    with pytest.raises(ValueError, match="mode"):
        core.scipy.linalg.qr(np.eye(2), mode="raw")


def test_plain_ufuncs_of_scipy_are_differentiated_and_compiled():
    np.testing.assert_allclose(core.grad(scipy.special.gammaln)(3.0), scipy.special.digamma(3.0))
    x = np.linspace(0.1, 2, 5)
    np.testing.assert_allclose(
        core.jit(lambda x: scipy.special.erf(x) + scipy.special.j0(x))(x),
        scipy.special.erf(x) + scipy.special.j0(x),
        rtol=1e-14,
    )


def test_functions_given_directly_are_those_of_core():
    def f(x):
        return scipy.special.logsumexp(x)

    x = np.array([0.0, 1.0])
    for g in (f, scipy.special.logsumexp, f):  # one leaves the others as they were
        for how in (core.grad, lambda g: core.jit(core.grad(g)), lambda g: core.grad(core.jit(g))):
            np.testing.assert_allclose(how(g)(x), scipy.special.softmax(x), rtol=1e-14)
    np.testing.assert_allclose(core.jit(scipy.special.logsumexp)(x), f(x), rtol=1e-14)
    np.testing.assert_allclose(core.vmap(scipy.special.softmax)(x[:, None]), 1)


def test_solvers_in_c_say_what_they_cannot_take():
    with pytest.raises(TracerError, match=r"float\(\): .* is traced"):  # and no SystemError
        core.grad(lambda a: scipy.optimize.brentq(lambda t: t**3 - a, 0, 3))(2.0)


@pytest.mark.parametrize("lower", [False, True])
def test_hermitian_matrices_are_read_as_lapack_reads_them(rng, lower):
    """One triangle; imaginary parts on the diagonal do not count."""
    z, b = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)), rng.normal(size=(4, 2))
    expected = scipy.linalg.solve(z, b, lower=lower, assume_a="her")
    np.testing.assert_allclose(core.scipy.linalg.solve(z, b, lower, assume_a="her"), expected, rtol=1e-9)


def test_lu_solve_wants_one_matrix():
    with pytest.raises(ValueError, match="one matrix"):
        core.scipy.linalg.lu_solve((np.ones((2, 3, 3)), np.zeros((2, 3), int)), np.ones((2, 3)))
