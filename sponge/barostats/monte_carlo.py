"""Monte Carlo moves of the volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.random import Fold

from .. import box as boxes
from ..engine.flags import FORCES_STALE, REBUILD, STEP
from ..engine.program import Phase
from ..integrators.integrator import kept
from .barostat import AXES, Barostat, Snapshot, check_engine, step_key
from .molecules import Molecules

__all__ = ["MonteCarloBarostat"]

_FIRST_MOVE = 0.01  # largest change of volume at first, as a fraction
_LARGEST_MOVE = 0.3
_ADAPT_AFTER, _FEW, _MANY, _CHANGE = 10, 0.25, 0.75, 1.1  # attempts, fractions accepted, and the factor of a change


@dataclass(frozen=True)
class MonteCarloBarostat(Barostat):
    """Constant pressure by trial changes of the volume [1]_, as OpenMM does it [2]_.

    Every `every` steps the volume changes by a random amount, centers of mass scale with it, and the change is accepted
    with probability exp(-(dE + P dV - N RT ln(V'/V)) / RT) for N molecules. The largest amount is adapted, ever more
    rarely, until a quarter to three quarters are accepted.

    It needs energies alone. Where these jump, at a cut-off without a switch, it feels the jumps, which forces do not:
    the pressure of simulations counts them only when the Lennard-Jones tail is corrected for.

    Parameters
    ----------
    pressure : float or sequence of float, bar
        One value, or one for each group of axes.
    temperature : float, K, optional
        Defaults to the integrator's temperature.
    coupling : {"isotropic", "semi-isotropic", "anisotropic"}
        All axes together; x and y together and z; each axis by itself. One group, chosen at random, moves at a time.
    every : int
        Steps between attempts.

    References
    ----------
    .. [1] Chow, Ferguson, "Isothermal-isobaric molecular dynamics simulations with Monte Carlo volume sampling",
       Comput. Phys. Commun. 91 (1995) 283. doi:10.1016/0010-4655(95)00059-O
    .. [2] Åqvist, Wennerström, Nervall, Bjelic, Brandsdal, Chem. Phys. Lett. 384 (2004) 288.
       doi:10.1016/j.cplett.2003.12.039

    Examples
    --------
    >>> from triskele.sponge import MonteCarloBarostat
    >>> MonteCarloBarostat(pressure=1.0)
    MonteCarloBarostat(pressure=1.0, temperature=None, coupling='isotropic', every=25)
    """

    pressure: float | Sequence[float]
    temperature: float | None = None
    coupling: str = "isotropic"
    every: int = 25

    def plan(self, engine: Any, integrator: Any, step: list[Phase]) -> list[Phase]:
        check_engine("MonteCarloBarostat", engine)
        whole, thermal = Molecules(engine), self._thermal(integrator)
        groups, targets = AXES[self.coupling], self._targets()
        size = kept(engine, "barostat_moves", np.full(len(groups), _FIRST_MOVE * boxes.volume(engine.box)))
        counts = kept(engine, "barostat_counts", np.zeros((len(groups), 3)))  # attempts, accepted, all attempts

        def attempt():
            number = int(engine.flags[STEP])
            if number == 0:
                return
            which, change, luck = np.asarray(random.uniform(step_key(engine, Fold.MONTE_CARLO_BAROSTAT, number), (3,)))
            group = min(int(which * len(groups)), len(groups) - 1)
            before, volume = Snapshot(engine), boxes.volume(engine.box)
            new = volume + size[group] * (2 * change - 1)
            factors = np.ones(3)
            factors[list(groups[group])] = (new / volume) ** (1 / len(groups[group])) if new > 0 else np.nan
            accepted = False
            try:
                energy = _energy(engine)
                if new > 0:
                    whole.scale(factors, "MonteCarloBarostat")
                    work = _energy(engine, np.max(np.abs(factors - 1)), whole.radius()) - energy
                    work += targets[group] * (new - volume)
                    work -= whole.count * thermal * np.log(new / volume)
                    accepted = bool(work <= 0 or luck < np.exp(-work / thermal))
            except Exception:
                before.restore()
                engine.flags[REBUILD] = engine.flags[FORCES_STALE] = 1
                raise
            if accepted:
                engine.flags[REBUILD] = engine.flags[FORCES_STALE] = 1
            else:  # with the forces and lists of before
                before.restore()
            counts[group] += 1, accepted, 1
            _adapt(size, counts, group, boxes.volume(engine.box))

        return [*step, Phase(call=attempt, every=self.every, name="barostat")]


def _energy(engine, stretch=0.0, radius=0.0):
    """The energy from the run's lists, after centers of molecules of this radius were scaled by 1 + or - stretch."""
    for neighbors in engine.neighbor_lists.values():
        neighbors.allow(stretch * (neighbors.cutoff + 2 * radius))
    return engine.measure(lambda: sum(engine.energies().values()))


def _adapt(size, counts, group, volume):
    attempts, accepted, total = counts[group]
    # ever more rarely: sizes that keep following the volume would violate detailed balance (Roberts and Rosenthal, J.
    # Appl. Probab. 44, 458 (2007)): a gas of six atoms had a volume 10 % too small
    if attempts < max(_ADAPT_AFTER, total / 10):
        return
    if accepted < _FEW * attempts:
        size[group] /= _CHANGE
    elif accepted > _MANY * attempts:
        size[group] = min(size[group] * _CHANGE, _LARGEST_MOVE * volume)
    else:
        return
    counts[group, :2] = 0
