"""Functions as scientists write them: plain NumPy and Python.

Each is run as it stands, compiled, differentiated and for a batch of arguments.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.special
from numpy.testing import assert_allclose

from triskele import core

RNG = np.random.default_rng(0)


def check(f, args, eager=True):
    """`f` as NumPy runs it against jit; its gradient by grad, jit of grad and grad of jit against central differences;
    vmap against a loop.

    The first argument, a tree of float arrays, is the one that varies. With ``eager=False`` transforms are run under
    jit only: tables indexed by traced values and plain arrays filled with them need the conversion that jit does.
    """
    first, *rest = args
    value = f(first, *rest)
    assert_allclose(core.jit(f)(first, *rest), value, rtol=1e-9, atol=1e-12)

    leaves, structure = core.tree.flatten(first)
    direction = [RNG.normal(size=np.shape(x)) for x in leaves]

    def along(h):
        return np.sum(f(core.tree.unflatten(structure, [x + h * d for x, d in zip(leaves, direction)]), *rest))

    slope = (along(1e-6) - along(-1e-6)) / 2e-6

    def total(x, *rest):
        return np.sum(f(x, *rest))

    ways = {"jit of grad": core.jit(core.grad(total)), "grad of jit": core.grad(core.jit(total))}
    if eager:
        ways["grad"] = core.grad(total)
    for how, derivative in ways.items():
        found = sum(np.sum(g * d) for g, d in zip(core.tree.leaves(derivative(first, *rest)), direction))
        assert_allclose(found, slope, rtol=1e-5, atol=1e-7, err_msg=how)

    stacked = [np.stack([x, 1.01 * x, x - 0.02]) for x in leaves]
    each = [f(core.tree.unflatten(structure, [s[k] for s in stacked]), *rest) for k in range(3)]
    axes = (0, *[None] * len(rest))
    batch = core.tree.unflatten(structure, stacked)
    assert_allclose(core.jit(core.vmap(f, axes))(batch, *rest), each, rtol=1e-9, atol=1e-12, err_msg="jit of vmap")
    assert_allclose(core.vmap(core.jit(f), axes)(batch, *rest), each, rtol=1e-9, atol=1e-12, err_msg="vmap of jit")
    if eager:
        assert_allclose(core.vmap(f, axes)(batch, *rest), each, rtol=1e-9, atol=1e-12, err_msg="vmap")


def test_ode_with_a_python_loop():
    """Lotka and Volterra's predators and prey by Runge and Kutta's method."""

    def rates(y, p):
        prey, predators = y
        return np.stack([p[0] * prey - p[1] * prey * predators, p[2] * prey * predators - p[3] * predators])

    def solve(p, y, dt, n):
        for _ in range(n):
            k1 = rates(y, p)
            k2 = rates(y + dt / 2 * k1, p)
            k3 = rates(y + dt / 2 * k2, p)
            k4 = rates(y + dt * k3, p)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y

    check(solve, (np.array([1.1, 0.4, 0.1, 0.4]), np.array([10.0, 5.0]), 0.02, 30))


def test_trajectory_in_a_preallocated_array():
    def trajectory(k, n_steps=20):
        x = np.zeros((n_steps, 2))
        x[0] = [1.0, 0.0]
        for i in range(1, n_steps):
            position, velocity = x[i - 1]
            velocity -= 0.1 * k * position
            x[i, 0] = position + 0.1 * velocity
            x[i, 1] = velocity
        return x

    check(trajectory, (np.float64(1.3),), eager=False)


def test_newton_iteration_with_while():
    """Kepler's equation M = E - e sin E."""

    def eccentric_anomaly(e, mean):
        E = mean + e * np.sin(mean)
        step = 1.0
        while abs(step) > 1e-13:
            step = (E - e * np.sin(E) - mean) / (1 - e * np.cos(E))
            E = E - step
        return E

    for e in (0.1, 0.8):
        check(eccentric_anomaly, (e, 1.2), eager=False)
    assert_allclose(core.grad(eccentric_anomaly)(0.8, 1.2), core.jit(core.grad(eccentric_anomaly))(0.8, 1.2), rtol=1e-9)


def test_masked_statistics():
    def robust(x, data, bad):
        z = (data - x[0]) / x[1]
        good = ~np.isnan(bad) & (np.abs(z) < 3)
        n = good.sum()
        mean = np.where(good, z, 0).sum() / n
        spread = np.sqrt(np.where(good, (z - mean) ** 2, 0.0).sum() / (n - 1))
        z[~good] = 0.0
        return mean + spread + np.max(np.abs(z), initial=0.0) + np.sum(z, where=good) + np.mean(z**2)

    data = RNG.normal(size=40)
    check(robust, (np.array([0.1, 0.7]), data, np.where(data > 1.5, np.nan, data)))


def test_parameters_in_a_dictionary():
    def predict(params, x):
        for layer in params["layers"]:
            x = np.tanh(x @ layer["w"] + layer["b"])
        return x @ params["head"] * np.exp(params["log_scale"])

    sizes = [(3, 5), (5, 4)]
    params = {
        "layers": [{"w": RNG.normal(size=s), "b": RNG.normal(size=s[1])} for s in sizes],
        "head": RNG.normal(size=4),
        "log_scale": np.array(0.3),
    }
    check(predict, (params, RNG.normal(size=(7, 3))))


def test_in_place_stencil():
    """Diffusion with fixed ends."""

    def diffuse(u, alpha, n):
        u = u.copy()
        for _ in range(n):
            u[1:-1] += alpha * (u[2:] - 2 * u[1:-1] + u[:-2])
            u[0], u[-1] = 1.0, u[-2]
        return u

    check(diffuse, (RNG.normal(size=9), 0.2, 15))


