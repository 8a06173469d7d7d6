"""Errors of sponge. Messages read ``where: requirement, got value (hint)``."""

from triskele.core.extend import CheckpointError as CheckpointError
from triskele.core.extend import FileFormatError as FileFormatError  # of core.load too
from triskele.core.extend import ReporterError as ReporterError
from triskele.core.extend import TriskeleError


class MissingTemplateError(TriskeleError, ValueError):
    """A residue matches no template of the force field."""


class MissingParameterError(TriskeleError, ValueError):
    """The force field has no parameters for some atoms."""


class BoxError(TriskeleError, ValueError):
    """A box has the wrong form, or is too small for the cut-off."""


class ConstraintError(TriskeleError, RuntimeError):
    """Constraints cannot hold: they do not converge, or touch atoms without mass."""


class BrokenSimulationError(TriskeleError, FloatingPointError):
    """Positions, velocities, energies or forces are not finite; the message names the term and the atoms, and of a run
    the step.
    """


class StaleSimulationError(TriskeleError, RuntimeError):
    """A system or a setting was changed after a simulation was made from it; the message names what differs."""


class TrainingRangeWarning(UserWarning):
    """A network is used outside the range of its training data."""


class UnitsWarning(UserWarning):
    """Lengths look as if they were in angstrom."""
