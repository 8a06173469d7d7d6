"""Kernels of OPES: a sum of truncated Gaussians, its slopes, its compression, and the statistics of a run.

Gaussians stand in an array [1 + 3 d, capacity]: heights, then centers, widths and inverse widths of each variable.
Places from the number of Gaussians up to the next multiple of eight have height 0.

The words of the arrays `state` and `options` are named below.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Final

import numpy as np

from triskele.core.extend import device, kernel, simd

# the words of Engine.flags that are used here, as engine.flags has them
_STEP, _STATUS = 0, 1

# words of `state`, float64; after them the mean of each variable, the sum of squares about it, the first width
COUNT: Final = 0  # Gaussians
SAMPLES: Final = 1  # states that they were made of, and one
WEIGHTS: Final = 2  # sum of the weights of these states
SQUARES: Final = 3  # sum of the squares of these weights
NORM: Final = 4  # what the sum of Gaussians is divided by to be a density
DENSITY: Final = 5  # sum over all centers of the sum of Gaussians
Z: Final = 6  # mean density at the centers
MEASURED: Final = 7  # states that the spread was measured with
LAST: Final = 8  # number of the last state that was looked at
N_STATE: Final = 9

# words of `options`, float64; after them sigma (0: measured), smallest sigma and period (0: none) of each variable
THERMAL: Final = 0  # RT
PREFACTOR: Final = 1
EPSILON: Final = 2
CUTOFF2: Final = 3
AT_CUTOFF: Final = 4  # value of a Gaussian of height 1 at the cut-off
THRESHOLD2: Final = 5
BIAS_FACTOR: Final = 6
EXPLORE: Final = 7
STRIDE: Final = 8  # states over which the spread is measured
N_OPTIONS: Final = 9

CHANGES: Final = 64  # Gaussians that a new one may add, change and remove


@device
def _difference(x, period):
    """The shortest way around."""
    return x - period * math.floor(x / period + 0.5) if period > 0.0 else x


@device
def _sum_at(s, gaussians, count, options, slopes):
    """Sum of Gaussians at `s` [d]; its derivatives into `slopes` [d]."""
    d = s.size
    zero, eight = simd.splat(0.0, 8), np.int64(8)
    total = zero
    limit, shift = simd.splat(options[CUTOFF2], 8), simd.splat(options[AT_CUTOFF], 8)
    g0, g1, g2 = zero, zero, zero
    for k in range(0, count, eight):
        square = zero
        x0, x1, x2 = zero, zero, zero  # distances in widths
        for c in range(d):
            x = s[c] - simd.load(gaussians[1 + c], k, 8)
            period = options[N_OPTIONS + 2 * d + c]
            if period > 0.0:
                x = x - simd.floor(x * (1.0 / period) + 0.5) * period
            x = x * simd.load(gaussians[1 + 2 * d + c], k, 8)
            square = simd.fma(x, x, square)
            if c == 0:
                x0 = x
            elif c == 1:
                x1 = x
            else:
                x2 = x
        near = square < limit
        if simd.bits(near):
            height = simd.load(gaussians[0], k, 8)
            value = simd.select(near, height * simd.exp(square * -0.5), zero)
            total = total + simd.select(near, simd.fma(-height, shift, value), zero)
            g0 = simd.fma(-value, x0 * simd.load(gaussians[1 + 2 * d], k, 8), g0)
            if d > 1:
                g1 = simd.fma(-value, x1 * simd.load(gaussians[2 + 2 * d], k, 8), g1)
            if d > 2:
                g2 = simd.fma(-value, x2 * simd.load(gaussians[3 + 2 * d], k, 8), g2)
    slopes[0] = simd.sum(g0)
    if d > 1:
        slopes[1] = simd.sum(g1)
    if d > 2:
        slopes[2] = simd.sum(g2)
    return simd.sum(total)


@device
def _value(height, s, center, width, options):
    """A Gaussian with `center` and `width` [d] at `s` [d]."""
    square, d = 0.0, s.size
    for c in range(d):
        x = _difference(s[c] - center[c], options[N_OPTIONS + 2 * d + c]) / width[c]
        square += x * x
    return height * (math.exp(-0.5 * square) - options[AT_CUTOFF]) if square < options[CUTOFF2] else 0.0


@device
def _nearest(center, without, gaussians, count, options):
    """The Gaussian that `center` is nearest to, in units of its width, if nearer than the threshold; -1 if none is."""
    d, found, least = center.size, -1, options[THRESHOLD2]
    for k in range(count):
        if k == without:
            continue
        square = 0.0
        for c in range(d):
            x = _difference(center[c] - gaussians[1 + c, k], options[N_OPTIONS + 2 * d + c]) / gaussians[1 + d + c, k]
            square += x * x
        if square < least:
            found, least = k, square
    return found


@device
def _merge(taker, giver, options):
    """Put the Gaussian `giver` [1 + 2 d] into `taker`: height, mean and variance of both together."""
    d, h = (taker.size - 1) // 2, taker[0] + giver[0]
    for c in range(d):
        period = options[N_OPTIONS + 2 * d + c]
        a, b = taker[1 + c], giver[1 + c]
        a = b + _difference(a - b, period)
        mean = (taker[0] * a + giver[0] * b) / h
        v, w = taker[1 + d + c], giver[1 + d + c]
        # about the mean, where nothing cancels
        taker[1 + d + c] = math.sqrt((taker[0] * (v * v + (a - mean) ** 2) + giver[0] * (w * w + (b - mean) ** 2)) / h)
        taker[1 + c] = mean
        if period > 0.0:
            taker[1 + c] = mean - period * math.floor(mean / period + 0.5)
    taker[0] = h


@device
def _note(changes, n, sign, gaussian):
    """Note that a Gaussian has come (sign 1) or gone (-1)."""
    if n < CHANGES:
        changes[n, 0] = sign * gaussian[0]
        changes[n, 1:] = gaussian[1:]
    return n + 1


@device
def _add(new, gaussians, count, options, changes):
    """Add a Gaussian [1 + 2 d], merged with others as long as two are close; returns the numbers of Gaussians and of
    changes.
    """
    taker = _nearest(new[1 : 1 + (new.size - 1) // 2], -1, gaussians, count, options)
    if taker < 0:
        gaussians[: new.size, count] = new
        return count + 1, _note(changes, 0, 1.0, new)
    n = _note(changes, 0, -1.0, gaussians[: new.size, taker])
    _merge(gaussians[: new.size, taker], new, options)
    giver = taker
    while True:
        taker = _nearest(gaussians[1 : 1 + (new.size - 1) // 2, giver], giver, gaussians, count, options)
        if taker < 0:
            return count, _note(changes, n, 1.0, gaussians[: new.size, giver])
        n = _note(changes, n, -1.0, gaussians[: new.size, taker])
        if taker > giver:
            taker, giver = giver, taker
        _merge(gaussians[: new.size, taker], gaussians[: new.size, giver], options)
        for k in range(giver, count - 1):
            gaussians[:, k] = gaussians[:, k + 1]
        count -= 1
        gaussians[0, count] = 0.0
        giver = taker


@kernel(nogil=True)
def invert(gaussians, count):
    """Set the inverse widths."""
    d = (gaussians.shape[0] - 1) // 3
    for c in range(d):
        for k in range(count):
            gaussians[1 + 2 * d + c, k] = 1.0 / gaussians[1 + d + c, k]


@device
def _whole_density(gaussians, count, options, s, slopes):
    total = 0.0
    for k in range(count):
        s[:] = gaussians[1 : 1 + s.size, k]
        total += _sum_at(s, gaussians, count, options, slopes)
    return total


@device
def _change_of_density(gaussians, count, options, changes, n, s, slopes):
    """Change of the sum over all centers of the sum of Gaussians, from the Gaussians that have come and gone."""
    d, total = s.size, 0.0
    for a in range(n):
        sign = 1.0 if changes[a, 0] > 0.0 else -1.0
        s[:] = changes[a, 1 : 1 + d]
        total += sign * _sum_at(s, gaussians, count, options, slopes)
        for k in range(count):
            total += _value(changes[a, 0], gaussians[1 : 1 + d, k], s, changes[a, 1 + d :], options)
        for b in range(n):
            total -= sign * _value(changes[b, 0], s, changes[b, 1 : 1 + d], changes[b, 1 + d :], options)
    return total


@device
def _bias(s, gaussians, state, options, slopes):
    density = _sum_at(s, gaussians, np.int64(state[COUNT]), options, slopes)
    scale = 1.0 / (state[NORM] * state[Z])
    p = density * scale + options[EPSILON]
    factor = options[THERMAL] * options[PREFACTOR]
    for c in range(s.size):
        slopes[c] *= factor * scale / p
    return factor * math.log(p)


@kernel(nogil=True)
def bias_of(chunk, gaussians, state, options, values, slopes, bias):
    """Bias [] and slopes [d] at the variables' values [d]; without any Gaussian it is constant."""
    bias[()] = _bias(values, gaussians, state, options, slopes)


