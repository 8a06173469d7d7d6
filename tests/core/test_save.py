"""Saved trees come back as they were; a broken write leaves the old file."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import TreeError


class Pair(NamedTuple):
    zeta: Any
    alpha: Any


TREE = {
    "weights": [np.arange(6.0).reshape(2, 3), np.float32(2.5)],
    "state": (None, np.array([1 + 2j, 3j], np.complex64), np.array(True)),
    "step": 7,
    "rate": 0.1,
}


def test_round_trip_keeps_values_dtypes_and_structure(tmp_path):
    path = tmp_path / "t.safetensors"
    core.save(path, TREE)
    back = core.load(path)
    assert core.tree.structure(back) == core.tree.structure(TREE)
    for a, b in zip(core.tree.leaves(TREE), core.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.result_type(a) == np.result_type(b)


def test_classes_come_back_by_like_in_their_own_field_order(tmp_path):
    path = tmp_path / "t.safetensors"
    value = Pair(np.zeros(2), np.ones(3))
    core.save(path, value)
    back = core.load(path, like=value)
    assert isinstance(back, Pair)
    np.testing.assert_array_equal(back.zeta, value.zeta)
    np.testing.assert_array_equal(back.alpha, value.alpha)


def test_a_tree_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "t.safetensors"
    core.save(path, {"a": np.zeros(2)})
    with pytest.raises(TreeError, match=r"has 1 leaves, `like` has 2"):
        core.load(path, like={"a": np.zeros(2), "b": np.zeros(2)})
    with pytest.raises(TreeError, match=r"shape \(2,\)"):
        core.load(path, like={"a": np.zeros(3)})


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.safetensors"
    core.save(path, {"a": np.zeros(2)})
    with pytest.raises(TypeError, match="leaf b must be an array"):
        core.save(path, {"a": np.ones(2), "b": "text"})
    np.testing.assert_array_equal(core.load(path)["a"], np.zeros(2))
    assert [p.name for p in tmp_path.iterdir()] == ["t.safetensors"]
