"""Many-body potentials the slow and obvious way: loops over atoms, units of the files (eV, Angstrom)."""

import itertools
import math

import numpy as np


def neighbors(positions, box, cutoff):
    """For each atom, the list of (j, vector to j's image) closer than the cut-off."""
    turns = [(0, 0, 0)] if box is None else list(itertools.product((-1, 0, 1), repeat=3))
    found = []
    for i, x in enumerate(positions):
        near = []
        for j, y in enumerate(positions):
            for turn in turns:
                d = y - x if box is None else y - x + np.array(turn) @ box
                if (j != i or any(turn)) and math.dist(d, (0, 0, 0)) < cutoff:
                    near.append((j, d))
        found.append(near)
    return found


def spline(values, spacing, x):
    """Value at x of the table: a cubic polynomial with the given slopes at both ends, as SciPy makes it."""
    from scipy.interpolate import CubicHermiteSpline

    slopes = [
        values[1] - values[0],
        (values[2] - values[0]) / 2,
        *[
            (values[k - 2] - 8 * values[k - 1] + 8 * values[k + 1] - values[k + 2]) / 12
            for k in range(2, len(values) - 2)
        ],
        (values[-1] - values[-3]) / 2,
        values[-1] - values[-2],
    ]
    k = min(int(x / spacing), len(values) - 2)
    if x / spacing > k + 1:
        return values[-1] + slopes[-1] * (x / spacing - k - 1)
    return float(CubicHermiteSpline([0, 1], values[k : k + 2], slopes[k : k + 2])(x / spacing - k))


def eam(types, embedding, density, pair, drho, dr, cutoff, positions, box):
    """Energy of the embedded-atom method from its tables, with the shapes that `EAM` has."""
    energy = 0.0
    for i, near in enumerate(neighbors(positions, box, cutoff)):
        total = 0.0
        for j, d in near:
            r, a, b = math.dist(d, (0, 0, 0)), max(types[i], types[j]), min(types[i], types[j])
            table = density[types[j]] if density.ndim == 2 else density[types[j], types[i]]
            total += spline(table, dr, r)
            energy += 0.5 * spline(pair[a * (a + 1) // 2 + b], dr, r) / r
        energy += spline(embedding[types[i]], drho, total)
    return energy


def stillinger_weber(types, p, cutoff, positions, box):
    """Energy of the Stillinger-Weber potential; `p` by name [e, e, e], each triple with the mean of both orders."""

    def end(a, b):
        return p["a"][a, b, b] * p["sigma"][a, b, b]

    energy = 0.0
    for i, near in enumerate(neighbors(positions, box, cutoff)):
        a = types[i]
        for j, d in near:
            b, r = types[j], math.dist(d, (0, 0, 0))
            if r >= end(a, b):
                continue
            q = {name: values[a, b, b] for name, values in p.items()}
            energy += (
                0.5
                * q["A"]
                * q["epsilon"]
                * (q["B"] * (q["sigma"] / r) ** q["p"] - (q["sigma"] / r) ** q["q"])
                * math.exp(q["sigma"] / (r - end(a, b)))
            )
            for k, e in near:
                c, s = types[k], math.dist(e, (0, 0, 0))
                if e is d or s >= end(a, c):
                    continue
                v = {name: values[a, c, c] for name, values in p.items()}
                cosine = np.dot(d, e) / r / s
                energy += (
                    0.5
                    * p["lambda"][a, b, c]
                    * p["epsilon"][a, b, c]
                    * (cosine - p["cosine"][a, b, c]) ** 2
                    * (math.exp(q["gamma"] * q["sigma"] / (r - end(a, b)) + v["gamma"] * v["sigma"] / (s - end(a, c))))
                )
    return energy


def tersoff(types, p, cutoff, positions, box):
    """Energy of the Tersoff potential; `p` by name [e, e, e]."""

    def fade(r, q):
        if r < q["R"] - q["D"]:
            return 1.0
        return 0.0 if r > q["R"] + q["D"] else 0.5 - 0.5 * math.sin(math.pi / 2 * (r - q["R"]) / q["D"])

    energy = 0.0
    for i, near in enumerate(neighbors(positions, box, cutoff)):
        for j, d in near:
            r, zeta = math.dist(d, (0, 0, 0)), 0.0
            for k, e in near:
                if e is not d:
                    s, q = math.dist(e, (0, 0, 0)), {n: v[types[i], types[j], types[k]] for n, v in p.items()}
                    off = np.dot(d, e) / r / s - q["cosine"]
                    angle = q["gamma"] * (1 + q["c"] ** 2 / q["d"] ** 2 - q["c"] ** 2 / (q["d"] ** 2 + off**2))
                    zeta += fade(s, q) * angle * math.exp((q["lambda3"] * (r - s)) ** q["m"])
            q = {n: v[types[i], types[j], types[j]] for n, v in p.items()}
            order = (1 + (q["beta"] * zeta) ** q["n"]) ** (-1 / (2 * q["n"]))
            energy += (
                0.5 * fade(r, q) * (q["A"] * math.exp(-q["lambda1"] * r) - order * q["B"] * math.exp(-q["lambda2"] * r))
            )
    return energy


def edip(types, p, cutoff, positions, box):
    """Energy of EDIP; `p` by name [e, e, e], each triple with the mean of both orders."""
    energy = 0.0
    for i, near in enumerate(neighbors(positions, box, cutoff)):
        pairs = []
        for j, d in near:
            q = {n: v[types[i], types[j], types[j]] for n, v in p.items()}
            if math.dist(d, (0, 0, 0)) < q["a"]:
                pairs.append((types[j], d, math.dist(d, (0, 0, 0)), q))
        z = sum(
            1.0 if r <= q["c"] else math.exp(q["alpha"] / (1 - ((q["a"] - q["c"]) / (r - q["c"])) ** 3))
            for _, _, r, q in pairs
        )
        for b, d, r, q in pairs:
            energy += (
                q["A"] * ((q["B"] / r) ** q["rho"] - math.exp(-q["beta"] * z * z)) * math.exp(q["sigma"] / (r - q["a"]))
            )
            for c, e, s, v in pairs:
                if e is not d:
                    h = {n: values[types[i], b, c] for n, values in p.items()}
                    tau = h["u1"] + h["u2"] * (h["u3"] * math.exp(-h["u4"] * z) - math.exp(-2 * h["u4"] * z))
                    u = h["Q0"] * math.exp(-h["mu"] * z) * (np.dot(d, e) / r / s + tau) ** 2
                    energy += (
                        0.5
                        * h["lambda"]
                        * (1 - math.exp(-u) + h["eta"] * u)
                        * math.exp(q["gamma"] / (r - q["a"]) + v["gamma"] / (s - v["a"]))
                    )
    return energy
