"""Potentials between all pairs of atoms from a scalar function of their distance: `pair_potential`.

The compiled form is generated: the function and its derivative as vector code (`codegen.simd_source`) inside the loops
over cluster pairs that the built-in Lennard-Jones and Coulomb kernels use (`nonbonded.kernels`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from triskele.core.extend import Elementwise, check

from ...box import check_cutoff, displacement
from ...neighbors.pairs import find_pairs
from ...potential import Potential
from ...topology import as_indices, check_indices
from ..at_values import Part, at_values
from ..bonded.terms import (
    arguments,
    checked_function,
    class_and_state,
    given_parameters,
    potential_class,
    present_function,
)
from . import formulas
from .mixing import check_size, root

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...protocols import SystemLike

__all__ = ["PairPotential", "pair_potential", "truncated"]

RULES = ("arithmetic", "geometric", "product")
_BLOCK = 1 << 15  # pairs of the pure energy that are worked on at once
_OWN = ("name", "cutoff", "switch", "shift", "mixing", "types")  # arguments of the potential itself


class PairPotential(Potential):
    """A sum over all pairs of atoms that are not among the system's exclusions. Made by `pair_potential`.

    Parameters
    ----------
    cutoff : float, nm, optional
        Defaults to all pairs, without images,.
    switch : float, optional
        Distance (nm) from which the energy is brought to zero at the cut-off by the factor 1 - 10 x^3 + 15 x^4 - 6 x^5,
        x = (r - switch) / (cutoff - switch).
    shift : bool
        Take the energy at the cut-off off every pair.
    mixing : str or dict of str to str, optional
        How parameters [n] of atoms combine: "arithmetic" (mean), "geometric" (root of the product) or "product"; for
        all of them or by name.
    types : (n,) int, optional
        Type of each atom, for parameters that are tables [t, t].
    name : str, optional
    **params : float, (n,) array or (t, t) array
        The function's other arguments, by name: for all pairs alike, by atom, or by types of both atoms.
    """

    conserves_momentum = True
    function: ClassVar[Elementwise]
    default_name: ClassVar[str]

    def __init__(
        self,
        *,
        name: str | None = None,
        cutoff: float | None = None,
        switch: float | None = None,
        shift: bool = False,
        mixing: str | Mapping[str, str] | None = None,
        types: Any = None,
        **params: Any,
    ):
        where = type(self).__name__
        self.name = name or self.default_name
        self.cutoff = None if cutoff is None else float(cutoff)
        self.switch = None if switch is None else float(switch)
        self.shift = bool(shift)
        if self.cutoff is None:
            if switch is not None or shift:
                raise ValueError(f"{where}: switch and shift need a cutoff")
        else:
            check.positive(self.cutoff, f"{where}: cutoff", "nm")
            if self.switch is not None and not 0 < self.switch < self.cutoff:
                raise ValueError(f"{where}: switch must lie between 0 and the cut-off {cutoff} nm, got {switch}")
        self.types = None if types is None else as_indices(types, f"{where}: types").reshape(-1)
        self.params, self.rules = {}, {}
        values = given_parameters(where, self.function, params)
        if isinstance(mixing, Mapping) and (unknown := [n for n in mixing if n not in values]):
            raise TypeError(f"{where}: mixing must name some of {', '.join(values)}, got {', '.join(unknown)}")
        for n, value in values.items():
            self.params[n] = np.array(value, np.float64)
            self.rules[n] = self._rule(where, n, mixing.get(n) if isinstance(mixing, Mapping) else mixing)
        self.exclusions = np.empty((0, 2), np.int32)

    def _rule(self, where, name, rule):
        values = self.params[name]
        if values.ndim == 0:
            return "same"
        if values.ndim == 2:
            if self.types is None or values.shape[0] != values.shape[1]:
                raise ValueError(
                    f"{where}: parameter {name} of shape {values.shape} must be square, and types must be given"
                )
            check_size(f"{where}: parameter {name}", values)
            check_indices(self.types, len(values), f"{where}: types for {name}")
            if not np.allclose(values, values.T, rtol=1e-12, atol=0, equal_nan=True):
                raise ValueError(f"{where}: the table {name} must be symmetric")
            return "table"
        if values.ndim > 2:
            raise ValueError(
                f"{where}: parameter {name} must be a number, one per atom or a table, got shape {values.shape}"
            )
        if rule not in RULES:
            raise ValueError(
                f"{where}: mixing must say how {name} of two atoms combine, one of {', '.join(RULES)}, got {rule!r}"
            )
        if rule == "geometric" and np.any(values < 0):
            raise ValueError(f"{where}: parameter {name} must be >= 0 for geometric mixing, got {values.min()}")
        return rule

    def check(self, system):
        where = f"{type(self).__name__} {self.name!r}"
        for name, values in self.params.items():
            if values.ndim == 1 and len(values) != system.n:
                raise ValueError(
                    f"{where}: parameter {name} must be one for each of {system.n} atoms, got {len(values)}"
                )
            if not np.all(np.isfinite(values)):
                of = f" for {system.topology.describe(int(np.argmin(np.isfinite(values))))}" if values.ndim == 1 else ""
                raise ValueError(f"{where}: parameter {name} must be finite, got {values[~np.isfinite(values)][0]}{of}")
        self.check_pairs(system)

    def check_pairs(self, system: SystemLike) -> None:
        """Raise ValueError if types or cut-off do not fit the system; take its exclusions."""
        self.exclusions = system.exclusions
        if self.types is not None and len(self.types) != system.n:
            where = f"{type(self).__name__} {self.name!r}"
            raise ValueError(f"{where}: types must be one for each of {system.n} atoms, got {len(self.types)}")
        self.check_box(system.box)

    def check_box(self, box: np.ndarray | None) -> None:
        """Raise BoxError if the cut-off is too long for the box."""
        if box is not None and self.cutoff is not None:
            check_cutoff(self.name, self.cutoff, box)

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        if self.cutoff is None:
            box = None
        values = self.coefficients(params)
        leaves = [values[n] for n in self.rules] + [positions] + ([] if box is None else [box])
        return at_values(_Terms(self, box is not None), *leaves)

    def coefficients(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values of the arguments of the function: the parameters, or what a subclass makes of them."""
        return params

    def pair_function(self) -> Elementwise:
        """The energy of one pair: the function with shift and switch."""
        return truncated(present_function(self), self.cutoff, self.switch, self.shift)

    def kernel_form(self) -> tuple[Elementwise, Mapping[str, str], Mapping[str, Any]]:
        """What the kernels compute: the energy of one pair, and for its arguments how they combine, and their values:
        numbers, those of atoms (already by atom), and tables by types.
        """
        return self.pair_function(), self.rules, self.coefficients(self.params)

    @property
    def pair_scope(self) -> Literal["listed", "all"]:  # type: ignore[override]
        """Return "all" without a cut-off, "listed" with a neighbor list."""
        return "all" if self.cutoff is None else "listed"

    def steepness(self) -> tuple[float, float]:
        """Largest absolute first and second derivative of the energy at the cut-off, over a sample of pairs: what
        missed pairs cost.
        """
        assert self.cutoff is not None
        given = self.coefficients(self.params)
        lengths = [len(given[k]) for k, rule in self.rules.items() if rule not in ("same", "table")]
        n = max([*lengths, 1 if self.types is None else len(self.types)])
        i, j = np.random.default_rng(0).integers(0, n, (2, 1000))
        types = None if self.types is None else (self.types[i], self.types[j])
        values = [_mixed(rule, given[k], i, j, types) for k, rule in self.rules.items()]
        function, inside = self.pair_function(), np.full(len(i), self.cutoff * (1 - 1e-6))
        r = function.names[0]
        return tuple(float(np.max(np.abs(function.partial(*names)(inside, *values)))) for names in ((r,), (r, r)))  # type: ignore[return-value]

    def plan(self, engine):
        from . import kernels

        return kernels.plan(self, engine)

    def param_gradients(self, engine: Engine) -> dict[str, np.ndarray] | None:
        """Derivatives of the energy by all parameters at what `engine` has last computed; None if there are no kernels
        for them.
        """
        from . import kernels

        return kernels.gradients(self, engine)

    def __reduce__(self):
        return class_and_state(self)


