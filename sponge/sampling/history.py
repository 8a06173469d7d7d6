"""Records of a run over a ladder of temperatures: energies, and the n_k they were sampled with."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ITERATE", "OBSERVE", "PRODUCE", "History", "Records", "Rows", "find_states"]

OBSERVE, ITERATE, PRODUCE = range(3)  # modes
_MOVED = 0.1  # change of ln n_k within an epoch beyond which its samples cannot be reweighted


class Rows:
    """A table of float64 that only grows: views of what it held stay as they are."""

    def __init__(self, width: int):
        self._all, self._n = np.empty((16, width)), 0

    def __len__(self) -> int:
        return self._n

    @property
    def values(self) -> np.ndarray:
        """Rows, (m, width): a view that does not change later."""
        return self._all[: self._n]

    def append(self, rows: np.ndarray) -> None:
        """Add rows [k, width]."""
        end = self._n + len(rows)
        if end > len(self._all):
            grown = np.empty((max(end, 2 * len(self._all)), self._all.shape[1]))
            grown[: self._n] = self.values
            self._all = grown
        self._all[self._n : end] = rows
        self._n = end

    def become(self, rows: np.ndarray) -> None:
        """Hold other rows [k, width] in place of all; views of the old ones stay as they are."""
        self._all, self._n = np.array(rows, np.float64).reshape(-1, self._all.shape[1]), len(rows)


class Records:
    """Rows that a kernel leaves in a buffer of `size` rows, and all those that were taken over from it."""

    def __init__(self, width: int, size: int):
        # count: rows in the buffer
        self.buffer, self.count, self._rows = np.zeros((size, width)), np.zeros(1, np.int64), Rows(width)
        # first number of the last row, the state's, or -1: a step of which a later phase failed records no state twice
        self.mark = np.array([-1])

    def take_over(self) -> None:
        """Empty the buffer."""
        if n := int(self.count[0]):
            self.count[0] = 0
            self._rows.append(self.buffer[:n])

    @property
    def rows(self) -> Rows:
        """All rows; the buffer is then empty."""
        self.take_over()
        return self._rows

    @property
    def values(self) -> np.ndarray:
        """All rows, (m, width): a view that does not change later."""
        return self.rows.values

    def become(self, rows: np.ndarray) -> None:
        """Hold other rows in place of all."""
        self.count[0] = 0
        self._rows.become(rows)
        self.mark[0] = self._rows.values[-1, 0] if len(self._rows) else -1


def find_states(
    where: str,
    known: np.ndarray,  # (m,) numbers of the recorded states, in order
    steps: Any,  # (k,) numbers of the states that are sought
    every: int,
    present: int,
) -> np.ndarray:  # steps between records; number of the present state
    """Return the places (k,) of states among the recorded ones; the present state comes after the last.

    Raise ValueError if a state is neither recorded nor the present one.
    """
    steps = np.asarray(steps)
    if steps.ndim != 1 or steps.dtype.kind not in "iu":
        raise ValueError(f"{where}: steps must be whole numbers [m], got {steps.dtype} of shape {steps.shape}")
    places = np.minimum(np.searchsorted(known, steps), max(len(known) - 1, 0))
    missing = np.ones(len(steps), bool) if not len(known) else known[places] != steps
    if wrong := sorted({int(s) for s in steps[missing]} - {present}):
        raise ValueError(
            f"{where}: steps must be among those recorded (multiples of {every}, from "
            f"{known[0] if len(known) else 'none'} to {known[-1] if len(known) else 'none'}), got "
            f"{wrong[0]}"
        )
    places[missing] = len(known)
    return places


class History:
    """Energies of states, in epochs within which mode and n_k were the same."""

    def __init__(
        self,
        temperatures: int,  # of the ladder
        cross: float,  # the enhanced energy is E = U_pp + cross U_pw
        size: int,
    ):  # of the buffer
        # a row of epochs is: number of the first record, mode, ln n_k (NaN: plain dynamics)
        self.cross, self._kept, self.epochs = cross, Records(3, size), Rows(2 + temperatures)
        self.buffer, self.count, self.mark = self._kept.buffer, self._kept.count, self._kept.mark

    @property
    def records(self) -> Rows:
        """Number of the state, U_pp, U_pw."""
        return self._kept.rows

    def energies(self, which: Any = slice(None)) -> np.ndarray:
        """Return the enhanced energies of some records; raise FloatingPointError if one is not finite."""
        records = self.records.values[which]
        energies = records[:, 1] + self.cross * records[:, 2]
        if not np.isfinite(energies).all():
            bad = int(np.argmin(np.isfinite(energies)))
            raise FloatingPointError(
                f"SITS: the enhanced energy must be finite, got {energies[bad]} at state {records[bad, 0]:.0f}"
            )
        return energies

    def begin(self, mode: int, log_n: np.ndarray) -> bool:
        """Set the mode and ln n_k of records from now on, and return True if they differ from the last."""
        row = np.concatenate([[len(self.records), mode], log_n])
        epochs = self.epochs.values
        if len(epochs) and np.array_equal(epochs[-1, 1:], row[1:], equal_nan=True):
            return False
        if len(epochs) and epochs[-1, 0] == len(self.records):  # the last one has remained empty
            self.epochs.become(epochs[:-1])
            self.begin(mode, log_n)
        else:
            self.epochs.append(row[None])
        return True

    @property
    def first(self) -> int:
        """Number of the first record of the present epoch."""
        return int(self.epochs.values[-1, 0])

    @property
    def log_n(self) -> np.ndarray:
        """ln n_k of each epoch [epochs, N]; NaN for plain dynamics."""
        return self.epochs.values[:, 2:]

    @property
    def modes(self) -> np.ndarray:
        """Mode of each epoch [epochs]."""
        return self.epochs.values[:, 1].astype(np.int64)

    def epoch_of(self, records: np.ndarray) -> np.ndarray:
        """Number of the epoch of each of some records."""
        return np.searchsorted(self.epochs.values[:, 0], records, side="right") - 1

    def latest(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The last ln n_k [N] that states were drawn with, and their energies; None if there are none."""
        starts, count = self.epochs.values[:, 0], len(self.records)
        filled = np.flatnonzero(np.isfinite(self.log_n[:, 0]) & (starts < count))
        if not len(filled):
            return None
        first, last = np.append(starts, count).astype(np.int64)[filled[-1] :][:2]
        return self.log_n[filled[-1]], self.energies(slice(first, last))

    def usable(self, log_n: np.ndarray | None) -> np.ndarray:
        """Return a mask (m,) of the records that can be reweighted: none from mode "iterate" once there are others;
        none while ln n_k moved. `log_n` (N,) is the present ln n_k if it changes at every step.
        """
        learning = self.modes == ITERATE
        useless = np.zeros(len(learning), bool)
        if log_n is not None:
            with np.errstate(invalid="ignore"):
                moved = np.nan_to_num(np.abs(np.vstack([self.log_n[1:], log_n]) - self.log_n).max(1))
            useless = learning & (moved > _MOVED)
        epochs = self.epoch_of(np.arange(len(self.records)))
        if not learning[epochs].all():
            useless |= learning
        return ~useless[epochs]