@kernel(nogil=True)
def bias_at(points, gaussians, state, options, slopes, result):
    """Bias at points [m, d] into `result` [m]."""
    for i in range(len(points)):
        result[i] = _bias(points[i], gaussians, state, options, slopes)


@device
def _measure(s, state, options):
    """Take a state into the mean and the spread of the variables; old ones are forgotten exponentially."""
    d = s.size
    state[MEASURED] += 1.0
    tau = min(state[MEASURED], options[STRIDE])
    for c in range(d):
        period = options[N_OPTIONS + 2 * d + c]
        away = _difference(s[c] - state[N_STATE + c], period)
        state[N_STATE + c] += away / tau
        state[N_STATE + d + c] += away * _difference(s[c] - state[N_STATE + c], period)


Scratch = namedtuple("Scratch", "changes new point slopes")  # [CHANGES, 1 + 2 d], [1 + 2 d], [d], [d]


@device
def _update(s, bias, gaussians, state, options, scratch):
    """Add the Gaussian of a state."""
    changes, new, point, slopes = scratch
    d, explore = s.size, options[EXPLORE] != 0.0
    weight = math.exp(bias / options[THERMAL])
    state[SAMPLES] += 1.0
    state[WEIGHTS] += weight
    state[SQUARES] += weight * weight
    effective = (1.0 + state[WEIGHTS]) ** 2 / (1.0 + state[SQUARES])
    state[NORM] = state[SAMPLES] if explore else state[WEIGHTS]
    size = state[SAMPLES] if explore else effective
    shrink = (size * (d + 2.0) / 4.0) ** (-1.0 / (4.0 + d))
    height, broader = 1.0 if explore else weight, options[BIAS_FACTOR]
    for c in range(d):
        first, squares, width = N_STATE + 2 * d + c, N_STATE + d + c, options[N_OPTIONS + c]
        smallest = options[N_OPTIONS + d + c]
        if width == 0.0:
            if state[SAMPLES] == 2.0:  # what was measured so far is of the ensemble without a bias
                state[squares] *= broader
            width = max(math.sqrt(state[squares] / state[MEASURED] / (1.0 if explore else broader)), smallest)
        elif explore:  # the distribution that is estimated is broader
            width *= math.sqrt(broader)
        if state[SAMPLES] == 2.0:
            state[first] = width
        new[1 + c] = _difference(s[c], options[N_OPTIONS + 2 * d + c])  # between its ends, if it is periodic
        new[1 + d + c] = max(width * shrink, smallest)
        height *= state[first] / new[1 + d + c]
    new[0] = height
    count, n = _add(new, gaussians, np.int64(state[COUNT]), options, changes)
    state[COUNT] = count
    invert(gaussians, count)
    if n <= CHANGES:
        state[DENSITY] += _change_of_density(gaussians, count, options, changes, n, point, slopes)
    else:
        state[DENSITY] = _whole_density(gaussians, count, options, point, slopes)
    state[Z] = state[DENSITY] / state[NORM] / count


