"""scipy.special: values are SciPy's, derivatives of two orders in both modes, the delicate points."""

import mpmath
import numpy as np
import pytest
import scipy.special as sp

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_batched, check_derivatives
from triskele.core.errors import MissingRuleError
from triskele.core.graph.graph import spec_of
from triskele.core.graph.primitive import PRIMITIVES
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.ops.special import gamma as special_gamma
from triskele.core.ops.special import sums as special_sums
from triskele.core.ops.special.define import scipy_special
from triskele.core.ops.special.gamma import lambertw, multigammaln, polygamma, zeta
from triskele.core.ops.special.sums import log_softmax, logsumexp, softmax
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, vjp


def traced(f, *args):
    graph, _ = make_graph(lambda *xs: [f(*xs)], [spec_of(a) for a in args])
    (out,) = evaluate(graph, *args)
    assert graph.out_specs[0].shape == np.shape(out) and graph.out_specs[0].dtype == np.result_type(out)
    return out


# name -> the arguments that have a derivative
UFUNCS = {
    **dict.fromkeys(
        "erf erfc erfcx erfi erfinv erfcinv dawsn ndtr ndtri log_ndtr expit logit log_expit entr exp10 cosm1 gammaln "
        "loggamma gamma psi expi exp1 spence "
        "ellipk ellipe j0 j1 y0 y1 i0 i1 i0e i1e k0 k1 k0e k1e".split(),
        (0,),
    ),
    **dict.fromkeys("xlogy xlog1py rel_entr kl_div huber pseudo_huber poch beta betaln binom".split(), (0, 1)),
    **dict.fromkeys("jv yv iv kv ive kve".split(), (1,)),
    **dict.fromkeys("gammainc gammaincc gammaincinv gammainccinv".split(), (1,)),
    "betainc": (2,),
    "betaincinv": (2,),
}


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_of_scipy_with_derivatives(rng, name):
    ufunc = getattr(sp, name)
    args = [rng.uniform(*d, size=5) for d in PRIMITIVES[name].domain]
    np.testing.assert_array_equal(traced(ufunc, *args), ufunc(*args))
    for dtype in (np.float32, np.int64):
        plain = [(np.clip(a, 0.6, None) if dtype is np.int64 else a).astype(dtype) for a in args]
        if np.all(np.isfinite(ufunc(*plain))):
            assert traced(ufunc, *plain).dtype == ufunc(*plain).dtype

    def f(*xs):
        full = list(args)
        for k, x in zip(UFUNCS[name], xs, strict=True):
            full[k] = x
        return ufunc(*full)

    check_derivatives(f, *[args[k] for k in UFUNCS[name]])
    check_batched(f, *[args[k] for k in UFUNCS[name]])


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "gammaincinv", "gammainccinv"])
def test_incomplete_gamma_in_its_first_argument(rng, name):
    a, x = rng.uniform(0.5, 6, 8), rng.uniform(0.1, 0.9, 8) if "inv" in name else rng.uniform(0.2, 12, 8)
    check_derivatives(lambda a: getattr(sp, name)(a, x), a, order=1)
    check_derivatives(lambda x: grad(lambda a: np.sum(getattr(sp, name)(a, x)))(a), x, order=1)
    with pytest.raises(MissingRuleError, match="second order"):
        grad(lambda a: grad(lambda a: getattr(sp, name)(a, x[0]))(a))(a[0])


def test_incomplete_gamma_against_mpmath():
    with mpmath.workdps(30):
        for a, x in [(0.3, 1e-3), (2.5, 3.0), (30.0, 25.0), (30.0, 60.0), (200.0, 190.0)]:
            want = float(mpmath.diff(lambda t, x=x: mpmath.gammainc(t, 0, x, regularized=True), a))
            assert abs(special_gamma.gammainc_da(a, x) - want) < 1e-13 + 1e-10 * abs(want)


@pytest.mark.parametrize("name", ["loggamma", "erf", "wofz", "dawsn"])
def test_complex_arguments(rng, name):
    z = rng.uniform(0.5, 2, 4) + 1j * rng.uniform(0.2, 1, 4)
    check_derivatives(getattr(sp, name), z, order=1)


def test_functions_that_scipy_keeps_in_python(rng):
    x = rng.uniform(0.5, 3, 4)
    for f, g in [
        (lambda x: polygamma(0, x), lambda x: sp.polygamma(0, x)),
        (lambda x: polygamma(3, x), lambda x: sp.polygamma(3, x)),
        (lambda x: zeta(3.0, x), lambda x: sp.zeta(3.0, x)),
        (lambda x: multigammaln(x + 2, 3), lambda x: sp.multigammaln(x + 2, 3)),
        (lambda x: np.real(lambertw(x)), lambda x: np.real(sp.lambertw(x))),
        (special_gamma.factorial, sp.factorial),
        (lambda x: special_gamma.comb(x + 3, 2.0), lambda x: sp.comb(x + 3, 2)),
    ]:
        np.testing.assert_allclose(traced(f, x), g(x), rtol=1e-13)
        check_derivatives(f, x)


def test_xlogy_at_zero():
    assert traced(sp.xlogy, np.float64(0), np.float64(0)) == 0
    assert grad(sp.xlogy, argnums=(0, 1))(0.0, 0.0) == (0, 0)
    assert grad(sp.xlogy, argnums=(0, 1))(0.0, 2.0) == (np.log(2.0), 0)
    assert grad(sp.xlog1py, argnums=(0, 1))(0.0, -1.0) == (0, 0)


