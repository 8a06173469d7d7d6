"""`GaMD`: Gaussian accelerated molecular dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from triskele.core.extend import Task, check

from ..engine.program import Phase
from . import boost_kernels as kernels
from .boost import Boost

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..integrators.integrator import Integrator

__all__ = ["GaMD"]

_NAMES = ("total", "torsion")


class GaMD(Boost):
    r"""Gaussian accelerated molecular dynamics [1]_: a harmonic boost whose parameters come from the run itself.

    .. math:: \Delta V = \tfrac{1}{2} k (E - V)^2, \quad V < E, \quad k = k_0 / (V_\text{max} - V_\text{min})

    of the potential energy, of that of the torsions, or of both: then V* = V + dV(V) + dV(V_torsion), and forces are
    its derivatives. The run goes through three stages by itself. `collect` steps of plain dynamics give the highest,
    lowest and mean energy and its standard deviation. During the next `equilibrate` steps the boost acts, and follows
    these statistics at every step. From then on it is fixed, and `weights` or `cumulant_weights` undo it. With the
    lower bound of the threshold,

    .. math:: E = V_\text{max}, \quad k_0 = \min\Big(1, \frac{\sigma_0}{\sigma_V} \frac{V_\text{max} -
              V_\text{min}}{V_\text{max} - V_\text{avg}}\Big)

    and with the upper bound, as long as this is between 0 and 1, and otherwise with :math:`k_0 = 1`,

    .. math:: E = V_\text{min} + \frac{V_\text{max} - V_\text{min}}{k_0}, \quad k_0 = \Big(1 - \frac{\sigma_0}{\sigma_V}
              \Big) \frac{V_\text{max} - V_\text{min}}{V_\text{avg} - V_\text{min}}

    In that last case the standard deviation of the boost can exceed :math:`\sigma_0`: look at ``boosts.std(0)``.

    Parameters
    ----------
    total : float, kJ/mol, optional
        The sigma_0 of the potential energy: the largest standard deviation that its boost is to have, such as 6
        kcal/mol.
    torsion : float, kJ/mol, optional
        That of the energy of the torsions. At least one of both is needed.
    collect : int
        Steps of plain dynamics.
    equilibrate : int
        Steps with a boost that adapts.
    prepare : int
        First steps of both stages that the statistics leave out.
    threshold : {"lower", "upper"}
        Bound that E is set to; the upper one makes the larger boost.
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
    .. [1] Miao, Feher, McCammon, "Gaussian accelerated molecular dynamics: unconstrained enhanced sampling and free
       energy calculation", J. Chem. Theory Comput. 11 (2015) 3584. doi:10.1021/acs.jctc.5b00436

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import units
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> sigma0 = 6 * units.kcal_per_mol
    >>> gamd = sponge.GaMD(total=sigma0, torsion=sigma0, collect=2000, equilibrate=2000)
    >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), sampling=[gamd], seed=1)
    >>> sim.run(6000)
    >>> gamd.stage, int(gamd.produced.sum()), gamd.k0.shape
    ('produce', 200, (2,))
    """

    _harmonic = True

    def __init__(
        self,
        total: float | None = None,
        torsion: float | None = None,
        *,
        collect: int,
        equilibrate: int,
        prepare: int = 0,
        threshold: Literal["lower", "upper"] = "lower",
        terms: Sequence[str] | None = None,
        temperature: float | None = None,
        every: int = 10,
        name: str = "gamd",
    ):
        super().__init__(terms, temperature, every, name)
        if total is None and torsion is None:
            raise ValueError(
                "GaMD: total or torsion must be given, the largest standard deviation of a boost in kJ/mol"
            )
        for what, sigma0 in zip(_NAMES, (total, torsion), strict=True):
            if sigma0 is not None:
                check.positive(sigma0, f"GaMD: {what}", "kJ/mol")
        check.choice(threshold, ("lower", "upper"), "GaMD: threshold")
        self.total, self.torsion, self.threshold = total, torsion, threshold
        self.prepare = check.integer(prepare, "GaMD: prepare", 0)
        self.collect = check.integer(collect, "GaMD: collect", self.prepare + 2)
        self.equilibrate = check.integer(equilibrate, "GaMD: equilibrate", 0)
        self._seen = np.array([0, -1])  # states, and the last one
        self._statistics = np.array([[0.0, -np.inf, np.inf, 0.0, 0.0]] * 2)

    def _boosted(self):
        return self.total is not None, self.torsion is not None

    def after_step(self, engine: Engine, integrator: Integrator) -> list[Phase]:
        """Records, and the parameters of the next step."""
        assert engine.split is not None
        stages = np.array([self.prepare, self.collect, self.equilibrate])
        sigma0 = np.array([self.total or 0.0, self.torsion or 0.0])
        task = Task(
            kernels.adapt,
            engine.flags,
            int(integrator.forces_at == "new"),
            stages,
            int(self.threshold == "upper"),
            sigma0,
            engine.split.energies,
            self._seen,
            self._statistics,
            self._numbers,
        )
        return [*super().after_step(engine, integrator), Phase([task], name=f"{self.name}: parameters", redo=True)]

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> str:
        """Stage of the run: "collect", "equilibrate" or "produce"."""
        seen = int(self._seen[0])
        return "collect" if seen < self.collect else "produce" if self._fixed() else "equilibrate"

    @property
    def produced(self) -> np.ndarray:
        """Mask (m,) of the recorded states that were drawn with a fixed boost."""
        first = self._seen[1] - self._seen[0] + 1  # number of the first state; after it each was seen
        return self.steps >= first + self.collect + self.equilibrate

    def _fixed(self):
        return bool(self._seen[0] >= self.collect + self.equilibrate)

    @property
    def thresholds(self) -> np.ndarray:
        """Thresholds E of the potential energy and of the torsions in kJ/mol [2]; -inf where there is no boost."""
        return self._numbers[:, 0].copy()

    @property
    def k0(self) -> np.ndarray:
        """The k_0 of the potential energy and of the torsions [2]; 0 where there is no boost."""
        span = self._statistics[:, 1] - self._statistics[:, 2]
        return np.where(self._numbers[:, 1] > 0, self._numbers[:, 1] * np.maximum(span, 0), 0.0)

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """Arrays [2] "highest", "lowest", "mean" and "deviation" of the potential energy and of the torsions, in
        kJ/mol.
        """
        number, highest, lowest, mean, squares = self._statistics.T.copy()
        return {
            "highest": highest,
            "lowest": lowest,
            "mean": mean,
            "deviation": np.sqrt(squares / np.maximum(number, 1)),
        }

    # -- restarts ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return parameters, statistics and records."""
        return {**super().state(), "seen": self._seen.copy(), "statistics": self._statistics.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to such a state."""
        super().restore(state)
        self._seen[:], self._statistics[:] = state["seen"], state["statistics"]
