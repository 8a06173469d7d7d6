"""The numbers that a fit may change, as one vector that starts at zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import check

from ..potential import complete, parameter
from ..potentials.bonded.terms import TermPotential
from ..potentials.nonbonded.nonbonded import Nonbonded

if TYPE_CHECKING:
    from ..system import System

__all__ = ["Parameters"]

_KINDS = ("positive", "free")


class Parameters:
    """Free parameters of a system, and how its arrays of parameters follow from them.

    Parameters
    ----------
    system : System
    free : sequence of str, mapping, or (mapping, callable)
        Names as in ``system.params()``, ``["nonbonded/epsilons", "bond/k"]``: entries of an array that are equal at the
        start are one parameter, as atoms of a type are, and zeros stay zeros. What is positive at the start stays
        positive; a mapping from names to "positive" or "free" says otherwise. Charge products of 1-4 pairs and charges
        of `GB` follow those of `Nonbonded`, unless they are free themselves. Or a mapping of start values, and a
        function that takes such a mapping to what changes in ``system.params()``: ``({"q": 0.4}, lambda theta:
        {"nonbonded": {"charges": theta["q"] * pattern}})``.

    Attributes
    ----------
    start : dict of str to array
        The parameters at the beginning.
    size : int
        Number of values. The fit works with a vector u of them: exp(u) times the start for positive
        parameters, u times the size of the start more than it for others.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> from triskele.sponge import fitting
    >>> parameters = fitting.Parameters(system, ['nonbonded/epsilons'])
    """

    def __init__(self, system: System, free: Any):
        self._function: Callable[[dict[str, Any]], Any] | None = None
        kinds: dict[str, str] = {}
        if isinstance(free, tuple) and len(free) == 2 and callable(free[1]):
            check.kind(free[0], Mapping, "fit: start values", "a mapping of names to numbers")
            self.start = {name: np.array(values, np.float64) for name, values in free[0].items()}
            self._function = free[1]
            kinds = dict.fromkeys(self.start, "free")
        else:
            self._groups: dict[str, tuple[str, str, np.ndarray, np.ndarray]] = {}
            self.start = {}
            if isinstance(free, str):
                free = [free]
            for name in free:
                potential, _, key = name.rpartition("/")
                values = np.array(parameter(system.params(), potential, key, "fit"))
                unique, group = np.unique(values[values != 0], return_inverse=True)
                if not len(unique):
                    raise ValueError(f"fit: {name!r} must have entries that are not 0")
                self._groups[name] = potential, key, values, group
                self.start[name] = unique if len(unique) > 1 else unique[0]
                kind = free[name] if isinstance(free, Mapping) else "positive" if np.all(unique > 0) else "free"
                if kind not in _KINDS or kind == "positive" and not np.all(unique > 0):
                    raise ValueError(
                        f"fit: {name!r} must be 'free', or 'positive' with positive values, got {kind!r} and {unique}"
                    )
                kinds[name] = kind
            self._followers = _followers(system, self._groups)
        if not self.start:
            raise ValueError("fit: there must be at least one parameter to change")
        for name, values in self.start.items():
            check.finite(values, f"fit: start values of {name!r}")
        self._kinds = kinds
        self.sizes = {name: np.size(values) for name, values in self.start.items()}
        self.size = sum(self.sizes.values())
        if self._function is not None:  # names and shapes that are wrong are found now
            complete(system.params(), self._function(self.start), "fit: what the function returns")

    def __repr__(self) -> str:
        return f"<Parameters: {', '.join(self.start)}>"

    def values(self, u: Any) -> dict[str, Any]:
        """The parameters by name, from the vector u [size]."""
        found, at = {}, 0
        for name, start in self.start.items():
            part = u[at : at + self.sizes[name]]
            part = part[0] if np.ndim(start) == 0 else np.reshape(part, np.shape(start))
            if self._kinds[name] == "positive":
                found[name] = start * np.exp(part)
            else:
                found[name] = start + np.where(start == 0, 1.0, np.abs(start)) * part
            at += self.sizes[name]
        return found

    def params(self, u: Any) -> dict[str, dict[str, Any]]:
        """Return the entries of ``system.params()`` that `u` changes."""
        theta = self.values(u)
        if self._function is not None:
            return self._function(theta)
        changes: dict[str, dict[str, Any]] = {}
        for name, (potential, key, values, group) in self._groups.items():
            spread = np.zeros(values.shape)
            where = np.nonzero(values.ravel() != 0)[0]
            own = np.reshape(theta[name], (-1,))[group]
            index = np.zeros(values.size, np.int64)
            index[where] = np.arange(len(where))
            flat = np.where(values.ravel() != 0, own[index], spread.ravel())
            changes.setdefault(potential, {})[key] = np.reshape(flat, values.shape)
        for charged, name, key, of_charges in self._followers:
            changes.setdefault(name, {})[key] = of_charges(changes[charged]["charges"])
        return changes

    def errors(self, u: np.ndarray, of_u: np.ndarray) -> dict[str, Any]:
        """Standard errors of the parameters from those of u."""
        found, at = {}, 0
        theta = self.values(u)
        for name, start in self.start.items():
            part = of_u[at : at + self.sizes[name]].reshape(np.shape(start))
            positive = self._kinds[name] == "positive"
            found[name] = part * (theta[name] if positive else np.where(start == 0, 1.0, np.abs(start)))
            at += self.sizes[name]
        return found


def _followers(system, free):
    """What follows free charges: names of the charged potential, of another and its parameter, and a function from
    the charges to it.
    """
    found = []
    for charged in {potential for potential, key, *_ in free.values() if key == "charges"}:
        q = system[charged].params["charges"]
        for p in system.potentials:
            for key, values in p.params.items():
                if f"{p.name}/{key}" in free or not isinstance(system[charged], Nonbonded):
                    continue
                if key == "charge_product" and isinstance(p, TermPotential):
                    found.append((charged, p.name, key, _Products(q, p.atoms, values)))
                elif key == "charges" and np.array_equal(values, q):
                    found.append((charged, p.name, key, lambda charges: charges))
    return found


class _Products:
    """Charge products of pairs, scaled as at the start; those with a charge of 0 stay."""

    def __init__(self, charges, atoms, products):
        self.i, self.j = np.asarray(atoms).T
        of_charges = charges[self.i] * charges[self.j]
        self.scale = np.divide(products, of_charges, out=np.zeros(len(of_charges)), where=of_charges != 0)
        self.fixed = np.where(of_charges != 0, 0.0, products)

    def __call__(self, charges):
        return self.fixed + self.scale * charges[self.i] * charges[self.j]
