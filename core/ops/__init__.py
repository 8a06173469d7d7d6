"""The operations: one file for each family, imported by discovery."""

from ..imports.discover import modules as _modules

_modules(__name__, deep=True)

__all__: list[str] = []
