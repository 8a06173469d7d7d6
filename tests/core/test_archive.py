"""Checkpoint files come back whole; others are refused by name."""

import numpy as np
import pytest

from triskele import core
from triskele.core.disk import archive


class Refused(Exception):
    pass


def test_description_and_arrays_come_back(tmp_path):
    value = {"step": 7, "time": 0.1 + 0.2, "names": ["a", None, True]}
    arrays = {"x": np.arange(6.0).reshape(2, 3), "a/b": np.array(3, np.uint64), "none": np.zeros((0, 3), np.float32)}
    archive.write(tmp_path / "a", "run", 2, value, arrays)
    found, back = archive.read(tmp_path / "a", "run", (1, 2), Refused)
    assert found == value
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype and back[name].flags.writeable


@pytest.mark.parametrize(
    ("kind", "versions", "message"),
    [
        ("policy", (2,), "^policy '.*a': must be a policy, got a run$"),
        ("run", (3, 4), "^run '.*a': version must be 3 or 4, got 2 "),
    ],
)
def test_another_kind_or_version(tmp_path, kind, versions, message):
    archive.write(tmp_path / "a", "run", 2, None, {})
    with pytest.raises(Refused, match=message):
        archive.read(tmp_path / "a", kind, versions, Refused)


@pytest.mark.parametrize(
    "content",
    [
        {"x": np.ones(2)},
        [1.0],
        {"text": np.zeros(3, np.uint8), "arrays": {}},
        {"text": np.frombuffer(b'{"kind":"run","version":1,"value":1}', np.uint8), "arrays": {"x": 1.0}},
    ],
)
def test_other_files_of_the_core(tmp_path, content):
    core.save(tmp_path / "a", content)
    with pytest.raises(Refused, match="run '.*a': must be a run file, got another or a damaged one"):
        archive.read(tmp_path / "a", "run", (1,), Refused)


def test_damaged_and_missing_files(tmp_path):
    archive.write(tmp_path / "a", "run", 1, None, {"x": np.ones(3)})
    data = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Refused, match="the checksum does not fit"):
        archive.read(tmp_path / "a", "run", (1,), Refused)
    with pytest.raises(FileNotFoundError, match="run '.*b': no such file"):
        archive.read(tmp_path / "b", "run", (1,), Refused)
