"""Pairs within a cut-off and their Lennard-Jones and Coulomb energies, the slow and obvious way."""

import itertools

import numpy as np
from scipy.special import erfc

from triskele.sponge.units import COULOMB


def all_pairs(positions, box, cutoff, exclusions=()):
    """Every (i, j, image) with i < j not excluded, or i == j in another image, closer than the cut-off.

    Returns
    -------
    i, j : (m,) int arrays
    d : (m, 3) array
        Position of i minus that of j's image.
    """
    positions = np.asarray(positions, float)
    n = len(positions)
    excluded = np.zeros((n, n), bool)
    for a, b in exclusions:
        excluded[a, b] = excluded[b, a] = True
    turns = [(0, 0, 0)] if box is None else itertools.product(range(-2, 3), repeat=3)
    cell = np.zeros((3, 3)) if box is None else box
    if box is not None:  # atoms may be anywhere: bring them into one cell first
        positions = positions - np.floor(positions @ np.linalg.inv(box)) @ box
    found = [(np.empty(0, int), np.empty(0, int), np.empty((0, 3)))]
    i, j = np.triu_indices(n)
    difference, allowed = positions[i] - positions[j], ~excluded[i, j]
    for turn in turns:
        d = difference - np.array(turn, float) @ cell
        near = (np.sum(d * d, axis=1) < cutoff**2) & allowed & ((i != j) | (turn > (0, 0, 0)))
        found.append((i[near], j[near], d[near]))
    return tuple(np.concatenate(part) for part in zip(*found))


def lennard_jones(r, mixing, values, i, j, switch=None, cutoff=None):
    """Energies of pairs at distances `r`, and -dU/dr."""
    if mixing == "table":
        types, a, b = values
        a, b = a[types[i], types[j]], b[types[i], types[j]]
    else:
        sigma, epsilon = values
        s = 0.5 * (sigma[i] + sigma[j]) if mixing == "lorentz_berthelot" else np.sqrt(sigma[i] * sigma[j])
        e = np.sqrt(epsilon[i] * epsilon[j])
        a, b = 4 * e * s**12, 4 * e * s**6
    u, f = a / r**12 - b / r**6, 12 * a / r**13 - 6 * b / r**7
    if switch is not None:
        x = np.clip((r - switch) / (cutoff - switch), 0, 1)
        smooth, slope = 1 - 10 * x**3 + 15 * x**4 - 6 * x**5, -30 * x**2 * (1 - x) ** 2 / (cutoff - switch)
        u, f = smooth * u, smooth * f - slope * u
    return u, f


def coulomb(r, kind, charge_product, alpha=0.0, k_rf=0.0, c_rf=0.0):
    """The same for charges."""
    k = COULOMB * charge_product
    if kind == "none":
        return 0 * r, 0 * r
    if kind == "cutoff":
        return k / r, k / r**2
    if kind == "reaction_field":
        return k * (1 / r + k_rf * r**2 - c_rf), k * (1 / r**2 - 2 * k_rf * r)
    gauss = 2 * alpha / np.sqrt(np.pi) * np.exp(-((alpha * r) ** 2))
    return k * erfc(alpha * r) / r, k * (erfc(alpha * r) / r**2 + gauss / r)


def sum_pairs(n, i, j, d, energy, force):
    """Energy, forces [n, 3] and virial from those of the pairs."""
    forces = np.zeros((n, 3))
    f = (force / np.linalg.norm(d, axis=1))[:, None] * d
    np.add.at(forces, i, f)
    np.add.at(forces, j, -f)
    return np.sum(energy), forces, f.T @ d
