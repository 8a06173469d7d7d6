"""Linear algebra: NumPy's and SciPy's values, derivatives in both modes to second order, batches, errors."""

import numpy as np
import pytest

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_batched, check_derivatives
from triskele.core.compile.jit import jit
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.ops.linalg.positive import positive_inverse
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.vmap import vmap


def traced(f, *args):
    """Values of `f` computed with Tensors, as a tuple; the graph must have said their shapes and dtypes."""

    def flat(*xs):
        out = f(*xs)
        return list(out) if isinstance(out, tuple) else [out]

    graph, _ = make_graph(flat, [spec_of(a) for a in args])
    outs = evaluate(graph, *args)
    for o, spec in zip(outs, graph.out_specs, strict=True):
        assert spec.shape == np.shape(o) and spec.dtype == np.result_type(o), (spec, np.shape(o), np.result_type(o))
    return tuple(outs)


def general(rng, *shape, dtype=float):
    x = rng.normal(size=shape) * 0.5
    if np.dtype(dtype).kind == "c":
        x = x + 0.5j * rng.normal(size=shape)
    return (x + 2 * np.eye(*shape[-2:])).astype(dtype)


def hermitian(rng, *shape, dtype=float):
    x = general(rng, *shape, dtype=dtype)
    return x + np.conj(np.swapaxes(x, -1, -2)) + np.diag(np.arange(shape[-1]))


def positive(rng, *shape, dtype=float):
    x = general(rng, *shape, dtype=dtype)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])


