"""custom_vjp and custom_jvp: one rule, every transform."""

import numpy as np
import pytest

from triskele.core.compile.jit import jit
from triskele.core.errors import MissingRuleError
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.control.operators import cond, scan
from triskele.core.transforms.custom import custom_jvp, custom_vjp
from triskele.core.transforms.forward import jvp, linearize
from triskele.core.transforms.grad import grad, value_and_grad, vjp
from triskele.core.transforms.jacobian import hessian, hvp, jacfwd, jacrev
from triskele.core.transforms.vmap import vmap

X = np.linspace(-1.0, 2.0, 4)


@pytest.fixture(params=["vjp", "jvp", "jvps"])
def cubic(request):
    """``(x, y) -> sin(x) * y**2`` whose rule claims three times the true derivative, so that one sees which is used."""

    def f(x, y):
        return np.sin(x) * y**2

    if request.param == "vjp":
        g = custom_vjp(f)
        g.defvjp(
            lambda x, y: (f(x, y), (x, y)),
            lambda res, ct: (3 * ct * np.cos(res[0]) * res[1] ** 2, 6 * ct * np.sin(res[0]) * res[1]),
        )
        return g
    g = custom_jvp(f)
    if request.param == "jvp":

        @g.defjvp
        def _(primals, tangents):
            (x, y), (dx, dy) = primals, tangents
            return f(x, y), 3 * dx * np.cos(x) * y**2 + 6 * dy * np.sin(x) * y

    else:
        g.defjvps(lambda t, out, x, y: 3 * t * np.cos(x) * y**2, lambda t, out, x, y: 6 * t * np.sin(x) * y)
    return g


def as_graph(f, *args):
    """What jit would record: the graph of `f`, run."""
    graph, captured = make_graph(lambda *xs: [f(*xs)], [spec_of(a) for a in args])
    return lambda *xs: evaluate(graph, *xs, *captured)[0]


def test_plain_call_is_the_function(cubic):
    np.testing.assert_array_equal(cubic(X, 2.0), np.sin(X) * 4)
    np.testing.assert_array_equal(cubic(y=2.0, x=X), np.sin(X) * 4)
    assert cubic.__name__ == "f"


def test_both_modes_use_the_rule(cubic):
    y = np.full(4, 2.0)
    out, pullback = vjp(cubic, X, y)
    np.testing.assert_allclose(out, np.sin(X) * 4)
    gx, gy = pullback(np.ones(4))
    np.testing.assert_allclose(gx, 12 * np.cos(X))
    np.testing.assert_allclose(gy, 12 * np.sin(X))
    out, t = jvp(cubic, (X, y), (np.ones(4), np.zeros(4)))
    np.testing.assert_allclose(t, 12 * np.cos(X))
    _, f_jvp = linearize(cubic, X, y)
    np.testing.assert_allclose(f_jvp(np.zeros(4), np.ones(4)), 12 * np.sin(X))


def test_one_argument_differentiated_the_other_constant(cubic):
    np.testing.assert_allclose(grad(cubic)(0.5, 2.0), 12 * np.cos(0.5))
    np.testing.assert_allclose(grad(cubic, argnums=1)(0.5, 2.0), 12 * np.sin(0.5))
    np.testing.assert_allclose(grad(lambda x: cubic(x, 2))(0.5), 12 * np.cos(0.5))


def test_second_order_differentiates_the_rule(cubic):
    np.testing.assert_allclose(grad(grad(cubic))(0.5, 2.0), -12 * np.sin(0.5))
    np.testing.assert_allclose(jacfwd(grad(cubic))(0.5, 2.0), -12 * np.sin(0.5))
    np.testing.assert_allclose(jacfwd(jacfwd(cubic))(0.5, 2.0), -12 * np.sin(0.5))
    np.testing.assert_allclose(jacrev(jacfwd(cubic))(0.5, 2.0), -12 * np.sin(0.5))
    np.testing.assert_allclose(grad(grad(grad(cubic)))(0.5, 2.0), -12 * np.cos(0.5))


