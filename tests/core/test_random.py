"""core.random: known answers, statistics, and the same numbers whichever way they are asked for.

Statistical tests have fixed seeds; each would fail by chance for one seed in 10,000 (p-values below 1e-4).
"""

import itertools

import numba
import numpy as np
import pytest
import scipy.special
import scipy.stats

from triskele.core import random
from triskele.core.compile.jit import jit
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.kernels import philox
from triskele.core.random import numba as draws
from triskele.core.transforms.control.operators import fori_loop, scan
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad
from triskele.core.transforms.vmap import vmap

KEY = random.key(20)
N = 20_000
P_VALUE = 1e-4

DRAWS = {
    "bits": lambda k, n: random.bits(k, n),
    "bits64": lambda k, n: random.bits(k, n, np.uint64),
    "bits8": lambda k, n: random.bits(k, n, np.uint8),
    "uniform": lambda k, n: random.uniform(k, n),
    "uniform32": lambda k, n: random.uniform(k, n, np.float32),
    "normal": lambda k, n: random.normal(k, n),
    "normal32": lambda k, n: random.normal(k, n, np.float32),
    "gamma": lambda k, n: random.gamma(k, 0.7, n),
    "poisson": lambda k, n: random.poisson(k, 12.0, n),
    "randint": lambda k, n: random.randint(k, -3, 10, n),
    "exponential": lambda k, n: random.exponential(k, n),
    "gumbel": lambda k, n: random.gumbel(k, n),
    "laplace": lambda k, n: random.laplace(k, n),
    "truncated_normal": lambda k, n: random.truncated_normal(k, -1.0, 2.0, n),
    "beta": lambda k, n: random.beta(k, 0.5, 2.0, n),
    "dirichlet": lambda k, n: random.dirichlet(k, np.array([0.5, 1.0, 2.0]), n),
    "bernoulli": lambda k, n: random.bernoulli(k, 0.3, n),
    "categorical": lambda k, n: random.categorical(k, np.log([0.2, 0.3, 0.5]), shape=n),
    "permutation": lambda k, n: random.permutation(k, n if isinstance(n, int) else 6),
    "choice": lambda k, n: random.choice(k, 5, n),
}
EXACT = {
    "bits",
    "bits64",
    "bits8",
    "uniform",
    "uniform32",
    "normal",
    "normal32",
    "poisson",
    "randint",
    "bernoulli",
    "categorical",
    "permutation",
    "choice",
}


def check(name, got, want):
    """Bit for bit, or to rounding where compiled logarithms and exponentials come in."""
    assert got.dtype == want.dtype and got.shape == want.shape
    if name in EXACT:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_known_answer_of_philox():
    """The first line of Random123's kat_vectors for philox4x32 10: counter and key zero."""
    np.testing.assert_array_equal(
        random.bits(random.key(0), 4), np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.uint32)
    )


def test_keys_hold_the_seed():
    np.testing.assert_array_equal(random.key(5), np.array([5, 0], np.uint32))
    np.testing.assert_array_equal(random.key(2**40 + 1), np.array([1, 256], np.uint32))
    np.testing.assert_array_equal(random.key(-1), np.array([2**32 - 1] * 2, np.uint32))
    np.testing.assert_array_equal(random.key(np.int32(7)), random.key(7))
    np.testing.assert_array_equal(jit(random.key)(np.int64(2**40 + 1)), random.key(2**40 + 1))


def test_split_and_fold_in_give_distinct_keys():
    keys = random.split(KEY, 1000)
    assert keys.shape == (1000, 2) and keys.dtype == np.uint32
    folded = np.stack([random.fold_in(KEY, i) for i in range(200)])
    everything = {tuple(k) for k in np.concatenate([keys, folded, KEY[None], random.split(keys[0], 100)])}
    assert len(everything) == 1301
    assert random.split(KEY, (2, 3)).shape == (2, 3, 2)
    np.testing.assert_array_equal(random.split(KEY, 7)[:3], random.split(KEY, 3))
    np.testing.assert_array_equal(random.split(KEY, 3), philox.split(KEY, 3))
    np.testing.assert_array_equal(random.fold_in(KEY, 2**35), philox.fold_in(KEY, 2**35))


