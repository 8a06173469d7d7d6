"""Dormand and Prince's Runge-Kutta method of order 5, for equations that are not stiff.

J. R. Dormand, P. J. Prince, J. Comput. Appl. Math. 6, 19 (1980); the interpolant of order 4 is that of L. F. Shampine,
Math. Comput. 46, 135 (1986).
"""

from __future__ import annotations

from typing import Any

from .step import Slope, Step

__all__ = ["dopri5"]

_NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES: tuple[tuple[float, ...], ...] = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)  # fmt: skip
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)  # order 5 less order 4
_DENSE = (  # rows: powers of the fraction of the step; columns: stages
    (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (-8048581381 / 2820520608, 0.0, 131558114200 / 32700410799, -1754552775 / 470086768, 127303824393 / 49829197408,
     -282668133 / 205662961, 40617522 / 29380423),
    (8663915743 / 2820520608, 0.0, -68118460800 / 10900136933, 14199869525 / 1410260304,
     -318862633887 / 49829197408, 2019193451 / 616988883, -110615467 / 29380423),
    (-12715105075 / 11282082432, 0.0, 87487479700 / 32700410799, -10690763975 / 1880347072,
     701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423),
)  # fmt: skip


def dopri5(f: Slope, y: Any, t: Any, h: Any, slope: Any, size: Any) -> Step:
    """A step of `h` from (y, t), where dy/dt is `slope`; `size` is `h` in the dtype of y."""
    stages, new = [slope], y
    for node, row in zip(_NODES, _STAGES, strict=True):
        new = y + size * combined(row, stages)
        stages.append(f(new, t + node * h))
    return Step(new, size * combined(_ERROR, stages), stages[-1], tuple(size * combined(c, stages) for c in _DENSE))


def combined(factors: tuple[float, ...], vectors: list[Any]) -> Any:
    """The sum of factors times vectors."""
    return sum(c * v for c, v in zip(factors, vectors, strict=True) if c)
