"""Random programs: whatever is composed, jit, derivatives and batching agree with plain NumPy.

A program is a list of instructions on a growing list of values, drawn together with the shapes it runs through, so that
every instruction fits. `run` replays it on ndarrays and on traced values alike.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from triskele import core

CASES = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


class Instruction(NamedTuple):
    name: str
    args: tuple[int, ...]  # which values it takes
    param: Any


class Program(NamedTuple):
    inputs: tuple[tuple[tuple[int, ...], str], ...]  # shape and dtype of each
    instructions: tuple[Instruction, ...]
    seed: int

    def values(self, batch=()):
        """Inputs, drawn separately for each example of a batch."""
        rng = np.random.default_rng(self.seed)
        out = []
        for shape, dtype in self.inputs:
            shape = batch + shape
            if np.dtype(dtype).kind == "i":
                out.append(rng.integers(-9, 9, shape, dtype))
            else:
                x = rng.normal(size=shape)
                out.append(np.asarray(x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x, dtype))
        return out


def run(program, *inputs):
    """All results of the program that no instruction takes."""
    values = list(inputs)
    used = set()
    for name, args, param in program.instructions:
        values.append(OPS[name].run(*[values[k] for k in args], *([] if param is None else [param])))
        used.update(args)
    return [v for k, v in enumerate(values) if k not in used and k >= len(inputs)]


# -- instructions: what they take, which parameter they draw for given shapes (REFUSED: they do not fit), what they do
# -----------


class Op(NamedTuple):
    arity: int
    run: Any
    draw: Any = None


class _Refused(Exception):
    pass


def need(condition):
    if not condition:
        raise _Refused


def axis(draw, x):
    need(x.ndim)
    return draw(st.integers(0, x.ndim - 1))


def static_index(draw, x):
    need(x.ndim and x.size)
    parts = []
    for n in x.shape:
        kind = draw(st.sampled_from(["all", "slice", "reverse", "int"]))
        low = draw(st.integers(0, n - 1))
        parts.append(
            {
                "all": slice(None),
                "slice": slice(low, None, draw(st.integers(1, 2))),
                "reverse": slice(None, None, -1),
                "int": low,
            }[kind]
        )
    if draw(st.booleans()):
        parts = [Ellipsis, parts[-1]]
    if draw(st.booleans()):
        parts.append(None)
    return tuple(parts)


def rows(draw, x):
    need(x.ndim and x.shape[0])
    return np.array(draw(st.lists(st.integers(-x.shape[0], x.shape[0] - 1), min_size=1, max_size=4)))


def shapes(draw, x):
    n = x.size
    options = [(n,), (1, n), (n, 1)] + [(k, n // k) for k in (2, 3) if n and n % k == 0]
    return draw(st.sampled_from(options))


def same(draw, x, y):
    need(x.shape == y.shape)


def together(draw, x, y):
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise _Refused from None


def product(draw, x, y):
    need(x.ndim in (1, 2) and y.ndim in (1, 2) and x.shape[-1] == y.shape[0])


def updated(x, y, index):
    x = x + np.zeros_like(y, shape=()).astype(x.dtype)  # a plain array could not take a traced value
    x[index] = np.sum(y).astype(x.dtype) if y.dtype.kind == "i" else y.ravel()[0].astype(x.dtype)
    return x


def index_and_fill(draw, x, y):
    need(y.size and (x.dtype.kind == "c" or y.dtype.kind != "c"))
    return static_index(draw, x)


MOVES = {
    "reshape": Op(1, np.reshape, shapes),
    "transpose": Op(1, lambda x: np.transpose(x)),
    "index": Op(1, lambda x, i: x[i], static_index),
    "gather": Op(1, lambda x, i: x[i], rows),
    "take": Op(
        1, lambda x, k: np.take(x, [0, -1, 0], axis=k), lambda draw, x: axis(draw, x) if x.size else need(False)
    ),
    "flip": Op(1, np.flip, axis),
    "roll": Op(1, lambda x, k: np.roll(x, 2, axis=k), axis),
    "expand": Op(1, np.expand_dims, lambda draw, x: draw(st.integers(0, x.ndim)) if x.ndim < 4 else need(False)),
    "pad": Op(1, lambda x, k: np.pad(x, [(1, 0)] + [(0, 1)] * (x.ndim - 1)), axis),
    "broadcast": Op(1, lambda x: np.broadcast_to(x, (2, *x.shape)), lambda draw, x: need(x.ndim < 4)),
    "stack": Op(2, lambda x, y: np.stack([x, y], axis=-1), lambda draw, x, y: need(x.shape == y.shape and x.ndim < 4)),
    "concatenate": Op(2, lambda x, y: np.concatenate([np.ravel(x), np.ravel(y)])),
    "where": Op(
        2,
        lambda x, y: np.where(np.arange(x.shape[-1]) % 2 == 0, x, y),
        lambda draw, x, y: need(x.shape == y.shape and x.ndim),
    ),
    "update": Op(2, updated, index_and_fill),
    "tril": Op(1, np.tril, lambda draw, x: need(x.ndim >= 2)),
}
RING = {
    "add": Op(2, lambda x, y: x + y, together),
    "subtract": Op(2, np.subtract, together),
    "negative": Op(1, lambda x: -x),
    "double": Op(1, lambda x: 2 * x),
}
PRODUCT = {"multiply": Op(2, lambda x, y: x * y, together)}
CHOICES = {
    "maximum": Op(2, np.maximum, together),
    "clip": Op(1, lambda x: np.clip(x, -1, 1)),
    "relu": Op(1, lambda x: np.where(x > 0, x, 0 * x)),
    "sort": Op(1, lambda x: np.sort(x, axis=-1), lambda draw, x: need(x.ndim)),
    "max": Op(1, np.max, lambda draw, x: axis(draw, x) if x.size else need(False)),
    "mask": Op(1, lambda x: x * (x > 0.5)),
    "cond": Op(1, lambda x: core.cond(np.sum(x) > 0.123, lambda x: 2 * x, lambda x: x - 1, x)),
    "lookup": Op(
        2,
        lambda x, y: core.numpy.take(x, np.floor(np.abs(y)).astype(int) % len(x), axis=0),
        lambda draw, x, y: need(x.ndim and x.shape[0] and x.ndim + y.ndim <= 4 and x.size * y.size < 200),
    ),
}
SMOOTH = {
    "tanh": Op(1, np.tanh),
    "sin": Op(1, np.sin),
    "exp": Op(1, lambda x: np.exp(np.tanh(x))),
    "root": Op(1, lambda x: np.sqrt(x * x + 1)),
    "divide": Op(2, lambda x, y: x / (1 + y * y), together),
    "sum": Op(1, np.sum, axis),
    "mean": Op(
        1, lambda x, k: np.mean(x, axis=k, keepdims=True), lambda draw, x: axis(draw, x) if x.size else need(False)
    ),
    "cumsum": Op(1, np.cumsum, axis),
    "matmul": Op(2, lambda x, y: np.tanh(x @ y), product),
    "outer": Op(
        1,
        lambda x: np.einsum("...i,...j->...ij", x, np.cos(x)),
        lambda draw, x: need(0 < x.ndim < 4 and x.shape[-1] < 5),
    ),
    "scan": Op(
        1,
        lambda x: core.scan(lambda c, r: (np.tanh(c + r), c * r), 0.0 * x[0], x)[1],
        lambda draw, x: need(x.ndim and x.shape[0]),
    ),
    "fori": Op(1, lambda x: core.fori_loop(0, 3, lambda k, c: np.where(k == 1, np.sin(c), c) + x, 1.0 * x)),
    "while": Op(1, lambda x: core.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, np.cos(c[1])), (0, 1.0 * x))[1]),
    "normal": Op(1, lambda x: (x - np.mean(x)) / np.sqrt(np.var(x) + 1), lambda draw, x: need(x.size)),
}
OPS = {**MOVES, **RING, **PRODUCT, **CHOICES, **SMOOTH}


SMALL = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@st.composite
def programs(draw, names, dtypes=("float64",), length=8, shape=SMALL, limit=300):
    inputs = tuple((draw(shape), draw(st.sampled_from(dtypes))) for _ in range(draw(st.integers(1, 3))))
    program = Program(inputs, (), draw(st.integers(0, 9999)))
    values, steps = program.values(), []
    for _ in range(draw(st.integers(1, length))):
        name = draw(st.sampled_from(sorted(names)))
        op = OPS[name]
        args = tuple(draw(st.integers(0, len(values) - 1)) for _ in range(op.arity))
        xs = [values[k] for k in args]
        try:
            param = op.draw(draw, *xs) if op.draw else None
        except _Refused:
            continue
        with np.errstate(all="ignore"):
            out = np.asarray(op.run(*xs, *([] if param is None else [param])))
        if out.size <= limit and out.ndim <= 4:
            values.append(out)
            steps.append(Instruction(name, args, param))
    return program._replace(instructions=tuple(steps))


def loss(program):
    """The results as one number, each element with a weight of its own."""

    def f(*inputs):
        total = 0.0
        for k, out in enumerate(run(program, *inputs)):
            weights = np.cos(np.arange(float(out.size)) + k).reshape(out.shape)
            total = total + np.sum(weights * out)
        return total

    return f


def assert_close(found, expected, atol=1e-11):
    """Equal but for `atol`, relative to the largest element."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.result_type(a) == np.result_type(b)
        scale = np.max(np.abs(b), initial=1.0)
        assert_allclose(a, b, rtol=0, atol=scale * atol)


