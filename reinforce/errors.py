"""Errors of this package. Each is also the built-in error that a user would expect."""

from triskele.core.extend import CheckpointError as CoreCheckpointError
from triskele.core.extend import ReporterError, TriskeleError

__all__ = [
    "BufferError",
    "CheckpointError",
    "DistributionError",
    "EnvError",
    "EvaluatorError",
    "GameError",
    "IllegalActionError",
    "ReinforceError",
    "ReporterError",
    "SearchError",
]


class ReinforceError(TriskeleError):
    """Base of all errors that are particular to this package."""


class GameError(ReinforceError, ValueError):
    """A game whose rules or description cannot be right."""


class IllegalActionError(GameError):
    """An action that the position does not allow."""


class SearchError(ReinforceError, ValueError):
    """A search that cannot be run as asked."""


class EvaluatorError(ReinforceError, RuntimeError):
    """An evaluator raised an exception, or returned an invalid evaluation."""


class EnvError(ReinforceError, ValueError):
    """An environment, or actions given to it, that cannot be right."""


class BufferError(ReinforceError, ValueError):
    """Data that do not fit a buffer, or a buffer that does not hold what is asked of it."""


class CheckpointError(ReinforceError, CoreCheckpointError):
    """A checkpoint that belongs to something else, or is damaged."""


class DistributionError(ReinforceError, RuntimeError):
    """A part of an agent that failed where it was placed, or that does not fit the others."""
