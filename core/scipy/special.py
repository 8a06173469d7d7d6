"""``scipy.special`` for traced and plain arrays."""
# ruff: noqa: F403, F405

from ..ops import special, special_bessel, special_gamma, special_sums
from ..ops.special import *
from ..ops.special_bessel import *
from ..ops.special_gamma import *
from ..ops.special_sums import *

psi = digamma

__all__ = ["psi"]
__all__ += special.__all__
__all__ += special_bessel.__all__
__all__ += special_gamma.__all__
__all__ += special_sums.__all__
