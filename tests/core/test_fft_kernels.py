"""Transforms on vectors against scipy.fft: single lines of every radix, and real arrays there and back."""

import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.core.kernels import fft, simd
from triskele.core.kernels.njit import kernel

TOLERANCE = {"float32": 6e-7, "float64": 1.2e-15}
QUICK = [n for n in range(2, 257) if fft.next_length(n) == n]
PRIMES = [11, 13, 23, 29, 53, 2 * 53, 4 * 17, 11 * 11, 3 * 23]


@kernel
def lines(source, work, target, opposite, table, twiddles):
    s, t = simd.address(source, 0), simd.address(target, 0)
    s_im, t_im = simd.address(source, fft.LANES), simd.address(target, fft.LANES)
    if opposite[0]:
        s, s_im, t, t_im = s_im, s, t_im, t
    fft.transform(
        s,
        s_im,
        opposite[1],
        simd.address(work, 0),
        t,
        t_im,
        opposite[1],
        simd.address(table, 0),
        simd.address(twiddles, 0),
    )


@kernel
# values [nx, ny, nz]
def forward(chunk, values, rows, scratch, spectrum, sizes, y_table, y_twiddles, z_table, z_twiddles):
    for y in range(values.shape[1]):
        for z in range(values.shape[2]):
            rows[z * sizes[6] + y] = values[chunk, y, z]
    fft.plane_forward(
        simd.address(rows, 0),
        simd.address(scratch, 0),
        simd.address(spectrum, chunk * sizes[5]),
        simd.address(sizes, 0),
        simd.address(y_table, 0),
        simd.address(y_twiddles, 0),
        simd.address(z_table, 0),
        simd.address(z_twiddles, 0),
    )


@kernel
def along_x(chunk, spectrum, work, sizes, opposite, table, twiddles):
    re, im = simd.address(spectrum, chunk * sizes[7]), simd.address(spectrum, chunk * sizes[7] + fft.LANES)
    to_re, to_im = simd.address(work, 0), simd.address(work, fft.LANES)
    if opposite[0]:
        re, im, to_re, to_im = im, re, to_im, to_re
    fft.transform(
        re,
        im,
        sizes[5],
        simd.address(work, sizes[0] * sizes[7]),
        to_re,
        to_im,
        sizes[7],
        simd.address(table, 0),
        simd.address(twiddles, 0),
    )
    for x in range(sizes[0]):
        simd.store(spectrum, x * sizes[5] + chunk * sizes[7], simd.load(work, x * sizes[7], 32))


@kernel
def backward(chunk, spectrum, rows, scratch, values, sizes, y_table, y_twiddles, z_table, z_twiddles):
    fft.plane_backward(
        simd.address(spectrum, chunk * sizes[5]),
        simd.address(scratch, 0),
        simd.address(rows, 0),
        simd.address(sizes, 0),
        simd.address(y_table, 0),
        simd.address(y_twiddles, 0),
        simd.address(z_table, 0),
        simd.address(z_twiddles, 0),
    )
    for y in range(values.shape[1]):
        for z in range(values.shape[2]):
            values[chunk, y, z] = rows[z * sizes[6] + y]


def transform_lines(z, dtype, opposite):
    """Transform of the columns of z [n, 16]."""
    table, twiddles = fft.passes(len(z), dtype)
    source, target = fft.aligned(2 * z.size, dtype), fft.aligned(2 * z.size, dtype)
    source[:] = np.stack([z.real, z.imag], 1).ravel()
    lines(source, fft.aligned(4 * z.size, dtype), target, np.array([opposite, 2 * fft.LANES]), table, twiddles)
    out = target.reshape(len(z), 2, fft.LANES)
    return out[:, 0] + 1j * out[:, 1]


class Transform:
    """The whole transform of a real array, chunk by chunk."""

    def __init__(self, shape, dtype):
        self.layout = layout = fft.Layout(shape, dtype)
        self.rows, self.spectrum, self.scratch = (
            fft.aligned(n, dtype) for n in (layout.rows, layout.spectrum, layout.scratch)
        )
        self.work = fft.aligned(6 * fft.LANES * shape[0], dtype)
        tables = [a for axis in (1, 2) for a in (layout.passes[axis], layout.twiddles[axis])]
        self.plane_args = (layout.sizes, *tables)

    def forward(self, values):
        layout = self.layout
        nx, ny, nz = layout.shape
        for x in range(nx):
            forward(x, values, self.rows, self.scratch, self.spectrum, *self.plane_args)
        self._along_x(0)
        planes = self.spectrum.reshape(nx, layout.plane)[:, : layout.blocks * ny * 32].reshape(
            nx, layout.blocks, ny, 2, 16
        )
        found = planes[:, :, :, 0] + 1j * planes[:, :, :, 1]
        return found.transpose(0, 2, 1, 3).reshape(nx, ny, -1)[:, :, : nz // 2 + 1] / 2

    def _along_x(self, opposite):
        layout = self.layout
        for line in range(layout.blocks * layout.shape[1]):
            along_x(
                line, self.spectrum, self.work, layout.sizes, np.array([opposite]), layout.passes[0], layout.twiddles[0]
            )

    def backward(self):
        values = np.zeros(self.layout.shape, self.layout.dtype)
        self._along_x(1)
        for x in range(len(values)):
            backward(x, self.spectrum, self.rows, self.scratch, values, *self.plane_args)
        return values / (2 * values.size)


def worst(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", QUICK + PRIMES)
def test_lines_of_every_length(n, dtype):
    z = np.random.default_rng(n).normal(size=(2, n, fft.LANES)).astype(dtype)
    z = z[0] + 1j * z[1]
    assert worst(transform_lines(z, dtype, 0), scipy.fft.fft(z.astype(complex), axis=0)) < TOLERANCE[dtype]
    assert worst(transform_lines(z, dtype, 1), n * scipy.fft.ifft(z.astype(complex), axis=0)) < TOLERANCE[dtype]


@settings(max_examples=12, deadline=None)
@given(
    st.tuples(*[st.sampled_from([n for n in QUICK + PRIMES if n < 65])] * 3), st.sampled_from(["float32", "float64"])
)
def test_real_arrays_there_and_back(shape, dtype):
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    transform = Transform(shape, dtype)
    assert worst(transform.forward(values), scipy.fft.rfftn(values.astype(float))) < TOLERANCE[dtype]
    assert worst(transform.backward(), values) < TOLERANCE[dtype]


def test_a_wave_is_one_peak():
    x, y, z = np.meshgrid(*[np.arange(n) / n for n in (12, 20, 18)], indexing="ij")
    found = Transform((12, 20, 18), "float64").forward(np.cos(2 * np.pi * (2 * x + 3 * y + 4 * z)))
    expected = np.zeros((12, 20, 10))
    expected[2, 3, 4] = 12 * 20 * 18 / 2
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_lengths():
    assert [fft.next_length(n) for n in (1, 7, 11, 13, 29, 56, 57, 61, 121, 211)] == [
        1,
        7,
        12,
        14,
        30,
        56,
        60,
        63,
        125,
        216,
    ]


def test_work_begins_at_a_cache_line():
    assert all(fft.aligned(n, dtype).ctypes.data % 64 == 0 for n in (1, 17, 1000) for dtype in ("float32", "float64"))
