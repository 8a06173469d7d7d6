"""core.custom_op in its three modes, under every transform."""

import ctypes
import ctypes.util
import math
import shutil
import subprocess

import numba
import numpy as np
import pytest
import scipy.linalg

from triskele.core.compile.jit import jit
from triskele.core.errors import MissingRuleError
from triskele.core.graph.graph import spec_of
from triskele.core.graph.primitive import PRIMITIVES
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.control.operators import cond, fori_loop
from triskele.core.transforms.custom_op import custom_op, spec
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.jacobian import hessian, jacfwd, jacrev
from triskele.core.transforms.vmap import vmap

X = np.array([1.0, 3.0, 2.0, 5.0, 4.0])
BATCH = np.stack([X, X[::-1], -X])


def as_graph(f, *args):
    graph, _ = make_graph(lambda *xs: [f(*xs)], [spec_of(a) for a in args])
    return lambda *xs: evaluate(graph, *xs)[0]


@numba.njit
def _cumulative_sum(x, out):
    total = 0.0
    for i in range(x.size):
        total += x[i]
        out[i] = total


@numba.njit
def _weighted(x, w, total, squares):
    s = 0.0
    for i in range(x.size):
        s += w * x[i]
        squares[i] = x[i] * x[i]
    total[()] = s


def sums(rule, batch=None, twice=1.0):
    """A cumulative sum whose derivative is `twice` times the right one."""
    op = custom_op(_cumulative_sum, out=lambda x: spec(x.shape, x.dtype), batch=batch, name="sums")
    if rule == "vjp":
        op.vjp(lambda ct, out, x: twice * np.flip(np.cumsum(np.flip(ct))))
    if rule == "jvp":
        op.jvp(lambda tangents, out, x: twice * np.cumsum(tangents[0]))
    return op


# -- values ------------------------------------------------------------------------------------------------------------


