"""Convolutions against a plain sum over the window, pooling against plain windows; derivatives, batches, errors."""

import itertools

import numpy as np
import pytest

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_batched, check_derivatives
from triskele.core.graph.graph import spec_of
from triskele.core.graph.primitive import PRIMITIVES
from triskele.core.graph.trace import bind
from triskele.core.ops.convolve_nd import conv_general
from triskele.core.transforms.grad import grad


def plain_conv(x, k, stride, padding, dilation, groups):
    """The definition, element by element of the window."""
    rank = k.ndim - 2
    x = np.pad(x, [(0, 0), *padding, (0, 0)])
    outs = [
        (n - d * (w - 1) - 1) // s + 1 for n, d, w, s in zip(x.shape[1:-1], dilation, k.shape[:-2], stride, strict=True)
    ]
    out = np.zeros((x.shape[0], *outs, k.shape[-1]))
    cg, og = k.shape[-2], k.shape[-1] // groups
    for at in itertools.product(*map(range, k.shape[:-2])):
        where = tuple(
            slice(a * d, a * d + (n - 1) * s + 1, s) for a, d, n, s in zip(at, dilation, outs, stride, strict=True)
        )
        seen = x[(slice(None), *where)]
        for g in range(groups):
            out[..., g * og : (g + 1) * og] += seen[..., g * cg : (g + 1) * cg] @ k[at][:, g * og : (g + 1) * og]
    assert rank == len(outs)
    return out