def test_histogram_with_add_at():
    def density(x, weights):
        """Weights shared between the two nearest of eight cells."""
        cell = np.clip(np.floor(x).astype(int), 0, 6)
        upper = x - cell
        out = np.zeros_like(x, shape=8)
        np.add.at(out, cell, weights * (1 - upper))
        np.add.at(out, cell + 1, weights * upper)
        return out**2

    check(density, (RNG.uniform(0.1, 6.8, 20), RNG.normal(size=20)))


def test_complex_fft_filter():
    def low_pass(signal, cutoff):
        f = np.fft.fftfreq(signal.size, 0.1)
        response = 1 / (1 + 1j * f / cutoff)
        spectrum = np.fft.fft(signal) * response
        filtered = np.fft.ifft(spectrum)
        return np.abs(filtered) ** 2 + np.angle(spectrum[1]) + filtered.real

    check(low_pass, (RNG.normal(size=16), 1.7))


@dataclass
class Spring:
    stiffness: np.ndarray
    length: np.ndarray
    name: str = field(default="spring", metadata={"static": True})

    def energy(self, x):
        stretch = np.linalg.norm(x[1:] - x[:-1], axis=-1) - self.length
        if np.any(stretch > 2):
            return 0.5 * np.sum(self.stiffness * stretch**2) + 1
        return 0.5 * np.sum(self.stiffness * stretch**2)


def test_parameters_in_a_dataclass():
    spring = Spring(RNG.uniform(1, 2, 4), np.full(4, 0.7))
    check(lambda s, x: s.energy(x), (spring, RNG.normal(size=(5, 3)) * 0.3), eager=False)


def test_recursion_by_scan():
    """Kalman's filter of a random walk: its log-likelihood."""

    def log_likelihood(p, data):
        process, noise = np.exp(p)

        def step(state, y):
            mean, variance, total = state
            variance = variance + process
            s = variance + noise
            gain = variance / s
            error = y - mean
            return (
                mean + gain * error,
                (1 - gain) * variance,
                total - 0.5 * (np.log(2 * np.pi * s) + error**2 / s),
            ), gain

        (_, _, total), gains = core.scan(step, (0.0, 1.0, 0.0), data)
        return total + gains.sum()

    check(log_likelihood, (np.array([-1.0, 0.2]), RNG.normal(size=12).cumsum()))


def test_interpolation_in_a_table():
    table = np.sin(np.linspace(0, 3, 31))

    def lookup(x):
        i = np.clip(np.floor(x / 0.1).astype(int), 0, 29)
        t = x / 0.1 - i
        return (1 - t) * table[i] + t * table[i + 1] + np.interp(x, np.linspace(0, 3, 31), table)

    check(lookup, (RNG.uniform(0.05, 2.9, 10),), eager=False)
    check(lookup, (np.float64(1.234),), eager=False)


def test_quantile_loss_by_sorting():
    def crps(x, y):
        """Continuous ranked probability score of an ensemble, and a penalty on its quantiles."""
        xs = x[np.argsort(x)]
        below = np.cumsum(np.ones_like(xs)) / len(xs)
        gaps = np.diff(xs)
        return np.sum(gaps * (below[:-1] - (xs[:-1] > y)) ** 2) + np.quantile(x, 0.3) + np.median(np.abs(x - y))

    check(crps, (RNG.normal(size=11), 0.2))


def test_scatter_of_a_sparse_matrix():
    """Stiffness of a chain of bars, element by element, and its solution."""
    nodes = np.array([[0, 1], [1, 2], [2, 3], [1, 3]])

    def displacement(stiffness, force):
        K = np.zeros((4, 4))
        for e, (i, j) in enumerate(nodes):
            k = stiffness[e]
            K[i, i] += k
            K[j, j] += k
            K[i, j] -= k
            K[j, i] -= k
        return np.linalg.solve(K[1:, 1:], force)

    check(displacement, (RNG.uniform(1, 2, 4), np.array([0.0, 1.0, -0.5])), eager=False)


def test_classification_loss_with_scipy():
    def loss(w, x, labels):
        logits = x @ w
        return (
            -np.mean(logits[np.arange(len(labels)), labels] - scipy.special.logsumexp(logits, axis=1))
            + scipy.special.xlogy(w**2, w**2).sum()
        )

    check(loss, (RNG.normal(size=(3, 4)), RNG.normal(size=(6, 3)), RNG.integers(0, 4, 6)), eager=False)


def test_early_exit_of_a_search():
    """Bisection with a break, and a table of what was tried."""

    def bisect(a, low, high):
        tried = np.zeros(40)
        for k in range(40):
            middle = (low + high) / 2
            tried[k] = middle
            if high - low < 1e-3:
                break
            if middle**3 + middle > a:
                high = middle
            else:
                low = middle
        return middle * a, tried

    for a in (1.3, 5.0):
        for found, expected in zip(core.jit(bisect)(a, 0.0, 2.0), bisect(a, 0.0, 2.0), strict=True):
            assert_allclose(found, expected)


@pytest.mark.parametrize("n", [0, 3])
def test_fibonacci_with_a_traced_count(n):
    def fibonacci(n, x):
        out = np.ones(10)
        for i in range(2, n + 2):
            out[i] = out[i - 1] + x * out[i - 2]
        return out

    assert_allclose(core.jit(fibonacci)(n, 2.0), fibonacci(n, 2.0))
    assert_allclose(core.jit(core.grad(lambda x, n: fibonacci(n, x).sum()))(2.0, n), 0 if n == 0 else 10)
