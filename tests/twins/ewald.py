"""Sums over a periodic lattice, written out: nested loops over images and wave vectors, for a few particles."""

import itertools

import numpy as np
from scipy.special import erfc

COULOMB = 138.93545764438198  # kJ/mol nm/e^2


def images(box, reach):
    """Lattice vectors a i + b j + c k with |i|, |j|, |k| <= reach."""
    return np.array(list(itertools.product(range(-reach, reach + 1), repeat=3))) @ box


def pairs_of_images(positions, box, reach):
    """i, j and the distance for every particle i and every image of j, but for i itself."""
    for shift in images(box, reach):
        for i, j in itertools.product(range(len(positions)), repeat=2):
            r = np.linalg.norm(positions[i] - positions[j] - shift)
            if i != j or shift.any():
                yield i, j, r


def direct(charges, positions, box, alpha, reach=2):
    """The part of the Coulomb energy that is summed over distances."""
    return sum(
        0.5 * COULOMB * charges[i] * charges[j] * erfc(alpha * r) / r
        for i, j, r in pairs_of_images(positions, box, reach)
    )


def reciprocal(charges, positions, box, alpha, counts):
    """The part that is summed over wave vectors, with self energy and neutralizing background."""
    inverse, volume = np.linalg.inv(box), np.linalg.det(box)
    energy = 0.0
    for n in itertools.product(*[range(1 - c, c) for c in counts]):
        if any(n):
            m = inverse @ n
            structure = np.sum(charges * np.exp(2j * np.pi * (positions @ m)))
            energy += np.exp(-((np.pi / alpha) ** 2) * (m @ m)) / (m @ m) * abs(structure) ** 2
    energy /= 2 * np.pi * volume
    energy -= alpha / np.sqrt(np.pi) * np.sum(charges**2) + np.pi / (2 * volume * alpha**2) * np.sum(charges) ** 2
    return COULOMB * energy


def dispersion(coefficients, positions, box, reach):
    """-c_i c_j / r^6 over all images; what is beyond `reach` decays as its inverse cube."""
    return sum(-0.5 * coefficients[i] * coefficients[j] / r**6 for i, j, r in pairs_of_images(positions, box, reach))


def dispersion_direct(coefficients, positions, box, alpha, reach=2):
    """The part of it that is summed over distances (Essmann et al., J. Chem. Phys. 103, 8577 (1995), section 5)."""
    energy = 0.0
    for i, j, r in pairs_of_images(positions, box, reach):
        x = (alpha * r) ** 2
        energy -= 0.5 * coefficients[i] * coefficients[j] / r**6 * np.exp(-x) * (1 + x + x * x / 2)
    return energy
