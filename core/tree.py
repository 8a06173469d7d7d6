"""Trees: dict, list, tuple, namedtuple, dataclass and None, nested; everything else is a leaf.

Every transform takes and returns trees. Use `register` to add your own classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from .errors import TreeError

__all__ = [
    "Structure",
    "broadcast_prefix",
    "flatten",
    "inner",
    "leaves",
    "map",
    "paths",
    "register",
    "structure",
    "unflatten",
]

_REGISTERED: dict[type, tuple[Callable[[Any], tuple[Iterable[Any], Any]], Callable[[Any, list[Any]], Any]]] = {}


class Structure:
    """The shape of a tree without its leaves: hashable, comparable, able to rebuild the tree.

    Parameters
    ----------
    kind : type or None
        Class of the node; None for a leaf.
    data : hashable
        Names of the children, or what the class was registered with.
    children : tuple of Structure

    Examples
    --------
    >>> from triskele.core import tree
    >>> structure = tree.structure({'a': 1.0, 'b': (2.0, 3.0)})
    >>> tree.unflatten(structure, [0.0, 0.0, 0.0])
    {'a': 0.0, 'b': (0.0, 0.0)}
    """

    __slots__ = ("kind", "data", "children", "size", "_hash")

    def __init__(self, kind: Any, data: Any, children: tuple[Structure, ...]):
        self.kind, self.data, self.children = kind, data, children
        self.size: int = 1 if kind is None else sum(c.size for c in children)
        self._hash = hash((kind, data, children))

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (
            isinstance(other, Structure)
            and self._hash == other._hash
            and (self.kind, self.data, self.children) == (other.kind, other.data, other.children)
        )

    def __repr__(self):
        if self.kind is None:
            return "*"
        inner = ", ".join(map(repr, self.children))
        if self.kind is dict:
            inner = ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.data, self.children, strict=True))
            return "{" + inner + "}"
        if self.kind in (list, tuple):
            return f"[{inner}]" if self.kind is list else f"({inner}{',' if len(self.children) == 1 else ''})"
        return f"{getattr(self.kind, '__name__', self.kind)}({inner})"


_LEAF = Structure(None, None, ())
_NONE = Structure(type(None), None, ())


def _children(tree):
    """(kind, data, children) of an inner node, or None for a leaf."""
    t = type(tree)
    if t is dict:
        try:
            keys = tuple(sorted(tree))
        except TypeError:
            keys = tuple(tree)
        return dict, keys, [tree[k] for k in keys]
    if t is list or t is tuple:
        return t, len(tree), tree
    if t in _REGISTERED:
        children, data = _REGISTERED[t][0](tree)
        return t, data, list(children)
    if issubclass(t, tuple) and hasattr(t, "_fields"):
        return t, None, list(tree)
    if issubclass(t, dict):
        return t, tuple(tree), list(tree.values())
    if dataclasses.is_dataclass(t):
        fields = [f for f in dataclasses.fields(t) if f.init]
        static = tuple((f.name, getattr(tree, f.name)) for f in fields if f.metadata.get("static"))
        names = tuple(f.name for f in fields if not f.metadata.get("static"))
        return t, (names, static), [getattr(tree, n) for n in names]
    return None


def _flatten(tree, leaves, is_leaf=None):
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF
    if tree is None:
        return _NONE
    node = _children(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    kind, data, children = node
    return Structure(kind, data, tuple([_flatten(c, leaves, is_leaf) for c in children]))


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """Split `tree` into its leaves (in a fixed order: dictionaries by sorted key) and its structure.

    Parameters
    ----------
    tree : tree
    is_leaf : callable, optional
        Inner nodes for which it returns True are taken as leaves.

    Examples
    --------
    >>> from triskele.core import tree
    >>> leaves, structure = tree.flatten({'b': 2.0, 'a': (1.0, None)})
    >>> leaves
    [1.0, 2.0]
    >>> tree.unflatten(structure, [10.0, 20.0])
    {'a': (10.0, None), 'b': 20.0}
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _build(s, leaves):
    if s.kind is None:
        return next(leaves)
    if s.kind is type(None):
        return None
    children = [_build(c, leaves) for c in s.children]
    if s.kind is list:
        return children
    if s.kind is tuple:
        return tuple(children)
    if s.kind is dict:
        return dict(zip(s.data, children, strict=True))
    if s.kind in _REGISTERED:
        return _REGISTERED[s.kind][1](s.data, children)
    if issubclass(s.kind, tuple):
        return s.kind(*children)
    if issubclass(s.kind, dict):
        return s.kind(zip(s.data, children, strict=True))
    names, static = s.data
    return s.kind(**dict(zip(names, children, strict=True)), **dict(static))


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Rebuild a tree from its structure and leaves.

    Examples
    --------
    >>> from triskele.core import tree
    >>> structure = tree.structure([0.0, (0.0, 0.0)])
    >>> tree.unflatten(structure, [1.0, 2.0, 3.0])
    [1.0, (2.0, 3.0)]
    """
    return _build(structure, iter(leaves))


def leaves(tree: Any) -> list[Any]:
    """The leaves of `tree`, in the order of `flatten`.

    Examples
    --------
    >>> from triskele.core import tree
    >>> tree.leaves({'b': 2.0, 'a': (1.0, 3.0)})
    [1.0, 3.0, 2.0]
    """
    return flatten(tree)[0]


def structure(tree: Any) -> Structure:
    """The structure of `tree`.

    Examples
    --------
    >>> from triskele.core import tree
    >>> tree.structure([1.0, 2.0]) == tree.structure([3.0, 4.0])
    True
    """
    return flatten(tree)[1]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Apply `f` to the leaves of `tree` (and of the trees in `rest`, which must have the same structure).

    Parameters
    ----------
    f : callable
        Function of a leaf of each tree.
    tree : tree
    *rest : trees
    is_leaf : callable, optional
        Inner nodes for which it returns True are taken as leaves.

    Examples
    --------
    >>> from triskele.core import tree
    >>> tree.map(lambda x, y: x + y, {'a': 1.0, 'b': 2.0}, {'a': 10.0, 'b': 20.0})
    {'a': 11.0, 'b': 22.0}
    """
    flat, s = flatten(tree, is_leaf)
    others = []
    for r in rest:
        r_flat, r_s = flatten(r, is_leaf)
        if r_s != s:
            raise TreeError(f"tree.map: all trees must have one structure, got {s} and {r_s}")
        others.append(r_flat)
    return unflatten(s, [f(*xs) for xs in zip(flat, *others, strict=True)])


