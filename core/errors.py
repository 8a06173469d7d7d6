"""Errors of the core. Messages read ``where: requirement, got value (hint)``."""

__all__ = ["BakedValueWarning", "EscapedTensorError", "FileFormatError", "IndexOutOfBoundsError", "MissingRuleError",
           "TracerError", "TreeError"]


class TracerError(TypeError):
    """A traced value was used where only a concrete one can be: in ``bool()``, ``float()``, an array's ``__setitem__``
    …
    """


class MissingRuleError(NotImplementedError):
    """An operation lacks the rule a transform needs (vjp, jvp, batch)."""


class EscapedTensorError(RuntimeError):
    """A traced value was used after the transform that made it had ended (a side effect kept it alive)."""


class TreeError(ValueError):
    """Two trees that must have the same structure do not."""


class FileFormatError(ValueError):
    """A file is cut off, damaged or of another kind; the message names the file and the place in it."""


class IndexOutOfBoundsError(IndexError):
    """A compiled program met an index outside its array."""


class BakedValueWarning(UserWarning):
    """A compiled function keeps a value from the time it was traced: a random number, the time, a closed-over array."""