# -- values ------------------------------------------------------------------------------------------------------------


def assert_exact(program):
    inputs = program.values()
    with np.errstate(over="ignore"):  # integers wrap, with a warning where NumPy's are scalars
        eager = run(program, *inputs)
    for found, expected in zip(core.jit(lambda *xs: run(program, *xs))(*inputs), eager, strict=True):
        assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@settings(CASES, max_examples=40)
@given(programs([*MOVES, *RING], dtypes=("float64", "float32", "complex128", "int64")))
def test_sums_and_moves_are_compiled_bit_for_bit(program):
    assert_exact(program)


@settings(CASES, max_examples=40)
@given(
    programs(
        [*MOVES, *RING, *PRODUCT, "maximum", "sort", "max", "relu", "mask"], dtypes=("int64", "int32", "int8", "uint8")
    )
)
def test_integers_are_compiled_bit_for_bit(program):
    assert_exact(program)


@settings(CASES, max_examples=60)
@given(programs(OPS, dtypes=("float64", "float32")))
def test_compiled_programs_agree_with_numpy(program):
    inputs = program.values()
    single = any(dtype in ("float32", "complex64") for _, dtype in program.inputs)
    assert_close(core.jit(lambda *xs: run(program, *xs))(*inputs), run(program, *inputs), 1e-5 if single else 1e-11)


