"""Questions about an array that have plain answers: shape, ndim, size, result_type …"""

from __future__ import annotations

import numpy as np

from ..graph.graph import Spec, spec_of
from ..tensor import Tensor, implements
from .define import promoted

__all__: list[str] = []


@implements(np.shape, view=True)
def shape(a):
    return a.shape


@implements(np.ndim)
def ndim(a):
    return len(a.shape)


@implements(np.size)
def size(a, axis=None):
    return a.spec.size if axis is None else a.shape[axis]


@implements(np.result_type)
def result_type(*arrays_and_dtypes):
    known = [
        x.spec
        if isinstance(x, Tensor)
        else Spec((), x)
        if isinstance(x, np.dtype)
        else Spec((), np.dtype(x))
        if isinstance(x, (type, str))
        else spec_of(x)
        for x in arrays_and_dtypes
    ]
    return promoted(*known)


@implements(np.can_cast)
def can_cast(from_, to, casting="safe"):
    return np.can_cast(spec_of(from_).dtype, to, casting)


@implements(np.iscomplexobj)
def iscomplexobj(x):
    return x.dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x):
    return x.dtype.kind != "c"
