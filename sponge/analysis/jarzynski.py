"""Free energies from works of runs out of equilibrium."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..units import GAS_CONSTANT

__all__ = ["jarzynski"]


def jarzynski(works: Any, *, temperature: float) -> tuple[float, float]:
    r"""Free energy difference from works of switching, :math:`-RT \ln \langle e^{-W/RT} \rangle` [1]_.

    Parameters
    ----------
    works : (m,) array, kJ/mol
        One of each independent run, which began in equilibrium: `SteeredMD.work`.
    temperature : float, K

    Returns
    -------
    value, error : float, kJ/mol
        Free energy of the end less that of the start, corrected for the bias of few works, and its standard error,
        both by the jackknife. With works that spread over many RT neither can be trusted: pull slower, or both ways
        (`alchemy.bar`).

    Raises
    ------
    ValueError
        If there are fewer than two works, or one is not finite.

    References
    ----------
    .. [1] Jarzynski, "Nonequilibrium equality for free energy differences", Phys. Rev. Lett. 78 (1997) 2690, equation
       2. doi:10.1103/PhysRevLett.78.2690

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> works = np.random.default_rng(0).normal(5.0, 2.0, 4000)        # Gaussian works: mean - variance / 2 RT
    >>> value, error = analysis.jarzynski(works, temperature=300.0)
    >>> bool(abs(value - (5.0 - 2.0**2 / (2 * 0.00831446 * 300))) < 3 * error < 0.4)
    True
    """
    works = np.asarray(works, np.float64)
    check.positive(temperature, "jarzynski: temperature", "K")
    if works.ndim != 1 or len(works) < 2 or not np.all(np.isfinite(works)):
        raise ValueError(f"jarzynski: works must be at least two finite numbers, got {works!r:.60}")
    thermal, n = GAS_CONSTANT * temperature, len(works)
    least = works.min()
    weights = np.exp((least - works) / thermal)
    total = weights.sum()
    value = least - thermal * np.log(total / n)
    # a sum without its only large term is what the others add up to, not a difference
    order = np.argsort(-weights)
    others = np.empty(n)
    others[order] = total - weights[order]
    others[order[0]] = weights[order[1:]].sum()
    parts = least - thermal * np.log(others / (n - 1))
    spread = (n - 1) / n * np.sum((parts - parts.mean()) ** 2)
    return float(n * value - (n - 1) * parts.mean()), float(np.sqrt(spread))