DTYPES = (float, complex)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "f", [np.linalg.inv, np.linalg.det, lambda a: np.linalg.matrix_power(a, 5), lambda a: np.linalg.matrix_power(a, -2)]
)
def test_functions_of_a_square_matrix(rng, f, dtype):
    for shape in ((3, 3), (2, 3, 3)):
        a = general(rng, *shape, dtype=dtype)
        np.testing.assert_allclose(traced(f, a)[0], f(a), rtol=1e-11)
        check_derivatives(f, a)
    check_batched(f, general(rng, 3, 3, dtype=dtype), rtol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slogdet(rng, dtype):
    a = general(rng, 2, 3, 3, dtype=dtype)
    sign, log = traced(np.linalg.slogdet, a)
    np.testing.assert_allclose(sign * np.exp(log), np.linalg.det(a), rtol=1e-12)
    check_derivatives(lambda x: tuple(np.linalg.slogdet(x)), a)
    check_batched(lambda x: tuple(np.linalg.slogdet(x)), a[0])


def test_gradient_of_det_at_a_singular_matrix():
    np.testing.assert_allclose(grad(np.linalg.det)(np.array([[1.0, 2.0], [2.0, 4.0]])), [[4, -2], [-2, 1]], atol=1e-14)
    np.testing.assert_allclose(grad(np.linalg.det)(np.zeros((3, 3))), np.zeros((3, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [
        ((3, 3), (3,)),
        ((3, 3), (3, 2)),
        ((2, 3, 3), (3, 2)),
        ((3, 3), (4, 3, 2)),
        ((4, 1, 3, 3), (2, 3, 2)),
        ((2, 3, 3), (3,)),
    ],
)
def test_solve(rng, shape_a, shape_b, dtype):
    a, b = general(rng, *shape_a, dtype=dtype), rng.normal(size=shape_b)
    np.testing.assert_allclose(traced(np.linalg.solve, a, b)[0], np.linalg.solve(a, b), rtol=1e-12)
    check_derivatives(np.linalg.solve, a, b)
    if len(shape_a) == len(shape_b) == 2:
        check_batched(np.linalg.solve, a, b)


def test_integers_become_float64():
    a = np.array([[2, 1], [1, 3]])
    assert traced(np.linalg.inv, a)[0].dtype == float
    np.testing.assert_allclose(traced(np.linalg.solve, a, np.array([1, 2]))[0], [0.2, 0.6])


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(rng, dtype):
    a = positive(rng, 2, 3, 3, dtype=dtype)
    np.testing.assert_allclose(traced(np.linalg.cholesky, a)[0], np.linalg.cholesky(a), rtol=1e-12)
    np.testing.assert_allclose(
        traced(lambda x: np.linalg.cholesky(x, upper=True), a)[0],
        np.linalg.cholesky(a, upper=True),
        rtol=1e-12,
        atol=1e-14,
    )
    check_derivatives(
        lambda x: np.linalg.cholesky(x @ np.conj(np.swapaxes(x, -1, -2)) + 2 * np.eye(3)),
        general(rng, 2, 3, 3, dtype=dtype),
    )
    check_batched(lambda x: np.linalg.cholesky(x @ x.T + np.eye(3)), rng.normal(size=(3, 3)))


def test_gradient_of_cholesky_is_symmetric(rng):
    a = positive(rng, 3, 3)
    g = grad(lambda x: 2 * np.sum(np.log(np.diagonal(np.linalg.cholesky(x)))))(a)
    np.testing.assert_allclose(g, np.linalg.inv(a), rtol=1e-10)


def test_cholesky_reads_one_triangle(rng):
    a = positive(rng, 3, 3)
    np.testing.assert_allclose(traced(np.linalg.cholesky, np.tril(a))[0], np.linalg.cholesky(a), rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "a", "error", "message"),
    [
        (np.linalg.inv, np.zeros((2, 2)), np.linalg.LinAlgError, "Singular"),
        (np.linalg.cholesky, -np.eye(2), np.linalg.LinAlgError, "positive definite"),
        (np.linalg.inv, np.zeros((2, 3)), np.linalg.LinAlgError, "square"),
        (np.linalg.det, np.zeros(3), np.linalg.LinAlgError, "two-dimensional"),
        (lambda a: np.linalg.solve(a, np.ones(3)), np.eye(2), ValueError, "as many rows"),
        (np.linalg.inv, np.eye(2, dtype=np.float16), TypeError, "float16"),
    ],
)
def test_errors_are_numpys(f, a, error, message):
    with pytest.raises(error, match=message):
        vjp(f, a)


# -- factorizations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(rng, dtype, uplo):
    a = hermitian(rng, 2, 3, 3, dtype=dtype)
    w, v = traced(lambda x: tuple(np.linalg.eigh(x, uplo)), a)
    np.testing.assert_allclose(w, np.linalg.eigh(a)[0], rtol=1e-12)
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-12)

    def h(x):
        return x + np.conj(np.swapaxes(x, -1, -2))

    x = a / 2
    weights = rng.normal(size=(3, 3))
    check_derivatives(lambda x: np.linalg.eigvalsh(h(x), uplo), x)
    if dtype is float:
        check_derivatives(lambda x: tuple(np.linalg.eigh(h(x), uplo)), x)
        check_batched(lambda x: tuple(np.linalg.eigh(h(x))), x[0])
    else:  # vectors have a free phase: only what does not see it has a derivative
        check_derivatives(lambda x: np.sum(weights * np.abs(np.linalg.eigh(h(x))[1]) ** 2, axis=(-1, -2)), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig(rng, dtype):
    a = np.diag([1.0, 3.0, 5.0]) + general(rng, 2, 3, 3, dtype=dtype)
    w, v = traced(lambda x: tuple(np.linalg.eig(x)), a)
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-12)
    check_derivatives(np.linalg.eigvals, a)
    check_derivatives(lambda x: tuple(np.linalg.eig(x)), a)
    check_batched(np.linalg.eigvals, a[0], rtol=1e-11)


def test_eigenvalues_of_a_rotation_are_complex():
    a = np.array([[0.0, -1.0], [1.0, 0.0]])
    np.testing.assert_allclose(sorted(traced(np.linalg.eigvals, a)[0].imag), [-1, 1])
    np.testing.assert_allclose(
        grad(lambda x: np.sum(np.abs(np.linalg.eigvals(x)) ** 2))(a), 2 * np.array([[0, -1], [1, 0]]), atol=1e-12
    )


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4), (2, 4, 3)])
def test_svd(rng, shape):
    a = rng.normal(size=shape) + np.eye(*shape[-2:]) * np.arange(1, shape[-1] + 1) * 2
    u, s, vh = traced(lambda x: tuple(np.linalg.svd(x, full_matrices=False)), a)
    np.testing.assert_allclose((u * s[..., None, :]) @ vh, a, atol=1e-12)
    check_derivatives(lambda x: tuple(np.linalg.svd(x, full_matrices=False)), a)
    check_derivatives(lambda x: np.linalg.svd(x, compute_uv=False), a)
    check_derivatives(np.linalg.svdvals, a)
    if len(shape) == 2:
        check_batched(np.linalg.svdvals, a, rtol=1e-11)


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
def test_complex_svd_where_phases_do_not_matter(rng, shape):
    a = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    weights = rng.normal(size=min(shape))

    def truncated(x):
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        return (u * (weights * s**2)) @ vh

    check_derivatives(truncated, a)
    check_derivatives(np.linalg.svdvals, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 5), (2, 4, 3)])
