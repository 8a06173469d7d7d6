"""Wrong use: each error names the operation, the shapes or dtypes, the user's line (in this file) and what to do
instead.
"""

import itertools
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from triskele import core

x = np.arange(1.0, 4.0)
m = np.ones((2, 3))
plain = np.zeros(3)
kept = []


class Thing:
    pass


@core.custom_op(out=lambda x: core.spec(x.shape, x.dtype), mode="python")
def doubled(x):
    return x * 2


def keep(v):
    kept.append(v)
    return np.sum(v)


def after(transform):
    """The value that a function under `transform` had put aside."""
    kept.clear()
    transform(keep)
    return kept[-1]


def store(v):
    plain[0] = v[0]
    return np.sum(v)


def grad(f, *args):
    return core.grad(f)(*(args or (x,)))


def jit(f, *args):
    return core.jit(f)(*(args or (x,)))


def vmap(f, *args):
    return core.vmap(f)(*(args or (m,)))


def case(call, error, *told, at_entry=False):
    """`told`: what the message must say. `at_entry`: refused before any of the user's lines runs."""
    name = f"{call.__code__.co_firstlineno}-" + re.sub(r"\W+", " ", told[0]).strip().replace(" ", "_")
    return pytest.param(call, error, told, at_entry, id=name)


