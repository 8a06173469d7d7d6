"""Moving elements about: each function against NumPy in every way of tracing, and its derivative."""

import numpy as np
import pytest

from tests.twins.traced import assert_as_numpy
from triskele.core.transforms.grad import vjp

CASES = {
    "reshape": lambda x: x.reshape(5, -1),
    "reshape_F": lambda x: np.reshape(x, (2, 10), order="F"),
    "ravel": lambda x: x.ravel(),
    "ravel_F": lambda x: np.ravel(x, order="F"),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: np.squeeze(x[None, :, None]),
    "squeeze_axis": lambda x: x[None, :, None].squeeze(0),
    "expand_dims": lambda x: np.expand_dims(x, (0, -1)),
    "transpose": lambda x: np.transpose(x[None], (2, 0, 1)),
    "method_transpose": lambda x: x[None].transpose(1, 2, 0),
    "T": lambda x: x.T,
    "mT": lambda x: x[None].mT,
    "swapaxes": lambda x: x[None].swapaxes(0, -1),
    "moveaxis": lambda x: np.moveaxis(x[None], [0, 1], [-1, 0]),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "permute_dims": lambda x: np.permute_dims(x, (1, 0)),
    "atleast_1d": lambda x: np.atleast_1d(x[0, 0]),
    "atleast_2d": lambda x: np.atleast_2d(x[0]),
    "atleast_3d": lambda x: np.atleast_3d(x[0, 0], x[0], x),
    "broadcast_to": lambda x: np.broadcast_to(x[:, None], (4, 2, 5)),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x[0], x[:, :1], 2.0),
    "meshgrid": lambda x: np.meshgrid(x[0], x[:, 0]),
    "meshgrid_ij": lambda x: np.meshgrid(x[0], x[:, 0], indexing="ij", sparse=True),
    "concatenate": lambda x: np.concatenate([x, 2 * x, np.ones((4, 1))], axis=1),
    "concatenate_flat": lambda x: np.concatenate([x, x[0]], axis=None),
    "concatenate_dtype": lambda x: np.concatenate([x, np.ones((1, 5), np.float32)], dtype=np.complex128),
    "stack": lambda x: np.stack([x, x * x, np.zeros((4, 5))], axis=-1),
    "hstack": lambda x: np.hstack([x, x]),
    "vstack": lambda x: np.vstack([x[0], x]),
    "dstack": lambda x: np.dstack([x, x]),
    "column_stack": lambda x: np.column_stack([x[:, 0], x]),
    "append": lambda x: np.append(x, 3.0),
    "append_axis": lambda x: np.append(x, x[:1], axis=0),
    "block": lambda x: np.block([[x, x], [x, x]]),
    "split": lambda x: np.split(x, [1, 3], axis=1),
    "split_equal": lambda x: np.split(x, 2),
    "array_split": lambda x: np.array_split(x, 3),
    "hsplit": lambda x: np.hsplit(x, [2]),
    "vsplit": lambda x: np.vsplit(x, 2),
    "dsplit": lambda x: np.dsplit(x[None], [1, 4]),
    "unstack": lambda x: np.unstack(x, axis=1),
    "insert": lambda x: np.insert(x, 2, 9.0, axis=1),
    "insert_many": lambda x: np.insert(x, [1, 3], [[7.0], [8.0], [1.0], [2.0]], axis=1),
    "insert_values": lambda x: np.insert(x[0], 2, x[1, :2]),
    "delete": lambda x: np.delete(x, [0, 2], axis=0),
    "tile": lambda x: np.tile(x, (2, 1, 3)),
    "tile_one": lambda x: np.tile(x, 2),
    "repeat": lambda x: np.repeat(x, 2, axis=1),
    "repeat_counts": lambda x: x.repeat([1, 0, 2, 3], axis=0),
    "repeat_flat": lambda x: np.repeat(x, 2),
    "roll": lambda x: np.roll(x, 2),
    "roll_axes": lambda x: np.roll(x, (1, -2), (0, 1)),
    "flip": lambda x: np.flip(x),
    "flip_axis": lambda x: np.flip(x, 1),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "rot90": np.rot90,
    "rot90_2": lambda x: np.rot90(x, 2),
    "rot90_3": lambda x: np.rot90(x, 3),
    "tril": lambda x: np.tril(x, 1),
    "triu": lambda x: np.triu(x, -1),
    "resize": lambda x: np.resize(x, (3, 9)),
    "sliding_window_view": lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)),
    "pad": lambda x: np.pad(x, ((3, 2), (0, 4))),
    "pad_values": lambda x: np.pad(x, 2, constant_values=((1, 2), (3, 4))),
    "pad_odd": lambda x: np.pad(x, (3, 4), mode="reflect", reflect_type="odd"),
    "pad_odd_wide": lambda x: np.pad(x, (7, 9), mode="symmetric", reflect_type="odd"),
    "pad_stat_length": lambda x: np.pad(x, 3, "mean", stat_length=2),
    "pad_dict": lambda x: np.pad(x, {1: (1, 2)}),
    "pad_ramp": lambda x: np.pad(x, 3, "linear_ramp", end_values=2.0),
    **{
        f"pad_{m}": lambda x, m=m: np.pad(x, ((3, 2), (6, 9)), mode=m)
        for m in ("edge", "wrap", "symmetric", "reflect", "linear_ramp", "maximum", "mean", "median", "minimum")
    },
    "zeros_like": lambda x: np.zeros_like(x) + np.ones_like(x, dtype=np.float32, shape=5),
    "full_like": lambda x: np.full_like(x, 3) + np.full_like(x, x[0, 0]),
    "linspace": lambda x: np.linspace(x[0], x[1], 7),
    "linspace_open": lambda x: np.linspace(x[0], x[1], 7, endpoint=False, axis=1, retstep=True),
    "logspace": lambda x: np.logspace(x[0], x[1], 3),
    "geomspace": lambda x: np.geomspace(1 + x[0] ** 2, 2 + x[1] ** 2, 4),
    "vander": lambda x: np.vander(x[0], 3),
    "vander_increasing": lambda x: np.vander(x[0], increasing=True),
}


