"""Transforms: functions of one sample that also compose with ``|`` and take a key if they draw random numbers."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from .. import random
from ..compile.jit import Jitted

__all__ = ["Compose", "Transform", "is_compiled", "sample_key"]


@dataclasses.dataclass(frozen=True)
class Transform:
    """Base of transforms: a function of one sample, written in NumPy, that a pipeline compiles.

    A subclass is a frozen dataclass of its settings with a method ``apply(x)``, or if its class attribute `random` is
    True, with ``apply(x, key)``. Called on one array, it works at once. In a pipeline, neighboring transforms become
    one compiled kernel per batch.

    Examples
    --------
    >>> import dataclasses
    >>> import numpy as np
    >>> from triskele.core import data
    >>> @dataclasses.dataclass(frozen=True)
    ... class Scale(data.Transform):
    ...     factor: float
    ...     def apply(self, x):
    ...         return x * self.factor
    >>> (Scale(2.0) | Scale(5.0))(np.ones(2))
    array([10., 10.])
    >>> next(iter(data.arrays(np.arange(4.0)).map(Scale(2.0)).batch(4)))
    array([0., 2., 4., 6.])
    """

    random: ClassVar[bool] = False  # needs a key
    whole: ClassVar[bool] = False  # takes the whole sample, not only its first entry

    def apply(self, x: Any, *key: Any) -> Any:
        """The transformed sample."""
        raise NotImplementedError(f"{type(self).__name__}: must define apply(x), or apply(x, key) if it is random")

    def __call__(self, x: Any, key: Any = None) -> Any:
        if self.random and key is None:
            raise TypeError(f"{type(self).__name__}: needs a key (key=core.random.key(seed))")
        return self.apply(x, key) if self.random else self.apply(x)

    def __or__(self, other: Any) -> Compose:
        if not is_compiled(other):
            raise TypeError(
                f"{type(self).__name__}: | must be followed by a transform or a function under core.jit, "
                f"got {other!r} (give Python functions to map(...) of their own)"
            )
        return Compose((*parts(self), *parts(other)))


@dataclasses.dataclass(frozen=True)
class Compose(Transform):
    """Transforms one after the other; `a | b` makes it. Part number k draws from ``fold_in(key, k)``.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> image = np.zeros((8, 8, 3), np.float32)
    >>> (data.image.center_crop(4) | data.image.normalize(0.0, 2.0))(image).shape
    (4, 4, 3)
    """

    parts: tuple[Any, ...]

    @property
    def random(self) -> bool:  # type: ignore[override]
        """True if one of the parts draws random numbers."""
        return any(getattr(p, "random", False) for p in self.parts)

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """True if one of the parts takes the whole sample."""
        return any(getattr(p, "whole", False) for p in self.parts)

    def apply(self, x: Any, key: Any = None) -> Any:
        for k, part in enumerate(self.parts):
            x = part(x, key=random.fold_in(key, k)) if getattr(part, "random", False) else part(x)
        return x


def parts(transform: Any) -> tuple[Any, ...]:
    """The parts of a composition, or the transform itself."""
    return transform.parts if isinstance(transform, Compose) else (transform,)


def is_compiled(f: Any) -> bool:
    """Return True if a pipeline compiles the function: it is a transform or under `core.jit`."""
    return isinstance(f, (Transform, Jitted))


def sample_key(seed: int, epoch: Any, index: Any, stage: int = 0) -> Any:
    """The random key that a pipeline gives to a transform for one sample.

    Parameters
    ----------
    seed : int
        The seed of `Source.map`.
    epoch, index : int, or integer array of shape ()
        Number of the epoch, and of the sample in its source (for batches, of their first sample).
    stage : int, default 0
        Number of maps before this one in the pipeline.

    Returns
    -------
    (2,) uint32

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> images = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    >>> flip = data.image.flip(0.5)
    >>> first = next(iter(data.arrays(images).map(flip)))
    >>> bool(np.all(first == flip(images[0], key=data.sample_key(0, epoch=0, index=0))))
    True
    """
    key = random.fold_in(random.key(seed), int(random.Fold.DATA_MAPS) + stage)
    return random.fold_in(random.fold_in(key, epoch), index)
