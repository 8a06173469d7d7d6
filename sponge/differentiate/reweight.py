"""Gradients of ensemble averages by reweighting: no trajectory is differentiated at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from triskele import core
from triskele.core import tree
from triskele.core.extend import TriskeleError, check

from .. import units
from ..analysis.mbar import free_energies_of_states
from ..analysis.wham import log_sum
from .energy_function import EnergyFunction
from .observables import Observable, function

__all__ = ["Ensemble", "OverFrames", "PoorOverlapError"]

_REMEMBERED = 4  # parameters at which values in all frames are kept: a fit asks for them several times over
_BATCH = 1 << 18  # squared numbers of atoms that are worked on at once


class PoorOverlapError(TriskeleError, ValueError):
    """Too few of the frames matter at the parameters that are asked for."""


class Ensemble:
    r"""Frames that were sampled at some parameters, and averages over them at others.

    .. math:: \langle O \rangle_\theta = \sum_n w_n O_\theta(x_n), \qquad
              w_n \propto \frac{e^{-\beta U_\theta(x_n)}}{\sum_k N_k e^{f_k - \beta U_k(x_n)}}

    with the free energies f_k of the references k by MBAR [2]_; with one reference these are the weights of DiffTRe
    [1]_. Averages are differentiable functions of the parameters, with

    .. math:: \frac{d\langle O \rangle}{d\theta} = \left\langle \frac{dO}{d\theta} \right\rangle
              - \beta \left(\left\langle O \frac{dU}{d\theta} \right\rangle - \langle O \rangle \left\langle
                \frac{dU}{d\theta} \right\rangle\right)

    Memory is that of the frames, whatever the length of the trajectories they come from. Frames may come from constant
    volume, or from constant pressure (with their boxes): the term of pressure and volume is the same for all parameters
    and cancels.

    Parameters
    ----------
    energy : callable
        ``energy(params, positions, box)`` in kJ/mol: ``system.energy_function()``, `explicit_energy`, or any function
        of the core, such as one that makes all parameters of a system from a few. `params` is a tree of arrays.
    temperature : float, K
        Temperature of the sampling.
    least : float
        Averages raise PoorOverlapError when the effective number of frames falls below this fraction of all.

    References
    ----------
    .. [1] Thaler, Zavadlav, "Learning neural network potentials from experimental data via Differentiable Trajectory
       Reweighting", Nat. Commun. 12 (2021) 6884. doi:10.1038/s41467-021-27241-4
    .. [2] Shirts, Chodera, "Statistically optimal analysis of samples from multiple equilibrium states", J. Chem. Phys.
       129 (2008) 124105. doi:10.1063/1.2978177

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.differentiate import Ensemble
    >>> from triskele import core, sponge
    >>> energy = lambda k, x, box: 0.5 * k * np.sum(x * x)
    >>> rt = sponge.units.GAS_CONSTANT * 300
    >>> frames = np.random.default_rng(0).normal(size=(20_000, 1, 3)) * np.sqrt(rt / 100.0)
    >>> ensemble = Ensemble(energy, temperature=300).add(100.0, frames)
    >>> spread = lambda k: ensemble.average(lambda x, box: np.sum(x * x), k)  # 3 RT / k
    >>> (spread(105.0) * 105 / rt).round(1), (core.grad(spread)(100.0) * -100**2 / rt).round(1)
    (np.float64(3.0), np.float64(3.0))
    """

    def __init__(self, energy: Callable[..., Any], temperature: float, least: float = 0.05):
        check.positive(temperature, "Ensemble: temperature", "K")
        if not 0 <= least < 1:
            raise ValueError(f"Ensemble: least must be a fraction of the frames, 0 <= least < 1, got {least!r}")
        self.energy, self.least = energy, float(least)
        self.beta = 1 / (units.GAS_CONSTANT * temperature)
        self.positions = np.empty((0, 0, 3))
        self.boxes: np.ndarray | None = None
        self.counts: list[int] = []  # of each reference
        self._params: list[Any] = []
        self._reduced = np.empty((0, 0))  # beta U of each reference in all frames
        self._log_mixture = np.empty(0)
        self._made: dict[Any, OverFrames] = {}
        self._fixed: dict[Any, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"<Ensemble: {len(self)} frames of {len(self.counts)} references>"

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, params: Any, positions: Any, boxes: Any = None) -> Ensemble:
        """Take over frames that were sampled at `params`.

        Parameters
        ----------
        params : tree
        positions : (frames, n, 3) array, nm
            Equilibrated, molecules whole. Those that are correlated do no harm, but count for less than they
            seem to.
        boxes : (frames, 3, 3) or (3, 3) array, optional

        Returns
        -------
        Ensemble
            Itself.

        Raises
        ------
        ValueError
            If shapes do not fit, or an energy is not finite.
        """
        positions = np.array(positions, np.float64)
        if positions.ndim != 3 or positions.shape[2] != 3 or not len(positions):
            raise ValueError(f"Ensemble: positions must have shape [frames, n, 3], got {positions.shape}")
        if boxes is not None:
            boxes = np.array(np.broadcast_to(np.asarray(boxes, np.float64), (len(positions), 3, 3)))
        if self.counts:
            if positions.shape[1] != self.positions.shape[1] or (boxes is None) != (self.boxes is None):
                raise ValueError("Ensemble: all frames must have the same atoms, and all or none a box")
            self.positions = np.concatenate([self.positions, positions])
            self.boxes = None if boxes is None else np.concatenate([self.boxes, boxes])
        else:
            self.positions, self.boxes = positions, boxes
        self.counts.append(len(positions))
        self._params.append(params)
        self._made.clear()
        self._fixed.clear()
        energies = [self._over(self.energy, p) for p in self._params]
        self._reduced = self.beta * np.array(energies)
        if not np.isfinite(self._reduced).all():
            raise ValueError(
                f"Ensemble: energies of frames must be finite, got {energies[-1][~np.isfinite(energies[-1])][:1]}"
            )
        f = _free_energies(self._reduced, np.array(self.counts))
        self._log_mixture = log_sum(np.log(self.counts)[:, None] + f[:, None] - self._reduced)
        return self

    # -- averages ------------------------------------------------------------------------------------------------------

    def weights(self, params: Any) -> Any:
        """Weights [frames] of the frames at `params`, whose sum is 1."""
        return _normalized(self._log_weights(params))

    def _log_weights(self, params):
        if not self.counts:
            raise ValueError("Ensemble: there are no frames (add some)")
        return -self.beta * self._over(self.energy, params) - self._log_mixture

    def effective_samples(self, params: Any) -> float:
        """Kish's effective number of frames at `params`, 1 / sum w^2: of all frames when nothing changes."""
        return float(1 / np.sum(self.weights(params) ** 2))

    def average(self, observable: Any, params: Any) -> Any:
        """The ensemble average at `params`, to be differentiated by these.

        Parameters
        ----------
        observable : Observable, callable, or list of these
            A callable is a function of positions and box, ``f(positions, box)``.
        params : tree

        Returns
        -------
        number or array, or a list of them

        Raises
        ------
        PoorOverlapError
            If the effective number of frames is below `least` of all.
        """
        several = isinstance(observable, (list, tuple))
        weights = _normalized(_enough(self._log_weights(params), least=self.least))
        found = []
        for o in observable if several else [observable]:
            o = o if isinstance(o, Observable) else self._wrapped(o)
            values = self.values(o, params)
            found.append(o.final(np.tensordot(weights, values, 1)))
        return found if several else found[0]

    def values(self, observable: Observable, params: Any) -> Any:
        """Return the observable in each frame at `params`, (frames, ...)."""
        if observable.of_params:
            return self._over(observable.frame, params)
        if observable.frame not in self._fixed:
            self._fixed[observable.frame] = self._over(observable.frame, core.tree.map(core.stop_gradient, params))
        return self._fixed[observable.frame]

    def _wrapped(self, f):
        if f not in self._made:
            self._made[f] = function(f)  # type: ignore[assignment]
        return self._made[f]

    def _over(self, f, params):
        leaves, structure = tree.flatten(params)
        leaves = [x if isinstance(x, core.Tensor) else np.asarray(x, np.float64) for x in leaves]
        key = f, structure
        if key not in self._made:
            self._made[key] = OverFrames(f, structure, self.positions, self.boxes)
        call = self._made[key]
        if not any(isinstance(x, core.Tensor) for x in leaves):
            return call.values(leaves)
        return _over(call, *leaves)