def test_qr(rng, shape, dtype):
    a = general(rng, *shape, dtype=dtype)
    q, r = traced(lambda x: tuple(np.linalg.qr(x)), a)
    np.testing.assert_allclose(q @ r, a, atol=1e-13)
    np.testing.assert_allclose(r, np.linalg.qr(a)[1], atol=1e-12)
    check_derivatives(lambda x: tuple(np.linalg.qr(x)), a)
    check_derivatives(lambda x: np.linalg.qr(x, mode="r"), a)
    check_batched(lambda x: tuple(np.linalg.qr(x)), a, rtol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4), (2, 4, 3)])
def test_pinv(rng, shape, dtype):
    a = general(rng, *shape, dtype=dtype)
    np.testing.assert_allclose(traced(np.linalg.pinv, a)[0], np.linalg.pinv(a), atol=1e-12)
    check_derivatives(np.linalg.pinv, a)


@pytest.mark.parametrize("columns", [(), (2,)])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_lstsq(rng, shape, columns):
    a, b = general(rng, *shape), rng.normal(size=(shape[0], *columns))
    for got, want in zip(traced(lambda a, b: tuple(np.linalg.lstsq(a, b)), a, b), np.linalg.lstsq(a, b), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)
    check_derivatives(lambda a, b: tuple(np.linalg.lstsq(a, b))[:2], a, b)


def test_full_svd_and_complete_qr_have_values_and_say_that_derivatives_are_missing(rng):
    from triskele.core.errors import MissingRuleError

    a = rng.normal(size=(4, 2))
    for f in (lambda x: np.linalg.svd(x)[0], lambda x: np.linalg.qr(x, mode="complete")[0]):
        assert traced(f, a)[0].shape == (4, 4)
        with pytest.raises(MissingRuleError, match="full_matrices=False|mode='reduced'"):
            grad(lambda x, f=f: np.sum(f(x)))(a)


# -- norms and the rest
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms(rng, order, dtype):
    a = general(rng, 3, 4, dtype=dtype)
    np.testing.assert_allclose(traced(lambda x: np.linalg.norm(x, order), a)[0], np.linalg.norm(a, order), rtol=1e-12)
    check_derivatives(lambda x: np.linalg.norm(x, order), a)
    if order is not None:
        b = general(rng, 4, 2, 3)
        for keep in (False, True):
            f = lambda x, keep=keep: np.linalg.norm(x, order, axis=(2, 0), keepdims=keep)
            np.testing.assert_allclose(traced(f, b)[0], f(b), rtol=1e-12)


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 0.5, np.inf, -np.inf])
def test_vector_norms(rng, order):
    x = rng.uniform(0.5, 2, (3, 4)) * rng.choice([-1, 1], (3, 4))
    for f in (
        lambda x: np.linalg.norm(x[0], order),
        lambda x: np.linalg.norm(x, order, axis=0),
        lambda x: np.linalg.vector_norm(x, ord=2 if order is None else order),
    ):
        np.testing.assert_allclose(traced(f, x)[0], f(x), rtol=1e-12)
        if order != 0:
            check_derivatives(f, x)


def test_norm_of_zero_has_gradient_zero():
    for f in (np.linalg.norm, lambda x: np.linalg.norm(x, 3), np.linalg.vector_norm):
        np.testing.assert_array_equal(grad(f)(np.zeros(3)), np.zeros(3))


@pytest.mark.parametrize("p", [None, 2, -2, 1, np.inf, "fro"])
def test_condition_number(rng, p):
    a = general(rng, 3, 3)
    np.testing.assert_allclose(traced(lambda x: np.linalg.cond(x, p), a)[0], np.linalg.cond(a, p), rtol=1e-11)
    check_derivatives(lambda x: np.linalg.cond(x, p), a)


