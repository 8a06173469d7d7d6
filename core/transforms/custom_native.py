"""Custom operators as machine code: addresses of C functions, and entries that compiled programs call without Python.

An entry has one C signature whatever the operator, ``int32_t entry(void **table)``: pointers to the C-contiguous
inputs, then to the outputs, shapes being known when it is made. It returns 0, or 1 if the operator failed; the caller
then runs the operator's `impl`, which raises the error.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.graph import Spec

__all__ = ["address_of", "c_entry", "c_loop", "call_c", "default_abi", "numba_entry", "parse_abi"]

_TOKEN = re.compile(r"(value|in|shape|size|ndim|out|outshape|outsize|outndim)(\d+)(?::(int32|int64))?$")


def address_of(function: Any, where: str) -> int:
    """Address of a ctypes or cffi function pointer, a Numba cfunc, or the integer itself."""
    if isinstance(function, int) and not isinstance(function, bool):
        return function
    if hasattr(function, "address") and isinstance(function.address, int):
        return function.address
    if isinstance(function, ctypes._CFuncPtr):
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    if type(function).__module__ == "_cffi_backend":
        import cffi

        return int(cffi.FFI().cast("uintptr_t", function))
    raise TypeError(
        f"{where}: mode='cfunc' needs a ctypes or cffi function pointer, a Numba cfunc or an integer address, "
        f"got {type(function).__name__}"
    )


def default_abi(n_in: int, n_out: int) -> tuple[str, ...]:
    """Each array as a pointer followed by a pointer to its shape (int64): inputs, then outputs."""
    inputs = [t for i in range(n_in) for t in (f"in{i}", f"shape{i}")]
    return *inputs, *[t for i in range(n_out) for t in (f"out{i}", f"outshape{i}")]


def parse_abi(abi: Sequence[str], where: str) -> list[tuple[str, int, np.dtype]]:
    """Parameters of the C function as (kind, array, integer type)."""
    parsed = []
    for token in abi:
        match = _TOKEN.match(token)
        if match is None:
            raise ValueError(
                f"{where}: abi must be made of in0, shape0, size0, ndim0, value0, out0, outshape0, outsize0, outndim0 "
                f"(any number; ':int32' after sizes and ranks), got {token!r}"
            )
        parsed.append((match[1], int(match[2]), np.dtype(match[3] or "int64")))
    return parsed


def c_types(parsed, in_specs: Sequence[Spec]) -> list[Any]:
    """The ctypes of the parameters."""
    return [
        ctypes.c_void_p
        if what in ("in", "out", "shape", "outshape")
        else np.ctypeslib.as_ctypes_type(in_specs[i].dtype if what == "value" else integer)
        for what, i, integer in parsed
    ]


def _number(what, i, in_specs, out_specs):
    spec = (out_specs if what.startswith("out") else in_specs)[i]
    return spec.size if what.endswith("size") else spec.ndim


def call_c(address: int, parsed, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Call a C function on arrays through ctypes."""
    in_specs, out_specs = [[Spec(a.shape, a.dtype) for a in arrays] for arrays in (inputs, outputs)]
    kept, args = [], []
    for what, i, _ in parsed:
        if what in ("in", "out"):
            args.append((inputs if what == "in" else outputs)[i].ctypes.data)
        elif what in ("shape", "outshape"):
            kept.append(np.array((inputs if what == "shape" else outputs)[i].shape, np.int64))
            args.append(kept[-1].ctypes.data)
        else:
            args.append(inputs[i].item() if what == "value" else _number(what, i, in_specs, out_specs))
    ctypes.CFUNCTYPE(None, *c_types(parsed, in_specs))(address)(*args)


def c_loop(address: int, n_in: int, dtypes: Sequence[np.dtype], out_dtype: np.dtype):
    """A compiled loop that calls the scalar C function ``T f(T, ...)`` for each element of flat arrays."""
    import numba

    as_c = np.ctypeslib.as_ctypes_type
    f = ctypes.CFUNCTYPE(as_c(out_dtype), *[as_c(d) for d in dtypes])(address)
    names = ", ".join(f"x{i}" for i in range(n_in))
    calls = ", ".join(f"x{i}[k]" for i in range(n_in))
    scope = {"f": f}
    exec(f"def loop({names}, out):\n    for k in range(out.size):\n        out[k] = f({calls})\n", scope)  # noqa: S102
    return numba.njit(scope["loop"])


def numba_entry(dispatcher: Any, in_specs: Sequence[Spec], out_specs: Sequence[Spec], static: dict[str, Any]) -> Any:
    """The entry of a Numba kernel ``f(*inputs, *outputs, **static)``, as a Numba cfunc."""
    scope: dict[str, Any] = {"kernel": dispatcher}
    call = []
    body = []
    for k, spec in enumerate([*in_specs, *out_specs]):
        scope[f"dtype{k}"] = spec.dtype
        is_input = k < len(in_specs)
        shape = spec.shape or (1,)
        index = "[0]" if is_input and not spec.shape else ".reshape(())" if not spec.shape else ""
        body.append(f"a{k} = carray(table[{k}], {shape}, dtype{k}){index}")
        call.append(f"a{k}")
    for name, value in static.items():
        scope[f"static_{name}"] = value
        call.append(f"{name}=static_{name}")
    body.append(f"kernel({', '.join(call)})")
    return _entry(body, scope)


def c_entry(address: int, parsed, in_specs: Sequence[Spec], out_specs: Sequence[Spec]) -> Any:
    """The entry of a C function with parameters as in `parse_abi`, as a Numba cfunc."""
    scope: dict[str, Any] = {"f": ctypes.CFUNCTYPE(None, *c_types(parsed, in_specs))(address)}
    args, body = [], []
    for what, i, _ in parsed:
        k = i + (len(in_specs) if what.startswith("out") else 0)
        if what in ("in", "out"):
            args.append(f"table[{k}]")
        elif what in ("shape", "outshape"):
            scope[f"shape{k}"] = np.array([*in_specs, *out_specs][k].shape or (0,), np.int64)
            args.append(f"shape{k}.ctypes")
        elif what == "value":
            scope[f"dtype{k}"] = in_specs[i].dtype
            body.append(f"a{k} = carray(table[{k}], (1,), dtype{k})[0]")
            args.append(f"a{k}")
        else:
            args.append(str(_number(what, i, in_specs, out_specs)))
    return _entry([*body, f"f({', '.join(args)})"], scope)


def _entry(body, scope):
    import numba
    from numba import types

    lines = [
        "def entry(table):",
        "    try:",
        *[f"        {b}" for b in body],
        "        return 0",
        "    except Exception:",
        "        return 1",
    ]
    scope["carray"] = numba.carray
    exec("\n".join(lines), scope)  # noqa: S102  the text is ours
    return numba.cfunc(types.int32(types.CPointer(types.voidptr)))(scope["entry"])
