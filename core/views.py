"""Tensors that share memory, as NumPy's views do: what is written into one is seen through all.

Operations that make views (slice, transpose, reshape …) say how to write back what is written into their result
(`Primitive.defview`). A view holds a `Link` to its parent, and so do views of views; the Tensor at the top of the chain
knows all of them. A write goes up the chain at once. The other views lose their content and fetch it again from
their parent when somebody reads them, so programs that write nothing pay for the link only.

`reshape` returns a view or a copy depending on the strides of the array. They are followed along the chain, on an
ndarray without memory of its own. Where they are unknown, a write into one of the two makes the other one unreadable.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import TracerError

__all__ = [
    "check_writeable",
    "connect",
    "fetch",
    "hide",
    "in_c_order",
    "is_scalar",
    "memory_twin",
    "own_array",
    "remember_order",
    "sharing",
    "wrote",
]


class Link:
    """The memory that a Tensor shares with others: nothing but `family` at the top of a chain of views."""

    __slots__ = ("parent", "primitive", "params", "family", "__dict__")
    # gapless: the result is a view only if the parent is C-contiguous (ravel); stale: fetch the content from the parent
    gapless = stale = False  # rarely changed: every view pays for what is set
    torn = ""  # why the Tensor can no longer be read: a write elsewhere may have changed it
    source: Any = None  # (x, index) where the Tensor is ``x[index]``

    def __init__(self, parent, primitive, params, family):
        self.parent = parent
        self.primitive = primitive  # that made it from `parent`; None for a read-only view that cannot be made again
        self.params = params
        self.family = family  # all Tensors of the chain's top


class Family:
    """Weak references to the views of one array."""

    __slots__ = ("top", "members", "__dict__")
    limit = 64
    c_order: bool | None = None  # whether the elements lie row by row, where it was asked for
    on_write: Callable[[], None] | None = None  # called at each write

    def __init__(self, top):
        self.top = weakref.ref(top)
        self.members: list[Any] = []

    def trim(self):
        self.members = [r for r in self.members if r() is not None]
        self.limit = 2 * len(self.members) + 64

    def alive(self):
        found = [t for r in self.members if (t := r()) is not None]
        top = self.top()
        return found if top is None else [top, *found]


def is_scalar(t: Any) -> bool:
    """Return True if `t` is what a NumPy scalar is, rather than an array without dimensions."""
    return not t.shape and t._link is None if hasattr(t, "_link") else not isinstance(t, np.ndarray)


def own_array(t: Any, c_order: bool | None = None) -> Any:
    """Make `t` the top of its own memory, a 0-d one an array rather than a scalar, and return it (`c_order`: see
    `Family`).
    """
    t._link = Link(None, None, None, Family(t))
    if c_order is not None:
        t._link.family.c_order = c_order
    return t


def remember_order(t: Any) -> None:
    """Find out the order of elements before a write: the new content comes from operations that NumPy does not do."""
    if t._link is None:
        own_array(t)
    family = t._link.family
    if family.c_order is None:
        family.c_order = in_c_order(family.top())


def connect(t: Any, parent: Any, primitive: Any, params: dict[str, Any], gapless: bool = False) -> None:
    """Make `t`, the result of a view primitive, a view of `parent`."""
    above = parent._link
    if above is None:
        above = own_array(parent)._link
    family = above.family
    t._link = Link(parent, primitive, params, family)
    if gapless:
        t._link.gapless = True
    family.members.append(weakref.ref(t))
    if len(family.members) > family.limit:
        family.trim()


def check_writeable(t: Any) -> None:
    """Raise NumPy's error if `t` is a view that NumPy makes read-only."""
    link = t._link
    while link is not None and link.parent is not None and _shares(t) is not False:
        if link.primitive is None or link.primitive.write_back is None:
            raise ValueError(
                f"assignment destination is read-only: {t!r} is a view (write into the array itself or into a copy)"
            )
        t = link.parent
        link = t._link


def wrote(t: Any) -> None:
    """Carry a write into `t` to all that share its memory."""
    family = t._link.family
    written = {id(t)}
    top = t
    while top._link.parent is not None and _shares(top) is True:
        link = top._link
        parent = link.parent
        parent._take(parent._lifted(link.primitive.write_back(parent, top, **link.params)))
        parent._link.stale = False
        top = parent
        written.add(id(top))
    if family.on_write is not None:
        family.on_write()
    highest = _top(top, uncertain=True)
    for other in family.alive():
        link = other._link
        if id(other) in written or link is None or link.family is not family:
            continue
        if _top(other) is top:
            if not link.stale:
                other._forget()
                link.stale = True
        elif _top(other, uncertain=True) is highest:
            other._forget()
            link.torn = _UNCERTAIN


