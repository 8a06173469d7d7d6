"""`Algebra`: the arithmetic that sums of operators have in common."""

from __future__ import annotations

from numbers import Complex
from typing import Any, Self

from ..errors import OperatorError

__all__ = ["Algebra"]


class Algebra:
    """Base of sums that can be added and multiplied: the other operations follow. Numbers multiply the identity."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy numbers leave sums and products to us

    @classmethod
    def _operand(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        return cls(complex(value)) if isinstance(value, Complex) else NotImplemented  # type: ignore[call-arg]

    def __radd__(self, other: Any) -> Self:
        return self + other  # type: ignore[operator]

    def __rmul__(self, other: Any) -> Self:
        return self * other if isinstance(other, Complex) else NotImplemented  # type: ignore[operator, return-value]

    def __truediv__(self, other: Any) -> Self:
        if not isinstance(other, Complex):
            return NotImplemented
        if other == 0:
            raise OperatorError(f"{type(self).__name__}: division by zero")
        return self * (1 / complex(other))  # type: ignore[operator, return-value]

    def __neg__(self) -> Self:
        return self * -1  # type: ignore[operator, return-value]

    def __sub__(self, other: Any) -> Self:
        other = self._operand(other)
        return NotImplemented if other is NotImplemented else self + -other  # type: ignore[operator]

    def __rsub__(self, other: Any) -> Self:
        return -self + other  # type: ignore[operator]
