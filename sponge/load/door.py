"""The door of the readers: whatever a damaged file leads to behind it comes out as the documented error, with the
file's name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FileFormatError

__all__ = ["documented"]

_DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, UnicodeError, struct.error)


@contextmanager
def documented(*files: str | Path, options: bool = False) -> Iterator[None]:
    """Turn errors that `files` lead to into FileFormatErrors that name them.

    Subclasses of ValueError pass unchanged, and so do plain ValueErrors if the caller has given `options`, which they
    may be about.
    """
    where = ", ".join(map(str, files))
    try:
        yield
    except FileFormatError as error:
        if any(str(file) in str(error) for file in files):
            raise
        raise FileFormatError(f"{where}: {error}") from error
    except (*_DAMAGE, ValueError) as error:
        if (
            isinstance(error, ValueError)
            and not isinstance(error, UnicodeError)
            and (options or type(error) is not ValueError)
        ):
            raise
        raise FileFormatError(
            f"{where}: {error if type(error) is ValueError else f'{type(error).__name__}: {error}'}"
        ) from error
