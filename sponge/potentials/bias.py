"""Static biases on collective variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import cv
from ..codegen.handle import Handle
from ..cv.compiled import Evaluation
from ..cv.variable import CollectiveVariable, as_variables
from ..potential import Potential, read_in_place

__all__ = ["BiasPotential", "umbrella"]


class BiasPotential(Potential):
    """A term of the energy from a function of collective variables, compiled into the step loop by the core.

    Parameters
    ----------
    function : callable
        ``function(s1, s2, ..., **params)`` -> energy in kJ/mol: NumPy code of scalars that the core can trace.
    cvs : CollectiveVariable or sequence of CollectiveVariable
        The s1, s2, ...
    params : mapping of str to array, optional
        The function's further arguments: parameters for derivatives and fits.
    name : str
        Name under which the energy is reported.

    Raises
    ------
    VariableError
        From a run, when a variable or its gradient is not defined; says which, when, and for which atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import cv
    >>> from triskele.sponge import BiasPotential
    >>> def wall(r, k, upper):
    ...     return 0.5 * k * np.maximum(r - upper, 0.0) ** 2
    >>> BiasPotential(wall, cv.distance(0, 9), {"k": 5000.0, "upper": 1.2}, name="wall")
    <BiasPotential 'wall': k (), upper ()>
    """

    def __init__(self, function: Callable, cvs: Any, params: Mapping[str, Any] | None = None, name: str = "bias"):
        where = f"bias {name!r}"
        check.kind(function, Callable, where, "a function of collective variables")
        self.function, self.name = function, name
        self.cvs = as_variables(where, cvs)
        self.params = {key: np.array(value, np.float64) for key, value in (params or {}).items()}
        for key, value in self.params.items():
            check.finite(value, f"{where}: parameter {key}")
        try:
            inspect.signature(function).bind(*self.cvs, **self.params)
        except TypeError as error:
            raise TypeError(
                f"{where}: the function must take {len(self.cvs)} variables and the parameters "
                f"{', '.join(self.params) or 'none'}: {error}"
            ) from None
        except ValueError:  # a builtin without signature
            pass

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        return self.function(*(variable(positions, box) for variable in self.cvs), **params)

    def check(self, system):
        for variable in self.cvs:
            variable.check(system, f"bias {self.name!r}")

    def plan(self, engine):
        m, names = len(self.cvs), list(self.params)

        def energy(*values):
            return self.function(*values[:m], **dict(zip(names, values[m:], strict=True)))

        plan = Evaluation(engine, self.cvs, f"bias {self.name!r}", energy, list(self.params.values())).plan()
        return replace(plan, updates=dict.fromkeys(self.params, read_in_place))

    def __getstate__(self):
        function = self.function if isinstance(self.function, _Harmonic) else Handle(self.function)
        return self.__dict__ | {"function": function}

    def __setstate__(self, state):
        function = state["function"]
        self.__dict__.update(state, function=function.get() if isinstance(function, Handle) else function)


def umbrella(cvs: Any, center: Any, k: Any, *, name: str = "umbrella") -> BiasPotential:
    r"""Harmonic bias :math:`\sum_c k_c (s_c - s_c^0)^2 / 2` on collective variables; periodic ones go the shortest way.

    Parameters
    ----------
    cvs : CollectiveVariable or sequence of m CollectiveVariable
    center : float or (m,) array
        The s0, in the variables' units.
    k : float or (m,) array
        Force constant in kJ/mol per square of the variable's unit.
    name : str
        Name under which the energy is reported.

    Examples
    --------
    >>> from triskele.sponge import cv
    >>> from triskele.sponge import umbrella
    >>> umbrella(cv.torsion(4, 6, 8, 14), center=-1.2, k=200.0)
    <BiasPotential 'umbrella': center (1,), k (1,)>
    """
    where = f"umbrella {name!r}"
    found = as_variables(where, cvs)
    params = {}
    for key, given in (("center", center), ("k", k)):
        value = check.shape(
            np.asarray(given, np.float64),
            [(), (len(found),)],
            f"{where}: {key}",
            hint="a number or one for each variable",
        )
        params[key] = np.broadcast_to(value, (len(found),))
    for variable, value in zip(found, params["center"]):
        variable.check_values(where, "center", value)
    return BiasPotential(_Harmonic(found), found, params, name)


class _Harmonic:
    """The energy of `umbrella`."""

    def __init__(self, cvs: list[CollectiveVariable]):
        self.cvs = cvs

    def __call__(self, *values: Any, center: Any, k: Any) -> Any:
        total = 0.0
        for c, variable in enumerate(self.cvs):
            total = total + 0.5 * k[c] * variable.difference(values[c], center[c]) ** 2
        return total


def _product(a, b, k):
    return k * np.cos(a) * b**2


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    biases = [
        umbrella(
            [cv.torsion(0, 1, 2, 3), cv.distance(0, 9), cv.angle(2, 5, 4)],
            center=[3.0, 0.5, 1.0],
            k=[30.0, 2000.0, 100.0],
        ),
        BiasPotential(
            _product, [cv.torsion(3, 4, 5, 6), cv.coordination([0, 1], [7, 8, 9], r0=0.3)], {"k": 20.0}, name="product"
        ),
    ]
    whole = umbrella(
        [
            cv.rmsd(range(6), np.eye(3)[np.arange(6) % 3] + np.arange(18).reshape(6, 3) % 5),
            cv.radius_of_gyration(range(12)),
        ],
        center=[0.1, 0.2],
        k=1000.0,
        name="shape",
    )
    return [([*biases, whole], {}), (biases, {"box": [[0.9, 0, 0], [0.2, 0.8, 0], [-0.1, 0.3, 0.9]]})]
