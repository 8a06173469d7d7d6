"""Arrays of other libraries (PyTorch, JAX, pandas …) as arguments: NumPy arrays of the same memory where possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import tree
from .dtypes import kind_of
from .imports import optional
from .tensor import VALUES

__all__ = ["as_plain", "dataframe", "flatten"]

_HOST = (1, 3, 11)  # DLPack's device types in the processor's memory: CPU, pinned for CUDA, pinned for ROCm


def as_plain(x: Any, where: str) -> Any:
    """Return an array of another library (it has ``__array__``) as an ndarray, and anything else as it is.

    Raise TypeError if the array lies on another device, carries a gradient or a trace of its library, or has a dtype
    unknown to NumPy; `where` begins the message.
    """
    if isinstance(x, VALUES) or not hasattr(x, "__array__") or isinstance(x, type):
        return x
    name = f"{type(x).__module__.partition('.')[0]}.{type(x).__qualname__}"
    if getattr(x, "requires_grad", False):
        raise TypeError(
            f"{where}: cannot record the gradient of a {name} with requires_grad=True "
            "(pass x.detach(), or let core.to_torch make a torch function with gradients)"
        )
    if name.startswith("jax") and type(x).__name__.endswith("Tracer"):
        raise TypeError(
            f"{where}: cannot compute with a traced value of JAX "
            "(let core.to_jax make a function that works under jax.jit, grad and vmap)"
        )
    device = getattr(x, "__dlpack_device__", None)
    if device is not None:
        try:
            kind = device()[0]
        except Exception:  # devices that DLPack does not know  # noqa: BLE001
            kind = None
        if kind not in _HOST:
            raise TypeError(
                f"{where}: expected an array in the CPU's memory, got a {name} on device "
                f"{getattr(x, 'device', kind)} (copy it, as with x.cpu())"
            )
    try:
        array = None if "bfloat16" in str(getattr(x, "dtype", "")) else np.asarray(x)
    except Exception as error:  # whatever the other library raises
        raise TypeError(f"{where}: a {name} cannot become a NumPy array: {error}") from error
    if array is None or kind_of(array.dtype) not in "biufc":
        raise TypeError(
            f"{where}: expected an array of numbers that NumPy has a type for, got a {name} of dtype "
            f"{getattr(x, 'dtype', None)} (convert it to float32 or float64)"
        )
    return array


def flatten(values: Any, where: str) -> tuple[list[Any], tree.Structure]:
    """Return the leaves of a tree, with arrays of other libraries as ndarrays, and its structure.

    >>> flatten({"x": 1.0}, "f")
    ([1.0], {'x': *})
    """
    leaves, structure = tree.flatten(values)
    return [as_plain(x, where) for x in leaves], structure


def dataframe(columns: Any, name: str, index: Any = None) -> Any:
    """Return columns of one length as a pandas DataFrame.

    Parameters
    ----------
    columns : dict of str to array
    name : str
        Name of the index.
    index : sequence, optional
        Defaults to 0, 1, 2 ...

    Raises
    ------
    ImportError
        If pandas is not installed.

    Examples
    --------
    >>> from triskele.core.extend import dataframe
    >>> dataframe({"energy": [1.0, 0.5]}, "step").index.name
    'step'
    """
    pandas = optional.need("pandas", "to_dataframe", "ml")
    length = len(next(iter(columns.values())))
    return pandas.DataFrame(columns, pandas.Index(range(length) if index is None else index, name=name))
