"""Stochastic cell rescaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import check
from triskele.core.random import Fold

from .. import box as boxes
from .. import units
from ..constraints.solver import solver_of
from ..engine.flags import ENERGY, FORCES_STALE, STEP
from ..engine.program import Phase
from ..quantities import number_in
from .barostat import AXES, Barostat, Snapshot, check_engine, step_key
from .molecules import Molecules

__all__ = ["StochasticCellRescaling"]


@dataclass(frozen=True)
class StochasticCellRescaling(Barostat):
    """Constant pressure by first-order relaxation of the volume with the noise that makes it canonical [1]_.

    For each group of d axes scaled together, e = ln of the product of their lengths follows
    de = b d/(3 tau) (P - P0) dt + sqrt(2 RT b d/(3 V tau)) dW, with b the compressibility [1, equations 7, 15 and 16;
    2]_. P is the pressure of molecules as wholes: their centers of mass are scaled, and the velocities of these
    inversely.

    Parameters
    ----------
    pressure : float or sequence of float, bar
        One value, or one for each group of axes.
    temperature : float, K, optional
        Defaults to the integrator's temperature.
    relaxation_time : float
        The tau above, in ps.
    compressibility : float
        The b above, in 1/bar. Defaults to that of water. A wrong one changes the relaxation time, not the ensemble.
    coupling : {"isotropic", "semi-isotropic", "anisotropic"}
        All axes together; x and y together and z; each axis by itself.
    every : int
        Steps between changes.

    References
    ----------
    .. [1] Bernetti, Bussi, "Pressure control using stochastic cell rescaling", J. Chem. Phys. 153 (2020) 114107.
       doi:10.1063/5.0020514
    .. [2] Del Tatto, Raiteri, Bernetti, Bussi, "Molecular dynamics of solids at constant pressure and stress using
       anisotropic stochastic cell rescaling", Appl. Sci. 12 (2022) 1139. doi:10.3390/app12031139

    Examples
    --------
    >>> from triskele.sponge import StochasticCellRescaling
    >>> StochasticCellRescaling(pressure=1.0, relaxation_time=2.0).every
    10
    """

    pressure: float | Sequence[float]
    temperature: float | None = None
    relaxation_time: float = 5.0
    compressibility: float = 4.5e-5
    coupling: str = "isotropic"
    every: int = 10

    def __post_init__(self):
        super().__post_init__()
        for name, unit in (("relaxation_time", "ps"), ("compressibility", "1/bar")):
            value = number_in(unit, getattr(self, name), f"StochasticCellRescaling: {name}")
            object.__setattr__(self, name, value)
            check.positive(getattr(self, name), f"StochasticCellRescaling: {name}")

    def plan(self, engine: Any, integrator: Any, step: list[Phase]) -> list[Phase]:
        check_engine("StochasticCellRescaling", engine)
        whole, thermal = Molecules(engine), self._thermal(integrator)
        groups, targets = AXES[self.coupling], self._targets()
        rate = self.compressibility * units.BAR_PER_PRESSURE / self.relaxation_time * self.every * integrator.timestep

        afresh = integrator.forces_at is None
        positions = solver_of(engine).old if integrator.forces_at == "old" else engine.positions

        def want():
            engine.flags[ENERGY] = 1

        def rescale():
            engine.flags[ENERGY] = 0
            if afresh:
                engine.compute(energy=True)
            number = int(engine.flags[STEP])
            state, volume = Snapshot(engine), boxes.volume(engine.box)
            noise = np.asarray(random.normal(step_key(engine, Fold.CELL_RESCALING, number), (len(groups),)))
            pressure, factors = whole.pressure(positions), np.ones(3)
            for axes, target, r in zip(groups, targets, noise):
                share = len(axes) / 3 * rate
                change = share * (pressure[list(axes)].mean() - target) + np.sqrt(2 * thermal * share / volume) * r
                factors[list(axes)] = np.exp(change / len(axes))
            try:
                whole.scale(factors, "StochasticCellRescaling")
            except Exception:
                state.restore()
                raise
            whole.scale_velocities(1 / factors)
            engine.flags[FORCES_STALE] = 1

        before = [] if afresh else [Phase(call=want, every=self.every, name="barostat")]
        return [*before, *step, Phase(call=rescale, every=self.every, name="barostat")]