def test_keys_in_loops():
    def body(key, _):
        key, used = random.split(key)
        return key, random.normal(used, 2)

    def in_python(key):
        out = []
        for _ in range(4):
            key, z = body(key, None)
            out.append(z)
        return np.stack(out)

    np.testing.assert_array_equal(jit(lambda k: scan(body, k, None, length=4)[1])(KEY), in_python(KEY))
    total = jit(lambda k: fori_loop(0, 5, lambda i, s: s + random.uniform(random.fold_in(k, i)), 0.0))(KEY)
    np.testing.assert_allclose(total, sum(random.uniform(random.fold_in(KEY, i)) for i in range(5)))


# -- the same numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("n", [5, 300])
def test_the_same_under_jit_and_in_batches(name, n):
    draw = DRAWS[name]
    want = draw(KEY, n)
    check(name, jit(lambda k: draw(k, n))(KEY), want)
    keys = random.split(KEY, 3)
    batch = vmap(lambda k: draw(k, n))(keys)
    check(name, batch, np.stack([draw(k, n) for k in keys]))
    check(name, jit(vmap(lambda k: draw(k, n)))(keys), batch)
    check(name, vmap(vmap(lambda k: draw(k, n)))(keys.reshape(1, 3, 2)), batch[None])


def test_a_recorded_graph_draws_the_same():
    for name, draw in DRAWS.items():
        graph, _ = make_graph(lambda k, draw=draw: [draw(k, 6)], [spec_of(KEY)])
        check(name, np.asarray(evaluate(graph, KEY)[0]), np.asarray(draw(KEY, 6)))


def test_shapes():
    for name in ("uniform", "normal", "exponential", "bits"):
        flat = DRAWS[name](KEY, 6)
        np.testing.assert_array_equal(DRAWS[name](KEY, (2, 3)), flat.reshape(2, 3))
        assert np.shape(DRAWS[name](KEY, ())) == () and DRAWS[name](KEY, (0, 3)).shape == (0, 3)


def test_batches_of_parameters_share_the_numbers_of_an_unbatched_key():
    a = np.array([0.5, 2.0, 5.0])
    np.testing.assert_array_equal(
        vmap(lambda a: random.gamma(KEY, a, 4))(a), np.stack([random.gamma(KEY, x, 4) for x in a])
    )
    np.testing.assert_array_equal(
        vmap(lambda a: random.poisson(KEY, a, 4))(a), np.stack([random.poisson(KEY, x, 4) for x in a])
    )


def test_numba_code_draws_the_same():
    @numba.njit
    def fill(k, bits, bits64, uniform, normal, gamma, poisson):
        for i in range(bits.size):
            bits[i] = draws.bits(k[0], k[1], i)
            bits64[i] = draws.bits64(k[0], k[1], i)
            uniform[i] = draws.uniform(k[0], k[1], i)
            normal[i] = draws.normal(k[0], k[1], i)
            gamma[i] = draws.loggamma(k[0], k[1], i, 0.4)
            poisson[i] = draws.poisson(k[0], k[1], i, 30.0)

    outs = [np.empty(50, t) for t in (np.uint32, np.uint64, float, float, float, np.int64)]
    fill(KEY, *outs)
    want = [
        random.bits(KEY, 50),
        random.bits(KEY, 50, np.uint64),
        random.uniform(KEY, 50),
        random.normal(KEY, 50),
        random.loggamma(KEY, 0.4, 50),
        random.poisson(KEY, 30.0, 50),
    ]
    for got, expected in zip(outs, want, strict=True):
        np.testing.assert_array_equal(got, expected)


