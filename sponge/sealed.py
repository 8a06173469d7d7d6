"""Objects that notice mistakes in assignments to their attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from triskele.core.extend import check

__all__ = ["Fixed", "Sealed"]


class Sealed:
    """Base of classes whose objects take no attributes but those that their constructor has set.

    This holds for the classes of this package: subclasses that define a constructor elsewhere may do as they like.
    """

    _made = False

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and cls.__module__.startswith("triskele."):
            cls.__init__ = _sealing(cls.__init__)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        if self._made and not name.startswith("_"):
            self._check_set(name)
        super().__setattr__(name, value)

    def _check_set(self, name: str) -> None:
        if not hasattr(type(self), name) and name not in self.__dict__:
            known = sorted(k for k in {*self.__dict__, *dir(type(self))} if not k.startswith("_"))
            raise AttributeError(
                f"{type(self).__name__}: has no attribute {name!r} that can be set" + check.near(name, known)
            )


class Fixed(Sealed):
    """A `Sealed` object whose attributes stay as the constructor has set them; properties with a setter can be set."""

    _advice = "make another one"

    def _check_set(self, name):
        super()._check_set(name)
        if not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"{type(self).__name__}: {name} cannot be changed afterwards ({self._advice})")


def _sealing(constructor: Callable) -> Callable:
    @wraps(constructor)
    def construct(self, *args, **kwargs):
        constructor(self, *args, **kwargs)
        if type(self).__init__ is construct:  # not that of a base
            self._made = True

    return construct
