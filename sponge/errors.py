"""Errors of sponge. Messages read ``where: requirement, got value (hint)``."""


from triskele.core.extend import FileFormatError as FileFormatError  # of core.load too


class MissingTemplateError(ValueError):
    """A residue matches no template of the force field."""


class MissingParameterError(ValueError):
    """The force field has no parameters for some atoms."""


class BoxError(ValueError):
    """A box has the wrong form, or is too small for the cut-off."""


class ConstraintError(RuntimeError):
    """Constraints cannot hold: they do not converge, or touch atoms without mass."""


class BrokenSimulationError(FloatingPointError):
    """Positions, velocities, energies or forces are not finite; the message names the term and the atoms, and of a run
    the step.
    """


class StaleSimulationError(RuntimeError):
    """A system or a setting was changed after a simulation was made from it; the message names what differs."""


class UnitsWarning(UserWarning):
    """Lengths look as if they were in angstrom."""


class CheckpointError(ValueError):
    """A checkpoint is damaged, or belongs to another system."""


class ReporterError(RuntimeError):
    """A reporter cannot continue: a full disk, a path that cannot be written, a file that does not fit."""
