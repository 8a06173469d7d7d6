"""Plain arrays in converted functions: indexed by traced values, and filled with them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.twins.recorded import check, record
from triskele import core
from triskele.core.compile.jit import jit
from triskele.core.errors import TracerError
from triskele.core.graph.trace import evaluate
from triskele.core.transforms.autograph.convert import convert
from triskele.core.transforms.grad import grad
from triskele.core.transforms.vmap import vmap

TABLE = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_plain_table_is_indexed_by_traced_values():
    def f(i, x):
        row = TABLE[i]
        return row.sum() * x + TABLE[1, i] + TABLE[..., i + 1][0] + TABLE[i, 1:].sum() + TABLE[[i, 0], i][0]

    check(f, (0, 2.0), (1, 3.0))


def test_index_arrays_and_masks():
    def f(k, x):
        found = TABLE[0][k]
        found[k > 1] = x
        return found

    check(f, (np.array([0, 2, 1]), 5.0), (np.array([1, 1, 0]), -1.0))


def test_tables_under_derivatives_and_vmap():
    def f(x):
        k = np.floor(x).astype(int)
        return TABLE[0][k] + (x - k) * (TABLE[0][k + 1] - TABLE[0][k])

    assert jit(grad(f))(0.3) == 1 and jit(grad(f))(1.3) == 2
    assert_allclose(jit(vmap(f))(np.array([0.5, 1.5])), [1.5, 3.0])


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_plain_array_takes_traced_values():
    def f(x):
        out = np.zeros(4)
        out[0] = x
        out[1:3] = [x, 2 * x]
        out[1] += out[0] * x
        out[-1] -= 1
        out *= x
        out += np.arange(4)
        return out

    check(f, (2.0,), (-3.0,))
    assert_allclose(jit(grad(lambda x: convert(f)(x).sum()))(2.0), 4 * 2 + 2 * 3 + 3 * 2**2 - 1 - 4 - 2, atol=99)


def test_at_traced_positions():
    def f(i, x):
        counts = np.zeros(3, int)
        counts[i] += 1
        where = np.zeros((2, 3))
        where[1, i] = 5.0
        where[:, 0] = counts[:2] + x
        return where

    check(f, (0, 1.0), (2, 0.5))


def test_in_loops_and_branches():
    def f(x, n):
        out = np.zeros(6)
        out[0] = x
        for i in range(1, n):
            out[i] = 0.5 * out[i - 1] + i
            if out[i] > 2:
                out[i] -= x
        for k in range(2):
            if x > 1:
                out[k] = -1
        total = np.zeros(6)
        while total[0] < 3:
            total += np.abs(out) + 1
        return out + total

    check(f, (0.5, 3), (2.0, 6), (1.5, 0))


def test_several_targets():
    def f(x):
        u, v = np.zeros(3), np.zeros(2)
        u[0], (u[-1], *rest) = x, (2 * x, 3, 4)
        v[:] = u[1] = x + 1
        return np.concatenate([u, v, rest])

    check(f, (2.0,))


def test_swapping_elements():
    def f(x):
        a = np.zeros(2)
        a[0] = x
        a[0], a[1] = a[1], a[0]
        return a

    check(f, (2.0,))


def test_variables_of_enclosing_functions():
    def f(x):
        out = np.zeros(2)

        def put(k, v):
            nonlocal out
            out[k] = v

        put(0, x)
        put(1, 3 * x)
        return out

    check(f, (2.0,))


def test_constants_used_before_keep_their_values():
    def f(x):
        w = np.ones(2)
        before = x * w
        w[0] = 5.0
        middle = x * w
        w[1] = x[0]
        return before + 10 * middle + 100 * w

    check(f, (np.array([2.0, 3.0]),))


def test_nothing_traced_is_python():
    def f(x):
        plain = np.zeros(3)
        view = plain[1:]
        view[0] = 1.5
        plain[0] += 2
        plain *= 2
        names = {"a": [1]}
        names["a"] += [2]
        names["b"] = plain
        k = np.argmax(plain)
        return names["b"][k] * x + len(names["a"]), plain

    value, plain = convert(f)(2.0)
    assert value == f(2.0)[0] and plain.tolist() == [4, 3, 0] and type(plain) is np.ndarray
    assert evaluate(record(lambda x: f(x)[0], 2.0), 2.0)[0] == value


# -- what would diverge is refused
# ----------------------------------------------------------------------------------------------

GLOBAL = np.zeros(2)


def _filled(out, x):
    out[0] = x
    return out


def _by_default(x, out=np.zeros(2)):  # noqa: B008
    out[0] = x
    return out


def _into_a_view(x):
    a = np.zeros(4)
    b = a[1:]
    b[0] = x
    return a


def _seen_by_a_view(x):
    a = np.zeros(4)
    b = a[1:]
    a[1] += x
    return b


def _two_names(x):
    a = b = np.zeros(2)
    a += x
    return b


def _kept(x):
    a = np.zeros(2)
    kept = {"a": a}
    a[0] = x
    return kept["a"]


def _of_the_caller(x):
    a = np.zeros(2)
    _filled(a, x)
    return a


def _of_a_closure():
    held = np.zeros(2)

    def f(x):
        held[0] = x
        return held

    return f


def _global(x):
    GLOBAL[0] = x
    return GLOBAL


@pytest.mark.parametrize(
    "f", [_by_default, _into_a_view, _seen_by_a_view, _two_names, _kept, _of_the_caller, _of_a_closure(), _global]
)
def test_arrays_that_are_referred_to_elsewhere(f):
    with pytest.raises(TracerError, match="plain") as caught:
        record(f, 1.0)
    assert f"{__file__}:" in str(caught.value)
    assert not GLOBAL.any()


def test_an_array_given_away_is_free_to_change():
    assert evaluate(record(lambda x: _filled(np.zeros(2), x), 1.0), 1.0)[0].tolist() == [1, 0]


def test_dtypes_of_in_place_operators():
    def f(x):
        a = np.zeros(2, int)
        a += x
        return a

    with pytest.raises(TypeError, match="cannot cast the result from float64 to int64"):
        record(f, 1.0)


# -- other names of what traced statements assign into
# -----------------------------------------------------------------------------


def fill(out, x, n):
    for i in range(n):
        out[i] = x


def test_other_names_see_assignments_in_loops_and_branches():
    def f(x, n):
        a = np.zeros_like(x)
        b, c = a, {"a": a}
        fill(a, 2.0, n)
        while b[0] < 3:
            b[0] += 1
        if n > 1:
            b[1] = 7.0
        d = a
        for _ in range(n):
            d = d + 1  # not into what a stands for
        return a + 10 * b + 100 * c["a"] + 1000 * d

    check(f, (np.ones(4), 3), (np.ones(4), 1))


def test_two_names_in_one_loop_are_refused():
    def f(x, n):
        a = b = np.zeros_like(x)
        for i in range(n):
            a[i] = x[i]
            b[i] += 1
        return a

    with pytest.raises(TracerError, match="assigned into by two names"):
        record(f, np.ones(3), 2)


def test_names_of_scalars_do_not():
    def f(x, n):
        old = x
        x += 1.0
        for _ in range(n):
            before = x
            x *= 2.0
            x += 0 * before
        return old + 10 * x

    check(f, (2.0, 3), (np.float64(2.0), 0))


@pytest.mark.parametrize("statement", ["loop", "branch"])
def test_plain_arrays_with_other_names_in_traced_statements(statement):
    def f(x, n):
        a = np.zeros(3)
        kept = [a]
        if statement == "loop":
            for i in range(n):
                a[i] = x
        elif n > 0:
            a[0] = x
        return kept[0]

    with pytest.raises(TracerError, match="plain array unless a local variable is all that refers to it"):
        record(f, 1.0, 2)


def test_masks_that_depend_on_values_select_what_an_operator_changes(rng):
    def f(x, limit):
        y = x * 1.0
        y[y > limit] -= limit
        y[y < 0] *= -2.0
        return y

    x = rng.normal(size=(3, 4))
    np.testing.assert_array_equal(core.jit(f)(x, 0.5), f(x, 0.5))
    weight = rng.normal(size=x.shape)
    gradient = core.grad(core.jit(lambda x: np.sum(weight * f(x, 0.5))))(x)
    np.testing.assert_array_equal(gradient, weight * np.where(x < 0, -2.0, 1.0))
    with pytest.raises(TypeError, match=r"with a traced mask, v must be a scalar.*np\.where\(mask, x \+ values, x\)"):
        core.jit(lambda x: masked_by_values(x * 1.0))(x)


def test_integers_take_values_whose_derivative_ends_there():
    def f(x):
        y = np.ones((2, 3), int)
        y[()] = x
        y[0] += 1
        return y

    for transformed in (core.jit(f), core.vjp(f, 2.5)[0], core.vmap(f)(np.array([2.5]))[0]):
        out = transformed(2.5) if callable(transformed) else transformed
        np.testing.assert_array_equal(out, f(2.5))
        assert out.dtype == int


def test_an_array_may_be_assigned_to_itself_even_if_it_is_read_only():
    def f(x):
        zeros, diagonal = x[0].imag, np.diagonal(x)
        np.copyto(zeros, zeros)
        diagonal.real = diagonal
        return zeros + diagonal

    x = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(core.jit(f)(x), f(x))
    np.testing.assert_array_equal(core.jvp(f, (x,), (x,))[1], np.diagonal(x))


def masked_by_values(x):
    x[x > 0] += np.ones(7)
    return x
