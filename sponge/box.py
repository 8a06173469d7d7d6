"""Periodic boxes: three vectors as the rows of a [3, 3] array, lower triangular and reduced.

The reduced form (that of GROMACS and OpenMM) is a = (ax, 0, 0), b = (bx, by, 0), c = (cx, cy, cz) with
|bx| <= ax/2, |cx| <= ax/2, |cy| <= by/2; every lattice has one, up to a rotation.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from triskele.core.extend import device

from .errors import BoxError
from .quantities import number_in

__all__ = [
    "angles_and_lengths",
    "as_box",
    "displacement",
    "from_lengths_angles",
    "largest_cutoff",
    "minimum_image",
    "volume",
]


def as_box(box: Any, where: str = "box") -> np.ndarray:
    """A box as a [3, 3] float64 array in reduced form.

    Parameters
    ----------
    box : float, (3,) or (3, 3) array
        Edge of a cube, edges of a rectangular box, or the three vectors as rows, in nm.
    where : str
        Name of the caller, for error messages.

    Raises
    ------
    BoxError
        If the box does not consist of numbers, a length is not positive and finite, or the vectors are not lower
        triangular (rotate them first).

    Examples
    --------
    >>> from triskele.sponge.box import as_box
    >>> as_box([3.0, 4.0, 5.0])[2]
    array([0., 0., 5.])
    """
    given = np.array(number_in("nm", box, where), object)
    if not all(isinstance(x, numbers.Real) and not isinstance(x, bool) for x in given.flat):
        raise BoxError(f"{where}: lengths must be numbers in nm, got {box!r:.80}")
    box = given.astype(np.float64)
    if box.shape == ():
        box = np.diag(np.repeat(box, 3))
    elif box.shape == (3,):
        box = np.diag(box)
    if box.shape != (3, 3):
        raise BoxError(f"{where}: must be a length, three lengths or three vectors (rows), got shape {box.shape}")
    if not np.all(np.isfinite(box)) or np.any(np.diag(box) <= 0):
        raise BoxError(f"{where}: lengths must be positive and finite, got {box.tolist()}")
    if np.any(np.abs(box[[0, 0, 1], [1, 2, 2]]) > 1e-9 * np.max(np.diag(box))):
        raise BoxError(
            f"{where}: vectors must be lower triangular, a = (ax, 0, 0), b = (bx, by, 0), got {box.tolist()}"
        )
    a, b, c = np.tril(box)
    c = c - b * np.rint(c[1] / b[1])
    c = c - a * np.rint(c[0] / a[0])
    b = b - a * np.rint(b[0] / a[0])
    return np.stack([a, b, c])


def from_lengths_angles(lengths: Any, angles: Any) -> np.ndarray:
    """The reduced box of edges a, b, c (nm) and angles alpha, beta, gamma (radians).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import box
    >>> edges = box.from_lengths_angles([3.0, 3.0, 4.0], np.radians([90.0, 90.0, 90.0]))
    >>> edges.round(12)
    array([[3., 0., 0.],
           [0., 3., 0.],
           [0., 0., 4.]])
    """
    a, b, c = lengths
    alpha, beta, gamma = angles
    # a right angle that went through degrees and back is meant to be exact
    cos = [0.0 if abs(np.cos(t)) < 1e-12 else np.cos(t) for t in (alpha, beta, gamma)]
    bx, by = b * cos[2], b * np.sqrt(1 - cos[2] ** 2)
    cx, cy = c * cos[1], c * (cos[0] - cos[1] * cos[2]) / np.sqrt(1 - cos[2] ** 2)
    return as_box([[a, 0, 0], [bx, by, 0], [cx, cy, np.sqrt(c * c - cx * cx - cy * cy)]])


def angles_and_lengths(box: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges (nm) and angles alpha, beta, gamma (radians) of a box.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import box
    >>> edges = box.from_lengths_angles([3.0, 3.0, 4.0], np.radians([90.0, 90.0, 90.0]))
    >>> lengths, angles = box.angles_and_lengths(edges)
    >>> lengths.round(6), np.degrees(angles).round(6)
    (array([3., 3., 4.]), array([90., 90., 90.]))
    """
    lengths = np.linalg.norm(box, axis=1)
    unit = box / lengths[:, None]
    return lengths, np.arccos([unit[1] @ unit[2], unit[0] @ unit[2], unit[0] @ unit[1]])


