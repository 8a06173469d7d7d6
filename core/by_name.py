"""Objects that are pickled like functions: by module and name."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["ByName"]


class ByName:
    """Base of what decorates a function: pickled as the name under which its module has it, and never copied."""

    def __reduce__(self) -> Any:
        return getattr(self, "__qualname__", repr(self))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def _has_name(self) -> bool:
        """Return True if the module of the function has this object in its place."""
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        for part in getattr(self, "__qualname__", "").split("."):
            found = getattr(found, part, None)
        return found is self