# ---------------------------------------------------------------------------------------------------------- pure energy
def truncated(function: Elementwise, cutoff: float | None, switch: float | None, shift: bool) -> Elementwise:
    """The energy of one pair with shift and switch."""
    if cutoff is None or (not shift and switch is None):
        return function
    if (key := ("truncated", cutoff, switch, shift)) in function.kept:
        return function.kept[key]

    def energy(r, *params):
        u = function(r, *params)
        if shift:
            u = u - function(cutoff, *params)
        if switch is not None:
            u = u * formulas.switch(r, switch, cutoff)
        return u

    energy.__name__ = energy.__qualname__ = function.__name__
    function.kept[key] = Elementwise(energy, function.names)
    return function.kept[key]


class _Terms:
    """The sum at given values, in blocks of pairs."""

    def __init__(self, potential, periodic):
        self.potential, self.periodic = potential, periodic

    def __call__(self, *leaves):
        p = self.potential
        positions, box = (leaves[-2], leaves[-1]) if self.periodic else (leaves[-1], None)
        p.check_box(box)
        pairs = find_pairs(positions, box, p.cutoff, p.exclusions)
        function = _block_function(p.pair_function(), tuple(p.rules.items()), self.periodic)
        parts = []
        for start in range(0, len(pairs), _BLOCK):
            block, real = pairs[start : start + _BLOCK], None
            if len(pairs) > 2 * _BLOCK:  # the last is filled up, so that all have one shape
                real = np.arange(_BLOCK) < len(block)
                block = np.concatenate([block, np.broadcast_to(pairs[0], (_BLOCK - len(block), 2))])
            i, j = np.ascontiguousarray(block.T)
            types = None if p.types is None else (p.types[i], p.types[j])
            parts.append(Part(function, (i, j, types, real), real is not None))
        return parts