WIDE = st.lists(st.sampled_from([1, 2, 5, 8, 17, 33, 64]), max_size=3).map(tuple)


@settings(CASES, max_examples=25)
@given(programs(set(OPS) - {"broadcast", "outer", "stack"}, dtypes=("float64", "float32"), shape=WIDE, limit=20_000))
def test_compiled_programs_agree_with_numpy_beyond_the_width_of_vectors(program):
    inputs = program.values()
    single = any(dtype == "float32" for _, dtype in program.inputs)
    assert_close(core.jit(lambda *xs: run(program, *xs))(*inputs), run(program, *inputs), 1e-5 if single else 1e-11)


@settings(CASES, max_examples=25)
@given(
    programs(
        [*MOVES, *RING, *PRODUCT, "sum", "cumsum", "divide", "mean", "matmul"],
        dtypes=("complex128", "complex64", "float64"),
    )
)
def test_complex_programs_agree_with_numpy(program):
    inputs = program.values()
    single = any(dtype in ("float32", "complex64") for _, dtype in program.inputs)
    assert_close(core.jit(lambda *xs: run(program, *xs))(*inputs), run(program, *inputs), 1e-5 if single else 1e-11)


@settings(CASES, max_examples=60)
@given(programs(OPS, dtypes=("float64", "int64")), st.data())
def test_batches_are_loops(program, data):
    axes = [data.draw(st.sampled_from([0, 0, None])) for _ in program.inputs]
    batches, single = program.values((3,)), program.values()
    if all(a is None for a in axes):
        axes[0] = 0
    args = [b if a == 0 else s for b, s, a in zip(batches, single, axes, strict=True)]
    found = core.vmap(lambda *xs: run(program, *xs), in_axes=tuple(axes))(*args)
    loop = [run(program, *[x if a is None else x[k] for x, a in zip(args, axes, strict=True)]) for k in range(3)]
    assert_close(found, [np.stack(outs) for outs in zip(*loop, strict=True)])


# -- derivatives -------------------------------------------------------------------------------------------------------


@settings(CASES, max_examples=60)
@given(programs([*MOVES, *RING, *PRODUCT, *SMOOTH], length=6))
def test_gradients_agree_with_differences(program):
    core.check_grads(loss(program), program.values(), order=1, rtol=1e-5)