# -- statistics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw, distribution",
    [
        (lambda k, n: random.uniform(k, n), scipy.stats.uniform()),
        (lambda k, n: random.uniform(k, n, np.float32, low=-2.0, high=3.0), scipy.stats.uniform(-2, 5)),
        (lambda k, n: random.normal(k, n), scipy.stats.norm()),
        (lambda k, n: random.normal(k, n, np.float32, mean=2.0, std=3.0), scipy.stats.norm(2, 3)),
        (lambda k, n: random.exponential(k, n, scale=2.0), scipy.stats.expon(scale=2)),
        (lambda k, n: random.gumbel(k, n, loc=1.0, scale=2.0), scipy.stats.gumbel_r(1, 2)),
        (lambda k, n: random.laplace(k, n, loc=1.0, scale=2.0), scipy.stats.laplace(1, 2)),
        (lambda k, n: random.truncated_normal(k, -0.5, 2.0, n), scipy.stats.truncnorm(-0.5, 2.0)),
        (lambda k, n: random.truncated_normal(k, 9.0, 10.0, n), scipy.stats.truncnorm(9.0, 10.0)),
        (lambda k, n: random.gamma(k, 0.3, n), scipy.stats.gamma(0.3)),
        (lambda k, n: random.gamma(k, 1.0, n), scipy.stats.gamma(1.0)),
        (lambda k, n: random.gamma(k, 50.0, n), scipy.stats.gamma(50.0)),
        (lambda k, n: random.beta(k, 0.5, 3.0, n), scipy.stats.beta(0.5, 3.0)),
        (lambda k, n: random.dirichlet(k, np.array([0.5, 1.5, 2.0]), n)[:, 1], scipy.stats.beta(1.5, 2.5)),
    ],
)
def test_distributions_by_kolmogorov_and_smirnov(draw, distribution):
    assert scipy.stats.kstest(draw(KEY, N), distribution.cdf).pvalue > P_VALUE


def chi_square(sample, probabilities):
    """p-value of counts of 0, 1, 2, …; rare ones at the end are put together."""
    probabilities = np.append(probabilities, max(0.0, 1 - np.sum(probabilities)))
    counts = np.bincount(np.minimum(sample, len(probabilities) - 1), minlength=len(probabilities))
    keep = probabilities * len(sample) > 5
    f, e = (
        np.append(counts[keep], counts[~keep].sum()),
        np.append(probabilities[keep], probabilities[~keep].sum()) * len(sample),
    )
    assert not np.any(counts[probabilities == 0])
    return scipy.stats.chisquare(f[e > 0], e[e > 0]).pvalue


@pytest.mark.parametrize("rate", [0.3, 4.0, 9.99, 10.0, 25.0, 400.0])
def test_poisson_by_chi_square(rate):
    k = np.arange(int(rate + 12 * np.sqrt(rate) + 12))
    assert chi_square(random.poisson(KEY, rate, N), scipy.stats.poisson(rate).pmf(k)) > P_VALUE


def test_discrete_draws_by_chi_square():
    assert chi_square(random.randint(KEY, 3, 10, N) - 3, np.full(7, 1 / 7)) > P_VALUE
    assert (
        chi_square(random.categorical(KEY, np.log([0.2, 0.3, 0.5]) + 7, shape=N), np.array([0.2, 0.3, 0.5])) > P_VALUE
    )
    assert chi_square(random.choice(KEY, 3, N, p=np.array([0.0, 1.0, 3.0])), np.array([0, 0.25, 0.75])) > P_VALUE
    assert chi_square(random.bernoulli(KEY, 0.3, N).astype(int), np.array([0.7, 0.3])) > P_VALUE
    assert chi_square(random.bits(KEY, N, np.uint8).astype(int), np.full(256, 1 / 256)) > P_VALUE
    orders = vmap(lambda k: random.permutation(k, 4))(random.split(KEY, 6000))
    known = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    assert chi_square(np.array([known[tuple(o)] for o in orders]), np.full(24, 1 / 24)) > P_VALUE
    first_two = vmap(lambda k: random.choice(k, 3, 2, replace=False, p=np.array([0.5, 0.3, 0.2])))(
        random.split(KEY, 6000)
    )
    assert np.all(first_two[:, 0] != first_two[:, 1])
    assert chi_square(first_two[:, 0], np.array([0.5, 0.3, 0.2])) > P_VALUE
    assert chi_square(first_two[first_two[:, 0] == 0][:, 1], np.array([0, 0.6, 0.4])) > P_VALUE


def test_streams_are_uncorrelated():
    """Correlations of split, folded and neighboring streams, and of draws of different kinds, are within 4.5 standard
    errors.
    """
    a, b = random.split(KEY)
    streams = [
        random.normal(k, N)
        for k in (KEY, a, b, random.fold_in(KEY, 0), random.fold_in(KEY, 1), random.key(21), random.key(20 + 2**32))
    ]
    streams += [np.log(random.gamma(KEY, 3.0, N)), np.roll(streams[0], 1), np.roll(streams[0], 4)]
    c = np.corrcoef(np.stack(streams))
    assert np.max(np.abs(c - np.eye(len(streams)))) < 4.5 / np.sqrt(N)


