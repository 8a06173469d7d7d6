"""Compressed files from anyone: unpacked up to a limit, with one error for whatever is wrong with them.

A small file can unpack to more than any memory holds. Files of numbers and text shrink to a tenth, seldom to a
hundredth.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any

from ..errors import FileFormatError

__all__ = ["gunzip"]

_ALWAYS = 256 << 20  # bytes that any file may unpack to
_RATIO = 200  # how many times its size a larger one may
_CHUNK = 1 << 20


def gunzip(data: bytes, where: Any) -> bytes:
    """Unpack gzipped data.

    Parameters
    ----------
    data : bytes
    where : str or path
        Source of the data, for error messages.

    Raises
    ------
    FileFormatError
        If the data are damaged, or unpack to more than 256 MiB and 200 times their size.

    Examples
    --------
    >>> import gzip
    >>> from triskele.core.extend import gunzip
    >>> gunzip(gzip.compress(b'text'), 'notes.gz')
    b'text'
    """
    limit, parts, size = max(_ALWAYS, _RATIO * len(data)), [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while part := file.read(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise FileFormatError(f"{where}: must unpack to at most {limit} bytes, got more")
    except (EOFError, OSError, zlib.error) as error:
        raise FileFormatError(f"{where}: must be a whole gzip file, got {error}") from error
    return b"".join(parts)