def test_tensor_forms_rank_trace_and_cross(rng):
    a = rng.normal(size=(2, 3, 6)) + np.eye(6).reshape(2, 3, 6) * 3
    b = rng.normal(size=(2, 3))
    for f, args in [
        (np.linalg.tensorsolve, (a, b)),
        (lambda x: np.linalg.tensorinv(x, 2), (a,)),
        (np.linalg.trace, (a[:, :, :3],)),
        (lambda x: np.trace(x, 1), (a,)),
        (np.cross, (b, b[::-1] + 1)),
        (lambda x, y: np.cross(x, y, axisa=0), (b.T[:, :1], b)),
        (np.linalg.cross, (b, b + b[::-1])),
        (lambda x: np.diag(x), (b[0],)),
        (lambda x: np.diag(x, -1), (b,)),
        (np.linalg.diagonal, (a,)),
        (np.diagflat, (b,)),
    ]:
        np.testing.assert_allclose(traced(f, *args)[0], f(*args), rtol=1e-11)
        check_derivatives(f, *args)
    assert traced(np.linalg.matrix_rank, np.ones((3, 3)))[0] == 1


# -- scipy.linalg ------------------------------------------------------------------------------------------------------


def scipy_cases():
    import scipy.linalg as sl

    from triskele.core.ops.linalg import functions as lf

    return {
        "expm": (lf.expm, sl.expm, lambda r, d: (general(r, 3, 3, dtype=d),)),
        "logm": (lf.logm, sl.logm, lambda r, d: (general(r, 3, 3, dtype=d) + np.eye(3),)),
        "sqrtm": (lf.sqrtm, sl.sqrtm, lambda r, d: (general(r, 3, 3, dtype=d) + np.eye(3),)),
        "sylvester": (
            lf.solve_sylvester,
            sl.solve_sylvester,
            lambda r, d: (general(r, 3, 3, dtype=d), general(r, 2, 2, dtype=d), general(r, 3, 2, dtype=d)),
        ),
        "triangular": (
            lambda a, b: lf.solve_triangular(a, b, trans="C", lower=True),
            lambda a, b: sl.solve_triangular(a, b, trans="C", lower=True),
            lambda r, d: (general(r, 3, 3, dtype=d), r.normal(size=3)),
        ),
        "lu": (lf.lu, sl.lu, lambda r, d: (general(r, 3, 3, dtype=d)[[1, 2, 0]],)),
        "lu_solve": (
            lambda a, b: lf.lu_solve(lf.lu_factor(a), b),
            np.linalg.solve,
            lambda r, d: (general(r, 3, 3, dtype=d)[[1, 2, 0]], r.normal(size=(3, 2))),
        ),
        "lu_solve_t": (
            lambda a, b: lf.lu_solve(lf.lu_factor(a), b, 1),
            lambda a, b: np.linalg.solve(a.T, b),
            lambda r, d: (general(r, 3, 3, dtype=d)[[1, 2, 0]], r.normal(size=3)),
        ),
        "cho_solve": (
            lambda x, b: lf.cho_solve(lf.cho_factor(x @ np.conj(x.T)), b),
            lambda x, b: np.linalg.solve(x @ np.conj(x.T), b),
            lambda r, d: (general(r, 3, 3, dtype=d), r.normal(size=3)),
        ),
        "cosm": (lf.cosm, sl.cosm, lambda r, d: (general(r, 3, 3, dtype=d),)),
        "sinm": (lf.sinm, sl.sinm, lambda r, d: (general(r, 3, 3, dtype=d),)),
        "lyapunov": (
            lf.solve_continuous_lyapunov,
            sl.solve_continuous_lyapunov,
            lambda r, d: (general(r, 3, 3, dtype=d), general(r, 3, 3, dtype=d)),
        ),
        "polar": (lf.polar, sl.polar, lambda r, d: (general(r, 4, 3, dtype=d),)),
        "polar_left": (
            lambda a: lf.polar(a, "left"),
            lambda a: sl.polar(a, "left"),
            lambda r, d: (general(r, 3, 4, dtype=d),),
        ),
        "circulant": (lf.circulant, sl.circulant, lambda r, d: (general(r, 1, 4, dtype=d)[0],)),
        "hankel": (lf.hankel, sl.hankel, lambda r, d: (general(r, 1, 3, dtype=d)[0], general(r, 1, 4, dtype=d)[0])),
        "block_diag": (
            lf.block_diag,
            sl.block_diag,
            lambda r, d: (general(r, 2, 3, dtype=d), general(r, 1, 2, dtype=d)),
        ),
        "toeplitz": (
            lf.toeplitz,
            sl.toeplitz,
            lambda r, d: (general(r, 1, 3, dtype=d)[0], general(r, 1, 4, dtype=d)[0]),
        ),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", list(scipy_cases()))
def test_scipy_functions(rng, name, dtype):
    f, reference, make = scipy_cases()[name]
    args = make(rng, dtype)
    want = reference(*args)
    for got, w in zip(traced(f, *args), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-10, atol=1e-12)
    check_derivatives(f, *args)


def test_expm_of_stacks_and_its_batches(rng):
    from triskele.core.ops.linalg.functions import expm

    check_derivatives(expm, rng.normal(size=(2, 2, 2)))
    check_batched(expm, rng.normal(size=(2, 2)))


def test_a_real_matrix_without_real_root_is_refused():
    from triskele.core.ops.linalg.functions import sqrtm

    with pytest.raises(np.linalg.LinAlgError, match="no real sqrtm"):
        sqrtm(np.diag([-1.0, 1.0]))


def test_singular_triangles_are_refused():
    from triskele.core.ops.linalg.functions import solve_triangular

    with pytest.raises(np.linalg.LinAlgError, match="diagonal 1"):
        solve_triangular(np.diag([1.0, 0.0]), np.ones(2))


@pytest.mark.parametrize("n", [3, 50, 101])
def test_stacks_of_triangular_systems(rng, n):
    from triskele.core.ops.linalg.functions import solve_triangular

    a, b = general(rng, 4, n, n) / n + np.eye(n), rng.normal(size=(4, n, 2))
    for lower in (False, True):
        for trans in (0, 1):
            for unit in (False, True):
                part = (np.tril if lower else np.triu)(a, (-1 if lower else 1) if unit else 0) + (
                    np.eye(n) if unit else 0
                )
                want = np.linalg.solve(np.swapaxes(part, 1, 2) if trans else part, b)
                np.testing.assert_allclose(solve_triangular(a, b, trans, lower, unit), want, rtol=1e-8, atol=1e-9)


def test_cutoffs_that_are_arrays_or_traced(rng):
    a = np.stack([np.diag([1.0, 0.5, 0.01]), np.diag([1.0, 0.2, 0.1])])
    rtol = np.array([0.1, 0.3])
    for f in (
        lambda a, r: np.linalg.pinv(a, rtol=r),
        lambda a, r: np.linalg.matrix_rank(a, rtol=r),
        lambda a, r: np.linalg.matrix_rank(a, tol=r, hermitian=True),
    ):
        np.testing.assert_allclose(vjp(lambda a, f=f: f(a, rtol), a)[0], f(a, rtol), atol=1e-13)
        np.testing.assert_allclose(vjp(f, a, rtol)[0], f(a, rtol), atol=1e-13)
    np.testing.assert_allclose(
        vmap(lambda a, r: np.linalg.pinv(a, rtol=r))(a, rtol), np.linalg.pinv(a, rtol=rtol), atol=1e-13
    )
    check_derivatives(lambda a: np.linalg.pinv(a, rtol=1e-9 * rtol), a + np.eye(3) + 0.1 * rng.normal(size=a.shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 20, 128, 129, 530])
def test_inverse_of_positive_definite_matrices(n, dtype):
    """Only the lower triangle counts; a matrix that is not positive definite is inverted, too."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, n, n))
    a = (x @ np.swapaxes(x, -1, -2) / n + np.eye(n)).astype(dtype)
    tolerance = 1e3 * np.finfo(dtype).eps
    found = positive_inverse(np.tril(a))
    np.testing.assert_allclose(found @ a, np.broadcast_to(np.eye(n), a.shape), atol=tolerance)
    np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
    indefinite = np.diag([*np.ones(n), -2.0]).astype(dtype)
    np.testing.assert_allclose(jit(positive_inverse)(indefinite), np.diag([*np.ones(n), -0.5]), atol=tolerance)
