"""Views of traced arrays share memory exactly where NumPy's do: every function that can return one, from arrays in
every order.
"""

import warnings

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import TracerError

# what may be a view of its argument, and what looks like it but is a copy
MAKERS = {
    "T": lambda y: y.T,
    "mT": lambda y: y.mT,
    "method transpose": lambda y: y.transpose(1, 0),
    "transpose": lambda y: np.transpose(y, (1, 0)),
    "permute_dims": lambda y: np.permute_dims(y, (1, 0)),
    "matrix_transpose": lambda y: np.linalg.matrix_transpose(y),
    "swapaxes": lambda y: np.swapaxes(y, 0, 1),
    "method swapaxes": lambda y: y.swapaxes(0, 1),
    "moveaxis": lambda y: np.moveaxis(y, 0, 1),
    "rollaxis": lambda y: np.rollaxis(y, 1),
    "reshape": lambda y: np.reshape(y, (-1,)),
    "method reshape": lambda y: y.reshape(3, -1),
    "reshape to itself": lambda y: y.reshape(y.shape),
    "reshape 1 axes": lambda y: y.reshape((1, *y.shape, 1)),
    "reshape F": lambda y: y.reshape(-1, order="F"),
    "reshape A": lambda y: y.reshape(-1, order="A"),
    "reshape copy": lambda y: np.reshape(y, (-1,), copy=True),
    "ravel": lambda y: np.ravel(y),
    "method ravel": lambda y: y.ravel(),
    "ravel F": lambda y: y.ravel("F"),
    "ravel A": lambda y: y.ravel("A"),
    "ravel K": lambda y: np.ravel(y, "K"),
    "flatten": lambda y: y.flatten(),
    "squeeze": lambda y: np.squeeze(y[None]),
    "method squeeze": lambda y: y[:, None].squeeze(1),
    "expand_dims": lambda y: np.expand_dims(y, (0, 2)),
    "atleast_1d": lambda y: np.atleast_1d(y),
    "atleast_2d": lambda y: np.atleast_2d(y[0]),
    "atleast_3d": lambda y: np.atleast_3d(y),
    "item": lambda y: y[1],
    "slice": lambda y: y[:, 1:],
    "steps": lambda y: y[::-1, ::2],
    "newaxis": lambda y: y[:, None, 1],
    "ellipsis": lambda y: y[...],
    "ellipsis 0-d": lambda y: y[1, 0, ...],
    "ellipsis of a vector": lambda y: y[0][1, ...],
    "list": lambda y: y[[0, 1]],
    "mask": lambda y: y[np.array([True, False, True])[: len(y)]],
    "flip": lambda y: np.flip(y),
    "fliplr": lambda y: np.fliplr(y),
    "flipud": lambda y: np.flipud(y),
    "rot90": lambda y: np.rot90(y),
    "rot90 twice": lambda y: np.rot90(y, 2),
    "rot90 not at all": lambda y: np.rot90(y, 0),
    "split": lambda y: np.split(y, [1])[0],
    "array_split": lambda y: np.array_split(y, 2, axis=1)[1],
    "hsplit": lambda y: np.hsplit(y, [1])[1],
    "vsplit": lambda y: np.vsplit(y, [1])[1],
    "dsplit": lambda y: np.dsplit(y[:, :, None], 1)[0],
    "unstack": lambda y: np.unstack(y)[1],
    "unstack columns": lambda y: np.unstack(y, axis=1)[1],
    "rows": lambda y: list(y)[1],
    "unpacked": lambda y: [row for row in y][-1],
    "broadcast_to": lambda y: np.broadcast_to(y, (2, *y.shape)),
    "broadcast_to itself": lambda y: np.broadcast_to(y, y.shape),
    "view of broadcast_to": lambda y: np.broadcast_to(y, (2, *y.shape))[0],
    "diagonal": lambda y: np.diagonal(y),
    "method diagonal": lambda y: y.diagonal(1),
    "linalg.diagonal": lambda y: np.linalg.diagonal(y),
    "diag": lambda y: np.diag(y),
    "real": lambda y: np.real(y),
    "attribute real": lambda y: y.real,
    "imag": lambda y: y.imag,
    "conj": lambda y: y.conj(),
    "conjugate": lambda y: np.conjugate(y),
    "positive": lambda y: +y,
    "astype": lambda y: y.astype(y.dtype),
    "astype without copy": lambda y: y.astype(y.dtype, copy=False),
    "copy": lambda y: np.copy(y),
    "method copy": lambda y: y.copy(),
    "asarray": lambda y: np.asarray(y),
    "asanyarray": lambda y: np.asanyarray(y),
    "array": lambda y: np.array(y),
    "array without copy": lambda y: np.array(y, copy=None),
    "array with more axes": lambda y: np.array(y, copy=None, ndmin=3),
    "ascontiguousarray": lambda y: np.ascontiguousarray(y),
    "asfortranarray": lambda y: np.asfortranarray(y),
    "nan_to_num": lambda y: np.nan_to_num(y),
    "nan_to_num in place": lambda y: np.nan_to_num(y, copy=False),
    "meshgrid": lambda y: np.meshgrid(y[0], y[1])[0],
    "meshgrid sparse": lambda y: np.meshgrid(y[0], y[1], sparse=True, copy=False)[0],
    "roll": lambda y: np.roll(y, 0),
    "roll axis": lambda y: np.roll(y, 0, axis=1),
    "tile": lambda y: np.tile(y, 1),
    "repeat": lambda y: np.repeat(y, 1, axis=0),
    "resize": lambda y: np.resize(y, y.shape),
    "take": lambda y: np.take(y, 1, axis=0),
    "method take": lambda y: y.take(1, axis=1),
    "compress": lambda y: np.compress([True, True], y, axis=0),
    "concatenate": lambda y: np.concatenate([y]),
    "stack": lambda y: np.stack([y]),
    "hstack": lambda y: np.hstack([y]),
    "block": lambda y: np.block([y]),
    "pad": lambda y: np.pad(y, 0),
    "delete": lambda y: np.delete(y, [], axis=0),
    "insert": lambda y: np.insert(y, [], 0.0, axis=0),
    "append": lambda y: np.append(y, np.zeros((0, y.shape[1])), axis=0),
    "where": lambda y: np.where(True, y, 0.0),
    "sort": lambda y: np.sort(y),
    "cumsum": lambda y: np.cumsum(y[:, :1], axis=1),
    "diff": lambda y: np.diff(y, n=0),
    "clip": lambda y: np.clip(y, None, 100.0),
    "round": lambda y: y.round(3),
    "max": lambda y: np.max(y[:, :1], axis=1),
    "sum": lambda y: np.sum(y[:1], axis=0),
    "mean keepdims": lambda y: y[:, :1].mean(axis=1, keepdims=True),
    "tril": lambda y: np.tril(y, 9),
    "select": lambda y: np.select([y > -9.0], [y]),
    "choose": lambda y: np.choose(0, [y, y]),
    "einsum": lambda y: np.einsum("ij->ij", y),
    "matmul": lambda y: y @ np.eye(y.shape[1]),
    "tensordot": lambda y: np.tensordot(y, np.eye(y.shape[1]), 1),
    "outer": lambda y: np.multiply.outer(np.ones(2), y),
    "real_if_close": lambda y: np.real_if_close(y),
    "fftshift": lambda y: np.fft.fftshift(y[:, :1]),
    "trapezoid": lambda y: np.trapezoid(y, axis=0),
    "linspace": lambda y: np.linspace(y[0], y[1], 2)[0],
    "sliding windows": lambda y: np.lib.stride_tricks.sliding_window_view(y, (1, 1)),
    "chain": lambda y: y.T[1:].reshape(-1),
    "long chain": lambda y: np.flip(y[None], 2).swapaxes(0, 1)[:, 0, 1:].T,
    "slice of reshape": lambda y: y.reshape(-1)[1:4],
    "reshape of a slice": lambda y: y[:, :2].reshape(-1),
    "ravel of a row": lambda y: y[1].ravel(),
    "ravel of a column": lambda y: y[:, 1].ravel(),
    "reshape of a column": lambda y: y[:, 1].reshape(1, -1),
    "ravel of a flip": lambda y: y[0][::-1].ravel(),
    "asarray of a row": lambda y: np.asarray(y[1]),
}
BASES = {
    "C": lambda x: x.copy(),
    "computed": lambda x: x * 1.0,
    "transposed": lambda x: x.copy().T,
    "sliced": lambda x: np.concatenate([x, x], axis=1)[::-1, ::2],
    "F": lambda x: np.copy(x.T),
    "C copy of transposed": lambda x: x.T.copy(),
    "like transposed": lambda x: np.ones_like(x.T) * 1.0,
    "computed from transposed": lambda x: x.T * 1.0,
}
UNCERTAIN = ("F", "like transposed", "computed from transposed")
UNCERTAIN_MAKERS = ("sliding windows",)