WRONG = {
    "shapes and axes": [
        case(lambda: grad(lambda v: np.sum(v @ m)), ValueError, r"matmul: .*got 3 and 2", r"\(3,\) and \(2, 3\)"),
        case(lambda: vmap(lambda v: v + np.ones(2)), ValueError, r"broadcast", r"in add\(float64\[3\], float64\[2\]\)"),
        case(
            lambda: jit(lambda v: v + np.ones(2)),
            ValueError,
            r"add: operands could not be broadcast together with shapes \(3,\) \(2,\)",
        ),
        case(
            lambda: grad(lambda v: np.sum(v, axis=2)),
            ValueError,
            r"axis 2 is out of bounds .* dimension 1",
            r"in sum\(float64\[3\], axis=2",
        ),
        case(lambda: jit(lambda v: np.cumsum(v, axis=1)), ValueError, r"axis 1 is out of bounds", "cumsum"),
        case(
            lambda: jit(lambda v: np.reshape(v, (2, 2))),
            ValueError,
            r"cannot reshape array of size 3 into shape \(2, 2\)",
            "reshape",
        ),
        case(
            lambda: jit(lambda v: np.concatenate([v, m])),
            ValueError,
            "dimension",
            r"in concatenate\(\[float64\[3\], float64\[2,3\]\]",
        ),
        case(
            lambda: jit(lambda v: np.einsum("ij,j->i", m, v[:2])),
            ValueError,
            r"einsum: dimensions named 'j' must be equal, got 3 and 2",
        ),
        case(
            lambda: jit(lambda v: np.linalg.solve(m, v)),
            np.linalg.LinAlgError,
            r"must be square, got shape \(2, 3\)",
            "solve",
        ),
        case(
            lambda: grad(lambda v: np.sum(np.linalg.cholesky(v)), m),
            np.linalg.LinAlgError,
            r"must be square",
            "cholesky",
        ),
        case(lambda: jit(lambda v: np.fft.fft(v, axis=3)), ValueError, "axis 3 is out of bounds", "fft"),
        case(
            lambda: jit(lambda v: core.index_update(v, slice(0, 2), np.ones(3))),
            ValueError,
            r"shape \(3,\) into shape \(2,\)",
            "index_update",
        ),
    ],
    "dtypes": [
        case(lambda: grad(lambda v: np.sum(v & 1)), TypeError, "bitwise_and", r"float64\[3\]"),
        case(lambda: jit(lambda v: v & 1), TypeError, "bitwise_and", r"float64\[3\], int64"),
        case(
            lambda: jit(lambda v: v + 300, np.ones(2, np.int8)),
            OverflowError,
            "Python integer 300 out of bounds for int8",
            "add",
        ),
        case(
            lambda: grad(lambda v: np.sum(v * (np.ones(3, np.uint8) + -1))), OverflowError, "-1 out of bounds for uint8"
        ),
        case(lambda: jit(lambda n: n, 2**70), OverflowError, "int64, got 1180591620717411303424", at_entry=True),
        case(lambda: jit(lambda v: v + "a"), TypeError, r"\+.*'str'"),
        case(
            lambda: core.jvp(np.sin, (x,), (1j * x,)),
            TypeError,
            "tangent of a real value must be real, got complex128",
            at_entry=True,
        ),
        case(
            lambda: core.vjp(np.sin, x)[1](1j * x),
            TypeError,
            "cotangent of a real output must be real, got complex128",
            at_entry=True,
        ),
    ],
    "inputs of transforms": [
        case(
            lambda: grad(np.sum, np.arange(3)),
            TypeError,
            r"float or complex values, got int64\[3\]",
            "astype",
            at_entry=True,
        ),
        case(lambda: grad(lambda n: n**2, 3), TypeError, r"got int64.*write 3\.0", at_entry=True),
        case(lambda: grad(lambda p: p["a"], {"a": 1.0, "b": "hi"}), TypeError, "got str", "argnums", at_entry=True),
        case(lambda: grad(lambda p: p, Thing()), TypeError, r"got object", at_entry=True),
        case(
            lambda: jit(lambda p: p, {"a": 1.0, "b": "hi"}),
            TypeError,
            r"got str 'hi' in p\.b ",
            "static_argnames",
            at_entry=True,
        ),
        case(lambda: jit(lambda p: p, np.array([1, None])), TypeError, "dtype object", at_entry=True),
        case(
            lambda: vmap(lambda p: p, ["hi"]),
            TypeError,
            "arrays and numbers.* got str 'hi'",
            "in_axes=None",
            at_entry=True,
        ),
        case(
            lambda: vmap(np.add, np.ones(3), np.ones(2)),
            ValueError,
            r"one size, got 3 .*shape \(3,\).* 2 .*shape \(2,\)",
            at_entry=True,
        ),
        case(lambda: vmap(np.sin, 1.0), ValueError, r"batch axis 0, got shape \(\)", "in_axes=None", at_entry=True),
        case(
            lambda: core.vmap(np.add, in_axes=(0,))(x, x),
            ValueError,
            "one entry per positional argument, got 1 for 2",
            at_entry=True,
        ),
        case(
            lambda: core.vmap(np.add, in_axes=(1, 0))(x, x),
            ValueError,
            r"batch axis 1, got shape \(3,\)",
            at_entry=True,
        ),
        case(
            lambda: core.vmap(np.add, in_axes="a")(x, x),
            TypeError,
            "in_axes must be integers or None, got 'a'",
            at_entry=True,
        ),
        case(lambda: core.vmap(np.sin, out_axes=3)(x), ValueError, "out_axes must be within the 1 axes", at_entry=True),
        case(lambda: core.grad(np.sin, argnums=3)(1.0), ValueError, r"got 3 for 1 argument", at_entry=True),
        case(lambda: core.grad(np.sin, argnums=0.5)(1.0), TypeError, r"argnums must be an integer", at_entry=True),
        case(
            lambda: core.jvp(np.sin, (x,), (m,)),
            ValueError,
            r"shape of its primal, \(3,\), got \(2, 3\)",
            at_entry=True,
        ),
        case(
            lambda: core.jvp(np.sin, (x,), (x, x)),
            ValueError,
            r"one structure, got \(\*,\) and \(\*, \*\)",
            at_entry=True,
        ),
        case(
            lambda: core.vjp(np.sin, x)[1](m), ValueError, r"shape of its output, \(3,\), got \(2, 3\)", at_entry=True
        ),
        case(
            lambda: jit(lambda v: v * v, m.view(np.matrix)),
            TypeError,
            r"expected ndarrays, got matrix of shape \(2, 3\)",
            "np.asarray",
            at_entry=True,
        ),
        case(
            lambda: jit(lambda v: v * 2, np.ma.array(x, mask=[0, 1, 0])),
            TypeError,
            r"got MaskedArray of shape \(3,\)",
            "filled",
            at_entry=True,
        ),
        case(
            lambda: grad(lambda v: np.sum(v * v), np.ma.array(x, mask=[0, 1, 0])),
            TypeError,
            r"got MaskedArray",
            "filled",
            at_entry=True,
        ),
        case(lambda: vmap(lambda v: v * v, m.view(np.matrix)), TypeError, "got matrix", "np.asarray", at_entry=True),
        case(
            lambda: core.jit(lambda v, k: v, static_argnames="k")(x, [1]),
            TypeError,
            "hashable, got list for 'k'",
            at_entry=True,
        ),
        case(
            lambda: core.jit(lambda v, k: v, static_argnames="z")(x, 1),
            ValueError,
            "got 'z' .*it has v, k",
            at_entry=True,
        ),
    ],
    "results": [
        case(lambda: core.grad(lambda v: v * 2)(x), TypeError, r"one real scalar, got shape \(3,\)", "jacrev"),
        case(
            lambda: core.jit(core.grad(lambda v: v * 2))(x), TypeError, r"one real scalar, got shape \(3,\)", "jacrev"
        ),
        case(lambda: core.grad(lambda v: np.argmax(v))(x), TypeError, r"real scalar, got int64", "no derivative"),
        case(lambda: core.grad(lambda v: np.sum(v) * 1j)(x), TypeError, r"real scalar, got complex128", "np.real"),
        case(lambda: core.grad(lambda v: None)(x), TypeError, r"one real scalar, got NoneType"),
        case(lambda: core.grad(lambda v: (np.sum(v), v))(x), TypeError, r"one real scalar, got tuple", "has_aux"),
        case(lambda: core.grad(lambda v: v, has_aux=True)(1.0), TypeError, r"pair \(value, aux\), got one array"),
        case(lambda: core.jit(lambda v: "no")(x), TypeError, "arrays and numbers, got str 'no'"),
        case(lambda: vmap(lambda v: "no"), TypeError, "arrays and numbers.* got str 'no'", at_entry=True),
        case(lambda: core.jacfwd(lambda v: "no")(x), TypeError, "arrays and numbers.* got str 'no'"),
    ],
    "values put aside": [
        case(lambda: np.sin(after(lambda f: core.grad(f)(x))), core.errors.EscapedTensorError, "sin: .*return it"),
        case(lambda: np.sin(after(lambda f: core.jit(f)(x))), core.errors.EscapedTensorError, "sin: .*return it"),
        case(lambda: np.sin(after(lambda f: core.vmap(f)(m))), core.errors.EscapedTensorError, "sin: .*return it"),
        case(
            lambda: np.sin(after(lambda f: core.jvp(f, (x,), (x,)))), core.errors.EscapedTensorError, "sin: .*return it"
        ),
        case(
            lambda: (lambda w: jit(lambda v: v + w))(after(lambda f: core.jit(f)(x))),
            core.errors.EscapedTensorError,
            "transform that has ended",
        ),
        case(
            lambda: (lambda w: grad(lambda v: np.sum(v + w)))(after(lambda f: core.jit(f)(x))),
            core.errors.EscapedTensorError,
            "add: .*return it",
        ),
        case(
            lambda: (lambda w: core.jit(lambda v: w)(x))(after(lambda f: core.jit(f)(x))),
            core.errors.EscapedTensorError,
            "return it",
        ),
    ],
    "traced values where Python wants its own": [
        case(
            lambda: vmap(lambda v: v if v[0] > 0 else -v),
            TypeError,
            r"bool\(\): .*2 values, one for each example",
            r"np\.where",
        ),
        case(
            lambda: jit(lambda v: [k for k in range(3) if v[k] > 0]),
            TypeError,
            r"bool\(\): .*bool\[\].*no value yet",
            "core.cond",
        ),
        case(lambda: jit(lambda v: 1.0 if v > 0 else 0.0), TypeError, r"one element, got bool\[3\]", r"\.any\(\)"),
        case(lambda: jit(lambda n: x.reshape(n, 1), 3), TypeError, "index: .*no value yet", "static_argnames"),
        case(lambda: jit(lambda v: v.item(), 1.0), TypeError, r"item\(\): ", "keep the array"),
        case(lambda: jit(lambda n: n in {1, 2}, 1), TypeError, "unhashable", "compare with =="),
        case(lambda: jit(lambda n: {1: x}[n], 1), TypeError, "unhashable", "compare with =="),
        case(lambda: jit(lambda v: np.sin(v, out=plain)), TypeError, "sin: out= must be a traced array"),
        case(lambda: jit(lambda v: v[v > 1]), TypeError, r"x\[mask\]: .*shape \(3,\)", r"np\.where\(mask"),
        case(
            lambda: jit(lambda v: np.nonzero(v)),
            TypeError,
            "nonzero: the result's shape depends on values",
            "keep the shape",
        ),
        case(lambda: jit(lambda v: np.unique(v)), TypeError, "unique: the result's shape depends on values"),
    ],
    "indices": [
        case(lambda: grad(lambda v: v[5]), IndexError, "index 5 is out of bounds for axis 0 with size 3", "getitem"),
        case(lambda: jit(lambda v: v[0, 0]), IndexError, "too many indices", r"float64\[3\]"),
        case(lambda: jit(lambda v, i: v[i], x, 1.0), IndexError, "only integers.*float64"),
        case(lambda: jit(lambda v, i: v[i], x, 7), IndexError, "index 7 is out of bounds for axis 0 with size 3"),
        case(
            lambda: jit(lambda v, i: v[i], x, np.array([0, -4])),
            IndexError,
            r"index -4 is out of bounds for axis 0 with size 3 at \(1,\)",
        ),
        case(lambda: core.jit(core.grad(lambda v, i: v[i]))(x, 7), IndexError, "index 7 is out of bounds for axis 0"),
        case(lambda: jit(lambda v, i: core.index_add(v, i, 1.0), x, 3), IndexError, "index 3 is out of bounds"),
    ],
    "missing rules": [
        case(
            lambda: grad(lambda v: np.sum(doubled(v))),
            NotImplementedError,
            r"doubled\(float64\[3\]\): no derivative rule",
            r"@doubled\.vjp",
        ),
        case(
            lambda: core.jvp(doubled, (x,), (x,)),
            NotImplementedError,
            r"doubled\(float64\[3\]\): no derivative rule",
            at_entry=True,
        ),
        case(
            lambda: vmap(doubled),
            NotImplementedError,
            r"doubled\(float64\[2,3\]\): no batching rule",
            "batch='sequential'",
            at_entry=True,
        ),
        case(
            lambda: grad(lambda v: np.sum(np.frompyfunc(lambda t: t, 1, 1)(v))),
            TypeError,
            "no traced form of this ufunc",
            "core.elementwise",
        ),
        case(
            lambda: grad(lambda v: np.apply_over_axes(np.sum, v, [0])),
            TypeError,
            "apply_over_axes: no traced form",
            "custom_op",
        ),
        case(
            lambda: grad(lambda v: np.sum(np.multiply.reduceat(v, [0, 1]))),
            TypeError,
            "multiply.reduceat: not supported",
        ),
    ],
    "control flow": [
        case(
            lambda: jit(lambda v: core.cond(v[0] > 0, lambda v: v, lambda v: v[:2], v)),
            TypeError,
            r"cond: .*got float64\[2\].*float64\[3\]",
            "broadcast_to",
        ),
        case(
            lambda: jit(lambda v: core.cond(v[0] > 0, lambda v: (v, v), lambda v: v, v)),
            TypeError,
            r"cond: .*one structure, got \*.*\(\*, \*\)",
        ),
        case(
            lambda: jit(lambda v: core.cond(v[0] > 0, lambda v: v, lambda v: v.astype(int), v)),
            TypeError,
            r"cond: .*int64\[3\].*float64\[3\]",
            "astype",
        ),
        case(
            lambda: jit(lambda v: core.cond(v > 0, lambda v: v, lambda v: v, v)),
            TypeError,
            r"predicate must be a boolean scalar, got bool\[3\]",
        ),
        case(
            lambda: jit(lambda v: v if v[0] > 0 else v[:2]),
            TypeError,
            r"conditional expression",
            r"float64\[3\].*float64\[2\]",
        ),
        case(
            lambda: jit(lambda v: core.scan(lambda c, t: (np.stack([c, t]), c), v[0], v)),
            TypeError,
            r"scan of .*was float64\[\] and became float64\[2\]",
        ),
        case(lambda: core.scan(lambda c, t: (c, c), 0.0, (x, np.ones(2))), ValueError, r"one length, got 3 .*, 2 "),
        case(lambda: core.scan(lambda c, t: c, 0.0, x), TypeError, r"pair \(carry, y\), got float"),
        case(
            lambda: core.while_loop(lambda c: c, lambda c: c - 1, 1.0),
            TypeError,
            r"while_loop: the condition must be a boolean scalar, got float64",
        ),
        case(
            lambda: jit(lambda n: core.while_loop(lambda c: c[0] < n, lambda c: c[0] + 1, (0,)), 3),
            ValueError,
            r"while_loop .*structure \(\*,\), got \*",
        ),
        case(lambda: core.fori_loop(0, 2.5, lambda i, c: c, 1.0), TypeError, "bounds must be integers, got float64"),
        case(
            lambda: jit(lambda i: core.switch(i, [np.sin], 1.0), 1.5),
            TypeError,
            "switch: the index must be an integer scalar, got float64",
        ),
    ],
}


