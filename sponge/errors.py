"""Errors of sponge. Messages read ``where: what must hold, got what (hint)``."""


from triskele.core.errors import FileFormatError as FileFormatError  # of core.load too


class MissingTemplateError(ValueError):
    """A residue matches no template of the force field."""


class MissingParameterError(ValueError):
    """The force field has no parameters for some atoms."""


class BoxError(ValueError):
    """A box has the wrong form, or is too small for the cut-off."""


class ConstraintError(RuntimeError):
    """Constraints cannot hold: they do not converge, or touch atoms without mass."""


class BrokenSimulationError(FloatingPointError):
    """Positions, velocities or forces are no longer finite; the message names step, term and atom."""


class CheckpointError(ValueError):
    """A checkpoint is damaged, or belongs to another system."""


class ReporterError(RuntimeError):
    """A reporter cannot go on: a full disk, a path that cannot be written, a file that does not fit."""
