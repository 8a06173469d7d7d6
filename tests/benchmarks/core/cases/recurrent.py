"""Recurrent networks: an LSTM over 32 steps of a batch, and a small RNN over 1,000 steps."""

import math

import numpy

from tests.benchmarks.case import Case

T, B, H = 32, 32, 128


def lstm_data():
    rng = numpy.random.default_rng(4)

    def normal(*shape):
        return (rng.standard_normal(shape) / math.sqrt(shape[0])).astype(numpy.float32)

    parameters = {"bias": normal(4 * H), "hidden": normal(H, 4 * H), "input": normal(H, 4 * H)}
    return parameters, rng.standard_normal((T, B, H)).astype(numpy.float32)


lstm = Case(
    "lstm", lstm_data, "float32", 1e-4, flops=3 * 2 * 2 * T * B * H * 4 * H, bytes=4 * (4 * T * B * H + 4 * H * H * 4)
)


@lstm.program("triskele", "jax", "autograd")
def lstm_gradient(tool):
    np = tool.np

    def sigmoid(x):
        return 0.5 * (np.tanh(0.5 * x) + 1)

    def loss(p, x):
        def step(carry, from_input):
            h, c = carry
            gates = from_input + np.matmul(h, p["hidden"])
            i, f, g, o = (gates[:, k * H : (k + 1) * H] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            return (h, c), h

        start = np.zeros((B, H), dtype=numpy.float32)
        _, hidden = tool.scan(step, (start, start), np.matmul(x, p["input"]) + p["bias"])
        return np.mean(hidden**2)

    return tool.value_and_grad(loss)


@lstm.by_hand("torch")
def lstm_module(parameters, x):
    import torch

    module = torch.nn.LSTM(H, H)
    with torch.no_grad():
        module.weight_ih_l0.copy_(torch.from_numpy(parameters["input"].T.copy()))
        module.weight_hh_l0.copy_(torch.from_numpy(parameters["hidden"].T.copy()))
        module.bias_ih_l0.copy_(torch.from_numpy(parameters["bias"]))
        module.bias_hh_l0.zero_()
    x, used = torch.from_numpy(x), [module.bias_ih_l0, module.weight_hh_l0, module.weight_ih_l0]

    def run():
        value = (module(x)[0] ** 2).mean()
        bias, hidden, inputs = torch.autograd.grad(value, used)
        return value, bias, hidden.T, inputs.T

    return run


def rnn_data(n=32, steps=1000):
    rng = numpy.random.default_rng(5)
    w = rng.standard_normal((n, n)) * (0.9 / math.sqrt(n))
    return {"b": 0.1 * rng.standard_normal(n), "u": rng.standard_normal(n), "w": w}, rng.standard_normal(steps)


rnn = Case(
    "rnn_1000_steps", rnn_data, tolerance=1e-8, flops=3 * 2 * 1000 * 32 * 32 + 1000 * 32 * 20, bytes=8 * 1000 * 34
)


@rnn.program("triskele", "jax", "torch", "autograd")
def rnn_gradient(tool):
    np = tool.np

    def loss(p, inputs):
        def step(h, x):
            h = np.tanh(np.matmul(p["w"], h) + p["u"] * x + p["b"])
            return h, np.sum(h * h)

        _, squares = tool.scan(step, 0.0 * p["b"], inputs)
        return np.mean(squares)

    return tool.value_and_grad(loss)


@rnn.program("numpy")
def rnn_by_hand(tool):
    return rnn_backpropagation


@rnn.by_hand("numba")
def rnn_loop(parameters, inputs):
    import numba

    both = numba.njit(rnn_arrays)
    w = numpy.ascontiguousarray(parameters["w"])

    def run():
        value, b, u, w_slope = both(parameters["b"], parameters["u"], w, inputs)
        return value, {"b": b, "u": u, "w": w_slope}

    return run


def rnn_backpropagation(parameters, inputs):
    value, b, u, w = rnn_arrays(parameters["b"], parameters["u"], parameters["w"], inputs)
    return value, {"b": b, "u": u, "w": w}


def rnn_arrays(b, u, w, inputs):
    steps, n = inputs.size, b.size
    hidden = numpy.zeros((steps + 1, n))
    total = 0.0
    for t in range(steps):
        hidden[t + 1] = numpy.tanh(numpy.dot(w, hidden[t]) + u * inputs[t] + b)
        total += numpy.sum(hidden[t + 1] ** 2)
    slope = numpy.zeros(n)
    deltas = numpy.empty((steps, n))
    for t in range(steps - 1, -1, -1):
        h = hidden[t + 1]
        deltas[t] = (slope + 2 / steps * h) * (1 - h * h)
        slope = numpy.dot(deltas[t], w)
    return total / steps, numpy.sum(deltas, 0), numpy.dot(inputs, deltas), numpy.dot(deltas.T, hidden[:-1])