def test_moments_of_normals_and_resolution_of_uniforms():
    z = random.normal(KEY, 1_000_000)
    assert (
        abs(z.mean()) < 4.5e-3
        and abs(z.var() - 1) < 4.5e-3 * np.sqrt(2)
        and abs((z**4).mean() - 3) < 4.5e-3 * np.sqrt(96)
    )
    u = random.uniform(KEY, 100_000)
    assert u.min() >= 0 and u.max() < 1
    assert np.all(u * 2.0**53 == np.floor(u * 2.0**53)) and np.any(u * 2.0**52 != np.floor(u * 2.0**52))
    assert random.uniform(KEY, 100_000, np.float32).max() < 1


def test_wide_integers():
    n = random.randint(KEY, -(2**62), 2**62, N)
    assert scipy.stats.kstest(n / 2.0**63 + 0.5, "uniform").pvalue > P_VALUE
    assert random.randint(KEY, 0, 256, 5, np.uint8).dtype == np.uint8
    assert np.all(random.randint(KEY, np.array([0, 10]), np.array([1, 11]), (100, 2)) == [0, 10])


def test_extreme_gammas_do_not_underflow_in_logarithms():
    g = random.loggamma(KEY, 1e-4, 1000)
    assert np.all(np.isfinite(g)) and np.min(g) < -1000
    assert np.allclose(random.dirichlet(KEY, np.full(3, 1e-3), 500).sum(-1), 1)
    assert not np.any(np.isnan(random.beta(KEY, 1e-3, 1e-3, 500)))


# -- derivatives -------------------------------------------------------------------------------------------------------


def test_location_and_scale_are_differentiable():
    z = random.normal(KEY, 10)
    gm, gs = grad(lambda m, s: np.sum(random.normal(KEY, 10, mean=m, std=s)), argnums=(0, 1))(1.0, 2.0)
    np.testing.assert_allclose([gm, gs], [10, z.sum()])
    np.testing.assert_allclose(
        grad(lambda h: np.sum(random.uniform(KEY, 10, high=h)))(3.0), random.uniform(KEY, 10).sum()
    )
    np.testing.assert_allclose(
        grad(lambda s: np.sum(random.gumbel(KEY, 10, scale=s)))(3.0), random.gumbel(KEY, 10).sum()
    )
    f = lambda a: random.truncated_normal(KEY, a, 2.0, 6)
    np.testing.assert_allclose(jvp(f, (-0.5,), (1.0,))[1], (f(-0.5 + 1e-6) - f(-0.5 - 1e-6)) / 2e-6, rtol=1e-7)


@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.0, 3.0, 80.0])
def test_gamma_derivative_is_that_of_the_quantile(alpha):
    x = random.gamma(KEY, alpha, 40)
    p = scipy.special.gammainc(alpha, x)
    inside = (p > 1e-6) & (p < 1 - 1e-6) & (x > 1e-200)
    h = 1e-5 * alpha
    quantile = lambda a: scipy.special.gammaincinv(a, p)
    want = (quantile(alpha - 2 * h) - 8 * quantile(alpha - h) + 8 * quantile(alpha + h) - quantile(alpha + 2 * h)) / (
        12 * h
    )
    got = vmap(grad(lambda a, k: random.gamma(k, a)), in_axes=(None, 0))(alpha, random.split(KEY, 3))
    assert got.shape == (3,)
    slope = jvp(lambda a: random.gamma(KEY, a, 40), (alpha,), (1.0,))[1]
    np.testing.assert_allclose(slope[inside], want[inside], rtol=2e-7)
    weights = np.arange(40.0)
    np.testing.assert_allclose(grad(lambda a: np.sum(weights * random.gamma(KEY, a, 40)))(alpha), weights @ slope)


