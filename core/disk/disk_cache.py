"""One content-addressed store on disk for everything that is generated: objects, plans, sources.

A key is a hash of all that the entry depends on, so that an entry is never out of date, only unused. Writing is atomic
(temporary file, then rename), reading checks a checksum, and every failure of the file system costs time, not results.

Entries are machine code and pickles, so they must come from this user or from root. A folder that belongs to somebody
else, or in which others may write, is not used; nor is a file in it that somebody else owns. The checksum covers the
key, so that no entry can stand in for another. Whoever can write files as this user can still have his code run.

The folder is `$TRISKELE_CACHE_DIR`, else `triskele` in the user's cache folder. Behind it stands `SHIPPED`, a folder of
the installed package, which is as trusted as its sources and never written.
"""

import contextlib
import hashlib
import logging
import os
import re
import sys
import time
from functools import cache
from pathlib import Path

from .files import PART, atomic, only_ours

__all__ = ["clear_cache", "code_of", "entries", "folder", "get", "has_shipped", "make_key", "put", "source_stamp"]

SHIPPED = Path(__file__).parents[1] / "shipped"  # what a wheel brings, made by `make wheel`
SIZE_LIMIT = 2 << 30  # bytes; the least recently used entries go first

_MAGIC = b"TRSKL002"
_DIGEST = 16
_SUFFIX = ".bin"
_PUTS_BETWEEN_CHECKS = 64
_STALE_TEMPORARY = 3600.0  # seconds after which a temporary file belongs to a process that was killed
_TOUCH_AFTER = 3600.0  # seconds: how exactly the time of last use is kept

_log = logging.getLogger(__name__)
_puts = 0
_trusted: dict[str, bool] = {}  # by folder


def folder() -> Path:
    """The folder that holds the entries; it need not exist."""
    if chosen := os.environ.get("TRISKELE_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "triskele"


def make_key(*parts: str | bytes) -> str:
    """Return the key of an entry: a hash of all `parts`, each with its length.

    >>> make_key("ab", "c") == make_key("a", "bc")
    False
    """
    state = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def is_trusted(place: Path) -> bool:
    """Return True if only this user and root can have written in a folder. Otherwise a warning is logged, once.

    A folder that does not exist is trusted: whoever makes it asks again.
    """
    known = _trusted.get(name := str(place))
    if known is None:
        try:
            known = _trusted[name] = only_ours(os.stat(place))
        except OSError:
            return True
        if not known:
            _log.warning(
                "the cache folder %s is not used: it must belong to you, and no other user may write in it "
                "(chmod, or set "
                "TRISKELE_CACHE_DIR)",
                place,
            )
    return known


def get(key: str) -> bytes | None:
    """The bytes stored under `key`, or shipped with the package; None if there are none.

    An entry that is damaged is deleted, and one of another user's passed over.
    """
    data = _kept(key) if is_trusted(folder()) else None
    if data is None and has_shipped():
        with contextlib.suppress(OSError):
            data = _content(key, _path(key, SHIPPED).read_bytes())
    return data


def _kept(key: str) -> bytes | None:
    path = _path(key)
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not only_ours(status):
                _log.warning("the cache entry %s is not used: it belongs to another user, or others may write it", path)
                return None
            raw = file.read()
            age = time.time() - status.st_mtime
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            _log.debug("cache entry %s cannot be read: %s", path, error)
        return None
    data = _content(key, raw)
    if data is None:
        _log.debug("cache entry %s is damaged; discarded", path)
        _remove(path)
        return None
    if age > _TOUCH_AFTER:
        try:
            os.utime(path)
        except OSError:
            pass  # a cache that may only be read: its order of eviction is somebody else's
    return data


def put(key: str, data: bytes) -> bool:
    """Store `data` under `key`; returns whether it was stored. Fails silently: the entry is then made again."""
    global _puts
    path = _path(key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_trusted(folder()):
            return False
        with atomic(path, durable=False) as file:  # the checksum finds what a power cut leaves
            file.write(_MAGIC + _checksum(key, data))
            file.write(data)
    except OSError as error:
        _log.debug("cache entry %s cannot be written: %s", path, error)
        return False
    if _puts % _PUTS_BETWEEN_CHECKS == 0:
        _evict(SIZE_LIMIT)
    _puts += 1
    return True


def clear_cache() -> None:
    """Delete every stored entry of `folder()`. Functions that are already compiled keep working.

    Examples
    --------
    >>> from triskele import core
    >>> core.clear_cache()  # doctest: +SKIP
    """
    if not is_trusted(folder()):
        return
    for path, _ in entries():
        _remove(path)


def source_stamp(*more: str) -> str:
    """Hash of the sources that decide what is generated: `core/compile`, `core/kernels`, `core/ops` and `more`
    folders.
    """
    return _stamp(Path(__file__).resolve().parents[1], ("compile", "kernels", "ops", *more))


@cache
def _stamp(core: Path, packages: tuple[str, ...]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for package in packages:
        for path in sorted(_sources(str(core / package))):
            with open(path, encoding="utf-8") as file:
                data = code_of(file.read()).encode()
            state.update(f"{path[len(str(core)) :]}:{len(data)}:".encode())
            state.update(data)
    return state.hexdigest()


_COMMENT = re.compile(r"\n *#.*")


def code_of(text: str) -> str:
    """A source of the suite without its docstrings and lines of comments, so that better words compile nothing again.

    Users' sources, in which triple quotes may stand inside of strings, must be hashed whole.
    """
    parts = text.split('"""')
    for i in range(1, len(parts), 2):
        before = parts[i - 1].rstrip(" r")
        if not before or before.endswith(":\n"):
            parts[i] = ""
    parts[::2] = [_COMMENT.sub("", part) for part in parts[::2]]
    return '"""'.join(parts)


def _sources(package: str):
    with os.scandir(package) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path)


@cache
def has_shipped() -> bool:
    """Return True if the package brings code for the usual levels of processors."""
    return SHIPPED.is_dir()


def _path(key: str, place: Path | None = None) -> Path:
    return (place or folder()) / key[:2] / (key[2:] + _SUFFIX)


def _content(key: str, raw: bytes) -> bytes | None:
    """Return an entry without its head, or None if it is damaged or another's."""
    start = len(_MAGIC) + _DIGEST
    return raw[start:] if raw[:start] == _MAGIC + _checksum(key, raw[start:]) else None


def _checksum(key: str, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST, key=key.encode()).digest()


def _remove(path) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # another process was first, or the folder may not be written


def entries():
    """Return the cache's own files with their status; other files in the folder are ignored."""
    try:
        shards = [e.path for e in os.scandir(folder()) if len(e.name) == 2 and e.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for shard in shards:
        try:
            files = list(os.scandir(shard))
        except OSError:
            continue
        for entry in files:
            if entry.name.endswith(_SUFFIX) or entry.name.endswith(PART):
                try:
                    yield entry.path, entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # removed by another process meanwhile


def _evict(limit: int) -> None:
    """Delete the least recently used entries until the store takes at most `limit` bytes."""
    now = time.time()
    total, kept = 0, []
    for path, status in entries():
        if not path.endswith(_SUFFIX):
            if now - status.st_mtime > _STALE_TEMPORARY:
                _remove(path)
            continue
        total += status.st_size
        kept.append((status.st_mtime, status.st_size, path))
    for _, size, path in sorted(kept):
        if total <= limit:
            return
        _remove(path)
        total -= size