def inner(tree: Any) -> tuple[type, tuple[Any, ...], list[Any]] | None:
    """(class, names of the children, children) of an inner node; None for a leaf.

    Examples
    --------
    >>> from triskele.core import tree
    >>> tree.inner({'b': 2.0, 'a': 1.0})
    (<class 'dict'>, ('a', 'b'), [1.0, 2.0])
    >>> tree.inner(1.0) is None
    True
    """
    node = None if tree is None else _children(tree)
    if node is None:
        return None
    kind, data, children = node
    if issubclass(kind, dict):
        names = data
    elif dataclasses.is_dataclass(kind) and kind not in _REGISTERED:
        names = data[0]
    else:
        names = getattr(kind, "_fields", None) or tuple(range(len(children)))
    return kind, tuple(names), list(children)


def paths(tree: Any) -> list[tuple[str, Any]]:
    """(path, leaf) of every leaf of `tree`, in the order of `flatten`.

    Fields and keys are joined by dots, and positions stand in brackets: ``layers[0].weight``.

    Examples
    --------
    >>> from triskele.core import tree
    >>> tree.paths({'b': 2.0, 'a': (1.0, 3.0)})
    [('a[0]', 1.0), ('a[1]', 3.0), ('b', 2.0)]
    """
    found: list[tuple[str, Any]] = []

    def walk(node, path):
        children = None if node is None else inner(node)
        if children is None:
            if node is not None:
                found.append((path, node))
            return
        for name, child in zip(children[1], children[2], strict=True):
            walk(child, f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}" if path else str(name))

    walk(tree, "")
    return found


def broadcast_prefix(prefix: Any, tree: Any, what: str) -> list[Any]:
    """Spread `prefix` (a tree that stops at some inner nodes of `tree`; None counts as a leaf) over the leaves of
    `tree`.

    Parameters
    ----------
    prefix : tree
    tree : tree
    what : str
        Name of the prefix, for errors.

    Examples
    --------
    >>> from triskele.core import tree
    >>> tree.broadcast_prefix((0, None), (1.0, {'a': 2.0, 'b': 3.0}), 'in_axes')
    [0, None, None]
    """
    out: list[Any] = []

    def walk(p, t):
        node = None if p is None else _children(p)
        if node is None:
            out.extend([p] * structure(t).size)
            return
        inner = _children(t)
        if inner is None or len(inner[2]) != len(node[2]) or (node[0] is dict and inner[1] != node[1]):
            raise TreeError(f"{what} must be a prefix of its tree, got {p!r} for {structure(t)}")
        for pc, tc in zip(node[2], inner[2], strict=True):
            walk(pc, tc)

    walk(prefix, tree)
    return out


def register(cls: type, to_children: Callable, from_children: Callable) -> None:
    """Let instances of `cls` be inner nodes of trees.

    Parameters
    ----------
    cls : type
    to_children : callable
        ``to_children(obj) -> (children, data)``; `data` must be hashable.
    from_children : callable
        ``from_children(data, children) -> obj``.

    Examples
    --------
    >>> from triskele.core import tree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> tree.register(Pair, lambda p: ((p.a, p.b), None), lambda data, children: Pair(*children))
    >>> tree.leaves(Pair(1.0, 2.0))
    [1.0, 2.0]
    """
    _REGISTERED[cls] = (to_children, from_children)
