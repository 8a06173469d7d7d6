"""A fault: what is done to the suite, what must hold then, and a trial of it."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

__all__ = ["Batch", "Fault", "Report", "attempt"]


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    Attributes
    ----------
    name : str
        What goes wrong.
    promise : str
        What must hold nevertheless.
    trial : callable
        ``trial(rng, folder)`` in an empty folder; returns None if the promise held, else what happened.
    trials : int
        Trials of a full run.
    """

    name: str
    promise: str
    trial: Callable[[np.random.Generator, Path], str | None]
    trials: int


@dataclass(frozen=True)
class Batch:
    """A fault that is tried many times at once: ``run(count, seed)`` returns the number of trials and a list of
    failures.
    """

    name: str
    promise: str
    run: Callable[[int, int], tuple[int, list[str]]]
    trials: int


@dataclass
class Report:
    """Outcome of the trials of one fault."""

    fault: Fault | Batch
    tried: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def row(self) -> str:
        return f"| {self.fault.name} | {self.fault.promise} | {self.tried:,} | {self.tried - len(self.failures):,} |"


def attempt(fault: Fault | Batch, count: int, seed: int) -> Report:
    """Try a fault `count` times. A trial's random numbers depend on `seed` and its number alone."""
    if isinstance(fault, Batch):
        return Report(fault, *fault.run(count, seed))
    report = Report(fault)
    for k in range(count):
        with tempfile.TemporaryDirectory(prefix="triskele-fault-") as folder:
            try:
                wrong = fault.trial(np.random.default_rng((seed, k)), Path(folder))
            except Exception as error:  # noqa: BLE001 - an error that no promise allows is a failure like any other
                wrong = f"{type(error).__name__}: {error}"
        report.tried += 1
        if wrong is not None:
            report.failures.append(f"{fault.name}, trial {k}: {wrong}")
    return report
