"""Training step of a perceptron 784-128-10: loss, gradient and Adam's update in one function."""

import numpy

from tests.benchmarks.case import Case

SIZES = (784, 128, 10)
RATE, BETA1, BETA2, EPSILON = 1e-6, 0.9, 0.999, 1e-8  # so slow that repeated steps stay on the same numbers


def data(batch):
    rng = numpy.random.default_rng(6)
    inputs, width, classes = SIZES

    def normal(*shape):
        return (rng.standard_normal(shape) / numpy.sqrt(shape[0])).astype(numpy.float32)

    p = {"b1": normal(width), "b2": normal(classes), "w1": normal(inputs, width), "w2": normal(width, classes)}
    zeros = {key: numpy.zeros_like(value) for key, value in p.items()}
    x = rng.random((batch, inputs), dtype=numpy.float32)
    y = numpy.eye(classes, dtype=numpy.float32)[rng.integers(0, classes, batch)]
    return p, zeros, {key: value.copy() for key, value in zeros.items()}, numpy.float32(1), x, y


def training_step(tool):
    np = tool.np

    def loss(p, x, y):
        h = np.maximum(np.matmul(x, p["w1"]) + p["b1"], 0)
        z = np.matmul(h, p["w2"]) + p["b2"]
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(y * z, axis=1))

    def step(p, m, v, count, x, y):
        value, g = tool.value_and_grad(loss)(p, x, y)
        c1, c2 = 1 - BETA1**count, 1 - BETA2**count
        m = {k: BETA1 * m[k] + (1 - BETA1) * g[k] for k in p}
        v = {k: BETA2 * v[k] + (1 - BETA2) * g[k] ** 2 for k in p}
        p = {k: p[k] - RATE * (m[k] / c1) / (np.sqrt(v[k] / c2) + EPSILON) for k in p}
        return value, p, m, v

    return step


def module(p, m, v, count, x, y):
    import torch

    inputs, width, classes = SIZES
    net = torch.nn.Sequential(torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, classes))
    with torch.no_grad():
        for layer, w, b in ((net[0], "w1", "b1"), (net[2], "w2", "b2")):
            layer.weight.copy_(torch.from_numpy(p[w].T.copy()))
            layer.bias.copy_(torch.from_numpy(p[b]))
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True)
    x, labels = torch.from_numpy(x), torch.from_numpy(y.argmax(1))
    named = {"b1": net[0].bias, "b2": net[2].bias, "w1": net[0].weight, "w2": net[2].weight}

    def run():
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(net(x), labels)
        value.backward()
        optimizer.step()
        moments = [{k: optimizer.state[a][name].T for k, a in named.items()} for name in ("exp_avg", "exp_avg_sq")]
        return value, {k: a.T for k, a in named.items()}, *moments

    return run


def step_by_hand(w1, b1, w2, b2, count, x, y):
    """Loss, gradients of (w1, b1, w2, b2), and the corrections of both moments."""
    n = numpy.float32(x.shape[0])
    h = numpy.maximum(numpy.dot(x, w1) + b1, numpy.float32(0))
    z = numpy.dot(h, w2) + b2
    value = 0.0
    for i in range(x.shape[0]):
        z[i] -= z[i].max()
        e = numpy.exp(z[i])
        total = e.sum()
        value += numpy.log(total) - (y[i] * z[i]).sum()
        z[i] = (e / total - y[i]) / n
    gh = numpy.dot(z, w2.T) * (h > 0)
    slopes = numpy.dot(x.T, gh), gh.sum(0), numpy.dot(h.T, z), z.sum(0)
    c1 = numpy.float32(1 - BETA1**count)
    c2 = numpy.float32(1 - BETA2**count)
    return value / n, slopes, c1, c2


def adam(p, g, m, v, c1, c2):
    new_p, new_m, new_v = numpy.empty_like(p), numpy.empty_like(p), numpy.empty_like(p)
    rate, a, b = numpy.float32(RATE), numpy.float32(BETA1), numpy.float32(BETA2)
    one, epsilon = numpy.float32(1), numpy.float32(EPSILON)
    for i in range(p.size):
        new_m[i] = a * m[i] + (one - a) * g[i]
        new_v[i] = b * v[i] + (one - b) * g[i] * g[i]
        new_p[i] = p[i] - rate * (new_m[i] / c1) / (numpy.sqrt(new_v[i] / c2) + epsilon)
    return new_p, new_m, new_v


def adam_arrays(p, g, m, v, c1, c2):
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    return p - RATE * (m / c1) / (numpy.sqrt(v / c2) + EPSILON), m, v


def assembled(backward, update, p, m, v, count, x, y):
    """The training step from its two halves, for NumPy and for Numba."""
    order = ("w1", "b1", "w2", "b2")

    def run():
        value, slopes, c1, c2 = backward(*(p[k] for k in order), count, x, y)
        new = {}
        for k, g in zip(order, slopes):
            moved = update(p[k].ravel(), g.ravel(), m[k].ravel(), v[k].ravel(), c1, c2)
            new[k] = [part.reshape(p[k].shape) for part in moved]
        return value, *({k: new[k][part] for k in order} for part in range(3))

    return run


def plain(*data):
    return assembled(step_by_hand, adam_arrays, *data)


def loops(*data):
    import numba

    backward = numba.njit(error_model="numpy")(step_by_hand)
    return assembled(backward, numba.njit(error_model="numpy", fastmath={"contract", "arcp"})(adam), *data)


for batch in (32, 128, 1024):
    weights = 784 * 128 + 128 * 10
    case = Case(
        f"mlp_adam_{batch}",
        lambda batch=batch: data(batch),
        "float32",
        2e-4,
        flops=2 * batch * (2 * 784 * 128 + 3 * 1280) + 12 * weights,
        bytes=4 * (6 * weights + 784 * batch),
    )
    case.program("triskele", "jax", "autograd")(training_step)
    case.by_hand("torch")(module)
    case.by_hand("numpy")(plain)
    case.by_hand("numba")(loops)
