"""Programs of many statements and rounds in plain NumPy, for the cold column: what compiling them takes."""

import linecache

import numpy

from tests.benchmarks.case import Case


def put_into(x, index, value):
    x[index] = value
    return x


def put_at(x, index, value):
    return x.at[index].set(value)


# -- Thomas' algorithm for a tridiagonal system


def thomas(tool):
    np = tool.np
    put = put_at if np.__name__.startswith("jax") else put_into

    def solve(k, start):
        n, dt = len(start), 0.1
        flow = -dt * k * (1 + 0.05 * (start[1:] ** 2 + start[:-1] ** 2))
        zero = np.zeros(1)
        below, above = np.concatenate([zero, flow]), np.concatenate([flow, zero])
        middle = 1 - below - above
        c, d, x = 0 * middle, 0 * middle, 0 * middle
        c, d = put(c, 0, above[0] / middle[0]), put(d, 0, start[0] / middle[0])
        for i in range(1, n):
            w = middle[i] - below[i] * c[i - 1]
            c = put(c, i, above[i] / w)
            d = put(d, i, (start[i] - below[i] * d[i - 1]) / w)
        x = put(x, n - 1, d[n - 1])
        for i in range(n - 2, -1, -1):
            x = put(x, i, d[i] - c[i] * x[i + 1])
        return np.sum(x**2)

    return tool.value_and_grad(solve)


Case("cold_thomas", lambda: (0.5, numpy.sin(numpy.linspace(0, 3, 90)))).program("triskele", "jax")(thomas)


# -- Kalman filter with missing data


def kalman(tool):
    np = tool.np

    def likelihood(parameters, data, present):
        rho, omega, q, r = parameters
        c, s, zero = np.cos(omega), np.sin(omega), 0 * rho
        step = np.stack([np.stack([rho * c, -rho * s, zero]), np.stack([rho * s, rho * c, zero]),
                         np.stack([zero, zero, zero + 1])])  # fmt: skip
        seen = np.asarray([[1.0, 0.0, 1.0], [0.0, 1.0, 0.5]])
        noise, error = np.exp(q) * np.eye(3), np.exp(r) * np.eye(2)
        m, p, total = np.zeros(3), np.eye(3), 0.0
        for t in range(len(data)):
            m, p = step @ m, step @ p @ step.T + noise
            spread = seen @ p @ seen.T + error
            root = np.linalg.cholesky(spread)
            e = np.linalg.solve(root, data[t] - seen @ m)
            total = total - present[t] * (0.5 * (e @ e) + np.sum(np.log(np.diagonal(root))))
            gain = present[t] * np.linalg.solve(spread, seen @ p).T
            m = m + gain @ (data[t] - seen @ m)
            rest = np.eye(3) - gain @ seen
            p = rest @ p @ rest.T + gain @ error @ gain.T
        return total

    return tool.value_and_grad(likelihood)


def observations():
    rng = numpy.random.default_rng(0)
    return numpy.array([0.95, 0.3, -1.0, 0.2]), rng.normal(size=(60, 2)), (rng.random(60) > 0.2).astype(float)


Case("cold_kalman", observations).program("triskele", "jax")(kalman)


# -- shallow water on a C grid, 4 steps of Runge and Kutta


def shallow_water(tool):
    np = tool.np
    dx, dt, gravity, coriolis = 1e4, 60.0, 9.81, 1e-4

    def east(x):
        return np.roll(x, -1, axis=1)

    def west(x):
        return np.roll(x, 1, axis=1)

    def rates(h, u, v, depth):
        level = depth + h
        across = np.concatenate([np.zeros((1, h.shape[1])), 0.5 * (level[1:] + level[:-1])])
        fu, fv = 0.5 * (level + west(level)) * u, across * v
        north = np.concatenate([fv[1:], np.zeros((1, h.shape[1]))])
        dh = -(east(fu) - fu) / dx - (north - fv) / dx
        vn = np.concatenate([v[1:], np.zeros((1, h.shape[1]))])
        kinetic = 0.25 * (u**2 + east(u) ** 2 + v**2 + vn**2)
        bernoulli = gravity * h + kinetic
        us = np.concatenate([u[:1], u[:-1]])
        spin = (v - west(v)) / dx - (u - us) / dx + coriolis
        vbar = 0.25 * (v + west(v) + vn + west(vn))
        ubar = 0.25 * (u + east(u) + us + east(us))
        du = spin * vbar - (bernoulli - west(bernoulli)) / dx - 1e-6 * u
        below = np.concatenate([bernoulli[:1], bernoulli[:-1]])
        dv = -spin * ubar - (bernoulli - below) / dx - 1e-6 * v
        return [dh, du + 50.0 * (west(u) + east(u) - 2 * u) / dx**2, dv + 50.0 * (west(v) + east(v) - 2 * v) / dx**2]

    def misfit(h, depth):
        state = [h, 0 * h, 0 * h]
        mass = []
        for n in range(4):
            k1 = rates(*state, depth)
            k2 = rates(*[a + 0.5 * dt * k for a, k in zip(state, k1)], depth)
            k3 = rates(*[a + 0.5 * dt * k for a, k in zip(state, k2)], depth)
            k4 = rates(*[a + dt * k for a, k in zip(state, k3)], depth)
            state = [a + dt / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(state, k1, k2, k3, k4)]
            if n % 10 == 0:
                mass.append(np.sum(state[0]))
        return np.mean(state[0][::3, ::3] ** 2) + 1e-9 * mass[0] ** 2

    return tool.value_and_grad(misfit)


def basin():
    y, x = numpy.mgrid[:24, :32]
    return numpy.exp(-((x - 12) ** 2 + (y - 10) ** 2) / 18.0), 500 + 20 * numpy.sin(x / 5)


Case("cold_shallow_water", basin).program("triskele", "jax")(shallow_water)


# -- 1,000 statements in a row

FORMS = (
    "x = x * 0.99 + y",
    "y = y - 0.01 * x",
    "x = np.sin(x) + 0.1 * y",
    "y = np.cos(y) + x",
    "x = x / (1.0 + y * y)",
    "y = 0.5 * y + x",
    "x = x * x - 0.5 * y",
    "y = np.maximum(x, y) * 0.5",
)


def straight_line(tool):
    lines = ["def run(x, y):", *[f"    {FORMS[k % len(FORMS)]}" for k in range(1000)], "    return np.sum(x + y)"]
    name, scope = "straight line", {"np": tool.np}
    linecache.cache[name] = (0, None, [f"{line}\n" for line in lines], name)
    exec(compile("\n".join(lines), name, "exec"), scope)
    return scope["run"]


Case("cold_straight_line", lambda: tuple(numpy.random.default_rng(0).normal(scale=0.3, size=(2, 100)))).program(
    "triskele", "jax"
)(straight_line)