CASES = [
    {"stride": s, "padding": p, "dilation": d, "groups": g}
    for s, p, d, g in [
        (1, ((0, 0), (0, 0)), 1, 1),
        (1, ((1, 1), (2, 0)), 1, 1),
        (2, ((1, 0), (0, 2)), 1, 2),
        (1, ((3, 3), (3, 3)), 2, 4),
        (3, ((1, 1), (1, 1)), 2, 4),
    ]
]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_is_its_definition(rng, case, rank):
    shape, window = (6, 7, 5)[:rank], (3, 2, 2)[:rank]
    case = {**case, "padding": (*case["padding"], (1, 0))[:rank]}
    x, k = rng.normal(size=(2, *shape, 4)), rng.normal(size=(*window, 4 // case["groups"], 8))
    spread = {**case, "stride": (case["stride"],) * rank, "dilation": (case["dilation"],) * rank}
    np.testing.assert_allclose(conv_general(x, k, **case), plain_conv(x, k, **spread), atol=1e-12)
    if rank < 3:
        check_derivatives(lambda x, k: conv_general(x, k, **case), x, k)
        check_batched(lambda x, k: conv_general(x, k, **case), x, k)


@pytest.mark.parametrize(
    "name",
    ["conv", "conv_input", "conv_kernel", "window_max", "window_sum", "window_spread", "window_pick", "window_place"],
)
def test_primitives_with_derivatives_and_batches(rng, name):
    p = PRIMITIVES[name]
    for args, params in p.samples(rng):
        spec = p.spec(*[spec_of(a) for a in args], **params)
        out = bind(p, *args, **params)
        assert (spec.shape, spec.dtype) == (out.shape, out.dtype)
        real = [i for i, a in enumerate(args) if a.dtype.kind == "f"]

        def f(*xs, args=args, params=params, real=real):
            full = list(args)
            for i, x in zip(real, xs, strict=True):
                full[i] = x
            return bind(p, *full, **params)

        check_derivatives(f, *[args[i] for i in real])
        check_batched(f, *[args[i] for i in real], rtol=1e-11)


@pytest.mark.parametrize(("length", "stride"), [(7, 1), (7, 2), (8, 3)])
def test_same_padding_keeps_the_length(rng, length, stride):
    x, k = rng.normal(size=(2, length, 3)), rng.normal(size=(3, 3, 4))
    assert conv_general(x, k, padding="same", stride=stride).shape == (2, -(-length // stride), 4)


def test_layouts_and_leading_dimensions(rng):
    x, k = rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(3, 3, 3, 4))
    y = conv_general(x, k)
    other = conv_general(np.moveaxis(x, -1, 1), k.transpose(3, 2, 0, 1), dimensions=("NCHW", "OIHW", "NCHW"))
    np.testing.assert_allclose(np.moveaxis(other, 1, -1), y)
    np.testing.assert_allclose(conv_general(x[0], k), y[0])
    np.testing.assert_allclose(conv_general(np.stack([x, x]), k)[1], y)


def test_float32_stays_and_integers_become_floating(rng):
    x, k = rng.normal(size=(1, 5, 1)).astype(np.float32), rng.normal(size=(2, 1, 1)).astype(np.float32)
    assert conv_general(x, k).dtype == np.float32
    assert conv_general(x.astype(int), k.astype(int)).dtype == float
    assert grad(lambda k: np.sum(conv_general(x, k)))(k).dtype == np.float32


def test_images_are_convolved_in_parts_that_fit_the_cache(rng):
    x, k = rng.normal(size=(40, 20, 20, 8)), rng.normal(size=(3, 3, 8, 4))
    spread = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    np.testing.assert_allclose(conv_general(x, k, padding="same"), plain_conv(x, k, **spread), atol=1e-11)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        (((2, 5, 3), (2, 4, 4)), {}, "channels in and out"),
        (((2, 5, 4), (2, 2, 3)), {"groups": 2}, "channels in and out"),
        (((5,), (2, 1, 1)), {}, "must be"),
        (((2, 5, 1), (2, 1, 1)), {"stride": 0}, "stride"),
        (((2, 5, 1), (2, 1, 1)), {"padding": "half"}, "padding"),
        (((2, 5, 1), (2, 1, 1)), {"padding": -1}, "padding"),
        (((2, 5, 1), (2, 1, 1)), {"dimensions": ("NCW", "OI", "NCW")}, "dimensions"),
    ],
)
def test_wrong_arguments_are_refused(shapes, options, message):
    with pytest.raises(ValueError, match=message):
        conv_general(*map(np.ones, shapes), **options)


# -- pooling -----------------------------------------------------------------------------------------------------------


def plain_windows(x, window, stride, padding, value):
    x = np.pad(x, [(0, 0), *padding, (0, 0)], constant_values=value)
    view = np.lib.stride_tricks.sliding_window_view(x, window, tuple(range(1, x.ndim - 1)))
    return view[(slice(None), *[slice(None, None, s) for s in stride])]


@pytest.mark.parametrize(
    ("window", "stride", "padding"),
    [((2, 2), (2, 2), ((0, 0), (0, 0))), ((3, 2), (2, 1), ((1, 1), (1, 0))), ((3, 3), (1, 2), ((1, 1), (1, 1)))],
)
def test_pooling(rng, window, stride, padding):
    from triskele.core.ops.pool import max_pool, mean_pool

    x = rng.normal(size=(2, 6, 8, 3))
    axes = (-2, -1)
    options = {"window": window, "stride": stride, "padding": padding}
    np.testing.assert_allclose(max_pool(x, **options), plain_windows(x, window, stride, padding, -np.inf).max(axes))
    counts = plain_windows(np.ones_like(x), window, stride, padding, 0).sum(axes)
    np.testing.assert_allclose(mean_pool(x, **options), plain_windows(x, window, stride, padding, 0).sum(axes) / counts)
    for f in (lambda x: max_pool(x, **options), lambda x: mean_pool(x, **options)):
        check_derivatives(f, x)
        check_batched(f, x)
    np.testing.assert_allclose(max_pool(x[0], **options), max_pool(x, **options)[0])


def test_ties_of_max_pooling_go_to_the_first():
    from triskele.core.ops.pool import max_pool

    g = grad(lambda x: np.sum(max_pool(x, (2, 2))))(np.zeros((1, 4, 4, 1)))
    np.testing.assert_array_equal(g[0, :, :, 0], np.kron(np.eye(2)[[0, 0]] * 0 + 1, [[1, 0], [0, 0]]))


def test_a_nan_stays_visible():
    from triskele.core.ops.pool import max_pool

    x = np.array([0.0, np.nan, 1.0, 2.0]).reshape(1, 4, 1)
    np.testing.assert_array_equal(max_pool(x, 2)[0, :, 0], [np.nan, 2])