def _normalized(log):
    w = np.exp(log - core.stop_gradient(np.max(log)))
    return w / np.sum(w)


def _free_energies(reduced, counts):
    """Free energies of the references by MBAR; u [references, frames]."""
    try:
        return free_energies_of_states(reduced, counts)
    except ValueError as error:
        raise PoorOverlapError(
            "Ensemble: the references must overlap, but MBAR's equations do not converge "
            "(parameters closer to each other)"
        ) from error


class OverFrames:
    """``f(params, positions, box)`` in all frames, compiled for some frames at once.

    An `EnergyFunction`, or a function with a true attribute `kernels`, is called as it is, one frame at a time.
    """

    def __init__(
        self,
        f: Callable[..., Any],  # returns a number or an array
        structure: Any,  # tree structure of `params`; None for a single array
        positions: np.ndarray,
        boxes: np.ndarray | None,
    ):  # (frames, n, 3), (frames, 3, 3)
        self.positions, self.boxes = positions, boxes
        compiled = not (isinstance(f, EnergyFunction) or getattr(f, "kernels", False))
        self.size = min(max(_BATCH // positions.shape[1] ** 2, 1), 256, len(positions)) if compiled else 1
        axes = (None, 0, None if boxes is None else 0)

        def value(leaves, x, box):
            return f(leaves[0] if structure is None else tree.unflatten(structure, leaves), x, box) + 0.0

        def both(leaves, x, box):
            y = value(leaves, x, box)
            if np.shape(y) == ():
                return core.value_and_grad(value)(leaves, x, box)
            outputs, inputs = np.size(y), sum(np.size(leaf) for leaf in leaves)
            return y, (core.jacfwd if inputs < outputs else core.jacrev)(value)(leaves, x, box)

        def of_several(g):
            if compiled:
                return core.jit(core.vmap(g, axes))
            return lambda leaves, x, box: core.tree.map(
                lambda y: np.asarray(y)[None], g(leaves, x[0], None if box is None else box[0])
            )

        self.value, self._values, self._jacobians = value, of_several(value), of_several(both)
        self._known: dict[tuple[bytes, ...], tuple[Any, Any]] = {}  # values and derivatives at the last parameters

    def _each(self, g, leaves):
        """``g(leaves, positions, boxes)`` over batches of one size, put together; the last is filled up."""
        found = []
        for start in range(0, len(self.positions), self.size):
            some = np.minimum(np.arange(start, start + self.size), len(self.positions) - 1)
            found.append(g(leaves, self.positions[some], None if self.boxes is None else self.boxes[some]))
        return core.tree.map(lambda *parts: np.concatenate(parts)[: len(self.positions)], *found)

    def values(self, leaves: Any) -> np.ndarray:
        """Values [frames, ...] for the leaves of `params`."""
        known, keep = self._remembered(leaves)
        return known[0] if known[0] is not None else keep(self._each(self._values, leaves), None)[0]

    def jacobians(self, leaves: Any) -> tuple[np.ndarray, ...]:
        """Values [frames, ...], and their derivatives by every leaf [frames, ..., *leaf]."""
        known, keep = self._remembered(leaves)
        values, jacobians = known if known[1] is not None else keep(*self._each(self._jacobians, leaves))
        return values, *[np.asarray(j) for j in jacobians]

    def _remembered(self, leaves):
        key = tuple(np.asarray(x).tobytes() for x in leaves)

        def keep(*found):
            while len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = found
            return found

        return self._known.get(key, (None, None)), keep


def _spec(leaves, call):
    one = core.spec(
        np.shape(
            call.value(
                [np.ones(s.shape) for s in leaves], call.positions[0], None if call.boxes is None else call.boxes[0]
            )
        )
    )
    return core.spec((len(call.positions), *one.shape))


@core.custom_op(out=lambda *leaves, call: _spec(leaves, call), mode="python", batch="sequential")
def _values(*leaves, call):
    return call.values(list(leaves))


@core.custom_op(
    out=lambda *leaves, call: (
        _spec(leaves, call),
        *[core.spec((*_spec(leaves, call).shape, *s.shape)) for s in leaves],
    ),
    mode="python",
    batch="sequential",
)
def _jacobians(*leaves, call):
    return call.jacobians(list(leaves))


@partial(core.custom_vjp, nondiff_argnums=(0,))
def _over(call, *leaves):
    return _values(*leaves, call=call)


def _forward(call, *leaves):
    values, *jacobians = _jacobians(*leaves, call=call)
    return values, jacobians


def _backward(call, jacobians, cotangent):
    return tuple(np.tensordot(cotangent, j, np.ndim(cotangent)) for j in jacobians)


_over.defvjp(_forward, _backward)


@core.custom_op(out=lambda log, least: log, mode="python", batch="sequential")
def _enough(log, least):
    effective = 1 / np.sum(_normalized(log) ** 2)
    if not effective >= least * len(log):
        raise PoorOverlapError(
            f"Ensemble: the effective number of frames must be at least {least:g} of all "
            f"{len(log)}, got {effective:.1f} "
            "(add frames that are sampled at parameters nearer to these)"
        )
    return np.asarray(log)


@_enough.vjp
def _(cotangent, out, log, least):
    return (cotangent,)