def fetch(t: Any) -> None:
    """Give a view the content it has now."""
    link = t._link
    if link.torn:
        raise TracerError(link.torn)
    out = t._trace.process(link.primitive, (link.parent,), link.params)
    t._take(out if type(out) is type(t) else t._trace.lift(out))
    link.stale = False


_UNCERTAIN = (
    "x[i] = v: an array and its reshaped form (or windows on it) are both in use and one of them was written to; "
    "whether they share "
    "memory depends on the order of elements in memory, which a traced array does not know (reshape a .copy() of the "
    "array)"
)


def hide(t: Any, why: str) -> Callable[[], None]:
    """Make `t` unreadable; the function returned makes it readable again."""
    content = {name: getattr(t, name) for name in t._content}
    t._forget()
    t._link.torn = why

    def show():
        t._link.torn = ""
        for name, value in content.items():
            setattr(t, name, value)

    return show


def sharing(t: Any) -> list[Any]:
    """The other Tensors into which a write into `t` may go."""
    link = getattr(t, "_link", None)
    return [] if link is None else [other for other in link.family.alive() if other is not t and share_memory(other, t)]


def share_memory(a: Any, b: Any) -> bool:
    """Return True if a write into `a` can be seen in `b`."""
    if a is b:
        return True
    if a._link is None or b._link is None or a._link.family is not b._link.family:
        return False
    return _top(a, uncertain=True) is _top(b, uncertain=True)


def _top(t, uncertain=False):
    """The Tensor that owns the memory of `t`; with `uncertain`, beyond reshapes that may have made a copy."""
    while (link := t._link).parent is not None:
        shares = _shares(t)
        if shares is False or (shares is None and not uncertain):
            break
        t = link.parent
    return t


def _shares(t):
    """True if `t` is a view of its parent, False if it is a copy, None if that is unknown."""
    link = t._link
    if link.primitive is None:
        return None
    if not link.primitive.may_copy:
        return True
    parent = link.parent
    if [n for n in parent.shape if n != 1] == [n for n in t.shape if n != 1] and not link.gapless:
        return True
    twin = memory_twin(parent)
    if twin is None:
        return None
    if link.gapless:
        return bool(twin.flags.c_contiguous)
    try:
        np.reshape(twin, t.shape, copy=False)
    except ValueError:
        return False
    return True


def memory_twin(t: Any) -> np.ndarray | None:
    """An ndarray with the shape and strides `t` has in NumPy, not to be read; None if the strides are unknown."""
    link = t._link
    if not t.shape:
        return _without_memory(t.shape, t.dtype)
    if link is None or link.parent is None:
        known = None if link is None else link.family.c_order
        if sum(n > 1 for n in t.shape) > 1 and known is not True:
            if known is False or not in_c_order(t):
                return None
        return _without_memory(t.shape, t.dtype)
    shares = _shares(t)
    if shares is False:
        return _without_memory(t.shape, t.dtype)
    twin = memory_twin(link.parent)
    if twin is None or shares is None:
        return None
    if link.primitive.may_copy:
        return np.reshape(twin, t.shape, copy=False)
    return link.primitive.impl(twin, **link.params)


def _without_memory(shape, dtype):
    strides, step = [], dtype.itemsize
    for n in shape[::-1]:
        strides.append(step)
        step *= max(n, 1)
    small = np.empty(1, dtype)
    return np.lib.stride_tricks.as_strided(small, shape, strides[::-1]) if math.prod(shape) else np.empty(shape, dtype)


def in_c_order(x: Any, without: int | None = None) -> bool:
    """Return True if the elements of an array that has the order of `x` surely lie row by row (apart from the axis
    `without`).
    """
    if hasattr(x, "_in_c_order"):
        return x._in_c_order()
    if not isinstance(x, np.ndarray):
        return True
    strides = [s for k, (s, n) in enumerate(zip(x.strides, x.shape, strict=True)) if n > 1 and k != without]
    return all(a >= b for a, b in zip(strides, [*strides[1:], 1], strict=False)) if strides else True
