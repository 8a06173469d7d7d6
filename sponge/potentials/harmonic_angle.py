"""Harmonic angles."""

from __future__ import annotations

from triskele.sponge.potentials.terms import angle_potential

__all__ = ["harmonic_angle"]


@angle_potential(name="angle")
def harmonic_angle(theta, k, theta0):
    """Harmonic angle, u = k/2 (theta - theta0)^2.

    Parameters
    ----------
    atoms : int array [m, 3]
        The middle atom is the second.
    k : float or array [m]
        In kJ/mol/rad^2. AMBER and CHARMM write k (theta - theta0)^2: take twice their constant.
    theta0 : float or array [m]
        In radians.

    Examples
    --------
    >>> harmonic_angle([[0, 1, 2]], k=400.0, theta0=1.91)
    <harmonic_angle 'angle': k (1,), theta0 (1,)>
    """
    return 0.5 * k * (theta - theta0) ** 2
