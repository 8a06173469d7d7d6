"""Differentiable tensor core: plain NumPy code goes in; derivatives and compiled kernels come out.

Layers, each knowing only those before it: `tree`, `errors`, `tensor`; `kernels` (machine code by hand, knows nothing of
ours); `graph` (the representation); `ops` (one primitive, one definition); `transforms`; `compile`; `nn`, `optim`.
"""

if __name__ != "triskele.core":
    raise ImportError(f"import this package as triskele.core, not as {__name__!r}")

import typing as _typing
from importlib import import_module as _import_module

from . import errors, ops, tree
from .compile.cache import clear_cache
from .compile.jit import explain_recompiles, jit
from .graph.graph import Spec
from .kernels.threads import get_threads, set_threads
from .ops.index import index_add, index_max, index_min, index_mul, index_update
from .save import load, save
from .tensor import Tensor
from .testing import check_grads, check_op
from .transforms.checkpoint import checkpoint, stop_gradient
from .transforms.control import cond, fori_loop, scan, switch, while_loop
from .transforms.custom import custom_jvp, custom_vjp
from .transforms.custom_op import custom_op, spec
from .transforms.elementwise import elementwise
from .transforms.forward import jvp, linearize
from .transforms.grad import grad, value_and_grad, vjp
from .transforms.implicit import custom_linear_solve, root
from .transforms.jacobian import hessian, hvp, jacfwd, jacrev
from .transforms.vmap import vmap

_ON_FIRST_USE = ("nn", "numpy", "optim", "random", "scipy")


if _typing.TYPE_CHECKING:  # checkers report names that do not exist, which `__getattr__` would hide from them
    from . import nn as nn
    from . import numpy as numpy
    from . import optim as optim
    from . import random as random
    from . import scipy as scipy
else:

    def __getattr__(name):
        if name in _ON_FIRST_USE:
            return _import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ON_FIRST_USE])


__all__ = [
    "Spec", "Tensor", "check_grads", "check_op", "checkpoint", "clear_cache", "cond", "custom_jvp",
    "custom_linear_solve", "custom_op", "custom_vjp", "elementwise", "errors", "explain_recompiles", "fori_loop",
    "get_threads", "grad", "hessian", "hvp", "index_add", "index_max", "index_min", "index_mul", "index_update",
    "jacfwd", "jacrev", "jit", "jvp", "linearize", "load", "ops", "root", "save", "scan", "set_threads", "spec",
    "stop_gradient", "switch", "tree", "value_and_grad", "vjp", "vmap", "while_loop",
]
