"""``scipy.fft`` for traced and plain arrays."""

from ..ops.fft import *  # noqa: F403
from ..ops.fft import __all__ as __all__
