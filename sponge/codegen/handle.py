"""`Handle`: a function or class of the user's that goes through copies and pickles."""

from __future__ import annotations

import os
from importlib import import_module
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

__all__ = ["Handle"]

_number = count()
_pickled: WeakValueDictionary[int, Any] = WeakValueDictionary()  # pickling keeps no object alive


class Handle:
    """A function or class that may be local or nameless.

    A copy holds the very same object. A pickle finds it again in this process while it lives, and by its name in
    others.
    """

    def __init__(self, target: Any):
        self.target = target

    def get(self) -> Any:
        """The function or class."""
        return self.target

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        key = next(_number)
        try:
            _pickled[key] = self.target
        except TypeError:  # what cannot be referred to weakly, such as ufuncs, has a name
            key = -1
        module = getattr(self.target, "__module__", None) or ""
        return _find, (os.getpid(), key, module, getattr(self.target, "__qualname__", repr(self.target)))


def _find(process, key, module, qualname):
    found = _pickled.get(key) if process == os.getpid() else None
    if found is None:
        try:
            found = import_module(module)
            for part in qualname.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError):
            raise ValueError(
                f"potential: {qualname} of {module} cannot be imported here (define it at the top of a module)"
            ) from None
    return Handle(found)