def write_view(make, base, x):
    y = base(x)
    v = make(y)
    v[...] = 5.0 * v + 1.0
    return [y * 1.0, v * 1.0]


def write_base(make, base, x):
    y = base(x)
    v = make(y)
    y[...] = y * 2.0 + 0.5
    return [y * 1.0, v * 1.0]


def write_part(make, base, x):
    """After two other views: one read in between, one only at the end."""
    y = base(x)
    v, before, late = make(y), y[0], y.T
    y[0, 0] = 3.0
    seen = before * 1.0
    v[...] = v - 2.0
    late[1] += 1.0
    return [y * 1.0, v * 1.0, seen, before * 1.0, late * 1.0]


PROGRAMS = [write_view, write_base, write_part]


def expected(program, make, base, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(make, base, x)
        except (ValueError, TypeError) as error:
            return error


def assert_shared_alike(program, name, base, run, x):
    """Both give the same values, or both refuse; TracerError only where the memory order is unknown."""
    make = MAKERS[name]
    wanted = expected(program, make, BASES[base], x)
    if isinstance(wanted, Exception):
        with pytest.raises((ValueError, TypeError)):
            run(lambda x: program(make, BASES[base], x), x)
        return
    try:
        found = run(lambda x: program(make, BASES[base], x), x)
    except TracerError as error:
        assert base in UNCERTAIN or name in UNCERTAIN_MAKERS, error
        assert "order of elements" in str(error) or "order='A'" in str(error)
        return
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


X = np.arange(1.0, 7.0).reshape(2, 3)
EAGER = {
    "vjp": lambda f, x: core.vjp(f, x)[0],
    "jvp": lambda f, x: core.jvp(f, (x,), (np.ones_like(x),))[0],
    "vmap": lambda f, x: [r[1] for r in core.vmap(f)(np.stack([0.0 * x, x]))],
    "vmap of the last axis": lambda f, x: [r[1] for r in core.vmap(f, in_axes=2)(np.stack([0.0 * x, x], axis=2))],
    "vjp of vmap": lambda f, x: [r[0] for r in core.vjp(core.vmap(f), x[None])[0]],
}


@pytest.mark.parametrize("transform", EAGER)
@pytest.mark.parametrize("base", BASES)
def test_shared_as_in_numpy(base, transform):
    errors = []
    for program in PROGRAMS:
        for name in MAKERS:
            try:
                assert_shared_alike(program, name, base, EAGER[transform], X)
            except BaseException as error:  # noqa: BLE001
                error.add_note(f"{program.__name__}, {name}")
                errors.append(error)
    if errors:
        raise BaseExceptionGroup("differences from NumPy", errors)


@pytest.mark.parametrize("base", BASES)
def test_shared_in_compiled_programs(base):
    """One compiled function with all of them, apart from what is refused."""
    wanted = {(p, n): expected(p, MAKERS[n], BASES[base], X) for p in PROGRAMS for n in MAKERS}
    wanted = {k: w for k, w in wanted.items() if not isinstance(w, Exception)}
    refused = set()

    def together(x):
        out = {}
        for number, (program, name) in enumerate(wanted):
            try:
                out[number] = program(MAKERS[name], BASES[base], x)
            except TracerError:
                refused.add(name)
        return out

    found = core.jit(together)(X)
    assert base in UNCERTAIN or refused <= set(UNCERTAIN_MAKERS), refused
    for number, (program, name) in enumerate(wanted):
        for a, b in zip(found.get(number, ()), wanted[program, name], strict=False):
            np.testing.assert_array_equal(a, b, err_msg=f"{program.__name__}, {name}")


# -- derivatives, scalars, statements
# ------------------------------------------------------------------------------------


def centered(a):
    a = a * 1.0
    for k in range(3):
        column = a.T[k]
        column -= column.mean()
    a.reshape(-1)[::2] *= a[0, 0]
    np.split(a, 2)[1][...] += np.flip(a)[:1]
    return np.sum(a**3 * a.ravel()[2])


def test_derivatives_follow_the_writes():
    core.check_grads(centered, (X / 3,), order=2)
    np.testing.assert_allclose(core.jit(core.grad(centered))(X / 3), core.grad(centered)(X / 3), rtol=1e-12)


def parts(z):
    z = z.copy()
    z.real[0] = 2.0 * z.imag[1]
    z.imag[...] *= 3.0
    z.T.real += 1.0
    z.real = z.real - z[0].imag
    return z * 1


def test_parts_of_complex_numbers():
    z = X + 1j * X[::-1] ** 2
    for run in (core.jit(parts), lambda z: core.vmap(parts)(z[None])[0], lambda z: core.vjp(parts, z)[0]):
        np.testing.assert_array_equal(run(z), parts(z))


def scalars(x):
    t = np.zeros(())
    t[...] = x.sum()
    t[()] += 1.0
    same = t
    same += 1.0
    s = np.zeros_like(x[0, 0])
    s.fill(0.5)
    u = np.full((), x[0, 0])
    u[...] *= 2.0
    v = np.copy(x[1, 1])
    v[None] += 1.0
    w = x[0, 1]
    other = w
    other += 1.0  # a scalar: the name gets a new one
    corner = x.copy()[1, 1:2, ...][0, ...]
    corner.reshape(1)[0] = 4.0
    return [t * 1, same * 1, s * 1, u * 1, v * 1, w, other, corner * 1]


def test_arrays_without_dimensions():
    for run in (
        core.jit(scalars),
        lambda x: [r[0] for r in core.vmap(scalars)(x[None])],
        lambda x: core.vjp(scalars, x)[0],
        lambda x: core.jvp(scalars, (x,), (x,))[0],
    ):
        for a, b in zip(run(X), scalars(X), strict=True):
            assert np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype
    for k in range(8):
        np.testing.assert_allclose(
            core.jacrev(lambda x, k=k: scalars(x)[k])(X), core.jacfwd(lambda x, k=k: scalars(x)[k])(X)
        )


def test_a_cast_in_place_keeps_the_derivative():
    def f(x):
        y = x.astype(np.float32)
        y += x
        return np.sum(y)

    np.testing.assert_array_equal(core.grad(f)(np.ones(2)), [2.0, 2.0])


def test_a_pullback_keeps_the_values_of_its_time():
    def outer(x):
        y = x * 1.0
        _, pull = core.vjp(lambda z: np.sin(z) * y, x)
        y[...] = 0.0
        return pull(np.ones(3))[0]

    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(core.jit(outer)(x), x * np.cos(x))


def view_in_loop(x):
    y = x.copy()
    while y[0, 0] < 20:
        y.T[0] = y[0, 1:] + y[0, 0]
        row = y[1]
        row *= 2.0
    return y


def view_before_statement(x):
    y = x.copy()
    v = y.T
    if x[0, 0] > 0:
        y[0] = 5.0
    return v * 1.0


def written_through_view(x):
    y = x.copy()
    v = y.T
    if x[0, 0] > 0:
        v[0] = 5.0
    return y * 1.0


def read_view_in_statement(x):
    y = x.copy()
    v = z = y.T
    if x[0, 0] > 0:
        y[0] = 7.0
        z = v * 2.0
    return z


def read_view_in_condition(x):
    y = x.copy()
    v = y.T
    while v[0, 0] < 20:
        y[0] += 4.0
    return y


def write_outer_view(x):
    y = x.copy()
    k = 0.0
    while k < x[0, 0]:
        row = y.reshape(-1)
        row += 1.0
        k = k + 1.0
    return y


@pytest.mark.parametrize("f", [view_in_loop, view_before_statement, written_through_view], ids=lambda f: f.__name__)
def test_views_and_traced_statements(f):
    x = np.arange(1.0, 5.0).reshape(2, 2)
    np.testing.assert_array_equal(core.jit(f)(x), f(x))


@pytest.mark.parametrize(
    "f", [read_view_in_statement, read_view_in_condition, write_outer_view], ids=lambda f: f.__name__
)
def test_what_a_traced_statement_cannot_carry_is_refused(f):
    with pytest.raises(TracerError, match=r"x\[i\] = v: (an if statement or loop|the body of a loop)"):
        core.jit(f)(np.arange(1.0, 5.0).reshape(2, 2))


def test_windows_and_broadcasts_are_read_only():
    for make in (
        lambda y: np.lib.stride_tricks.sliding_window_view(y, 2),
        lambda y: np.broadcast_to(y, (2, 3)),
        lambda y: np.diagonal(y[None]).T,
    ):
        with pytest.raises(ValueError, match="read-only"):
            core.jit(lambda x, make=make: make(x).__setitem__(0, 1.0))(np.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda y: np.sort(y, axis=0),
        lambda y: np.argsort(y, axis=0),
        lambda y: np.partition(y, 1, axis=0),
        lambda y: np.argpartition(y, 1, axis=0),
        lambda y: np.sort(y.T, axis=0),
        lambda y: np.argsort(y.T, axis=0),
        lambda y: np.cumsum(y, axis=0),
        lambda y: np.broadcast_to(y[:, :1], (2, 3, 2)).astype(np.float32),
        lambda y: np.copy(np.broadcast_to(y[:, :1], (2, 3, 2))),
        lambda y: np.broadcast_to(y[:, :1], (2, 3, 2)).copy(),
        lambda y: np.broadcast_to(y[:, :1], (2, 3, 2)) * 2,
        lambda y: np.count_nonzero(np.broadcast_to(y[:, :1], (2, 2, 3, 2)), axis=0),
        lambda y: np.full_like(np.broadcast_to(y[:, :1], (2, 3, 2)), 3),
    ],
)
@pytest.mark.parametrize(
    "transform",
    [core.jit, lambda f: lambda x: core.vjp(f, x)[0], lambda f: lambda x: core.vmap(f)(np.stack([x, x]))[0]],
)
def test_flat_views_of_new_arrays_follow_their_order_in_memory(make, transform):
    def f(x):
        y = make(x)
        y.reshape(-1)[1] = 77
        return y

    x = np.array([[3.0, 1.0], [2.0, 5.0], [0.0, 4.0]])
    try:
        found = transform(f)(x)
    except TracerError as error:  # where it is not known
        assert "order of elements in memory" in str(error)
    else:
        np.testing.assert_array_equal(found, f(x))


@pytest.mark.parametrize(
    "make", [np.squeeze, np.asarray, np.array, lambda x: x, lambda x: np.where(x > 0, x, 0), lambda x: np.kron(x, x)]
)
def test_views_of_arrays_without_dimensions_and_of_scalars(make):
    def f(x):
        y = make(x)
        flat = y.reshape(-1)
        flat *= 2
        return x + 0, y + 0, flat

    x = np.float64(-3.0)
    for got, wanted in zip(core.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_an_error_names_arguments_that_cannot_be_read_any_more():
    def f(x):
        y = x * 1.0
        flipped = np.flip(y, 0)
        y[0] = 1.0
        np.put(np.zeros(3, int), [0], flipped)
        return y

    with pytest.raises(TracerError, match="the array must be a traced one") as caught:
        core.vjp(f, np.ones(3))
    assert "put(int64[3], [0], a view)" in caught.value.__notes__[0]


def test_views_do_not_keep_one_another_alive():
    def f(x):
        y = x * 1.0
        for _ in range(500):
            y[0]
        assert len(y._link.family.members) < 200
        return np.sum(y)

    core.grad(f)(X)