def _block_function(function, rules, periodic):
    if (key := ("block", rules, periodic)) in function.kept:
        return function.kept[key]

    def energy(data, *leaves):
        i, j, types, real = data
        positions, box = (leaves[-2], leaves[-1]) if periodic else (leaves[-1], None)
        d = displacement(positions[i] - positions[j], box)
        square = np.sum(d * d, axis=-1)
        if real is not None:
            square = np.where(real, square, 1.0)
        u = function(
            np.sqrt(square), *[_mixed(rule, x, i, j, types) for (_, rule), x in zip(rules, leaves, strict=False)]
        )
        return np.sum(u if real is None else np.where(real, u, 0.0))

    function.kept[key] = energy
    return energy


def _mixed(rule, values, i, j, types):
    if rule == "same":
        return values
    if rule == "table":
        a, b = types
        return 0.5 * (values[a, b] + values[b, a])  # the two halves of the table share a derivative
    if rule == "arithmetic":
        return 0.5 * (values[i] + values[j])
    return values[i] * values[j] if rule == "product" else root(values)[i] * root(values)[j]


# ------------------------------------------------------------------------------------------------------------ decorator
def pair_potential(function: Callable | None = None, *, name: str | None = None) -> Any:
    """Make a potential between all pairs of atoms from the energy of one pair as a function of the distance.

    Parameters
    ----------
    function : callable
        ``function(r, ...)`` -> energy in kJ/mol, of the distance in nm and of any further parameters: a function of
        scalars as for `core.elementwise`.
    name : str, optional
        Name under which energies are reported. Defaults to the function's.

    Returns
    -------
    type
        A subclass of `PairPotential`: call it with the parameters, cut-off and mixing rules.

    Examples
    --------
    >>> import math
    >>> from triskele.sponge import pair_potential
    >>> @pair_potential
    ... def buckingham(r, a, b, c):
    ...     return a * math.exp(-b * r) - c / r**6
    >>> buckingham(a=1e5, b=[35.0, 36.0], c=2e-3, cutoff=1.0, mixing={"b": "arithmetic"})
    <buckingham 'buckingham': a (), b (2,), c ()>
    """

    def decorate(function):
        own = checked_function(function, "distance", _OWN)
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [p.replace(kind=keyword) for p in arguments(own)]
        parameters += [p for p in inspect.signature(PairPotential).parameters.values() if p.kind is keyword]
        return potential_class(
            PairPotential, own, default_name=name or own.__name__, __signature__=inspect.Signature(parameters)
        )

    return decorate if function is None else decorate(function)


def _exponential_6(r, a, b, c):
    return a * math.exp(-b * r) - c / r**6


def _lennard_jones(r, sigma, epsilon):
    return formulas.twelve_six((sigma / r) ** 6, 4 * epsilon, 4 * epsilon)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    exponential_6, lennard_jones = (pair_potential(f) for f in (_exponential_6, _lennard_jones))
    n = 14
    ramp = np.linspace(0.05, 0.15, n)
    tables = {"a": [[300.0, 200.0], [200.0, 100.0]], "types": np.arange(n) % 2}
    atoms = {"sigma": ramp, "epsilon": 1 + 5 * ramp, "mixing": {"sigma": "arithmetic", "epsilon": "geometric"}}
    bonds = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    leaning = [[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]]
    return [
        (
            [lennard_jones(**atoms), exponential_6(**tables, b=20.0, c=ramp, mixing="product")],
            {"n": n, "exclusions": bonds},
        ),
        *[
            (
                [
                    lennard_jones(**atoms, cutoff=0.6, switch=0.45),
                    exponential_6(**tables, b=20.0, c=1e-4, cutoff=0.6, shift=True),
                ],
                {"n": n, "exclusions": bonds, "box": box},
            )
            for box in (None, leaning)
        ],
    ]
