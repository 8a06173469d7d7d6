"""Quasi-Newton minimization of smooth functions: SciPy's L-BFGS-B on trees, with compiled gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..compile.jit import jit
from ..show.report import Reports, Work
from ..show.short_repr import short_repr
from ..transforms.grad import check_inexact, value_and_grad

__all__ = ["LBFGS", "Result"]


@short_repr
class Result(NamedTuple):
    """Result of a minimization.

    Parameters
    ----------
    params : tree
        The parameters with the lowest value.
    value : float
    steps, evaluations : int
        Numbers of steps, and of values with gradients.
    converged : bool
    message : str
        The reason for the end.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> result = optim.LBFGS().minimize(lambda x: np.sum((x - 2.0) ** 2), np.zeros(3))
    >>> result.params.round(6), result.converged
    (array([2., 2., 2.]), True)
    """

    params: Any
    value: float
    steps: int
    evaluations: int
    converged: bool
    message: str


@dataclass(frozen=True)
class LBFGS:
    """Limited-memory BFGS (Liu & Nocedal 1989; line search of Moré & Thuente) for deterministic losses.

    Parameters
    ----------
    history : int, default 10
        Number of steps whose changes approximate the Hessian.
    max_steps : int, default 1000
    gradient_tolerance : float, default 1e-8
        Converged when no entry of the gradient is larger.
    value_tolerance : float, default 1e-14
        Converged when a step changes the value by less, relative to the value.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.optim import LBFGS
    >>> result = LBFGS().minimize(lambda x: np.sum((x - 2.0) ** 2), np.zeros(3))
    >>> np.round(result.params, 6)
    array([2., 2., 2.])
    """

    history: int = 10
    max_steps: int = 1000
    gradient_tolerance: float = 1e-8
    value_tolerance: float = 1e-14

    def minimize(
        self, f: Callable[..., Any], params: Any, *args: Any, report: Reports = None, progress: bool | None = None
    ) -> Result:
        """Minimize ``f(params, *args)``.

        Parameters
        ----------
        f : callable
            Real scalar function of a tree of real arrays.
        params : tree
            Where to start.
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step`` and ``loss``; see `core.report`. A reporter that
            raises StopIteration ends the minimization.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.

        Returns
        -------
        Result
        """
        from scipy import optimize

        leaves, structure = tree.flatten(params)
        check_inexact(leaves, "LBFGS.minimize")
        shapes = [np.shape(x) for x in leaves]
        dtypes = [np.result_type(x) for x in leaves]
        if any(d.kind == "c" for d in dtypes):
            raise TypeError(
                "LBFGS.minimize: parameters must be real, got complex ones (optimize real and imaginary part)"
            )
        ends = np.cumsum([int(np.prod(s)) for s in shapes])
        gradient = jit(value_and_grad(f))

        def unpack(x):
            parts = np.split(x, ends[:-1])
            return tree.unflatten(
                structure, [p.reshape(s).astype(d) for p, s, d in zip(parts, shapes, dtypes, strict=True)]
            )

        def pack(t):
            return np.concatenate([np.ravel(x).astype(np.float64) for x in tree.leaves(t)])

        def objective(x):
            value, grads = gradient(unpack(x), *args)
            return float(value), pack(grads)

        def after_step(intermediate_result):
            work({"step": work.step + 1, "loss": float(intermediate_result.fun)})
            if work.stopped:
                raise StopIteration

        with Work("LBFGS.minimize", report, progress) as work:
            r = optimize.minimize(
                objective,
                pack(params),
                jac=True,
                method="L-BFGS-B",
                callback=after_step,
                options={
                    "maxcor": self.history,
                    "maxiter": self.max_steps,
                    "gtol": self.gradient_tolerance,
                    "ftol": self.value_tolerance,
                },
            )
        return Result(
            unpack(r.x), float(r.fun), int(r.nit), int(r.nfev), bool(r.success), work.stopped or str(r.message)
        )
