"""Tools to build on the core: compiled kernels, vectors, threads, operators, generated code and files.

Applications import `triskele.core`, this module, `core.random`, `core.nn`, `core.optim`, `core.data`, `core.train` and
`core.tree`, and nothing deeper.

Examples
--------
>>> import numpy as np
>>> from triskele.core.extend import kernel
>>> @kernel(cache=False)  # a notebook has no file to cache by
... def total(x):
...     s = 0.0
...     for i in range(x.size):
...         s += x[i]
...     return s
>>> total(np.arange(4.0))
6.0
"""

from .imports.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