def test_vmap_and_its_mixtures(cubic):
    np.testing.assert_allclose(vmap(cubic, in_axes=(0, None))(X, 2.0), np.sin(X) * 4)
    np.testing.assert_allclose(vmap(grad(cubic), in_axes=(0, None))(X, 2.0), 12 * np.cos(X))
    np.testing.assert_allclose(
        grad(lambda y: np.sum(vmap(cubic, in_axes=(0, None))(X, y)))(2.0), 12 * np.sum(np.sin(X))
    )
    np.testing.assert_allclose(jacfwd(lambda y: vmap(cubic, in_axes=(0, None))(X, y))(2.0), 12 * np.sin(X))
    np.testing.assert_allclose(vmap(vmap(cubic, (0, None)), (None, 0))(X, X), np.sin(X) * X[:, None] ** 2)
    np.testing.assert_allclose(vmap(hessian(cubic), in_axes=(0, None))(X, 2.0), -12 * np.sin(X))
    batch = np.stack([X, X + 1])
    out = vmap(lambda x, y: grad(lambda z: np.sum(cubic(z, y)))(x), in_axes=(1, None))(batch.T, np.ones(4))
    np.testing.assert_allclose(out, 3 * np.cos(batch))


def test_in_graphs_the_rule_is_still_there(cubic):
    f = as_graph(lambda x: np.sum(cubic(x, np.full(4, 2.0))), X)
    np.testing.assert_allclose(f(X), np.sum(np.sin(X) * 4))
    np.testing.assert_allclose(grad(f)(X), 12 * np.cos(X))
    np.testing.assert_allclose(jvp(f, (X,), (np.ones(4),))[1], np.sum(12 * np.cos(X)))
    np.testing.assert_allclose(hvp(f, (X,), (np.ones(4),)), -12 * np.sin(X))
    np.testing.assert_allclose(vmap(grad(f))(np.stack([X, -X])), 12 * np.cos(np.stack([X, -X])))
    of_gradient = as_graph(grad(lambda x: np.sum(cubic(x, np.full(4, 2.0)))), X)
    np.testing.assert_allclose(of_gradient(X), 12 * np.cos(X))
    of_batch = as_graph(vmap(grad(cubic), in_axes=(0, None)), X, 2.0)
    np.testing.assert_allclose(of_batch(X, 2.0), 12 * np.cos(X))
    twice = as_graph(as_graph(lambda x: np.sum(cubic(x, np.full(4, 2.0))), X), X)
    np.testing.assert_allclose(grad(twice)(X), 12 * np.cos(X))


def test_compiled_and_inside_control_flow(cubic):
    y = np.full(4, 2.0)
    f = lambda x: np.sum(cubic(x, y))
    np.testing.assert_allclose(jit(f)(X), f(X), rtol=1e-14)
    np.testing.assert_allclose(jit(grad(f))(X), 12 * np.cos(X), rtol=1e-14)
    np.testing.assert_allclose(grad(jit(f))(X), 12 * np.cos(X), rtol=1e-14)
    np.testing.assert_allclose(jit(hvp, static_argnames="f")(f, (X,), (y,)), -24 * np.sin(X), rtol=1e-13)
    steps = lambda x: np.sum(scan(lambda c, _: (cubic(c, y) / 4, None), x, None, length=2)[0])
    np.testing.assert_allclose(grad(steps)(X), 9 * np.cos(X) * np.cos(np.sin(X)), rtol=1e-13)
    np.testing.assert_allclose(jit(grad(steps))(X), 9 * np.cos(X) * np.cos(np.sin(X)), rtol=1e-13)
    np.testing.assert_allclose(jvp(steps, (X,), (y,))[1], np.sum(18 * np.cos(X) * np.cos(np.sin(X))), rtol=1e-13)
    choice = lambda x: cond(x > 0, lambda x: cubic(x, 2.0), lambda x: x, x)
    np.testing.assert_allclose(jit(vmap(grad(choice)))(X), np.where(X > 0, 12 * np.cos(X), 1.0), rtol=1e-13)


def test_float32_stays(cubic):
    x = np.float32(0.5)
    g = grad(cubic)(x, np.float32(2))
    assert g.dtype == np.float32
    np.testing.assert_allclose(g, 12 * np.cos(0.5), rtol=1e-6)
    assert jvp(cubic, (x, np.float32(2)), (x, x))[1].dtype == np.float32