@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name, rng):
    assert_as_numpy(CASES[name], rng.normal(size=(4, 5)))


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_dtypes_are_kept(dtype, rng):
    x = rng.normal(size=(4, 5)).astype(dtype)
    assert_as_numpy(lambda x: (np.pad(x, 1), np.roll(x, 1), np.stack([x, x]), x[::-1], np.tile(x, 2)), x, grads=False)


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda x: x.reshape(7, -1), ValueError, "cannot reshape array of size 20"),
        (lambda x: x.reshape(-1, -1), ValueError, "one unknown dimension"),
        (lambda x: np.transpose(x, (0, 0)), ValueError, "axes don't match"),
        (lambda x: np.swapaxes(x, 0, 2), np.exceptions.AxisError, "axis 2 is out of bounds for array of dimension 2"),
        (lambda x: np.squeeze(x, 0), ValueError, r"\(4, 5\)"),
        (
            lambda x: np.concatenate([x, x[:, :2]]),
            ValueError,
            r"shape \(4, 5\) and the array at index 1 has shape \(4, 2\)",
        ),
        (lambda x: np.stack([x, x[0]]), ValueError, r"same shape, got \[\(4, 5\), \(5,\)\]"),
        (lambda x: np.split(x, 3), ValueError, "4 elements in 3 parts"),
        (lambda x: np.broadcast_to(x, (3, 5)), ValueError, r"\(4, 5\).*\(3, 5\)"),
        (lambda x: np.pad(x, 1, mode="sideways"), ValueError, "sideways"),
        (lambda x: np.pad(x, -1), ValueError, "negative"),
        (lambda x: np.concatenate([x[0, 0], x[0, 0]]), ValueError, "zero-dimensional"),
    ],
)
def test_errors_are_numpys(f, error, message, rng):
    x = rng.normal(size=(4, 5))
    with pytest.raises(error):
        f(x)
    with pytest.raises(error, match=message):
        vjp(f, x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.reshape(x, np.array([2, 3])),
        lambda x: np.tril(x, -1),
        lambda x: np.triu(x),
        lambda x: np.pad(x, 2, mode="linear_ramp", end_values=0.25),
        lambda x: np.linspace(x, np.float32(3), 5),
    ],
    ids=["reshape by an array", "tril of a vector", "triu of a vector", "ramp", "linspace"],
)
def test_float32_as_numpy(f):
    assert_as_numpy(f, np.linspace(0.5, 3.0, 6, dtype=np.float32), grads=False, rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "error", "match"),
    [
        (lambda x: np.reshape(x, (-2, -3)), ValueError, "cannot reshape"),
        (lambda x: np.geomspace(0.0, x[0], 4), ValueError, "zero"),
        (lambda x: np.concatenate([x, x], out=np.zeros(12)), TypeError, "out="),
        (lambda x: np.stack([x, x], out=np.zeros((2, 6))), TypeError, "out="),
    ],
)
def test_refused(f, error, match):
    with pytest.raises(error, match=match):
        vjp(f, np.arange(6.0))
