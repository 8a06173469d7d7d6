"""`OPES`: a bias from the probability of collective variables, estimated on the fly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import Task, check

from .. import units
from ..cv.compiled import Evaluation, status_code
from ..cv.variable import CollectiveVariable, VariableError, as_variables
from ..engine.program import Phase
from . import opes_kernels as kernels
from .history import Records
from .variable_bias import VariableBias, per_variable

__all__ = ["OPES"]

_ROWS = 1024  # of the table that kernels fill: when it is full, Python puts it away
_CAPACITY = 20_000  # Gaussians: 0.8 MB in two dimensions


class OPES(VariableBias):
    r"""On-the-fly probability enhanced sampling towards the well-tempered distribution [1]_, or its exploration [2]_.

    .. math:: V(s) = (1 - 1/\gamma) RT \ln\Big(\frac{P(s)}{Z} + \epsilon\Big), \quad
              \epsilon = e^{-\Delta E / (1 - 1/\gamma) RT}

    with the bias factor gamma and the barrier :math:`\Delta E`. The unbiased distribution P is a sum of Gaussians with
    weights :math:`e^{V/RT}`, put where the run is and merged where they are close; Z is its mean over the part of space
    that was seen. With `explore` the Gaussians have no weights, estimate the well-tempered distribution, and the factor
    of the bias is :math:`\gamma - 1`: the bias changes longer, and escapes sooner from what poor variables hide.

    The bias soon changes slowly: states have the weights of a static bias. Everything happens inside the step loop.

    Parameters
    ----------
    cvs : CollectiveVariable or sequence of one to three
    barrier : float, kJ/mol
        The highest free energy to overcome: the bias fills wells up to there.
    every : int
        Steps between Gaussians. The first is added at state `every`, after its forces have been computed.
    sigma : float or sequence of float, optional
        Widths of the first Gaussians in the variables' units; later ones are narrower. By default they follow from the
        spread of the variables over `measure` steps, of which the first go without a bias.
    bias_factor : float, optional
        The gamma above, > 1; ``math.inf`` for a flat distribution. Defaults to barrier / RT.
    explore : bool
        Explore the variables, rather than converge soon.
    temperature : float, K, optional
        Defaults to the integrator's temperature.
    smallest_sigma : float or sequence of float, optional
        Widths below which Gaussians do not go.
    threshold : float
        Distance in widths below which two Gaussians are merged.
    measure : int, optional
        Defaults to ten times `every`.
    record : int, optional
        Steps between records of variables and bias. Defaults to `every`.
    name : str
        Name under which the energy of the bias is reported.

    Raises
    ------
    VariableError
        From a run, when a variable or its gradient is not defined, or does not move while its spread is measured.
    RuntimeError
        From a run, when the bias needs more than 20,000 Gaussians, as they are too narrow.

    References
    ----------
    .. [1] Invernizzi, Parrinello, "Rethinking metadynamics: from bias potentials to probability distributions", J.
       Phys. Chem. Lett. 11 (2020) 2731. doi:10.1021/acs.jpclett.0c00497
    .. [2] Invernizzi, Parrinello, "Exploration vs convergence speed in adaptive-bias enhanced sampling", J. Chem.
       Theory Comput. 18 (2022) 3988, equation 8. doi:10.1021/acs.jctc.2c00152

    Examples
    --------
    >>> from triskele.sponge import OPES
    >>> from triskele.sponge import cv
    >>> phi, psi = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
    >>> OPES([phi, psi], barrier=40.0, every=500).measure
    5000
    """

    def __init__(
        self,
        cvs: CollectiveVariable | Sequence[CollectiveVariable],
        barrier: float,
        every: int,
        sigma: Any = None,
        bias_factor: float | None = None,
        explore: bool = False,
        temperature: float | None = None,
        smallest_sigma: Any = None,
        threshold: float = 1.0,
        measure: int | None = None,
        record: int | None = None,
        name: str = "opes",
    ):
        where = type(self).__name__
        self.name, self.cvs = name, as_variables(where, cvs)
        d = len(self.cvs)
        if d > 3:
            raise ValueError(f"{where}: there must be at most 3 collective variables, got {d}")
        check.positive(barrier, f"{where}: barrier", "kJ/mol")
        check.integer(every, f"{where}: every", 1)
        record = every if record is None else record
        check.integer(record, f"{where}: record", 1)
        if measure is not None and sigma is not None:
            raise ValueError(f"{where}: measure must be left out where sigma is given, got {measure}")
        measure = 10 * every if measure is None else measure
        check.integer(measure, f"{where}: measure", every)
        if bias_factor is not None and not bias_factor > 1:
            raise ValueError(f"{where}: bias_factor must be > 1, got {bias_factor!r}")
        if bias_factor == math.inf and (explore or sigma is None):
            raise ValueError(f"{where}: bias_factor must be finite with explore, and where sigma is measured, got inf")
        if temperature is not None:
            check.positive(temperature, f"{where}: temperature", "K")
        if not 0 <= threshold < math.inf:
            raise ValueError(f"{where}: threshold must be finite and >= 0, got {threshold!r}")
        self.sigma, self.smallest_sigma = (
            None if given is None else per_variable(where, name, given, d, positive=True)
            for name, given in (("sigma", sigma), ("smallest_sigma", smallest_sigma))
        )
        if any(a < b for a, b in zip(self.sigma or (), self.smallest_sigma or (), strict=False)):
            raise ValueError(f"{where}: smallest_sigma must be at most sigma {self.sigma}, got {self.smallest_sigma}")
        self.barrier, self.every, self.record, self.measure = float(barrier), int(every), int(record), int(measure)
        self.bias_factor, self.explore, self.temperature = bias_factor, bool(explore), temperature
        self.threshold = float(threshold)

        self._gaussians = np.zeros((1 + 3 * d, _CAPACITY))
        self._state, self._options = np.zeros(kernels.N_STATE + 3 * d), np.zeros(kernels.N_OPTIONS + 3 * d)
        self._state[[kernels.SAMPLES, kernels.Z]] = 1.0
        self._active = np.ones(1, np.int64)
        self._kept = Records(d + 2, _ROWS)
        self._temperature: float | None = None
        if temperature is not None:
            self._set_temperature(temperature)

    def _set_temperature(self, temperature):
        d, o, thermal = len(self.cvs), self._options, units.GAS_CONSTANT * temperature
        gamma = self.barrier / thermal if self.bias_factor is None else self.bias_factor
        if not gamma > 1:
            raise ValueError(
                f"OPES: barrier must be above RT = {thermal:.3g} kJ/mol, or bias_factor be given, got {self.barrier:g}"
            )
        prefactor = gamma - 1 if self.explore else 1 - 1 / gamma
        depth = self.barrier / prefactor / thermal
        reach = self.barrier / thermal if self.explore else depth  # cut-off of Gaussians, as half a square
        if max(depth, reach) > 600 or 2 * reach <= self.threshold**2:
            raise ValueError(
                f"OPES: barrier must be from {0.5 * self.threshold**2 / reach * self.barrier:.3g} to "
                f"{600 / max(depth, reach) * self.barrier:.3g} kJ/mol at {temperature:g} K with this "
                f"threshold and bias factor, got {self.barrier:g}"
            )
        self._temperature = temperature
        o[: kernels.N_OPTIONS] = [
            thermal,
            prefactor,
            math.exp(-depth),
            2 * reach,
            math.exp(-reach),
            self.threshold**2,
            gamma,
            self.explore,
            self.measure if self.sigma is None else 0,
        ]
        o[kernels.N_OPTIONS :] = [
            *(self.sigma or [0.0] * d),
            *(self.smallest_sigma or [0.0] * d),
            *(0.0 if v.period is None else v.period[1] - v.period[0] for v in self.cvs),
        ]
        if self._state[kernels.SAMPLES] == 1.0:
            weight = math.exp(-depth * prefactor)  # one state at the lowest bias
            self._state[[kernels.WEIGHTS, kernels.SQUARES]] = weight, weight**2
            self._state[kernels.NORM] = 1.0 if self.explore else weight

    # -- in a simulation -----------------------------------------------------------------------------------------------

    def check(self, system, integrator):
        super().check(system, integrator)
        temperature = self._bath(self.temperature, self._temperature, integrator)
        if temperature is None:
            raise ValueError(f"OPES {self.name!r}: temperature must be given, as {type(integrator).__name__} has none")
        self._set_temperature(temperature)

    def plan(self, engine):
        found = Evaluation(engine, self.cvs, f"OPES {self.name!r}")
        plan = found.plan(
            Task(kernels.bias_of, self._gaussians, self._state, self._options, found.values, found.slopes, found.bias)
        )
        plan.evaluation = found
        return plan

    def after_step(self, engine, integrator):
        found, d, where = engine.plans[self.name].evaluation, len(self.cvs), f"OPES {self.name!r}"
        codes = np.array([status_code(f"{where}: {what}") for what in ("full", "no room", "still")])
        for code, handler in zip(codes, (self._put_away, self._no_room, self._still), strict=True):
            engine.on_status(code, handler)
        scratch = kernels.Scratch(np.zeros((kernels.CHANGES, 1 + 2 * d)), np.zeros(1 + 2 * d), np.zeros(d), np.zeros(d))
        task = Task(
            kernels.learn,
            engine.flags,
            codes,
            int(integrator.forces_at == "new"),
            self.record,
            self.every,
            self._active,
            found.values,
            found.bias,
            self._gaussians,
            self._state,
            self._options,
            scratch,
            self._kept.buffer,
            self._kept.count,
        )
        return [Phase([task], name=self.name, redo=True)]

    def _put_away(self, engine) -> bool:
        self._kept.take_over()
        return False

    def _no_room(self, engine) -> bool:
        raise RuntimeError(
            f"OPES {self.name!r}: there must be at most {_CAPACITY} Gaussians, got one more "
            f"{engine.plans[self.name].evaluation.at_step()} (set smallest_sigma, or a larger sigma)"
        )

    def _still(self, engine) -> bool:
        raise VariableError(
            f"OPES {self.name!r}: a variable has not moved "
            f"{engine.plans[self.name].evaluation.at_step()}, so that no sigma follows from its spread "
            "(give sigma or smallest_sigma)"
        )

    @property
    def _movable(self):  # type: ignore[override]
        return not self._active[0]

    def claim(self, engine):
        if self._engine is not None:  # states are numbered from 0 again
            self._kept.become(self._kept.values[:0])
            self._state[kernels.LAST] = 0.0
        super().claim(engine)

    def freeze(self, frozen: bool = True) -> OPES:
        """Stop adding Gaussians (recording continues), or start again.

        A frozen bias may be given to another simulation of the same temperature. The records of that one then take the
        place of those before, and the first simulation cannot run on.
        """
        self._active[0] = not frozen
        return self

    # -- results -------------------------------------------------------------------------------------------------------

    def _records(self):
        return self._kept.values

    @property
    def biases(self) -> np.ndarray:
        """The bias in the recorded states [m], in kJ/mol."""
        return self._records()[:, -1]

    @property
    def heights(self) -> np.ndarray:
        """Heights of the Gaussians [k]; those of a density up to a factor."""
        return self._gaussians[0, : int(self._state[kernels.COUNT])].copy()

    @property
    def centers(self) -> np.ndarray:
        """Centers of the Gaussians [k, d]."""
        return self._gaussians[1 : 1 + len(self.cvs), : int(self._state[kernels.COUNT])].T.copy()

    @property
    def sigmas(self) -> np.ndarray:
        """Widths of the Gaussians [k, d]."""
        d = len(self.cvs)
        return self._gaussians[1 + d : 1 + 2 * d, : int(self._state[kernels.COUNT])].T.copy()

    @property
    def normalization(self) -> float:
        """The Z above: it rises to 1 where the density is flat, and stays when no new region is found."""
        return float(self._state[kernels.Z])

    @property
    def effective_samples(self) -> float:
        """Effective number of states that the Gaussians were made of."""
        return float((1 + self._state[kernels.WEIGHTS]) ** 2 / (1 + self._state[kernels.SQUARES]))

    @property
    def offset(self) -> float:
        r"""The present :math:`c = RT \ln \langle e^{V/RT} \rangle` in kJ/mol, flat when the bias has converged."""
        self._need("offset")
        return float(
            self._options[kernels.THERMAL] * math.log(self._state[kernels.WEIGHTS] / self._state[kernels.SAMPLES])
        )

    def bias(self, *values: Any) -> np.ndarray:
        """The present bias in kJ/mol.

        Parameters
        ----------
        *values : array
            Values of each variable; their shapes broadcast.

        Raises
        ------
        ValueError
            If the number of variables is another one, or the temperature is not known yet.
        """
        self._need("bias")
        d = len(self.cvs)
        if len(values) != d:
            raise ValueError(f"OPES.bias: values of {d} variables are needed, got {len(values)}")
        points = np.stack(np.broadcast_arrays(*(np.asarray(v, np.float64) for v in values)), axis=-1)
        check.finite(points, "OPES.bias: values")
        result = np.zeros(points.shape[:-1])
        kernels.bias_at(
            np.ascontiguousarray(points.reshape(-1, d)),
            self._gaussians,
            self._state,
            self._options,
            np.zeros(d),
            result.reshape(-1),
        )
        return result

    def free_energy(self, *values: Any) -> np.ndarray:
        r"""Free energy by the present bias, :math:`-V \gamma / (\gamma - 1)`, in kJ/mol and up to a constant.

        Where the run has not been it ends at the barrier. `analysis.profile` and `analysis.free_energy` estimate it
        from the recorded `values` and `weights`, with errors.

        Parameters
        ----------
        *values : array
            As of `bias`.
        """
        self._need("free_energy")
        gamma = self._options[kernels.BIAS_FACTOR]
        return -self.bias(*values) / (1 - 1 / gamma)

    def log_weights(self) -> np.ndarray:
        """Logarithms V / RT of weights that take the recorded states to the unbiased ensemble [m]."""
        self._need("weights")
        if not len(self._records()):
            raise ValueError("OPES.weights: nothing was recorded yet")
        return self.biases / self._options[kernels.THERMAL]

    def weights(self) -> np.ndarray:
        """Weights of the recorded states, of sum 1, that take them to the unbiased ensemble [m].

        Leave out the first ones, when the bias changed fast: up to where `offset` became flat.
        """
        log = self.log_weights()
        weights = np.exp(log - log.max())
        return weights / weights.sum()

    def _need(self, what):
        if self._temperature is None:
            raise ValueError(f"OPES.{what}: needs a temperature (give it to OPES, or put it into a simulation)")

    # -- restarts ------------------------------------------------------------------------------------------------------

    def state(self):
        """Gaussians, their statistics and records."""
        return {
            "gaussians": self._gaussians[:, : int(self._state[kernels.COUNT])].copy(),
            "state": self._state.copy(),
            "active": self._active.copy(),
            "records": self._records(),
        }

    def restore(self, state):
        found = state["gaussians"]
        self._gaussians[0] = 0.0
        self._gaussians[:, : found.shape[1]] = found
        self._state[:], self._active[:] = state["state"], state["active"]
        self._kept.become(state["records"])
