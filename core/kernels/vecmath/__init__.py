"""Vector math as LLVM IR text: exp, log, sin, erf, pow, ... written once for scalars and vectors of any width.

A function of width 1 is scalar code without branches or library calls, which LLVM's loop vectorizer turns into full
vectors; one of width n takes <n x float> or <n x double>. Both dtypes. Infinities, NaN, signed zeros and subnormal
numbers behave as in NumPy. `names()` lists the functions with arity and largest error.

sin, cos and tan of angles beyond `Row.far` (1e13 in float32, 3e13 in float64) need another, much slower method: vectors
branch to the C library, lane by lane; scalar code gives NaN, since a branch would keep its loop from being vectorized.

On Intel processors give a function that holds such loops the attribute "prefer-vector-width"="512": 10 to 30 % faster.

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

from . import error, exponential, logarithm, power, trigonometric  # noqa: F401  (they register themselves)
from .builder import Builder, Value, type_name
from .registry import FUNCTIONS, Row

__all__ = ["Row", "definitions", "function", "names", "symbol"]

_SYMBOL = re.compile(r"@tsk\.(\w+)\.(?:v(\d+))?(f32|f64)")
_ARGUMENTS = ("x", "y", "z")


def names() -> dict[str, Row]:
    """Every function: name -> (body, arity, largest error in ulp by dtype, reach by dtype)."""
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
def _define(name: str, dtype: str, width: int, fma: bool, linkage: str) -> tuple[dict[str, str], frozenset[str]]:
    b = Builder(dtype, width, fma)
    row = FUNCTIONS[name]
    arguments = [Value(b, f"%{a}", "f") for a in _ARGUMENTS[: row.arity]]
    result = row.body(b, *arguments)
    t, s = b.type(), symbol(name, dtype, width)
    attributes, bodies = "nounwind willreturn memory(none)", {}
    end = [f"  ret {t} {result.name}", "}"]
    if row.far:
        is_far = b.abs(arguments[0]) > row.far[dtype]
        if width == 1:
            end[0] = f"  ret {t} {b.select(is_far, float('nan'), result).name}"
        else:
            far = s.replace("@tsk.", "@tsk.far_")
            b.declares |= {
                f"declare i1 @llvm.vector.reduce.or.v{width}i1({b.type('b')})",
                "declare i1 @llvm.expect.i1(i1, i1)",
            }
            any_far = b.emit(f"call i1 @llvm.vector.reduce.or.v{width}i1({b.type('b')} {is_far.name})", "b")
            rarely = b.emit(f"call i1 @llvm.expect.i1(i1 {any_far.name}, i1 false)", "b")
            end = [
                f"  br i1 {rarely.name}, label %far, label %near",
                "far:",
                f"  %lanes = call {t} {far}({t} %x)",
                f"  ret {t} %lanes",
                "near:",
                *end,
            ]
            bodies[far] = f"define {linkage} {t} {far}({t} %x) noinline {attributes} {{\n{_lane_by_lane(b, name)}\n}}"
    head = f"define {linkage} {t} {s}({', '.join(f'{t} {a.name}' for a in arguments)})"
    bodies[s] = "\n".join([f"{head} alwaysinline {attributes} {{", *b.lines, *end])
    return bodies, frozenset(b.declares)


def _lane_by_lane(b: Builder, name: str) -> str:
    """A body that calls the C library for every lane."""
    t, e, previous, lines = b.type(), {"f32": "float", "f64": "double"}[b.dtype], "poison", []
    b.declares.add(f"declare {e} @llvm.{name}.{b.dtype}({e})")
    for i in range(b.width):
        lines += [
            f"  %x{i} = extractelement {t} %x, i32 {i}",
            f"  %y{i} = call {e} @llvm.{name}.{b.dtype}({e} %x{i})",
            f"  %r{i} = insertelement {t} {previous}, {e} %y{i}, i32 {i}",
        ]
        previous = f"%r{i}"
    return "\n".join([*lines, f"  ret {t} {previous}"])


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
        Symbol -> "define ..." text, of what they call too.
    set of str
        "declare ..." lines of the intrinsics used, each to be put into the module once.
    """
    bodies: dict[str, str] = {}
    declares: set[str] = set()
    for s in symbols:
        match = _SYMBOL.fullmatch(s)
        if match is None:
            raise ValueError(f"vecmath: symbol must look like '@tsk.exp.f64' or '@tsk.exp.v8f64', got {s!r}")
        name, width, dtype = match.groups()
        symbol(name, dtype)  # known?
        text, used = _define(name, dtype, int(width or 1), fma, linkage)
        bodies |= text
        declares |= used
    return bodies, declares


def function(name: str, dtype: str, width: int = 1, *, fma: bool = True) -> tuple[str, dict[str, str]]:
    """Symbol of a function, and the text it needs: name -> definition or declaration."""
    s = symbol(name, dtype, width)
    bodies, declares = definitions([s], fma=fma)
    return s, bodies | {line.split("@")[1].split("(")[0]: line for line in declares}