def test_trees_in_and_out():
    @custom_vjp
    def f(p, n):
        return {"a": p["u"] * p["v"][0], "n": n}

    f.defvjp(lambda p, n: (f(p, n), p), lambda p, ct: ({"u": 10 * ct["a"] * p["v"][0], "v": [None]}, None))
    p = {"u": np.array(2.0), "v": [np.array(3.0)]}
    g = grad(lambda p: f(p, 3)["a"])(p)
    assert g["u"] == 30.0 and g["v"][0] == 0.0
    assert f(p, 3)["n"] == 3

    @custom_jvp
    def h(p):
        return p["u"] + p["v"][0], p["u"]

    @h.defjvp
    def _(primals, tangents):
        (p,), (t,) = primals, tangents
        return h(p), (5 * t["u"] + t["v"][0], t["u"])

    g = grad(lambda p: h(p)[0])(p)
    assert g["u"] == 5.0 and g["v"][0] == 1.0


def test_nondifferentiated_arguments_are_passed_through():
    @lambda f: custom_vjp(f, nondiff_argnums=(0, 2))
    def apply(f, x, power):
        return f(x) ** power

    apply.defvjp(lambda f, x, power: (apply(f, x, power), x), lambda f, power, x, ct: (ct * power * 100.0,))
    assert grad(apply, argnums=1)(np.cos, 0.3, 3) == 300.0

    @lambda f: custom_jvp(f, nondiff_argnums=(0,))
    def apply2(f, x):
        return f(x)

    apply2.defjvp(lambda f, primals, tangents: (f(primals[0]), 7.0 * tangents[0]))
    assert grad(apply2, argnums=1)(np.cos, 0.3) == 7.0
    assert as_graph(lambda x: grad(apply2, argnums=1)(np.cos, x), 0.3)(0.3) == 7.0


def test_residuals_may_be_anything():
    @custom_vjp
    def f(x):
        return np.sum(x**2)

    f.defvjp(
        lambda x: (f(x), {"x": x, "how": "loud", "twice": 2}),
        lambda r, ct: (ct * r["x"] * (100 if r["how"] == "loud" else 1) * r["twice"],),
    )
    np.testing.assert_allclose(grad(f)(X), 200 * X)
    np.testing.assert_allclose(vmap(grad(f))(np.stack([X, X])), 200 * np.stack([X, X]))
    np.testing.assert_allclose(grad(as_graph(f, X))(X), 200 * X)
    np.testing.assert_allclose(vmap(grad(as_graph(f, X)))(np.stack([X, X])), 200 * np.stack([X, X]))


def test_concrete_values_in_eager_rules():
    """Python control flow on values works eagerly, because the rule runs one level down."""

    @custom_vjp
    def f(x):
        return x if x > 0 else 2 * x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct if float(x) > 0 else 20 * ct,))
    assert grad(f)(1.0) == 1.0 and grad(f)(-1.0) == 20.0


def test_values_of_an_outer_graph_may_be_closed_over():
    def outer(x, w):
        @custom_vjp
        def f(z):
            return z * w

        f.defvjp(lambda z: (f(z), None), lambda _, ct: (ct * w * 2,))
        inner = as_graph(f, x)
        return grad(inner)(x) + inner(x)

    assert outer(3.0, 5.0) == 25.0
    assert as_graph(outer, 3.0, 5.0)(3.0, 5.0) == 25.0
    # recorded inside a graph, differentiated after that graph is finished
    later = as_graph(lambda x, w: as_graph_of_closure(x, w), 3.0, 5.0)
    assert grad(later)(3.0, 5.0) == 10.0
    np.testing.assert_allclose(vmap(grad(later))(np.array([3.0, 1.0]), np.array([5.0, 4.0])), [10.0, 8.0])
    with pytest.raises(TypeError, match="close over a value that is being differentiated"):
        grad(later, argnums=1)(3.0, 5.0)


def as_graph_of_closure(x, w):
    @custom_vjp
    def f(z):
        return z * w

    f.defvjp(lambda z: (f(z), None), lambda _, ct: (ct * w * 2,))
    return f(x)


