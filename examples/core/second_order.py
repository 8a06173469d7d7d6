"""Curvature in training: K-FAC and THOR on a deep network, Levenberg-Marquardt on a curve, each against Adam.

The network is a narrow autoencoder of handwritten digits, on which gradient methods are slow. THOR refreshes the
factors of a layer only while they change, and saves most of K-FAC's inversions. The curve has four parameters: there,
least squares converge in a few steps, where Adam needs hundreds.

    python examples/core/second_order.py [--steps 150] [--output second_order.png]
"""

import argparse
import functools
import time
from pathlib import Path

import numpy as np

from triskele import core
from triskele.core import nn, optim, random


def reconstruction(net, batch):
    """Cross entropy of the pixels, each a Bernoulli variable; the likelihood that the curvature belongs to."""
    return nn.binary_cross_entropy(net(batch), batch)


def second_order(optimizer, net, images, steps):
    """Train on all images at once: losses, seconds since the first step, last state."""
    step = core.jit(functools.partial(optimizer.step, reconstruction))
    state = optimizer.init(reconstruction, net, images)
    step(net, images, state, random.key(0))  # compiles
    losses, times, began = [], [], time.perf_counter()
    for key in random.split(random.key(1), steps):
        net, state, info = step(net, images, state, key)
        losses.append(float(info["loss"]))
        times.append(time.perf_counter() - began)
    return losses, times, state


def first_order(optimizer, net, images, steps):
    """The same by gradients."""

    @core.jit
    def step(net, state):
        loss, grads = core.value_and_grad(reconstruction)(net, images)
        return loss, *optimizer.step(net, grads, state)

    state = optimizer.init(net)
    step(net, state)  # compiles
    losses, times, began = [], [], time.perf_counter()
    for _ in range(steps):
        loss, net, state = step(net, state)
        losses.append(float(loss))
        times.append(time.perf_counter() - began)
    return losses, times


def decay(p, t):
    """A damped oscillation."""
    amplitude, rate, frequency, phase = p
    return amplitude * np.exp(-rate * t) * np.cos(frequency * t + phase)


def fit_curve():
    """Costs of Levenberg-Marquardt after each step, and of Adam, on 60 noisy points."""
    t = np.linspace(0, 10, 60)
    true, start = np.array([2.0, 0.3, 2.5, 0.4]), np.array([1.0, 0.1, 2.2, 0.0])
    points = decay(true, t) + 0.05 * np.random.default_rng(0).normal(size=t.size)

    def residuals(p):
        return decay(p, t) - points

    lm = [float(0.5 * np.sum(residuals(start) ** 2))]
    for n in range(1, 100):
        found = optim.LevenbergMarquardt(max_steps=n).minimize(residuals, start)
        lm.append(float(0.5 * np.sum(residuals(found.params) ** 2)))
        if found.converged:
            break
    adam, params, adam_costs = optim.Adam(0.02), start, []
    cost = core.jit(core.value_and_grad(lambda p: 0.5 * np.sum(residuals(p) ** 2)))
    state = adam.init(params)
    for _ in range(2000):
        value, grads = cost(params)
        adam_costs.append(float(value))
        params, state = adam.step(params, grads, state)
    return lm, adam_costs, found.params


def main(steps, output):
    digits = np.load(Path(__file__).parent / "data" / "digits.npz")
    images = (digits["images"].reshape(-1, 64) / 16).astype(np.float32)
    net = nn.MLP.init(random.key(0), [64, 48, 24, 8, 24, 48, 64])

    curves = {}
    for name, optimizer in (("K-FAC", optim.KFAC(damping=1.0)), ("THOR", optim.THOR(0.1, damping=0.03, check_every=5))):
        losses, times, state = second_order(optimizer, net, images, steps)
        curves[name] = losses, times
        print(f"{name}: loss {losses[-1]:.4f} after {steps} steps, {times[-1]:.1f} s")
        if name == "THOR":
            print(f"THOR inverted the factors of its layers {np.sum(state.refreshes)} times in {steps} steps")
    losses, times = curves["Adam"] = first_order(optim.Adam(2e-3), net, images, 20 * steps)
    print(f"Adam: loss {losses[-1]:.4f} after {len(losses)} steps, {times[-1]:.1f} s")
    for name in ("K-FAC", "THOR"):
        needed = next((k for k, loss in enumerate(losses) if loss < curves[name][0][-1]), None)
        print(f"Adam takes {needed or f'more than {len(losses)}'} steps to the final loss of {name}")

    lm, adam, params = fit_curve()
    needed = next((k for k, value in enumerate(adam) if value < 1.001 * lm[-1]), None)
    print(
        f"Levenberg-Marquardt: {len(lm) - 1} steps to the minimum at {np.round(params, 3)}; "
        f"Adam: {needed or 'more than 2000'} steps to within 0.1 % of it"
    )

    import matplotlib.pyplot

    matplotlib.use("Agg")
    from triskele.core.show import plots

    with plots.style():
        figure, (left, right) = matplotlib.pyplot.subplots(1, 2, figsize=(7.0, 2.8), layout="constrained")
        for name, (losses, _) in curves.items():
            left.loglog(np.arange(1, len(losses) + 1), losses, label=name)
        left.set(xlabel="step", ylabel="cross entropy of a pixel", title="autoencoder 64-48-24-8-24-48-64")
        left.legend()
        right.loglog(np.arange(1, len(lm) + 1), lm, "o-", label="Levenberg-Marquardt")
        right.loglog(np.arange(1, len(adam) + 1), adam, label="Adam")
        right.set(xlabel="step", ylabel="half the sum of squares", title="a damped oscillation, 60 points")
        right.legend()
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--output", default="second_order.png", help="where the picture goes")
    options = parser.parse_args()
    main(options.steps, options.output)
