"""Kernels of metadynamics: Gaussian hills on a grid, cubic interpolation between its nodes, and their deposition.

A grid of up to three variables is a float64 array [2^d, nodes]: at every node the bias and its mixed derivatives of
first order in each variable, times the spacings; the last variable changes fastest, and bit d - 1 - k of the first
index says whether the derivative by variable k is meant. These are the data of tensor products of cubic Hermite
polynomials, which join with continuous slopes, and whose derivatives are the slopes that forces need.

What a grid looks like stands in ``shape`` int64 [d, 2] (nodes, whether periodic) and ``range`` float64 [d, 3] (value of
the first node, spacing, sigma); the array itself in ``values``.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from triskele.core.extend import device, kernel, simd

# the words of Engine.flags that are used here, as engine.flags has them
_STEP, _STATUS = 0, 1

# Hills are cut off where they have fallen to 1.5e-8 of their height.
REACH = 6.0  # sigma

_LANES = 8


Grid = namedtuple("Grid", "shape range values")
# int64 [3, m] and float64 [3, 2, m], m at least the nodes within reach of a hill
Scratch = namedtuple("Scratch", "places factors")


@device
def interpolate(s, grid, at, basis, slopes):
    """Bias at `s` [d], and its derivatives into `slopes` [d]; -1 as second result, or the variable outside of the grid.

    at int64 [3, 4] and basis float64 [3, 8] are scratch memory. Values that are not finite give a bias that is not.
    """
    shape, range_, nodes = grid.shape, grid.range, grid.values.shape[1]
    d, stride = shape.shape[0], 1
    for k in range(2, -1, -1):
        axis = k - (3 - d)
        if axis < 0:  # axes that are not there have one node
            at[k, 0], basis[k, 0], basis[k, 4] = 0, 1.0, 0.0
            continue
        n, h = shape[axis, 0], range_[axis, 1]
        u = (s[axis] - range_[axis, 0]) / h
        if not math.isfinite(u):
            slopes[:] = np.nan
            return np.nan, -1
        if shape[axis, 1]:
            u -= n * math.floor(u / n)
            i = min(int(u), n - 1)  # u may have been rounded up to n
            following = i + 1 if i + 1 < n else 0
        else:
            if not 0.0 <= u <= n - 1:
                return 0.0, axis
            i = min(int(u), n - 2)
            following = i + 1
        t = u - i
        r = 1.0 - t
        # value and slope at this node, then at the next: where their data stand, their polynomials, the derivatives of
        # these
        part = nodes << (d - 1 - axis)
        at[k, 0], at[k, 1], at[k, 2], at[k, 3] = (
            i * stride,
            i * stride + part,
            following * stride,
            following * stride + part,
        )
        basis[k, 0], basis[k, 1], basis[k, 2], basis[k, 3] = (
            1.0 + 2.0 * t
        ) * r * r, t * r * r, t * t * (3.0 - 2.0 * t), -t * t * r  # fmt: skip
        basis[k, 4], basis[k, 5], basis[k, 6], basis[k, 7] = -6.0 * t * r / h, r * (
            1.0 - 3.0 * t
        ) / h, 6.0 * t * r / h, t * (3.0 * t - 2.0) / h  # fmt: skip
        stride *= n
    data = grid.values.reshape(grid.values.size)
    value, s0, s1, s2 = 0.0, 0.0, 0.0, 0.0
    for p in range(4 if d > 2 else 1):
        v, v1, v2 = 0.0, 0.0, 0.0
        for q in range(4 if d > 1 else 1):
            w, w2 = 0.0, 0.0
            for r in range(4):
                x = data[at[0, p] + at[1, q] + at[2, r]]
                w += x * basis[2, r]
                w2 += x * basis[2, 4 + r]
            v += w * basis[1, q]
            v1 += w * basis[1, 4 + q]
            v2 += w2 * basis[1, q]
        value += v * basis[0, p]
        s0 += v * basis[0, 4 + p]
        s1 += v1 * basis[0, p]
        s2 += v2 * basis[0, p]
    slopes[d - 1] = s2
    if d > 1:
        slopes[d - 2] = s1
    if d > 2:
        slopes[0] = s0
    return value, -1


@device
def add_hill(s, height, grid, scratch, floor):
    """Add a Gaussian at `s` [d]; on periodic axes all its images.

    With a `floor` above 0, the hill is PLUMED's (g - floor) / (1 - floor), which ends where the Gaussian g is `floor`.
    """
    (shape, range_, values), (places, factors) = grid, scratch
    d = shape.shape[0]
    for k in range(3):
        axis = k - (3 - d)  # axes that are not there have one node
        if axis < 0:
            places[k, 0], places[k, 1] = 1, 0
            factors[k, 0, 1] = 1.0
            factors[k, 1, 1] = 0.0
            continue
        n, h, sigma = shape[axis, 0], range_[axis, 1], range_[axis, 2]
        u = (s[axis] - range_[axis, 0]) / h
        first, last = math.ceil(u - REACH * sigma / h), math.floor(u + REACH * sigma / h)
        if not shape[axis, 1]:
            first, last = max(first, 0), min(last, n - 1)
        count = max(last - first + 1, 0)
        places[k, 0] = count
        for j in range(count):
            x = (first + j - u) * h / sigma
            g = math.exp(-0.5 * x * x)
            places[k, 1 + j] = (first + j) - n * math.floor((first + j) / n)
            factors[k, 0, 1 + j] = g
            factors[k, 1, 1 + j] = -x * g * h / sigma
    n1 = shape[d - 2, 0] if d > 1 else 1
    n2 = shape[d - 1, 0]
    for part in range(1 << d):
        p0, p1, p2 = (part >> 2) & 1, (part >> 1) & 1, part & 1
        for a in range(1, 1 + places[0, 0]):
            for b in range(1, 1 + places[1, 0]):
                w = height * factors[0, p0, a] * factors[1, p1, b]
                at = (places[0, a] * n1 + places[1, b]) * n2
                for c in range(1, 1 + places[2, 0]):
                    if floor == 0.0:
                        values[part, at + places[2, c]] += w * factors[2, p2, c]
                    elif factors[0, 0, a] * factors[1, 0, b] * factors[2, 0, c] > floor:
                        below = height * floor if part == 0 else 0.0
                        values[part, at + places[2, c]] += (w * factors[2, p2, c] - below) / (1.0 - floor)


@device
def offset(values, upper, lower):
    r"""(ln sum exp(upper V) - ln sum exp(lower V)) / (upper - lower) over the nodes, with upper > lower >= 0, V >=
    0.
    """
    n, largest = values.size, values[0]
    for i in range(n):
        largest = max(largest, values[i])
    whole = n - n % _LANES
    many, few = simd.splat(0.0, _LANES), simd.splat(0.0, _LANES)
    for i in range(0, whole, _LANES):
        v = simd.load(values, i, _LANES) - largest
        many += simd.exp(v * upper)
        few += simd.exp(v * lower)
    a, b = simd.sum(many), simd.sum(few)
    for i in range(whole, n):
        a += math.exp((values[i] - largest) * upper)
        b += math.exp((values[i] - largest) * lower)
    return largest + (math.log(a) - math.log(b)) / (upper - lower)


@kernel(nogil=True)
def bias_of(chunk, flags, code, grid, values, at, basis, slopes, bias):
    """Bias [] and slopes [d] at the variables' values [d]; status `code` when they have left the grid."""
    bias[()], outside = interpolate(values, grid, at, basis, slopes)
    if outside >= 0:
        flags[_STATUS] = code


