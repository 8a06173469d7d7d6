"""`Schedule`: the lambdas of a row of states."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..sealed import Fixed

__all__ = ["NAMES", "Schedule"]

NAMES = ("electrostatics", "sterics", "bonded", "restraints", "insertion", "deletion", "mixing")
_MOST = 256


class Schedule(Fixed):
    """Lambdas of a row of states: 1 for the full interaction, 0 for none; in a hybrid 0 for the old molecule and 1 for
    the new one.

    Parameters
    ----------
    electrostatics, sterics, bonded, restraints : (k,) array, optional
        Lambdas of the same number of states, each array rising or falling throughout. One that is left out stays at 1
        in all states.
    insertion, deletion, mixing : (k,) array, optional
        Lambdas of a `hybrid`.

    Attributes
    ----------
    names : tuple of str
        The lambdas that were given.
    lambdas : (k, len(names)) float64

    Raises
    ------
    ValueError
        If lengths differ, or lambdas leave [0, 1], turn back on their way or are the same in two states in a row.

    Examples
    --------
    >>> from triskele.sponge import alchemy
    >>> schedule = alchemy.Schedule(electrostatics=[1, 0.5, 0, 0, 0], sterics=[1, 1, 1, 0.5, 0])
    >>> len(schedule), schedule[3]
    (5, {'electrostatics': 0.0, 'sterics': 0.5})
    """

    def __init__(
        self,
        electrostatics: Any = None,
        sterics: Any = None,
        bonded: Any = None,
        restraints: Any = None,
        insertion: Any = None,
        deletion: Any = None,
        mixing: Any = None,
    ):
        arrays = electrostatics, sterics, bonded, restraints, insertion, deletion, mixing
        given = {name: np.array(values, np.float64) for name, values in zip(NAMES, arrays) if values is not None}
        if not given:
            raise ValueError(f"Schedule: at least one of {', '.join(NAMES)} must be given")
        for name, values in given.items():
            if values.ndim != 1 or not 2 <= len(values) <= _MOST:
                raise ValueError(f"Schedule: {name} must have shape [2 to {_MOST} states], got {values.shape}")
            bad = ~((values >= 0) & (values <= 1))
            if bad.any():
                raise ValueError(
                    f"Schedule: {name} must lie between 0 and 1, got {values[bad][0]:g} in state {np.argmax(bad)}"
                )
            steps = np.diff(values)
            if np.any(steps > 0) and np.any(steps < 0):
                turn = int(np.argmax(steps * np.sign(steps[np.flatnonzero(steps)[0]]) < 0)) + 1
                raise ValueError(
                    f"Schedule: {name} must rise or fall throughout, but turns at state {turn}, from "
                    f"{values[turn - 1]:g} to {values[turn]:g}"
                )
        lengths = {name: len(values) for name, values in given.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                "Schedule: all lambdas must have the same number of states, got "
                + ", ".join(f"{length} of {name}" for name, length in lengths.items())
            )
        self.names = tuple(given)
        self.lambdas = np.stack(list(given.values()), axis=1)
        alike = ~np.diff(self.lambdas, axis=0).any(axis=1)
        if alike.any():
            k = int(np.argmax(alike))
            raise ValueError(f"Schedule: neighboring states must differ, but states {k} and {k + 1} are the same")
        self.lambdas.flags.writeable = False

    def column(self, name: str) -> np.ndarray:
        """Lambdas of one name in all states, (k,) float64; ones if the schedule does not have it.

        Raises
        ------
        ValueError
            If there is no lambda of this name.
        """
        check_names([name], "Schedule")
        return self.lambdas[:, self.names.index(name)] if name in self.names else np.ones(len(self))

    def __len__(self) -> int:
        return len(self.lambdas)

    def __getitem__(self, k: int) -> dict[str, float]:
        """The lambdas of state `k`."""
        return dict(zip(self.names, self.lambdas[k].tolist()))

    def __repr__(self):
        return f"Schedule({len(self)} states: {', '.join(self.names)})"


def check_type(schedule: Any, where: str) -> None:
    """Raise TypeError if this is not a `Schedule`."""
    if not isinstance(schedule, Schedule):
        raise TypeError(f"{where}: schedule must be a Schedule, got {type(schedule).__name__}")


def check_names(names: Any, where: str) -> None:
    """Raise ValueError if one of the names is not that of a lambda."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"{where}: no lambda {name!r}; there are {', '.join(NAMES)}{check.near(name, NAMES)}")
