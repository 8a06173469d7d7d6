"""Charges and induced dipoles, written out: one matrix for charges and dipoles, from loops over pairs and waves."""

import itertools

import numpy as np
from scipy.special import erfc

COULOMB = 138.93545764438198  # kJ/mol nm/e^2


def radial(r, alpha):
    """B_0, B_1, B_2 of erfc(alpha r) / r, with B_(n + 1) = -B_n' / r; alpha = 0 gives those of 1 / r."""
    gauss = 2 * alpha / np.sqrt(np.pi) * np.exp(-((alpha * r) ** 2))
    b0 = erfc(alpha * r) / r
    b1 = b0 / r**2 + gauss / r**2
    return b0, b1, (3 * b1 + 2 * alpha**2 * gauss) / r**2


def pair(d, b0, b1, b2):
    """Interaction of charge and dipole (rows) of an atom with those of another one (columns), at d from it."""
    block = np.zeros((4, 4))
    block[0, 0] = b0
    block[1:, 0] = b1 * d
    block[0, 1:] = -b1 * d
    block[1:, 1:] = b1 * np.eye(3) - b2 * np.outer(d, d)
    return block


def matrix_of(x, polarizabilities, thole, excluded, box=None, alpha=0.0, reach=2, waves=14):
    """Second derivatives of the energy by charges and dipoles [4 n, 4 n], without that of polarization."""
    n = len(x)
    matrix, excluded = np.zeros((4 * n, 4 * n)), {frozenset(pair) for pair in excluded}
    around = [0] if box is None else range(-reach, reach + 1)
    shifts = np.array(list(itertools.product(around, repeat=3))) @ (np.eye(3) if box is None else box)
    for i, j in itertools.product(range(n), repeat=2):
        images = [x[j] + s - x[i] for s in shifts if i != j or s.any()]
        block = sum((pair(d, *radial(np.linalg.norm(d), alpha)) for d in images), np.zeros((4, 4)))
        if i != j:
            d = min(images, key=np.linalg.norm)
            r, full = np.linalg.norm(d), pair(d, *radial(np.linalg.norm(d), 0.0))
            damped = full.copy()
            if polarizabilities[i] * polarizabilities[j] > 0 and thole is not None:
                w = min(thole[i], thole[j]) * r**3 / np.sqrt(polarizabilities[i] * polarizabilities[j])
                damped -= pair(d, 0.0, np.exp(-w) / r**3, 3 * (1 + w) * np.exp(-w) / r**5)
            if frozenset((i, j)) in excluded:  # dipoles see each other all the same
                damped[0], damped[:, 0] = 0.0, 0.0
            block += damped - full
        matrix[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = block
    if box is not None:
        matrix += reciprocal(x, box, alpha, waves)
    return COULOMB * matrix


def reciprocal(x, box, alpha, waves):
    n, inverse, volume = len(x), 2 * np.pi * np.linalg.inv(box), np.linalg.det(box)
    matrix = np.zeros((4 * n, 4 * n))
    for counts in itertools.product(range(-waves, waves + 1), repeat=3):
        if not any(counts):
            continue
        k = inverse @ counts
        k2 = k @ k
        source = (np.exp(1j * (x @ k))[:, None] * np.concatenate([[1.0], 1j * k])).reshape(-1)
        matrix += 4 * np.pi / volume * np.exp(-k2 / (4 * alpha**2)) / k2 * np.outer(source, source.conj()).real
    charge = np.arange(4 * n) % 4 == 0
    matrix -= np.diag(np.where(charge, 2 * alpha / np.sqrt(np.pi), 4 * alpha**3 / (3 * np.sqrt(np.pi))))
    return matrix - np.pi / (alpha**2 * volume) * np.outer(charge, charge)


def solve(charges, polarizabilities, matrix):
    """The energy at the dipoles that minimize it, and the dipoles [n, 3]."""
    n = len(charges)
    of_charge = np.arange(4 * n) % 4 == 0
    polar = np.repeat(polarizabilities > 0, 4) & ~of_charge
    stiff = np.repeat(np.divide(COULOMB, polarizabilities, out=np.zeros(n), where=polarizabilities > 0), 4)
    source = np.zeros(4 * n)
    source[of_charge] = charges
    field = -(matrix @ source)[polar]
    source[polar] = np.linalg.solve(matrix[np.ix_(polar, polar)] + np.diag(stiff[polar]), field)
    energy = 0.5 * source[of_charge] @ matrix[np.ix_(of_charge, of_charge)] @ charges - 0.5 * source[polar] @ field
    return energy, source.reshape(n, 4)[:, 1:]
