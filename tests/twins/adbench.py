"""The four objectives of ADBench (Srajer, Kukelova, Fitzgibbon, doi:10.1080/10556788.2018.1435651), written for arrays.

Every function takes the array namespace, so that one text serves NumPy and everything that follows its names.
Readers return plain NumPy arrays; tests/data/adbench/README.md describes the files.
"""

from itertools import pairwise
from math import lgamma, log, pi
from pathlib import Path

import numpy

DATA = Path(__file__).parents[1] / "data" / "adbench"


def golden(name):
    """Expected numbers, one a line: F (objective) or J (gradient or Jacobian) of one instance."""
    return numpy.loadtxt(DATA / "expected" / f"{name}.txt", ndmin=1)


# Gaussian mixture: log-likelihood of n points under k Gaussians in d dimensions with a Wishart prior


def read_gmm(name):
    """alphas [k], means [k, d], icf [k, d(d+1)/2], points [n, d] and the prior's (gamma, m)."""
    words = (DATA / "gmm" / f"{name}.txt").read_text().split()
    d, k, n = map(int, words[:3])
    rest = numpy.array(words[3:], float)
    alphas, means, icf, points, prior = numpy.split(rest, numpy.cumsum([k, k * d, k * d * (d + 1) // 2, n * d]))
    return alphas, means.reshape(k, d), icf.reshape(k, -1), points.reshape(n, d), (prior[0], int(prior[1]))


def gmm(alphas, means, icf, points, prior, np=numpy):
    """Log posterior. `icf` holds the logarithm of Q's diagonal, then its strictly lower triangle by columns."""
    (n, d), k, (gamma, m) = points.shape, alphas.shape[0], prior
    rows, columns = numpy.tril_indices(d, -1)
    order = numpy.lexsort((rows, columns))
    position = numpy.zeros((d, d), int)
    position[rows[order], columns[order]] = d + numpy.arange(d * (d - 1) // 2)
    log_diagonal = icf[:, :d]
    lower = icf[:, position] * numpy.tril(numpy.ones((d, d)), -1)
    q = lower + np.exp(log_diagonal)[:, :, None] * numpy.eye(d)  # [k, d, d]
    qt = np.swapaxes(q, 1, 2)
    scaled = np.matmul(points, qt) - np.matmul(means[:, None, :], qt)  # [k, n, d]
    trace = np.sum(log_diagonal, axis=1)
    terms = (alphas + trace)[:, None] - 0.5 * np.sum(scaled**2, axis=2)
    top = np.max(terms, axis=0)
    likelihood = np.sum(top + np.log(np.sum(np.exp(terms - top), axis=0)))
    mixture = np.log(np.sum(np.exp(alphas)))
    freedom = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * log(pi) + sum(lgamma(0.5 * (freedom - j)) for j in range(d))
    constant = freedom * d * (log(gamma) - 0.5 * log(2)) - log_gamma
    frobenius = np.sum(np.exp(log_diagonal) ** 2) + np.sum(icf[:, d:] ** 2)
    wishart = 0.5 * gamma**2 * frobenius - m * np.sum(trace) - k * constant
    return likelihood - n * mixture - 0.5 * n * d * log(2 * pi) + wishart


# Bundle adjustment: reprojection errors of points seen by cameras


def read_ba(name):
    """cameras [p, 11], points [p, 3], weights [p], features [p, 2]: one row an observation."""
    words = (DATA / "ba" / f"{name}.txt").read_text().split()
    p, numbers = int(words[2]), numpy.array(words[3:], float)
    camera, point, weight, feature = numpy.split(numbers, [11, 14, 15])
    return numpy.tile(camera, (p, 1)), numpy.tile(point, (p, 1)), numpy.full(p, weight[0]), numpy.tile(feature, (p, 1))


def ba(cameras, points, weights, features, np=numpy):
    """Weighted reprojection errors, two arrays [p]; a camera is rotation 3, center 3, focal length, x0 2, distortion
    2.
    """
    rotation, x = cameras[:, :3], points - cameras[:, 3:6]
    angle = np.sqrt(np.sum(rotation**2, axis=1))[:, None]
    axis = rotation / angle
    a0, a1, a2, x0, x1, x2 = axis[:, 0], axis[:, 1], axis[:, 2], x[:, 0], x[:, 1], x[:, 2]
    cross = np.stack([a1 * x2 - a2 * x1, a2 * x0 - a0 * x2, a0 * x1 - a1 * x0], axis=1)
    along = np.sum(axis * x, axis=1)[:, None]
    y = x * np.cos(angle) + cross * np.sin(angle) + axis * (along * (1 - np.cos(angle)))
    u, v = y[:, 0] / y[:, 2], y[:, 1] / y[:, 2]
    r2 = u * u + v * v
    scale = (1 + cameras[:, 9] * r2 + cameras[:, 10] * r2 * r2) * cameras[:, 6]
    return (
        weights * (u * scale + cameras[:, 7] - features[:, 0]),
        weights * (v * scale + cameras[:, 8] - features[:, 1]),
    )


# LSTM: next-character prediction with diagonal weights


def read_lstm(name):
    """main [layers, 2, 4, b], extra [3, b], state [layers, 2, b], sequence [c, b]."""
    words = (DATA / "lstm" / f"{name}.txt").read_text().split()
    layers, c, b = map(int, words[:3])
    sizes = numpy.cumsum([8 * layers * b, 3 * b, 2 * layers * b])
    main, extra, state, sequence = numpy.split(numpy.array(words[3:], float), sizes)
    shapes = (layers, 2, 4, b), (3, b), (layers, 2, b), (c, b)
    return tuple(part.reshape(shape) for part, shape in zip((main, extra, state, sequence), shapes))


def lstm(main, extra, state, sequence, scan, np=numpy):
    """Negative mean log-probability of every next character; `scan` is jax.lax.scan or its equal."""

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def layer(weight, bias, hidden, cell, x):
        forget = sigmoid(x * weight[0] + bias[0])
        admit = sigmoid(hidden * weight[1] + bias[1])
        emit = sigmoid(x * weight[2] + bias[2])
        cell = cell * forget + admit * np.tanh(hidden * weight[3] + bias[3])
        return emit * np.tanh(cell), cell

    def step(carry, observed):
        before, after = observed
        x, new = before * extra[0], []
        for k, (hidden, cell) in enumerate(carry):
            x, cell = layer(main[k, 0], main[k, 1], hidden, cell, x)
            new.append((x, cell))
        guess = x * extra[1] + extra[2]
        return new, np.sum(after * (guess - np.log(np.sum(np.exp(guess)) + 2)))

    start = [(state[k, 0], state[k, 1]) for k in range(main.shape[0])]
    _, gains = scan(step, start, (sequence[:-1], sequence[1:]))
    return -np.sum(gains) / ((sequence.shape[0] - 1) * sequence.shape[1])


# Hand tracking: a skinned mesh posed by 26 angles


def read_hand(name, complicated=False):
    """theta [26], us [n, 2] (or None) and the rest: points [3, n], skin [v, 4 bones, n], relatives, inverse, parents.

    The v vertices of an observation are one, or in the complicated form three, the corners of its triangle. `skin`
    is the bone weight times the vertex in homogeneous coordinates, so that a pose is one matrix product.
    """
    folder = DATA / "hand"
    words = (folder / f"{name}.txt").read_text().split()
    n, count = int(words[0]), int(words[1])
    numbers = numpy.array(words[2:], float)
    rows = numbers[: 4 * n].reshape(n, 4)
    chosen, us = rows[:, 0].astype(int), None
    if complicated:
        triangles = numpy.loadtxt(folder / "model" / "triangles.txt", delimiter=":", dtype=int)
        corners, us = triangles[chosen].T, numbers[4 * n : 6 * n].reshape(n, 2)
    else:
        corners = chosen[None]
    bones = [line.split(":") for line in (folder / "model" / "bones.txt").read_text().split()]
    matrices = numpy.array([bone[2:] for bone in bones], float).reshape(-1, 2, 4, 4)
    vertices = [line.split(":") for line in (folder / "model" / "vertices.txt").read_text().split()]
    position = numpy.array([[*vertex[:3], 1] for vertex in vertices], float)
    weights = numpy.zeros((len(bones), len(vertices)))
    for v, vertex in enumerate(vertices):
        weights[[int(b) for b in vertex[9::2]], v] = [float(w) for w in vertex[10::2]]
    skin = (weights[:, None, :] * position.T).reshape(-1, len(vertices))
    model = (rows[:, 1:].T, numpy.stack([skin[:, c] for c in corners]), matrices[:, 0], matrices[:, 1])
    return numbers[-count:], us, (*model, numpy.array([int(bone[1]) for bone in bones]))


def hand(theta, us, points, skin, relatives, inverse, parents, np=numpy):
    """Differences [3, n] between observed points and the posed surface."""
    bones = len(parents)
    bend, spread = numpy.zeros((bones, 20)), numpy.zeros((bones, 20))
    for finger in range(5):  # four bones a finger, of which the first is rigid and the second also spreads
        bend[2 + 4 * finger + numpy.arange(3), 4 * finger + numpy.array([0, 2, 3])] = 1
        spread[2 + 4 * finger, 4 * finger + 1] = 1
    x, z = np.matmul(bend, theta[6:]), np.matmul(spread, theta[6:])
    cx, sx, cz, sz, nought = np.cos(x), np.sin(x), np.cos(z), np.sin(z), numpy.zeros(bones)
    rows = [cz, -sz * cx, sz * sx, nought, sz, cz * cx, -cz * sx, nought, nought, sx, cx, nought]
    turns = np.reshape(np.stack([*rows, nought, nought, nought, nought + 1], axis=1), (bones, 4, 4))
    local = np.matmul(relatives, turns)

    depth = numpy.zeros(bones, int)
    for bone, parent in enumerate(parents):
        depth[bone] = 0 if parent < 0 else depth[parent] + 1
    levels = [numpy.flatnonzero(depth == level) for level in range(depth.max() + 1)]
    placed = [local[levels[0]]]
    for above, here in pairwise(levels):
        placed.append(np.matmul(placed[-1][numpy.searchsorted(above, parents[here])], local[here]))
    absolute = np.concatenate(placed)[numpy.argsort(numpy.concatenate(levels))]
    transforms = np.matmul(absolute, inverse)[:, :3, :]
    surface = np.matmul(np.reshape(np.swapaxes(transforms, 0, 1), (3, 4 * bones)), skin)  # [v, 3, n]
    if us is None:
        mesh = surface[0]
    else:
        u, v = us[:, 0], us[:, 1]
        mesh = u * surface[0] + v * surface[1] + (1 - u - v) * surface[2]

    angle = np.sqrt(np.sum(theta[:3] ** 2))
    axis = theta[:3] / angle
    a, b, c, zero = axis[0], axis[1], axis[2], 0 * axis[0]
    cross = np.reshape(np.stack([zero, -c, b, c, zero, -a, -b, a, zero]), (3, 3))
    rotation = np.cos(angle) * numpy.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * axis[:, None] * axis
    return points - (np.matmul(rotation, mesh) + theta[3:6, None])
