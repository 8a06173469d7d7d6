"""`Tabulated`: functions given by a table of values, as expressions call them, that the core can trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline

from triskele import core

__all__ = ["Tabulated"]


class Tabulated:
    """A function of one, two or three variables that is given by a table.

    Parameters
    ----------
    values : (a,), (a, b) or (a, b, c) array
        ``values[i, j, k]`` is the value at the i-th place along the first axis, and so on.
    ranges : sequence of (float, float), optional
        Ends of each axis. The function is then a natural cubic spline (a tensor product of them in several dimensions)
        between equally spaced points and 0 outside. Defaults to a function of whole numbers from 0 on: arguments
        are rounded, halves up, and it is NaN outside the table.
    periodic : bool
        Repeat the spline along all axes; the values at both ends of an axis must be equal.
    slopes : (a,) array, optional
        Derivatives of a table of one variable with ranges, which the cubic polynomials between its points then have.

    Raises
    ------
    ValueError
        If the table has another number of axes, fewer than two points along an axis, values or ranges that are not
        finite, or ends that differ although it is periodic; if it is periodic without ranges.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> square = sponge.Tabulated(np.linspace(0, 1, 101) ** 2, [(0.0, 1.0)])
    >>> round(float(square(0.505)), 4)
    0.255
    """

    def __init__(
        self,
        values: Any,
        ranges: Sequence[tuple[float, float]] | None = None,
        periodic: bool = False,
        slopes: Any = None,
    ):
        self.values = np.array(values, np.float64)
        self.slopes = None if slopes is None else np.array(slopes, np.float64)
        self.ranges = None if ranges is None else tuple((float(a), float(b)) for a, b in ranges)
        self.periodic, self.arity = bool(periodic), self.values.ndim
        if not 1 <= self.arity <= 3 or not np.all(np.isfinite(self.values)):
            raise ValueError(
                f"Tabulated: values must be finite numbers along 1 to 3 axes, got shape {self.values.shape}"
            )
        if self.ranges is None and self.periodic:
            raise ValueError("Tabulated: a periodic table must have ranges, got none")
        if self.ranges is not None and (len(self.ranges) != self.arity or not np.all(np.isfinite(self.ranges))):
            raise ValueError(
                f"Tabulated: ranges must be two finite ends for each of {self.arity} axes, got {self.ranges}"
            )
        if self.slopes is not None and (self.arity != 1 or self.ranges is None or len(self.slopes) != len(self.values)):
            raise ValueError(
                "Tabulated: slopes must be those of a table of one variable with ranges, one for each value"
            )
        self.coefficients = None if self.ranges is None else self._splines()

    def _splines(self) -> np.ndarray:
        """Coefficients [cells, 4, 4, ...] of the powers of the places in the cells, highest first."""
        assert self.ranges is not None
        out = self.values
        for axis, (low, high) in enumerate(self.ranges):
            n = self.values.shape[axis]
            if n < 2 or not low < high:
                raise ValueError(
                    f"Tabulated: every axis must have ends min < max and at least 2 points, got {n} from "
                    f"{low} to {high}"
                )
            first, last = core.numpy.take(self.values, 0, axis), np.take(self.values, n - 1, axis)
            if self.periodic and not np.array_equal(first, last):
                raise ValueError("Tabulated: values at both ends of a periodic table must be equal")
            # in units of cells; the axes [powers, cells] of this variable go to the end
            where = np.moveaxis(out, 0, -1)
            if self.periodic:
                where[..., -1] = where[..., 0]
            spline: Any = None
            if self.slopes is not None:
                spline = CubicHermiteSpline(np.arange(n), where, self.slopes * (high - low) / (n - 1), axis=-1)
            else:
                spline = CubicSpline(np.arange(n), where, axis=-1, bc_type="periodic" if self.periodic else "natural")
            out = np.moveaxis(np.asarray(spline.c), (0, 1), (-2, -1))
        d = self.arity
        out = out.transpose([2 * k + 1 for k in range(d)] + [2 * k for k in range(d)])
        return np.ascontiguousarray(out.reshape(-1, *[4] * d))

    def __repr__(self):
        kind = "whole numbers" if self.ranges is None else "periodic spline" if self.periodic else "spline"
        return f"<Tabulated {self.values.shape}: {kind}>"

    def __call__(self, *at: Any) -> Any:
        """The value at numbers, arrays or traced values, which broadcast."""
        zero = sum(0.0 * x for x in at)
        places = [x + zero for x in at]
        if self.coefficients is None:
            return self._whole(places)
        assert self.ranges is not None
        index, powers, inside = 0, [], True
        for x, (low, high), n in zip(places, self.ranges, self.values.shape):
            u = (x - low) * ((n - 1) / (high - low))
            if self.periodic:
                u = u - (n - 1) * np.floor(u / (n - 1))
            else:
                inside = inside & (x >= low) & (x <= high)
            cell = np.minimum(np.maximum(np.floor(u).astype(np.int64), 0), n - 2)
            u = u - cell
            powers.append(np.stack([u * u * u, u * u, u, u**0], axis=-1))
            index = index * (n - 1) + cell
        value = core.numpy.take(self.coefficients, index, axis=0)
        for power in reversed(powers):  # the last axis belongs to the last variable
            while np.ndim(power) < np.ndim(value):
                power = power[..., None, :]
            value = np.sum(value * power, axis=-1)
        return value if inside is True else np.where(inside, value, zero)

    def _whole(self, places: list[Any]) -> Any:
        index, known = 0, True
        for x, n in zip(places, self.values.shape):
            whole = np.floor(x + 0.5)
            known = known & (x > -0.5) & (whole < n)
            index = index * n + np.minimum(np.maximum(whole.astype(np.int64), 0), n - 1)
        return np.where(known, core.numpy.take(self.values.reshape(-1), index), np.nan)
