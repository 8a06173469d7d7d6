"""Transforms that cover parts of images or mix the images of a batch."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from .. import check, random
from ..errors import DataError
from .transform import Transform

__all__ = ["cutout", "mixup"]


@dataclasses.dataclass(frozen=True)
class Cutout(Transform):
    """See `cutout`."""

    size: int
    random: ClassVar[bool] = True

    def apply(self, x: Any, key: Any) -> Any:
        check.shape(x, [("height", "width", "channels"), ("height", "width")], "image.cutout: an image")
        covered = []
        for k, n in enumerate(np.shape(x)[:2]):
            start = random.randint(random.fold_in(key, k), 0, n) - self.size // 2
            covered.append((np.arange(n) >= start) & (np.arange(n) < start + self.size))
        mask = covered[0][:, None] & covered[1]
        return np.where(mask[:, :, None] if np.ndim(x) == 3 else mask, np.zeros((), x.dtype), x)


def cutout(size: int) -> Transform:
    """Set a square at a random place to zero; it may extend beyond the image (DeVries and Taylor, arXiv:1708.04552).

    Parameters
    ----------
    size : int
        Side of the square, in pixels. Its center is uniform over the image.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data, random
    >>> data.image.cutout(8)(np.ones((32, 32, 3)), key=random.key(0)).min()
    np.float64(0.0)
    """
    return Cutout(check.integer(size, "image.cutout: size", 1))


@dataclasses.dataclass(frozen=True)
class Mixup(Transform):
    """See `mixup`."""

    alpha: float
    classes: int | None
    random: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    def apply(self, x: Any, key: Any) -> Any:
        if not isinstance(x, tuple) or len(x) != 2 or np.ndim(x[0]) < 2 or np.shape(x[0])[:1] != np.shape(x[1])[:1]:
            raise DataError("image.mixup: must be given batches (inputs, targets) of arrays (map it after batch)")
        inputs, targets = x
        if np.dtype(inputs.dtype).kind != "f":
            raise DataError(f"image.mixup: inputs must be floating, got {inputs.dtype} (normalize the images first)")
        if np.dtype(targets.dtype).kind in "iu" and np.ndim(targets) == 1:
            if self.classes is None:
                raise DataError("image.mixup: labels need the number of classes (mixup(alpha, classes=10))")
            targets = (targets[:, None] == np.arange(self.classes)).astype(np.float32)
        share = random.beta(key, self.alpha, self.alpha).astype(inputs.dtype)
        return tuple(share * a + (1 - share) * np.roll(a, 1, axis=0) for a in (inputs, targets))


def mixup(alpha: float = 0.2, classes: int | None = None) -> Transform:
    """Mix each sample of a batch with the one before it: inputs and targets (Zhang et al., arXiv:1710.09412).

    Both become ``share * a + (1 - share) * roll(a, 1)`` with one share per batch from the distribution Beta(alpha,
    alpha).

    Parameters
    ----------
    alpha : float, default 0.2
    classes : int, optional
        Number of classes of targets that are labels; they become (n, classes) float32 probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> source = data.arrays(np.ones((4, 8, 8, 3), np.float32), np.arange(4))
    >>> inputs, targets = next(iter(source.batch(4).map(data.image.mixup(0.2, classes=4))))
    >>> targets.sum(axis=1)
    array([1., 1., 1., 1.], dtype=float32)
    """
    return Mixup(
        check.positive(alpha, "image.mixup: alpha"),
        None if classes is None else check.integer(classes, "image.mixup: classes", 2),
    )
