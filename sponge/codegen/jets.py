"""Jets: the value of a formula with its derivatives, as the source of one device function for kernels.

>>> from triskele.core.extend import elementwise
>>> @elementwise
... def spring(x, k):
...     return 0.5 * k * x * x
>>> print(jet("spring", spring, "x").strip())
@device
def spring(x, k):
    v0 = x * x
    v1 = k * v0
    v2 = 0.5 * v1
    v3 = k * x
    return v2, v3
"""

from __future__ import annotations

from collections.abc import Sequence

from triskele.core.extend import Elementwise

from .simd_source import Output, expressions

__all__ = ["directional", "jet"]


def directional(function: Elementwise, names: Sequence[str]) -> Elementwise:
    """The derivative of a function as its arguments `names` move: a function of all arguments, then of the moves.

    Its derivatives by the moves d_x are those of the function; its derivatives by the arguments are the second ones
    along the move.
    """
    partials, n = [function.partial(name) for name in names], len(function.names)

    def moved(*args):
        """The sum of the derivatives times the moves."""
        return sum(partial(*args[:n]) * move for partial, move in zip(partials, args[n:], strict=True))

    moved.__name__ = moved.__qualname__ = f"{function.__name__}_directional"
    return Elementwise(moved, (*function.names, *(f"d_{name}" for name in names)))


def jet(name: str, function: Elementwise, *by: str, width: int = 1, root: str = "") -> str:  # as of `expressions`
    """Source of a device function with the function's arguments: its value and the derivatives by the arguments `by`.

    A module with it must import `math`, `numpy` as `np`, `device` and, if `width` is above 1, `simd`.
    """
    lines, results = expressions(function, [Output(), *(Output((x,)) for x in by)], width=width, root=root)
    body = "".join(f"    {line}\n" for line in lines)
    return f"\n\n@device\ndef {name}({', '.join(function.names)}):\n{body}    return {', '.join(results)}\n"
