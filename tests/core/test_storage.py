"""Saved trees come back as they were; a broken write leaves the old file."""

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import FileFormatError, TreeError


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


def test_names_of_what_is_loaded_are_compared(tmp_path):
    core.save(tmp_path / "t", {"net": {"a": np.zeros(2)}})
    with pytest.raises(TreeError, match=r"net has the keys \['a'\], that of `like` \['b'\]"):
        core.load(tmp_path / "t", like={"net": {"b": np.zeros(2)}})
    with pytest.raises(TreeError, match=r"net has the keys \['a'\], that of `like` None"):
        core.load(tmp_path / "t", like={"net": np.zeros(2)})


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.safetensors"
    core.save(path, {"a": np.zeros(2)})
    with pytest.raises(TypeError, match="leaf b must be an array"):
        core.save(path, {"a": np.ones(2), "b": "text"})
    np.testing.assert_array_equal(core.load(path)["a"], np.zeros(2))
    assert [p.name for p in tmp_path.iterdir()] == ["t.safetensors"]


def test_every_type_of_the_format_agrees_with_the_format_s_own_library(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(0)
    arrays = {np.dtype(t).name: rng.integers(0, 2, (3, k % 4)).astype(t) for k, t in enumerate("?bBhHiIqQefd")}
    core.save(tmp_path / "ours", arrays)
    safetensors.save_file(arrays, tmp_path / "theirs")
    for back in (
        safetensors.load_file(tmp_path / "ours"),
        core.load(tmp_path / "theirs"),
        core.load(tmp_path / "ours"),
    ):
        assert back.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(back[name], array)
            assert back[name].dtype == array.dtype


def test_byte_order_and_strides_do_not_matter(tmp_path):
    x = np.arange(12.0).reshape(3, 4)
    core.save(tmp_path / "t", [x.astype(">f8"), x[::-2, ::2], x.T])
    for a, b in zip(core.load(tmp_path / "t"), [x, x[::-2, ::2], x.T], strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(TypeError, match="must have one of the types"):
        core.save(tmp_path / "t", np.zeros(2, np.longdouble))


def test_paths_that_read_the_same_are_kept_apart(tmp_path):
    value = {
        "a.b": np.zeros(2),
        "a": {"b": np.ones(3)},
        "": {"c": np.ones(1)},
        "c": np.zeros(1),
        "__metadata__": np.ones(4),
    }
    core.save(tmp_path / "t", value)
    back = core.load(tmp_path / "t", like=value)
    for a, b in zip(core.tree.leaves(back), core.tree.leaves(value), strict=True):
        np.testing.assert_array_equal(a, b)


def test_files_of_version_0_5_load_without_a_checksum(tmp_path):
    """As they were written: by the format's library, with the description of the tree alone."""
    safetensors = pytest.importorskip("safetensors.numpy")
    text = '{"kind": "tuple", "keys": ["0", "1"], "children": [{"array": "0"}, {"complex": "1"}]}'
    arrays = {"0": np.arange(3), "1": np.array([[1.0, 2.0]])}
    safetensors.save_file(arrays, tmp_path / "t", metadata={"triskele.tree": text})
    first, second = core.load(tmp_path / "t")
    np.testing.assert_array_equal(first, np.arange(3))
    np.testing.assert_array_equal(second, [1 + 2j])


def test_no_flipped_bit_and_no_missing_byte_goes_unseen(tmp_path):
    path = tmp_path / "t"
    core.save(path, TREE)
    data = path.read_bytes()
    for k in range(len(data)):
        damaged = bytearray(data)
        damaged[k] ^= 1 << (5 * k) % 8
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="t'"):
            core.load(path)
    for damaged in [*(data[:k] for k in range(0, len(data), 3)), data + b"\0"]:
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="t'"):
            core.load(path)


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tree_of(description):
    return {
        "__metadata__": {"triskele.tree": json.dumps(description)},
        "x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"12345678",
        (2**63).to_bytes(8, "little"),
        (2**40).to_bytes(8, "little") + b"{}",
        file_of(b"[" * 100_000),
        file_of(b"\xff"),
        file_of([]),
        file_of({"x": 3}),
        file_of({"x": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}),
        file_of({"x": {"dtype": "F64", "shape": [2**32, 2**32], "data_offsets": [0, 0]}}),
        file_of({"x": {"dtype": "F64", "shape": [0, 2**62], "data_offsets": [0, 0]}}),
        file_of({"x": {"dtype": "F64", "shape": [-1], "data_offsets": [0, -8]}}),
        file_of({"x": {"dtype": "F64", "shape": [0] * 65, "data_offsets": [0, 0]}}),
        file_of({"x": {"dtype": "F8_E5M2", "shape": [1], "data_offsets": [0, 2]}}, b"12"),
        file_of({"x": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}, b"\7"),
        file_of({"x": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, b"12"),
        file_of({"__metadata__": {"a": 3}}),
        # an array twice: a bomb, in large
        file_of(tree_of({"kind": "list", "children": [{"array": "x"}, {"array": "x"}]}), b"1"),
        file_of(tree_of({"kind": "list", "children": []}), b"1"),
        file_of(tree_of({"array": "y"}), b"1"),
        file_of(tree_of({"complex": "x"}), b"1"),
        file_of(tree_of({"number": "x"}), b"1"),
        file_of(tree_of({"kind": "dict", "keys": ["a", "a"], "children": [{"array": "x"}, None]}), b"1"),
        file_of({"__metadata__": {"triskele.tree": "[" * 100_000}}),
        file_of({"__metadata__": {"triskele.sha256": ""}}),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(FileFormatError, match="t'"):
        core.load(tmp_path / "t")
