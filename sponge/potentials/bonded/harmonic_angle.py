"""Harmonic angles."""

from __future__ import annotations

import numpy as np

from .terms import angle_potential

__all__ = ["harmonic_angle"]


@angle_potential(name="angle")
def harmonic_angle(theta, k, theta0):
    """Harmonic angle, u = k/2 (theta - theta0)^2.

    Parameters
    ----------
    atoms : (m, 3) int
        The middle atom is the second.
    k : float or (m,) array, kJ/mol/rad^2
        AMBER and CHARMM write k (theta - theta0)^2: take twice their constant.
    theta0 : float or (m,) array, radians
        Equilibrium angle.
    name : str, optional

    Examples
    --------
    >>> from triskele.sponge import harmonic_angle
    >>> harmonic_angle([[0, 1, 2]], k=400.0, theta0=1.91)
    <harmonic_angle 'angle': k (1,), theta0 (1,)>
    """
    return 0.5 * k * (theta - theta0) ** 2


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    k, theta0 = np.linspace(200.0, 600.0, 10), np.linspace(1.5, 2.2, 10)
    angles = np.stack([np.arange(10), np.arange(1, 11), np.arange(2, 12)], axis=1)
    return [([harmonic_angle(angles, k=k, theta0=theta0)], {"box": box}) for box in (None, [0.7, 0.8, 0.9])]
