"""Transforms of images, (height, width, channels) or (height, width) arrays of uint8 in 0 ... 255 or of floats.

Each function makes a transform. ``flip(0.5)(image, key=key)`` works on one image at once, ``|`` composes transforms,
and in a pipeline neighbors become one compiled kernel per batch. Images of a source of different sizes are transformed
one by one until a transform, such as `resize`, makes their sizes equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import check, random
from .image_color import color_jitter, normalize
from .image_mix import cutout, mixup
from .resample import resized
from .transform import Transform

__all__ = ["affine", "center_crop", "color_jitter", "crop", "cutout", "flip", "mixup", "normalize", "resize"]


def _shape(x, where):
    """Height and width of an image."""
    check.shape(x, [("height", "width", "channels"), ("height", "width")], f"image.{where}: an image")
    return np.shape(x)[:2]


def _pair(size, where):
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(pair) != 2:
        raise ValueError(f"image.{where}: size must be one integer or (height, width), got {size!r}")
    return tuple(check.integer(n, f"image.{where}: size", 1) for n in pair)


def _over_channels(mask, x):
    return mask[:, :, None] if np.ndim(x) == 3 else mask


# -- flip --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Flip(Transform):
    """See `flip`."""

    probability: float
    axis: int
    random: ClassVar[bool] = True

    def apply(self, x: Any, key: Any) -> Any:
        _shape(x, "flip")
        return np.where(random.bernoulli(key, self.probability), x[:, ::-1] if self.axis == 1 else x[::-1], x)


def flip(probability: float = 0.5, axis: int = 1) -> Transform:
    """Mirror the image with some probability.

    Parameters
    ----------
    probability : float, default 0.5
    axis : {1, 0}, default 1
        1 exchanges left and right, 0 top and bottom.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data, random
    >>> data.image.flip(1.0)(np.array([[1, 2, 3]]), key=random.key(0))
    array([[3, 2, 1]])
    """
    return Flip(
        check.number(probability, "image.flip: probability", 0, 1), check.integer(axis, "image.flip: axis", 0, 1)
    )


# -- crops -------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Crop(Transform):
    """See `crop`."""

    size: tuple[int, int]
    pad: int
    random: ClassVar[bool] = True

    def apply(self, x: Any, key: Any) -> Any:
        n = _shape(x, "crop")
        _fits(n, self.size, self.pad, "crop")
        at = [
            random.randint(random.fold_in(key, k), 0, n[k] + 2 * self.pad - self.size[k] + 1)
            - self.pad
            + np.arange(self.size[k])
            for k in range(2)
        ]
        inside = [(p >= 0) & (p < m) for p, m in zip(at, n)]
        found = x[np.clip(at[0], 0, n[0] - 1)[:, None], np.clip(at[1], 0, n[1] - 1)]
        if not self.pad:
            return found
        return np.where(_over_channels(inside[0][:, None] & inside[1], x), found, np.zeros((), x.dtype))


def _fits(n, size, pad, where):
    if any(s > m + 2 * pad for s, m in zip(size, n)):
        raise ValueError(
            f"image.{where}: size must be at most that of the image{f' + 2 * {pad}' if pad else ''}, got "
            f"{size} for an image of {n}"
        )


def crop(size: int | Sequence[int], pad: int = 0) -> Transform:
    """Cut out a window at a random place.

    Parameters
    ----------
    size : int, or (height, width)
        Size of the window.
    pad : int, default 0
        Rows and columns of zeros around the image, into which the window may extend.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data, random
    >>> data.image.crop(32, pad=4)(np.zeros((32, 32, 3)), key=random.key(0)).shape
    (32, 32, 3)
    """
    return Crop(_pair(size, "crop"), check.integer(pad, "image.crop: pad", 0))


@dataclasses.dataclass(frozen=True)
class CenterCrop(Transform):
    """See `center_crop`."""

    size: tuple[int, int]

    def apply(self, x: Any) -> Any:
        n = _shape(x, "center_crop")
        _fits(n, self.size, 0, "center_crop")
        top, left = ((m - s) // 2 for m, s in zip(n, self.size))
        return x[top : top + self.size[0], left : left + self.size[1]]


def center_crop(size: int | Sequence[int]) -> Transform:
    """Cut out the middle of the image.

    Parameters
    ----------
    size : int, or (height, width)

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> data.image.center_crop(1)(np.array([[1, 2, 3]]))
    array([[2]])
    """
    return CenterCrop(_pair(size, "center_crop"))


# -- resize ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Resize(Transform):
    """See `resize`."""

    size: tuple[int, int]

    def apply(self, x: Any) -> Any:
        _shape(x, "resize")
        if np.dtype(x.dtype) != np.uint8 and np.dtype(x.dtype).kind != "f":
            raise TypeError(f"image.resize: an image must have dtype uint8 or floating, got {x.dtype}")
        return resized(x, *self.size) if np.ndim(x) == 3 else resized(x[:, :, None], *self.size)[:, :, 0]


def resize(size: int | Sequence[int]) -> Transform:
    """Resize the image, bilinearly with antialiasing.

    Results for uint8 are those of ``Image.resize(..., Resampling.BILINEAR)`` of Pillow up to version 12, bit for bit,
    and differ by at most 1 from those of Pillow 13, which begins with the columns where the height shrinks more than
    the width. Floating images use the same weights without rounding.

    Parameters
    ----------
    size : int, or (height, width)

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> data.image.resize((1, 2))(np.array([[0, 50, 100, 150]], np.uint8))
    array([[ 36, 114]], dtype=uint8)
    """
    return Resize(_pair(size, "resize"))


# -- affine ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Affine(Transform):
    """See `affine`."""

    degrees: float
    translate: float
    scale: tuple[float, float]
    shear: float
    random: ClassVar[bool] = True

    def apply(self, x: Any, key: Any) -> Any:
        h, w = _shape(x, "affine")
        angle, shear, down, right, zoom = random.uniform(key, 5, np.float32, low=-1.0)
        angle, shear = angle * np.float32(np.radians(self.degrees)), shear * np.float32(np.radians(self.shear))
        low, high = self.scale
        zoom = np.float32((low + high) / 2) + zoom * np.float32((high - low) / 2)
        down, right = down * np.float32(self.translate * h), right * np.float32(self.translate * w)
        return sampled(x, *inverse(h, w, angle, shear, zoom, down, right))


def inverse(h, w, angle, shear, zoom, down, right):
    """Rows and columns in the image, (h, w) float32, from which each pixel of the result comes."""
    y = np.arange(h, dtype=np.float32)[:, None] - np.float32((h - 1) / 2) - down
    x = np.arange(w, dtype=np.float32) - np.float32((w - 1) / 2) - right
    cos, sin = np.cos(angle) / zoom, np.sin(angle) / zoom
    column = x * cos + y * sin  # rotated back, then sheared back
    row = y * cos - x * sin
    column = column - row * np.tan(shear)
    return row + np.float32((h - 1) / 2), column + np.float32((w - 1) / 2)


def sampled(x, rows, columns):
    """Bilinear interpolation at fractional positions; zeros lie around the image."""
    h, w = np.shape(x)[:2]
    top, left = np.floor(rows), np.floor(columns)
    total = 0.0
    for i in range(2):
        for j in range(2):
            row, column = top + np.float32(i), left + np.float32(j)
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
            weight = np.where(inside, (1 - np.abs(rows - row)) * (1 - np.abs(columns - column)), np.float32(0))
            found = x[np.clip(row, 0, h - 1).astype(np.int64), np.clip(column, 0, w - 1).astype(np.int64)]
            total = total + found.astype(np.float32) * _over_channels(weight, x)
    return np.rint(total).astype(x.dtype) if np.dtype(x.dtype).kind in "iu" else total.astype(x.dtype)


def affine(
    degrees: float = 0.0, translate: float = 0.0, scale: Sequence[float] = (1.0, 1.0), shear: float = 0.0
) -> Transform:
    """Shear, scale, rotate and shift the image about its center, by random amounts.

    Each amount is uniform in its range. Pixels are interpolated bilinearly; zeros lie around the image.

    Parameters
    ----------
    degrees : float, default 0
        Largest angle of rotation, in degrees, in both directions.
    translate : float, default 0
        Largest shift as a part of height and width.
    scale : (low, high), default (1, 1)
        Range of the factor of size.
    shear : float, default 0
        Largest angle of shear along the rows, in degrees.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data, random
    >>> turn = data.image.affine(degrees=15, translate=0.1, scale=(0.9, 1.1))
    >>> turn(np.zeros((28, 28, 1), np.float32), key=random.key(0)).shape
    (28, 28, 1)
    """
    low, high = (check.number(s, "image.affine: scale", 1e-6) for s in scale)
    if low > high:
        raise ValueError(f"image.affine: scale must be (low, high), got {tuple(scale)}")
    return Affine(
        check.number(degrees, "image.affine: degrees", 0),
        check.number(translate, "image.affine: translate", 0),
        (low, high),
        check.number(shear, "image.affine: shear", 0, 89),
    )
