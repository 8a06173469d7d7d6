"""`CollectiveVariable`: what a collective variable is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from triskele.core.extend import TriskeleError, check

from ..codegen.handle import Handle
from ..protocols import SystemLike
from ..topology import as_indices

__all__ = ["CollectiveVariable", "VariableError", "as_variables"]


class VariableError(TriskeleError, RuntimeError):
    """A collective variable or its gradient is not defined, or has left the grid of a bias; the message says where and
    when.
    """


@dataclass(frozen=True, eq=False, repr=False)
class CollectiveVariable:
    """A number that depends on the positions of some atoms. Made by the functions of `sponge.cv`.

    Parameters
    ----------
    name : str
        Name in records and errors.
    atoms : (k,) int
        The atoms it depends on; only these are looked at.
    function : callable
        ``function(x, box, **options)`` -> scalar, of the positions [k, 3] of `atoms` in nm and of the box [3, 3] or
        None: NumPy code that the core can trace.
    period : (float, float), optional
        The ends of the range of a periodic variable, which are one point.
    options : dict
        Constants of the function.
    undefined : str
        Where the gradient does not exist, in words, for errors.
    native : (object, str), optional
        A compiled form with a method `task`, as that of `path_kernels.StructurePath`, and the name under which the
        variable is wanted from it. Variables that share the object share the work.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import cv
    >>> float(cv.distance(0, 1)(np.array([[0.0, 0.0, 0.0], [0.3, 0.4, 0.0]])))
    0.5
    """

    name: str
    atoms: np.ndarray
    function: Callable
    period: tuple[float, float] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    undefined: str = ""
    native: tuple[Any, str] | None = None

    def local(self, x: Any, box: Any = None) -> Any:
        """The value from the positions [k, 3] of `atoms` alone."""
        value = check.shape(
            self.function(x, box, **self.options),
            (),
            f"collective variable {self.name}",
            error=TypeError,
            hint="a number",
        )
        return value.astype(np.float64) if getattr(value, "dtype", None) == np.float32 else value  # of a network

    def __call__(self, positions: Any, box: Any = None) -> Any:
        """The value, for positions [n, 3] of all atoms in nm and the box [3, 3] or None; can be differentiated."""
        return self.local(positions[self.atoms], box)

    def difference(self, value: Any, origin: Any) -> Any:
        """``value - origin``, for a periodic variable the shortest way around."""
        d = value - origin
        if self.period is None:
            return d
        length = self.period[1] - self.period[0]
        return d - length * np.rint(d / length)

    def check(self, system: SystemLike, where: str) -> None:
        """Raise ValueError if the variable does not fit the system."""
        if self.atoms.max() >= system.n:
            raise ValueError(f"{where}: atoms of {self.name} must be below {system.n}, got {self.atoms.max()}")

    def check_values(self, where: str, what: str, values: Any) -> None:
        """Raise ValueError if values of a periodic variable are more than half a period beyond its ends, as degrees
        are.
        """
        if self.period is not None:
            margin = 0.5 * (self.period[1] - self.period[0])
            low, high = self.period[0] - margin, self.period[1] + margin
            wrong = np.ravel(values)[(np.ravel(values) < low) | (np.ravel(values) > high)]
            if len(wrong):
                raise ValueError(
                    f"{where}: {what} of {self.name} must be from {low:.3g} to {high:.3g}, got "
                    f"{wrong[0]:g} (angles are in radians)"
                )

    def __repr__(self):
        return f"<{self.name}>"

    def __reduce__(self):
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        # a function of the user's may be local or nameless
        state["options"] = {key: Handle(value) if callable(value) else value for key, value in self.options.items()}
        return _restore, (state,)


def _restore(state):
    state["options"] = {
        key: value.get() if isinstance(value, Handle) else value for key, value in state["options"].items()
    }
    return CollectiveVariable(**state)


def as_variables(where: str, cvs: Any) -> list[CollectiveVariable]:
    """One collective variable or several, as a list."""
    found = [cvs] if isinstance(cvs, CollectiveVariable) else list(cvs) if isinstance(cvs, Iterable) else [cvs]
    for variable in found:
        check.kind(
            variable,
            CollectiveVariable,
            f"{where}: collective variables",
            "made by sponge.cv",
            hint="cv.function takes any function",
        )
    if not found:
        raise ValueError(f"{where}: at least one collective variable is needed")
    return found


def as_atoms(where: str, atoms: Any, least: int = 1, exactly: int | None = None) -> np.ndarray:
    """Numbers of atoms: whole, not negative, different."""
    given = np.asarray(atoms)
    if (
        given.ndim != 1
        or given.dtype.kind not in "iu"
        or len(given) < least
        or (exactly is not None and len(given) != exactly)
    ):
        wanted = f"{exactly} numbers" if exactly is not None else f"at least {least} number{'s' * (least > 1)}"
        raise ValueError(f"{where}: atoms must be {wanted} of atoms, got {atoms!r:.80}")
    if given.min() < 0 or len(np.unique(given)) < len(given):
        raise ValueError(f"{where}: atoms must be different and >= 0, got {given.tolist()!r:.80}")
    return as_indices(given, where).astype(np.int64)
