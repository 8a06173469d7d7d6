"""SciPy's names for traced values: `linalg`, `special` and `fft`.

The ufuncs of scipy.special (erf, gammaln, xlogy …) take traced values as they are. SciPy's functions written in Python
(logsumexp, expm, solve_triangular, scipy.fft …) cannot be redirected; their namesakes here take traced and plain
arrays::

    from triskele.core.scipy.special import logsumexp
    from triskele.core.scipy.linalg import expm
"""

import typing as _typing
from importlib import import_module as _import_module

__all__ = ["fft", "linalg", "special"]


if _typing.TYPE_CHECKING:
    from . import fft, linalg, special
else:

    def __getattr__(name):
        if name in __all__:
            return _import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