def test_gamma_derivatives_of_means_and_second_order():
    # E[x] = alpha and Var[x] = alpha: the slopes of sample mean and variance tend to 1
    moments = lambda a: (lambda x: np.stack([np.mean(x), np.mean((x - a) ** 2)]))(random.gamma(KEY, a, N))
    assert np.all(np.abs(jvp(moments, (2.5,), (1.0,))[1] - 1) < 0.05)
    f = lambda a: np.sum(random.loggamma(KEY, a, 5))
    h = 1e-4
    # the second derivative of the formula itself, along its own samples: difference of slopes at neighboring quantiles
    p = scipy.special.gammainc(2.5, random.gamma(KEY, 2.5, 5))
    q = lambda a: np.sum(np.log(scipy.special.gammaincinv(a, p)))
    np.testing.assert_allclose(grad(grad(f))(2.5), (q(2.5 + h) - 2 * q(2.5) + q(2.5 - h)) / h**2, rtol=1e-5)
    g = grad(lambda a: random.dirichlet(KEY, a)[0])(np.array([1.0, 2.0, 3.0]))
    assert g[0] > 0 and g[1] < 0 and g[2] < 0


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [3, None, np.zeros(2), np.zeros(3, np.uint32), np.zeros((4, 2), np.uint32), [0, 1]])
def test_bad_keys(bad):
    with pytest.raises(
        TypeError,
        match=r"random.uniform: key must be uint32 of shape \(2,\), got .*make one with "
        r"core.random.key\(seed\)",
    ):
        random.uniform(bad)
    with pytest.raises(TypeError, match="random.split: key must be uint32"):
        random.split(bad)


def test_bad_arguments():
    with pytest.raises(TypeError, match="random.key: the seed must be an integer, got float 0.5"):
        random.key(0.5)
    with pytest.raises(TypeError, match="random.normal: dtype must be float32 or float64, got int64"):
        random.normal(KEY, 3, np.int64)
    with pytest.raises(TypeError, match="random.bits: dtype must be an unsigned integer"):
        random.bits(KEY, 3, np.int32)
    with pytest.raises(ValueError, match="random.uniform: shape must have no negative entry"):
        random.uniform(KEY, (-1,))
    with pytest.raises(TypeError, match="random.uniform: shape must be made of integers, got 0.5"):
        random.uniform(KEY, 0.5)
    with pytest.raises(ValueError, match="random.randint: low < high must hold, got 3 and 3"):
        random.randint(KEY, 3, 3)
    with pytest.raises(ValueError, match="random.randint: low and high must fit uint8"):
        random.randint(KEY, 0, 300, dtype=np.uint8)
    with pytest.raises(ValueError, match="random.gamma: |random.loggamma: alpha must be > 0, got -1"):
        random.gamma(KEY, -1.0)
    with pytest.raises(ValueError, match=r"random.poisson: rate must be in \[0, 1e18\], got -1"):
        random.poisson(KEY, -1.0)
    with pytest.raises(ValueError, match="random.choice: without replacement at most 3 can be chosen, got 4"):
        random.choice(KEY, 3, 4, replace=False)
    with pytest.raises(ValueError, match="random.categorical: logits must have the axis -1"):
        random.categorical(KEY, 1.0)
    with pytest.raises(TypeError, match="random.fold_in: data must be one integer, got float64"):
        random.fold_in(KEY, 0.5)


@pytest.mark.parametrize(
    "draw",
    [
        lambda key, p: random.uniform(key, (), low=-p),
        lambda key, p: random.normal(key, 2, mean=p),
        lambda key, p: random.exponential(key, scale=p),
        lambda key, p: random.gumbel(key, loc=p),
        lambda key, p: random.laplace(key, scale=p),
        lambda key, p: random.truncated_normal(key, -p, p, ()),
        lambda key, p: random.bernoulli(key, p, ()),
        lambda key, p: random.randint(key, 0, p.astype(int) + 1, ()),
        lambda key, p: random.gamma(key, p, ()),
        lambda key, p: random.poisson(key, p, 2),
    ],
    ids=[
        "uniform",
        "normal",
        "exponential",
        "gumbel",
        "laplace",
        "truncated_normal",
        "bernoulli",
        "randint",
        "gamma",
        "poisson",
    ],
)
def test_one_number_never_serves_several_parameters(draw):
    with pytest.raises(ValueError, match="shape|broadcast"):
        draw(random.key(0), np.full(3, 0.5))


def test_empty_and_broken_ranges():
    with pytest.raises(ValueError, match="low < high"):
        random.randint(random.key(0), np.array([0, 5]), np.array([3, 5]), 2)
    with pytest.raises(TypeError, match="integers"):
        random.randint(random.key(0), 0.5, 3)
    with pytest.raises(ValueError, match="lower <= upper"):
        random.truncated_normal(random.key(0), 1.0, -1.0)
