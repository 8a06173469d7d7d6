"""K-FAC on the deep autoencoder 784-1000-500-250-30 (Hinton & Salakhutdinov 2006), against Adam and kfac-jax.

    python -m tests.benchmarks.core.deep_autoencoder IMAGES [--peer PYTHON] [--steps 1000] [--adam-steps 5000]

IMAGES are 28 x 28 images as MNIST's idx file (``t10k-images-idx3-ubyte``, gzipped or not), or an .npy file of rows.
PYTHON is an interpreter with kfac-jax, which gets the same weights, batches and settings: fixed learning rate,
momentum and damping, factors inverted in every step. Targets are sampled in both, with other random numbers.
"""

import argparse
import functools
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HIDDEN = (1000, 500, 250, 30)
SETTINGS = {"learning_rate": 0.02, "momentum": 0.9, "damping": 0.3, "decay": 0.95}


def read_images(path, count=10_000):
    """Rows of pixels in [0, 1], float32."""
    if path.endswith(".npy"):
        rows = np.load(path)
    else:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            data = file.read()
        magic, n, *size = np.frombuffer(data, ">i4", 4)
        if magic != 2051:
            raise ValueError(f"{path}: an idx file of images must begin with 2051, got {magic}")
        rows = np.frombuffer(data, np.uint8, offset=16).reshape(n, size[0] * size[1]) / 255
    return np.ascontiguousarray(rows[:count], np.float32)


def layers(width):
    """Weights (Glorot & Bengio 2010, eq. 16) and biases of encoder and decoder."""
    rng = np.random.default_rng(0)
    sizes = [width, *HIDDEN, *HIDDEN[-2::-1], width]
    return [(rng.uniform(-1, 1, (a, b)).astype(np.float32) * np.float32(np.sqrt(6 / (a + b))), np.zeros(b, np.float32))
            for a, b in zip(sizes, sizes[1:], strict=False)]


def batches(images, size, steps):
    """The batch of each step."""
    rng = np.random.default_rng(1)
    for _ in range(steps):
        yield images[rng.choice(len(images), size, replace=False)] if size < len(images) else images


