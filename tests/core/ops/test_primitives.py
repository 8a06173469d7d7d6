"""Every registered primitive against its own promises: a new one is tested by existing.

And the checker against wrong rules.
"""

import numpy as np
import pytest

import triskele.core.ops  # noqa: F401  registers the primitives
from triskele.core.graph.graph import Spec
from triskele.core.graph.primitive import PRIMITIVES, Primitive
from triskele.core.graph.trace import bind
from triskele.core.ops.define import elementwise, ufunc_loop
from triskele.core.testing import check_grads, check_op

# those of `core.elementwise` have a hash after a colon in their names, whatever has been imported before
OURS = {n: p for n, p in PRIMITIVES.items() if p.spec.__module__.startswith("triskele.core.ops") and ":" not in n}


@pytest.mark.parametrize("name", sorted(n for n, p in OURS.items() if p.samples or p.domain))
def test_primitive(name):
    check_op(PRIMITIVES[name])


def test_every_operation_has_samples():
    assert not [name for name, p in OURS.items() if p.samples is None and p.domain is None]


@pytest.fixture
def doubling():
    """A right primitive to spoil, gone from the registry afterwards."""
    p = Primitive(
        "doubling", lambda x: 2 * x, lambda x: Spec(x.shape, x.dtype), samples=lambda rng: [((rng.normal(size=3),), {})]
    )
    p.defvjp(lambda ct, out, x: 2 * ct)
    p.defjvp(lambda t, out, x: 2 * t)
    p.defbatch(lambda args, axes, size: (2 * args[0], axes[0]))
    yield p
    del PRIMITIVES["doubling"]


def test_checker_accepts_right_rules(doubling):
    check_op(doubling)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda p: p.defvjp(lambda ct, out, x: 3 * ct), "vjp"),
        (lambda p: p.defvjp(lambda ct, out, x: (2 * ct).astype(np.float32)), "must be float64"),
        (lambda p: p.defjvp(lambda t, out, x: 2.001 * t), "jvp"),
        (lambda p: p.defbatch(lambda args, axes, size: (2 * args[0] + 1, axes[0])), "batch"),
        (lambda p: p.defbatch(lambda args, axes, size: (2 * args[0], 0)), "batch"),
        (lambda p: setattr(p, "spec", lambda x: Spec((*x.shape, 1), x.dtype)), "spec promises"),
        (lambda p: setattr(p, "spec", lambda x: Spec(x.shape, np.dtype(np.float32))), "spec promises"),
    ],
)
def test_checker_finds_wrong_rules(doubling, spoil, message):
    spoil(doubling)
    with pytest.raises(AssertionError, match=message):
        check_op(doubling)


def test_checker_finds_a_wrong_emission():
    elementwise(
        "misemitted", impl=np.sin, loop=ufunc_loop(np.sin), d=(lambda out, x: np.cos(x),), emit="cos", domain=((-1, 1),)
    )
    try:
        with pytest.raises(AssertionError, match="sample 0 compiled"):
            check_op(PRIMITIVES["misemitted"])
    finally:
        del PRIMITIVES["misemitted"]


def test_checker_finds_a_wrong_second_derivative(doubling):
    slope = Primitive("constant_slope", lambda x: 2 * x, lambda x: Spec(x.shape, x.dtype), differentiable=False)
    doubling.impl = lambda x: x**2
    doubling.defjvp(lambda t, out, x: t * bind(slope, x))  # right, but a constant to further derivatives
    doubling.defvjp(lambda ct, out, x: ct * bind(slope, x))
    try:
        with pytest.raises(AssertionError, match="order 2"):
            check_grads(lambda x: bind(doubling, x), (np.arange(1.0, 4.0),))
    finally:
        del PRIMITIVES["constant_slope"]


def test_check_grads_sees_through_trees_and_complex_numbers():
    check_grads(lambda p: {"y": np.sin(p["a"]) * p["b"][0], "n": 3}, ({"a": np.arange(3.0), "b": (1.5,)},), order=3)
    check_grads(lambda z: np.abs(z) ** 2 * np.exp(z), (np.array([1 + 2j, -0.3j]),))


def test_check_grads_refuses_integers_and_unknown_modes():
    with pytest.raises(TypeError, match=r"write 3\.0"):
        check_grads(np.sin, (3,))
    with pytest.raises(ValueError, match="modes must be"):
        check_grads(np.sin, (3.0,), modes=("forward",))