@settings(CASES, max_examples=20)
@given(programs([*MOVES, *RING, *PRODUCT, *SMOOTH], length=5))
def test_second_derivatives_agree_with_differences(program):
    core.check_grads(loss(program), program.values(), order=2, rtol=1e-4)


@settings(CASES, max_examples=30)
@given(programs(OPS))
def test_compiled_gradients_agree_with_eager_ones(program):
    inputs = program.values()
    every = tuple(range(len(inputs)))
    assert_close(core.jit(core.grad(loss(program), every))(*inputs), core.grad(loss(program), every)(*inputs))


@settings(CASES, max_examples=60)
@given(programs(OPS))
def test_reverse_mode_is_the_transpose_of_forward_mode(program):
    inputs, tangents = program.values(), program._replace(seed=program.seed + 1).values()
    out, moved = core.jvp(lambda *xs: run(program, *xs), inputs, tangents)
    back, pullback = core.vjp(lambda *xs: run(program, *xs), *inputs)
    assert_close(back, out)
    cts = [np.cos(np.arange(float(np.size(o)))).reshape(np.shape(o)) for o in out]
    found = sum(np.sum(g * t) for g, t in zip(pullback(cts), tangents, strict=True))
    expected = sum(np.sum(ct * t) for ct, t in zip(cts, moved, strict=True))
    size = 1 + sum(np.sum(np.abs(t)) for t in moved)
    assert_allclose(found, expected, rtol=0, atol=1e-11 * size)


@settings(CASES, max_examples=25)
@given(programs(OPS, length=6))
def test_compiled_batches_of_gradients_are_loops(program):
    every = tuple(range(len(program.inputs)))
    f = core.grad(loss(program), every)
    batches = program.values((3,))
    loop = [f(*[b[k] for b in batches]) for k in range(3)]
    expected = [np.stack(gs) for gs in zip(*loop, strict=True)]
    assert_close(core.vmap(f)(*batches), expected)
    assert_close(core.jit(core.vmap(f))(*batches), expected)


@settings(CASES, max_examples=20)
@given(programs(OPS, length=5))
def test_compiled_functions_inside_other_transforms(program):
    inputs, tangents = program.values(), program._replace(seed=program.seed + 1).values()
    every = tuple(range(len(inputs)))
    f = loss(program)
    inside = core.jit(f)
    assert_close(core.grad(inside, every)(*inputs), core.grad(f, every)(*inputs))
    assert_close(core.jvp(inside, inputs, tangents), core.jvp(f, inputs, tangents))
    assert_close([core.vmap(inside)(*program.values((2,)))], [core.vmap(f)(*program.values((2,)))])
    assert_close(
        core.hvp(lambda xs: inside(*xs), (inputs,), (tangents,)),
        core.hvp(lambda xs: f(*xs), (inputs,), (tangents,)),
        1e-9,
    )
    assert_close(
        [core.vmap(core.grad(core.jit(core.checkpoint(f))))(*program.values((2,)))],
        [core.vmap(core.grad(f))(*program.values((2,)))],
    )


@settings(CASES, max_examples=15)
@given(programs([*RING, *PRODUCT, *SMOOTH], length=5))
def test_linearization_is_linear_and_right(program):
    inputs, tangents = program.values(), program._replace(seed=program.seed + 1).values()
    out, linear = core.linearize(lambda *xs: run(program, *xs), *inputs)
    assert_close(out, run(program, *inputs))
    assert_close(linear(*tangents), core.jvp(lambda *xs: run(program, *xs), inputs, tangents)[1])
    assert_close(linear(*[2 * t for t in tangents]), [2 * t for t in linear(*tangents)])


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def threads():
    before = core.get_threads()
    yield core.set_threads
    core.set_threads(before)


LARGE = {"add", "multiply", "tanh", "exp", "root", "divide", "relu", "maximum", "transpose", "flip", "roll", "negative",
         "where", "normal"}  # fmt: skip


@settings(CASES, max_examples=12)
@given(program=programs(LARGE, length=6, shape=st.just((300, 300)), limit=90000), count=st.sampled_from([2, 3]))
def test_results_do_not_depend_on_the_number_of_threads(threads, program, count):
    inputs = program.values()  # large enough for every kernel to be shared out
    f = core.jit(lambda *xs: [o for x in run(program, *xs) for o in (x, np.sum(x), np.sum(x, axis=0))])
    threads(1)
    alone = f(*inputs)
    threads(count)
    for a, b in zip(f(*inputs), alone, strict=True):
        assert_array_equal(a, b)