def decode(params, x, np):
    """Logits of the pixels."""
    for k, (weight, bias) in enumerate(params):
        x = x @ weight + bias
        x = x if k in (len(params) // 2 - 1, len(params) - 1) else np.tanh(x)
    return x


def loss(params, x):
    """Mean over the images of the summed cross entropy of the pixels."""
    from triskele.core import nn, optim

    z = decode(params, x, np)
    return np.sum(optim.likelihood(nn.softplus(z) - x * z, z, "bernoulli")) / np.shape(x)[0]


def train(step, params, state, images, args, steps, target=-np.inf):
    """Losses of the steps and seconds per step, up to the first mean of ten losses below the target."""
    from triskele.core import random

    losses, start = [], 0.0
    for k, x in enumerate(batches(images, args.batch, steps)):
        params, state, value = step(params, x, state, random.fold_in(random.key(0), k))
        losses.append(float(value))
        if k == 0:
            start = time.perf_counter()  # the first step compiles
        if np.mean(losses[-10:]) < target:
            break
    return losses, (time.perf_counter() - start) / max(len(losses) - 1, 1)


def kfac(images, args, steps, target=-np.inf, **settings):
    from triskele import core
    from triskele.core import optim

    opt = optim.KFAC(**settings)
    params = layers(images.shape[1])
    compiled = core.jit(functools.partial(opt.step, loss))

    def step(params, x, state, key):
        params, state, info = compiled(params, x, state, key)
        return params, state, info["loss"]

    return train(step, params, opt.init(loss, params, images[:args.batch]), images, args, steps, target)


def adam(images, args, rate):
    from triskele import core
    from triskele.core import optim

    opt = optim.Adam(rate)
    params = layers(images.shape[1])

    @core.jit
    def step(params, x, state, key):
        value, grads = core.value_and_grad(loss)(params, x)
        return (*opt.step(params, grads, state), value)

    return train(step, params, opt.init(params), images, args, args.adam_steps)


def kfac_jax_losses(images, args, steps):
    """Losses and seconds per step of kfac-jax; runs in its own interpreter."""
    import jax
    import jax.numpy as jnp
    import kfac_jax

    def loss(params, x):
        z = decode(params, x, jnp)
        kfac_jax.register_multi_bernoulli_predictive_distribution(z, x)
        softplus = jnp.log1p(jnp.exp(-jnp.abs(z))) + (z + jnp.abs(z)) / 2  # without a rule of its own
        return jnp.sum(softplus - x * z) / x.shape[0]

    opt = kfac_jax.Optimizer(
        jax.value_and_grad(loss), l2_reg=0.0, value_func_has_aux=False, inverse_update_period=1, num_burnin_steps=0,
        curvature_ema=SETTINGS["decay"], estimation_mode="fisher_gradients", multi_device=False)
    params = [(jnp.asarray(w), jnp.asarray(b)) for w, b in layers(images.shape[1])]
    state = opt.init(params, jax.random.PRNGKey(0), jnp.asarray(images[:args.batch]))
    losses, start = [], 0.0
    for k, x in enumerate(batches(images, args.batch, steps)):
        params, state, stats = opt.step(
            params, state, jax.random.PRNGKey(k), batch=jnp.asarray(x), momentum=SETTINGS["momentum"],
            learning_rate=SETTINGS["learning_rate"], damping=SETTINGS["damping"])
        losses.append(float(stats["loss"]))
        if k == 0:
            start = time.perf_counter()
    return losses, (time.perf_counter() - start) / max(len(losses) - 1, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images")
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with kfac-jax")
    parser.add_argument("--steps", type=int, default=1000, help="steps of K-FAC at most")
    parser.add_argument("--adam-steps", type=int, default=5000)
    parser.add_argument("--rates", type=float, nargs="+", default=[3e-4, 1e-3, 3e-3], help="Adam's, the best counts")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--equal-steps", type=int, default=100, help="steps with the settings of kfac-jax")
    parser.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    images = read_images(args.images)
    if args.as_peer:
        print(json.dumps(kfac_jax_losses(images, args, args.equal_steps)))
        return
    if args.peer:
        command = [args.peer, str(Path(__file__)), args.images, "--as-peer", "--equal-steps", str(args.equal_steps),
                   "--batch", str(args.batch)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        theirs, peer_seconds = json.loads(done.stdout.splitlines()[-1])
        ours, seconds = kfac(images, args, args.equal_steps, adaptive_damping=False, inverse_every=1, **SETTINGS)
        apart = np.abs(np.array(ours) / np.array(theirs) - 1)
        print(f"equal settings, {len(ours)} steps: loss {ours[-1]:.3f}, kfac-jax {theirs[-1]:.3f}; apart by "
              f"{np.mean(apart):.2%} in the mean, {np.max(apart):.2%} at most")
        print(f"a step {seconds * 1e3:.1f} ms, kfac-jax {peer_seconds * 1e3:.1f} ms ({peer_seconds / seconds:.2f}x)")
    if not args.adam_steps:
        return
    found = {rate: adam(images, args, rate) for rate in args.rates}
    rate = min(found, key=lambda r: np.mean(found[r][0][-10:]))
    losses, seconds = found[rate]
    target = np.mean(losses[-10:])
    print(f"Adam({rate:g}): loss {target:.3f} after {len(losses)} steps, {seconds * len(losses):.1f} s")
    losses, seconds = kfac(images, args, args.steps, target, damping=150.0)
    print(f"K-FAC: loss {np.mean(losses[-10:]):.3f} after {len(losses)} steps, {seconds * len(losses):.1f} s")


if __name__ == "__main__":
    main()
