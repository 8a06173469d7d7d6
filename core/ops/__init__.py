"""The operations: one file per family, found by itself."""

from ..discover import modules as _modules

_modules(__name__)

__all__: list[str] = []
