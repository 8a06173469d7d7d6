"""Atomic files: written next to their place, flushed to the disk, then renamed.

The temporary file of ``X`` is called ``.X.<random>.part``. Its writer holds a lock on it, so that the next writer of
``X`` can tell the leftovers of a killed process, which it deletes, from a file that another process is writing now.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: a file that is open cannot be deleted there
    fcntl = None  # type: ignore[assignment]

__all__ = ["PART", "atomic", "only_ours"]

PART = ".part"  # how the names of temporary files end

_LONGEST = 50  # characters of the name: at 4 bytes each, the temporary name stays below 255 bytes
_HINTS = {
    errno.ENOENT: "the folder must exist",
    errno.ENOTDIR: "the folder must exist",
    errno.EACCES: "the folder must be writable",
    errno.EPERM: "the folder must be writable",
    errno.EROFS: "the file system is read-only",
    errno.EISDIR: "the path must be a file, got a folder",
    errno.ENOSPC: "the disk is full, and the path holds what it held before",
    errno.EDQUOT: "the disk quota is used up, and the path holds what it held before",
    errno.EFBIG: "the file is too large for this file system or process, and the path holds what it held before",
}


@contextlib.contextmanager
def atomic(path: str | os.PathLike, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing that appears at `path` when the block ends, and not at all if the block raises.

    A process that is killed at any moment leaves the old file or the new one. The new file takes the permissions of the
    file that it replaces, and otherwise those of the umask. A link at `path` is replaced, not followed.

    Parameters
    ----------
    path : path-like
    durable : bool, default True
        Wait until the disk has the file, so that it outlives a power cut too.

    Yields
    ------
    file
        A binary file, open for writing.

    Raises
    ------
    OSError
        If the folder is missing or not writable, or the disk is full. What was at `path` is untouched.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> from triskele.core.extend import atomic
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic(os.path.join(folder, "numbers.txt")) as file:
    ...         _ = file.write(b"1 2 3")
    ...     os.listdir(folder)
    ['numbers.txt']
    """
    path = os.fsdecode(path)
    folder, name = os.path.split(path)
    folder, stem = folder or ".", f".{name[:_LONGEST]}."
    beside = None
    try:
        _discard_leftovers(folder, stem)
        beside, handle = _create(folder, stem)
        with os.fdopen(handle, "wb") as file:
            _take_mode(path, handle)
            yield file
            file.flush()
            if durable:
                os.fsync(handle)
            if fcntl is not None:
                os.replace(beside, path)  # while the lock is held
        if fcntl is None:
            os.replace(beside, path)  # Windows renames no open file
        if durable:
            _sync_folder(folder)
    except BaseException as error:
        if beside is not None:
            with contextlib.suppress(OSError):
                os.unlink(beside)
        if isinstance(error, OSError) and error.errno is not None and str(error.filename or PART).endswith(PART):
            hint = _HINTS.get(error.errno, "the file could not be written")
            raise OSError(error.errno, f"{os.strerror(error.errno)} ({hint})", path) from error
        raise


@contextlib.contextmanager
def locked(path: str | os.PathLike, where: str, error: type[Exception]) -> Iterator[None]:
    """Hold the lock on a file, which is created if missing; raise `error` if another process or context holds it.

    `where` names what is locked, as the message begins. Where file systems have no locks, nothing is held.
    """
    with open(path, "ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise error(f"{where}: another run uses it (choose another place, or wait until it ends)") from None
            except OSError:  # a file system without locks
                pass
        yield


def only_ours(status: os.stat_result, *owners: int) -> bool:
    """Return True if only this user, root and `owners` can have written the file or folder that `status` describes.

    Code that is kept on disk is loaded from such files in such folders alone, since anybody can plant files in a folder
    that is shared. A group may write where it is the user's own first group, as a umask of 002 has it. On Windows the
    answer is always True.
    """
    if not hasattr(os, "geteuid"):
        return True
    shared = status.st_mode & stat.S_IWOTH or status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid()
    return status.st_uid in (os.geteuid(), 0, *owners) and not shared


def _create(folder, stem):
    """Open a new, locked file that no other process has open."""
    while True:
        beside = os.path.join(folder, f"{stem}{os.urandom(8).hex()}{PART}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(beside, flags, 0o666)
        if fcntl is None:
            return beside, handle
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return beside, handle
        os.close(handle)  # taken for a leftover before it was locked


def _take_mode(path, handle):
    """Give the new file the permissions of the file at `path`, if there is one."""
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        if hasattr(os, "fchmod") and os.path.isfile(path) and not os.path.islink(path):
            os.fchmod(handle, status.st_mode & 0o777)


def _discard_leftovers(folder, stem):
    """Delete temporary files of `stem` whose writers are dead."""
    pattern = re.compile(re.escape(stem) + "[0-9a-f]{16}" + re.escape(PART))
    try:
        names = os.listdir(folder)
    except OSError:  # making the file says what is wrong with the folder, if anything is
        return
    for found in filter(pattern.fullmatch, names):
        leftover = os.path.join(folder, found)
        with contextlib.suppress(OSError):  # being written, somebody else's, or gone meanwhile
            if fcntl is None:
                os.unlink(leftover)
                continue
            handle = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(leftover)
            finally:
                os.close(handle)


def _sync_folder(folder):
    """Bring a rename to the disk, where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
