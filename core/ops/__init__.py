"""The operations: one file for a family, found by itself."""

from ..imports.discover import modules as _modules

_modules(__name__, deep=True)

__all__: list[str] = []
