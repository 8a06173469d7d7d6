"""Fit the Lotka-Volterra equations to the fur trade's counts of hares and lynxes.

    d hare / dt =  alpha hare - beta hare lynx          d lynx / dt = -gamma lynx + delta hare lynx

The equations are integrated by Runge-Kutta steps inside `core.scan`; the likelihood (log-normal errors) is maximized
with gradients through the whole integration, and its Hessian gives the standard errors. All of it is plain NumPy code,
compiled by `core.jit`.

Published for comparison (posterior means with weak priors, B. Carpenter, Stan case study "Predator-Prey Population
Dynamics", 2018): alpha 0.55, beta 0.028, gamma 0.80, delta 0.024.

    python examples/core/fit_ode.py [--output fit_ode.png]
"""

import argparse
import time
from pathlib import Path

import numpy as np

from triskele import core

STEPS_PER_YEAR = 50
NAMES = ["alpha", "beta", "gamma", "delta", "hare 1900", "lynx 1900"]
START = np.log([0.5, 0.02, 0.9, 0.03, 30.0, 4.0])


def rates(y, rate):
    hare, lynx = y
    return np.stack([(rate[0] - rate[1] * lynx) * hare, (rate[3] * hare - rate[2]) * lynx])


def trajectory(log_params, years):
    """Populations at the end of every step, [years * STEPS_PER_YEAR + 1, 2], by the classical Runge-Kutta method."""
    params = np.exp(log_params)
    rate, dt = params[:4], 1 / STEPS_PER_YEAR

    def step(y, _):
        k1 = rates(y, rate)
        k2 = rates(y + dt / 2 * k1, rate)
        k3 = rates(y + dt / 2 * k2, rate)
        k4 = rates(y + dt * k3, rate)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    _, ys = core.scan(step, params[4:], None, length=years * STEPS_PER_YEAR)
    return np.concatenate([params[None, 4:], ys])


def negative_log_likelihood(theta, counts):
    """theta: logarithms of the six parameters and of the two noise levels; counts: [years, 2]."""
    log_params, log_sigma = theta[:6], theta[6:]
    model = trajectory(log_params, len(counts) - 1)[::STEPS_PER_YEAR]
    residual = (np.log(counts) - np.log(model)) / np.exp(log_sigma)
    return np.sum(0.5 * residual**2 + log_sigma)


def main(output):
    data = np.loadtxt(Path(__file__).parent / "data" / "hare_lynx.csv", delimiter=",", skiprows=4)
    years, counts = data[:, 0], data[:, 1:]

    started = time.perf_counter()
    theta0 = np.concatenate([START, np.log([0.5, 0.5])])
    fit = core.optim.LBFGS().minimize(negative_log_likelihood, theta0, counts)
    seconds = time.perf_counter() - started
    covariance = np.linalg.inv(core.jit(core.hessian(negative_log_likelihood))(fit.params, counts))
    error = np.sqrt(np.diagonal(covariance))

    print(
        f"{fit.evaluations} evaluations of value and gradient through {len(data) * STEPS_PER_YEAR} steps in "
        f"{seconds:.2f} s, compilation included"
    )
    print(f"negative log likelihood {fit.value:.4f}, converged: {fit.converged}")
    print("parameter       value   standard error")
    for name, value, sd in zip([*NAMES, "sigma hare", "sigma lynx"], np.exp(fit.params), error, strict=True):
        print(f"{name:<12}{value:>9.4f}   {value * sd:.4f}")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # the band: how the logarithm of the populations answers to the parameters, times the parameters' covariance
    def log_populations(log_params):
        return np.log(trajectory(log_params, len(data) - 1))

    log_model = log_populations(fit.params[:6])
    slope = core.jit(core.jacfwd(log_populations))(fit.params[:6])
    sd = np.sqrt(np.einsum("tsi,ij,tsj->ts", slope, covariance[:6, :6], slope))
    t = years[0] + np.arange(len(log_model)) / STEPS_PER_YEAR

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for k, (species, color) in enumerate([("hare", "tab:blue"), ("lynx", "tab:red")]):
        axes.plot(t, np.exp(log_model[:, k]), color=color, label=f"{species}, model")
        axes.fill_between(
            t,
            np.exp(log_model[:, k] - 2 * sd[:, k]),
            np.exp(log_model[:, k] + 2 * sd[:, k]),
            color=color,
            alpha=0.2,
            lw=0,
        )
        axes.plot(years, counts[:, k], "o", color=color, label=f"{species}, pelts counted")
    axes.set(
        xlabel="year",
        ylabel="pelts (thousands)",
        title="Lotka-Volterra fitted to Hudson's Bay pelts, with two standard errors",
    )
    axes.set_xticks(np.arange(1900, 1921, 4))
    axes.set_ylim(0, 105)
    axes.legend(ncols=2, frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="fit_ode.png", help="where the picture goes")
    main(parser.parse_args().output)
