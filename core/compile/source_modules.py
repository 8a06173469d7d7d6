"""Generated source as modules in the cache folder: kernels are kept on disk only if they stand in a file."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ..disk.disk_cache import folder, is_trusted, make_key
from ..disk.files import atomic

__all__ = ["load_module"]

_DAY = 86400.0  # seconds: how exactly the time of last use of a module is kept
_KEPT = 60 * _DAY


def load_module(source: str, stem: str, names: Mapping[str, Any] | None = None) -> ModuleType:
    """Import generated source as a module from the cache folder, so that its kernels are kept on disk.

    Parameters
    ----------
    source : str
        A whole module.
    stem : str
        Prefix of the file's name, for readers of the folder.
    names : mapping, optional
        Objects that the module finds as globals. The source must identify them, by a hash in a comment for example: the
        same source is the same module.

    Returns
    -------
    module
        The same object for the same source. Where the folder cannot be written, or others may write in it, the module
        lives in a temporary folder of this process, and is compiled again by the next.

    Examples
    --------
    >>> from triskele.core.extend import load_module
    >>> load_module("def twice(x):\\n    return 2 * x\\n", "example").twice(21)
    42
    """
    key = make_key(source)
    name = f"triskele_generated_{stem}_{key[:24]}"
    if name in sys.modules:
        return sys.modules[name]
    place = folder() / "generated"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not all(map(is_trusted, (folder(), place, place / "__pycache__"))):  # Python loads bytecode from the last
            raise PermissionError(errno.EACCES, "others may write there", str(place))
        path = _write(place, f"{name}.py", source)
    except OSError:
        path = _write(Path(_temporary_folder().name), f"{name}.py", source)
    loader = SourceFileLoader(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True  # gives the module its __file__
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names or {})
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@cache
def _temporary_folder():
    return tempfile.TemporaryDirectory(prefix="triskele-")


def _write(parent: Path, name: str, source: str) -> Path:
    """Write atomically: a second process finds or replaces a complete file. A damaged file is rewritten."""
    path, data = parent / name, source.encode()
    try:
        if path.read_bytes() == data:
            if time.time() - path.stat().st_mtime > _DAY:
                with contextlib.suppress(OSError):  # a folder that may only be read
                    os.utime(path)
            return path
    except FileNotFoundError:
        pass
    _discard_unused(parent)
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with atomic(path, durable=False) as file:
        file.write(data)
    return path


def _discard_unused(parent: Path) -> None:
    """Delete modules that have not been imported for long, and their bytecode."""
    now = time.time()
    try:
        old = [p for p in parent.glob("*.py") if now - p.stat().st_mtime > _KEPT]
        for path in old:
            for file in [path, *parent.glob(f"__pycache__/{path.stem}.*")]:
                file.unlink(missing_ok=True)
    except OSError:
        pass  # another process was first, or the folder may only be read