def volume(box: Any) -> Any:
    """Volume in nm^3; can be differentiated, by the zeros of the box too.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import box
    >>> edges = box.from_lengths_angles([3.0, 3.0, 4.0], np.radians([90.0, 90.0, 90.0]))
    >>> round(float(box.volume(edges)), 6)
    36.0
    """
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = ((row[0], row[1], row[2]) for row in box)
    return ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)


def largest_cutoff(box: np.ndarray) -> float:
    """Half the smallest edge of the reduced box: up to there one image of every pair is enough (nm).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import box
    >>> edges = box.from_lengths_angles([3.0, 3.0, 4.0], np.radians([90.0, 90.0, 90.0]))
    >>> float(box.largest_cutoff(edges))
    1.5
    """
    return 0.5 * float(np.min(np.diag(box)))


def given_box(box: Any, periodic: bool, where: str) -> np.ndarray | None:
    """Return a box that a user gave as (3, 3) float, or None; raise BoxError unless the system is as `periodic`."""
    if (box is not None) != periodic:
        raise BoxError(
            f"{where}: a box must be given, as the system has one"
            if periodic
            else f"{where}: a box was given, but the system is not periodic"
        )
    return None if box is None else as_box(box, where)


def check_cutoff(name: str, cutoff: float, box: np.ndarray) -> None:
    """Raise BoxError if the cut-off of the potential `name` is too long for the box."""
    if cutoff > (largest := largest_cutoff(box)):
        raise BoxError(
            f"{name}: the cut-off must be at most half the smallest box edge {2 * largest:.4g} nm, got "
            f"{cutoff} nm (a smaller cutoff, or a larger box)"
        )


def displacement(d: Any, box: Any) -> Any:
    """Differences of positions as their nearest images: d [..., 3] minus a whole number of box vectors.

    Right for differences shorter than `largest_cutoff`; longer ones come back as one of their short images. The number
    of vectors is a constant to derivatives, so that the box receives its gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import box
    >>> box.displacement(np.array([2.9, 0.0, -1.7]), np.diag([3.0, 3.0, 3.0])).round(6)
    array([-0.1,  0. ,  1.3])
    """
    if box is None:
        return d
    for k in (2, 1, 0):  # whole rows, zeros of the box included: these have derivatives too
        d = d - np.rint(d[..., k : k + 1] / box[k, k]) * box[k]
    return d


@device
def minimum_image(x, y, z, box):
    """Nearest image of a difference, in kernels; `box` [3, 3] as above.

    Parameters
    ----------
    x, y, z : float
        Difference of two positions, nm.
    box : (3, 3) array, nm
        Reduced box vectors, one in each row.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import sponge
    >>> from triskele.sponge.box import minimum_image
    >>> from triskele.core.extend import kernel
    >>> @kernel(cache=False)
    ... def nearest(x, box):
    ...     return minimum_image(x, 0.0, 0.0, box)
    >>> round(nearest(2.9, np.diag(np.full(3, 3.0)))[0], 6)
    -0.1
    """
    n = np.rint(z / box[2, 2])
    x, y, z = x - n * box[2, 0], y - n * box[2, 1], z - n * box[2, 2]
    n = np.rint(y / box[1, 1])
    x, y = x - n * box[1, 0], y - n * box[1, 1]
    n = np.rint(x / box[0, 0])
    return x - n * box[0, 0], y, z
