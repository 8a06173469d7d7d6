"""``scipy.special`` for traced and plain arrays."""
# ruff: noqa: F403, F405

from ..ops.special import basic, bessel, sums
from ..ops.special import gamma as gammas
from ..ops.special.basic import *
from ..ops.special.bessel import *
from ..ops.special.gamma import *
from ..ops.special.sums import *

psi = digamma

__all__ = ["psi"]
__all__ += basic.__all__
__all__ += bessel.__all__
__all__ += gammas.__all__
__all__ += sums.__all__