@kernel(nogil=True)
def learn(
    chunk, flags, codes, ahead, record, every, active, values, bias, gaussians, state, options, scratch, table, rows
):
    """Measure the variables' spread, add a Gaussian and a row to `table`, each when it is time.

    The status is set to codes[0] when the table is full, to codes[1] when no place is left for another Gaussian, and to
    codes[2] when a variable has not moved while its spread was measured. A row holds the number of the state, the
    variables, and the bias before the update. The kernel skips a state that it has already seen, as phases run again
    after a later one has failed and its cause has been mended.
    """
    number = flags[_STEP] + ahead
    if number == 0 or number == state[LAST]:
        return
    d, capacity = values.size, gaussians.shape[1]
    if number % record == 0 and rows[0] == table.shape[0]:
        flags[_STATUS] = codes[0]
        return
    if active[0] and number % every == 0 and state[COUNT] + 8 > capacity:
        flags[_STATUS] = codes[1]
        return
    state[LAST] = number
    if number % record == 0:
        row = table[rows[0]]
        rows[0] += 1
        row[0], row[d + 1] = number, bias[()]
        for c in range(d):
            row[1 + c] = values[c]
    if not active[0]:
        return
    if options[N_OPTIONS] == 0.0:
        _measure(values, state, options)
        if state[MEASURED] < options[STRIDE] and state[SAMPLES] == 1.0:
            return
    if number % every == 0:
        for c in range(d):
            if options[N_OPTIONS + c] + options[N_OPTIONS + d + c] + state[N_STATE + d + c] == 0.0:
                flags[_STATUS] = codes[2]
                return
        _update(values, bias[()], gaussians, state, options, scratch)
