"""Trees: order, structure, rebuilding, prefixes."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triskele.core import tree
from triskele.core.errors import TreeError


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Layer:
    weight: Any
    name: str = field(default="layer", metadata={"static": True})


trees = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Point, inner, inner)
        | st.builds(Layer, inner, st.text(max_size=2))
    ),
)


@given(trees)
def test_flatten_then_unflatten_is_the_identity(t):
    leaves, structure = tree.flatten(t)
    assert tree.unflatten(structure, leaves) == t
    assert structure.size == len(leaves)
    assert hash(structure) == hash(tree.structure(t)) and structure == tree.structure(t)


def test_dictionaries_are_ordered_by_key_so_that_insertion_order_does_not_matter():
    assert tree.structure({"b": 1, "a": 2}) == tree.structure({"a": 3, "b": 4})
    assert tree.leaves({"b": 1, "a": 2}) == [2, 1]


def test_static_fields_belong_to_the_structure():
    assert tree.structure(Layer(1, "a")) != tree.structure(Layer(1, "b"))
    assert tree.map(lambda x: x + 1, Layer(1, "a")) == Layer(2, "a")


def test_map_over_several_trees_wants_one_structure():
    assert tree.map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"x": 10, "y": (20,)}) == {"x": 11, "y": (22,)}
    with pytest.raises(TreeError, match="one structure"):
        tree.map(lambda a, b: a, [1], (1,))


def test_a_prefix_spreads_over_what_lies_below():
    assert tree.broadcast_prefix({"a": 0, "b": None}, {"a": [1, 2], "b": 3}, "axes") == [0, 0, None]
    with pytest.raises(TreeError, match="axes must be a prefix"):
        tree.broadcast_prefix((0, 1), (1, 2, 3), "axes")


def test_a_registered_class_is_an_inner_node():
    class Box:
        def __init__(self, content):
            self.content = content

    tree.register(Box, lambda b: ([b.content], None), lambda data, children: Box(*children))
    assert tree.map(lambda x: 2 * x, Box(4)).content == 8
