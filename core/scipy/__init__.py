"""SciPy's names for traced values: `linalg`, `special` and `fft`.

The ufuncs of scipy.special (erf, gammaln, xlogy …) take traced values as they are. SciPy's functions written in Python
(logsumexp, expm, solve_triangular, scipy.fft …) cannot be redirected; their namesakes here take traced and plain
arrays::

    from triskele.core.scipy.special import logsumexp
    from triskele.core.scipy.linalg import expm
"""

from ..imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