def test_numba_kernel():
    op = sums(None)
    np.testing.assert_array_equal(op(X), np.cumsum(X))
    np.testing.assert_array_equal(op(BATCH.T[:, 1]), np.cumsum(BATCH[1]))  # not contiguous
    assert op(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(as_graph(op, X)(X), np.cumsum(X))
    np.testing.assert_array_equal(as_graph(lambda x: op(x * 2) + 1, X)(X), 2 * np.cumsum(X) + 1)


def test_several_outputs_scalars_and_trees():
    op = custom_op(
        _weighted, out=lambda x, w: {"total": spec((), x.dtype), "squares": spec(x.shape, x.dtype)}, name="weighted"
    )
    # outputs are passed in the order of the leaves of the tree: dictionaries by key
    swapped = custom_op(
        numba.njit(lambda x, w, squares, total: _weighted(x, w, total, squares)),
        name="swapped",
        out=lambda x, w: {"total": spec((), x.dtype), "squares": spec(x.shape, x.dtype)},
    )
    result = swapped(X, 2.0)
    assert result["total"] == 30.0
    np.testing.assert_array_equal(result["squares"], X**2)
    pair = custom_op(_weighted, out=lambda x, w: (spec(()), spec(x.shape)), name="pair")
    total, squares = pair(X, 2.0)
    assert total == 30.0 and squares[3] == 25.0
    assert op is not None


def test_python_mode_and_static_options():
    @custom_op(out=lambda a, b, lower=False: spec(b.shape), mode="python")
    def triangular(a, b, lower=False):
        return scipy.linalg.solve_triangular(a, b, lower=lower)

    @triangular.vjp
    def _(ct, out, a, b, lower=False):
        back = triangular(a.T, ct, lower=not lower)
        return -np.outer(back, out), back

    a, b = np.triu(np.arange(9.0).reshape(3, 3) + 1), np.array([1.0, 5.0, 3.0])
    np.testing.assert_allclose(triangular(a, b), np.linalg.solve(a, b))
    np.testing.assert_allclose(triangular(a.T, b, lower=True), np.linalg.solve(a.T, b))
    g = grad(lambda b: np.sum(triangular(a, b) ** 2))(b)
    np.testing.assert_allclose(g, 2 * np.linalg.solve(a.T, np.linalg.solve(a, b)))
    inverse = np.linalg.inv(a)
    second = vjp(grad(lambda b: np.sum(triangular(a, b) ** 2)), b)[1](b)[0]
    np.testing.assert_allclose(second, 2 * inverse.T @ inverse @ b, rtol=1e-12)
    assert triangular.__name__ == "triangular"


# -- derivatives -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["vjp", "jvp"])
def test_one_rule_serves_both_modes(rule):
    op = sums(rule, twice=2.0)
    lower = 2 * np.tril(np.ones((5, 5)))
    np.testing.assert_allclose(vjp(op, X)[1](X)[0], lower.T @ X)
    np.testing.assert_allclose(jvp(op, (X,), (X,))[1], lower @ X)
    np.testing.assert_allclose(grad(lambda x: np.sum(op(x) ** 2))(X), 2 * lower.T @ np.cumsum(X))
    recorded = as_graph(lambda x: np.sum(op(x) ** 2), X)
    np.testing.assert_allclose(grad(recorded)(X), 2 * lower.T @ np.cumsum(X))
    np.testing.assert_allclose(as_graph(grad(lambda x: np.sum(op(x) ** 2)), X)(X), 2 * lower.T @ np.cumsum(X))
    np.testing.assert_allclose(jvp(recorded, (X,), (X,))[1], 2 * np.cumsum(X) @ lower @ X)


@pytest.mark.parametrize("rule", ["vjp", "jvp"])
@pytest.mark.parametrize("batch", ["sequential", "rule"])
def test_batches_of_everything(rule, batch):
    op = sums(rule, batch if batch == "sequential" else None)
    if batch == "rule":
        op.batch(lambda size, is_batched, x: np.cumsum(x, axis=1))
    np.testing.assert_allclose(vmap(op)(BATCH), np.cumsum(BATCH, axis=1))
    np.testing.assert_allclose(vmap(op, in_axes=1, out_axes=1)(BATCH.T), np.cumsum(BATCH, axis=1).T)
    lower = np.tril(np.ones((5, 5)))
    f = lambda x: np.sum(op(x) ** 2)
    np.testing.assert_allclose(vmap(grad(f))(BATCH), 2 * np.cumsum(BATCH, axis=1) @ lower)
    np.testing.assert_allclose(grad(lambda b: np.sum(vmap(op)(b) ** 2))(BATCH), 2 * np.cumsum(BATCH, axis=1) @ lower)
    np.testing.assert_allclose(jacfwd(op)(X), lower)
    np.testing.assert_allclose(jacrev(op)(X), lower)
    np.testing.assert_allclose(hessian(f)(X), 2 * lower.T @ lower)
    np.testing.assert_allclose(
        vmap(vmap(op))(np.stack([BATCH, 2 * BATCH])), np.cumsum(np.stack([BATCH, 2 * BATCH]), axis=2)
    )
    np.testing.assert_allclose(as_graph(vmap(grad(f)), BATCH)(BATCH), 2 * np.cumsum(BATCH, axis=1) @ lower)


def test_sequential_with_shared_and_batched_arguments():
    op = custom_op(
        _weighted, out=lambda x, w: (spec((), x.dtype), spec(x.shape, x.dtype)), batch="sequential", name="weighted"
    )
    op.vjp(lambda ct, out, x, w: (ct[0] * w + 2 * x * ct[1], ct[0] * np.sum(x)))
    total, squares = vmap(op, in_axes=(None, 0))(X, np.array([1.0, 2.0]))
    np.testing.assert_allclose(total, [15.0, 30.0])
    np.testing.assert_allclose(squares, [X**2, X**2])
    loss = lambda x, w: np.sum(vmap(op, in_axes=(None, 0))(x, w)[0] ** 2)
    gx, gw = grad(loss, argnums=(0, 1))(X, np.array([1.0, 2.0]))
    np.testing.assert_allclose(gx, np.full(5, 2 * 15 * 1 + 2 * 30 * 2))
    np.testing.assert_allclose(gw, 2 * np.array([15.0, 30.0]) * 15)
    nested = vmap(vmap(op, in_axes=(None, 0)), in_axes=(0, None))(BATCH, np.array([1.0, 2.0]))[0]
    np.testing.assert_allclose(nested, np.sum(BATCH, axis=1)[:, None] * np.array([1.0, 2.0]))


def test_broadcast_batching():
    @custom_op(out=lambda x, y: spec(x.shape), mode="python", batch="broadcast")
    def last_axis(x, y):
        return np.cumsum(x, axis=-1) * y

    y = np.arange(5.0)
    np.testing.assert_array_equal(vmap(last_axis, in_axes=(0, None))(BATCH, y), np.cumsum(BATCH, axis=1) * y)


def test_integer_outputs_carry_no_derivative():
    @custom_op(out=lambda x: spec(x.shape, np.int64), mode="python")
    def order(x):
        return np.argsort(x)

    np.testing.assert_array_equal(grad(lambda x: np.sum(x * order(x)))(X), np.argsort(X))
    np.testing.assert_array_equal(jvp(lambda x: x * order(x), (X,), (np.ones(5),))[1], np.argsort(X))


def test_in_compiled_programs_and_control_flow():
    op = sums("vjp", batch="sequential")
    lower = np.tril(np.ones((5, 5)))
    f = lambda x: np.sum(op(np.sin(x)) ** 2)
    gradient = 2 * np.cos(X) * (lower.T @ np.cumsum(np.sin(X)))
    np.testing.assert_allclose(jit(f)(X), f(X), rtol=1e-13)
    np.testing.assert_allclose(jit(grad(f))(X), gradient, rtol=1e-12)
    np.testing.assert_allclose(grad(jit(f))(X), gradient, rtol=1e-12)
    np.testing.assert_allclose(jit(vmap(grad(f)))(BATCH), [grad(f)(x) for x in BATCH], rtol=1e-12)
    loop = lambda x: np.sum(fori_loop(0, 3, lambda i, y: op(y) / 5, x))
    np.testing.assert_allclose(jit(grad(loop))(X), np.linalg.matrix_power(lower.T / 5, 3) @ np.ones(5), rtol=1e-12)
    branch = lambda x: np.sum(cond(x[0] > 0, op, lambda x: x, x))
    np.testing.assert_allclose(jit(grad(branch))(X), lower.T @ np.ones(5))
    np.testing.assert_allclose(jit(vmap(grad(branch)))(np.stack([X, -X])), [lower.T @ np.ones(5), np.ones(5)])


def test_an_error_inside_reaches_the_caller_of_a_compiled_program():
    def refuse(x):
        raise ArithmeticError("not today")

    op = custom_op(refuse, out=lambda x: x, mode="python", name="refuse")
    with pytest.raises(ArithmeticError, match="not today"):
        jit(lambda x: op(x) + 1)(X)


# -- C -----------------------------------------------------------------------------------------------------------------

C_SOURCE = """
#include <stdint.h>
#include <stdlib.h>
void scaled(const double *x, const int64_t *shape, const double *factor, const int64_t *none, double *out, const int64_t *out_shape) {
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) out[i] = *factor * x[i];
}
void shifted(int n, double shift, const double *x, double *out) { for (int i = 0; i < n; i++) out[i] = x[i] + shift; }
double cube(double x) { return x * x * x; }
"""  # noqa: E501


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("c")
    (folder / "f.c").write_text(C_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", folder / "f.so", folder / "f.c"], check=True)
    return ctypes.CDLL(str(folder / "f.so"))


def test_c_function_with_the_default_arguments(library):
    scaled = custom_op(
        library.scaled, out=lambda x, k: x, mode="cfunc", argtypes=[float, float], batch="sequential", name="scaled"
    )
    scaled.vjp(lambda ct, out, x, k: (scaled(ct, k), np.sum(ct * x)))
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(scaled(x, 2.0), 2 * x)
    np.testing.assert_array_equal(scaled(x.T, 2), 2 * x.T)
    np.testing.assert_array_equal(grad(lambda x: np.sum(scaled(x, 3.0) ** 2))(x), 18 * x)
    np.testing.assert_array_equal(vmap(scaled, in_axes=(None, 0))(x, np.array([1.0, 2.0])), [x, 2 * x])
    with pytest.raises(
        TypeError, match=r"custom_op scaled: argument 0 must be float64, as argtypes says, got complex128"
    ):
        scaled(x * 1j, 2.0)


def test_c_function_with_chosen_arguments(library):
    shifted = custom_op(
        library.shifted,
        out=lambda x, s: x,
        mode="cfunc",
        argtypes=[float, float],
        abi=["size0:int32", "value1", "in0", "out0"],
        name="shifted",
    )
    np.testing.assert_array_equal(shifted(X, 1.5), X + 1.5)
    np.testing.assert_array_equal(shifted(np.arange(3), 1), np.arange(3) + 1.0)  # integers are converted without loss
    with pytest.raises(ValueError, match="abi must be made of in0, shape0"):
        custom_op(library.shifted, out=lambda x: x, mode="cfunc", argtypes=[float], abi=["x"])


def test_scalar_c_functions_are_applied_to_each_element(library):
    cube = custom_op(library.cube, mode="cfunc", argtypes=[float], abi="elementwise", name="cube")
    cube.jvp(lambda t, out, x: 3 * x**2 * t[0])
    np.testing.assert_array_equal(cube(BATCH), BATCH**3)
    np.testing.assert_allclose(grad(grad(cube))(2.0), 12.0)
    np.testing.assert_array_equal(vmap(cube)(BATCH), BATCH**3)
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    atan2 = custom_op(libm.atan2, mode="cfunc", argtypes=[float, float], abi="elementwise", name="atan2")
    np.testing.assert_allclose(atan2(X[:, None], X), np.arctan2(X[:, None], X))
    np.testing.assert_allclose(vmap(atan2)(BATCH[:, 0], BATCH), np.arctan2(BATCH[:, :1], BATCH))


def test_numba_cfunc_and_bare_address():
    signature = numba.types.void(numba.types.CPointer(numba.float64), numba.types.CPointer(numba.float64), numba.int64)

    @numba.cfunc(signature)
    def square(x, out, n):
        for i in range(n):
            out[i] = x[i] * x[i]

    for pointer in (square, square.address, square.ctypes):
        op = custom_op(
            pointer, out=lambda x: x, mode="cfunc", argtypes=[float], abi=["in0", "out0", "size0"], name="square"
        )
        np.testing.assert_array_equal(op(X), X**2)


# -- entries for compiled programs
# ------------------------------------------------------------------------------------------------


def call_entry(entry, inputs, outputs):
    table = (ctypes.c_void_p * (len(inputs) + len(outputs)))(*[a.ctypes.data for a in [*inputs, *outputs]])
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(entry.address)(table)


def test_numba_kernels_have_a_native_entry():
    op = custom_op(_weighted, out=lambda x, w: (spec(()), spec(x.shape)), name="weighted")
    outs = [np.empty(()), np.empty(5)]
    entry = op.primitive.native([spec(5), spec(())], [spec(()), spec(5)])
    assert call_entry(entry, [X, np.array(2.0)], outs) == 0
    assert outs[0] == 30.0
    np.testing.assert_array_equal(outs[1], X**2)

    @numba.njit
    def fails(x, out):
        if x[0] > 0:
            raise ValueError("positive")
        out[0] = x[0]

    op = custom_op(fails, out=lambda x: x, name="fails")
    entry = op.primitive.native([spec(5)], [spec(5)])
    assert call_entry(entry, [X], [np.empty(5)]) == 1
    assert call_entry(entry, [-X], [np.empty(5)]) == 0
    with pytest.raises(ValueError, match="positive"):
        op(X)


def test_c_functions_have_a_native_entry(library):
    scaled = custom_op(library.scaled, out=lambda x, k: x, mode="cfunc", argtypes=[float, float], name="scaled")
    x, out = np.arange(6.0).reshape(2, 3), np.empty((2, 3))
    entry = scaled.primitive.native([spec((2, 3)), spec(())], [spec((2, 3))])
    assert call_entry(entry, [x, np.array(2.0)], [out]) == 0
    np.testing.assert_array_equal(out, 2 * x)
    shifted = custom_op(
        library.shifted,
        out=lambda x, s: x,
        mode="cfunc",
        argtypes=[float, float],
        abi=["size0:int32", "value1", "in0", "out0"],
        name="shifted",
    )
    out = np.empty(5)
    assert call_entry(shifted.primitive.native([spec(5), spec(())], [spec(5)]), [X, np.array(1.5)], [out]) == 0
    np.testing.assert_array_equal(out, X + 1.5)


# -- errors ------------------------------------------------------------------------------------------------------------


def test_missing_rules_name_operator_mode_and_remedy():
    op = sums(None)
    with pytest.raises(
        MissingRuleError,
        match=r"custom_op sums\(float64\[5\]\): no derivative rule, needed for "
        r"reverse mode here \(define one with @sums.vjp or @sums.jvp",
    ):
        grad(lambda x: np.sum(op(x)))(X)
    with pytest.raises(MissingRuleError, match="needed for forward mode here"):
        jvp(op, (X,), (X,))
    with pytest.raises(
        MissingRuleError,
        match=r"no batching rule, needed for vmap here \(define one with @sums.batch, "
        r"or give custom_op batch='sequential'",
    ):
        vmap(op)(BATCH)


def test_a_linear_operator_may_be_its_own_rule_in_one_mode_only():
    op = sums(None)
    op.vjp(lambda ct, out, x: np.flip(op(np.flip(ct))))
    np.testing.assert_allclose(jvp(op, (X,), (X,))[1], np.cumsum(X))
    op = sums(None)
    op.jvp(lambda tangents, out, x: op(tangents[0]))
    np.testing.assert_allclose(jvp(op, (X,), (X,))[1], np.cumsum(X))
    with pytest.raises(
        MissingRuleError,
        match="its jvp rule applies the operator itself to the tangents, so its transpose is not known",
    ):
        vjp(op, X)[1](X)


def test_outputs_are_checked_against_what_was_promised():
    wrong_shape = custom_op(lambda x: x[:-1] * 1, out=lambda x: x, mode="python", name="wrong_shape")
    with pytest.raises(
        ValueError, match=r"custom_op wrong_shape: output 0 must be float64\[5\], as out says, got float64\[4\]"
    ):
        wrong_shape(X)
    wrong_dtype = custom_op(lambda x: x.astype(np.float32), out=lambda x: x, mode="python", name="wrong_dtype")
    with pytest.raises(ValueError, match=r"must be float64\[5\], as out says, got float32\[5\]"):
        wrong_dtype(X)
    wrong_number = custom_op(lambda x: (x, x), out=lambda x: x, mode="python", name="wrong_number")
    with pytest.raises(ValueError, match=r"it must return \*, as out says, got \(\*, \*\)"):
        wrong_number(X)
    with pytest.raises(TypeError, match="out must return specs"):
        custom_op(lambda x: x, out=lambda x: x.shape, mode="python", name="bad_out")(X)
    returns = custom_op(numba.njit(lambda x, out: x.sum()), out=lambda x: x, name="returns")
    with pytest.raises(TypeError, match="must write into its last argument"):
        returns(X)
    op = sums("vjp")
    op.vjp(lambda ct, out, x: (ct, ct))
    with pytest.raises(TypeError, match="must return 1 cotangents, one for each input"):
        grad(lambda x: np.sum(op(x)))(X)
    op.vjp(lambda ct, out, x: ct[:2])
    with pytest.raises(ValueError, match=r"cotangent of argument 0 must have its shape \(5,\), got \(2,\)"):
        grad(lambda x: np.sum(op(x)))(X)


def test_inputs_are_read_only_and_outputs_are_new():
    def mutate(x):
        x[0] = 7.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        custom_op(mutate, out=lambda x: x, mode="python", name="mutate")(X)
    with pytest.raises(Exception, match="[Cc]annot modify readonly array"):
        custom_op(numba.njit(lambda x, out: _fill(x)), out=lambda x: x, name="mutate")(X)
    identity = custom_op(lambda x: x, out=lambda x: x, mode="python", name="identity")
    y = identity(X)
    y[0] = 100.0
    assert X[0] == 1.0


@numba.njit
def _fill(x):
    x[0] = 1.0


def test_wrong_definitions():
    with pytest.raises(TypeError, match=r"a function compiled by numba.njit, got function"):
        custom_op(lambda x, out: None, out=lambda x: x)
    with pytest.raises(ValueError, match="mode must be one of numba, python, cfunc, got 'c'"):
        custom_op(lambda x: x, out=lambda x: x, mode="c")
    with pytest.raises(TypeError, match="out must be a function"):
        custom_op(lambda x: x, mode="python")
    with pytest.raises(ValueError, match="batch must be None, 'sequential' or 'broadcast', got 'loop'"):
        custom_op(lambda x: x, out=lambda x: x, mode="python", batch="loop")
    with pytest.raises(ValueError, match="argtypes must give the dtype of each input"):
        custom_op(12345, out=lambda x: x, mode="cfunc")
    with pytest.raises(TypeError, match="an integer address, got function"):
        custom_op(lambda x: x, out=lambda x: x, mode="cfunc", argtypes=[float])
    op = custom_op(lambda x, k=None: x * 1, out=lambda x, k=None: x, mode="python", name="options")
    with pytest.raises(TypeError, match="keyword arguments are fixed options and must be hashable"):
        op(X, k=X)


def test_definition_may_be_repeated():
    before = len(PRIMITIVES)
    for factor in (2.0, 3.0):
        op = custom_op(lambda x, factor=factor: factor * x, out=lambda x: x, mode="python", name="again")
    assert len(PRIMITIVES) == before + 1
    np.testing.assert_array_equal(op(X), 3 * X)
    assert math.isclose(op(1.0), 3.0)
