"""Vector math as LLVM IR text: exp, log, sin, erf, pow, ... written once for scalars and vectors of any width.

A function of width 1 is scalar code without branches or library calls, which LLVM's loop vectoriser turns into full
vectors; one of width n takes <n x float> or <n x double>. Both dtypes. Infinities, NaN, signed zeros and subnormal
numbers behave as in NumPy. `names()` lists the functions with arity and largest error.

Examples
--------
>>> from triskele.core.kernels import vecmath
>>> vecmath.symbol("exp", "f64", 8)
'@tsk.exp.v8f64'
>>> bodies, declarations = vecmath.definitions(["@tsk.exp.f64"])
>>> print(bodies["@tsk.exp.f64"].splitlines()[0])
define internal double @tsk.exp.f64(double %x) alwaysinline nounwind willreturn memory(none) {
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from triskele.core.kernels.vecmath import error, exponential, logarithm, power, trigonometric  # noqa: F401  (their bodies register themselves)
from triskele.core.kernels.vecmath.builder import Builder, Value, type_name
from triskele.core.kernels.vecmath.registry import FUNCTIONS, Row

__all__ = ["Row", "definitions", "function", "names", "symbol"]

_SYMBOL = re.compile(r"@tsk\.(\w+)\.(?:v(\d+))?(f32|f64)")
_ARGUMENTS = ("x", "y", "z")


def names() -> dict[str, Row]:
    """Every function: name -> (body, arity, largest error in ulp by dtype)."""
    return dict(FUNCTIONS)


def symbol(name: str, dtype: str, width: int = 1) -> str:
    """The LLVM symbol of a function over `width` lanes of `dtype` ("f32" or "f64").

    Raises
    ------
    ValueError
        For an unknown function or dtype, or a width below 1.
    """
    if name not in FUNCTIONS:
        raise ValueError(f"vecmath: function must be one of {', '.join(sorted(FUNCTIONS))}, got {name!r}")
    if dtype not in ("f32", "f64"):
        raise ValueError(f"vecmath: dtype must be 'f32' or 'f64', got {dtype!r}")
    if width < 1:
        raise ValueError(f"vecmath: width must be >= 1, got {width}")
    return f"@tsk.{name}.{type_name(dtype, width)}"


@cache
def _define(name: str, dtype: str, width: int, fma: bool, linkage: str) -> tuple[str, frozenset[str]]:
    b = Builder(dtype, width, fma)
    row = FUNCTIONS[name]
    arguments = [Value(b, f"%{a}", "f") for a in _ARGUMENTS[: row.arity]]
    result = row.body(b, *arguments)
    t = b.type()
    head = f"define {linkage} {t} {symbol(name, dtype, width)}({', '.join(f'{t} {a.name}' for a in arguments)})"
    lines = [f"{head} alwaysinline nounwind willreturn memory(none) {{", *b.lines, f"  ret {t} {result.name}", "}"]
    return "\n".join(lines), frozenset(b.declares)


def definitions(
    symbols: Iterable[str], *, fma: bool = True, linkage: str = "internal"
) -> tuple[dict[str, str], set[str]]:
    """IR text of the functions named by `symbols`.

    Parameters
    ----------
    symbols : iterable of str
        As `symbol` returns them.
    fma : bool
        Whether the target has fused multiply-add. If not, exact products are split: `llvm.fma` would call libm.
    linkage : str
        "internal" for text put into one module, "linkonce_odr" for a module linked to others.

    Returns
    -------
    dict
        Symbol -> "define ..." text.
    set of str
        "declare ..." lines of the intrinsics used, each to be put into the module once.
    """
    bodies, declares = {}, set()
    for s in symbols:
        match = _SYMBOL.fullmatch(s)
        if match is None:
            raise ValueError(f"vecmath: symbol must look like '@tsk.exp.f64' or '@tsk.exp.v8f64', got {s!r}")
        name, width, dtype = match.groups()
        symbol(name, dtype)  # known?
        bodies[s], used = _define(name, dtype, int(width or 1), fma, linkage)
        declares |= used
    return bodies, declares


def function(name: str, dtype: str, width: int = 1, *, fma: bool = True) -> tuple[str, dict[str, str]]:
    """Symbol of a function, and the text it needs: name -> definition or declaration."""
    s = symbol(name, dtype, width)
    bodies, declares = definitions([s], fma=fma)
    return s, bodies | {line.split("@")[1].split("(")[0]: line for line in declares}
