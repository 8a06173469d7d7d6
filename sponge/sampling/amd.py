"""`AMD`: accelerated molecular dynamics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triskele.core.extend import check

from .boost import Boost

__all__ = ["AMD"]


class AMD(Boost):
    r"""Accelerated molecular dynamics [1]_: a boost of the energy where it is below a threshold.

    .. math:: \Delta V = \frac{(E - V)^2}{\alpha + E - V}, \quad V < E

    of the potential energy, of that of the torsions, or of both [2]_: then V* = V + dV(V) + dV(V_torsion), and forces
    are its derivatives. Minima keep their places, and are raised the more the deeper they are. The energy of other
    sampling methods' biases has no boost.

    Parameters
    ----------
    total : (float, float), kJ/mol, optional
        Threshold E and alpha of the potential energy.
    torsion : (float, float), kJ/mol, optional
        Threshold E and alpha of the energy of the torsions. At least one of both is needed.
    terms : sequence of str, optional
        Names of the potentials that count as torsions. Defaults to torsions, proper or improper, and CMAP.
    temperature : float, K, optional
        Temperature of `weights`. Defaults to the integrator's temperature.
    every : int
        Steps between recorded boosts. States that are to be reweighted must be among the recorded ones.
    name : str
        Name under which the boost is reported.

    References
    ----------
    .. [1] Hamelberg, Mongan, McCammon, "Accelerated molecular dynamics: a promising and efficient simulation method for
       biomolecules", J. Chem. Phys. 120 (2004) 11919, equations 1 and 3. doi:10.1063/1.1755656
    .. [2] Hamelberg, de Oliveira, McCammon, "Sampling of slow diffusive conformational transitions with accelerated
       molecular dynamics", J. Chem. Phys. 127 (2007) 155102. doi:10.1063/1.2789432

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> amd = sponge.AMD(torsion=(24.0, 30.0))
    >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), sampling=[amd], seed=1)
    >>> sim.run(20_000)
    >>> amd.boosts.shape, amd.weights(amd.steps[100:]).shape
    ((2000, 2), (1900,))
    """

    def __init__(
        self,
        total: tuple[float, float] | None = None,
        torsion: tuple[float, float] | None = None,
        terms: Sequence[str] | None = None,
        temperature: float | None = None,
        every: int = 10,
        name: str = "amd",
    ):
        super().__init__(terms, temperature, every, name)
        if total is None and torsion is None:
            raise ValueError("AMD: total or torsion must be given, (threshold, alpha) in kJ/mol")
        self.total, self.torsion = _pair("total", total), _pair("torsion", torsion)
        for numbers, given in zip(self._numbers, (self.total, self.torsion), strict=True):
            if given is not None:
                numbers[:] = given

    def _boosted(self):
        return self.total is not None, self.torsion is not None


def _pair(what, given):
    if given is None:
        return None
    if np.shape(given) != (2,):
        raise ValueError(f"AMD: {what} must be (threshold, alpha) in kJ/mol, got {given!r}")
    threshold, alpha = map(float, given)
    check.number(threshold, f"AMD: threshold of {what}")
    check.positive(alpha, f"AMD: alpha of {what}", "kJ/mol")
    return threshold, alpha