@kernel(nogil=True)
def deposit(chunk, flags, code, ahead, record, every, active, values, bias, options, grid, now, table, counts, scratch):
    """Add a row to `table` and a hill to `grid`, when it is time; status `code` when the table is full.

    options [4]: height, 1 / (R delta T), upper and lower factor of `offset`; now [1]: the constant c. A row is the
    number of the state, the variables, the bias and c before the hill, and its height. counts [2]: rows, and the state
    of the last one, so that a state that comes twice, because a later phase had to be mended, gets no second hill.
    """
    state = flags[_STEP] + ahead
    if state % record != 0 or state == 0 or state == counts[1]:
        return
    n, d = counts[0], values.size
    if n == table.shape[0]:
        flags[_STATUS] = code
        return
    counts[0], counts[1] = n + 1, state
    row = table[n]
    row[0] = state
    for k in range(d):
        row[1 + k] = values[k]
    row[d + 1], row[d + 2], row[d + 3] = bias[()], now[0], 0.0
    if state % every == 0 and active[0]:
        height = options[0] * math.exp(-options[1] * bias[()])
        row[d + 3] = height
        add_hill(values, height, grid, scratch, 0.0)
        now[0] = offset(grid.values[0], options[2], options[3])


@kernel(nogil=True)
def add_hills(hills, weights, grid, scratch, floor=0.0):
    """Add hills at `hills` [m, d] with heights `weights` [m]."""
    for i in range(len(hills)):
        add_hill(hills[i], weights[i], grid, scratch, floor)


@kernel(nogil=True)
def bias_at(points, grid, at, basis, slopes, result):
    """Bias at points [m, d] into `result` [m], NaN outside of the grid; returns nothing."""
    for i in range(len(points)):
        value, outside = interpolate(points[i], grid, at, basis, slopes)
        result[i] = value if outside < 0 else np.nan


@kernel(nogil=True)
def constant(values, upper, lower):
    """`offset`, from outside of the loop."""
    return offset(values, upper, lower)