def test_complex_values():
    @custom_jvp
    def f(z):
        return z * z

    f.defjvps(lambda t, out, z: 2 * z * t)
    z = np.array([1 + 2j, 0.5j])
    plain, pull_plain = vjp(lambda z: z * z, z)
    ours, pull_ours = vjp(f, z)
    np.testing.assert_allclose(pull_ours(np.array([1j, 2.0 + 0j]))[0], pull_plain(np.array([1j, 2.0 + 0j]))[0])


def test_value_and_grad_runs_the_function_once():
    calls = []

    @custom_vjp
    def f(x):
        calls.append("f")
        return x**2

    def fwd(x):
        calls.append("fwd")
        return x**2, x

    f.defvjp(fwd, lambda x, ct: (2 * x * ct,))
    assert value_and_grad(f)(3.0) == (9.0, 6.0)
    assert calls == ["fwd"]
    f(3.0)
    assert calls == ["fwd", "f"]


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [custom_vjp, custom_jvp])
def test_missing_rule_is_told_when_it_matters(make):
    f = make(lambda x: x * 2)
    assert f(1.0) == 2.0
    assert as_graph(f, 1.0)(1.0) == 2.0
    np.testing.assert_array_equal(vmap(f)(X), 2 * X)
    for run in (lambda: grad(f)(1.0), lambda: jvp(f, (1.0,), (1.0,)), lambda: grad(as_graph(f, 1.0))(1.0)):
        with pytest.raises(
            MissingRuleError, match=r"custom_(vjp|jvp) of <lambda>: no derivative rule \(define one with \.def"
        ):
            run()


def test_wrong_rules_are_named():
    f = custom_vjp(lambda x, y: np.sum(x) * y)
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (np.ones(3), ct))
    with pytest.raises(ValueError, match=r"cotangent of argument 0 must have its shape \(4,\), got \(3,\)"):
        grad(f)(X, 1.0)
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (np.ones(4),))
    with pytest.raises(TypeError, match="tuple of 2 cotangents"):
        grad(f)(X, 1.0)
    f.defvjp(lambda x, y: f(x, y), lambda _, ct: (np.ones(4), ct))
    with pytest.raises(TypeError, match=r"fwd must return a pair \(out, residuals\)"):
        grad(f)(X, 1.0)
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (np.ones(4) * 1j, ct))
    with pytest.raises(TypeError, match="must have its dtype float64, got complex128"):
        grad(f)(X, 1.0)
    g = custom_jvp(lambda x: x)
    g.defjvp(lambda p, t: (p[0], np.ones(3)))
    with pytest.raises(ValueError, match=r"tangent of output must have its shape \(4,\), got \(3,\)"):
        jvp(g, (X,), (X,))
    g.defjvps(None, None)
    with pytest.raises(TypeError, match="one rule for each argument, got 2 for 1"):
        jvp(g, (X,), (X,))


def test_closing_over_a_differentiated_or_batched_value_is_an_error():
    def through_closure(w):
        f = custom_vjp(lambda x: x * w)
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
        return f(w)

    with pytest.raises(TypeError, match="must not close over a value that is being differentiated"):
        grad(through_closure)(2.0)
    with pytest.raises(TypeError, match="must not close over a value that is being batched"):
        vmap(through_closure)(X)


def test_bad_arguments():
    with pytest.raises(TypeError, match="custom_vjp: expected a function, got int"):
        custom_vjp(3)
    f = custom_vjp(lambda x, *, k: x)
    with pytest.raises(TypeError, match="keyword-only"):
        f(1.0, k=2)


def test_python_control_flow_in_functions_and_rules_under_jit():
    def f(x):
        return x**2 if x > 0 else -x

    reverse = custom_vjp(f)
    reverse.defvjp(lambda x: (f(x), x), lambda x, ct: (10 * ct if x > 0 else 20 * ct,))
    forward = custom_jvp(f)

    @forward.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        if x > 0:
            return f(x), 10 * t
        return f(x), 20 * t

    for g in (reverse, forward):
        assert [jit(g)(x) for x in (3.0, -3.0)] == [9, 3]
        assert [jit(grad(g))(x) for x in (3.0, -3.0)] == [10, 20]
    assert [jit(lambda x: jvp(forward, (x,), (1.0,))[1])(x) for x in (3.0, -3.0)] == [10, 20]
