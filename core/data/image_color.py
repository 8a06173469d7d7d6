"""Transforms of the values of pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import check, random
from .transform import Transform

__all__ = ["color_jitter", "normalize"]

_GRAY = np.array([0.2989, 0.587, 0.114], np.float32)  # ITU-R BT.601 luma, as torchvision rounds it


@dataclasses.dataclass(frozen=True)
class Normalize(Transform):
    """See `normalize`."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, x: Any) -> Any:
        kind = np.dtype(x.dtype)
        channels = max(len(self.mean), len(self.std))
        if channels > 1 and np.shape(x)[-1:] != (channels,):
            raise ValueError(
                f"image.normalize: an image must have {channels} channels, as mean and std, got shape {np.shape(x)}"
            )
        scale = np.float64(1)
        if kind.kind in "iu":
            if not all(0 <= m <= 1 for m in self.mean) or max(self.std) > 1:
                raise ValueError(
                    f"image.normalize: mean and std must be in units of the range of {kind}, between 0 "
                    f"and 1, got {self.mean} and {self.std} (divide them by {np.iinfo(kind).max})"
                )
            scale = np.float64(np.iinfo(kind).max)
            kind = np.dtype(np.float32)
        mean, std = (np.array(v if channels > 1 else v[0]) for v in (self.mean, self.std))
        factor, offset = 1 / (scale * std), -mean / std
        return x.astype(kind) * factor.astype(kind) + offset.astype(kind)


def normalize(mean: float | Sequence[float], std: float | Sequence[float]) -> Transform:
    """Subtract the mean and divide by the standard deviation.

    Images of integers are divided by the largest value of their dtype first, and become float32: for uint8, `mean` and
    `std` are those of ``images / 255``. Floating images keep their dtype and scale.

    Parameters
    ----------
    mean, std : float, or one float for each channel

    Raises
    ------
    ValueError
        If images of integers come with a mean or std outside 0 ... 1, or the number of channels differs.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> data.image.normalize(0.5, 0.25)(np.array([[0, 255]], np.uint8))
    array([[-2.,  2.]], dtype=float32)
    """
    means, stds = (
        tuple(check.number(v, f"image.normalize: {name}") for v in np.ravel(values).tolist())
        for name, values in (("mean", mean), ("std", std))
    )
    if not means or not stds or min(stds) <= 0:
        raise ValueError(f"image.normalize: std must be positive, got {stds}")
    if len({len(means), len(stds)} - {1}) > 1:
        raise ValueError(
            f"image.normalize: mean and std must have one value for each channel, got {len(means)} and {len(stds)}"
        )
    return Normalize(means, stds)


@dataclasses.dataclass(frozen=True)
class ColorJitter(Transform):
    """See `color_jitter`."""

    brightness: float
    contrast: float
    saturation: float
    hue: float
    random: ClassVar[bool] = True

    def apply(self, x: Any, key: Any) -> Any:
        check.shape(x, ("height", "width", 3), "image.color_jitter: an image")
        kind = np.dtype(x.dtype)
        top = np.float32(np.iinfo(kind).max if kind.kind in "iu" else 1)
        draws = random.uniform(key, 4, np.float32, low=-1.0)
        amounts = self.brightness, self.contrast, self.saturation
        factors = [1 + draws[k] * np.float32(a) for k, a in enumerate(amounts)]
        y = x.astype(np.float32) / top
        if self.brightness:
            y = np.clip(y * factors[0], 0, 1)
        if self.contrast:
            gray = np.mean(np.sum(y * _GRAY, axis=-1))
            y = np.clip(gray + (y - gray) * factors[1], 0, 1)
        if self.saturation:
            gray = np.sum(y * _GRAY, axis=-1, keepdims=True)
            y = np.clip(gray + (y - gray) * factors[2], 0, 1)
        if self.hue:
            y = turned(y, draws[3] * np.float32(self.hue))
        y = y * top
        return np.rint(y).astype(kind) if kind.kind in "iu" else y.astype(kind)


def turned(y, shift):
    """RGB in 0 ... 1 with the hue shifted by a part of the circle.

    Between RGB and HSV as in Smith, "Color gamut transform pairs", SIGGRAPH 1978.
    """
    r, g, b = y[..., 0], y[..., 1], y[..., 2]
    value = np.max(y, axis=-1)
    chroma = value - np.min(y, axis=-1)
    safe = np.where(chroma > 0, chroma, np.float32(1))
    hue = np.where(value == r, (g - b) / safe, np.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe))
    hue = np.where(chroma > 0, hue, np.float32(0)) + 6 * shift
    parts = []
    for n in (5, 3, 1):
        k = hue + n
        k = k - 6 * np.floor(k / 6)
        parts.append(value - chroma * np.clip(np.minimum(k, 4 - k), 0, 1))
    return np.stack(parts, axis=-1)


def color_jitter(
    brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0, hue: float = 0.0
) -> Transform:
    """Change brightness, contrast, saturation and hue by random amounts, in this order.

    The factors are uniform in 1 - a ... 1 + a for the amount a of each. Definitions are torchvision's `ColorJitter`,
    which applies them in random order. Floating images must have values in 0 ... 1.

    Parameters
    ----------
    brightness, contrast, saturation : float, default 0
        Amounts, from 0 to 1.
    hue : float, default 0
        Largest shift of the hue as a part of the color circle, from 0 to 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data, random
    >>> jitter = data.image.color_jitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
    >>> jitter(np.full((2, 2, 3), 128, np.uint8), key=random.key(0)).dtype
    dtype('uint8')
    """
    return ColorJitter(
        *(
            check.number(v, f"image.color_jitter: {name}", 0, high)
            for v, name, high in (
                (brightness, "brightness", 1),
                (contrast, "contrast", 1),
                (saturation, "saturation", 1),
                (hue, "hue", 0.5),
            )
        )
    )