@pytest.mark.parametrize(("call", "error", "told", "at_entry"), list(itertools.chain(*WRONG.values())))
def test_errors_tell_what_where_and_what_to_do(call, error, told, at_entry):
    with pytest.raises(error) as caught:
        call()
    message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    for pattern in told:
        assert re.search(pattern, message), message
    if not at_entry:
        assert f"test_bad_input.py:{call.__code__.co_firstlineno}" in message, message


def test_assigning_a_traced_value_into_a_plain_array():
    with pytest.raises(
        TypeError, match=r"cannot be put into a plain array .*np\.zeros_like\(x\) of a traced x"
    ) as caught:
        core.grad(store)(x)
    assert "test_bad_input.py" in caught.value.__notes__[0]
    with pytest.raises(
        TypeError,
        match=r"cannot be put into a plain array.*test_bad_input\.py.*np\.zeros_like\(x\) of "
        r"a traced x",
    ):
        core.jit(store)(x)
    assert_array_equal(plain, 0)


def test_debug_mode_names_the_first_operation_that_is_not_finite():
    with pytest.raises(
        FloatingPointError, match=r"log\(float64\[3\]\) gave NaN at index \(0,\), at .*test_bad_input\.py"
    ):
        core.jit(lambda v: np.sum(np.log(v - 1.5)), debug=True)(x)
    with pytest.raises(FloatingPointError, match=r"divide.* gave infinity"):
        core.jit(core.grad(lambda v: np.sqrt(v)), debug=True)(0.0)
    assert np.isfinite(core.jit(lambda v: np.sum(np.log(v)), debug=True)(x))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_integers_divided_by_zero_and_beyond_their_range_are_numpys(dtype):
    v = np.array([np.iinfo(dtype).min, 7, np.iinfo(dtype).max], dtype)
    with np.errstate(all="ignore"):
        for f in (
            lambda v: v // (v - v),
            lambda v: v % (v - v),
            lambda v: v + v,
            lambda v: v * v,
            lambda v: -v,
            np.abs,
            lambda v: v < 2**70,
            lambda v: -(2**70) >= v,
            lambda v: v == 300,
            lambda v: np.clip(v, -300, 2**70),
        ):
            found, expected = core.jit(f)(v), f(v)
            assert_array_equal(found, expected)
            assert found.dtype == expected.dtype


def test_errors_leave_no_transform_behind():
    """After an error inside nested transforms, NumPy and the next transform start afresh."""
    with pytest.raises(ValueError, match="broadcast"):
        core.grad(lambda v: core.vmap(lambda w: core.jit(lambda u: np.sum(u + np.ones(2)))(w))(np.stack([v, v])).sum())(
            x
        )
    assert_array_equal(np.sin(x) + 1, core.jit(lambda v: np.sin(v) + 1)(x))
    assert_array_equal(core.grad(lambda v: np.sum(v**2))(x), 2 * x)


def test_a_traced_range_outside_a_for_statement():
    with pytest.raises(TypeError, match=r"can only be the iterable of a `for` statement, at .*test_bad_input\.py"):
        core.jit(lambda n: sum(range(n)))(5)


def test_a_traced_shape():
    with pytest.raises(TypeError, match=r"shape: it must be known.*static_argnames"):
        core.jit(lambda v, n: np.zeros(n) + v)(1.0, 3)
