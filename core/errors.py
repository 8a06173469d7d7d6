"""Errors of the core. Messages read ``where: requirement, got value (hint)``."""

__all__ = [
    "BakedValueWarning",
    "CheckpointError",
    "DataError",
    "EscapedTensorError",
    "FileFormatError",
    "IndexOutOfBoundsError",
    "MissingRuleError",
    "ReporterError",
    "TracerError",
    "TreeError",
    "TriskeleError",
]


class TriskeleError(Exception):
    """Base of all errors of the suite. Each is also the built-in error that a user would expect."""


class TracerError(TriskeleError, TypeError):
    """A traced value was used where only a concrete one can be: in ``bool()``, ``float()``, an array's ``__setitem__``
    …
    """


class MissingRuleError(TriskeleError, NotImplementedError):
    """An operation lacks the rule a transform needs (vjp, jvp, batch)."""


class EscapedTensorError(TriskeleError, RuntimeError):
    """A traced value was used after the transform that made it had ended (a side effect kept it alive)."""


class TreeError(TriskeleError, ValueError):
    """Two trees that must have the same structure do not."""


class FileFormatError(TriskeleError, ValueError):
    """A file is cut off, damaged or of another kind; the message names the file and the place in it."""


class CheckpointError(TriskeleError, ValueError):
    """A checkpoint is damaged, or belongs to other work; the message names what differs."""


class DataError(TriskeleError, ValueError):
    """A sample cannot be read, transformed or put into a batch; the message names the step, the sample and its file."""


class ReporterError(TriskeleError, RuntimeError):
    """A reporter cannot continue: a full disk, a path that cannot be written, a file that does not fit."""


class IndexOutOfBoundsError(TriskeleError, IndexError):
    """A compiled program met an index outside its array."""


class BakedValueWarning(UserWarning):
    """A compiled function keeps a value from the time it was traced: a random number, the time, a closed-over array."""
