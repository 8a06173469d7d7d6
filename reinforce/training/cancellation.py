"""Cancellation of a long iteration after Ctrl-C."""

__all__ = ["Stopped"]


class Stopped(BaseException):
    """Raised where an iteration is given up; the agent is then as it was before.

    No Exception, which an actor would be replaced for.
    """
