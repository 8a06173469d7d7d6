"""Black-Scholes: prices of a million call options, and the gradient of their sum by all inputs."""

import math

import numpy

from tests.benchmarks.case import Case

RATE = 0.02


def data(n=1_000_000):
    rng = numpy.random.default_rng(1)
    spot, strike = rng.uniform(20, 180, n), rng.uniform(20, 180, n)
    return ((spot, strike, rng.uniform(0.1, 2, n), rng.uniform(0.1, 0.6, n)),)


def call(tool):
    np, erf = tool.np, tool.special.erf

    def normal(z):
        return 0.5 * (1 + erf(z * (1 / math.sqrt(2))))

    def price(options):
        spot, strike, time, volatility = options
        deviation = volatility * np.sqrt(time)
        d1 = (np.log(spot / strike) + (RATE + 0.5 * volatility**2) * time) / deviation
        return spot * normal(d1) - strike * np.exp(-RATE * time) * normal(d1 - deviation)

    return price


price = Case("black_scholes_price", data, flops=1e6 * 120, bytes=8e6 * 5)
price.program("triskele", "jax", "torch", "autograd", "numpy")(call)

gradient = Case("black_scholes_gradient", data, flops=1e6 * 200, bytes=8e6 * 8)


@gradient.program("triskele", "jax", "torch", "autograd")
def sum_and_gradient(tool):
    one = call(tool)
    return tool.value_and_grad(lambda options: tool.np.sum(one(options)))


@price.by_hand("numba")
def price_loop(options):
    import numba

    @numba.njit
    def prices(spot, strike, time, volatility):
        out = numpy.empty_like(spot)
        for i in range(out.size):
            deviation = volatility[i] * math.sqrt(time[i])
            d1 = (math.log(spot[i] / strike[i]) + (RATE + 0.5 * volatility[i] ** 2) * time[i]) / deviation
            paid = strike[i] * math.exp(-RATE * time[i])
            out[i] = 0.5 * spot[i] * (1 + math.erf(d1 / math.sqrt(2)))
            out[i] -= 0.5 * paid * (1 + math.erf((d1 - deviation) / math.sqrt(2)))
        return out

    return lambda: prices(*options)


@gradient.by_hand("numba")
def gradient_loop(options):
    import numba

    @numba.njit
    def sum_and_greeks(spot, strike, time, volatility):
        total = 0.0
        greeks = numpy.empty((4, spot.size))
        for i in range(spot.size):
            root = math.sqrt(time[i])
            deviation = volatility[i] * root
            d1 = (math.log(spot[i] / strike[i]) + (RATE + 0.5 * volatility[i] ** 2) * time[i]) / deviation
            discount = math.exp(-RATE * time[i])
            n1 = 0.5 * (1 + math.erf(d1 / math.sqrt(2)))
            n2 = 0.5 * (1 + math.erf((d1 - deviation) / math.sqrt(2)))
            density = spot[i] * math.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
            total += spot[i] * n1 - strike[i] * discount * n2
            greeks[0, i] = n1
            greeks[1, i] = -discount * n2
            greeks[2, i] = 0.5 * density * volatility[i] / root + RATE * strike[i] * discount * n2
            greeks[3, i] = density * root
        return total, greeks

    def run():
        total, greeks = sum_and_greeks(*options)
        return total, tuple(greeks)

    return run