@pytest.mark.parametrize("name", ["j1", "i1", "spence", "ellipk", "ellipe", "erf", "log_expit"])
def test_removable_singularities(name):
    """Where a textbook formula divides by zero, the derivative is that of the power series."""
    x = 1.0 if name == "spence" else 0.0
    reference = {
        "j1": lambda x: mpmath.besselj(1, x),
        "i1": lambda x: mpmath.besseli(1, x),
        "spence": lambda x: mpmath.polylog(2, 1 - x),
        "ellipk": mpmath.ellipk,
        "ellipe": mpmath.ellipe,
        "erf": mpmath.erf,
        "log_expit": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    }[name]
    f = getattr(sp, name)
    with mpmath.workdps(40):
        np.testing.assert_allclose(grad(f)(x), float(mpmath.diff(reference, x)), rtol=1e-13)
        if name != "spence":
            np.testing.assert_allclose(
                grad(grad(f))(x), float(mpmath.diff(reference, x, 2).real), rtol=1e-12, atol=1e-13
            )
            np.testing.assert_allclose(
                grad(grad(grad(f)))(x), float(mpmath.diff(reference, x, 3).real), rtol=1e-11, atol=1e-13
            )


def test_tails_keep_their_digits():
    assert grad(sp.expit)(-700.0) > 0
    np.testing.assert_allclose(grad(sp.log_ndtr)(-40.0), 40.0249688, rtol=1e-7)
    np.testing.assert_allclose(grad(sp.log_expit)(-800.0), 1.0)


@pytest.mark.parametrize(("name", "args"), [("jv", (1.0, 2.0)), ("zeta", (2.0, 2.0)), ("betainc", (1.0, 2.0, 0.5))])
def test_orders_without_derivative_say_so(name, args):
    f = {"zeta": zeta}.get(name) or getattr(sp, name)
    for attempt in (
        lambda: vjp(lambda v: f(v, *args[1:]), args[0])[1](1.0),
        lambda: jvp(lambda v: f(v, *args[1:]), args[:1], (1.0,)),
    ):
        with pytest.raises(MissingRuleError, match=name):
            attempt()


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_sums_of_exponentials(rng, axis):
    x, b = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    for f, g in ((logsumexp, sp.logsumexp), (softmax, sp.softmax), (log_softmax, sp.log_softmax)):
        np.testing.assert_allclose(traced(lambda x: f(x, axis=axis), x), g(x, axis=axis), rtol=1e-13)  # noqa: B023
        check_derivatives(lambda x: f(x, axis=axis), x)  # noqa: B023
    for keep in (False, True):
        for got, want in zip(
            logsumexp(x, axis, b, keep, return_sign=True), sp.logsumexp(x, axis, b, keep, return_sign=True), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-11)
    check_derivatives(lambda x, b: logsumexp(x, axis, b=b), x, np.abs(b))
    check_batched(lambda x: softmax(x, axis=axis), x)


def test_sums_of_exponentials_at_the_ends_of_the_range():
    for x in ([1000.0, 1000.0], [-np.inf, 0.0], [-np.inf, -np.inf], [np.inf, 0.0], [-1000.0, -1001.0]):
        with np.errstate(divide="ignore", over="ignore"):
            np.testing.assert_allclose(logsumexp(np.array(x)), sp.logsumexp(x))
    np.testing.assert_allclose(grad(logsumexp)(np.array([1000.0, 1000.0, -np.inf])), [0.5, 0.5, 0])
    np.testing.assert_allclose(grad(lambda x: logsumexp(x, b=np.array([1.0, 0.0])))(np.array([1.0, np.inf])), [1, 0])


EMITTED = "erf erfc ndtr expit logit log_expit exp10 entr xlogy xlog1py rel_entr kl_div".split()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EMITTED)
def test_native_forms_agree_with_scipy_at_the_edges(name, dtype):
    """Compiled code has formulas of its own: zeros, ends of the domain, infinities and NaN as SciPy has them."""
    from triskele.core import jit

    assert PRIMITIVES[name].emit
    edges = np.array(
        [0.0, 1e-30, 0.3, 0.499, 0.5, 0.501, 0.7, 1.0, 2.5, 30.0, -0.5, -1.0, -3.0, -30.0, np.nan, np.inf, -np.inf],
        dtype,
    )  # fmt: skip
    args = np.meshgrid(edges, edges) if len(PRIMITIVES[name].domain) == 2 else [edges]
    with np.errstate(all="ignore"):
        want = getattr(sp, name)(*args)
        eps = np.finfo(dtype).eps
        # kl_div is a difference; ndtr's exponent is rounded before it is squared
        rtol, atol = {"kl_div": (20 * eps, eps), "ndtr": (1000 * eps, 0)}.get(name, (20 * eps, 0))
        np.testing.assert_allclose(jit(getattr(sp, name))(*args), want, rtol=rtol, atol=atol)


def test_scipy_is_loaded_on_first_use_only():
    import subprocess
    import sys

    code = (
        "import sys, triskele.core.ops; assert 'scipy' not in sys.modules; "
        "from triskele.core.ops.special.basic import erf; assert erf(0.0) == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ".src", "PATH": ""})


def test_a_ufunc_that_shares_a_name_is_not_taken_for_scipys():
    mine = np.frompyfunc(lambda a, b: a + b, 2, 1)
    with pytest.raises(TypeError, match="no traced form"):
        grad(lambda x: mine(x, 1.0))(1.0)
    assert scipy_special("erf") is sp.erf
    assert special_sums.shift_p.differentiable is False


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (sp.logit, (0.0,)),
        (sp.rel_entr, (1.0, 0.0)),
        (sp.kl_div, (0.0, 0.0)),
        (np.fmod, (1.0, 0.0)),
    ],
)
def test_python_zeros_divide_as_numpys(f, args):
    with np.errstate(all="ignore"):
        expected = vjp(f, *map(np.float64, args))[1](1.0)
        np.testing.assert_equal(vjp(f, *args)[1](1.0), expected)
